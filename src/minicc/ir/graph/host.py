"""Operators that run on the host, as their front end defines them.

    %at = graph.host %x {operator = "onnx.NonZero", types = [!i64[2,$at_1]], ...} : i64[2,$at_1]

Their results' extents, or that they are no tensors of numbers, is decided by data. A symbol that
stands in the type of a result and in that of no operand is *bound* by the op: it is a size of all
that follows, as one of the inputs' is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minicc.errors import UserError
from minicc.ir.affine import Dim, symbols
from minicc.ir.core import Loc, Op, RunRegion, Value
from minicc.ir.text.extents import number_of, symbol_of
from minicc.ir.types import BOOL, I64, OPAQUE, TensorType, is_free

Definition = Callable[["Host", Sequence[Any]], Sequence[Any]]
# What runs the operators of a front end, by its name.
DEFINITIONS: dict[str, Definition] = {}


class Stating(Op):
    """Base of ops whose results' types their front end states, as the attribute `types`."""

    if TYPE_CHECKING:  # each op declares it where it stands among its parts
        types: tuple[TensorType, ...]

    @property
    def pure(self) -> bool:  # type: ignore[override]  # of most ops it is the class's
        """Whether it may vanish when nobody reads it: whether it surely binds no size."""
        return not any(is_free(t.shape) for t in self.types)


class Host(Stating, name="graph.host"):
    """An operator of a front end, run by that front end's definition.

    `operator` is its name with that of the front end before it, `places` which of its inputs the
    operands are, `options` its attributes, `versions` those of its operator sets (ONNX's own, that
    of its domain), and `types` those of its results. One that `draws` random numbers gives others
    in each run: it is not shared with an equal one, nor computed ahead.
    """

    xs: tuple[Value, ...]
    operator: str
    places: tuple[int, ...]
    types: tuple[TensorType, ...]
    options: tuple[tuple[str, Any], ...] = ()
    versions: tuple[int, ...] = ()
    draws: bool = False

    @property
    def pure(self) -> bool:  # type: ignore[override]  # of most ops it is the class's
        """Whether it may vanish, or stand for an equal one."""
        return not self.draws and super().pure

    def infer(self) -> tuple[TensorType, ...]:
        if len(self.places) != len(self.operands):
            text = f"{self.opname} has {len(self.places)} places for {len(self.operands)} operands"
            raise TypeError(text)
        return self.types

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return tuple(DEFINITIONS[self.operator.partition(".")[0]](self, args))


class NonZero(Stating, name="graph.nonzero"):
    """The positions where truth values in a row hold, as many as there are.

    %at = graph.nonzero %mask {types = [i64[$n]]} : i64[$n]
    """

    mask: Value
    types: tuple[TensorType, ...]

    def infer(self) -> tuple[TensorType, ...]:
        if self.mask.type.dtype is not BOOL or self.mask.type.rank != 1:
            raise TypeError(f"{self.opname} wants truth values in a row, not {self.mask.type}")
        if [(t.dtype, t.rank) for t in self.types] != [(I64, 1)]:
            raise TypeError(f"{self.opname} gives i64 positions in a row, not {self.types}")
        return self.types

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (np.flatnonzero(args[0]).astype(np.int64, copy=False),)


def bound_by(op: Op) -> tuple[str, ...]:
    """The symbols that an op binds, in the order in which they occur.

    Those are in the stated type of a result, and in that of no operand.
    """
    if not isinstance(op, Stating):
        return ()
    given = {s for v in op.operands for n in v.type.shape for s in symbols(n)}
    found = (s for t in op.types for n in t.shape for s in sorted(symbols(n)))
    return tuple(dict.fromkeys(s for s in found if s not in given))


def bind_values(
    types: Sequence[TensorType], values: Sequence[Any], sizes: dict[str, int], where: Loc
) -> None:
    """Enter the sizes that values of these types bind; MC0142 where one is not of its type."""
    for type, value in zip(types, values, strict=True):
        if type.dtype is OPAQUE:
            continue
        found = np.asarray(value)
        fits = found.ndim == type.rank and found.dtype == type.dtype.numpy
        others: list[tuple[Dim, int]] = []
        for extent, n in zip(type.shape, found.shape, strict=True) if fits else ():
            if isinstance(extent, int):
                fits = fits and extent == n
            elif name := symbol_of(extent):
                fits = fits and sizes.setdefault(name, n) == n
            else:
                others.append((extent, n))
        if not fits or any(number_of(a, sizes) != n for a, n in others):
            text = f"a value has the type {found.dtype}{list(found.shape)} where {type} is wanted"
            raise UserError("MC0142", text, where=where)
