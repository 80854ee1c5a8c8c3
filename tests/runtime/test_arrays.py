"""Memory of large results is used again when nobody holds them any more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import minicc
from minicc.ir.arrays import ALIGNMENT, Array, Kept, empty

_SIZE = 1 << 21


def _taken(kept: Kept, size: int) -> Array:
    raw, start = kept.take(size)
    return raw[start : start + size]


def test_what_nobody_holds_is_taken_again() -> None:
    kept = Kept(8 * _SIZE)
    first = _taken(kept, _SIZE)
    place = first.ctypes.data
    assert not place % ALIGNMENT
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
    assert large.base.size < 4 * _SIZE + 2 * ALIGNMENT
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
