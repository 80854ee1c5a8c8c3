"""The thread team: barriers, hand-off, forks, endings."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from functools import cache

import pytest

from minicc.backends.llvm.link import link
from minicc.backends.llvm.optimize import optimise
from minicc.errors import CompilerBug, UserError
from minicc.runtime.image import Library, load
from minicc.runtime.threads import Team, barrier_ir, close_idle, give_team, take_team
from minicc.target import Target

# context: barrier, rounds, a counter that is not atomic, how often a thread saw it wrong
ROUNDS = """
define void @rounds(i64 %thread, i64 %threads, ptr %context) {
entry:
  %barrier = load ptr, ptr %context
  %rounds.at = getelementptr i64, ptr %context, i64 1
  %counter = getelementptr i64, ptr %context, i64 2
  %wrong = getelementptr i64, ptr %context, i64 3
  %rounds = load i64, ptr %rounds.at
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %read]
  %turn = urem i64 %i, %threads
  %mine = icmp eq i64 %turn, %thread
  br i1 %mine, label %write, label %meet
write:
  %old = load i64, ptr %counter
  %new = add i64 %old, 1
  store i64 %new, ptr %counter
  br label %meet
meet:
  call void @minicc_barrier(ptr %barrier, i64 %threads)
  %next = add i64 %i, 1
  %seen = load i64, ptr %counter
  %bad = icmp ne i64 %seen, %next
  %one = zext i1 %bad to i64
  atomicrmw add ptr %wrong, i64 %one monotonic
  br label %read
read:
  call void @minicc_barrier(ptr %barrier, i64 %threads)
  %done = icmp eq i64 %next, %rounds
  br i1 %done, label %exit, label %loop
exit:
  ret void
}

; adds thread + 1 to context[0], and one to context[1]
define void @visit(i64 %thread, i64 %threads, ptr %context) {
  %value = add i64 %thread, 1
  atomicrmw add ptr %context, i64 %value monotonic
  %count = getelementptr i64, ptr %context, i64 1
  atomicrmw add ptr %count, i64 1 monotonic
  ret void
}

; a tenth of a second
define void @nap(i64 %thread, i64 %threads, ptr %context) {
  %span = alloca { i64, i64 }
  store { i64, i64 } { i64 0, i64 100000000 }, ptr %span
  call i64 (i64, ...) @syscall(i64 35, ptr %span, ptr null)
  ret void
}
"""


@cache
def code() -> Library:
    text = barrier_ir() + ROUNDS
    return load(link([optimise(text, Target.named("x86-64"))], ["rounds", "visit", "nap"]))


def visits(team: Team) -> tuple[int, int]:
    """The sum of thread + 1, and the number of threads that came."""
    context = (ctypes.c_int64 * 2)()
    team.run(code()["visit"], ctypes.addressof(context))
    return context[0], context[1]


@pytest.mark.parametrize(("threads", "rounds"), [(1, 10_000), (2, 10_000), (3, 500), (7, 100)])
def test_barrier_parts_the_rounds(threads: int, rounds: int) -> None:
    team = Team(threads)
    for _ in range(2):
        context = (ctypes.c_int64 * 4)(team.barrier, rounds, 0, 0)
        team.run(code()["rounds"], ctypes.addressof(context))
        assert context[2:4] == [rounds, 0]
    team.close()


def test_barrier_parts_the_rounds_on_one_core() -> None:
    allowed = os.sched_getaffinity(0)
    team = Team(2)
    try:
        # Workers inherit the affinity of the thread that starts them.
        os.sched_setaffinity(0, {min(allowed)})
        context = (ctypes.c_int64 * 4)(team.barrier, 200, 0, 0)
        team.run(code()["rounds"], ctypes.addressof(context))
    finally:
        os.sched_setaffinity(0, allowed)
        team.close()
    assert context[2:4] == [200, 0]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_thread_comes_once_a_run(threads: int) -> None:
    team = Team(threads)
    for _ in range(100):
        assert visits(team) == (threads * (threads + 1) // 2, threads)
    team.close()


def test_a_team_of_one_starts_no_thread() -> None:
    before = threading.active_count()
    team = Team(1)
    assert visits(team) == (1, 1)
    assert threading.active_count() == before


def test_parked_workers_wake() -> None:
    team = Team(2)
    for _ in range(3):
        assert visits(team) == (3, 2)
        time.sleep(0.02)
    team.close()


def test_close_ends_the_workers_and_a_run_starts_others() -> None:
    before = threading.active_count()
    team = Team(3)
    assert visits(team) == (6, 3)
    assert threading.active_count() == before + 2
    team.close()
    team.close()
    assert threading.active_count() == before
    assert visits(team) == (6, 3)
    team.close()
    assert threading.active_count() == before


def test_a_forgotten_team_ends_its_workers() -> None:
    before = threading.active_count()
    team = Team(3)
    visits(team)
    del team
    assert threading.active_count() == before


def test_a_team_is_entered_by_one_call_at_a_time() -> None:
    team = Team(2)
    visits(team)
    other = threading.Thread(target=team.run, args=(code()["nap"], 0))
    other.start()
    time.sleep(0.03)
    with pytest.raises(CompilerBug, match="MC0350"):
        visits(team)
    other.join()
    assert visits(team) == (3, 2)
    team.close()


def test_teams_run_at_the_same_time() -> None:
    results: list[tuple[int, int]] = []

    def work() -> None:
        team = Team(2)
        results.extend(visits(team) for _ in range(50))
        team.close()

    callers = [threading.Thread(target=work) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == [(3, 2)] * 150


def test_no_threads_left_is_the_users_error(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "minicc-2":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(UserError, match="threads=2 or fewer"):
        visits(Team(4))
    assert threading.active_count() == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("busy", [False, True])
def test_a_child_of_a_fork_has_workers_of_its_own(busy: bool) -> None:
    team = Team(2)
    assert visits(team) == (3, 2)
    other = threading.Thread(target=team.run, args=(code()["nap"], 0))
    if busy:
        other.start()
        time.sleep(0.02)
    child = os.fork()
    if child == 0:
        result = 1
        try:
            result = 0 if visits(team) == (3, 2) and visits(Team(2)) == (3, 2) else 2
            team.close()
        finally:
            os._exit(result)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    if busy:
        other.join()
    assert visits(team) == (3, 2)
    team.close()


def test_the_process_ends_with_a_team_open() -> None:
    script = """
import ctypes, threading
from minicc.backends.llvm.link import link
from minicc.backends.llvm.optimize import optimise
from minicc.runtime.image import load
from minicc.runtime.threads import Team
from minicc.target import Target
text = "define void @main(i64 %t, i64 %n, ptr %c) { ret void }"
library = load(link([optimise(text, Target.named("x86-64"))], ["main"]))
teams = [Team(2), Team(3)]
for team in teams:
    team.run(library["main"], 0)
print(threading.active_count())
"""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")


def test_teams_that_are_given_back_serve_again() -> None:
    first = take_team(2)
    second = take_team(2)
    assert first is not second
    give_team(first)
    assert take_team(2) is first
    give_team(second)
    give_team(first)
    assert visits(take_team(2)) == (3, 2)
    close_idle(2)
