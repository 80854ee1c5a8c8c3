"""Locks that a fork does not leave held: in its child they are free, as their holder is not there.

What they guard is left as the fork found it: tables that are changed by one statement at a time.
"""

import os
import sys
import threading
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def lock() -> Any:
    """A lock that is free in the child of a fork; a thread that holds it may take it again."""
    made = threading.RLock()
    _locks.add(made)
    return made


def _free() -> None:
    binding = sys.modules.get("llvmlite.binding.ffi")
    theirs = [binding.lib._lock._lock] if binding is not None else []
    for held in (*_locks, *theirs):
        held._at_fork_reinit()


os.register_at_fork(after_in_child=_free)
