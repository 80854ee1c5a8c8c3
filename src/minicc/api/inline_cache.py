"""The programs of calls, found at a glance for others whose arguments are of the same types."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minicc.api.direct_calls import DirectCall, direct_call
from minicc.api.specialised import Call, Specialisation
from minicc.frontends.trace.objects import is_generator, is_stood_in
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.pytree import NUMBERS, Key, likeness_of
from minicc.frontends.trace.recorder import native_element
from minicc.ir.arrays import DENSE, Array

# leaves of which a call is served by an inline cache that has the same one
_SAME = (type(None), str, types.FunctionType, types.BuiltinFunctionType, type, np.ufunc)
# for leaves that need only be of the same class, or have the same code; for NumPy's scalars, and
# for arrays that lie otherwise than row by row
_INSTANCE, _CODE, _SCALAR, _LAID = object(), object(), object(), object()

_CACHES = 4  # of a function
_WORTH = 4  # calls that each has served, from which on more of them are made


class InlineCaches:
    """The inline caches of a function, for calls of several kinds that come in turns.

    They are polymorphic, as those of Hölzle, Chambers and Ungar ("Optimizing Dynamically-Typed
    Object-Oriented Languages with Polymorphic Inline Caches", 1991).
    """

    __slots__ = ("_made", "_recent", "_stopped", "direct", "known", "served")

    def __init__(self) -> None:
        self.known: tuple[InlineCache, ...] = ()
        self.direct = 0  # calls that machine code has served
        self.served = 0  # others
        self._recent: deque[Key] = deque(maxlen=_CACHES)  # of calls that were looked up
        self._made = 0
        self._stopped = False

    def serve(self, values: Sequence[Any]) -> tuple[InlineCache, list[Any], list[Any]] | None:
        """The one for a call, its arrays, and what the program takes besides; None if none is."""
        for cache in self.known:
            served = cache.serve(values)
            if served is not None:
                self.served += 1
                return cache, *served
        return None

    def expect(self, found: Specialisation, call: Call) -> None:
        """Be ready for calls that are like this one, if it is like one of the last ones.

        Where most calls are of yet other kinds, making caches would take longer than it saves.
        """
        often = self._made < 2 * _CACHES or self.direct + self.served > _WORTH * self._made
        if call.key in self._recent and often and not self._stopped:
            made = InlineCache.of(found, call)
            if made is not None:
                others = [c for c in self.known if not c.is_for(call)]
                self.known = (made, *others[: _CACHES - 1])
                self._made += 1
        self._recent.append(call.key)

    def clear(self) -> None:
        """Have none, for what they lead to may not serve such calls any more."""
        self.known = ()

    def stop(self) -> None:
        """Have none from now on."""
        self.known, self._stopped = (), True


class InlineCache:
    """The program of a call, found at a glance for others whose arguments are of the same types.

    As the inline caches that interpreters have at each call site (Deutsch and Schiffman, "Efficient
    Implementation of the Smalltalk-80 System", 1984). It is for plain arguments: arrays, numbers
    and NumPy's scalars, None, texts, functions, objects of the user's and generators, and tuples,
    lists and dicts of these; what it does not serve is looked up by its key.
    """

    __slots__ = (
        "_fixed",
        "_key",
        "_nested",
        "_same",
        "_told",
        "_wanted",
        "direct",
        "found",
        "run",
        "seen",
    )

    def __init__(
        self, found: Specialisation, call: Call, leaves: Sequence[Any], nested: list[Any]
    ) -> None:
        self.found = found
        self.direct: DirectCall | None = None
        self.seen = False
        self.run: Callable[[list[Any]], list[Any]] | None = None
        as_is = all(a.dtype.isnative and _is_dense(a) for a in call.arrays)
        if found.compilation is not None and as_is:
            shapes = [a.shape for a in (*call.arrays, *call.inputs)]
            self.run = found.compilation.executable.ready(shapes)
        self._key = call.key
        self._nested = nested
        self._wanted = [_wanted(leaf) for leaf in leaves]
        self._fixed = call.fixed(found.moving)
        self._told = call.told(self._fixed)
        self._same = _same(call.arrays)

    @staticmethod
    def of(found: Specialisation, call: Call) -> InlineCache | None:
        """One for a call, if its arguments are plain."""
        leaves: list[Any] = []
        nested: list[Any] = []
        _spread(call.values, leaves, nested)
        plain = all(map(_is_plain, leaves)) and not found.identifies
        return InlineCache(found, call, leaves, nested) if plain else None

    def is_for(self, call: Call) -> bool:
        """Whether it serves calls of the same key and constants as this one."""
        return self._key == call.key and self._told == call.told(self._fixed)

    def look(self, values: Sequence[Any], arrays: list[Any], inputs: list[Any], given: int) -> None:
        """Have machine code look at calls from now on, if it can, as this one was served.

        So many arguments are `given`: all, where some are by name.
        """
        self.seen = True
        if given and not self.found.plain:
            call = Call((), arrays, [v for v in values if type(v) in NUMBERS], values)
            call.inputs = inputs
            self.direct = direct_call(self.found, call, given)

    def serve(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]] | None:
        """The arrays of a call, and what the program takes besides; None where it is another."""
        arrays: list[Any] = []
        numbers: list[Any] = []
        arguments = values
        if self._nested:
            leaves: list[Any] = []
            nested: list[Any] = []
            _spread(values, leaves, nested)
            if nested != self._nested:
                return None
            values = leaves
        # plain loops, for this is asked at each call
        for value, (kind, dtype, like) in zip(values, self._wanted, strict=True):
            if type(value) is not kind:
                return None
            if dtype is None:
                numbers.append(value)
            elif dtype is _INSTANCE:
                continue
            elif dtype is _CODE:
                if value is not like and likeness_of(value) != likeness_of(like):
                    return None
            elif dtype is _LAID:
                if _laid(value) != like:
                    return None
                arrays.append(value)
            elif isinstance(value, np.ndarray):
                dense = value.flags.num & DENSE == DENSE
                if not dense or value.dtype is not dtype or value.shape != like:
                    return None
                arrays.append(value)
            elif dtype is _SCALAR:
                arrays.append(np.asarray(value))
            elif value is not like and (kind is not str or value != like):
                return None
        if len(arrays) > 1 and _same(arrays) != self._same:
            return None
        if self._fixed and tuple([value_key(numbers[k]) for k in self._fixed]) != self._told:
            return None
        inputs = self.found.given.of(numbers, arguments)
        if inputs is None or not self.found.environment.holds(arguments):
            return None
        self.found.use()
        return arrays, inputs


def _same(arrays: Sequence[Any]) -> list[int]:
    """For each array the first that is the same one; nothing where all are others."""
    ids = list(map(id, arrays))
    return list(map(ids.index, ids)) if len(set(ids)) < len(ids) else []


def _spread(values: Iterable[Any], leaves: list[Any], nested: list[Any]) -> None:
    """Add the leaves of some values, and what says how they are nested."""
    for value in values:
        kind = type(value)
        if kind is tuple or kind is list:
            nested.append((len(leaves), kind, len(value)))
            _spread(value, leaves, nested)
        elif kind is dict:
            nested.append((len(leaves), kind, *value, *map(type, value)))
            _spread(value.values(), leaves, nested)
        else:
            leaves.append(value)


def _laid(array: Any) -> Any:
    return array.dtype, array.shape, array.strides


def _is_dense(array: Array) -> bool:
    return bool(array.flags.num & DENSE == DENSE)


def _is_plain(leaf: Any) -> bool:
    if type(leaf) is np.ndarray:
        return True
    if isinstance(leaf, np.generic):
        return native_element(leaf.dtype) is not None
    return type(leaf) in (*NUMBERS, *_SAME) or is_stood_in(leaf) or is_generator(leaf)


def _wanted(leaf: Any) -> tuple[type, Any, Any]:
    """What is asked of a leaf: its type; of an array its element type and shape, and its strides.

    Other leaves than numbers and objects have to be the same one, which stands after `_SAME`.
    """
    if type(leaf) is np.ndarray and not _is_dense(leaf):
        return np.ndarray, _LAID, _laid(leaf)
    if type(leaf) is np.ndarray:
        return np.ndarray, leaf.dtype, leaf.shape
    if isinstance(leaf, np.generic):
        return type(leaf), _SCALAR, None
    if is_stood_in(leaf) or is_generator(leaf):
        return type(leaf), _INSTANCE, None
    if type(leaf) is types.FunctionType:
        return type(leaf), _CODE, leaf
    return (type(leaf), None, None) if type(leaf) in NUMBERS else (type(leaf), _SAME, leaf)
