"""Every op on every element type that it accepts, at every level and as machine code.

`test_levels` says what each op does with its attributes; here shapes are drawn, and the corners of
each type are among the elements. That the graph level itself means what NumPy means is
`test_graph_*`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.ops.test_levels import POINTWISE, array
from tests.stages.programs import Array, changed, machine_code, module, results, same_bits
from tests.sweeps import part

from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import REGISTRY, Literal, Value
from minicc.ir.interpret import run
from minicc.ir.types import DTYPES, STORED, DType, TensorType
from minicc.options import Options
from minicc.target import TARGETS

Build = Callable[..., Value]
Agree = Callable[[Array, Array], bool]
_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
# what a stage takes apart (`test_complex_numbers`) has no kernels of its own
_APART = ("index", "c64", "c128")
_TYPES = [d for d in DTYPES.values() if d.name not in _APART and d not in STORED]
_NUMBERS = [d for d in _TYPES if d.kind != "b"]
_SHAPES = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=6)
_LAST = st.sampled_from([1, 17, 33, 100])
_DRAWN = settings(max_examples=2, deadline=None, derandomize=True)
_ELEMENTWISE = [
    op
    for op in REGISTRY.values()
    if issubclass(op, graph.Elementwise)
    and op not in (graph.Cast, graph.BitCast, graph.Select, *POINTWISE)
]


def _accepts(op: type[graph.Elementwise], dtype: DType) -> bool:
    count = 1 if issubclass(op, graph.Unary) else 2
    try:
        op(*[Value(TensorType(dtype)) for _ in range(count)], loc=("test",))
    except TypeError:
        return False
    return True


_PAIRS = [
    (op, dtype) for op, dtype in itertools.product(_ELEMENTWISE, _TYPES) if _accepts(op, dtype)
]


def same_numbers(a: Array, b: Array) -> bool:
    """The same bits but for the signs of zeros: max and min give either zero."""
    return same_bits(np.where(a == 0, np.zeros_like(a), a), np.where(b == 0, np.zeros_like(b), b))


def check(build: Build, inputs: Sequence[Array], agree: Agree = same_bits) -> None:
    """All levels give what the graph level gives, and so does each target's machine code."""
    names = {d.numpy: d for d in _TYPES}

    def body(b: Builder, *args: Value) -> Sequence[Value]:
        return [build(b, *args)]

    start = module(body, *[TensorType(names[x.dtype], x.shape) for x in inputs])
    (want,) = run(start, inputs)
    for number, target in enumerate(_RUNNABLE):
        found = changed(start, Options(target=target, math="strict"))
        for name, (got,) in results(found[-1:] if number else found, inputs):
            assert agree(got, want), f"after {name}: {got} instead of {want}"
        (got,) = machine_code(found[-1][1], target, inputs, 1)
        assert agree(got, want), f"machine code for {target}: {got} instead of {want}"


def values(dtype: DType, shape: Sequence[int], seed: int) -> Array:
    return np.asarray(array(TensorType(dtype, tuple(shape)), seed))


def test_the_types_are_those_of_the_language() -> None:
    accepted = {op: {d.name for o, d in _PAIRS if o is op} for op in _ELEMENTWISE}
    assert all(accepted.values())
    assert accepted[graph.Add] == {d.name for d in _NUMBERS}
    assert "bool" in accepted[graph.And]
    assert "f32" not in accepted[graph.And]


@pytest.mark.parametrize(
    ("op", "dtype"), part(_PAIRS, 16), ids=lambda x: getattr(x, "opname", str(x))
)
@_DRAWN
@given(shapes=_SHAPES, last=_LAST, seed=st.integers(0, 999))
def test_elementwise(
    op: type[graph.Elementwise], dtype: DType, shapes: Any, last: int, seed: int
) -> None:
    count = 1 if issubclass(op, graph.Unary) else 2
    drawn = [(*shape, last) for shape in shapes.input_shapes[:count]]
    drawn[-1] = shapes.input_shapes[count - 1] if 1 in (last, count) else drawn[-1]
    if count == 2 and last == 1:
        drawn[0] = shapes.input_shapes[0]
    agree = same_numbers if op in (graph.Max, graph.Min) else same_bits
    inputs = [values(dtype, shape, seed + k) for k, shape in enumerate(drawn)]
    check(lambda b, *xs: b.emit(op, *xs), inputs, agree)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_select(dtype: DType) -> None:
    condition = values(DTYPES["bool"], (4, 1), 0)
    operands = [values(dtype, (4, 33), 1), values(dtype, (33,), 2)]
    check(lambda b, *xs: b.emit(graph.Select, *xs), [condition, *operands])


@pytest.mark.parametrize(("source", "target"), part(itertools.product(_TYPES, _TYPES), 12), ids=str)
def test_cast(source: DType, target: DType) -> None:
    x = values(source, (3, 37), 4)
    if source.is_float and target.is_integer:  # what is out of range is not defined
        low = 0 if target.kind == "u" else -100
        x = np.clip(np.nan_to_num(x.astype("f8")), low, 100).astype(source.numpy)
    check(lambda b, v: b.emit(graph.Cast, v, dtype=target), [x])


def _pad(b: Builder, x: Value) -> Value:
    one = Literal(np.ones((), x.type.dtype.numpy))
    rank = x.type.rank
    return b.emit(graph.Pad, x, low=(1, 0, 2)[:rank], high=(0, 3, 1)[:rank], value=one)


def _backwards(b: Builder, x: Value) -> Value:
    shape = x.type.extents
    starts = tuple(n - 1 for n in shape)
    steps = (-1, -2, -3)[: len(shape)]
    return b.emit(graph.Slice, x, starts=starts, stops=(-1,) * len(shape), steps=steps)


def _forwards(b: Builder, x: Value) -> Value:
    shape = x.type.extents
    starts = tuple(min(n, 1) for n in shape)
    return b.emit(graph.Slice, x, starts=starts, stops=shape, steps=(1, 3, 2)[: len(shape)])


_MOVEMENT: dict[str, Build] = {
    "transpose": lambda b, x: (
        b.emit(graph.Transpose, x, perm=(2, 0, 1)[-x.type.rank :])
        if x.type.rank == 3
        else b.emit(graph.Transpose, x, perm=tuple(range(x.type.rank))[::-1])
    ),
    "reshape": lambda b, x: b.emit(graph.Reshape, x, shape=(int(np.prod(x.type.extents)), 1)),
    "broadcast": lambda b, x: b.emit(graph.Broadcast, x, shape=(2, *x.type.shape)),
    "backwards": _backwards,
    "forwards": _forwards,
    "concat": lambda b, x: b.emit(graph.Concat, (x, x, x), axis=x.type.rank - 1),
    "pad": _pad,
}
_MOVED = [(3, 5, 18), (17, 33, 2), (3, 0, 18), (0, 4), (100,), (1, 1, 1), (0,), ()]


@pytest.mark.parametrize(("name", "shape"), part(itertools.product(_MOVEMENT, _MOVED), 7), ids=str)
@settings(max_examples=2, deadline=None, derandomize=True)
@given(dtype=st.sampled_from(_TYPES))
def test_movement(name: str, shape: tuple[int, ...], dtype: DType) -> None:
    if name == "concat" and not shape:
        pytest.skip("a scalar has no axis")
    check(_MOVEMENT[name], [values(dtype, shape, 5)])


def test_empty_parts_lie_anywhere() -> None:
    rows = [values(DTYPES["f32"], shape, k) for k, shape in enumerate([(0, 2), (0, 3), (0, 1)])]
    check(lambda b, *xs: b.emit(graph.Concat, xs, axis=1), rows)
    with_empty = [values(DTYPES["f32"], shape, k) for k, shape in enumerate([(2, 3), (2, 0)])]
    check(lambda b, *xs: b.emit(graph.Concat, xs, axis=1), with_empty)
    check(lambda b, *xs: b.emit(graph.Concat, xs[::-1], axis=1), with_empty)


_EXACT = [
    (combine, dtype)
    for combine in ("add", "mul", "max", "min", "and", "or")
    for dtype in _TYPES
    if (combine in ("max", "min") or not dtype.is_float)
    and (combine not in ("and", "or") or not dtype.is_float)
    and (combine not in ("add", "mul") or dtype.kind != "b")
]


@pytest.mark.parametrize(("combine", "dtype"), part(_EXACT, 7), ids=str)
def test_exact_reductions(combine: str, dtype: DType) -> None:
    some: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((3, 35, 34), (0, 2)),
        ((1, 100), (1,)),
        ((4, 0, 3), (1,)),
        ((5, 0), (0,)),
        ((), ()),
    )
    for shape, axes in some:
        x = values(dtype, shape, 6)
        build: Build = lambda b, v, axes=axes: b.emit(  # noqa: E731
            graph.Reduce, v, axes=axes, combine=combine, keepdims=len(axes) == 2
        )
        check(build, [x], same_numbers)


@pytest.mark.parametrize("dtype", part([d for d in _NUMBERS if d.is_integer], 3), ids=str)
def test_integer_contractions_wrap(dtype: DType) -> None:
    def product(b: Builder, x: Value, w: Value) -> Value:
        return b.emit(graph.Contract, x, w, equation="mk,nk->nm")

    check(product, [values(dtype, (17, 65), 7), values(dtype, (33, 65), 8)])
    for left, right in (((4, 0), (5, 0)), ((0, 3), (5, 3)), ((4, 3), (0, 3))):
        check(product, [values(dtype, left, 7), values(dtype, right, 8)])


@pytest.mark.parametrize(
    "shape", [(4, 3), (2, 3, 17), (1, 3, 4, 5, 6), (1, 3, 4, 3, 4, 3)], ids=str
)
@pytest.mark.parametrize("outputs", [0, 5])
def test_convolutions_of_any_rank(shape: tuple[int, ...], outputs: int) -> None:
    rank = len(shape) - 2

    def convolve(b: Builder, x: Value, w: Value) -> Value:
        return b.emit(graph.Conv, x, w, strides=(1,) * rank, dilations=(1,) * rank)

    i32 = DTYPES["i32"]
    check(convolve, [values(i32, shape, 9), values(i32, (outputs, 3, *[2] * rank), 10)])
