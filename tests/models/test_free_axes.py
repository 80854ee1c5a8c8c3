"""Operators over free axes: one program each, whose results are those of the model with numbers.

A model is compiled once and run at many sizes; what it should give is what the graph of the same
model with numbers for all dimensions means, by the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from minicc.errors import MiniccError
from minicc.frontends.onnx.importer import import_graph
from minicc.frontends.onnx.reader import read_model
from minicc.ir import interpret
from minicc.session import InferenceSession

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """Nodes from `x`, and more inputs, to `y`; extents by letters, and numbers for these."""

    nodes: Sequence[NodeProto]
    shapes: Mapping[str, Sequence[int | str]]
    sizes: Sequence[Mapping[str, int]]
    constants: Mapping[str, Any] = {}
    results: Sequence[str] = ("y",)
    opset: int = 22
    elements: Mapping[str, Any] = {}


def node(op: str, inputs: str, output: str = "y", **attributes: Any) -> NodeProto:
    names = [name if name != "-" else "" for name in inputs.split()]
    return helper.make_node(op, names, output.split(), **attributes)


def model_of(case: Case) -> ModelProto:
    def type_of(name: str) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(case.elements.get(name, np.float32)))

    given = [helper.make_tensor_value_info(k, type_of(k), v) for k, v in case.shapes.items()]
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in case.constants.items()]
    results = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in case.results]
    body = helper.make_graph(case.nodes, "test", given, results, held)
    opsets = [helper.make_opsetid("", case.opset)]
    return helper.make_model(body, opset_imports=opsets, ir_version=9)


def feed_of(case: Case, sizes: Mapping[str, int]) -> dict[str, Array]:
    random = np.random.default_rng(sum(sizes.values()))

    def values(name: str, shape: list[int]) -> Array:
        element = np.dtype(case.elements.get(name, np.float32))
        if element.kind == "i":
            return random.integers(0, 3, shape).astype(element)
        if element.kind == "b":
            return random.integers(0, 2, shape).astype(element)
        return random.uniform(-1.2, 1.2, shape).astype(element)

    return {
        k: values(k, [n if isinstance(n, int) else sizes[n] for n in shape])
        for k, shape in case.shapes.items()
    }


def check(case: Case) -> None:
    source = model_of(case).SerializeToString()
    session = InferenceSession(source)
    for sizes in case.sizes:
        feed = feed_of(case, sizes)
        try:
            wanted = interpret.run(import_graph(read_model(source), sizes), list(feed.values()))
        except MiniccError:
            with pytest.raises(MiniccError):
                session.run(None, feed)
            continue
        for got, want in zip(session.run(None, feed), wanted, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype), sizes
            close = 2e-3 if got.dtype == np.float16 else 2e-5
            np.testing.assert_allclose(got, want, rtol=close, atol=close / 10, err_msg=str(sizes))
    assert session.report().count(" launches of ") == 1


NCHW = ("n", 3, "h", "w")
IMAGES = [
    {"n": n, "h": h, "w": w}
    for n, h, w in [(1, 7, 9), (2, 4, 4), (1, 5, 6), (3, 16, 33), (2, 11, 8), (1, 64, 50)]
]


def windows() -> Iterator[tuple[str, Case]]:
    """Poolings in every way of padding that depends on how large the image is."""
    ways: list[dict[str, Any]] = [
        {"auto_pad": "SAME_UPPER"},
        {"auto_pad": "SAME_LOWER"},
        {"ceil_mode": 1},
        {"ceil_mode": 1, "pads": [1, 0, 0, 1]},
        {"pads": [0, 1, 1, 1]},
    ]
    for op, way, k, s in product(("MaxPool", "AveragePool", "LpPool"), ways, (2, 3), (1, 2, 3)):
        if k == 2 and s == 1:
            continue
        attributes = {**way, "kernel_shape": [k, k], "strides": [s, s]}
        if op == "AveragePool":
            attributes["count_include_pad"] = k % 2
        yield f"{op} {attributes}", Case([node(op, "x", **attributes)], {"x": NCHW}, IMAGES)
    more: dict[str, dict[str, Any]] = {
        "AveragePool": {"dilations": [2, 1], "pads": [1, 1, 1, 1], "strides": [1, 2]},
        "MaxPool": {"dilations": [2, 2], "ceil_mode": 1, "strides": [2, 2]},
    }
    for op, attributes in more.items():
        attributes["kernel_shape"] = [2, 3]
        yield f"{op} {attributes}", Case([node(op, "x", **attributes)], {"x": NCHW}, IMAGES)
    for columns, way in product((0, 1), ways):
        attributes = {**way, "kernel_shape": [3, 2], "strides": [2, 2], "storage_order": columns}
        nodes = [node("MaxPool", "x", "y i", **attributes)]
        case = Case(nodes, {"x": NCHW}, IMAGES, results=("y", "i"))
        yield f"places {attributes}", case
    w = {"w": np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)}
    for auto, s in product(("SAME_UPPER", "SAME_LOWER"), (1, 2, 4)):
        nodes = [node("Conv", "x w", "c", auto_pad=auto, strides=[s, s]), node("Relu", "c")]
        yield f"Conv {auto} {s}", Case(nodes, {"x": NCHW}, IMAGES, w)


LINE = ("n", 2, "h")
LINES = [{"n": n, "h": h} for n, h in [(1, 5), (2, 4), (1, 13), (3, 7), (1, 21), (2, 48), (1, 99)]]
COORDINATES = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners")
COORDINATES += ("asymmetric", "tf_crop_and_resize")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
SCALES = (2.0, 3.0, 0.5, 0.25, 1.5, 0.6, 2.3)


def scaled(scale: float, **attributes: Any) -> Case:
    """The last axis by a scale."""
    constants = {"s": np.array([1, 1, scale], np.float32), "r": np.array([0, 0, 0.1, 1, 1, 0.8])}
    constants["r"] = constants["r"].astype(np.float32)
    return Case([node("Resize", "x r s", **attributes)], {"x": LINE}, LINES, constants)


def sized(**attributes: Any) -> Case:
    """Height and width as those of another image, as decoders and pyramids have it."""
    nodes = [
        node("Shape", "x", "a", end=2),
        node("Shape", "z", "b", start=2),
        node("Concat", "a b", "t", axis=0),
        node("Resize", "x - - t", **attributes),
    ]
    extents = [
        (4, 4, 8, 8),
        (7, 5, 13, 9),
        (6, 9, 3, 4),
        (8, 3, 8, 3),
        (1, 2, 5, 7),
        (20, 31, 9, 60),
    ]
    sizes = [{"n": 2, "h": h, "w": w, "k": k, "l": m} for h, w, k, m in extents]
    return Case(nodes, {"x": NCHW, "z": (1, 1, "k", "l")}, sizes)


def resizes() -> Iterator[tuple[str, Case]]:
    """Resizing in all modes, by scales that repeat and such that don't."""
    for way, scale, near in product(COORDINATES, SCALES, ROUNDINGS):
        attributes = {"coordinate_transformation_mode": way, "nearest_mode": near}
        yield f"nearest {way} {scale} {near}", scaled(scale, mode="nearest", **attributes)
    for mode, way, scale in product(("linear", "cubic"), COORDINATES, SCALES):
        attributes = {"coordinate_transformation_mode": way, "mode": mode}
        yield f"{mode} {way} {scale}", scaled(scale, **attributes)
    for mode, way, scale in product(("linear", "cubic"), ("antialias", "exclude_outside"), SCALES):
        yield f"{mode} {way} {scale}", scaled(scale, mode=mode, **{way: 1})
    for mode, way in product(("nearest", "linear", "cubic"), COORDINATES[:-1]):
        attributes = {"coordinate_transformation_mode": way, "mode": mode}
        yield f"{mode} {way} as another", sized(**attributes)
    factors = {"s": np.array([1, 1, 2, 1.5], np.float32)}
    for op, opset, mode in product(("Upsample", "Resize"), (9, 10), ("nearest", "linear")):
        if opset == (9 if op == "Upsample" else 10):
            nodes = [node(op, "x s", mode=mode)]
            yield f"{op} {mode}", Case(nodes, {"x": NCHW}, IMAGES, factors, opset=opset)
    for element in (np.uint8, np.float16):
        case = scaled(1.5, mode="linear")
        yield f"linear {element.__name__}", case._replace(elements={"x": element})


CASES = {**dict(windows()), **dict(resizes())}


@pytest.mark.parametrize("name", CASES)
def test_one_program_gives_what_the_model_with_numbers_means(name: str) -> None:
    check(CASES[name])
