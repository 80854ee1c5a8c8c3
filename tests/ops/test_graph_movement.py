"""Graph ops that move elements, against NumPy's indexing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.sweeps import examples

from minicc.ir import graph
from minicc.ir.core import Literal, Op, Value
from minicc.ir.types import BF16, BOOL, F16, F32, F64, I8, I64, U8, DType, tensor_of

Array = np.ndarray[Any, Any]
ELEMENTS = st.sampled_from((F16, BF16, F32, F64, I8, I64, U8, BOOL))
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
LOC = ("embed",)


def counted(element: DType, shape: tuple[int, ...]) -> Array:
    """Elements that tell their places apart."""
    x = np.arange(int(np.prod(shape))).reshape(shape)
    return (x % 2 if element is BOOL else x % 100).astype(element.numpy)


def evaluated(op: Op, *args: Array) -> Array:
    (out,) = op.evaluate(lambda region, values: (), *args)
    assert tensor_of(out) == op.results[0].type
    return np.asarray(out)


def same(got: Array, wanted: Array) -> None:
    """Bitwise equal."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert got.tobytes() == wanted.tobytes()


@settings(max_examples=examples(40), deadline=None)
@given(element=ELEMENTS, shape=SHAPES, data=st.data())
def test_transpose(element: DType, shape: tuple[int, ...], data: st.DataObject) -> None:
    x = counted(element, shape)
    perm = tuple(data.draw(st.permutations(range(len(shape)))))
    got = evaluated(graph.Transpose(Value(tensor_of(x)), perm=perm, loc=LOC), x)
    wanted = np.empty([shape[k] for k in perm], element.numpy)
    for place in np.ndindex(*shape):
        wanted[tuple(place[k] for k in perm)] = x[place]
    same(got, wanted)


@settings(max_examples=examples(40), deadline=None)
@given(element=ELEMENTS, shape=SHAPES, data=st.data())
def test_reshape_keeps_the_order(
    element: DType, shape: tuple[int, ...], data: st.DataObject
) -> None:
    x = counted(element, shape)
    target = data.draw(st.sampled_from([(x.size,), (1, x.size), (*shape, 1), (x.size, 1, 1)]))
    got = evaluated(graph.Reshape(Value(tensor_of(x)), shape=target, loc=LOC), x)
    assert got.shape == target
    assert list(got.flat) == list(x.flat)


@settings(max_examples=examples(40), deadline=None)
@given(
    element=ELEMENTS,
    shapes=hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3),
)
def test_broadcast(element: DType, shapes: Any) -> None:
    x = counted(element, shapes.input_shapes[0])
    wanted = np.empty(shapes.result_shape, element.numpy)
    wanted[...] = x
    op = graph.Broadcast(Value(tensor_of(x)), shape=shapes.result_shape, loc=LOC)
    same(evaluated(op, x), wanted)


@settings(max_examples=examples(120), deadline=None)
@given(element=ELEMENTS, shape=SHAPES, data=st.data())
def test_slice_is_numpy_s(element: DType, shape: tuple[int, ...], data: st.DataObject) -> None:
    x = counted(element, shape)
    bound = st.none() | st.integers(-6, 6)
    steps = st.sampled_from([-3, -2, -1, 1, 2, 3])
    cut = tuple(slice(*data.draw(st.tuples(bound, bound, steps))) for _ in shape)
    normal = [c.indices(n) for c, n in zip(cut, shape, strict=True)]
    # a front end hands over slices that never run backwards
    starts = tuple(a for a, _, _ in normal)
    stops = tuple(max(a, b) if s > 0 else min(a, b) for a, b, s in normal)
    op = graph.Slice(
        Value(tensor_of(x)), starts=starts, stops=stops, steps=tuple(s for *_, s in normal), loc=LOC
    )
    same(evaluated(op, x), x[cut])


@settings(max_examples=examples(40), deadline=None)
@given(element=ELEMENTS, shape=hnp.array_shapes(max_dims=3, min_side=0), data=st.data())
def test_concat(element: DType, shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    shapes = [(*shape[:axis], n, *shape[axis + 1 :]) for n in lengths]
    parts = [counted(element, s) for s in shapes]
    got = evaluated(graph.Concat([Value(tensor_of(p)) for p in parts], axis=axis, loc=LOC), *parts)
    assert got.shape[axis] == sum(lengths)
    for part, end in zip(parts, np.cumsum(lengths), strict=True):
        seen = np.take(got, np.arange(end - part.shape[axis], end), axis)
        same(seen, part)


@settings(max_examples=examples(40), deadline=None)
@given(element=ELEMENTS, shape=SHAPES, data=st.data())
def test_pad(element: DType, shape: tuple[int, ...], data: st.DataObject) -> None:
    x = counted(element, shape)
    amounts = st.lists(st.integers(0, 3), min_size=len(shape), max_size=len(shape)).map(tuple)
    low, high = data.draw(amounts), data.draw(amounts)
    fill = np.array(-0.0 if element.is_float else 1).astype(element.numpy)
    op = graph.Pad(Value(tensor_of(x)), low=low, high=high, value=Literal(fill), loc=LOC)
    got = evaluated(op, x)
    inner = tuple(slice(a, a + n) for a, n in zip(low, shape, strict=True))
    same(got[inner], x)
    outside = np.ones(got.shape, bool)
    outside[inner] = False
    assert all(bytes(e.tobytes()) == fill.tobytes() for e in got[outside])


@settings(max_examples=30, deadline=None)
@given(shape=hnp.array_shapes(max_dims=3, min_side=0), data=st.data())
def test_iota(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    element = data.draw(st.sampled_from((F16, F32, I64, U8)))
    got = evaluated(graph.Iota(shape=shape, axis=axis, dtype=element, loc=LOC))
    np.testing.assert_array_equal(got, np.indices(shape)[axis].astype(element.numpy))


@settings(max_examples=examples(60), deadline=None)
@given(element=ELEMENTS, shape=hnp.array_shapes(max_dims=3), data=st.data())
def test_gather(element: DType, shape: tuple[int, ...], data: st.DataObject) -> None:
    x = counted(element, shape)
    axis = data.draw(st.integers(0, len(shape) - 1))
    extent = shape[axis]
    indices = data.draw(
        hnp.arrays(
            data.draw(st.sampled_from(["i4", "i8"])),
            hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
            elements=st.integers(-extent, extent - 1),
        )
    )
    op = graph.Gather(Value(tensor_of(x)), Value(tensor_of(indices)), axis=axis, loc=LOC)
    got = evaluated(op, x, indices)
    cut: tuple[Any, ...] = (*[slice(None)] * axis, indices)
    same(got, x[cut])


@pytest.mark.parametrize("bad", [3, -4, 2**40])
def test_gather_out_of_range_names_the_node(bad: int) -> None:
    x, indices = np.zeros((2, 3), np.float32), np.array([0, bad])
    op = graph.Gather(Value(tensor_of(x)), Value(tensor_of(indices)), axis=1, loc=LOC)
    with pytest.raises(IndexError) as caught:
        evaluated(op, x, indices)
    assert str(caught.value) == f"index {bad} leaves an extent of 3 at embed"


@settings(max_examples=30, deadline=None)
@given(element=ELEMENTS, shape=SHAPES)
def test_constant(element: DType, shape: tuple[int, ...]) -> None:
    x = counted(element, shape)
    same(evaluated(graph.Constant(value=Literal(x), loc=LOC)), x)


def test_constants_keep_signed_zeros_and_nan_bits() -> None:
    x = np.array([0x8000_0000, 0x7FC0_1234, 0xFFC0_0000], np.uint32).view(np.float32)
    same(evaluated(graph.Constant(value=Literal(x), loc=LOC)), x)
