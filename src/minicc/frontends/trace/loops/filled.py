"""Lists that captured loops have filled, and what their elements are.

The elements of such a list make up an array. An element is a row of it, a Python number that a row
holds, or a list or tuple of these; `Like` says which, so that an element can be made of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from minicc.frontends.trace.loops.rows import Row, row_of
from minicc.frontends.trace.mixed import is_mixed
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.pytree import leaves
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer

Like = tuple[Any, ...]  # (Tracer, scalar), (Number, kind, counts), or (list or tuple, their likes)


class Whole(NamedTuple):
    """A list that a loop has filled, as it left it, and the array that its elements make up."""

    filled: Any
    elements: Sequence[Any]
    versions: Sequence[int]
    array: Tracer
    like: Like | None  # what all elements are, if they are alike

    def holds(self) -> bool:
        """Whether the list is as the loop left it, and so are elements that are no rows."""
        same = len(self.filled) == len(self.elements)
        same = same and all(a is b for a, b in zip(self.filled, self.elements, strict=True))
        return same and self.versions == versions_of(self.elements, self.array)


def flat_list(recorder: Recorder, x: Any) -> Whole | None:
    """What is known of a list that loops have filled, with rows or numbers that are alike.

    None where it is not as they left it, and for all others.
    """
    known: Whole | None = recorder.lists.get(id(x))
    return known if known is not None and known.holds() and is_flat(known.like) else None


def versions_of(elements: Iterable[Any], array: Tracer) -> list[int]:
    """How often those were written to that are arrays of their own."""
    boxes = [x for x in elements if isinstance(x, Tracer)]
    roots = [x.array.root if isinstance(x, Row) and x.scalar else x.root for x in boxes]
    return [root.version for root in roots if root is not array.root]


def like_of(item: Any) -> Like | None:
    """What an element is; None where it is not made of a row of an array."""
    if isinstance(item, Tracer):
        return Tracer, item.scalar
    if type(item) is Number and item.term is None and item.mixed is None:
        return Number, item.kind, item.counts
    if type(item) in (list, tuple):
        parts = [like_of(part) for part in item]
        return None if None in parts else (type(item), *parts)
    return None


def common(likes: Sequence[Like | None]) -> Like | None:
    """What all are, if they are alike."""
    return likes[0] if len({*likes}) == 1 else None


def is_flat(like: Like | None) -> bool:
    """Whether elements are rows or numbers, not made of several."""
    return like is not None and like[0] in (Tracer, Number)


def is_fixed(like: Like | None) -> bool:
    """Whether nobody can change an element but by writing to its array."""
    flat = is_flat(like)
    return flat or (like is not None and like[0] is tuple and all(map(is_fixed, like[1:])))


def element(like: Like, array: Tracer, number: int) -> Any:
    """The element that a row of an array makes up; the row is not taken yet where it is one."""
    if not is_flat(like):
        return made(like, array[number])
    row = Row(array, number, like[0] is Number or like[1])
    return Number(row, *like[1:]) if like[0] is Number else row


def made(like: Like, row: Tracer) -> Any:
    """The element that a row makes up."""
    if like[0] is Tracer and row.scalar and not like[1]:
        return Dispatch.call(row.recorder, "reshape", (row, ()), {})
    if like[0] is Tracer:
        return row
    if like[0] is Number:
        return Number(row, *like[1:])
    return like[0](element(part, row, k) for k, part in enumerate(like[1:]))


def pieces_of(item: Any) -> list[Any]:
    """The leaves of an element; after one that is Python's or NumPy's the truth which it is."""
    found = leaves(item)
    if not any(map(is_mixed, found)):
        return found
    return [p for x in found for p in ((x, x.mixed.theirs) if is_mixed(x) else (x,))]


class Run(NamedTuple):
    """All rows of an array that a loop within has stacked: what it has appended in a round."""

    array: Tracer
    like: Like


def in_runs(items: Sequence[Any]) -> list[Any]:
    """Elements, and runs of them that are all rows of an array one after the other."""
    found: list[Any] = []
    rows = [row_of(x) for x in items]
    k = 0
    while k < len(items):
        row = rows[k]
        count = len(row.array) if row is not None and row.number == 0 else 0
        run = rows[k : k + count]
        same = len(run) == count and all(
            r is not None and row is not None and r.array is row.array and r.number == j
            for j, r in enumerate(run)
        )
        if count > 1 and same and row is not None:
            like = like_of(items[k])
            assert like is not None
            found.append(Run(row.array, like))
            k += count
        else:
            found.append(items[k])
            k += 1
    return found
