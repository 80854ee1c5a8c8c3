"""The order of elements, as whatever evaluates on the host needs it."""

from __future__ import annotations

import numpy as np

from minicc.ir.arrays import Array

_SHORT = 256  # elements, of which NumPy's own stable sort is as quick


def stable_order(rows: Array, descending: bool = False) -> Array:
    """The places along the last axis, first those of the least elements, or of the greatest.

    Of equal ones that with the lower place is first. NaN counts as the greatest, and f16 and bf16
    must be widened before. Numbers that hold an element and, below it, its place are sorted, which
    NumPy does in vectors, where it has no stable sort of that kind.
    """
    if rows.size >= _SHORT and rows.dtype.kind in "fiu":
        return _by_keys(~_keys(rows) if descending else _keys(rows))
    if not descending:
        return np.argsort(rows, axis=-1, kind="stable")
    # the last of a stable ascending order of the mirror image is the first of the greatest
    mirrored = np.argsort(np.flip(rows, -1), axis=-1, kind="stable")
    order: Array = rows.shape[-1] - 1 - np.flip(mirrored, -1)
    return order


def _keys(x: Array) -> Array:
    """Numbers without sign that are ordered as elements are, of the same size."""
    kind, size = x.dtype.kind, x.dtype.itemsize
    if kind == "u":
        return np.ascontiguousarray(x, f"<u{size}")
    sign = np.array(-1 << (8 * size - 1), f"<i{size}")
    if kind == "f":
        x = x + x.dtype.type(0)  # -0 is 0
        if np.isnan(x).any():
            x[np.isnan(x)] = np.nan  # of which there are many, some with a sign
    bits = np.ascontiguousarray(x).view(f"<i{size}")
    turned = bits >> (8 * size - 1) | sign if kind == "f" else sign
    keys: Array = (bits ^ turned).view(f"<u{size}")
    return keys


def _by_keys(keys: Array) -> Array:
    """The stable ascending order of numbers without sign, along the last axis.

    Where they have no room for a place, the lowest bits give way to it. Where elements differ in
    these alone and are not in order then, the row is sorted anew.
    """
    if keys.dtype.itemsize <= 2:
        return np.argsort(keys, axis=-1, kind="stable")
    length = keys.shape[-1]
    bits = max(1, (length - 1).bit_length())
    least = keys.min()
    exact = int(keys.max() - least) >> (64 - bits) == 0
    mask = np.uint64((1 << bits) - 1)
    wide = (keys - least).astype(np.uint64) << np.uint64(bits) if exact else keys & ~mask
    wide |= np.arange(length, dtype=np.uint64)
    wide.sort(axis=-1)
    wide &= mask
    order: Array = wide.view(np.int64)
    if not exact:
        rows = keys.reshape(-1, length)
        first = np.arange(0, rows.size, length).reshape(-1, 1)
        placed = rows.reshape(-1)[order.reshape(rows.shape) + first]
        wrong = (placed[:, 1:] < placed[:, :-1]).any(axis=1)
        if wrong.any():
            order.reshape(rows.shape)[wrong] = np.argsort(rows[wrong], axis=1, kind="stable")
    return order
