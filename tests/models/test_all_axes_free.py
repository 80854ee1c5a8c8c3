"""Operators of whose inputs no extent is known: one program each for all sizes that fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper
from tests.models.test_free_axes import Case, check, feed_of, model_of, node
from tests.sweeps import part

from minicc.api.session import InferenceSession
from minicc.errors import MiniccError

Shapes = Mapping[str, Sequence[int]]


def free(nodes: NodeProto | Sequence[NodeProto], *given: Shapes, **more: Any) -> Case:
    """A case of inputs of these shapes, each of whose extents has a name of its own."""
    listed = [nodes] if isinstance(nodes, NodeProto) else nodes
    names = {k: [f"{k}_{axis}" for axis in range(len(n))] for k, n in given[0].items()}
    sizes = [
        {symbol: n for k in names for symbol, n in zip(names[k], shapes[k], strict=True)}
        for shapes in given
    ]
    return Case(listed, names, sizes, **more)


def microsoft(op: str, inputs: str, output: str = "y", **attributes: Any) -> NodeProto:
    names = [name if name != "-" else "" for name in inputs.split()]
    return helper.make_node(op, names, output.split(), domain="com.microsoft", **attributes)


# batch, heads of queries and keys, steps, keys, sizes of keys and values
HEADS = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 4, 2, 3, 5, 8, 6),
    (1, 3, 3, 7, 7, 16, 16),
    (3, 6, 1, 1, 33, 4, 2),
]


def attentions() -> Iterator[tuple[str, Case]]:
    """Attention of heads that are free in number and size."""
    way: dict[str, Any]
    ways: list[dict[str, Any]] = [{}, {"is_causal": 1}, {"scale": 0.3}, {"softcap": 2.0}]
    for way in ways:
        shapes = [
            {"q": (b, h, s, d), "k": (b, g, t, d), "v": (b, g, t, e)}
            for b, h, g, s, t, d, e in HEADS
        ]
        shapes.append({"q": (1, 4, 2, 8), "k": (1, 3, 2, 8), "v": (1, 3, 2, 8)})
        shapes.append({"q": (1, 4, 2, 8), "k": (1, 2, 2, 8), "v": (1, 2, 3, 8)})
        yield f"Attention {way}", free(node("Attention", "q k v", **way), *shapes, opset=23)
        past = [
            s | {"a": (*s["k"][:2], n, s["k"][3]), "c": (*s["v"][:2], n, s["v"][3])}
            for n, s in enumerate(shapes[:4])
        ]
        nodes = node("Attention", "q k v - a c", "y m n", **way)
        yield f"with past {way}", free(nodes, *past, opset=23, results=("y", "m", "n"))
    flat = [{"q": (b, s, 4 * d), "k": (b, t, 2 * d), "v": (b, t, 2 * e)}
            for b, _, _, s, t, d, e in HEADS]  # fmt: skip
    way = {"q_num_heads": 4, "kv_num_heads": 2}
    yield "Attention of rank 3", free(node("Attention", "q k v", **way), *flat, opset=23)
    # what an exporter writes for heads that share keys: copies of these, as many as go into all
    shared = [
        *(node("Shape", name, f"{name}s") for name in "qk"),
        *(node("Gather", f"{name}s one", f"{name}n") for name in "qk"),
        node("Div", "qn kn", "times"),
        node("Mod", "qn kn", "rest"),
        node("Equal", "rest zero", "whole"),
        node("Equal", "qn kn", "same"),
        node("Not", "same", "shared"),
        node("And", "whole shared", "some"),
        node("Where", "some times one", "each"),
        node("Gather", "ks zero", "batch"),
        *(node("Gather", f"ks {axis}", f"k{axis}") for axis in ("two", "three")),
        node("Concat", "batch kn each ktwo kthree", "long", axis=0),
        node("Unsqueeze", "k two", "apart"),
        node("Expand", "apart long", "wide"),
        node("Concat", "batch qn ktwo kthree", "all", axis=0),
        node("Reshape", "wide all", "keys"),
        node("Transpose", "keys", "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q turned"),
    ]
    held = {name: np.array([n]) for n, name in enumerate(("zero", "one", "two", "three"))}
    both = [{"q": s["q"], "k": s["k"]} for s in shapes[:4]]
    yield "keys that are shared", free(shared, *both, constants=held)
    for pairs, turned in product((0, 1), (0, 4)):
        half = [turned // 2 or d for d in (1, 2, 4)]
        rows = [
            {"x": (b, h, s, 2 * d if not turned else d + 3), "c": (b, s, n), "z": (b, s, n)}
            for (b, h, s, d), n in zip(
                [(1, 1, 1, 1), (2, 3, 5, 2), (1, 2, 9, 4)], half, strict=True
            )
        ]
        way = {"interleaved": pairs, "rotary_embedding_dim": turned}
        yield f"rotary {way}", free(node("RotaryEmbedding", "x c z", **way), *rows, opset=23)


def microsofts() -> Iterator[tuple[str, Case]]:
    """Fused operators whose widths are free."""
    sizes = [(1, 1, 1), (2, 5, 4), (1, 9, 7)]
    qkv = [{"x": (b, s, 6), "w": (6, 6 * d), "b": (6 * d,)} for b, s, d in sizes]
    qkv.append({"x": (1, 2, 6), "w": (6, 7), "b": (7,)})
    yield "attention", free(microsoft("Attention", "x w b", num_heads=2), *qkv)
    three = [{**dict.fromkeys("qkv", (b, s, 2 * d)), "b": (6 * d,)} for b, s, d in sizes]
    nodes = microsoft("MultiHeadAttention", "q k v b", num_heads=2)
    yield "heads with a bias", free(nodes, *three)
    halves = [{"x": (b, s, 2 * d), "b": (2 * d,)} for b, s, d in sizes]
    halves.append({"x": (1, 2, 3), "b": (3,)})
    yield "BiasSplitGelu", free(microsoft("BiasSplitGelu", "x b"), *halves)
    groups = [{"x": (b, s, 3 * d), "w": (d,), "g": (b, s, 3 * d)} for b, s, d in sizes]
    yield "GatedRMSNorm", free(microsoft("GatedRMSNorm", "x w g"), *groups)
    branches = [{"x": (b, s, 3 * d), "w": (3 * d,)} for b, s, d in sizes]
    yield "branches", free(microsoft("BranchwiseRMSNorm", "x w", num_branches=3), *branches)
    turned = [
        {"x": (b, s, 6 * d), "p": (1,), "c": (s + 2, d), "z": (s + 2, d)} for b, s, d in sizes
    ]
    nodes = microsoft("RotaryEmbedding", "x p c z")
    yield "rotary", free(nodes, *turned, elements={"p": np.int64})
    weights = {"w": np.linspace(0.5, 2, 24, dtype=np.float32)}
    rows = [{"x": (b, s, 24)} for b, s, _ in sizes]
    nodes = microsoft("BranchwiseRMSNorm", "x w", num_branches=3)
    yield "branches with known weights", free(nodes, *rows, constants=weights)
    nodes = microsoft("BranchwiseRMSNorm", "x w")
    yield "no branches", free(nodes, *[r | {"w": (24,)} for r in rows])
    pairs = [{"a": (b, s, 2), "b": (b, s, 2)} for b, s, _ in sizes]
    pairs.append({"a": (1, 2, 3), "b": (1, 2, 3)})
    yield "ComplexMul", free(microsoft("ComplexMul", "a b"), *pairs)
    tables = [{"t": (n, h)} for n, h in ((32, 1), (8, 4), (64, 3))]
    held = {"q": np.array([9]), "k": np.array([30])}
    for both in (0, 1):
        nodes = microsoft("RelativePositionBias", "t q k", is_bidirectional=both)
        yield f"buckets {both}", free(nodes, *tables, constants=held)
    channels = [{"x": (b, s, 2, 4 * d), "w": (4 * d,), "b": (4 * d,)} for b, s, d in sizes]
    nodes = microsoft("GroupNorm", "x w b", groups=4, channels_last=1)
    yield "GroupNorm", free(nodes, *channels)


def others() -> Iterator[tuple[str, Case]]:
    """Places that are data, channels, blocks and diagonals."""
    for modes, rank in product((("linear", "zeros"), ("cubic", "reflection")), (2, 3)):
        way: dict[str, Any] = dict(zip(("mode", "padding_mode"), modes, strict=True))
        grids = [
            {"x": (n, c, *(m,) * rank), "g": (n, *(k,) * rank, rank)}
            for n, c, m, k in ((1, 1, 1, 1), (2, 3, 4, 5), (1, 2, 9, 3))
        ]
        grids.append({**grids[1], "g": (2, *(5,) * rank, rank + 1)})
        yield f"GridSample {way} {rank}", free(node("GridSample", "x g", **way), *grids)
    channels = [(1, 4, 1), (2, 8, 3), (1, 12, 7), (1, 6, 2)]
    rows = [{"x": (n, c, m, m), "s": (c,), "b": (c,)} for n, c, m in channels]
    yield "GroupNormalization", free(node("GroupNormalization", "x s b", num_groups=4), *rows)
    blocks = [{"x": (n, m), "s": (n, -(-m // 4))} for n, m in ((1, 1), (3, 8), (2, 9), (5, 32))]
    blocks.append({"x": (2, 9), "s": (2, 2)})
    positive = [node("Abs", "s", "a"), node("Exp", "a", "e")]
    for op, element in (("QuantizeLinear", np.float32), ("DequantizeLinear", np.int32)):
        nodes = [*positive, node(op, "x e", axis=1, block_size=4)]
        yield op, free(nodes, *blocks, opset=21, elements={"x": element})
    places = [{"x": (4, n, m), "u": (5, m)} for n, m in ((3, 1), (5, 8), (4, 33))]
    given = [p | {"i": (5, 2)} for p in places] + [places[0] | {"i": (5, 3)}]
    nodes = node("ScatterND", "x i u", reduction="add")
    yield "ScatterND", free(nodes, *given, elements={"i": np.int64}, opset=18)
    squares = [{"x": (n, m, m)} for n, m in ((1, 1), (2, 3), (3, 2), (1, 40))]
    squares.append({"x": (2, 3, 4)})
    for equation in ("nii->ni", "nii->in", "nii->n"):
        yield f"Einsum {equation}", free(node("Einsum", "x", equation=equation), *squares)


def transforms() -> Iterator[tuple[str, Case]]:
    """Fourier transforms along an axis that is free, of real and of complex numbers."""
    for inverse, half in product((0, 1), (0, 1)):
        parts = [{"x": (2, n, k)} for n, k in ((1, 2), (2, 1), (9, 2), (16, 1), (33, 2))]
        if inverse and half:
            parts = [{"x": (2, n, 2)} for n in (2, 3, 9, 20)] + [{"x": (2, 3, 1)}]
        way: dict[str, Any] = {"inverse": inverse, "onesided": half}
        yield f"DFT {way}", free(node("DFT", "x", axis=1, **way), *parts, opset=19)
        held = {"n": np.array(6), "a": np.array(-2)}
        nodes = node("DFT", "x n a", **way)
        yield f"DFT of 6 {way}", free(nodes, *parts, constants=held)
        # in stages, between axes that are free
        held = {"n": np.array(60), "a": np.array(1)}
        many = [{"n": n, "t": t, "m": m} for n, t, m in ((1, 60, 1), (2, 31, 5), (1, 77, 17))]
        case = Case([node("DFT", "x n a", **way)], {"x": ("n", "t", "m", 2)}, many, held)
        yield f"DFT of 60 {way}", case
    lengths = [{"x": (n, m)} for n, m in ((1, 1), (2, 2), (3, 9), (1, 64))]
    for op, periodic in product(("HannWindow", "HammingWindow", "BlackmanWindow"), (0, 1)):
        framed = [
            node("Shape", "x", "s", start=1),
            node("Squeeze", "s", "n"),
            node(op, "n", "w", periodic=periodic),
            node("Mul", "x w"),
        ]
        yield f"{op} {periodic}", free(framed, *lengths)
    signals = [{"x": (n, m, k)} for n, m, k in ((1, 4, 1), (2, 20, 2), (3, 31, 1))]
    held = {"s": np.array(3), "l": np.array(4)}
    yield "STFT", free(node("STFT", "x s - l"), *signals, constants=held)
    many = [{"n": n, "t": t} for n, t in ((1, 60), (2, 79), (3, 80), (1, 999))]
    held = {"s": np.array(20), "l": np.array(60)}
    yield "STFT of 60", Case([node("STFT", "x s - l")], {"x": ("n", "t", 1)}, many, held)


def comparisons() -> Iterator[tuple[str, Case]]:
    """Extents that comparisons of sizes choose."""
    given = [{"x": (n,), "z": (m,)} for n, m in ((1, 1), (3, 5), (5, 3), (4, 4), (1, 9), (0, 2))]
    shapes = [node("Shape", name, f"{name}s") for name in "xz"]
    for op in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"):
        nodes = [
            *shapes,
            node(op, "xs zs", "first"),
            node("Equal", "xs three", "second"),
            node("Or", "first second", "both"),
            node("Where", "both xs zs", "chosen"),
            node("Expand", "one chosen"),
        ]
        held = {"one": np.ones(1, np.float32), "three": np.array([3])}
        yield f"Where {op}", free(nodes, *given, constants=held)


FAMILIES = (attentions, microsofts, others, transforms, comparisons)
CASES = {name: case for family in FAMILIES for name, case in family()}


@pytest.mark.parametrize("name", part(CASES, 3))
def test_one_program_for_all_sizes(name: str) -> None:
    check(CASES[name])


def test_axes_of_extent_1_are_those_that_sizes_say() -> None:
    case = free(node("Squeeze", "x"), {"x": (2, 3)}, {"x": (1, 3)}, {"x": (4, 1)}, {"x": (5, 7)})
    session = InferenceSession(model_of(case).SerializeToString())
    assert not session.facts.sized
    for sizes in case.sizes:
        feed = feed_of(case, sizes)
        (got,) = session.run(None, feed)
        np.testing.assert_array_equal(got, np.squeeze(feed["x"]))
    assert len(session._compiled) == 3


def test_windows_that_an_axis_is_too_short_for() -> None:
    """Even where steps beyond 1 would leave none of them, and not fewer."""
    windows = node("UnfoldTensor", "x", domain="com.microsoft", dim=1, size=3, step=2)
    sizes = [{"a": 2, "b": n} for n in (5, 4, 3, 2, 1, 8)]
    check(Case([windows], {"x": ("a", "b")}, sizes))


def test_sizes_that_fit_no_operator_are_the_users_mistake() -> None:
    grid = next(case for name, case in CASES.items() if name.startswith("GridSample"))
    session = InferenceSession(model_of(grid).SerializeToString())
    with pytest.raises(MiniccError, match="do not fit the model") as caught:
        session.run(None, feed_of(grid, grid.sizes[-1]))
    assert (caught.value.code, caught.value.where) == ("MC0142", ("GridSample#0",))
