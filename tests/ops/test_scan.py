"""Loops over tensors: their meaning at every level, what their type rule and verifier refuse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stages.programs import Array, changed, every_stage, machine_code, module, same_bits
from tests.sweeps import examples

from minicc.errors import UserError
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Module, Region, Value
from minicc.ir.interpret import run
from minicc.ir.text.parser import parse_module
from minicc.ir.types import F32, TensorType
from minicc.ir.verify import verify
from minicc.options import Options
from minicc.passes.graph.specialise import specialise

_LOC = ("test.py:1",)
_SETTINGS = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)


def f32(*shape: object) -> TensorType:
    """A float32 tensor's type."""
    return TensorType(F32, shape)  # type: ignore[arg-type]


def recurrence(
    b: Builder, h: Value, x: Value, w: Value, *, backwards: bool, turned: bool
) -> Sequence[Value]:
    """h = tanh(h @ w + x[t]), with every h, and every h before it."""
    state, row, weights = Value(h.type), Value(f32(*x.type.shape[1:])), Value(w.type)
    inner = Builder(_LOC)
    product = inner.emit(graph.Contract, state, weights, equation="bh,hg->bg")
    new = inner.emit(graph.Tanh, inner.emit(graph.Add, product, row))
    body = Region((state, row, weights), inner.ops, (new, new, state))
    scan = graph.Scan(
        (h, x, w),
        count=x.type.shape[0],
        states=1,
        backwards=(backwards,),
        turned=(turned, False),
        body=body,
        loc=_LOC,
    )
    return b.add(scan).results


def reference(h: Array, x: Array, w: Array, *, backwards: bool, turned: bool) -> list[Array]:
    """The same in NumPy."""
    made, before = [], []
    for t in range(len(x))[:: -1 if backwards else 1]:
        before.append(h)
        h = np.tanh(h @ w + x[t])
        made.append(h)
    shape = (0, *h.shape)
    rows = [np.array(v, np.float32).reshape(-1, *shape[1:]) for v in (made, before)]
    return [h, rows[0][:: -1 if turned else 1], rows[1]]


def arrays(*shapes: tuple[int, ...]) -> list[Array]:
    """Random operands whose products stay small."""
    rng = np.random.default_rng(0)
    return [(rng.standard_normal(s) / 4).astype(np.float32) for s in shapes]


@_SETTINGS
@given(
    st.integers(0, 9),
    st.integers(1, 4),
    st.sampled_from([1, 3, 16, 40]),
    st.booleans(),
    st.booleans(),
)
def test_every_level(count: int, batch: int, size: int, backwards: bool, turned: bool) -> None:
    inputs = arrays((batch, size), (count, batch, size), (size, size))
    types = [f32(*a.shape) for a in inputs]
    made = module(lambda b, *args: recurrence(b, *args, backwards=backwards, turned=turned), *types)
    want = reference(*inputs, backwards=backwards, turned=turned)
    *stages, (_, program) = every_stage(made, inputs, Options())
    found = [("graph", run(made, inputs)), *stages]
    found.append(("machine code", machine_code(program, Options().machine.name, inputs, 1)))
    for name, got in found:
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5, err_msg=name)


def test_threads_wait_for_the_round_before() -> None:
    """Launches that are shared, in one loop after the other, one within the other."""

    def body(b: Builder, h: Value, x: Value, w: Value) -> Sequence[Value]:
        last, every, _ = recurrence(b, h, x, w, backwards=False, turned=True)
        outer = [Value(v.type) for v in (last, every, w)]
        inner = Builder(_LOC)
        again = recurrence(inner, outer[0], outer[1], outer[2], backwards=True, turned=False)
        region = Region(outer, inner.ops, again[:2])
        scan = graph.Scan(
            (last, every, w), count=4, states=2, backwards=(), turned=(), body=region, loc=_LOC
        )
        return b.add(scan).results

    inputs = arrays((8, 192), (5, 8, 192), (192, 192))
    inputs[2] /= 8
    made = module(body, *[f32(*a.shape) for a in inputs])
    want = run(made, inputs)
    program = changed(made, Options())[-1][1]
    one = machine_code(program, Options().machine.name, inputs, 1)
    for g, w in zip(one, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-4)
    for threads in (2, 3, 5):
        more = machine_code(program, Options().machine.name, inputs, threads)
        assert all(map(same_bits, one, more)), f"other bits at {threads} threads"


def test_sizes_are_bound_within() -> None:
    free = f32("n", "b", 4)
    types = [f32(*map(_dim, t.shape)) for t in (f32("b", 4), free, f32(4, 4))]
    made = module(lambda b, *args: recurrence(b, *args, backwards=True, turned=True), *types)
    bound = specialise(made, {"n": 6, "b": 2})
    verify(bound)
    inputs = arrays((2, 4), (6, 2, 4), (4, 4))
    for got, want in zip(
        run(bound, inputs), reference(*inputs, backwards=True, turned=True), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    with pytest.raises(UserError, match="MC0142"):
        specialise(module(_two_lengths, f32(_dim("n")), f32(_dim("m"))), {"n": 6, "m": 7})


def _dim(n: object) -> object:
    from minicc.ir.affine import symbol

    return symbol(n) if isinstance(n, str) else n


def _two_lengths(b: Builder, x: Value, y: Value) -> Sequence[Value]:
    args = [Value(f32()), Value(f32())]
    inner = Builder(_LOC)
    total = inner.emit(graph.Add, *args)
    scan = graph.Scan(
        (x, y),
        count=x.type.shape[0],
        states=0,
        backwards=(False, False),
        turned=(False,),
        body=Region(args, inner.ops, (total,)),
        loc=_LOC,
    )
    return b.add(scan).results


_TEXT = """module level = "graph"
func @main(%h: f32[4], %x: f32[3,4]) -> ("y": f32[4]) {{
  %one = graph.constant {{value = dense<f32, 1.0>}}
  %y = graph.scan {operands} {{count = {count}, states = 1, backwards = [false], turned = []}} {{
  ^(%s: {state}, %r: f32[4]):
    %t = graph.add %s, {other}
    yield {yields}
  }}
  yield %y
}}
"""
_RIGHT = {
    "operands": "%h, %x",
    "count": "3",
    "state": "f32[4]",
    "other": "%r",
    "yields": "%t",
}


def text(**changes: str) -> Module:
    """A loop as text with some of it changed."""
    return parse_module(_TEXT.format(**{**_RIGHT, **changes}))


def test_what_is_right() -> None:
    made = text()
    verify(made)
    (y,) = run(made, [np.zeros(4, np.float32), np.ones((3, 4), np.float32)])
    np.testing.assert_array_equal(y, np.full(4, 3, np.float32))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": "4"}, "has not 4 slices"),
        ({"count": "-1"}, "of -1 rounds"),
        ({"other": "%one"}, "uses what is outside of the body"),
        ({"operands": "%h"}, "takes 2 of 1 values"),
        ({"state": "f32[5]", "other": "%s"}, "takes f32\\[5\\], and is given f32\\[4\\]"),
        ({"yields": "%t, %t"}, "yields 2 values"),
        ({"yields": "%one"}, "yields what is outside of it"),
    ],
    ids=str,
)
def test_what_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        text(**changes)
