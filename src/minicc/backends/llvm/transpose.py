"""Rows of a matrix in registers to its columns, by shuffles of two vectors.

A matrix of n rows and m columns, both powers of two, is one sequence of n * m elements.
Interleaving its first half with its second (a perfect shuffle) turns the bits of each element's
number by one place; after log2(n) such rounds the columns stand one behind the other.

Source: Batcher's and Stone's perfect shuffle (Stone, Parallel Processing with the Perfect Shuffle,
1971).
"""

from __future__ import annotations

from collections.abc import Sequence

from minicc.backends.llvm.tiles import gathered
from minicc.backends.llvm.writer import Vec, Writer


def transpose(w: Writer, rows: Sequence[str], columns: int, element: str) -> list[str]:
    """The columns of a matrix as vectors (a single row gives scalars) from its rows."""
    n, m = len(rows), columns
    if m == 1:
        return [_join(w, list(rows), 1, element)]
    vec = Vec(m, element)
    low = [k // 2 + (k % 2) * m for k in range(m)]
    high = [k + m // 2 for k in low]
    found = list(rows)
    for _ in range(n.bit_length() - 1):
        pairs = [(found[k], found[k + n // 2]) for k in range(n // 2)]
        found = [_shuffle(w, vec, a, b, lanes) for a, b in pairs for lanes in (low, high)]
    if n >= m:
        per = n // m
        return [_join(w, found[k : k + per], m, element) for k in range(0, n, per)]
    return [_part(w, vec, v, start, n) for v in found for start in range(0, m, n)]


def _shuffle(w: Writer, vec: Vec, a: str, b: str, lanes: Sequence[int]) -> str:
    mask = ", ".join(f"i32 {k}" for k in lanes)
    return w.inst(f"shufflevector {vec} {a}, {vec} {b}, <{len(lanes)} x i32> <{mask}>")


def _join(w: Writer, parts: list[str], width: int, element: str) -> str:
    """Vectors one behind the other as one."""
    if width == 1 and len(parts) > 1:
        return gathered(w, Vec(len(parts), element), parts)
    while len(parts) > 1:
        vec, lanes = Vec(width, element), range(2 * width)
        parts = [_shuffle(w, vec, parts[k], parts[k + 1], lanes) for k in range(0, len(parts), 2)]
        width *= 2
    return parts[0]


def _part(w: Writer, vec: Vec, v: str, start: int, width: int) -> str:
    if width == 1:
        return w.inst(f"extractelement {vec} {v}, i32 {start}")
    return _shuffle(w, vec, v, "poison", range(start, start + width))
