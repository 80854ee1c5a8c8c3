"""Python numbers that were read from traced arrays and are not looked at yet.

`float(x.max())` gives a `Number`: to NumPy a weak Python float, in the graph a scalar of 64 bits
that stays in the graph. Sums, differences and products of such numbers are recorded; what Python
has to know (a condition, a formatted text, `range`) or could raise (a division) reads the value,
which ends the segment. A traced number that is only passed on to arrays never does.

A number that the call gave has a *term* instead (`given`): Python computes with it at each call,
and it is in the graph only where it meets an array.

Functions of `math` on traced numbers run on the host and give traced numbers.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from minicc.frontends.trace.mixed import (
    THEIRS,
    Kinds,
    Mixed,
    differs,
    is_mixed,
    mixed_of,
    own_type,
    require_one_type,
    takes_either,
)
from minicc.frontends.trace.plain_guards import within
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.types import I64, DType

_STEPS = 1_000  # of Python's at each call, beyond which it is not much slower alone


class Number:
    """A Python float, int or bool whose value is in `box`, a traced scalar of 64 bits or a bool.

    One with a `term` is what Python computes of numbers that the call gave. One that `counts` is an
    int that loops made by small steps: 64 bits hold it, whatever they do. One with `most` is an int
    from 0 to that. One that is `mixed` may be NumPy's, as data say (`mixed`).
    """

    __slots__ = ("_box", "_recorder", "counts", "kind", "known", "mixed", "most", "term")
    __array_priority__ = 2000
    is_traced = True

    def __init__(self, box: Tracer, kind: type, counts: bool = False) -> None:
        self._recorder: Recorder = box.recorder
        self._box: Tracer | None = box
        self.kind = kind
        self.counts = counts
        self.known: Any = None
        self.most: int | None = None
        self.term: Any = None
        self.mixed: Mixed | None = None

    @staticmethod
    def of(recorder: Recorder, term: Any) -> Number:
        """The number that a term gives."""
        made = Number.__new__(Number)
        made._recorder, made._box, made.kind, made.known = recorder, None, type(term.value), None
        made.term, made.counts, made.most, made.mixed = term, False, None, None
        return made

    @staticmethod
    def mix(box: Tracer, mixed: Mixed) -> Number:
        """A number that may be NumPy's."""
        made = Number(box, mixed.kinds.value, mixed.kinds.value is int)
        made.mixed = mixed
        return made

    @property
    def box(self) -> Tracer:
        """The number as a traced scalar; a constant where 64 bits don't hold it."""
        if self._box is None:
            if self.kind is int and not self.fits(I64):
                self._box = Tracer(self._recorder, np.asarray(self.read("an array of ints")))
            else:
                self._box = self._recorder.numbers.box(self._recorder, self.term)
        return self._box

    @property
    def is_lazy(self) -> bool:
        """Whether the graph sums it as an int: in rounds, or where NumPy could run the call."""
        return bool(self._recorder.loops) or (self.known is None and bool(self._recorder.path))

    def by_python(self, function: Callable[..., Any], *operands: Any) -> Any:
        """What a function of Python gives for the operands, which have terms or are known."""
        terms = [x.term if type(x) is Number else x for x in operands]
        recorder = self._recorder
        value, term = recorder.numbers.apply(function, *terms)
        if recorder.numbers.steps > max(_STEPS, recorder.work):
            recorder.give_up(f"Python computes more than {_STEPS} numbers of what calls give")
        return value if term is None else Number.of(self._recorder, term)

    def _asks_apart(self, frame: FrameType) -> bool:
        """Whether the user's code asks for what floats of Python and of NumPy differ in."""
        return self.mixed is not None and id(frame.f_globals) in self._recorder.user_globals

    @property
    def __class__(self) -> Any:
        if self._asks_apart(sys._getframe(1)):
            return type(self.read("a class"))
        return self.kind

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError("a traced number stays one")

    def counted(self) -> Number:
        """An int that data give as one that 64 bits hold after small steps.

        Where it is larger, NumPy runs the call. The number itself stays what it is: a round that is
        recorded must not change what was made before its loop.
        """
        if self.kind is not int or self.term is not None or self.counts:
            return self
        return Number(checked(self.box, _lies_within(self.box, (1 << 62) - 1)), int, True)

    def as_count(self) -> Number:
        """A small int that the call gave as one that data give."""
        return Number(self.box, int, True)

    def fits(self, element: DType) -> bool:
        """Whether it is known that an element type holds it as it is."""
        if self.mixed is not None and self.mixed.kinds.theirs is element.numpy.type:
            return True
        if self.term is None:
            most = _greatest(element) if self.counts and element is I64 else self.most
            return most is not None and element.is_integer and most <= _greatest(element)
        limits = np.iinfo(element.numpy) if element.is_integer else None
        low, high = (int(limits.min), int(limits.max)) if limits else (-(1 << 53), 1 << 53)
        return bool(self.by_python(within, self, low, high))

    def read(self, needs: str) -> Any:
        """The value; the segment ends here, unless it was read before."""
        if self.term is not None:
            return self._recorder.numbers.fix(self.term)
        if self.known is None:
            self.known = self.box.read(self.kind.__name__, needs)
            if self.mixed is not None:
                theirs, kinds, _ = self.mixed
                self.known = (kinds.theirs if theirs.read("bool", needs) else kinds.own)(self.known)
        return self.known

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.read("a function that is not traced"), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self.box.__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.box.__array_function__(func, types, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if self._asks_apart(sys._getframe(1)):
            return getattr(self.read(f".{name}"), name)
        if name.startswith("__") or not hasattr(self.kind, name):
            raise AttributeError(f"{self.kind.__name__!r} object has no attribute {name!r}")
        return getattr(self.read(f".{name}"), name)

    def __bool__(self) -> bool:
        if self.term is not None:
            return bool(self.by_python(bool, self))
        return bool(self.box.read("bool", "a condition (if, while, and, or, not, bool())"))

    def __float__(self) -> float:
        return float(self.read("float()"))

    def __int__(self) -> int:
        return int(self.read("int()"))

    def __index__(self) -> int:
        return operator.index(self.read("a Python index or range()"))

    def __complex__(self) -> complex:
        return complex(self.read("complex()"))

    def __hash__(self) -> int:
        return hash(self.read("a key of a dict or set"))

    def __repr__(self) -> str:
        return repr(self.read("a text"))

    def __str__(self) -> str:
        return str(self.read("a text"))

    def __format__(self, spec: str) -> str:
        return format(self.read("a text"), spec)

    def __round__(self, *digits: int) -> Any:
        return _by_python(self, round, *digits)

    def __trunc__(self) -> Any:
        return _by_python(self, math.trunc)

    def __floor__(self) -> Any:
        return _by_python(self, math.floor)

    def __ceil__(self) -> Any:
        return _by_python(self, math.ceil)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pos__(self) -> Number:
        return self

    def __neg__(self) -> Any:
        return _unary(self, "negative", operator.neg)

    def __abs__(self) -> Any:
        return _unary(self, "absolute", operator.abs)

    def __invert__(self) -> Any:
        if self.term is None and self.kind is int and not differs(self):
            out = Dispatch.call(self.box.recorder, "invert", (self.box,), {})
            return mixed_like(Number(out, int, self.counts), self)
        return _by_python(self, operator.invert)


def mixed_like(made: Number, *operands: Any, divides: bool = False) -> Number:
    """What an operator of Python gives of numbers: NumPy's where one of them is."""
    kind = made.kind
    ints = kind is float and not divides and all(own_type(x) is int for x in operands)
    made.mixed = mixed_of(Kinds(kind, int if ints else kind, THEIRS[kind]), *operands)
    return made


def _greatest(element: DType) -> int:
    return int(np.iinfo(element.numpy).max)


def has_term(x: Any) -> bool:
    """Whether a value is a number that Python computes at each call."""
    return type(x) is Number and x.term is not None


def _by_python(x: Number, real: Callable[..., Any], *others: Any) -> Any:
    if x.term is not None:
        return x.by_python(real, x, *others)
    return real(x.read(f"{real.__name__}()"), *others)


def _unary(x: Number, name: str, real: Callable[[Any], Any]) -> Any:
    if x.term is None and (x.kind is int or (differs(x) and name == "negative")):
        require_one_type(x)  # Python's 0 has no sign
        x = x.counted() if x.is_lazy else x
    if x.term is not None or not (x.kind is float or x.counts):
        return _by_python(x, real)
    out = Dispatch.call(x.box.recorder, name, (x.box,), {})
    made = Number(out, x.kind, x.counts)
    made.mixed = x.mixed
    return made


_PLAIN = (bool, int, float)
STEP = 1 << 31  # by less than which a number that counts grows at once


def _define(symbol: str, ufunc: str, recorded: bool, compares: bool = False) -> None:
    """An operator; `recorded` says that the graph may compute it as Python does.

    What has a ufunc and is not recorded it may for integers (see `_stays`).
    """
    real: Callable[[Any, Any], Any] = getattr(operator, symbol)

    def apply(x: Number, other: Any, swapped: bool) -> Any:
        if type(other) is not Number and type(other) not in (*_PLAIN, complex):
            return NotImplemented
        if not _takes_mixed(symbol, x, other, swapped):
            for operand in (x, other):
                require_one_type(operand)
        if x.term is not None and (type(other) is not Number or other.term is not None):
            return x.by_python(real, *((other, x) if swapped else (x, other)))
        if has_term(other) and x.kind is int:
            other = other.read("an operator")  # what is known of an index stays known
            return real(other, x) if swapped else real(x, other)
        if type(other) in _PLAIN or type(other) is Number:
            floats = x.kind is float or (compares and not isinstance(other, float))
            step = type(other) is int and abs(other) < STEP
            if symbol in ("add", "sub") and (step or type(other) is Number) and x.is_lazy:
                x, other = x.counted(), other.counted() if type(other) is Number else other
            both = type(other) is Number and x.counts and other.counts and symbol != "mul"
            small = x.counts and step and symbol != "mul"
            if symbol == "mul" and x.kind is int and x.is_lazy:
                factors = _factors(x, other)
                small, x, other = factors is not None, *(factors or (x, other))
            if ufunc and not recorded and x.kind is int and _stays(symbol, x, other, swapped):
                out = Dispatch.call(x.box.recorder, ufunc, (x.box, _box(other, x)), {})
                most = _greatest_of(symbol, x.most, other)
                made = Number(out, int, small or most is not None)
                made.most = most
                return mixed_like(made, x, other)
            if recorded and (floats or small or both) and _exact(x, other):
                pair = (_box(x, other), _box(other, x))
                left, right = pair[::-1] if swapped else pair
                out = Dispatch.call(x.box.recorder, ufunc, (left, right), {})
                made = mixed_like(Number(out, bool if compares else x.kind, small), x, other)
                return truth(made) if compares else made
        if (found := _derived(symbol, x, other, swapped)) is not None:
            return found
        mine = x.read(f"the operator of operator.{symbol}")
        known = has_term(other) or type(other) is not Number
        theirs = other if known else other.read("an operator")
        return real(theirs, mine) if swapped else real(mine, theirs)

    name = symbol.rstrip("_")
    setattr(Number, f"__{name}__", lambda x, other: apply(x, other, False))
    if not compares:
        setattr(Number, f"__r{name}__", lambda x, other: apply(x, other, True))


_OF_INTS = ("add", "sub", "mul", "pow", "floordiv", "mod", "and_", "or_", "xor", "lshift", "rshift")


def _takes_mixed(symbol: str, x: Number, other: Any, swapped: bool) -> bool:
    """Whether an operator gives the same of Python's numbers as of NumPy's; ints have no end."""
    if any(map(differs, (x, other))):
        return takes_either(symbol, x, other)
    if x.kind is float or symbol not in _OF_INTS or not any(map(is_mixed, (x, other))):
        return True
    if symbol in ("add", "sub"):
        return x.kind is int and own_type(other) is int
    return x.kind is int and type(other) is int and _stays(symbol, x, other, swapped)


def _factors(x: Number, other: Any) -> tuple[Number, Any] | None:
    """Ints of which 64 bits hold the product, if data may not say otherwise: NumPy runs the call.

    None where one of them is no int, or too large to be sure of.
    """
    if type(other) is Number and other.kind is int and other.term is None:
        return _bounded(x, STEP), _bounded(other, STEP)
    most = (1 << 62) // max(1, abs(other)) if type(other) is int else 0
    return (_bounded(x, most), other) if most >= STEP else None


def _bounded(x: Number, most: int) -> Number:
    if x.most is not None and x.most <= most:
        return x
    return Number(checked(x.box, _lies_within(x.box, most)), int, True)


def truth(made: Number) -> Any:
    """What a comparison gives, which is looked at where code compares it by identity."""
    return made.read("`is`") if made.box.recorder.identity else made


def _stays(symbol: str, x: Number, other: Any, swapped: bool) -> bool:
    """Whether 64 bits hold what an operator of ints gives, whatever x is."""
    if symbol in ("mul", "pow"):
        return False
    if symbol in ("and_", "or_", "xor"):
        return abs(other) < 1 << 62 if type(other) is int else other.kind is int
    if type(other) is not int or swapped:
        return False
    if symbol == "lshift":
        return x.most is not None and 0 <= other < 62 and x.most << other < 1 << 62
    return (0 if symbol == "rshift" else 1) <= other < 1 << 62


def _greatest_of(symbol: str, mine: int | None, other: Any) -> int | None:
    """The greatest that an operator of ints gives, where that is known and none is below 0."""
    theirs = other.most if type(other) is Number else other if other >= 0 else None
    if symbol == "and_":
        return min((m for m in (mine, theirs) if m is not None), default=None)
    if symbol == "mod":
        return int(other) - 1
    if mine is None or theirs is None:
        return None
    if symbol in ("or_", "xor"):
        return (1 << max(mine.bit_length(), theirs.bit_length())) - 1
    return int(getattr(operator, symbol)(mine, other))


def _derived(symbol: str, x: Number, other: Any, swapped: bool) -> Number | None:
    """A quotient, a power, or what a float and an int give, as the graph computes it; else None."""
    pair = (other, x) if swapped else (x, other)
    if type(other) is complex:
        return None
    if symbol == "pow":
        return Dispatch.power(*pair)  # type: ignore[no-any-return]
    kinds = {n.kind if type(n) is Number else type(n) for n in pair}
    floats = symbol in _OF_FLOATS and kinds == {int, float}
    return _of_floats(symbol, x, pair) if floats or symbol == "truediv" else None


_OF_FLOATS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide"}


def _of_floats(symbol: str, x: Number, pair: tuple[Any, Any]) -> Number | None:
    """What an operator of floats gives; None where Python computes it, as what it takes is known.

    Where data are 0 to divide by, or an int that a float may not hold, NumPy runs the call.
    """
    if all(type(n) is not Number or n.term is not None or n.known is not None for n in pair):
        return None
    under, divides = pair[1], symbol == "truediv"
    if divides and has_term(under) and not under.by_python(operator.ne, under, 0):
        return None
    if (divides and type(under) in _PLAIN and not under) or not all(map(_is_near, pair)):
        return None
    left, right = map(as_float, pair)
    if divides and type(under) is Number and under.term is None:
        right = checked(right, right != 0)
    out = Dispatch.call(x._recorder, _OF_FLOATS[symbol], (left, right), {})
    return mixed_like(Number(out, float), *pair, divides=divides)


def _is_near(x: Any) -> bool:
    """Whether a number is no int that floats may not hold, as far as is known while tracing."""
    if has_term(x) and x.kind is int:
        return bool(x.by_python(within, x, -(1 << 53), 1 << 53))
    return type(x) in (bool, float, Number) or (type(x) is int and abs(x) <= 1 << 53)


def as_float(x: Any) -> Any:
    """A number as a float of 64 bits in the graph."""
    if type(x) is not Number:
        return np.float64(x)
    if x.term is not None:
        return x.by_python(float, x).box
    if x.kind is float:
        return x.box
    made = converted(x.box, np.float64)
    near = x.kind is bool or (x.most is not None and x.most <= 1 << 53)
    return made if near else checked(made, _lies_within(x.box, 1 << 53))


def _exact(x: Number, other: Any) -> bool:
    """Whether 64 bits hold the other operand as Python does."""
    if type(other) is Number:
        return other.kind is x.kind
    return not isinstance(other, int) or abs(other) <= 1 << 53


def _box(x: Any, like: Any) -> Any:
    if issubclass(type(x), Number):  # an index, too
        return x.box
    kind = like.kind if type(like) is Number else float
    return np.asarray(float(x) if kind is float else x, np.float64 if kind is float else np.int64)


for _symbol, _ufunc in (("add", "add"), ("sub", "subtract"), ("mul", "multiply")):
    _define(_symbol, _ufunc, recorded=True)
for _symbol, _ufunc in (
    ("floordiv", "floor_divide"),
    ("mod", "remainder"),
    ("and_", "bitwise_and"),
    ("or_", "bitwise_or"),
    ("xor", "bitwise_xor"),
    ("lshift", "left_shift"),
    ("rshift", "right_shift"),
):
    _define(_symbol, _ufunc, recorded=False)
for _symbol in ("truediv", "pow"):
    _define(_symbol, "", recorded=False)
for _symbol, _ufunc in (
    ("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"),
    ("eq", "equal"), ("ne", "not_equal"),
):  # fmt: skip
    _define(_symbol, _ufunc, recorded=True, compares=True)


def converted(x: Tracer, dtype: Any) -> Any:
    """A traced array of one element as a scalar of an element type."""
    flat = Dispatch.call(x.recorder, "reshape", (x, ()), {})
    return Dispatch.call(x.recorder, "ndarray.astype", (flat, dtype), {})


def _lies_within(box: Any, most: int) -> Any:
    """Whether an int64 is at most so far from 0; the magnitude of the least one is none."""
    return (box <= most) & (box >= -most)


def checked(value: Any, holds: Any) -> Any:
    """A traced scalar where a condition holds; else NumPy runs the call.

    An index out of bounds says so, as for any other.
    """
    recorder = value.recorder
    place = Dispatch.call(recorder, "where", (holds, np.int64(0), np.int64(1)), {})
    return value.reshape(1)[place]
