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
from tests.sweeps import part

from minicc.api.session import InferenceSession
from minicc.errors import MiniccError
from minicc.frontends.onnx.importer import import_graph
from minicc.frontends.onnx.model.reader import read_model
from minicc.ir import graph, interpret
from minicc.ir.core import walk

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """Nodes from `x`, and more inputs, to `y`; extents by letters, and numbers for these."""

    nodes: Sequence[NodeProto]
    shapes: Mapping[str, Any]
    sizes: Sequence[Mapping[str, int]]
    constants: Any = ()
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
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(case.constants).items()]
    results = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in case.results]
    body = helper.make_graph(case.nodes, "test", given, results, held)
    opsets = [helper.make_opsetid("", case.opset), helper.make_opsetid("com.microsoft", 1)]
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
    module = import_graph(read_model(source))
    assert not any(isinstance(op, graph.Host) for op in walk(module.functions[0].body))
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
            np.testing.assert_allclose(got, want, rtol=close, atol=close, err_msg=str(sizes))
    assert len(session._compiled) == 1
    assert not session._compiled[()].host


NCHW = ("n", 3, "h", "w")
IMAGES = [
    {"n": n, "h": h, "w": w}
    for n, h, w in [(1, 7, 9), (2, 4, 4), (0, 5, 6), (3, 16, 33), (2, 11, 8), (1, 64, 50)]
]


def test_a_pool_over_less_than_a_window_takes_what_is_there() -> None:
    pool = node("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2])
    case = Case([pool], {"x": NCHW}, ())
    session = InferenceSession(model_of(case).SerializeToString())
    for h, w in ((8, 6), (1, 6), (4, 1), (1, 1)):
        feed = feed_of(case, {"n": 2, "h": h, "w": w})
        wanted = feed["x"].reshape(2, 3, -(-h // 2), -1, w)
        wanted = wanted.max(axis=3).reshape(2, 3, -(-h // 2), -(-w // 2), -1).max(axis=-1)
        np.testing.assert_array_equal(session.run(None, feed)[0], wanted)
    with pytest.raises(MiniccError, match="does not fit"):
        session.run(None, feed_of(case, {"n": 2, "h": 0, "w": 4}))


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
    for op, s in product(("MaxPool", "AveragePool", "LpPool"), (3, 400)):
        attributes = {"kernel_shape": [400, 2], "strides": [s, 1], "ceil_mode": 1}
        attributes |= {"pads": [399, 0, 2, 0]} if s == 3 else {}
        yield f"{op} of all {s}", Case([node(op, "x", **attributes)], {"x": NCHW}, IMAGES)
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
LINES = [{"n": n, "h": h} for n, h in [(1, 5), (0, 4), (1, 13), (3, 7), (1, 21), (2, 48), (1, 99)]]
COORDINATES = ["half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners"]
COORDINATES += ["asymmetric", "tf_crop_and_resize"]
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
        pyramid = sized(**attributes)
        first = node("Conv", "x u", "c", auto_pad="SAME_UPPER", strides=[2, 2])
        *rest, last = pyramid.nodes
        last = node("Resize", "c - - t", "r", **attributes)
        nodes = [first, *rest, last, node("Conv", "r u")]
        filters = {"u": np.random.default_rng(0).standard_normal((3, 3, 3, 3)).astype(np.float32)}
        pyramid = pyramid._replace(sizes=[s for s in pyramid.sizes if s["k"] > 2 and s["l"] > 2])
        case = pyramid._replace(nodes=nodes, constants=filters)
        yield f"{mode} {way} in a pyramid", case
    for factor, way in product((2.0, 1.5, 0.25, 1.3, 0.7), ("Floor", "Ceil")):
        nodes = [
            node("Shape", "x", "s", start=2),
            node("Cast", "s", "f", to=TensorProto.FLOAT),
            node("Mul", "f two", "g"),
            node(way, "g", "e"),
            node("Cast", "e", "i", to=TensorProto.INT64),
            node("Shape", "x", "b", end=2),
            node("Concat", "b i", "t", axis=0),
            node("Resize", "x - - t", mode="linear"),
        ]
        held = {"two": np.array([factor], np.float32)}
        yield f"{way} of sizes times {factor}", Case(nodes, {"x": NCHW}, IMAGES, held)
    for mode, op, opset in product(("nearest", "linear"), ("Upsample", "Resize"), (9, 10, 11)):
        if (op == "Upsample") == (opset == 9):
            nodes = [
                node("Shape", "x", "s"),
                node("Slice", "s", "h", starts=[2], ends=[4]) if opset == 9 else
                node("Slice", "s two four", "h"),
                node("Cast", "h", "f", to=TensorProto.FLOAT),
                node("Div", "wide f", "g"),
                node("Concat", "ones g", "k", axis=0),
                node(op, "x k" if opset < 11 else "x - k", mode=mode),
            ]  # fmt: skip
            held = {"wide": np.array([30, 17], np.float32), "ones": np.ones(2, np.float32)}
            held |= {"two": np.array([2]), "four": np.array([4])}
            case = Case(nodes, {"x": NCHW}, IMAGES, held, opset=opset)
            yield f"{op} {mode} by scales that give one size, opset {opset}", case
    factors = {"s": np.array([1, 1, 2, 1.5], np.float32)}
    for op, opset, mode in product(("Upsample", "Resize"), (9, 10), ("nearest", "linear")):
        if opset == (9 if op == "Upsample" else 10):
            nodes = [node(op, "x s", mode=mode)]
            yield f"{op} {mode}", Case(nodes, {"x": NCHW}, IMAGES, factors, opset=opset)
    for element in (np.uint8, np.float16):
        case = scaled(1.5, mode="linear")
        yield f"linear {element.__name__}", case._replace(elements={"x": element})


STEPS = [(1, 1), (1, 7), (0, 4), (2, 4), (3, 16), (1, 33)]


def attentions() -> Iterator[tuple[str, Case]]:
    """Attention over a free batch, of free numbers of queries, keys and steps before."""
    way: dict[str, Any]
    shapes: dict[str, Any]
    sizes = [{"n": n, "s": s, "t": s + 2, "p": 3, "m": s + 3} for n, s in STEPS]
    masks: dict[str, tuple[tuple[int | str, ...], Any]] = {
        "": ((), None),
        "of numbers": (("s", "t"), np.float32),
        "of booleans": (("n", 1, "s", "t"), bool),
    }
    ways: list[dict[str, Any]] = [{}, {"is_causal": 1}, {"left_window_size": 2, "is_causal": 1}]
    for (mask, (shape, element)), way, heads in product(masks.items(), ways, (2, 4)):
        shapes = {"q": ("n", 4, "s", 8), "k": ("n", heads, "t", 8)}
        shapes |= {"v": ("n", heads, "t", 5)} | ({"mask": shape} if mask else {})
        opset = 26 if "left_window_size" in way else 23
        nodes = [node("Attention", " ".join(shapes), **way)]
        case = Case(nodes, shapes, sizes, opset=opset, elements={"mask": element})
        yield f"attention {way} {heads} mask {mask}", case
    flat = {"q": ("n", "s", 32), "k": ("n", "s", 16), "v": ("n", "s", 16)}
    for causal in (0, 1):
        way = {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": causal}
        case = Case([node("Attention", "q k v", **way)], flat, sizes, opset=23)
        yield f"attention of rank 3 {way}", case
        past = {**flat, "a": ("n", 2, "p", 8), "b": ("n", 2, "p", 8)}
        nodes = [node("Attention", "q k v - a b", "y c d", **way)]
        yield f"attention with past {way}", Case(nodes, past, sizes, (), ("y", "c", "d"), 23)
        masked = {**past, "mask": ("n", 1, "s", "m")}
        nodes = [node("Attention", "q k v mask a b", "y c d", **way)]
        yield f"masked, with past {way}", Case(nodes, masked, sizes, (), ("y", "c", "d"), 23)
        ends = {"q": ("n", 4, "s", 8), "k": ("n", 2, "t", 8), "v": ("n", 2, "t", 8), "l": ("n",)}
        nodes = [node("Attention", "q k v - - - l", is_causal=causal)]
        elements = {"l": np.int64}
        yield f"to lengths {causal}", Case(nodes, ends, sizes, opset=24, elements=elements)
    for pairs, turned in product((0, 1), (0, 4)):
        way = {"interleaved": pairs, "rotary_embedding_dim": turned, "num_heads": 4}
        shapes = {"x": ("n", "s", 32), "c": ("n", "s", 2 if turned else 4)}
        shapes["z"] = shapes["c"]
        yield (
            f"rotary {way}",
            Case([node("RotaryEmbedding", "x c z", **way)], shapes, sizes, opset=23),
        )
        held = {k: np.random.default_rng(1).uniform(-1, 1, (9, 4)) for k in ("c", "z")}
        held = {k: v[:, : 2 if turned else 4].astype(np.float32) for k, v in held.items()}
        shapes = {"x": ("n", 4, "s", 8), "i": ("n", "s")}
        nodes = [node("RotaryEmbedding", "x c z i", **way)]
        elements = {"i": np.int64}
        yield f"rotary at {way}", Case(nodes, shapes, sizes, held, opset=23, elements=elements)


def samplings() -> Iterator[tuple[str, Case]]:
    """Elements at places that are data, of images of a free size."""
    way: dict[str, Any]
    shapes: dict[str, Any]
    sizes = [{**size, "r": 5, "k": 4, "l": n} for n, size in enumerate(IMAGES, 1)]
    sizes.append({"n": 1, "h": 1, "w": 3, "r": 2, "k": 2, "l": 2})
    modes, paddings = ("nearest", "linear", "cubic"), ("zeros", "border", "reflection")
    for mode, padding, corners in product(modes, paddings, (0, 1)):
        way = {"mode": mode, "padding_mode": padding, "align_corners": corners}
        shapes = {"x": NCHW, "g": ("n", "k", "l", 2)}
        yield f"GridSample {way}", Case([node("GridSample", "x g", **way)], shapes, sizes)
    for mode, moved in product(("avg", "max"), ("half_pixel", "output_half_pixel")):
        way = {"mode": mode, "coordinate_transformation_mode": moved, "sampling_ratio": 2}
        way |= {"output_height": 3, "output_width": 2, "spatial_scale": 4.0}
        nodes = [node("Abs", "b", "c"), node("RoiAlign", "x c i", **way)]
        shapes = {"x": ("n", 3, "h", "w"), "b": ("r", 4)}
        held = {"i": np.zeros(5, np.int64)}
        many = [size for size in sizes if size["r"] == 5 and size["n"]]
        yield f"RoiAlign {way}", Case(nodes, shapes, many, held)
    w = {"w": np.random.default_rng(0).standard_normal((3, 4, 3, 3)).astype(np.float32)}
    for auto, s, d in product(("SAME_UPPER", "SAME_LOWER", "VALID"), (1, 2), (1, 2)):
        way = {"auto_pad": auto, "strides": [s, s], "dilations": [d, d]}
        yield (
            f"ConvTranspose {way}",
            Case([node("ConvTranspose", "x w", **way)], {"x": NCHW}, IMAGES, w),
        )
    nodes = [
        node("MaxPool", "x", "a i", kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxUnpool", "a i", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    yield "MaxUnpool", Case(nodes, {"x": NCHW}, IMAGES[1:2])


def rest() -> Iterator[tuple[str, Case]]:
    """Extremes, pads by elements of an axis, and blocks."""
    for op, last, axis in product(("ArgMax", "ArgMin"), (0, 1), (0, 2, 3)):
        nodes = [node("Round", "x", "r"), node(op, "r", axis=axis, select_last_index=last)]
        yield f"{op} {last} {axis}", Case(nodes, {"x": NCHW}, IMAGES)
    yield "Hardmax", Case([node("Round", "x", "r"), node("Hardmax", "r")], {"x": NCHW}, IMAGES)
    for mode, pads in product(
        ("reflect", "edge", "wrap"), ((1, 2, 3, 0), (0, 1, 2, -1), (2, 2, 2, 2))
    ):
        held = {"p": np.array([0, 0, *pads[:2], 0, 0, *pads[2:]])}
        yield f"Pad {mode} {pads}", Case([node("Pad", "x p", mode=mode)], {"x": NCHW}, IMAGES, held)
    for mode in ("constant", "reflect", "edge", "wrap"):
        nodes = [
            node("Shape", "x", "s", start=2),
            node("Neg", "s", "o"),
            node("Mod", "o four", "m"),
            node("Concat", "zeros m", "p", axis=0),
            node("Pad", "x p", mode=mode),
        ]
        held = {"four": np.array([4]), "zeros": np.zeros(6, np.int64)}
        yield f"Pad {mode} to blocks", Case(nodes, {"x": NCHW}, IMAGES, held)
    for op in ("SpaceToDepth", "DepthToSpace"):
        nodes = [node("Concat", "x x x x", "c", axis=1), node("Concat", "c c", "d", axis=2)]
        nodes += [node("Concat", "d d", "e", axis=3), node(op, "e", blocksize=2)]
        yield op, Case(nodes, {"x": NCHW}, IMAGES)
    nodes = [node("CenterCropPad", "x t", axes=[2, 3])]
    held = {"t": np.array([6, 9])}
    yield "CenterCropPad", Case(nodes, {"x": NCHW}, IMAGES, held)
    # frames that must be as many as a kernel has channels, between batches that lie evenly
    nodes = [node("STFT", "x s - l", "f"), node("Conv", "f w", pads=[1, 1, 1, 1])]
    held = {"s": np.array(3), "l": np.array(4), "w": np.ones((8, 4, 3, 3), np.float32)}
    yield "STFT, Conv", Case(nodes, {"x": (2, "t", 1)}, [{"t": 13}], held)


def sequences() -> Iterator[tuple[str, Case]]:
    """What counts along a free axis, cuts it, or fills it."""
    lines = [{"n": n, "h": h} for n, h in [(1, 1), (2, 2), (1, 31), (3, 33), (1, 64), (1, 1100)]]
    held: Any = {"a": np.array(2)}
    for op, reverse, exclusive in product(("CumSum", "CumProd"), (0, 1), (0, 1)):
        nodes = [node(op, "x a", reverse=reverse, exclusive=exclusive)]
        yield f"{op} {reverse} {exclusive}", Case(nodes, {"x": LINE}, lines, held, opset=26)
    for count in (2, 3):
        parts = [f"p{k}" for k in range(count)]
        nodes = [node("Split", "x", " ".join(parts), num_outputs=count, axis=2)]
        nodes += [node("Concat", " ".join(reversed(parts)), axis=2)]
        many = [{"n": 1, "h": h} for h in (6, 5, 12, 35)]
        yield f"Split in {count}", Case(nodes, {"x": LINE}, many)
    nodes = [node("Shape", "z", "d"), node("OneHot", "x d v")]
    elements: Any = {"x": np.int64}
    held = {"v": np.array([0, 1], np.float32)}
    many = [{"n": n, "m": n + 3} for n in (1, 4, 9)]
    yield "OneHot", Case(nodes, {"x": ("n",), "z": ("m",)}, many, held, elements=elements)
    for mode in ("linear", "circular"):
        nodes = [node("TensorScatter", "x u i", mode=mode, axis=2)]
        given: Any = {"x": ("n", 2, "k", 4), "u": ("n", 2, 3, 4), "i": ("n",)}
        most = [{"n": n, "k": n + 5} for n in (1, 4, 9)]
        case = Case(nodes, given, most, elements={"i": np.int64}, opset=24)
        yield f"TensorScatter {mode}", case
    for corners, extents in product((0, 1), (("h", "w"), ("h", 3), ("n", "h", "w"))):
        rank = len(extents)
        nodes = [node("Shape", "x", "s"), node("AffineGrid", "t s", align_corners=corners)]
        given = {"x": ("n", 3, *extents), "t": ("n", rank, rank + 1)}
        yield f"AffineGrid {corners} {extents}", Case(nodes, given, IMAGES)
    w = {"w": np.random.default_rng(0).standard_normal((4, 3, 3, 2)).astype(np.float32)}
    for moved, s in product((1, 3), (1, 2)):
        nodes = [
            node("DeformConv", "x w o - m", strides=[s, 1], pads=[1] * 4, offset_group=moved),
        ]
        given = {"x": NCHW, "o": ("n", 12 * moved, "k", "l"), "m": ("n", 6 * moved, "k", "l")}
        sizes = [{**z, "k": (z["h"] - 1) // s + 1, "l": z["w"] + 1} for z in IMAGES]
        yield f"DeformConv {moved} {s}", Case(nodes, given, sizes, w)


def scatters() -> Iterator[tuple[str, Case]]:
    """Updates at places that data say, of free tensors, also none and of rows of any length."""
    elements: Any = {"i": np.int64}
    sizes = [
        {"n": n, "k": k, "w": w}
        for n, k, w in [(3, 1, 1), (4, 5, 31), (3, 0, 7), (5, 9, 33), (7, 2, 64), (3, 2, 0)]
    ]
    for combine in ("none", "add", "max"):
        nodes = [node("ScatterND", "x i u", reduction=combine)]
        given: Any = {"x": ("n", "w"), "i": ("k", 1), "u": ("k", "w")}
        yield f"ScatterND rows {combine}", Case(nodes, given, sizes, elements=elements)
        given = {"x": ("n", 4, "n", "w"), "i": ("k", 2, 3), "u": ("k", 2, "w")}
        yield f"ScatterND {combine}", Case(nodes, given, sizes, elements=elements)
        for axis in (0, 1):
            nodes = [node("ScatterElements", "x i u", axis=axis, reduction=combine)]
            shape = ("n", 3) if axis == 0 else (2, "n")
            part = ("k", 2) if axis == 0 else (2, "k")
            given = {"x": shape, "i": part, "u": part}
            yield f"ScatterElements {axis} {combine}", Case(nodes, given, sizes, elements=elements)
    nodes = [node("Add", "x x", "z"), node("ScatterND", "z i u", "s"), node("Mul", "s z")]
    given = {"x": ("n", "w"), "i": ("k", 1), "u": ("k", "w")}
    yield "ScatterND of what is read again", Case(nodes, given, sizes, elements=elements)


@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements"])
@pytest.mark.parametrize("axis", [0, 1])
def test_indices_have_no_more_elements_than_there_are_along_other_axes(op: str, axis: int) -> None:
    """Else machine code would read and write beyond the tensor."""
    names = {"x": ("a", "b"), "i": ("c", "d")}
    if op == "ScatterElements":
        names["u"] = ("c", "d")
    case = Case([node(op, " ".join(names), axis=axis)], names, (), elements={"i": np.int64})
    session = InferenceSession(model_of(case).SerializeToString())
    fits = {"a": 3, "b": 3, "c": 3, "d": 3}
    for other, n in product(("c", "d"), (2, 4, 300)):
        sizes = {**fits, other: n}
        feed = feed_of(case, sizes) | {"i": np.zeros((sizes["c"], sizes["d"]), np.int64)}
        if n < 3 or other == "cd"[axis]:
            session.run(None, feed)
            continue
        with pytest.raises(MiniccError, match="MC0142"):
            session.run(None, feed)


def test_keys_that_are_none_are_attended_to_by_nobody() -> None:
    nodes = [
        node("Transpose", "k", "t", perm=[0, 1, 3, 2]),
        node("MatMul", "q t", "s"),
        node("Softmax", "s", "w", axis=-1),
        node("MatMul", "w k"),
    ]
    sizes = {"a": 2, "h": 3, "n": 5}
    check(Case(nodes, {"q": ("a", "h", "n", 4), "k": ("a", "h", 0, 4)}, (sizes,)))


def test_scattering_to_nothing_is_an_error() -> None:
    nodes = [node("ScatterND", "x i u")]
    given: Any = {"x": ("n", "w"), "i": ("k", 1), "u": ("k", "w")}
    case = Case(nodes, given, (), elements={"i": np.int64})
    session = InferenceSession(model_of(case).SerializeToString())
    assert not session._compiled[()].host
    for n in (0, 2):
        feed = feed_of(case, {"n": n, "w": 40, "k": 3})
        feed["i"][:] = 2
        with pytest.raises(MiniccError, match="2"):
            session.run(None, feed)


def test_updates_of_as_many_rows_as_there_are_indices_none_are_none() -> None:
    """The shape of the updates alone would not tell."""
    for op, at in (("ScatterND", (0, 1)), ("ScatterElements", (0, 3))):
        for how in ("none", "mul"):
            nodes = [node("Split", "x", "a b", axis=0, num_outputs=2)]
            nodes.append(node(op, "a i b", reduction=how))
            held = {"i": np.zeros(at, np.int64)}
            case = Case(nodes, {"x": ("h", 3)}, [], held)
            session = InferenceSession(model_of(case).SerializeToString())
            for h in (1, 0):
                feed = feed_of(case, {"h": h})
                np.testing.assert_array_equal(session.run(None, feed)[0], feed["x"])


def quotients() -> Iterator[tuple[str, Case]]:
    """Sizes divided by sizes, and the greater of a size and a number, as exporters write them."""
    held = {"first": np.array(0), "step": np.array(1), "one": np.array([1]), "axis": np.array([0])}
    shapes = {"x": ("n", "k"), "z": ("m",)}
    sizes = [{"n": n, "k": k, "m": m} for n, k, m in [(4, 6, 3), (4, 6, 24), (0, 6, 3), (7, 3, 4)]]
    start = [node("Shape", "x", "s"), node("ReduceProd", "s", "all"), node("Shape", "z", "d")]
    for op in ("Div", "Mod"):
        nodes = [*start, node(op, "all d", "q"), node("Squeeze", "q axis", "c")]
        nodes += [node("Range", "first c step")]
        yield f"{op} of sizes", Case(nodes, shapes, sizes, held)
    few = [node("Squeeze", "all axis", "a"), node("Squeeze", "d axis", "c")]
    some = [s for s in sizes if s["n"]]
    yield "Range by a size", Case([*start, *few, node("Range", "first a c")], shapes, some, held)
    rows = [node("Gather", "s first", "r"), node("Range", "first a r")]
    yield "Range by its divisor", Case([*start, *few, *rows], shapes, some, held)
    nodes = [*start, node("Div", "all d", "q"), node("Concat", "q d", "to", axis=0)]
    nodes += [node("Reshape", "x to"), node("Reshape", "x rest", "w")]
    nodes[-1:] = [node("Concat", "one less d", "rest", axis=0), nodes[-1]]
    yield "Reshape", Case(nodes, shapes, sizes[:3], {**held, "less": np.array([-1])}, ("y", "w"))
    most = {"ends": np.array([1 << 40]), "none": np.array([0]), "table": np.ones((4, 1))}
    # numbers below a size as exporters count them, and a shape that is picked by one
    nodes = [*start, node("ConstantOfShape", "s", "f", value=numpy_helper.from_array(np.ones(1)))]
    nodes += [node("NonZero", "f", "at"), node("Transpose", "at", "y", perm=[1, 0])]
    yield "NonZero", Case(nodes, shapes, sizes, held)
    more = {"two": np.array([1]), "depth": np.array(3), "less": np.array([-1])}
    nodes = [*start, node("Concat", "one d", "few", axis=0), node("OneHot", "two depth few", "c")]
    nodes += [node("Reshape", "z rows", "r"), node("Tile", "r c")]
    held |= {"rows": np.array([1, 1, -1])}
    yield "OneHot of a shape", Case(nodes, shapes, sizes, {**held, **more})
    nodes = [node("Shape", "z", "d"), node("Sub", "one d", "e"), node("Max", "e none", "from")]
    nodes += [node("Slice", "table from ends one", "cut"), node("Cast", "cut", "f", to=1)]
    nodes += [node("Add", "f z")]
    yield "Slice", Case(nodes, {"z": ("m",)}, [{"m": m} for m in (1, 2, 31)], {**held, **most})


FAMILIES = (windows, resizes, attentions, samplings, rest, sequences, scatters, quotients)
CASES = {name: case for family in FAMILIES for name, case in family()}


@pytest.mark.parametrize("name", part(CASES, 25))
def test_one_program_gives_what_the_model_with_numbers_means(name: str) -> None:
    check(CASES[name])


def test_rows_that_a_window_rounds_up_and_the_model_down_are_those_of_whole_tiles() -> None:
    nodes = [
        node("MaxPool", "x", "p", kernel_shape=[1, 1], strides=[8, 8]),
        node("Transpose", "p", "t", perm=[0, 2, 3, 1]),
        node("Reshape", "t pixels", "r"),
        node("Shape", "x", "s"),
        node("Slice", "s zero one", "batch"),
        node("Slice", "s two four", "sides"),
        node("Div", "sides eight", "tiles"),
        node("Concat", "batch tiles left", "wanted", axis=0),
        node("Reshape", "r wanted"),
    ]
    numbers = {"zero": [0], "one": [1], "two": [2], "four": [4], "eight": [8], "left": [-1]}
    held = {name: np.array(v) for name, v in {**numbers, "pixels": [-1, 1, 3]}.items()}
    tiled = [{"n": 2, "h": 16, "w": 40}, {"n": 1, "h": 8, "w": 64}, {"n": 3, "h": 128, "w": 24}]
    check(Case(nodes, {"x": NCHW}, tiled, held))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_a_width_that_cuts_for_large_sizes_pads_for_small_ones(mode: str) -> None:
    nodes = [
        node("Shape", "x", "s", start=1),
        node("Sub", "most s", "width"),
        node("Concat", "none none none width", "p", axis=0),
        node("Pad", "x p", mode=mode),
    ]
    held = {"most": np.array([32]), "none": np.array([0])}
    sizes = [{"n": 2, "h": h} for h in (20, 31, 32, 33, 64, 100)]
    check(Case(nodes, {"x": ("n", "h")}, sizes, held))


def test_an_image_of_odd_sides_is_reshaped_by_what_is_left() -> None:
    """The product of two sums is what a third extent is divided by."""
    nodes = [
        node("Shape", "x", "s", start=2),
        node("Mul", "s two", "d"),
        node("Sub", "d one", "sides"),
        node("Shape", "x", "front", end=2),
        node("Concat", "front sides", "to", axis=0),
        node("Resize", "x - - to", "r", mode="linear"),
        node("Transpose", "r", "t", perm=[0, 2, 3, 1]),
        node("ReduceProd", "sides", "all"),
        node("Concat", "all less", "rows", axis=0),
        node("Reshape", "t rows"),
    ]
    held = {"two": np.array([2]), "one": np.array([1]), "less": np.array([-1])}
    sizes = [{"h": h, "w": w} for h, w in ((1, 1), (2, 5), (7, 3), (8, 8))]
    check(Case(nodes, {"x": (1, 4, "h", "w")}, sizes, held))


def test_convolutions_after_one_another_are_as_long_as_the_model_says_in_one_division() -> None:
    kernels, nodes = ((127, 64), (7, 3), (3, 2)), []
    for k, (size, stride) in enumerate(kernels):
        names = f"{'x' if not k else f'c{k - 1}'} w{k}"
        nodes.append(node("Conv", names, f"c{k}", kernel_shape=[size], strides=[stride]))
    nodes += [
        node("Shape", "x", "s", start=2),
        node("Sub", "s first", "room"),
        node("Div", "room step", "q"),
        node("Sub", "q one", "length"),
        node("Transpose", "c2", "t", perm=[0, 2, 1]),
        node("Concat", "one length less", "to", axis=0),
        node("Reshape", "t to"),
    ]
    held: dict[str, Any] = {"first": np.array([127]), "step": np.array([384])}
    held |= {"one": np.array([1]), "less": np.array([-1])}
    for k, (size, _) in enumerate(kernels):
        held[f"w{k}"] = np.full((4, 4 if k else 1, size), 1 / size, np.float32)
    check(Case(nodes, {"x": (1, 1, "h")}, [{"h": h} for h in (1100, 1501, 3000)], held))


@pytest.mark.parametrize("masked", [False, True])
def test_attention_to_no_keys_is_nothing(masked: bool) -> None:
    """The sum of no weights is 0, by which nothing is divided."""
    nodes = [
        node("Transpose", "k", "kt", perm=[0, 2, 1]),
        node("MatMul", "q kt", "scores"),
        node("Add", "scores m", "seen") if masked else node("Identity", "scores", "seen"),
        node("Softmax", "seen", "p", axis=-1),
        node("MatMul", "p v"),
    ]
    shapes: dict[str, Any] = {"q": ("n", "t", 8), "k": ("n", "s", 8), "v": ("n", "s", 8)}
    shapes |= {"m": ("n", 1, "s")} if masked else {}
    case = Case(nodes, shapes, [{"n": 2, "t": 9, "s": 5}, {"n": 3, "t": 64, "s": 700}])
    check(case)
    session = InferenceSession(model_of(case).SerializeToString())
    for n, t in ((2, 9), (1, 1), (3, 64)):
        found = session.run(None, feed_of(case, {"n": n, "t": t, "s": 0}))[0]
        assert np.array_equal(found, np.zeros((n, t, 8)))


def test_attention_to_as_many_keys_as_data_say_may_be_nothing() -> None:
    nodes = [
        node("NonZero", "chosen", "places"),
        node("Gather", "k places", "few", axis=1),
        node("Squeeze", "few axis", "near"),
        node("Transpose", "near", "kt", perm=[0, 2, 1]),
        node("MatMul", "q kt", "scores"),
        node("Softmax", "scores", "p", axis=-1),
        node("MatMul", "p near"),
    ]
    shapes = {"q": (2, 64, 8), "k": (2, "s", 8), "chosen": ("s",)}
    case = Case(nodes, shapes, (), {"axis": np.array([1])}, elements={"chosen": np.int64})
    session = InferenceSession(model_of(case).SerializeToString())
    feed = {**feed_of(case, {"s": 900}), "chosen": np.ones(900, np.int64)}
    assert np.isfinite(session.run(None, feed)[0]).all()
    feed["chosen"] = np.zeros(900, np.int64)
    assert np.array_equal(session.run(None, feed)[0], np.zeros((2, 64, 8)))


def test_rows_that_turn_out_to_be_empty_are_scattered_by_machine_code() -> None:
    """The op has free extents where it is decided who runs it, and numbers when it is lowered."""
    nodes = [
        node("ConstantOfShape", "none", "f"),
        node("Concat", "x f", "c", axis=1),
        node("Add", "x f", "z"),
        node("ScatterND", "x i u"),
    ]
    shapes = {"x": (2, "w"), "i": (4, 1), "u": (4, "w")}
    held = {"none": np.array([2, 0])}
    case = Case(nodes, shapes, [{"w": 0}], held, ("y", "z"), elements={"i": np.int64})
    source = model_of(case).SerializeToString()
    session = InferenceSession(source)
    feed = {**feed_of(case, {"w": 0}), "i": np.array([[0], [1], [1], [0]])}
    assert [a.shape for a in session.run(None, feed)] == [(2, 0), (2, 0)]
    assert not session._compiled[()].host


def test_a_window_larger_than_its_tensor_takes_no_memory_for_what_is_not_there() -> None:
    pool = node("AveragePool", "x", kernel_shape=[1 << 20] * 2, strides=[1 << 20] * 2, ceil_mode=1)
    case = Case([pool], {"x": NCHW}, ())
    session = InferenceSession(model_of(case).SerializeToString())
    feed = feed_of(case, {"n": 2, "h": 5, "w": 7})
    wanted = feed["x"].mean((2, 3), keepdims=True)
    np.testing.assert_allclose(session.run(None, feed)[0], wanted, rtol=1e-5)


def test_what_is_asked_of_sizes_holds_beside_ops_on_the_host() -> None:
    """Also of sizes that no native part reads."""
    nodes = [node("Squeeze", "x", "y"), node("NonZero", "z", "w")]
    case = Case(nodes, {"x": ("n", "n"), "z": ("k",)}, (), results=("y", "w"))
    session = InferenceSession(model_of(case).SerializeToString())
    for n in (2, 1, 3):
        feed = feed_of(case, {"n": n, "k": 3})
        got, places = session.run(None, feed)
        np.testing.assert_array_equal(got, feed["x"].squeeze())
        np.testing.assert_array_equal(places, np.array(np.nonzero(feed["z"])))


def test_places_in_texts_are_found_and_a_missing_input_is_told() -> None:
    """By the host, as no number fills a constant of texts."""

    def session(inputs: list[str]) -> InferenceSession:
        held = [numpy_helper.from_array(np.array(["a", ""], object), "s")]
        given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
        result = [helper.make_tensor_value_info("y", TensorProto.INT64, None)]
        node = helper.make_node("NonZero", inputs, ["y"], name="places")
        body = helper.make_graph([node], "test", given, result, held)
        opsets = [helper.make_opsetid("", 17)]
        return InferenceSession(
            helper.make_model(body, opset_imports=opsets, ir_version=9).SerializeToString()
        )

    (places,) = session(["s"]).run(None, {"x": np.ones(2, np.float32)})
    np.testing.assert_array_equal(places, [[0]])
    with pytest.raises(MiniccError, match="its input X is missing"):
        session([""])


def test_a_size_that_a_later_node_makes_a_number() -> None:
    """What an earlier one took for granted of it, as Squeeze that it is not 1, is asked again."""
    weights = np.ones((1, 4, 1), np.float32)
    case = Case(
        [node("Squeeze", "x"), node("LSTM", "q w r - s", "h", hidden_size=1)],
        {"x": ("n", "n"), "q": ("n", "m", "n")},
        (),
        {"w": weights, "r": weights, "s": np.ones(3, np.int32)},
        ("y", "h"),
    )
    session = InferenceSession(model_of(case).SerializeToString(), threads=1)
    x, q = np.full((1, 1), 7, np.float32), np.ones((1, 3, 1), np.float32)
    y, h = session.run(None, {"x": x, "q": q})
    np.testing.assert_array_equal(y, np.float32(7))
    assert y.shape == ()
    assert h.shape == (1, 1, 3, 1)


def test_the_places_of_many_samples_are_data_though_sizes_decide_them() -> None:
    """As sizes each would be an expression of its own, and compiling would take minutes."""
    way: Any = {"output_height": 200, "output_width": 90, "sampling_ratio": 2}
    held = {"r": np.array([[1, 2, 9, 7]], np.float32)}
    sizes = [{"n": 1, "h": 9, "w": 12}, {"n": 2, "h": 5, "w": 4}]
    held |= {"b": np.array([0])}
    case = Case([node("RoiAlign", "x r b", **way)], {"x": ("n", 2, "h", "w")}, sizes, held)
    module = import_graph(read_model(model_of(case).SerializeToString()))
    ops = [op for op in walk(module.functions[0].body) if isinstance(op, graph.Sizes)]
    assert max(len(op.values) for op in ops) == 1
    check(case)
