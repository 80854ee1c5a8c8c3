"""Functions that are not traced, or would take too long, are run by NumPy, and say so."""

import collections
import dataclasses
import heapq
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.frontends.trace.breaks import Tree


def left(f: Callable[..., Any], why: str, *args: Any) -> Any:
    """The jitted function, after it did in two calls what NumPy does, with one warning."""
    g = minicc.jit(f, threads=1)

    def compare() -> None:
        mine, theirs = [a.copy() for a in args], [a.copy() for a in args]
        want, have = f(*theirs), g(*mine)
        assert type(want) is type(have)
        results = [x if isinstance(x, tuple) else (x,) for x in (want, have)]
        for w, h in zip((*results[0], *theirs), (*results[1], *mine), strict=True):
            np.testing.assert_array_equal(w, h)

    with pytest.warns(minicc.PerformanceWarning, match=why):
        compare()
    compare()  # without another warning
    assert "run by NumPy, not compiled" in str(g.explain())
    return g


def test_a_loop_that_can_not_be_captured() -> None:
    def f(x: Any) -> Any:
        kept = {}
        for k in range(400):
            kept[k % 7] = x[k % 5] * 0.5
            x[k % 5] += 1
        return kept[3]

    left(f, "the 400 rounds of the loop at test_left_to_numpy.py:", np.ones(5))


def test_rounds_that_would_run_on_the_host() -> None:
    def f(x: Any) -> Any:
        for _ in range(30):
            x = np.sort(x) * 0.5
        return x

    why = "a loop would be run round by round: in its body: graph.sort"
    left(f, why, np.arange(600.0))


@dataclasses.dataclass
class Holder:
    held: Any


def put_with_others(x: Any) -> Any:
    others: list[Any] = [Holder(x * 2), x]
    return np.hstack(others)[0].held


def put_in_turn(x: Any) -> Any:
    found = np.empty(2, object)
    found[0] = Holder(x * 2)
    found[1] = [x + 1]
    return found[0].held, found[1][0]


def put_in_a_dict(x: Any) -> Any:
    found = np.empty(2, object)
    found[0] = {"a": x + 1}
    found[1] = x
    return found[0]["a"]


@pytest.mark.parametrize("f", [put_with_others, put_in_turn, put_in_a_dict])
def test_objects_in_arrays_hold_arrays(f: Callable[..., Any]) -> None:
    left(f, "is not traced", np.arange(3.0))


def test_arrays_of_objects_that_hold_elements() -> None:
    def f(x: Any) -> Any:
        return np.array([{"a": x[0], "b": float(x[1])}, {x[2]}])

    left(f, "an array of objects is returned", np.arange(3.0))


def test_values_that_are_read_without_end() -> None:
    def f(x: Any) -> Any:
        for _ in range(3000):
            if np.unique(x).size > 5:
                return x
            x[0] += 1
        return x

    left(f, "operations: is left by `break` or `return`", np.ones(2))


def reached(x: Any) -> Any:
    """How many steps lead to each cell that is open."""
    steps, left = np.full(x.shape, -1), collections.deque([(0, 0)])
    steps[0, 0] = 0
    while left:
        i, j = left.popleft()
        for a, b in (i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1):
            inside = 0 <= a < x.shape[0] and 0 <= b < x.shape[1]
            if inside and x[a, b] > 0 and steps[a, b] < 0:
                steps[a, b] = steps[i, j] + 1
                left.append((a, b))
    return steps


def test_values_that_are_read_with_little_between() -> None:
    """That is known before the trace grows long."""
    left(reached, "stops more than 128 times, and little is computed in between", np.ones((9, 9)))


def suppressed(boxes: Any, scores: Any) -> Any:
    """The boxes that no better one covers; each round has fewer left."""
    x1, y1, x2, y2 = boxes.T
    areas, order, kept = (x2 - x1) * (y2 - y1), scores.argsort()[::-1], []
    while order.size > 0:
        i, rest = order[0], order[1:]
        kept.append(i)
        width = np.maximum(0.0, np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]))
        height = np.maximum(0.0, np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]))
        shared = width * height
        order = order[np.where(shared / (areas[i] + areas[rest] - shared) <= 0.3)[0] + 1]
    return np.array(kept)


def test_segments_that_take_long_to_compile() -> None:
    """There is one for each number of boxes that are left."""
    draw = np.random.default_rng(0)
    corners = draw.random((60, 2))
    boxes = np.hstack([corners, corners + 0.02 + 0.1 * draw.random((60, 2))])
    left(suppressed, "stops more than 2. times, and little", boxes, draw.random(60))


def lengths_of_codes(counts: Any) -> Any:
    """Huffman's code: Python compares numbers of data dozens of times."""
    heap: list[Any] = [(int(n), k, (k,)) for k, n in enumerate(counts)]
    heapq.heapify(heap)
    lengths, k = np.zeros(len(counts), int), len(counts)
    while len(heap) > 1:
        n, _, some = heapq.heappop(heap)
        m, _, others = heapq.heappop(heap)
        for i in some + others:
            lengths[i] += 1
        heapq.heappush(heap, (n + m, k, some + others))
        k += 1
    return lengths


def test_many_values_that_are_read_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of few rounds before them is no reason to go from segment to segment."""
    found: list[bool] = []
    original = Tree.is_hosted

    def noted(tree: Tree) -> bool:
        found.append(original(tree))
        return found[-1]

    monkeypatch.setattr(Tree, "is_hosted", noted)
    g = minicc.jit(lengths_of_codes, threads=1)
    counts = np.random.default_rng(1).integers(1, 100, 7)
    for _ in range(2):
        np.testing.assert_array_equal(g(counts), lengths_of_codes(counts))
    assert found[-1]


def halved_for_long(x: Any) -> Any:
    n, seen = 6_000, {}
    while n > 0:
        x = x * 0.5 + 1
        n -= 1
        seen[n % 3] = n
    return x


def test_a_while_loop_without_end() -> None:
    left(halved_for_long, "longer than 5000 operations", np.ones(2))


def test_numbers_that_python_computes_of_what_calls_give() -> None:
    def of_halves(h: float, k: float, depth: int) -> float:
        here = h * math.exp(-k * h)
        if not depth:
            return here
        return here + of_halves(h / 2, k, depth - 1) + of_halves(h / 3, k, depth - 1)

    def f(h: float, k: float) -> Any:
        return np.array([of_halves(h, k, 8), h])

    g = minicc.jit(f, threads=1)
    assert g(1.0, 2.0).tolist() == f(1.0, 2.0).tolist()
    with pytest.warns(minicc.PerformanceWarning, match="Python computes more than 1000 numbers"):
        assert g(1.5, 2.5).tolist() == f(1.5, 2.5).tolist()
    assert g(1.25, 2.0).tolist() == f(1.25, 2.0).tolist()


def test_rows_of_a_long_array() -> None:
    def f(x: Any) -> Any:
        return {k: row.sum() for k, row in enumerate(x)}

    left(f, "the 5000 rows", np.ones((5000, 2)))


def test_what_is_not_traced() -> None:
    def f(x: Any) -> Any:
        return np.piecewise(x, [x > 0], [lambda v: v + 1, lambda v: v])

    left(f, "np.piecewise with a function of the program is not traced", np.array([-1.0, 2.0]))

    def g(x: Any) -> Any:
        y = np.arange(6.0) * x[0]
        z = y[1:]
        y.shape = (2, 3)
        return y.T * z[0]

    left(g, "the shape of an array that others show is set in place", np.array([-1.0, 2.0]))


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_other_arrays_that_show_the_memory_of_one() -> None:
    def masked(x: Any) -> Any:
        y = np.ma.masked_array(x, x < 0)
        y[1] = 5
        z = y.filled(0)
        x[0] = 7
        return z

    left(masked, "an array of the class MaskedArray is not traced", np.array([1.0, 2.0]))

    def matrix(x: Any) -> Any:
        y = np.matrix(x, copy=False)
        y[0, 1] = 5
        return np.asarray(y * y)

    left(matrix, "an array of the class matrix is not traced", np.ones((2, 2)))

    def asked(x: Any) -> Any:
        y = x.__array__()
        y[0] = 5
        return x * 2

    left(asked, "fails", np.ones(2))


def test_what_is_printed_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print("begun")
        for k in range(2000):
            x = x + 1
            if k % 500 == 0:
                print(k, x[0])
        return x

    f(np.zeros(2))
    want = capsys.readouterr().out
    g = minicc.jit(f)
    with pytest.warns(minicc.PerformanceWarning):
        g(np.zeros(2))
    assert capsys.readouterr().out == want


def test_such_a_function_has_no_graph() -> None:
    with pytest.raises(minicc.UnsupportedError, match="MC0247"):
        minicc.jit(halved_for_long).lower(np.ones(2))


class Ring:
    """An object that is a part of itself."""

    def __init__(self, first: Any) -> None:
        self.first = first
        self.next = self

    def __repr__(self) -> str:
        return f"Ring of {self.first}"


X = np.arange(3.0)


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: Ring(x * 2), r"returns a .*\.Ring \(result\["),
        (lambda x: {"a": collections.deque([x * 2])}, r"returns a collections\.deque \(result\["),
        (lambda x: collections.OrderedDict(a=x * 2), r"returns a collections\.OrderedDict"),
        (lambda x: {1, float(x[1])}, r"returns a builtins\.set"),
        (lambda x: np.ma.masked_less(x, 1), r"np\.ma\.masked_less gives a MaskedArray"),
        (lambda x: np.ma.masked_less(x, 1).sum(), r"np\.ma\.masked_less gives a MaskedArray"),
        (lambda x: np.rec.array(x, [("a", float)]), r"gives a recarray"),
    ],
)
def test_results_that_are_no_arrays(f: Callable[..., Any], why: str) -> None:
    """They were refused, or lost what makes them more than arrays: a mask, names of fields."""
    g = minicc.jit(f)
    with pytest.warns(minicc.PerformanceWarning, match=why):
        got = g(X)
    for result in (got, g(X)):
        assert type(result) is type(f(X))
        assert repr(result) == repr(f(X))


def test_a_mask_that_comes_on_a_known_path() -> None:
    def masked(x: Any, least: Any) -> Any:
        return np.ma.masked_less(x, least) if least > 0 else x

    def f(x: Any, least: Any) -> Any:
        return masked(x, least).min() * 2

    g = minicc.jit(f)
    assert g(X, np.array(0)) == 0
    with pytest.warns(minicc.PerformanceWarning, match="gives a MaskedArray"):
        assert g(X, np.array(1)) == 2
    assert g(X, np.array(0)) == 0


@np.vectorize
def sign(x: float) -> float:
    return 7 * x if x > 1 else x


ROOTS = np.vectorize(np.sqrt, otypes=["f4"])


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: sign(x) + 1, "`sign`, which np.vectorize made, is not traced"),
        (lambda x: ROOTS(x), "`ROOTS`, which np.vectorize made, is not traced"),
        (lambda x: np.vectorize(lambda v: v + 1)(x), "np.vectorize is not traced"),
    ],
    ids=["named as a ufunc", "of a ufunc", "within"],
)
def test_what_np_vectorize_makes_is_not_the_function_of_its_name(f: Any, why: str) -> None:
    left(f, why, np.arange(4.0))


def described(x: Any) -> Any:
    return f"{x.sum():.12f}", x * 2


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_what_is_read_is_new_in_each_call() -> None:
    g = minicc.jit(described, threads=1)
    for k in range(80):
        x = np.arange(4.0) + k / 7
        assert g(x)[0] == described(x)[0]
    shown = g.explain()
    assert shown.traced < 12
    assert "is new, as in all calls of late" in str(shown)
    for _ in range(2):  # other sizes have a program where they come again
        assert g(np.arange(5.0))[0] == "10.000000000000"
    assert len(g.explain().specialisations) == 2


def test_what_comes_again_has_a_program() -> None:
    def f(x: Any, name: str) -> Any:
        return x + len(name), name.upper()

    g = minicc.jit(f, threads=1)
    x = np.arange(4.0)
    for k in range(20):
        assert g(x, f"name {k}")[1] == f"NAME {k}"
    few = g.explain().traced
    assert few < 12
    for k in (15, 17) * 3:
        assert g(x, f"name {k}")[1] == f"NAME {k}"
    assert g.explain().traced in (few + 1, few + 2)
    assert "calls that no program was for" in str(g.explain())


class Scaled:
    """An object with a method that is compiled for it alone."""

    def __init__(self, weight: float) -> None:
        self.weight = np.full(3, weight)

    def times(self, x: Any) -> Any:
        return x * self.weight

    of = minicc.jit(times, threads=1)


def test_methods_of_objects_that_live_briefly_are_not_traced_for_each() -> None:
    x = np.arange(3.0)
    before = Scaled.of.explain().traced
    for k in range(60):
        one = Scaled(k)
        for _ in range(3):
            np.testing.assert_array_equal(one.of(x), x * k)
    assert Scaled.of.explain().traced - before < 20


def test_objects_of_which_there_are_more_than_programs() -> None:
    x = np.arange(3.0)
    many = [Scaled(k) for k in range(150)]
    for _ in range(6):
        for k, one in enumerate(many):
            np.testing.assert_array_equal(one.of(x), x * k)
    before = Scaled.of.explain().traced
    for _ in range(4):
        for k, one in enumerate(many):
            np.testing.assert_array_equal(one.of(x), x * k)
    assert Scaled.of.explain().traced - before < 60


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_a_list_of_numbers_that_grows_where_a_trace_fails() -> None:
    def f(x: Any, held: list[float]) -> Any:
        if x[0] > 1:
            return x.__array__().fill(3), x
        held.append(0.5)
        return x.__array__().fill(2), x

    g = minicc.jit(f, threads=1)
    for k in (0.0, 2.0, 0.5, 3.0):
        mine, theirs = (np.array([k, 1.0]), [k]), (np.array([k, 1.0]), [k])
        np.testing.assert_array_equal(g(*mine)[1], f(*theirs)[1])
        assert mine[1] == theirs[1]


def test_calls_that_become_others_are_traced_again() -> None:
    def f(x: Any) -> Any:
        steps = int(x[0])
        return x[1:] * steps + float(steps)

    g = minicc.jit(f, threads=1)
    for k in (*range(30), *[99] * 8):
        x = np.full(5, float(k))
        np.testing.assert_array_equal(g(x), f(x))
    traced = g.explain().traced
    for _ in range(20):
        g(np.full(5, 99.0))
    assert g.explain().traced == traced


def test_a_call_that_printed_is_traced_on(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print("begun")
        return f"{x.sum():.9f}"

    g = minicc.jit(f, threads=1)
    for k in range(40):
        x = np.arange(3.0) + k / 7
        assert g(x) == f"{x.sum():.9f}"
    assert capsys.readouterr().out == "begun\n" * 40


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_small_numbers_that_are_read_one_after_the_other() -> None:
    def f(x: Any) -> Any:
        return [0] * int(x[0]) + [1] * int(x[1]) + [2] * int(x[2]) + [3] * int(x[3])

    g = minicc.jit(f, threads=1)
    for x in np.random.default_rng(0).integers(0, 9, (80, 4)):
        assert g(x) == f(x)
    assert g.explain().traced < 25


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
def test_what_is_too_long_is_not_tried_at_each_size() -> None:
    def f(x: Any) -> Any:
        sums: dict[Any, Any] = {}
        for i in range(len(x)):
            for j in range(len(x)):
                sums[i, j] = x[i] * x[j] + sums.get((i - 1, j), 0)
        return sum(sums.values())

    jitted = minicc.jit(f, threads=1)
    for n in range(80, 87):
        x = np.random.default_rng(n).random(n)
        np.testing.assert_allclose(jitted(x), f(x))
    assert "was traced 2 times" in str(jitted.explain())
