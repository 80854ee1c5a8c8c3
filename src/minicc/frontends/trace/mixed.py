"""Numbers that are Python's on one side of a branch and NumPy's on the other.

A sum that begins with `0` or `0.0` and gets an array's element in some rounds alone is one: its
value is traced, and a truth value tells whose it is. Python's may be an int where NumPy's is a
float, as its value is a float's as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.tracer import Tracer

THEIRS: dict[type, type] = {float: np.float64, bool: np.bool_, int: np.int64}  # NumPy's types
_COMPARES = ("lt", "le", "gt", "ge", "eq", "ne")
_STEP = 1 << 16  # up to which Python's int may grow at once where NumPy's is a float


class Kinds(NamedTuple):
    """The types of a number: of its value, of Python's where it is that, and of NumPy's."""

    value: type
    own: type
    theirs: type

    @property
    def is_one(self) -> bool:
        """Whether arrays and operators take either for the same number."""
        return self.own is self.value and self.theirs is THEIRS[self.value]


class Mixed(NamedTuple):
    """Of a number that is Python's or NumPy's: where it is `theirs`, NumPy's, a traced truth value.

    `error` is raised where the trace would have to know.
    """

    theirs: Tracer
    kinds: Kinds
    error: BaseException


def is_mixed(x: Any) -> bool:
    """Whether a value is a number of which data say whether it is Python's or NumPy's."""
    return hasattr(type(x), "mixed") and x.mixed is not None


def differs(x: Any) -> bool:
    """Whether it is such a number that is another one if it is Python's than if it is NumPy's."""
    return is_mixed(x) and not x.mixed.kinds.is_one


def require_one_type(x: Any) -> None:
    """Raise the error of a number of which data say whether it is Python's or NumPy's."""
    if is_mixed(x):
        raise x.mixed.error


def own_type(x: Any) -> type:
    """The type of Python's that a number has, or would have if it were Python's."""
    if is_mixed(x):
        own: type = x.mixed.kinds.own
        return own
    return x.kind if hasattr(type(x), "kind") else type(x)


def takes_either(symbol: str, x: Any, other: Any) -> bool:
    """Whether an operator gives the same of numbers of which one `differs`, whosever they are.

    NumPy's narrower types round, and Python's ints have no end: one that a float holds may grow.
    """
    pair = (x, other)
    narrow = [theirs for n in pair if is_mixed(n) and (theirs := _narrower(n)) is not None]
    if narrow:
        known = [n for n in pair if type(n) in THEIRS]
        return symbol in _COMPARES and len(known) == 1 and _holds(narrow[0], known[0])
    grows = symbol in ("add", "sub") and type(other) is int and abs(other) < _STEP
    return grows or symbol in ("truediv", *_COMPARES) or float in map(own_type, pair)


def _narrower(x: Any) -> type | None:
    """NumPy's type of a mixed number, if that is none of 64 bits."""
    theirs: type = x.mixed.kinds.theirs
    return None if theirs is THEIRS[x.mixed.kinds.value] else theirs


def _holds(theirs: Any, known: Any) -> bool:
    """Whether a number is compared as it is with one of NumPy's."""
    return issubclass(theirs, np.integer) or bool(theirs(known) == known)


def mixed_of(kinds: Kinds, *operands: Any) -> Mixed | None:
    """Of what an operator of Python gives of numbers: it is NumPy's where one of them is."""
    made: Mixed | None = None
    for mixed in (x.mixed for x in operands if is_mixed(x)):
        if made is None or made.theirs is mixed.theirs:
            made = Mixed(mixed.theirs, kinds, mixed.error)
        else:
            made = Mixed(made.theirs | mixed.theirs, kinds, made.error)
    return made
