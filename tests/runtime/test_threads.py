"""The thread team: starts, forks, endings, and what is kept for the next run."""

import _thread
import gc
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from tests.runtime.native import PLACES, library, run_rounds, running

import minicc
from minicc.errors import UserError
from minicc.runtime import execute
from minicc.runtime.threads import Team, close_idle, give_team, take_team


def works(team: Team) -> bool:
    """Whether a short run gives what it must."""
    return run_rounds(team, library(), 6, 40, 3_000_000)


def all_end(before: int) -> bool:
    """Whether there are soon no more threads than before: who has ended may not be gone yet."""
    end = time.monotonic() + 30
    while running() > before and time.monotonic() < end:
        time.sleep(0.001)
    return running() == before


def test_a_team_of_one_starts_no_thread() -> None:
    before = running()
    team = Team(1)
    assert works(team)
    assert all_end(before)


def test_parked_workers_wake() -> None:
    team = Team(2)
    for _ in range(3):
        assert works(team)
        time.sleep(0.02)
    team.close()


def test_close_ends_the_workers_and_a_run_starts_others() -> None:
    before = running()
    team = Team(3)
    assert works(team)
    assert running() == before + 2
    team.close()
    team.close()
    assert all_end(before)
    assert works(team)
    team.close()
    assert all_end(before)


def test_a_forgotten_team_ends_its_workers() -> None:
    before = running()
    team = Team(3)
    assert works(team)
    del team
    gc.collect()
    assert all_end(before)


def test_workers_that_rest_end_with_their_team() -> None:
    allowed = os.sched_getaffinity(0)
    before = running()
    team = Team(4)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        for _ in range(20):
            assert run_rounds(team, library(), 100, 100, 10_000_000)
    finally:
        os.sched_setaffinity(0, allowed)
    team.close()
    assert all_end(before)


def test_one_worker_too_many_returns_at_once() -> None:
    before = running()
    team = Team(2)
    assert works(team)
    # Which of the two is one too many, their order in native code decides.
    team._workers.append(team._worker())
    end = time.monotonic() + 30
    while sum(alive.locked() for alive in team._workers) > 1:
        assert time.monotonic() < end
        time.sleep(0.001)
    assert works(team)
    team.close()
    assert all_end(before)


def test_no_threads_left_is_the_users_error(monkeypatch: pytest.MonkeyPatch) -> None:
    before = running()
    start = _thread.start_new_thread
    started = 0

    def refuse(*arguments: Any) -> int:
        nonlocal started
        started += 1
        if started == 2:
            raise RuntimeError("can't start new thread")
        return start(*arguments)

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    with pytest.raises(UserError, match="threads=2 or fewer"):
        works(Team(4))
    assert all_end(before)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_an_interrupt_between_two_workers_leaves_a_good_team(
    monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    start = _thread.start_new_thread
    started = 0

    def interrupted(*arguments: Any) -> int:
        nonlocal started
        thread = start(*arguments)
        started += 1
        if started == after:
            raise KeyboardInterrupt
        return thread

    monkeypatch.setattr(_thread, "start_new_thread", interrupted)
    before = running()
    team = Team(4)
    with pytest.raises(KeyboardInterrupt):
        works(team)
    for _ in range(5):
        assert works(team)
    team.close()
    assert all_end(before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("busy", [False, True])
def test_a_child_of_a_fork_has_workers_of_its_own(busy: bool) -> None:
    team = Team(2)
    assert works(team)
    slow = library(1 << PLACES.index("claimed"), 20_000)
    other = threading.Thread(target=run_rounds, args=(team, slow, 40, 20, 10_000_000))
    if busy:
        other.start()
        time.sleep(0.02)
    child = os.fork()
    if child == 0:
        result = 1
        try:
            result = 0 if works(team) and works(Team(3)) and works(take_team(2)) else 2
            team.close()
        finally:
            os._exit(result)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    if busy:
        other.join()
    assert works(team)
    team.close()


def test_the_process_ends_with_a_team_open() -> None:
    script = """
from minicc.runtime.threads import Team
from tests.runtime.native import library, run_rounds, running
before = running()
teams = [Team(2), Team(3)]
right = [run_rounds(team, library(), 6, 40, 3_000_000) for team in teams]
print(right, running() - before)
"""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[True, True] 3\n", "")


def test_teams_that_are_given_back_serve_again() -> None:
    first = take_team(2)
    second = take_team(2)
    assert first is not second
    give_team(first)
    assert take_team(2, False) is not first
    assert take_team(2) is first
    give_team(second)
    give_team(first)
    assert works(take_team(2))
    close_idle(2)


def _recurrence(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total = total * 0.5 + x[i]
    return total


@pytest.mark.parametrize(("f", "shared"), [(_recurrence, 0), (np.exp, 1)])
def test_a_team_is_taken_where_threads_share_something(
    f: Any, shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Team] = []

    def take(*given: Any) -> Team:
        taken.append(take_team(*given))
        return taken[-1]

    monkeypatch.setattr(execute, "usable_processors", lambda: 2)
    monkeypatch.setattr(execute, "take_team", take)
    x = np.linspace(0, 1, 300_000)
    np.testing.assert_allclose(minicc.jit(lambda x: f(x), threads=2)(x), f(x), rtol=1e-12)
    assert len(taken) == shared
