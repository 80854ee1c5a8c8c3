"""What Python's list operators make of a list of which data say how long it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_grown_lists import compare, data

import minicc


def places(x: Any) -> list[Any]:
    out = []
    for k in range(len(x)):
        if x[k] > 0:
            out.append(k)
    return out


def above(x: Any) -> list[Any]:
    out = []
    for v in x:
        if v > 0:
            out.append(v)
    return out


def pairs(x: Any) -> list[Any]:
    out = []
    for k in range(len(x)):
        if x[k] > 0.5:
            out.append((k, x[k]))
    return out


Change = Callable[[list[Any], list[Any]], Any]


def _reversed_in_place(out: list[Any], other: list[Any]) -> Any:
    out.reverse()
    return out


def _without_ends(out: list[Any], other: list[Any]) -> Any:
    last, first = out.pop(), out.pop(0)
    return out, first, last, len(out)


def _extended(out: list[Any], other: list[Any]) -> Any:
    alias = out
    out.extend(other)
    out += other
    return out, len(alias), alias is out


def _copied(out: list[Any], other: list[Any]) -> Any:
    alike, also = list(out), out.copy()
    also.reverse()
    return out, alike, also, alike is out


CHANGES: dict[str, Change] = {
    "backwards": lambda out, other: out[::-1],
    "reversed": lambda out, other: list(reversed(out)),
    "tail": lambda out, other: out[1:],
    "head": lambda out, other: out[:-1],
    "first": lambda out, other: out[:3],
    "last": lambda out, other: (out[-3:], out[-1], out[0]),
    "within": lambda out, other: out[2:-2],
    "to_the_left": lambda out, other: out[-5:7],
    "beyond": lambda out, other: (out[5000:], out[:5000]),
    "twice": lambda out, other: out[1:][::-1][2:],
    "sum": lambda out, other: out + other,
    "in_place": _reversed_in_place,
    "without_ends": _without_ends,
    "extended": _extended,
    "copied": _copied,
}
NUMBERS: dict[str, Change] = {
    "array": lambda out, other: np.array(out[::-1]) * 2,
    "steps": lambda out, other: np.diff(out[1:]),
    "sorted": lambda out, other: sorted(other + out[::-1]),
    "with_others": lambda out, other: [0] + out + [1, 2],  # noqa: RUF005
    "contains": lambda out, other: (3 in out, 100000 in out, other[0] in out),
    "loop": lambda out, other: [a * b for a, b in zip(out[1:], out[:-1], strict=True)],
}


def _captured(made: Callable[[Any], list[Any]], change: Change) -> None:
    def f(x: Any) -> Any:
        return change(made(x), made(-x))

    told = compare(f, *map(data, range(2))).explain()
    assert told.loops
    assert all("of the graph" in text for text in told.loops), told.loops


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    _captured(above, CHANGES[name])


@pytest.mark.parametrize("name", ["backwards", "within", "sum", "without_ends"])
@pytest.mark.parametrize("made", [places, pairs], ids=lambda f: f.__name__)
def test_changes_of_other_elements(made: Callable[[Any], list[Any]], name: str) -> None:
    _captured(made, CHANGES[name])


@pytest.mark.parametrize("change", NUMBERS.values(), ids=NUMBERS)
def test_changes_of_whole_numbers(change: Change) -> None:
    _captured(places, change)


def test_sorts() -> None:
    _captured(above, lambda out, other: (sorted(out), sorted(out + other)))
    _captured(places, lambda out, other: (sorted(out + other, reverse=True), sorted(out)))


def test_few_elements_or_none() -> None:
    def ends(x: Any) -> Any:
        out = places(x)
        return out[::-1], out[1:], sorted(out), out + [7], out[-1]  # noqa: RUF005

    few, none = np.full(4000, -1.0), np.full(4000, -1.0)
    few[[7, 8, 30]] = 1.0
    jitted = minicc.jit(ends, threads=1)
    for x in (data(0), few, data(1)):
        assert jitted(x.copy()) == ends(x)
    with pytest.raises(IndexError, match="list index out of range"):
        jitted(none)


def test_a_list_that_has_nan() -> None:
    def f(x: Any) -> Any:
        out = []
        for v in x:
            if not v < 0:
                out.append(v)
        return sorted(out)

    x = data(0)
    x[[5, 100]] = np.nan
    jitted = minicc.jit(f, threads=1)
    for y in (data(0), x, data(1)):
        np.testing.assert_array_equal(jitted(y), f(y))


def test_what_python_shares_is_left_to_it() -> None:
    """The elements of a copy are the same objects."""

    def f(x: Any) -> Any:
        out = []
        for row in x:
            if row[0] > 0:
                out.append(row * 2)
        back = out[::-1]
        back[0][0] = 7.0
        return out

    x = data(0).reshape(400, 10)
    jitted = minicc.jit(f, threads=1)
    with pytest.warns(minicc.PerformanceWarning):
        got = jitted(x)
    np.testing.assert_array_equal(got, f(x))
