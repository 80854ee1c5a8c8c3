"""Let ops of a group that have one space share their loops: they become one op.

%e = generic(x, m) exp    %s = generic(e) add    -->    %e, %s = generic(x, m) { exp, add }
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from minicc.ir import affine
from minicc.ir.core import Op, Region, Value
from minicc.ir.index_maps import plain_names
from minicc.ir.rewrite import Rebuilder, inline, live, merge_locations, used_by
from minicc.ir.space import REDUCTION, Iter, Space
from minicc.ir.structured import Generic


def merge_siblings(
    ops: Sequence[Op], shared: Collection[str]
) -> tuple[list[Op], dict[Value, Value]]:
    """Within a group, let an op that reads its predecessor point by point share its loops.

    exp over (r, c) and its sum over c become one op with two results, and so do two sums of what
    both read. `shared` are the group's dimensions. Returns the ops and what values became.
    """
    out: list[Op] = []
    forward: dict[Value, Value] = {}
    for op in ops:
        current = op.rebuilt([forward.get(v, v) for v in op.operands])
        previous = out[-1] if out else None
        if (
            isinstance(previous, Generic)
            and isinstance(current, Generic)
            and (names := _siblings(previous, current, shared)) is not None
        ):
            both = _join_bodies(previous, current, names)
            count = len(previous.results)
            replaced = dict(zip(previous.results, both.results[:count], strict=True))
            forward = {old: replaced.get(new, new) for old, new in forward.items()} | replaced
            forward.update(zip(op.results, both.results[count:], strict=True))
            out[-1] = both
        else:
            forward.update(zip(op.results, current.results, strict=True))
            out.append(current)
    return out, forward


def without_unread(body: Region) -> Region:
    """A group's body whose ops have no results that nobody reads.

    What only an op that was merged with its maker had read is one. Sums stay: the kinds of an op's
    dimensions are theirs.
    """
    read = used_by(body)
    forward: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in body.ops:
        assert isinstance(op, Generic)
        kept = [k for k, v in enumerate(op.results) if v in read or op.combine[k] is not None]
        if op.into or not kept:
            kept = list(range(len(op.results)))
        fresh = op if len(kept) == len(op.results) else _with_results(op, kept)
        ops.append(fresh.rebuilt([forward.get(v, v) for v in op.operands]))
        forward.update(zip([op.results[k] for k in kept], ops[-1].results, strict=True))
    return Region(body.args, ops, [forward.get(v, v) for v in body.yields])


def _with_results(op: Generic, kept: Sequence[int]) -> Generic:
    """An op with some of its results."""
    yields = [op.body.yields[k] for k in kept]
    attrs = {
        **op.attrs,
        "maps": (*op.input_maps, *[op.yield_maps[k] for k in kept]),
        "shapes": tuple([op.shapes[k] for k in kept]),
        "combine": tuple([op.combine[k] for k in kept]),
    }
    body = Region(op.body.args, live(op.body.ops, yields), yields)
    return Generic.make(op.operands, attrs, (body,), op.loc)


def _siblings(first: Generic, second: Generic, shared: Collection[str]) -> dict[str, str] | None:
    """Dimensions of `second` to those of `first`, if they may share their loops.

    The spaces are equal, `second` reads of `first` what is there at its own point, and what both
    combine runs over the same dimensions.
    """
    if any(op.coordinates or op.indices or op.into or op.running for op in (first, second)):
        return None
    if len(first.space.iters) != len(second.space.iters):
        return None
    names = _correspondence(first, second, shared)
    if (
        names is None
        or set(names) != set(second.space.names)
        or set(names.values()) != set(first.space.names)
    ):
        return None
    reduced = [{*first.reduced(k)} for k, c in enumerate(first.combine) if c is not None]
    for k, c in enumerate(second.combine):
        if c is not None:
            reduced.append({names[n] for n in second.reduced(k)})
    if any(dimensions != reduced[0] for dimensions in reduced):
        return None
    equal = all(second.space[a].extent == first.space[b].extent for a, b in names.items())
    return names if equal else None


def _correspondence(
    first: Generic, second: Generic, shared: Collection[str]
) -> dict[str, str] | None:
    """Dimensions of `second` to those of `first`, from its reads, or else from what both read.

    The `shared` ones are the same in both. None where they don't fit together.
    """
    names: dict[str, str] = {}
    pairs = list(zip(second.operands, second.input_maps, strict=True))
    for v, m in pairs:
        if v not in first.results:
            continue
        k = first.results.index(v)
        theirs, mine = plain_names(first.yield_maps[k]), plain_names(m)
        if first.combine[k] is not None or theirs is None or mine is None:
            return None
        for a, b in zip(mine, theirs, strict=True):
            if names.setdefault(a, b) != b:
                return None
    if not names:
        names = {n: n for n in shared if n in first.space and n in second.space}
        for v, m in pairs:
            if first.operands.count(v) == 1:
                for pair in zip(m, first.input_maps[first.operands.index(v)], strict=True):
                    for a, b in zip(*[plain_names((e,)) or () for e in pair], strict=False):
                        names.setdefault(a, b)
    return names or None


def _join_bodies(first: Generic, second: Generic, names: Mapping[str, str]) -> Generic:
    binding = {a: affine.symbol(b) for a, b in names.items()}
    moved = [tuple(affine.substitute(e, binding) for e in m) for m in second.maps]
    body = Rebuilder()  # they share what is alike
    body.loc = second.loc
    args = [Value(a.type) for a in first.body.args[: len(first.operands)]]
    yielded = inline(body, first.body, args)
    inputs, maps = list(first.operands), list(first.input_maps)
    elements: list[Value] = []
    for v, m, a in zip(second.operands, moved, second.body.args, strict=False):
        if v in first.results:
            elements.append(yielded[first.results.index(v)])
        elif (v, m) in zip(inputs, maps, strict=True):
            elements.append(args[list(zip(inputs, maps, strict=True)).index((v, m))])
        else:
            inputs.append(v)
            maps.append(m)
            args.append(Value(a.type))
            elements.append(args[-1])
    results = (*yielded, *inline(body, second.body, elements))
    reduced = {n for k in range(len(second.results)) for n in second.reduced(k)}
    kinds = {names[n] for n in reduced}
    space = Space(
        Iter(i.name, i.extent, REDUCTION if i.name in kinds else i.kind) for i in first.space.iters
    )
    attrs = {
        **first.attrs,
        "space": space,
        "maps": (*maps, *first.yield_maps, *moved[len(second.operands) :]),
        "shapes": (*first.shapes, *second.shapes),
        "combine": (*first.combine, *second.combine),
    }
    loc = merge_locations(first.loc, second.loc)
    return Generic.make(inputs, attrs, (Region(args, body.ops, results),), loc)
