"""The number of a captured loop's round as the user's code sees it: a Python int not yet known.

An `Index` is an expression over rounds: `k`, `k - 1`, `2 * k + j`, `k % 3`, `k // 2`, `j * k`. What
is the same in all rounds (`k < n`, the length of `x[k:k + 3]`) is decided by its bounds; what is
not, and needs the number itself, makes the loop one that is written out.

It knows numbers alone: nothing of arrays that it indexes (`moving`), or of how a loop is captured
(`fors`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.frontends.trace.loops.extents import Extent
from minicc.frontends.trace.numbers import STEP, Number, has_term
from minicc.frontends.trace.pytree import mapped
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import affine, affine_facts, graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value
from minicc.ir.types import I64, DType


class Index(Number):
    """An expression over the numbers of rounds, by the names of these (see `extents.Rounds`)."""

    __slots__ = ("dim",)

    def __init__(self, recorder: Recorder, dim: Dim) -> None:
        self._recorder = recorder
        self.dim = dim
        self.kind = int
        self.known, self.term, self.counts, self.most, self.mixed = None, None, False, None, None

    @property
    def box(self) -> Tracer:
        """The number as a traced scalar."""
        return Tracer(self._recorder, self.value())

    def value(self) -> Value:
        """The number as a value of the body of the innermost loop that it depends on."""
        return self._recorder.emit(graph.Sizes, (self.place(),), (), I64)

    def place(self) -> int:
        """The number as an attribute of ops has it."""
        return self._recorder.rounds.extent(self.dim)

    @property
    def turns(self) -> bool:
        """Whether it depends on the round; else sizes say what it is."""
        return self._recorder.rounds.turns(self.dim)

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest that it can be."""
        return self._recorder.rounds.bounds(self.dim)

    def fits(self, element: DType) -> bool:
        """Whether an integer type holds it in every round."""
        limits = np.iinfo(element.numpy)
        low, high = self.bounds()
        return bool(limits.min <= low and high <= limits.max)

    def at(self, loop: str, number: Any) -> Any:
        """What it is in one round of a loop: a Python int where it depends on no other."""
        round_ = number.dim if type(number) is Index else number
        return self._made(affine.substitute(self.dim, {loop: round_}))

    def factor(self, loop: str) -> int | None:
        """By how much it grows in each round of a loop; None where that is not one number."""
        found = affine_facts.linear(self.dim, (loop,))
        step = None if found is None else found[0].get(loop, 0)
        return step if isinstance(step, int) else None

    def _made(self, dim: Dim) -> Any:
        return dim if isinstance(dim, int) else Index(self._recorder, dim)

    def read(self, needs: str) -> Any:
        rounds = self._recorder.rounds
        if not rounds.turns(self.dim):
            self._recorder.need(self.dim, needs)
        self._recorder.write_out(f"{needs} needs the number of the round")

    def plus(self, other: Any, sign: int) -> Any:
        """The sum or difference with an int or another index; a Python int where it is known."""
        return self._made(affine.add(self.dim, affine.multiply(_dim_of(other), sign)))

    def times(self, other: Any) -> Any:
        """The product with an int or another index."""
        return self._made(affine.multiply(self.dim, _dim_of(other)))

    def as_float(self) -> Any:
        """The number as a traced Python float."""
        wide = Dispatch.call(self._recorder, "ndarray.astype", (self.box, np.float64), {})
        return Number(wide, float)

    def is_exact(self) -> bool:
        """Whether a float64 holds it in every round."""
        return self._recorder.rounds.magnitude(self.dim) <= _EXACT

    def __bool__(self) -> bool:
        low, high = self.bounds()
        if low <= 0 <= high:
            return self.turns and bool(self._compared("__ne__", 0))
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
        if type(other) is Index:
            return self._quotient(other) if by else other._quotient(self)
        low, high = self.bounds()
        if type(other) is Number and not has_term(other) and self.is_exact():
            return self.as_float() / other if by else other / self.as_float()
        if type(other) not in (int, float):
            self.read("a division")
        safe = bool(other) if by else low > 0 or high < 0
        exact = self.is_exact() and (type(other) is float or abs(other) <= _EXACT)
        if not safe or not exact:
            self.read("a division")
        pair = (self.as_float().box, np.asarray(float(other)))
        made = Dispatch.call(self._recorder, "divide", pair if by else pair[::-1], {})
        return Number(made, float)

    def _quotient(self, other: Index) -> Any:
        """The quotient with the number of a round, where that is never zero."""
        low, high = other.bounds()
        if low <= 0 <= high or not (self.is_exact() and other.is_exact()):
            self.read("a division")
        pair = self.as_float().box, other.as_float().box
        return Number(Dispatch.call(self._recorder, "divide", pair, {}), float)

    def __mod__(self, other: Any) -> Any:
        return self._made(affine.mod(self.dim, self._size(other)))

    def __floordiv__(self, other: Any) -> Any:
        return self._made(affine.floordiv(self.dim, self._size(other)))

    def __pow__(self, other: Any) -> Any:
        if type(other) is not int or not 0 < other < _POWERS:
            return self._power(self, other)
        made: Any = self
        for _ in range(other - 1):
            made = made.times(self)
        return made

    def __rpow__(self, other: Any) -> Any:
        return self._power(other, self)

    def _power(self, base: Any, exponent: Any) -> Any:
        found = Dispatch.power(base, exponent)
        return self.read("a power") if found is None else found

    def _size(self, other: Any) -> int:
        if type(other) is Index and not other.turns:
            other.read("a quotient")
        if type(other) is not int or not 0 < other < _EXACT:
            self.read("a quotient")
        return int(other)

    __hash__ = Number.__hash__


_POWERS = 5  # below which one is a product
_EXACT = 1 << 53  # up to which a float64 holds every integer


def _dim_of(x: Any) -> Dim:
    return x.dim if type(x) in (Index, Extent) else int(x)


def _is_int(x: Any) -> bool:
    return type(x) in (int, bool, Index, Extent)


def _arithmetic(name: str, exact: Callable[[Index, Any], Any]) -> Any:
    """An operator: exact among integers; with a float that of Python's floats."""
    inherited = getattr(Number, name)

    def apply(self: Index, other: Any) -> Any:
        if _is_int(other):
            return exact(self, other)
        number = type(other) is float or (type(other) is Number and other.kind is float)
        if number and self.is_exact():
            return getattr(self.as_float(), name)(other)
        if type(other) is Number and other.counts and max(map(abs, self.bounds())) < STEP:
            pair = (other.box, self.box) if name.startswith("__r") else (self.box, other.box)
            ufunc = {"add": "add", "sub": "subtract"}.get(name.strip("_").lstrip("r"))
            if ufunc is not None:
                return Number(Dispatch.call(self._recorder, ufunc, pair, {}), int, True)
        return inherited(self, other)

    return apply


for _name, _exact in (
    ("__add__", lambda a, b: a.plus(b, 1)),
    ("__radd__", lambda a, b: a.plus(b, 1)),
    ("__sub__", lambda a, b: a.plus(b, -1)),
    ("__rsub__", lambda a, b: a.times(-1).plus(b, 1)),
    ("__mul__", lambda a, b: a.times(b)),
    ("__rmul__", lambda a, b: a.times(b)),
):
    setattr(Index, _name, _arithmetic(_name, _exact))


def _comparison(name: str, decide: Callable[[int, int], bool | None]) -> Any:
    inherited = getattr(Number, name)

    def compare(self: Index, other: Any) -> Any:
        if not _is_int(other):
            return inherited(self, other)
        gap = self.plus(other, -1)
        low, high = gap.bounds() if type(gap) is Index else (gap, gap)
        if type(gap) is Index and not gap.turns:  # sizes decide
            low = high = (gap.place() > 0) - (gap.place() < 0)
        known = decide(low, high)
        # undecided, it is a condition for np.where, or one that has the loop written out
        return known if known is not None else self._compared(name, other)

    return compare


def _compared(self: Index, name: str, other: Any) -> Any:
    other = Index(self._recorder, other.dim) if type(other) is Extent else other
    right = other.box if type(other) is Index else np.asarray(int(other))
    made = getattr(self.box, name)(right)
    self._recorder.rounds.compared[made.value()] = self.plus(other, -1).dim, name
    return made


def extent_of(recorder: Recorder, length: Any) -> int:
    """The extent of what has so many elements, an int or an index; see `extents`."""
    if type(length) is not Index:
        return length if isinstance(length, Extent) else int(length)
    recorder.rounds.used = recorder.rounds.used or length.turns
    return length.place()


def _shown(recorder: Recorder, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A shape as the user's code sees it: with indices of loops, which can't be taken for ints."""
    return tuple([Index(recorder, n.dim) if type(n) is Extent else n for n in shape])


def rows(x: Any) -> Any:
    """How many rows an array has, which may be a symbol, or elements whatever has a length."""
    if isinstance(x, Tracer) and x.ndim:
        return _shown(x.recorder, x.shape)[0]
    return len(x)


def as_extents(argument: Any) -> Any:
    """An argument of a function that takes numbers of elements, with extents for indices."""

    def place(x: Any, path: str) -> Any:
        return x.place() if type(x) is Index and not x.turns else x

    return mapped(place, argument)


Dispatch.shown = _shown
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
