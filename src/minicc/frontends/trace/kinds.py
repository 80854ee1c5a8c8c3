"""What stands for functions of Python that look at types: `type`, `isinstance`, `issubclass`.

A function of the standard library that is written in C, or that looks at types, is given what
NumPy would give it: numbers and arrays that were read.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.frontends.trace.loops.extents import Extent
from minicc.frontends.trace.loops.grown import Grown
from minicc.frontends.trace.mixed import is_mixed
from minicc.frontends.trace.namespace import replacement
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.objects import original_class, originals
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.pytree import mapped
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer

# by module, which need not be imported for this
_LOOKING = frozenset({
    ("json", "dumps"), ("json", "dump"), ("datetime", "timedelta"), ("decimal", "Decimal"),
    ("fractions", "Fraction"),
})  # fmt: skip
LOOKING = frozenset(module for module, _ in _LOOKING)


class TypeOf(PythonType):
    """`type`: of what stands for something it gives the type of that.

    It gives what the names of types give, `numbers` says so for Python's: they may be compared by
    identity.
    """

    def __init__(
        self, recorder: Recorder, stand_in: Callable[[type], Any], numbers: dict[type, Any]
    ) -> None:
        super().__init__(type)
        self._recorder = recorder
        self._stand_in = stand_in  # what stands for a class of the user's
        self._numbers = numbers

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or kwargs:
            return type(*args, **kwargs)
        (x,) = args
        if issubclass(type(x), Number):
            if has_term(x):
                x.term.given.fix(x.term)  # the type of what stands for it is none of Python's
            if not is_mixed(x):
                return self._numbers.get(x.kind, x.kind)
            x = x.read("type()")
        if issubclass(type(x), Tracer):
            real = x.dtype.type if x.scalar else np.ndarray
            return replacement(self._recorder, real, real.__name__)
        if type(x) is Extent:
            return self._numbers.get(int, int)
        if type(x) is Grown:
            return list
        if isinstance(x, PythonType):
            return self
        if issubclass(type(x), np.generic):  # which is known
            return replacement(self._recorder, type(x), type(x).__name__)
        real = original_class(x)
        return self._numbers.get(type(x), type(x)) if real is None else self._stand_in(real)


class SubclassOf:
    """`issubclass`, also of what stands for classes."""

    real = staticmethod(issubclass)

    def __call__(self, cls: Any, of: Any) -> bool:
        whole = tuple(map(_real, of)) if isinstance(of, tuple) else _real(of)
        real = _real(cls)
        return issubclass(real, whole) or any(issubclass(c, whole) for c in _originals(real))


class InstanceOf:
    """`isinstance`, also of what stands for objects.

    The class may be one that nothing stands for: a key of a dict, or one of a library that the
    user's class is registered with.
    """

    real = staticmethod(isinstance)

    def __call__(self, x: Any, of: Any) -> bool:
        if is_mixed(x):
            if type(of) is tuple:
                return any(self(x, one) for one in of)
            # which of Python's and NumPy's it is has to be known for all classes but these
            x = x if isinstance(of, PythonType) else x.read("a class")
        return isinstance(x, of) or any(issubclass(c, of) for c in originals(type(x)))


def _originals(cls: Any) -> tuple[type, ...]:
    return originals(cls) if isinstance(cls, type) else ()


def _real(cls: Any) -> Any:
    return cls.real if isinstance(cls, PythonType) else cls


class Solid:
    """A function or class that is given numbers and arrays that were read."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.real(*mapped(_solid, args), **mapped(_solid, kwargs))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __instancecheck__(self, x: Any) -> bool:
        return isinstance(x, self.real)

    def __eq__(self, other: object) -> bool:
        return other is self.real or (isinstance(other, Solid) and other.real is self.real)

    def __hash__(self) -> int:
        return hash(self.real)


def looks(x: Any) -> bool:
    """Whether it is a function or a class that is given what was read."""
    named = isinstance(x, type | types.FunctionType)
    return named and (x.__module__, x.__qualname__) in _LOOKING


def _solid(leaf: Any, path: str) -> Any:
    if isinstance(leaf, Tracer):
        array = leaf.constant("a function that is not traced")
        return array[()] if leaf.scalar else array
    if issubclass(type(leaf), Number):
        return leaf.read("a function that is not traced")
    return int(leaf) if type(leaf) is Extent else leaf


def power(x: Any, y: Any, mod: Any = None) -> Any:
    """`pow`, which Python computes of three numbers."""
    if mod is None:
        return pow(x, y)
    return pow(*(_solid(n, "") for n in (x, y, mod)))
