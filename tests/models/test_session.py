"""Sessions as a user meets them: results, wrong inputs, threads, concurrency, the cache on disk."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import minicc
from minicc.options import Options
from minicc.runtime.execute import place_constants

DIGITS = Path(__file__).parents[2] / "examples" / "01_digits"


def model(batch: int | str = "batch") -> bytes:
    """relu(x @ w + b) with a free or fixed first dimension."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((24, 40)).astype(np.float32)
    b = rng.standard_normal(40).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
            helper.make_node("Add", ["m", "b"], ["a"], name="bias"),
            helper.make_node("Relu", ["a"], ["y"], name="clip"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 40])],
        [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(b, "b")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 10
    return bytes(made.SerializeToString())


def expected(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((24, 40)).astype(np.float32)
    b = rng.standard_normal(40).astype(np.float32)
    return np.maximum(x.astype(np.float64) @ w + b, 0)


@pytest.mark.parametrize("op", ["Add", "Less", "Max", "Where", "Expand", "MatMul"])
def test_sizes_that_broadcast_from_1_have_one_program_for_all_others(op: str) -> None:
    """As TorchDynamo specialises 0 and 1: other sizes stay free."""
    shapes: dict[str, list[Any]] = {"x": ["a", 1, 5], "y": ["b", "c", 5]}
    nodes = [helper.make_node(op, ["x", "y"], ["z"])]
    if op == "Where":
        nodes = [helper.make_node("Less", ["x", "y"], ["m"]), helper.make_node(op, [*"mxy"], ["z"])]
    elif op == "Expand":
        nodes = [helper.make_node("Shape", ["y"], ["s"]), helper.make_node(op, ["x", "s"], ["z"])]
    elif op == "MatMul":
        shapes["y"] = ["b", 5, "c"]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    outputs = [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)]
    if op == "Less":
        outputs[0].type.tensor_type.elem_type = TensorProto.BOOL
    made = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    session = minicc.InferenceSession(made.SerializeToString(), threads=1)
    reference = ReferenceEvaluator(made)
    for a, b, c in ((3, 3, 2), (4, 1, 2), (5, 1, 3), (9, 1, 7), (1, 4, 3), (1, 8, 5), (7, 7, 4)):
        sizes: dict[Any, Any] = {"a": a, "b": b, "c": c}
        feed = {
            name: np.random.default_rng(b).random([sizes.get(n, n) for n in shape], np.float32)
            for name, shape in shapes.items()
        }
        (got,), (want,) = session.run(None, feed), cast("list[Any]", reference.run(None, feed))
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert len(session._compiled) <= 3


@pytest.mark.parametrize("name", ["batch size", "p2o.Dim.0", "é", "a'b", "x+1", "3", "min"])
def test_free_dimension_has_the_name_that_the_model_gives_it(name: str) -> None:
    session = minicc.InferenceSession(model(name), threads=1)
    assert session.get_inputs()[0].shape == [name, 24]
    assert session.get_outputs()[0].shape == [name, 40]
    bound = minicc.InferenceSession(model(name), options=Options(threads=1, sizes={name: 3}))
    assert bound.get_inputs()[0].shape == [3, 24]


def test_free_dimension_is_bound_by_each_call() -> None:
    session = minicc.InferenceSession(model(), threads=1)
    assert session.get_inputs() == [("x", ["batch", 24], "tensor(float)")]
    assert session.get_outputs() == [("y", ["batch", 40], "tensor(float)")]
    for n in (1, 5, 64, 5):
        x = np.random.default_rng(n).standard_normal((n, 24)).astype(np.float32)
        (y,) = session.run(None, {"x": x})
        assert y.shape == (n, 40)
        np.testing.assert_allclose(y, expected(x), rtol=1e-5, atol=1e-5)
    assert session.report().count("any batch: ") == 1


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 13, 14, 48, 49, 101])
def test_one_program_serves_every_size(n: int) -> None:
    session = _free_session()
    x = np.random.default_rng(n).standard_normal((n, 24)).astype(np.float32)
    (y,) = session.run(None, {"x": x})
    np.testing.assert_allclose(y, expected(x), rtol=1e-5, atol=1e-5)


@cache
def _free_session() -> minicc.InferenceSession:
    return minicc.InferenceSession(model(), threads=2)


def test_outputs_by_name() -> None:
    session = minicc.InferenceSession(model(2), threads=1)
    x = np.ones((2, 24), np.float32)
    assert np.array_equal(session.run(["y"], {"x": x})[0], session.run(None, {"x": x})[0])
    with pytest.raises(minicc.UserError, match="no output is called 'z'"):
        session.run(["z"], {"x": x})


def test_odd_arrays_simply_work() -> None:
    session = minicc.InferenceSession(model(3), threads=1)
    x = np.random.default_rng(1).standard_normal((3, 24)).astype(np.float32)
    want = session.run(None, {"x": x})[0]
    strided = np.repeat(x, 2, axis=1)[:, ::2]
    raw = np.zeros(x.nbytes + 1, np.uint8)
    misaligned = raw[1:].view(np.float32).reshape(x.shape)
    misaligned[...] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    for odd in (strided, np.asfortranarray(x), x.astype(">f4"), misaligned, frozen, x.tolist()):
        given = odd if isinstance(odd, np.ndarray) else np.asarray(odd, np.float32)
        assert np.array_equal(session.run(None, {"x": given})[0], want)


def test_all_that_is_wrong_with_the_inputs_is_said_at_once() -> None:
    session = minicc.InferenceSession(model(2), threads=1)
    with pytest.raises(minicc.UserError) as caught:
        session.run(None, {"x": np.ones((2, 24)), "q": np.ones(1)})
    text = str(caught.value)
    assert "no input is called 'q'" in text
    assert "the input 'x' is float64, and must be float32" in text
    with pytest.raises(minicc.UserError, match="the input 'x' is 3x24, and must be"):
        session.run(None, {"x": np.ones((3, 24), np.float32)})
    with pytest.raises(minicc.UserError, match=r"the input 'x' .* is missing"):
        session.run(None, {})


def digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    with np.load(DIGITS / "images.npz") as stored:
        return stored["images"], stored["probabilities"]


@pytest.mark.parametrize("math", ["fast", "strict"])
@pytest.mark.parametrize("target", [None, "avx2", "x86-64"])
def test_digits_network(math: str, target: str | None) -> None:
    images, probabilities = digits()
    options = Options(threads=1, math=math, target=target)
    if not options.machine.runs_here():
        with pytest.raises(minicc.UserError, match="can't run code"):
            minicc.InferenceSession(DIGITS / "digits.onnx", options=options)
        return
    session = minicc.InferenceSession(DIGITS / "digits.onnx", options=options)
    for image, want in zip(images, probabilities, strict=True):
        (got,) = session.run(None, {"image": image[None]})
        assert np.max(np.abs(got[0] - want)) < 2e-6


def test_same_bits_for_any_number_of_threads_and_from_run_to_run() -> None:
    images, _ = digits()
    results = []
    for threads in (1, 2, 3):
        session = minicc.InferenceSession(DIGITS / "digits.onnx", threads=threads)
        for _ in range(3):
            results.append(session.run(None, {"image": images[:1]})[0].tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_one_session_from_several_python_threads(threads: int) -> None:
    images, _ = digits()
    session = minicc.InferenceSession(DIGITS / "digits.onnx", threads=threads)
    want = [session.run(None, {"image": image[None]})[0].tobytes() for image in images]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(20):
            for k, image in enumerate(images):
                if session.run(None, {"image": image[None]})[0].tobytes() != want[k]:
                    wrong.append(k)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_results_are_the_callers_own() -> None:
    session = minicc.InferenceSession(model(2), threads=1)
    first = session.run(None, {"x": np.ones((2, 24), np.float32)})[0]
    kept = first.copy()
    session.run(None, {"x": np.zeros((2, 24), np.float32)})
    assert np.array_equal(first, kept)


def test_object_code_is_found_again_and_rebuilt_when_damaged(tmp_path: Path) -> None:
    options = Options(threads=1, cache_dir=tmp_path / "cache")
    x = np.ones((2, 24), np.float32)
    want = minicc.InferenceSession(model(2), options=options).run(None, {"x": x})[0]
    entries = sorted((tmp_path / "cache").iterdir())
    assert entries
    before = {e.name: e.read_bytes() for e in entries}
    for e in entries:
        e.write_bytes(e.read_bytes()[:-7])
    again = minicc.InferenceSession(model(2), options=options.replace(threads=2))
    assert np.array_equal(again.run(None, {"x": x})[0], want)
    # what the second session looked for is whole again
    whole = {e.name for e in entries if e.read_bytes() == before[e.name]}
    assert whole


def test_equal_weights_are_in_memory_once() -> None:
    weights = np.random.default_rng(5).standard_normal(5000).astype(np.float32)
    (first,), _ = place_constants([weights])
    (second,), _ = place_constants([weights.copy()])
    (other,), _ = place_constants([weights + (np.arange(5000) == 2500)])
    assert np.shares_memory(first, second)
    assert not np.shares_memory(first, other)


def test_sizes_that_are_given_ahead() -> None:
    options = Options(threads=1, sizes={"batch": 5})
    session = minicc.InferenceSession(model(), options=options)
    assert session.get_inputs() == [("x", [5, 24], "tensor(float)")]
    x = np.random.default_rng(5).standard_normal((5, 24)).astype(np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(minicc.UserError, match="must be f32\\[5,24\\]"):
        session.run(None, {"x": x[:3]})
    with pytest.raises(minicc.UserError, match=r"MC0168.*no free dimension 'seq'"):
        minicc.InferenceSession(model(), options=options.replace(sizes={"seq": 1}))
    with pytest.raises(minicc.UserError, match=r"MC0101.*sizes is"):
        Options(sizes={"batch": -1})


def test_sizes_are_values_of_their_types() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["s"], ["i"], to=TensorProto.INT32),
    ]
    infos = [
        helper.make_tensor_value_info(name, kind, None)
        for name, kind in zip("sfi", (TensorProto.INT64, 1, TensorProto.INT32), strict=True)
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    made = helper.make_model(
        helper.make_graph(nodes, "sizes", [x], infos),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=10,
    )
    session = minicc.InferenceSession(made.SerializeToString(), threads=1)
    for n in (0, 4):
        for y in session.run(None, {"x": np.zeros((n, 3), np.float32)}):
            assert y.tolist() == [n, 3]
    found = session.run(None, {"x": np.zeros((2, 3), np.float32)})
    assert [y.dtype for y in found] == [np.int64, np.float32, np.int32]


def test_sizes_of_their_own_of_a_file_without_a_cache(tmp_path: Path) -> None:
    """Fewer rows than a slice skips have a graph of their own, for which the file is read again."""
    held = [onnx.numpy_helper.from_array(np.array([n]), name) for name, n in (("s", 3), ("e", 9))]
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "s", "e"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        held,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    path = tmp_path / "model.onnx"
    onnx.save(made, path)
    for place in (False, tmp_path / "cache"):
        session = minicc.InferenceSession(path, options=Options(threads=1, cache_dir=place))
        for n in (2, 5, 1):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], x[3:9])
