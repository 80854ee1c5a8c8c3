"""The way from Python into a native program: a built-in function that takes lists of arrays.

`ctypes` takes 0.3 microseconds for a call, and 0.7 for the address of an array. So each image has a
function of CPython's own convention (`METH_FASTCALL`), which reads the addresses in the arrays of
two lists, writes them into the table, and runs `main` without the GIL, unless the run takes less
time than to release that. It holds for CPython with a GIL, whose objects begin with two words.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.backends.layout import ARRAYS, BRIEF, MAIN
from minicc.ir.arrays import Array
from minicc.runtime.image import Library

ENTRY = "minicc_entry"

DATA = 16  # of an array: where NumPy's `PyArrayObject` has the address of its elements
_SIZE, ITEMS = 16, 24  # of a list: where CPython's `PyListObject` has its length and its items
_FASTCALL = 0x80
_DEFINITION = 4  # words

# `%self` is the table as an array, which is also what the call returns.
ENTRY_IR = f"""
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)

define internal ptr @minicc_entered(ptr %list, ptr %slots) alwaysinline nounwind {{
entry:
  %size.at = getelementptr i8, ptr %list, i64 {_SIZE}
  %count = load i64, ptr %size.at
  %items.at = getelementptr i8, ptr %list, i64 {ITEMS}
  %arrays = load ptr, ptr %items.at
  br label %look
look:
  %k = phi i64 [0, %entry], [%next, %take]
  %slot = getelementptr ptr, ptr %slots, i64 %k
  %more = icmp slt i64 %k, %count
  br i1 %more, label %take, label %end
take:
  %array.at = getelementptr ptr, ptr %arrays, i64 %k
  %array = load ptr, ptr %array.at
  %data.at = getelementptr i8, ptr %array, i64 {DATA}
  %data = load ptr, ptr %data.at
  store ptr %data, ptr %slot
  %next = add i64 %k, 1
  br label %look
end:
  ret ptr %slot
}}

define internal void @minicc_ran(ptr %table) alwaysinline nounwind {{
entry:
  %main.at = getelementptr i64, ptr %table, i64 {MAIN}
  %main = load ptr, ptr %main.at
  %brief.at = getelementptr i64, ptr %table, i64 {BRIEF}
  %waits = load i64, ptr %brief.at
  %brief = icmp ne i64 %waits, 0
  br i1 %brief, label %keep, label %release
keep:
  call void %main(ptr %table)
  ret void
release:
  %state = call ptr @PyEval_SaveThread()
  call void %main(ptr %table)
  call void @PyEval_RestoreThread(ptr %state)
  ret void
}}

define ptr @{ENTRY}(ptr %self, ptr %given, i64 %count) nounwind {{
entry:
  %table.at = getelementptr i8, ptr %self, i64 {DATA}
  %table = load ptr, ptr %table.at
  %first.at = getelementptr i64, ptr %table, i64 {ARRAYS}
  %first = load i64, ptr %first.at
  %slots = getelementptr i64, ptr %table, i64 %first
  %inputs = load ptr, ptr %given
  %after = call ptr @minicc_entered(ptr %inputs, ptr %slots)
  %outputs.at = getelementptr ptr, ptr %given, i64 1
  %outputs = load ptr, ptr %outputs.at
  %end = call ptr @minicc_entered(ptr %outputs, ptr %after)
  call void @minicc_ran(ptr %table)
  call void @Py_IncRef(ptr %self)
  ret ptr %self
}}
"""


_NAME = ctypes.c_char_p(b"main")


def table_of(slots: int) -> Array:
    """A table of so many slots, empty, with room after them for a function's definition."""
    return np.zeros(slots + _DEFINITION, np.uint64)


def bound(library: Library, table: Array) -> Callable[..., object]:
    """A function of the lists of input and of output arrays of a run, in the order of `main`.

    It looks at nothing but where these lists and their elements lie. The table must say where
    `main` is, in which slot the first array's address goes, and whether the GIL is kept; it is kept
    alive by the function, and the library by who calls it.
    """
    return built_in(library[ENTRY], table)


def built_in(address: int, words: Array, kept: object = None) -> Callable[..., Any]:
    """The built-in function at an address, whose `self` are the words, made by `table_of`.

    What is `kept` lives as long as the function, which holds it in the place of its module.
    """
    # CPython reads a function's definition (`PyMethodDef`) until the function is gone, and counts
    # on `self` to keep it: name, address, flags, documentation
    definition = words[-_DEFINITION:]
    name = ctypes.cast(_NAME, ctypes.c_void_p).value or 0
    definition[:] = name, address, _FASTCALL, 0
    made: Callable[..., Any] = _new(definition.ctypes.data, words, kept)
    return made


_new = ctypes.pythonapi.PyCFunction_NewEx
_new.restype = ctypes.py_object
_new.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
