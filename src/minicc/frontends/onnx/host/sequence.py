"""Sequences and optionals on the host: a sequence is a list of arrays, an absent optional None."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.errors import UserError
from minicc.frontends.onnx.host.registry import host_operator
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import element_type
from minicc.ir.core import Array

Sequence = list[Any]


def _position(node: Node, sequence: Sequence, position: Array | None, most: int) -> int:
    """A position counted from the front; MC0158 where it is outside."""
    at = most if position is None else int(position.reshape(()))
    counted = at + len(sequence) if at < 0 else at
    if not 0 <= counted <= most:
        text = f"{node.op}: position {at} of a sequence of {len(sequence)}"
        raise UserError("MC0158", text, where=node.name)
    return counted


@host_operator("SequenceConstruct")
def construct(node: Node, *items: Any) -> Sequence:
    """A sequence of these tensors."""
    return list(items)


@host_operator("SequenceEmpty")
def empty(node: Node) -> Sequence:
    """A sequence of nothing; its element type is checked, not kept."""
    element_type(node.integer("dtype", 1), "the sequence", node.name)
    return []


@host_operator("SequenceAt")
def at(node: Node, sequence: Sequence, position: Array) -> Any:
    """The tensor at a position."""
    return sequence[_position(node, sequence, position, len(sequence) - 1)]


@host_operator("SequenceLength")
def length(node: Node, sequence: Sequence) -> Array:
    """How many tensors there are."""
    return np.array(len(sequence), np.int64)


@host_operator("SequenceInsert")
def insert(node: Node, sequence: Sequence, item: Any, position: Array | None = None) -> Sequence:
    """The sequence with a tensor before a position, at the end without one."""
    k = _position(node, sequence, position, len(sequence))
    return [*sequence[:k], item, *sequence[k:]]


@host_operator("SequenceErase")
def erase(node: Node, sequence: Sequence, position: Array | None = None) -> Sequence:
    """The sequence without the tensor at a position, the last one without that."""
    last = len(sequence) - 1
    k = last if position is None else _position(node, sequence, position, last)
    return [*sequence[:k], *sequence[k + 1 :]]


@host_operator("SplitToSequence")
def split(node: Node, x: Array, parts: Array | None = None) -> Sequence:
    """Pieces of a tensor along an axis: of these extents, of one, or single slices."""
    axis = node.integer("axis", 0)
    extent = x.shape[axis]
    if parts is None or (not parts.ndim and parts == 1):
        pieces = np.split(x, extent, axis) if extent else []
        return pieces if node.integer("keepdims", 1) else [np.squeeze(p, axis) for p in pieces]
    if parts.ndim:
        if parts.ndim > 1 or parts.min(initial=0) < 0 or parts.sum() != extent:
            raise ValueError(f"extents {parts.tolist()} of pieces of {extent} along axis {axis}")
        return list(np.split(x, np.cumsum(parts)[:-1], axis))
    if not extent:
        return []
    return list(np.split(x, np.arange(int(parts), extent, int(parts)), axis))


@host_operator("ConcatFromSequence")
def concat(node: Node, sequence: Sequence) -> Array:
    """The tensors one after the other along an axis, or along a new one."""
    axis = node.integer("axis", 0)
    if node.integer("new_axis", 0):
        return np.stack(sequence, axis)
    return np.concatenate(sequence, axis)


@host_operator("Identity")
def identity(node: Node, value: Any) -> Any:
    """The value itself, of what no compiled part can hold."""
    return value


@host_operator("Optional")
def optional(node: Node, value: Any = None) -> Any:
    """The value, or nothing."""
    return value


@host_operator("OptionalHasElement")
def has_element(node: Node, value: Any = None) -> Array:
    """Whether there is something."""
    return np.array(value is not None)


@host_operator("OptionalGetElement")
def get_element(node: Node, value: Any) -> Any:
    """What there is; MC0158 where there is nothing."""
    if value is None:
        raise UserError("MC0158", f"{node.op}: the optional is empty", where=node.name)
    return value
