"""What is said where memory would not do, and what gives some back.

Errors, all `UserError`: MC0135 more than the limit, MC0136 more than the machine gives.

Mirrors: XLA's out-of-memory report, with its list of the largest allocations.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from minicc.errors import UserError

NAMED = 3
_HINT = (
    "use smaller shapes or batches, or allow more: Options(memory_limit=BYTES) or "
    "MINICC_MEMORY_LIMIT"
)


class Holding(NamedTuple):
    """Something in memory: its bytes, what it is in words, and the nodes that it is for."""

    bytes: int
    what: str
    where: tuple[str, ...] = ()


def spelled(count: int) -> str:
    """Bytes as people write them: three digits and a unit."""
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1024
        del units[0]
    return f"{amount:.3g} {units[0]}"


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
    tenth of the time of compiling. Modules have no cycles, so nothing is kept longer.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
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
