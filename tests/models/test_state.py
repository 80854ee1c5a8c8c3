"""Functions that change objects from outside: attributes, lists, dicts and arrays that they hold.

Each runs several times beside NumPy, on an equal object, and leaves the same: results, state, and
which of these are one object.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc


class Node:
    v: Any


class Model:
    def __init__(self) -> None:
        self.w = np.linspace(0.0, 1.0, 8)
        self.wide = np.linspace(0.0, 1.0, 400)
        self.whole = np.arange(6)
        self.b = 0.5
        self.single = np.float64(2.5)
        self.count = 3
        self.flag = False
        self.log: list[Any] = []
        self.table: dict[str, Any] = {"a": np.ones(3), "n": 0}
        self.rows = [np.zeros(4), np.ones(4)]
        self.node: Any = Node()
        self.node.v = np.zeros(5)
        self.half = 1.0

    @property
    def double(self) -> float:
        return self.half * 2

    @double.setter
    def double(self, value: float) -> None:
        self.half = value / 2


def counts(m: Any, x: Any) -> Any:
    m.count += 1
    return x * m.count


def binds(m: Any, x: Any) -> Any:
    m.w = m.w * 0.9 + x
    return m.w


def in_place(m: Any, x: Any) -> Any:
    m.w *= 0.9
    m.w += x
    m.wide -= x.sum()
    m.whole += 1
    return m.w.sum(), m.wide


def numbers(m: Any, x: Any) -> Any:
    m.single = m.single * 2 + x[0]
    m.b = m.b + 0.1
    m.count = int(x.max() * 3 + 0.5) + m.count
    return m.single, m.b


def logs(m: Any, x: Any) -> Any:
    m.log.append(x * 2)
    return x.sum()


def logs_and_looks(m: Any, x: Any) -> Any:
    m.log.append(x * 2)
    m.log.extend([x.sum()])
    return len(m.log)


def logs_and_takes_the_last(m: Any, x: Any) -> Any:
    for k in range(20):
        m.log.append((x * k).sum())
    return m.log[-1], m.log[-2]


def tabulates(m: Any, x: Any) -> Any:
    m.table["a"] = x[:3] + m.table["a"]
    m.table["n"] += 1
    m.table["new"] = x
    return m.table


def elements(m: Any, x: Any) -> Any:
    m.rows[0] = m.rows[0] - x[:4]
    m.rows[1] += 1
    return m.rows


def nested(m: Any, x: Any) -> Any:
    m.node.v[1:3] = x[:2]
    m.node.z = x[2:]
    return m.node, m


def by_property(m: Any, x: Any) -> Any:
    m.double = m.double + 1
    return m.double * x


def shares(m: Any, x: Any) -> Any:
    m.last = m.w
    m.w = m.w + x
    m.seen = m.w[2:5]
    m.given = x
    return m.last, m.w


def sides(m: Any, x: Any) -> Any:
    if x.sum() > 10:
        m.flag, m.b = True, x.max()
    else:
        m.count = 0
    return m.flag


def descends(m: Any, x: Any) -> Any:
    for _ in range(30):
        m.w = m.w * 0.5 + x
        m.b += m.w.mean()
        m.log.append(m.b)
        m.count += 1
    return m.b


def starts_anew(m: Any, x: Any) -> Any:
    m.w, m.log = np.zeros(8), []
    for k in range(25):
        m.w -= 0.1 * (m.w - x)
        m.log.append((m.w * k).sum())
    return m


def stops(m: Any, x: Any) -> Any:
    for _ in range(40):
        m.error = np.abs(m.w - x).sum()
        m.w = m.w + 0.1 * (x - m.w)
        if m.error < 0.5:
            break
    return m.error


def rounds_of_elements(m: Any, x: Any) -> Any:
    for k in range(25):
        m.table["a"] = m.table["a"] - 0.1 * x[:3]
        m.rows[0][1] += x[k % 8]
        m.count += k
    return m.rows


def first_on_a_side(m: Any, x: Any) -> Any:
    for i in range(30):
        if m.w.sum() > 30:
            m.table["z"] = i
            m.late = m.w
        m.w = m.w + np.abs(x) + 1
    return m.table


def by_a_function(m: Any, x: Any) -> Any:
    def step(y: Any) -> Any:
        m.count += 1
        return y * m.count

    return step(x) + step(x)


def by_name(m: Any, x: Any) -> Any:
    setattr(m, "dynamic", x * 2)  # noqa: B010
    return getattr(m, "dynamic")  # noqa: B009


def refused(m: Any, x: Any) -> Any:
    del m.b
    m.b = x
    return x


def raises(m: Any, x: Any) -> Any:
    m.count += 1
    if x.sum() > 4:
        raise ValueError("too much")
    m.w = x
    return x


LOG: list[Any] = []
TABLE: dict[str, Any] = {}
COUNTS = [0, 0.5]


def outside(m: Any, x: Any) -> Any:
    LOG.append(x.sum())
    TABLE["n"] = TABLE.get("n", 0) + 1
    TABLE["last"] = x
    COUNTS[0] += 1
    COUNTS[1] = COUNTS[1] * 2
    return x * COUNTS[1]


def looks_elsewhere(m: Any, x: Any) -> Any:
    LOG.append(x)
    return _looked() * x


def _looked() -> int:
    return len(LOG)


CHANGES = [
    counts, binds, in_place, numbers, logs, logs_and_looks, logs_and_takes_the_last, tabulates,
    elements, nested, by_property, shares, sides, descends, starts_anew, stops, rounds_of_elements,
    first_on_a_side, by_a_function, by_name, refused, raises, outside, looks_elsewhere,
]  # fmt: skip


def same(left: Any, right: Any, path: str, pairs: dict[int, int]) -> None:
    """Fail where two structures differ, or one has an object twice and the other has not."""
    if isinstance(left, (np.ndarray, list, dict, Model, Node)):
        assert pairs.setdefault(id(left), id(right)) == id(right), f"{path}: not the same object"
    assert type(left) is type(right), path
    if isinstance(left, (Model, Node)):
        left, right = vars(left), vars(right)
    if isinstance(left, dict):
        assert [*left] == [*right], path
        left, right = [*left.values()], [*right.values()]
    if isinstance(left, (list, tuple)):
        assert len(left) == len(right), path
        for k, (a, b) in enumerate(zip(left, right, strict=True)):
            same(a, b, f"{path}[{k}]", pairs)
    elif isinstance(left, (np.ndarray, np.generic, float)):
        assert np.asarray(left).dtype == np.asarray(right).dtype, path
        assert np.shape(left) == np.shape(right), path
        scale = np.abs(np.where(np.isfinite(right), right, 0)).max(initial=1)
        assert np.allclose(left, right, 1e-10, 1e-10 * scale, equal_nan=True), path
    else:
        assert left == right, path


class Side:
    """One of two sides that run the same, with globals of its own."""

    def __init__(self) -> None:
        self.model = Model()
        self._globals: Any = ([], {}, [0, 0.5])

    def call(self, f: Callable[..., Any], x: Any) -> Any:
        """The outcome, and everything that may have changed."""
        log, table, counts = self._globals
        LOG[:], COUNTS[:] = log, counts
        TABLE.clear()
        TABLE.update(table)
        try:
            result = f(self.model, x)
        except ValueError as error:
            result = str(error)
        self._globals = [*LOG], dict(TABLE), [*COUNTS]
        return result, self.model, x, self._globals


def run(f: Callable[..., Any], calls: int = 4) -> Any:
    """Run a function beside what `jit` makes of it; the latter."""
    jitted = minicc.jit(f, threads=1)
    mine, theirs = Side(), Side()
    for k in range(calls):
        x, y = (np.arange(8.0) * 0.1 + k * 0.3 for _ in range(2))
        same(mine.call(jitted, x), theirs.call(f, y), f"{f.__name__} at call {k}", {})
    return jitted


@pytest.mark.parametrize("f", CHANGES, ids=lambda f: f.__name__)
def test_changes_are_numpys(f: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", minicc.PerformanceWarning)
        jitted = run(f)
    plain = any(s.plain for s in jitted.explain().specialisations)
    assert plain == (f is refused)


@pytest.mark.parametrize(
    "f", [counts, binds, in_place, logs, logs_and_takes_the_last, descends, elements]
)
def test_what_calls_change_is_no_reason_to_trace_again(f: Callable[..., Any]) -> None:
    """Unless it is of another type: a Python float to which a call adds one of NumPy's."""
    text = str(run(f).explain())
    assert "traced 2 times" in text if f is descends else "traced 1 time\n" in text


@pytest.mark.parametrize("f", [descends, starts_anew])
def test_loops_that_set_attributes_are_loops_of_the_graph(f: Callable[..., Any]) -> None:
    loops = run(f, 2).explain().specialisations[0].loops
    assert all("a loop of the graph" in text for text in loops)


def test_one_list_at_two_places() -> None:
    """It has two copies while it is traced, of which the other one would not have the change."""
    first: list[Any] = []
    second: list[Any] = []

    def f(a: Any, b: Any, x: Any) -> Any:
        a.append(x.sum())
        return len(b)

    jitted = minicc.jit(f, threads=1)
    x = np.ones(3)
    assert [jitted(first, second, x), len(first), len(second)] == [0, 1, 0]
    one: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", minicc.PerformanceWarning)
        assert [jitted(one, one, x), len(one)] == [1, 1]


def test_a_container_that_comes_back_is_the_same() -> None:
    table = {"a": np.ones(3), "b": [np.zeros(2)]}
    jitted = minicc.jit(lambda t, x: (t["b"], t, x + 1), threads=1)
    for _ in range(2):
        inner, outer, _ = jitted(table, np.ones(3))
        assert inner is table["b"]
        assert outer is table


@pytest.mark.parametrize("f", [binds, logs, tabulates, descends])
def test_lowering_changes_nothing(f: Callable[..., Any]) -> None:
    model, before = Model(), copy.deepcopy(Model())
    minicc.jit(f).lower(model, np.ones(8))
    same(model, before, "", {})


def test_an_attribute_of_a_module_is_left_to_numpy() -> None:
    """The module is changed by each call."""
    import tests.models.test_units as module

    def f(x: Any) -> Any:
        module.changed = getattr(module, "changed", 0) + 1  # type: ignore[attr-defined]
        return x * 2

    jitted = minicc.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", minicc.PerformanceWarning)
        for _ in range(2):
            jitted(np.ones(3))
    assert module.changed == 2  # type: ignore[attr-defined]
    del module.changed  # type: ignore[attr-defined]


def test_what_the_function_that_is_an_argument_reads() -> None:
    """The arrays in its closure come after all of the call's in the program's inputs."""
    scale = np.arange(500.0)

    def scaled(z: Any) -> Any:
        return z * scale

    jitted = minicc.jit(lambda f, x, y: f(x) + y, threads=1)
    x, y = np.ones(500), np.full(500, 3.0)
    for _ in range(3):
        assert np.array_equal(jitted(scaled, x, y), scale + 3)
        scale += 1


def test_nothing_is_written_where_numpy_is_to_run_the_call() -> None:
    """The second call's dict is the one that the object has held since the first."""

    def f(m: Any, table: Any, x: Any) -> Any:
        m.held = table
        table["n"] += 1
        w = m.w
        w *= x
        return len(m.held)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", minicc.PerformanceWarning)
        model, table = Model(), {"n": 0}
        jitted = minicc.jit(f, threads=1)
        for k in range(4):
            jitted(model, table, np.full(8, 2.0))
            assert np.array_equal(model.w, np.linspace(0.0, 1.0, 8) * 2 ** (k + 1))
            assert table["n"] == k + 1


def test_classes_that_are_keys_of_an_argument() -> None:
    jitted = minicc.jit(lambda table, x: table[Node] * x, threads=1)
    x = np.ones(3)
    for k in (2.0, 3.0):
        assert np.array_equal(jitted({Node: x * k}, x), x * k)
    assert not any(s.plain for s in jitted.explain().specialisations)
