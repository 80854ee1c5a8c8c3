"""Loops whose rounds are known become loops of the graph, or are written out where they must be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.models.test_data_decides import INT, B, F, info

import minicc
from minicc.errors import UserError

X = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)


def session(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], *constants: Any, opset: int
) -> minicc.InferenceSession:
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return minicc.InferenceSession(model.SerializeToString(), threads=1)


def constant(value: Any, name: str) -> Any:
    return onnx.numpy_helper.from_array(np.asarray(value), name)


def powers(last: str = "on") -> Any:
    """A body: v times row k of x, kept and carried."""
    nodes = [
        helper.make_node("Gather", ["x", "k"], ["row"]),
        helper.make_node("Mul", ["v", "row"], ["scaled"]),
        helper.make_node("Mul", ["scaled", "w"], ["next"]),
        helper.make_node("Identity", ["on"], ["still"]),
        helper.make_node("Identity", ["next"], ["kept"]),
        helper.make_node("Less", ["k", "w"], ["small"]) if last == "small" else None,
    ]
    return helper.make_graph(
        [n for n in nodes if n is not None],
        "body",
        [info("k", INT, []), info("on", B, []), info("v", F, [5])],
        [
            info("still" if last == "on" else last, B, []),
            info("next", F, [5]),
            info("kept", F, [5]),
        ],
        [constant(np.float32(2), "w")],
    )


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("condition", ["", "yes"])
def test_a_loop(opset: int, condition: str) -> None:
    nodes = [helper.make_node("Loop", ["n", condition, "v"], ["last", "all"], body=powers())]
    inputs = [info("x", F, [4, 5]), info("v", F, [5])]
    outputs = [info("last", F), info("all", F)]
    fixed = constant(4, "n"), constant(True, "yes")
    s = session(nodes, inputs, outputs, *fixed, opset=opset)
    v = np.ones(5, np.float32)
    last, everything = s.run(None, {"x": X, "v": v})
    want = np.cumprod(2 * X, axis=0)
    np.testing.assert_allclose(everything, want, rtol=1e-5)
    np.testing.assert_array_equal(last, everything[-1])
    assert "static shapes" in s.report()


@pytest.mark.parametrize(("rounds", "condition"), [(17, ""), (1, ""), (0, ""), (3, "no")])
def test_loops_of_any_number_of_rounds(rounds: int, condition: str) -> None:
    nodes = [helper.make_node("Loop", ["n", condition, "v"], ["last", "all"], body=powers())]
    inputs = [info("x", F, [20, 5]), info("v", F, [5])]
    outputs = [info("last", F), info("all", F)]
    fixed = constant(rounds, "n"), constant(False, "no")
    s = session(nodes, inputs, outputs, *fixed, opset=17)
    x = np.tile(X, (5, 1))
    last, everything = s.run(None, {"x": x, "v": np.ones(5, np.float32)})
    done = 0 if condition else rounds
    assert len(everything) == done
    np.testing.assert_allclose(everything, np.cumprod(2 * x[:done], axis=0), rtol=1e-4)
    assert ("data decide how often" in s.report()) == (condition == "no")
    assert last.shape == (5,)


def scan(**attributes: Any) -> Any:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "a"], ["t"]),
            helper.make_node("Add", ["t", "b"], ["next"]),
            helper.make_node("Mul", ["t", "b"], ["out"]),
        ],
        "body",
        [info("s", F), info("a", F), info("b", F)],
        [info("next", F), info("out", F)],
    )
    return helper.make_node(
        "Scan", ["s", "a", "b"], ["last", "all"], body=body, num_scan_inputs=2, **attributes
    )


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_directions": [1, 0]},
        {"scan_output_directions": [1]},
        {"scan_input_axes": [1, 0], "scan_output_axes": [1]},
        {"scan_input_axes": [-1, 0], "scan_output_axes": [-1], "scan_output_directions": [1]},
    ],
)
def test_a_scan_either_way(attributes: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    results = []
    for rounds in (16, 16 + 5):
        a, b = (rng.standard_normal((rounds, 3)).astype(np.float32) for _ in range(2))
        s = rng.standard_normal(3).astype(np.float32)
        given = a.T.copy() if "scan_input_axes" in attributes else a
        inputs = [info("s", F, [3]), info("a", F, given.shape), info("b", F, b.shape)]
        made = session([scan(**attributes)], inputs, [info("last", F), info("all", F)], opset=17)
        last, everything = made.run(None, {"s": s, "a": given, "b": b})
        order = a[::-1] if attributes.get("scan_input_directions") else a
        rows = []
        for left, right in zip(order, b, strict=True):
            rows.append((s + left) * right)
            s = s + left + right
        if attributes.get("scan_output_directions"):
            rows.reverse()
        want = np.stack(rows, 1 if "scan_output_axes" in attributes else 0)
        np.testing.assert_allclose(everything, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(last, s, rtol=1e-4, atol=1e-5)
        results.append(made.report())
    assert all("static shapes" in report for report in results)


def test_a_body_that_does_not_fit() -> None:
    nodes = [helper.make_node("Loop", ["n", "", "v", "v"], ["a", "b"], body=powers(), name="it")]
    inputs = [info("x", F, [4, 5]), info("v", F, [5])]
    with pytest.raises(
        UserError, match=r"MC0127 error: Loop .*its graph does not fit it"
    ) as caught:
        session(nodes, inputs, [info("a", F)], constant(4, "n"), opset=17)
    assert caught.value.where == ("it",)


@pytest.mark.parametrize("row", ["SequenceEmpty", "SequenceConstruct"])
def test_a_row_that_is_no_tensor(row: str) -> None:
    makes = helper.make_node(row, ["t"] * (row != "SequenceEmpty"), ["r"])
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), makes],
        "body",
        [info("s", F, [5]), info("e", F, [5])],
        [info("t", F, [5]), info("r", F)],
    )
    scan = helper.make_node("Scan", ["v", "x"], ["a", "b"], body=body, num_scan_inputs=1, name="it")
    inputs = [info("x", F, [4, 5]), info("v", F, [5])]
    with pytest.raises(UserError, match=r"MC0127 error: Scan .* stacks r, which is no tensor"):
        session([scan], inputs, [info("a", F), info("b", F)], opset=18)


def body_of(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    return helper.make_graph(nodes, "body", inputs, outputs)


def test_rounds_in_rounds() -> None:
    """A loop in a loop, a product with weights from around, and the round's number as data."""
    inner = body_of(
        [
            helper.make_node("MatMul", ["u", "w"], ["m"]),
            helper.make_node("Cast", ["j"], ["f"], to=F),
            helper.make_node("Mul", ["f", "tenth"], ["small"]),
            helper.make_node("Add", ["m", "small"], ["added"]),
            helper.make_node("Tanh", ["added"], ["t"]),
        ],
        [info("j", INT, []), info("c2", B, []), info("u", F, [1, 5])],
        [info("c2", B, []), info("t", F, [1, 5])],
    )
    outer = body_of(
        [
            helper.make_node("Loop", ["six", "", "v"], ["after"], body=inner),
            helper.make_node("Gather", ["x", "k"], ["row"]),
            helper.make_node("Add", ["after", "row"], ["next"]),
        ],
        [info("k", INT, []), info("c1", B, []), info("v", F, [1, 5])],
        [info("c1", B, []), info("next", F, [1, 5]), info("after", F, [1, 5])],
    )
    loop = helper.make_node("Loop", ["four", "", "v"], ["last", "all"], body=outer)
    w = np.random.default_rng(2).standard_normal((5, 5)).astype(np.float32) / 2
    constants = (
        constant(6, "six"),
        constant(4, "four"),
        constant(w, "w"),
        constant(np.float32(0.1), "tenth"),
    )
    made = session(
        [loop],
        [info("x", F, [4, 5]), info("v", F, [1, 5])],
        [info("last", F), info("all", F)],
        *constants,
        opset=17,
    )
    v = np.ones((1, 5), np.float32)
    last, everything = made.run(None, {"x": X, "v": v})
    rows = []
    for k in range(4):
        for j in range(6):
            v = np.tanh(v @ w + np.float32(j) * np.float32(0.1))
        rows.append(v)
        v = v + X[k]
    np.testing.assert_allclose(everything, np.stack(rows), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, v, rtol=1e-4, atol=1e-5)
    assert "static shapes" in made.report()


def test_what_must_be_written_out() -> None:
    """A slice at the round's number has a shape that only the number says."""
    body = body_of(
        [
            helper.make_node("Unsqueeze", ["k", "zero"], ["stop"]),
            helper.make_node("Slice", ["x", "zero", "stop"], ["part"]),
            helper.make_node("ReduceSum", ["part", "zero"], ["sum"], keepdims=0),
            helper.make_node("Add", ["v", "sum"], ["next"]),
        ],
        [info("k", INT, []), info("on", B, []), info("v", F, [5])],
        [info("on", B, []), info("next", F, [5])],
    )
    loop = helper.make_node("Loop", ["n", "", "v"], ["last"], body=body)
    inputs = [info("x", F, [4, 5]), info("v", F, [5])]
    fixed = constant(4, "n"), constant([0], "zero")
    made = session([loop], inputs, [info("last", F)], *fixed, opset=17)
    v = np.ones(5, np.float32)
    (last,) = made.run(None, {"x": X, "v": v})
    want = v + sum(X[:k].sum(0) for k in range(4))
    np.testing.assert_allclose(last, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lengths", [None, [4, 6], [0, 1]])
def test_a_scan_of_opset_8_has_batches(lengths: list[int] | None) -> None:
    node = scan(directions=[1, 0])
    node.input.insert(0, "" if lengths is None else "lengths")
    rng = np.random.default_rng(3)
    s = rng.standard_normal((2, 3)).astype(np.float32)
    a, b = (rng.standard_normal((2, 6, 3)).astype(np.float32) for _ in range(2))
    inputs = [info("s", F, [2, 3]), info("a", F, [2, 6, 3]), info("b", F, [2, 6, 3])]
    feed = {"s": s, "a": a, "b": b}
    if lengths is not None:
        inputs.append(info("lengths", INT, [2]))
        feed["lengths"] = np.array(lengths)
    made = session([node], inputs, [info("last", F), info("all", F)], opset=8)
    last, everything = made.run(None, feed)
    for n, count in enumerate(lengths or [6, 6]):
        state, rows = s[n], np.zeros((6, 3), np.float32)
        for k, (left, right) in enumerate(zip(a[n, :count][::-1], b[n], strict=False)):
            rows[k] = (state + left) * right
            state = state + left + right
        np.testing.assert_allclose(everything[n], rows, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(last[n], state, rtol=1e-4, atol=1e-5)
    assert "static shapes" in made.report()


def test_a_layer_in_a_loop_of_free_length() -> None:
    """A GRU in each round over what the round before gave, for as many rounds as there are rows."""
    rng = np.random.default_rng(4)
    weights = [
        constant((rng.standard_normal(shape) / 2).astype(np.float32), name)
        for name, shape in (("w", (1, 12, 4)), ("r", (1, 12, 4)))
    ]
    body = body_of(
        [
            helper.make_node("Add", ["v", "row"], ["both"]),
            helper.make_node("GRU", ["both", "w", "r"], ["y", ""], hidden_size=4),
            helper.make_node("Squeeze", ["y", "one"], ["next"]),
            helper.make_node("Identity", ["next"], ["kept"]),
        ],
        [info("v", F, ["T", 2, 4]), info("row", F, [4])],
        [info("next", F), info("kept", F)],
    )
    node = helper.make_node("Scan", ["v", "x"], ["last", "all"], body=body, num_scan_inputs=1)
    made = session(
        [node],
        [info("v", F, ["T", 2, 4]), info("x", F, ["N", 4])],
        [info("last", F), info("all", F)],
        *weights,
        constant([1], "one"),
        opset=17,
    )
    for steps, rounds in ((5, 7), (1, 2), (6, 1)):
        v = rng.standard_normal((steps, 2, 4)).astype(np.float32)
        x = rng.standard_normal((rounds, 4)).astype(np.float32)
        last, everything = made.run(None, {"v": v, "x": x})
        rows = []
        for row in x:
            h = np.zeros((2, 4), np.float32)
            y = []
            w, r = (onnx.numpy_helper.to_array(t)[0] for t in weights)
            for inner in v + row:
                seen, known = inner @ w.T, h @ r.T
                z, reset = (1 / (1 + np.exp(-(seen + known)[:, k : k + 4])) for k in (0, 4))
                new = np.tanh(seen[:, 8:] + (reset * h) @ r[8:].T)
                h = (1 - z) * new + z * h
                y.append(h)
            v = np.stack(y)
            rows.append(v)
        np.testing.assert_allclose(everything, np.stack(rows), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(last, v, rtol=1e-4, atol=1e-5)


def test_an_index_out_of_range_in_a_round() -> None:
    """The nodes within the loop are named, and the next run is as if nothing had been."""
    body = body_of(
        [
            helper.make_node("Gather", ["table", "index"], ["found"], name="look_up"),
            helper.make_node("Add", ["v", "found"], ["next"]),
        ],
        [info("v", F, [3]), info("index", INT, [])],
        [info("next", F, [3])],
    )
    node = helper.make_node("Scan", ["v", "indices"], ["last"], body=body, num_scan_inputs=1)
    inputs = [info("v", F, [3]), info("table", F, [4, 3]), info("indices", INT, [40])]
    made = session([node], inputs, [info("last", F)], opset=17)
    v, table = np.zeros(3, np.float32), np.ones((4, 3), np.float32)
    indices = np.arange(40) % 4
    wrong = np.where(np.arange(40) == 17, 9, indices)
    for _ in range(2):
        (last,) = made.run(None, {"v": v, "table": table, "indices": indices})
        np.testing.assert_array_equal(last, np.full(3, 40, np.float32))
        with pytest.raises(UserError, match=r"MC0158 error: .*index 9") as caught:
            made.run(None, {"v": v, "table": table, "indices": wrong})
        assert "look_up" in caught.value.where[0]


def test_no_rounds_with_a_free_dimension() -> None:
    free = helper.make_tensor_value_info("v", helper.np_dtype_to_tensor_dtype(X.dtype), ["n", 5])
    body = helper.make_graph(
        [helper.make_node("Tanh", ["u"], ["t"]), helper.make_node("Identity", ["on"], ["still"])],
        "body",
        [info("k", INT, []), info("on", B, []), info("u", F, ["m", 5])],
        [info("still", B, []), info("t", F, ["m", 5]), info("t", F, ["m", 5])],
    )
    nodes = [helper.make_node("Loop", ["none", "", "v"], ["last", "all"], body=body)]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("last", "all")]
    run = session(nodes, [free], outputs, constant(np.int64(0), "none"), opset=17).run
    last, every = run(None, {"v": X})
    np.testing.assert_array_equal(last, X)
    assert every.shape == (0, 4, 5)
