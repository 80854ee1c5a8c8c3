"""The thread team: threads that help the caller's with the launches of a run.

Workers are Python's threads, since then no `pthread_create` is needed; each enters native code once
and stays there without the GIL until the team closes. What they do there, and why a run needs none
of them, is said in `claims`: a team with workers missing, asleep or late gives the same results, so
an interrupt between any two lines of this module leaves nothing to repair. Linux alone.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import weakref
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from minicc.backends.base import RuntimeCode
from minicc.errors import UserError
from minicc.later import Later
from minicc.runtime import claims
from minicc.runtime.direct_code import DIRECT, DIRECT_IR
from minicc.runtime.entry import ENTRY, ENTRY_IR
from minicc.runtime.image import Library, load
from minicc.runtime.sharing import LEAST
from minicc.target import BASELINE, usable_processors

if TYPE_CHECKING:
    from minicc.backends.llvm import link, optimize
    from minicc.backends.llvm.isa import system
else:
    link, optimize = Later("minicc.backends.llvm.link"), Later("minicc.backends.llvm.optimize")
    system = Later("minicc.backends.llvm.isa.system")

# Cycles of the time stamp counter (2 to 4 a nanosecond) to spin before parking: 1 ms for a worker,
# 0.1 for a caller that waits. Waking a parked thread took 30 to 145 us on a virtual machine, a
# hand-off to a spinning one 0.1 to 0.5. There is no `sched_yield` in between: it gave the core away
# for slices of 3 to 5 ms, where a sleeper that is woken gets it back at once.
_SPIN_CYCLES = {claims.OPEN: 3_000_000, claims.DONE: 300_000}

_PATIENCE_SECONDS = 1.0

# Kernels keep scratch on the stack; those of Python's threads may be small.
_STACK_BYTES = 8 << 20


def runtime_code(delay: str = "", more: str = "") -> RuntimeCode:
    """What each program's image has of the runtime: the team, and the way in from Python.

    `more` is text that goes with it, in tests the function called `delay` (see `team_ir`).
    """
    text = claims.team_ir(delay) + system.THREADS + ENTRY_IR + DIRECT_IR + more
    return RuntimeCode(text, ("minicc_worker", "minicc_close", ENTRY, DIRECT))


@cache
def _own_library() -> Library:
    """The team's code for any machine, one for the process."""
    code = runtime_code()
    return load(link.link([link.Object(optimize.optimise(code.text, BASELINE))], code.symbols))


_NATIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_forks = 0  # that this process is the child of


def _block_of(threads: int) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """A block for so many threads that nobody knows yet: its memory, and where it begins."""
    memory = ctypes.create_string_buffer(claims.block_bytes(threads) + claims.LINE - 1)
    block = -(-ctypes.addressof(memory) // claims.LINE) * claims.LINE
    ctypes.c_int64.from_address(block + claims.THREADS).value = threads
    return memory, block


# The block of all runs that are one thread's: they publish no launch, so nothing is written to it.
_memory_alone, ALONE = _block_of(1)


class Team:
    """`threads` threads, the caller among them.

    Serves one run at a time: a session keeps several teams so that it may be entered from several
    threads. Workers start with the first run, and again in the child of a fork; they end with
    `close`, with the team, or with the process. With `spin` off who waits sleeps at once.
    `library` is an image with `team_code`; without one the process's own is made.
    """

    def __init__(self, threads: int, spin: bool = True, library: Library | None = None) -> None:
        self.threads, self.spin = threads, spin
        self._library = library or _own_library()
        self._renew()

    def _renew(self) -> None:
        """Take a new block, of which no thread knows."""
        memory, block = _block_of(self.threads)
        # With more threads than cores, who spins keeps from the core the one it waits for.
        if self.spin and self.threads <= usable_processors():
            for word, cycles in _SPIN_CYCLES.items():
                ctypes.c_int64.from_address(block + word + claims.PATIENCE).value = cycles
        self._memory, self._block, self._forks = memory, block, _forks
        self._least = ctypes.c_int64.from_address(block + claims.LEAST)
        self._workers: list[_thread.LockType] = []
        # Nothing that a worker or the finalizer holds may hold the team, or it would never die.
        close = _NATIVE(self._library["minicc_close"])
        self._end = weakref.finalize(
            self, _dismiss, close, block, self._workers, memory, self._library
        )

    def start(self, least: int = LEAST[0]) -> int:
        """The address of the block, for the table of a run, with all workers started.

        In the run a share of a launch has points of work of at least `least` bits. Raises
        `UserError` when the system gives it no threads.
        """
        if not self._end.alive or self._forks != _forks:
            self._end.detach()
            self._renew()
        while len(self._workers) < self.threads - 1:
            thread = len(self._workers) + 1
            try:
                self._workers.append(self._worker())
            except RuntimeError as error:
                self.close()
                raise UserError(
                    "MC0103",
                    f"the system gives no more threads: {thread} of {self.threads} ({error})",
                    hint=f"set threads={thread} or fewer (MINICC_THREADS)",
                ) from error
        self._least.value = least
        return self._block

    def _worker(self) -> _thread.LockType:
        """Start a worker; what it holds until its end.

        `threading.Thread` waits for its thread with locks in Python, which an interrupt leaves held
        or releases twice.
        """
        loop = _NATIVE(self._library["minicc_worker"])
        kept = (self._memory, self._library)
        alive = _thread.allocate_lock()
        alive.acquire()
        before = _thread.stack_size(_STACK_BYTES)
        try:
            _thread.start_new_thread(_live, (loop, self._block, alive, kept))
        finally:
            _thread.stack_size(before)
        return alive

    def close(self) -> None:
        """End the workers and wait for them. A later run starts others."""
        self._end()


def _live(loop: Callable[[int], None], block: int, alive: _thread.LockType, kept: object) -> None:
    """A worker's life; `kept` is the memory and the code that it needs until its end."""
    loop(block)
    alive.release()


def _dismiss(
    close: Callable[[int], None], block: int, workers: list[_thread.LockType], *_kept: object
) -> None:
    """Send the workers home and wait for them.

    Not for ever: a process may end while a thread of its own is still inside a run.
    """
    close(block)
    for alive in workers:
        if alive.acquire(timeout=_PATIENCE_SECONDS):
            alive.release()


_idle: dict[tuple[int, bool], list[Team]] = {}


def take_team(threads: int, spin: bool = True, library: Library | None = None) -> Team:
    """A team of so many threads that nobody uses, the one that was given back last if there is one.

    All executables share teams: workers that wait for one executable would keep the cores from
    those of another. Who takes a team and never gives it back, as after an interrupt, loses it.
    """
    try:
        return _idle.setdefault((threads, spin), []).pop()
    except IndexError:
        return Team(threads, spin, library)


def give_team(team: Team) -> None:
    """Give back a team that was taken."""
    _idle.setdefault((team.threads, team.spin), []).append(team)


def close_idle(threads: int, spin: bool = True) -> None:
    """End the workers of all teams of so many threads that nobody uses."""
    for team in list(_idle.get((threads, spin), ())):
        team.close()


def _after_fork() -> None:
    """In the child: the workers stayed behind, whatever they were doing."""
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_after_fork)
