"""Objects and functions as arguments: calls with others of the class or code share programs."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.errors import PerformanceWarning

V = np.arange(6.0)
CONFIG: dict[str, Any] = {"lr": 0.1, "deep": {"k": [1.0, 2.0]}, "name": "a"}
LARGE = 300  # elements of an array that is no constant of a program


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    """Fail where NumPy runs a function."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", PerformanceWarning)
        yield


@dataclass
class State:
    x: np.ndarray
    v: np.ndarray
    t: float = 0.0
    steps: int = 0


@dataclass(frozen=True)
class Spring:
    k: float
    mode: str = "linear"


class Node:
    __slots__ = ("a", "child")

    def __init__(self, a: Any, child: Any = None) -> None:
        self.a = a
        self.child = child


class Layer:
    def __init__(self, seed: int, n: int, m: int) -> None:
        self.w, self.b = _normal(seed, n, m), _normal(seed + 1, m)
        self.act = "relu"

    def __call__(self, x: Any) -> Any:
        z = x @ self.w + self.b
        return np.maximum(z, 0) if self.act == "relu" else np.tanh(z)


@dataclass
class Net:
    layers: list[Layer]
    calls: int = 0
    last: Any = None
    seen: list[float] = field(default_factory=list)

    def forward(self, x: Any) -> Any:
        self.calls += 1
        for layer in self.layers:
            x = layer(x)
        self.last = x
        self.seen.append(float(x.sum()))
        return x


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def _state(seed: int, n: int = 6) -> State:
    return State(_normal(seed, n), _normal(seed + 1, n), 0.1 * seed, seed)


def _net(seed: int) -> Net:
    return Net([Layer(seed, 5, 40), Layer(seed + 3, 40, 30), Layer(seed + 6, 30, 2)])


def _told(x: Any, seen: dict[int, int]) -> Any:
    """What a result or argument is, with which parts are one object."""
    if isinstance(x, (float, np.floating)):
        return type(x).__name__, float(np.round(x, 9))
    if isinstance(x, (int, str, type(None))):
        return type(x).__name__, x
    if id(x) in seen:
        return "as", seen[id(x)]
    seen[id(x)] = len(seen)
    if isinstance(x, np.ndarray):
        return x.dtype.name, np.round(x, 9).tolist()
    if isinstance(x, (list, tuple)):
        return type(x).__name__, [_told(v, seen) for v in x]
    names = [*getattr(type(x), "__slots__", ()), *getattr(x, "__dict__", ())]
    return type(x).__name__, [(n, _told(getattr(x, n), seen)) for n in names]


def _check(f: Callable[..., Any], calls: Sequence[tuple[Any, ...]], traces: int) -> None:
    jitted = minicc.jit(f)
    for args in calls:
        theirs = copy.deepcopy(args)
        want, got = f(*theirs), jitted(*args)
        kept: dict[int, int] = {}
        here: dict[int, int] = {}
        assert _told([args, got], here) == _told([theirs, want], kept)
    assert f"was traced {traces} time" in str(jitted.explain())


def _step(s: State, spring: Spring, dt: float) -> State:
    a = -spring.k * s.x
    if spring.mode == "stiff":
        a = a * (1 + s.x**2)
    v = s.v + a * dt
    return State(s.x + v * dt, v, s.t + dt, s.steps + 1)


def _step_in_place(s: State, spring: Spring, dt: float) -> None:
    s.v += -spring.k * s.x * dt
    s.x += s.v * dt
    s.t += dt
    s.steps += 1


@pytest.mark.parametrize("f", [_step, _step_in_place])
@pytest.mark.parametrize("n", [6, LARGE])
def test_a_state_that_each_call_makes_anew(f: Callable[..., Any], n: int) -> None:
    _check(f, [(_state(k, n), Spring(1.0 + k), 0.01) for k in range(6)], 2)


def test_steps_feed_each_other() -> None:
    jitted = minicc.jit(_step)
    mine = theirs = _state(3)
    for _ in range(20):
        mine, theirs = jitted(mine, Spring(2.0), 0.01), _step(theirs, Spring(2.0), 0.01)
    assert type(mine) is State
    assert _told(mine, {}) == _told(theirs, {})
    assert "was traced 2 times" in str(jitted.explain())


def test_attributes_that_decide() -> None:
    modes = ["linear", "linear", "stiff", "linear", "stiff"]
    _check(_step, [(_state(k), Spring(1.0 + k, m), 0.01) for k, m in enumerate(modes)], 3)


def test_objects_in_objects_and_lists() -> None:
    def forward(net: Net, x: Any) -> Any:
        return net.forward(x)

    _check(forward, [(_net(k), _normal(k, 4, 5)) for k in range(5)], 2)


def test_objects_in_arguments_of_other_kinds() -> None:
    def total(parts: Any, named: Any) -> Any:
        made = parts[0].x + parts[1][0].x * named["one"].k
        named["two"].t = 3.0
        return made

    def call(k: int) -> tuple[Any, ...]:
        named = {"one": Spring(1.0 + k), "two": _state(k + 2)}
        return [_state(k), (_state(k + 1),)], named

    _check(total, [call(k) for k in range(5)], 2)


def test_methods_of_several_objects() -> None:
    class Scaled:
        def __init__(self, k: int) -> None:
            self.w, self.calls = _normal(k, LARGE), 0

        @minicc.jit
        def times(self, x: Any) -> Any:
            self.calls += 1
            return self.w * x

        def plain(self, x: Any) -> Any:
            return self.w * x

    def twice(f: Callable[[Any], Any], x: Any) -> Any:
        return f(f(x))

    x = _normal(9, LARGE)
    several = [Scaled(k) for k in range(5)]
    for one in [*several, *several]:
        np.testing.assert_array_equal(one.times(x), one.w * x)
    assert [one.calls for one in several] == [2] * 5
    jitted = minicc.jit(twice)
    for one in several:
        np.testing.assert_allclose(jitted(one.plain, x), one.w * (one.w * x))
    assert "was traced 1 time" in str(jitted.explain())


def _add_to_first(a: Any, b: Any) -> Any:
    a.x += 1.0
    a.t = 7.0
    return b.x.sum() + b.t


def _which(a: Any, b: Any) -> Any:
    return a.x * 1.0 if a is b else b.x * 3.0


@pytest.mark.parametrize("f", [_add_to_first, _which])
@pytest.mark.parametrize("one", [[0, 0, 1, 0, 1], [1, 1, 0, 0, 1]])
def test_two_arguments_that_may_be_one_object(f: Callable[..., Any], one: list[int]) -> None:
    def pair(k: int) -> tuple[Any, Any]:
        a = _state(k, LARGE)
        return (a, a) if one[k] else (a, _state(k + 50, LARGE))

    jitted = minicc.jit(f)
    for k in range(len(one)):
        a, b = pair(k)
        c, d = copy.deepcopy((a, b))
        np.testing.assert_allclose(jitted(a, b), f(c, d))
        assert _told([a, b], {}) == _told([c, d], {})


@pytest.mark.parametrize("one", [[0, 0, 1, 0, 1], [1, 1, 0, 0, 1]])
def test_two_objects_that_may_share_an_array(one: list[int]) -> None:
    warnings.simplefilter("ignore", PerformanceWarning)  # which is so where they do at first
    jitted = minicc.jit(_add_to_first)
    for k, shared in enumerate(one):
        a, b = _state(k, LARGE), _state(k + 50, LARGE)
        b.x = a.x if shared else b.x
        c, d = copy.deepcopy((a, b))
        np.testing.assert_allclose(jitted(a, b), _add_to_first(c, d))
        assert _told([a, b], {}) == _told([c, d], {})


def test_an_argument_that_may_be_an_object_from_outside() -> None:
    outside = _state(1, LARGE)

    def copies(a: Any) -> Any:
        outside.x[:] = a.x * 2
        return a.x + outside.x

    jitted = minicc.jit(copies)
    for a in [_state(2, LARGE), _state(3, LARGE), outside, _state(4, LARGE), outside]:
        x = a.x.copy()
        np.testing.assert_array_equal(jitted(a), (4 if a is outside else 3) * x)
        np.testing.assert_array_equal(outside.x, 2 * x)


def test_parts_that_are_other_objects_or_none() -> None:
    def child_of(n: Node) -> Any:
        n.child.a = n.child.a * 2 + n.a
        return n.child.a.sum()

    def both(n: Node) -> Any:
        n.a = n.a + 1
        return n.child, n

    def node(k: int, kind: str) -> Node:
        made = Node(_normal(k, LARGE), Node(_normal(k + 1, LARGE)))
        made.child = {"itself": made, "none": None}.get(kind, made.child)
        return made

    kinds = ["node", "node", "itself", "node", "itself"]
    _check(child_of, [(node(k, kind),) for k, kind in enumerate(kinds)], 3)
    kinds = ["node", "itself", "none", "node", "none", "itself"]
    _check(both, [(node(k, kind),) for k, kind in enumerate(kinds)], 3)


def test_results_hold_objects_that_the_function_made() -> None:
    def halves(x: Any) -> Any:
        lower = Node(x[: len(x) // 2] * 2.0)
        upper = Node(x[len(x) // 2 :] * 3.0, lower)
        return {"upper": upper, "both": [lower, upper]}

    def pair(x: Any) -> Any:
        return Node(x * 2.0, Node(float(x[0]), Node("leaf")))

    def shared(x: Any) -> Any:
        lower = Node(x * 2.0)
        return [lower, Node(x + 1.0, lower), lower]

    _check(pair, [(_normal(k, 5),) for k in range(3)], 1)
    _check(shared, [(_normal(k, 5),) for k in range(3)], 1)
    _check(halves, [(_normal(k, 6),) for k in range(3)], 1)


def test_results_of_other_classes() -> None:
    class Moments(SimpleNamespace):
        pass

    def moments(x: Any) -> Any:
        return SimpleNamespace(mean=x.mean(), rest=Moments(var=x.var(), n=len(x)))

    def frozen(x: Any) -> Any:
        return Spring(x.sum(), "made")

    _check(frozen, [(_normal(k, 6),) for k in range(3)], 1)
    _check(moments, [(_normal(k, 6),) for k in range(3)], 1)


def test_one_object_that_is_left_to_numpy() -> None:
    def f(s: State, x: Any) -> Any:
        return {1, float(x[1])} if s.steps else s.x * x

    jitted = minicc.jit(f)
    with pytest.warns(PerformanceWarning, match="returns a builtins.set"):
        assert jitted(_state(1, LARGE), np.ones(LARGE)) == {1}
    assert jitted(_state(1, LARGE), np.ones(LARGE)) == {1}
    for _ in range(2):
        np.testing.assert_array_equal(jitted(_state(0, LARGE), np.ones(LARGE)), _state(0, LARGE).x)
    assert "was traced 2 times" in str(jitted.explain())


def _apply(f: Callable[..., Any], x: Any) -> Any:
    return f(f(x)) * 2


def _scale(k: int) -> Callable[[Any], Any]:
    return lambda x: x * (k + 0.5)


def _line(k: int) -> Callable[[Any], Any]:
    a, b = _normal(k, LARGE), 1.0 + k
    return lambda x: x * b + a


def _composed(k: int) -> Callable[[Any], Any]:
    outer, inner = _scale(k), _line(k)
    return lambda x: outer(inner(x))


def _with_defaults(k: int) -> Callable[[Any], Any]:
    def f(x: Any, scale: float = 1.0 + k, *, add: Any = _normal(k, LARGE)) -> Any:  # noqa: B008
        return x * scale + add

    return f


def _with_attribute(k: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        return x * f.scale  # type: ignore[attr-defined]

    f.scale = 1.0 + k  # type: ignore[attr-defined]
    return f


def _partial(k: int) -> Callable[[Any], Any]:
    def f(x: Any, scale: float, add: Any) -> Any:
        return x * scale + add

    return functools.partial(functools.partial(f, scale=1.0 + k), add=_normal(k, LARGE))


def _recursive(k: int) -> Callable[[Any], Any]:
    def f(x: Any, left: int = 3) -> Any:
        return f(x * (k + 0.5), left - 1) if left else x

    return f


@pytest.mark.parametrize(
    "made", [_scale, _line, _composed, _with_defaults, _with_attribute, _partial, _recursive]
)
def test_functions_that_each_call_makes_anew(made: Callable[[int], Any]) -> None:
    jitted = minicc.jit(_apply)
    for k in range(6):
        x = _normal(k + 20, LARGE)
        np.testing.assert_allclose(jitted(made(k), x), _apply(made(k), x))
    assert "was traced 2 times" in str(jitted.explain())


def test_functions_of_other_code() -> None:
    jitted = minicc.jit(_apply)
    for k in (0, 1, 2, 1, 0, 2):
        f: Any = [lambda x: x + 1, lambda x: x * 2, np.sin][k]
        np.testing.assert_allclose(jitted(f, V), _apply(f, V))
    assert "was traced 3 times" in str(jitted.explain())


def test_two_functions_that_may_be_one() -> None:
    def same(f: Any, g: Any, x: Any) -> Any:
        return f(x) if f is g else g(x) * 10

    jitted = minicc.jit(same)
    for one in (False, True, True, False):
        f, g = _scale(1), _scale(1)
        np.testing.assert_allclose(jitted(f, f if one else g, V), same(f, f if one else g, V))


def test_defaults_of_one_function_that_another_of_its_code_lacks() -> None:
    """What was a tuple with numbers that are inputs is None."""

    def made(k: int) -> Callable[..., Any]:
        def f(x: Any, a: float = 1.0 + k) -> Any:
            return x * a

        if k == 3:
            f.__defaults__ = None
        return f

    def run(f: Callable[..., Any], x: Any) -> Any:
        return f(x, *(f.__defaults__ or (7.0,)))

    jitted = minicc.jit(run)
    for k in range(5):
        np.testing.assert_allclose(jitted(made(k), V), run(made(k), V))


@pytest.mark.parametrize("kind", ["method", "partial"])
def test_bound_functions_that_may_be_one(kind: str) -> None:
    """Two arguments that are one bound method had stand-ins that were two."""

    def made(k: int) -> Any:
        if kind == "method":
            return _state(k).__eq__
        return functools.partial(lambda x, a: x * a, a=1.0 + k)

    def same(f: Any, g: Any, x: Any) -> Any:
        return x * 2 if f is g else x * 3

    jitted = minicc.jit(same)
    for one in (False, True, True, False):
        f, g = made(1), made(1)
        np.testing.assert_array_equal(jitted(f, f if one else g, V), same(f, f if one else g, V))


def test_functions_in_objects() -> None:
    @dataclass
    class Unit:
        w: Any
        act: Callable[[Any], Any]

    def run(units: list[Unit], x: Any) -> Any:
        for unit in units:
            x = unit.act(x * unit.w)
        return x

    def call(k: int) -> tuple[Any, ...]:
        return [Unit(_normal(k, LARGE), _scale(k)), Unit(2.0, _line(k))], _normal(k, LARGE)

    jitted = minicc.jit(run)
    for k in range(6):
        np.testing.assert_allclose(jitted(*call(k)), run(*call(k)))
    assert "was traced 2 times" in str(jitted.explain())


def test_a_closure_that_collects() -> None:
    def noted(f: Callable[[Any], Any], x: Any) -> Any:
        return f(x * 2)

    def collecting(seen: list[float]) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            seen.append(float(x.sum()))
            return x + 1

        return f

    jitted = minicc.jit(noted)
    for k in range(4):
        seen: list[float] = []
        np.testing.assert_array_equal(jitted(collecting(seen), V + k), (V + k) * 2 + 1)
        assert seen == [float(((V + k) * 2).sum())]


def test_a_global_dict_that_changes() -> None:
    def f(x: Any) -> Any:
        return x * CONFIG["lr"] + CONFIG["deep"]["k"][1]

    jitted = minicc.jit(f)
    for k in range(5):
        CONFIG["lr"], CONFIG["deep"]["k"][1] = 0.1 * k, 1.0 + k
        np.testing.assert_array_equal(jitted(V), f(V))
    assert "was traced 2 times" in str(jitted.explain())
