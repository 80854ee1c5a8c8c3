"""Random loops that take and set elements of lists and tuples of numbers."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.generate.functions.program import loaded
from tests.models.phrases import Phrases, outcome
from tests.models.test_tables import same
from tests.sweeps import part

import minicc

_KEYS = ("i", "j", "p[i]", "p[j]", "i % 6", "j % 6", "-1 - p[j]", "s % 6", "int(p[i])", "0", "2",
         "w[p[i]] % 6", "(i * j) % 6", "min(i, 5)", "i + 1")  # fmt: skip
PLACES = tuple(f"{x}[{k}]" for x in "wu" for k in _KEYS)
REALS = tuple(f"v[{k}]" for k in _KEYS)
NUMBERS = ("i", "j", "int(p[j])", "p[i]", "s", "3", "len(w)", "T[p[j]]", "T[j % 4]", "m[p[j]][0]",
           "g[p[i]][j % 2]", *PLACES)  # fmt: skip
FLOATS = ("q[i]", "float(q[j])", "0.5", "t", "m[p[i]][1]", *REALS)
ASKED = ("{n} > {a}", "{a} % 2 == 0", "p[i] > 2", "q[i] > 0", "i == j", "s > 5", "F[p[j]]")
LINES = (
    *["{a} = {n} % 7"] * 3, *["{a} = ({a} + {n}) % 11"] * 3, *["{a} += 1"] * 3,
    "s = (s + {n}) % 97", "s += {a}", "t = t * 0.5 + {f}", "{r} = float({f}) * 0.5",
    "{r} = {r} * 0.25 + 1.5",
    "{a}, {b} = {b}, {a}", "x, y = m[{n} % 3]; s += x; t = t * 0.5 + y", "{a} = max({a}, {n}) % 9",
    "{a} = {n}", "w.append(1)", "x = w; x[0] = 5", "s += max(w)", "w = w[::-1]", "v = u",
)  # fmt: skip
HEADS = ("if {c}:", "if {c}:", "if {c}:\n    {a} = {n} % 5\nelse:", "for j in range(3):",
         "for k, j in enumerate(T):", "for y, j in zip(v, u):",
         "for j in range(i, 8, i + 1):")  # fmt: skip


class _Lists(Phrases):
    def filled(self, draw: random.Random, text: str) -> str:
        """A line with floats and places of floats as well."""
        for mark, some in (("{f}", FLOATS), ("{r}", REALS)):
            text = text.replace(mark, draw.choice(some))
        return super().filled(draw, text)


PHRASES = _Lists(PLACES, NUMBERS, NUMBERS, ASKED, LINES, HEADS)


def _drawn(seed: int) -> str:
    draw = random.Random(seed)
    given = draw.random() < 0.3
    lines = ["T = (2, 0, 1, 5, 3, 4)", "F = [True, False, True, True, False, False]", ""]
    lines += [f"def f(p, q{', w' * given}):", "    s, t, j = 0, 0.0, 2"]
    lines += [] if given else ["    w = [3, 1, 4, 1, 5, 9]"]
    lines += ["    u = [0] * 6", "    v = [0.5, 1.5, -1.0, 2.0, 0.25, 0.0]"]
    lines += ["    g = [[1, 2], [3, 4], [5, 6], [7, 8], [9, 0], [2, 4]]"]
    lines += ["    m = [(1, 0.5), (2, 1.5), (3, 2.5), (0, 3.5), (4, 4.5), (5, 5.5)]"]
    lines += [
        draw.choice(
            ("    for i in range(6):", "    for i in range(1, 5):", "    for i in range(20):")
        )
    ]
    lines += PHRASES.block(draw, 2)
    if draw.random() < 0.2:
        lines += [f"        if {PHRASES.filled(draw, draw.choice(ASKED))}:", "            break"]
    result = draw.choice(
        ("w, u, v, s, t", "w, np.array(v), sum(u), max(w), min(v)", "w[2], u[3], v, s")
    )
    return "\n".join([*lines, f"    return {result}", ""])


def check(seed: int) -> None:
    """Run a function beside what `jit` makes of it."""
    f = loaded("import numpy as np\n" + _drawn(seed), f"<random tables {seed}>")["f"]
    jitted = minicc.jit(f, threads=1)
    for k in range(4):
        data = np.random.default_rng(seed + k)
        given = [data.integers(0, 6, 24), data.normal(size=24)]
        lists = [data.integers(0, 9, 6).tolist()] if f.__code__.co_argcount > 2 else []
        mine, theirs = ([*[x.copy() for x in given], *[[*x] for x in lists]] for _ in range(2))
        got, want = outcome(jitted, *mine), outcome(f, *theirs)
        assert same(got, want), f"seed {seed} at call {k}: {got} and not {want}"
        assert same(mine, theirs), f"seed {seed} at call {k}: arguments"


@pytest.mark.parametrize("seed", part(range(40), 6))
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_random_functions(seed: int) -> None:
    check(seed)
