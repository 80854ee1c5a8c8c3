"""Large models are mapped: what is read of the file, what is copied, and how much memory it takes.

A model that is read through protobuf alone gives the same, as one whose bytes are damaged does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]
from onnx import ModelProto, TensorProto, helper, numpy_helper

import minicc
from minicc.errors import UnsupportedError, UserError
from minicc.frontends.onnx import import_model
from minicc.frontends.onnx.model.wire import without_weights
from minicc.ir import graph
from minicc.ir.mapped import changes, copy, let_go, map_model, own
from minicc.ir.text.printer import print_module

Array = np.ndarray[Any, Any]
LEAST = 1 << 16
RANDOM = np.random.default_rng(5)
WIDE = RANDOM.standard_normal((700, 600)).astype(np.float32)


def model_of(rows: int | str = 3) -> ModelProto:
    """A product with large weights, plus small ones, plus others that are no raw bytes."""
    last = RANDOM.standard_normal(600).astype(np.float32)
    tensors = [
        numpy_helper.from_array(WIDE, "wide"),
        numpy_helper.from_array(last, "small"),
        helper.make_tensor("listed", TensorProto.FLOAT, [600], last.tolist()),
        numpy_helper.from_array(WIDE[::-1].astype(np.float16), "half"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "wide"], ["a"]),
        helper.make_node("Add", ["a", "small"], ["b"]),
        helper.make_node("Mul", ["b", "listed"], ["c"]),
        helper.make_node("Cast", ["half"], ["other"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "other"], ["d"]),
        helper.make_node("Add", ["c", "d"], ["y"]),
    ]
    shapes = {"x": [rows, 700], "y": [rows, 600]}
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
    made = helper.make_graph(nodes, "g", [x], [y], tensors)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(made, opset_imports=opsets, ir_version=9, producer_name="tests")


DATA = model_of().SerializeToString()
X = RANDOM.standard_normal((3, 700)).astype(np.float32)


def run(session: minicc.InferenceSession) -> Array:
    (y,) = session.run(None, {"x": X})
    return np.asarray(y)


def large_constants(source: Path | bytes) -> list[Array]:
    ops = import_model(source).main.body.ops
    arrays = [op.value.array for op in ops if isinstance(op, graph.Constant)]
    return [a for a in arrays if a.nbytes >= LEAST]


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Array:
    """Numbers in a file, from a place that fits no alignment, copied 4 KiB at a time."""
    path = tmp_path / "numbers"
    path.write_bytes(b"###" + np.arange(1 << 16, dtype=np.int32).tobytes())
    monkeypatch.setattr("minicc.ir.mapped.AT_ONCE", 1 << 12)
    with path.open("rb") as file:
        return map_model(file)[3:].view(np.int32)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a[:0],
        lambda a: a[5:6].reshape(()),
        lambda a: a[::-1],
        lambda a: a[100:-100:7],
        lambda a: a.reshape(16, 64, 64).transpose(2, 0, 1),
        lambda a: a.reshape(16, 64, 64)[3, :, 1:2],
        lambda a: np.broadcast_to(a[:3, None], (3, 4)),
    ],
    ids=["all", "none", "one", "backwards", "steps", "turned", "inner", "broadcast"],
)
def test_copies_of_views_of_a_file(mapped: Array, view: Callable[[Array], Array]) -> None:
    wanted, given = view(np.arange(1 << 16, dtype=np.int32)), view(mapped)
    assert changes(given)
    assert not changes(own(given))
    assert np.array_equal(own(given), wanted)
    out = np.zeros(wanted.shape, wanted.dtype)
    copy([(out, given)], mapped)
    assert np.array_equal(out, wanted)


def test_pages_come_again(mapped: Array) -> None:
    before = mapped.copy()
    for part in (mapped, mapped[5000:5001], mapped[-1:], mapped[:0]):
        let_go(part)
        assert np.array_equal(mapped, before)
    let_go(before)


def test_the_same_from_a_file_from_bytes_and_by_protobuf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(DATA)
    text, y = print_module(import_model(path)), run(minicc.InferenceSession(path, threads=1))
    assert all(map(changes, large_constants(path)))
    assert not any(map(changes, large_constants(DATA)))
    assert print_module(import_model(DATA)) == text
    for module in ("reader", "sources"):
        monkeypatch.setattr(f"minicc.frontends.onnx.model.{module}.MAPPED", 1 << 40)
    assert not any(map(changes, large_constants(path)))
    assert print_module(import_model(path)) == text
    assert np.array_equal(run(minicc.InferenceSession(path, threads=1)), y)


@pytest.mark.parametrize("rows", [3, "n"])
def test_a_session_outlives_its_file(tmp_path: Path, rows: int | str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of(rows).SerializeToString())
    y = run(minicc.InferenceSession(path, threads=1))
    session = minicc.InferenceSession(path, threads=1)
    path.write_bytes(b"")
    assert np.array_equal(run(session), y)


def test_constants_of_ops_on_the_host_outlive_the_file(tmp_path: Path) -> None:
    # the values are in all pages of the file
    table = RANDOM.integers(0, 9, (1 << 18,)).astype(np.float32)
    nodes = [
        helper.make_node("Unique", ["table"], ["values"]),
        helper.make_node("Concat", ["x", "values"], ["y"], axis=0),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    made = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(table, "table")])
    opsets = [helper.make_opsetid("", 17)]
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(made, opset_imports=opsets).SerializeToString())
    session = minicc.InferenceSession(path, threads=1)
    path.write_bytes(b"")
    (got,) = session.run(None, {"x": np.array([20, 30], np.float32)})
    assert np.array_equal(got, [20, 30, *range(9)])


def restored(data: bytes) -> ModelProto:
    """A model without its weights, with these put back."""
    rest, places = without_weights(memoryview(data), LEAST)
    model: ModelProto = ModelProto.FromString(bytes(rest))
    for position, (start, end) in places.items():
        assert model.graph.initializer[position].raw_data == b""
        assert end - start >= LEAST
        model.graph.initializer[position].raw_data = data[start:end]
    return model


def test_weights_are_cut_out_and_nothing_else() -> None:
    rest, places = without_weights(memoryview(DATA), LEAST)
    assert list(places) == [0, 3]
    assert len(rest) < 16_000
    assert restored(DATA) == ModelProto.FromString(DATA)
    few = b"\x08\x09" + DATA[len(DATA) :]
    assert without_weights(memoryview(few), LEAST)[0] == few


def field(number: int, body: bytes) -> bytes:
    """A field that has a length in front."""
    size, head = len(body), bytearray([number << 3 | 2])
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + body


def twice_raw() -> bytes:
    """A model with weights of two `raw_data`, of which the second counts."""
    model: ModelProto = ModelProto.FromString(DATA)
    tensor = model.graph.initializer[0].SerializeToString()
    again = TensorProto(raw_data=bytes(WIDE.nbytes)).SerializeToString()
    model.graph.ClearField("initializer")
    inner = bytes(model.graph.SerializeToString()) + field(5, tensor + again)
    model.ClearField("graph")
    return bytes(model.SerializeToString()) + field(7, inner)


@pytest.mark.parametrize(
    "data", [DATA + DATA, twice_raw()], ids=["two graphs", "raw bytes that are given twice"]
)
def test_odd_models_are_left_to_protobuf(data: bytes) -> None:
    rest, places = without_weights(memoryview(data), LEAST)
    assert not places
    assert ModelProto.FromString(bytes(rest)) == ModelProto.FromString(data)


def parsed(read: Callable[[bytes], ModelProto], data: bytes) -> bytes | None:
    """What protobuf makes of bytes; None where it refuses them."""
    try:
        return bytes(read(data).SerializeToString())
    except DecodeError:
        return None


def test_damaged_structure_means_what_protobuf_says() -> None:
    model = ModelProto.FromString(DATA)
    start = DATA.index(model.graph.initializer[0].raw_data)
    heads = [*range(200), *range(start - 40, start), *range(len(DATA) - 300, len(DATA))]
    for _ in range(400):
        data = bytearray(DATA)
        for place in RANDOM.choice(heads, 2):
            data[place] = int(RANDOM.integers(256))
        assert parsed(restored, bytes(data)) == parsed(ModelProto.FromString, bytes(data))


def test_large_files_that_end_too_early(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for end in (len(DATA) - 1, len(DATA) // 2):
        path.write_bytes(DATA[:end])
        with pytest.raises(UserError) as caught:
            import_model(path)
        assert caught.value.code == "MC0122"
        assert f"its {end} bytes lack" in str(caught.value)


def test_large_weights_of_another_size_or_type(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for change, code in (("dims", "MC0131"), ("data_type", "MC0131"), ("unknown", "MC0222")):
        model = ModelProto.FromString(DATA)
        tensor = model.graph.initializer[0]
        if change == "dims":
            tensor.dims[0] += 1
        else:
            tensor.data_type = TensorProto.DOUBLE if change == "data_type" else 99
        path.write_bytes(model.SerializeToString())
        with pytest.raises((UserError, UnsupportedError)) as caught:
            import_model(path)
        assert caught.value.parts[0].code == code


def test_a_pipe_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(DATA,))
    writer.start()
    y = run(minicc.InferenceSession(path, threads=1))
    writer.join()
    assert np.array_equal(y, run(minicc.InferenceSession(DATA, threads=1)))


_CHILD = """
import sys
import numpy as np
import minicc

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(key))

# LLVM's own memory is no part of what a model takes
minicc.InferenceSession(sys.argv[2], threads=1).run(None, {"x": np.ones((1, 8), np.float32)})
base = status("VmRSS")
session = minicc.InferenceSession(sys.argv[1], threads=1)
session.run(None, {"x": np.ones((1, 5000), np.float32)})
print(status("VmHWM") - base)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="it asks Linux")
def test_peak_memory_is_little_more_than_the_weights(tmp_path: Path) -> None:
    """Layers of 100 MB: the packed weights, and about a third of them for all the rest."""

    def written(width: int) -> Path:
        path = tmp_path / f"{width}.onnx"
        path.write_bytes(_layers(width).SerializeToString())
        return path

    child = subprocess.run(
        [sys.executable, "-c", _CHILD, written(5000), written(8)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MINICC_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert int(child.stdout) < 2 * 5000**2 * 4 * 4 // 3


def _layers(width: int) -> ModelProto:
    """Two products of `width` numbers with weights, one of them transposed."""
    shapes = {"x": [1, width], "y": [1, width]}
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
    weights = np.resize(RANDOM.standard_normal(99_991).astype(np.float32), (2, width, width))
    tensors = [numpy_helper.from_array(w, f"w{k}") for k, w in enumerate(weights)]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Gemm", ["a", "w1"], ["y"], transB=1),
    ]
    opsets = [helper.make_opsetid("", 17)]
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=opsets)
