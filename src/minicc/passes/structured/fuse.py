"""Fuse generics into groups that run together over shared parallel dimensions.

    %m = generic(x) max    %e = generic(x, m) exp    %s = generic(e) add    %y = generic(e, s) div
    -->   %y = group shared = [r] { %m, (%e, %s), %y }

A frozen plan is made first (`plan_fusion`), with a reason for each pair, and then applied. `align`
says whether an op can join a draft: what it reads of the draft's values must be read at the op's
own point along every dimension that stays shared. Whether it should is said by `judge_fusion`.
Every generic ends up in a group, alone if need be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from minicc.ir import affine
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.index_maps import Map, names_of, plain_names
from minicc.ir.rewrite import everywhere, live, merge_locations
from minicc.ir.space import PARALLEL
from minicc.ir.structured import Generic, Group, Scan
from minicc.passes.structured.fusion_plan import (
    Decision,
    Draft,
    FusionPlan,
    Member,
    Planned,
    Verdict,
    Wishes,
)
from minicc.passes.structured.judge_fusion import judge, judge_beside
from minicc.passes.structured.siblings import merge_siblings, without_unread
from minicc.target import Target

_COPIED = 256  # bytes that are copied as soon as read
_ASTRAY = Verdict(
    False, "it reads where data say, or at two points of a dimension at once", firm=True
)


def fuse(module: Module, target: Target, wishes: Wishes) -> Module:
    """Put every generic into a group; `wishes` are of a person, and learn the plans."""

    def one(function: Function) -> Function:
        plan = plan_fusion(function, target, wishes)
        wishes.plans.append(plan)
        return apply_fusion(function, plan)

    return Module(module.level, [everywhere(f, one) for f in module.functions])


def plan_fusion(function: Function, target: Target, wishes: Wishes) -> FusionPlan:
    """Walk in order.

    Let each generic join the latest draft that it reads from, if legal and profitable, and then the
    others that it reads from join that one.
    """
    drafts: list[Draft] = []
    decisions: list[Decision] = []
    owner: dict[Value, Draft] = {}
    placed: dict[Value, int] = {}  # of what is in no draft; a draft may still move
    begun: dict[Value, int] = {}  # where the first loop stands of which it is a state
    for position, op in enumerate(function.body.ops):
        sources = list(dict.fromkeys(owner[v] for v in op.operands if v in owner))
        joined: Draft | None = None
        if isinstance(op, Generic):
            at = {v: owner[v].position if v in owner else placed.get(v, -1) for v in op.operands}
            for draft in sorted(sources, key=lambda d: -d.position):
                makers = _makers(draft, op)
                if late := _reads_late(draft, begun):
                    aligned, verdict = None, late
                elif joined is not None:
                    aligned, verdict = _judged_beside(joined, draft, op, target)
                else:
                    aligned, verdict = _judged(draft, op, at, target)
                verdict = wishes.heard(verdict, makers, op)
                if verdict.fused and aligned is not None:
                    if joined is None:
                        draft.append(op, _distinct(op.space.names, aligned, draft), position)
                        joined = draft
                    else:
                        joined.absorb(draft, _distinct(draft.names(), aligned, joined))
                        drafts.remove(draft)
                        owner.update(dict.fromkeys(draft.defines, joined))
                decisions.append(Decision(tuple(m.loc for m in makers), op.loc, verdict))
            if joined is None:
                joined = Draft(op, position)
                drafts.append(joined)
            owner.update(dict.fromkeys(op.results, joined))
        for draft in sources:
            draft.read_outside |= draft is not joined
        if joined is None:
            placed.update(dict.fromkeys(op.results, position))
        if isinstance(op, Scan):
            begun = dict.fromkeys(op.operands[: op.states], position) | begun
    return FusionPlan(tuple(d.planned() for d in drafts), tuple(decisions))


def _reads_late(draft: Draft, begun: Mapping[Value, int]) -> Verdict | None:
    """The verdict on joining a draft that read a tensor before a loop begins with that.

    The loop changes it where it lies, if nobody reads it any more.
    """
    for v in (v for m in draft.members for v in m.op.operands if begun.get(v, -1) > draft.position):
        extents = [n for n in map(affine.typical, v.type.shape) if isinstance(n, int)]
        size = prod(extents) * v.type.dtype.bytes
        if size > _COPIED or len(extents) < v.type.rank:
            reason = f"a loop in between begins with {v.type} that it reads, and would copy that"
            return Verdict(False, reason, firm=True)
    return None


def _makers(draft: Draft, op: Generic) -> list[Generic]:
    """The ops of a draft whose values an op reads."""
    found = [draft.defines[v].op for v in op.operands if v in draft.defines]
    return list(dict.fromkeys(found))


def _judged(
    draft: Draft, op: Generic, at: Mapping[Value, int], target: Target
) -> tuple[dict[str, str] | None, Verdict]:
    """Which dimensions an op would share with a draft, and whether it joins."""
    outside = [at[v] for v in op.operands if v not in draft.defines]
    # a draft that is read elsewhere can't move to where all operands are known
    if draft.read_outside and any(p >= draft.position for p in outside):
        reason = "the group is read by others before all that this op reads is known"
        return None, Verdict(False, reason, firm=True)
    aligned = align(draft, op)
    if aligned is None:
        return None, _ASTRAY
    return aligned, judge(draft, op, aligned, target)


def _judged_beside(
    joined: Draft, draft: Draft, op: Generic, target: Target
) -> tuple[dict[str, str] | None, Verdict]:
    """Which dimensions of a draft are which of what `op` has joined, and whether it joins that.

    Both make what `op` reads, each at the same points, and nothing else had read any of it.
    """
    if joined.read_outside or draft.read_outside:
        reason = "it has joined a later group it reads from, and others read one of the two"
        return None, Verdict(False, reason, firm=True)
    aligned, mine = align(draft, op), joined.members[-1].names
    if aligned is None:
        return None, _ASTRAY
    same = {theirs: mine[n] for n, theirs in aligned.items() if mine[n] in joined.shared}
    return same, judge_beside(joined, draft, op, aligned, same, target)


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


def _distinct(names: Iterable[str], aligned: Mapping[str, str], draft: Draft) -> dict[str, str]:
    """Names of dimensions that join a draft: the aligned ones as there, others unlike any there."""
    taken = {*draft.names()}
    out = dict(aligned)
    for name in names:
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
        nonzero=tuple([(renaming(e), *ends) for e, *ends in op.nonzero]),
    )


def apply_fusion(function: Function, plan: FusionPlan) -> Function:
    """Emit each draft as a group at its position; other ops stay."""
    at = {group.position: group for group in plan.groups}
    drafted = {m.op for group in plan.groups for m in group.members}
    owner = {v: group for group in plan.groups for v in group.defines()}
    exported = set(function.body.yields)
    for op in function.body.ops:
        exported.update(op.operands) if op not in drafted else None
    for group in plan.groups:
        for m in group.members:
            exported.update(v for v in m.op.operands if owner.get(v) is not group)
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


def _emit_group(plan: Planned, forward: dict[Value, Value], exported: set[Value]) -> Group:
    """The group of a plan; `forward` learns what became of the values that are read outside."""
    made = dict.fromkeys(plan.defines())
    inputs = list(dict.fromkeys(v for m in plan.members for v in m.op.operands if v not in made))
    args = [Value(v.type, v.hint) for v in inputs]
    inner: dict[Value, Value] = dict(zip(inputs, args, strict=True))
    ops: list[Op] = []
    for m in plan.members:
        fresh = renamed(m.op, [inner[v] for v in m.op.operands], m.names)
        inner.update(zip(m.op.results, fresh.results, strict=True))
        ops.append(fresh)
    results = [v for v in made if v in exported]
    ops, known = merge_siblings(ops, plan.shared)
    yields = [known.get(inner[v], inner[v]) for v in results]
    body = without_unread(Region(args, ops, yields))
    loc = merge_locations(*[m.op.loc for m in plan.members])
    operands = [forward.get(v, v) for v in inputs]
    group = Group(
        operands,
        shared=plan.shared,
        label=label(loc),
        body=body,
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
