"""Lists that data decide to append to in captured loops: as long as in NumPy, of the same."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import same

import minicc

Function = Callable[..., Any]
CAPTURED: list[Function] = []
OTHERS: list[Function] = []


@CAPTURED.append
def places(x: Any) -> Any:
    out = []
    for k in range(1, len(x) - 1):
        if x[k] > x[k - 1] and x[k] > x[k + 1]:
            out.append(k)
    return np.array(out), out, len(out)


@CAPTURED.append
def scalars(x: Any) -> Any:
    out = []
    for v in x:
        if abs(v) < 1:
            out.append(v)
    return out, np.mean(out), out[0], out[-1], sum(out)


@CAPTURED.append
def python_numbers(x: Any) -> Any:
    out, s = [], 0.0
    for v in x:
        s = 0.9 * s + float(v)
        if s > 0:
            out.append(s)
    return out, isinstance(out, list), type(out) is list


@CAPTURED.append
def pairs(x: Any) -> Any:
    out = []
    for k in range(len(x)):
        if x[k] > 0:
            out.append((k, x[k]))
    s = 0.0
    for k, v in out:
        s = s * 0.5 + x[k] * v
    return out, s


@CAPTURED.append
def either(x: Any) -> Any:
    above, below = [], []
    for v in x:
        if v > 0:
            above.append(v)
        else:
            below.append(v)
    return np.concatenate([above, below]), len(above) - len(below)


@CAPTURED.append
def two_in_a_round(x: Any) -> Any:
    out = []
    for k in range(len(x) - 1):
        if x[k] > 0.2:
            out.append(x[k])
        if x[k + 1] < 0.1:
            out.append(x[k + 1] * 2)
    return out


@CAPTURED.append
def one_always(x: Any) -> Any:
    out = []
    for v in x:
        out.append(v)
        if v > 1:
            out.append(-v)
    return np.array(out)


@CAPTURED.append
def chosen_by_index(x: Any) -> Any:
    out = []
    for k in range(len(x)):
        if x[k] > 0.2:
            out.append(k)
    if not out:
        return x, 0, 0
    return x[out], max(out), min(out)


@CAPTURED.append
def where_it_is_written(x: Any) -> Any:
    out = []
    for k in range(len(x)):
        if x[k] > 0:
            x[k] = 0.0
            out.append(k)
    return out


@CAPTURED.append
def rows(x: Any) -> Any:
    out = []
    for row in x.reshape(-1, 4):
        if row.sum() > 0:
            out.append(row * 2)
    return out, np.array(out)


@CAPTURED.append
def comprehensions(x: Any) -> Any:
    return [v * 2 for v in x if v > 0.3], [k for k in range(len(x) - 1) if x[k] * x[k + 1] < 0]


@CAPTURED.append
def of_other_types(x: Any) -> Any:
    narrow, complexes = [], []
    for v in x.astype(np.float32):
        if v > 0:
            narrow.append(v)
            complexes.append(v + 1j)
    return narrow, np.array(complexes)


@CAPTURED.append
def in_a_dict(x: Any) -> Any:
    out = []
    for v in x:
        if v > 0:
            out.append(v)
    return [*{"found": out, "again": (out, len(out))}.values()]


@CAPTURED.append
def neighbours(x: Any) -> Any:
    """The lists of the rounds of another loop, of which no element is taken."""
    x = x[:60]
    counts, means = np.zeros(60), np.zeros(60)
    for i in range(60):
        near = [x[j] for j in range(60) if i != j and abs(x[i] - x[j]) < 0.3]
        counts[i] = len(near)
        if near:
            means[i] = sum(near) / len(near)
    return counts, means


@CAPTURED.append
def totals(x: Any) -> Any:
    above, below = [v for v in x if v > 0.3], [v for v in x if v <= 0.3]
    return np.mean(above) - np.mean(below), len(above) / len(below), np.sum(above), np.max(below)


@CAPTURED.append
def of_groups(x: Any) -> Any:
    found = []
    for g in range(12):
        of_group = []
        for k in range(40):
            if int(abs(x[k]) * 4) == g % 4:
                of_group.append(x[k])
        found.append((np.std(of_group), len(of_group)))
    return np.array(found)


@CAPTURED.append
def of_the_last_round(x: Any) -> Any:
    table = x[:2000].reshape(20, 100)
    for k in range(20):
        kept = []
        for v in table[k]:
            if v > 0.5:
                kept.append(v)
    return len(kept), np.mean(kept)


@CAPTURED.append
def asked_for_its_length_first(x: Any) -> Any:
    out = []
    for v in x:
        if v > 0.5:
            out.append(v)
    if len(out) < 3:
        return None
    return np.array(out)


@CAPTURED.append
def elements_beside_the_last(x: Any) -> Any:
    out, n = [], len(x)
    for k in range(n):
        if k + 1 < n and x[k + 1] > x[k]:
            out.append(x[k + 1])
        elif x[k] > 1:
            out.append(x[k])
    return out


@OTHERS.append
def shown(x: Any) -> Any:
    out = [v for v in x if v > 3]
    return f"{out}", str(out)


@OTHERS.append
def elements_that_are_changed(x: Any) -> Any:
    out = []
    for k in range(len(x)):
        if x[k] > 0:
            out.append([k, x[k]])
    out[0][1] = 7.0
    return out


@OTHERS.append
def appended_to_again(x: Any) -> Any:
    out = []
    for v in x:
        if v > 0:
            out.append(v)
    for v in x:
        if v < -1:
            out.append(v)
    out.append(x[0])
    return out


@OTHERS.append
def of_several_types(x: Any) -> Any:
    out: list[Any] = []
    for k in range(len(x)):
        if x[k] > 1:
            out.append(k)
        elif x[k] < -1:
            out.append(x[k])
    return out


@OTHERS.append
def texts(x: Any) -> Any:
    out = []
    for v in x:
        if v > 0:
            out.append("above")
    return out


@CAPTURED.append
def after_a_first(x: Any) -> Any:
    out = [0.0]
    for v in x:
        if v > 0:
            out.append(v)
    return out


@OTHERS.append
def greatest_of_floats(x: Any) -> Any:
    out = []
    for v in x:
        if v > 0:
            out.append(v)
    return max(out), out * 2, [*out, 1.0], 1.0 in out


def compare(f: Function, *calls: Any) -> Any:
    """The jitted function, after it did for each array what NumPy does."""
    jitted = minicc.jit(f, threads=1)
    for x in calls:
        mine, theirs = x.copy(), x.copy()
        want, have = f(theirs), jitted(mine)
        same(want, have, 1e-12, 1e-12)
        same(theirs, mine)
        assert str(type_tree(have)) == str(type_tree(want))
    return jitted


def type_tree(x: Any) -> Any:
    """The types of a result and of all that it holds, as far as some elements of each list."""
    if isinstance(x, dict):
        return {k: type_tree(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x), len(x), [type_tree(v) for v in x[:3]]
    return type(x)


def data(seed: int, n: int = 4000) -> Any:
    return np.random.default_rng(seed).standard_normal(n)


@pytest.mark.parametrize("f", CAPTURED, ids=lambda f: f.__name__)
def test_loops_are_captured(f: Function) -> None:
    told = compare(f, *map(data, range(3))).explain()
    assert told.loops
    assert all("of the graph" in text for text in told.loops), told.loops


@pytest.mark.parametrize("f", OTHERS, ids=lambda f: f.__name__)
def test_what_is_not_known_of_such_lists_is_left_to_numpy(f: Function) -> None:
    with pytest.warns(minicc.PerformanceWarning):
        compare(f, *map(data, range(3)))


FEW = [f for f in CAPTURED if f.__name__ in ("places", "scalars", "pairs", "comprehensions")]


@pytest.mark.parametrize("f", FEW, ids=lambda f: f.__name__)
def test_few_elements_or_none(f: Function) -> None:
    """A program is for two elements or more; NumPy runs other calls."""
    few, none = np.full(4000, 9.0), np.full(4000, 9.0)
    few[[7, 8, 9]] = 0.5, 0.9, 0.4
    jitted = minicc.jit(f, threads=1)
    for x in (data(0), few, none, data(1)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of means of nothing
            try:
                want = f(x.copy())
            except IndexError as error:
                with pytest.raises(IndexError, match=str(error)):
                    jitted(x.copy())
            else:
                same(want, jitted(x.copy()), 1e-12, 1e-12)


@CAPTURED.append
def filled_in_each_round(x: Any) -> Any:
    out = []
    for k in range(len(x) - 3):
        out.append(x[k : k + 3].sum())
    return np.array(out), len(out), out[-1]


SIZED = [f for f in CAPTURED if f.__name__ in ("places", "scalars", "pairs", "either", "totals",
                                              "filled_in_each_round")]  # fmt: skip


@pytest.mark.parametrize("f", SIZED, ids=lambda f: f.__name__)
def test_arrays_of_many_lengths(f: Function) -> None:
    """One program is for all lengths."""
    jitted = compare(f, *[data(n, n) for n in (3000, 2500, 3100, 2600, 4000, 2999)])
    assert any("is a size of at least" in text for text in str(jitted.explain()).splitlines())
    assert "was traced 2 times" in str(jitted.explain())


def test_rows_that_have_other_names() -> None:
    """What is written to them after the loop is seen in the list, as in NumPy."""

    def of_each(x: Any) -> Any:
        out = []
        for row in x:
            last = row * 2
            out.append(last)
        last[0] = 7
        return out

    def of_some(x: Any) -> Any:
        out = []
        for row in x:
            last = row * 2
            if last[0] > -9:
                out.append(last)
        last[0] = 7
        return out

    def carried(x: Any) -> Any:
        out, y = [], x[0].copy()
        for row in x:
            y = y * 0.5 + row
            out.append(y)
        y += 1
        return out, y

    for f in (of_each, of_some, carried):
        jitted = minicc.jit(f, threads=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", minicc.PerformanceWarning)
            for n in (400, 500, 450, 300):
                x = data(n, 5 * n).reshape(n, 5)
                want, have = f(x), jitted(x)
                same(want, have, 1e-12, 1e-12)
                if f is carried:
                    assert have[0][-1] is have[1]


def test_lists_that_something_else_leads_to() -> None:
    """A dict, a tuple, an object, a caller or a default sees what the loop appends."""

    class Holder:
        def __init__(self) -> None:
            self.found: list[Any] = []

    def in_a_dict(x: Any) -> Any:
        held: dict[str, Any] = {}
        out: list[Any] = []
        held["found"] = out
        for v in x:
            if v > 2:
                out.append(v)
        return len(held["found"]), held

    def in_a_tuple(x: Any) -> Any:
        out: list[Any] = []
        pair = (out, 1)
        for v in x:
            if v > 2:
                out.append(v)
        return pair

    def in_an_object(x: Any) -> Any:
        holder = Holder()
        out = holder.found
        for v in x:
            if v > 2:
                out.append(v)
        return len(holder.found)

    def of_a_caller(x: Any) -> Any:
        def fill(out: list[Any]) -> None:
            for v in x:
                if v > 2:
                    out.append(v)

        found: list[Any] = []
        fill(found)
        return len(found), found

    for f in (in_a_dict, in_a_tuple, in_an_object, of_a_caller):
        jitted = minicc.jit(f, threads=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", minicc.PerformanceWarning)
            for n in (3000, 2500, 3100, 2600):
                assert str(jitted(data(n, n))) == str(f(data(n, n)))


def test_names_that_rounds_give_such_a_list() -> None:
    def bound_where_it_grows(x: Any) -> Any:
        out: list[Any] = []
        best: Any = None
        for v in x:
            if v > 2:
                out.append(v)
                best = out
        return best

    def grown_by_another_name(x: Any) -> Any:
        out: list[Any] = []
        for v in x:
            alias = out
            if v > 2:
                alias.append(v)
        return out, len(out)

    def in_a_tuple_of_the_round(x: Any) -> Any:
        out: list[Any] = []
        for v in x:
            pair = (out, v)
            if v > 2:
                out.append(v)
        return len(pair[0])

    def in_a_function_of_the_round(x: Any) -> Any:
        out: list[Any] = []
        for v in x:
            many: Callable[[], int] = lambda: len(out)  # noqa: E731  # of the round
            if v > 2:
                out.append(v)
        return many()

    def of_the_round_before(x: Any) -> Any:
        before: Any = None
        n = 0
        for k in range(5):
            out = [v for v in x[k * 10 : k * 10 + 50] if v > 0]
            if before is not None:
                n += len(before)
            before = out
        return n, len(before), before is out

    def begun_anew(x: Any) -> Any:
        out: list[Any] = []
        for v in x:
            if v > 2:
                out.append(v)
            if len(out) > 5:
                out = []
        return out

    for f in (
        bound_where_it_grows,
        grown_by_another_name,
        in_a_tuple_of_the_round,
        in_a_function_of_the_round,
        of_the_round_before,
        begun_anew,
    ):
        jitted = minicc.jit(f, threads=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", minicc.PerformanceWarning)
            for n in (3000, 2500, 3100):
                assert str(jitted(data(n, n))) == str(f(data(n, n)))


def test_a_list_that_is_kept_from_call_to_call() -> None:
    def f(x: Any, seen: list[Any] = []) -> int:  # noqa: B006  # calls share it
        for v in x:
            if v > 2:
                seen.append(v)
        return len(seen)

    jitted, total = minicc.jit(f, threads=1), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", minicc.PerformanceWarning)
        for seed in range(3):
            total += int((data(seed) > 2).sum())
            assert jitted(data(seed)) == total


def test_totals_of_nothing() -> None:
    """NumPy makes an array of float64 of an empty list, whatever its elements would be."""

    def of_ints(x: Any) -> Any:
        out = []
        for k in range(len(x)):
            if x[k] > 5:
                out.append(k)
        return np.sum(out), len(out)

    def of_single(x: Any) -> Any:
        out = [v for v in x.astype(np.float32) if v > 5]
        return np.sum(out), np.count_nonzero(out)

    def of_double(x: Any) -> Any:
        out = [v for v in x if v > 5]
        return np.sum(out), sum(out), len(out)

    for f in (of_ints, of_single, of_double):
        jitted = minicc.jit(f, threads=1)
        for x in (np.full(4000, 9.0), np.zeros(4000), np.arange(4000.0), np.zeros(4000)):
            want, have = f(x), jitted(x)
            same(want, have, 1e-3 if f is of_single else 1e-12, 1e-12)
            assert [*map(type, have)] == [*map(type, want)]


def test_a_list_that_stands_twice_is_one() -> None:
    def f(x: Any) -> Any:
        out = []
        for v in x:
            if v > 0:
                out.append(np.asarray(v))
        return out, {"again": out}

    first, again = minicc.jit(f, threads=1)(data(0))
    assert again["again"] is first
    assert type(first[0]) is np.ndarray
    same(first, f(data(0))[0])


def test_lists_of_results_are_the_callers_own() -> None:
    f = next(f for f in CAPTURED if f.__name__ == "rows")
    jitted = minicc.jit(f, threads=1)
    x = data(0)
    first, _ = jitted(x)
    kept = copy.deepcopy(first)
    first[0][:] = 7
    first.append(None)
    same(jitted(x)[0], kept)
    assert first[1].base is None


def test_little_work_is_left_to_numpy() -> None:
    f = next(f for f in CAPTURED if f.__name__ == "pairs")
    jitted = minicc.jit(f, threads=1)
    same(jitted(data(0, 40)), f(data(0, 40)), 1e-12, 1e-12)
    assert "little is computed" in str(jitted.explain())


def test_a_list_that_the_functions_object_keeps() -> None:
    class Holder:
        found: Any = None

    holder = Holder()

    def f(x: Any) -> Any:
        out = []
        for v in x:
            if v > 0:
                out.append(v)
        holder.found = out
        return len(out)

    jitted = minicc.jit(f, threads=1)
    for seed in range(3):
        x = data(seed)
        jitted(x)
        assert type(holder.found) is list
        same(holder.found, [v for v in x if v > 0])
