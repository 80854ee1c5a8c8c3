"""Operators whose weights have free extents: one program each, as for the model with numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.models.test_free_axes import Case, check, model_of, node
from tests.sweeps import part

from minicc.api.session import InferenceSession
from minicc.compile.compiler import lower
from minicc.errors import UserError
from minicc.frontends.onnx.importer import import_model
from minicc.frontends.onnx.microsoft.blocked import block_size
from minicc.ir.core import walk
from minicc.options import Options

LINES = [
    {"n": n, "c": c, "h": h, "o": o, "k": k}
    for n, c, h, o, k in [(1, 3, 9, 4, 3), (2, 1, 5, 1, 1), (3, 5, 17, 32, 4), (1, 16, 40, 17, 7)]
]
IMAGES = [{**size, "w": size["h"] + 3, "l": max(size["k"] - 1, 1)} for size in LINES]


@pytest.mark.parametrize("way", ["SAME_UPPER", "SAME_LOWER"])
def test_a_known_image_under_a_kernel_of_free_extents(way: str) -> None:
    """Its border is of a minimum that is never above 0: as large as that is small."""
    x = np.random.default_rng(0).standard_normal((2, 4, 6, 2), np.float32)
    shapes: Any = {"w": ("o", "c", "k", "l")}
    nodes = [node("Conv", "x w", auto_pad=way, strides=[3, 3])]
    sizes = [{"o": 2, "c": 4, "k": k, "l": n} for k in (1, 2, 3, 5) for n in (1, 2, 4)]
    check(Case(nodes, shapes, sizes, constants={"x": x}))


def convolutions() -> Iterator[tuple[str, Case]]:
    """Kernels of free extents, with pads of numbers and with such as the kernel wants."""
    way: dict[str, Any]
    line = {"x": ("n", "c", "h"), "w": ("o", "c", "k")}
    image = {"x": ("n", "c", "h", "w"), "w": ("o", "c", "k", "l")}
    ways: list[dict[str, Any]] = [{}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}]
    for way, s, d in product(ways, (1, 2), (1, 2)):
        attributes = {**way, "strides": [s], "dilations": [d]}
        if not way:
            attributes["pads"] = [4, 3]
        yield f"line {attributes}", Case([node("Conv", "x w", **attributes)], line, LINES)
        attributes = {**attributes, "strides": [s, 1], "dilations": [1, d]}
        if not way:
            attributes["pads"] = [1, 2, 2, 4]
        yield f"image {attributes}", Case([node("Conv", "x w", **attributes)], image, IMAGES)
    grouped = {"x": ("n", "c", "h"), "w": ("o", "i", "k"), "b": ("o",)}
    many = [{**z, "c": 2 * z["c"], "i": z["c"], "o": 2 * z["o"]} for z in LINES]
    nodes = [node("Conv", "x w b", "z", group=2, pads=[3, 3]), node("Relu", "z")]
    yield "groups", Case(nodes, grouped, many)

    held = {"x": ("n", "c", "h", "w"), "w": ("o", "c", "p", "q")}
    nodes = [node("Conv", "x w", kernel_shape=[3, 2], auto_pad="SAME_LOWER", strides=[2, 2])]
    yield "kernel_shape", Case(nodes, held, [{**z, "p": 3, "q": 2} for z in IMAGES])
    elements: Any = {"x": np.uint8, "w": np.uint8, "v": np.uint8}
    shapes: Any = {**line, "z": (), "v": ("o",)}
    elements["z"] = np.uint8
    nodes = [node("ConvInteger", "x w z v", pads=[3, 3], strides=[2])]
    yield "integers", Case(nodes, shapes, LINES, elements=elements)
    shapes = {"x": ("n", "c", "h"), "s": (), "z": (), "w": ("o", "c", "k"), "t": ("o",)}
    shapes |= {"v": ("o",), "r": (), "u": ()}
    elements |= {"u": np.uint8}
    nodes = [node("Abs", name, name * 2) for name in "str"]
    nodes += [node("QLinearConv", "x ss z w tt v rr u", pads=[3, 3])]
    yield "quantised", Case(nodes, shapes, LINES, elements=elements)
    for names, last in product(("x w", "x w b s"), ("none", "silu")):
        shapes = {"x": ("n", "c", "h"), "w": ("c", "one", "k"), "b": ("c",), "s": ("n", "c", "r")}
        shapes = {k: v for k, v in shapes.items() if k in names.split()}
        nodes = [node("CausalConvWithState", names, "y a", activation=last)]
        many = [{**z, "one": 1, "r": z["k"] - 1} for z in LINES]
        yield f"causal {names} {last}", Case(nodes, shapes, many, (), ("y", "a"), 27)


def transposes() -> Iterator[tuple[str, Case]]:
    """Transposed convolutions with kernels of free extents, cut off in each way."""
    line = {"x": ("n", "c", "h"), "w": ("c", "o", "k"), "b": ("o",)}
    image = {"x": ("n", "c", "h", "w"), "w": ("c", "o", "k", "l")}
    ways: list[dict[str, Any]] = [
        {},
        {"auto_pad": "SAME_UPPER"},
        {"auto_pad": "SAME_LOWER"},
        {"output_shape": [40]},
        {"pads": [1, 0]},
        {"pads": [0, 2], "output_padding": [1]},
    ]
    for way, s, d in product(ways, (1, 2, 3), (1, 2)):
        attributes = {**way, "strides": [s], "dilations": [d]}
        many = [z for z in LINES if s > 1 or "output_padding" not in way]
        case = Case([node("ConvTranspose", "x w b", **attributes)], line, many)
        yield f"transposed line {attributes}", case
        attributes = {"strides": [s, 2], "dilations": [1, d]}
        attributes |= {k: [*v, *v] for k, v in way.items() if isinstance(v, list)}
        attributes |= {k: v for k, v in way.items() if isinstance(v, str)}
        case = Case([node("ConvTranspose", "x w", **attributes)], image, IMAGES)
        yield f"transposed image {attributes}", case
    many = [{**z, "c": 2 * z["c"]} for z in LINES]
    for s in (1, 2):
        nodes = [node("ConvTranspose", "x w", group=2, strides=[s])]
        yield f"transposed groups {s}", Case(nodes, {k: line[k] for k in "xw"}, many)
    image = {**image, "w": ("c", "o", "p", "q")}
    nodes = [node("ConvTranspose", "x w", kernel_shape=[3, 2], strides=[2, 1])]
    yield "transposed kernel_shape", Case(nodes, image, [{**z, "p": 3, "q": 2} for z in IMAGES])
    for name, step in (("less", -1), ("more", 2)):
        nodes = [
            node("MaxPool", "x", "a i", kernel_shape=[2], strides=[2]),
            node("Shape", "z", "s"),
            node("MaxUnpool", "a i s", kernel_shape=[2], strides=[2]),
        ]
        shapes: Any = {"x": ("n", "c", "h"), "z": ("n", "c", "m")}
        many = [{**z, "h": z["h"] // 2 * 2, "m": z["h"] // 2 * 2 + step} for z in LINES]
        yield f"unpooled to {name}", Case(nodes, shapes, many)


def samplings() -> Iterator[tuple[str, Case]]:
    """Elements at places of a grid whose last axis is free, too."""
    for mode in ("nearest", "linear", "cubic"):
        for extents in (("h", "w"), ("h", "w", "h")):
            shapes = {"x": ("n", "c", *extents), "g": ("n", *"klk"[: len(extents)], "axes")}
            many = [{**z, "axes": len(extents), "h": min(z["h"], 9)} for z in IMAGES]
            if mode != "cubic" or len(extents) == 2:
                yield (
                    f"{mode} {extents}",
                    Case([node("GridSample", "x g", mode=mode)], shapes, many),
                )
    for groups, moved in ((1, 1), (2, 1), (1, 2), (2, 2)):
        way: dict[str, Any] = {
            "group": groups,
            "offset_group": moved,
            "strides": [2, 1],
            "pads": [1] * 4,
        }
        shapes = {"x": ("n", "c", "h", "w"), "w": ("o", "i", "k", "l"), "b": ("o",)}
        shapes |= {"p": ("n", "t", "y", "z"), "m": ("n", "u", "y", "z")}
        many = []
        for z in IMAGES:
            k, m = z["k"], z["l"]
            more = {"c": 2 * z["c"], "i": 2 * z["c"] // groups, "o": 2 * z["o"], "n": z["n"]}
            more |= {"t": 2 * moved * k * m, "u": moved * k * m, "y": (z["h"] + 2 - k) // 2 + 1}
            many.append({**z, **more, "z": z["w"] + 3 - m})
        nodes = [node("DeformConv", "x w p b m", **way)]
        yield f"deformed {way}", Case(nodes, shapes, many)


def recurrents() -> Iterator[tuple[str, Case]]:
    """Recurrent layers all of whose extents are free; a state's size is an attribute or free."""
    steps = [(1, 1, 1, 1), (5, 2, 3, 4), (3, 1, 8, 1), (9, 3, 2, 17)]
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}
    extras = ("", "b", "b l", "b l h", "b l h c p")
    ways = {"forward": 1, "reverse": 1, "bidirectional": 2}
    for op, given, told, (way, d) in product(gates, extras, (False, True), ways.items()):
        names = given.replace(" c p", "" if op != "LSTM" else " c p").split()
        inputs = ["x", "w", "r", *names]
        turned = told and "l" not in names
        state: Any = ("n", "d", "h") if turned else ("d", "n", "h")
        shapes: dict[str, Any] = {"x": ("n", "t", "i") if turned else ("t", "n", "i")}
        shapes |= {"w": ("d", "g", "i"), "r": ("d", "g", "h"), "b": ("d", "twice"), "l": ("n",)}
        shapes |= {"h": state, "c": state, "p": ("d", "thrice")}
        attributes: dict[str, Any] = {"direction": way, "layout": int(turned)}
        attributes |= {"linear_before_reset": int(told)} if op == "GRU" else {}
        attributes |= {"hidden_size": 6} if told else {}
        sizes = []
        for t, n, i, own in steps:
            h = 6 if told else own
            counts = {"g": gates[op] * h, "twice": 2 * gates[op] * h, "thrice": 3 * h}
            sizes.append({"t": t, "n": n, "i": i, "h": h, "d": d, **counts})
        outputs = "y e f" if op == "LSTM" else "y e"
        nodes = [node(op, " ".join(inputs), outputs, **attributes)]
        shapes = {k: shapes[k] for k in inputs}
        case = Case(nodes, shapes, sizes, (), outputs.split(), 22, {"l": np.int32})
        yield f"{op} {given} {way} {told}", case


def quantised() -> Iterator[tuple[str, Case]]:
    """ONNX Runtime's quantised operators whose weights are free."""
    bytes_: Any = dict.fromkeys(("x", "w", "r", "z", "u", "v"), np.uint8)
    shapes: Any = {"x": ("t", "n", "i"), "w": ("d", "i", "g"), "r": ("d", "h", "g")}
    shapes |= {"b": ("d", "twice"), "h": ("d", "n", "h"), "s": ("d",), "z": ("d",)}
    nodes = [
        node(
            "DynamicQuantizeLSTM",
            "x w r b - h h - s z s z",
            "y e f",
            domain="com.microsoft",
            direction="bidirectional",
        )
    ]
    steps = [(1, 1, 1, 1), (4, 2, 3, 5), (2, 1, 7, 16)]
    sizes = [
        {"t": t, "n": n, "i": i, "h": h, "d": 2, "g": 4 * h, "twice": 8 * h} for t, n, i, h in steps
    ]
    elements = {k: v for k, v in bytes_.items() if k != "x"}
    yield "LSTM of bytes", Case(nodes, shapes, sizes, (), ("y", "e", "f"), 17, elements)
    shapes = {"x": ("n", "h", "w", "c"), "s": (), "z": (), "w": ("o", "c", "k", "l")}
    shapes |= {"q": ("o",), "v": ("o",), "t": (), "u": ()}
    way: dict[str, Any] = {"domain": "com.microsoft", "channels_last": 1, "pads": [3] * 4}
    nodes = [node("Abs", "t", "p"), node("QLinearConv", "x s z w q v p u", **way)]
    yield "image of bytes", Case(nodes, shapes, IMAGES, elements=bytes_)


def resizes() -> Iterator[tuple[str, Case]]:
    """Resizing to sizes that keep the proportions, or with as many taps as a scale wants."""
    sizes = [
        {"n": n, "c": 2, "h": h, "w": w, "k": k, "l": m}
        for n, h, w, k, m in [(1, 9, 7, 4, 5), (2, 1, 5, 3, 1), (1, 16, 33, 5, 40), (1, 6, 6, 9, 9)]
    ]
    first = [node("Shape", "z", "t", start=2)]
    policies = ("stretch", "not_larger", "not_smaller")
    modes = ("nearest", "linear", "cubic")
    for policy, mode, antialias, outside in product(policies, modes, (0, 1), (0, 1)):
        way: dict[str, Any] = {"keep_aspect_ratio_policy": policy, "mode": mode}
        way |= {"antialias": antialias, "exclude_outside": outside, "axes": [2, 3]}
        nodes = [*first, node("Resize", "x - - t", **way)]
        shapes: Any = {"x": ("n", "c", "h", "w"), "z": ("n", "c", "k", "l")}
        yield f"resized {policy} {mode} {antialias} {outside}", Case(nodes, shapes, sizes)
    way = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"}
    nodes = [*first, node("Abs", "r", "s"), node("Resize", "x s - t", axes=[2, 3], **way)]
    shapes = {"x": ("n", "c", "h", "w"), "z": ("n", "c", "k", "l"), "r": ("corners",)}
    yield "resized to a crop", Case(nodes, shapes, [{**z, "corners": 4} for z in sizes])
    held = {"s": np.array([1, 1, 1e-12, 1e-3], np.float32)}
    nodes = [node("Resize", "x - s", coordinate_transformation_mode="asymmetric")]
    few = [{"n": 1, "c": 1, "h": 3, "w": 2000}]
    yield "resized to nothing", Case(nodes, {"x": ("n", "c", "h", "w")}, few, held)


def rest() -> Iterator[tuple[str, Case]]:
    """Channels in blocks, ONNX Runtime's other convolutions, and crops."""
    block, domain = block_size(), "com.microsoft.nchwc"
    image: Any = {"x": ("n", "c", "h", "w"), "w": ("o", "c", "k", "l"), "b": ("o",)}
    way: dict[str, Any] = {"domain": domain, "kernel_shape": [3, 3], "activation": "Relu"}
    many = [{**z, "c": block * z["c"], "o": block * z["o"], "k": 3, "l": 3} for z in IMAGES]
    yield "blocks", Case([node("Conv", "x w b", pads=[1] * 4, **way)], image, many)
    nodes = [
        node("ReorderInput", "x", "a", domain=domain),
        node("MaxPool", "a", "r", domain=domain, kernel_shape=[2, 2]),
        node("ReorderOutput", "r", domain=domain, channels=1),
    ]
    yield "laid out in blocks", Case(nodes, {"x": image["x"]}, IMAGES)
    way = {"domain": "com.microsoft", "pads": [3] * 4, "activation": "Relu"}
    yield "FusedConv", Case([node("FusedConv", "x w b", **way)], image, IMAGES)
    image = {**image, "x": ("n", "h", "w", "c")}
    yield "NhwcFusedConv", Case([node("NhwcFusedConv", "x w b", **way)], image, IMAGES)
    for size in ({}, {"scale": [2, 3]}):
        way = {"border": [1, 0, 1, 2], **size}
        yield (
            f"Crop {size}",
            Case([node("Crop", "x", **way)], {"x": ("n", "c", "h", "w")}, IMAGES, opset=7),
        )
    nodes = [node("ImageScaler", "x", scale=2.0, bias=[1.0, -1.0, 2.0])]
    yield "ImageScaler", Case(nodes, {"x": ("n", "c", "h", "w")}, IMAGES[:1], opset=7)


FAMILIES = (convolutions, transposes, samplings, recurrents, quantised, resizes, rest)
CASES = {name: case for family in FAMILIES for name, case in family()}


@pytest.mark.parametrize("name", part(CASES, 25))
def test_one_program_gives_what_the_model_with_numbers_means(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize(
    ("op", "shapes", "way"),
    [
        ("Conv", [(1, 2, 3, 4), (5, 2, 3, 2)], {"kernel_shape": [3, 3]}),
        ("Conv", [(1, 2, 3, 4), (5, 2, 4, 2)], {}),
        ("Conv", [(1, 2, 3, 4), (5, 2, 0, 2)], {}),
        ("Conv", [(1, 2, 3, 4), (5, 1, 2, 2)], {"group": 2}),
        ("ConvTranspose", [(1, 3, 3), (3, 2, 2)], {"group": 2}),
        ("GridSample", [(1, 2, 3, 4), (1, 2, 3, 3)], {}),
        ("DeformConv", [(1, 2, 3, 4), (1, 3, 1, 1), (1, 2, 3, 4)], {}),
        ("CausalConvWithState", [(1, 2, 3), (2, 2, 2)], {}),
        ("LSTM", [(5, 2, 3), (1, 16, 3), (1, 16, 5)], {"hidden_size": 4}),
        ("GRU", [(5, 2, 3), (1, 12, 3), (1, 12, 4)], {"direction": "bidirectional"}),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit_are_refused(op: str, shapes: Any, way: Any) -> None:
    names = [f"x{k}" for k in range(len(shapes))]
    pairs = list(zip(names, shapes, strict=True))
    free = {name: [f"{name}_{k}" for k in range(len(shape))] for name, shape in pairs}
    case = Case([node(op, " ".join(names), **way)], free, (), opset=27)
    session = InferenceSession(model_of(case).SerializeToString())
    assert not session.facts.sized
    feed = {name: np.ones(shape, np.float32) for name, shape in pairs}
    with pytest.raises(UserError, match=rf"MC0142[\s\S]*at: {op}"):
        session.run(None, feed)


def test_a_kernel_of_many_free_extents_is_no_longer_for_each_of_them() -> None:
    """What is left over of a loop over blocks is no further copy of all loops within."""

    def code(axes: str) -> int:
        shapes = {"x": ("n", "c", *axes), "w": (2, "c", *axes.lower())}
        case = Case([node("Conv", "x w")], shapes, ())
        program = lower(import_model(model_of(case).SerializeToString()), Options(threads=1))
        kernels = (f for f in program.functions if f is not program.main)
        return max(sum(1 for _ in walk(f.body)) for f in kernels)

    line, volume = code("H"), code("HWD")
    assert volume < 2.5 * line
