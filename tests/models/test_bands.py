"""Blocks of keys are computed for those rows alone that may see one of them."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.models.test_online_softmax import allowed, attention, qkv, softmax
from tests.sweeps import part

import minicc
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.affine import multiply, size
from minicc.ir.core import Module
from minicc.ir.text.parser import parse_module
from minicc.options import Options
from minicc.passes.graph.attention import attentions
from minicc.passes.graph.bands import Band, band_of

f32, f64 = np.float32, np.float64
LOWEST = float(np.finfo(f32).min)
Condition = Callable[[Any, Any], Any]
# what row r sees of key k
BANDS: dict[str, Condition] = {
    "earlier keys and its own": lambda r, k: k <= r,
    "earlier keys": lambda r, k: k < r + 1,
    "shifted": lambda r, k: k <= r + 300,
    "shifted back": lambda r, k: k - 200 <= r - 250,
    "not later keys": lambda r, k: ~(k > r),
    "a window": lambda r, k: (k <= r) & (k > r - 100),
    "a window on both sides": lambda r, k: (r - k <= 40) & (k - r <= 333),
    "later keys": lambda r, k: k >= r,
}


def places(rows: int, keys: int) -> tuple[Any, Any]:
    return np.arange(rows)[:, None], np.arange(keys)


def selected(condition: Condition, fill: float) -> Callable[..., Any]:
    def run(q: Any, k: Any, v: Any) -> Any:
        scores = q @ np.swapaxes(k, -1, -2) * f32(0.125)
        seen = condition(*places(q.shape[-2], k.shape[-2]))
        return softmax(np.where(seen, scores, f32(fill))) @ v

    return run


def added(condition: Condition, fill: float, turn: bool = False) -> Callable[..., Any]:
    def run(q: Any, k: Any, v: Any) -> Any:
        scores = q @ np.swapaxes(k, -1, -2) * f32(0.125)
        seen = condition(*places(q.shape[-2], k.shape[-2]))
        bias = np.where(~seen, f32(fill), f32(0)) if turn else np.where(seen, f32(0), f32(fill))
        return softmax(scores + bias) @ v

    return run


def banded(module: Module) -> bool:
    """Whether the loop over blocks writes some of the rows."""
    scans = [op for op in module.main.body.ops if isinstance(op, graph.Scan)]
    assert scans
    return any(isinstance(op, graph.InsertSlice) for op in scans[0].body.ops)


def agree(function: Callable[..., Any], rows: int, keys: int, band: bool) -> None:
    arrays = qkv(2, rows, keys, 64, 64, f32)
    lowered = minicc.jit(function).lower(*arrays)
    assert banded(lowered.at("graph")) == band
    with np.errstate(invalid="ignore"):
        want = function(*arrays)
    results = [minicc.jit(function, threads=n)(*arrays) for n in (1, 2)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], want, rtol=1e-4, atol=1e-4)


SIZES = ((1100, 1100), (700, 1250), (1250, 700))


@pytest.mark.parametrize(("name", "sizes"), part(product(BANDS, SIZES), 6))
def test_bands(name: str, sizes: tuple[int, int]) -> None:
    agree(selected(BANDS[name], -np.inf), *sizes, band=True)


def test_known_masks_of_other_forms() -> None:
    """What a mask shows is within the band, even where that is wider."""
    agree(selected(lambda r, k: (k <= r) & (k % 3 != 1), -np.inf), 1100, 1100, band=True)
    agree(selected(lambda r, k: (k <= r) | (k > 1000), -np.inf), 1100, 1100, band=False)
    agree(selected(lambda r, k: k <= 700 + 0 * r, -np.inf), 1100, 1100, band=False)


@pytest.mark.parametrize("turn", [False, True])
@pytest.mark.parametrize("fill", [-np.inf, LOWEST])
def test_masks_that_are_added(fill: float, turn: bool) -> None:
    agree(added(BANDS["earlier keys and its own"], fill, turn), 1100, 1100, band=True)


@pytest.mark.parametrize("name", ["shifted back", "a window"])
def test_finite_numbers_hide_where_each_row_sees_a_key(name: str) -> None:
    """A row that sees no key weighs all of them equally."""
    agree(selected(BANDS[name], LOWEST), 1100, 1100, band=name == "a window")


def test_finite_masks_of_two_kinds_may_hide_all_keys() -> None:
    def run(q: Any, k: Any, v: Any, padded: Any) -> Any:
        rows, keys = places(q.shape[-2], k.shape[-2])
        scores = q @ np.swapaxes(k, -1, -2)
        scores = scores + np.where(keys <= rows, f32(0), f32(LOWEST))
        return softmax(np.where(padded, f32(LOWEST), scores)) @ v

    q, k, v = qkv(2, 1100, 1100, 64, 64, f32)
    padded = np.arange(1100) < 300
    with np.errstate(over="ignore"):
        want = run(q, k, v, padded)
    np.testing.assert_allclose(minicc.jit(run)(q, k, v, padded), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(1100, 1100), ("rows", "keys"), ("n", "n")], ids=str)
def test_causal_attention_of_onnx(sizes: Any) -> None:
    session = minicc.InferenceSession(attention(*sizes, is_causal=1), threads=2)
    assert banded(lower(session.module, Options(), stop="choose-algorithm"))
    for n in (1100, *(() if isinstance(sizes[0], int) else (1, 255, 256, 257, 700))):
        keys = n + 130 if sizes[0] != sizes[1] else n
        q, k, v = qkv(2, n, keys, 64, 64, f32)
        (got,) = session.run(None, {"q": q[None], "k": k[None], "v": v[None]})
        want = allowed(q, k, v, np.tri(n, keys, dtype=bool))
        np.testing.assert_allclose(got[0], want, rtol=3e-5, atol=3e-5)


def test_keys_of_earlier_steps() -> None:
    """Rows are numbered after those of the past, whose length is free."""
    names = {"q": "rows", "k": "rows", "v": "rows", "past_k": "past", "past_v": "past"}
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 2, size, 64))
        for n, size in names.items()
    ]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "pk", "pv")]
    node = helper.make_node(
        "Attention", ["q", "k", "v", "", "past_k", "past_v"], ["y", "pk", "pv"], is_causal=1
    )
    made = helper.make_model(
        helper.make_graph([node], "attention", inputs, outs),
        opset_imports=[helper.make_opsetid("", 23)],
        ir_version=11,
    )
    session = minicc.InferenceSession(made.SerializeToString(), threads=2)
    assert banded(lower(session.module, Options(), stop="choose-algorithm"))
    for rows, past in ((1, 5), (40, 300), (600, 0), (600, 1000), (3, 511)):
        q, k, v = qkv(2, rows, rows, 64, 64, f32)
        rng = np.random.default_rng(rows)
        pk, pv = rng.standard_normal((2, 1, 2, past, 64)).astype(f32)
        feed = {"q": q[None], "k": k[None], "v": v[None], "past_k": pk, "past_v": pv}
        got = session.run(["y"], feed)[0][0]
        mask = np.tri(rows, rows + past, past, dtype=bool)
        want = allowed(q, np.concatenate([pk[0], k], 1), np.concatenate([pv[0], v], 1), mask)
        np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-5)


PLACES = {
    "le %k, %r": (Band(1, newest=0), True),
    "lt %k, %r": (Band(1, newest=-1), False),
    "le %r, %k": (Band(1, oldest=0), False),
    "lt %r, %k": (Band(1, oldest=-1), False),
    "le %k, %later": (Band(1, newest=size("$past")), True),
    "lt %later, %k": (Band(1, oldest=multiply(size("$past") + 1, -1)), False),
    "le %r, %far": (Band(1, oldest=size("$rows")), True),
    "le %k, %column": (None, False),
    "le %k, %twice": (None, False),
    "le %sum, %one": (None, False),
}


@pytest.mark.parametrize("fill", ["-inf", "-3.4028235e+38"])
@pytest.mark.parametrize("condition", PLACES)
def test_comparisons_of_places(condition: str, fill: str) -> None:
    want, sees_all = PLACES[condition]
    text = f"""module level = "graph"
func @main(%q: f32[2,$rows,64], %keys: f32[2,$n,64], %v: f32[2,$n,64]) -> ("y": f32[2,$rows,64]) {{
  %p = graph.contract %q, %keys {{equation = "ayk,azk->ayz"}} : f32[2,$rows,$n]
  %k = graph.iota {{shape = [$n], axis = 0, dtype = !i32}} : i32[$n]
  %r = graph.iota {{shape = [$rows, 1], axis = 0, dtype = !i32}} : i32[$rows,1]
  %past = graph.sizes {{values = [$past], shape = [], dtype = !i32}} : i32
  %later = graph.add %r, %past : i32[$rows,1]
  %rows = graph.sizes {{values = [$rows], shape = [], dtype = !i32}} : i32
  %far = graph.add %k, %rows : i32[$n]
  %twice = graph.add %r, %r : i32[$rows,1]
  %one = graph.iota {{shape = [1, 1], axis = 0, dtype = !i32}} : i32[1,1]
  %column = graph.add %one, %past : i32[1,1]
  %sum = graph.add %k, %r : i32[$rows,$n]
  %c = graph.{condition} : bool[{"1" if "column" in condition else "$rows"},$n]
  %least = graph.constant {{value = dense<f32, {fill}>}} : f32
  %s = graph.select %c, %p, %least : f32[2,$rows,$n]
  %top = graph.reduce %s {{axes = [2], combine = "max", keepdims = true}} : f32[2,$rows,1]
  %low = graph.sub %s, %top : f32[2,$rows,$n]
  %e = graph.exp %low : f32[2,$rows,$n]
  %total = graph.reduce %e {{axes = [2], combine = "add", keepdims = true}} : f32[2,$rows,1]
  %w = graph.div %e, %total : f32[2,$rows,$n]
  %y = graph.contract %w, %v {{equation = "ayk,akz->ayz"}} : f32[2,$rows,64]
  yield %y
}}
"""
    function = parse_module(text).main
    (found,) = attentions(function)
    makers = {r: op for op in function.body.ops for r in op.results}
    got = band_of(found, makers)
    assert got == (want if want and (fill == "-inf" or sees_all) else None)
