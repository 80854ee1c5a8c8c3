"""Limits of models and of compiling them: each has a name, a code, and an option that moves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

import minicc
from minicc.cli import commands
from minicc.errors import UserError
from minicc.limits import Limits, look, watched
from minicc.options import Options

F, B = TensorProto.FLOAT, TensorProto.BOOL
X = {"x": np.ones(4, np.float32)}


def model_of(nodes: Sequence[Any], tensors: Sequence[Any] = ()) -> bytes:
    given = [helper.make_tensor_value_info("x", F, [4])]
    graph = helper.make_graph(nodes, "g", given, [ValueInfoProto(name="y")], tensors)
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def branches(depth: int, name: str = "y") -> Any:
    """An `If` in whose branches are others."""
    made = []
    for side in "ab":
        out = f"{name}{side}"
        inner = branches(depth - 1, out) if depth > 1 else helper.make_node("Neg", ["x"], [out])
        made.append(helper.make_graph([inner], side, [], [ValueInfoProto(name=out)]))
    return helper.make_node("If", ["yes"], [name], then_branch=made[0], else_branch=made[1])


def rounds(op: str, count: int) -> bytes:
    """A loop whose condition data decide, or a scan over so many rows."""
    if op == "Scan":
        body = helper.make_graph(
            [helper.make_node("Mul", ["s", "r"], ["t"])],
            "body",
            [helper.make_tensor_value_info(n, F, [4]) for n in "sr"],
            [helper.make_tensor_value_info("t", F, [4])],
        )
        rows = numpy_helper.from_array(np.full((count, 4), 0.5, np.float32), "rows")
        return model_of(
            [helper.make_node("Scan", ["x", "rows"], ["y"], body=body, num_scan_inputs=1)], [rows]
        )
    nodes = [
        helper.make_node("ReduceSum", ["s"], ["sum"], keepdims=0),
        helper.make_node("Less", ["sum", "much"], ["goes_on"]),
        helper.make_node("Add", ["s", "s"], ["t"]),
        helper.make_node("NonZero", ["t"], ["places"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [
            helper.make_tensor_value_info("k", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", B, []),
            helper.make_tensor_value_info("s", F, [4]),
        ],
        [
            helper.make_tensor_value_info("goes_on", B, []),
            helper.make_tensor_value_info("t", F, [4]),
        ],
    )
    much = numpy_helper.from_array(np.array(4 * 2.0 ** (count - 1), np.float32), "much")
    return model_of([helper.make_node("Loop", ["", "", "x"], ["y"], body=body)], [much])


YES = numpy_helper.from_array(np.array(True), "yes")
SHAPE = numpy_helper.from_array(np.array([1, 1, 1, 4]), "shape")
RESHAPE = [helper.make_node("Reshape", ["x", "shape"], ["y"], "it")]
NEGATIONS = [
    helper.make_node("Neg", ["x"], ["a"]),
    helper.make_node("Neg", ["a"], ["b"]),
    helper.make_node("Neg", ["b"], ["y"]),
]
CASES = {
    "nodes": (model_of(NEGATIONS), 3, "MC0172", "3 nodes"),
    "nodes within": (model_of([branches(2)], [YES]), 7, "MC0172", "7 nodes"),
    "nesting": (model_of([branches(2)], [YES]), 2, "MC0173", "2 graphs within one another"),
    "rank": (model_of(RESHAPE, [SHAPE]), 4, "MC0174", "4 axes"),
    "tensor_bytes": (model_of(RESHAPE, [SHAPE]), 16, "MC0175", "has 16 bytes"),
    "rounds": (rounds("Loop", 5), 5, "MC0176", "a loop has 5 rounds"),
    "rounds known": (rounds("Scan", 50), 50, "MC0176", "a scan has 50 rounds"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_limit_is_the_most_there_may_be(case: str) -> None:
    data, has, code, text = CASES[case]
    name = case.split()[0]
    least = minicc.InferenceSession(data, options=Options(threads=1, limits={name: has}))
    (y,) = least.run(None, X)
    assert y.size == 4
    with pytest.raises(UserError, match=f"{code} error: .*{text}.*limit of {name} is {has - 1}"):
        minicc.InferenceSession(data, options=Options(limits=f"{name}={has - 1}")).run(None, X)


@pytest.mark.parametrize("counted", [False, True])
def test_loops_of_machine_code_that_would_not_end(counted: bool) -> None:
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["go"]), helper.make_node("Tanh", ["s"], ["t"])],
        "body",
        [info("k", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("s", F, [4])],
        [info("go", TensorProto.BOOL, []), info("t", F, [4])],
    )
    loop = helper.make_node("Loop", ["count" if counted else "", "", "x"], ["y"], "it", body=body)
    model = onnx.load_model_from_string(model_of([loop]))
    model.graph.input.append(info("count", TensorProto.INT64, []))
    options = Options(threads=1, limits={"rounds": 1000})
    session = minicc.InferenceSession(model.SerializeToString(), options=options)
    with pytest.raises(UserError, match=r"MC0176 error: a loop has .*limit of rounds is 1000") as e:
        session.run(None, {**X, "count": np.array(1 << 60)})
    assert e.value.where == ("it",)
    if counted:
        (y,) = session.run(None, {**X, "count": np.array(2)})
        np.testing.assert_allclose(y, np.tanh(np.tanh(X["x"])), rtol=1e-6)


def test_seconds_and_bytes_of_a_compilation() -> None:
    with watched(Limits(seconds=1)):
        look()
    options = Options(limits=Limits(seconds=-1), cache_dir=False)
    with pytest.raises(UserError, match=r"MC0177 .*compiling has taken 0.0 seconds"):
        minicc.InferenceSession(CASES["rank"][0], options=options)
    with watched(Limits(compile_bytes=1 << 20)):
        held = np.ones(1 << 23)  # more than the allocator would take from what was freed before
        with pytest.raises(UserError, match=r"MC0178 .*compiling has taken .* of memory"):
            look()
    assert held.all()


def test_limits_from_text_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Options().limits == Limits()
    assert Options(limits="nodes=3, seconds=4").limits == Limits(nodes=3, seconds=4)
    monkeypatch.setenv("MINICC_LIMITS", "rank=8")
    assert Options().limits == Limits(rank=8)
    assert Options(limits={}).limits == Limits()
    assert Options().replace(threads=1).limits == Limits(rank=8)
    monkeypatch.setenv("MINICC_LIMITS", "rank")
    with pytest.raises(UserError, match=r"MC0102 .*MINICC_LIMITS has rank=''"):
        Options()
    for wrong in ({"ranks": 1}, {"rank": 0}, {"rank": True}, 5):
        with pytest.raises(UserError, match=r"MC0102 [^$]*limits has [^$]*hint: limits: nodes, "):
            Options(limits=wrong)  # type: ignore[arg-type]


def test_the_command_line_has_limits(tmp_path: Any) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(CASES["nodes"][0])
    asked = ["run", str(path), "--limit", "nodes=2", "--limit", "rank=9"]
    found = CliRunner().invoke(commands, asked)
    assert found.exit_code == 1
    assert "MC0172" in found.output
