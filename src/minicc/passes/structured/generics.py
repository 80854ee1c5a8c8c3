"""Generics of one result, as whole-tensor ops become: their spaces, maps and bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minicc.ir import arith, structured
from minicc.ir.affine import Dim, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Value
from minicc.ir.space import PARALLEL, REDUCTION, Iter, Space
from minicc.ir.types import F32, I64, TensorType

Body = Callable[[Builder, Sequence[Value]], Value]


def generic(
    b: Builder,
    inputs: Sequence[Value],
    space: Space,
    maps: Sequence[Sequence[Dim]],
    shape: Sequence[Dim],
    body: Body,
    combine: str | None = None,
    coordinates: tuple[Dim, ...] = (),
    nonzero: tuple[tuple[Dim, Dim, Dim], ...] = (),
) -> Value:
    """A generic with one result.

    `body` gets a builder and the scalars and returns what is yielded.
    """
    scalars = [Value(TensorType(v.type.dtype)) for v in inputs]
    scalars += [Value(TensorType(I64)) for _ in coordinates]
    region = b.region(scalars, lambda inner: (body(inner, scalars),))
    return b.emit(
        structured.Generic,
        tuple(inputs),
        space=space,
        maps=tuple(tuple(m) for m in maps),
        shapes=(tuple(shape),),
        combine=(combine,),
        coordinates=coordinates,
        nonzero=nonzero,
        body=region,
    )


def summed(
    b: Builder,
    inputs: Sequence[Value],
    space: Space,
    maps: Sequence[Sequence[Dim]],
    shape: Sequence[Dim],
    body: Body,
    combine: str,
    nonzero: tuple[tuple[Dim, Dim, Dim], ...] = (),
) -> Value:
    """A reduction; f16 and bf16 are computed with and accumulated in f32, and rounded once."""
    dtype = inputs[0].type.dtype
    if not dtype.is_float or dtype.bits != 16:
        return generic(b, inputs, space, maps, shape, body, combine, nonzero=nonzero)

    def wide(inner: Builder, elements: Sequence[Value]) -> Value:
        return body(inner, [inner.emit(arith.Cast, v, dtype=F32) for v in elements])

    total = generic(b, inputs, space, maps, shape, wide, combine, nonzero=nonzero)

    def narrow(inner: Builder, elements: Sequence[Value]) -> Value:
        return inner.emit(arith.Cast, elements[0], dtype=dtype)

    rank = len(shape)
    return generic(b, [total], dims(shape), [identity(rank), identity(rank)], shape, narrow)


def dims(shape: Sequence[Dim], chosen: Sequence[int] = (), kind: str = REDUCTION) -> Space:
    """One dimension an axis, called d0, d1, ...; some `chosen` are of another kind."""
    return Space(Iter(f"d{k}", n, kind if k in chosen else PARALLEL) for k, n in enumerate(shape))


def identity(rank: int) -> list[Dim]:
    """The map d0, d1, ..."""
    return [symbol(f"d{k}") for k in range(rank)]


def broadcast_map(shape: Sequence[Dim], result: Sequence[Dim]) -> list[Dim]:
    """How an operand is read under NumPy's broadcasting to `result`: extents of 1 are read at 0."""
    offset = len(result) - len(shape)
    return [
        0 if n == 1 and result[offset + k] != 1 else symbol(f"d{offset + k}")
        for k, n in enumerate(shape)
    ]
