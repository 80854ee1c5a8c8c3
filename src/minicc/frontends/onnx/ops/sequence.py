"""Sequences of tensors that are known at import, and optionals that are tensors: neither is there.

What is read of such a sequence is a tensor of the graph, and the sequence itself, which the host
would hold, vanishes unless something else uses it. Known are the tensors, one by one, or a stack of
which they are the rows (see `lists`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.movement import cut, moved, pick
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import multiply
from minicc.ir.core import Value
from minicc.ir.types import OPAQUE


@dataclass(frozen=True, slots=True)
class Rows:
    """As many tensors as a stack of them has rows."""

    stack: Value


class Appended(NamedTuple):
    """A tensor that a round appends to a sequence, if `kept` holds (None: always)."""

    tensor: Value
    kept: Value | None = None


@dataclass(frozen=True, slots=True)
class Grown:
    """A sequence that a round takes, and what it has appended to it."""

    base: Value
    appended: tuple[Appended, ...] = ()


Items = tuple[Value, ...] | Rows | Grown
Operands = Sequence[Value | None]
_MOST_ITEMS = 256  # that a tensor is split into at import


@operator("OptionalHasElement")
def has_element(ctx: Context, node: Node, x: Value | None = None) -> Value:
    """Whether there is something, as there is of a tensor."""
    return ctx.constant(np.array(x is not None))


@operator("OptionalGetElement")
def get_element(ctx: Context, node: Node, x: Value) -> Value:
    """What there is: of a tensor itself."""
    return x


def items_of(
    ctx: Context, node: Node, operands: Operands, known: Mapping[Value, Items]
) -> Items | None:
    """The tensors of the sequence that a node makes, where these are known at import."""
    if node.op == "SequenceEmpty":
        return ()
    if node.op == "SequenceConstruct":
        return tuple(v for v in operands if v is not None)
    first, *rest = operands or (None,)
    if node.op == "SplitToSequence":
        return None if first is None else _split(ctx, node, first, rest[0] if rest else None)
    items = known.get(first) if first is not None else None
    if items is None or node.op not in ("Identity", "SequenceInsert", "SequenceErase"):
        return None
    if node.op == "Identity":
        return items
    if not isinstance(items, tuple):
        appends = node.op == "SequenceInsert" and len(rest) == 1
        return _appended(ctx, items, rest[0]) if appends else None
    inserts = node.op == "SequenceInsert"
    last = len(items) if inserts else len(items) - 1
    k = _place(ctx, rest[inserts] if len(rest) > inserts else None, len(items), last)
    if k is None:
        return None
    if not inserts:
        return (*items[:k], *items[k + 1 :])
    return None if rest[0] is None else (*items[:k], rest[0], *items[k:])


def read_from(
    ctx: Context, node: Node, operands: Operands, known: Mapping[Value, Items]
) -> Value | None:
    """What a node reads of a sequence whose tensors are known; None where the host must say it."""
    read = _READ.get(node.op)
    items = known.get(operands[0]) if read and operands and operands[0] is not None else None
    return None if read is None or items is None else read(ctx, node, items, operands)


def _appended(ctx: Context, items: Rows | Grown, x: Value | None) -> Items | None:
    """A sequence with a tensor more at its end."""
    if x is None or x.type.dtype is OPAQUE:
        return None
    if isinstance(items, Grown):
        return Grown(items.base, (*items.appended, Appended(x)))
    return stacked(ctx, (items, x))


def stacked(ctx: Context, parts: Sequence[Rows | Value]) -> Rows | None:
    """The tensors of all parts as rows; None where they are not all of one type."""
    stacks = [
        p.stack if isinstance(p, Rows) else ctx.reshape(p, (1, *p.type.shape))
        for p in parts
        if isinstance(p, Rows) or p.type.dtype is not OPAQUE
    ]
    kinds = {(s.type.dtype, s.type.shape[1:]) for s in stacks}
    if len(stacks) < len(parts) or len(kinds) != 1:
        return None
    return Rows(stacks[0] if len(stacks) == 1 else ctx.emit(graph.Concat, tuple(stacks), axis=0))


def _place(ctx: Context, position: Value | None, count: int, last: int) -> int | None:
    """A position counted from the front, or the last; None where it is not known, or outside."""
    if position is None:
        return last if last >= 0 else None
    if position.type.dtype is not OPAQUE and not position.type.dtype.is_integer:
        raise ctx.wrong(f"its position is {position.type.dtype}, not an integer")
    found = ctx.array(position)
    if found is None or found.size != 1:
        return None
    k = int(found.reshape(()))
    k += count if k < 0 else 0
    return k if 0 <= k <= last else None


def without_parts_of_1(ctx: Context, node: Node, operands: Operands) -> tuple[Node, Operands]:
    """A SplitToSequence into parts of 1 as one that names no parts, and others as they are.

    ONNX says that `keepdims` counts where no parts are named; for ONNX Runtime, and for PyTorch,
    which writes `unbind` so, it counts with parts of 1, too.
    """
    if node.op == "SplitToSequence" and len(operands) > 1:
        parts = ctx.array(operands[1])
        if parts is not None and not parts.ndim and parts == 1:
            return replace(node, inputs=node.inputs[:1]), operands[:1]
    return node, operands


def _split(ctx: Context, node: Node, x: Value, parts: Value | None) -> Items | None:
    """Pieces of a tensor along an axis: of these extents, of one, or single slices."""
    axis = node.integer("axis", 0)
    axis += x.type.rank if axis < 0 else 0
    n = x.type.shape[axis] if x.type.dtype is not OPAQUE and 0 <= axis < x.type.rank else None
    sizes = None if parts is None else ctx.array(parts)
    known = sizes is not None and sizes.ndim < 2 and sizes.dtype.kind in "iu"
    if parts is None and n is not None and (not isinstance(n, int) or n > _MOST_ITEMS):
        kept = (*x.type.shape[:axis], 1, *x.type.shape[axis + 1 :])
        stack = moved(ctx, x, axis, 0)
        return Rows(ctx.reshape(stack, (n, *kept)) if node.integer("keepdims", 1) else stack)
    if not isinstance(n, int) or (parts is not None and not known):
        return None
    step = 1 if sizes is None else int(sizes.reshape(-1)[0]) if sizes.size == 1 else 0
    if sizes is not None and sizes.ndim:
        ends = list(accumulate(map(int, sizes)))
        if ends[-1:] != [n] or sizes.min() < 0:
            return None
    elif step < 1 or n > step * _MOST_ITEMS:
        return None
    else:
        ends = [min(end, n) for end in range(step, n + step, step)]
    if len(ends) > _MOST_ITEMS:
        return None
    pieces = [cut(ctx, x, {axis: (a, b, 1)}) for a, b in pairwise([0, *ends])]
    if parts is not None or node.integer("keepdims", 1):
        return tuple(pieces)
    shape = (*x.type.shape[:axis], *x.type.shape[axis + 1 :])
    return tuple(ctx.reshape(piece, shape) for piece in pieces)


def _at(ctx: Context, node: Node, items: Items, operands: Operands) -> Value | None:
    """The tensor at a position."""
    position = operands[1] if len(operands) > 1 else None
    if position is None or isinstance(items, Grown):
        return None
    if isinstance(items, tuple):
        k = _place(ctx, position, len(items), len(items) - 1)
        if k is not None:
            return items[k]
        if ctx.array(position) is not None:
            return None  # there is none, which the host tells
    rows = items if isinstance(items, Rows) else stacked(ctx, items) if items else None
    scalar = position.type.dtype.is_integer and position.type.shape in ((), (1,))
    return pick(ctx, rows.stack, ctx.reshape(position, ()), 0) if rows and scalar else None


def _length(ctx: Context, node: Node, items: Items, operands: Operands) -> Value | None:
    """How many tensors there are."""
    if isinstance(items, Grown):
        return None
    count = items.stack.type.shape[0] if isinstance(items, Rows) else len(items)
    return ctx.of_dims(np.array(count, object))


def _joined(ctx: Context, node: Node, items: Items, operands: Operands) -> Value | None:
    """The tensors one after the other along an axis, or along a new one."""
    new = node.integer("new_axis", 0)
    if isinstance(items, Grown):
        return None
    if isinstance(items, Rows):
        count, *shape = items.stack.type.shape
        axis = ctx.axes((node.integer("axis", 0),), len(shape) + bool(new))[0]
        whole = moved(ctx, items.stack, 0, axis)
        if new:
            return whole
        return ctx.reshape(whole, (*shape[:axis], multiply(count, shape[axis]), *shape[axis + 1 :]))
    if not items or any(v.type.dtype is OPAQUE for v in items):
        return None
    axis = ctx.axes((node.integer("axis", 0),), items[0].type.rank + bool(new))[0]
    if new:
        shapes = [v.type.shape for v in items]
        pairs = zip(items, shapes, strict=True)
        items = tuple(ctx.reshape(v, (*s[:axis], 1, *s[axis:])) for v, s in pairs)
    return ctx.emit(graph.Concat, items, axis=axis)


_READ: dict[str, Callable[[Context, Node, Items, Operands], Value | None]] = {
    "SequenceAt": _at,
    "SequenceLength": _length,
    "ConcatFromSequence": _joined,
}
