"""The thread team: one native function run by all threads at once (SPMD), with barriers in it.

As an OpenMP parallel region with a static schedule, and unlike IREE's task queues, Eigen's and
ORT's work stealing or XLA:CPU's thunks: a model with static shapes has nothing to balance, so
nothing is handed out op by op. A run costs one hand-off, and one barrier where data crosses shares.

Workers are Python's threads, since then no `pthread_create` is needed; each enters native code once
and stays there without the GIL until the team closes. Who waits spins (with `pause`), then parks
in a futex; a team with more threads than cores parks at once. Linux on x86-64.
Code of the barrier and of the worker's loop is generated like that of kernels.

Mirrors: OpenMP's static teams, TVM's thread pool, IREE's local-task, XLA:CPU's thread pool. Unlike
pools of tasks, all threads run one function from its start to its end.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from minicc.backends.base import TeamCode
from minicc.errors import CompilerBug, UserError
from minicc.later import Later
from minicc.runtime.image import Library, load
from minicc.target import TARGETS, usable_cores

if TYPE_CHECKING:
    from minicc.backends.llvm import link, optimize
else:
    link, optimize = Later("minicc.backends.llvm.link"), Later("minicc.backends.llvm.optimize")

# The block that a team shares, in bytes from its start. What one thread writes while others poll
# stands apart from the rest by two cache lines, as processors fetch lines in pairs.
_BARRIER, _SEQUENCE, _MAIN, _CONTEXT, _BLOCK = 0, 128, 152, 160, 256

# A word to wait for is three i64: a count that only grows, how many sleep, how long to spin first.
_SLEEPERS, _PATIENCE = 8, 16

# Cycles of the time stamp counter (2 to 4 a nanosecond) to spin before parking: about 0.1 ms inside
# a run and 1 ms between runs. Waking a parked thread took 30 to 145 us on a virtual machine, a
# hand-off to a spinning one 0.1 to 0.5. Longer inside a run is worse where other processes want the
# cores (seen with 1 ms: 0.6 ms a barrier). There is no `sched_yield` in between: it gave the core
# away for slices of 3 to 5 ms, where a sleeper that is woken gets it back at once.
_SPIN_CYCLES = {_BARRIER: 300_000, _SEQUENCE: 3_000_000}

_PATIENCE_SECONDS = 1.0


def barrier_ir() -> str:
    """LLVM IR of `void minicc_barrier(ptr barrier, i64 threads)`, which returns when all are there.

    `barrier` is 24 bytes on a cache line of its own: how many ever arrived and how many sleep, both
    zero at first, and the cycles to spin before sleeping. Since the count only grows, its multiples
    of `threads` are the generations of a sense-reversing barrier, and there is nothing to reset;
    `threads` must not change. A `threads` of 1 is legal.
    """
    return (
        _await_ir()
        + """
define void @minicc_barrier(ptr %barrier, i64 %threads) nounwind {
  %ticket = atomicrmw add ptr %barrier, i64 1 seq_cst
  %round = udiv i64 %ticket, %threads
  %next = add i64 %round, 1
  %goal = mul i64 %next, %threads
  %count = add i64 %ticket, 1
  %all = icmp eq i64 %count, %goal
  br i1 %all, label %release, label %wait
release:
  call void @minicc_wake(ptr %barrier)
  ret void
wait:
  call void @minicc_await(ptr %barrier, i64 %goal)
  ret void
}
"""
    )


def _await_ir() -> str:
    """LLVM IR of waiting for a count to reach a goal, and of waking those who wait."""
    return f"""
declare i64 @syscall(i64, ...)
declare i64 @llvm.readcyclecounter()
declare void @llvm.x86.sse2.pause()

; wait until the count at %word is %goal or more
define internal void @minicc_await(ptr %word, i64 %goal) nounwind noinline {{
entry:
  %begin = call i64 @llvm.readcyclecounter()
  %sleepers = getelementptr i8, ptr %word, i64 {_SLEEPERS}
  %patience.at = getelementptr i8, ptr %word, i64 {_PATIENCE}
  %patience = load i64, ptr %patience.at
  br label %poll
poll:
  %seen = load atomic i64, ptr %word acquire, align 8
  %ready = icmp sge i64 %seen, %goal
  br i1 %ready, label %done, label %idle
idle:
  call void @llvm.x86.sse2.pause()
  %now = call i64 @llvm.readcyclecounter()
  %spent = sub i64 %now, %begin
  %fresh = icmp ult i64 %spent, %patience
  br i1 %fresh, label %poll, label %park
park:
  ; first say so, then look again: who changes the word looks for sleepers after the change
  atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %check
check:
  %last = load atomic i64, ptr %word seq_cst, align 8
  %late = icmp sge i64 %last, %goal
  br i1 %late, label %leave, label %sleep
sleep:
  %low = trunc i64 %last to i32
  call i64 (i64, ...) @syscall(i64 202, ptr %word, i32 128, i32 %low, ptr null)
  br label %check
leave:
  atomicrmw sub ptr %sleepers, i64 1 seq_cst
  br label %done
done:
  ret void
}}

define internal void @minicc_wake(ptr %word) nounwind alwaysinline {{
  %sleepers.at = getelementptr i8, ptr %word, i64 {_SLEEPERS}
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %none = icmp eq i64 %sleepers, 0
  br i1 %none, label %done, label %wake
wake:
  call i64 (i64, ...) @syscall(i64 202, ptr %word, i32 129, i32 2147483647)
  br label %done
done:
  ret void
}}
"""


def worker_ir() -> str:
    """LLVM IR of the two ends of a run; belongs into one module with `barrier_ir`.

    `void minicc_run(ptr team, i64 threads, ptr main, ptr context)` has `main` run by all threads
    and returns when all are done; a null `main` sends the workers home. `void minicc_worker(ptr
    team, i64 thread, i64 threads, i64 seen)` is what workers live in; `seen` runs are past.
    """
    return f"""
define void @minicc_run(ptr %team, i64 %threads, ptr %main, ptr %context) nounwind {{
  %many = icmp sgt i64 %threads, 1
  br i1 %many, label %fork, label %alone
alone:
  call void %main(i64 0, i64 1, ptr %context)
  ret void
fork:
  %barrier = getelementptr i8, ptr %team, i64 {_BARRIER}
  %sequence = getelementptr i8, ptr %team, i64 {_SEQUENCE}
  %main.at = getelementptr i8, ptr %team, i64 {_MAIN}
  %context.at = getelementptr i8, ptr %team, i64 {_CONTEXT}
  store ptr %main, ptr %main.at
  store ptr %context, ptr %context.at
  atomicrmw add ptr %sequence, i64 1 seq_cst
  call void @minicc_wake(ptr %sequence)
  %close = icmp eq ptr %main, null
  br i1 %close, label %done, label %share
share:
  call void %main(i64 0, i64 %threads, ptr %context)
  call void @minicc_barrier(ptr %barrier, i64 %threads)
  br label %done
done:
  ret void
}}

define void @minicc_worker(ptr %team, i64 %thread, i64 %threads, i64 %seen) nounwind {{
entry:
  %barrier = getelementptr i8, ptr %team, i64 {_BARRIER}
  %sequence = getelementptr i8, ptr %team, i64 {_SEQUENCE}
  %main.at = getelementptr i8, ptr %team, i64 {_MAIN}
  %context.at = getelementptr i8, ptr %team, i64 {_CONTEXT}
  br label %next
next:
  %past = phi i64 [%seen, %entry], [%run, %share]
  %run = add i64 %past, 1
  call void @minicc_await(ptr %sequence, i64 %run)
  %main = load ptr, ptr %main.at
  %context = load ptr, ptr %context.at
  %close = icmp eq ptr %main, null
  br i1 %close, label %done, label %share
share:
  call void %main(i64 %thread, i64 %threads, ptr %context)
  call void @minicc_barrier(ptr %barrier, i64 %threads)
  br label %next
done:
  ret void
}}
"""


def team_code() -> TeamCode:
    """What each program's image has of the team."""
    return TeamCode(barrier_ir() + worker_ir(), ("minicc_run", "minicc_worker"))


@cache
def _own_library() -> Library:
    """The team's code for any x86-64, one for the process."""
    code = team_code()
    return load(link.link([optimize.optimise(code.text, TARGETS["x86-64"])], code.symbols))


_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Team:
    """`threads` threads, the caller among them, that run a native function together.

    Serves one call at a time: a session keeps several teams so that it may be entered from several
    threads. Workers start with the first run, and again in the child of a fork; they end with
    `close`, with the team, or with the process. `library` is an image with `team_code`; without
    one the process's own is made.
    """

    def __init__(self, threads: int, library: Library | None = None) -> None:
        self.threads = threads
        self._library = library or _own_library()
        self._memory = ctypes.create_string_buffer(_BLOCK + 127)
        self._block = -(-ctypes.addressof(self._memory) // 128) * 128
        self._native = _RUN(self._library["minicc_run"])
        self._busy = threading.Lock()
        self._workers: list[threading.Thread] = []
        self._started = threads == 1
        self._end: Callable[[], object] = lambda: None
        _teams.add(self)

    @property
    def barrier(self) -> int:
        """Address of the barrier for the `minicc_barrier` of a function that this team runs."""
        return self._block + _BARRIER

    def run(self, main: int, context: int) -> None:
        """Call `void main(i64 thread, i64 threads, ptr context)` in all threads; wait for all.

        Takes the address of the function and of what it works on; the GIL is released meanwhile.
        Raises `CompilerBug` when the team is at work already, and `UserError` when the system
        gives it no threads.
        """
        if not self._busy.acquire(False):
            raise CompilerBug("MC0350", "a thread team was entered twice", stage="run")
        try:
            if not self._started:
                self._start()
            self._native(self._block, self.threads, main, context)
        finally:
            self._busy.release()

    def close(self) -> None:
        """End the workers and wait for them, after a run in progress. A later run starts others."""
        with self._busy:
            self._end()
            self._started = self.threads == 1

    def _start(self) -> None:
        """Start the workers in a block as good as new."""
        ctypes.memset(self._block, 0, _BLOCK)
        # With more threads than cores, who spins keeps from the core the one it waits for.
        if self.threads <= usable_cores():
            for word, cycles in _SPIN_CYCLES.items():
                ctypes.c_int64.from_address(self._block + word + _PATIENCE).value = cycles
        workers: list[threading.Thread] = []
        # Nothing that a worker or the finalizer holds may hold the team, or it would never die.
        self._end = weakref.finalize(
            self, _dismiss, self._native, self._block, workers, self._memory, self._library
        )
        loop = _WORK(self._library["minicc_worker"])
        for thread in range(1, self.threads):
            worker = threading.Thread(
                target=loop,
                args=(self._block, thread, self.threads, 0),
                name=f"minicc-{thread}",
                daemon=True,
            )
            try:
                worker.start()
            except RuntimeError as error:
                self._end()
                raise UserError(
                    "MC0103",
                    f"the system gives no more threads: {thread} of {self.threads} ({error})",
                    hint=f"set threads={thread} or fewer (MINICC_THREADS)",
                ) from error
            workers.append(worker)
        self._started = True

    def _forget(self) -> None:
        """In the child of a fork: the workers stayed behind, whatever they were doing."""
        if isinstance(self._end, weakref.finalize):
            self._end.detach()
        self._end = lambda: None
        self._busy = threading.Lock()
        self._started = self.threads == 1


def _dismiss(
    run: Callable[[int, int, None, None], None],
    block: int,
    workers: list[threading.Thread],
    *_kept: object,
) -> None:
    """Send the workers home and wait, since their code and memory are about to go.

    Not for ever: a process may end while a daemon thread of its own is still inside a run.
    """
    run(block, 2, None, None)
    for worker in workers:
        worker.join(_PATIENCE_SECONDS)


_teams: weakref.WeakSet[Team] = weakref.WeakSet()
_idle: dict[int, list[Team]] = {}


def take_team(threads: int, library: Library | None = None) -> Team:
    """A team of so many threads that nobody uses, the one that was given back last if there is one.

    All executables share teams: workers that wait for one executable would keep the cores from
    those of another.
    """
    try:
        return _idle.setdefault(threads, []).pop()
    except IndexError:
        return Team(threads, library)


def give_team(team: Team) -> None:
    """Give back a team that was taken."""
    _idle[team.threads].append(team)


def close_idle(threads: int) -> None:
    """End the workers of all teams of so many threads that nobody uses."""
    for team in list(_idle.get(threads, ())):
        team.close()


def _after_fork() -> None:
    for team in list(_teams):
        team._forget()


os.register_at_fork(after_in_child=_after_fork)
