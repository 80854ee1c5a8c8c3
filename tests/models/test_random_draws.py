"""Random functions that draw random numbers, against NumPy: results, arguments, and generators."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_numbers_as_inputs import outcome, same
from tests.sweeps import part

import minicc
from minicc.frontends.trace.draws import worth

NEW = """rng.random()|rng.normal()|rng.uniform(-1, 1)|rng.uniform(a, 3)|rng.normal(a, 0.5)
rng.exponential(2.0)|rng.integers(3)|rng.integers(-2, 5)|rng.standard_normal()|rng.choice(x)
rng.choice(4)|rng.standard_exponential()|rng.integers(0, n + 1)|rng.normal(x[0], abs(a))
rng.choice([0.5, 2.0], p=[0.25, 0.75])""".replace("\n", "|").split("|")
_OLD = """rng.rand()|rng.randn()|rng.uniform(-1, 1)|rng.normal(a, 0.5)|rng.exponential(2.0)
rng.randint(3)|rng.randint(-2, 5)|rng.standard_normal()|rng.choice(x)|rng.choice(4)
rng.randint(0, n + 1)|rng.random_sample()|rng.choice([0.5, 2.0], p=[0.25, 0.75])"""
OLD = _OLD.replace("\n", "|").split("|")
STEPS = """a = a * 0.5 + D
b = max(a, D)
x[K] = D
x[n % 6] += D
n += 1
n = (n + k) % 5
out.append(D)
out.append(x[1:3] * D)
if D < Q: a = a * 0.5
if D < Q or D > b: x = x + D
if a > Q: n = 2
x = x + V
rng.shuffle(x)
x = rng.permutation(x)
b = (x * V).sum()
x[:V.size] *= V
x = np.sort(x)
a = np.tanh(x.sum()) + D""".splitlines()
ARRAYS = {
    True: ["rng.random(6)", "rng.normal(size=6)", "rng.integers(0, 4, 6)", "rng.uniform(x, x + 1)"],
    False: ["rng.rand(6)", "rng.randn(6)", "rng.randint(0, 4, 6)", "rng.standard_normal(6)"],
}
HEADS = [
    "for k in range(12):",
    "for k in range(n):",
    "for v in x:",
    "while a < 2 and n < 30:",
    "while D > 0.3:",
]


def program(seed: int) -> tuple[str, bool]:
    """A function of an array and a generator, and whether that is a new one."""
    chance = random.Random(seed)
    new = chance.random() < 0.7

    def statement(indent: int) -> list[str]:
        room = "  " * indent
        if indent < 3 and chance.random() < 0.4:
            head = chance.choice(HEADS)
            body = [line for _ in range(chance.randrange(1, 4)) for line in statement(indent + 1)]
            if head.startswith("while a"):
                body += [
                    f"{room}  a += abs({chance.choice(NEW if new else OLD)})",
                    f"{room}  n += 1",
                ]
            return [room + filled(head), *body]
        return [room + filled(chance.choice(STEPS))]

    def filled(line: str) -> str:
        while "D" in line:
            line = line.replace("D", chance.choice(NEW if new else OLD), 1)
        line = line.replace("V", chance.choice(ARRAYS[new]))
        return line.replace("Q", str(chance.choice([0.1, 0.5, 0.8]))).replace(
            "K", str(chance.randrange(6))
        )

    lines = ["def f(x, rng):", "  a, b, n, k, out = 0.0, 1.0, 3, 1, []"]
    for _ in range(chance.randrange(2, 6)):
        lines += statement(1)
    return "\n".join([*lines, "  return a, b, x, out, n"]), new


def tried(seed: int) -> list[Any]:
    """What differs in some calls of one program."""
    text, new = program(seed)
    scope: dict[str, Any] = {"np": np, "__name__": "program"}
    exec(text, scope)
    f: Callable[..., Any] = scope["f"]
    compiled = minicc.jit(f, threads=1)
    make: Any = np.random.default_rng if new else np.random.RandomState
    ours, theirs = make(seed), make(seed)
    found: list[Any] = []
    for call in range(4):
        x = np.random.default_rng(call).random(6)
        mine, other = x.copy(), x.copy()
        got, want = outcome(compiled, mine, ours), outcome(f, other, theirs)
        if not same(want, got) or not same(other, mine):
            found.append((call, want, got))
        if repr(state(ours)) != repr(state(theirs)):
            found.append((call, "the generators differ"))
            break
    return found


def state(generator: Any) -> Any:
    """What a generator holds."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    held = generator.get_state(legacy=False)
    return {**held, "state": (held["state"]["key"].tobytes(), held["state"]["pos"])}


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
@pytest.mark.parametrize("seed", part(range(12), 4))
def test_random_draws(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worth, "SOON", 0)
    assert tried(seed) == []
