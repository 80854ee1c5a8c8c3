"""Calls that are like the last are served at a glance: those that only look like it are not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

_SHIFT = 1.0
_X = np.arange(12, dtype=np.float32).reshape(3, 4)
_ROOM = np.arange(49, dtype=np.uint8)


def _shifted(x: Any, y: Any, k: Any = 2) -> Any:
    return x * k + y + _SHIFT


def _named(x: Any, y: Any, k: Any = 2) -> Any:
    return x if k is None else y


def _counted(x: Any, y: Any, k: Any = 2) -> Any:
    for _ in range(k):
        x = x + y
    return x


def _written(x: Any, y: Any, k: Any = 2) -> Any:
    x += y
    y[:] = x * k


def _parted(x: Any, y: Any, k: Any = 2) -> Any:
    return x * k if x.sum() > 20 else y - 1


def _overlapping(whole: Any) -> tuple[Any, Any]:
    return whole[:12].reshape(3, 4), whole[4:].reshape(3, 4)


_OTHERS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "alike": lambda: (_X.copy(), _X + 1),
    "other values": lambda: (-_X, -_X),
    "shape": lambda: (np.ones((4, 3), np.float32), np.ones((4, 3), np.float32)),
    "type": lambda: (_X.astype(np.float64), _X + 1),
    "byte order": lambda: (_X.astype(">f4"), _X + 1),
    "strides": lambda: (np.asfortranarray(_X), _X + 1),
    "misaligned": lambda: (_ROOM.copy()[1:].view(np.float32).reshape(3, 4), _X + 1),
    "one array": lambda: (_X.copy(),) * 2,
    "overlapping": lambda: _overlapping(np.arange(16, dtype=np.float32)),
    "another number": lambda: (_X.copy(), _X + 1, 3),
    "a float": lambda: (_X.copy(), _X + 1, 2.0),
    "a flag": lambda: (_X.copy(), _X + 1, True),
    "None": lambda: (_X.copy(), _X + 1, None),
    "a scalar": lambda: (np.float32(3), _X + 1),
    "a list": lambda: ([1.0, 2.0, 3.0, 4.0], _X + 1),
}


def _outcome(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What a call gives, and what becomes of its arguments."""
    try:
        result = f(*args)
    except Exception as error:
        return type(error), str(error)
    told = [(type(v), getattr(v, "dtype", None), np.shape(v), v) for v in (result, *args)]
    return told, [result is a for a in args]


@pytest.mark.parametrize("other", _OTHERS)
@pytest.mark.parametrize("f", [_shifted, _named, _counted, _written, _parted])
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_only_like_calls_are_served(f: Callable[..., Any], other: str) -> None:
    jitted = minicc.jit(f, threads=1)
    for _ in range(3):
        jitted(_X.copy(), _X + 1)
    for make in (_OTHERS[other], _OTHERS["alike"], _OTHERS[other]):
        np.testing.assert_equal(_outcome(jitted, make()), _outcome(f, make()))


def test_what_was_read_from_outside_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = minicc.jit(_shifted, threads=1)
    for shift in (1.0, 1.0, 1.0, 5.0, 1.0, 7.0, 7.0, 7.0, 8.0):
        monkeypatch.setattr(f"{__name__}._SHIFT", shift)
        np.testing.assert_array_equal(jitted(_X, _X), _shifted(_X, _X))


def test_other_sizes_between_like_calls() -> None:
    jitted = minicc.jit(_shifted, threads=1)
    for n in (4, 4, 4, 9, 9, 9, 13, 13, 13, 4, 1, 1, 1, 0, 0, 0, 9):
        x = np.arange(n, dtype=np.float64)
        np.testing.assert_array_equal(jitted(x, x + 1), _shifted(x, x + 1))


def test_numpy_that_raises_is_asked() -> None:
    jitted = minicc.jit(lambda x: 1 / x, threads=1)
    for _ in range(3):
        jitted(np.zeros(3))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        jitted(np.zeros(3))


def test_numpy_that_raised_before_the_import_is_asked() -> None:
    text = (
        "import numpy as np; np.seterr(all='raise'); import minicc\n"
        "jitted = minicc.jit(lambda x: 1 / x, threads=1)\n"
        "try: print(jitted(np.zeros(3)))\n"
        "except FloatingPointError: print('raised')"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "raised\n"


def test_what_numpy_tells_of_is_the_same_after_a_break() -> None:
    jitted = minicc.jit(lambda x: np.unique(np.log(x)) + 1, threads=1)
    for told in ("ignore", "warn"):
        with np.errstate(over=told):
            before = np.geterr()
            for _ in range(3):
                jitted(np.zeros(3))
            assert np.geterr() == before
