"""Where the instructions of a function lead, and what its jumps ask for.

Everything here is a fact of a code object. Nothing is known of loops that are captured (`code`).
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator, Mapping, Set
from typing import Any

CODES = 64  # functions of which it is remembered what their instructions are
ENDS = ("RETURN_", "RAISE", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE")


@functools.lru_cache(CODES)
def instructions(code: types.CodeType) -> tuple[dis.Instruction, ...]:
    """The instructions of a function, without those of functions that it defines."""
    return tuple(dis.get_instructions(code))


def codes_within(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those of the functions that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_within(constant)


class Flow:
    """Where the instructions of a function lead."""

    def __init__(self, steps: list[dis.Instruction], place: dict[int, int]) -> None:
        self.steps = steps
        self.place = place
        self._jumps: dict[Any, list[int]] = {}  # that ask, by where their conditions stand
        self._within: dict[int, set[int]] = {}  # by a loop's head
        self.ends: dict[int, int] = {}  # the last instruction that leads back to a loop's head
        for n, step in enumerate(steps):
            target = self.target(n)
            if target is not None and target <= n and "SEND" not in step.opname:
                self.ends[self.after(target)] = n

    def target(self, n: int) -> int | None:
        """Where an instruction jumps to."""
        step = self.steps[n]
        jumps = step.opcode in dis.hasjrel or step.opcode in dis.hasjabs
        return self.place[step.argval] if jumps else None

    @functools.cached_property
    def follows(self) -> dict[int, list[int]]:
        """What may run after each instruction."""
        return {
            n: [
                *[t for t in (self.target(n),) if t is not None],
                *[n + 1] * (not step.opname.startswith(ENDS) and n + 1 < len(self.steps)),
            ]
            for n, step in enumerate(self.steps)
        }

    def after(self, n: int) -> int:
        """What runs first from a place on that is no unconditional jump."""
        seen: set[int] = set()
        while n not in seen:
            seen.add(n)
            name = self.steps[n].opname
            if name in ("NOP", "NOT_TAKEN"):
                n += 1
            elif name.startswith(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE")):
                n = self.place[self.steps[n].argval]
        return n

    def while_around(self, n: int) -> int | None:
        """The head of the innermost loop around an instruction, if that is a `while`."""
        head = self.innermost(n)
        return None if head is None or self.steps[head].opname == "FOR_ITER" else head

    def innermost(self, n: int) -> int | None:
        """The head of the innermost loop around an instruction."""
        return next(iter(self.heads_around(n)), None)

    def heads_around(self, n: int) -> list[int]:
        """The heads of the loops around an instruction, the innermost first."""
        return sorted((h for h, end in self.ends.items() if h <= n <= end), reverse=True)

    def copies(self, n: int) -> Iterator[int]:
        """The jumps that are of the same condition of the program's text."""
        if not self._jumps:
            for m, step in enumerate(self.steps):
                if len(self.sides(m)) == 2:
                    self._jumps.setdefault(step.positions, []).append(m)
        return (m for m in self._jumps.get(self.steps[n].positions, ()) if m != n)

    def copy_within(self, n: int) -> int:
        """The jump in a loop of which Python has a copy before it; the jump itself if it has none.

        All jumps of one condition have copies there, in the same order.
        """
        alike = sorted((n, *self.copies(n)))
        inside = [m for m in alike if len(self.heads_around(m)) > len(self.heads_around(n))]
        before = [m for m in alike if m not in inside]
        return inside[before.index(n)] if len(inside) == len(before) else n

    def avoids(self, head: int, n: int) -> bool:
        """Whether a round of a loop may come by an instruction of it."""
        seen: set[int] = set()
        waiting = [m for m in self.follows[head] if head != n]
        while waiting and head not in seen:
            m = self.after(waiting.pop())
            if m != n and m not in seen and m in self.within(head):
                seen.add(m)
                waiting += self.follows[m]
        return head in seen

    def places(self, jumps: Mapping[int, int]) -> Mapping[int, bool]:
        """For jumps and their copies what they ask for, so that they lead to where they stay."""
        found: dict[int, bool] = {}
        for n, stays in jumps.items():
            found[n] = self.asks_for(n, stays)
            leaves = {*self.sides(n)} - {stays}
            for m in self.copies(n):
                more = [s for s in self.sides(m) if s not in leaves]
                if len(more) == 1:
                    found[m] = self.asks_for(m, more[0])
        return found

    def asks_for(self, n: int, side: int) -> bool:
        """What a condition is where the jump that asks for it leads to one of its sides."""
        return (self.sides(n)[0] == side) == self.steps[n].opname.endswith("TRUE")

    def within(self, head: int) -> Set[int]:
        """The instructions that lead back to a loop's head."""
        if head in self._within:
            return self._within[head]
        before: dict[int, list[int]] = {}
        for n, after in self.follows.items():
            for m in after:
                before.setdefault(m, []).append(n)
        inside = self._within[head] = {head}
        waiting = [n for n in before[head] if n > head]
        while waiting:
            n = waiting.pop()
            if n not in inside:
                inside.add(n)
                waiting += before.get(n, [])
        return inside

    def popped(self, n: int) -> int:
        """What runs first from the end of a `for` on, its iterator gone."""
        n = self.after(n)
        while self.steps[n].opname in ("POP_TOP", "END_FOR", "POP_ITER"):
            n = self.after(n + 1)
        return n

    def raises(self, n: int) -> bool:
        """Whether an error is raised from an instruction on, before anything is decided."""
        for step in self.steps[n:]:
            if step.opname == "RAISE_VARARGS":
                return True
            if step.opname.startswith(ENDS) or step.opcode in dis.hasjrel + dis.hasjabs:
                return False
        return False

    def leads_to(self, n: int, ends: Set[int], iterates: bool) -> bool:
        """Whether an instruction leaves a loop for where one of its `ends` leads."""
        if not iterates or self.steps[n].opname not in ("POP_TOP", "POP_ITER"):
            return n in ends
        return self.popped(n) in {self.popped(end) for end in ends}

    def sides(self, n: int) -> tuple[int, ...]:
        """Where a jump that asks for a truth value leads, and what follows it."""
        name = self.steps[n].opname
        if "POP_JUMP" not in name or not name.endswith(("TRUE", "FALSE")):
            return ()
        return self.after(self.place[self.steps[n].argval]), self.after(n + 1)

    def exit(self, n: int, head: int) -> int | None:
        """Where a test of the `while` of that head leaves it; None for what is no test of one."""
        sides = self.sides(n)
        others = [s for s in sides if s != head]
        if head not in self.ends or self.steps[head].opname == "FOR_ITER":
            return None
        if len(sides) != 2 or len(others) != 1 or head <= others[0] <= self.ends[head]:
            return None
        # before the loop, part of a condition may lead to the next part
        return None if self._enters(n, head) else others[0]

    def _enters(self, n: int, head: int) -> bool:
        """Whether the side of a jump that is not a loop's head leads forward to it."""
        follows = self.follows
        seen: set[int] = set()
        waiting = [m for m in follows[n] if self.after(m) != head]
        while waiting:
            m = waiting.pop()
            if n < m <= head and m not in seen:
                seen.add(m)
                waiting += follows[m]
        return head in seen


@functools.lru_cache(CODES)
def flow_of(code: types.CodeType) -> Flow:
    """Where the instructions of a function lead, which is found once."""
    return Flow(*placed(code))


@functools.lru_cache(CODES)
def placed(code: types.CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    """The instructions of a function, and which of them begins at an offset."""
    steps: list[dis.Instruction] = []
    place: dict[int, int] = {}
    for step in instructions(code):
        place[step.offset] = len(steps)  # of a prefix it is the instruction that follows
        if step.opname not in ("CACHE", "EXTENDED_ARG"):
            steps.append(step)
    return steps, place


@functools.lru_cache(512)
def raises_at(code: types.CodeType, at: int) -> bool | None:
    """For which truth value, asked for at that place, an error is raised; None for neither."""
    flow, n = flow_of(code), jump_at(code, at)
    sides = flow.sides(n)
    raising = [s for s in sides if flow.raises(s)]
    return flow.asks_for(n, raising[0]) if len(raising) == 1 < len(sides) else None


def asked_at(code: types.CodeType, at: int) -> int:
    """The jump that `jump_at` gives, or its copy in the loop where it stands before one."""
    return flow_of(code).copy_within(jump_at(code, at))


def jump_at(code: types.CodeType, at: int) -> int:
    """The jump that asks for the truth value for which a frame stands at that place."""
    steps, place = placed(code)
    n = place.get(at, 0)
    return n + (steps[n].opname == "TO_BOOL")
