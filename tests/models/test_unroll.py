"""Loops whose rounds are known become loops of the graph, or are written out where they must be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.models.test_parts import INT, B, F, info

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
    assert ("round by round" in s.report()) == (condition == "no")
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
