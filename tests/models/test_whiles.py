"""Loops that data end become machine code where memory for their states is known ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import minicc
from minicc.ir import graph
from minicc.ir.core import Array, walk
from minicc.options import Options

_GROWS = """
<ir_version: 8, opset_import: ["": 17]>
grow (float[{n}] x, float limit, int64 most, bool first) => (float[{n}] y, int64 rounds) {{
  none = Constant<value: tensor = int64 {{0}}>()
  {limit}
  rounds, y = Loop({most}, first, none, x) <
    body = grown (int64 round, bool running, int64 count, float[{n}] s)
        => (bool goes, int64 next, float[{n}] bigger) {{
      one = Constant<value: tensor = int64 {{1}}>()
      factor = Constant<value: tensor = float {{1.5}}>()
      next = Add(round, one)
      bigger = Mul(s, factor)
      total = ReduceSum<keepdims = 0>(bigger)
      goes = Less(total, limit)
    }}
  >
}}
"""


def grown(x: Array, limit: float, most: int, first: bool) -> tuple[Array, int]:
    """What the loop gives, a round at a time."""
    rounds, goes = 0, first
    while goes and rounds < most:
        x = x * np.float32(1.5)
        goes = bool(x.sum() < np.float32(limit))
        rounds += 1
    return x, rounds


def opened(text: str, **options: Any) -> minicc.InferenceSession:
    model = onnx.parser.parse_model(text)
    return minicc.InferenceSession(model.SerializeToString(), options=Options(**options))


def hosted(session: minicc.InferenceSession) -> list[str]:
    return [h.op for c in session._compiled.values() for h in c.host]


@pytest.mark.parametrize("n", ["6", "n"], ids=["fixed", "free"])
@pytest.mark.parametrize("known", [None, 0, 1, 6], ids=lambda n: f"limit={n}")
@pytest.mark.parametrize("threads", [1, 2])
def test_rounds_that_data_count(n: str, known: int | None, threads: int) -> None:
    limit = "" if known is None else f"k = Constant<value: tensor = int64 {{{known}}}>()"
    text = _GROWS.format(n=n, limit=limit, most="most" if known is None else "k")
    session = opened(text, threads=threads)
    sizes = [6] if n == "6" else [6, 1, 40]
    for size in sizes:
        x = np.arange(size, dtype=np.float32) + 1
        for bound in (0, 50, 1e6):
            for most in (0, 1, 2, 9) if known is None else (3,):
                for first in (True, False):
                    feed = {"x": x, "limit": np.float32(bound), "most": np.int64(most)}
                    y, rounds = session.run(None, feed | {"first": np.bool_(first)})
                    want, count = grown(x, bound, most if known is None else known, first)
                    np.testing.assert_array_equal(y, want)
                    assert rounds == count
    assert hosted(session) == []


def compiled_like(text: str, feeds: list[dict[str, Array]]) -> None:
    """The same bits as by the definitions of the graph's ops, and nothing on the host."""
    session = opened(text, math="strict")
    interpreted = minicc.ir.interpret.Interpreter(session.module)
    for feed in feeds:
        got = session.run(None, feed)
        inputs = [feed[a.hint] for a in session.module.main.args]
        want = interpreted.region(session.module.main.body, inputs, {})
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
    assert hosted(session) == []


def test_a_loop_within_a_loop() -> None:
    """Greatest common divisors, subtracted out: the inner loop ends anew in each outer round."""
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    euclid (int64 a, int64 b) => (int64 y, int64 z) {
      most = Constant<value: tensor = int64 {1000}>()
      none = Constant<value: tensor = int64 {0}>()
      first = Less(none, b)
      y, z = Loop(most, first, a, b) <
        body = outer (int64 i, bool c, int64 p, int64 q) => (bool goes, int64 q1, int64 r) {
          enough = GreaterOrEqual(p, q)
          r = Loop(most, enough, p) <
            body = inner (int64 k, bool d, int64 s) => (bool more, int64 t) {
              t = Sub(s, q)
              more = GreaterOrEqual(t, q)
            }
          >
          q1 = Identity(q)
          goes = Less(none, r)
        }
      >
    }
    """
    pairs = [(12, 18), (1071, 462), (7, 1), (5, 0), (1, 7)]
    compiled_like(text, [{"a": np.array(a), "b": np.array(b)} for a, b in pairs])


def test_large_rounds_are_shared_by_threads() -> None:
    """Power iteration until it hardly moves; each round is worth more than one thread."""
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    power (float[300, 300] m, float[300, 64] v) => (float[300, 64] y) {
      most = Constant<value: tensor = int64 {40}>()
      yes = Constant<value: tensor = bool {1}>()
      small = Constant<value: tensor = float {0.01}>()
      y = Loop(most, yes, v) <
        body = b (int64 i, bool c, float[300, 64] s) => (bool goes, float[300, 64] t) {
          p = MatMul(m, s)
          norm = ReduceL2<axes = [0], keepdims = 1>(p)
          t = Div(p, norm)
          d = Sub(t, s)
          e = Abs(d)
          far = ReduceMax<keepdims = 0>(e)
          goes = Less(small, far)
        }
      >
    }
    """
    rng = np.random.default_rng(0)
    m = (rng.random((300, 300)) + np.diag(np.arange(300))).astype(np.float32)
    feed = {"m": m, "v": rng.random((300, 64)).astype(np.float32)}
    one, two = (opened(text, threads=n) for n in (1, 2))
    (first,), (second,) = one.run(None, feed), two.run(None, feed)
    np.testing.assert_array_equal(first, second)
    s = feed["v"].astype(np.float64)
    for _ in range(40):
        t = m @ s
        t /= np.linalg.norm(t, axis=0)
        s, moved = t, np.abs(t - s).max()
        if moved <= 0.01:
            break
    np.testing.assert_allclose(first, s, atol=1e-3)
    assert hosted(two) == []


def test_what_may_fail_stays_in_a_loop_that_may_not_run() -> None:
    """A gather that each round repeats would fail before a loop of no rounds."""
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    pick (float[4] x, int64 at, int64 most) => (float y) {
      yes = Constant<value: tensor = bool {1}>()
      zero = Constant<value: tensor = float {0}>()
      y = Loop(most, yes, zero) <
        body = b (int64 i, bool c, float s) => (bool goes, float t) {
          goes = Identity(c)
          e = Gather(x, at)
          t = Add(s, e)
        }
      >
    }
    """
    session = opened(text)
    x = np.arange(4, dtype=np.float32)

    def run(at: int, most: int) -> Any:
        return session.run(None, {"x": x, "at": np.array(at), "most": np.array(most)})[0]

    assert run(3, 5) == 15
    assert run(9, 0) == 0
    with pytest.raises(minicc.UserError, match="MC0158"):
        run(9, 1)


def test_states_that_change_their_shape_stay_on_the_host() -> None:
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    longer (float[n] x, int64 most) => (float[m] y) {
      yes = Constant<value: tensor = bool {1}>()
      y = Loop(most, yes, x) <
        body = b (int64 i, bool c, float[k] s) => (bool goes, float[l] t) {
          goes = Identity(c)
          t = Concat<axis = 0>(s, x)
        }
      >
    }
    """
    session = opened(text)
    for most in (3, 2):  # the first has a program of its own
        (y,) = session.run(None, {"x": np.ones(2, np.float32), "most": np.array(most)})
        assert y.shape == (2 * most + 2,)
    assert hosted(session) == ["graph.while"]


def loops(module: Any, kind: Callable[[Any], bool]) -> int:
    return sum(kind(op) for op in walk(module.main.body))


def test_a_limit_that_is_known_is_no_condition() -> None:
    text = _GROWS.format(n="6", limit="k = Constant<value: tensor = int64 {9}>()", most="k")
    module = opened(text).module
    assert loops(module, lambda op: isinstance(op, graph.While)) == 1
    made = minicc.compile.compiler.lower(module, Options(), stop="simplify-loops")
    (scan,) = [op for op in made.main.body.ops if isinstance(op, graph.Scan)]
    assert (scan.condition, scan.count) == (True, 9)
