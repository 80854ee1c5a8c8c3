"""Arrays that no known program fits: read-only, long doubles, other classes and byte orders."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.generate.functions.oracle import differences

import minicc

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


class Metres(np.ndarray[Any, Any]):
    """Lengths, whose sum with others is of the same class."""


def still(a: Array) -> Array:
    """The array, not to be written to."""
    a.flags.writeable = False
    return a


def twice(a: Array) -> tuple[Array, Array]:
    """The same memory as two arguments."""
    return a, a[::-1]


X = np.arange(6.0)
SWAPPED = np.arange(3, dtype=">u2")
CALLS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "usual": lambda: (X.copy(), X + 1),
    "the first is read-only": lambda: (still(X.copy()), X + 1),
    "the second is read-only": lambda: (X.copy(), still(X + 1)),
    "long doubles": lambda: (X.astype(np.longdouble), X + 1),
    "complex long doubles": lambda: (X.astype(np.clongdouble), X + 1),
    "long doubles after": lambda: (X.copy(), X.astype(np.longdouble)),
    "another byte order": lambda: (X.astype(">f8"), X + 1),
    "another byte order after": lambda: (X.copy(), (X + 1).astype(">i4")),
    "another class": lambda: (X.copy().view(Metres), X + 1),
    "one array": lambda: twice(X.copy()),
}


def _sum(a: Any, b: Any) -> Any:
    a += 1
    b *= 2
    return a + b


def _copied(a: Any, b: Any) -> Any:
    a[1:] = b[:-1]
    return a, b


def _moved(a: Any, b: Any) -> Any:
    return np.roll(a, 1), np.repeat(a, 2), a[[0, 2]], np.full(2, a[0]), a.astype(complex)


def _sorted(a: Any, b: Any) -> Any:
    return np.sort(a), max(a), np.diff(a), [x + 1 for x in a[:2]]


def _shared(a: Any, b: Any) -> Any:
    return np.shares_memory(a, b), np.may_share_memory(a, a[1:]), np.shares_memory(a, a + b)


def _nothing(a: Any, b: Any) -> Any:
    return np.trim_zeros(a * 0), np.trim_zeros(a)


def _typed(a: Any, b: Any) -> Any:
    return a.dtype, np.zeros(2, b.dtype), np.zeros(2, ">i4"), SWAPPED[1:], SWAPPED[[0, 2]]


@pytest.mark.parametrize("f", [_sum, _copied, _moved, _sorted, _shared, _nothing, _typed])
@pytest.mark.filterwarnings("ignore")
def test_arrays_of_many_kinds_one_after_the_other(f: Function) -> None:
    """Each call gives what NumPy gives, leaves what it leaves, and raises what it raises."""
    jitted = minicc.jit(f, threads=1)
    for name in [*CALLS, *reversed(CALLS)]:
        outcomes: list[Any] = []
        for g in (jitted, f):
            args = CALLS[name]()
            try:
                result: Any = {"": g(*args)}
            except Exception as error:
                result = error
            outcomes.append((result, dict(zip("ab", args, strict=True))))
        assert differences(outcomes[0], outcomes[1], lambda n: 0.0) == [], name
        if not isinstance(outcomes[1][0], Exception):
            got, want = (o[0][""] for o in outcomes)
            assert type(got) is type(want)
