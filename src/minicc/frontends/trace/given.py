"""Python numbers that a call gives, and what Python computes of them before a program runs.

A number that a call gave with two values is no constant any more: the trace sees a `Number` with a
`Term`. Python's arithmetic of terms is not recorded in the graph but noted here, and Python itself
does it at each call, so it is Python's own in every bit. A term that meets an array becomes an
input of the program. Where Python needs a value (a condition, an index, a text), that value is a
guard, and where it is the number itself that is needed, the number is a constant after all: the
trace begins again (`Again`).

An array of floating-point numbers that a function reads from outside is an input, too, which is
read at each call: to compare what it holds with what it held would take as long as much of what is
computed with it. Where something is made of such arrays alone, they are constants instead, and it
is made once.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from minicc.frontends.trace.objects import MISSING, NAMESPACES
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.plain_guards import Numbers, plain_numbers
from minicc.frontends.trace.pytree import mapped
from minicc.frontends.trace.recorder import Recorder, native_element, type_of
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.restarts import Again
from minicc.frontends.trace.routes import Route
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.arrays import DENSE
from minicc.ir.core import Array, Value

ELEMENTS: dict[type, Any] = {
    float: np.float64,
    int: np.int64,
    complex: np.complex128,
    bool: np.bool_,
}
OPEN = (list, tuple, dict)  # whose elements may have references of their own
_NAMED = 100  # characters of the name of what a number is made of
_INPUTS = 64  # of one program that are no arguments
COMPARED = 1024  # bytes up to which an array from outside is a constant, and compared
_AFRESH = 8  # traces that begin again for an input that a break or a loop came before


class Reference:
    """A value that traced code read from outside: where it lives, its name, and what it was.

    An element of a list, tuple or dict lives in what the reference to that gives. Elements that
    are inputs have references of their own, and `left_out` of the container's are the keys that
    lead to them; of a container that is `unseen`, the code does not look at what is in it. Nor does
    it of an object to which calls lead: what is read of that has references of its own.
    """

    __slots__ = ("home", "kind", "left_out", "name", "unseen", "value")

    def __init__(self, kind: str, home: Any, name: Any, value: Any) -> None:
        self.kind = kind
        self.home = home
        self.name = name
        self.value = value
        self.left_out: set[tuple[Any, ...]] = set()
        self.unseen = False

    @property
    def place(self) -> Any:
        """Equal for references to the same place; `home` must be held."""
        inner = isinstance(self.home, Reference | Route)
        return (self.home.place if inner else id(self.home)), self.name

    @property
    def is_reached(self) -> bool:
        """Whether each call leads to the place."""
        inner = isinstance(self.home, Reference)
        return self.home.is_reached if inner else isinstance(self.home, Route)

    def keep(self) -> None:
        """Keep what a container holds, which may hold other things later."""
        if type(self.value) in OPEN and not self.unseen:
            self.value = mapped(lambda leaf, path: leaf, self.value)

    def leaves(self, now: Any) -> Iterator[tuple[Reference, Any]]:
        """The references to what is no container, with what is there now; as far as that is alike.

        Of elements only those whose values are others.
        """
        was = self.value
        if type(was) not in OPEN or type(now) is not type(was) or len(now) != len(was):
            yield self, now
            return
        keys = was.keys() if type(was) is dict else range(len(was))
        if type(was) is not dict or now.keys() == keys:
            for key in keys:
                if was[key] is not now[key]:
                    yield from Reference(self.kind, self, key, was[key]).leaves(now[key])

    def leave_out(self) -> None:
        """Have the reference to the container around an element not say what that is."""
        steps: tuple[Any, ...] = ()
        reference = self
        while isinstance(reference.home, Reference):
            steps = (reference.name, *steps)
            reference = reference.home
        reference.left_out.add(steps)

    @property
    def path(self) -> str:
        """The name as code would spell it."""
        return f"{self.home.path}[{self.name!r}]" if isinstance(self.home, Reference) else self.name

    def now(self, values: Sequence[Any] = ()) -> Any:
        """What is there now, for all arguments of a call."""
        if isinstance(self.home, Route):
            return self.home.get(values, self.name)
        if isinstance(self.home, Reference):
            try:
                return self.home.now(values)[self.name]
            except (LookupError, TypeError):
                return MISSING
        if isinstance(self.home, NAMESPACES):
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

    def __init__(
        self, moving: Iterable[Any] = (), numbers: Sequence[Any] = (), values: Sequence[Any] = ()
    ) -> None:
        self.moving = self.offered = set(moving)
        self.numbers = numbers  # of the call that is traced
        self.values = values  # all its arguments
        self.read: list[Reference] = []  # what its trace reads from outside
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
        self.constants: dict[int, Reference] = {}  # what the boxes of constants were read at
        self._flags = True  # whether those that are True or False may be terms
        # the arrays from outside, by their places: their element types and shapes
        self._arrays: dict[int, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._still: set[Any] = set()  # which of these are constants
        self._states: set[int] = set()  # places of those that are none
        self._looked: set[Any] = set()  # lists from outside, by their places, that are looked at
        self._open = True  # whether others may be inputs

    def copy(self, numbers: Sequence[Any], values: Sequence[Any]) -> Given:
        """One that the trace of another call may add to."""
        made = Given(self.moving, numbers, values)
        for name, part in vars(self).items():
            if name not in ("numbers", "values"):
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
        self.constants = {}
        values = self._run(self.numbers, self.values)
        assert values is not None
        self._now = values

    def enter(self, recorder: Recorder) -> None:
        """Let the program have the inputs that are known of, after its arguments."""
        self.boxes = {place: self._input(recorder, place) for place in self.boxes}

    def array(self, recorder: Recorder, reference: Reference, state: bool = False) -> Tracer | None:
        """The input that an array from outside is; None where it is a constant.

        What a `state` holds is another at each call.
        """
        x, key = reference.value, reference.place
        if recorder.path is None or not self._open or key in self._still:
            return None
        if key not in self._leaves:
            name = f"{reference.kind} {reference.path}"
            self._leaves[key] = (self._add(name, None, x), reference, type(x))
        place = self._leaves[key][0]
        self._arrays[place] = x.dtype, x.shape
        self._states |= {place} if state else set()
        return self._at(recorder, place)

    def keep_still(self, *groups: Iterable[int]) -> None:
        """Begin again with the arrays from outside at these places as constants.

        Not with those that were seen to change.
        """
        places = self._arrays.keys() & set[int]().union(*groups)
        self._hold({key for key, leaf in self._leaves.items() if leaf[0] in places} - self.moving)

    def takes(self, reference: Reference) -> bool:
        """Whether an array from outside is to be an input, if it can be one."""
        x = reference.value
        array = type(x) is np.ndarray or isinstance(x, np.generic)
        return is_read(x) or (array and reference.place in self.moving and may_move(x))

    def move(self, references: Iterable[Reference]) -> None:
        """Begin again with numbers and arrays as inputs, for the function changes what they are.

        Nothing is done where all are inputs, or can't be any.
        """
        movable = {r.place for r in references if may_move(r.value)}
        late = [self._leaves[p][0] for p in movable & self._leaves.keys()]
        if any(self.boxes.get(place, self) is None for place in late):
            self._afresh += 1  # the trace knew of some too late
            raise Again
        if new := movable - self.offered:
            self.offered = self.offered | new
            self._still -= new
            self._again(self.moving | new)

    def keep_all_still(self) -> None:
        """Begin again with all of them as constants, if there are any."""
        self._open = not self._arrays
        self._hold({key for key, leaf in self._leaves.items() if leaf[0] in self._arrays})

    def _hold(self, keys: set[Any]) -> None:
        if keys:
            self._still |= keys
            self._again(self.moving)

    def may_be_unseen(self, reference: Reference) -> bool:
        """Whether the code may do nothing but append to a list."""
        return type(reference.value) is list and reference.place not in self._looked

    def look(self, reference: Reference) -> None:
        """Begin again with a list that the code looks at."""
        self._looked.add(reference.place)
        self._again(self.moving)

    def leaf(self, key: Any, source: Any, name: str, value: Any) -> Term | None:
        """A number from outside, `source` says where it is; None where it is a constant."""
        if key not in self.moving or type(value) not in ELEMENTS:
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
            # a number may be made of another twice, whose name would stand in its own twice
            names = [self._names[r] for r in refs]
            named = [n if len(n) <= _NAMED else f"{n[:_NAMED]}..." for n in names]
            name = f"{function.__name__}({', '.join(named)})"
            place = self._add(name, None, value)
            seen = None if is_number else _key(value)
            known = self._steps[function, refs] = _Step(place, function, refs, type(value), seen)
        if isinstance(value, Exception):
            raise value
        return value, Term(self, known.place, value) if is_number else None

    def is_outside(self, term: Term) -> bool:
        """Whether a number is what is read from outside, and nothing is computed of it."""
        return any(p == term.place and type(s) is not int for p, s, _ in self._leaves.values())

    @property
    def steps(self) -> int:
        """How much Python computes at each call."""
        return len(self._steps)

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
            self._again(left)

    def _again(self, moving: set[Any]) -> NoReturn:
        kept = {n: vars(self)[n] for n in ("offered", "_still", "_open", "_looked")}
        vars(self).update(vars(Given(moving, self.numbers, self.values)) | kept)
        raise Again

    def forget_flags(self) -> None:
        """Have True and False as constants, where there are any."""
        self._flags = False
        self.forget({key for key, leaf in self._leaves.items() if leaf[2] is bool})

    def box(self, recorder: Recorder, term: Term) -> Tracer:
        """The input of the program that a term is."""
        box = self._at(recorder, term.place)
        if box is None and term.place not in self.boxes:
            self.forget(self._origins(term.place))
        # a constant till the trace begins again, which then knows all inputs
        return Tracer(recorder, _array(term.value)) if box is None else box

    def _at(self, recorder: Recorder, place: int) -> Tracer | None:
        """The input at a place; None where there can be none, or not before another trace."""
        if self.boxes.get(place) is None:
            # within a loop that is recorded it would be one of the loop's own values
            path = recorder.path
            late = path.breaks or path.tree.root is not None or recorder.loops
            if len(self.boxes) == _INPUTS or (late and self._afresh == _AFRESH):
                return None
            self.boxes[place] = None
            if late:
                self._late = True
            else:
                self.boxes[place] = self._input(recorder, place)
        return self.boxes[place]

    def require_inputs(self) -> None:
        """Begin again where some inputs were not known before what they had to come before."""
        if self._late:
            self._afresh += 1
            raise Again

    def _input(self, recorder: Recorder, place: int) -> Tracer:
        array = _array(self._now[place])
        value = Value(type_of(array), self._names[place])
        recorder.inputs.append(value)
        recorder.path.enter(array)
        if place in self._arrays and place not in self._states:
            recorder.outside[value] = frozenset([place])
        box = Tracer(recorder, value, scalar=isinstance(self._now[place], np.generic))
        recorder.begun.append(box)
        return box

    def _origins(self, place: int) -> set[Any]:
        """The numbers from outside that one depends on."""
        needed = {place}
        for step in reversed(self._steps.values()):
            if step.place in needed:
                needed.update(step.operands)
        return {key for key, leaf in self._leaves.items() if leaf[0] in needed}

    def of(self, numbers: Sequence[Any], arguments: Sequence[Any]) -> list[Array] | None:
        """The program's inputs for a call of such arguments; None where a guard does not hold."""
        if not self._leaves:
            return []
        values = self._run(numbers, arguments)
        return None if values is None else [_array(values[place]) for place in self.boxes]

    def plain(self) -> Numbers | None:
        """What must hold of the call's numbers, if that is so little that machine code can ask."""
        leaves = {place: source for place, source, _ in self._leaves.values()}
        return plain_numbers(leaves, self._steps.values(), self._values, self.boxes)

    def _run(self, numbers: Sequence[Any], arguments: Sequence[Any]) -> list[Any] | None:
        values = self._values.copy()
        for place, source, kind in self._leaves.values():
            value = numbers[source] if type(source) is int else source.now(arguments)
            if type(value) is not kind:
                return None
            if isinstance(value, (np.ndarray, np.generic)):
                dense = value.flags.num & DENSE == DENSE
                if not dense or (value.dtype, value.shape) != self._arrays[place]:
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
        leaves = self._leaves.values()
        found = [
            f"{self._names[p]} is a {k.__name__}" for p, _, k in leaves if p not in self._arrays
        ]
        for place in (p for p in self.boxes if p in self._arrays):
            dtype, shape = self._arrays[place]
            extents = ",".join(map(str, shape))
            found.append(f"{self._names[place]} is {dtype}[{extents}], read at each call")
        seen = [s.place for s in self._steps.values() if s.seen is not None]
        self.guards = found + [f"{self._names[p]} is {self._now[p]!r}" for p in seen]
        for place, source, _ in leaves:
            if place in self._arrays and source.is_reached:
                source.value = None  # others are given at each call
        self.boxes = dict.fromkeys(self.boxes)
        self.numbers = self.values = self._now = []
        self.read = []


def release(box: Tracer) -> None:
    """Begin again with a constant that is written to as an input, if it can be one."""
    numbers = box.recorder.numbers
    reference = numbers and numbers.constants.get(id(box))
    if reference is not None and box.recorder.path is not None:
        numbers.move([reference])


Dispatch.release = release


def _array(value: Any) -> Array:
    plain = type(value) in ELEMENTS
    return np.array(value, ELEMENTS[type(value)]) if plain else np.asarray(value)


def may_move(x: Any) -> bool:
    """Whether a value from outside is a number, or an array that may be an input."""
    if type(x) is not np.ndarray and not isinstance(x, np.generic):
        return type(x) in (int, float, complex)
    return native_element(x.dtype) is not None and x.flags.num & DENSE == DENSE


def is_read(x: Any) -> bool:
    """Whether a value from outside is an array of the kind that is an input."""
    if type(x) is not np.ndarray or x.dtype.kind not in "fc" or x.nbytes <= COMPARED:
        return False
    return native_element(x.dtype) is not None and x.flags.num & DENSE == DENSE


def _key(value: Any) -> Any:
    return (type(value), str(value)) if isinstance(value, Exception) else value_key(value)


def _outcome(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """What a function gives, or the exception that it raises."""
    try:
        return function(*operands)
    except Exception as error:
        return error
