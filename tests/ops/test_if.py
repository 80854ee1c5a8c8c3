"""Branches over tensors: their meaning at every level, what their type rule and verifier refuse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.stages.programs import (
    Array,
    changed,
    every_stage,
    machine_code,
    module,
    same_bits,
    spread,
)

from minicc.errors import UserError
from minicc.ir import graph
from minicc.ir.affine import symbol
from minicc.ir.build import Builder
from minicc.ir.core import Module, Region, Value, same_module, walk
from minicc.ir.interpret import run
from minicc.ir.program import If
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module, resources
from minicc.ir.types import BOOL, F32, TensorType
from minicc.ir.verify import verify
from minicc.options import Options
from minicc.passes.graph.specialise import specialise

_LOC = ("test.py:1",)
_CONDITION = TensorType(BOOL)


def f32(*shape: object) -> TensorType:
    """A float32 tensor's type."""
    return TensorType(F32, shape)  # type: ignore[arg-type]


def choose(b: Builder, condition: Value, x: Value, w: Value) -> Sequence[Value]:
    """A product or a sum, as it is, within a concatenation, and beside what is captured."""
    t = b.emit(graph.Tanh, x)

    def product(inner: Builder, args: Sequence[Value]) -> Sequence[Value]:
        made = inner.emit(graph.Contract, args[0], args[2], equation="ab,bc->ac")
        return inner.emit(graph.Tanh, made), args[1]

    def sum_twice(inner: Builder, args: Sequence[Value]) -> Sequence[Value]:
        made = inner.emit(graph.Add, args[0], args[1])
        return made, made

    regions: list[Region] = []
    for body in (product, sum_twice):
        inner = Builder(_LOC)
        args = [Value(v.type) for v in (x, t, w)]
        regions.append(Region(args, inner.ops, body(inner, args)))
    first, second = b.add(
        graph.If(condition, (x, t, w), then=regions[0], other=regions[1], loc=_LOC)
    ).results
    return [b.emit(graph.Concat, (first, second), axis=1), b.emit(graph.Exp, first), second]


def reference(condition: bool, x: Array, w: Array) -> list[Array]:
    """The same in NumPy."""
    t = np.tanh(x)
    first, second = (np.tanh(x @ w), t) if condition else (x + t, x + t)
    return [np.concatenate([first, second], axis=1), np.exp(first), second]


@pytest.mark.parametrize("size", [1, 16, 40, 192])
@pytest.mark.parametrize("condition", [True, False])
def test_every_level(size: int, condition: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, size)).astype(np.float32)
    w = (rng.standard_normal((size, size)) / 8).astype(np.float32)
    inputs = [np.array(condition), x, w]
    made = module(choose, _CONDITION, f32(*x.shape), f32(*w.shape))
    assert same_module(parse_module(print_module(made)), made)
    want = reference(condition, x, w)
    *stages, (_, program) = every_stage(made, inputs, Options())
    assert any(isinstance(op, If) for op in walk(program.main.body))
    assert same_module(parse_module(print_module(program), resources(program)), program)
    name = Options().machine.name
    one = machine_code(program, name, inputs, 1)
    for place, got in [("graph", run(made, inputs)), *stages, ("machine code", one)]:
        for g, v in zip(got, want, strict=True):
            np.testing.assert_allclose(g, v, rtol=1e-4, atol=1e-5, err_msg=place)
    for threads in (2, 3):
        several = machine_code(spread(program), name, inputs, threads)
        assert all(map(same_bits, one, several)), f"other bits at {threads} threads"


def test_a_condition_that_is_computed_in_each_round() -> None:
    """A loop whose state is doubled or halved, as its sum says: the caller waits for the sum."""

    def body(b: Builder, h: Value, x: Value) -> Sequence[Value]:
        state, row = Value(h.type), Value(h.type)
        inner = Builder(_LOC)
        total = inner.emit(graph.Reduce, state, axes=(0, 1), combine="add", keepdims=False)
        limit = inner.emit(graph.Reduce, row, axes=(0, 1), combine="max", keepdims=False)
        less = inner.emit(graph.Lt, total, limit)
        regions = []
        for op in (graph.Add, graph.Sub):
            args = [Value(h.type), Value(h.type)]
            deep = Builder(_LOC)
            regions.append(Region(args, deep.ops, (deep.emit(op, *args),)))
        chosen = inner.add(
            graph.If(less, (state, row), then=regions[0], other=regions[1], loc=_LOC)
        )
        scan = graph.Scan(
            (h, x),
            count=x.type.shape[0],
            states=1,
            backwards=(False,),
            turned=(False,),
            body=Region((state, row), inner.ops, (*chosen.results, *chosen.results)),
            loc=_LOC,
        )
        return b.add(scan).results

    rng = np.random.default_rng(1)
    h, x = rng.integers(-3, 4, (8, 32)), rng.integers(-3, 4, (9, 8, 32))
    inputs = [a.astype(np.float32) for a in (h, x)]
    rows = []
    state = inputs[0]
    for row in inputs[1]:
        state = state + row if state.sum() < row.max() else state - row
        rows.append(state)
    made = module(body, *[f32(*a.shape) for a in inputs])
    *stages, (_, program) = every_stage(made, inputs, Options())
    name = Options().machine.name
    found = [run(made, inputs), *[got for _, got in stages]]
    found += [machine_code(spread(program), name, inputs, n) for n in (1, 3)]
    for last, every in found:
        np.testing.assert_array_equal(last, state)
        np.testing.assert_array_equal(every, np.stack(rows))


def test_free_sizes() -> None:
    made = module(choose, _CONDITION, f32(symbol("n"), 16), f32(16, 16))
    rng = np.random.default_rng(0)
    for n in (1, 5):
        x, w = (rng.standard_normal(s).astype(np.float32) for s in ((n, 16), (16, 16)))
        for bound in (made, specialise(made, {"n": n})):
            verify(bound)
            for condition in (True, False):
                inputs = [np.array(condition), x, w]
                program = changed(bound, Options())[-1][1]
                got = machine_code(program, Options().machine.name, inputs, 2)
                for g, v in zip(got, reference(condition, x, w), strict=True):
                    np.testing.assert_allclose(g, v, rtol=1e-4, atol=1e-5)


_TEXT = """module level = "graph"
func @main(%c: {condition}, %x: f32[4]) -> ("y": f32[4]) {{
  %one = graph.constant {{value = dense<f32, 1.0>}}
  %y = graph.if %c, {operands} {{
  ^(%a: f32[4]):
    %t = graph.add %a, {other}
    yield {yields}
  }} {{
  ^(%b: f32[4]):
    %u = graph.exp %b
    yield %u
  }}
  yield %y
}}
"""
_RIGHT = {"condition": "bool", "operands": "%x", "other": "%a", "yields": "%t"}


def text(**changes: str) -> Module:
    """A branch as text with some of it changed."""
    return parse_module(_TEXT.format(**{**_RIGHT, **changes}))


def test_what_is_right() -> None:
    made = text()
    verify(made)
    (y,) = run(made, [np.array(True), np.ones(4, np.float32)])
    np.testing.assert_array_equal(y, np.full(4, 2, np.float32))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"condition": "f32"}, "the condition of graph.if is f32"),
        ({"condition": "bool[1]"}, "the condition of graph.if is bool\\[1\\]"),
        ({"other": "%one"}, "uses what is outside of the body"),
        ({"operands": "%x, %x"}, "takes 1 values, not 2"),
        ({"operands": "%one"}, "takes f32\\[4\\], not f32"),
        ({"yields": "%t, %t"}, "yields 1 values, not 2"),
        ({"yields": "%one"}, "yields what is outside of it"),
    ],
    ids=str,
)
def test_what_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        text(**changes)


_PROGRAM = """module level = "kernel"
func @main(%c: {condition}) -> () {{inputs = 1}} {{
  program.if %c {{
    {then}
    yield
  }} {{
    yield
  }}
  yield
}}
"""


@pytest.mark.parametrize(
    ("condition", "then", "message"),
    [
        ("buffer<f32[]>", "program.barrier", "the condition of program.if"),
        ("buffer<bool[2]>", "program.barrier", "the condition of program.if"),
        (
            "buffer<bool[]>",
            "%v = program.view %c {type = !buffer<bool[]>, offset = 1}",
            "does not lie within",
        ),
    ],
)
def test_a_program_that_is_refused(condition: str, then: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_module(_PROGRAM.format(condition=condition, then=then))
