"""Weights in files beside the model: what is read, and what is not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import minicc
from minicc.errors import UnsupportedError, UserError

W = np.arange(12, dtype=np.float32).reshape(3, 4)
ADVICE = (
    "\n  at: it\n"
    "  hint: only files there are opened: no absolute path, no `..`, no link that leads out"
)


def model_at(folder: Path, **entries: Any) -> Path:
    """x + w with the data of w elsewhere."""
    w = TensorProto(name="w", dims=W.shape, data_type=TensorProto.FLOAT)
    w.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        w.external_data.add(key=key, value=str(value))
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], name="it")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])],
        [w],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def run(path: Path) -> np.ndarray[Any, Any]:
    session = minicc.InferenceSession(path, threads=1)
    (y,) = session.run(None, {"x": np.zeros((3, 4), np.float32)})
    return np.asarray(y)


@pytest.mark.parametrize(
    ("before", "entries"),
    [
        (0, {}),
        (0, {"offset": 0, "length": 48}),
        (5, {"offset": 5}),
        (4096, {"offset": 4096, "length": 48, "checksum": "unused"}),
    ],
)
def test_data_beside_the_model(tmp_path: Path, before: int, entries: Mapping[str, Any]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(bytes(before) + W.tobytes())
    assert np.array_equal(run(model_at(tmp_path, location="data/w.bin", **entries)), W)


def test_large_data_are_mapped(tmp_path: Path) -> None:
    big = np.random.default_rng(0).standard_normal((600, 500)).astype(np.float32)
    tensor = onnx.numpy_helper.from_array(big, "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 600])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 500])],
        [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path / "big.onnx"
    onnx.save(model, path, save_as_external_data=True, location="big.bin")
    x = np.ones((2, 600), np.float32)
    (y,) = minicc.InferenceSession(path, threads=1).run(None, {"x": x})
    np.testing.assert_allclose(y, x @ big, rtol=1e-4, atol=1e-4)


def test_a_model_that_is_a_link_finds_data_where_it_lies(tmp_path: Path) -> None:
    store, view = tmp_path / "store", tmp_path / "view"
    store.mkdir()
    view.mkdir()
    model_at(store, location="w.bin")
    (store / "w.bin").write_bytes(W.tobytes())
    (view / "model.onnx").symlink_to(store / "model.onnx")
    (view / "w.bin").symlink_to(store / "w.bin")
    assert np.array_equal(run(view / "model.onnx"), W)


@pytest.mark.parametrize(
    "location", ["", ".", "../w.bin", "data/../../w.bin", "..\\w.bin", "C:\\w.bin", "a\0b"]
)
def test_a_location_outside_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(UserError) as caught:
        run(model_at(inner, location=location))
    assert str(caught.value) == (
        f"MC0132 error: tensor w keeps its data in {location!r}, which is not in the model's "
        f"folder{ADVICE}"
    )


def test_an_absolute_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    with pytest.raises(UserError, match="MC0132"):
        run(model_at(tmp_path, location=tmp_path / "w.bin"))


@pytest.mark.parametrize("through", ["file", "folder", "circle"])
def test_a_link_that_leads_out_is_refused(tmp_path: Path, through: str) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.mkdir()
    outer.mkdir()
    (outer / "w.bin").write_bytes(W.tobytes())
    if through == "file":
        (inner / "w.bin").symlink_to(outer / "w.bin")
        location = "w.bin"
    elif through == "folder":
        (inner / "data").symlink_to(outer)
        location = "data/w.bin"
    else:
        (inner / "w.bin").symlink_to(inner / "w.bin")
        location = "w.bin"
    with pytest.raises(UserError, match=r"MC013[23]"):
        run(model_at(inner, location=location))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        run(model_at(tmp_path, location="w.bin"))
    assert str(caught.value) == (
        "MC0133 error: tensor w keeps its data in 'w.bin', which can't be read: no such file or "
        "directory\n"
        "  at: it\n"
        "  hint: copy or download that file too, beside the model"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "w.bin")
    with pytest.raises(UserError, match=r"MC0133.*it is no plain file"):
        run(model_at(tmp_path, location="w.bin"))


def test_a_file_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes()[:-1])
    with pytest.raises(UserError) as caught:
        run(model_at(tmp_path, location="w.bin"))
    assert str(caught.value) == (
        "MC0134 error: tensor w wants 48 bytes from 0 on of 'w.bin', which has 47\n"
        "  at: it\n"
        "  hint: copy or download that file again"
    )


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"length": 44}, "tensor w has 44 bytes of data in 'w.bin', and needs 48"),
        ({"offset": -4}, "tensor w has data at '-4', which is no number of bytes"),
        ({"offset": 10**30}, "tensor w wants 48 bytes from 10+ on"),
    ],
)
def test_numbers_that_do_not_fit(tmp_path: Path, entries: Mapping[str, Any], text: str) -> None:
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    with pytest.raises(UserError, match=f"MC0134 error: {text}"):
        run(model_at(tmp_path, location="w.bin", **entries))


def elsewhere(location: str) -> TensorProto:
    w = TensorProto(name="w", dims=W.shape, data_type=TensorProto.FLOAT)
    w.data_location = TensorProto.EXTERNAL
    w.external_data.add(key="location", value=location)
    return w


def model_within(folder: Path, way: str, location: str) -> Path:
    """x + w with the data of w elsewhere: those of a node, or of a graph within one."""
    add = helper.make_node("Add", ["x", "w"], ["y"], name="it")
    constant = helper.make_node("Constant", [], ["w"], name="c", value=elsewhere(location))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])
    nodes, held = [constant, add], []
    if way != "a node":
        inner = (
            helper.make_graph([add], "g", [], [y], [elsewhere(location)])
            if way == "a branch"
            else helper.make_graph([constant, add], "g", [], [y])
        )
        nodes = [helper.make_node("If", ["yes"], ["y"], then_branch=inner, else_branch=inner)]
        held = [onnx.numpy_helper.from_array(np.array(True), "yes")]
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("way", ["a node", "a branch", "a node of a branch"])
def test_data_of_nodes_and_branches(tmp_path: Path, way: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "w.bin").write_bytes(W.tobytes())
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    assert np.array_equal(run(model_within(inner, way, "w.bin")), W)
    with pytest.raises(UserError, match="MC0132"):
        run(model_within(inner, way, "../w.bin"))
    with pytest.raises(UnsupportedError, match=r"MC0224.*beside a model of bytes"):
        minicc.InferenceSession(model_within(inner, way, "w.bin").read_bytes())
