"""graph -> structured for gathers: an operand that is read where another one says.

    %y = graph.gather %x, %i {axis = 0} : f32[64,384]
    -->   structured.generic %i, %x { space = <d0=64, d1=384>, indices = [["at0", 0, 30522]],
                                      maps = [[d0], [at0, d1], [d0, d1]] } { yield the second }

The three gathers of graph differ in their maps alone. What is gathered from a tensor without
elements reads nothing, but its indices are checked all the same: by an op of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.ir import arith, graph, structured
from minicc.ir.affine import Dim, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Op, Region, Value
from minicc.ir.index_maps import Map, names_of
from minicc.ir.space import Iter, Space
from minicc.ir.types import TensorType, static_shape

Shape = tuple[Dim, ...]
Lower = Callable[[Builder, Any, tuple[Value, ...]], Value]


class Reading(NamedTuple):
    """Where the indices are read, each with its extent, and where the data at these indices.

    All over the result's dimensions d0, d1, ...; the data's map has at0, at1, ... besides.
    """

    indices: tuple[tuple[Map, Dim], ...]
    data: Map


def _gather(b: Builder, op: graph.Gather, operands: tuple[Value, ...]) -> Value:
    x, i = operands
    dims, after = _dims(op.result.type.rank), op.axis + i.type.rank
    data = (*dims[: op.axis], symbol("at0"), *dims[after:])
    where = (dims[op.axis : after], x.type.shape[op.axis])
    return _read(b, x, i, Reading((where,), data), op.result.type.shape)


def _gather_elements(b: Builder, op: graph.GatherElements, operands: tuple[Value, ...]) -> Value:
    x, i = operands
    dims = _dims(i.type.rank)
    data = (*dims[: op.axis], symbol("at0"), *dims[op.axis + 1 :])
    where = (dims, x.type.shape[op.axis])
    return _read(b, x, i, Reading((where,), data), op.result.type.shape)


def _gather_nd(b: Builder, op: graph.GatherND, operands: tuple[Value, ...]) -> Value:
    x, i = operands
    dims, front = _dims(op.result.type.rank), i.type.rank - 1
    (depth,) = static_shape(i.type.shape[-1:])
    axes = range(op.batch, op.batch + depth)
    where = [((*dims[:front], k), x.type.shape[axis]) for k, axis in enumerate(axes)]
    at = [symbol(f"at{k}") for k in range(len(axes))]
    data = (*dims[: op.batch], *at, *dims[front:])
    return _read(b, x, i, Reading(tuple(where), data), op.result.type.shape)


def _dims(rank: int) -> Map:
    return tuple(symbol(f"d{k}") for k in range(rank))


def _read(b: Builder, x: Value, indices: Value, reading: Reading, shape: Shape) -> Value:
    """The data at the indices."""
    if reading.indices and 0 in x.type.shape and 0 not in indices.type.shape:
        return _nothing(b, x, indices, reading, shape)
    maps = [m for m, _ in reading.indices]
    operands = [indices] * len(maps) + [x]
    names = tuple((f"at{k}", k, extent) for k, (_, extent) in enumerate(reading.indices))
    space = {f"d{k}": n for k, n in enumerate(shape)}
    return _generic(b, operands, [*maps, reading.data], space, lambda inner, args: args[-1], names)


def _nothing(b: Builder, x: Value, indices: Value, reading: Reading, shape: Shape) -> Value:
    """Data of a tensor without elements: the indices, checked, and zeros that nobody will see."""
    extents = {f"d{k}": n for k, n in enumerate(shape)}
    used = set().union(*[names_of(m) for m, _ in reading.indices])
    space = {n: extent for n, extent in extents.items() if n in used}
    maps = [m for m, _ in reading.indices]
    names = tuple((f"at{k}", k, extent) for k, (_, extent) in enumerate(reading.indices))
    checked = _generic(b, [indices] * len(maps), maps, space, lambda inner, args: args[0], names)
    zero = Literal(np.zeros((), x.type.dtype.numpy))
    place = tuple(map(symbol, space))
    return _generic(
        b, [checked], [place], extents, lambda inner, args: inner.emit(arith.Constant, value=zero)
    )


def _generic(
    b: Builder,
    operands: Sequence[Value],
    maps: Sequence[Map],
    space: Mapping[str, Dim],
    body: Callable[[Builder, Sequence[Value]], Value],
    indices: tuple[tuple[str, int, Dim], ...] = (),
) -> Value:
    """A generic whose result is indexed by the dimensions of its space."""
    inner = Builder(b.loc)
    args = [Value(TensorType(v.type.dtype)) for v in operands]
    yielded = body(inner, args)
    return b.emit(
        structured.Generic,
        tuple(operands),
        space=Space(Iter(n, extent) for n, extent in space.items()),
        maps=(*maps, tuple(map(symbol, space))),
        shapes=(tuple(space.values()),),
        combine=(None,),
        indices=indices,
        body=Region(args, inner.ops, (yielded,)),
    )


GATHERS: dict[type[Op], Lower] = {
    graph.Gather: _gather,
    graph.GatherElements: _gather_elements,
    graph.GatherND: _gather_nd,
}
