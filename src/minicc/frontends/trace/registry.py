"""Which functions of NumPy are traced, by their dotted names below `numpy`.

The modules of families fill the table with a decorator; `dispatch` reads it. What is not in it
works on constants alone (NumPy computes it while the function is traced) and is refused on traced
arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Implementation = Callable[..., Any]
F = TypeVar("F", bound=Implementation)

FUNCTIONS: dict[str, Implementation] = {}
# Results of these may share memory with their first argument.
VIEWS: set[str] = set()
# These write to an argument; they stand beside FUNCTIONS, for they are called on constants too.
WRITES: dict[str, Implementation] = {}


# What is traced instead of a function of ours that is written with NumPy.
INSTEAD: dict[Any, Implementation] = {}


def traces(*names: str, view: bool = False) -> Callable[[F], F]:
    """Register the decorated function `f(recorder, *args, **kwargs)` under NumPy's names."""

    def register(f: F) -> F:
        for name in names:
            if name in FUNCTIONS:
                raise TypeError(f"two functions trace numpy.{name}")
            FUNCTIONS[name] = f
            if view:
                VIEWS.add(name)
        return f

    return register


def writes(*names: str) -> Callable[[F], F]:
    """Register a function that writes to its first argument under NumPy's names."""

    def register(f: F) -> F:
        for name in names:
            WRITES[name] = f
        return f

    return register


class Dispatch:
    """Where a traced array sends its calls; `dispatch` fills the slot.

    Tracers stand below the functions that they call, so the way up is not an import.
    """

    call: Callable[..., Any]
    view: Callable[..., Any]
    library: Callable[..., Any]
    loop: Callable[..., Any]
    shown: Callable[..., Any]
    test: Callable[..., Any]
    linger: Callable[..., Any]
    written: Callable[..., Any]
    release: Callable[..., Any]
    power: Callable[..., Any]


# Methods of ndarray that are NumPy's function of the same or another name.
METHODS: dict[str, str] = {}
for _names in (
    ("all", "any", "argmax", "argmin", "clip", "dot", "max", "mean", "min", "prod"),
    ("ravel", "repeat", "round", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var"),
    ("diagonal", "argsort", "argpartition", "cumsum", "cumprod", "nonzero", "searchsorted"),
    ("choose", "compress", "put"),
):
    METHODS.update({name: name for name in _names})
METHODS["conj"] = METHODS["conjugate"] = "ndarray.conj"
for _name in (
    "astype",
    "copy",
    "flatten",
    "reshape",
    "transpose",
    "view",
    "item",
    "sort",
    "partition",
):
    METHODS[_name] = f"ndarray.{_name}"
