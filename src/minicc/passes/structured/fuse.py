"""Fuse generics into groups that run together over shared parallel dimensions.

    %m = generic(x) max    %e = generic(x, m) exp    %s = generic(e) add    %y = generic(e, s) div
    -->   %y = group shared = [r] { %m, (%e, %s), %y }

A plan is made first (`plan_fusion`, a `FusionPlan` of drafts), then applied. `align` says whether
an op can join a draft: what it reads of the draft's values must be read at the op's own point
along every dimension that stays shared. Whether it should is said by `profitable`. Every generic
ends up in a group, alone if need be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from minicc.ir import affine, arith
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.rewrite import everywhere, live, merge_locations
from minicc.ir.space import PARALLEL, Space
from minicc.ir.structured import Generic, Group, Map, names_of
from minicc.passes.structured.contraction import Contraction, contraction_of
from minicc.passes.structured.merge import merge_siblings, plain_names
from minicc.target import Target

_FEW = 8  # results of a product that others take together
_BLOCK_OF_ROWS, _MANY_ROWS = 8, 32  # rows that an instance has at once, and that make it worthwhile
_LONGEST = 512  # instructions of a group, about: beside so many, what passes through memory is free
_LOOPS = 8  # of them that an op takes besides its body


class Member:
    """An op of a draft, what it is as a product, and what its dimensions are called there."""

    __slots__ = ("contraction", "names", "op")

    def __init__(self, op: Generic, names: Mapping[str, str]) -> None:
        self.op = op
        self.contraction = contraction_of(op)
        self.names = names

    def axes(self, value: Value) -> tuple[str | None, ...]:
        """For each axis of a result, the dimension (by its name in the draft) that indexes it."""
        maps = self.op.maps_of(self.op.results.index(value))
        plain = [
            plain_names((es[0],)) if len(set(es)) == 1 else None for es in zip(*maps, strict=True)
        ]
        return tuple(self.names[p[0]] if p else None for p in plain)


class Draft:
    """A group to be.

    Its members, the dimensions shared so far, and where in the function it stands.
    """

    __slots__ = ("defines", "length", "members", "position", "read_outside", "shared")

    def __init__(self, op: Generic, position: int) -> None:
        self.members = [Member(op, {n: n for n in op.space.names})]
        self.shared = {i.name: i.extent for i in op.space.of_kind(PARALLEL)}
        self.defines: dict[Value, Member] = dict.fromkeys(op.results, self.members[0])
        self.length = _length(op)
        self.position = position
        self.read_outside = False

    def append(self, op: Generic, names: Mapping[str, str], position: int) -> None:
        """Let `op` join with its dimensions called `names`.

        What it does not share is no longer shared.
        """
        member = Member(op, names)
        kept = {names[i.name] for i in op.space.of_kind(PARALLEL)}
        self.shared = {n: extent for n, extent in self.shared.items() if n in kept}
        self.members.append(member)
        self.length += _length(op)
        self.defines.update(dict.fromkeys(op.results, member))
        if not self.read_outside:
            self.position = position


def _length(op: Generic) -> int:
    return _LOOPS + arith.length(op.body.ops)


def fuse(module: Module, target: Target) -> Module:
    """Put every generic of each function into a group."""

    def one(function: Function) -> Function:
        return apply_fusion(function, plan_fusion(function, target))

    return Module(module.level, [everywhere(f, one) for f in module.functions])


class FusionPlan:
    """The drafts, each at the position of the op behind which its group stands."""

    __slots__ = ("drafts",)

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self.drafts = tuple(drafts)

    def __repr__(self) -> str:
        return "\n".join(
            f"at {d.position}: {len(d.members)} ops share {list(d.shared)}" for d in self.drafts
        )


def plan_fusion(function: Function, target: Target) -> FusionPlan:
    """Walk in order.

    Let each generic join the latest draft that it reads from, if legal and profitable.
    """
    drafts: list[Draft] = []
    owner: dict[Value, Draft] = {}
    placed: dict[Value, int] = {}  # of what is in no draft; a draft may still move
    for position, op in enumerate(function.body.ops):
        sources = list(dict.fromkeys(owner[v] for v in op.operands if v in owner))
        joined: Draft | None = None
        if isinstance(op, Generic):
            at = {v: owner[v].position if v in owner else placed.get(v, -1) for v in op.operands}
            joined = _join(op, sources, at, position, target)
            if joined is None:
                joined = Draft(op, position)
                drafts.append(joined)
            owner.update(dict.fromkeys(op.results, joined))
        for draft in sources:
            draft.read_outside |= draft is not joined
        if joined is None:
            placed.update(dict.fromkeys(op.results, position))
    return FusionPlan(drafts)


def _join(
    op: Generic,
    sources: Sequence[Draft],
    at: Mapping[Value, int],
    position: int,
    target: Target,
) -> Draft | None:
    """Append the op to the latest draft that it can join; None if there is none."""
    for draft in sorted(sources, key=lambda d: -d.position):
        if draft.length + _length(op) > _LONGEST:
            continue
        outside = [at[v] for v in op.operands if v not in draft.defines]
        # a draft that is read elsewhere can't move to where all operands are known
        if draft.read_outside and any(p >= draft.position for p in outside):
            continue
        aligned = align(draft, op)
        if aligned is None or not profitable(draft, op, aligned, target):
            continue
        draft.append(op, _distinct(op, aligned, draft), position)
        return draft
    return None


def align(draft: Draft, op: Generic) -> dict[str, str] | None:
    """Which dimension of `op` is which shared one of `draft`, from the reads of the draft's values.

    None where a dimension would have to be two at once. A shared dimension along which a value is
    read elsewhere than at the op's own point is left out: it could not stay shared.
    """
    names: dict[str, str] = {}
    lost: set[str] = set()
    for v, m in zip(op.operands, op.input_maps, strict=True):
        member = draft.defines.get(v)
        if member is None:
            continue
        if any(n not in op.space and not affine.is_size(n) for n in names_of(m)):
            return None  # it may be read at any index: all of it is wanted first
        same = _same_point(member, v, m, op, draft)
        if same is not None:
            if any(names.setdefault(mine, theirs) != theirs for mine, theirs in same.items()):
                return None
            continue
        for axis, e in zip(member.axes(v), m, strict=True):
            extent = draft.shared.get(axis) if axis is not None else None
            if axis is None or extent is None:
                continue
            plain = plain_names((e,))
            mine = op.space[plain[0]] if plain else None
            if mine is not None and mine.kind == PARALLEL and mine.extent == extent:
                if names.setdefault(mine.name, axis) != axis:
                    return None
            elif extent != 1:
                lost.add(axis)
    kept = {mine: theirs for mine, theirs in names.items() if theirs not in lost}
    return kept if len(set(kept.values())) == len(kept) else None


def _same_point(
    member: Member, value: Value, m: Map, op: Generic, draft: Draft
) -> dict[str, str] | None:
    """The correspondence of an op that reads a value as its producer wrote it, map by map.

    None where the maps differ, or are of plain dimensions, which correspond one by one.
    """
    written = member.op.maps_of(member.op.results.index(value))
    if written != (m,) or plain_names(m) is not None:
        return None
    shared = {n for n in names_of(m) if not affine.is_size(n)}
    kept = {n: member.names[n] for n in shared if member.names[n] in draft.shared}
    fits = all(n in op.space and op.space[n].extent == member.op.space[n].extent for n in shared)
    return kept if fits and all(op.space[n].kind == PARALLEL for n in shared) else None


def profitable(draft: Draft, op: Generic, aligned: Mapping[str, str], target: Target) -> bool:
    """Whether joining pays.

    Nothing heavy loses its parallelism, and what is passed on stays in cache.
    """
    kept = set(aligned.values())
    lost = {n: e for n, e in draft.shared.items() if n not in kept}
    products = [m for m in draft.members if m.contraction]
    contraction = contraction_of(op)
    if contraction:
        alone = len(products) == 1 and not lost
        return alone and _continues_rows(draft, contraction, aligned, target)
    if products:
        if any(e != 1 for e in lost.values()):
            first, *more = products
            return not more and (_keeps_rows(first, kept, target) or _few_of_each(first, kept))
        return _points(op.space) <= max(_points(m.op.space) for m in products)
    if _inside_out(draft, op, aligned):
        return False
    if all(e == 1 for e in lost.values()):
        return True
    passed = [
        prod(e for n, e in m.op.space.typical.items() if m.names[n] not in kept) * _bytes(m.op)
        for m in draft.members
    ]
    return max(passed) <= _scratch(target)


def _bytes(op: Generic) -> int:
    """The bytes of an element of an op's first result."""
    return int(op.results[0].type.dtype.bytes)


def _scratch(target: Target) -> int:
    """Bytes that may pass between the ops of one instance: what fits the first two caches."""
    return target.resident // 4


def _near(target: Target) -> int:
    """Bytes that every block of rows reads again: what stays in the second cache."""
    return target.resident // 2


def _inside_out(draft: Draft, op: Generic, aligned: Mapping[str, str]) -> bool:
    """Whether an op would run its outer dimensions within inner ones, for a table they all share.

    A row of factors, say, that each plane of an image is multiplied by, is a table.
    """
    extents = op.space.typical
    kept = [n in aligned for n in plain_names(op.yield_maps[0]) or () if extents[n] != 1]
    sizes = [prod(map(affine.typical, v.type.shape)) for v in draft.defines]
    sizes += [_points(m.op.space) for m in draft.members]
    return max(sizes) < _points(op.space) and kept != sorted(kept, reverse=True)


def _keeps_rows(member: Member, kept: set[str], target: Target) -> bool:
    """Whether a product's rows may wait in cache, each whole, for ops that reduce along them.

    So the scores of attention do for their soft-max: the rows are many, and what all of them are
    multiplied by stays near.
    """
    assert member.contraction is not None
    op, extents, vector = member.op, member.op.space.typical, member.contraction.columns
    wide = member.contraction.varies(member.contraction.rhs)
    parallel = [i.name for i in op.space.of_kind(PARALLEL) if extents[i.name] != 1]
    return (
        vector is not None
        and [n for n in parallel if member.names[n] not in kept] == [vector]
        and min([extents[n] for n in parallel if n not in wide], default=0) >= _MANY_ROWS
        and _rest(op, member.names, kept) * _bytes(op) <= _near(target)
        and extents[vector] * _BLOCK_OF_ROWS * _bytes(op) <= _scratch(target)
    )


def _few_of_each(member: Member, kept: set[str]) -> bool:
    """Whether a product has a few results at each of its columns, which may wait for each other.

    So the gates of a recurrent layer do for what is made of them: each unit has one of each.
    """
    extents = member.op.space.typical
    parallel = [i.name for i in member.op.space.of_kind(PARALLEL)]
    assert member.contraction is not None
    vector = member.contraction.columns
    lost = prod(extents[n] for n in parallel if member.names[n] not in kept)
    return vector is not None and member.names[vector] in kept and lost <= _FEW


def _continues_rows(
    draft: Draft, product: Contraction, aligned: Mapping[str, str], target: Target
) -> bool:
    """Whether a product of a draft's whole rows with something that stays near may follow them."""
    first, op = draft.members[0], product.op
    if first.contraction is None:
        return False
    before = first.contraction.columns
    among = first.contraction.varies(first.contraction.rhs)
    if before is None or first.names[before] in draft.shared or first.op.space[before].extent == 1:
        return False
    inside = [v in draft.defines for v in op.operands]
    return (
        inside.count(True) == 1
        and product.columns not in aligned
        and product.columns not in product.varies(inside.index(True))
        and {aligned[n] for n in product.varies(product.rhs) if n in aligned}
        <= {first.names[n] for n in among}
        and _rest(op, aligned, set(aligned.values())) * _bytes(op) <= _near(target)
    )


def _rest(op: Generic, names: Mapping[str, str], kept: set[str]) -> int:
    """The points of an op at one place of the kept dimensions."""
    return prod(e for n, e in op.space.typical.items() if names.get(n) not in kept)


def _points(space: Space) -> int:
    return prod(space.typical.values())


def _distinct(op: Generic, aligned: Mapping[str, str], draft: Draft) -> dict[str, str]:
    """Names for all dimensions of `op`.

    The aligned ones as in the draft, the others unlike any there.
    """
    taken = {n for m in draft.members for n in m.names.values()}
    out = dict(aligned)
    for name in op.space.names:
        if name not in out:
            fresh, k = name, 1
            while fresh in taken:
                fresh, k = f"{name}_{k}", k + 1
            out[name] = fresh
            taken.add(fresh)
    return out


def renamed(op: Generic, operands: Sequence[Value], names: Mapping[str, str]) -> Generic:
    """The same op on other operands with its dimensions called otherwise."""
    if all(old == new for old, new in names.items()):
        return op.rebuilt(operands)
    renaming = affine.substitution({old: affine.symbol(new) for old, new in names.items()})
    return op.rebuilt(
        operands,
        space=op.space.renamed(names),
        maps=tuple([tuple(map(renaming, m)) for m in op.maps]),
        coordinates=tuple(map(renaming, op.coordinates)),
    )


def apply_fusion(function: Function, plan: FusionPlan) -> Function:
    """Emit each draft as a group at its position; other ops stay."""
    at: dict[int, Draft] = {d.position: d for d in plan.drafts}
    drafted = {m.op for d in plan.drafts for m in d.members}
    owner = {v: d for d in plan.drafts for v in d.defines}
    exported = set(function.body.yields)
    for op in function.body.ops:
        exported.update(op.operands) if op not in drafted else None
    for draft in plan.drafts:
        for m in draft.members:
            exported.update(v for v in m.op.operands if owner.get(v) is not draft)
    forward: dict[Value, Value] = {}
    out: list[Op] = []
    for position, op in enumerate(function.body.ops):
        if op not in drafted:
            kept = op.rebuilt([forward.get(v, v) for v in op.operands])
            out.append(kept)
            forward.update(zip(op.results, kept.results, strict=True))
        if position in at:
            out.append(_emit_group(at[position], forward, exported))
    yields = [forward.get(v, v) for v in function.body.yields]
    return function.with_body(Region(function.args, live(out, yields), yields))


def _emit_group(draft: Draft, forward: dict[Value, Value], exported: set[Value]) -> Group:
    """The group of a draft; `forward` learns what became of the values that are read outside."""
    inputs = list(
        dict.fromkeys(v for m in draft.members for v in m.op.operands if v not in draft.defines)
    )
    args = [Value(v.type, v.hint) for v in inputs]
    inner: dict[Value, Value] = dict(zip(inputs, args, strict=True))
    ops: list[Op] = []
    for m in draft.members:
        fresh = renamed(m.op, [inner[v] for v in m.op.operands], m.names)
        inner.update(zip(m.op.results, fresh.results, strict=True))
        ops.append(fresh)
    results = [v for v in draft.defines if v in exported]
    ops, known = merge_siblings(ops)
    yields = [known.get(inner[v], inner[v]) for v in results]
    loc = merge_locations(*[m.op.loc for m in draft.members])
    operands = [forward.get(v, v) for v in inputs]
    group = Group(
        operands,
        shared=tuple(draft.shared),
        label=label(loc),
        body=Region(args, ops, yields),
        loc=loc,
    )
    for v, new in zip(results, group.results, strict=True):
        new.hint = v.hint
        forward[v] = new
    return group


def label(loc: Sequence[str]) -> str:
    """A kernel's name from the nodes that it computes for."""
    first = "".join(c if c.isalnum() else "_" for c in loc[0].rsplit("/", 1)[-1])[:32]
    return f"{first}_{len(loc)}" if len(loc) > 1 else first
