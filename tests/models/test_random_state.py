"""Random functions that change objects, lists and dicts from outside and among their arguments."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
from tests.generate.functions.program import loaded
from tests.models.phrases import Phrases, outcome
from tests.models.test_state import Model, same
from tests.sweeps import part

import minicc

ARRAYS = ("m.w", "m.node.v8", "m.rows[0]", "m.rows[1]", "d['p']", "l[0]", "G['w']", "t")
NUMBERS = ("x.sum()", "m.w.mean()", "x[2]", "m.b", "float(x[1])", "m.count", "m.w[i % 8]", "G['n']",
           "m.rows[1].max()", "len(m.log)", "len(l)")  # fmt: skip
ASKED = ("x[0] > 0.4", "m.w.sum() > 3", "m.count % 2 == 0", "m.b > 1", "i > 2", "m.flag")
VALUES = ("{a}", "x", "({a} + {b})", "({a} - x)", "{a} * 0.5", "np.tanh({a} * {b})", "{a}[::-1]",
          "np.clip({a}, -3, 3) * m.b", "np.sin({a})")  # fmt: skip
LINES = (
    "{a} = {e}", "{a} = {e}", "{a} = {e}", "{a} += 0.5", "{a} *= 0.1 * x", "{a}[1] = {n}",
    "{a}[2:5] = {n}", "{a}[i % 8] = x[1]", "m.count += 1", "m.count += i", "k += 1",
    "m.count = (m.count * 3 + 1) % 11", "m.b = {n} * 0.5", "m.node.s = {n}", "m.b += 0.25",
    "m.log.append({n})", "m.log.append({e})", "m.log = [{n}]", "m.log.extend(l[2])", "t = {a}",
    "m.w, m.node.v8 = m.node.v8, {e}", "step(m, {e})", "o = Node(); o.v = {e}; m.w = o.v + 1",
    "o = Node(); o.v8, o.s, m.node = {e}, {n}, o",
    "m.flag = not m.flag", "m.flag = bool(x[0] > 0.5)", "m.double = m.double + 1", "m.last = {e}",
    "m.last = {n}", "m.last = {a}", "d['n'] += 1", "d['k'] = {n}", "d['h'].append({n})",
    "d.pop('k', 0)", "d.update(z=i)", "d['h'] = []", "d['q'] = {{'a': x}}", "m.held = d",
    "l.append(x)", "l[1] = {n}", "l.extend([1, 2])", "l[2][1] += 1", "del l[-1]", "LOG.append({n})",
    "G['n'] = G['n'] * 2 + i", "k = len(LOG) + len(l)", "m.moved(x)", "m.count = m.twice() + 1",
    "t = m.scaled",
)  # fmt: skip
HEADS = ("if {c}:", "if {c}:", "for i in range(3):", "for i in range(30):")
RESULTS = ("m", "m.w", "(m.w, t)", "m.log", "(m.b, m.count)", "d", "(l, d)", "d['h']", "G", "x",
           "m.rows", "len(m.log)", "m.node", "k", "[m.node, m]", "made(x, m)")  # fmt: skip


class Moved(Model):
    """A model with methods."""

    def __init__(self) -> None:
        super().__init__()
        self.node.v8, self.node.s = np.linspace(1.0, 2.0, 8), 0.5
        self.rows = [np.zeros(8), np.full(8, 0.5)]
        self.last: Any = None

    def moved(self, x: Any) -> None:
        self.count += 1
        self.w = self.w * 0.5 + x
        self.log.append(self.count)

    def twice(self) -> int:
        return self.count * 2

    @property
    def scaled(self) -> Any:
        return self.w * self.b


def _drawn(seed: int) -> str:
    """The text of a module with a function, as a seed draws it."""
    draw = random.Random(seed)
    inner = [line for line in LINES if not line.startswith("step")]
    outer, step = (
        Phrases(ARRAYS, VALUES, NUMBERS, ASKED, lines, HEADS) for lines in (LINES, inner)
    )
    lines = ["def made(v, held):", "    o = Node(); o.v, o.held = v * 2, held", "    return o"]
    lines += ["LOG, G = [1.0], {'w': np.ones(8), 'n': 1}", "def step(m, x):"]
    lines += ["    i, k, t, d, l = 1, 2, m.w, {'p': x, 'n': 0, 'h': []}, [x, 1, [3, 4]]"]
    lines += step.block(draw, 1, 2)
    lines += ["def f(m, d, l, x):", "    i, k, t = 0, 1, m.w", *outer.block(draw, 1, least=3)]
    return "\n".join([*lines, f"    return {draw.choice(RESULTS)}", ""])


class _Side:
    """One of two sides that run the same, each with a module of its own."""

    def __init__(self, seed: int) -> None:
        header = "import numpy as np\nfrom tests.models.test_state import Node\n"
        self.scope = loaded(header + _drawn(seed), f"<random state {seed}>")
        self.f = self.scope["f"]
        self.model = Moved()
        self.given = {"p": np.linspace(0, 1, 8), "n": 2, "h": []}, [np.ones(8), 0.5, [1, 2]]

    def call(self, x: Any) -> Any:
        """The outcome, and everything that may have changed."""
        result = outcome(self.f, self.model, *self.given, x)
        return result, self.model, self.given, x, self.scope["LOG"], self.scope["G"]


def check(seed: int) -> None:
    """Run a function beside what `jit` makes of it, on objects that change from call to call.

    Half of the functions are given other objects each time, which hold what those before held.
    """
    mine, theirs = _Side(seed), _Side(seed)
    mine.f = minicc.jit(mine.f, threads=1)
    for k in range(4 + seed % 2):
        for side in (mine, theirs) if k and seed % 2 else ():
            side.model, side.given = copy.deepcopy((side.model, side.given))
        x, y = (np.random.default_rng(seed + k).normal(size=8) for _ in range(2))
        same(mine.call(x), theirs.call(y), f"seed {seed} at call {k}", {})


@pytest.mark.parametrize("seed", part(range(60), 6))
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_random_functions(seed: int) -> None:
    check(seed)
