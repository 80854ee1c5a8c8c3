"""Operators of ONNX Runtime's own domain on the host."""

from __future__ import annotations

import numpy as np

from minicc.frontends.onnx.host.registry import host_operator
from minicc.frontends.onnx.host.text import each, texts
from minicc.frontends.onnx.model.reader import Node
from minicc.ir.core import Array

_DOMAIN = "com.microsoft"
_FIRST, _SECOND, _ADDED = 0xCC9E2D51, 0x1B873593, 0xE6546B64
_MASK = 0xFFFFFFFF


@host_operator(f"{_DOMAIN}.Inverse")
def inverse(node: Node, x: Array) -> Array:
    """The inverses of square matrices."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    try:
        return np.asarray(np.linalg.inv(wide)).astype(x.dtype)
    except np.linalg.LinAlgError as error:
        raise ValueError(str(error)) from error


@host_operator(f"{_DOMAIN}.Unique")
def unique(node: Node, x: Array) -> tuple[Array, Array, Array]:
    """The elements in the order of first places, which each element is, and how often they are."""
    _, first, place, counts = np.unique(
        x.reshape(-1), return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    rank = np.argsort(order)
    found = (x.reshape(-1)[first[order]], rank[place.reshape(-1)], counts[order])
    return found[0], found[1].astype(np.int64), found[2].astype(np.int64)


@host_operator(f"{_DOMAIN}.MurmurHash3")
def murmur_hash(node: Node, x: Array) -> Array:
    """A number of 32 bits for the bytes of each element: MurmurHash3 of a seed."""
    seed = node.integer("seed", 0) & _MASK
    given = texts(x) if x.dtype.kind in "OUS" else x

    def of(value: object) -> int:
        data = value.encode() if isinstance(value, str) else np.asarray(value, x.dtype).tobytes()
        return _hash(data, seed)

    found = each(of, np.uint32, given)
    return found if node.integer("positive", 1) else found.view(np.int32)


def _turned(x: int, by: int) -> int:
    return ((x << by) | (x >> (32 - by))) & _MASK


def _mixed(block: int) -> int:
    return _turned(block * _FIRST & _MASK, 15) * _SECOND & _MASK


def _hash(data: bytes, seed: int) -> int:
    whole = len(data) // 4 * 4
    state = seed
    for at in range(0, whole, 4):
        state ^= _mixed(int.from_bytes(data[at : at + 4], "little"))
        state = (_turned(state, 13) * 5 + _ADDED) & _MASK
    if whole < len(data):
        state ^= _mixed(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ (state >> shift)) * factor & _MASK
    return state ^ (state >> 16)
