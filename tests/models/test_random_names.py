"""Random functions in which names share arrays before loops, in them and after them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.generate.functions.program import loaded
from tests.sweeps import part

import minicc

FIRST = ("x", "y", "x * 1.0", "y + 1", "x[1:]", "x[:-1]", "y[::-1]", "M[1]", "M[:, 0]")
BOUND = ("{a} * 0.5", "{b} * 0.5", "np.sin({a})", "{b} - 0.1", "{b}", "{b}", "{b}[:]", "{b}[::-1]")
KEPT = ("{a} = {e}", "{a} = {e}", "{a}, {b} = {b}, {a}", "{a}[n % 3] = s", "{a} *= 0.9", "s *= 0.9")
ASKED = ("s > 0.5", "{b}[0] > 0.3", "n % 2 == 0", "{a}[1] < s")
HEADS = ("while s > 0.3:", "while {a}[0] > 0.4 and n < 25:", "for _ in range(12):", "for _ in x:")
WRITES = ("{a}[0] = 5.0", "{a} *= 2", "x[1:3] = s", "np.add({a}, 1, out={a})", "M[1] = 7", "y += 1")


class _Growth:
    """The lines of a function, as a seed draws them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.names = ["a", "b", "c"]
        lines = ["def f(x, y):", "    s, n, M = x[0] * 1, 0, np.outer(y, x)"]
        for k, name in enumerate(self.names):
            lines.append(f"    {name} = {self.draw.choice([*FIRST, *self.names[:k] * 3])}")
        for _ in range(self.draw.choice([1, 1, 2])):
            lines += self.loop()
            if self.draw.random() < 0.7:
                lines.append(f"    {self.filled(WRITES)}")
        left = ", ".join(self.draw.sample(self.names, self.draw.randint(1, 3)))
        self.text = "\n".join([*lines, f"    return {left}, n", ""])

    def filled(self, texts: tuple[str, ...]) -> str:
        a, b = self.draw.choice(self.names), self.draw.choice(self.names)
        bound = self.draw.choice(BOUND).format(a=a, b=b)
        return self.draw.choice(texts).format(a=a, b=b, e=bound)

    def loop(self) -> list[str]:
        parts = [[f"        {self.filled(KEPT)}"] for _ in range(self.draw.randint(1, 3))]
        if self.draw.random() < 0.5:
            asked = self.filled(ASKED)
            parts.append([f"        if {asked}:", f"            {self.filled(KEPT[:2])}"])
        if self.draw.random() < 0.5:
            parts.append([f"        if {self.filled(ASKED)}:", "            break"])
        parts += [["        s = s * 0.7"], ["        n += 1"]]
        self.draw.shuffle(parts)
        return [f"    {self.filled(HEADS)}", *[line for part in parts for line in part]]


def told(f: Callable[..., Any], x: Any, y: Any) -> tuple[list[Any], list[list[bool]]]:
    """What a function leaves of its arrays and arguments, and which of them share memory."""
    arrays = [v for v in f(x, y) if isinstance(v, np.ndarray)] + [x, y]
    return arrays, [[np.shares_memory(a, b) for a in arrays] for b in arrays]


@pytest.mark.parametrize("seed", part(range(40), 6))
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_arrays_and_what_they_share(seed: int) -> None:
    text = _Growth(seed).text
    name = f"<random names {seed}>"
    scope = loaded(f"import numpy as np\n{text}", name)
    jitted = minicc.jit(scope["f"], threads=1)
    draw = np.random.default_rng(seed)
    for scale in 1.0, 0.1, 1.0:
        x, y = draw.uniform(0.2, 1.2, 6) * scale, draw.uniform(0.1, 1.1, 6) * scale
        want = told(scope["f"], x.copy(), y.copy())
        have = told(jitted, x.copy(), y.copy())
        assert have[1] == want[1], text
        for a, b in zip(want[0], have[0], strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12, err_msg=text)
