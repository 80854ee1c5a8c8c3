"""The recorder of one trace: collects graph ops, knows the user's line, lifts constants.

At a break (`breaks`) the ops recorded so far are handed over as a segment, and recording begins
anew on fresh inputs; arrays that are alive then are known by weak references to their boxes.

Everything that makes an op goes through `Recorder.emit`, which gives it the location of the line of
the user's code that is running: the nearest frame whose globals are ones that `rewire` made.
"""

from __future__ import annotations

import linecache
import sys
import weakref
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from minicc.errors import UnsupportedError, UserError, file_line
from minicc.frontends.trace.loops.extents import Extent, Rounds, sure
from minicc.frontends.trace.loops.learned import LearnedOfLoops
from minicc.frontends.trace.loops.watch import Watch
from minicc.frontends.trace.needed import lost
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.restarts import Again, GivenUp, TooLong, WrittenOut
from minicc.frontends.trace.sizes import Unsized
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.build import Builder
from minicc.ir.core import Array, Literal, Op, Value, op_key, region_key
from minicc.ir.rewrite import copied
from minicc.ir.types import BOOL, I64, DType, TensorType, from_numpy

VIEW_OPS = (graph.Reshape, graph.Transpose, graph.Slice, graph.Broadcast)
_REPEATED = 16  # elements from which it pays to look for a constant that repeats one number
_LONGEST = 5_000  # ops of a trace
_LINGER = 256  # ops from one look at where a trace is to the next
_LONG = 1_000  # ops of a trace up to which loops of few rounds are written out
FEW = 3  # rounds up to which a loop is not captured, where that does not make the trace too long
SEGMENT = 10  # ops that a segment weighs
OWN = __name__.rpartition(".")[0]  # the package that traces


def is_own(frame: FrameType) -> bool:
    """Whether a frame runs code of the tracer, and not the user's or a library's."""
    return str(frame.f_globals.get("__name__")).startswith(OWN)


_FOREIGN: dict[np.dtype[Any], DType] = {}  # element types that only the host knows


def native_element(numpy_dtype: np.dtype[Any]) -> DType | None:
    """The element type that a graph has for a NumPy dtype; None for one of another byte order."""
    return from_numpy(numpy_dtype) if numpy_dtype.isnative else None


def element_of(numpy_dtype: np.dtype[Any]) -> DType:
    """The element type of a NumPy dtype, also of one that no graph has (texts, another order)."""
    element = native_element(numpy_dtype)
    if element is None:
        bits = numpy_dtype.itemsize * 8
        element = _FOREIGN.setdefault(numpy_dtype, DType(str(numpy_dtype), "h", bits, numpy_dtype))
    return element


def type_of(array: Any) -> TensorType:
    """The type of an array in the state of a path."""
    return TensorType(element_of(array.dtype), array.shape)


class Recorder:
    """The state of one trace.

    `user_globals` are the user's namespaces, by the ids of those that their code is traced in;
    `inputs` are those of the segment that is recorded; a call begins with the boxes `begun`, of
    arguments and of what is read from outside; `path` runs segments at breaks, and is None where
    values are not to be had.
    """

    def __init__(self, name: str, place: str = "", few: int = FEW, hasty: bool = True) -> None:
        self.name = name
        self.few = few  # rounds up to which a loop is not captured
        self.hasty = hasty  # whether it is too long already where such loops make it long
        self.short = False  # whether such a loop was met
        self.ahead = 1  # rounds of such loops, as long as they are in their first ones
        self._place = place or name
        self.closed = False
        self.user_globals: dict[int, dict[str, Any]] = {}
        self.captured: dict[str, Array] = {}
        self.namespace: Any = None
        self.kinds: dict[type, Any] = {}  # what stands for NumPy's classes
        self.identity = False  # whether code asks if something is True
        self.inputs: list[Value] = []
        self.begun: list[Any] = []
        self.effects: Any = None
        self.as_users: Any = None  # makes of a function one that is traced as the user's code is
        self.given: dict[int, Any] = {}  # the boxes of arguments by the arrays' identities
        self.path: Any = None
        self.numbers: Any = None  # those that the call gave, where they may be no constants
        self.raised: Exception | None = None  # what a call on the host raised last
        self.refused: BaseException | None = None  # for which nothing else was done
        self.places: list[str] = []  # lines where arguments are written to
        self.loops: list[Any] = []  # whose bodies are recorded now, the innermost last
        self.rounds = Rounds(self.write_out)
        self.learned = LearnedOfLoops()  # by earlier attempts
        self.turns: dict[Any, Any] = {}  # of `for` loops that are written out
        self.tries: dict[Any, int] = {}  # how often a loop could not be captured
        self.last_round: Any = None  # of a `while`, which Python goes through again
        self.opened: dict[int, tuple[Any, Any]] = {}  # what stands for numbers, and for which loop
        self.frames = Watch()  # for frames that come to such a loop, or leave one
        self.counted: list[tuple[Value, Any]] = []  # masks, and the positions where they hold
        self.lingers: dict[Any, int] = {}  # where in loops the trace was a while ago
        self.found: dict[Any, Any] = {}  # what is carried by loops within others
        self.maybes: list[Any] = []  # arrays that may be others after loops (`loops.aliases`)
        self.lists: dict[int, Any] = {}  # that loops have filled, with what they are as arrays
        self.told: dict[str, str] = {}  # what became of each loop, by its line
        self.line: tuple[str, str] | None = None  # the user's, where that is an earlier one
        self.work = 0  # ops that were recorded, and what segments weigh
        self.outside: dict[Value, frozenset[int]] = {}  # arrays from outside, by their places
        self._known: set[Value] = set()  # constants
        self._builder = Builder(())
        self._lifted: dict[int, tuple[Array, Value]] = {}
        self._made: dict[Any, Any] | None = None  # ops of a body, for it is recorded many times
        self._boxes: dict[int, weakref.ref[Any]] = {}
        self._count = 0
        self._moved: dict[Value, Value] = {}
        self._unsure: set[Value] = set()

    @property
    def ops(self) -> list[Op]:
        """The ops recorded so far in this segment, in order."""
        return self._builder.ops

    def watch(self, box: Any) -> None:
        """Know a box while it is alive."""
        number, boxes = self._count, self._boxes
        self._count = number + 1
        boxes[number] = weakref.ref(box, lambda _: boxes.pop(number, None))

    def live(self, since: int = 0, pending: bool = False) -> list[Any]:
        """The live boxes, oldest first, that are `pending` or not, made since `count` was so."""
        boxes = [r() for n, r in sorted(self._boxes.items()) if n >= since]
        return [b for b in boxes if b is not None and b.pending == pending]

    @property
    def count(self) -> int:
        """How many boxes were made."""
        return self._count

    def enter(self) -> Any:
        """Record the body of a loop from now on; what `leave` takes to go on after it."""
        before = self._builder, self._lifted, self._made, self._unsure
        self._builder, self._lifted, self._made = Builder(()), dict(self._lifted), {}
        self._unsure = set()
        return before

    def leave(self, before: Any) -> tuple[list[Op], set[Value]]:
        """The ops that were recorded since `enter`, and the values of them that may fail."""
        found = self._builder.ops, self._unsure
        self._builder, self._lifted, self._made, self._unsure = before
        return found

    def tell(self, where: str, became: str) -> None:
        """Remember what became of a loop, for people."""
        self.told[where] = became

    def write_out(self, reason: str) -> NoReturn:
        """Give up the innermost loop that is recorded, or that sizes are symbols."""
        if not self.loops:
            self.end(Unsized(f"{self.location()}: {reason}"))
        raise WrittenOut(self.loops[-1], reason)

    def need(self, size: Dim, needs: str) -> NoReturn:
        """Begin again with numbers for the sizes that an expression depends on."""
        sizes = self.rounds.sizes
        if sizes.is_counted(size):
            self.end(Unsized(f"{self.location()}: {needs} needs a size that data give"))
        sizes.fix(size)
        if not sizes:
            self.end(Unsized(f"{self.location()}: {needs} needs a size"))
        self.end(Again())

    def give_up(self, why: str) -> NoReturn:
        """End a trace that is too long to be compiled in good time."""
        if self.few < FEW:
            raise TooLong
        hint = "write it with whole arrays"
        error = UnsupportedError("MC0247", why, hint=hint, where=self.location())
        if self.path is None:
            raise error
        raise GivenUp(error)

    def begin(self, types: Sequence[TensorType]) -> list[Value]:
        """Forget what was recorded and begin a segment with inputs of these types."""
        self.work += SEGMENT
        self._builder = Builder(())
        self._lifted = {}
        self._unsure = set()
        self.inputs = [Value(t) for t in types]
        return self.inputs

    def rebind(self, boxes: Sequence[Any], moved: dict[Value, Value]) -> None:
        """Put the new segment's values into the boxes; what is computed just now is moved too."""
        for box in boxes:
            box.rebind(moved)
        self.outside = {moved[v]: places for v, places in self.outside.items() if v in moved}
        earlier = {old: moved[v] for old, v in self._moved.items() if v in moved}
        self._moved = {**earlier, **moved}

    def current(self, value: Value) -> Value:
        """The value of this segment for one that an earlier one had."""
        return self._moved.get(value, value)

    def frame(self) -> FrameType | None:
        """The nearest frame that runs the user's code."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and id(frame.f_globals) not in self.user_globals:
            frame = frame.f_back
        return frame

    def source(self) -> str:
        """The text of the user's line that is running."""
        if self.line is not None:
            return self.line[1]
        frame = self.frame()
        at = frame and (frame.f_code.co_filename, frame.f_lineno)
        return linecache.getline(*at).strip() if at else ""

    def location(self) -> str:
        """`file.py:line` of the user's line that is running, else where the function begins."""
        if self.line is not None:
            return self.line[0]
        frame = self.frame()
        if frame is None:
            return self._place
        return file_line(frame.f_code.co_filename, frame.f_lineno)

    def require_short(self, work: int) -> None:
        """TooLong where so many ops are too many for loops of few rounds to be written out."""
        if self.hasty and work > _LONG:
            raise TooLong

    def emit(self, cls: type[Op], *args: Any, **attrs: Any) -> Value:
        """Record an op with one result; UserError where its type rule refuses the operands."""
        self.emit_check()
        self.work += 1
        if self.short:
            self.require_short(self.work)
        if self.work % _LINGER == 0:
            Dispatch.linger(self)
        if self.work > _LONGEST:
            self.give_up(f"{self.name} is longer than {_LONGEST} operations")
        self._builder.loc = (self.location(),)
        if self._moved:
            args = tuple([self._latest(a) for a in args])
        if self._made is None:
            value = self._builder.emit(cls, *args, **attrs)
        else:
            value = self._once(cls, args, attrs).result
        if self.outside:
            self._note_outside(value)
        return value

    def require_inside(self, boxes: Sequence[Any]) -> None:
        """Have arrays from outside as constants if nothing else is needed for what Python sees."""
        values = [c for c in (b.content for b in boxes) if isinstance(c, Value)]
        if values and self.outside.keys() >= {*values}:
            self.numbers.keep_still(*[self.outside[v] for v in values])

    def _note_outside(self, value: Value) -> None:
        """See whether a value that was just recorded is made of nothing but what is outside."""
        op = self.ops[-1]
        found = [self.outside[v] for v in op.operands if v in self.outside]
        if not found or value not in op.results:
            return
        if all(v in self.outside or v in self._known for v in op.operands):
            if not isinstance(op, VIEW_OPS):
                self.numbers.keep_still(*found)
            self.outside[value] = frozenset[int]().union(*found)

    def emit_unsure(self, cls: type[Op], *args: Any, **attrs: Any) -> Value:
        """`emit` for what fails where an index is out of bounds, also if its result is unused.

        The index is the second operand.
        """
        value = self.emit(cls, args[0], self._masked(args[1]), *args[2:], **attrs)
        self.may_fail([value])
        return value

    def _masked(self, index: Value) -> Value:
        """An index that is 0 on sides of branches that a round does not take."""
        for capture in self.loops:
            if self.learned[capture.key].masks:
                zero = self.broadcast(self.scalar(0, index.type.dtype), index.type.extents)
                for condition, side in capture.choices.path():
                    index = self.emit(graph.Select, condition, *[index, zero][:: 1 if side else -1])
        return index

    def may_fail(self, values: Iterable[Value]) -> None:
        """Note values whose computation may fail, also if nothing is made of them."""
        self._unsure.update(values)

    def fails_alike(self, value: Value, others: Iterable[Value]) -> None:
        """Note a value in place of others, where its computation fails if one of theirs does."""
        if not self._unsure.isdisjoint(others):
            self._unsure.difference_update(others)
            self._unsure.add(value)

    def computed(self, wanted: Sequence[Value]) -> list[Value]:
        """What the segment's ops are to give, in the order in which they do.

        That is what is `wanted` and not an input, and what may fail.
        """
        left = {*wanted, *self.unused(wanted)}.difference(self.inputs)
        return [v for op in self.ops for v in op.results if v in left]

    def unused(self, wanted: Sequence[Value]) -> list[Value]:
        """What may fail and nothing wanted is made of."""
        return lost(self.ops, wanted, self._unsure) if self._unsure else []

    def _once(self, cls: type[Op], args: Sequence[Any], attrs: dict[str, Any]) -> Op:
        """An op of a body, the same one where it computes what an earlier one did."""
        assert self._made is not None
        ops = self._builder.ops
        self._builder.emit_all(cls, *args, **attrs)
        op = ops[-1]
        first = self._first(op)
        if first is not op:
            ops.pop()
        return first

    def repeat(self, op: Op, operands: Sequence[Value]) -> Op:
        """An op of a body on other operands of the same types."""
        fresh = op.rebuilt(operands, list(map(copied, op.regions)) or None)
        first = self._first(fresh)
        if first is fresh:
            self._builder.add(fresh)
        return first

    def _first(self, op: Op) -> Op:
        """The op of a body that computes what another one would, and was recorded first."""
        assert self._made is not None
        regions = tuple([region_key(r) for r in op.regions])
        first: Op = self._made.setdefault((op_key(op), regions), op)
        self.loops[-1].choices.ops[first.results[0]] = first
        return first

    def emit_check(self) -> None:
        """UserError (MC0183) where the trace has ended."""
        if self.closed:
            raise UserError(
                "MC0183",
                f"a value of the trace of {self.name} is used after the trace has ended",
                hint="return values instead of storing them in globals or objects",
            )

    def emit_all(self, cls: type[Op], *args: Any, **attrs: Any) -> tuple[Value, ...]:
        """Record an op with any number of results."""
        self.emit_check()
        self._builder.loc = (self.location(),)
        given = [self._latest(a) for a in args]
        if self._made is None:
            return self._builder.emit_all(cls, *given, **attrs)
        return self._once(cls, given, attrs).results

    def _latest(self, arg: Any) -> Any:
        if isinstance(arg, Value):
            return self.current(arg)
        return [self.current(v) for v in arg] if isinstance(arg, list) else arg

    def note_write(self, box: Any) -> None:
        """Remember the line where an argument's contents change."""
        Dispatch.written(box)
        if any(box is a for a in self.begun):
            self.places.append(self.location())

    def refuse(self, code: str, message: str, hint: str = "") -> NoReturn:
        """Raise UnsupportedError at the user's line; the trace fails, also where that is caught."""
        self.end(UnsupportedError(code, message, hint=hint, where=self.location()))

    def end(self, error: BaseException) -> NoReturn:
        """Raise an error that ends the trace, also where the function catches it."""
        self.refused = self.refused or error
        raise error

    def wrong(self, code: str, message: str, hint: str = "") -> NoReturn:
        """Raise UserError at the user's line."""
        raise UserError(code, message, hint=hint, where=self.location())

    def dtype(self, numpy_dtype: Any) -> DType:
        """The element type of a NumPy dtype; UnsupportedError (MC0245) where there is none."""
        element = native_element(np.dtype(numpy_dtype))
        if element is None:
            self.refuse(
                "MC0245",
                f"no element type stores NumPy's {np.dtype(numpy_dtype)}",
                "numbers and booleans are supported",
            )
        return element

    def lift(self, array: Array) -> Value:
        """A constant as a value of the graph; an array that repeats one number stays small."""
        known = self._lifted.get(id(array))
        if known is not None:
            return known[1]
        element = self.dtype(array.dtype)
        native = np.asarray(array, element.numpy)
        if native.size >= _REPEATED and _repeats(native):
            value = self.emit(graph.Constant, Literal(native.reshape(-1)[0]))
            value = self.emit(graph.Broadcast, value, native.shape)
        else:
            # a copy, for the owner may write into the array later
            value = self.emit(graph.Constant, Literal(native.copy()))
        self._lifted[id(array)] = (array, value)
        self._known.add(value)
        return value

    def scalar(self, number: Any, element: DType) -> Value:
        """A constant of rank 0; OverflowError where the element type can't hold the number."""
        if type(number) is Extent:
            return self.cast(self.emit(graph.Sizes, (number,), (), I64), element)
        with np.errstate(over="ignore"):
            value = self.emit(graph.Constant, Literal(np.asarray(number, element.numpy)))
        self._known.add(value)
        return value

    def whole_of(self, x: Any) -> Value | None:
        """The array of the elements of a list that a loop has filled."""
        known = self.lists.get(id(x))
        return known.array.value() if known is not None and known.holds() else None

    def alike(self, left: Value, right: Value) -> bool:
        """Whether two values are computed alike of the same."""
        makers = {v: op for op in self.ops for v in op.results}
        pairs = [(left, right)]
        while pairs:
            a, b = pairs.pop()
            if a is b:
                continue
            one, other = makers.get(a), makers.get(b)
            if one is None or other is None or one.regions or type(one) is not type(other):
                return False
            if one.results.index(a) != other.results.index(b):
                return False
            if op_key(one)[2:] != op_key(other)[2:]:
                return False
            pairs += zip(one.operands, other.operands, strict=True)
        return True

    def are_known(self, values: Sequence[Value]) -> bool:
        """Whether all of the values are constants."""
        return self._known.issuperset(values)

    def cast(self, value: Value, element: DType) -> Value:
        """The value converted to an element type, or itself."""
        if value.type.dtype is element:
            return value
        if value.type.dtype.is_complex and not element.is_complex and element is not BOOL:
            value = self.emit(graph.Real, value)
        return self.emit(graph.Cast, value, dtype=element)

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The value under another shape, or itself."""
        return value if value.type.shape == shape else self.emit(graph.Reshape, value, shape)

    def transpose(self, value: Value, perm: tuple[int, ...]) -> Value:
        """The value with its axes permuted, or itself."""
        same = perm == tuple(range(len(perm)))
        return value if same else self.emit(graph.Transpose, value, perm)

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The value repeated to a shape, or itself."""
        return value if value.type.shape == shape else self.emit(graph.Broadcast, value, shape)

    def reduce(
        self, value: Value, axes: tuple[int, ...], combine: str, keepdims: bool = False
    ) -> Value:
        """Combined along axes; the value itself where there are none."""
        if not axes:
            return value
        if combine in ("max", "min"):
            self.require_some(value, axes)
        return self.emit(graph.Reduce, value, axes, combine, keepdims)

    def require_some(self, value: Value, axes: Sequence[int]) -> None:
        """Write a loop out in which there may be nothing to take the greatest or least of."""
        if any(not sure(value.type.shape[k]) for k in axes):
            self.write_out("the greatest or least of what may be nothing in some round")


def _repeats(array: Array) -> bool:
    """Whether all elements have the same bits."""
    if not any(array.strides):
        return True
    flat = np.ascontiguousarray(array).reshape(-1)
    words = flat.view(f"u{min(flat.itemsize, 8)}")
    parts = words.reshape(flat.size, -1).T  # one, or two of complex numbers
    return all(p[0] == p[-1] and (p == p[0]).all() for p in parts)
