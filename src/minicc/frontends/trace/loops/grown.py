"""Lists of which data say how long they are.

    out = []
    for k in range(len(x)):
        if x[k] > 0:
            out.append(k)
    return np.array(out), len(out)

The loop of the graph stacks what each round would append, and whether it does: an array under a
mask (`functions.masks`), whose elements need not be taken for their number or their mean. After the
loop the name of the list is bound to a `Grown`, which is read as a list of these elements is: by
its length, an element, a `for`, NumPy's functions, or as a result. Where anything else is asked of
it, the loop is written out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from minicc.frontends.trace.functions.masks import Masked
from minicc.frontends.trace.loops.filled import Like, is_fixed, is_flat, like_of, made
from minicc.frontends.trace.loops.gone import Measured, StandIn
from minicc.frontends.trace.loops.indices import Index, rows
from minicc.frontends.trace.numbers import STEP, Number, checked
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.pytree import leaves, rebuild
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.sizes import Unsized
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Array
from minicc.ir.types import I64

_LARGE = 1 << 63  # which int64 does not hold
_BACKWARDS = slice(None, None, -1)


class Grown(StandIn):
    """A list of which data say how long it is; what is not defined here can't be asked of it.

    `like` says what all elements are, and each of `parts` is the array of one leaf of theirs. The
    elements that come `first` are none of these: they are of other kinds, or arrays with names.
    """

    is_traced = True

    def __init__(
        self,
        like: Like,
        parts: Sequence[Tracer],
        refusal: BaseException,
        first: Sequence[Any] = (),
    ) -> None:
        """`refusal` is the error for what can't be done with such a list."""
        super().__init__(refusal)
        self.recorder: Recorder = parts[0].recorder
        self.like = like
        self.parts = tuple(parts)
        self.first = tuple(first)

    def look(self, *args: Any) -> Any:
        """End the trace, also where the function catches what is raised."""
        sized = bool(self.recorder.rounds.sizes)
        where = self.recorder.location()
        self.recorder.end(Unsized(f"{where}: {self._error}") if sized else self._error)

    def length(self) -> Any:
        """How many elements there are: a size, or else a traced int."""
        return self._rest() + len(self.first)

    def _rest(self) -> Any:
        """How many come after the first ones."""
        mask = self.mask()
        if mask is None:
            return rows(self.parts[0])
        if (count := self._count()) is not None:
            return Number(count, int, True)
        return Number(Dispatch.call(self.recorder, "sum", (mask,), {}), int, True)

    def mask(self) -> Tracer | None:
        """Which rounds append, while the elements are not taken, and there may be none."""
        part = self.parts[0]
        taken = self.recorder.rounds.sizes.counts is not None or not isinstance(part, Masked)
        return part.mask if not taken and part.pending else None

    def _count(self) -> Any:
        """How many there are, while the first rows of arrays are the elements."""
        part = self.parts[0]
        return part.count if isinstance(part, Masked) and self.mask() is not None else None

    def array(self) -> Any:
        """A new array of the elements, as NumPy makes one of a list.

        NumPy makes one of float64 along one axis of an empty list, and so runs the call where
        others may be empty.
        """
        parts: list[Any] = [
            Dispatch.call(self.recorder, "ndarray.copy", (x,), {}) for x in self.parts
        ]
        mask: Any = self.mask()
        plain = len(parts) == 1 and parts[0].ndim == 1 and parts[0].dtype == np.float64
        if self.first:
            return self._after_first(parts[0], mask)
        if mask is not None and not plain:
            some = checked(mask.any(), mask.any())
            count = None if parts[0].count is None else checked(parts[0].count, some)
            rows = self._side_by_side([x.array for x in parts])
            return Masked(rows, mask & some, None, None, parts[0].refusal, count)
        return self._side_by_side(parts)

    def _side_by_side(self, parts: Sequence[Any]) -> Any:
        """An array whose rows are the leaves of the elements."""
        whole = len(parts) > 1
        return Dispatch.call(self.recorder, "stack", (parts, 1), {}) if whole else parts[0]

    def _after_first(self, part: Any, mask: Any) -> Any:
        """The elements as an array; NumPy runs the call where others may be none and it matters."""

        def joined(*arrays: Any) -> Tracer:
            made: Tracer = Dispatch.call(self.recorder, "concatenate", (arrays,), {})
            return made

        head: Any = Dispatch.call(self.recorder, "stack", ([*self.first],), {})
        same = head.dtype == np.result_type(head.dtype, part.dtype)
        if mask is None:
            return joined(head, part) if same else self.look()
        mask = mask if same else mask & checked(mask.any(), mask.any())
        count = None if part.count is None else part.count + len(self.first)
        yes = [True] * len(self.first)
        array, mask = joined(head, part.array), joined(yes, mask)
        return Masked(array, mask, None, None, part.refusal, count)

    def settle(self) -> None:
        """Have the elements taken here, before they are asked for within a loop."""
        for part in self.parts:
            part.content  # noqa: B018  # it is recorded when it is asked for

    def is_of_floats(self) -> bool:
        """Whether all elements are floats or complex numbers, of Python's or NumPy's."""
        like = is_flat(self.like) and self.parts[0].ndim == 1 and self.parts[0].dtype.kind in "fc"
        return like and all(isinstance(x, (float, complex, np.inexact)) for x in self.first)

    def extreme(self, name: str) -> Any:
        """The greatest or least element, of integers; of floats the order of NaN would count."""
        part = self.parts[0]
        if not is_flat(self.like) or part.ndim > 1 or part.dtype.kind not in "iu" or self.first:
            self.look()
        found = Dispatch.call(self.recorder, name, (part,), {})
        return Number(found, int, True) if self.like[0] is Number else found

    def append(self, item: Any) -> None:
        """Add an element after the loop."""
        found = leaves(item)
        shared = any(isinstance(x, Tracer) and not x.scalar for x in found)
        like = _common(self.like, _like_of_new(item))
        self._require_outside()
        if shared or like is None:
            self.look()  # an array may have other names
        self.like = like or self.like
        boxes = [x.box if isinstance(x, Number) else x for x in found]
        rows = [x if isinstance(x, Tracer) else np.asarray(x) for x in boxes]
        parts = zip(self.parts, rows, strict=True)
        self.parts = tuple([self._longer(part, row) for part, row in parts])

    def _longer(self, part: Tracer, row: Any) -> Tracer:
        """A column with one more element."""

        def joined(*arrays: Any) -> Tracer:
            made: Tracer = Dispatch.call(self.recorder, "concatenate", (arrays,), {})
            return made

        if isinstance(part, Masked) and self.mask() is not None:
            longer = joined(part.array, row[None])
            return Masked(longer, joined(part.mask, [True]), refusal=part.refusal)
        return joined(part, row[None])

    def copy(self) -> Grown:
        """A new list of the same elements."""
        return self._like(self.parts)

    def extend(self, items: Any) -> None:
        """Add the elements of another list after the loop."""
        self._require_outside()
        if type(items) is Grown:
            self.parts = self._joined(items).parts
            return
        for item in items if type(items) in (list, tuple) else self.look():
            self.append(item)

    def _require_outside(self) -> None:
        """Look where a round would change the list, which does not go from round to round."""
        if self.recorder.loops:
            self.look()

    def reverse(self) -> None:
        """Turn the order around."""
        self._require_outside()
        self.parts = self._slice(_BACKWARDS).parts

    def pop(self, number: int = -1) -> Any:
        """Take the last element out, or the first."""
        self._require_outside()
        if type(number) is not int or number not in (0, -1):
            self.look()
        taken = self.element(number)
        self.parts = self._slice(slice(1, None) if number == 0 else slice(-1)).parts
        return taken

    def __reversed__(self) -> Grown:
        return self._slice(_BACKWARDS)

    def __add__(self, other: Any) -> Any:
        made = self.copy()
        made.extend(other if type(other) in (Grown, list) else self.look())
        return made

    def __radd__(self, other: Any) -> Any:
        made = self._slice(_BACKWARDS)
        made.extend(other[::-1] if type(other) is list else self.look())
        return made[::-1]

    def __iadd__(self, other: Any) -> Any:
        self.extend(other)
        return self

    def _like(self, parts: Sequence[Tracer]) -> Grown:
        """Another list, of which these are the leaves; look where Python has the same objects."""
        if self.first or not is_fixed(self.like) or any(part.ndim > 1 for part in parts):
            self.look()
        return Grown(self.like, parts, self._error)

    def _joined(self, other: Grown) -> Grown:
        """A new list with the elements of another one after those of this one."""
        lists = [self.copy(), other.copy()]
        like = _common(self.like, other.like)
        if like is None:
            self.look()
        join = partial(Dispatch.call, self.recorder, "concatenate")
        masks: list[Any] = [x.mask() for x in lists]
        columns = [*zip(*[x.parts for x in lists], strict=True)]
        if all(m is None for m in masks):
            parts = [join((pair,), {}) for pair in columns]
        else:
            known = zip(masks, columns[0], strict=True)
            whole = [np.ones(len(x), bool) if m is None else m for m, x in known]
            mask = join((whole,), {})
            arrays = [[x.array if m is not None else x for m, x in zip(masks, pair, strict=True)]
                      for pair in columns]  # fmt: skip
            parts = [Masked(join((x,), {}), mask, refusal=self._error) for x in arrays]
        made = self._like(parts)
        made.like = like or self.like
        return made

    def _slice(self, key: slice) -> Grown:
        """A new list of some of the elements."""
        known = all(n is None or type(n) is int for n in (key.start, key.stop, key.step))
        mask: Any = self.mask()
        if mask is None and known:
            return self._like([part[key].copy() for part in self._like(self.parts).parts])
        backwards = key == _BACKWARDS
        if not known or not (backwards or key.step in (None, 1)):
            self.look()
        arrays: list[Any] = [part.array for part in self._like(self.parts).parts]
        if backwards:
            mask, arrays = mask[::-1].copy(), [array[::-1].copy() for array in arrays]
        else:
            mask = self._within(mask, key)
        return self._like([Masked(x, mask, refusal=self._error) for x in arrays])

    def _within(self, mask: Any, key: slice) -> Any:
        """A mask without the elements that a slice leaves out."""
        place = Dispatch.call(self.recorder, "cumsum", (mask,), {}) - 1
        total: Any = Dispatch.call(self.recorder, "sum", (mask,), {})
        if key.start:
            mask = mask & (place >= key.start + (total if key.start < 0 else 0))
        if key.stop is not None:
            mask = mask & (place < key.stop + (total if key.stop < 0 else 0))
        return mask

    def element(self, number: Any) -> Any:
        """The element of a number, which may be that of a round."""
        if self.first:
            known = self.mask() is None and type(self._rest()) is int
            if type(number) is int and known and number < 0:
                number += self.length()
            if type(number) is int and 0 <= number < len(self.first):
                return self.first[number]
            if type(number) is not int:
                self.look()
            number -= len(self.first) * (number > 0)
        if not is_fixed(self.like) or any(part.ndim > 1 for part in self.parts):
            self.look()  # Python has one object of each, which may be changed
        if self.mask() is not None and type(number) is int and number in (0, -1):
            return self._end(number)
        if (count := self._count()) is None:
            return element_of(self.like, iter([part[number] for part in self.parts]))
        start = Dispatch.call(self.recorder, "where", (number < 0, count, np.int64(0)), {})
        place = checked(start + number, (number < count) & (number >= -count))
        arrays: Any = [part.array for part in self.parts]
        return element_of(self.like, iter([array[place] for array in arrays]))

    def _end(self, number: int) -> Any:
        """The first element, or the last, while the elements are not taken."""
        mask: Any = self.mask()
        arrays: list[Any] = [part.array for part in self.parts]
        if number < 0:
            mask, *arrays = (x[::-1] for x in (mask, *arrays))
        at = checked(Dispatch.call(self.recorder, "argmax", (mask,), {}), mask.any())
        return element_of(self.like, iter([array[at] for array in arrays]))

    def sort(self, *, key: None = None, reverse: bool = False) -> None:
        """Sort numbers; not floats downwards, for both zeros would be in another order."""
        self._require_outside()
        part: Any = self._like(self.parts).parts[0]
        kinds = "iu" if reverse else "iuf"
        if key is not None or not is_flat(self.like) or part.dtype.kind not in kinds:
            self.look()
        mask: Any = self.mask()
        array = part.array if mask is not None else part
        if part.dtype.kind == "f":  # the order of NaN would count
            plain = ~np.isnan(array)
            known = (plain if mask is None else plain | ~mask).all()
            checked(known, known)
        if mask is not None:
            last = np.inf if part.dtype.kind == "f" else np.iinfo(part.dtype).max
            array = Dispatch.call(self.recorder, "where", (mask, array, last), {})
        array = Dispatch.call(self.recorder, "sort", (array,), {"kind": "stable"})
        if mask is not None:
            extents = part.array.value().type.extents
            count = Dispatch.call(self.recorder, "sum", (mask,), {})
            numbers = Tracer(self.recorder, self.recorder.emit(graph.Iota, extents, 0, I64))
            array = Masked(array, numbers < count, refusal=self._error)
        self.parts = (array,)
        if reverse:
            self.reverse()

    def __contains__(self, item: Any) -> bool:
        part: Any = self.parts[0]
        plain = isinstance(item, Number | Index | int | float | np.generic)
        if self.first or not is_flat(self.like) or part.ndim > 1 or not plain:
            self.look()
        mask: Any = self.mask()
        found = (part if mask is None else part.array) == item
        return bool((found if mask is None else found & mask).any())

    def __getitem__(self, key: Any) -> Any:
        if type(key) is slice:
            return self._slice(key)
        return self.element(key) if isinstance(key, int) and type(key) is not bool else self.look()

    def __iter__(self) -> Iterator[Any]:
        found: Iterator[Any] = Dispatch.loop(self.recorder, sys._getframe(1), self)
        return found

    def none(self) -> Iterator[Any]:
        """An iterator that no element is known of."""
        yield self.look()

    def __bool__(self) -> bool:
        return bool(self.length() > 0)

    def __repr__(self) -> str:
        asked = id(sys._getframe(1).f_globals) in self.recorder.user_globals
        return str(self.look()) if asked else object.__repr__(self)

    def __format__(self, spec: str) -> str:
        return str(self.look())


def as_argument(x: Any) -> Any:
    """An argument of a function of NumPy's: an array for such a list, a type for what stands in."""
    if type(x) is Grown:
        return x.array()
    if type(x) in (list, tuple) and Grown in map(type, x):
        return type(x)(map(as_argument, x))
    return x.real if isinstance(x, PythonType) else x


class ListType(PythonType):
    """What stands for `list`."""

    def __call__(self, *args: Any) -> Any:
        """A new list, also of one of which data say how long it is."""
        if len(args) == 1 and type(args[0]) is Grown:
            return args[0].copy()
        return list(*args)


def ordered(items: Any, **kwargs: Any) -> Any:
    """What stands for `sorted`."""
    if type(items) is not Grown:
        return sorted(items, **kwargs)
    made = items.copy()
    made.sort(**kwargs)
    return made


def length(x: Any) -> Any:
    """What `len` gives in traced code, where a size may be a symbol."""
    return x.length() if isinstance(x, Measured) else rows(x)


def element_of(like: Like, rows: Iterator[Tracer]) -> Any:
    """The element whose leaves are the rows."""
    if is_flat(like):
        return made(like, next(rows))
    return like[0](element_of(part, rows) for part in like[1:])


def like_in_data(item: Any) -> Like | None:
    """What an element is that an array holds a row for; None where there is no such array."""
    if type(item) in (list, tuple):
        parts = [like_in_data(part) for part in item]
        return None if None in parts or not parts else (type(item), *parts)
    if type(item) in (bool, float) or (type(item) is int and abs(item) < _LARGE):
        return Number, type(item), False
    if type(item) is Index:
        return Number, int, True
    if isinstance(item, np.generic):
        return Tracer, True
    return like_of(item)


def _like_of_new(item: Any) -> Like | None:
    """What an element is that is appended after a loop: a small int counts, for one."""
    small = type(item) is int and abs(item) < STEP
    return (Number, int, True) if small else like_in_data(item)


def _common(first: Like, other: Like | None) -> Like | None:
    """What elements of two kinds are, if they are alike: ints that count are ints."""
    if other is None or first == other or first[:2] != (Number, int) or other[:2] != (Number, int):
        return first if first == other else None
    return Number, int, False


class Listed:
    """A list of the rows of arrays of results, each of which holds a leaf of the elements."""

    __slots__ = ("first", "like", "slots")

    def __init__(self, first: Any, like: Like, slots: Sequence[Any]) -> None:
        """`first` is the structure of the elements before these."""
        self.first = first
        self.like = like
        self.slots = tuple(slots)

    def of(self, leaves: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """The list."""
        rows = _listed(self.like, iter([slot.of(leaves, args) for slot in self.slots]))
        return [*rebuild(self.first, leaves, args), *rows]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listed) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash(self.like)

    def _told(self) -> Any:
        return value_key(self.first), self.like, [slot.index for slot in self.slots]


def _listed(like: Like, arrays: Iterator[Array]) -> list[Any]:
    if not is_flat(like):
        columns = [_listed(part, arrays) for part in like[1:]]
        return [like[0](parts) for parts in zip(*columns, strict=True)]
    array = next(arrays)
    if like[0] is Number:
        return list(map(like[1], array.tolist()))
    return list(array) if like[1] else [np.array(row) for row in array]
