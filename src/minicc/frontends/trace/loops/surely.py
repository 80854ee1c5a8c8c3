"""What all ways through a loop's body do to local names, as its code says; see `guesses`."""

from __future__ import annotations

import collections
import dis
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from minicc.frontends.trace.loops.liveness import local

_KEY = {"STORE_SUBSCR": 1, "STORE_SLICE": 2}  # values that lie above the array


class Surely(NamedTuple):
    """The local names that each round binds, and those to whose array it writes.

    Those that are `updated` are bound by operators that work in place alone (`+=`): to an array
    each round writes, and to a number it binds. An int in one that is `counted` grows by so much.
    """

    bound: frozenset[str]
    written: frozenset[str]
    updated: frozenset[str]
    counted: tuple[tuple[str, int], ...]


NOT_SURE = Surely(frozenset(), frozenset(), frozenset(), ())


def surely(
    steps: Sequence[dis.Instruction],
    follows: Mapping[int, Sequence[int]],
    depths: Mapping[int, int],
    firsts: Set[int],
) -> Surely:
    """What all ways do from the `firsts` of some instructions until they leave these.

    `follows` has what may run after each, and `depths` how many values lie on the stack before it.
    A `for` within is taken to have a round.
    """
    done = {n: _done(steps, depths, n) for n in follows}
    before: dict[int, list[int]] = {}
    for m, after in follows.items():
        for n in after:
            before.setdefault(n, []).append(m)
    anything = _NOTHING.union(*done.values())
    bits = {d: 1 << k for k, d in enumerate(anything)}  # sets of them are the bits of numbers
    does = {n: sum(bits[d] for d in found) for n, found in done.items()}
    known = dict.fromkeys(follows, -1)  # what is done once an instruction has run

    def until(n: int) -> int:
        """What is done on all ways to an instruction."""
        found = -1
        for m in before.get(n, ()):
            rounds: list[int] = []
            if n != m + 1 and steps[m].opname == "FOR_ITER":
                rounds = [known[k] for k in before.get(m, ()) if k > m]
            for one in rounds or (known[m],):
                found &= one
        return found

    changed = True
    order = sorted(follows)
    while changed:
        changed = False
        for n in order:
            here = does[n] | (0 if n in firsts else until(n))
            if here != known[n]:
                known[n], changed = here, True
    surely_done = -1
    for n in before:
        if n not in follows:
            surely_done &= until(n)
    all_ways = [d for d in anything if surely_done & bits[d]]
    names = {way: frozenset(d.name for d in all_ways if d.way == way) for way in ("=", "+=", "[]")}
    otherwise = frozenset(d.name for d in anything if d.way == "=")
    once = collections.Counter(d.name for n in follows for d in done[n] if d.way != "[]")
    inner = [(k, m) for m in follows for k in follows[m] if k <= m and k in follows]
    counted = tuple(
        (name, by)
        for n, name, by in _counts(steps, follows)
        if once[name] == 1
        and name in names["="] | names["+="]
        and not any(k <= n <= m for k, m in inner)
    )
    return Surely(names["="], names["[]"] - otherwise, names["+="] - otherwise, counted)


class _Done(NamedTuple):
    way: str
    name: str


_NOTHING = frozenset[_Done]()


def _done(steps: Sequence[dis.Instruction], depths: Mapping[int, int], n: int) -> frozenset[_Done]:
    """What an instruction does to which names."""
    step = steps[n]
    if "STORE" not in step.opname:
        return _NOTHING
    if step.opname in _KEY:
        slot = depths[n] - 1 - _KEY[step.opname]
        if steps[n - 1].opname == "SWAP":  # what an operator in place has left was put below
            slot -= 1
        name = _pushed(steps, depths, n, slot)
        return frozenset([_Done("[]", name)] if name else [])
    updates = n > 0 and steps[n - 1].opname == "BINARY_OP" and steps[n - 1].argrepr.endswith("=")
    bound = local(step)[1]
    return frozenset(_Done("+=" if updates and not k else "=", b) for k, b in enumerate(bound))


def _counts(
    steps: Sequence[dis.Instruction], follows: Iterable[int]
) -> Iterator[tuple[int, str, int]]:
    """Where a constant is added to a name or taken from it: the place, the name, and how much."""
    for n in follows:
        if n < 3 or not steps[n].opname.startswith("STORE_FAST"):
            continue
        load, constant, operator = steps[n - 3 : n]
        name, by = local(steps[n])[1][0], constant.argval
        if local(load)[0][-1:] != (name,) or type(by) is not int or "LOAD" not in constant.opname:
            continue
        if operator.opname == "BINARY_OP" and operator.argrepr.rstrip("=") in ("+", "-"):
            yield n, name, by if operator.argrepr.startswith("+") else -by


def _pushed(
    steps: Sequence[dis.Instruction], depths: Mapping[int, int], n: int, slot: int
) -> str | None:
    """The local name whose value was last put at a place of the stack, if it is one's."""
    for m in range(n - 1, -1, -1):
        if m not in depths:
            return None
        if depths[m] <= slot < depths.get(m + 1, depths[m]):
            read, bound = local(steps[m])
            place = slot - depths[m] + len(bound)
            return read[place] if 0 <= place < len(read) else None
    return None
