"""Memory of large results is used again when nobody holds them any more."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest

import minicc
from minicc.ir.arrays import PAGE, Array, Kept, empty

_SIZE = 1 << 21


def _taken(kept: Kept, size: int) -> Array:
    raw, start = kept.take(size)
    return raw[start : start + size]


def test_what_nobody_holds_is_taken_again() -> None:
    kept = Kept(8 * _SIZE)
    first = _taken(kept, _SIZE)
    place = first.ctypes.data
    assert not place % PAGE
    assert _taken(kept, _SIZE).ctypes.data != place
    view = first[5:].view(np.int8)[None]
    del first
    assert _taken(kept, _SIZE).ctypes.data != place, "a view holds it"
    window = view.data
    del view
    assert _taken(kept, _SIZE).ctypes.data != place, "a window on it holds it"
    del window
    assert place in [a.ctypes.data for a in [_taken(kept, _SIZE) for _ in range(3)]]


def test_other_sizes_and_no_more_than_may_be_kept() -> None:
    kept = Kept(2 * _SIZE)
    first = _taken(kept, _SIZE // 4)
    small = first.ctypes.data
    large = _taken(kept, 4 * _SIZE)
    assert large.size == 4 * _SIZE
    assert large.base is not None
    assert large.base.size < 4 * _SIZE + 2 * PAGE
    del first
    assert _taken(kept, _SIZE // 2).ctypes.data != small
    assert _taken(kept, _SIZE // 4 - 100).ctypes.data == small
    held = [_taken(kept, _SIZE) for _ in range(4)]
    assert len({a.ctypes.data for a in held}) == 4
    places = {a.ctypes.data for a in held}
    del held
    again = [_taken(kept, _SIZE) for _ in range(4)]
    assert len(places & {a.ctypes.data for a in again}) >= 2


def test_threads_never_share() -> None:
    kept = Kept(64 * _SIZE)

    def use(number: int) -> bool:
        for _ in range(200):
            mine = _taken(kept, _SIZE)
            mine[::4096] = number
            if not (mine[::4096] == number).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(4)))


def test_results_are_apart_while_they_are_held() -> None:
    add = minicc.jit(lambda x: x + 1)
    x = np.zeros(1 << 18)
    held = [add(x * k) for k in range(5)]
    parts = [add(x - k)[7:9] for k in range(5)]
    for k, (y, part) in enumerate(zip(held, parts, strict=True)):
        assert (y == 1).all()
        assert (part == 1 - k).all()
    shapes = [(3, 1 << 18), (1 << 10, 1 << 10)]
    assert all(empty(s, np.dtype(float)).flags.c_contiguous for s in shapes)


class _Pair(NamedTuple):
    first: Any
    second: Any


def _writes(x: Any, y: Any) -> Any:
    x[1:] += y[:-1]
    return x.sum(), {"k": [x + y, y * 2]}


def _loops(x: Any, y: Any) -> Any:
    k = 0
    while x.sum() < 1e6 and k < 50:
        x = x * 2 + y
        k += 1
    return x, k


RESULTS: list[Callable[..., Any]] = [
    lambda x, y: x + y,
    lambda x, y: (x + y, x - y),
    lambda x, y: {"a": x + y, "b": [x, y * 2]},
    lambda x, y: _Pair(x + y, (x * y,)),
    lambda x, y: (np.unique(x), x + y),
    _writes,
    _loops,
]


def _arrays(value: Any) -> list[Array]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [a for part in value for a in _arrays(part)]
    return [value] if isinstance(value, np.ndarray) else []


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("f", RESULTS)
def test_results_are_free_when_nobody_holds_them(f: Callable[..., Any], threads: int) -> None:
    """Not only when Python looks for cycles: that may be after hundreds of calls."""
    x, y = np.ones((2, 300, 300), np.float32)
    g = minicc.jit(f, threads=threads)
    for _ in range(20):
        g(x.copy(), y)
    gc.disable()
    try:
        found = [weakref.ref(a) for _ in range(3) for a in _arrays(g(x.copy(), y))]
        assert found
        assert not [there for there in found if there() is not None]
    finally:
        gc.enable()
