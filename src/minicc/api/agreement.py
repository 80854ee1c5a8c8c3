"""Whether what compiled code gives agrees with what NumPy gives, for code that catches errors.

A library that looks at what stands for an array may raise where NumPy's array would do, and a
function that catches errors takes that for one of its own. So its first call on each path is
compared with NumPy's, on copies of the arguments.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from minicc.frontends.trace import Parameters
from minicc.frontends.trace.loops.flow import instructions
from minicc.frontends.trace.objects import is_library

_ERROR = {"f": 1e-9, "c": 1e-9}  # of values in the magnitude of the largest, of 64 bits
_NARROW = 1e-3  # the same of narrower ones
_PLAIN = (bool, int, str, bytes, type(None))
_MOST = 1 << 28  # bytes of arguments that are copied


@lru_cache(1 << 10)
def _catches(code: types.CodeType) -> bool:
    """Whether code, or code within it, has an `except`."""
    steps = [step.opname for step in instructions(code)]
    # `with` has a handler, too
    own = steps.count("PUSH_EXC_INFO") > steps.count("WITH_EXCEPT_START")
    return own or any(map(_catches, _within(code)))


def _within(code: types.CodeType) -> list[types.CodeType]:
    return [c for c in code.co_consts if isinstance(c, types.CodeType)]


def _names(code: types.CodeType) -> set[str]:
    return set(code.co_names).union(*map(_names, _within(code)))


def catches(f: Any, seen: set[Any] | None = None) -> bool:
    """Whether a function, or one of the user's that it names, has an `except`."""
    f = getattr(f, "__wrapped__", f)
    seen = set() if seen is None else seen
    known = isinstance(f, types.FunctionType) and f not in seen
    if not known or is_library(f.__code__.co_filename):
        return False
    seen.add(f)
    cells = [c.cell_contents for c in f.__closure__ or () if c != types.CellType()]
    named = [f.__globals__.get(name) for name in _names(f.__code__)]
    return _catches(f.__code__) or any(catches(inner, seen) for inner in (*named, *cells))


class Trial:
    """A call as it was before it ran, whose first result is to be compared."""

    def __init__(self, f: Callable[..., Any], parameters: Parameters, values: list[Any]) -> None:
        self._run = partial(parameters.call, f)
        self._leaves = parameters.key
        self._values = values

    @staticmethod
    def of(f: Callable[..., Any], parameters: Parameters, values: Sequence[Any]) -> Trial | None:
        """That of a call of a function that catches errors; None for others."""
        bytes_ = sum(v.nbytes for v in values if isinstance(v, np.ndarray))
        if bytes_ > _MOST or not catches(f):
            return None
        try:
            return Trial(f, parameters, copy.deepcopy(list(values)))
        except Exception:  # objects of the user's may have no copies, and raise whatever they like
            return None

    def agrees(self, result: Any, values: Sequence[Any]) -> bool:
        """Whether NumPy gives that, too, and leaves the arguments so."""
        given = copy.deepcopy(self._values)
        try:
            wanted = self._run(given)
        except Exception:
            return False
        return agree([result, *values], [wanted, *given])

    def restore(self, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """Let the arrays of the call hold what they held before."""
        _, before, _ = self._leaves(self._values)
        for array, old in zip(arrays, before, strict=True):
            if array.flags.writeable:
                np.copyto(array, old)


def agree(mine: Any, theirs: Any) -> bool:
    """Whether two results are the same but for what rounding makes."""
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, (list, tuple)):
        return len(mine) == len(theirs) and all(map(agree, mine, theirs))
    if isinstance(mine, dict):
        return list(mine) == list(theirs) and all(agree(v, theirs[k]) for k, v in mine.items())
    if not isinstance(mine, (np.ndarray, np.generic, float, complex)):
        # an object may compare its arrays, which have no truth value
        return not isinstance(mine, _PLAIN) or mine == theirs
    a, b = np.asarray(mine), np.asarray(theirs)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind not in _ERROR:
        return bool(np.array_equal(a, b))
    near = _ERROR[a.dtype.kind] if a.real.itemsize == np.dtype(np.float64).itemsize else _NARROW
    return bool(np.allclose(a, b, near, near * np.abs(b[np.isfinite(b)]).max(initial=0), True))
