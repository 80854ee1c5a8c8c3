"""Calls whose arguments machine code looks at: what an inline cache asks, as words of a table.

Where Python looks at the arguments of a call, that takes microseconds, and several times as many
where other code has had the processor's caches. So each image has a function that compares them
with a plan, makes the outputs, and runs `main`; it gives None where anything is otherwise, and has
done nothing then. It holds for CPython with a GIL, whose objects begin with two words.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from minicc.backends.layout import ARRAYS
from minicc.ir.arrays import DENSE, Array
from minicc.runtime.direct_code import (
    ATTRIBUTE,
    DIRECT,
    FLOAT_INTO,
    FLOAT_IS,
    INT_INTO,
    INT_IS,
    IS_ARRAY,
    IS_SCALAR,
    ITEM,
    LENGTH,
    NAME,
    NOWHERE,
    ROW,
    ROWS,
    SAME,
    TYPED,
    VALUE,
)
from minicc.runtime.entry import built_in, table_of
from minicc.runtime.image import Library

_HALF, _MASK = 1 << 63, (1 << 64) - 1
_WRITEABLE = 0x400  # of an array's flags


class Row(NamedTuple):
    """What an argument must be, and which input of the program it is, if any.

    `value` is a word that is compared, the address of `what`, if that is any; `more` is what must
    be of an array, or the least and the most of an int. `output` is the one that is written in the
    memory of an array.
    """

    kind: int
    value: int = 0
    what: object = None
    more: Array | None = None
    input: int = -1
    output: int = -1


def same(value: object) -> Row:
    """One object."""
    return Row(SAME, id(value), value)


def typed(kind: type) -> Row:
    """An object of a type, and not of one derived from it."""
    return Row(TYPED, id(kind), kind)


def dense(like: Array, place: int = -1, output: int = -1) -> Row:
    """An array of the same shape and element type that is C-contiguous and aligned.

    The array itself is not kept. Where an output is written in its memory, it must be writeable.
    """
    flags = DENSE | (_WRITEABLE if output >= 0 else 0)
    more = np.array([flags, like.nbytes, like.ndim, *like.shape], np.int64)
    return Row(IS_ARRAY, id(like.dtype), like.dtype, more, place, output)


def scalar(like: np.generic, place: int) -> Row | None:
    """A scalar of NumPy's, of the same type, whose value is an input; None where it lies elsewhere.

    It lies after the two words that objects begin with.
    """
    value = like.tobytes()
    if ctypes.string_at(id(like) + VALUE, len(value)) != value:
        return None
    return Row(IS_SCALAR, id(type(like)), type(like), input=place)


def number(value: int | float) -> Row:
    """A float or an int of 64 bits that is the same bit by bit."""
    if isinstance(value, float):
        return Row(FLOAT_IS, int(np.float64(value).view(np.uint64)))
    return Row(INT_IS, value & _MASK)


def moving(kind: type, place: int, bounds: tuple[int, int] | None = None) -> Row:
    """An input: a float, or an int of 64 bits, which lies within bounds."""
    if kind is float:
        return Row(FLOAT_INTO, input=place)
    low, high = bounds or (-_HALF, _HALF - 1)
    ends = np.array([max(low, -_HALF), min(high, _HALF - 1)], np.int64)
    return Row(INT_INTO, more=ends, input=place)


class Name(NamedTuple):
    """What a name must stand for: in a dict, or as an attribute of an object that Python has made.

    `value` is one object, or none where nothing may stand there; for a dict of which the number of
    names is asked, that number, and no name.
    """

    home: Any
    name: str
    value: Any

    def words(self) -> tuple[int, ...]:
        """The words of its row."""
        if not self.name:
            return LENGTH, id(self.home), 0, self.value
        kind = ITEM if type(self.home) is dict else ATTRIBUTE
        return kind, id(self.home), id(self.name), id(self.value[0]) if self.value else 0


class Wanted(NamedTuple):
    """What a call must be like.

    `state` is a context variable that must not be set.
    """

    rows: Sequence[Row]
    names: Sequence[Name]
    state: object


def direct(
    library: Library,
    table: Array,
    inputs: int,
    makers: Sequence[Callable[[], Array]],
    wanted: Wanted,
    kept: Sequence[object] = (),
) -> Callable[..., list[Array] | None]:
    """A function of positional arguments that gives the outputs; None where a call is another.

    It runs the `main` of the table, as `bound` does, which has so many `inputs`; nobody else may
    use that. The makers make the outputs; those that are written in arguments are not given. Then
    no two arrays may share memory. What is `kept` lives as long as the function.
    """
    rows = wanted.rows
    cells = [k for k, r in enumerate(rows) if r.kind in (FLOAT_INTO, INT_INTO)]
    given = {r.output for r in rows}
    made = [(maker, k) for k, maker in enumerate(makers) if k not in given]
    ends = [ROWS, ROW * len(rows), NAME * len(wanted.names), 2 * len(made), len(cells)]
    _, names_at, makers_at, cells_at, end = accumulate(ends)
    plan = table_of(end)
    words, first = plan.ctypes.data, table.ctypes.data + 8 * int(table[ARRAYS])
    nowhere = words + 8 * NOWHERE
    at = {k: words + 8 * (cells_at + j) for j, k in enumerate(cells)}
    plan[:ROWS] = (
        *(len(rows), table.ctypes.data, 0, id(wanted.state), id(None), 0),
        *(id(np.ndarray), id(float), id(int), len(wanted.names), words + 8 * names_at),
        *(len(made), words + 8 * makers_at, len(made) < len(makers)),
    )
    for k, row in enumerate(rows):
        more = 0 if row.more is None else row.more.ctypes.data
        goes = first + 8 * row.input if row.input >= 0 else nowhere
        written = first + 8 * (inputs + row.output) if row.output >= 0 else nowhere
        words_of = row.kind, at.get(k, row.value), more, goes, written
        plan[ROWS + ROW * k :][:ROW] = words_of
    for k, cell in at.items():
        table[int(table[ARRAYS]) + rows[k].input] = cell
    for k, name in enumerate(wanted.names):
        plan[names_at + NAME * k :][:NAME] = name.words()
    for j, (maker, k) in enumerate(made):
        plan[makers_at + 2 * j :][:2] = id(maker), first + 8 * (inputs + k)
    return built_in(library[DIRECT], plan, (library, table, makers, wanted, kept))
