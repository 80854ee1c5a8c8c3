"""Copies that a product makes of what it multiplies, while it reads that for the first time.

    the first rows:   for k: copy[k, columns] = rhs[k, columns]; totals += lhs * rhs[k, columns]
    all other rows:   for k: totals += lhs * copy[k, columns]

What comes from far comes beside multiply-adds then, and not before all of them. BLIS and OpenBLAS
pack a block before they multiply by it; with few rows that is a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from minicc.ir.core import Value
from minicc.ir.index_maps import contiguous_name
from minicc.ir.structured import Generic, Group
from minicc.passes.structured.contraction import contraction_of


def copies_in(group: Group) -> dict[Value, Generic]:
    """The ops of a group that copy what one product alone reads, by their results.

    The product reads all that an instance has of it, in the vectors in which it is copied.
    """
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    found: dict[Value, Generic] = {}
    for op in ops:
        if group.cover or not _is_copy(op) or op.result in group.body.yields:
            continue
        readers = [reader for reader in ops if op.result in reader.operands]
        if len(readers) == 1 and _reads_whole(readers[0], op, group.shared):
            found[op.result] = op
    return found


def _is_copy(op: Generic) -> bool:
    """Whether the elements of an op's only result are those of its only operand."""
    return op.body.yields == op.body.args and op.combine == (None,) and not op.indices


def _reads_whole(reader: Generic, copy: Generic, shared: Sequence[str]) -> bool:
    """Whether a product reads a copy as its vectors, each row of it at once."""
    contraction = contraction_of(reader)
    if contraction is None or contraction.columns is None or contraction.rhs is None:
        return False
    rhs, columns = contraction.rhs, contraction.columns
    alone = [k for k, v in enumerate(reader.operands) if v is copy.result] == [rhs]
    if not alone or not reader.space.static or reader.skips:
        return False
    # a part of each row in turn would come from elsewhere in each of them
    whole = contraction.varies(rhs).difference(shared) == {*contraction.depth, columns}
    if not whole or dict(reader.tile).get(columns) != reader.space[columns].extent:
        return False
    as_it_lies = columns == copy.space.names[-1] == contiguous_name(copy.input_maps[0])
    return as_it_lies and reader.input_maps[rhs] == copy.yield_maps[0]
