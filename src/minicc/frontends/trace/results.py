"""What a traced function returns: its arrays, and the structure that they stand in.

Results share memory as NumPy's do: an argument, or a view of one, comes back as that; views of one
array that the function made show one array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from minicc.errors import UserError
from minicc.frontends.trace.dispatch import content_of, is_foreign
from minicc.frontends.trace.functions.masks import Masked
from minicc.frontends.trace.host import box_kind, has_objects
from minicc.frontends.trace.layouts import (
    Shown,
    has_gaps,
    memory_of,
    order_of,
    spread,
    within,
)
from minicc.frontends.trace.loops.aliases import returned
from minicc.frontends.trace.loops.extents import Extent
from minicc.frontends.trace.loops.gone import Gone
from minicc.frontends.trace.loops.grown import Grown, Listed
from minicc.frontends.trace.loops.places import Place
from minicc.frontends.trace.loops.rows import row_of
from minicc.frontends.trace.mixed import is_mixed
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.objects import class_of_bare, home_of, stood_for
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.pytree import (
    PLAIN,
    VALUES,
    Held,
    Instance,
    Slot,
    mapped,
    mapped_once,
)
from minicc.frontends.trace.recorder import Recorder, native_element
from minicc.frontends.trace.result_parts import (
    Compressed,
    Element,
    Kept,
    OfEither,
    Picked,
    in_runs,
)
from minicc.frontends.trace.routes import Route
from minicc.frontends.trace.side_effects import Acts, Home, Itself, SideEffects, itself
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array, Value
from minicc.ir.types import I64

_FEW = 1 << 14  # elements of which NumPy soon takes those that a mask takes


def results(recorder: Recorder, outcome: Any) -> tuple[list[Value], list[str], Any]:
    """The arrays of a result, their names, and the structure with slots in their places.

    What the function has changed of objects from outside is a part of the result.
    """
    effects: SideEffects = recorder.effects
    changes = effects.changes(partial(_refuse_changed, recorder))
    plain = _Plain(effects)
    outcome = plain.of(outcome)
    contents = [plain.of(content) for _, content in changes]
    taking = _Taking(recorder, [outcome, contents])
    made: dict[int, Any] = {}
    structure = mapped_once(taking.take, outcome, "result", made)
    if not taking.values and recorder.path is None:
        raise UserError("MC0182", f"{recorder.name} returns no array")
    if changes and recorder.path is None:
        _refuse_changed(recorder, effects.name(changes[0][0]))
    slots = [mapped_once(taking.take, content, "changed", made) for content in contents]
    structure, *slots = in_runs((structure, *slots))
    if changes or plain.asks:
        targets = [target for target, _ in changes]
        structure = Acts(structure, [*zip(targets, slots, strict=True)], effects.homes())
    return taking.values, taking.names, structure


def _refuse_changed(recorder: Recorder, name: str) -> NoReturn:
    """UnsupportedError (MC0244) where the function changed something from outside."""
    text = f"`{name}` from outside of the function is changed"
    recorder.refuse("MC0244", text, "return what is to be kept")


class _OfData:
    """A list of which data say how long it is, which is a leaf of a result."""

    def __init__(self, grown: Grown) -> None:
        self.grown = grown


class _Plain:
    """Makes plain what is a result: what objects are at a call, and Python's numbers as keys.

    A tuple, list or dict that stands twice is one object.
    """

    def __init__(self, effects: SideEffects) -> None:
        self._effects = effects
        self._made: dict[int, Any] = {}
        self._open: set[int] = set()  # objects whose attributes are looked at
        self.asks = False  # whether a call is asked for a container or an object

    def of(self, x: Any) -> Any:
        """A part of a result."""
        if id(x) in self._made:
            return self._made[id(x)]
        if type(x) in (list, dict) and (home := self._effects.target(x)) is not None:
            new: Any = home
            self.asks = True
        elif type(x) is tuple:
            new = tuple(map(self.of, x))
        elif type(x) is Grown:
            new = _OfData(x)
        elif type(x) is dict:
            new = {_plain(k): self.of(v) for k, v in x.items()}
        elif type(x) is list:
            new = [*map(self.of, x)]
        elif (home := home_of(x)) is not None:
            new = itself(home)
            self.asks |= isinstance(home, Route)
        elif (cls := class_of_bare(x)) is not None:
            new = self._instance(x, cls)
        else:
            return x
        self._made[id(x)] = new
        return new

    def _instance(self, x: Any, cls: type) -> Any:
        """An object that the function has made; itself where it is a part of itself."""
        if id(x) in self._open:
            return x
        self._open.add(id(x))
        held = {name: self.of(value) for name, value in vars(x).items()}
        self._open.remove(id(x))
        return Instance((Held(cls), held))


def _plain(key: Any) -> Any:
    if isinstance(key, Tracer):
        return key.read("array", "a key of a dict")[()]
    if issubclass(type(key), Number):
        return key.read("a key of a dict")
    if isinstance(key, tuple) and type(key) is tuple:
        return tuple(map(_plain, key))
    return stood_for(key)


class _Taking:
    def __init__(self, recorder: Recorder, outcome: Any) -> None:
        self.recorder = recorder
        self.values: list[Value] = []
        self.names: list[str] = []
        self._roots: Counter[int] = Counter()
        self._places: dict[int, Slot] = {}
        self._taken: dict[int, Any] = {}  # by array
        self._untraced: set[int] = set()  # memory of arrays that NumPy made while it was traced
        self._seen: list[Tracer] = []
        mapped(self._look, outcome)
        returned(recorder, self._seen)

    def _look(self, leaf: Any, path: str) -> None:
        if type(leaf) is Gone:
            leaf.look()
        if type(leaf) is _OfData:
            mapped(self._look, leaf.grown.first)
        if type(leaf) is Extent:
            self.recorder.need(leaf.dim, "a result")
        if _is_compressed(leaf):
            return
        if isinstance(leaf, Tracer) and row_of(leaf) is None:
            leaf.content  # noqa: B018  # a view that is read on the host ends the segment
            self._roots[id(leaf.root)] += 1
            self._seen.append(leaf.root)
        constant = _constant(leaf)
        if constant is not None and (memory := memory_of(constant)) is not None:
            self._roots[id(memory)] += 1
            if constant is leaf:
                self._untraced.add(id(memory))

    def take(self, leaf: Any, path: str) -> Any:
        """What stands for a leaf of the result."""
        if is_mixed(leaf):
            theirs = self._number(leaf.mixed.theirs, f"{path}: whether it is NumPy's", bool)
            return OfEither(self._number(leaf, path, leaf.kind), theirs, leaf.mixed.kinds)
        row = row_of(leaf)
        if row is not None:
            if id(leaf) not in self._taken:  # a row that stands twice is one array
                kind = None if isinstance(leaf, Tracer) else leaf.kind
                self._taken[id(leaf)] = self._number(leaf, path, kind)
            return self._taken[id(leaf)]
        if _is_compressed(leaf):
            if id(leaf) not in self._taken:
                self._taken[id(leaf)] = self._compressed(leaf, path)
            return self._taken[id(leaf)]
        constant = _constant(leaf)
        if constant is not None and (memory := self._shown(constant)) is not None:
            if id(leaf) not in self._taken:
                if id(memory) not in self._places:
                    self._places[id(memory)] = self._slot(memory.ravel(order="K"), path, None)
                slot = self._places[id(memory)]
                self._taken[id(leaf)] = Slot(slot.index, within(memory, constant))
            return self._taken[id(leaf)]
        if isinstance(leaf, Tracer):
            if id(leaf) not in self._taken:
                shared = self._shared(leaf, path)
                slot = self._slot(leaf, path, box_kind(leaf)) if shared is None else shared
                self._taken[id(leaf)] = slot
            return self._taken[id(leaf)]
        if has_term(leaf) and leaf.kind is int and not leaf.fits(I64):
            return leaf.read("a result")
        if issubclass(type(leaf), Number):
            return self._slot(leaf, path, leaf.kind)
        if type(leaf) is np.ndarray or isinstance(leaf, np.generic):
            whole = isinstance(leaf, np.ndarray) and not leaf.ndim
            return self._slot(leaf, path, "array" if whole else None)
        if isinstance(leaf, (*PLAIN, Itself, Held, Home)):
            return leaf
        if isinstance(leaf, PythonType):
            return leaf.real
        if type(leaf) is _OfData:
            if id(leaf) not in self._taken:
                slots = [self._part(part, path) for part in leaf.grown.parts]
                first = mapped_once(self.take, leaf.grown.first, path)
                self._taken[id(leaf)] = Listed(first, leaf.grown.like, slots)
            return self._taken[id(leaf)]
        if _is_told(leaf):
            return leaf
        kind = type(leaf)
        text = f"{self.recorder.name} returns a {kind.__module__}.{kind.__name__} ({path})"
        hint = "return arrays, or tuples, lists and dicts of arrays"
        if self.recorder.path is not None:
            self.recorder.refuse("MC0245", text, hint)
        raise UserError("MC0182", text, hint=hint)

    def _number(self, x: Any, path: str, kind: Any) -> Any:
        """The slot of a number or an array, which may be a row of one."""
        row = row_of(x)
        if row is None:
            return self._slot(x, path, kind)
        root = row.array.root
        if id(root) not in self._places:
            self._places[id(root)] = self._slot(root, path, None)
        return Slot(self._places[id(root)].index, Element(row.number, kind))

    def _shown(self, leaf: Array) -> Array | None:
        """The memory of an array that NumPy made, where others show it, too, or it has no rows."""
        memory = memory_of(leaf)
        if memory is None or id(memory) not in self._untraced:
            return None
        if native_element(memory.dtype) is None:
            return None
        most = not leaf.flags.c_contiguous and 2 * leaf.size >= memory.size
        return memory if most or self._roots[id(memory)] > 1 else None

    def _part(self, leaf: Any, path: str) -> Any:
        if _is_compressed(leaf):
            return self._compressed(leaf, path)
        return self._slot(leaf, path, None)

    def _compressed(self, leaf: Masked, path: str) -> Compressed:
        array = self._slot(leaf.array, path, None)
        if leaf.count is not None:
            return Compressed(array, self._slot(leaf.count, f"{path}: how many", int))
        return Compressed(array, self._slot(leaf.mask, f"{path}: its mask", None))

    def _slot(self, leaf: Any, path: str, kind: Any) -> Any:
        content = content_of(self.recorder, leaf)
        alone = not isinstance(leaf, Tracer) or self._roots[id(leaf.root)] < 2
        if alone and not isinstance(content, Value) and native_element(content.dtype) is None:
            if has_objects(content):
                self.recorder.refuse("MC0245", f"an array of objects is returned ({path})")
            return Kept(content, kind)
        value = content if isinstance(content, Value) else self.recorder.lift(content)
        like = leaf.shadow() if isinstance(leaf, Tracer) else None
        if like is not None and not like.flags.c_contiguous:
            if has_gaps(like) or value.type.dtype.kind == "h":
                kind = kind if self.recorder.rounds.sizes else spread(like.strides)
            else:
                order = order_of(like)
                back = tuple(np.argsort(order).tolist())
                value = self.recorder.transpose(value, order)
                kind = Shown(False, ("laid out", order), (partial(np.transpose, axes=back),))
        if isinstance(leaf, Tracer) and not leaf.writeable:
            laid = (kind.keys, kind.moves) if isinstance(kind, Shown) else ((), ())
            kind = Shown(False, (*laid[0], "kept"), (*laid[1], _kept))
        self.values.append(value)
        self.names.append(path)
        return Slot(len(self.values) - 1, kind)

    def _shared(self, leaf: Tracer, path: str) -> Any:
        """The slot of a result that is another array's memory, or that of a captured array."""
        if leaf.scalar or self.recorder.path is None:
            return None
        root = leaf.root
        keys, moves = leaf.moves()
        if root.locked_array is not None:
            return self._view(root.locked_array, keys, moves)
        for k, box in enumerate(self.recorder.begun):
            if root is box and not box.scalar:
                self._require_still(keys)
                return self._view(Slot(k, Shown(True, (), ())), keys, moves)
        alone = self._roots[id(root)] < 2 and not self._is_most(leaf)
        if alone or (is_foreign(root) and not root.symbolic):
            return None
        self._require_still(keys)
        if id(root) not in self._places:
            self._places[id(root)] = self._slot(root, path, None)
        slot = self._places[id(root)]
        if not isinstance(slot.kind, Shown):
            slot = Slot(slot.index, Shown(False, (), ()))
        return self._view(slot, keys, moves)

    def _view(self, base: Any, keys: Sequence[Any], moves: Sequence[Any]) -> Any:
        """What stands for the view of a slot's array, or the view itself of a known array."""
        if any(key[0] == "place" for key in keys):
            pairs = zip(keys, moves, strict=True)
            return Picked(base, [self._index(k[1]) if k[0] == "place" else m for k, m in pairs])
        if not isinstance(base, Slot):
            return Picked(base, moves) if moves else itself(base)
        shown = base.kind
        laid = Shown(shown.of_argument, (*shown.keys, *keys), (*shown.moves, *moves))
        return Slot(base.index, laid)

    def _index(self, key: Sequence[Any]) -> tuple[Any, ...]:
        """An index with slots for what data give."""
        values = [p.box.value() for p in key if type(p) is Place]
        slots = iter(range(len(self.values), len(self.values) + len(values)))
        self.values += values
        self.names += [f"index[{k}]" for k in range(len(values))]
        return tuple([Slot(next(slots)) if type(p) is Place else p for p in key])

    def _is_most(self, leaf: Tracer) -> bool:
        """Whether an array whose elements lie apart is best given as a view, as NumPy gives it."""
        still = not any(key[0] == "round" for key in leaf.moves()[0])
        most = bool(self.recorder.rounds.sizes) or 2 * leaf.size >= leaf.root.size
        return still and most and _has_gaps(leaf)

    def _require_still(self, keys: Sequence[Any]) -> None:
        """Give up sizes that are symbols where a view begins or ends at one: calls make views."""
        if any(key[0] == "round" for key in keys):
            self.recorder.write_out("a view that ends at a size is returned")


def _constant(leaf: Any) -> Array | None:
    """An array whose elements are known while tracing, as NumPy has it."""
    if type(leaf) is np.ndarray:
        return leaf
    known = isinstance(leaf, Tracer) and not leaf.root.symbolic and leaf.root.locked_array is None
    content = leaf.content if known and not leaf.scalar else None
    return content if type(content) is np.ndarray else None


def _is_told(leaf: Any) -> bool:
    """Whether it is a value of Python's or NumPy's that no call can change: a type, a slice."""
    if isinstance(leaf, slice | range):
        return all(n is None or type(n) is int for n in (leaf.start, leaf.stop, leaf.step))
    of_them = isinstance(leaf, type) and leaf.__module__ in ("builtins", "numpy")
    return of_them or isinstance(leaf, VALUES) or leaf is Ellipsis


def _is_compressed(leaf: Any) -> bool:
    """Whether NumPy takes what a mask takes, which nothing has asked for, after the call.

    It does for the elements of lists that rounds fill, if these are few. Else a program with a
    symbol for their number is faster, or NumPy is where nothing but a mask is computed.
    """
    if not isinstance(leaf, Masked) or not leaf.pending or leaf.refusal is None:
        return False
    return leaf.count is not None or leaf.array.size <= _FEW


def _has_gaps(leaf: Any) -> bool:
    return isinstance(leaf, Tracer) and has_gaps(leaf.shadow())


def _kept(array: Array) -> Array:
    """The array, not to be written to."""
    array.flags.writeable = False
    return array
