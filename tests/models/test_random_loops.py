"""Random functions of nested loops over arrays, masks, lists, dicts and numbers of their own."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.generate.functions.program import loaded
from tests.models.phrases import Phrases, outcome
from tests.models.test_state import same
from tests.sweeps import part

import minicc

PHRASES = Phrases(
    arrays=("a", "b", "c", "x", "M[0]", "M[:, 1]", "M[i % 8]", "d['a']", "a[::-1]"),
    values=("{a}", "{a} + {b}", "{a} - {b}", "{a} * 0.5", "np.tanh({a} * {b})", "np.sin({a})",
            "{a} / (1 + {b} ** 2)", "np.minimum({a}, {b})", "np.clip({a}, -2, 2) * {n}",
            "np.where({a} > {n}, {b}, 0.5)", "np.cumsum({a}) * 0.1", "np.full(8, {n})",
            "np.array([v * 0.5 for v in {a}])", "M @ {a} * 0.1", "np.sort({a})",
            "{a}[np.argsort({b})]", "np.array([{n}] * 8)", "np.concatenate([{a}[4:], {b}[:4]])"),
    numbers=("{a}.sum()", "{a}.mean()", "{a}[2]", "{a}[i % 8]", "{a}[k % 8]", "s", "s * 0.5", "k",
             "i", "j", "float({a}[1])", "{a}.max()", "p.sum()", "len(p)", "len(h)",
             "M[i % 8, j % 8]", "abs(s)", "min(s, 1.5)", "0.25", "d['n']", "h[0]", "h[-1]",
             "p.max(initial=0)"),
    asked=("{n} > 0.4", "{a}[1] > {b}[2]", "i % 3 == 1", "k % 2 == 0", "s > 2", "h", "len(h) > 3",
           "p.any()", "{a}.sum() > 1", "i > 2 and {a}[0] > 0", "j == 1 or s < 0", "k in d"),
    lines=("{a} = {e}", "{a} = {e}", "{a} = {e}", "{a} += {n}", "{a} *= 0.5", "{a}[i % 8] = {n}",
           "{a}[k % 8] += {n}", "{a}[1:5] = {b}[2:6]", "M[i % 8] = {e}", "M[:, j % 8] += {e}",
           "M[i % 8, j % 8] = {n}", "p = {a}[{a} > 0.3]", "p = p * 0.5", "p += {n}", "p *= 0.5",
           "p[p > 1] = 0.5", "p = p[p > 0.2]", "h.append({n})", "h.append({n})", "h.append({e})",
           "h.append(p.sum())", "h = []", "h.append((i, {n}))", "h = [{n}, {n}]", "s += {n}",
           "s = {n}", "s = max(s, {n})", "s = s * 0.5 + {n}", "k += 1", "k = (k * 3 + i) % 11",
           "k = int({n}) % 8", "d['a'] = {e}", "d['n'] += 1", "d[k % 3] = {n}", "a, b = b, a",
           "a, s = {e}, {n}", "q = {a}[2:6]; q += 0.5", "t = {a}; t[0] = 1", "x[i % 8] = s",
           "{a}[{b} > {n}] = {n}", "{a}[{b} > 0.5] += 0.25", "M = M.T", "M = M @ M * 0.01",
           "c = np.cumsum({a}) * 0.1", "k = int(np.argmax({a}))", "u = h[-1] if h else 0",
           "h[0] = {n}", "h.pop()", "h.insert(0, {n})", "s += len(h)", "c = np.array(h[:8])",
           "s += sum(v for v in {a} if v > 0)", "h = [v + i for v in {a}]", "s, k = k, s",
           "w = lambda v: v * s + {a}; c = w({n})", "{a}[:] = {e}", "np.add({a}, {b}, out=c)",
           "r = {a} if {c} else {b}; s += r[0]", "h2 = h; h2.append({n})",
           "g = list(h); h = g[1:]"),
    heads=("if {c}:", "if {c}:", "for i in range(3):", "for i in range(20):", "for i in range(n):",
           "for j in range(i + 1):", "for j in range(12):", "for v in {a}:\n    s += v * 0.1",
           "for j, v in enumerate({a}):", "for v in h[:9]:", "for i in range(5, 0, -1):",
           "COUNT = 0\nwhile COUNT < 9 and ({c}):\n    COUNT += 1",
           "COUNT = 0\nwhile COUNT < 15:\n    COUNT += 1",
           "for u, v in zip({a}, {b}):", "for row in M:", "try:\n    s += 1\nexcept ValueError:"),
    leaving=("if {c}: break", "if {c}: continue", "if {c}: return s, h, k"),
    depth=3,
)  # fmt: skip
RESULTS = ("a", "(a, b)", "h", "(s, k)", "p", "M", "(x, M, d)", "(h, s)", "np.array(h)", "c, h, p")


class _Side:
    """One of two sides that run the same, each with a module of its own."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        lines = [
            "import numpy as np",
            "def f(x, y, n):",
            "    a, b, c = x * 1.0, y.copy(), np.ones(8)",
        ]
        lines += ["    M, p, h, d = np.outer(x, y), x[x > 0.5], [], {'a': x, 'n': 0}"]
        lines += ["    s, k, i, j = 0.0, 0, 0, 0", *PHRASES.block(draw, 1, least=4)]
        self.text = "\n".join([*lines, f"    return {draw.choice(RESULTS)}", ""])
        self.f = loaded(self.text, f"<random loops {seed}>")["f"]

    def call(self, *args: Any) -> Any:
        """The outcome, and the arguments afterwards."""
        return outcome(self.f, *args), args


def check(seed: int) -> None:
    """Run a function beside what `jit` makes of it, on data that change from call to call."""
    mine, theirs = _Side(seed), _Side(seed)
    mine.f = minicc.jit(mine.f, threads=1)
    for k in range(4):
        left, right = (np.random.default_rng(seed + k).normal(size=(2, 8)) for _ in range(2))
        found, wanted = mine.call(*left, 10 + k), theirs.call(*right, 10 + k)
        same(found, wanted, f"seed {seed} at call {k}", {})


@pytest.mark.parametrize("seed", part(range(60), 6))
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_random_functions(seed: int) -> None:
    check(seed)
