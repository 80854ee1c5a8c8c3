"""Elements that lie some steps apart in memory: whole vectors are read or written, and permuted.

A vector of every second element is two vectors of neighbours and a permutation, where a load for
each element and an insertion would be sixteen of both. Two tiles that are written to every second
place, each to those that the other leaves, are written as vectors of neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TypeGuard

from minicc.backends.llvm.instructions import shuffle
from minicc.backends.llvm.writer import Vec, Writer
from minicc.errors import CompilerBug
from minicc.ir import affine, affine_facts, kernel
from minicc.ir.affine import Dim
from minicc.ir.core import Op, Region

_LONGEST = 4  # a step, up to which permutations of whole vectors beat a load for each element
_FEWEST = 4  # elements of a vector


@lru_cache(1024)
def steps_and_start(
    at: tuple[Dim, ...], strides: tuple[Dim, ...], rank: int
) -> tuple[tuple[Dim, ...], Dim]:
    """The step in elements along each axis of a tile, and where its first element lies."""
    total = affine_facts.place(at, strides)
    axes = tuple(f"t{k}" for k in range(rank))
    split = affine_facts.linear(total, axes)
    if split is None:
        raise CompilerBug("MC0303", f"the address {total} is not linear in the tile's coordinates")
    steps, base = split
    return tuple([steps.get(axis, 0) for axis in axes]), base


def is_short(step: Dim, width: int) -> TypeGuard[int]:
    """Whether whole vectors are read for elements some steps apart, or in descending order."""
    return isinstance(step, int) and width >= _FEWEST and 0 < abs(step) <= _LONGEST


def starts(width: int, step: int) -> list[int]:
    """Where vectors begin that cover elements `step` apart: the last ends with the last of these.

    There is nothing that one could be sure to be allowed to read after it.
    """
    span = (width - 1) * step + 1
    return [*range(0, span - width, width), span - width]


def every(w: Writer, vec: Vec, pieces: Sequence[str], step: int) -> str:
    """Every step-th element of vectors that begin at `starts`; the last first if negative."""
    lanes, begin = vec.lanes, starts(vec.lanes, abs(step))
    places = [k * abs(step) for k in range(lanes)]
    piece_of = [next(j for j, start in enumerate(begin) if p < start + lanes) for p in places]
    picks = [(j, p - begin[j]) for j, p in zip(piece_of, places, strict=True)]
    found = picked(w, vec, pieces, picks)
    return found if step > 0 else shuffle(w, vec, found, "poison", range(lanes)[::-1])


def picked(w: Writer, vec: Vec, sources: Sequence[str], picks: Sequence[tuple[int, int]]) -> str:
    """The vector of which each element is that of a source, named by number, at a place."""
    used = sorted({source for source, _ in picks})
    found, lanes = sources[used[0]], vec.lanes
    at = {k: place for k, (source, place) in enumerate(picks) if source == used[0]}
    for number in used[1:] or [used[0]]:
        new = {k: lanes + place for k, (source, place) in enumerate(picks) if source == number}
        found = shuffle(
            w, vec, found, sources[number], [{**new, **at}.get(k) for k in range(lanes)]
        )
        at = {k: k for k in {*at, *new}}
    return found


def interleaved(region: Region) -> dict[Op, list[kernel.Store]]:
    """For the last of some stores that together leave nothing out, all of them, in their order.

    They follow one after the other, with as many elements from one to the next of a tile as there
    are stores. For those before the last one there are none.
    """
    found: dict[Op, list[kernel.Store]] = {}
    run: list[kernel.Store] = []
    for op in region.ops:
        run = [*run, op] if isinstance(op, kernel.Store) and _joins(run, op) else []
        if not run and isinstance(op, kernel.Store) and _step(op) is not None:
            run = [op]
        if run and len(run) == _step(run[0]):
            found.update((waits, []) for waits in run)
            found[op] = sorted(run, key=partial(_apart, run[0]))
            run = []
    return found


def _step(op: kernel.Store) -> int | None:
    """The short step of a store along its tile's last axis, beyond 1."""
    extents = op.value.type.extents
    if not extents:
        return None
    steps, _ = steps_and_start(op.at, op.buffer.type.strides, len(extents))
    step = steps[-1]
    return step if is_short(step, extents[-1]) and step > 1 else None


def _apart(first: kernel.Store, second: kernel.Store) -> int:
    """By how many elements one store's place is after another's; a large number if none fits."""
    rank = first.value.type.rank
    (_, a), (_, b) = (steps_and_start(s.at, s.buffer.type.strides, rank) for s in (first, second))
    apart = affine.add(b, affine.multiply(a, -1))
    return apart if isinstance(apart, int) else 1 << 30


def _joins(run: Sequence[kernel.Store], op: kernel.Store) -> bool:
    """Whether a store is one element or some after the first of a run, at a place of its own."""
    if not run:
        return False
    first, step = run[0], _step(run[0])
    assert step is not None
    same = first.buffer is op.buffer and first.indices == op.indices and first.within == op.within
    if not same or first.value.type != op.value.type:
        return False
    taken = [_apart(first, s) for s in run]
    here = _apart(first, op)
    every_one = [*taken, here]
    return here not in taken and max(every_one) - min(every_one) < step


def woven(w: Writer, vec: Vec, sources: Sequence[str]) -> list[str]:
    """The elements of vectors in turn, one of each, as as many vectors."""
    count, lanes = len(sources), vec.lanes
    if lanes == 1:
        return list(sources)
    rounds = [divmod(k, count)[::-1] for k in range(count * lanes)]
    return [picked(w, vec, sources, rounds[k * lanes : (k + 1) * lanes]) for k in range(count)]
