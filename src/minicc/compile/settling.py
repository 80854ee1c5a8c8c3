"""Constants are computed and put where they may stay while later stages and LLVM are at work.

From the stage `pack` on no stage changes a constant, and NumPy copies weights without Python's
lock: a core that the stages leave free scales, transposes and packs them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock

from minicc.ir import program, structured
from minicc.ir.core import Literal, Module, walk_control
from minicc.limits import give_back

LAST_CHANGE = "pack"  # the last stage that changes constants
_MUCH = 1 << 23  # bytes of constants, of which stages may have left copies about


@contextmanager
def settling() -> Iterator[Settling]:
    """Within it constants are settled; what is left of them at the end stays as it is."""
    made = Settling()
    try:
        yield made
    finally:
        made.stop()


class Settling:
    """The constants of one program, and the threads that settle them, of which each takes one."""

    def __init__(self) -> None:
        self._left: Iterator[Literal] | None = None
        self._taken = Lock()
        self._stopped = False
        self._cores = len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self._cores, "minicc-settle")
        self._threads: list[Future[None]] = []

    def begin(self, module: Module, limit: int | None = None) -> None:
        """Begin with the constants of a module, if that was not done and they fit within a limit.

        One thread does so. What stages have left of copies goes back to the system before.
        """
        if self._left is not None:
            return
        ops = walk_control(module.main.body)
        found = [o.value for o in ops if isinstance(o, structured.Constant | program.Constant)]
        for literal in found:
            hash(literal)  # stays that of how it is computed, however far the threads are
        size = sum(literal.type.nbytes for literal in found)
        if limit is not None and size > limit:
            return  # plan-memory refuses them, if the sizes of the rest are known
        if size >= _MUCH:
            give_back()
        # the largest first: after each, the thread waits until a stage lets go of Python's lock
        self._left = iter(sorted(found, key=lambda literal: literal.type.nbytes, reverse=True))
        self._threads.append(self._pool.submit(self._work))

    def finish(self) -> None:
        """Settle what is left on all cores, and wait for it; raises what a thread met."""
        if self._threads:
            self._threads += [self._pool.submit(self._work) for _ in range(1, self._cores)]
        for thread in self._threads:
            thread.result()

    def stop(self) -> None:
        """Settle no more, and wait until what is in hand is done."""
        self._stopped = True
        self._pool.shutdown()

    def _work(self) -> None:
        assert self._left is not None
        while not self._stopped:
            with self._taken:
                literal = next(self._left, None)
            if literal is None:
                return
            literal.settle()
