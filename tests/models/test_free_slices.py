"""Slices of free axes, whose extents are quotients of differences, write where they should."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.models.test_data_sizes import NODE, F, info

import minicc
from minicc.frontends.onnx.importer import import_model
from minicc.ir import interpret
from minicc.runtime import execute

Array = np.ndarray[Any, Any]
_EDGE = 4096  # bytes that nobody may write, on both sides of a result
FAR = 1 << 62
CASES = (
    *((3, -4, -2), (6, -6, -2), (4, -5, -2), (6, -6, -3), (4, -3, -2), (-4, 2, 1), (-5, 3, 2)),
    *((-1, -FAR, -1), (-2, -FAR, -3), (1, FAR, 3), (-3, FAR, 2), (5, -6, -2), (0, -2, 3)),
)


def model(start: int, stop: int, step: int) -> bytes:
    numbers = {"s": start, "e": stop, "a": 0, "t": step}
    held = [numpy_helper.from_array(np.array([n]), name) for name, n in numbers.items()]
    node = NODE("Slice", ["x", "s", "e", "a", "t"], ["y"])
    graph = helper.make_graph([node], "g", [info("x", F, ["n", 3])], [info("y")], held)
    opsets = [helper.make_opsetid("", 17)]
    made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return made


@pytest.mark.parametrize("case", CASES, ids=str)
def test_slices(case: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[tuple[Array, int]] = []

    def guarded(shape: tuple[int, ...], dtype: Any) -> Array:
        size = prod(shape) * dtype.itemsize
        rooms.append((np.full(size + 2 * _EDGE, 0xAB, np.uint8), size))
        inside: Array = rooms[-1][0][_EDGE : _EDGE + size].view(dtype).reshape(shape)
        return inside

    monkeypatch.setattr(execute, "memory_for", partial(partial, guarded))
    session = minicc.InferenceSession(model(*case), threads=1)
    module = import_model(model(*case))
    for n in (4, 5, 6, 7, 8, 9, 13, 40, 100):
        x = np.arange(3.0 * n, dtype=np.float32).reshape(n, 3)
        try:
            (want,) = interpret.run(module, [x])
        except minicc.MiniccError:
            continue  # a size that has a graph of its own
        (got,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(got, want)
        for room, size in rooms:
            assert (room[:_EDGE] == 0xAB).all()
            assert (room[_EDGE + size :] == 0xAB).all()
        rooms.clear()


BACKWARDS = ((FAR // 2, -1_000_000_000), (-1, -12), (9, -10), (3, -1_000_000_000))


@pytest.mark.parametrize("step", [-1, -2])
@pytest.mark.parametrize("case", BACKWARDS, ids=str)
def test_a_slice_backwards_to_before_the_first_takes_that_too(
    case: tuple[int, int], step: int
) -> None:
    """A thousand million is as far as tf2onnx knows."""
    session = minicc.InferenceSession(model(*case, step), threads=1)
    for n in (20, 9, 12, 11, 10, 4, 1):
        x = np.arange(3.0 * n, dtype=np.float32).reshape(n, 3)
        (got,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(got, x[slice(*case, step)])


@pytest.mark.parametrize("n", [1, 3, 5, 6, 9])
def test_the_size_of_a_slice_alone_is_that_of_few_elements_too(n: int) -> None:
    nodes = [
        helper.make_node("Slice", ["x", "start", "stop"], ["part"]),
        helper.make_node("Shape", ["part"], ["y"]),
    ]
    tensors = [
        numpy_helper.from_array(np.array([-5]), "start"),
        numpy_helper.from_array(np.array([6]), "stop"),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, None)]
    graph = helper.make_graph(nodes, "g", given, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    s = minicc.InferenceSession(model.SerializeToString(), threads=1)
    (y,) = s.run(None, {"x": np.zeros(n, np.float32)})
    assert y.tolist() == [len(range(n)[-5:6])]


SPLIT = helper.make_node("Split", ["part"], ["y", "z"], axis=0, split=[1, 0])
ADD = helper.make_node("Add", ["part", "w"], ["y"])


@pytest.mark.parametrize("node", [SPLIT, ADD], ids=lambda node: node.op_type)
def test_what_only_the_slice_of_a_shorter_axis_fits(node: Any) -> None:
    """The operator is wrong for the two elements of most sizes, and right where there is one."""
    first = helper.make_node("Slice", ["x"], ["part"], axes=[0], starts=[0], ends=[2])
    given = [info("x", F, ["n"]), info("w", F, [3])]
    graph = helper.make_graph([first, node], "g", given, [info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)], ir_version=8)
    session = minicc.InferenceSession(model.SerializeToString(), threads=1)
    w = np.array([1, 2, 3], np.float32)
    (y,) = session.run(["y"], {"x": np.array([4], np.float32), "w": w})
    assert y.tolist() == ([4] if node.op_type == "Split" else [5, 6, 7])
    with pytest.raises(minicc.MiniccError, match=f"MC0128 error: {node.op_type}"):
        session.run(["y"], {"x": np.zeros(5, np.float32), "w": w})


def test_axes_that_only_the_slice_of_a_shorter_axis_fits() -> None:
    """The axes are numbers as soon as the slice is taken to have all its elements."""
    nodes = [
        helper.make_node("Slice", ["x", "start", "stop", "axis", "step"], ["part"]),
        helper.make_node("Shape", ["part"], ["axes"]),
        helper.make_node("ReduceSum", ["w", "axes"], ["y"], keepdims=0),
    ]
    numbers = {"start": 6, "stop": 3, "axis": 0, "step": -1}
    held = [numpy_helper.from_array(np.array([n]), name) for name, n in numbers.items()]
    given = [info("x", F, ["n"]), info("w", F, ["m", "k"])]
    graph = helper.make_graph(nodes, "g", given, [info("y")], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = minicc.InferenceSession(model.SerializeToString(), threads=1)
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    for n in (1, 5):
        (y,) = session.run(["y"], {"x": np.zeros(n, np.float32), "w": w})
        np.testing.assert_array_equal(y, w.sum(len(range(n)[6:3:-1])))
    with pytest.raises(minicc.MiniccError, match=r"axes \[3\] of a tensor of rank 2"):
        session.run(["y"], {"x": np.zeros(9, np.float32), "w": w})


@pytest.mark.parametrize("op", ["start", "stop"])
def test_an_end_that_is_a_size_with_a_minus_counts_from_the_end(op: str) -> None:
    """As `x[:, -n:]` and `x[:, :-n]` of exporters, for whatever sizes by one program."""
    start, stop = ("back", "far") if op == "start" else ("zero", "back")
    nodes = [
        helper.make_node("Shape", ["w"], ["size"]),
        helper.make_node("Neg", ["size"], ["back"]),
        helper.make_node("Slice", ["x", start, stop], ["y"]),
        helper.make_node("Slice", ["w", start, stop], ["z"]),
    ]
    held = [numpy_helper.from_array(np.array([n]), k) for k, n in {"zero": 0, "far": FAR}.items()]
    given = [info("x", F, ["n"]), info("w", F, ["m"])]
    graph = helper.make_graph(nodes, "g", given, [info("y"), info("z")], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = minicc.InferenceSession(model.SerializeToString(), threads=1)
    for n, m in ((5, 3), (3, 3), (9, 1), (4, 4), (30, 7), (2, 5), (0, 0), (4, 0)):
        if (n, m) == (2, 5):  # until here one program serves all
            assert len(session._compiled) == 1
        x, w = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32)
        y, z = session.run(None, {"x": x, "w": w})
        cut = slice(-m, None) if op == "start" else slice(0, -m)
        np.testing.assert_array_equal(y, x[cut])
        np.testing.assert_array_equal(z, w[cut])
