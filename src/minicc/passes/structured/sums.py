"""Choose where long sums restart, so that no chain of additions is long.

    a sum over 2048 elements   -->   16 sums over 128, which are then added

Mirrors: NumPy's pairwise sums, which keep the error small as well; ours are cut into equal blocks,
whose order does not depend on threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import NamedTuple

from minicc.ir.space import REDUCTION
from minicc.ir.structured import Generic

_MOST_SOUGHT = 1 << 16  # rounds of a block for which a divisor is sought


class Cuts(NamedTuple):
    """Where the sums of one op restart: points of a block by dimension, and dimensions by round."""

    blocks: tuple[tuple[str, int], ...] = ()
    cut: tuple[str, ...] = ()


NO_CUTS = Cuts()


def cut_sums(op: Generic, tile: Mapping[str, int], chain: int, block: int) -> Cuts:
    """Cut the sums of an op so that none adds more than about `chain` terms one after the other.

    A reduction that is longer alone is cut into blocks of about `block` rounds, or of the square
    root of its length where that is more; then every loop that would make the chain too long.
    """
    blocks: list[tuple[str, int]] = []
    cut: list[str] = []
    length = 1
    for i in reversed(op.space.of_kind(REDUCTION)):
        step = tile.get(i.name, 1)
        rounds = -(-op.space.typical[i.name] // step)
        free = not isinstance(i.extent, int)
        if rounds > chain or free:
            size = block if free else _block_rounds(rounds, max(block, isqrt(rounds)))
            blocks.append((i.name, size * step))
            rounds = -(-rounds // size)
            length = 1
        if length * rounds > chain and length > 1:
            cut.append(i.name)
            length = 1
        length *= rounds
    return Cuts(tuple(blocks), tuple(cut))


def _block_rounds(rounds: int, wanted: int) -> int:
    """Near `wanted`, a divisor if there is one, so that no shorter block remains."""
    if wanted > _MOST_SOUGHT:
        return wanted
    divisors = [d for d in range(wanted // 2, 2 * wanted + 1) if rounds % d == 0]
    return min(divisors, key=lambda d: abs(d - wanted), default=wanted)
