"""The number of a captured loop's round as the user's code sees it: a Python int not yet known.

An `Index` is a sum of rounds times known factors, and a known number; so `k`, `k - 1` and
`2 * k + j` are. What is the same in all rounds (`k < n`, the length of `x[k:k + 3]`) is decided by
its bounds; what is not, and needs the number itself, makes the loop one that is written out.

It knows numbers alone: nothing of arrays that it indexes (`moving`), or of how a loop is captured
(`loops`).

Mirrors: affine expressions over MLIR's `scf.for` variables; torch.compile's SymInt with its range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import I64, DType


class Round:
    """The round of one loop, 0 to `count - 1`, as a value of its body."""

    __slots__ = ("count", "value")

    def __init__(self, value: Value, count: int) -> None:
        self.value = value
        self.count = count


class Index(Number):
    """`base` and each round times its factor."""

    __slots__ = ("base", "terms")

    def __init__(self, recorder: Recorder, terms: dict[Round, int], base: int) -> None:
        self._recorder = recorder
        self.terms = {r: n for r, n in terms.items() if n}
        self.base = base
        self.kind = int
        self.known = self.term = None

    @property
    def box(self) -> Tracer:
        """The number as a traced scalar."""
        return Tracer(self._recorder, self.value())

    def value(self) -> Value:
        """The number as a value of the body of the innermost loop that it depends on."""
        recorder = self._recorder
        total: Value | None = None
        for r, factor in self.terms.items():
            part = r.value
            if factor != 1:
                part = recorder.emit(graph.Mul, part, recorder.scalar(factor, I64))
            total = part if total is None else recorder.emit(graph.Add, total, part)
        base = recorder.scalar(self.base, I64)
        if total is None:
            return base
        return recorder.emit(graph.Add, total, base) if self.base else total

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest that it can be."""
        ends = [(n * (r.count - 1)) for r, n in self.terms.items()]
        return self.base + sum(min(e, 0) for e in ends), self.base + sum(max(e, 0) for e in ends)

    def fits(self, element: DType) -> bool:
        """Whether an integer type holds it in every round."""
        limits = np.iinfo(element.numpy)
        low, high = self.bounds()
        return bool(limits.min <= low and high <= limits.max)

    def at(self, loop: Round, number: int) -> Any:
        """What it is in one round of a loop: a Python int where it depends on no other."""
        terms = {r: n for r, n in self.terms.items() if r is not loop}
        base = self.base + self.terms.get(loop, 0) * number
        return Index(self._recorder, terms, base) if terms else base

    def read(self, needs: str) -> Any:
        self._recorder.write_out(f"{needs} needs the number of the round")

    def plus(self, other: Any, sign: int) -> Any:
        """The sum or difference with an int or another index; a Python int where it is known."""
        terms, base = (other.terms, other.base) if type(other) is Index else ({}, int(other))
        total = dict(self.terms)
        for r, n in terms.items():
            total[r] = total.get(r, 0) + sign * n
        made = Index(self._recorder, total, self.base + sign * base)
        return made if made.terms else made.base

    def times(self, factor: int) -> Any:
        """The product with an int."""
        terms = {r: n * factor for r, n in self.terms.items()}
        return Index(self._recorder, terms, self.base * factor) if factor else 0

    def as_float(self) -> Any:
        """The number as a traced Python float."""
        wide = Dispatch.call(self._recorder, "ndarray.astype", (self.box, np.float64), {})
        return Number(wide, float)

    def __bool__(self) -> bool:
        low, high = self.bounds()
        if low <= 0 <= high:
            self.read("a condition")
        return True

    def __neg__(self) -> Any:
        return self.times(-1)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        low, high = self.bounds()
        return self if low >= 0 else self.times(-1) if high <= 0 else self.read("abs()")

    def __truediv__(self, other: Any) -> Any:
        return self._divided(other, by=True)

    def __rtruediv__(self, other: Any) -> Any:
        return self._divided(other, by=False)

    def _divided(self, other: Any, by: bool) -> Any:
        """The quotient with a number that is known, where no round divides by zero."""
        low, high = self.bounds()
        safe = bool(other) if by else low > 0 or high < 0
        most = max(abs(low), abs(high), abs(other) if type(other) is int else 0)
        if type(other) not in (int, float) or not safe or most > _EXACT:
            self.read("a division")
        pair = (self.as_float().box, np.asarray(float(other)))
        made = Dispatch.call(self._recorder, "divide", pair if by else pair[::-1], {})
        return Number(made, float)

    __hash__ = Number.__hash__


_EXACT = 1 << 53  # up to which a float64 holds every integer


def _is_int(x: Any) -> bool:
    return type(x) in (int, bool, Index)


def _arithmetic(name: str, exact: Callable[[Index, Any], Any]) -> Any:
    """An operator: exact among integers; with a float that of Python's floats."""
    inherited = getattr(Number, name)

    def apply(self: Index, other: Any) -> Any:
        if _is_int(other):
            return exact(self, other)
        number = type(other) is float or (type(other) is Number and other.kind is float)
        if number and max(map(abs, self.bounds())) <= _EXACT:
            return getattr(self.as_float(), name)(other)
        return inherited(self, other)

    return apply


def _product(self: Index, other: Any) -> Any:
    return self.read("a product of two indices") if type(other) is Index else self.times(int(other))


for _name, _exact in (
    ("__add__", lambda a, b: a.plus(b, 1)),
    ("__radd__", lambda a, b: a.plus(b, 1)),
    ("__sub__", lambda a, b: a.plus(b, -1)),
    ("__rsub__", lambda a, b: a.times(-1).plus(b, 1)),
    ("__mul__", _product),
    ("__rmul__", _product),
):
    setattr(Index, _name, _arithmetic(_name, _exact))


def _comparison(name: str, decide: Callable[[int, int], bool | None]) -> Any:
    inherited = getattr(Number, name)

    def compare(self: Index, other: Any) -> Any:
        if not _is_int(other):
            return inherited(self, other)
        gap = self.plus(other, -1)
        low, high = gap.bounds() if type(gap) is Index else (gap, gap)
        known = decide(low, high)
        # undecided, it is a condition for np.where, or one that has the loop written out
        return known if known is not None else self._compared(name, other)

    return compare


def _compared(self: Index, name: str, other: Any) -> Any:
    right = other.box if type(other) is Index else np.asarray(int(other))
    return getattr(self.box, name)(right)


Index._compared = _compared  # type: ignore[attr-defined]


def _sides(low: bool, high: bool, answer: bool) -> bool | None:
    return answer if low else (not answer) if high else None


for _name, _decide in (
    ("__lt__", lambda a, b: _sides(b < 0, a >= 0, True)),
    ("__ge__", lambda a, b: _sides(b < 0, a >= 0, False)),
    ("__le__", lambda a, b: _sides(b <= 0, a > 0, True)),
    ("__gt__", lambda a, b: _sides(b <= 0, a > 0, False)),
    ("__eq__", lambda a, b: _sides(a == b == 0, a > 0 or b < 0, True)),
    ("__ne__", lambda a, b: _sides(a == b == 0, a > 0 or b < 0, False)),
):
    setattr(Index, _name, _comparison(_name, _decide))
