"""Floats that sizes decide: arithmetic of which an extent is the whole part.

    trunc(floor(mul(f32($h), 1.2999999523162842)))

Exporters scale images so. Each operation rounds to the precision of its operands, as IEEE 754 and
NumPy do, so an extent is the one that the model computes, even where a quotient lies next to a
whole number. Constants have the precision of what stands beside them; they are finite, and 0.0 is
the only zero, so that equal expressions are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Union

import numpy as np

if TYPE_CHECKING:
    from minicc.ir.affine import Dim

Part = Union["Real", float]

# Operations on floats, by what NumPy calls them.
STEPS = {
    "abs": "abs",
    "add": "add",
    "ceil": "ceil",
    "div": "divide",
    "floor": "floor",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "neg": "negative",
    "round": "rint",
    "sqrt": "sqrt",
    "sub": "subtract",
}
UNARY = frozenset({"abs", "ceil", "floor", "neg", "round", "sqrt"})
_WHOLE = frozenset({"ceil", "floor", "round"})
# What makes a float of a dimension, or one of another precision of a float: whether it is f64.
LEAVES = {"f32": False, "f64": True}
CONVERSIONS = {"narrow": False, "widen": True}
_WIDE = {**LEAVES, **CONVERSIONS}
_MOST = 256  # operations of one expression; more is no size of anything


class Real:
    """An operation and what it is of: a dimension for `LEAVES`, else floats.

    Raises ValueError where there is no such operation of so many operands, or of such constants, or
    it has too many parts.
    """

    __slots__ = ("_hash", "args", "count", "kind", "wide")

    def __init__(self, kind: str, *args: Any) -> None:
        self.kind = kind
        self.args = args
        reals = [a for a in args if isinstance(a, Real)]
        if not all(map(_is_plain, args)):
            raise ValueError(f"no float of sizes is {kind} of {args}")
        self.count: int = 1 + sum(a.count for a in reals)
        wanted = 1 if kind in _WIDE or kind in UNARY else 2
        if len(args) != wanted or not (reals or kind in LEAVES) or self.count > _MOST:
            raise ValueError(f"no float of sizes is {kind} of {len(args)} operands")
        if kind not in _WIDE and (kind not in STEPS or len({a.wide for a in reals}) > 1):
            raise ValueError(f"no float of sizes is {kind} of such operands")
        self.wide: bool = _WIDE[kind] if kind in _WIDE else reals[0].wide
        self._hash = hash((kind, args))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Real) or self._hash != other._hash:
            return False
        return self.kind == other.kind and self.args == other.args

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(map(repr, self.args))})"

    def is_whole(self) -> bool:
        """Whether it is rounded to a whole number."""
        return self.kind in _WHOLE

    def leaves(self) -> Iterator[Dim]:
        """The dimensions that it is computed from."""
        if self.kind in LEAVES:
            yield self.args[0]
        else:
            for part in self.args:
                if isinstance(part, Real):
                    yield from part.leaves()

    def mapped(self, visit: Callable[[Dim], Dim]) -> Real:
        """The same of other dimensions."""
        if self.kind in LEAVES:
            return Real(self.kind, visit(self.args[0]))
        parts = [a.mapped(visit) if isinstance(a, Real) else a for a in self.args]
        return Real(self.kind, *parts)

    def value(self, number: Callable[[Dim], Any]) -> Any:
        """The float for numbers, or arrays of numbers, that dimensions stand for."""
        element = np.float64 if self.wide else np.float32
        if self.kind in LEAVES:
            return np.asarray(number(self.args[0]), np.int64).astype(element)
        parts = [a.value(number) if isinstance(a, Real) else element(a) for a in self.args]
        if self.kind in CONVERSIONS:
            return np.asarray(parts[0], element)
        return computed(self.kind, *parts)


def _is_plain(part: Any) -> bool:
    """Whether a part is no constant or one of those that there are."""
    if not isinstance(part, float):
        return True
    return math.isfinite(part) and (part != 0 or math.copysign(1, part) > 0)


def computed(kind: str, *floats: Any) -> Any:
    """What an operation of `STEPS` gives for floats of one precision."""
    with np.errstate(all="ignore"):
        return getattr(np, STEPS[kind])(*floats)


def whole_part(value: Any) -> Any:
    """A float without what stands after its point: the nearest i64, and 0 of what is no number.

    As `llvm.fptosi.sat` has it. An integer of a scalar, integers of an array.
    """
    if np.ndim(value):
        found = [whole_part(v) for v in np.ravel(value)]
        return np.array(found, np.int64).reshape(np.shape(value))
    number = float(value)
    if number != number:
        return 0
    return max(-(1 << 63), min(int(max(-1e19, min(number, 1e19))), (1 << 63) - 1))
