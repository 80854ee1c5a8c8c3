"""The limits of models and of compiling them, what is said beyond them, and what frees memory.

Errors, all `UserError`: MC0135 more bytes in all than the limit, MC0136 more than the machine
gives; beyond a limit of `Limits` MC0172 (nodes), MC0173 (nesting), MC0174 (rank), MC0175
(tensor_bytes), MC0176 (rounds), MC0177 (seconds), MC0178 (compile_bytes).
"""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import NamedTuple

from minicc.errors import UserError

NAMED = 3
_MOST_BITS = 1000  # of a number of bytes that is told by its digits
MOST_BYTES = 1 << 62  # that an array may have
_HINT = (
    "use smaller shapes or batches, or allow more: Options(memory_limit=BYTES) or "
    "MINICC_MEMORY_LIMIT"
)


class Limits(NamedTuple):
    """The most that a model may have, and that compiling it may take.

    `nodes`: of the graph and all graphs within, functions written out. `nesting`: graphs within one
    another. `rank`: axes of a tensor. `tensor_bytes`: of one tensor, whether it is ever in memory
    or not. `rounds`: of a loop or scan; of one that data end or count, machine code looks at them
    after some ten thousand. `seconds`: of one import or compilation, looked at between nodes,
    stages and kernels, so that a single one of them may take longer; `compile_bytes`: by how much
    the memory of the process may grow then, looked at between stages and kernels.
    """

    nodes: int = 1 << 20
    nesting: int = 32
    rank: int = 64
    tensor_bytes: int = 1 << 62
    rounds: int = 1 << 62
    seconds: int = 1 << 31
    compile_bytes: int = 1 << 62


_CODES = {name: f"MC0{172 + k}" for k, name in enumerate(Limits._fields)}


def beyond(name: str, what: str, limits: Limits, where: tuple[str, ...] = ()) -> UserError:
    """The error of a limit of that name for what is beyond it, in words."""
    limit = getattr(limits, name)
    hint = f"allow more: Options(limits={{{name!r}: N}}) or MINICC_LIMITS={name}=N"
    text = f"{what}, and the limit of {name} is {limit}"
    return UserError(_CODES[name], text, hint=hint, where=where)


class Watch(NamedTuple):
    """What an import or compilation may take, and the time and memory at which it began."""

    limits: Limits
    began: float
    held: int

    def look(self, *, memory: bool = True) -> None:
        """MC0177 and MC0178 where it took more than it may."""
        taken = time.perf_counter() - self.began
        if taken > self.limits.seconds:
            raise beyond("seconds", f"compiling has taken {taken:.1f} seconds", self.limits)
        if memory and self.limits.compile_bytes < _NO_BYTES:
            grown = _resident() - self.held
            if grown > self.limits.compile_bytes:
                text = f"compiling has taken {spelled(grown)} of memory"
                raise beyond("compile_bytes", text, self.limits)


_NO_BYTES = Limits().compile_bytes
_watching: ContextVar[Watch] = ContextVar("watching")


@contextmanager
def watched(limits: Limits) -> Iterator[None]:
    """Within it, `look` knows these limits; within another one those of the outer one count."""
    if _watching.get(None) is not None:
        yield
        return
    token = _watching.set(Watch(limits, time.perf_counter(), _resident()))
    try:
        yield
    finally:
        _watching.reset(token)


def watching() -> Watch:
    """The watch of what is compiled now, for other threads; one without limits if there is none."""
    return _watching.get(None) or Watch(Limits(), time.perf_counter(), 0)


def look(*, memory: bool = True) -> None:
    """MC0177 and MC0178 where what is compiled now took more than it may."""
    watch = _watching.get(None)
    if watch is not None:
        watch.look(memory=memory)


def _resident() -> int:
    """Bytes that the process has in memory; the most that it ever had where only that is told."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


class Holding(NamedTuple):
    """Something in memory: its bytes, what it is in words, and the nodes that it is for."""

    bytes: int
    what: str
    where: tuple[str, ...] = ()


def spelled(count: int) -> str:
    """Bytes as people write them: three digits and a unit; of what no float holds, a power of 2."""
    if count.bit_length() > _MOST_BITS:
        return f"2^{count.bit_length() - 1} bytes"
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1024
        del units[0]
    return f"{amount:.3g} {units[0]}"


def counted(extents: Iterable[int], width: int) -> int:
    """Bytes of a tensor whose elements have `width` bytes, if there are any.

    NumPy multiplies the other extents of one without elements, too, so that these count where they
    are more than any array may have: more than `MOST_BYTES`.
    """
    known = tuple(extents)
    largest = prod(max(n, 1) for n in known) * width
    return largest if largest > MOST_BYTES else prod(known) * width


def no_memory(what: str) -> UserError:
    """MC0136: the machine has no memory left for something, in words."""
    text = f"the machine has no memory left for {what}"
    return UserError("MC0136", text, hint="use smaller shapes or batches, or close other programs")


def give_back() -> None:
    """Return freed memory to the system.

    The C library keeps what was freed between what is still used, which is much after weights were
    copied from stage to stage. Nothing is done where it has no call for that.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause Python's search for cycles of garbage, also as a decorator.

    While stages make module after module, it would walk over all that is alive again and again: a
    tenth of the time of compiling. Modules have no cycles, so nothing is kept longer. What was made
    in the meantime counts as old then: as young, all of it would be walked over at once.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            if not gc.get_freeze_count():  # what a program has frozen itself stays so
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def require_array_fits(nbytes: int, limit: int, what: str) -> None:
    """MC0135 where one array, named in words, is larger than the limit."""
    if nbytes > limit:
        raise too_large(what, nbytes, limit, ())


def too_large(
    what: str, needed: int, limit: int, found: Iterable[Holding], where: tuple[str, ...] = ()
) -> UserError:
    """MC0135 for something in words; of what was found, those are named that matter."""
    largest = [h for h in sorted(found, key=lambda h: -h.bytes)[:NAMED] if h.bytes * 50 > needed]
    text = f"{what} needs {spelled(needed)} of memory, and the limit is {spelled(limit)}"
    if largest:
        listed = "; ".join(f"{spelled(h.bytes)} for {h.what}" for h in largest)
        text += f"; the largest: {listed}"
    where = where or tuple(dict.fromkeys(name for h in largest for name in h.where))
    return UserError("MC0135", text, hint=_HINT, where=where)
