"""Arrays that a function reads from outside: read at each call, or constants that are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

RNG = np.random.default_rng(3)
X = RNG.standard_normal(40)
W: Any = None
V: Any = None
P: Any = None


def arr(*shape: int) -> Any:
    return RNG.standard_normal(shape)


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"w": [arr(40, 40), arr(40, 40)], "b": (arr(400), 2.0)}
    for name, value in {"W": arr(40, 40), "V": arr(40, 40), "P": parts}.items():
        monkeypatch.setitem(globals(), name, value)


class Both:
    """A function and what minicc makes of it, called together."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f, self.jitted = f, minicc.jit(f)

    def __call__(self, *args: Any) -> Any:
        want = self.f(*[np.copy(a) for a in args])
        got = self.jitted(*[np.copy(a) for a in args])
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
        return got

    @property
    def traces(self) -> int:
        return int(self.jitted.explain().traced)


def put(**names: Any) -> None:
    globals().update(names)


def test_a_global_is_read_at_each_call() -> None:
    def f(x: Any) -> Any:
        return W @ x + W.T[0] + W.reshape(-1)[:40]

    both = Both(f)
    both(X)
    W[0, 0] = 100
    both(X)
    put(W=arr(40, 40))
    both(X)
    assert both.traces == 1
    assert "global W is float64[40,40], read at each call" in str(both.jitted.explain())


@pytest.mark.parametrize(
    "other",
    [
        lambda: arr(50, 40),
        lambda: arr(40, 40).astype(np.float32),
        lambda: np.asfortranarray(arr(40, 40)),
        lambda: arr(80, 80)[::2, ::2],
        lambda: np.ones((40, 40), int),
        lambda: [[1.0] * 40] * 3,
    ],
    ids=["shape", "type", "order", "gaps", "integers", "list"],
)
@pytest.mark.filterwarnings("ignore::minicc.errors.PerformanceWarning")
def test_what_it_is_may_change(other: Callable[[], Any]) -> None:
    def f(x: Any) -> Any:
        return np.dot(W, x)

    both = Both(f)
    both(X)
    put(W=other())
    both(X)
    both(X)
    put(W=arr(40, 40))
    both(X)


def test_what_is_made_of_it_alone_is_made_once() -> None:
    def f(x: Any) -> Any:
        return np.linalg.inv(W + 40 * np.eye(40)) @ x

    both = Both(f)
    both(X)
    both(X)
    assert both.traces == 1
    assert "global W is float64[40,40], its content as it was" in str(both.jitted.explain())


def test_what_changes_is_read_all_the_same() -> None:
    def f(x: Any) -> Any:
        return (W * 2 + W.T) @ x

    both = Both(f)
    for _ in range(5):
        both(X)
        W[...] += 1
    assert both.traces == 2


@pytest.mark.parametrize("made", [lambda x: x[::-1], lambda x: x.astype(x.dtype.newbyteorder())])
@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_what_becomes_an_array_that_machine_code_does_not_take(made: Callable[[Any], Any]) -> None:
    """That it changes makes it an input; as it lies in the third call, it can't be one."""

    def turned(x: Any, box: list[Any]) -> Any:
        W["w"] = made(W["w"])
        box[1] = x[2]
        return box

    jitted, x = minicc.jit(turned), np.arange(8.0)
    put(W={"w": x.copy()})
    want, box = W["w"], [1, 2, 3]
    for _ in range(6):
        want, box = made(want), jitted(x, [*box])
        assert box == [1, 2.0, 3]
        np.testing.assert_array_equal(W["w"], want)


def test_conditions_see_what_is_there() -> None:
    def f(x: Any) -> Any:
        return W @ x if W[0, 0] > 0 else x - W @ x

    both = Both(f)
    for sign in (1, -1, 1, -1):
        put(W=sign * np.abs(W))
        both(X)


def test_two_names_of_one_array() -> None:
    def f(x: Any) -> Any:
        return W @ x + V @ (x + 1)

    put(V=W)
    both = Both(f)
    both(X)
    put(V=arr(40, 40))
    both(X)
    put(W=arr(40, 40))
    both(X)


def test_an_argument_that_is_the_array() -> None:
    def f(x: Any) -> Any:
        return W @ x

    jitted = minicc.jit(f)
    for _ in range(3):
        np.testing.assert_allclose(jitted(W), W @ W, rtol=1e-9)
        put(W=arr(40, 40))


def test_what_is_returned_is_the_array() -> None:
    def f(x: Any) -> Any:
        return W, W.T, W @ x

    jitted = minicc.jit(f)
    for _ in range(2):
        whole, turned, _ = jitted(X)
        assert whole is W
        assert np.shares_memory(turned, W)


def test_arguments_may_be_written_to() -> None:
    def f(x: Any) -> Any:
        x += W[0]
        return W @ x

    both = Both(f)
    both(X)
    W[0] = 1
    both(X)
    put(W=arr(40, 40))
    both(X)


def test_in_loops_and_after_breaks() -> None:
    def f(x: Any) -> Any:
        for _ in range(40):
            x = np.tanh(W @ x) * 0.1
        if x.sum() > 0:
            x = x * 2
        for row in V:
            x = x + row * x
        return x

    both = Both(f)
    both(X)
    both(-X)
    traces = both.traces
    put(W=arr(40, 40), V=arr(40, 40))
    both(X)
    both(-X)
    assert both.traces <= traces + 1


class Net:
    """An object with arrays in containers."""

    def __init__(self) -> None:
        self.layers = [(arr(40, 40), arr(200)[:40].copy()) for _ in range(3)]
        self.named = {"last": arr(40, 40)}
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        for w, b in self.layers:
            x = np.maximum(w @ x + b, 0)
        return self.named["last"] @ x


def test_elements_of_containers_are_read_at_each_call() -> None:
    net = Net()
    both = Both(net)
    both(X)
    net.layers[1] = (arr(40, 40), net.layers[1][1])
    net.layers[0][0][:] += 1
    net.named["last"] = arr(40, 40)
    both(X)
    net.layers = [(w + 1, b) for w, b in net.layers]
    both(X)
    assert both.traces == 1
    net.layers.append((arr(40, 40), arr(40)))
    both(X)
    assert both.traces == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda: P.update(b=(arr(400), 3.0)),
        lambda: P["w"].append(arr(40, 40)),
        lambda: P.update(b=(arr(400).astype(np.float32), 2.0)),
        lambda: P["w"].pop(),
        lambda: P.update(w=[W, W]),
        lambda: P.update(w=(W, V)),
        lambda: P.update(more=arr(400)),
    ],
)
def test_containers_that_change(change: Callable[[], Any]) -> None:
    def f(x: Any) -> Any:
        for w in P["w"]:
            x = np.tanh(w @ x)
        return x + P["b"][0][:40] * x * P["b"][1]

    both = Both(f)
    both(X)
    change()
    both(X)
    both(X)


def test_an_element_that_is_gone_raises() -> None:
    def f(x: Any) -> Any:
        return P["w"][0] @ x

    jitted = minicc.jit(f)
    jitted(X)
    del P["w"]
    with pytest.raises(KeyError, match="w"):
        jitted(X)


def test_sizes_may_be_symbols_beside() -> None:
    def f(x: Any) -> Any:
        return (x + 1) @ W

    both = Both(f)
    for n in (3, 4, 5, 6):
        both(arr(n, 40))
    put(W=arr(40, 40))
    both(arr(7, 40))
    both(arr(3, 40))


def test_a_closure_is_read_at_each_call() -> None:
    w = arr(40, 40)

    def f(x: Any) -> Any:
        return w @ x

    both = Both(f)
    both(X)
    w = arr(40, 40)
    both(X)
    assert both.traces == 1


def test_small_and_other_arrays_are_constants() -> None:
    small, whole = arr(8), np.arange(400)

    def f(x: Any) -> Any:
        return x[whole % 40] * small[0]

    both = Both(f)
    both(X)
    whole[:] += 1
    small[:] *= 2
    both(X)
    assert both.traces == 2


@pytest.mark.filterwarnings("ignore::minicc.errors.PerformanceWarning")
@pytest.mark.parametrize("shared", [lambda: W[0], lambda: W[:, 3], lambda: W.reshape(-1)[100:140]])
def test_arguments_that_are_written_to_and_show_the_array(shared: Callable[[], Any]) -> None:
    """NumPy itself runs such calls: what is read of the array is what was written."""

    def f(x: Any) -> Any:
        x += 1
        return W @ x

    before, jitted = W.copy(), minicc.jit(f)
    jitted(X.copy())
    for _ in range(3):
        got, left = jitted(shared()), W.copy()
        W[...] = before
        want = f(shared())
        np.testing.assert_allclose(got, want, rtol=1e-9)
        np.testing.assert_array_equal(left, W)
        W[...] = before
