"""When a gather is merged into what reads it, and what is merged into a gather.

    %rows = generic(ids, x) {x[at0, c]}   %y = generic(rows, weights) {mul} add over t
    -->   %y = generic(ids, x, weights) {x[at0, c] * weights} add over t

Rows that stand where data say, and of which sums are made (an image sampled between its pixels, a
bag of words), are read by the sum: so many rows as there are terms are never written down.
"""

from __future__ import annotations

from collections.abc import Sequence

from minicc.ir import affine, affine_facts
from minicc.ir.index_maps import Map, contiguous_name, names_of, plain_names
from minicc.ir.structured import Generic


def visits_indices(gather: Generic, consumer: Generic, reads: Sequence[Map]) -> bool:
    """Whether a consumer has a point for each index that a gather reads, which so is checked.

    `reads` are the maps by which it reads what the gather gives; it is no gather itself.
    """
    (place, *others) = dict.fromkeys(reads)
    names = plain_names(gather.yield_maps[0])
    assert names is not None
    axes = [k for k, n in enumerate(names) if n in _where(gather)]
    plain = plain_names(tuple([place[k] for k in axes]))
    if consumer.indices or others or plain is None or any(n not in consumer.space for n in plain):
        return False
    pairs = zip(plain, (names[k] for k in axes), strict=True)
    return all(consumer.space[n].extent == gather.space[m].extent for n, m in pairs) and all(
        i.name in plain or affine_facts.at_least(i.extent, 1) for i in consumer.space.iters
    )


def blends_rows(gather: Generic, consumer: Generic, read: Map) -> bool:
    """Whether an op makes sums, or the like, of rows that a gather reads, element by element."""
    names = plain_names(gather.yield_maps[0])
    row = contiguous_name(gather.yield_maps[0])
    if names is None or row is None or row in _where(gather):
        return False
    element = plain_names((read[names.index(row)],))
    kept = set(element or ()) <= names_of(consumer.yield_maps[0])
    return element is not None and kept and consumer.combine != (None,)


def turns_rows(moving: Generic, gather: Generic, read: Map) -> bool:
    """Whether rows that a gather reads of a moved tensor lay across the rows of what it was."""
    names = plain_names(moving.yield_maps[0])
    assert names is not None
    binding = affine.substitution(dict(zip(names, read, strict=True)))
    row = contiguous_name(read)
    before = [tuple(map(binding, m)) for m in moving.input_maps]
    return row in gather.space.names and any(
        row in names_of(m) and contiguous_name(m) != row for m in before
    )


def _where(gather: Generic) -> frozenset[str]:
    """The dimensions along which a gather's indices differ."""
    return frozenset(n for _, k, _ in gather.indices for n in names_of(gather.maps[k]))
