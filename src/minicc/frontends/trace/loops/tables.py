"""Lists and tuples of numbers of which rounds take elements that the round, or data, say.

    for k in range(n):
        dx, dy = moves[path[k]]
        total += weights[k] * dx

Python needs the number itself to take an element. So while a round is recorded, the name of such a
list is bound to a list of the same elements that takes the others of arrays, one for each number of
an element. That is done where a loop takes elements and the length of the list alone, and nothing
else that it reaches leads to the list: what changes it would not change the arrays.

    for w in weights:
        for c in range(w, n):
            ways[c] += ways[c - w]

Where rounds set elements of a list of numbers by a key, an array goes from round to round in its
place, and the list gets its elements after the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.loops.filled import (
    Like,
    Whole,
    common,
    element,
    flat_list,
    is_flat,
    versions_of,
)
from minicc.frontends.trace.loops.gone import StandIn
from minicc.frontends.trace.loops.grown import element_of, like_in_data
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.mixed import THEIRS, is_mixed
from minicc.frontends.trace.numbers import STEP, Number, has_term
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array

_MOST = 1 << 20  # elements of a list
_MOST_SET = 1 << 14  # of one that rounds set, of which Python has each after the loop


class Table(NamedTuple):
    """What stands for a list or tuple in rounds: arrays of the numbers that its elements have.

    A list that rounds set has one, a `box`, which held its elements at first at `version`.
    """

    recorder: Recorder
    whole: Any
    like: Like
    columns: Sequence[Any]  # arrays, or traced ones
    box: Tracer | None = None
    version: int = 0

    def takes(self, key: Any) -> bool:
        """Whether arrays have the element that a key says, which Python's own have else."""
        if _is_traced(key):
            return True
        if self.box is not None and type(key) is not int:
            self.recorder.write_out("a list of numbers that a round sets is looked at")
        return self.box is not None

    def element(self, key: Any) -> Any:
        """The element that a key says."""
        arrays = [
            Tracer(self.recorder, c) if isinstance(c, np.ndarray) else c for c in self.columns
        ]
        return _taken(self.like, arrays, key)

    def give_back(self) -> None:
        """Have the list hold what rounds have set."""
        if self.box is None or self.box.version == self.version:
            return
        array = Tracer(self.recorder, self.box.content)
        elements = [element(self.like, array, k) for k in range(len(self.whole))]
        self.whole[:] = elements
        made = Whole(self.whole, elements, versions_of(elements, array), array, self.like)
        self.recorder.lists[id(self.whole)] = made


class TableTuple(tuple[Any, ...]):
    """A tuple of numbers, or of tuples of these, in a round."""

    table: Table

    def __getitem__(self, key: Any) -> Any:
        return self.table.element(key) if self.table.takes(key) else super().__getitem__(key)


class TableList(list[Any]):
    """A list of such in a round."""

    table: Table

    def __getitem__(self, key: Any) -> Any:
        return self.table.element(key) if self.table.takes(key) else super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        box: Any = self.table.box
        if box is None or not (_is_traced(key) or type(key) is int):
            self._change()
        try:
            box[key] = self._row(value)
        except IndexError:
            raise IndexError("list assignment index out of range") from None

    def _row(self, value: Any) -> Any:
        """A number as the array holds it."""
        kind, like = self.table.like[:2]
        if kind is Tracer and isinstance(value, (Tracer, np.generic)):
            same = value.dtype == self.table.columns[0].dtype
            if same and (isinstance(value, np.generic) or value.scalar):
                return value
        elif kind is Number and not is_mixed(value):
            if has_term(value):
                value = value.read("an element of a list")
            if type(value) is like and (like is not int or abs(value) < STEP):
                return THEIRS[like](value)
            if type(value) in (Number, Index) and value.kind is like:
                return value.box if type(value) is Index else value.counted().box
        self.table.recorder.write_out(f"a round sets a {type(value).__name__} in a list of others")

    def _change(self, *args: Any) -> Any:
        self.table.recorder.write_out("a round changes a list of numbers")


_CHANGES = "__delitem__ __iadd__ __imul__ append extend insert pop remove clear sort reverse"
for _name in _CHANGES.split():
    setattr(TableList, _name, TableList._change)


class Row(StandIn):
    """A list that is an element of a list of lists, of which numbers alone can be taken."""

    def __init__(self, array: Tracer, like: Like) -> None:
        """`like` is what each number is."""
        self.array = array
        self.like = like

    def __getattr__(self, name: str) -> Any:
        return self.look()

    def look(self, *args: Any) -> Any:
        """Begin the trace again, with the loop written out."""
        self.array.recorder.write_out("a list within a list is looked at")

    def length(self) -> Any:
        """How many elements there are."""
        return self.array.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if not (_is_traced(key) or type(key) is int):
            self.look()
        return _taken(self.like, [self.array], key)


def _is_traced(key: Any) -> bool:
    """Whether a key is an int that the round says, or data do."""
    if type(key) is Index:
        return True
    if type(key) is Number:
        return key.kind is int and not has_term(key) and key.known is None
    return isinstance(key, Tracer) and key.scalar and key.symbolic and key.dtype.kind in "iu"


def _taken(like: Like, arrays: Sequence[Any], key: Any) -> Any:
    """The element that rows of arrays make up."""
    try:
        rows = [array[key] for array in arrays]
    except IndexError:
        raise IndexError("list index out of range") from None
    row = rows[0]
    if len(rows) == 1 and row.ndim:
        return Row(row, like)
    if issubclass(type(row), np.generic):  # of what is known
        return like[1](row) if like[0] is Number else row
    return element_of(like, iter(rows))


def table_of(recorder: Recorder, whole: Any) -> Table | None:
    """What stands for a list or tuple in rounds; None where arrays don't hold its elements."""
    if not 0 < len(whole) <= _MOST:
        return None
    known = flat_list(recorder, whole)
    if known is not None and known.like is not None:
        one = known.array.ndim == 1
        return Table(recorder, whole, known.like, [known.array]) if one else None
    nested = [x for x in whole if type(x) is list]
    if nested and (len(nested) < len(whole) or len({*map(len, nested)}) > 1 or not nested[0]):
        return None
    like = _common([x for row in nested for x in row] if nested else whole)
    if like is None or (nested and not is_flat(like)):
        return None
    columns = [whole] if nested else _columns(like, whole)
    return Table(recorder, whole, like, [_array(recorder, column) for column in columns])


def _common(items: Sequence[Any]) -> Like | None:
    """What all elements are, if they are alike: numbers, or tuples of these."""
    return common([_like(x, True) for x in items]) or common([_like(x, False) for x in items])


def _like(item: Any, counts: bool) -> Like | None:
    """What an element is, where small ints are ones that loops may count with or not."""
    if type(item) is tuple and item:
        parts = [_like(x, counts) for x in item]
        return None if None in parts else (tuple, *parts)
    if type(item) is Number and item.mixed is None:
        return Number, item.kind, counts and item.kind is int
    if type(item) is int and abs(item) < STEP:
        return Number, int, counts
    return None if isinstance(item, (list, tuple, Tracer)) else like_in_data(item)


def _columns(like: Like, items: Iterable[Any]) -> list[list[Any]]:
    """The numbers of all elements, those at one place of them in a column."""
    if is_flat(like):
        return [[*items]]
    parts = zip(like[1:], zip(*items, strict=True), strict=True)
    return [column for part, items in parts for column in _columns(part, items)]


def _array(recorder: Recorder, column: Sequence[Any]) -> Any:
    """Numbers, or lists of such, as an array that holds them."""
    if type(column[0]) is list:
        rows = [_array(recorder, row) for row in column]
        plain = all(isinstance(row, np.ndarray) for row in rows)
        return np.stack(rows) if plain else Dispatch.call(recorder, "stack", (rows,), {})
    if not any(type(x) is Number for x in column):
        return _plain(column)
    boxes = [x.box if type(x) is Number else _plain([x])[0] for x in column]
    array: Any = Dispatch.call(recorder, "stack", (boxes,), {})
    if array.dtype != np.int64:
        return array
    small = ((array > -STEP) & (array < STEP)).all()
    return array[None][Dispatch.call(recorder, "where", (small, np.int64(0), np.int64(1)), {})]


def _plain(column: Sequence[Any]) -> Array:
    return np.array(column, THEIRS.get(type(column[0])))


class Tables:
    """The lists and tuples of a loop whose elements rounds take, or set."""

    def __init__(
        self, recorder: Recorder, site: Site, is_alone: Callable[[list[Any]], bool]
    ) -> None:
        """`is_alone` tells whether a list is reached by one name alone."""
        self._recorder = recorder
        self._site = site
        self._is_alone = is_alone
        self._scope = site.frame.f_globals
        names, code = site.names(), site.code
        self._local = {n: x for n in code.taken_by if (x := self._stand_in(names.get(n)))}
        self._local |= {n: x for n in code.set_by if (x := self._stand_in(names.get(n), True))}
        outside = code.taken_by - names.keys()
        self._outside = {n: x for n in outside if (x := self._stand_in(self._scope.get(n)))}

    def _stand_in(self, x: Any, is_set: bool = False) -> TableList | TableTuple | None:
        """What stands for a value where rounds take elements of it, or set them as well."""
        if type(x) not in (list, tuple)[: 2 - is_set]:
            return None
        lists = [x, *[y for y in x if type(y) is list]] if type(x) is list else []
        table = table_of(self._recorder, x) if all(map(self._is_alone, lists)) else None
        if table is None:
            return None
        if is_set:
            if not is_flat(table.like) or len(x) > _MOST_SET:
                return None
            (column,) = table.columns
            box = Tracer(self._recorder, getattr(column, "content", column))
            table = table._replace(columns=[box], box=box, version=box.version)
        made = (TableTuple if type(x) is tuple else TableList)(x)
        made.table = table
        return made

    def begin(self) -> dict[str, Any]:
        """Begin a round; what local names are bound to in it."""
        self._scope.update(self._outside)
        return {**self._local}

    def put_back(self) -> None:
        """Bind names to the lists and tuples themselves."""
        self._scope.update({n: x.table.whole for n, x in self._outside.items()})
        self._site.bind({n: x.table.whole for n, x in self._local.items()})

    def give_back(self) -> None:
        """Have lists hold what the rounds of the loop have set."""
        for x in self._local.values():
            x.table.give_back()


def takes_elements(site: Site) -> bool:
    """Whether rounds of a loop may take elements of lists of numbers, or set them."""
    names, code = site.names(), site.code
    return any(type(names.get(n)) in (list, tuple) for n in code.taken_by | code.set_by)
