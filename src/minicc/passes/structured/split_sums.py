"""Part the long sums of a product with few results, for threads to share them.

    <i=200, j=200 | k=10007> reading [k, i] and [k, j]
    -->   <p=8, i=200, j=200 | k=1250> reading [1250*p + k, i] and [1250*p + k, j]
          summed over p, and over the 7 terms that are left over

Each part multiplies all rows by all columns, so that what it copies to its caches serves all of
them; blocks of the result, of which there are as many, would each read all that they have rows or
columns of. Kernels for GPUs call that split-K, and often add what is done first; here the order is
always the same. Profitable where both operands come from beyond the second cache, or a few rows
are multiplied by a matrix from there, of which a part reads whole rows, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from minicc.ir import affine, arith
from minicc.ir.affine import Dim, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Function, Module, Op, Value
from minicc.ir.index_maps import contiguous_name
from minicc.ir.rewrite import Rebuilder, everywhere, inline, rebuild
from minicc.ir.space import PARALLEL, REDUCTION, Iter, Space
from minicc.ir.structured import Generic
from minicc.ir.types import F32, F64
from minicc.passes.structured.contraction import Contraction, contraction_of
from minicc.passes.structured.draft import FEW_ROWS, is_long
from minicc.passes.structured.generics import dims, generic, identity
from minicc.passes.structured.schedule import constants_of
from minicc.target import Target

_PARTS = 8  # of all work, for threads to share
_SIDE = 512  # rows and columns of a result that one part may have as a block
_NARROW = 8  # rows or columns, of which fewer are better taken as they come
_DEEP = 1024  # terms that a part has at least


class _Long(NamedTuple):
    """The dimension of a product's sums, and into how many parts of how many terms they go."""

    name: str
    parts: int
    terms: int


def split_sums(module: Module, target: Target) -> Module:
    """Part the sums of each product that pays."""
    constants = constants_of(module)

    def visit(out: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        long = _planned(op, target, constants)
        if long is None or not isinstance(op, Generic):
            return None
        return (_in_parts(out, op, operands, long),)

    def one(function: Function) -> Function:
        return rebuild(function, visit)

    return Module(module.level, [everywhere(f, one) for f in module.functions])


def _planned(op: Op, target: Target, constants: frozenset[Value]) -> _Long | None:
    """How the sums of a product are parted; None where they stay whole."""
    found = contraction_of(op)
    if found is None or found.rhs is None or len(found.depth) != 1 or not found.op.space.static:
        return None
    op, extents = found.op, found.op.space.extents
    plain = found.reads_matrices and not (op.coordinates or op.nonzero)
    sides = found.varies(found.lhs), found.varies(found.rhs)
    (name,) = found.depth
    operands = [op.operands[k] for k in (found.lhs, found.rhs)]
    if not plain or op.results[0].type.dtype not in (F32, F64) or constants & {*operands}:
        return None
    batch, depth = prod(extents[n] for n in sides[0] & sides[1] - {name}), extents[name]
    if depth < 2 * _DEEP or not batch:
        return None
    rows, columns = (prod(extents[n] for n in side) // depth // batch for side in sides)
    size = (rows + columns) * depth * max(v.type.dtype.bytes for v in operands)
    streams = _streams(found, rows, target)
    if (min(rows, columns) < _NARROW and not streams) or size <= target.l2:
        return None
    blocks = batch * (1 if streams else -(-rows // _SIDE) * -(-columns // _SIDE))
    parts = min(_PARTS // blocks, depth // _DEEP, size // (target.l2 // 2))
    return _Long(name, parts, depth // parts) if parts > 1 else None


def _streams(found: Contraction, rows: int, target: Target) -> bool:
    """Whether a few rows are multiplied by a large matrix, whose rows a part reads whole."""
    assert found.rhs is not None
    op, v = found.op, found.op.operands[found.rhs]
    vector = contiguous_name(op.input_maps[found.rhs])
    if rows > FEW_ROWS or vector is None or vector in found.varies(found.lhs):
        return False
    return is_long(op, vector, found.depth[0], v, target)


def _in_parts(b: Rebuilder, op: Generic, operands: Sequence[Value], long: _Long) -> Value:
    name, whole = long.name, long.parts * long.terms
    depth, part = op.space.extent_of(name), _fresh(op.space)
    parts = Iter(part, long.parts, PARALLEL)
    (m,), (shape,) = op.yield_maps, op.shapes

    def body(inner: Builder, scalars: Sequence[Value]) -> Value:
        (element,) = inline(inner, op.body, scalars)
        return element

    def terms(start: Dim, count: int, outer: Sequence[Iter] = ()) -> Value:
        """The sums of so many terms from one on, for each point of more dimensions."""
        inner = [Iter(name, count, REDUCTION) if i.name == name else i for i in op.space.iters]
        bound = affine.substitution({name: start + symbol(name)})
        maps = [
            *[tuple(map(bound, e)) for e in op.input_maps],
            (*[symbol(i.name) for i in outer], *m),
        ]
        extents = (*[i.extent for i in outer], *shape)
        return generic(b, operands, Space([*outer, *inner]), maps, extents, body, "add")

    sums = terms(symbol(part) * long.terms, long.terms, [parts])
    at = identity(len(shape))
    space = Space([*dims(shape).iters, parts._replace(kind=REDUCTION)])
    total = generic(b, [sums], space, [(symbol(part), *at), at], shape, lambda _, e: e[0], "add")
    if whole == depth:
        return total
    both = [total, terms(whole, depth - whole)]
    return generic(b, both, dims(shape), [at] * 3, shape, lambda b, e: b.emit(arith.Add, *e))


def _fresh(space: Space) -> str:
    """The name of a dimension that a space has not, nor an axis of a result."""
    return next(n for n in ("p", *[f"p{k}" for k in range(len(space.names))]) if n not in space)
