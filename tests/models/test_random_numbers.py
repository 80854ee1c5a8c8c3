"""Random functions of arrays and Python numbers, each called with several numbers, against NumPy.

The numbers are arguments, from a closure or of an object; Python computes with them, decides by
them, indexes and loops with them, before and after breaks and within captured loops.
"""

from __future__ import annotations

import math
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_numbers_as_inputs import outcome, same
from tests.sweeps import part

import minicc
from minicc.errors import UnsupportedError

NUMBERS = """t|u|n|p.w|c|t * 2|t + u|n + 1|n * 3|n // 2|n % 3|-t|abs(u)|t / 3|n / 2|max(t, u)|2|0.5
min(n, 2)|round(t, 1)|int(t)|float(n)|math.sqrt(t * t)|math.floor(u)|n ** 2|t - p.w|c * n|n - c
1 / (1 + t * t)|t // 1""".replace("\n", "|").split("|")
STEPS = """x = x * K
x = x + K
x = K - x
x = x / (K + 9.5)
x[0] = K
x[1:3] += K
x = np.where(x > K, x, J)
x = np.maximum(x, K)
x = np.clip(x, K, 50)
x = np.roll(x, n % 4)
x[n % 4] = K
x = x.astype(np.float32) * K
x = np.sort(x) + K
x = x + np.full(4, K)
r.append(K)
r.append(x[:n % 5].sum())
r.append(f'{K:.3f}')
r.append(x.sum() * K)
r.append(isinstance(K, float))
r.append(np.array([K, J]))
r.append(np.sin(K))
r.append(np.unique(np.floor(x))[:1] * K)
t = K
u = K
n = int(K) % 5
if K > J: x = x + 1
if x.sum() > K: x = x - J
for i in range(12): x = x * 0.5 + K
for i in range(n % 3 + 9): x = x + i * K
for i in range(12): t = t + 0.25; x[i % 4] += t
while t < 3 and len(r) < 4: t = t + 1.5; r.append(x + t)""".splitlines()


def program(seed: int) -> tuple[Callable[..., Any], Any, list[tuple[Any, ...]]]:
    """A function, the object it reads, and arguments of its calls."""
    chance = random.Random(seed)
    lines = ["def make(c):", "  def f(x, t, u, n):", "    r = []"]
    for _ in range(chance.randrange(2, 7)):
        step = chance.choice(STEPS)
        first, second = chance.choices(NUMBERS, k=2)
        lines.append("    " + step.replace("K", first).replace("J", second))
    lines += ["    return x, r, t, n", "  def turn(new):", "    nonlocal c", "    c = new",
              "  return f, turn"]  # fmt: skip
    p = types.SimpleNamespace(w=0.0)
    scope: dict[str, Any] = {"np": np, "math": math, "p": p, "__name__": "program"}
    exec("\n".join(lines), scope)
    f, turn = scope["make"](1)
    kind = chance.choice(["f8", "f8", "f4", "i8", "i4"])
    calls = []
    for _ in range(7):
        x = np.array([chance.randrange(-3, 9) for _ in range(4)], kind)
        numbers = chance.choice([0.5, 1.25, -2.5, 3.0]), chance.random() * 4 - 2
        others = chance.randrange(6), chance.choice([1, 1, 2, 5]), chance.random()
        calls.append((x, *numbers, *others))

    def call(g: Callable[..., Any], x: Any, *rest: Any) -> Any:
        *numbers, c, w = rest
        turn(c)
        p.w = w
        return outcome(g, x, *numbers)

    return f, call, calls


def tried(seed: int) -> list[Any]:
    """The calls of one program whose outcomes differ."""
    f, call, calls = program(seed)
    compiled = minicc.jit(f, threads=1)
    found: list[Any] = []
    for x, *rest in calls:
        mine, theirs = x.copy(), x.copy()
        got, want = call(compiled, mine, *rest), call(f, theirs, *rest)
        if isinstance(got, UnsupportedError):
            return []
        if not same(want, got) or not same(theirs, mine):
            found.append((x, rest, want, got))
    return found


@pytest.mark.parametrize("seed", part(range(25), 6))
def test_random_numbers(seed: int) -> None:
    assert tried(seed) == []
