"""Random functions of functions and objects that each call makes anew, some of them one."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.generate.functions.program import loaded
from tests.models.phrases import outcome
from tests.models.test_state import Node, same
from tests.sweeps import part

import minicc


class Part(Node):
    """An object with a part, a counter and a list."""

    def __init__(self, a: Any, b: Any, part: Any = None) -> None:
        self.a, self.b, self.part = a, b, part
        self.count = 0
        self.log: list[Any] = []

    def scaled(self, x: Any) -> Any:
        return x * self.b + self.a

    def counted(self, x: Any) -> Any:
        self.count += 1
        return x + self.count


def _function(draw: random.Random, depth: int = 0) -> Callable[[Any], Any]:
    """A function with a number, an array, an object, a text or other functions in it."""
    c, v = draw.choice([1.0, 2.5, 3, -1]), np.random.default_rng(draw.randint(0, 9)).normal(size=5)
    flag, part = draw.random() < 0.5, Part(v, c)

    def with_defaults(x: Any, s: Any = c, *, u: Any = v) -> Any:
        return x * s - u

    def composed() -> Callable[[Any], Any]:
        first, then = (_function(draw, depth + 1) for _ in range(2))
        return lambda x: then(first(x))

    made: list[Callable[[Any], Any]] = [
        lambda x: x * c + 1, lambda x: x + v, lambda x: part.scaled(x), part.scaled, part.counted,
        functools.partial(lambda x, s, t=2: x * s + t, s=c), with_defaults,
        lambda x: x * 2 if flag else x - 1,
    ]  # fmt: skip
    return composed() if depth < 2 and draw.random() < 0.15 else draw.choice(made)


LINES = (
    "y = f(x)", "y = f(f(x))", "y = f(x) + g(x)", "y = (f is g) * 1.0 + g(x)",
    "y = x\n    for i in range(12):\n        y = np.tanh(f(y))", "y = p.scaled(f(x))",
    "p.a = f(p.a)\n    y = p.a.sum() + x", "p.count += 1\n    y = g(x) * p.count",
    "p.log.append(f(x).sum())\n    y = x * p.log[-1]",
    "y = p.part.scaled(x) if p.part is not None else f(x)",
    "p.part = Part(f(x), 2.0)\n    y = p.part.a + x", "p.b = p.b * 0.5\n    y = p.scaled(x)",
    "y = x\n    for h in (f, g, f):\n        y = h(y)", "y = {'k': f(x), 'p': p}",
    "y = Part(f(x), p.b, p)", "p.a += 1.0\n    y = g(p.a)", "y = p.counted(x) + p.counted(x)",
    "y = [Part(x, i) for i in range(3)]", "p.a[1:3] = f(x)[:2]\n    y = p.a * 2",
)  # fmt: skip


def _given(draw: random.Random, call: int) -> tuple[Any, ...]:
    """What a call is given: two functions, which may be one, an object and an array."""
    f = _function(draw)
    g = f if draw.random() < 0.3 else _function(draw)
    a, x = (np.random.default_rng(call + k).normal(size=5) for k in (0, 7))
    part = Part(np.full(5, 1.0 + call), 2.0) if draw.random() < 0.5 else None
    return f, g, Part(a, 1.5 + draw.randint(0, 3), part), x


def check(seed: int) -> None:
    """Run a function beside what `jit` makes of it, for functions of alike code and of other."""
    draw = random.Random(seed)
    body = "\n    ".join(draw.choice(LINES) for _ in range(draw.randint(1, 3)))
    header = "import numpy as np\nfrom tests.models.test_random_arguments import Part\n"
    text = f"{header}def step(f, g, p, x):\n    {body}\n    return y\n"
    step = loaded(text, f"<random arguments {seed}>")["step"]
    jitted = minicc.jit(step, threads=1)
    kinds = [draw.choice([seed, seed, draw.random()]) for _ in range(5)]
    for call, kind in enumerate(kinds):
        mine, theirs = (_given(random.Random(kind), call) for _ in range(2))
        got, want = outcome(jitted, *mine), outcome(step, *theirs)
        same((got, mine[2:]), (want, theirs[2:]), f"seed {seed} at call {call}", {})


@pytest.mark.parametrize("seed", part(range(60), 6))
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_random_functions(seed: int) -> None:
    check(seed)
