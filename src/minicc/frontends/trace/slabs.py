"""Arrays of which each round of a loop writes another element or row, without making them anew.

    for i in range(1, n): y[i] = a * y[i - 1] + x[i]

An array that rounds write to in place is a state of the loop, all of it made anew in each round.
Where each round writes one place along an axis, another one each time, and reads none but ones that
can be told, it need not be: what is written are rows that the loop stacks, and what is read is
either as it was before the loop (a slice of which each round takes one), what this round has
written, or what one of the last few rounds wrote, which is handed on. Behind the loop all rows are
written at once, in the array's own way, so that a loop around this one may do the same. A place
that all rounds write (`c[i, j] += ...` in a loop over `k`) is handed on alone.

Everything is decided by regions of index keys (`moving.Access`); nothing is known of values.

Mirrors: scalar replacement of array references in loops (Callahan, Carr, Kennedy).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minicc.frontends.trace.indices import Index, Round
from minicc.frontends.trace.moving import Access, Along, has_parts
from minicc.ir.core import Op, Value

_HANDED = 4  # rounds back that a round may read what was written


class Slab(NamedTuple):
    """How the elements that a loop writes one by one are read and written.

    `new` is what a round writes, to `region`; `axis` moves, by `step` in a round, or all rounds
    write the same place. `same` are values
    that were read which are others; `old` are those to be cut from the array as it was, by the
    region of the whole loop; `handed` those that a number of rounds ago wrote. `sources` stand for
    the array itself, in what else is read of it.
    """

    new: Value
    region: tuple[Along, ...]
    axis: int | None
    step: int
    same: dict[Value, Value]
    old: dict[Value, tuple[Along, ...]]
    handed: dict[Value, int]
    sources: tuple[Value, ...]


def slab_of(
    number: Round, arg: Value, after: Value, accesses: Sequence[Access], ops: Sequence[Op]
) -> Slab | None:
    """How an array that is `arg` before a round and `after` it is written; None if not so."""
    puts: list[Access] = []
    source = after
    while source is not arg:
        found = next((a for a in accesses if a.new is not None and a.value is source), None)
        if found is None or found in puts:
            return None
        puts.insert(0, found)
        source = found.source
    if not puts or any(not alike(p.region, puts[0].region) for p in puts):
        return None
    region = puts[0].region
    if any(has_parts(along.start) for along in region):
        return None
    moved = [k for k, along in enumerate(region) if _factor(along.start, number)]
    if len(moved) > 1 or any(region[k].length is not None for k in moved):
        return None
    sources = (arg, *[p.value for p in puts])
    others = {a.value for a in accesses if a.new is not None and a.source in sources}
    others.difference_update(sources)  # of which nothing comes
    if any(not others.isdisjoint(op.operands) for op in ops):
        return None
    if not _only_known(sources, accesses, ops):
        return None
    axis = moved[0] if moved else None
    step = 0 if axis is None else _factor(region[axis].start, number)
    slab = Slab(puts[-1].new or arg, region, axis, step, {}, {}, {}, sources)
    for read in (a for a in accesses if a.new is None and a.source in sources):
        made = next((p.new for p in puts if p.value is read.source), None)
        if not _place(slab, number, read, made):
            return None
    return slab


def _factor(start: Any, number: Round) -> int:
    return start.terms.get(number, 0) if type(start) is Index else 0


def alike(left: Sequence[Along], right: Sequence[Along]) -> bool:
    """Whether two regions take the same in each round."""
    return all(
        a[1:] == b[1:] and _gap(a.start, b.start) == 0 for a, b in zip(left, right, strict=True)
    )


def _gap(left: Any, right: Any) -> int | None:
    """By how much one position is further than another, if it is the same in all rounds."""
    gap = left - right
    return None if type(gap) is Index else int(gap)


def _only_known(sources: Sequence[Value], accesses: Sequence[Access], ops: Sequence[Op]) -> bool:
    """Whether nothing but the accesses uses the array."""
    known = set(sources)
    allowed: set[int] = set()
    for a in accesses:
        if a.source in known:
            allowed.update(range(*a.ops))
    return all(n in allowed or known.isdisjoint(op.operands) for n, op in enumerate(ops))


def _place(slab: Slab, number: Round, read: Access, made: Value | None) -> bool:
    """Say what a read sees; False where this can't be told. `made` was written just before it."""
    back = _rounds_back(slab, number, read)
    if back == "apart":
        return _keep(slab, number, read)
    if not isinstance(back, int):
        return False
    whole = alike(
        [a for k, a in enumerate(read.region) if k != slab.axis],
        [a for k, a in enumerate(slab.region) if k != slab.axis],
    )
    if back < 0 or (back == 0 and made is None):
        return _keep(slab, number, read)  # not written yet
    if not whole:
        return False
    if made is not None and (back == 0 or slab.axis is None):
        slab.same[read.value] = made
    elif back > _HANDED:
        return False
    else:
        slab.handed[read.value] = back
    return True


def _rounds_back(slab: Slab, number: Round, read: Access) -> int | str | None:
    """How many rounds ago the place that is read was written; "apart" if by none of the loop."""
    for k, (mine, theirs) in enumerate(zip(read.region, slab.region, strict=True)):
        if k != slab.axis and _apart(number, mine, theirs):
            return "apart"
    if slab.axis is None:
        return 1 if alike(read.region, slab.region) else None
    mine, theirs = read.region[slab.axis], slab.region[slab.axis]
    gap = _gap(mine.start, theirs.start)
    if mine.length is not None or gap is None:
        return "apart" if _apart(number, mine, theirs) else None
    return "apart" if gap % slab.step else -(gap // slab.step)


def _apart(number: Round, left: Along, right: Along) -> bool:
    """Whether two stretches of an axis have no place in common, in any two rounds."""
    gap = _gap(left.start, right.start)
    if gap is not None and not _factor(left.start, number) and not _factor(right.start, number):
        return gap > _reach(right) or gap + _reach(left) < 0
    (low, high), (first, last) = (_bounds(a) for a in (left, right))
    return high < first or last < low


def _reach(along: Along) -> int:
    """From the first to the last place of a stretch."""
    return 0 if along.length is None else (along.length - 1) * along.step


def _bounds(along: Along) -> tuple[int, int]:
    """The first and last place of a stretch in all rounds."""
    start = along.start
    low, high = start.bounds() if type(start) is Index else (start, start)
    return low, high + _reach(along)


def _keep(slab: Slab, number: Round, read: Access) -> bool:
    """See what is read as it was before the loop, cut into slices where one axis moves."""
    moved = [k for k, along in enumerate(read.region) if _factor(along.start, number)]
    told = not any(has_parts(along.start) for along in read.region)
    if told and len(moved) == 1 and read.region[moved[0]].length is None:
        slab.old[read.value] = read.region
    return True


def key_of_all(region: Sequence[Along], number: Round) -> tuple[tuple[Any, ...], int, bool]:
    """The index key of what a region takes in all rounds, the axis of the rounds, and their order.

    The last says whether the first round takes the last.
    """
    axis = next(k for k, along in enumerate(region) if _factor(along.start, number))
    parts = [_part(along) for along in region]
    start = region[axis].start
    step, last = _factor(start, number), number.count - 1
    first = start.at(number, 0 if step > 0 else last)
    parts[axis] = slice(first, first + abs(step) * last + 1, abs(step))
    place = sum(along.length is not None for along in region[:axis])
    return tuple(parts), place, step < 0


def key_of_one(region: Sequence[Along], number: Round, at: int) -> tuple[Any, ...]:
    """The index key of what a region takes in one round, which may be one before the first."""
    parts = [_part(along) for along in region]
    for axis, along in enumerate(region):
        if _factor(along.start, number):
            parts[axis] = along.start.at(number, at)
    return tuple(parts)


def key_of_region(region: Sequence[Along]) -> tuple[Any, ...]:
    """The index key of what a region takes in a round."""
    return tuple(map(_part, region))


def _part(along: Along) -> Any:
    if along.length is None:
        return along.start
    if not along.length:
        return slice(0, 0)
    return slice(along.start, along.start + _reach(along) + 1, along.step)
