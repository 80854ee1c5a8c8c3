"""What the bytecode of a function tells of its loops.

A `for` may be captured where its body ends at the loop's head alone (no `break`, no `return`),
makes and handles no exceptions of its own, and binds nothing but local names. `carried` are the
names that a round may read before it binds them: they take a value from round to round.

A `while` has no head that could be asked for items, but a test, of which Python may have two copies
(before the loop, and after its body): the jump where one side begins a round, and the other leaves
the loop. A round goes from test to test, so `while True` with one `break` is a loop too, and so is
the rest of a `for` from its `break` or `return` on.

Where rounds may come by no test that leaves the loop (`while a and b or c`, or a `break` within two
`if`s), a condition that each round asks for stands for the test: a round goes from there to there.

Everything here is a fact of a code object: nothing is known of values.
"""

from __future__ import annotations

import dis
import functools
import types
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from minicc.frontends.trace.loops.flow import (
    CODES,
    ENDS,
    codes_within,
    flow_of,
    instructions,
    jump_at,
    placed,
)
from minicc.frontends.trace.loops.liveness import Live, local
from minicc.frontends.trace.loops.surely import NOT_SURE, Surely, surely
from minicc.frontends.trace.loops.uses import Use, use_at

_OPTIMISED = 0x0001 | 0x0002  # names are local, and there are new ones at each call
_SUSPENDED = 0x0020 | 0x0080 | 0x0100 | 0x0200  # generators and coroutines
_APPENDS = ("LIST_APPEND", "SET_ADD", "MAP_ADD")
_REFUSED = {
    "DELETE_ATTR": "deletes an attribute",
    "STORE_GLOBAL": "binds a global name", "DELETE_GLOBAL": "deletes a global name",
    "DELETE_FAST": "deletes a name", "DELETE_DEREF": "deletes a name",
    "DELETE_SUBSCR": "deletes an element", "IMPORT_NAME": "imports a module",
    "BEFORE_WITH": "has a `with` in it", "LOAD_SPECIAL": "has a `with` in it",
    "YIELD_VALUE": "yields", "SEND": "yields",
}  # fmt: skip


class LoopCode(NamedTuple):
    """A loop: the place of its head, its line, and the names that its body needs.

    Those are `carried`, the local ones that it may read before it binds them, and those from
    `outside` of the function; of those that it has `bound`, `left` may be read after the loop. With
    those that are `appended` to nothing else is done, but that rounds look at elements of those
    that are `read_back`, and at their lengths. With those that are `taken_by` keys they do nothing
    but take elements and look, and of those that are `set_by` keys they set some as well. `refused`
    says why it can't be captured. `surely` is what each round does.
    """

    head: int
    line: int
    outside: frozenset[str]
    carried: frozenset[str]
    left: frozenset[str]
    refused: str
    bound: frozenset[str]
    appended: frozenset[str]
    read_back: frozenset[str]
    taken_by: frozenset[str]
    set_by: frozenset[str]
    surely: Surely


class Test(NamedTuple):
    """A test of a loop: it goes on where the condition is `stays`; None if it does not leave it.

    In a `for`, `turn` is the head of that. The test ends it `alike` where a loop that is left there
    goes on as one that has had all its items; if a round has a rest after the test then, `rest` are
    the names that are read after the loop. `others` are tests within a round that leave it for the
    same place, by the places of their jumps, each with what its condition is if it stays.
    `elsewhere` are those that leave it for other places, as a `return` in its middle does; some of
    them stand in a loop within if it `is_left_within`.
    """

    loop: LoopCode
    stays: bool | None
    turn: int | None = None
    alike: bool = True
    rest: frozenset[str] | None = None
    others: Mapping[int, bool] = MappingProxyType({})
    elsewhere: Mapping[int, bool] = MappingProxyType({})
    is_left_within: bool = False


class Names(NamedTuple):
    """The names that a function's code looks up, and why calls of it are no part of a loop."""

    reads: frozenset[str]
    refused: str


@functools.lru_cache(512)
def names_in(code: types.CodeType) -> Names:
    """The names that a function looks up outside of itself, functions within it included."""
    reads: set[str] = set()
    refused = ""
    for part in codes_within(code):
        drawn = part.co_name == "<genexpr>"
        if part.co_flags & _SUSPENDED and not drawn:
            refused = refused or "yields"
        for step in instructions(part):
            why = _REFUSED.get(step.opname, "")
            if not (drawn and why == "yields"):
                refused = refused or why
            if step.opname == "STORE_DEREF" and step.argval in part.co_freevars:
                refused = refused or "binds a name of a function around it"
            if step.opname == "LOAD_GLOBAL":
                reads.add(step.argval)
    return Names(frozenset(reads), refused)


@functools.lru_cache(512)
def loop_at(code: types.CodeType, at: int, called: bool) -> LoopCode | None:
    """The `for` that asks for an iterator at that place, or of what was `called` there, if any."""
    if code.co_flags & _OPTIMISED != _OPTIMISED or code.co_name in ("<listcomp>", "<genexpr>"):
        return None
    steps, place = placed(code)
    head = place.get(at)
    if head is None:
        return None
    if called:
        head += steps[head].opname == "PRECALL"
        if steps[head].opname not in ("CALL", "CALL_KW"):
            return None
        head += 1
    if [s.opname for s in steps[head : head + 2]] != ["GET_ITER", "FOR_ITER"]:
        return None
    return _Body(code, head + 1, ((head + 2, 1),), {head + 1}, set()).facts()


@functools.lru_cache(512)
def test_at(code: types.CodeType, at: int) -> Test | None:
    """The test that asks for a truth value at that place and may end a loop, if it is one."""
    if code.co_flags & _OPTIMISED != _OPTIMISED:
        return None
    flow, n = flow_of(code), jump_at(code, at)
    head = next((h for h in flow.sides(n) if flow.exit(n, h) is not None), None)
    if head is None:
        return _test_of_for(code, n) or _test_of_while(code, n) or _test_within(code, n)
    exits = {m: e for m in range(len(flow.steps)) if (e := flow.exit(m, head)) is not None}
    ends, left = set(exits), set(exits.values())
    return _test_of(_Body(code, n, ((head, 0),), ends, left, around=head), head)


def _test_of_for(code: types.CodeType, n: int) -> Test | None:
    """The test that leaves the innermost loop around it, a `for`."""
    flow = flow_of(code)
    sides = flow.sides(n)
    around = flow.heads_around(n)
    head = around[0] if around else 0
    inside = flow.within(head) if around else set()
    left = [s for s in sides if s not in inside]
    if flow.steps[head].opname != "FOR_ITER" or len(left) != 1 or n not in inside:
        return None
    stays = sides[1] if left[0] == sides[0] else sides[0]
    body = _Body(code, n, ((stays, 0),), {n}, {left[0]}, head, head)
    end = flow.target(head) or 0
    alike = flow.popped(left[0]) == flow.popped(end)
    loop = body.facts()
    turn = flow.steps[head + 1].offset
    others, elsewhere = map(flow.places, (body.others, body.elsewhere))
    rest = body.read_from(left, loop.bound) if alike and stays != head else None
    return Test(loop, flow.asks_for(n, stays), turn, alike, rest, others, elsewhere)


def _test_of_while(code: types.CodeType, n: int) -> Test | None:
    """One of several tests of the innermost loop around it, a `while`.

    Python has copies of the tests of a `while` before it, and asks these first. They lead out
    of it as well; the parts of `0 < x < 3`, which stand at one place, too, do not.
    """
    flow = flow_of(code)
    found = (_while_left_at(code, m, {*flow.sides(n)}) for m in (n, *flow.copies(n)))
    return next(filter(None, found), None)


def _while_left_at(code: types.CodeType, n: int, ways: Set[int]) -> Test | None:
    """The test at a jump, if it leaves the loop for where one of some `ways` leads."""
    flow = flow_of(code)
    head = flow.while_around(n)
    inside = set() if head is None else flow.within(head)
    stays, left = ([s for s in flow.sides(n) if (s in inside) is side] for side in (True, False))
    if len(stays) != 1 or len(left) != 1 or n not in inside or left[0] not in ways:
        return None
    body = _Body(code, n, ((stays[0], 0),), {n}, {left[0]}, around=head)
    return _test_of(body, stays[0])


def _test_within(code: types.CodeType, n: int) -> Test | None:
    """A condition that all rounds of the innermost loop around it ask for, and that stays in it.

    It is a test where none that leaves the loop is asked for in all rounds.
    """
    flow = flow_of(code)
    n = flow.copy_within(n)
    head = flow.innermost(n)
    inside = set() if head is None else flow.within(head)
    jumps = {m: flow.sides(m) for m in inside}
    leaving = {m for m, sides in jumps.items() if any(s not in inside for s in sides)}
    sides = jumps.get(n, ())
    if len(sides) < 2 or not leaving or n in leaving or head is None or flow.avoids(head, n):
        return None
    if not all(flow.avoids(head, m) for m in leaving):
        return None
    exits = {s for m in leaving for s in jumps[m]} - inside
    iterates = head if flow.steps[head].opname == "FOR_ITER" else None
    firsts = tuple((s, 0) for s in sides)
    body = _Body(code, n, firsts, {n}, exits, iterates, head, stays_in=True)
    turn = None if iterates is None else flow.steps[head + 1].offset
    loop, elsewhere = body.facts(), flow.places(body.elsewhere)
    return Test(loop, None, turn, elsewhere=elsewhere) if elsewhere else None


@functools.lru_cache(512)
def whole_at(code: types.CodeType, begin: int) -> Test | None:
    """The test of a `for` whose rounds begin at that place, if it may be left.

    It is one that always goes on: the loop has all its items, or is left in its middle.
    """
    flow = flow_of(code)
    head = flow.place[begin] - 1
    end = flow.target(head)
    if end is None:
        return None
    body = _Body(code, head, ((head + 1, 1),), {head}, {end}, around=head, whole=True)
    loop = body.facts()
    within = any(flow.innermost(n) != head for n in body.elsewhere)
    others, elsewhere = map(flow.places, (body.others, body.elsewhere))
    if not (others or elsewhere):
        return None
    return Test(loop, True, others=others, elsewhere=elsewhere, is_left_within=within)


def _test_of(body: _Body, stays: int) -> Test:
    """The test of a `while`, which goes on where that leads to `stays`."""
    loop, flow = body.facts(), body.flow
    others, elsewhere = map(flow.places, (body.others, body.elsewhere))
    return Test(loop, flow.asks_for(body.head, stays), others=others, elsewhere=elsewhere)


@dataclass(eq=False)
class _Body:
    """The instructions of a round, from one of the `firsts` to `ends`.

    Each of the `firsts` comes with the values that lie above the iterator of a `for`, the innermost
    one, there. `head` is the instruction that stands for the loop, which it may leave unless it
    `stays_in`; `exits` are where it goes on after it. On its way a round takes the next item of the
    `for` that `iterates`. Of one that may be left for elsewhere, `around` is the loop's head; of a
    `whole` one loops within may leave it, too.
    """

    code: types.CodeType
    head: int
    firsts: tuple[tuple[int, int], ...]
    ends: set[int]
    exits: set[int]
    iterates: int | None = None
    around: int | None = None
    stays_in: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        self.flow = flow_of(self.code)
        self.steps, self.place = self.flow.steps, self.flow.place
        self.handlers = list(getattr(dis.Bytecode(self.code), "exception_entries", ()))
        self.depths: dict[int, int] = {}  # values above the iterator, before each instruction
        self.follows: dict[int, list[int]] = {}
        # jumps out of the loop, with where they stay in it: to where it ends, and elsewhere
        self.others: dict[int, int] = {}
        self.elsewhere: dict[int, int] = {}
        around = self.around
        self.within: Set[int] = set()
        if around is not None:
            self.within = self.flow.within(around)

    def facts(self) -> LoopCode:
        """Walk the body from its first instruction, and tell what was met."""
        refused = "yields" if self.code.co_flags & _SUSPENDED else self._walk()
        outside: set[str] = set()
        for n in self.depths:
            if self.steps[n].opname == "LOAD_GLOBAL":
                outside.add(self.steps[n].argval)
            inner = self.steps[n].argval
            if isinstance(inner, types.CodeType):
                found = names_in(inner)
                outside |= found.reads
                refused = refused or found.refused
        step = self.steps[self.head]
        line = (step.positions.lineno if step.positions else None) or self.code.co_firstlineno
        bound = frozenset(name for n in self.depths for name in local(self.steps[n])[1])
        left = self._left(bound)
        carried = self._carried() | (left if self.exits else frozenset())
        apart = bound | self._seen()
        appended, read_back, taken_by, set_by = (names - apart for names in self._used())
        always = NOT_SURE
        if not refused:
            begins = {n for n, _ in self.firsts}
            always = surely(self.steps, self.follows, self.depths, begins)
        names = (frozenset(outside), carried, left, refused, bound)
        used = (appended, read_back, taken_by, set_by)
        return LoopCode(self.begin, line, *names, *used, always)

    @property
    def begin(self) -> int:
        """The place that stands for where a round begins."""
        first = self.head if self.stays_in else self.firsts[0][0]
        return self.steps[first].offset

    def _used(self) -> tuple[frozenset[str], ...]:
        """The local names of lists that the body adds to, and those that it looks at as well.

        Then the names, also from outside, of which it takes elements that a key says and does
        nothing but look besides, and those that it sets so, too.
        """
        found, outside = defaultdict[Use, set[str]](set), defaultdict[Use, set[str]](set)
        for n in self.depths:
            step = self.steps[n]
            if names := local(step)[0]:
                found[use_at(self.steps, n)].update(names)
            elif step.opname == "LOAD_GLOBAL":
                outside[use_at(self.steps, n)].add(step.argval)
        others = found["other"] | found["sets"] | found["sets one"]
        adds = frozenset(found["adds"] - others)
        outside.pop("looks", None)
        taken = found["takes"] - found["adds"] - others
        taken |= outside.pop("takes", set()) - set().union(*outside.values())
        sets = frozenset(found["sets"] - found["adds"] - found["other"])
        return adds, adds & (found["looks"] | found["takes"]), frozenset(taken), sets

    def _walk(self) -> str:
        waiting = [*self.firsts]
        while waiting:
            n, depth = waiting.pop()
            if n in self.depths or n in self.ends:
                continue
            step = self.steps[n]
            popped = depth == 0 and step.opname in ("POP_TOP", "RETURN_VALUE")
            iterated = self._iterates or not self.exits
            if depth < 0 or n in self.exits or (popped and iterated):
                return "is left by `break` or `return`"
            why = self._why_refused(step, depth)
            if why:
                return why
            self.depths[n] = depth
            arg = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
            self.follows[n] = []
            if self._leaves(n, depth):
                self._follow(n, (self.others | self.elsewhere)[n], depth - 1, waiting)
                continue
            if n != self.iterates and (step.opcode in dis.hasjrel or step.opcode in dis.hasjabs):
                effect = dis.stack_effect(step.opcode, arg, jump=True)
                self._follow(n, self.place[step.argval], depth + effect, waiting)
            if not step.opname.startswith(ENDS):
                effect = dis.stack_effect(step.opcode, arg, jump=False)
                self._follow(n, n + 1, depth + effect, waiting)
        return ""

    def _leaves(self, n: int, depth: int) -> bool:
        """Note a jump that leaves the loop, to where its test does or elsewhere; whether it is one.

        Round by round is gone where it raises an error, or leaves a loop around as well as one
        that is not `whole`.
        """
        flow = self.flow
        sides = flow.sides(n) if self.exits and (depth == 1 or self.whole) else ()
        if len(sides) < 2:
            return False
        innermost = self.around in flow.heads_around(n)[:1]
        stays = [s for s in sides if not flow.leads_to(s, self.exits, self._iterates)]
        if len(stays) == 1 and depth == 1 and not self.stays_in:
            self.others[n] = stays[0]
            return True
        inside = [s for s in sides if s in self.within]
        if (
            (innermost or self.whole)
            and len(inside) == 1
            and not any(map(flow.raises, {*sides} - {*inside}))
        ):
            self.elsewhere[n] = inside[0]
        return n in self.elsewhere

    @property
    def _iterates(self) -> bool:
        """Whether what leaves the loop takes an iterator away."""
        return self.iterates is not None or self.whole

    def _follow(self, n: int, target: int, depth: int, waiting: list[tuple[int, int]]) -> None:
        self.follows[n].append(target)
        waiting.append((target, depth))

    def _why_refused(self, step: dis.Instruction, depth: int) -> str:
        if step.opname in _APPENDS and depth - 1 - (step.arg or 0) < 0:
            return "is that of a comprehension"
        if step.opname.startswith("RETURN_"):
            return "is left by `break` or `return`"
        handled = any(e.start <= step.offset < e.end and self._handles(e) for e in self.handlers)
        return "handles exceptions" if handled else _REFUSED.get(step.opname, "")

    def _handles(self, entry: Any) -> bool:
        """Whether a handler is one of `try` or `with` that stands in the body."""
        n = self.place.get(entry.target)
        inside = self.begin <= entry.start
        return inside and n is not None and self.steps[n].opname == "PUSH_EXC_INFO"

    def _carried(self) -> frozenset[str]:
        """Names read before they are bound: live where a round begins, none at the head.

        A name that other functions see may be read by any that is called.
        """
        alive = Live(self.steps, self.follows)
        return self._seen().union(*(alive.at(n) for n, _ in self.firsts))

    def _seen(self) -> frozenset[str]:
        return frozenset({*self.code.co_cellvars, *self.code.co_freevars})

    def _left(self, bound: frozenset[str]) -> frozenset[str]:
        """Names that the body binds and that are read after the loop, as far as can be told."""
        again = self.iterates is not None or self.elsewhere
        after = [*self.exits, *[n for n, _ in self.firsts]] if again else list(self.exits)
        if not self.exits:
            after = [self.place[self.steps[self.head].argval]]
        return self.read_from(after, bound)

    def read_from(self, places: Iterable[int], bound: frozenset[str]) -> frozenset[str]:
        """Those names that may be read from some places on."""
        if self.handlers or "locals" in self.code.co_names:
            return bound
        return bound & self._seen().union(*map(_live_in(self.code).at, places))


@functools.lru_cache(CODES)
def _live_in(code: types.CodeType) -> Live:
    """The local names that may be read from each instruction of a function on."""
    flow = flow_of(code)
    return Live(flow.steps, flow.follows)
