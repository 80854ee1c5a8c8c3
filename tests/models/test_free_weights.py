"""Operators whose weights have free extents: one program each, as for the model with numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.models.test_free_axes import Case, check, node
from tests.sweeps import part

LINES = [
    {"n": n, "c": c, "h": h, "o": o, "k": k}
    for n, c, h, o, k in [(1, 3, 9, 4, 3), (2, 1, 5, 1, 1), (3, 5, 17, 32, 4), (1, 16, 40, 17, 7)]
]
IMAGES = [{**size, "w": size["h"] + 3, "l": max(size["k"] - 1, 1)} for size in LINES]


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


FAMILIES = (convolutions, transposes, samplings)
CASES = {name: case for family in FAMILIES for name, case in family()}


@pytest.mark.parametrize("name", part(CASES, 2))
def test_one_program_gives_what_the_model_with_numbers_means(name: str) -> None:
    check(CASES[name])
