"""Sizes that data give: their meaning at every level, what their type rule and verifier refuse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.stages.programs import Array, every_stage, machine_code, module, same_bits, spread

from minicc.errors import UserError
from minicc.ir import graph
from minicc.ir.affine import Dim, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Module, Region, Value, same_module, walk
from minicc.ir.interpret import run
from minicc.ir.program import Sized
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module, resources
from minicc.ir.types import F32, I64, TensorType
from minicc.ir.verify import verify
from minicc.options import Options

_LOC = ("test.py:1",)
_EXTENT = 37
_NUMBER = TensorType(I64)
_ROW = TensorType(F32, (_EXTENT,))


def sized(b: Builder, name: str, count: Dim, number: Value, given: Sequence[Value]) -> graph.Sized:
    """A part that starts at a number and has as many elements as another one says.

    It is summed, and written to the same place of the second array.
    """
    inner = Builder(_LOC)
    args = [Value(v.type) for v in given]
    start, length = symbol("$start"), symbol("$length")
    if name == "$start":
        made: Sequence[Value] = inner.add(
            sized(inner, "$length", _EXTENT - start + 1, args[0], args[1:])
        ).results
    else:
        x, w = args
        cut = {"starts": (start,), "stops": (start + length,), "steps": (1,)}
        part = inner.emit(graph.Mul, *[inner.emit(graph.Slice, v, **cut) for v in (x, w)])
        total = inner.emit(graph.Reduce, part, axes=(0,), combine="add", keepdims=False)
        put = inner.emit(graph.InsertSlice, w, part, starts=(start,), steps=(1,))
        made = total, put
    region = Region(args, inner.ops, made)
    return graph.Sized(number, given, count=count, index=name, body=region, loc=_LOC)


def of_parts(b: Builder, start: Value, length: Value, x: Value, w: Value) -> Sequence[Value]:
    total, put = b.add(sized(b, "$start", _EXTENT + 1, start, (length, x, w))).results
    return [b.emit(graph.Exp, total), put, b.emit(graph.Add, put, w)]


def reference(start: int, length: int, x: Array, w: Array) -> list[Array]:
    """The same in NumPy, for numbers that are cut to what they may be."""
    start = min(max(start, 0), _EXTENT)
    stop = start + min(max(length, 0), _EXTENT - start)
    put = w.copy()
    put[start:stop] *= x[start:stop]
    return [np.exp(put[start:stop].sum(dtype=np.float32)), put, put + w]


_PAIRS = ((0, 37), (5, 20), (36, 1), (37, 0), (3, 0), (-4, 9), (30, 80), (99, 2), (7, -1), (1, 16))


def test_every_level() -> None:
    rng = np.random.default_rng(0)
    x, w = ((rng.standard_normal(_EXTENT) / 4).astype(np.float32) for _ in range(2))
    made = module(of_parts, _NUMBER, _NUMBER, _ROW, _ROW)
    verify(made)
    assert same_module(parse_module(print_module(made)), made)
    name = Options().machine.name
    for start, length in _PAIRS:
        inputs = [np.array(start), np.array(length), x, w]
        want = reference(start, length, x, w)
        *stages, (_, program) = every_stage(made, inputs, Options())
        assert any(isinstance(op, Sized) for op in walk(program.main.body))
        assert same_module(parse_module(print_module(program), resources(program)), program)
        one = machine_code(program, name, inputs, 1)
        for place, got in [("graph", run(made, inputs)), *stages, ("machine code", one)]:
            for g, v in zip(got, want, strict=True):
                np.testing.assert_allclose(g, v, rtol=1e-4, atol=1e-5, err_msg=f"{place} {start}")
        for threads in (2, 3):
            several = machine_code(spread(program), name, inputs, threads)
            assert all(map(same_bits, one, several)), f"other bits at {threads} threads"


def test_a_part_is_written_where_it_lies() -> None:
    """A loop that adds to a part of its state in each round: no round copies the whole."""

    def body(b: Builder, x: Value, numbers: Value) -> Sequence[Value]:
        state, number = Value(x.type), Value(_NUMBER)
        inner = Builder(_LOC)
        deep = Builder(_LOC)
        arg, length = Value(x.type), symbol("$n0")
        cut = {"starts": (0,), "stops": (length,), "steps": (1,)}
        part = deep.emit(graph.Slice, arg, **cut)
        twice = deep.emit(graph.Add, part, part)
        put = deep.emit(graph.InsertSlice, arg, twice, starts=(0,), steps=(1,))
        region = Region((arg,), deep.ops, (put,))
        made = inner.add(
            graph.Sized(number, (state,), count=_EXTENT + 1, index="$n0", body=region, loc=_LOC)
        )
        scan = graph.Scan(
            (x, numbers),
            count=numbers.type.shape[0],
            states=1,
            backwards=(False,),
            turned=(),
            body=Region((state, number), inner.ops, made.results),
            loc=_LOC,
        )
        return b.add(scan).results

    x = np.arange(_EXTENT, dtype=np.float32)
    numbers = np.array([3, 0, 37, 40, -1, 5, 36, 2])
    want = x.copy()
    for n in numbers:
        want[: max(n, 0)] *= 2
    made = module(body, _ROW, TensorType(I64, numbers.shape))
    *stages, (_, program) = every_stage(made, [x, numbers], Options())
    (found,) = (op for op in walk(program.main.body) if isinstance(op, Sized))
    assert len([op for op in walk(found.body) if op.opname == "program.launch"]) == 1
    name = Options().machine.name
    native = [machine_code(spread(program), name, [x, numbers], n) for n in (1, 3)]
    for got in (run(made, [x, numbers]), *[got for _, got in stages], *native):
        np.testing.assert_array_equal(got[0], want)


_TEXT = """module level = "graph"
func @main(%n: {number}, %x: f32[4], %w: f32[4]) -> ("y": {result}) {{
  %y = graph.sized %n, {operands} {{count = 5, index = "$n0"}} {{
  ^(%a: {taken}):
    %t = graph.slice %a {{starts = [0], stops = [$n0], steps = [1]}}
    %u = graph.reduce {summed} {{axes = [0], combine = "add", keepdims = false}}
    yield {yields}
  }}
  yield %y
}}
"""
_RIGHT = {"number": "i64", "operands": "%x", "taken": "f32[4]", "summed": "%t", "yields": "%u",
          "result": "f32"}  # fmt: skip


def text(**changes: str) -> Module:
    """A sized region as text with some of it changed."""
    return parse_module(_TEXT.format(**{**_RIGHT, **changes}))


def test_what_is_right() -> None:
    made = text()
    verify(made)
    x = np.arange(4, dtype=np.float32)
    assert [float(run(made, [np.array(n), x, x])[0]) for n in (-3, 0, 2, 9)] == [0, 0, 1, 6]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"number": "i32"}, "the number of graph.sized is i32"),
        ({"summed": "%w"}, "uses what is outside of the body"),
        ({"operands": "%x, %w"}, "takes 1 values"),
        ({"taken": "f32[5]"}, "takes f32\\[5\\], and is given f32\\[4\\]"),
        ({"yields": "%t"}, "takes or yields an extent of \\$n0"),
    ],
    ids=str,
)
def test_what_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        text(**changes)
