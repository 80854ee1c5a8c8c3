"""What a function reads from outside is noticed when it changes; what it does there is not lost."""

import collections
import contextlib
import copy
import dataclasses
import datetime
import decimal
import io
import itertools
import logging
import os
import pathlib
import pickle
import sys
import types
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

X = np.arange(1.0, 4.0)


class Base:
    scale = 2.0

    def scaled(self, x: Any) -> Any:
        return x * self.scale + np.ones(3)


class Layer(Base):
    def __init__(self) -> None:
        self.w = np.ones(3)
        self.child = types.SimpleNamespace(s=5.0, items=[1.0])
        self.calls = 0

    @property
    def v(self) -> float:
        return float(self.child.s)

    @classmethod
    def twice(cls, x: Any) -> Any:
        return x * cls.scale * 2

    def scaled(self, x: Any) -> Any:
        return super().scaled(x) * self.v

    def forward(self, x: Any) -> Any:
        return (self.scaled(x) * self.w).sum() + sum(self.child.items) + self.twice(x)[0]

    def __call__(self, x: Any) -> Any:
        return self.forward(x)

    def counted(self, x: Any) -> Any:
        self.calls += 1
        return x

    def stored(self, x: Any) -> Any:
        self.last = x * 2
        return x


@dataclasses.dataclass
class Setting:
    k: float = 1.0
    a: Any = None


LAYER, SETTING = Layer(), Setting()
LARGE, DEQUE = np.ones(400), collections.deque([1.0])
ORDERED, DEFAULTS = collections.OrderedDict(a=1.0), collections.defaultdict(float, a=1.0)
MEMBERS, LISTS = {1, 2}, [np.ones(400)]


def _method(x: Any) -> Any:
    return LAYER.forward(x)


def _class(x: Any) -> Any:
    return x * Base.scale + Layer().forward(x)


CHANGES: list[tuple[str, Callable[..., Any], Callable[[], Any]]] = [
    ("bound", LAYER.forward, lambda: LAYER.w.__setitem__(0, 7.0)),
    ("rebound", LAYER.forward, lambda: setattr(LAYER, "w", LAYER.w * 3)),
    ("callable", LAYER, lambda: setattr(LAYER, "w", LAYER.w * 3)),
    ("child", _method, lambda: setattr(LAYER.child, "s", 2.0)),
    ("list", _method, lambda: LAYER.child.items.append(3.0)),
    ("class", _class, lambda: setattr(Base, "scale", Base.scale + 1)),
    ("dataclass", lambda x: x * SETTING.k, lambda: setattr(SETTING, "k", SETTING.k + 3)),
    ("large", lambda x: x * LARGE[0], lambda: LARGE.__setitem__(0, LARGE[0] + 9.0)),
    ("in a list", lambda x: x * LISTS[0][3], lambda: LISTS[0].__setitem__(3, 5.0)),
    ("set", lambda x: x * len(MEMBERS), lambda: MEMBERS.add(3)),
    ("deque", lambda x: x * DEQUE[0], lambda: DEQUE.appendleft(4.0)),
    ("ordered", lambda x: x * ORDERED["a"], lambda: ORDERED.update(a=4.0)),
    ("defaults", lambda x: x * DEFAULTS["a"], lambda: DEFAULTS.update(a=4.0)),
    ("true", lambda x: x * DEFAULTS["a"], lambda: DEFAULTS.update(a=True)),
]


@pytest.mark.parametrize(("f", "change"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_changes_are_noticed(f: Callable[..., Any], change: Callable[[], Any]) -> None:
    jitted = minicc.jit(f, threads=1)
    for _ in range(2):
        assert np.array_equal(jitted(X), f(X))
        change()
    assert np.array_equal(jitted(X), f(X))


ITERATOR, COUNT, PATH = iter(range(9)), itertools.count(), pathlib.Path("x")
REFUSED: list[tuple[str, Callable[..., Any]]] = [
    ("next", lambda x: x * next(ITERATOR)), ("count", lambda x: [x * k for k in COUNT]),
    ("environment", lambda x: x * float(os.environ["X"])),
    ("now", lambda x: x * datetime.datetime.now().timestamp()),
    ("uuid", lambda x: x * uuid.uuid4().int), ("path", lambda x: x * len(PATH.read_text())),
    ("class attribute", lambda x: (setattr(Base, "scale", 3), x)),  # type: ignore[func-returns-value]
    ("set", lambda x: (MEMBERS.add(9), x)),  # type: ignore[func-returns-value]
    ("deque", lambda x: (DEQUE.append(9), x)),  # type: ignore[func-returns-value]
    ("dict", lambda x: (ORDERED.update(b=2), x)),
]  # fmt: skip


@pytest.mark.parametrize("f", [f for _, f in REFUSED], ids=[name for name, _ in REFUSED])
def test_what_would_be_frozen_or_lost_is_left_to_numpy(f: Callable[..., Any]) -> None:
    before = dict(vars(LAYER)), Base.scale, set(MEMBERS), list(DEQUE), dict(ORDERED)
    with pytest.raises(minicc.PerformanceWarning, match=r"by NumPy.*test_outside\.py:"):
        minicc.jit(f)(X)
    assert before == (dict(vars(LAYER)), Base.scale, set(MEMBERS), list(DEQUE), dict(ORDERED))


def test_effects_on_objects_happen_at_each_call() -> None:
    layer = Layer()

    def counted(x: Any) -> Any:
        try:
            return layer.counted(x) * 2
        except Exception:  # does not hide what can't be compiled
            return x

    f = minicc.jit(counted, threads=1)
    for k in range(3):
        assert np.array_equal(f(X), X * 2)
        assert layer.calls == k + 1


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("captured", [X.reshape(3, 1), np.ma.array([1.0, 2.0], mask=[False, True])])
def test_captured_matrices_and_masked_arrays_are_left_to_numpy(captured: Any) -> None:
    captured = captured.view(np.matrix) if type(captured) is np.ndarray else captured

    def f(x: Any) -> Any:
        return captured * x

    x = X[: captured.size] if np.ma.isMaskedArray(captured) else X
    g = minicc.jit(f)
    with pytest.warns(
        minicc.PerformanceWarning, match=r"`captured` .* is a (matrix|Masked)"
    ) as told:
        got = g(x)
    assert told[0].filename == __file__
    assert type(got) is type(f(x))
    assert repr(got) == repr(f(x))


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize(
    ("f", "given", "why"),
    [
        (lambda a: a * 2, np.ma.array([1.0, 2.0], mask=[False, True]), "a is a masked array"),
        (lambda a: a * a, np.eye(2).view(np.matrix), "a is a matrix"),
        (lambda a: a[0] * 2, collections.deque([X]), "a is a collections.deque"),
        (lambda a: a["x"] * 2, collections.OrderedDict(x=X), "a is a collections.OrderedDict"),
        (lambda a: X * len(a), {1, 2}, "a is a builtins.set"),
        (lambda a: X * float(a), decimal.Decimal("1.5"), "a is a decimal.Decimal"),
        (lambda a: a(X), np.poly1d([1, 2]), "a is a numpy.poly1d"),
        (lambda a: a * 2, np.array([1, 2.5], object), "no element type stores NumPy's object"),
        (lambda a: np.frombuffer(a, np.uint8) + 1, bytearray(b"abc"), "a is a builtins.bytearray"),
    ],
)
def test_arguments_that_are_no_values_are_left_to_numpy(f: Any, given: Any, why: str) -> None:
    g = minicc.jit(f)
    with pytest.warns(minicc.PerformanceWarning, match=why) as told:
        got = g(given)
    assert told[0].filename == __file__
    assert type(got) is type(f(given))
    assert repr(got) == repr(f(given))
    with warnings.catch_warnings():
        warnings.simplefilter("error", minicc.PerformanceWarning)
        assert repr(g(given)) == repr(got)  # it is told once
    assert np.array_equal(minicc.jit(lambda x: x * 2)(X), X * 2)


def test_others_see_what_a_call_says_each_time() -> None:
    log = logging.getLogger("minicc.test")
    text = io.StringIO()
    log.handlers, log.propagate = [logging.StreamHandler(text)], False
    log.setLevel(logging.INFO)

    @contextlib.contextmanager
    def within() -> Any:
        log.info("in")
        yield 3.0
        log.info("out")

    def f(x: Any) -> Any:
        with within() as k:
            log.info("sum %.1f", x.sum())
            sys.stdout.write("said\n")
            warnings.warn("careful", stacklevel=2)
            return x * k

    jitted = minicc.jit(f)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for k in (1, 1, 2):
            assert np.array_equal(jitted(X * k), X * k * 3)
    assert text.getvalue() == "".join(f"in\nsum {s}\nout\n" for s in ("6.0", "6.0", "12.0"))
    assert out.getvalue() == "said\n" * 3
    assert len(seen) == 3


class Decorated:
    k = 3.0

    @minicc.jit
    def go(self, x: Any) -> Any:
        return x * self.k


@minicc.jit
def decorated(x: Any) -> Any:
    return x * 2


def plain(x: Any) -> Any:
    return x * 4


def test_methods_are_decorated_and_objects_are_arguments() -> None:
    one = Decorated()
    assert np.array_equal(one.go(X), X * 3)
    one.k = 5.0
    assert np.array_equal(one.go(X), X * 5)
    jitted = minicc.jit(lambda s: s.a * s.k)
    setting = Setting(2.0, X)
    assert np.array_equal(jitted(setting), X * 2)
    setting.a = X * 2
    assert np.array_equal(jitted(setting), X * 4)


def test_jitted_functions_are_pickled_and_copied() -> None:
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    once = pickle.loads(pickle.dumps(minicc.jit(plain, math="strict")))
    again = copy.deepcopy(once)
    assert once.options.math == again.options.math == "strict"
    assert np.array_equal(again(X), X * 4)


def test_results_share_memory_as_numpys_do() -> None:
    kept = np.ones(3)

    def f(x: Any) -> Any:
        y = x + 1
        return x, x[1:], x.T[::-1], kept, y, y[:2]

    jitted = minicc.jit(f)
    for _ in range(2):
        same, part, turned, captured, y, start = jitted(X)
        assert same is X
        assert captured is kept
        assert all(np.shares_memory(a, X) for a in (part, turned))
        assert turned.strides == (-8,)
        assert np.shares_memory(y, start)
        assert not np.shares_memory(y, X)


def test_keys_of_dicts_keep_their_types() -> None:
    jitted = minicc.jit(lambda d: next(iter(d)))
    keys: list[Any] = [1, True, 1.0]
    assert [type(jitted({k: X})) for k in keys] == [int, bool, float]


def of_defaults(x: Any, y: float, /, a: int = 2, b: tuple[int, ...] = (3, 4), *, c: int = 5) -> Any:
    return x * y + a * b[1] - c


def of_plain_defaults(x: Any, y: float = 7.0, b: tuple[int, ...] = (3, 4)) -> Any:
    return x * y + b[1]


def test_arguments_are_sorted_as_python_does() -> None:
    x = np.arange(3.0)
    first, second = minicc.jit(of_defaults), minicc.jit(of_plain_defaults)
    others: list[dict[str, Any]] = [{}, {"c": 1}, {"b": (0, 1)}, {"b": (0, 1), "a": 9, "c": 1}]
    for args, kwargs in itertools.product([(x, 2.0), (x, 3.0, 1), (x, 2.0, 6)], others):
        if len(args) < 3 or "a" not in kwargs:
            np.testing.assert_array_equal(first(*args, **kwargs), of_defaults(*args, **kwargs))
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x,), {}), ((x, 2.0), {}), ((x, 2.0, (5, 6)), {}), ((x,), {"b": (5, 6)}), ((), {"x": x}),
    ]  # fmt: skip
    for args, kwargs in calls:
        np.testing.assert_array_equal(second(*args, **kwargs), of_plain_defaults(*args, **kwargs))
    calls = [((), {}), ((x, 1.0, (0, 1), 2), {}), ((x,), {"x": x}), ((x,), {"z": 1})]
    for args, kwargs in calls:
        with pytest.raises(TypeError, match="of_plain_defaults"):
            second(*args, **kwargs)


POLYNOMIAL = np.poly1d([1.0, -2.0, 3.0])


def test_a_polynomial_from_outside_is_called() -> None:
    g = minicc.jit(lambda x: POLYNOMIAL(x) * 2)
    x = np.arange(5.0)
    np.testing.assert_array_equal(g(x), POLYNOMIAL(x) * 2)
    assert "not compiled" not in str(g.explain())
