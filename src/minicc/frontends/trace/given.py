"""Python numbers that a call gives, and what Python computes of them before a program runs.

A number that a call gave with two values is no constant any more: the trace sees a `Number` with a
`Term`. Python's arithmetic of terms is not recorded in the graph but noted here, and Python itself
does it at each call, so it is Python's own in every bit. A term that meets an array becomes an
input of the program. Where Python needs a value (a condition, an index, a text), that value is a
guard, and where it is the number itself that is needed, the number is a constant after all: the
trace begins again (`Again`).
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.objects import MISSING
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.recorder import Again, Recorder, type_of
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array, Value

ELEMENTS: dict[type, Any] = {
    float: np.float64,
    int: np.int64,
    complex: np.complex128,
    bool: np.bool_,
}
_INPUTS = 64  # of one program that Python computes
_AFRESH = 8  # traces that begin again for an input that a break or a loop came before


class Reference:
    """A value that traced code read from outside: where it lives, its name, and what it was."""

    __slots__ = ("home", "kind", "name", "value")

    def __init__(self, kind: str, home: Any, name: str, value: Any) -> None:
        self.kind = kind
        self.home = home
        self.name = name
        self.value = value

    @property
    def place(self) -> Any:
        """Equal for references to the same place; `home` must be held."""
        return id(self.home), self.name

    def now(self) -> Any:
        """What is there now."""
        if isinstance(self.home, (dict, types.MappingProxyType)):
            return self.home.get(self.name, MISSING)
        if isinstance(self.home, types.CellType):
            try:
                return self.home.cell_contents
            except ValueError:
                return MISSING
        return getattr(self.home, self.name, MISSING)


class Term(NamedTuple):
    """A number that Python computes at each call: its place among all, and its value now."""

    given: Given
    place: int
    value: Any


class _Step(NamedTuple):
    """What Python does: of the values at `operands`, the one at `place`, of a type.

    `seen` is the key that the value must have, None where it may have any.
    """

    place: int
    function: Callable[..., Any]
    operands: tuple[int, ...]
    kind: type
    seen: Any


class Given:
    """The numbers of a call, what Python computes of them, and what of that must hold.

    `moving` are the numbers that may be terms: arguments by their index, others by their place; of
    those that were `offered`, what Python needs is a constant. The `boxes` are the program's inputs
    by the places of their terms.
    """

    def __init__(self, moving: Iterable[Any] = (), numbers: Sequence[Any] = ()) -> None:
        self.moving = self.offered = set(moving)
        self.numbers = numbers  # of the call that is traced
        self.boxes: dict[int, Tracer | None] = {}
        self.guards: list[str] = []  # what must hold, for people
        self._leaves: dict[Any, tuple[int, Any, type]] = {}
        self._steps: dict[Any, _Step] = {}
        self._constants: dict[Any, int] = {}
        self._values: list[Any] = []  # constants in their places
        self._names: list[str] = []
        self._now: list[Any] = []  # the values of the call that is traced
        self._afresh = 0
        self._late = False
        self._flags = True  # whether those that are True or False may be terms

    def copy(self, numbers: Sequence[Any]) -> Given:
        """One that the trace of another call may add to."""
        made = Given(self.moving, numbers)
        for name, part in vars(self).items():
            if name != "numbers":
                setattr(made, name, copy.copy(part))
        return made

    def bare(self) -> Given:
        """The same numbers, of which nothing needs to hold."""
        made = Given(self.moving)
        made.offered = self.offered
        return made

    def begin(self, recorder: Recorder) -> None:
        """Trace a call with `numbers`, for which the guards hold."""
        recorder.numbers = self
        self._late = False
        values = self._run(self.numbers)
        assert values is not None
        self._now = values

    def enter(self, recorder: Recorder) -> None:
        """Let the program have the inputs that are known of, after its arguments."""
        self.boxes = {place: self._input(recorder, place) for place in self.boxes}

    def leaf(self, key: Any, source: Any, name: str, value: Any) -> Term | None:
        """A number from outside, `source` says where it is; None where it is a constant."""
        if key not in self.moving:
            return None
        if type(value) is bool and not self._flags:
            self.forget({key})
        if key not in self._leaves:
            self._leaves[key] = (self._add(name, None, value), source, type(value))
        return Term(self, self._leaves[key][0], value)

    def _add(self, name: str, constant: Any, value: Any) -> int:
        self._values.append(constant)
        self._now.append(value)
        self._names.append(name)
        return len(self._values) - 1

    def apply(self, function: Callable[..., Any], *operands: Any) -> tuple[Any, Term | None]:
        """What a function of Python gives: a number with its term, or a value that is a guard."""
        refs = tuple([x.place if isinstance(x, Term) else self._constant(x) for x in operands])
        value = _outcome(function, [self._now[r] for r in refs])
        is_number = type(value) in ELEMENTS and type(value) is not bool  # a condition is a guard
        known = self._steps.get((function, refs))
        if known is None:
            name = f"{function.__name__}({', '.join(self._names[r] for r in refs)})"
            place = self._add(name, None, value)
            seen = None if is_number else _key(value)
            known = self._steps[function, refs] = _Step(place, function, refs, type(value), seen)
        if isinstance(value, Exception):
            raise value
        return value, Term(self, known.place, value) if is_number else None

    def _constant(self, value: Any) -> int:
        key = value_key(value)
        if key not in self._constants:
            self._constants[key] = self._add(repr(value), value, value)
        return self._constants[key]

    def fix(self, term: Term) -> Any:
        """The value, which Python needs; a number from outside is a constant from now on."""
        self.forget({key for key, leaf in self._leaves.items() if leaf[0] == term.place})
        for key, step in self._steps.items():
            if step.place == term.place:
                self._steps[key] = step._replace(seen=_key(term.value))
        return term.value

    def forget(self, keys: set[Any]) -> None:
        """Begin again with these numbers as constants, where they are none."""
        left = self.moving - keys
        if left != self.moving:
            vars(self).update(vars(Given(left, self.numbers)) | {"offered": self.offered})
            raise Again

    def forget_flags(self) -> None:
        """Have True and False as constants, where there are any."""
        self._flags = False
        self.forget({key for key, leaf in self._leaves.items() if leaf[2] is bool})

    def box(self, recorder: Recorder, term: Term) -> Tracer:
        """The input of the program that a term is."""
        box = self.boxes.get(term.place)
        if box is None:
            # within a loop that is recorded it would be one of the loop's own values
            path = recorder.path
            late = path.breaks or path.tree.root is not None or recorder.loops
            if len(self.boxes) == _INPUTS or (late and self._afresh == _AFRESH):
                self.forget(self._origins(term.place))
            self.boxes[term.place] = None
            if late:  # a constant till the trace begins again, which then knows all inputs
                self._late = True
                return Tracer(recorder, _array(term.value))
            box = self.boxes[term.place] = self._input(recorder, term.place)
        return box

    def require_inputs(self) -> None:
        """Begin again where some inputs were not known before what they had to come before."""
        if self._late:
            self._afresh += 1
            raise Again

    def _input(self, recorder: Recorder, place: int) -> Tracer:
        array = _array(self._now[place])
        value = Value(type_of(array), self._names[place])
        recorder.inputs.append(value)
        recorder.path.state.append(array)
        return Tracer(recorder, value)

    def _origins(self, place: int) -> set[Any]:
        """The numbers from outside that one depends on."""
        needed = {place}
        for step in reversed(self._steps.values()):
            if step.place in needed:
                needed.update(step.operands)
        return {key for key, leaf in self._leaves.items() if leaf[0] in needed}

    def of(self, numbers: Sequence[Any]) -> list[Array] | None:
        """The program's inputs for a call; None where a guard does not hold."""
        if not self._leaves:
            return []
        values = self._run(numbers)
        return None if values is None else [_array(values[place]) for place in self.boxes]

    def _run(self, numbers: Sequence[Any]) -> list[Any] | None:
        values = self._values.copy()
        for place, source, kind in self._leaves.values():
            value = numbers[source] if type(source) is int else source.now()
            if type(value) is not kind:
                return None
            values[place] = value
        for place, function, operands, kind, seen in self._steps.values():
            value = _outcome(function, [values[k] for k in operands])
            if type(value) is not kind or (seen is not None and _key(value) != seen):
                return None
            values[place] = value
        return values

    def end(self) -> None:
        """Let go of the trace; what must hold stays."""
        found = [f"{self._names[p]} is a {kind.__name__}" for p, _, kind in self._leaves.values()]
        seen = [s.place for s in self._steps.values() if s.seen is not None]
        self.guards = found + [f"{self._names[p]} is {self._now[p]!r}" for p in seen]
        self.boxes = dict.fromkeys(self.boxes)
        self.numbers = self._now = []


def _array(value: Any) -> Array:
    return np.array(value, ELEMENTS[type(value)])


def _key(value: Any) -> Any:
    return (type(value), str(value)) if isinstance(value, Exception) else value_key(value)


def _outcome(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """What a function gives, or the exception that it raises."""
    try:
        return function(*operands)
    except Exception as error:
        return error
