"""How many rounds a Loop has whose condition counts them, as exporters of while loops write it.

    Loop(most, 0 < n, state, n):                       n rounds, of which each
        next = i + 1                                   knows its number i
        yield Cast(next, float) < Cast(n, float), ...

TensorFlow's loops are such: what is compared moves by one in each round, or never. What is known of
names is a line, a size and how far it moves. So are states that are counted, which are computed
from the number of the round; states that stay as they were need not pass through the rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from minicc.frontends.onnx.bodies import Importing
from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Model, Node
from minicc.frontends.onnx.needs import NeedsValueError
from minicc.frontends.onnx.ops.constant import contents_of
from minicc.ir.affine import Dim, minimum
from minicc.ir.affine_facts import at_least, greater, least_within, smaller
from minicc.ir.core import Array, Value
from minicc.ir.types import F32, F64, I32, I64, DType

_ENDLESS = 1 << 62  # rounds, of which no size is as many
_EXACT = 1 << 24  # whole numbers up to which each is a float32
# ONNX's numbers of the types that counters have: float32, int32, int64 and float64
_SINGLE = 1
_COUNTING = frozenset({_SINGLE, 6, 7, 11})
# Operators that keep the one number of a counter.
_KEEPING = frozenset({"Cast", "CastLike", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


class Line(NamedTuple):
    """A number that is a size in the first round and moves by so many in each."""

    first: Dim
    step: int


class Counted(NamedTuple):
    """How many rounds there are, and which states are lines: at their places."""

    rounds: Dim
    lines: Mapping[int, Line]
    kept: frozenset[int]


class _Names:
    """What is known of names: those of a body, and those around it where `body` is None."""

    def __init__(self, importing: Importing, body: Model | None) -> None:
        self.ctx: Context = importing.ctx
        self.importing = importing
        self.body = body
        nodes = body.nodes if body else ()
        self.makers = {o: n for n in nodes for o in n.outputs if o}
        self.own = {name for name, _ in body.inputs} if body else set()
        self.lines: dict[str, Line] = {}  # of inputs
        self.types: dict[str, DType] = {}  # of inputs
        self.shapes: dict[str, Sequence[Dim]] = {}  # of inputs that stay as they are
        self.floats: set[Dim] = set()  # what is compared as float32

    def maker(self, name: str) -> Node | None:
        """The node that makes a value, here or around."""
        if name in self.own:
            return None
        return self.makers.get(name) or self.importing.makers.get(name)

    def source(self, name: str) -> str:
        """What a name is another one of."""
        while (made := self.maker(name)) is not None and made.op == "Identity":
            name = made.inputs[0]
        return name

    def line(self, name: str) -> Line | None:
        """What a name is in each round, if that is known."""
        if name in self.own:
            return self.lines.get(name)
        if self.body is not None and name in self.body.initialisers:
            return _line_of(self.body.array(name, name))
        made = self.makers.get(name)
        if made is None:
            return self._around(name)
        if made.op == "Constant":
            return _line_of(contents_of(made))
        if made.op == "Cast" and made.attributes.get("to") not in _COUNTING:
            return None
        if made.op == "CastLike" and self._type(made.inputs[1]) not in (I32, I64):
            return None
        if made.op in ("Gather", "Slice"):
            numbers = self._sizes(name)
            return Line(numbers[0], 0) if numbers is not None and len(numbers) == 1 else None
        if made.op in _KEEPING:
            found = self.line(made.inputs[0])
            if found is not None and made.attributes.get("to") == _SINGLE:
                self.floats.add(found.first)
            return found
        if made.op in ("Add", "Sub"):
            left, right = map(self.line, made.inputs)
            if left is None or right is None:
                return None
            if made.op == "Sub":
                return Line(left.first - right.first, left.step - right.step)
            return Line(left.first + right.first, left.step + right.step)
        return None

    def _sizes(self, name: str) -> list[Dim] | None:
        """Some extents of what stays as it is in all rounds."""
        made = self.maker(name)
        if made is None or not made.inputs:
            return None
        if made.op == "Shape" and not made.attributes:
            return self._shape(self.source(made.inputs[0]))
        if made.op == "Identity" or (made.op == "Cast" and made.attributes.get("to") in (6, 7)):
            return self._sizes(made.inputs[0])
        if made.op not in ("Gather", "Slice"):
            return None
        found, numbers = self._sizes(made.inputs[0]), self._numbers(made.inputs[1:])
        if found is None or numbers is None:
            return None
        if made.op == "Gather":
            return found[numbers[0] :][:1] if -len(found) <= numbers[0] < len(found) else None
        step = numbers[3] if len(numbers) > 3 else 1
        return found[numbers[0] : numbers[1] : step] if len(numbers) > 1 and step else None

    def _numbers(self, names: Sequence[str]) -> list[int] | None:
        """One number each, the same in all rounds."""
        lines = [self.line(name) for name in names]
        found = [line.first for line in lines if line is not None and line.step == 0]
        numbers = [n for n in found if isinstance(n, int)]
        return numbers if len(numbers) == len(names) else None

    def _shape(self, name: str) -> list[Dim] | None:
        """The shape of an input that stays as it is, or of a value around."""
        if name in self.own:
            return list(self.shapes[name]) if name in self.shapes else None
        value = None if name in self.makers else self.importing.values.get(name)
        return None if value is None else list(value.type.shape)

    def _type(self, name: str) -> DType | None:
        """The element type of an input, or of a value around."""
        value = None if name in self.own else self.importing.values.get(name)
        return self.types.get(name) if value is None else value.type.dtype

    def _around(self, name: str) -> Line | None:
        known = name in self.importing.values or name in self.importing.model.initialisers
        value = self.importing.value(name, name) if name and known else None
        if value is None or value.type.shape not in ((), (1,)):
            return None
        if value.type.dtype in (F32, F64):
            whole = self.ctx.whole(value)
            if whole is None:
                return None
            if value.type.dtype is F32:
                self.floats.update(self.ctx.dims(whole, "number"))
            value = whole
        if value.type.dtype not in (I32, I64):
            return None
        try:
            (number,) = self.ctx.dims(value, "number")
        except NeedsValueError:
            return None
        return Line(number, 0)

    def left(self, name: str) -> list[Line] | None:
        """By how much each comparison of a condition holds, of which there are several in an And.

        It holds where all of them are positive. None where it is another condition.
        """
        made = self.maker(name)
        if made is None:
            return None
        if made.op in ("And", "Identity"):
            parts = list(map(self.left, made.inputs))
            return None if None in parts else [line for part in parts if part for line in part]
        if made.op not in _ABOVE:
            return None
        low, high = map(self.line, made.inputs[:: _ABOVE[made.op].order])
        if low is None or high is None:
            return None
        return [Line(high.first - low.first + _ABOVE[made.op].equal, high.step - low.step)]


class _Compared(NamedTuple):
    order: int  # of the operands, from the lower on
    equal: int  # 1 where they may be the same


_ABOVE = {
    "Less": _Compared(1, 0),
    "LessOrEqual": _Compared(1, 1),
    "Greater": _Compared(-1, 0),
    "GreaterOrEqual": _Compared(-1, 1),
}


def _line_of(array: Array | None) -> Line | None:
    if array is None or array.size != 1 or array.dtype.kind not in "iuf":
        return None
    number = array.item()
    return Line(int(number), 0) if float(number).is_integer() else None


def count_rounds(
    importing: Importing, node: Node, body: Model, operands: Sequence[Value | None]
) -> Counted | None:
    """The rounds of a Loop whose condition counts them; None where it doesn't."""
    ctx, most = importing.ctx, operands[0]
    around, within = _Names(importing, None), _Names(importing, body)
    names = [name for name, _ in body.inputs]
    within.lines[names[0]] = Line(0, 1)
    kept = _note_states(within, around, node, body, operands[2:])
    left = within.left(body.outputs[0])
    if not left or any(line.step != -1 for line in left):
        return None
    rounds, held = reduce(smaller, [line.first + 1 for line in left]), ctx.array(operands[1])
    if operands[1] is None or (held is not None and bool(held.all())):
        rounds = greater(rounds, 1)
    else:
        # a round more than what the first one leaves, and none where there is no first one
        begins = around.left(node.inputs[1])
        if begins is None or _doubtful(begins) != _doubtful([Line(n + 1, m) for n, m in left]):
            return None
    for number in within.floats | around.floats:
        if isinstance(number, int) and number > _EXACT:
            return None
        room = least_within(_EXACT - number, ctx.symbols.rounds)
        if not isinstance(room, int):
            ctx.demand(minimum(room, 0), 0, f"it counts to more than {_EXACT}")
    if most is not None:
        (limit,) = ctx.dims(most, "number of rounds")
        if not isinstance(limit, int) or limit < _ENDLESS:
            rounds = smaller(rounds, limit)
    lines = {
        k: within.lines[name]
        for k, name in enumerate(names[2:])
        if name in within.lines and k not in kept
    }
    return Counted(greater(rounds, 0), lines, kept)


def _note_states(
    within: _Names, around: _Names, node: Node, body: Model, states: Sequence[Value | None]
) -> frozenset[int]:
    """Note the lines among a body's states; which states stay as they are, by their places."""
    names = [name for name, _ in body.inputs[2:]]
    outputs = [within.source(name) for name in body.outputs[1:]]
    pairs = zip(names, states, strict=True)
    within.types = {name: state.type.dtype for name, state in pairs if state is not None}
    kept = frozenset(k for k, name in enumerate(names) if outputs[k] == name)
    within.shapes = {names[k]: s.type.shape for k in kept if (s := states[k]) is not None}
    for k in sorted(range(len(names)), key=lambda k: k not in kept):  # others may move by the kept
        name, first = names[k], around.line(node.inputs[2 + k])
        made, state = within.maker(outputs[k]), states[k]
        if first is None or state is None:
            continue
        if k in kept:
            within.lines[name] = first
        elif state.type.dtype.is_float:
            continue  # which counts to what it can hold
        elif made is not None and made.op == "Add" and name in made.inputs:
            other = within.line(made.inputs[made.inputs[0] == name])
            if other is not None and other.step == 0 and isinstance(other.first, int):
                within.lines[name] = Line(first.first, other.first)
    return kept


def _doubtful(left: Sequence[Line]) -> set[Dim]:
    """What has to be positive for a condition to hold, and may not be."""
    return {line.first for line in left if not at_least(line.first, 1)}
