"""Loops whose states grow by concatenation in each round, as decoders and caches do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser
from tests.models.test_whiles import hosted

from minicc.api.session import InferenceSession

Array = np.ndarray[Any, Any]
SIZES = [(2, 5), (1, 1), (3, 40), (2, 0)]


def opened(body: str, rounds: str = "rounds = Gather(shape, one)", first: str = "s") -> Any:
    """A model that loops over axis 1 of `x`, with a state `y` that `body` makes longer."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[b, s, 3] x, float[b, {first}, 3] y0) => (float[b, m, 3] y_last, float[r, b, 3] all) {{
        yes = Constant<value: tensor = bool {{1}}>()
        zero = Constant<value: tensor = int64 {{0}}>()
        one = Constant<value: tensor = int64 {{1}}>()
        last = Constant<value: tensor = int64 {{-1}}>()
        axis = Constant<value_ints = [1]>()
        shape = Shape(x)
        {rounds}
        y_last, all = Loop(rounds, yes, y0) <body = each (
            int64 i, bool on, float[b, n, 3] y)
            => (bool still, float[b, m, 3] new, float[b, 3] o) {{
                {body}
                still = Identity(yes)
            }}>
    }}"""
    return InferenceSession(parser.parse_model(text).SerializeToString(), threads=1)


ROW = "row = Gather<axis = 1>(x, i)\n"
APPENDED = ROW + "part = Unsqueeze(row, axis)\nnew = Concat<axis = 1>(y, part)\n"
TWICE = (
    ROW + "part = Unsqueeze(row, axis)\nhalf = Tanh(part)\nnew = Concat<axis = 1>(y, part, half)\n"
)
FRONT = APPENDED.replace("(y, part)", "(part, y)")
SUM = "o = ReduceSum<keepdims = 0>(new, axis)"


def appended(kind: str, y: Array, part: Array) -> Array:
    if kind == "front":
        return np.concatenate([part, y], 1)
    return np.concatenate([y, part, *([np.tanh(part)] if kind == "twice" else [])], 1)


@pytest.mark.parametrize("fixed", [False, True], ids=["free", "fixed"])
@pytest.mark.parametrize(("kind", "body"), [("once", APPENDED), ("twice", TWICE), ("front", FRONT)])
def test_a_state_that_grows_by_concatenation(kind: str, body: str, fixed: bool) -> None:
    session = opened(body + SUM, first="2" if fixed else "t")
    assert bool(hosted(session)) == (kind == "front")
    for batch, size in SIZES:
        rng = np.random.default_rng(size)
        x = rng.standard_normal((batch, size, 3)).astype(np.float32)
        y = rng.standard_normal((batch, 2 if fixed else size % 4, 3)).astype(np.float32)
        got = session.run(None, {"x": x, "y0": y})
        sums = []
        for i in range(size):
            y = appended(kind, y, x[:, i : i + 1])
            sums.append(y.sum(1))
        np.testing.assert_allclose(got[0], y, rtol=1e-6, atol=1e-6)
        assert got[1].shape == (size, batch, 3)
        if size:
            np.testing.assert_allclose(got[1], np.stack(sums), rtol=1e-5, atol=1e-5)
    if kind != "front":
        assert len(session._compiled) == 1


def test_what_a_round_adds_depends_on_all_before() -> None:
    body = """keys = Transpose<perm = [0, 2, 1]>(y)
    row = Gather<axis = 1>(x, i)
    part = Unsqueeze(row, axis)
    scores = MatMul(part, keys)
    weights = Softmax<axis = -1>(scores)
    mixed = MatMul(weights, y)
    next = Add(mixed, part)
    new = Concat<axis = 1>(y, next)
    o = Squeeze(mixed, axis)"""
    session = opened(body, first="1")
    assert not hosted(session)
    for batch, size in SIZES:
        rng = np.random.default_rng(size)
        x = rng.standard_normal((batch, size, 3)).astype(np.float32)
        y = rng.standard_normal((batch, 1, 3)).astype(np.float32)
        got = session.run(None, {"x": x, "y0": y})
        for i in range(size):
            part = x[:, i : i + 1]
            weights = np.exp(part @ y.swapaxes(1, 2))
            weights /= weights.sum(-1, keepdims=True)
            y = np.concatenate([y, weights @ y + part], 1)
        np.testing.assert_allclose(got[0], y, rtol=1e-4, atol=1e-4)


def test_many_rounds_of_a_known_number() -> None:
    rounds = "rounds = Constant<value: tensor = int64 {30}>()"
    body = APPENDED.replace("Gather<axis = 1>(x, i)", "Gather<axis = 1>(y, last)") + SUM
    session = opened(body, rounds, "1")
    assert not hosted(session)
    x, y = np.zeros((2, 4, 3), np.float32), np.ones((2, 1, 3), np.float32)
    got = session.run(None, {"x": x, "y0": y})
    np.testing.assert_array_equal(got[0], np.ones((2, 31, 3)))
    np.testing.assert_array_equal(got[1][:, 0, 0], np.arange(2, 32))


def test_a_state_that_doubles_is_right() -> None:
    session = opened("o = ReduceSum<keepdims = 0>(y, axis)\nnew = Concat<axis = 1>(y, y)")
    for size in (0, 1, 3, 6):
        x, y = np.zeros((2, size, 3), np.float32), np.ones((2, size % 3, 3), np.float32)
        got, _ = session.run(None, {"x": x, "y0": y})
        np.testing.assert_array_equal(got, np.ones((2, size % 3 << size, 3)))


def test_a_state_that_grows_in_another_way_is_right() -> None:
    body = ROW + "part = Unsqueeze(row, axis)\nless = Neg(y)\nnew = Concat<axis = 1>(less, part)\n"
    session = opened(body + SUM, first="2")
    x = np.random.default_rng(0).standard_normal((2, 20, 3)).astype(np.float32)
    y = np.ones((2, 2, 3), np.float32)
    got = session.run(None, {"x": x, "y0": y})
    for i in range(20):
        y = np.concatenate([-y, x[:, i : i + 1]], 1)
    np.testing.assert_allclose(got[0], y, rtol=1e-6)
