"""Which local names the instructions of a function read, and which they bind."""

from __future__ import annotations

import dis
from collections.abc import Mapping, Sequence
from functools import lru_cache

_Names = tuple[str, ...]
_OF_CELLS = ("LOAD_DEREF", "LOAD_CLOSURE", "STORE_DEREF")


class Live:
    """The local names that may be read from each instruction on, before they are bound.

    `follows` has the instructions to look at, each with what may run after it.
    """

    def __init__(
        self, steps: Sequence[dis.Instruction], follows: Mapping[int, Sequence[int]]
    ) -> None:
        self._bits: dict[str, int] = {}
        self._found = dict.fromkeys(follows, 0)  # a set of names as the bits of a number
        uses = [(n, *map(self._set, local(steps[n]))) for n in sorted(follows, reverse=True)]
        changed = True
        while changed:
            changed = False
            for n, read, bound in uses:
                after = 0
                for m in follows[n]:
                    after |= self._found.get(m, 0)
                before = after & ~bound | read
                if before != self._found[n]:
                    self._found[n], changed = before, True

    def _set(self, names: _Names) -> int:
        found = 0
        for name in names:
            found |= self._bits.setdefault(name, 1 << len(self._bits))
        return found

    def at(self, n: int) -> frozenset[str]:
        """Those of an instruction; none where it is not among those to look at."""
        found = self._found.get(n, 0)
        return frozenset(name for name, bit in self._bits.items() if found & bit)


def local(step: dis.Instruction) -> tuple[_Names, _Names]:
    """The local names that an instruction reads, and those that it binds after that."""
    if "FAST" not in step.opname and step.opname not in _OF_CELLS:
        return (), ()
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    return _local(step.opname, names)


@lru_cache(4096)
def _local(opname: str, names: _Names) -> tuple[_Names, _Names]:
    reads: list[str] = []
    binds: list[str] = []
    # superinstructions name what they do to each: STORE_FAST_LOAD_FAST
    words = opname.replace("LOAD_FAST_AND_CLEAR", "LOAD_FAST").split("_")
    ways = [word for word in words if word in ("LOAD", "STORE")]
    for way, name in zip(ways, names, strict=False):
        if way == "LOAD" and name not in binds:
            reads.append(name)
        elif way == "STORE":
            binds.append(name)
    return tuple(reads), tuple(binds)
