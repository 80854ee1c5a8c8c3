"""Random Python functions with branches, loops and writes: every call agrees with NumPy's.

Programs are drawn as text. Calls come with arrays that take other branches, so that remembered
paths are walked, left, and met again. All numbers are dyadic, so that sums are exact in any order.
"""

import linecache
import textwrap
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.sweeps import examples

import minicc

SIMPLE = [
    "x = x + 1", "y = x * 0.5", "x, y = y, x", "y = x[::-1] - y", "x = np.where(x > y, x, y)",
    "x[1:3] = y[:2]", "x[1:] += y[0]", "v = x[::2]; v *= 0.5", "y = x.copy()", "y -= x.mean()",
    "s = float(x.max())", "s = s * 0.5 + 1", "x = x * s", "y = y + s", "x[x > 2] = 1.5",
    "n = int(np.argmax(x))", "x = np.roll(x, n)", "n += 1", "y = np.sort(y)", "x = np.fmin(x, 4)",
    "seen.append(s)", "y = np.concatenate([x[:n % 4], y[n % 4:]])", "x = x - x[x > 0].sum() / 8",
    "x = np.clip(x, -9, 9); y = np.clip(y, -9, 9)", "n = len(np.unique(np.sign(x)))",
]  # fmt: skip
TESTS = [
    "x.sum() > 0", "s > 1", "n % 2", "np.any(x > y)", "x[0] > 0 and y[0] < 1", "not (x > 0).all()",
    "max(x[0], x[1]) > y[2]", "abs(s - 1) < 0.5 or n == 0", "np.allclose(x, y)",
]  # fmt: skip


# a short loop in one that data end: long when it is captured, and less so when it is written out
NESTED = [
    "while np.abs(x).max() > 0.7:", "    x = x * 0.75", "    x = x + 1", "    x = x + 1",
    "    for _ in range(3):", "        y = x * 0.5", "        if x[0] > 0 and y[0] < 1:",
    "            break", "    x = x * 0.5", "    x = np.clip(x, -9, 9)", "    left -= 1",
    "    if left < 0:", "        break",
]  # fmt: skip


@st.composite
def blocks(draw: Any, depth: int = 2) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["simple", "simple", "if", "while", "for"]))
        if kind == "simple" or not depth:
            lines.append(draw(st.sampled_from(SIMPLE)))
            continue
        body = textwrap.indent("\n".join(draw(blocks(depth=depth - 1))), "    ").split("\n")
        test = draw(st.sampled_from(TESTS))
        if kind == "if":
            other = textwrap.indent("\n".join(draw(blocks(depth=0))), "    ").split("\n")
            lines += [f"if {test}:", *body, "else:", *other]
        elif kind == "while":
            lines += ["while np.abs(x).max() > 0.7:", "    x = x * 0.75", *body, "    x = x * 0.5",
                      "    x = np.clip(x, -9, 9)", "    left -= 1", "    if left < 0:",
                      "        break"]  # fmt: skip
        else:
            lines += ["for _ in range(3):", *body, f"    if {test}:", "        break"]
    return lines


def compiled(lines: list[str], name: str) -> Any:
    body = ["s, n, left, seen = 1.0, 0, 12, []", *lines, "return x, y, s, n, seen"]
    text = "def f(x, y):\n" + textwrap.indent("\n".join(body), "    ")
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), space)
    return space["f"], text


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
@settings(
    max_examples=examples(16),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
@example(NESTED, 0)
@given(blocks(), st.integers(0, 1000))
def test_random_functions(lines: list[str], seed: int) -> None:
    f, text = compiled(lines, "drawn.py")
    g = minicc.jit(f, threads=1, math="strict")
    rng = np.random.default_rng(seed)
    for _ in range(4):
        args = [np.round(rng.standard_normal(4) * 4) / 2 for _ in range(2)]
        for _ in range(2):
            mine, theirs = [a.copy() for a in args], [a.copy() for a in args]
            with np.errstate(all="ignore"):
                want = f(*theirs)
            got = g(*mine)
            for have, wish in zip((*got[:2], *mine), (*want[:2], *theirs), strict=True):
                np.testing.assert_allclose(have, wish, rtol=1e-9, atol=1e-12, err_msg=text)
            np.testing.assert_allclose([got[2], *got[4]], [want[2], *want[4]], rtol=1e-9)
            assert type(got[2]) is float
            assert got[3] == want[3], text
