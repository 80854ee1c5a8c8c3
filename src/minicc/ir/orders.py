"""The order of elements, as whatever evaluates on the host needs it."""

from __future__ import annotations

import numpy as np

from minicc.ir.arrays import Array

_SHORT = 256  # elements a byte of which NumPy's own stable sort is as quick


def stable_order(rows: Array, descending: bool = False) -> Array:
    """The places along the last axis, first those of the least elements, or of the greatest.

    Of equal ones that with the lower place is first. NaN counts as the greatest, and f16 and bf16
    must be widened before. Long rows are sorted by 16 bits at a time, the lowest first, for which
    NumPy's stable sort is a radix sort.
    """
    length = rows.shape[-1]
    if length >= _SHORT * rows.dtype.itemsize and rows.dtype.kind in "fiu":
        return _by_digits(~_keys(rows) if descending else _keys(rows))
    if not descending:
        return np.argsort(rows, axis=-1, kind="stable")
    # the last of a stable ascending order of the mirror image is the first of the greatest
    mirrored = np.argsort(np.flip(rows, -1), axis=-1, kind="stable")
    order: Array = length - 1 - np.flip(mirrored, -1)
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


def _by_digits(keys: Array) -> Array:
    """The stable ascending order of numbers without sign, along the last axis."""
    if keys.dtype.itemsize <= 2:
        return np.argsort(keys, axis=-1, kind="stable")
    digits = keys.view("<u2").reshape(*keys.shape, keys.dtype.itemsize // 2)
    order: Array | None = None
    for k in range(digits.shape[-1]):
        digit = digits[..., k]
        if order is None:
            order = np.argsort(digit, axis=-1, kind="stable")
        elif (digit != digit[..., :1]).any():
            step = np.argsort(np.take_along_axis(digit, order, -1), axis=-1, kind="stable")
            order = np.take_along_axis(order, step, -1)
    assert order is not None
    return order
