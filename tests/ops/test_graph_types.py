"""Type rules of the graph dialect: shapes with symbols, and what is refused in which words."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minicc.ir import affine, graph
from minicc.ir.affine import Dim
from minicc.ir.core import Literal, Op, Value
from minicc.ir.types import BF16, BOOL, F32, F64, I32, I64, DType, TensorType

N, M, H = (affine.symbol(s) for s in "nmh")
LOC = ("node",)


def t(*shape: Dim, dtype: DType = F32) -> Value:
    return Value(TensorType(dtype, shape))


def typed(op: Op) -> str:
    return str(op.results[0].type)


def window(x: Value, size: Any, strides: Any, dilations: Any, combine: str = "max") -> Op:
    return graph.Window(
        x, combine=combine, size=size, strides=strides, dilations=dilations, loc=LOC
    )


def pad(x: Value, low: Any, high: Any, element: DType = F32) -> Op:
    return graph.Pad(x, low=low, high=high, value=Literal(np.zeros((), element.numpy)), loc=LOC)


def cut(x: Value, *bounds: tuple[Dim, Dim, int]) -> Op:
    starts, stops, steps = zip(*bounds, strict=True)
    return graph.Slice(x, starts=starts, stops=stops, steps=steps, loc=LOC)


SYMBOLIC: dict[str, Callable[[], Op]] = {
    "f32[n,3]": lambda: graph.Add(t(N, 3), t(3), loc=LOC),
    "f32[n,3,m]": lambda: graph.Mul(t(N, 1, M), t(3, 1), loc=LOC),
    "f32[8,n]": lambda: graph.Sub(t(M, N), t(8, N), loc=LOC),
    "f32[0,n]": lambda: graph.Sub(t(M, N), t(0, N), loc=LOC),
    "bool[n]": lambda: graph.Lt(t(N), t(), loc=LOC),
    "bf16[n,m]": lambda: graph.Cast(t(N, M), dtype=BF16, loc=LOC),
    "f32[n,1]": lambda: graph.Reduce(t(N, M), axes=(1,), combine="add", keepdims=True, loc=LOC),
    "f32[m]": lambda: graph.Reduce(t(N, M), axes=(0,), combine="max", loc=LOC),
    "f32[n,h floordiv 2]": lambda: window(t(N, H), (1, 2), (1, 2), (1, 1)),
    "f32[4*n]": lambda: graph.Reshape(t(N, 4), shape=(N * 4,), loc=LOC),
    "f32[m*n]": lambda: graph.Reshape(t(N, M), shape=(N * M,), loc=LOC),
    "f32[n,5]": lambda: graph.Reshape(t(M), shape=(N, 5), loc=LOC),
    "f32[m,2,n]": lambda: graph.Transpose(t(N, M, 2), perm=(1, 2, 0), loc=LOC),
    "f32[m,n]": lambda: graph.Broadcast(t(1, N), shape=(M, N), loc=LOC),
    "f32[n - 2,4]": lambda: cut(t(N, 4), (2, N, 1), (0, 4, 1)),
    "f32[2*n + 3]": lambda: graph.Concat([t(N), t(3), t(N)], axis=0, loc=LOC),
    "f32[7,m]": lambda: graph.Concat([t(3, M), t(4, M)], axis=0, loc=LOC),
    "f32[n + 3]": lambda: pad(t(N), (1,), (2,)),
    "i64[n,2]": lambda: graph.Iota(shape=(N, 2), axis=0, dtype=I64, loc=LOC),
    "f32[n,h,7]": lambda: graph.Gather(t(9, 7), t(N, H, dtype=I64), axis=0, loc=LOC),
    "f32[n,m,4]": lambda: graph.Contract(t(N, M, 8), t(N, 8, 4), equation="bmk,bkn->bmn", loc=LOC),
    "f32[n,16,(h + 1) floordiv 2 - 1]": lambda: graph.Conv(
        t(N, 3, H), t(16, 3, 3), strides=(2,), dilations=(1,), loc=LOC
    ),
    "f32[n,h - 2,16]": lambda: graph.Conv(
        t(N, H, 3),
        t(16, 3, 3),
        strides=(1,),
        dilations=(1,),
        layout="channels_last",
        loc=LOC,
    ),
}


@pytest.mark.parametrize("wanted", SYMBOLIC)
def test_symbols(wanted: str) -> None:
    got = typed(SYMBOLIC[wanted]())
    assert got.replace("(", "").replace(")", "") == wanted.replace("(", "").replace(")", "")


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 5), (5, 1), (4, 4)])
def test_two_symbols_broadcast_to_the_greater(n: int, m: int) -> None:
    (extent,) = graph.broadcast_shapes((N,), (M,))
    assert affine.substitute(extent, {"n": n, "m": m}) == max(n, m)


def test_a_chain_of_broadcasts_does_not_grow() -> None:
    x, y = t(N), t(M)
    for _ in range(100):
        x = graph.Add(x, y, loc=LOC).result
    assert len(typed(graph.Neg(x, loc=LOC))) < 40


def test_zero_extents_broadcast_with_ones_alone() -> None:
    assert graph.broadcast_shapes((0, 1), (1, 3)) == (0, 3)
    with pytest.raises(TypeError, match=r"^shapes \[0\] and \[2\] do not broadcast$"):
        graph.broadcast_shapes((0,), (2,))


REFUSED: dict[str, Callable[[], Op]] = {
    "shapes [2,3] and [4] do not broadcast": lambda: graph.Add(t(2, 3), t(4), loc=LOC),
    "graph.add wants operands of one element type, not [f32, f64]": lambda: graph.Add(
        t(2), t(2, dtype=F64), loc=LOC
    ),
    "graph.pow is not defined on i32": lambda: graph.Pow(t(dtype=I32), t(dtype=I32), loc=LOC),
    "graph.and is not defined on f32": lambda: graph.And(t(), t(), loc=LOC),
    "graph.select wants bool and two equal element types, not [f32, f32, f32]": (
        lambda: graph.Select(t(), t(), t(), loc=LOC)
    ),
    "no combiner is called mean; there are ['add', 'and', 'max', 'maxnum', 'min', 'mul', 'or']": (
        lambda: graph.Reduce(t(2), axes=(0,), combine="mean", loc=LOC)
    ),
    "graph.reduce with `add` is not defined on bool": lambda: graph.Reduce(
        t(2, dtype=BOOL), axes=(0,), combine="add", loc=LOC
    ),
    "graph.reduce over axes [0, 2] of f32[2,3]": lambda: graph.Reduce(
        t(2, 3), axes=(0, 2), combine="add", loc=LOC
    ),
    "graph.reduce over axes [1, 1] of f32[2,3]": lambda: graph.Reduce(
        t(2, 3), axes=(1, 1), combine="add", loc=LOC
    ),
    "graph.sort at [1, 3] of axis 1 of f32[2,3]": lambda: graph.Sort(
        t(2, 3), axis=1, at=(1, 3), loc=LOC
    ),
    "graph.accumulate along axis 2 of f32[2,3]": lambda: graph.Accumulate(
        t(2, 3), axis=2, combine="add", loc=LOC
    ),
    "a window of 4 at dilation 1 does not fit into 3": lambda: graph.Frames(
        t(2, 3), axis=1, size=4, loc=LOC
    ),
    "graph.window wants a size, stride and dilation an axis of f32[4,4]": lambda: window(
        t(4, 4), (2,), (1, 1), (1, 1)
    ),
    "a window of 3 at dilation 2 does not fit into 4": lambda: window(t(4), (3,), (1,), (2,)),
    "stride 0 and dilation 1 must be at least 1": lambda: window(t(4), (2,), (0,), (1,)),
    "f32[2,3] has not as many elements as [7]": lambda: graph.Reshape(t(2, 3), shape=(7,), loc=LOC),
    "f32[n,2] has not as many elements as [2*n + 1]": lambda: graph.Reshape(
        t(N, 2), shape=(N * 2 + 1,), loc=LOC
    ),
    "[0, 0] is no permutation of the axes of f32[2,3]": lambda: graph.Transpose(
        t(2, 3), perm=(0, 0), loc=LOC
    ),
    "f32[3] does not broadcast to [2,4]": lambda: graph.Broadcast(t(3), shape=(2, 4), loc=LOC),
    "f32[1,3] does not broadcast to [3]": lambda: graph.Broadcast(t(1, 3), shape=(3,), loc=LOC),
    "graph.slice with a step of 0": lambda: cut(t(4), (0, 4, 0)),
    "0:5:1 is no normal slice of the extent 4": lambda: cut(t(4), (0, 5, 1)),
    "4:-1:-1 is no normal slice of the extent 4": lambda: cut(t(4), (4, -1, -1)),
    "graph.concat wants at least one operand": lambda: graph.Concat([], axis=0, loc=LOC),
    "graph.concat of [f32[2], f64[2]]: ranks or element types differ": lambda: graph.Concat(
        [t(2), t(2, dtype=F64)], axis=0, loc=LOC
    ),
    "[f32[2,3], f32[2,4]] do not fit together along axis 0": lambda: graph.Concat(
        [t(2, 3), t(2, 4)], axis=0, loc=LOC
    ),
    "graph.concat has no axis 1 at rank 1": lambda: graph.Concat([t(2)], axis=1, loc=LOC),
    "graph.pad wants two amounts of at least 0 an axis of f32[2]": lambda: pad(t(2), (-1,), (0,)),
    "graph.pad of f32[2] with f64": lambda: pad(t(2), (1,), (0,), F64),
    "graph.iota is not defined on bool": lambda: graph.Iota(
        shape=(2,), axis=0, dtype=BOOL, loc=LOC
    ),
    "graph.gather wants integers as indices, not f32[2]": lambda: graph.Gather(
        t(4), t(2), axis=0, loc=LOC
    ),
    'equation "mk,kn" is not of the form "bmk,bkn->bmn"': lambda: graph.Contract(
        t(2, 2), t(2, 2), equation="mk,kn", loc=LOC
    ),
    'equation "mm,mn->n" is not of the form "bmk,bkn->bmn"': lambda: graph.Contract(
        t(2, 2), t(2, 2), equation="mm,mn->n", loc=LOC
    ),
    'equation "m,n->mk" has k in the result alone': lambda: graph.Contract(
        t(2), t(2), equation="m,n->mk", loc=LOC
    ),
    "k is 3 in f32[2,3] and 4 in f32[4,5]": lambda: graph.Contract(
        t(2, 3), t(4, 5), equation="mk,kn->mn", loc=LOC
    ),
    "graph.contract wants numbers of one element type, not bool[2] and bool[2]": (
        lambda: graph.Contract(t(2, dtype=BOOL), t(2, dtype=BOOL), equation="k,k->", loc=LOC)
    ),
    "no layout is called NCHW; there are ['channels_first', 'channels_last']": lambda: graph.Conv(
        t(1, 1, 4), t(1, 1, 3), strides=(1,), dilations=(1,), layout="NCHW", loc=LOC
    ),
    "weights f32[4,3,3] in 2 groups do not fit the channels of f32[1,4,8]": lambda: graph.Conv(
        t(1, 4, 8), t(4, 3, 3), strides=(1,), dilations=(1,), groups=2, loc=LOC
    ),
    "3 parts do not divide the channels of f32[1,4,8]": lambda: graph.Conv(
        t(1, 4, 8), t(4, 2, 1), strides=(1,), dilations=(1,), groups=2, parts=3, loc=LOC
    ),
    "2 groups do not divide the output channels of f32[3,2,3]": lambda: graph.Conv(
        t(1, 4, 8), t(3, 2, 3), strides=(1,), dilations=(1,), groups=2, loc=LOC
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        REFUSED[message]()
    assert str(caught.value) == message
