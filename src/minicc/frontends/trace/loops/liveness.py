"""Which local names the instructions of a function read, and which they bind."""

from __future__ import annotations

import dis


def live(steps: list[dis.Instruction], follows: dict[int, list[int]]) -> dict[int, frozenset[str]]:
    """The local names that may be read from each instruction on, before they are bound."""
    none: frozenset[str] = frozenset()
    found = dict.fromkeys(follows, none)
    names = {n: local(steps[n]) for n in sorted(follows, reverse=True)}
    changed = True
    while changed:
        changed = False
        for n, (read, bound) in names.items():
            after = none.union(*[found.get(f, none) for f in follows[n]])
            before = after.difference(bound).union(read)
            if before != found[n]:
                found[n], changed = before, True
    return found


def local(step: dis.Instruction) -> tuple[list[str], list[str]]:
    """The local names that an instruction reads, and those that it binds after that."""
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    reads: list[str] = []
    binds: list[str] = []
    # superinstructions name what they do to each: STORE_FAST_LOAD_FAST
    ways = [w for w in step.opname.replace("LOAD_FAST_AND_CLEAR", "LOAD_FAST").split("_")
            if w in ("LOAD", "STORE")]  # fmt: skip
    if "FAST" in step.opname or step.opname in ("LOAD_DEREF", "LOAD_CLOSURE", "STORE_DEREF"):
        for way, name in zip(ways, names, strict=False):
            if way == "LOAD" and name not in binds:
                reads.append(name)
            elif way == "STORE":
                binds.append(name)
    return reads, binds
