"""Chunks are claimed: every interleaving gives the same bits, and nobody waits for the absent."""

import ctypes
import mmap
import os
import threading
import time

import numpy as np
import pytest
from tests.runtime.native import (
    EVERYWHERE,
    PLACES,
    Array,
    expected,
    leaving,
    library,
    main,
    run_rounds,
    table,
)

from minicc.runtime.threads import Team


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("extent", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("work", [0, 50_000, 40_000_000, 1 << 50])
def test_each_instance_runs_once_a_launch(threads: int, extent: int, work: int) -> None:
    team = Team(threads)
    for _ in range(2):
        assert run_rounds(team, library(), 50, extent, work)
    team.close()


@pytest.mark.parametrize("place", [*range(len(PLACES)), None], ids=[*PLACES, "everywhere"])
@pytest.mark.parametrize("threads", [2, 4])
def test_delays_change_nothing(threads: int, place: int | None) -> None:
    code = library(EVERYWHERE if place is None else 1 << place)
    team = Team(threads, library=code)
    for extent, work in ((5, 100_000), (64, 10_000_000), (300, 1 << 40)):
        assert run_rounds(team, code, 20, extent, work)
    team.close()


@pytest.mark.parametrize("spin", [True, False])
def test_delays_with_threads_that_sleep_at_once(spin: bool) -> None:
    code = library(EVERYWHERE)
    team = Team(3, spin, code)
    for _ in range(10):
        assert run_rounds(team, code, 10, 40, 5_000_000)
    team.close()


def test_a_run_needs_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Team, "_worker", lambda team: threading.Lock())
    team = Team(4)
    assert run_rounds(team, library(), 100, 50, 10_000_000)
    team.close()


def test_late_workers_touch_nothing_of_older_runs() -> None:
    """Workers that wake late find the memory of runs that are over unmapped."""
    late = PLACES.index("before a claim"), PLACES.index("awake")
    code = library(sum(1 << place for place in late), 3000)
    teams = [Team(3, library=code) for _ in range(2)]
    extent, rounds, size = 60, 4, 60 * 8
    for k in range(200):
        team = teams[k % 2]
        x = np.arange(k, k + extent, dtype=np.uint64)
        memory = mmap.mmap(-1, 1 << 16)
        words: Array = np.frombuffer(memory, np.uint64)
        at, even, odd = words.ctypes.data, words[16 : 16 + extent], words[512 : 512 + extent]
        even[:] = x
        words[:6] = (team.start(), rounds, extent, 5_000_000, at + 128, at + 4096)
        main("rounds", code)(at)
        assert even.nbytes == size
        assert np.array_equal(even, expected(x, rounds))
        del words, even, odd
        memory.close()
    for team in teams:
        team.close()


def test_runs_at_the_same_time_share_nothing() -> None:
    code = library(EVERYWHERE, 100)
    good: list[bool] = []

    def work(extent: int) -> None:
        team = Team(2, library=code)
        good.extend(run_rounds(team, code, 20, extent, 5_000_000) for _ in range(10))
        team.close()

    callers = [threading.Thread(target=work, args=(30 + k,)) for k in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert good == [True] * 40


def test_more_threads_than_processors_and_one_processor_for_all() -> None:
    allowed = os.sched_getaffinity(0)
    team = Team(8)
    try:
        # Workers inherit the affinity of the thread that starts them.
        os.sched_setaffinity(0, {min(allowed)})
        assert run_rounds(team, library(), 500, 100, 10_000_000)
    finally:
        os.sched_setaffinity(0, allowed)
        team.close()


def test_who_leaves_a_core_may_run_where_it_might_before() -> None:
    leave, here = leaving(), ctypes.CDLL(None).sched_getcpu
    allowed = os.sched_getaffinity(0)

    def left(core: int) -> bool:
        words = table(core)
        leave(words)
        return bool(words[0])

    try:
        assert len(allowed) == 1 or any(left(core := here()) and here() != core for _ in range(100))
        assert os.sched_getaffinity(0) == allowed
        os.sched_setaffinity(0, {min(allowed)})
        assert not left(min(allowed))
        assert not left(1 << 20)
        assert os.sched_getaffinity(0) == {min(allowed)}
    finally:
        os.sched_setaffinity(0, allowed)


def test_a_worker_that_rested_comes_back_to_a_launch_that_lasts() -> None:
    code = library(crowded=True)
    team, who = Team(2, library=code), np.zeros(200, np.int64)
    words = table(team.start(), len(who), 1 << 40, who.ctypes.data)
    most = 0
    for _ in range(20):
        main("slow", code)(words)
        if (most := max(most, int(who.sum()))) >= 3:
            break
    team.close()
    assert most >= 3


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a core to go to")
def test_a_worker_that_stood_back_helps_when_a_core_is_free() -> None:
    code, allowed = library(), os.sched_getaffinity(0)
    team, who = Team(2, False, code), np.zeros(400, np.int64)
    before = set(os.listdir("/proc/self/task"))
    words = table(team.start(), len(who), 1 << 40, who.ctypes.data)
    (worker,) = set(os.listdir("/proc/self/task")) - before

    def free() -> None:
        time.sleep(0.1)
        os.sched_setaffinity(int(worker), allowed)

    helped = False
    try:
        for _ in range(20):
            os.sched_setaffinity(0, {min(allowed)})
            os.sched_setaffinity(int(worker), {min(allowed)})
            freeing = threading.Thread(target=free)
            freeing.start()
            main("slow", code)(words)
            freeing.join()
            if helped := bool(who.any()):
                break
    finally:
        os.sched_setaffinity(0, allowed)
        team.close()
    assert helped


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_workers_round_as_the_caller_does(threads: int) -> None:
    code = library(1 << PLACES.index("published"))
    team = Team(threads, library=code)
    seen = np.zeros(400, np.uint32)
    for mode in (0x1F80, 0x9FC0, 0x7F80):
        words = table(team.start(), 400, 10_000_000, mode, seen.ctypes.data)
        for _ in range(20):
            main("modes", code)(words)
            assert set((seen & 0xFFC0).tolist()) == {mode}
    team.close()
