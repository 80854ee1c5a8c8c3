"""Python's operators of traced arrays, each a call of a ufunc, and attributes that are views."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import numpy as np

from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch

_COMPARED = (str, bytes, dict, set, frozenset, date, timedelta)
_NEVER = (str, bytes, type(None), dict, set, frozenset)
_ACCEPTED = (bool, int, float, complex, list, tuple, np.ndarray, np.generic)


def _binary(name: str, reflected: bool = False) -> Callable[[Operators, Any], Any]:
    def operate(self: Operators, other: Any) -> Any:
        raises = isinstance(other, _NEVER) and name not in ("equal", "not_equal")
        if raises and not (reflected and isinstance(other, (str, bytes))):
            solid = np.ones((1,) * len(self.shape), self.dtype)
            operands = (other, solid[()]) if reflected else (solid[()], other)
            getattr(np, name)(*operands)  # raises, and says what NumPy says
        if not isinstance(other, (Operators, *_ACCEPTED)):
            return NotImplemented
        if name == "multiply" and self.scalar and isinstance(other, (list, tuple)):
            return other * self.read("index", "how often a list is repeated")
        return self._call(name, other, self) if reflected else self._call(name, self, other)

    return operate


def _comparison(name: str, method: str) -> Callable[[Operators, Any], Any]:
    """Python's `==` or `!=`, which NumPy has for whatever stands on the other side."""
    plain = _binary(name)

    def compare(self: Operators, other: Any) -> Any:
        result = plain(self, other)
        if result is not NotImplemented or hasattr(type(other), "__array_ufunc__"):
            return result
        own: Any = type(other).__eq__
        if isinstance(other, _COMPARED) or own is object.__eq__:
            return self._call(method, self, other)
        return NotImplemented

    return compare


def _reflected(name: str) -> Callable[[Operators, Any], Any]:
    return _binary(name, reflected=True)


def _in_place(name: str) -> Callable[[Operators, Any], Any]:
    def operate(self: Operators, other: Any) -> Any:
        if not isinstance(other, (Operators, *_ACCEPTED)):
            return NotImplemented
        # NumPy's scalars are immutable
        return self._call(name, self, other, **({} if self.scalar else {"out": self}))

    return operate


def _unary(name: str) -> Callable[[Operators], Any]:
    return lambda self: self._call(name, self)


def _name_of_type(x: Any) -> str:
    """How Python's errors call what something stands for."""
    kind = getattr(x, "kind", x.__class__)
    return repr(f"numpy.{kind.__name__}" if issubclass(kind, np.generic) else kind.__name__)


_power_in_place = _in_place("power")
_power, _product = _binary("power"), _binary("matmul")


class Operators:
    """What has NumPy's operators; `scalar` says whether it stands for one of NumPy's scalars."""

    __slots__ = ("recorder", "scalar")
    recorder: Recorder
    scalar: bool
    dtype: Any
    shape: Any
    size: Any
    __setitem__: Any
    read: Any

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return Dispatch.call(self.recorder, name, args, kwargs)

    def need(self, name: str) -> None:
        """AttributeError where NumPy's scalars have no attribute of that name, and arrays do."""
        if self.scalar and not hasattr(np.generic, name) and hasattr(np.ndarray, name):
            kind = f"numpy.{self.dtype.type.__name__}"
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")

    @property
    def T(self) -> Any:  # NumPy's name
        """The axes in reverse order."""
        return self._call("transpose", self)

    @property
    def mT(self) -> Any:  # NumPy's name
        """The last two axes exchanged."""
        self.need("mT")
        if len(self.shape) < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return self._call("matrix_transpose", self)

    @property
    def flat(self) -> Any:
        """The elements in row-major order, a view of them however they lie."""
        return self._call("ndarray.flat", self)

    @flat.setter
    def flat(self, new: Any) -> None:
        size = self.size
        self[...] = self._call("reshape", self._call("resize", new, (size,)), self.shape)

    @property
    def real(self) -> Any:
        """The array itself, which is real."""
        return self._call("real", self)

    @real.setter
    def real(self, new: Any) -> None:
        # an array of its own first, so that a number which does not fit wraps
        self.real[...] = self._call("asarray", new)

    @property
    def imag(self) -> Any:
        """Zeros."""
        return self._call("imag", self)

    @imag.setter
    def imag(self, new: Any) -> None:
        if self.scalar:
            what = "attribute 'imag' of 'numpy.generic' objects is not writable"
            raise AttributeError(what)
        if self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        self.imag[...] = new

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None and self.scalar and self.dtype.kind in "fiu":
            return self._call("ndarray.__round__", self)  # one of Python's integers
        if self.scalar and self.dtype.kind == "c":
            kind = self.dtype.type.__name__
            raise TypeError(f"type numpy.{kind} doesn't define __round__ method")
        return self._call("round", self, digits or 0)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __hash__(self) -> int:
        if not self.scalar:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(self._call("ndarray.item", self))

    __eq__ = _comparison("equal", "__eq__")
    __ne__ = _comparison("not_equal", "__ne__")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __neg__, __pos__ = _unary("negative"), _unary("positive")
    __abs__, __invert__ = _unary("absolute"), _unary("invert")
    __add__, __radd__, __iadd__ = _binary("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __isub__ = _in_place("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __imul__ = _in_place("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _reflected("divide")
    __itruediv__ = _in_place("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __ifloordiv__ = _in_place("floor_divide")
    __mod__, __rmod__ = _binary("remainder"), _reflected("remainder")
    __imod__ = _in_place("remainder")

    def __pow__(self, other: Any) -> Any:
        # NumPy's operator of arrays takes another way than its function for this exponent
        if type(other) is int and other == 2 and self.dtype == bool and not self.scalar:
            return self._call("square", self)
        return _power(self, other)

    def __ipow__(self, other: Any) -> Any:
        if type(other) is int and other == 2 and not self.scalar:
            return self._call("square", self, out=self)
        return _power_in_place(self, other)

    __rpow__ = _reflected("power")

    def __matmul__(self, other: Any) -> Any:
        if self.scalar and getattr(other, "scalar", not isinstance(other, np.ndarray)):
            names = " and ".join(map(_name_of_type, (self, other)))
            raise TypeError(f"unsupported operand type(s) for @: {names}")
        return _product(self, other)

    __rmatmul__, __imatmul__ = _reflected("matmul"), _in_place("matmul")
    __and__, __rand__ = _binary("bitwise_and"), _reflected("bitwise_and")
    __iand__ = _in_place("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or"), _reflected("bitwise_or")
    __ior__ = _in_place("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor"), _reflected("bitwise_xor")
    __ixor__ = _in_place("bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift"), _reflected("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift"), _reflected("right_shift")
    __ilshift__, __irshift__ = _in_place("left_shift"), _in_place("right_shift")
