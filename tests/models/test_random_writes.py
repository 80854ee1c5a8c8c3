"""Random loops that write elements and rows, some of them twice, and read old and new ones."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.generate.functions.program import loaded
from tests.models.phrases import Phrases, outcome
from tests.sweeps import part

import minicc

PLACES = ("a[i, j]", "a[i, j]", "a[i, j]", "a[i - 1, j]", "b[j]", "b[j]", "a[i, j - 1]")
READS = (*PLACES, "a[i - 1, j - 1]", "a[i + 1, j]", "a[i, max(j - w[i], 0)]", "w[i]", "w[j]",
         "a[i - 1, max(j - w[i], 0)]", "b[j - 1]", "a[w[j], j]", "b[w[i]]", "s")  # fmt: skip
ASKED = ("w[i] <= j", "{n} > {a}", "{n} % 2 == 0", "j % 3 == 0", "i == j", "s > 5")
LINES = (*["{a} = {n} + {b}"] * 4, *["{a} += {n}"] * 2, "s = (s + {n}) % 97", "a[i] = a[i - 1] + b",
         "b[:] = a[i]", "a[i, 1:] = a[i, :-1]", "b += a[i - 1]", "a[i, j:] = {n}",
         "a[:, j] = b[0]", "b = a[i] * 2 - b")  # fmt: skip
HEADS = ("if {c}:", "if {c}:", "if {c}:\n    {a} = {n}\nelse:")
PHRASES = Phrases(PLACES, READS, READS, ASKED, LINES, HEADS)


def _drawn(seed: int) -> str:
    draw = random.Random(seed)
    lines = ["def f(a, b, w):", "    s, j = 0, 2", "    for i in range(1, len(a) - 1):"]
    lines += PHRASES.block(draw, 2, 1) if draw.random() < 0.3 else []
    lines += ["        for j in range(1, a.shape[1]):", *PHRASES.block(draw, 3)]
    return "\n".join([*lines, "    return a, b, s", ""])


def check(seed: int) -> None:
    """Run a function beside what `jit` makes of it."""
    f = loaded("import numpy as np\n" + _drawn(seed), f"<random writes {seed}>")["f"]
    jitted = minicc.jit(f, threads=1)
    for k in range(4):
        data = np.random.default_rng(seed + k)
        given = [data.integers(0, 9, s) for s in ((14, 12), (12,))] + [data.integers(0, 11, 14)]
        mine, theirs = ([x.copy() for x in given] for _ in range(2))
        got, want = outcome(jitted, *mine), outcome(f, *theirs)
        for x, y in zip(_parts(got, mine), _parts(want, theirs), strict=True):
            np.testing.assert_array_equal(x, y, f"seed {seed} at call {k}")


def _parts(result: Any, given: list[Any]) -> list[Any]:
    return [*(result if isinstance(result, tuple) else [str(result)]), *given]


@pytest.mark.parametrize("seed", part(range(40), 6))
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_random_functions(seed: int) -> None:
    check(seed)
