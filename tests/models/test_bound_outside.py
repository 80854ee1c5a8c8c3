"""What partial functions and methods of containers and arrays hold is read, not frozen."""

import collections
import datetime
import functools
import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

X = np.arange(1.0, 4.0)
LARGE = np.ones(400)
TABLE, NUMBERS, ARRAY = {"k": 1.0}, collections.deque([1.0]), np.ones(3)
LOOK_UP, COUNT, DOT, SUM, APPEND = TABLE.get, NUMBERS.count, ARRAY.dot, LARGE.sum, NUMBERS.append
PARTIAL = functools.partial(lambda w, v, x, k: w * v[0] * x * k, ARRAY, LARGE, k=1.0)
BOUND: list[tuple[str, Callable[..., Any], Callable[[], Any]]] = [
    ("partial's name", lambda x: PARTIAL(x), lambda: PARTIAL.keywords.update(k=5.0)),
    ("partial's array", lambda x: PARTIAL(x), lambda: ARRAY.__setitem__(0, 7.0)),
    ("partial's large array", lambda x: PARTIAL(x), lambda: LARGE.__setitem__(0, 7.0)),
    ("get", lambda x: x * LOOK_UP("k"), lambda: TABLE.update(k=TABLE["k"] + 1)),
    ("count", lambda x: x * COUNT(1.0), lambda: NUMBERS.append(1.0)),
    ("dot", lambda x: DOT(x), lambda: ARRAY.__setitem__(1, 9.0)),
    ("sum", lambda x: x * SUM(), lambda: LARGE.__setitem__(1, 9.0)),
]


@pytest.mark.parametrize(("f", "change"), [b[1:] for b in BOUND], ids=[b[0] for b in BOUND])
def test_what_a_bound_function_holds_is_read(
    f: Callable[..., Any], change: Callable[[], Any]
) -> None:
    g = minicc.jit(f, threads=1)
    for _ in range(2):
        assert np.allclose(g(X), f(X), rtol=1e-15)
    change()
    for _ in range(2):
        assert np.allclose(g(X), f(X), rtol=1e-15)


def test_what_a_bound_function_changes_is_left_to_numpy() -> None:
    g = minicc.jit(lambda x: (x * 2, APPEND(5.0)), threads=1)
    with pytest.warns(minicc.PerformanceWarning, match="from outside of the function is changed"):
        g(X)
    before = len(NUMBERS)
    g(X)
    assert len(NUMBERS) == before + 1


NEXT, WRITTEN = iter([1.0, 2.0]).__next__, io.StringIO()
NOW, WRITE, SUM_OF = datetime.datetime.now, WRITTEN.write, np.add.reduce
MATCH = re.compile("a+").match


@pytest.mark.parametrize("f", [lambda x: x * NEXT(), lambda x: x * NOW().timestamp()])
def test_a_bound_function_that_gives_something_else_each_time_is_refused(f: Any) -> None:
    with pytest.raises(minicc.PerformanceWarning, match="while tracing"):
        minicc.jit(f)(X)


def test_what_a_bound_function_writes_is_written_at_each_call() -> None:
    g = minicc.jit(lambda x: (x + 1, WRITE("a"))[0], threads=1)
    for _ in range(3):
        g(X)
    assert WRITTEN.getvalue() == "aaa"


def test_other_bound_functions_are_as_they_are() -> None:
    def f(x: Any) -> Any:
        found = MATCH("aab")
        return x * SUM_OF(x), found is not None and found.group()

    assert repr(minicc.jit(f, threads=1)(X)) == repr(f(X))
