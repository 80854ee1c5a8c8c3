"""The function of each image that looks at a call's arguments, and what its plan must say.

A plan are words of its own, then a row for each argument and each name, and pairs for the outputs
that are made: what makes one, and where its address goes (see `direct`).
"""

from __future__ import annotations

from minicc.runtime.entry import DATA, ITEMS

DIRECT = "minicc_direct"

# words of a plan of its own; then come rows of arguments, rows of names, and what makes outputs
(COUNT, TABLE, NOWHERE, STATE, NONE, BUSY, ARRAY, FLOAT, INT, NAMES, NAMES_AT,
 OUTPUTS, OUTPUTS_AT, APART, ROWS) = range(15)  # fmt: skip
# words of an argument: its kind, what it must be, in one or several words, and where it goes as an
# input and as an output
ROW = 5
# words of an array: flags that must be set, its bytes, the number of axes, and the extents
MUST, BYTES, AXES, FROM = range(4)
NAME = 4  # words of a name: its kind, the dict or object, the name, what must stand there
ITEM, LENGTH, ATTRIBUTE = range(3)  # kinds of names; one for how many there are
# kinds of arguments; those of numbers that are inputs are odd
SAME, IS_ARRAY, TYPED, FLOAT_INTO, FLOAT_IS, INT_INTO, INT_IS, IS_SCALAR = range(8)
# where things lie in objects: of all their type; of arrays the number of axes, the extents, the
# element type, and flags; of a float and of NumPy's scalars the value; of a dict its size
_TYPE, _RANK, _EXTENTS, _ELEMENT, _FLAGS, VALUE, _SIZE = 8, 24, 32, 56, 64, 16, 16


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
  {_word("state", "plan", STATE, "ptr")}
  {_word("none", "plan", NONE, "ptr")}
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
  {_word("count", "plan", NAMES)}
  {_word("rows", "plan", NAMES_AT, "ptr")}
  br label %look
look:
  %k = phi i64 [0, %begin], [%next, %compare]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %ask, label %all
ask:
  %at = mul i64 %k, {NAME}
  %row = getelementptr i64, ptr %rows, i64 %at
  {_word("kind", "row", 0)}
  {_word("home", "row", 1, "ptr")}
  {_word("name", "row", 2, "ptr")}
  {_word("wanted", "row", 3, "ptr")}
  switch i64 %kind, label %item [
    i64 {LENGTH}, label %measure
    i64 {ATTRIBUTE}, label %attribute
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
  {_word("shape", "row", 2, "ptr")}
  {_part("element", "x", _ELEMENT)}
  {_part("flags", "x", _FLAGS, "i32")}
  {_part("rank", "x", _RANK, "i32")}
  {_part("extents", "x", _EXTENTS)}
  %same = icmp eq ptr %element, %wanted
  {_word("must", "shape", MUST, "i32")}
  %set = and i32 %flags, %must
  %lies = icmp eq i32 %set, %must
  %both = and i1 %same, %lies
  {_word("axes", "shape", AXES)}
  %wanted.extents = getelementptr i64, ptr %shape, i64 {FROM}
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
  {_word("known", "wanted.extents", "%k")}
  %equal = icmp eq i64 %extent, %known
  br i1 %equal, label %look, label %other
other:
  ret i1 false
all:
  {_part("data", "x", DATA)}
  {_word("input", "row", 3, "ptr")}
  {_word("output", "row", 4, "ptr")}
  store ptr %data, ptr %input
  store ptr %data, ptr %output
  ret i1 true
}}

; whether two arrays share memory
define internal i1 @minicc_overlap(ptr %row, ptr %x, ptr %row.y, ptr %y) nounwind {{
  {_word("shape", "row", 2, "ptr")}
  {_word("shape.y", "row.y", 2, "ptr")}
  {_word("bytes", "shape", BYTES)}
  {_word("bytes.y", "shape.y", BYTES)}
  {_part("begin", "x", DATA, "i64")}
  {_part("begin.y", "y", DATA, "i64")}
  %end = add i64 %begin, %bytes
  %end.y = add i64 %begin.y, %bytes.y
  %before = icmp ult i64 %begin, %end.y
  %after = icmp ult i64 %begin.y, %end
  %both = and i1 %before, %after
  ret i1 %both
}}

define internal i1 @minicc_fits(ptr %plan, ptr %row, ptr %x) nounwind {{
entry:
  %over = alloca i32
  {_word("kind", "row", 0)}
  {_word("wanted", "row", 1)}
  {_part("type", "x", _TYPE)}
  switch i64 %kind, label %same [
    i64 {IS_ARRAY}, label %array
    i64 {IS_SCALAR}, label %typed
    i64 {TYPED}, label %typed
    i64 {FLOAT_INTO}, label %float
    i64 {FLOAT_IS}, label %float
    i64 {INT_INTO}, label %int
    i64 {INT_IS}, label %int
  ]
same:
  %address = ptrtoint ptr %x to i64
  %it = icmp eq i64 %address, %wanted
  ret i1 %it
typed:
  %type.address = ptrtoint ptr %type to i64
  %typed.it = icmp eq i64 %type.address, %wanted
  %scalar = icmp eq i64 %kind, {IS_SCALAR}
  %scalar.it = and i1 %scalar, %typed.it
  br i1 %scalar.it, label %its.scalar, label %typed.all
its.scalar:
  %data = getelementptr i8, ptr %x, i64 {VALUE}
  {_word("input", "row", 3, "ptr")}
  store ptr %data, ptr %input
  ret i1 true
typed.all:
  ret i1 %typed.it
array:
  {_word("ndarray", "plan", ARRAY, "ptr")}
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %its.array, label %other
its.array:
  %array.fits = call i1 @minicc_array_fits(ptr %row, ptr %x)
  ret i1 %array.fits
float:
  {_word("a.float", "plan", FLOAT, "ptr")}
  %is.float = icmp eq ptr %type, %a.float
  br i1 %is.float, label %its.float, label %other
its.float:
  {_part("bits", "x", VALUE, "i64")}
  br label %number
int:
  {_word("an.int", "plan", INT, "ptr")}
  %is.int = icmp eq ptr %type, %an.int
  br i1 %is.int, label %its.int, label %other
its.int:
  %whole = call i64 @PyLong_AsLongLongAndOverflow(ptr %x, ptr %over)
  %beyond = load i32, ptr %over
  %small = icmp eq i32 %beyond, 0
  %bounded = icmp eq i64 %kind, {INT_INTO}
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

; whether all arguments fit, no array is given twice, and arrays lie apart where they must
define internal i1 @minicc_arguments_fit(ptr %plan, ptr %given, i64 %count) nounwind {{
entry:
  {_word("must", "plan", APART)}
  %must.lie = icmp ne i64 %must, 0
  %rows = getelementptr i64, ptr %plan, i64 {ROWS}
  br label %look
look:
  %k = phi i64 [0, %entry], [%next, %apart]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %compare, label %all
compare:
  %words = mul i64 %k, {ROW}
  %row = getelementptr i64, ptr %rows, i64 %words
  {_word("x", "given", "%k", "ptr")}
  %fits = call i1 @minicc_fits(ptr %plan, ptr %row, ptr %x)
  %next = add i64 %k, 1
  {_word("kind", "row", 0)}
  %array = icmp eq i64 %kind, {IS_ARRAY}
  br i1 %fits, label %begin, label %other
begin:
  br i1 %array, label %earlier, label %apart
earlier:
  %j = phi i64 [0, %begin], [%j.next, %another]
  %before = icmp slt i64 %j, %k
  br i1 %before, label %against, label %apart
against:
  {_word("y", "given", "%j", "ptr")}
  %twice = icmp eq ptr %x, %y
  br i1 %twice, label %other, label %lies
lies:
  %words.y = mul i64 %j, {ROW}
  %row.y = getelementptr i64, ptr %rows, i64 %words.y
  {_word("kind.y", "row.y", 0)}
  %array.y = icmp eq i64 %kind.y, {IS_ARRAY}
  %ask = and i1 %array.y, %must.lie
  br i1 %ask, label %where, label %another
where:
  %overlap = call i1 @minicc_overlap(ptr %row, ptr %x, ptr %row.y, ptr %y)
  br i1 %overlap, label %other, label %another
another:
  %j.next = add i64 %j, 1
  br label %earlier
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

; a list of outputs that are made; null where there is no memory
define internal ptr @minicc_outputs(ptr %plan) nounwind {{
entry:
  {_word("count", "plan", OUTPUTS)}
  {_word("makers", "plan", OUTPUTS_AT, "ptr")}
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
  %pair = shl i64 %k, 1
  {_word("maker", "makers", "%pair", "ptr")}
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

define internal void @minicc_place(ptr %plan, ptr %list) nounwind {{
entry:
  {_word("count", "plan", OUTPUTS)}
  {_word("makers", "plan", OUTPUTS_AT, "ptr")}
  {_part("items", "list", ITEMS)}
  br label %look
look:
  %k = phi i64 [0, %entry], [%next, %take]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %take, label %all
take:
  {_word("x", "items", "%k", "ptr")}
  {_part("data", "x", DATA)}
  %pair = shl i64 %k, 1
  %place = or i64 %pair, 1
  {_word("slot", "makers", "%place", "ptr")}
  store ptr %data, ptr %slot
  %next = add i64 %k, 1
  br label %look
all:
  ret void
}}

define ptr @{DIRECT}(ptr %self, ptr %given, i64 %count) nounwind {{
entry:
  {_part("plan", "self", DATA)}
  {_word("wanted", "plan", COUNT)}
  {_word("busy", "plan", BUSY)}
  {_word("table", "plan", TABLE, "ptr")}
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
  call void @minicc_place(ptr %plan, ptr %list)
  store i64 1, ptr %busy.at
  call void @minicc_ran(ptr %table)
  store i64 0, ptr %busy.at
  ret ptr %list
drop:
  call void @Py_DecRef(ptr %list)
  br label %miss
miss:
  {_word("none", "plan", NONE, "ptr")}
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}}
"""
