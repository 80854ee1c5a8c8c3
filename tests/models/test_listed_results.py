"""Long lists in results, whose elements are told in runs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.models.test_captured_loops import same

import minicc
from minicc.frontends.trace.pytree import Slot, rebuild
from minicc.frontends.trace.result_parts import Element, InRuns, Run, in_runs

LEAVES = [np.arange(20.0), np.arange(40).reshape(20, 2), np.arange(20) > 3]
KINDS: list[type | None] = [float, None, bool]


def row(k: int, number: int, numpy: bool = False) -> Slot:
    """The slot of a row of a leaf, of NumPy's type or of Python's."""
    return Slot(k, Element(number, None if numpy else KINDS[k]))


@st.composite
def runs(draw: st.DrawFn) -> list[Any]:
    """Rows one after another, alone or in pairs."""
    first, count = draw(st.integers(0, 8)), draw(st.integers(1, 10))
    k, numpy, form = draw(st.integers(0, 2)), draw(st.booleans()), draw(st.integers(0, 2))
    made: list[Any] = []
    for n in range(first, first + count):
        pair = [row(k, n, numpy), (row(0, 19 - n), row(2, n))]
        made.append(row(k, n, numpy) if not form else pair if form == 1 else tuple(pair[::-1]))
    return made


@st.composite
def lists(draw: st.DrawFn) -> list[Any]:
    """A list of runs, of which some elements may stand in it twice."""
    others: list[Any] = [1.5, None, "text", {"a": [1]}, []]
    found = [x for part in draw(st.lists(runs(), max_size=3)) for x in part]
    found.insert(draw(st.integers(0, len(found))), draw(st.sampled_from(others)))
    if draw(st.booleans()):
        found.append(draw(st.sampled_from(found)))
    return found


def identities(x: Any, seen: dict[int, int]) -> Any:
    """Which containers and arrays of a structure are one object."""
    if isinstance(x, dict):
        x = [*x.values()]
    if isinstance(x, np.ndarray):
        return seen.setdefault(id(x), len(seen))
    if isinstance(x, (list, tuple)):
        return seen.setdefault(id(x), len(seen)), [identities(e, seen) for e in x]
    return None


@given(st.lists(lists(), min_size=1, max_size=3), st.booleans())
def test_runs_are_what_they_stand_for(parts: list[list[Any]], twice: bool) -> None:
    structure = {"parts": parts, "more": (parts[0] if twice else [], 1)}
    packed = pickle.loads(pickle.dumps(in_runs(structure)))  # as with a program on disk
    wanted, got = rebuild(structure, LEAVES), rebuild(packed, LEAVES)
    assert repr(wanted) == repr(got)  # which tells types, too
    assert identities(wanted, {}) == identities(got, {})


def test_a_long_list_is_one_run() -> None:
    packed = in_runs([None, *[(row(0, n), row(2, n)) for n in range(15)]])
    assert type(packed) is InRuns
    before, run = packed.parts
    assert before == [None]
    assert type(run) is Run
    assert run.many == 15


def test_a_run_begins_anew_where_a_row_is_left_out() -> None:
    packed = in_runs([row(0, n) for n in range(16) if n != 9])
    assert [part.many for part in packed.parts] == [9, 6]


def test_what_stands_in_a_list_twice_is_one_object() -> None:
    def f(x: Any) -> Any:
        out = []
        for i in range(20):
            out.append((x[i] * 2, [x[i]]))
        return out, out[3], out

    x = np.arange(20.0)
    all_of_it, fourth, again = minicc.jit(f)(x)
    same(f(x), (all_of_it, fourth, again))
    assert again is all_of_it
    assert fourth is all_of_it[3]
