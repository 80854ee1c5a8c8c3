"""Rows of a matrix in registers to its columns, by shuffles of two vectors.

Each round joins rows whose numbers differ in one bit, the lowest first. While what was joined fits
in 128 bits, two vectors are interleaved within their parts of 128 bits; after that such parts
change places. Each is one instruction, where a shuffle across whole vectors is two or reads its
lanes' numbers from memory.

LLVM's instruction selection looks through chains of shuffles for shorter ones, which here are none,
in a time that grows with the chain: 6.8 ms for a block of 16 x 16. A fence that costs no
instruction halves the chain, and the same instructions take 2.8 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from minicc.backends.llvm.instructions import shuffle
from minicc.backends.llvm.tiles import gathered
from minicc.backends.llvm.writer import Vec, Writer

_PART = 128  # bits

Lanes = tuple[int, ...]


class _Plan(NamedTuple):
    """The lanes of two vectors that each round takes for the first and the second of a pair.

    And where each column is then: in which vectors, and in which of their lanes.
    """

    rounds: tuple[tuple[Lanes, Lanes], ...]
    columns: tuple[tuple[tuple[int, ...], Lanes], ...]


def transpose(w: Writer, rows: Sequence[str], columns: int, element: str) -> list[str]:
    """The columns of a matrix as vectors (a single row gives scalars) from its rows.

    Both counts are powers of two.
    """
    n, m = len(rows), columns
    if m == 1:
        return [_join(w, list(rows), 1, element)]
    vec = Vec(m, element)
    part = min(m, max(1, _PART // vec.bits))
    plan = _plan(n, m, part)
    found = list(rows)
    for bit, masks in enumerate(plan.rounds):
        if bit and 1 << bit == part and vec.is_float:
            fence = f"llvm.arithmetic.fence.{vec.suffix}"
            found = [w.intrinsic(fence, vec, (vec, row)) for row in found]
        for k in range(n):
            if not k >> bit & 1:
                pair = found[k], found[k | 1 << bit]
                found[k], found[k | 1 << bit] = (shuffle(w, vec, *pair, lanes) for lanes in masks)
    return [
        _part(w, vec, found[vectors[0]], lanes)
        if n <= m
        else _join(w, [found[k] for k in vectors], m, element)
        for vectors, lanes in plan.columns
    ]


def turned(w: Writer, rows: Sequence[str], row: Vec) -> tuple[Vec, list[str]]:
    """The columns of a matrix of any size as vectors, and their type, which may have more lanes."""
    lanes, width = len(rows), 1 << (row.lanes - 1).bit_length()
    if width > 1:
        lanes = 1 << (lanes - 1).bit_length()
    if width > row.lanes:
        more = [*range(row.lanes), *[None] * (width - row.lanes)]
        rows = [shuffle(w, row, r, "poison", more) for r in rows]
    columns = transpose(w, [*rows, *["poison"] * (lanes - len(rows))], width, row.element)
    return Vec(lanes, row.element), columns[: row.lanes]


@cache
def _plan(n: int, m: int, part: int) -> _Plan:
    """How n rows of m elements are turned, where `part` elements are interleaved together."""
    rounds: list[tuple[Lanes, Lanes]] = []
    at = [[(row, column) for column in range(m)] for row in range(n)]
    for bit in range(min(n, m).bit_length() - 1):
        masks = _interleaved(1 << bit, m, part) if 1 << bit < part else _exchanged(m, part)
        rounds.append(masks)
        for k in range(n):
            if not k >> bit & 1:
                both = at[k] + at[k | 1 << bit]
                at[k], at[k | 1 << bit] = ([both[lane] for lane in lanes] for lanes in masks)
    where = {place: (k, lane) for k, places in enumerate(at) for lane, place in enumerate(places)}
    columns = [[where[row, column] for row in range(n)] for column in range(m)]
    return _Plan(
        tuple(rounds),
        tuple(
            (tuple(dict.fromkeys(k for k, _ in found)), tuple(lane for _, lane in found))
            for found in columns
        ),
    )


def _interleaved(run: int, m: int, part: int) -> tuple[Lanes, Lanes]:
    """Runs of two vectors in turns: those of the lower half of each part, and of the upper."""
    lower = [
        start + vector
        for first in range(0, m, part)
        for block in range(first, first + part // 2, run)
        for vector in (0, m)
        for start in range(block, block + run)
    ]
    return tuple(lower), tuple(lane + part // 2 for lane in lower)


def _exchanged(m: int, part: int) -> tuple[Lanes, Lanes]:
    """Every second part of one vector and of the other, from the first and from the second on."""
    even = [
        vector + first + k
        for vector in (0, m)
        for first in range(0, m, 2 * part)
        for k in range(part)
    ]
    return tuple(even), tuple(lane + part for lane in even)


def _join(w: Writer, parts: list[str], width: int, element: str) -> str:
    """Vectors one after the other as one."""
    if width == 1 and len(parts) > 1:
        return gathered(w, Vec(len(parts), element), parts)
    while len(parts) > 1:
        vec, lanes = Vec(width, element), range(2 * width)
        parts = [shuffle(w, vec, parts[k], parts[k + 1], lanes) for k in range(0, len(parts), 2)]
        width *= 2
    return parts[0]


def _part(w: Writer, vec: Vec, v: str, lanes: Lanes) -> str:
    if lanes == tuple(range(vec.lanes)):
        return v
    if len(lanes) == 1:
        return w.inst(f"extractelement {vec} {v}, i32 {lanes[0]}")
    return shuffle(w, vec, v, "poison", lanes)
