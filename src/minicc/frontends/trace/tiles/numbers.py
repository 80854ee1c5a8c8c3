"""Numbers that a kernel knows when an instance runs: coordinates, rounds of loops, sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
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


def _operator(ufunc: str, reflected: bool = False) -> Callable[[Index, Any], Any]:
    """The method of one of Python's operators, which computes what NumPy's function does."""

    def operate(self: Index, other: Any) -> Any:
        return combined(ufunc, other, self) if reflected else combined(ufunc, self, other)

    return operate


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

    __add__, __radd__ = _operator("add"), _operator("add", reflected=True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", reflected=True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", reflected=True)
    __floordiv__, __mod__ = _operator("floor_divide"), _operator("remainder")

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
        told = re.sub(r"\bp(\d+)\b", r"program_id(\1)", str(self.dim))
        return re.sub(r"\bx\d+\b", "(a round's number)", told)


def _decided(x: Index) -> NoReturn:
    text = f"{x} is known when the kernel runs, and Python is to decide by it"
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
    if isinstance(a, float) or isinstance(b, float):
        hint = "tl.full((), 0.5) + i is a tile"
        wrong("MC0194", f"np.{ufunc} of {a!r} and {b!r} is no number for an index", hint)
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
