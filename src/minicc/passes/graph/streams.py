"""Passes over tensors that are the same in all rounds of a loop, of which each keeps numbers alone.

    scan { %m = less %x, %edge; %s = select %m, %y, 0; %sum = reduce %s }

Rounds that do so at once read the tensors once for several rounds, which pays where no near cache
holds them and little is computed. What is between is held nowhere, however large it would be:
elementwise ops become a part of the reductions that read them (`merge`), also where one of them has
several readers (`merge_around`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from minicc.ir import affine, graph
from minicc.ir.core import Op, Value
from minicc.ir.graph.shapes import product
from minicc.ir.lengths import is_long

LARGE = 1 << 14  # elements of what a round computes, from which a round is worth a loop's
_MOST_OPS, _MOST_READERS = 12, 3  # of what is merged into reductions
_NEAR = 1 << 21  # bytes of tensors that rounds read from the nearer caches


def streamed(scan: graph.Scan, uses: Mapping[Value, Sequence[Op]]) -> Collection[Op]:
    """The ops of a body that make what is large, if all of that goes into reductions so.

    `uses` are the ops of the body that read a value.
    """
    large = [op for op in scan.body.ops if any(map(_is_large, op.results))]
    if len(large) > _MOST_OPS or not all(map(_is_quick, large)):
        return ()
    read = {v for op in large for v in op.operands}.difference(*[op.results for op in large])
    if sum(_elements(v) * v.type.dtype.bytes for v in read) <= _NEAR:
        return ()
    turning = {v for v in (*scan.body.args[: scan.first], *scan.body.yields) if _is_large(v)}
    shared = 0
    for op in large:
        readers = uses[op.result]
        shared += len(readers) > 1
        ends = all(r in large or isinstance(r, graph.Reduce) for r in readers)
        if not 0 < len(readers) <= _MOST_READERS or not ends:
            return ()
        if not turning.isdisjoint((*op.operands, *op.results)):
            return ()
    return large if shared <= 1 else ()


def _is_quick(op: Op) -> bool:
    """Whether an op is elementwise, and takes no longer than to read its operands from afar."""
    return isinstance(op, graph.Elementwise) and not is_long(op.scalar, op.operands[0].type.dtype)


def _is_large(v: Value) -> bool:
    return _elements(v) > LARGE


def _elements(v: Value) -> int:
    return affine.typical(product(v.type.shape))
