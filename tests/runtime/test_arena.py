"""Memory of runs: what was written stays, whatever becomes of the pages that it lies on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from minicc.runtime import arena
from minicc.runtime.arena import Arena

PAGE = 1 << 21


def test_what_was_written_stays_while_more_is_wanted_and_pages_grow() -> None:
    made = Arena()
    made.fit(PAGE + 100, grows=True)
    first = made.bytes.ctypes.data
    for size in (PAGE + 100, 4 * PAGE + 7):
        made.fit(size, grows=True)
        want = np.arange(size, dtype=np.uint8)
        made.bytes[:size] = want
        for _ in range(20):
            made.settle(1.0)
        assert not made.settles
        np.testing.assert_array_equal(made.bytes[:size], want)
        assert made.bytes.ctypes.data == first
    made.fit(1000, grows=True)
    assert made.bytes.nbytes >= 4 * PAGE + 7


def test_memory_of_one_size_is_left_as_it_is() -> None:
    made = Arena()
    made.fit(3 * PAGE, grows=False)
    assert made.bytes.nbytes == 3 * PAGE
    assert not made.settles
    made.fit(PAGE, grows=False)
    assert made.bytes.nbytes == 3 * PAGE


def test_large_pages_are_asked_for_in_a_tenth_of_the_time_of_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def collapse(_: object, start: int) -> bool:
        asked.append(start)
        return True

    monkeypatch.setattr(arena, "_makes_large_pages", lambda: True)
    monkeypatch.setattr(arena, "_collapse", collapse)
    monkeypatch.setattr(arena, "perf_counter", iter(np.arange(100) * 0.002).__next__)
    made = Arena()
    made.fit(3 * PAGE, grows=True)
    made.settle(1.0)  # of the first run, whose pages are new
    assert not asked
    for _ in range(40):
        made.settle(0.001)
    assert len(asked) == 2  # after 10 ms for the first, as it is guessed, then 20 for each
    made.settle(10.0)
    assert np.diff(asked).tolist() == [PAGE, PAGE]
    assert not made.settles
    assert all((made.bytes.ctypes.data - asked[0] + start) % PAGE == 0 for start in asked)


def test_a_system_without_large_pages_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(arena, "_makes_large_pages", lambda: True)
    monkeypatch.setattr(arena, "_COLLAPSE", -1)
    made = Arena()
    made.fit(3 * PAGE, grows=True)
    made.settle(1.0)
    made.settle(1.0)
    assert not made.settles
    setting = tmp_path / "enabled"
    monkeypatch.undo()
    for text, wanted in (("always [madvise] never", True), ("always madvise [never]", False)):
        setting.write_text(text)
        monkeypatch.setattr(arena, "_SETTING", setting)
        assert arena._makes_large_pages.__wrapped__() is wanted
    monkeypatch.setattr(arena, "_SETTING", tmp_path / "none")
    assert arena._makes_large_pages.__wrapped__() is False
