"""Judge whether an op joins a group, in words, with the numbers that decide.

What an instance could not compute is firm; what would only be slow may be asked for all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from minicc.ir import affine
from minicc.ir.core import Value
from minicc.ir.index_maps import Map, plain_names
from minicc.ir.space import PARALLEL, Space
from minicc.ir.structured import Generic
from minicc.passes.structured.contraction import Contraction, contraction_of
from minicc.passes.structured.draft import lanes_of, own_vectors
from minicc.passes.structured.fusion_plan import Draft, Member, Verdict, length_of
from minicc.target import Target

_FEW = 8  # results of a product that others take together
_BLOCK_OF_ROWS, _MANY_ROWS = 8, 32  # rows that an instance has at once, and that make it worthwhile
_LONGEST = 512  # instructions of a group, about: beside so many, what passes through memory is free
_MOST_PASSED = 1 << 20  # bytes that an instance may have for what ops pass on, whoever asks


def judge(draft: Draft, op: Generic, aligned: Mapping[str, str], target: Target) -> Verdict:
    """Whether joining pays: nothing heavy loses its parallelism, what is passed on stays near.

    `aligned` says which dimension of the op is which shared one of the draft.
    """
    verdict = _judged(draft, op, aligned, target)
    return _if_short(verdict, draft.length + length_of(op))


def judge_beside(
    joined: Draft,
    draft: Draft,
    op: Generic,
    aligned: Mapping[str, str],
    same: Mapping[str, str],
    target: Target,
) -> Verdict:
    """Whether a draft joins another one that an op, which reads both, has joined.

    `aligned` says which dimension of the op is which shared one of the draft, and `same` which of
    these is which of the other draft. All that either shares they have to share.
    """
    if any(m.contraction for m in (*joined.members, *draft.members)):
        return _firm("it has joined a later group it reads from, and one of the two has products")
    theirs = {n for n, e in draft.shared.items() if e != 1}
    shared = {n for n, e in joined.shared.items() if e != 1}
    if {same.get(n) for n in theirs} != shared:
        return _firm("it has joined a later group it reads from, which shares other dimensions")
    verdict = judge(draft, op, aligned, target)
    return _if_short(verdict, joined.length + draft.length)


def _if_short(verdict: Verdict, length: int) -> Verdict:
    """The verdict on ops that have so many instructions together."""
    if verdict.fused and length > _LONGEST:
        return _no(f"together they have {length} instructions, and {_LONGEST} are the most")
    return verdict


def _judged(draft: Draft, op: Generic, aligned: Mapping[str, str], target: Target) -> Verdict:
    """The same whatever the length of the code."""
    kept = set(aligned.values())
    lost = _lost(draft, kept)
    products = [m for m in draft.members if m.contraction]
    contraction = contraction_of(op)
    if contraction:
        if len(products) != 1 or any(n not in kept for n in draft.shared):
            return _firm("a product follows but one product, all of whose shared rows it has")
        return _continues_rows(draft, contraction, aligned, target)
    if products:
        return _after_product(products, op, kept, lost, target)
    return _after_rows(draft, op, aligned, target)


def _after_rows(draft: Draft, op: Generic, aligned: Mapping[str, str], target: Target) -> Verdict:
    """Whether an op joins a group without products."""
    kept = set(aligned.values())
    lost = _lost(draft, kept)
    turned = _turned(draft, op, aligned, target)
    passed = max(
        prod(e for n, e in m.op.space.typical.items() if m.names[n] not in kept)
        * _at_once(m.op)
        * turned.get(m, 1)
        for m in draft.members
    )
    held = passed if lost or turned else _held(draft, op, kept)
    # one instance is one thread's
    if held > (_MOST_PASSED if draft.shared else _scratch(target)):
        return _firm(f"an instance would hold {held} bytes of what is passed on")
    if _inside_out(draft, op, aligned):
        return _no("its outer dimensions would run within inner ones, for what is a table to it")
    if not lost and not turned:
        return _yes(f"they share {_list(draft.shared)}")
    along = lost or [n for m in turned for n in m.names.values() if n not in kept]
    what = f"{passed} bytes are passed on along {_list(along)}"
    if passed <= _scratch(target):
        return _yes(f"{what}, and {_scratch(target)} stay in the nearer caches")
    return _no(f"{what}, and {_scratch(target)} stay in the nearer caches", "a smaller extent")


def _after_product(
    products: list[Member], op: Generic, kept: set[str], lost: list[str], target: Target
) -> Verdict:
    """Whether an op joins a group with products."""
    if lost:
        first, *more = products
        if more:
            return _firm(f"the group has {len(products)} products, and {_list(lost)} would be lost")
        if apart := _apart(first, kept):
            return _no(f"along {_list(apart)} stand products of their own, which threads share")
        if _few_of_each(first, kept):
            return _yes(f"the product has {_FEW} results of each column at most, which may wait")
        return _keeps_rows(first, kept, target)
    mine, theirs = _points(op.space), max(_points(m.op.space) for m in products)
    if mine <= theirs:
        return _yes(f"it has {mine} points beside the product's {theirs}")
    return _no(f"it has {mine} points, and the product {theirs}: it would hold the product up")


def _lost(draft: Draft, kept: set[str]) -> list[str]:
    """The shared dimensions of a draft that an op does not keep."""
    return [n for n, e in draft.shared.items() if n not in kept and e != 1]


def _yes(reason: str) -> Verdict:
    return Verdict(True, reason)


def _no(reason: str, remedy: str = "") -> Verdict:
    return Verdict(False, reason, remedy)


def _firm(reason: str) -> Verdict:
    return Verdict(False, reason, firm=True)


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "no dimension"


def _bytes(op: Generic) -> int:
    """The bytes of an element of an op's first result."""
    return int(op.results[0].type.dtype.bytes)


def _at_once(op: Generic) -> int:
    """The bytes that an op writes to its first result at each of its points."""
    return len(op.maps_of(0)) * _bytes(op)


def _held(draft: Draft, op: Generic, kept: set[str]) -> int:
    """The most bytes of one result that an instance keeps for an op of a later round than its own.

    Ops of one round may share their loops. What reads a total, or at another point than its own, is
    of the next round.
    """
    makers = {v: m for m in draft.members for v in m.op.results}
    rounds: dict[Value, int] = {}
    reads: list[tuple[Value, Map]] = []
    mine = 0
    for reader in (*(m.op for m in draft.members), op):
        reads = [p for p in zip(reader.operands, reader.input_maps, strict=True) if p[0] in rounds]
        mine = max((rounds[v] + _ends(makers[v].op, v, at, reader) for v, at in reads), default=0)
        rounds.update(dict.fromkeys(reader.results, mine))
    return max((_row(makers[v], kept) for v, _ in reads if rounds[v] < mine), default=0)


def _ends(maker: Generic, value: Value, read: Map, reader: Generic) -> bool:
    """Whether all of a result is there before an op reads the first of it."""
    total = maker.combine[maker.results.index(value)] is not None
    apart = any(o.indices or o.coordinates for o in (maker, reader))
    return total or apart or plain_names(read) is None


def _row(m: Member, kept: set[str]) -> int:
    """The bytes of a member's result that one instance makes."""
    sizes = m.op.space.typical
    own = [i.name for i in m.op.space.iters if i.kind == PARALLEL]
    return prod(sizes[n] for n in own if m.names[n] not in kept) * _at_once(m.op)


def _scratch(target: Target) -> int:
    """Bytes that may pass between the ops of one instance: what fits the first two caches."""
    return target.resident // 4


def _near(target: Target) -> int:
    """Bytes that every block of rows reads again: what stays in the second cache."""
    return target.resident // 2


def _turned(
    draft: Draft, op: Generic, aligned: Mapping[str, str], target: Target
) -> dict[Member, int]:
    """The members whose vectors are along a shared dimension along which an op has none.

    With the elements of such a vector: an instance makes so many rows at once for the op.
    """
    mine = op.yield_vectors[0]
    if mine is None or op.space[mine].extent == 1 or mine in aligned:
        return {}
    found = ((m, own_vectors(m.op, op, lanes_of(m.op, target))) for m in draft.members)
    return {
        m: min(m.op.space.typical[name], lanes_of(m.op, target))
        for m, name in found
        if name is not None and m.names[name] in aligned.values()
    }


def _inside_out(draft: Draft, op: Generic, aligned: Mapping[str, str]) -> bool:
    """Whether an op would run its outer dimensions within inner ones, for a table they all share.

    A row of factors, say, that each plane of an image is multiplied by, is a table.
    """
    extents = op.space.typical
    kept = [n in aligned for n in plain_names(op.yield_maps[0]) or () if extents[n] != 1]
    sizes = [prod(map(affine.typical, v.type.shape)) for v in draft.defines]
    sizes += [_points(m.op.space) for m in draft.members]
    return max(sizes) < _points(op.space) and kept != sorted(kept, reverse=True)


def _keeps_rows(member: Member, kept: set[str], target: Target) -> Verdict:
    """Whether a product's rows may wait in cache, each whole, for ops that reduce along them.

    So the scores of attention do for their soft-max: the rows are many, and what all of them are
    multiplied by stays near.
    """
    assert member.contraction is not None
    op, extents, vector = member.op, member.op.space.typical, member.contraction.columns
    wide = member.contraction.varies(member.contraction.rhs)
    parallel = [i.name for i in op.space.of_kind(PARALLEL) if extents[i.name] != 1]
    lost = [n for n in parallel if member.names[n] not in kept]
    if vector is None or lost != [vector]:
        return _firm(f"the product's {_list(lost)} would wait, and only its columns may")
    rows = min([extents[n] for n in parallel if n not in wide], default=0)
    near, row = _rest(op, member.names, kept) * _bytes(op), extents[vector] * _bytes(op)
    if rows < _MANY_ROWS:
        return _no(f"{rows} rows meet the same columns, and {_MANY_ROWS} make it pay", "more rows")
    if near > _near(target):
        text = f"all rows would be multiplied by {near} bytes, and {_near(target)} stay near"
        return _no(text, "a larger second cache, or fewer columns")
    if row * _BLOCK_OF_ROWS > _scratch(target):
        wait = row * _BLOCK_OF_ROWS
        text = f"{_BLOCK_OF_ROWS} rows have {wait} bytes, and {_scratch(target)} stay near"
        return _no(text, "fewer columns")
    return _yes(f"{rows} rows wait whole, {row} bytes each, and {near} bytes stay near")


def _apart(member: Member, kept: set[str]) -> list[str]:
    """The dimensions that are not kept along which a product has matrices of their own."""
    assert member.contraction is not None
    product, extents = member.contraction, member.op.space.typical
    both = (product.varies(product.lhs) & product.varies(product.rhs)) - {product.columns}
    parallel = [i.name for i in member.op.space.of_kind(PARALLEL) if i.name in both]
    return [n for n in parallel if extents[n] != 1 and member.names[n] not in kept]


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
) -> Verdict:
    """Whether a product of a draft's whole rows with something that stays near may follow them."""
    first, op = draft.members[0], product.op
    before = first.contraction and first.contraction.columns
    if first.contraction is None or before is None:
        return _firm("the group does not begin with a product that has columns")
    if first.names[before] in draft.shared or first.op.space[before].extent == 1:
        return _firm("a product follows one whose rows wait whole, and this one's do not")
    among = first.contraction.varies(first.contraction.rhs)
    inside = [v in draft.defines for v in op.operands]
    continues = (
        inside.count(True) == 1
        and product.columns not in aligned
        and product.columns not in product.varies(inside.index(True))
        and {aligned[n] for n in product.varies(product.rhs) if n in aligned}
        <= {first.names[n] for n in among}
    )
    if not continues:
        return _firm("it does not multiply the group's rows by what all of them meet")
    near = _rest(op, aligned, set(aligned.values())) * _bytes(op)
    if near > _near(target):
        text = f"it multiplies each row by {near} bytes, and {_near(target)} stay near"
        return _no(text, "a larger second cache")
    return _yes(f"it multiplies rows that wait by {near} bytes, which stay near")


def _rest(op: Generic, names: Mapping[str, str], kept: set[str]) -> int:
    """The points of an op at one place of the kept dimensions."""
    return prod(e for n, e in op.space.typical.items() if names.get(n) not in kept)


def _points(space: Space) -> int:
    return prod(space.typical.values())
