"""Run a kernel by hand and look at what its instances do to memory.

A fault is told by the line that has it: an access outside of a buffer, an element that two
instances write differently, an output's element that is read before the instance wrote it, or that
nobody writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minicc.errors import UserError
from minicc.ir import kernel
from minicc.ir.addresses import Memory, undefined
from minicc.ir.by_hand import ByHand
from minicc.ir.core import Array, Op, Region
from minicc.ir.indices import OutOfRange, out_of_range
from minicc.ir.interpret import Interpreter
from minicc.ir.types import BufferType

_NOBODY = -1


class Output(Memory):
    """An output, with the instance that wrote each element last."""

    __slots__ = ("name", "owner")

    def __init__(self, type: BufferType, name: str) -> None:
        super().__init__(undefined(type), type)
        self.owner: Array = np.full(self.flat.shape[1], _NOBODY)
        self.name = name


def check_kernel(op: ByHand, arrays: Sequence[Array]) -> list[Array]:
    """The outputs; UserError MC0199 outside, MC0188 written twice, MC0189 undefined."""
    checker = _Checker(op)
    axes = len(op.grid)
    values = op.body.args[axes:]
    memories = [
        Memory(np.ascontiguousarray(x).reshape(1, -1), v.type)
        for x, v in zip(arrays, values, strict=False)
    ]
    outputs = [Output(v.type, v.hint) for v in values[len(arrays) :]]
    try:
        checker.kernel(op.kernel, [*memories, *outputs])
    except OutOfRange as error:
        text = out_of_range(error.index, error.extent)
        raise UserError("MC0199", text, where=error.where) from None
    for out in outputs:
        left = np.flatnonzero(out.owner == _NOBODY)
        if left.size:
            place = _place(left[0], out.type.extents)
            text = f"{out.name}{place} and {left.size - 1} more are written by no instance"
            raise UserError("MC0189", f"{op.label}: {text}", where=op.loc)
    return [out.flat.reshape(out.type.extents) for out in outputs]


class _Checker(Interpreter):
    """Interprets a kernel, with loads and stores that look first."""

    def __init__(self, op: ByHand) -> None:
        super().__init__()
        self.grid = op.grid
        self.special[kernel.Load] = self._load
        self.special[kernel.Store] = self._store

    def _load(self, op: kernel.Load, memory: Memory, *indices: Any) -> Any:
        position, inside = self._located(op, memory, indices)
        if isinstance(memory, Output):
            strange = inside & (memory.owner[position] != self._ids(position))
            if strange.any():
                at = _place(position[strange][0], memory.type.extents)
                who = memory.owner[position[strange][0]]
                other = "nobody wrote" if who == _NOBODY else f"instance {self._name(who)} wrote"
                text = f"{memory.name}{at} is read, which {other}"
                hint = "an instance knows of an output what it wrote itself"
                raise UserError("MC0189", text, hint=hint, where=op.loc)
        return op.evaluate(_no_region, memory, *indices)

    def _store(self, op: kernel.Store, memory: Memory, *operands: Any) -> Any:
        value, *indices = operands
        position, inside = self._located(op, memory, tuple(indices))
        if not isinstance(memory, Output):
            return op.evaluate(_no_region, memory, *operands)
        ids = self._ids(position)
        value, position, inside, ids = np.broadcast_arrays(value, position, inside, ids)
        value, position, ids = value[inside], position[inside], ids[inside]
        before, owner = memory.flat[0, position], memory.owner[position]
        others = (owner != _NOBODY) & (owner != ids) & _differ(before, value)
        self._require_alike(op, memory, position, ids, owner, others)
        op.evaluate(_no_region, memory, *operands)
        memory.owner[position] = ids
        last, owner = memory.flat[0, position], memory.owner[position]
        self._require_alike(op, memory, position, ids, owner, _differ(last, value))
        return ()

    def _require_alike(
        self,
        op: Op,
        memory: Output,
        position: Array,
        ids: Array,
        owner: Array,
        strange: Array,
    ) -> None:
        """UserError (MC0188) where an element was written otherwise by its owner."""
        if not strange.any():
            return
        at = _place(position[strange][0], memory.type.extents)
        mine, theirs = sorted((int(ids[strange][0]), int(owner[strange][0])))
        text = f"the instances {self._name(mine)} and {self._name(theirs)} write"
        text = f"{text} {memory.name}{at} differently"
        hint = "instances run in any order; tiles may overlap where they write the same"
        raise UserError("MC0188", text, hint=hint, where=op.loc)

    def _located(
        self, op: kernel.Load | kernel.Store, memory: Memory, indices: tuple[Any, ...]
    ) -> tuple[Array, Any]:
        """The element numbers of a tile, and which are there; UserError (MC0199) outside."""
        shape = op.shape if isinstance(op, kernel.Load) else op.value.type.extents
        what = f"{op.buffer.hint or 'scratch'} is {'read' if op.results else 'written'}"
        if (
            op.within is not None
            and not kernel.before_end(op.within, indices, (*shape[:-1], 1)).all()
        ):
            text = f"{what} with a mask that leaves no element"
            raise UserError("MC0199", text, hint="a masked tile has one at least", where=op.loc)
        try:
            position, inside = kernel.located(op, memory, indices)
        except IndexError as error:
            raise UserError("MC0199", f"{what} outside: {error}", where=op.loc) from None
        return position, np.broadcast_to(inside, position.shape)

    def _ids(self, position: Array) -> Array:
        """The numbers of the instances, along the batch's axis."""
        return self.numbers.reshape((-1,) + (1,) * (position.ndim - 1))

    def _name(self, number: int) -> str:
        return str(_place(number, self.grid))  # type: ignore[arg-type]


def _place(number: int, extents: tuple[int, ...]) -> list[int]:
    """The coordinates of an element, or of an instance of a grid."""
    return [int(n) for n in np.unravel_index(number, extents)] if extents else []


def _differ(a: Array, b: Array) -> Array:
    """Where two arrays have not the same bits, but for those of NaN."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    same = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b, a.dtype).view(bits)
    return np.asarray(~same & ~((a != a) & (b != b)))


def _no_region(region: Region, args: Sequence[Any]) -> tuple[Any, ...]:
    raise AssertionError("loads and stores have no regions")
