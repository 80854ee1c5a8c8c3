"""Calls whose arguments machine code looks at: what an inline cache asks, as words of a table.

Where Python looks at the arguments of a call, that takes microseconds, and several times as many
where other code has had the processor's caches. So each image has a function that compares them
with a plan, makes the outputs, and runs `main`; it gives None where anything is otherwise, and has
done nothing then. It holds for CPython with a GIL, whose objects begin with two words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from minicc.backends.layout import ARRAYS
from minicc.ir.arrays import DENSE, Array
from minicc.runtime.entry import DATA, ITEMS, built_in, table_of
from minicc.runtime.image import Library

DIRECT = "minicc_direct"

# words of a plan of its own; then come rows of arguments, rows of names, and what makes outputs
(_COUNT, _TABLE, _FIRST_OUTPUT, _STATE, _NONE, _BUSY, _ARRAY, _FLOAT, _INT, _NAMES, _NAMES_AT,
 _OUTPUTS, _OUTPUTS_AT, _ROWS) = range(14)  # fmt: skip
_ROW = 4  # words of an argument: its kind, what it must be, and where it goes
_NAME = 4  # words of a name: its kind, the dict or object, the name, what must stand there
_ITEM, _LENGTH, _ATTRIBUTE = range(3)  # kinds of names; one for how many there are
# kinds of arguments; those of numbers that are inputs are odd
_SAME, _DENSE, _TYPED, _FLOAT_INTO, _FLOAT_IS, _INT_INTO, _INT_IS = range(7)
_HALF, _MASK = 1 << 63, (1 << 64) - 1
# where things lie in objects: of all their type; of arrays the number of axes, the extents, the
# element type, and flags; of a float its value; of a dict how much is in it
_TYPE, _RANK, _EXTENTS, _ELEMENT, _FLAGS, _VALUE, _SIZE = 8, 24, 32, 56, 64, 16, 16


def _word(name: str, base: str, place: int | str, kind: str = "i64") -> str:
    """Load a word of a table."""
    return f"%{name}.at = getelementptr i64, ptr %{base}, i64 {place}\n" + _loaded(name, kind)


def _part(name: str, base: str, offset: int, kind: str = "ptr") -> str:
    """Load what is so many bytes into an object."""
    return f"%{name}.at = getelementptr i8, ptr %{base}, i64 {offset}\n" + _loaded(name, kind)


def _loaded(name: str, kind: str) -> str:
    return f"  %{name} = load {kind}, ptr %{name}.at"


_NAMES_IR = f"""
declare ptr @PyDict_GetItem(ptr, ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)

define internal i1 @minicc_names_hold(ptr %plan) nounwind {{
entry:
  %value.at = alloca ptr
  {_word("state", "plan", _STATE, "ptr")}
  {_word("none", "plan", _NONE, "ptr")}
  %failed = call i32 @PyContextVar_Get(ptr %state, ptr %none, ptr %value.at)
  %found.state = icmp eq i32 %failed, 0
  br i1 %found.state, label %look.at, label %fails
fails:
  call void @PyErr_Clear()
  ret i1 false
look.at:
  %value = load ptr, ptr %value.at
  call void @Py_DecRef(ptr %value)
  %silent = icmp eq ptr %value, %none
  br i1 %silent, label %begin, label %other
begin:
  {_word("count", "plan", _NAMES)}
  {_word("rows", "plan", _NAMES_AT, "ptr")}
  br label %look
look:
  %k = phi i64 [0, %begin], [%next, %compare]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %ask, label %all
ask:
  %at = mul i64 %k, {_NAME}
  %row = getelementptr i64, ptr %rows, i64 %at
  {_word("kind", "row", 0)}
  {_word("home", "row", 1, "ptr")}
  {_word("name", "row", 2, "ptr")}
  {_word("wanted", "row", 3, "ptr")}
  switch i64 %kind, label %item [
    i64 {_LENGTH}, label %measure
    i64 {_ATTRIBUTE}, label %attribute
  ]
measure:
  {_part("size", "home", _SIZE)}
  br label %compare
attribute:
  %held = call ptr @PyObject_GetAttr(ptr %home, ptr %name)
  %has = icmp ne ptr %held, null
  br i1 %has, label %hold, label %fails
hold:
  call void @Py_DecRef(ptr %held)
  br label %compare
item:
  %found = call ptr @PyDict_GetItem(ptr %home, ptr %name)
  br label %compare
compare:
  %is = phi ptr [%size, %measure], [%held, %hold], [%found, %item]
  %same = icmp eq ptr %is, %wanted
  %next = add i64 %k, 1
  br i1 %same, label %look, label %other
other:
  ret i1 false
all:
  ret i1 true
}}
"""

# Whether an argument is what its row says; its address, or its number, goes where that says.
_ARGUMENT_IR = f"""
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)

define internal i1 @minicc_array_fits(ptr %row, ptr %x) nounwind {{
entry:
  {_word("wanted", "row", 1, "ptr")}
  {_part("element", "x", _ELEMENT)}
  {_part("flags", "x", _FLAGS, "i32")}
  {_part("rank", "x", _RANK, "i32")}
  {_part("extents", "x", _EXTENTS)}
  %same = icmp eq ptr %element, %wanted
  %dense = and i32 %flags, {DENSE}
  %lies = icmp eq i32 %dense, {DENSE}
  %both = and i1 %same, %lies
  {_word("shape", "row", 2, "ptr")}
  {_word("axes", "shape", 0)}
  %rank.64 = sext i32 %rank to i64
  %level = icmp eq i64 %rank.64, %axes
  %alike = and i1 %both, %level
  br i1 %alike, label %look, label %other
look:
  %k = phi i64 [0, %entry], [%next, %compare]
  %more = icmp slt i64 %k, %axes
  br i1 %more, label %compare, label %all
compare:
  %next = add i64 %k, 1
  {_word("extent", "extents", "%k")}
  {_word("known", "shape", "%next")}
  %equal = icmp eq i64 %extent, %known
  br i1 %equal, label %look, label %other
other:
  ret i1 false
all:
  {_part("data", "x", DATA)}
  {_word("slot", "row", 3, "ptr")}
  store ptr %data, ptr %slot
  ret i1 true
}}

define internal i1 @minicc_fits(ptr %plan, ptr %row, ptr %x) nounwind {{
entry:
  %over = alloca i32
  {_word("kind", "row", 0)}
  {_word("wanted", "row", 1)}
  {_part("type", "x", _TYPE)}
  switch i64 %kind, label %same [
    i64 {_DENSE}, label %array
    i64 {_TYPED}, label %typed
    i64 {_FLOAT_INTO}, label %float
    i64 {_FLOAT_IS}, label %float
    i64 {_INT_INTO}, label %int
    i64 {_INT_IS}, label %int
  ]
same:
  %address = ptrtoint ptr %x to i64
  %it = icmp eq i64 %address, %wanted
  ret i1 %it
typed:
  %type.address = ptrtoint ptr %type to i64
  %typed.it = icmp eq i64 %type.address, %wanted
  ret i1 %typed.it
array:
  {_word("ndarray", "plan", _ARRAY, "ptr")}
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %its.array, label %other
its.array:
  %array.fits = call i1 @minicc_array_fits(ptr %row, ptr %x)
  ret i1 %array.fits
float:
  {_word("a.float", "plan", _FLOAT, "ptr")}
  %is.float = icmp eq ptr %type, %a.float
  br i1 %is.float, label %its.float, label %other
its.float:
  {_part("bits", "x", _VALUE, "i64")}
  br label %number
int:
  {_word("an.int", "plan", _INT, "ptr")}
  %is.int = icmp eq ptr %type, %an.int
  br i1 %is.int, label %its.int, label %other
its.int:
  %whole = call i64 @PyLong_AsLongLongAndOverflow(ptr %x, ptr %over)
  %beyond = load i32, ptr %over
  %small = icmp eq i32 %beyond, 0
  %bounded = icmp eq i64 %kind, {_INT_INTO}
  br i1 %small, label %its.small, label %other
its.small:
  br i1 %bounded, label %bounds, label %number
bounds:
  {_word("ends", "row", 2, "ptr")}
  {_word("least", "ends", 0)}
  {_word("most", "ends", 1)}
  %enough = icmp sge i64 %whole, %least
  %little = icmp sle i64 %whole, %most
  %within = and i1 %enough, %little
  br i1 %within, label %number, label %other
number:
  %value = phi i64 [%bits, %its.float], [%whole, %its.small], [%whole, %bounds]
  %parity = and i64 %kind, 1
  %goes = icmp eq i64 %parity, 1
  br i1 %goes, label %into, label %is
into:
  %cell = inttoptr i64 %wanted to ptr
  store i64 %value, ptr %cell
  ret i1 true
is:
  %equal = icmp eq i64 %value, %wanted
  ret i1 %equal
other:
  ret i1 false
}}

; whether all arguments fit, and no array is given twice
define internal i1 @minicc_arguments_fit(ptr %plan, ptr %given, i64 %count) nounwind {{
entry:
  br label %look
look:
  %k = phi i64 [0, %entry], [%next, %apart]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %compare, label %all
compare:
  %words = mul i64 %k, {_ROW}
  %at = add i64 %words, {_ROWS}
  %row = getelementptr i64, ptr %plan, i64 %at
  {_word("x", "given", "%k", "ptr")}
  %fits = call i1 @minicc_fits(ptr %plan, ptr %row, ptr %x)
  %next = add i64 %k, 1
  {_word("kind", "row", 0)}
  %array = icmp eq i64 %kind, {_DENSE}
  br i1 %fits, label %begin, label %other
begin:
  br i1 %array, label %earlier, label %apart
earlier:
  %j = phi i64 [0, %begin], [%j.next, %against]
  %before = icmp slt i64 %j, %k
  br i1 %before, label %against, label %apart
against:
  {_word("y", "given", "%j", "ptr")}
  %twice = icmp eq ptr %x, %y
  %j.next = add i64 %j, 1
  br i1 %twice, label %other, label %earlier
apart:
  br label %look
other:
  ret i1 false
all:
  ret i1 true
}}
"""

DIRECT_IR = f"""{_NAMES_IR}{_ARGUMENT_IR}
declare ptr @PyList_New(i64)
declare ptr @PyObject_CallNoArgs(ptr)
declare void @PyErr_Clear()
declare void @Py_DecRef(ptr)

; a list of outputs; null where there is no memory
define internal ptr @minicc_outputs(ptr %plan) nounwind {{
entry:
  {_word("count", "plan", _OUTPUTS)}
  {_word("makers", "plan", _OUTPUTS_AT, "ptr")}
  %list = call ptr @PyList_New(i64 %count)
  %is.list = icmp ne ptr %list, null
  br i1 %is.list, label %begin, label %none
begin:
  {_part("items", "list", ITEMS)}
  br label %look
look:
  %k = phi i64 [0, %begin], [%next, %take]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %make, label %all
make:
  {_word("maker", "makers", "%k", "ptr")}
  %made = call ptr @PyObject_CallNoArgs(ptr %maker)
  %is.made = icmp ne ptr %made, null
  br i1 %is.made, label %take, label %short
take:
  %item = getelementptr ptr, ptr %items, i64 %k
  store ptr %made, ptr %item
  %next = add i64 %k, 1
  br label %look
short:
  call void @Py_DecRef(ptr %list)
  br label %none
none:
  call void @PyErr_Clear()
  ret ptr null
all:
  ret ptr %list
}}

define internal void @minicc_place(ptr %plan, ptr %table, ptr %list) nounwind {{
entry:
  {_word("count", "plan", _OUTPUTS)}
  {_word("first", "plan", _FIRST_OUTPUT)}
  {_part("items", "list", ITEMS)}
  %slots = getelementptr ptr, ptr %table, i64 %first
  br label %look
look:
  %k = phi i64 [0, %entry], [%next, %take]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %take, label %all
take:
  {_word("x", "items", "%k", "ptr")}
  {_part("data", "x", DATA)}
  %slot = getelementptr ptr, ptr %slots, i64 %k
  store ptr %data, ptr %slot
  %next = add i64 %k, 1
  br label %look
all:
  ret void
}}

define ptr @{DIRECT}(ptr %self, ptr %given, i64 %count) nounwind {{
entry:
  {_part("plan", "self", DATA)}
  {_word("wanted", "plan", _COUNT)}
  {_word("busy", "plan", _BUSY)}
  {_word("table", "plan", _TABLE, "ptr")}
  %as.many = icmp eq i64 %count, %wanted
  %idle = icmp eq i64 %busy, 0
  %ready = and i1 %as.many, %idle
  br i1 %ready, label %names, label %miss
names:
  %hold = call i1 @minicc_names_hold(ptr %plan)
  br i1 %hold, label %make, label %miss
make:
  ; this may run code of Python, which may come here as well: nothing was written before
  %list = call ptr @minicc_outputs(ptr %plan)
  %is.list = icmp ne ptr %list, null
  br i1 %is.list, label %look, label %miss
look:
  ; or another thread has; from here on the GIL is kept till all is in the table
  %busy.now = load i64, ptr %busy.at
  %idle.still = icmp eq i64 %busy.now, 0
  br i1 %idle.still, label %ask, label %drop
ask:
  %fit = call i1 @minicc_arguments_fit(ptr %plan, ptr %given, i64 %count)
  br i1 %fit, label %run, label %drop
run:
  call void @minicc_place(ptr %plan, ptr %table, ptr %list)
  store i64 1, ptr %busy.at
  call void @minicc_ran(ptr %table)
  store i64 0, ptr %busy.at
  ret ptr %list
drop:
  call void @Py_DecRef(ptr %list)
  br label %miss
miss:
  {_word("none", "plan", _NONE, "ptr")}
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}}
"""


class Row(NamedTuple):
    """What an argument must be, and which input of the program it is, if any.

    `value` is a word that is compared, the address of `what`, if that is any; `shape` are the
    number of axes of an array and its extents, or the least and the most of an int.
    """

    kind: int
    value: int = 0
    what: object = None
    shape: Array | None = None
    input: int = -1


def same(value: object) -> Row:
    """One object."""
    return Row(_SAME, id(value), value)


def typed(kind: type) -> Row:
    """An object of a type, and not of one derived from it."""
    return Row(_TYPED, id(kind), kind)


def dense(like: Array, place: int) -> Row:
    """An input: an array of the same shape and element type that is C-contiguous and aligned.

    The array itself is not kept.
    """
    element = like.dtype
    return Row(_DENSE, id(element), element, np.array([like.ndim, *like.shape], np.int64), place)


def number(value: int | float) -> Row:
    """A float or an int of 64 bits that is the same bit by bit."""
    if isinstance(value, float):
        return Row(_FLOAT_IS, int(np.float64(value).view(np.uint64)))
    return Row(_INT_IS, value & _MASK)


def moving(kind: type, place: int, bounds: tuple[int, int] | None = None) -> Row:
    """An input: a float, or an int of 64 bits, which lies within bounds."""
    if kind is float:
        return Row(_FLOAT_INTO, input=place)
    low, high = bounds or (-_HALF, _HALF - 1)
    ends = np.array([max(low, -_HALF), min(high, _HALF - 1)], np.int64)
    return Row(_INT_INTO, shape=ends, input=place)


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
            return _LENGTH, id(self.home), 0, self.value
        kind = _ITEM if type(self.home) is dict else _ATTRIBUTE
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
    makers: Sequence[Callable[[], Array]],
    wanted: Wanted,
    kept: Sequence[object] = (),
) -> Callable[..., list[Array] | None]:
    """A function of positional arguments that gives the outputs; None where a call is another.

    It runs the `main` of the table, as `bound` does, and nobody else may use that; the makers make
    the outputs. What is `kept` lives as long as the function.
    """
    rows = wanted.rows
    cells = [k for k, r in enumerate(rows) if r.kind in (_FLOAT_INTO, _INT_INTO)]
    ends = [_ROWS, _ROW * len(rows), _NAME * len(wanted.names), len(makers), len(cells)]
    _, names_at, makers_at, cells_at, end = accumulate(ends)
    plan = table_of(end)
    first, words = int(table[ARRAYS]), plan.ctypes.data
    at = {k: words + 8 * (cells_at + j) for j, k in enumerate(cells)}
    inputs = sum(r.input >= 0 for r in rows)
    plan[:_ROWS] = (
        *(len(rows), table.ctypes.data, first + inputs, id(wanted.state), id(None), 0),
        *(id(np.ndarray), id(float), id(int)),
        *(len(wanted.names), words + 8 * names_at, len(makers), words + 8 * makers_at),
    )
    for k, row in enumerate(rows):
        shape = 0 if row.shape is None else row.shape.ctypes.data
        slot = table.ctypes.data + 8 * (first + row.input)
        plan[_ROWS + _ROW * k :][:_ROW] = row.kind, at.get(k, row.value), shape, slot
    for k, cell in at.items():
        table[first + rows[k].input] = cell
    for k, name in enumerate(wanted.names):
        plan[names_at + _NAME * k :][:_NAME] = name.words()
    plan[makers_at:cells_at] = [id(maker) for maker in makers]
    return built_in(library[DIRECT], plan, (library, table, makers, wanted, kept))
