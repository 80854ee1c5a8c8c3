"""Attention over many keys is done block by block of the keys, and gives what NumPy gives."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.sweeps import part

import minicc
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.options import Options

Arrays = tuple[Any, ...]


def softmax(s: Any) -> Any:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def plain(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ np.swapaxes(k, -1, -2) * 0.125) @ v


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return softmax(np.where(mask, q @ np.swapaxes(k, -1, -2), -np.inf)) @ v


def biased(q: Any, k: Any, v: Any, bias: Any, scale: Any) -> Any:
    return softmax(q @ np.swapaxes(k, -1, -2) * scale + bias) @ v


def reshaped(q: Any, k: Any, v: Any) -> Any:
    """As exporters write it: heads are split off the batch for the soft-max alone."""
    heads, rows, _ = q.shape
    s = (q @ np.swapaxes(k, -1, -2)).reshape(1, heads, rows, -1)
    return softmax(s).reshape(heads, rows, -1) @ v


def turned(q: Any, k: Any, v: Any) -> Any:
    """Heads in the middle, before and after."""
    return np.einsum("hqk,khd->qhd", softmax(np.einsum("qhd,khd->hqk", q, k)), v)


def qkv(heads: int, rows: int, keys: int, depth: int, width: int, element: type) -> Arrays:
    rng = np.random.default_rng(heads + keys)
    shapes = (heads, rows, depth), (heads, keys, depth), (heads, keys, width)
    return tuple(rng.standard_normal(shape).astype(element) for shape in shapes)


def with_mask(arrays: Arrays, mask: Callable[[int, int], Any]) -> Arrays:
    return (*arrays, mask(arrays[0].shape[-2], arrays[1].shape[-2]))


def middle(arrays: Arrays) -> Arrays:
    return tuple(np.ascontiguousarray(np.swapaxes(x, 0, 1)) for x in arrays)


f32, f64 = np.float32, np.float64
CASES: dict[str, tuple[Callable[..., Any], Arrays]] = {
    "blocks alike": (plain, qkv(2, 40, 1024, 64, 64, f32)),
    "two blocks": (plain, qkv(2, 33, 600, 64, 64, f32)),
    "one block and a shorter one": (plain, qkv(1, 64, 521, 64, 48, f32)),
    "a last block of few keys": (plain, qkv(2, 40, 1541, 64, 64, f32)),
    "wide values": (plain, qkv(1, 40, 700, 16, 128, f32)),
    "float64": (plain, qkv(2, 40, 1100, 64, 64, f64)),
    "causal": (
        masked,
        with_mask(qkv(1, 1100, 1100, 64, 64, f32), lambda n, m: np.tri(n, m, dtype=bool)),
    ),
    "the first blocks masked": (
        masked,
        with_mask(qkv(2, 40, 1600, 64, 64, f32), lambda n, m: np.arange(m) >= 1200),
    ),
    "a bias for each head": (
        biased,
        (*qkv(2, 40, 1100, 64, 64, f32), np.zeros((2, 1, 1100), f32), np.full((), 0.3, f32)),
    ),
    "reshaped": (reshaped, qkv(4, 40, 1024, 64, 64, f32)),
    "heads in the middle": (turned, middle(qkv(3, 40, 1024, 64, 64, f32))),
}


def loops_of(function: Callable[..., Any], arrays: Arrays, **options: Any) -> int:
    lowered = minicc.jit(function, **options).lower(*arrays)
    ops = lowered.at("graph").main.body.ops
    sliced = [op for op in ops if isinstance(op, graph.Scan | graph.Slice)]
    return len(sliced)


@pytest.mark.parametrize("name", part(CASES, 3))
def test_blocks_of_keys(name: str) -> None:
    function, arrays = CASES[name]
    assert loops_of(function, arrays)
    want = function(*[x.astype(f64) if x.dtype.kind == "f" else x for x in arrays])
    results = [minicc.jit(function, threads=n)(*arrays) for n in (1, 2)]
    np.testing.assert_array_equal(results[0], results[1])
    eps = np.finfo(arrays[0].dtype).eps
    np.testing.assert_allclose(results[0], want, rtol=256 * eps, atol=256 * eps)


def test_rows_of_masked_keys_alone_are_nan() -> None:
    arrays = with_mask(qkv(1, 40, 1100, 64, 64, f32), lambda n, m: np.zeros((n, m), bool))
    arrays[-1][3:] = True
    with np.errstate(invalid="ignore"):
        want = masked(*arrays)
    got = minicc.jit(masked)(*arrays)
    assert np.isnan(want[:, :3]).all()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_nan_and_infinity_stay_in_their_rows() -> None:
    q, k, v = qkv(1, 40, 1100, 64, 64, f32)
    q[0, 2], q[0, 5, 0] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        want = plain(q, k, v)
    got = minicc.jit(plain)(q, k, v)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def read_twice(q: Any, k: Any, v: Any) -> Any:
    weights = softmax(q @ np.swapaxes(k, -1, -2))
    return weights @ v, weights


def other_axis(q: Any, k: Any, v: Any) -> Any:
    """The soft-max is over the rows, not over what is summed."""
    s = q @ np.swapaxes(k, -1, -2)
    e = np.exp(s - s.max(-2, keepdims=True))
    return (e / e.sum(-2, keepdims=True)) @ v


LEFT: dict[str, tuple[Callable[..., Any], Arrays, dict[str, str]]] = {
    "few keys": (plain, qkv(2, 40, 256, 64, 64, f32), {}),
    "narrow floats": (plain, qkv(2, 40, 1100, 64, 64, np.float16), {}),
    "a single row": (plain, qkv(2, 1, 2000, 64, 64, f32), {}),
    "weights that are read": (read_twice, qkv(2, 40, 1100, 64, 64, f32), {}),
    "another axis": (other_axis, qkv(2, 1100, 1100, 64, 64, f32), {}),
    "strict mathematics": (plain, qkv(2, 40, 1100, 64, 64, f32), {"math": "strict"}),
}


@pytest.mark.parametrize(("function", "arrays", "options"), LEFT.values(), ids=LEFT)
def test_what_is_left_as_it_is(
    function: Callable[..., Any], arrays: Arrays, options: dict[str, str]
) -> None:
    assert not loops_of(function, arrays, **options)


def model(
    rows: int | str, keys: int | str, width: int = 64, others: Mapping[str, str] | None = None
) -> bytes:
    """Attention with a bias for each key, as exporters write it.

    Others than the keys may have another name for how many there are.
    """
    shapes = {
        "q": (1, 2, rows, width),
        "k": (1, 2, keys, width),
        "v": (1, 2, (others or {}).get("v", keys), width),
        "m": (1, 1, 1, (others or {}).get("m", keys)),
    }
    nodes = [
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "t"], ["s"]),
        helper.make_node("Add", ["s", "m"], ["b"]),
        helper.make_node("Softmax", ["b"], ["w"], axis=-1),
        helper.make_node("MatMul", ["w", "v"], ["x"]),
        helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1, 3]),
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, rows, 2, width))
    made = helper.make_model(
        helper.make_graph(nodes, "attention", inputs, [out]),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    return bytes(made.SerializeToString())


def check(session: minicc.InferenceSession, rows: int, keys: int) -> None:
    rng = np.random.default_rng(keys)
    q, k, v = (rng.standard_normal((1, 2, n, 64)).astype(f32) for n in (rows, keys, keys))
    m = rng.standard_normal((1, 1, 1, keys)).astype(f32)
    (got,) = session.run(None, {"q": q, "k": k, "v": v, "m": m})
    exact: list[Any] = [x.astype(f64) for x in (q, k, v, m)]
    scores = exact[0] @ np.swapaxes(exact[1], -1, -2) + exact[3]
    want = np.swapaxes(softmax(scores) @ exact[2], 1, 2)
    np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-5)


def test_a_model_of_onnx() -> None:
    check(minicc.InferenceSession(model(40, 1100), threads=2), 40, 1100)


@pytest.mark.parametrize("rows", ["keys", "rows", 40])
def test_free_lengths(rows: int | str) -> None:
    """One program for every length: a first block of what is left over, then whole ones."""
    session = minicc.InferenceSession(model(rows, "keys"), threads=2)
    for keys in (1, 7, 511, 512, 513, 1024, 1100, 1541):
        check(session, {"keys": keys, "rows": 33}.get(str(rows), 40), keys)
    assert session.report().count("target") == 1


@pytest.mark.parametrize("others", [{"v": "values"}, {"m": "seen"}, {"v": "values", "m": "seen"}])
def test_keys_and_values_whose_numbers_have_names_of_their_own(others: dict[str, str]) -> None:
    """As exporters name the lengths of each tensor of a cache; one program serves all."""
    session = minicc.InferenceSession(model("rows", "keys", others=others), threads=1)
    for keys in (40, 7, 512, 513, 1100):
        check(session, 33, keys)
    assert len(session._compiled) == 1


def attention(rows: int | str, keys: int | str, **attributes: Any) -> bytes:
    """ONNX's own operator, with a mask where there are no attributes."""
    shapes = {"q": (1, 2, rows, 64), "k": (1, 2, keys, 64), "v": (1, 2, keys, 64)}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    if not attributes:
        inputs.append(helper.make_tensor_value_info("m", TensorProto.BOOL, (rows, keys)))
    node = helper.make_node("Attention", [i.name for i in inputs], ["y"], **attributes)
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, rows, 64))
    made = helper.make_model(
        helper.make_graph([node], "attention", inputs, [out]),
        opset_imports=[helper.make_opsetid("", 23)],
        ir_version=11,
    )
    return bytes(made.SerializeToString())


def loop_of(session: minicc.InferenceSession) -> bool:
    chosen = lower(session.module, Options(), stop="choose-algorithm")
    return any(isinstance(op, graph.Scan) for op in chosen.main.body.ops)


def matrices(session: minicc.InferenceSession) -> list[str]:
    """What a program has in memory that has all rows and all keys."""
    groups = lower(session.module, Options(), stop="fuse").main.body.ops
    square = [r for op in groups for r in op.results if r.type.shape[-1:] == r.type.shape[-2:-1]]
    return [str(r.type) for r in square]


def allowed(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """What the operator means: a row without any key that it may see is 0."""
    scores = q.astype(f64) @ np.swapaxes(k, -1, -2).astype(f64) / 8
    e = np.where(mask, np.exp(scores - np.where(mask, scores, -np.inf).max(-1, keepdims=True)), 0)
    e = np.where(mask.any(-1, keepdims=True), e, 0)
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-300) @ v


@pytest.mark.parametrize("sizes", [(1100, 1100), ("rows", "keys")], ids=str)
def test_causal_attention(sizes: Any) -> None:
    """Its mask is made in each block, and not as a matrix of all rows and keys."""
    session = minicc.InferenceSession(attention(*sizes, is_causal=1), threads=2)
    assert loop_of(session)
    assert not matrices(session)
    for n in (1100, *([3, 600, 1541] if sizes[0] == "rows" else [])):
        q, k, v = qkv(2, n, n, 64, 64, f32)
        (got,) = session.run(None, {"q": q[None], "k": k[None], "v": v[None]})
        want = allowed(q, k, v, np.tri(n, dtype=bool))
        np.testing.assert_allclose(got[0], want, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("sizes", [(40, 1100), ("rows", "keys")], ids=str)
def test_rows_that_see_no_key_are_0(sizes: Any) -> None:
    session = minicc.InferenceSession(attention(*sizes), threads=2)
    q, k, v = qkv(2, 40, 1100, 64, 64, f32)
    mask = np.random.default_rng(0).random((40, 1100)) < 0.5
    mask[[0, 7]] = False
    mask[3, :1000] = False
    (got,) = session.run(None, {"q": q[None], "k": k[None], "v": v[None], "m": mask})
    with np.errstate(invalid="ignore"):
        want = allowed(q, k, v, mask)
    assert not got[0, :, [0, 7]].any()
    np.testing.assert_allclose(got[0], want, rtol=3e-5, atol=3e-5)


def test_keys_of_which_none_stays_near() -> None:
    """A block would have no key at all; compiling is enough, as inputs are gigabytes."""
    assert not loop_of(minicc.InferenceSession(model(40, 1100, 1 << 20), threads=1))
