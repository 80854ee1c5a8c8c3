"""Inputs that are parameters of a node: the first contents have a program of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from minicc import InferenceSession, Options

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
_INT, _FLOAT = TensorProto.INT64, TensorProto.FLOAT


def model_of(nodes: Sequence[Any], inputs: Mapping[str, tuple[int, list[Any]]]) -> bytes:
    infos = [helper.make_tensor_value_info(n, *t) for n, t in inputs.items()]
    result = helper.make_tensor_value_info("y", _FLOAT, None)
    graph = helper.make_graph(nodes, "g", infos, [result])
    made: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)]
    ).SerializeToString()
    return made


def hosts(session: InferenceSession) -> list[int]:
    """How many ops each program of a session leaves to the host."""
    return [len(c.host) for c in session._compiled.values()]


def reduced(length: int | str | None = 1) -> InferenceSession:
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    return InferenceSession(
        model_of([node], {"x": (_FLOAT, [2, "n", 4]), "axes": (_INT, [length])})
    )


def test_first_contents_are_compiled_and_others_run_on_the_host() -> None:
    session = reduced()
    for axis in (1, 0, 2, -1, 0, 1):
        (y,) = session.run(None, {"x": X, "axes": np.array([axis])})
        np.testing.assert_array_equal(y, X.sum(axis))
    assert hosts(session) == [1, 0], "further contents have one program for all of them"


def test_what_was_compiled_is_found_again_by_contents_and_sizes() -> None:
    session = reduced()
    for rows in (3, 5, 3):
        x = np.ones((2, rows, 4), np.float32)
        (y,) = session.run(None, {"x": x, "axes": np.array([1])})
        np.testing.assert_array_equal(y, x.sum(1))
    assert sorted(hosts(session)) == [0, 1]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_number_of_elements_may_be_free(count: int) -> None:
    session = reduced(None)
    axes = np.arange(count)
    (y,) = session.run(None, {"x": X, "axes": axes})
    np.testing.assert_array_equal(y, X.sum(tuple(axes)) if count else X.sum())
    assert hosts(session) == [0]


def test_all_parameters_of_a_node_are_asked_for_at_once() -> None:
    names = ["starts", "ends", "axes", "steps"]
    node = helper.make_node("Slice", ["x", *names], ["y"])
    session = InferenceSession(
        model_of([node], {"x": (_FLOAT, [2, 3, 4]), **{n: (_INT, [2]) for n in names}})
    )
    feed = dict(zip(names, map(np.array, ([0, 1], [2, 9], [0, 2], [1, 2])), strict=True))
    (y,) = session.run(None, {"x": X, **feed})
    np.testing.assert_array_equal(y, X[0:2, :, 1:9:2])
    assert hosts(session) == [0]


def test_parameters_may_be_computed_from_inputs() -> None:
    nodes = [
        helper.make_node("Mul", ["half", "two"], ["shape"]),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    inputs = {"x": (_FLOAT, [2, 3, 4]), "half": (_INT, [2]), "two": (_INT, [])}
    session = InferenceSession(model_of(nodes, inputs))
    (y,) = session.run(None, {"x": X, "half": np.array([2, 3]), "two": np.array(2)})
    np.testing.assert_array_equal(y, X.reshape(4, 6))
    assert hosts(session) == [0]


def test_floats_are_told_apart_to_the_bit() -> None:
    node = helper.make_node("Range", ["start", "limit", "delta"], ["y"])
    floats: dict[str, tuple[int, list[Any]]] = {n: (_FLOAT, []) for n in node.input}
    session = InferenceSession(model_of([node], floats))
    above = float(np.nextafter(np.float32(0.1), np.float32(1)))
    for start in (0.1, above, 0.1, above):
        feed = {"start": start, "limit": 3.0, "delta": 1.0}
        (y,) = session.run(None, {k: np.array(v, np.float32) for k, v in feed.items()})
        assert y.tobytes() == (np.float32(start) + np.arange(3, dtype=np.float32)).tobytes()
    assert sorted(hosts(session)) == [0, 1]


def test_values_of_tensors_are_no_parameters() -> None:
    """What decides is looked at, not what flows through: a matrix of indices is data."""
    node = helper.make_node("GatherElements", ["x", "at"], ["y"], axis=2)
    session = InferenceSession(
        model_of([node], {"x": (_FLOAT, [2, 3, 4]), "at": (_INT, [2, 3, 1])})
    )
    assert session.facts.decisive == ()


def test_programs_are_kept_on_disk_by_contents(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    path.write_bytes(model_of([node], {"x": (_FLOAT, [2, 3, 4]), "axes": (_INT, [1])}))
    options = Options(cache_dir=str(tmp_path / "cache"))
    opened: list[str] = []
    for axis in (1, 2, 1, 0):
        session = InferenceSession(str(path), options=options)
        (y,) = session.run(None, {"x": X, "axes": np.array([axis])})
        np.testing.assert_array_equal(y, X.sum(axis))
        assert hosts(session) == [0]
        opened.append(session.report().split()[0])
    assert opened == ["import", "opened", "opened", "opened"]
