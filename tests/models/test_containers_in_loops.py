"""Places of dicts and lists that loops set, and lists in them that loops append to."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.generate.functions.program import loaded
from tests.models.test_lists_read_back import compare, data
from tests.sweeps import part

Function = Callable[..., Any]
CAPTURED: list[Function] = []
OTHERS: list[Function] = []


@CAPTURED.append
def history(x: Any) -> Any:
    kept: dict[str, Any] = {"loss": [], "size": [0.0], "name": "a"}
    w = x * 1.0
    for _ in range(20):
        w = w * 0.9
        kept["loss"].append(np.mean(w))
        kept["size"].append(float(len(w)))
    return w, kept


@CAPTURED.append
def parameters(x: Any) -> Any:
    p = {"w": x * 1.0, "b": x[0] * 0, "n": 0, "fixed": x}
    for _ in range(20):
        error = p["w"] * p["fixed"] + p["b"] - 1
        p["w"] = p["w"] - 0.1 * error
        p["b"] -= 0.1 * error.mean()
        p["n"] += 1
    return p


@CAPTURED.append
def of_layers(x: Any) -> Any:
    layers = [{"w": x * k} for k in (1.0, 2.0)]
    momentum = [x * 0, x * 0]
    for _ in range(20):
        for k, layer in enumerate(layers):
            momentum[k] = 0.9 * momentum[k] + np.sin(layer["w"])
            layer["w"] = layer["w"] - 0.1 * momentum[k]
    return layers, momentum


@CAPTURED.append
def the_best(x: Any) -> Any:
    best = {"value": np.inf, "at": -1}
    for i in range(len(x)):
        if x[i] < best["value"]:
            best["value"] = x[i]
            best["at"] = i
    return best


@CAPTURED.append
def until_it_is_small(x: Any) -> Any:
    state = {"v": x * 1.0, "steps": 0}
    while np.abs(state["v"]).max() > 0.1:
        state["v"] = state["v"] * 0.8
        state["steps"] += 1
    return state["v"], state


@CAPTURED.append
def exchanged(x: Any) -> Any:
    p = [x[0] * 1, x[1] * 1]
    for i in range(20):
        p[0], p[1] = p[1] + x[i], p[0] * 0.5
    return p


def _step(p: Any, x: Any) -> Any:
    w, b, n = p
    error = w * x + b - 1
    return w - 0.1 * error, b - 0.1 * error.mean(), n + 1


@CAPTURED.append
def tuples_of_a_step(x: Any) -> Any:
    p = (x * 1.0, x[0] * 0, 0)
    for _ in range(20):
        p = _step(p, x)
    return p


@CAPTURED.append
def lists_of_layers(x: Any) -> Any:
    w = [x, x * 2.0, x[1:] * 1.0]
    for _ in range(20):
        w = [e - 0.1 * np.sin(e) for e in w]
    return w


@CAPTURED.append
def tuples_until_they_are_small(x: Any) -> Any:
    p = (x, x[::-1] * 1.0)
    while np.abs(p[0]).max() > 0.1:
        p = (p[1] * 0.8, p[0] * 0.7)
    return p


@CAPTURED.append
def tuples_that_a_condition_keeps(x: Any) -> Any:
    best, least = (x * 0, x[0]), np.inf
    for i in range(len(x)):
        if x[i] < least:
            least = x[i]
            best = (x * i, x[i])
    return best, least


@OTHERS.append
def a_list_that_a_condition_keeps(x: Any) -> Any:
    first = [x * 1.0, x * 2.0]
    w = first
    for i in range(12):
        if x[i] > 5:
            w = [w[0] * 0.5, w[1]]
    w[0] = x
    return w, first


@OTHERS.append
def a_tuple_that_shares(x: Any) -> Any:
    p = (x * 1.0, x * 2.0)
    for _ in range(12):
        v = p[0]
        p = (p[1], v)
    p[0][0] = 7
    v[1] = 8
    return p, v


@OTHERS.append
def a_new_key(x: Any) -> Any:
    p: dict[str, Any] = {}
    for i in range(12):
        p["v"] = x * i
        p[f"k{i % 3}"] = x[i]
    return p


@OTHERS.append
def another_name_of_a_list(x: Any) -> Any:
    kept: dict[str, Any] = {"loss": []}
    known = kept["loss"]
    for i in range(20):
        kept["loss"].append(x[i])
    return kept, known, len(known)


@OTHERS.append
def read_as_a_whole(x: Any) -> Any:
    kept: dict[str, Any] = {"loss": [1.0]}
    for i in range(20):
        kept["loss"].append(x[i] * np.mean(kept["loss"]))
    return kept


@OTHERS.append
def a_name_in_a_round(x: Any) -> Any:
    kept: dict[str, Any] = {"loss": [1.0]}
    for i in range(20):
        known = kept["loss"]
        known.append(x[i])
    return kept, known


@OTHERS.append
def arrays_that_share(x: Any) -> Any:
    p = {"a": x * 1.0, "b": x * 2.0}
    for i in range(12):
        p["a"], p["b"] = p["b"], p["a"]
        p["a"][0] += i
    v = p["a"]
    v[1] = 7
    return p, v


@pytest.mark.parametrize("f", CAPTURED, ids=lambda f: f.__name__)
def test_loops_are_captured(f: Function) -> None:
    told = compare(f, *map(data, range(3)), data(4, 33), data(5, 35)).explain()
    assert told.loops
    assert all("a loop of the graph" in text for text in told.loops), told.loops


@pytest.mark.parametrize("f", OTHERS, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_other_containers_are_as_in_numpy(f: Function) -> None:
    compare(f, *map(data, range(3)), data(4, 33))


FIRST = ("x * 1.0", "x", "x[1:]", "x[0] * 1", "0.5", "0", "x[::-1]", "p['a']", "x[1]")
VALUES = (
    "{a} * 0.5",
    "t[0]",
    "w[1]",
    "{a} + {b}",
    "{b}",
    "{b}",
    "np.sin({a})",
    "s",
    "n",
    "x[n % 5]",
    "{a} - s",
)
SETS = ("{a} = {e}", "{a} = {e}", "{a} = {e}", "{a}, {b} = {b}, {a}", "{a} += s", "{a} *= 0.9",
        "v = {e}", "{a} = v", "h['l'].append({e})", "h['l'].append(s)", "q[0] = {e}",
        "t = ({e}, t[0])", "t = (t[1], t[0])", "t = (t[0] * 0.9, {a})", "v = t[0]", "v = w[1]",
        "w = [e * 0.9 for e in w]", "w = [w[1], w[0] * 0.5]", "w = [{a} * 1, w[0]]")  # fmt: skip
ASKED = ("s > 0.5", "np.sum({a}) > 2", "n % 2 == 0", "np.sum({a}) < np.sum({b}) - 0.01")
HEADS = ("while s > 0.2:", "while np.sum({a}) > 0.5 and n < 30:", "for _ in range(24):",
         "for e in x:")  # fmt: skip


class _Growth:
    """The lines of a function, as a seed draws them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.places = ["p['a']", "p['b']", "q[1]", "v"]
        lines = [
            "def f(x):",
            "    s, n, h = x[0] * 1, 0, {'l': []}",
            f"    p = {{'a': {self.first()}}}",
        ]
        lines += [f"    p['b'] = {self.first()}", f"    q = [{self.first()}, {self.first()}]"]
        lines += [f"    v = {self.first()}", f"    t = ({self.first()}, {self.first()})"]
        lines += [f"    w = [{self.first()}, {self.first()}]", f"    {self.filled(HEADS)}"]
        parts = [[f"        {self.filled(SETS)}"] for _ in range(self.draw.choice((1, 2, 3)))]
        if self.draw.random() < 0.5:
            parts.append([f"        if {self.filled(ASKED)}:", f"            {self.filled(SETS)}"])
        if self.draw.random() < 0.3:
            parts.append([f"        if {self.filled(ASKED)}:", "            break"])
        parts += [["        s = s * 0.9"], ["        n += 1"]]
        self.draw.shuffle(parts)
        lines += [line for part in parts for line in part]
        if self.draw.random() < 0.4:
            lines.append(f"    {self.filled(('{a}[...] = 3', 'x *= 2', '{a} *= 2'))}")
        self.text = "\n".join([*lines, "    return p, q, v, h, s, n, t, w", ""])

    def first(self) -> str:
        return self.draw.choice(FIRST[:7])

    def filled(self, texts: tuple[str, ...]) -> str:
        a, b = self.draw.choice(self.places), self.draw.choice(self.places)
        value = self.draw.choice(VALUES).format(a=a, b=b)
        return self.draw.choice(texts).format(a=a, b=b, e=value)


def check(seed: int) -> Any:
    text = _Growth(seed).text
    name = f"<random containers {seed}>"
    scope = loaded(f"import numpy as np\n{text}", name)
    draw = np.random.default_rng(seed)
    return compare(scope["f"], *[draw.uniform(0.2, 1.2, 24) * scale for scale in (1.0, 0.1, 1.0)])


@pytest.mark.parametrize("seed", part(range(30), 6))
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_random_functions(seed: int) -> None:
    check(seed)
