"""What stands for Python's types in traced code: `float(x)`, `int(x)`, `isinstance(x, float)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.mixed import is_mixed
from minicc.frontends.trace.numbers import Number, checked, converted, truth
from minicc.frontends.trace.tracer import Tracer


class PythonType:
    """What stands for `float`, `int` or `bool` in traced code; elsewhere it is the type itself."""

    def __init__(self, real: type) -> None:
        self.real = real
        self.dtype = np.dtype(real)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs:
            return as_number(args[0], self.real)
        return self.real(*args, **kwargs)

    def __instancecheck__(self, x: Any) -> bool:
        # where Python's and NumPy's differ, it has to be known which one it is
        if is_mixed(x):
            own = issubclass(x.mixed.kinds.own, self.real)
            if own == issubclass(x.mixed.kinds.theirs, self.real):
                return own
            x = x.read("a class")
        return isinstance(x, self.real)

    def __subclasscheck__(self, x: Any) -> bool:
        return issubclass(self.real if isinstance(x, PythonType) else x, self.real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __getitem__(self, key: Any) -> Any:
        return self.real[key]  # type: ignore[index]  # as in `list[int]`

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (self.real,)

    def __eq__(self, other: object) -> bool:
        return other is self.real or other is self

    def __hash__(self) -> int:
        return hash(self.real)

    def __repr__(self) -> str:
        return repr(self.real)

    def __or__(self, other: Any) -> Any:
        return self.real | (other.real if isinstance(other, PythonType) else other)

    def __ror__(self, other: Any) -> Any:
        return other | self.real


FLOAT, INT, BOOL = PythonType(float), PythonType(int), PythonType(bool)


def as_number(x: Any, kind: type) -> Any:
    """`float`, `int` or `bool` of a value: a traced number of an element, where Python agrees."""
    if isinstance(x, Number):
        if kind is x.kind:
            return x if x.mixed is None else Number(x.box, kind)
        if x.term is not None:
            return x.by_python(kind, x)
        x = x.box if x.kind in (int, float) else x.read(f"{kind.__name__}()")
    if isinstance(x, Tracer) and x.symbolic and not x.ndim and x.recorder.path is not None:
        floats = x.dtype.kind == "f"
        if kind is bool and (floats or x.dtype.kind in "iub"):
            return truth(Number(x if x.dtype.kind == "b" else x != 0, bool))
        if kind is float and (floats or x.dtype.kind in "iu"):
            return Number(converted(x, np.float64), float)
        if kind is int and (floats or x.dtype.kind in "iu"):
            made = converted(x, np.int64)
            if floats or x.dtype == np.uint64:
                made = checked(made, abs(converted(x, np.float64)) < _FITS)
            return Number(made, int, floats or x.dtype != np.int64)
    return kind(x)


_FITS = 2.0**62  # below which an int64 holds a float's whole part
