"""Python's state at a break, as far as it can be told: where the function stands, and its locals.

Two breaks in equal states with equal outcomes are followed by the same: a `while` loop becomes a
loop of nodes, and branches that meet again share what follows. A state can be told only where one
function of the user's stands, at a jump or an operator (a call may be of C code that hides how far
it is, as `max` does), nothing else is on its stack (as the iterator of a `for` loop is), all that
it holds is plain, and each living array is held by a local; else paths stay apart.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from minicc.frontends.trace.loops.flow import instructions
from minicc.frontends.trace.loops.places import Place
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.recorder import OWN, Recorder, is_own
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Value

_PLAIN = (bool, int, float, complex, str, bytes, type(None), range, slice, np.dtype, type(...))
_FIXED = (type, types.ModuleType, types.BuiltinFunctionType, np.ufunc)


_SMALL = 4096  # bytes up to which constants are compared by content


class _Same:
    """A large constant, compared by identity; it is held, so that its identity stays its own."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.array is self.array

    def __hash__(self) -> int:
        return id(self.array)


class _Hidden(Exception):
    """Something that can't be told."""


class State:
    """`key` is equal for equal states; `values` are those of the arrays, in the key's order."""

    __slots__ = ("key", "values")

    def __init__(self, key: Any, values: list[Value]) -> None:
        self.key = key
        self.values = values

    @staticmethod
    def capture(recorder: Recorder, needed: Sequence[Tracer]) -> State | None:
        """The state of now; `needed` are boxes that the break itself looks at."""
        frame = _only_frame(recorder)
        if frame is None or recorder.effects.any():
            return None
        teller = _Teller()
        try:
            told = [(n, teller.tell(v)) for n, v in frame.f_locals.items()]
            told.append(("begun", tuple(map(teller.tell, recorder.begun))))
            told.append(("needed", tuple(map(teller.tell, needed))))
        except _Hidden:
            return None
        # only now, for reading a frame's locals lets go of those that it had before
        for box in recorder.live():
            if box.held() is not None and id(box) not in teller.boxes:
                return None
        key = (frame.f_code, frame.f_lasti, tuple(told))
        return State(key, list(teller.values))


def _only_frame(recorder: Recorder) -> types.FrameType | None:
    """The user's frame, where no other and no library stands between it and the tracer."""
    frame = recorder.frame()
    if frame is None or not _is_open(frame.f_code, frame.f_lasti):
        return None
    outer = frame.f_back
    if outer is None or not is_own(outer):
        return None
    inner: types.FrameType | None = sys._getframe(1)
    while inner is not None and inner is not frame:
        if not is_own(inner):
            return None
        inner = inner.f_back
    while outer is not None:
        if id(outer.f_globals) in recorder.user_globals:
            return None
        outer = outer.f_back
    return frame


# Instructions that ask an array themselves (what calls may go on asking), and their operands.
_ASKING = {
    "POP_JUMP": 1, "JUMP_IF": 1, "UNARY_": 1, "TO_BOOL": 1, "BINARY_": 2, "COMPARE_OP": 2,
    "STORE_SUBSCR": 3,
}  # fmt: skip
_ENDS = ("RETURN_", "RAISE", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE")


@functools.lru_cache(256)
def _depths(code: types.CodeType) -> dict[int, int]:
    """How many values lie on the stack before each instruction; handlers are left out."""
    steps = instructions(code)
    place = {s.offset: k for k, s in enumerate(steps)}
    depths: dict[int, int] = {}
    waiting = [(0, 0)]
    while waiting:
        k, depth = waiting.pop()
        if k >= len(steps) or steps[k].offset in depths:
            continue
        step = steps[k]
        depths[step.offset] = depth
        arg = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            effect = dis.stack_effect(step.opcode, arg, jump=True)
            waiting.append((place[step.argval], depth + effect))
        if not step.opname.startswith(_ENDS):
            effect = dis.stack_effect(step.opcode, arg, jump=False)
            waiting.append((k + 1, depth + effect))
    return depths


@functools.lru_cache(1024)
def _is_open(code: types.CodeType, at: int) -> bool:
    """Whether the frame's stack holds nothing but what the instruction at that place takes.

    So no iterator of a `for` loop and no part of an expression is hidden there.
    """
    name = dis.opname[code.co_code[at]]
    taken = next((n for start, n in _ASKING.items() if name.startswith(start)), None)
    try:
        return taken is not None and _depths(code).get(at) == taken
    except (KeyError, ValueError):  # an instruction that this version of Python spells otherwise
        return False


class _Teller:
    """Makes keys of values; arrays are numbered as they are met."""

    def __init__(self) -> None:
        self.boxes: dict[int, int] = {}
        self.values: dict[Value, int] = {}
        self._containers: dict[int, int] = {}

    def tell(self, x: Any) -> Any:
        """The key of a value; `_Hidden` where it may change unseen."""
        kind = type(x)
        if issubclass(kind, Tracer):
            return self._box(x)
        if has_term(x):
            return "term", x.term.place
        if kind is Number:
            return "number", x.kind, value_key(x.known), self._box(x.box)
        if kind in _PLAIN:
            return value_key(x)
        if isinstance(x, (tuple, list)) and kind in (tuple, list):
            return (kind, self._container(x), *map(self.tell, x))
        if kind is dict:
            return (dict, self._container(x), *[(self._key(k), self.tell(v)) for k, v in x.items()])
        if isinstance(x, types.FunctionType):
            cells = tuple(self._cell(c) for c in x.__closure__ or ())
            return "function", x.__code__, cells, self.tell(x.__defaults__ or ())
        if isinstance(x, _FIXED):
            return "fixed", x
        if kind.__dict__.get("stands_in"):
            return "outside", id(x)
        if kind.__module__.startswith(OWN):
            return "own", kind, repr(x)
        raise _Hidden

    def _key(self, key: Any) -> Any:
        """The key of a dict's key, which may be traced."""
        traced = issubclass(type(key), Tracer) or type(key) in (Number, tuple)
        return self.tell(key) if traced else value_key(key)

    def _cell(self, cell: types.CellType) -> Any:
        try:
            content = cell.cell_contents
        except ValueError:
            return None
        # a function may hold itself
        return content.__code__ if isinstance(content, types.FunctionType) else self.tell(content)

    def _container(self, x: Any) -> int:
        return self._containers.setdefault(id(x), len(self._containers))

    def _box(self, box: Tracer) -> Any:
        if box.pending:
            raise _Hidden
        number = self.boxes.get(id(box))
        if number is not None:
            return "again", number
        self.boxes[id(box)] = len(self.boxes)
        seen = value_key(box.known)
        view = box.looks_at()
        if view is not None:
            held = box.held()
            kept = None if held is None else self.values.setdefault(held, len(self.values))
            key = view[1].key
            if key[0] == "place":
                key = [self._box(p.box) if type(p) is Place else value_key(p) for p in key[1]]
            key = value_key(key)
            return "view", self._box(view[0]), key, seen, kept, held and box.stale
        content = box.content
        if isinstance(content, Value):
            k = self.values.setdefault(content, len(self.values))
            return "value", k, str(content.type), seen
        return "constant", value_key(content) if content.nbytes <= _SMALL else _Same(content)
