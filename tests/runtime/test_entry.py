"""The built-in functions by which native programs are called."""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Any

import numpy as np
from tests.runtime.native import code

from minicc.backends.layout import ARRAYS, FIRST, MAIN
from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import optimise
from minicc.runtime.entry import ENTRY, bound, table_of
from minicc.runtime.image import Library, load
from minicc.target import TARGETS

_COPY = f"""
define void @copy(ptr %table) nounwind {{
  %from.at = getelementptr i64, ptr %table, i64 {FIRST}
  %to.at = getelementptr i64, ptr %table, i64 {FIRST + 1}
  %from = load ptr, ptr %from.at
  %to = load ptr, ptr %to.at
  %x = load <4 x i64>, ptr %from, align 8
  store <4 x i64> %x, ptr %to, align 8
  ret void
}}
"""


@cache
def library() -> Library:
    objects = [Object(optimise(text, TARGETS["x86-64"])) for text in (code().text, _COPY)]
    return load(link(objects, (ENTRY, "copy")))


def copying() -> tuple[Any, Any]:
    """A function that copies four numbers, and its table."""
    table = table_of(FIRST + 2)
    table[MAIN], table[ARRAYS] = library()["copy"], FIRST
    return bound(library(), table), table


def test_it_reads_where_arrays_lie() -> None:
    copy, table = copying()
    x = np.arange(12)
    for start in (0, 3, 8):
        out = np.zeros(4, int)
        assert copy([x[start:]], [out]) is table
        assert out.tolist() == [*range(start, start + 4)]


def test_its_definition_lives_as_long_as_it_does() -> None:
    copies = [copying()[0] for _ in range(10)]
    gc.collect()
    others = [np.full(16, -1) for _ in range(1000)]  # in what was freed, if anything was
    assert {copy.__name__ for copy in copies} == {"main"}
    assert len(others) == 1000
    del copies
    gc.collect()


def test_a_call_keeps_nothing() -> None:
    copy, table = copying()
    x, out = np.arange(4), np.zeros(4, int)
    ins, outs = [x], [out]
    before = [sys.getrefcount(v) for v in (x, out, ins, outs, table, copy)]
    for _ in range(1000):
        copy(ins, outs)
    assert [sys.getrefcount(v) for v in (x, out, ins, outs, table, copy)] == before
