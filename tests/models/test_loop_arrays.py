"""Loops that write arrays place by place, in their memory: they hold what NumPy writes."""

import linecache
import random
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc
from minicc.compile.compiler import lower
from minicc.ir import graph, program
from minicc.ir.core import walk
from minicc.ir.program import launches

Function = Callable[..., Any]


def agrees(f: Function, *args: Any) -> Any:
    """The jitted function, after a call that did what NumPy does."""
    g = minicc.jit(f, threads=1)
    mine, theirs = [a.copy() for a in args], [a.copy() for a in args]
    want, have = f(*theirs), g(*mine)
    np.testing.assert_equal(type(have), type(want))
    for w, h in zip((*_each(want), *theirs), (*_each(have), *mine), strict=True):
        assert np.asarray(w).dtype == np.asarray(h).dtype
        np.testing.assert_allclose(h, w, rtol=1e-5, atol=1e-6)
    return g


def _each(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def scans(f: Function, *args: Any) -> list[graph.Scan]:
    ops = walk(minicc.jit(f).lower(*[a.copy() for a in args]).module.main.body)
    return [op for op in ops if isinstance(op, graph.Scan)]


def work_of_rounds(f: Function, *args: Any) -> set[Any]:
    """The elements that the launches within a function's loops compute."""
    module = minicc.jit(f).lower(*[a.copy() for a in args]).module
    body = lower(module, minicc.Options()).main.body
    inside = (op.body for op in walk(body) if isinstance(op, program.Loop))
    return {op.work for region in inside for op in launches(region)}


def product(x: Any, y: Any) -> Any:
    c = np.zeros((12, 12), np.float32)
    for i in range(12):
        for j in range(12):
            for k in range(12):
                c[i, j] += x[i, k] * y[k, j]
    return c


def test_a_product_of_scalars() -> None:
    x, y = floats(12, 12), floats(12, 12)[::-1].copy()
    agrees(product, x, y)
    loops = scans(product, x, y)
    assert [s.count for s in loops] == [12, 12, 12]
    assert work_of_rounds(product, x, y) == {1}


def test_a_convolution_by_windows() -> None:
    def f(x: Any, w: Any) -> Any:
        out = np.empty((14, 14, 4), np.float32)
        for i in range(14):
            for j in range(14):
                out[i, j, :] = np.sum(x[i : i + 3, j : j + 3, :, None] * w, axis=(0, 1, 2))
        return out

    x, w = floats(16, 16, 2), floats(3, 3, 2, 4)
    agrees(f, x, w)
    assert max(work_of_rounds(f, x, w)) <= 3 * 3 * 2 * 4


def test_recurrences_both_ways() -> None:
    def f(x: Any) -> Any:
        p, q = np.empty_like(x), np.empty_like(x)
        p[:, 0] = q[:, 0] = 1
        for j in range(1, 19):
            p[:, j] = 0.5 / (2 - 0.5 * p[:, j - 1])
            q[:, j] = x[:, j] * p[:, j] + 0.25 * q[:, j - 1] * p[:, j - 1]
        for j in range(18, 0, -1):
            x[:, j] = p[:, j] * x[:, j + 1] + q[:, j]
        return x, p[:, :19], q[:, :19]

    agrees(f, floats(5, 20))
    assert max(work_of_rounds(f, floats(5, 20))) <= 10


def test_an_array_that_is_read_as_a_whole_is_changed_in_place() -> None:
    def f(x: Any) -> Any:
        for k in range(40):
            x[k] = x.sum() * 0.25
        return x

    agrees(f, floats(40))
    assert work_of_rounds(f, floats(40)) == {41}


def test_two_arrays_written_with_the_same_values() -> None:
    def f(x: Any) -> Any:
        a, b = np.zeros(20, np.float32), np.zeros(20, np.float32)
        for k in range(20):
            v = x[k] * 2
            a[k] = v
            b[-k - 1] = v
        return a, b, v

    agrees(f, floats(20))


def test_a_name_of_a_function_within() -> None:
    def f(x: Any) -> Any:
        s = x

        def half() -> Any:
            return s * 0.5 + 1

        for _ in range(20):
            s = half()
        return s

    assert "a loop of the graph" in agrees(f, floats(8)).explain().loops[0]

    def g(x: Any) -> Any:
        s = x

        def half() -> Any:
            nonlocal s
            s = s * 0.5
            return s

        for _ in range(20):
            x = x + half()
        return x, s

    assert "binds a name" in agrees(g, floats(8)).explain().loops[0]


def test_an_array_that_only_the_first_round_shares() -> None:
    def f(x: Any, y: Any) -> Any:
        first = y
        for j in range(11):
            x, y = y, x
            y[:3] = 2
            y = x[j] * 0.25 + y
        return x, y, first

    agrees(f, floats(16), floats(16)[::-1].copy())


def test_starts_that_another_round_knows() -> None:
    def f(x: Any) -> Any:
        first, total = True, None
        for k in range(20):
            if first:
                x = x * 2
                first = False
            total = x * k if total is None else total + x * k
        return x, total, first

    assert "the first 1 written out" in agrees(f, floats(8)).explain().loops[0]


def test_an_item_of_each() -> None:
    def f(x: Any) -> Any:
        t = np.float32(0)
        for i, v in enumerate(x, 2):
            t = t * 0.5 + v * i
        for a, b in zip(x, range(2, 50), strict=False):
            t = t + a * b
        for a in reversed(x):
            t = t * 0.5 + a
        for x[0] in range(9):
            x[1:] += x[0]
        return t, i, x

    shown = agrees(f, floats(30)).explain().loops
    assert len(shown) == 4
    assert all("a loop of the graph" in text for text in shown)


def expression(rng: random.Random, names: list[str]) -> str:
    """What is read: elements at the numbers of rounds and near them."""

    def at() -> str:
        if rng.random() < 0.1:
            return rng.choice(["0", "-1", "3"])
        return rng.choice(names) + rng.choice(["", "", "", " - 1", " + 1", " - 2", " - 3"])

    return rng.choice([
        f"y[{at()}]", f"y[{at()}]", f"x[{at()}]", f"M[{at()}, {at()}]", f"M[{at()}, {at()}]",
        f"M[{at()}, 1:4].sum()", f"M[:, {at()}][2]", f"y[{names[-1]}:{names[-1]} + 2][0]", "s",
        f"x[:{names[-1]}].mean()", f"M[{at()}, :{names[0]}].mean()", rng.choice(names),
    ])  # fmt: skip


def statement(rng: random.Random, names: list[str]) -> str:
    """A write of one place, mostly one that moves with a round."""
    at = [rng.choice(names) + rng.choice(["", "", "", " - 1", " + 1"]) for _ in range(2)]
    what = f"({expression(rng, names)} - {expression(rng, names)} * 0.5) * 0.25"
    cut = rng.choice(["1:4", ":", "::2"])
    target = rng.choice([
        f"y[{at[0]}]", f"y[{at[0]}]", f"x[{at[0]}]", f"M[{at[0]}, {at[1]}]", f"M[{at[0]}, {cut}]",
        f"M[{cut}, {at[0]}]", f"M[2, {at[0]}]", "M[3, 1]", f"M[{at[0]}, :{names[-1]}]",
    ])  # fmt: skip
    return rng.choice([f"{target} = {what}", f"{target} += {what}", f"s = {what}"])


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
@pytest.mark.parametrize("seed", part(range(60), 4))
def test_random_places(seed: int) -> None:
    rng = random.Random(seed)
    ranges = ["range(3, 16)", "range(16, 3, -1)", "range(3, 19)", "range(3, 20, 2)"]
    lines = [statement(rng, ["k"]) for _ in range(rng.choice([1, 1, 2]))]
    if rng.random() < 0.5:
        inner = [statement(rng, ["k", "j", "j"]) for _ in range(rng.choice([1, 1, 2]))]
        rounds = rng.choice([*ranges, "range(k)", "range(k, 18)"])
        lines += [f"for j in {rounds}:", *[f"    {line}" for line in inner]]
    body = ["s = np.float64(0.5)", f"for k in {rng.choice(ranges)}:",
            *[f"    {line}" for line in lines], "return x, y, M, s"]  # fmt: skip
    text = "def f(x, y, M):\n" + textwrap.indent("\n".join(body), "    ")
    name = f"places{seed}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), space)
    draw = np.random.default_rng(seed)
    args = [np.round(draw.standard_normal(s) * 4) / 2 for s in ((20,), (20,), (20, 20))]
    try:
        agrees(space["f"], *args)
    except IndexError:
        with pytest.raises((IndexError, minicc.UserError)):
            minicc.jit(space["f"])(*args)
    except AssertionError as error:
        raise AssertionError(text) from error
