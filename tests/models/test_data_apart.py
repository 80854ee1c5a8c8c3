"""What data decide is kept apart: names, contents, and the caller's arrays."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.models.test_data_decides import INT, B, F, info, session

import minicc
from minicc.errors import UnsupportedError, UserError

Array = np.ndarray[Any, Any]
X = np.arange(6, dtype=np.float32)


def tensor(value: Any, name: str) -> Any:
    return onnx.numpy_helper.from_array(np.asarray(value), name)


def graph(nodes: Sequence[Any], outputs: Sequence[Any], **options: Any) -> Any:
    return helper.make_graph(nodes, "inner", options.pop("inputs", []), outputs, **options)


def scaled(factor: float) -> Any:
    """A branch: x in another shape, times a constant; names are the same in all of them."""
    return graph(
        [
            helper.make_node("Reshape", ["x", "shape"], ["t"], name="same"),
            helper.make_node("Mul", ["t", "w"], ["out"], name="same"),
        ],
        [info("out", F)],
        initializer=[tensor(np.float32(factor), "w")],
    )


def test_branches_with_the_same_names() -> None:
    nodes = [
        helper.make_node(
            "If", ["c"], ["a"], name="it", then_branch=scaled(2), else_branch=scaled(3)
        ),
        helper.make_node(
            "If", ["d"], ["b"], name="it", then_branch=scaled(5), else_branch=scaled(7)
        ),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    inputs = [info("x", F, [6]), info("c", B, []), info("d", B, []), info("shape", INT, [2])]
    s = session(nodes, inputs, [info("y", F)])
    for shape in ([2, 3], [3, 2], [1, 6]):
        for c in (True, False, True):
            for d in (False, True):
                feed = {"x": X, "c": np.array(c), "d": np.array(d), "shape": np.array(shape)}
                (y,) = s.run(None, feed)
                factor = (2 if c else 3) + (5 if d else 7)
                np.testing.assert_array_equal(y, factor * X.reshape(shape))


def counted(step: float) -> Any:
    """A loop's body: adds a number."""
    return graph(
        [helper.make_node("Add", ["v", "w"], ["n"]), helper.make_node("Identity", ["c"], ["on"])],
        [info("on", B, []), info("n", F)],
        inputs=[info("k", INT, []), info("c", B, []), info("v", F)],
        initializer=[tensor(np.float32(step), "w")],
    )


def test_loops_with_the_same_name() -> None:
    nodes = [
        helper.make_node("Loop", ["n", "", "x"], ["a"], name="it", body=counted(1)),
        helper.make_node("Loop", ["n", "", "a"], ["y"], name="it", body=counted(10)),
    ]
    s = session(nodes, [info("x", F, [6]), info("n", INT, [])], [info("y", F)])
    np.testing.assert_array_equal(s.run(None, {"x": X, "n": np.array(3)})[0], X + 33)


def test_an_array_that_is_written_to_between_calls() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Reshape", ["r", "other"], ["q"]),
        helper.make_node("Expand", ["q", "shape"], ["y"]),
    ]
    inputs = [info("x", F, [6]), info("shape", INT, [2]), info("other", INT, [2])]
    s = session(nodes, inputs, [info("y", F)])
    shape, other = np.array([6, 1]), np.array([6, 1])
    for first, second in (((6, 1), (6, 1)), ((1, 6), (1, 6)), ((6, 1), (1, 6)), ((1, 6), (1, 6))):
        shape[:], other[:] = first, second
        (y,) = s.run(None, {"x": X, "shape": shape, "other": other})
        want = np.broadcast_to(X.reshape(second), np.broadcast_shapes(first, second))
        np.testing.assert_array_equal(y, want)


def test_results_are_the_callers_own() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Identity", ["shape"], ["same"]),
        helper.make_node("Constant", [], ["fixed"], value=tensor(X, "")),
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Identity", ["places"], ["again"]),
    ]
    names = ("r", "same", "fixed", "places", "again", "x")
    kinds = (F, INT, F, INT, INT, F)
    outputs = [info(n, k) for n, k in zip(names, kinds, strict=True)]
    s = session(nodes, [info("x", F, [6]), info("shape", INT, [2])], outputs)
    x, shape = X.copy(), np.array([2, 3])
    want = [v.copy() for v in s.run(None, {"x": x, "shape": shape})]
    for _ in range(2):
        got = s.run(None, {"x": x, "shape": shape})
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            np.testing.assert_array_equal(a, b)
            assert not any(np.shares_memory(a, v) for v in (x, shape, *got[:k]))
            a[...] = 9


def test_what_data_decide_is_compiled_once() -> None:
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Tile", ["e", "n"], ["y"])]
    s = session(nodes, [info("x", F, [2]), info("n", INT, [1])], [info("y", F)])
    x = np.ones(2, np.float32)
    for n in (*range(1, 90), 1):
        assert s.run(None, {"x": x, "n": np.array([n])})[0].shape == (2 * n,)
    assert len(s._compiled) == 2, "the first contents have their own"


def test_a_loop_collects_arrays_of_one_shape() -> None:
    body = graph(
        [
            helper.make_node("Unsqueeze", ["k", "zero"], ["n"]),
            helper.make_node("Expand", ["x", "n"], ["out"]),
            helper.make_node("Identity", ["c"], ["on"]),
        ],
        [info("on", B, []), info("out", F)],
        inputs=[info("k", INT, []), info("c", B, [])],
        initializer=[tensor([0], "zero")],
    )
    nodes = [helper.make_node("Loop", ["n", ""], ["y"], name="growing", body=body)]
    s = session(nodes, [info("x", F, [1]), info("n", INT, [])], [info("y", F)])
    with pytest.raises(UserError, match="MC0158 error: what its rounds give") as caught:
        s.run(None, {"x": X[:1], "n": np.array(3)})
    assert caught.value.where == ("growing",)


def test_a_body_sees_constants_as_constants() -> None:
    body = graph(
        [
            helper.make_node("Reshape", ["v", "flat"], ["f"]),
            helper.make_node("MatMul", ["f", "w"], ["m"]),
            helper.make_node("Reshape", ["m", "back"], ["n"]),
            helper.make_node("Identity", ["c"], ["on"]),
        ],
        [info("on", B, []), info("n", F)],
        inputs=[info("k", INT, []), info("c", B, []), info("v", F)],
    )
    nodes = [
        helper.make_node("Constant", [], ["flat"], value=tensor([1, 6], "")),
        helper.make_node("Constant", [], ["back"], value=tensor([2, 3], "")),
        helper.make_node("Loop", ["n", "", "x"], ["y"], body=body),
    ]
    w = np.diag(np.full(6, 2, np.float32))
    s = session(nodes, [info("x", F, [2, 3]), info("n", INT, [])], [info("y", F)], [tensor(w, "w")])
    (y,) = s.run(None, {"x": X.reshape(2, 3), "n": np.array(4)})
    np.testing.assert_array_equal(y, 16 * X.reshape(2, 3))
    assert "static shapes: 9 launches of 6 kernels" in s.report()


def test_threads_in_one_loop() -> None:
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y"], body=counted(2))]
    s: minicc.InferenceSession = session(
        nodes, [info("x", F, ["m"]), info("n", INT, [])], [info("y", F)]
    )
    wrong: list[Any] = []

    def work(k: int) -> None:
        for m in (3, 5, 8, 3):
            x = np.full(m, k, np.float32)
            (y,) = s.run(None, {"x": x, "n": np.array(20 + k)})
            if not np.array_equal(y, x + 2 * (20 + k)):
                wrong.append((k, m))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_nested_loops_and_branches() -> None:
    inner = graph(
        [
            helper.make_node("Add", ["v", "x"], ["n"]),
            helper.make_node("Identity", ["c"], ["on"]),
        ],
        [info("on", B, []), info("n", F)],
        inputs=[info("j", INT, []), info("c", B, []), info("v", F)],
    )
    doubled = graph([helper.make_node("Add", ["w", "w"], ["t"])], [info("t", F)])
    kept = graph([helper.make_node("Neg", ["w"], ["e"])], [info("e", F)])
    outer = graph(
        [
            helper.make_node("Loop", ["k", "", "u"], ["w"], body=inner),
            helper.make_node("Mod", ["k", "two"], ["odd"]),
            helper.make_node("Cast", ["odd"], ["is_odd"], to=TensorProto.BOOL),
            helper.make_node("If", ["is_odd"], ["next"], then_branch=doubled, else_branch=kept),
            helper.make_node("Identity", ["oc"], ["go"]),
        ],
        [info("go", B, []), info("next", F)],
        inputs=[info("k", INT, []), info("oc", B, []), info("u", F)],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y"], body=outer)]
    s = session(nodes, [info("x", F, [6]), info("n", INT, [])], [info("y", F)], [tensor(2, "two")])
    for n in (0, 3, 6):
        want = X.copy()
        for k in range(n):
            want = want + k * X
            want = 2 * want if k % 2 else -want
        np.testing.assert_array_equal(s.run(None, {"x": X, "n": np.array(n)})[0], want)


def test_a_part_that_only_reshapes_launches_nothing() -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Reshape", ["e", "shape"], ["y"]),
        helper.make_node("Reshape", ["x", "shape"], ["z"]),
    ]
    inputs = [info("x", F, [6]), info("shape", INT, [2])]
    s = session(nodes, inputs, [info("e", F), info("y", F), info("z", F)])
    for shape in ((1, 6), (6, 1), (2, 3), (3, 2)):
        e, y, z = s.run(None, {"x": X, "shape": np.array(shape)})
        np.testing.assert_array_equal(y, e.reshape(shape))
        np.testing.assert_array_equal(z, X.reshape(shape))
        y[...], z[...] = 0, 0
        assert e.all()
    assert X.any()
    assert "static shapes: 1 launch of" in s.report(), "the first shapes have their own program"


def test_what_is_wrong_is_said_when_a_model_is_opened() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"], name="by data"),
        helper.make_node("Frobnicate", ["x"], ["m"], name="unknown"),
        helper.make_node("Add", ["r", "m"], ["y"]),
    ]
    with pytest.raises(UnsupportedError) as caught:
        session(nodes, [info("x", F, [6]), info("shape", INT, [2])], [info("y", F)])
    assert [e.where for e in caught.value.parts] == [("unknown",)]


def test_any_tensor_of_a_model_in_parts() -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Reshape", ["e", "shape"], ["r"]),
        helper.make_node("Neg", ["r"], ["y"]),
    ]
    s = session(nodes, [info("x", F, [6]), info("shape", INT, [2])], [info("y", F)])
    feed = {"x": X, "shape": np.array([2, 3])}
    places, r = s.run(["places", "r"], {"x": X, "shape": np.array([2, 3])})
    assert places.tolist() == [[1, 2, 3, 4, 5]]
    np.testing.assert_array_equal(-r, s.run(["y"], feed)[0])
    (e,) = s.run(["e"], feed)
    np.testing.assert_array_equal(e.reshape(2, 3), r)


def test_element_types_where_no_rank_is_known() -> None:
    nodes = [helper.make_node("Exp", ["x"], ["y"])]
    s = session(nodes, [info("x", F)], [info("y", F)])
    for x in (X, X.reshape(2, 3), X.astype(">f4"), np.float32(3)):
        (y,) = s.run(None, {"x": x})
        np.testing.assert_allclose(y, np.exp(np.asarray(x, np.float32)), rtol=1e-6)
    with pytest.raises(UserError, match="MC0140 error: the input 'x' is float64, and must be"):
        s.run(None, {"x": X.astype(np.float64)})
    items = helper.make_tensor_sequence_value_info("items", F, None)
    s = session(
        [helper.make_node("ConcatFromSequence", ["items"], ["y"], axis=0)], [items], [info("y", F)]
    )
    with pytest.raises(UserError, match="MC0140 error: the input 'items' is int64"):
        s.run(None, {"items": [X, X.astype(np.int64)]})
