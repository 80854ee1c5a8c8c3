"""Numbers that a kernel knows when an instance runs: coordinates, rounds of loops, sizes."""

from __future__ import annotations

from typing import Any, NoReturn

from minicc.frontends.trace.tiles.recording import wrong
from minicc.ir import affine
from minicc.ir.affine import Dim

_UFUNCS = {
    "add": affine.add,
    "subtract": lambda a, b: affine.add(a, affine.multiply(b, -1)),
    "multiply": affine.multiply,
    "floor_divide": affine.floordiv,
    "remainder": affine.mod,
    "minimum": affine.minimum,
    "maximum": affine.maximum,
}


class Index:
    """A number that is an expression over coordinates, rounds and sizes.

    Sums, products with numbers, floor divisions and remainders by positive numbers, and NumPy's
    `minimum` and `maximum` of such numbers are such numbers.
    """

    __slots__ = ("dim",)

    def __init__(self, dim: Dim) -> None:
        self.dim = dim

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs or not all(map(is_number, args)):
            return NotImplemented
        return combined(ufunc.__name__, *args)

    def __add__(self, other: Any) -> Any:
        return combined("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return combined("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return combined("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return combined("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return combined("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return combined("multiply", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return combined("floor_divide", self, other)

    def __mod__(self, other: Any) -> Any:
        return combined("remainder", self, other)

    def __neg__(self) -> Any:
        return combined("multiply", self, -1)

    def __eq__(self, other: object) -> Any:
        return _decided(self) if is_number(other) else NotImplemented

    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = __eq__
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        _decided(self)

    def __index__(self) -> int:
        text = f"{self} is known only when the kernel runs, and Python wants a number"
        wrong("MC0193", text, "a loop over it is tl.range, and tiles have extents that are numbers")

    def __repr__(self) -> str:
        return str(self.dim)


def _decided(x: Index) -> NoReturn:
    text = f"{x} is known only when the kernel runs, and Python is to decide by it"
    hint = "np.where chooses by elements, np.minimum and np.maximum by numbers"
    wrong("MC0193", text, hint)


def is_number(x: Any) -> bool:
    """Whether a value is a number that indices are made of."""
    return isinstance(x, Index) or (isinstance(x, int) and not isinstance(x, bool))


def number(dim: Dim) -> Any:
    """A dimension as a kernel sees it: an int, or an `Index`."""
    return dim if isinstance(dim, int) else Index(dim)


def dim_of(x: Any) -> Dim:
    """The dimension that a number is; UserError (MC0194) for what is none."""
    if isinstance(x, Index):
        return x.dim
    try:
        return x.__index__()  # type: ignore[no-any-return]
    except AttributeError:
        wrong("MC0194", f"{x!r} is no whole number")


def combined(ufunc: str, a: Any, b: Any) -> Any:
    """A number made of two; UserError (MC0194) where that is none that an address can be."""
    if not (is_number(a) and is_number(b)):
        return NotImplemented
    if ufunc not in _UFUNCS:
        wrong("MC0194", f"np.{ufunc} of {a!r} and {b!r} is no number for an index")
    try:
        make: Any = _UFUNCS[ufunc]
        return number(make(dim_of(a), dim_of(b)))
    except (ValueError, TypeError, AssertionError):
        text = f"np.{ufunc} of {a!r} and {b!r} wants a positive number as the second"
        wrong("MC0194", text)
