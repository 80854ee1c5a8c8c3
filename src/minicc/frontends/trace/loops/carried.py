"""What a captured loop hands from a round to the next: names, and arrays written to in place.

Each kind of value has a class that gives what stands for it at the beginning of a round, and says
whether what a round leaves is of the same kind: arrays and scalars of one element type and shape,
traced Python numbers, and Python ints that grow by the same number in each round.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from minicc.frontends.trace.dispatch import content_of
from minicc.frontends.trace.lens import Content
from minicc.frontends.trace.loops.body import State
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.moving import depends
from minicc.frontends.trace.mixed import THEIRS, Kinds, Mixed, is_mixed, own_type
from minicc.frontends.trace.numbers import Number, as_float, has_term
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import affine, graph
from minicc.ir.core import Value
from minicc.ir.types import BOOL, F64, I64, TensorType


class Unlike(Exception):
    """A round leaves something else than it takes."""


class Turned(Unlike):
    """A round leaves an array to another name than it took it from; two rounds may not."""


class Carried(Protocol):
    """A name's value that goes from round to round, in `width` states.

    `afters` are what a round hands on, where that is not the very value that the name has then.
    """

    width: int
    arg: Value
    afters: Sequence[Value]

    def begin(self, recorder: Recorder, number: str) -> Any:
        """What the name is bound to at the beginning of a round."""
        ...

    def boxed(self, recorder: Recorder, values: Iterator[Value]) -> Any:
        """What the name is bound to where its states have values."""
        ...

    def states(self, recorder: Recorder, now: Any) -> list[State]:
        """The states, with what a round leaves of them; Unlike where that is of another kind."""
        ...


class Written:
    """An array from before the loop that rounds write to in place."""

    def __init__(self, box: Tracer) -> None:
        self.box = box
        self.before: Value = box.value()
        self.arg = Value(self.before.type)


class CarriedArray:
    """A name of an array or of one of NumPy's scalars.

    `box` is the array that it is bound to at the beginning of a round, if anything still holds it.
    """

    width = 1
    afters: Sequence[Value] = ()

    def __init__(self, recorder: Recorder, before: Any) -> None:
        content = content_of(recorder, before)
        value = content if isinstance(content, Value) else recorder.lift(content)
        self.before = value
        self.arg = Value(value.type)
        self.scalar = is_scalar(before)
        self.strides = strides_of(before)
        self.box: Callable[[], Tracer | None] = lambda: None
        self._start: Tracer | None = None

    def begin(self, recorder: Recorder, number: str) -> Any:
        """An array of its own, for it must not be written to."""
        self.arg = Value(self.arg.type, self.arg.hint)
        self._start = self.boxed(recorder, iter([self.arg]))
        self.box = weakref.ref(self._start)
        return self._start

    def boxed(self, recorder: Recorder, values: Iterator[Value]) -> Tracer:
        """An array or scalar."""
        box = Tracer(recorder, next(values), scalar=self.scalar)
        if self.strides:
            box.lies(self.strides)
        return box

    def states(self, recorder: Recorder, now: Any) -> list[State]:
        """An array of the same shape and element type."""
        # held until now, for a round may write to it and then let go of it
        start, self._start = self._start, None
        if start is not None and start.written:
            raise Turned("is bound to an array that each round writes to")
        if not isinstance(now, (Tracer, np.generic)):
            raise Unlike(f"was {self.arg.type}, and is a {type(now).__name__} after a round")
        if is_scalar(now) != self.scalar:
            raise Unlike("was an array without axes or a scalar, and is the other after a round")
        value = same_type(recorder, content_of(recorder, now), self.arg)
        if strides_of(now) != self.strides:
            raise Unlike("lies otherwise in memory after a round")
        return [State(self.before, self.arg, value)]


def strides_of(x: Any) -> tuple[int, ...]:
    """How an array lies in memory, where that is not row by row."""
    if not isinstance(x, Tracer) or x.ndim < 2 or any(type(n) is not int for n in x.shape):
        return ()
    shadow = x.shadow()
    return () if shadow.flags.c_contiguous else shadow.strides


def is_scalar(x: Any) -> bool:
    """Whether a value is one of NumPy's scalars, or stands for one."""
    return x.scalar if isinstance(x, Tracer) else isinstance(x, np.generic)


def same_type(recorder: Recorder, content: Content, arg: Value) -> Value:
    """The content as a value; Unlike where its type is not that of the body's argument."""
    value = content if isinstance(content, Value) else recorder.lift(content)
    if value.type != arg.type:
        raise Unlike(f"was {arg.type}, and is {value.type} after a round")
    return value


_NEAR = 1 << 52  # up to which Python's int may be where NumPy's is a float
ELEMENTS = {float: F64, int: I64, bool: BOOL}


class CarriedNumber:
    """A name of a Python float, of an int that an array's element gave, or of a bool."""

    width = 1

    def __init__(self, recorder: Recorder, before: Any, kind: type) -> None:
        element = ELEMENTS[kind]
        if kind is int and type(before) is int and not _is_small(before):
            raise Unlike("is an int that 64 bits may not hold")
        self.kind = kind
        self.element = element
        number = isinstance(before, Number)
        self.counts = kind is int and (type(before) in (int, Index) or before.counts)
        self.before = before.box.value() if number else recorder.scalar(before, element)
        self.arg = Value(TensorType(element))
        self.afters: Sequence[Value] = ()

    def begin(self, recorder: Recorder, number: str) -> Any:
        """A traced number."""
        self.arg, self.afters = Value(self.arg.type, self.arg.hint), ()
        return self.boxed(recorder, iter([self.arg]))

    def boxed(self, recorder: Recorder, values: Iterator[Value]) -> Number:
        """A traced number."""
        return Number(Tracer(recorder, next(values)), self.kind, self.counts)

    def states(self, recorder: Recorder, now: Any) -> list[State]:
        """A number of the same kind."""
        return [State(self.before, self.arg, self._after(recorder, now))]

    def _after(self, recorder: Recorder, now: Any) -> Value:
        if type(now) in (Number, Index) and now.kind is self.kind:
            if not self.counts or now.counts or type(now) is Index:
                value: Value = now.box.value()
                return value
            self.afters = [now.counted().box.value()]
            return self.afters[0]
        if type(now) is self.kind:
            return recorder.scalar(now, self.element)
        raise Unlike(f"was a {self.kind.__name__}, and is a {type(now).__name__} after a round")


class CarriedEither:
    """A name of a number that is Python's before the first round, and may be NumPy's after it."""

    width = 2

    def __init__(self, recorder: Recorder, before: Any, kinds: Kinds, error: BaseException) -> None:
        self.kinds = kinds
        self.error = error
        self.before = number_value(recorder, before, kinds.value)
        self.arg = Value(TensorType(ELEMENTS[kinds.value]))
        self.afters: Sequence[Value] = ()
        self.theirs = CarriedNumber(recorder, _as_flag(before), bool)

    def begin(self, recorder: Recorder, number: str) -> Any:
        """A traced number."""
        self.arg = Value(self.arg.type, self.arg.hint)
        theirs = self.theirs.begin(recorder, number)
        return self.boxed(recorder, iter([self.arg, theirs.box.value()]))

    def boxed(self, recorder: Recorder, values: Iterator[Value]) -> Number:
        """A number that is NumPy's where the second value is true."""
        value, theirs = next(values), next(values)
        mixed = Mixed(Tracer(recorder, theirs), self.kinds, self.error)
        return Number.mix(Tracer(recorder, value), mixed)

    def states(self, recorder: Recorder, now: Any) -> list[State]:
        """A number of either."""
        here = self.boxed(recorder, iter([self.arg, self.theirs.arg]))
        if either_kind(here, now) != self.kinds:
            kinds = self.kinds.own.__name__, type(now).__name__
            raise Unlike("was a {}, and is a {} after a round".format(*kinds))
        theirs = self.theirs.states(recorder, _as_flag(now))
        value = number_value(recorder, now, self.kinds.value)
        made = [State(self.before, self.arg, value), *theirs]
        self.afters = [s.after for s in made]
        return made


class CarriedTuple:
    """A name of a tuple of numbers, each of which goes from round to round."""

    def __init__(self, parts: Sequence[Carried]) -> None:
        for part in parts:
            array = isinstance(part, CarriedArray) and not part.scalar
            if array or isinstance(part, CarriedCount):
                raise Unlike("is a tuple of more than numbers that data give")
        self.parts = parts
        self.width = sum(part.width for part in parts)
        self.arg = Value(TensorType(I64))  # of no use
        self.afters: Sequence[Value] = ()

    def begin(self, recorder: Recorder, number: str) -> Any:
        """Traced numbers."""
        return tuple([part.begin(recorder, number) for part in self.parts])

    def boxed(self, recorder: Recorder, values: Iterator[Value]) -> Any:
        """Traced numbers."""
        return tuple([part.boxed(recorder, values) for part in self.parts])

    def states(self, recorder: Recorder, now: Any) -> list[State]:
        """Numbers of the same kinds."""
        if type(now) is not tuple or len(now) != len(self.parts):
            raise Unlike("was a tuple, and is another one after a round")
        pairs = zip(self.parts, now, strict=True)
        made = [state for part, x in pairs for state in part.states(recorder, x)]
        self.afters = [s.after for s in made]
        return made


def theirs_of(x: Any) -> Tracer | bool:
    """Whether a number is NumPy's, as far as is known while tracing."""
    if is_mixed(x):
        theirs: Tracer = x.mixed.theirs
        return theirs
    return is_scalar(x)


def _as_flag(x: Any) -> Any:
    theirs = theirs_of(x)
    return theirs if isinstance(theirs, bool) else Number(theirs, bool)


def either_kind(*numbers: Any) -> Kinds | None:
    """What a number is that is one of these, some of them Python's; None where it can't be one."""
    values = {*map(_kind, numbers)}
    owns = {own_type(x) for x in numbers if not is_scalar(x)}
    theirs = {t for x in numbers if (t := _theirs(x)) is not None}
    if len(owns) != 1 or len(theirs) != 1 or None in values:
        return None
    (own,), (other,) = owns, theirs
    of_floats = values == {int, float} and own is int and issubclass(other, np.floating)
    if len(values) > 1 and not of_floats:
        return None
    if own is int:
        floats = issubclass(other, np.floating)
        low, high = (-_NEAR, _NEAR) if floats else (np.iinfo(other).min, np.iinfo(other).max)
        if not all(low <= x <= high for x in numbers if type(x) is int):
            return None
    return Kinds(float if float in values else own, own, other)


def _kind(x: Any) -> type | None:
    """The type of Python's that a number's value has; None for what is none."""
    if issubclass(type(x), Number):  # an index, too
        kind: type = x.kind
        return kind
    if is_scalar(x):
        kinds = {"f": float, "b": bool, "i": int, "u": int}
        return kinds.get(x.dtype.kind) if x.dtype != np.uint64 else None
    return type(x) if type(x) in THEIRS else None


def _theirs(x: Any) -> type | None:
    """The type that a number has where it is NumPy's; None for one that is Python's."""
    if is_scalar(x):
        scalar: type = x.dtype.type
        return scalar
    return x.mixed.kinds.theirs if is_mixed(x) else None


def number_value(recorder: Recorder, x: Any, kind: type) -> Value:
    """A number as a value of rank 0; Unlike where 64 bits don't hold it."""
    if type(x) is int and not _is_small(x):
        raise Unlike("is an int that 64 bits may not hold")
    if type(x) in THEIRS:
        return recorder.scalar(kind(x), ELEMENTS[kind])
    if type(x) is Number and x.kind is int:
        x = x.counted() if kind is int else as_float(x)
    content = content_of(recorder, x)
    value = recorder.lift(content) if isinstance(content, np.ndarray) else content
    return recorder.cast(value, ELEMENTS[kind])


class CarriedCount:
    """A name of a Python int that is another by the same number in each round."""

    width = 0
    afters: Sequence[Value] = ()

    def __init__(self, first: Any, now: Any, number: str) -> None:
        """`now` is what the first recording left, when it began with `first`."""
        self.arg = Value(TensorType(I64))  # of no use
        self.first = first
        step = now.factor(number) if type(now) is Index else 0
        if step is None:
            raise Unlike(_NO_COUNT)
        self.step: Any = step
        after_one = now.at(number, 0) if self.step else now
        self.step = self.step or after_one - first
        if type(self.step) is not int or not _equal(after_one - self.step, first):
            raise Unlike(_NO_COUNT)
        self.next: Any = None

    def begin(self, recorder: Recorder, number: str) -> Any:
        """The number in a round."""
        here = self.first + Index(recorder, affine.symbol(number)) * self.step
        self.next = here + self.step
        return here

    def boxed(self, recorder: Recorder, values: Iterator[Value]) -> Number:
        """The number after so many rounds."""
        steps = recorder.emit(graph.Mul, next(values), recorder.scalar(self.step, I64))
        first = self.first
        first = first.value() if type(first) is Index else recorder.scalar(first, I64)
        return Number(Tracer(recorder, recorder.emit(graph.Add, first, steps)), int, True)

    def states(self, recorder: Recorder, now: Any) -> list[State]:
        """None, where it has grown by what it has to."""
        if not self.agrees(now):
            raise Unlike(_NO_COUNT)
        return []

    def is_as_begun(self, now: Any) -> bool:
        """Whether it is what a round begins with."""
        return type(now) in (int, Index) and _equal(now, self.next - self.step)

    def agrees(self, now: Any) -> bool:
        """Whether a round leaves it greater by what it has to."""
        return type(now) in (int, Index) and _equal(now, self.next)


def _is_state(recorder: Recorder, x: Any) -> bool:
    """Whether it is an int that is read from outside at each call, and calls may change."""
    outside = has_term(x) and x.kind is int and recorder.numbers.is_outside(x.term)
    return outside and bool(x.by_python(_is_small, x))


def _is_small(x: int) -> bool:
    return -(1 << 62) < x < 1 << 62


_NO_COUNT = "is an int that does not grow by the same number in each round"


def _equal(left: Any, right: Any) -> bool:
    """Whether two ints are the same in all rounds."""
    gap = left - right
    return type(gap) is not Index and gap == 0


def carried(
    recorder: Recorder,
    before: Any,
    now: Any,
    round_: tuple[str, Collection[str]],
    mixed: BaseException | None,
) -> Carried:
    """How a name's value goes from round to round; Unlike where it can't.

    `round_` names the number of the round, and the sizes that data give in it.
    `mixed` is the error of one that is Python's number or NumPy's, as data say; None where a first
    round that is written out would tell.
    """
    if type(before) is type(now) is tuple and len(before) == len(now):
        pairs = zip(before, now, strict=True)
        return CarriedTuple([carried(recorder, *pair, round_, mixed) for pair in pairs])
    if _is_state(recorder, before) and type(now) in (Number, Index) and now.kind is int:
        return CarriedNumber(recorder, before.as_count(), int)
    before, now = (x.read("a count") if has_term(x) and x.kind is int else x for x in (before, now))
    kind = type(before)
    if isinstance(before, (Tracer, np.generic)) and not (is_scalar(before) and is_mixed(now)):
        return CarriedArray(recorder, before)
    known = [x.mixed.error for x in (before, now) if is_mixed(x)]
    error = known[0] if known else mixed if is_scalar(now) else None
    if error is not None and (either := either_kind(before, now)) is not None:
        return CarriedEither(recorder, before, either, error)
    if known:
        raise Unlike("is of more types than one of Python's and one of NumPy's")
    if kind is Number and before.kind is int and type(now) is Number and now.counts:
        before = before.counted()
    if kind is float or kind is bool or kind is Number:
        return CarriedNumber(recorder, before, before.kind if kind is Number else kind)
    if kind is int and type(now) is Number and now.kind is int:
        return CarriedNumber(recorder, before, int)
    if kind in (int, Index) and type(now) in (int, Index):
        number, sizes = round_
        if depends(now, sizes):  # it grows by as many rounds as a loop within has
            return CarriedNumber(recorder, before, int)
        try:
            return CarriedCount(before, now, number)
        except Unlike:
            return CarriedNumber(recorder, before, int)
    raise Unlike(f"was a {kind.__name__}, and is a {type(now).__name__} after a round")


def mistaken(recorder: Recorder, names: Mapping[str, Carried], now: Mapping[str, Any]) -> list[str]:
    """Names taken for what they are not: an int that grows as data say, or ways do, for a count.

    Or a number that is Python's or NumPy's, as data say, for one of either. `now` is what a round
    leaves.
    """

    def is_mistaken(taken: Carried, value: Any) -> bool:
        if isinstance(taken, CarriedTuple):
            alike = type(value) is tuple and len(value) == len(taken.parts)
            return alike and any(map(is_mistaken, taken.parts, value))
        if isinstance(taken, CarriedCount):
            counted = type(value) is Number and (value.kind is int or is_mixed(value))
            other = type(value) is Index and not taken.agrees(value)
            return counted or other or depends(value, recorder.rounds.data)
        single = isinstance(taken, CarriedArray) and taken.scalar
        return is_mixed(value) and (single or isinstance(taken, CarriedNumber))

    return [n for n, c in names.items() if is_mistaken(c, now[n])]
