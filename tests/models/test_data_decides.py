"""Models that data decide: values that shapes depend on, branches, loops, sequences, host nodes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minicc
from minicc.errors import UserError

Array = np.ndarray[Any, Any]
F, INT, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name: str, kind: int, shape: Sequence[int | str] | None = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def session(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    initialisers: Sequence[Any] = (),
) -> minicc.InferenceSession:
    graph = helper.make_graph(nodes, "g", inputs, outputs, initialisers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return minicc.InferenceSession(model.SerializeToString(), threads=1)


def programs_of(s: minicc.InferenceSession) -> int:
    return len(s._compiled)


X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_a_shape_that_is_an_input() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Reshape", ["r", "shape"], ["y"]),
    ]
    s = session(nodes, [info("x", F, [3, 4]), info("shape", INT, [2])], [info("y", F, None)])
    for shape in ((4, 3), (2, 6), (12, 1), (4, 3)):
        (y,) = s.run(None, {"x": X, "shape": np.array(shape)})
        np.testing.assert_array_equal(y, X.reshape(shape))
    assert programs_of(s) == 2, "the first shape has its own"


def test_a_size_that_is_computed() -> None:
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=1),
        helper.make_node("Cast", ["total"], ["n"], to=INT),
        helper.make_node("Reshape", ["n", "one"], ["shape"]),
        helper.make_node("Expand", ["x", "shape"], ["y"]),
        helper.make_node("Neg", ["y"], ["z"]),
    ]
    one = onnx.numpy_helper.from_array(np.array([1]), "one")
    s = session(nodes, [info("x", F, [1])], [info("z", F, ["n"])], [one])
    for n in (3, 1, 5):
        (z,) = s.run(None, {"x": np.array([n], np.float32)})
        np.testing.assert_array_equal(z, np.full(n, -n, np.float32))


def branches() -> list[Any]:
    then = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["t"])],
        "then",
        [],
        [info("t", F)],
        [onnx.numpy_helper.from_array(np.array(2, np.float32), "two")],
    )
    other = helper.make_graph(
        [helper.make_node("ReduceMax", ["x"], ["e"], axes=[0], keepdims=0)],
        "else",
        [],
        [info("e", F)],
    )
    return [
        helper.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other),
        helper.make_node("Abs", ["b"], ["y"]),
    ]


def test_a_branch_by_an_input() -> None:
    s = session(branches(), [info("x", F, [3, 4]), info("c", B, [])], [info("y", F)])
    for _ in range(2):
        (y,) = s.run(None, {"x": -X, "c": np.array(True)})
        np.testing.assert_array_equal(y, 2 * X)
        (y,) = s.run(None, {"x": -X, "c": np.array(False)})
        np.testing.assert_array_equal(y, X[0])
    assert programs_of(s) == 1


def test_a_branch_that_is_known_is_compiled_whole() -> None:
    c = onnx.numpy_helper.from_array(np.array(False), "c")
    s = session(branches(), [info("x", F, [3, 4])], [info("y", F)], [c])
    np.testing.assert_array_equal(s.run(None, {"x": -X})[0], X[0])
    assert "static shapes" in s.report()


def loop(stop: float) -> list[Any]:
    """Doubles x until its sum reaches `stop`; collects the sums."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["w"]),
            helper.make_node("ReduceSum", ["w"], ["s"], keepdims=0),
            helper.make_node("Less", ["s", "stop"], ["on"]),
        ],
        "body",
        [info("k", INT, []), info("c", B, []), info("v", F)],
        [info("on", B, []), info("w", F), info("s", F, [])],
    )
    return [helper.make_node("Loop", ["most", "", "x"], ["y", "sums"], body=body)]


def test_a_loop_with_a_condition() -> None:
    stop = onnx.numpy_helper.from_array(np.array(100, np.float32), "stop")
    inputs = [info("x", F, [3]), info("most", INT, [])]
    s = session(loop(100), inputs, [info("y", F), info("sums", F)], [stop])
    x = np.ones(3, np.float32)
    y, sums = s.run(None, {"x": x, "most": np.array(50)})
    assert y.tolist() == [64, 64, 64]
    assert sums.tolist() == [6, 12, 24, 48, 96, 192]
    y, sums = s.run(None, {"x": x, "most": np.array(2)})
    assert y.tolist() == [4, 4, 4]
    y, sums = s.run(None, {"x": x, "most": np.array(0)})
    assert y.tolist() == [1, 1, 1]
    assert sums.shape == (0,)


def test_a_loop_that_carries_a_sequence() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["on"]),
            helper.make_node("Cast", ["k"], ["f"], to=F),
            helper.make_node("Mul", ["x", "f"], ["m"]),
            helper.make_node("SequenceInsert", ["items", "m"], ["more"]),
        ],
        "body",
        [
            info("k", INT, []),
            info("c", B, []),
            helper.make_tensor_sequence_value_info("items", F, None),
        ],
        [info("on", B, []), helper.make_tensor_sequence_value_info("more", F, None)],
    )
    nodes = [
        helper.make_node("SequenceEmpty", [], ["none"]),
        helper.make_node("Loop", ["most", "", "none"], ["all"], body=body),
        helper.make_node("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1),
    ]
    s = session(nodes, [info("x", F, [2]), info("most", INT, [])], [info("y", F)])
    (y,) = s.run(None, {"x": np.array([1, 2], np.float32), "most": np.array(3)})
    assert y.tolist() == [[0, 0], [1, 2], [2, 4]]


def test_a_scan_is_a_running_sum() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["total", "row"], ["next"]),
            helper.make_node("Identity", ["next"], ["out"]),
        ],
        "body",
        [info("total", F, [4]), info("row", F, [4])],
        [info("next", F, [4]), info("out", F, [4])],
    )
    nodes = [helper.make_node("Scan", ["zero", "x"], ["last", "y"], body=body, num_scan_inputs=1)]
    inputs = [info("zero", F, [4]), info("x", F, [3, 4])]
    s = session(nodes, inputs, [info("last", F), info("y", F)])
    last, y = s.run(None, {"zero": np.zeros(4, np.float32), "x": X})
    np.testing.assert_array_equal(y, np.cumsum(X, 0))
    np.testing.assert_array_equal(last, X.sum(0))


def test_a_scan_that_stacks_what_has_no_known_rank_the_last_first() -> None:
    body = helper.make_graph(
        [helper.make_node("Mul", ["row", "item"], ["out"])],
        "body",
        [info("row", F, [4])],
        [info("out", F)],
    )
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "row"], ["items"]),
        helper.make_node("SequenceAt", ["items", "k"], ["item"]),
        helper.make_node(
            "Scan", ["x"], ["y"], body=body, num_scan_inputs=1, scan_output_directions=[1]
        ),
    ]
    given = [info("x", F, [3, 4]), info("row", F, [4]), info("k", INT, [])]
    s = session(nodes, given, [info("y", F)])
    row = np.array([1, 2, 3, 4], np.float32)
    for k, item in enumerate((X, row)):
        (y,) = s.run(None, {"x": X, "row": row, "k": np.array(k)})
        np.testing.assert_array_equal(y, np.stack([r * item for r in X[::-1]]))


def test_a_reshape_to_a_count_that_may_be_0() -> None:
    """As 0 stands for the tensor's own extent, no count is wrong that is as long as that, or 0."""
    nodes = [
        helper.make_node("Range", ["first", "stop", "one"], ["numbers"]),
        helper.make_node("Shape", ["numbers"], ["count"]),
        helper.make_node("Concat", ["count", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    held = [
        numpy_helper.from_array(np.array(1), "one"),
        numpy_helper.from_array(np.array([2]), "rest"),
    ]
    given = [info("x", F, [1, "n"]), info("first", INT, []), info("stop", INT, [])]
    s = session(nodes, given, [info("y", F)], held)
    for stop in (1, 0, 1):
        x = np.ones((1, 2), np.float32)
        (y,) = s.run(None, {"x": x, "first": np.array(0), "stop": np.array(stop)})
        np.testing.assert_array_equal(y, x)
    with pytest.raises(UserError, match="MC0128 error: Reshape"):
        s.run(None, {"x": x, "first": np.array(0), "stop": np.array(3)})


def test_an_input_that_is_missing_is_no_reason_to_compile_again() -> None:
    texts = helper.make_tensor_value_info("texts", TensorProto.STRING, ["k"])
    nodes = [
        helper.make_node("Identity", ["texts"], ["same"]),
        helper.make_node("Neg", ["x"], ["y"]),
    ]
    s = session(
        nodes, [info("x", F, ["n"]), texts], [info("y", F), info("same", TensorProto.STRING)]
    )
    with pytest.raises(UserError, match=r"'texts' .* is missing"):
        s.run(None, {"x": np.ones(2, np.float32)})
    assert not s._others


def test_sequences_come_and_go() -> None:
    nodes = [
        helper.make_node("SequenceAt", ["items", "k"], ["one"]),
        helper.make_node("Exp", ["one"], ["e"]),
        helper.make_node("SequenceInsert", ["items", "e"], ["more"]),
    ]
    items = helper.make_tensor_sequence_value_info("items", F, None)
    more = helper.make_tensor_sequence_value_info("more", F, None)
    s = session(nodes, [items, info("k", INT, [])], [more])
    assert s.get_inputs()[0].type == "seq(tensor(float))"
    given = [np.zeros(2, np.float32), np.ones((1, 3), np.float32)]
    (out,) = s.run(None, {"items": given, "k": np.array(-1)})
    assert [a.shape for a in out] == [(2,), (1, 3), (1, 3)]
    np.testing.assert_allclose(out[2], np.exp(given[1]), rtol=1e-6)
    with pytest.raises(UserError, match="position 7 of a sequence of 2"):
        s.run(None, {"items": given, "k": np.array(7)})


def test_any_tensor_by_its_name() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Neg", ["r"], ["n"]),
        helper.make_node("Exp", ["n"], ["y"]),
    ]
    s = session(nodes, [info("x", F, [3, 4])], [info("y", F, [3, 4])])
    r, y = s.run(["r", "y"], {"x": X - 5})
    np.testing.assert_array_equal(r, np.maximum(X - 5, 0))
    np.testing.assert_allclose(y, np.exp(-r), rtol=1e-6)
    with pytest.raises(UserError, match="no output is called 'q'"):
        s.run(["q"], {"x": X})


def test_unnamed_dimensions_differ() -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])]
    s = session(nodes, [info("x", F, ["?", "?"])], [info("y", F, ["?", "?"])])
    np.testing.assert_array_equal(s.run(None, {"x": X})[0], X.T)


def test_several_threads_may_build_parts_at_once() -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["r"]),
        helper.make_node("Reshape", ["r", "shape"], ["y"]),
    ]
    s = session(nodes, [info("x", F, [3, 4]), info("shape", INT, [2])], [info("y", F, None)])
    wrong: list[Any] = []

    def work(k: int) -> None:
        for shape in ((4, 3), (2, 6), (1, 12)) * 3:
            (y,) = s.run(None, {"x": X + k, "shape": np.array(shape)})
            if not np.allclose(y, np.exp(X + k).reshape(shape)):
                wrong.append((k, shape))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_a_graph_for_each_size_whose_data_fit_no_program() -> None:
    nodes = [
        helper.make_node("Size", ["s"], ["n"]),
        helper.make_node("MelWeightMatrix", ["n", "length", "rate", "low", "high"], ["f"]),
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Expand", ["places", "two"], ["y"]),
    ]
    inputs = [info("x", F, [1]), info("s", F, ["b", "n", "m"])]
    held = {"two": np.array([2]), "length": np.array(16), "rate": np.array(16)}
    held |= {"low": np.array(0, np.float32), "high": np.array(8, np.float32)}
    tensors = [numpy_helper.from_array(a, name) for name, a in held.items()]
    graph = helper.make_graph(nodes, "g", inputs, [info("f", F), info("y", INT)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    s = minicc.InferenceSession(model.SerializeToString(), threads=1)
    assert s.facts.sized
    feed = {"x": np.ones(1, np.float32), "s": np.ones((1, 2, 1), np.float32)}
    f, y = s.run(None, feed)
    assert y.tolist() == [[0, 0]]
    assert f.shape == (9, 2)


@pytest.mark.parametrize("op", ["Transpose", "Squeeze", "Identity"])
def test_a_text_of_no_axis_stays_an_array_of_objects(op: str) -> None:
    text = TensorProto.STRING
    nodes = [helper.make_node(op, ["x"], ["y"])]
    s = session(nodes, [info("x", text, [])], [info("y", text, [])])
    (y,) = s.run(None, {"x": np.array("b", object)})
    assert (y.dtype, y.shape, y.item()) == (np.dtype(object), (), "b")
