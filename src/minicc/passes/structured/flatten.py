"""Count neighbouring dimensions as one where all of a group allow it: its tensors are viewed flat.

    x[512, 512, 3] + 1   -->   x[786432] + 1

Rows of three elements fill no vector. Where each map of a group has two dimensions as neighbouring
axes, or neither of them, what lies along the inner one goes on along the outer one, and one
dimension takes the place of both. Around the group stand views. A tensor that is to lie within
another one, as a part of a `Concat`, keeps its shape, as such a view would need memory of its own;
so do the tensors of bodies of loops, which are changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.index_maps import Map, names_of, plain_names
from minicc.ir.rewrite import Rebuilder, rebuild
from minicc.ir.space import SEQUENTIAL, Iter, Space
from minicc.ir.structured import Generic, Group, Reshape
from minicc.ir.types import TensorType
from minicc.passes.structured.contraction import contractions_in
from minicc.passes.structured.draft import lanes_of
from minicc.target import Target

_LONG = 4  # vectors of a row that need no others beside them


class Neighbours(NamedTuple):
    """Two neighbouring dimensions of a group, the dimension that they become, and their axes.

    `axes` says of each tensor which axis is the outer dimension's; the inner one's is the next. It
    lacks tensors that have neither.
    """

    outer: Iter
    inner: Iter
    whole: Iter
    axes: dict[Value, int]

    def joined(self, v: Value, m: Sequence[Dim], of_both: Dim) -> tuple[Dim, ...]:
        """A map or a shape of a tensor with one entry in the place of two."""
        at = self.axes.get(v)
        return tuple(m) if at is None else (*m[:at], of_both, *m[at + 2 :])

    def space(self, space: Space) -> Space:
        """A space with the one dimension in the place of the two."""
        if self.inner.name not in space:
            return space
        iters = [self.whole if i.name == self.inner.name else i for i in space.iters]
        return Space(i for i in iters if i.name != self.outer.name)


def flatten(module: Module, target: Target) -> Module:
    """View the tensors of groups flat, where rows are short and no product's."""
    return Module(module.level, [_flattened(f, target) for f in module.functions])


def _flattened(function: Function, target: Target) -> Function:
    given = set(function.args)
    apart: set[Value] = set()
    for op in reversed(function.body.ops):
        if op.control:
            apart.update(op.operands, op.results)
        elif isinstance(op, Reshape):
            apart.update(op.operands if op.result in apart else ())
        elif not isinstance(op, Group):
            apart.update(v for v in op.operands if v not in given)

    flats: dict[Op, Group] = {
        op: flat
        for op in function.body.ops
        if isinstance(op, Group) and apart.isdisjoint((*op.operands, *op.results))
        if (flat := _flat(op, target)) is not op
    }

    def visit(out: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        flat = flats.get(op)
        if flat is None:
            return None
        pairs = zip(operands, flat.operands, strict=True)
        views = [_viewed(out, v, wanted.type.shape) for v, wanted in pairs]
        results = out.add(flat.rebuilt(views)).results
        pairs = zip(results, op.results, strict=True)
        return [_viewed(out, v, old.type.shape) for v, old in pairs]

    return rebuild(function, visit) if flats else function


def _viewed(out: Rebuilder, v: Value, shape: tuple[Dim, ...]) -> Value:
    return v if v.type.shape == shape else out.emit(Reshape, v, shape=shape)


def _flat(group: Group, target: Target) -> Group:
    """The group with one dimension in the place of two, as often as that is legal and pays."""
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    if group.schedule is not None or contractions_in(ops):
        return group
    while True:
        pair = next(_pairs(group, target), None)
        if pair is None:
            return group
        group = _applied(group, pair)


def _pairs(group: Group, target: Target) -> Iterator[Neighbours]:
    """Pairs of dimensions of last axes that may become one, and of which the inner one is short."""
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    for op in ops:
        long = _LONG * lanes_of(op, target)
        for names in (plain_names(m[-2:]) for m in op.maps if len(m) > 1):
            if names is None or not all(n in op.space for n in names):
                continue
            outer, inner = (op.space[n] for n in names)
            if isinstance(inner.extent, int) and 1 <= inner.extent < long:
                pair = _pair(ops, group, outer, inner)
                if pair is not None:
                    yield pair


def _pair(ops: Sequence[Generic], group: Group, outer: Iter, inner: Iter) -> Neighbours | None:
    """A pair of dimensions of a group as one; None where something needs them apart."""
    if outer.kind != inner.kind or inner.kind == SEQUENTIAL or outer.extent == 1:
        return None
    names = {outer.name, inner.name}
    if len(names.intersection(group.shared)) == 1:
        return None
    whole = Iter(
        f"{outer.name}{inner.name}", affine.multiply(outer.extent, inner.extent), inner.kind
    )
    axes: dict[Value, int | None] = {}
    for op in ops:
        own = [i for i in (outer, inner) if i.name in op.space]
        if whole.name in op.space or len(own) == 1 or any(op.space[i.name] != i for i in own):
            return None
        if not names.isdisjoint(names_of(op.coordinates)):
            return None
        for v, m in zip(_mapped(op), op.maps, strict=True):
            at = _axis(v, m, outer, inner)
            rest = m if at is None else (*m[:at], *m[at + 2 :])
            if not names.isdisjoint(names_of(rest)) or axes.setdefault(v, at) != at:
                return None
    return Neighbours(outer, inner, whole, {v: at for v, at in axes.items() if at is not None})


def _mapped(op: Generic) -> tuple[Value, ...]:
    """The tensors that an op has maps of, in the order of these."""
    return (*op.operands, *[op.results[k] for k in op.targets])


def _axis(v: Value, m: Map, outer: Iter, inner: Iter) -> int | None:
    """The axis along which the outer dimension covers a tensor, where the inner one is the next."""
    wanted = (affine.symbol(outer.name), affine.symbol(inner.name))
    extents = (outer.extent, inner.extent)
    every = range(len(m) - 1)
    found = (k for k in every if m[k : k + 2] == wanted and v.type.shape[k : k + 2] == extents)
    return next(found, None)


def _applied(group: Group, pair: Neighbours) -> Group:
    """The group over the one dimension in the place of both, with operands in flat shapes."""
    forward: dict[Value, Value] = {}

    def flat(v: Value) -> Value:
        shape = pair.joined(v, v.type.shape, pair.whole.extent)
        return Value(TensorType(v.type.dtype, shape), v.hint) if v in pair.axes else v

    args = [flat(a) for a in group.body.args]
    forward.update(zip(group.body.args, args, strict=True))
    given = zip(group.body.args, group.operands, args, strict=True)
    # of those that are to be viewed the types alone count, until the views are made
    operands = [flat_arg if a in pair.axes else v for a, v, flat_arg in given]
    point = affine.symbol(pair.whole.name)
    ops: list[Op] = []
    for op in group.body.ops:
        assert isinstance(op, Generic)
        shapes = zip(op.results, op.shapes, strict=True)
        fresh = op.rebuilt(
            [forward[v] for v in op.operands],
            space=pair.space(op.space),
            maps=tuple(
                [pair.joined(v, m, point) for v, m in zip(_mapped(op), op.maps, strict=True)]
            ),
            shapes=tuple([pair.joined(v, s, pair.whole.extent) for v, s in shapes]),
            nonzero=(),
        )
        forward.update(zip(op.results, fresh.results, strict=True))
        ops.append(fresh)
    body = Region(args, ops, [forward[v] for v in group.body.yields])
    names = [pair.whole.name if n == pair.inner.name else n for n in group.shared]
    shared = tuple([n for n in names if n != pair.outer.name])
    return group.rebuilt(operands, (body,), shared=shared)
