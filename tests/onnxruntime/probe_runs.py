"""Probes: inputs, outputs, runs, and models that are opened."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import numpy as np
import onnx

from tests.onnxruntime.models import (
    FLOAT,
    INT64,
    STRING,
    X,
    apart,
    model,
    node,
    one,
    optional,
    pair,
    same,
    sequence,
    split,
    tensor,
    told,
)
from tests.onnxruntime.probing import CPU, add, args, probe, running, session

# inputs and outputs
for size in (None, -1, 0, 5, "?", "batch"):
    add(f"inputs, dimension {size}", lambda ort, n=size: args(session(ort, pair(n)).get_inputs()))
    add(f"outputs, dimension {size}", lambda ort, n=size: args(session(ort, pair(n)).get_outputs()))
add("inputs, unknown rank", lambda ort: args(session(ort, same(None)).get_inputs()))
add("inputs, scalar", lambda ort: args(session(ort, same([])).get_inputs()))
for kind in [
    "FLOAT",
    "DOUBLE",
    "FLOAT16",
    "BFLOAT16",
    "INT8",
    "UINT8",
    "INT16",
    "INT32",
    "UINT32",
    "INT64",
    "BOOL",
    "STRING",
]:
    element = getattr(onnx.TensorProto, kind)
    add(f"inputs, {kind}", lambda ort, e=element: args(session(ort, same([2], e)).get_inputs()))
flat = one("Flatten", [tensor("x", FLOAT, ["a", "b", "c"])])
add("outputs, computed sizes", lambda ort: args(session(ort, flat).get_outputs()))
twice = model(
    [node("Concat", ["x", "x"], ["y"], axis=0)],
    [tensor("x", FLOAT, ["n", 3])],
    [tensor("y", FLOAT, ["m", None])],
)
add("outputs, declared size", lambda ort: args(session(ort, twice).get_outputs()))
add("inputs, sequence", lambda ort: args(session(ort, sequence()).get_inputs()))
add("outputs, sequence", lambda ort: args(session(ort, split()).get_outputs()))

# names of outputs
for label, names in {
    "None": None,
    "[]": [],
    "()": (),
    "list": ["z"],
    "tuple": ("z", "y"),
    "twice": ["z", "z"],
    "text": "z",
    "unknown": ["q"],
    "numbers": [1],
    "input": ["x"],
    "array": np.array(["y"]),
    "keys": {"y": 1}.keys(),
}.items():
    running(f"run, names {label}", pair(), names, {"x": X})
add("run, no options", lambda ort: session(ort).run(["z"], {"x": X}, None))
add("run, options", lambda ort: session(ort).run(["z"], {"x": X}, ort.RunOptions()))
running("run, options of another type", pair(), ["z"], {"x": X}, 5)

# inputs
for label, feed in {
    "missing": {},
    "unknown": {"x": X, "q": X},
    "unknown for missing": {"q": X},
    "no text": {1: X},
    "no dict": [X],
    "None": None,
    "nested list": {"x": [[1.0, 2.0, 3.0]]},
    "nested list of integers": {"x": [[1, 2, 3]]},
    "list of tuples": {"x": [(1.0, 2.0, 3.0)]},
    "list of arrays": {"x": [X[0], X[0]]},
    "list of another rank": {"x": [1.0, 2.0]},
    "empty list": {"x": []},
    "ragged list": {"x": [[1.0, 2.0], [3.0]]},
    "list of texts": {"x": [["a", "b", "c"]]},
    "tuple": {"x": ((1.0, 2.0, 3.0),)},
    "float": {"x": 1.0},
    "value None": {"x": None},
    "text": {"x": "abc"},
    "range": {"x": range(3)},
    "set": {"x": {1.0}},
    "dict": {"x": {"a": 1}},
    "float64": {"x": X.astype(np.float64)},
    "int64": {"x": X.astype(np.int64)},
    "array of texts": {"x": np.array([["a", "b", "c"]])},
    "another extent": {"x": X[:, :2]},
    "another rank": {"x": X[0]},
    "transposed": {"x": np.arange(12, dtype=np.float32).reshape(3, 4).T[:, :3]},
    "big-endian": {"x": X.astype(">f4")},
    "no rows": {"x": np.zeros((0, 3), np.float32)},
}.items():
    running(f"run, feed {label}", pair(), None, feed)
running("run, another fixed extent", pair(2), None, {"x": X})
running("run, integers of a list", same(["n"], INT64), None, {"x": [1, 2]})
running("run, integers of a list of floats", same(["n"], INT64), None, {"x": [1.5, 2]})
running("run, texts of a list", same(["n"], STRING), None, {"x": ["a", "b"]})
for label, texts in {
    "objects": np.array(["a", 1, 2.5, None, b"b"], object),
    "numbers": np.array([1, 2]),
}.items():
    running(f"run, texts of {label}", same(["n"], STRING), None, {"x": texts})
running("run, texts of an array", same(["n"], STRING), None, {"x": np.array(["a", "b"])})
running("run, truth values of a list", same(["n"], 9), None, {"x": [True, False]})
running("run, float16 of a list", same(["n"], 10), None, {"x": [1.0, 2.0]})
running("run, a Python number", same([]), None, {"x": 1.0})
running("run, a NumPy number", same([]), None, {"x": np.float32(1)})
running("run, an array of rank 0", same([]), None, {"x": np.array(1, np.float32)})
running("run, a sequence", sequence(), None, {"q": [X, X], "i": np.array(1)})
running("run, position outside", sequence(), None, {"q": [X], "i": np.array(3)})
running("run, a sequence of float64", sequence(), None, {"q": [X.astype(float)], "i": np.array(0)})
running("run, a tuple for a sequence", sequence(), None, {"q": (X, X), "i": np.array(1)})
add("inputs, optional", lambda ort: args(session(ort, optional()).get_inputs()))
running("run, an optional", optional(), None, {"o": X[0]})
running("run, an optional that is None", optional(), None, {"o": None})
running("run, an optional that is missing", optional(), None, {})
running("run, to a sequence", split(), None, {"x": X})
rows = [tensor("x", FLOAT, ["n", 3]), tensor("i", INT64, ["k"])]
running("run, index outside", one("Gather", rows), None, {"x": X, "i": np.array([7])})
running("run, no such shape", one("Reshape", rows), None, {"x": X, "i": np.array([7])})


@probe
def run_terminated(ort: Any) -> Any:
    options = ort.RunOptions()
    options.terminate = True
    return session(ort).run(None, {"x": X}, options)


@probe
def run_with_ort_value(ort: Any) -> Any:
    return session(ort).run(None, {"x": ort.OrtValue.ortvalue_from_numpy(X)})


# opening
for label, given in {
    "None": None,
    "bytearray": bytearray(pair()),
    "message": onnx.load_model_from_string(pair()),
    "no file": "/nope/nope.onnx",
    "folder": "/tmp",
    "no bytes": b"",
    "no model": b"junkjunk" * 9,
    "cut": pair()[:-20],
    "path as bytes": b"model.onnx",
    "empty path": "",
}.items():
    add(f"open, {label}", lambda ort, given=given: ort.InferenceSession(given))
for label, data in {
    "unknown operator": one("Foo", rows[:1]),
    "unknown attribute": one("Relu", rows[:1], foo=7),
    "unknown domain": model(
        [node("Foo", ["x"], ["y"], domain="my")], rows[:1], [tensor("y", 1, None)], domain="my"
    ),
    "cycle": model(
        [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Neg", ["b"], ["y"])],
        rows[:1],
        [tensor("y", 1, None)],
    ),
    "no output": model([node("Relu", ["x"], ["q"])], rows[:1], [tensor("y", 1, None)]),
    "undeclared value": model([node("Add", ["x", "q"], ["y"])], rows[:1], [tensor("y", 1, None)]),
    "output of another type": model([node("Relu", ["x"], ["y"])], rows[:1], [tensor("y", 7, [1])]),
    "types that differ": one("Add", [tensor("x", 1, [3]), tensor("w", 7, [3])]),
    "shapes that differ": one("Add", [tensor("x", 1, [3]), tensor("w", 1, [4])]),
    "new opset": model([node("Relu", ["x"], ["y"])], rows[:1], [tensor("y", 1, None)], opset=99),
}.items():
    add(f"open, {label}", lambda ort, data=data: ort.InferenceSession(data))


@probe
def open_path(ort: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        path.write_bytes(pair())
        found = [session(ort, given).run(["z"], {"x": X}) for given in (path, str(path))]
    return found


@probe
def open_damaged_file(ort: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        path.write_bytes(b"junkjunk" * 9)
        return session(ort, path)


@probe
def open_empty_file(ort: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        path.touch()
        return session(ort, path)


add("open, data beside bytes", lambda ort: ort.InferenceSession(apart()))
add("open, by keyword", lambda ort: ort.InferenceSession(path_or_bytes=pair()))
add("open, by position", lambda ort: ort.InferenceSession(pair(), ort.SessionOptions(), CPU))
add("open, options of another type", lambda ort: ort.InferenceSession(pair(), 5))
add("open, more keywords", lambda ort: ort.InferenceSession(pair(), nobody_knows=1))


@probe
def metadata(ort: Any) -> Any:
    found = session(ort, told()).get_modelmeta()
    names = ["producer_name", "graph_name", "domain", "description", "graph_description", "version"]
    return {n: getattr(found, n) for n in [*names, "custom_metadata_map"]}


add("metadata, none", lambda ort: session(ort).get_modelmeta().version)


@probe
def inputs_as_text(ort: Any) -> Any:
    return [str(arg) for arg in (*session(ort).get_inputs(), *session(ort).get_outputs())]


# a name of a dimension says nothing of the inputs: they broadcast, or don't
for label, shape in {"row": (1, 3), "column": (2, 1), "one": (1, 1), "other": (2, 2)}.items():

    def unlike(ort: Any, shape: Any = shape) -> Any:
        given = [tensor(name, FLOAT, ["n", "m"]) for name in "ab"]
        made = model([node("Sub", ["a", "b"], ["y"])], given, [tensor("y", FLOAT, ["n", "m"])])
        feed = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(shape, np.float32)}
        return session(ort, made).run(None, feed)

    add(f"run, unlike sizes of one name, {label}", unlike)
