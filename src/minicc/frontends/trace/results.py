"""What a traced function returns: its arrays, and the structure that they stand in.

Results share memory as NumPy's do: an argument, or a view of one, comes back as that; views of one
array that the function made show one array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minicc.errors import UserError
from minicc.frontends.trace.dispatch import content_of, is_foreign
from minicc.frontends.trace.gone import Gone
from minicc.frontends.trace.host import box_kind
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.pytree import Slot, mapped
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array, Value
from minicc.ir.types import I64, from_numpy


class Shown:
    """How a result is seen: of an argument or of what was computed, through NumPy's own views."""

    __slots__ = ("keys", "moves", "of_argument")

    def __init__(
        self, of_argument: bool, keys: tuple[Any, ...], moves: tuple[Callable[[Array], Array], ...]
    ) -> None:
        self.of_argument = of_argument
        self.keys = keys
        self.moves = moves

    def of(self, array: Array) -> Array:
        """The view of an array."""
        for move in self.moves:
            array = move(array)
        return array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shown) and (self.of_argument, str(self.keys)) == (
            other.of_argument,
            str(other.keys),
        )

    def __hash__(self) -> int:
        return hash(str(self.keys))


class Kept:
    """A constant of an element type that no graph has."""

    __slots__ = ("array", "kind")

    def __init__(self, array: Array, kind: Any) -> None:
        self.array = array.copy(order="K")
        self.kind = kind

    def of(self, leaves: Sequence[Any], args: Sequence[Any]) -> Any:
        """A copy for each call."""
        return self.array.copy(order="K") if self.array.ndim or self.kind else self.array[()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and value_key(other.array) == value_key(self.array)

    def __hash__(self) -> int:
        return hash(value_key(self.array))


def results(recorder: Recorder, outcome: Any) -> tuple[list[Value], list[str], Any]:
    """The arrays of a result, their names, and the structure with slots in their places."""
    taking = _Taking(recorder, outcome)
    structure = mapped(taking.take, outcome, "result")
    if not taking.values and recorder.path is None:
        raise UserError("MC0182", f"{recorder.name} returns no array")
    return taking.values, taking.names, structure


class _Taking:
    def __init__(self, recorder: Recorder, outcome: Any) -> None:
        self.recorder = recorder
        self.values: list[Value] = []
        self.names: list[str] = []
        self._roots: Counter[int] = Counter()
        self._places: dict[int, Slot] = {}
        self._taken: dict[int, Any] = {}  # by traced array
        mapped(self._look, outcome)

    def _look(self, leaf: Any, path: str) -> None:
        if type(leaf) is Gone:
            leaf.look()
        if isinstance(leaf, Tracer):
            leaf.content  # noqa: B018  # a view that is read on the host ends the segment
            self._roots[id(leaf.root)] += 1

    def take(self, leaf: Any, path: str) -> Any:
        """What stands for a leaf of the result."""
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
        if isinstance(leaf, (np.ndarray, np.generic)):
            whole = isinstance(leaf, np.ndarray) and not leaf.ndim
            return self._slot(leaf, path, "array" if whole else None)
        if leaf is None or isinstance(leaf, (bool, int, float, complex, str, bytes)):
            return leaf
        kind = type(leaf)
        raise UserError(
            "MC0182",
            f"{self.recorder.name} returns a {kind.__module__}.{kind.__name__} ({path})",
            hint="return arrays, or tuples, lists and dicts of arrays",
        )

    def _slot(self, leaf: Any, path: str, kind: Any) -> Any:
        content = content_of(self.recorder, leaf)
        alone = not isinstance(leaf, Tracer) or self._roots[id(leaf.root)] < 2
        if alone and not isinstance(content, Value) and from_numpy(content.dtype) is None:
            return Kept(content, kind)
        value = content if isinstance(content, Value) else self.recorder.lift(content)
        order = _order(leaf)
        if order is not None:
            back = tuple(np.argsort(order).tolist())
            foreign = value.type.dtype.kind == "h"
            move = partial(_laid, order, back) if foreign else partial(np.transpose, axes=back)
            value = value if foreign else self.recorder.transpose(value, order)
            kind = Shown(False, ("laid out", order), (move,))
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
            return Shown(True, keys, moves).of(root.locked_array)
        for k, box in enumerate(self.recorder.arguments):
            if root is box and not box.scalar:
                self._require_still(keys)
                return Slot(k, Shown(True, keys, moves))
        if self._roots[id(root)] < 2 or (is_foreign(root) and not root.symbolic):
            return None
        self._require_still(keys)
        if id(root) not in self._places:
            self._places[id(root)] = self._slot(root, path, None)
        slot = self._places[id(root)]
        laid = slot.kind.moves if isinstance(slot.kind, Shown) else ()
        return Slot(slot.index, Shown(False, keys, (*laid, *moves)))

    def _require_still(self, keys: Sequence[Any]) -> None:
        """Give up sizes that are symbols where a view begins or ends at one: calls make views."""
        if any(key[0] == "round" for key in keys):
            self.recorder.write_out("a view that ends at a size is returned")


def _order(leaf: Any) -> tuple[int, ...] | None:
    """The axes of an array from the widest stride to the least; None where they are in order."""
    if not isinstance(leaf, Tracer) or leaf.ndim < 2 or leaf.shadow().flags.c_contiguous:
        return None
    strides = leaf.shadow().strides
    order = tuple(sorted(range(leaf.ndim), key=lambda k: (-strides[k], k)))
    dense = leaf.shadow().transpose(order).flags.c_contiguous
    return order if dense else None


def _kept(array: Array) -> Array:
    """The array, not to be written to."""
    array.flags.writeable = False
    return array


def _laid(order: tuple[int, ...], back: tuple[int, ...], array: Array) -> Array:
    """The array whose axes lie in that order."""
    return np.ascontiguousarray(array.transpose(order)).transpose(back)
