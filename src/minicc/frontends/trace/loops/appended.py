"""Lists that the rounds of a captured loop append to.

    out = []
    for t in range(n):
        out.append(f(x[t]))
    y = np.array(out)      # the rows that the loop of the graph has stacked

A body that does nothing else with a list that no other name leads to adds elements of the same
kinds in each round. What a recording has added is taken out again. The loop of the graph stacks
what its rounds make, and after it the list gets the rows; an array that other names lead to, too,
is itself an element: what the first round takes from before the loop, and what the last one leaves.

Some ways through a round may add more elements than others. Rounds that add fewer stack what is not
looked at. Where the number of the round decides (`if t % 10 == 0:`), the list gets the others;
where data do, or end the loop, the name is bound to a `Grown` (`sifted`).
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minicc.frontends.trace.dispatch import content_of
from minicc.frontends.trace.loops.body import State, symbols_of
from minicc.frontends.trace.loops.carried import Carried, CarriedArray, Unlike
from minicc.frontends.trace.loops.choices import ANY, Choices
from minicc.frontends.trace.loops.filled import (
    Like,
    Run,
    Whole,
    common,
    element,
    in_runs,
    is_flat,
    like_of,
    pieces_of,
    versions_of,
)
from minicc.frontends.trace.loops.grown import Grown
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.loops.rows import Row
from minicc.frontends.trace.loops.sifted import Sifted, flattened
from minicc.frontends.trace.mixed import is_mixed
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.pytree import PLAIN, leaves, mapped
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import affine
from minicc.ir.core import Value

_HOLDERS = 6  # of a list: its frame, the names there, the lists here, `Reach` twice, and who asks
SEVERAL = 8  # rounds of which each is better written out where they make up a list
_MOST = 5000  # elements of a list, each of which is an object

Sides = tuple[bool, ...]


class Appends:
    """What rounds append to which lists; `rows` are the values that the loop stacks of it."""

    def __init__(
        self,
        recorder: Recorder,
        appended: Iterable[str],
        names: Mapping[str, Any],
        reach: Reach,
        count: Any,
    ) -> None:
        """`count` is that of the rounds, a size may be; None where data end the loop.

        Where there are few, no list may change.
        """
        self.recorder = recorder
        self.count = count
        self.names = names
        known = count > SEVERAL if type(count) is int else count is None or _is_size(count)
        self._takes = known
        self._reach = reach
        self.lists = {
            n: names[n]
            for n in sorted(appended)
            if known and type(names.get(n)) is list and reach.is_alone(names[n])
        }
        # what leads there besides would find in such a list what was in it before
        self._held = {n for n in self.lists if sys.getrefcount(names[n]) > _HOLDERS}
        reach.spare(self.lists.values())
        self.lengths = {n: len(x) for n, x in self.lists.items()}
        self.added: dict[str, list[Any]] = {}  # an element, or a run of some
        self._told: dict[str, tuple[str, int]] = {}  # names under which ways tell of elements
        self._numbers: dict[str, list[int]] = {}  # how many each round adds, where they differ
        self._by_data: dict[str, list[Any]] = {}  # where data say so: whether each is added
        self._sifted: dict[str, Sifted] = {}
        self.rows: list[Value] = []
        self._starts: dict[int, Any] = {}  # what stands for it in the body, with what it was before
        self._leaves: list[Any] = []

    def add(self, lists: Mapping[str, list[Any]]) -> bool:
        """Take lists from elsewhere than local names; False where no list may change."""
        self.lists |= lists
        self._held |= lists.keys()
        self._reach.spare(self.lists.values())
        self.lengths |= {n: len(x) for n, x in lists.items()}
        return self._takes

    @property
    def _is_open(self) -> bool:
        """Whether the number of rounds is not one that is known while tracing."""
        return type(self.count) is not int

    def has_added(self) -> bool:
        """Whether a way has added anything so far."""
        return any(len(x) > self.lengths[n] for n, x in self.lists.items())

    def take(self, choices: Choices) -> dict[str, Any]:
        """Take out what a recording has added; of one of several ways it is told under names."""
        told = self.tell(choices)
        for n, x in self.lists.items():
            del x[self.lengths[n] :]
        return told

    def tell(self, choices: Choices) -> dict[str, Any]:
        """What a way has added so far, under names."""
        self.added = {n: x[self.lengths[n] :] for n, x in self.lists.items()}
        if not choices.ways:
            self._told, self._numbers, self._by_data = {}, {}, {}
        if not (choices.asked or choices.ways):
            if self._is_open:
                self._by_data = {n: [True] * len(items) for n, items in self.added.items()}
            else:
                self.added = {n: in_runs(items) for n, items in self.added.items()}
            return {}
        places = [(n, k) for n, items in self.added.items() for k in range(len(items))]
        told = {f"{n}[{k}]": (n, k) for n, k in places}
        self._told |= told
        now = {name: self.added[n][k] for name, (n, k) in told.items()}
        return {**now, **{_whether(name): True for name in told}}

    def told(self, choices: Choices, number: str) -> Collection[str]:
        """The names under which ways tell.

        Ways that add fewer elements get the others, too, which nobody reads.
        """
        for way in choices.ways:
            for name in self._told.keys() - way.names.keys():
                way.names.update({name: ANY, _whether(name): False})
        for n in {n for n, _ in self._told.values()}:
            numbers = self._number(n, choices, number, ())
            if numbers is None or self._is_open:
                self._by_data[n] = []
            elif isinstance(numbers, int):
                self._numbers[n] = [numbers] * self.count
            else:
                self._numbers[n] = numbers
        by_data = [name for name, (n, _) in self._told.items() if n in self._by_data]
        return {*self._told, *map(_whether, by_data)}

    def choose(self, names: dict[str, Any]) -> None:
        """Take what is added out of the names that all ways leave."""
        if self._told:
            self.added = {n: [] for n in self.lists}
            for name, (n, _) in sorted(self._told.items(), key=lambda told: told[1]):
                self.added[n].append(names.pop(name))
                if n in self._by_data:
                    self._by_data[n].append(names.pop(_whether(name)))

    def _number(
        self, n: str, choices: Choices, number: str, sides: Sides
    ) -> int | list[int] | None:
        """How many elements the ways that begin with some sides add to a list in each round.

        A number where that is the same in all, None where data say it.
        """
        way = next((w for w in choices.ways if w.sides == sides), None)
        if way is not None:
            own = [name for name, (other, _) in self._told.items() if other == n]
            return sum(way.names[name] is not ANY for name in own)
        then, other = (self._number(n, choices, number, (*sides, s)) for s in (True, False))
        if then == other or then is None or other is None:
            return then if then == other else None
        truths = self._truths(choices.conditions[sides], number)
        if truths is None:
            return None
        each = [[k] * self.count if isinstance(k, int) else k for k in (then, other)]
        return [a if side else b for side, a, b in zip(truths, *each, strict=True)]

    def _truths(self, condition: Value, number: str) -> list[bool] | None:
        """What a condition is in each round; None where not the number of the round alone says."""
        gap, compare = self.recorder.rounds.compared.get(condition, (0, ""))
        if affine.symbols(gap) != {number} or self._is_open:
            return None
        asks = getattr(operator, compare)
        return [asks(affine.evaluate(gap, {number: k}), 0) for k in range(self.count)]

    def require_apart(
        self,
        roots: Mapping[int, Any],
        carried: Mapping[str, Carried],
        rounds: Collection[str],
        left: Sequence[Any],
    ) -> None:
        """Unlike where what is added is not a row of its own in each round.

        `roots` are the arrays from before the loop, `rounds` what only a round knows, and `left`
        the values of names that are read after the loop.
        """
        known = [x for x in left if type(x) is not Grown]
        named = {id(x.root) for x in leaves(known) if isinstance(x, Tracer)}
        kinds = {n: c for n, c in carried.items() if isinstance(c, CarriedArray)}
        boxes = {n: c.box() for n, c in kinds.items()}
        self._starts = {id(b): self.names[n] for n, b in boxes.items() if b is not None}
        seen: set[int] = set()
        self.rows, self._leaves, self._sifted = [], [], {}
        for name, items in self.added.items():
            if name in self._by_data and items and name in self._held:
                raise Unlike(_why(name))
            if items and name not in self._by_data and self.count > _MOST:
                raise Unlike(f"`{name}` gets more than {_MOST} elements")
            for leaf in (leaf for item in items for leaf in self._parts(item)):
                whole = isinstance(leaf, Tracer) and not leaf.scalar
                if whole and (leaf.looks_at() or id(leaf) in roots or id(leaf) in seen):
                    raise Unlike(f"`{name}` gets an array that has other names")
                if whole and (leaf.ndim > 1 and not leaf.shadow().flags.c_contiguous):
                    raise Unlike(f"`{name}` gets an array that lies otherwise in memory")
                chosen = name in self._numbers or name in self._by_data
                if whole and chosen and (leaf.unsure or id(leaf) in self._starts):
                    raise Unlike(f"`{name}` gets an array that a condition decides")
                if whole and name in self._by_data and id(leaf.root) in named:
                    raise Unlike(f"`{name}` gets an array that has another name after the loop")
                if is_mixed(leaf) and name in self._by_data:
                    raise Unlike(f"`{name}` gets a number that is Python's or NumPy's")
                if isinstance(leaf, np.ndarray):
                    raise Unlike(f"`{name}` gets an array that is the same in all rounds")
                seen.add(id(leaf))
                if name in self._by_data:
                    self._row(name, leaf, rounds)
                    continue
                self._leaves.append(leaf)
                if _is_row(leaf):
                    self.rows.append(self._row(name, leaf, rounds))
            if name in self._by_data and items:
                self._sift(name, items)

    def _sift(self, name: str, items: Sequence[Any]) -> None:
        before = self.lists[name][: self.lengths[name]]
        try:
            sifted = Sifted(self.recorder, before, items, self._by_data[name])
        except Unlike as error:
            raise Unlike(f"`{name}` {error}") from None
        self._sifted[name] = sifted
        self.rows += sifted.rows()

    def states(self, rounds: Any) -> list[State]:
        """What goes from round to round, where data end the loop, which has so many at most."""
        return [state for sifted in self._sifted.values() for state in sifted.states(rounds)]

    def begin(self) -> list[Value]:
        """What these states begin with."""
        return [value for sifted in self._sifted.values() for value in sifted.begin()]

    def give_last(
        self, states: Iterator[Value], refuse: Callable[[str], BaseException]
    ) -> dict[str, Grown]:
        """What names are to be bound to, where a loop that data end has left the last states."""
        return {
            n: self._seen(n, x.of_states(states, refuse(_why(n)))) for n, x in self._sifted.items()
        }

    def _seen(self, name: str, grown: Grown) -> Grown:
        """The list of a name, which is seen where the one from before the loop is looked at."""
        self.lists[name].append(grown)
        return grown

    def _parts(self, item: Any) -> list[Any]:
        """The leaves of an element; a list that a loop has filled is one."""
        if isinstance(item, Run):
            return [item.array]
        known = self._known(item)
        return [known.array] if known is not None else pieces_of(item)

    def _known(self, item: Any) -> Whole | None:
        """What an element is, if it is a list that a loop has filled with rows or numbers."""
        known: Whole | None = self.recorder.lists.get(id(item))
        return known if known is not None and is_flat(known.like) and known.holds() else None

    def _row(self, name: str, leaf: Any, rounds: Collection[str]) -> Value:
        content = content_of(self.recorder, leaf)
        value = content if isinstance(content, Value) else self.recorder.lift(content)
        if not symbols_of(value).isdisjoint(rounds):
            raise Unlike(f"`{name}` gets arrays of several shapes")
        return value

    def give(
        self,
        stacked: Sequence[Value],
        number: str,
        inner: Collection[Value],
        refuse: Callable[[str], BaseException],
    ) -> dict[str, Grown]:
        """Fill the lists with the rows of all rounds; `inner` values are known in a round alone.

        What names are to be bound to whose lists are as long as data say; of these `refuse` makes
        the error for what can't be done with such a list.
        """
        left = iter([Tracer(self.recorder, v) for v in stacked])
        given = (next(left) if _is_row(leaf) else None for leaf in self._leaves)
        grown: dict[str, Grown] = {}
        for name, items in self.added.items():
            if name in self._by_data:
                if items:
                    made = self._sifted[name].of_rows(left, refuse(_why(name)))
                    grown[name] = self._seen(name, made)
                continue
            columns, blocks = [], []
            like = common([*map(like_of, self.lists[name]), *map(self._like, items)])
            for item in items:
                arrays = [next(given) for _ in self._parts(item)]
                column, block = self._column(item, arrays, number, inner)
                columns.append(column)
                blocks.append(block)
            filled, numbers = self.lists[name], self._numbers.get(name)
            whole = self._after(filled, self._joined(blocks, numbers))
            many = numbers or [len(columns)] * self.count
            filled += [x for k, n in enumerate(many) for column in columns[:n] for x in column[k]]
            if whole is not None:
                self._note(filled, whole, like)
        return grown

    def _like(self, item: Any) -> Like | None:
        known = self._known(item)
        if known is not None and known.like is not None:
            return (list, *[known.like] * len(known.elements))
        return item.like if isinstance(item, Run) else like_of(item)

    def _column(
        self, item: Any, arrays: Sequence[Tracer | None], number: str, inner: Collection[Value]
    ) -> tuple[list[list[Any]], Tracer | None]:
        """What an element becomes in each round, and these as an array, a round a row of it."""
        rounds, known = range(self.count), self._known(item)
        (first, *_) = arrays if arrays else (None,)
        if isinstance(item, Run):
            assert first is not None
            n, flat = first.shape[1], flattened(self.recorder, first)
            made = [[element(item.like, flat, k * n + j) for j in range(n)] for k in rounds]
            return made, first
        if known is not None:
            assert first is not None
            assert known.like is not None
            return [[self._filled(first[k], known.like)] for k in rounds], self._wide(first)
        left = iter(arrays)
        parts = [self._of_leaf(leaf, left, number, inner) for leaf in leaves(item)]
        whole = self._together(item, arrays)
        filled = [[_filled_in(item, iter([part[k] for part in parts]))] for k in rounds]
        return filled, None if whole is None else self._wide(whole)

    def _wide(self, array: Tracer) -> Tracer:
        n, *shape = array.shape
        wide: Tracer = Dispatch.call(self.recorder, "reshape", (array, (n, 1, *shape)), {})
        return wide

    def _joined(
        self, blocks: Sequence[Tracer | None], numbers: Sequence[int] | None
    ) -> Tracer | None:
        """The elements of all rounds as an array, if they are alike; of each round so many."""
        known = [b for b in blocks if b is not None]
        if len(known) < len(blocks) or len({(b.dtype, b.shape[2:]) for b in known}) != 1:
            return None
        if len(known) > 1:
            known = [Dispatch.call(self.recorder, "concatenate", (known, 1), {})]
        flat = flattened(self.recorder, known[0])
        if numbers is None:
            return flat
        places = [k * len(blocks) + j for k, n in enumerate(numbers) for j in range(n)]
        some: Tracer = Dispatch.call(self.recorder, "take", (flat, np.array(places, int), 0), {})
        return some

    def _after(self, first: list[Any], array: Tracer | None) -> Tracer | None:
        """The array with elements before it that the list has had, if they are alike."""
        if not first or array is None:
            return array
        known, shape = self._known(first), array.shape[1:]
        if known is not None:
            head = known.array
            if head.shape[1:] != shape:
                return None
        else:
            if any(isinstance(x, (list, tuple)) for x in first):
                return None
            if {x.shape if isinstance(x, Tracer) else np.shape(x) for x in first} != {shape}:
                return None
            head = Dispatch.call(self.recorder, "stack", ([*first],), {})
        made: Tracer = Dispatch.call(self.recorder, "concatenate", ([head, array],), {})
        return made

    def _filled(self, array: Tracer, like: Like) -> list[Any]:
        rows = [element(like, array, k) for k in range(len(array))]
        self._note(rows, array, like)
        return rows

    def _note(self, filled: list[Any], array: Tracer, like: Like | None) -> None:
        found = Whole(filled, [*filled], versions_of(filled, array), array, like)
        self.recorder.lists[id(filled)] = found

    def _together(self, item: Any, arrays: Sequence[Tracer | None]) -> Tracer | None:
        """The array of a column; of several those side by side, where they are of one type."""
        known = [a for a in arrays if a is not None]
        if len(known) < len(arrays) or not known or any(map(is_mixed, leaves(item))):
            return None
        if isinstance(item, (Tracer, Number)):
            return known[0]
        alike = {(a.dtype, a.shape) for a in known}
        flat = all(not isinstance(part, (list, tuple, dict)) for part in item)
        if type(item) not in (list, tuple) or len(alike) > 1 or not flat:
            return None
        made: Tracer = Dispatch.call(self.recorder, "stack", (known, 1), {})
        return made

    def _of_leaf(
        self, leaf: Any, arrays: Iterator[Tracer | None], number: str, inner: Collection[Value]
    ) -> list[Any]:
        """What stands for a leaf in each round, with the next of some arrays."""
        rounds, array = range(self.count), next(arrays)
        if type(leaf) is Index:
            return [leaf.at(number, k) for k in rounds]
        if array is None:
            return [leaf] * self.count
        counted = isinstance(leaf, Number)
        rows: list[Any] = [Row(array, k, counted or leaf.scalar) for k in rounds]
        if is_mixed(leaf) and (theirs := next(arrays)) is not None:
            whose = [leaf.mixed._replace(theirs=Row(theirs, k, True)) for k in rounds]
            return [Number.mix(row, mixed) for row, mixed in zip(rows, whose, strict=True)]
        if counted:
            return [Number(row, leaf.kind, leaf.counts) for row in rows]
        if not leaf.scalar:
            if id(leaf) in self._starts:
                rows[0] = self._starts[id(leaf)]
            elif leaf.held() not in inner:  # other names are bound to what the last round left
                rows[-1] = leaf
        return rows


def _is_size(count: Any) -> bool:
    """Whether a number of rounds depends on the sizes of arrays alone."""
    return type(count) is Index and not count.turns


def _why(name: str) -> str:
    return f"a round appends to `{name}` what a condition decides"


def _whether(name: str) -> str:
    """The name under which ways tell whether they add an element that they tell under `name`."""
    return f"{name}?"


def _filled_in(item: Any, leaves: Iterator[Any]) -> Any:
    """The structure of an element with other leaves."""
    return mapped(lambda leaf, path: next(leaves), item)


def _is_row(leaf: Any) -> bool:
    """Whether rounds make it: a traced array, scalar or number."""
    if type(leaf) is Index or has_term(leaf):
        return False
    if not isinstance(leaf, (Tracer, Number)) and not isinstance(leaf, (*PLAIN, np.generic)):
        raise Unlike(f"a {type(leaf).__name__} is appended to a list")
    return isinstance(leaf, (Tracer, Number))
