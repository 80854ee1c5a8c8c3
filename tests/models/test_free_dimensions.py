"""ONNX models with free dimensions: one session each, many sizes, as exporters write such models.

What sizes settle is not refused when a session is opened, and never gives another result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from minicc.api.session import InferenceSession
from minicc.compile.compiler import lower
from minicc.errors import MiniccError
from minicc.ir.core import walk
from minicc.ir.structured import Group
from minicc.options import Options
from minicc.passes.structured.contraction import contractions_in

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, Sequence[int | str]]
Case = tuple[Sequence[NodeProto], Shapes, Mapping[str, Any], Sequence[tuple[int, ...]]]
SIZES = [(0,), (1,), (2,), (3,), (5,), (17,)]
BIG = 2**63 - 1


def node(op: str, inputs: str, output: str = "y", **attributes: Any) -> NodeProto:
    names = [name if name != "-" else "" for name in inputs.split()]
    return helper.make_node(op, names, output.split(), **attributes)


def sizes_of(element: int, *more: NodeProto) -> Sequence[NodeProto]:
    """The extent of `x` as tf2onnx writes it, called `n`, of rank 0; `more` nodes use it."""
    return [
        node("Shape", "x", "s"),
        node("Cast", "s", "c", to=element),
        node("Gather", "c zero", "n"),
        *more,
    ]


def shaped(*more: NodeProto) -> Sequence[NodeProto]:
    """As `sizes_of` in int32, as a vector `v` that `more` join to a shape `t`, then in int64."""
    wide = node("Cast", "t", "t64", to=TensorProto.INT64)
    return [
        *sizes_of(TensorProto.INT32),
        node("Unsqueeze", "n axis", "v"),
        *more[:-1],
        wide,
        more[-1],
    ]


def i32(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


AT = {"zero": i64(0)[0], "axis": i64(0)}
X: Shapes = {"x": ["n", 4, 2]}
TWO: Shapes = {"x": ["n", 4], "z": ["m", 4]}
PAIRS = [(1, 1), (1, 5), (5, 1), (3, 3), (0, 1), (0, 0), (17, 17)]
CASES: dict[str, Case] = {
    "int32 sizes into Concat and Reshape": (
        shaped(node("Concat", "v k", "t", axis=0), node("Reshape", "x t64")),
        X,
        {**AT, "k": i32(8)},
        SIZES,
    ),
    "int32 sizes multiplied": (
        shaped(node("Mul", "v k", "t"), node("Reshape", "x t64")),
        X,
        {**AT, "k": i32(8)},
        SIZES,
    ),
    "int32 sizes divided": (
        shaped(
            node("Mul", "v k", "p"),
            node("Div", "p two", "d"),
            node("Concat", "d two", "t", axis=0),
            node("Reshape", "x t64"),
        ),
        X,
        {**AT, "k": i32(8), "two": i32(2)},
        SIZES,
    ),
    "int32 sizes into Expand": (
        shaped(node("Concat", "v k", "t", axis=0), node("Expand", "b t64")),
        X,
        {**AT, "k": i32(3), "b": np.arange(3, dtype=np.float32)},
        SIZES,
    ),
    "int32 sizes into ConstantOfShape": (
        shaped(node("Concat", "v k", "t", axis=0), node("ConstantOfShape", "t64")),
        X,
        {**AT, "k": i32(3)},
        SIZES,
    ),
    "int32 sizes into Range": (
        sizes_of(TensorProto.INT32, node("Range", "first n one")),
        X,
        {**AT, "first": i32(0)[0], "one": i32(1)[0]},
        SIZES,
    ),
    "int64 sizes into Range": (
        sizes_of(TensorProto.INT64, node("Range", "zero n one")),
        X,
        {**AT, "one": i64(1)[0]},
        SIZES,
    ),
    "sizes into Tile": (
        [node("Shape", "x", "s"), node("Tile", "b s")],
        {"x": ["n", 2]},
        {"b": np.ones((2, 3), np.float32)},
        SIZES,
    ),
    "places of tokens, once for each of a batch": (
        [
            node("Shape", "x", "s", start=1),
            node("Add", "s five", "place"),
            node("Unsqueeze", "place zero", "row"),
            node("Shape", "x", "batch", end=1),
            node("Concat", "batch one", "times", axis=0),
            node("Tile", "row times", "tiled"),
            node("Expand", "row times", "spread"),
            node("Sub", "tiled spread", "none"),
            node("Add", "none tiled"),
        ],
        {"x": ["n", "m"]},
        {"five": i64(5), "zero": i64(0), "one": i64(1)},
        [(1, 1), (2, 7), (0, 3), (3, 16)],
    ),
    "a square of as many patches": (
        [
            node("Shape", "x", "s", start=1, end=2),
            node("Cast", "s", "f", to=TensorProto.FLOAT),
            node("Pow", "f half", "root"),
            node("Cast", "root", "side", to=TensorProto.INT64),
            node("Shape", "x", "b", end=1),
            node("Concat", "b side side", "t", axis=0),
            node("Reshape", "x t"),
        ],
        {"x": ["n", "m"]},
        {"half": np.float32(0.5)},
        [(1, 1), (2, 4), (0, 9), (3, 49), (1, 576)],
    ),
    "a product over no terms": (
        [node("MatMul", "x w", "a"), node("MatMul", "z w", "b"), node("Add", "a b")],
        {"x": [0], "z": ["n", 0], "w": [0, 2]},
        {},
        [(1,), (0,), (50,)],
    ),
    "padding by sizes that were padded": (
        [
            node("Shape", "x", "s"),
            node("Mod", "s two", "odd"),
            node("Unsqueeze", "odd least", "column"),
            node("Pad", "column left", "pairs"),
            node("Transpose", "pairs", "rows"),
            node("Reshape", "rows least", "pads"),
            node("Pad", "x pads"),
        ],
        {"x": ["n", "m"]},
        {"two": i64(2), "least": i64(-1), "left": i64(0, 1, 0, 0)},
        [(1, 1), (2, 3), (3, 4), (0, 2)],
    ),
    "heads of as many places": (
        [
            node("Shape", "x", "b", end=1),
            node("Shape", "x", "s", start=1),
            node("Sub", "s two", "d"),
            node("Div", "d far", "q"),
            node("Sub", "q one", "v"),
            node("Squeeze", "v", "count"),
            node("Range", "zero count unit", "places"),
            node("Concat", "b four one", "times", axis=0),
            node("Expand", "places times", "all"),
            node("Concat", "b least v", "t", axis=0),
            node("Reshape", "all t"),
        ],
        {"x": ["n", "m"]},
        {
            "zero": i64(0)[0],
            "unit": i64(1)[0],
            "one": i64(1),
            "two": i64(2),
            "far": i64(384),
            "four": i64(4),
            "least": i64(-1),
        },
        [(1, 800), (2, 1160), (3, 2000)],
    ),
    "heads after the batch": (
        [
            node("Shape", "z", "s"),
            node("Slice", "s axis one", "v"),
            node("Concat", "v six least", "a", axis=0),
            node("Slice", "s one two", "w"),
            node("Concat", "a w", "t", axis=0),
            node("Concat", "z z z z z z", "big", axis=0),
            node("Unsqueeze", "big one", "x"),
            node("Reshape", "x t"),
        ],
        {"z": ["n", "m"]},
        {"six": i64(6), "least": i64(-1), "axis": i64(0), "one": i64(1), "two": i64(2)},
        [(1, 1), (2, 7), (3, 16)],
    ),
    "Squeeze of all": ([node("Squeeze", "x")], X, {}, SIZES),
    "Squeeze of a free one": ([node("Squeeze", "x a")], X, {"a": i64(0)}, [(1,)]),
    "MatMul over a batch of 1": (
        [node("MatMul", "x w")],
        {"x": ["n", 2, 3]},
        {"w": np.ones((4, 3, 2), np.float32)},
        [(1,), (4,)],
    ),
    "MatMul of two batches": (
        [node("Transpose", "z", "t", perm=[0, 2, 1]), node("MatMul", "x t")],
        {"x": ["n", 2, 4], "z": ["m", 3, 4]},
        {},
        PAIRS,
    ),
    "sums of two sizes": ([node("Add", "x z", "u"), node("Mul", "u u")], TWO, {}, PAIRS),
    "Where of two sizes": (
        [node("Greater", "x z", "c"), node("Where", "c x z")],
        TWO,
        {},
        PAIRS,
    ),
    "Gather at a size": (
        sizes_of(TensorProto.INT64, node("Sub", "n one", "l"), node("Gather", "x l")),
        X,
        {**AT, "one": i64(1)[0]},
        SIZES[1:],
    ),
    "Pad by a size": (
        [node("Shape", "x", "s"), node("Concat", "s s", "p", axis=0), node("Pad", "x p")],
        {"x": ["n", 2]},
        {},
        SIZES,
    ),
    "Split in two": (
        [node("Split", "x", "a b", num_outputs=2), node("Concat", "b a", axis=1)],
        {"x": ["n", 4]},
        {},
        [(2,), (4,), (16,)],
    ),
    "Resize by scales": (
        [node("Resize", "x - f", mode="nearest")],
        {"x": [1, 2, "n", 3]},
        {"f": np.array([1, 1, 2, 2], np.float32)},
        SIZES[1:],
    ),
    "TopK of a size": (
        [
            node("Shape", "x", "s"),
            node("Slice", "s axis one", "k"),
            node("TopK", "x k", "y i", axis=0),
        ],
        X,
        {"axis": i64(0), "one": i64(1)},
        SIZES[1:],
    ),
}
for start, end, step in [
    *[(-4, BIG, 1), (2, BIG, 1), (0, -4, 1), (1, -1, 1), (2, 4, 1), (-3, -1, 1), (0, BIG, 2)],
    *[(-1, -BIG, -1), (BIG, -BIG, -1), (3, 0, -1), (5, 1, -2), (-20, BIG, 1)],
    *[(20, BIG, 1), (0, -20, 1), (3, -1, 1)],
]:
    CASES[f"x[{start}:{end}:{step}]"] = (
        [node("Slice", "x s e a t")],
        {"x": ["n", 3]},
        {"s": i64(start), "e": i64(end), "a": i64(0), "t": i64(step)},
        [*SIZES, (4,), (20,), (25,)],
    )


WEIGHTS = np.random.default_rng(5).standard_normal((2, 24, 24)).astype(np.float32)
OF_IMAGES: Mapping[str, Case] = {
    "all elements of an image into Gemm": (
        [node("Flatten", "x", "f"), node("Gemm", "f w")],
        {"x": [3, 2, "n", "m"]},
        {"w": WEIGHTS[0, :, :6]},
        [(3, 4), (12, 1), (1, 12)],
    ),
    "rows of an image into a GRU": (
        [
            node("Transpose", "x", "t", perm=[3, 0, 1, 2]),
            node("Reshape", "t k", "f"),
            node("GRU", "f w r", "- y", hidden_size=8),
        ],
        {"x": [2, 6, "n", "m"]},
        {"k": i64(0, 0, -1), "w": WEIGHTS[:1], "r": WEIGHTS[1:, :, :8]},
        [(4, 3), (4, 1), (4, 7)],
    ),
}
CASES |= OF_IMAGES


def model_of(case: Case) -> ModelProto:
    nodes, shapes, constants, _ = case
    given = [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in shapes.items()]
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    results = [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)]
    body = helper.make_graph(nodes, "test", given, results, held)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("name", CASES)
def test_many_sizes(name: str) -> None:
    model, (_, shapes, _, many) = model_of(CASES[name]), CASES[name]
    session, reference = InferenceSession(model.SerializeToString()), ReferenceEvaluator(model)
    assert not session.facts.wants
    for numbers in many:
        sizes = dict(zip("nm", numbers, strict=False))
        feed = {
            k: np.random.default_rng(3)
            .standard_normal([n if isinstance(n, int) else sizes[n] for n in v])
            .astype(np.float32)
            for k, v in shapes.items()
        }
        want: Any = next(iter(reference.run(None, feed)))
        (got,) = session.run(None, feed)
        assert (got.shape, got.dtype) == (want.shape, want.dtype), sizes
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=str(sizes))


@pytest.mark.parametrize("name", OF_IMAGES)
def test_weights_say_how_many_elements_of_an_image_there_are(name: str) -> None:
    session = InferenceSession(model_of(OF_IMAGES[name]).SerializeToString())
    groups = [
        op
        for op in walk(lower(session.module, session.options, stop="schedule").main.body)
        if isinstance(op, Group) and contractions_in(op.body.ops)
    ]
    assert groups
    for group in groups:
        for contraction in contractions_in(group.body.ops):
            assert all(isinstance(contraction.op.space[n].extent, int) for n in contraction.depth)
    shape = [n if isinstance(n, int) else 5 for n in OF_IMAGES[name][1]["x"]]
    with pytest.raises(MiniccError, match="MC0142"):
        session.run(None, {"x": np.ones(shape, np.float32)})


@pytest.mark.parametrize("start", [-5, -2])
@pytest.mark.parametrize("free", [True, False])
def test_backwards_from_before_the_first_is_from_the_first(start: int, free: bool) -> None:
    """ONNX clamps the start to the first element, where NumPy takes nothing."""
    x = np.arange(18, dtype=np.float32).reshape(6, 3)
    case = CASES["x[3:0:-1]"]
    constants = {**case[2], "s": i64(start), "e": i64(-BIG)}
    for n in (1, 2, 3, 4, 5, 6):
        model = model_of((case[0], {"x": ["n" if free else n, 3]}, constants, ()))
        (got,) = InferenceSession(model.SerializeToString()).run(None, {"x": x[:n]})
        assert np.array_equal(got, x[max(n + start, 0) :: -1]), n


@pytest.mark.parametrize("shift", [-1, -3, 2])
def test_remainders_by_a_size_as_exporters_write_a_roll(shift: int) -> None:
    nodes = [
        *sizes_of(TensorProto.INT64),
        node("Mod", "shift n", "at"),
        node("Unsqueeze", "at axis", "cut"),
        node("Slice", "x cut far axis", "front"),
        node("Slice", "x axis cut axis", "back"),
        node("Concat", "front back", "y", axis=0),
        node("Range", "zero at one", "line"),
    ]
    constants = {
        "zero": i64(0)[0],
        "one": i64(1)[0],
        "shift": i64(shift)[0],
        "axis": i64(0),
        "far": i64(BIG),
    }
    proto = model_of((nodes, {"x": ["n", 3]}, constants, ()))
    proto.graph.output.append(helper.make_tensor_value_info("line", TensorProto.INT64, None))
    session = InferenceSession(proto.SerializeToString())
    for n in (1, 2, 3, 4, 9):
        x = np.arange(3.0 * n, dtype=np.float32).reshape(n, 3)
        got, line = session.run(None, {"x": x})
        assert np.array_equal(got, np.roll(x, -shift, axis=0)), n
        assert np.array_equal(line, np.arange(shift % n)), n
    assert not session.facts.wants


def test_scales_of_a_free_size_of_what_has_no_axis_for_them_are_one_number() -> None:
    nodes = [node("QuantizeLinear", "x scale", output_dtype=int(TensorProto.INT8))]
    proto = model_of((nodes, {"x": ["n"], "scale": ["m"]}, {}, ()))
    proto.opset_import[0].version = 21
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT8
    session = InferenceSession(proto.SerializeToString())
    x, half = np.array([-3, 0.2, 1, 90], np.float32), np.array([0.5], np.float32)
    (got,) = session.run(None, {"x": x, "scale": half})
    assert got.dtype == np.int8
    assert got.tolist() == [-6, 0, 2, 127]
    with pytest.raises(MiniccError, match="MC0"):
        session.run(None, {"x": x, "scale": np.array([0.5, 2], np.float32)})


def test_mistakes_that_no_size_settles_are_told_at_once() -> None:
    model = model_of(([node("Concat", "x x", axis=4)], {"x": ["n", 3]}, {}, ()))
    with pytest.raises(MiniccError, match=r"MC0127 error: Concat .*axes \[4\]"):
        InferenceSession(model.SerializeToString())


def test_mistakes_in_branches_that_no_size_chooses_are_not_told() -> None:
    named = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    then, other = (
        helper.make_graph([made], "b", [], [named])
        for made in (node("Concat", "x x", "b", axis=4), node("Neg", "x", "b"))
    )
    chosen = helper.make_node("If", ["many"], ["y"], then_branch=then, else_branch=other)
    nodes = [
        *sizes_of(TensorProto.INT64),
        node("Greater", "n million", "many"),
        chosen,
    ]
    model = model_of((nodes, {"x": ["n", 3]}, {"zero": i64(0)[0], "million": i64(10**6)[0]}, ()))
    x = np.ones((3, 3), np.float32)
    (got,) = InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert np.array_equal(got, -x)


def test_sizes_that_no_model_fits_are_refused_when_it_runs() -> None:
    model = model_of(CASES["sums of two sizes"])
    session = InferenceSession(model.SerializeToString())
    x = np.ones((3, 4), np.float32)
    with pytest.raises(MiniccError, match=r"MC0142 error: .*do not broadcast"):
        session.run(None, {"x": x, "z": x[:2]})
    assert session.run(None, {"x": x, "z": x[:1]})[0].shape == (3, 4)


def test_an_axis_of_1_is_expanded_to_none() -> None:
    """Sizes broadcast to the greater one, but for 0 and 1."""
    nodes = [
        node("Shape", "z", "wanted"),
        node("Expand", "x wanted", "y"),
    ]
    model = model_of((nodes, {"x": ["n", 3], "z": ["m", 3]}, {}, ()))
    session = InferenceSession(model.SerializeToString())
    for n, m in ((1, 4), (4, 1), (3, 3), (1, 0), (0, 1), (0, 0), (1, 1)):
        feed = {"x": np.ones((n, 3), np.float32), "z": np.ones((m, 3), np.float32)}
        (got,) = session.run(None, feed)
        assert got.shape == np.broadcast_shapes((n, 3), (m, 3))


def test_parts_that_are_numbers_make_up_an_axis_of_any_size() -> None:
    model = model_of(([node("Split", "x parts", "y z")], {"x": ["n"]}, {"parts": i64(1, 3)}, ()))
    session = InferenceSession(model.SerializeToString())
    x = np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x[:4]})[0], x[:1])
    for n in (2, 7):
        with pytest.raises(MiniccError, match="MC0142"):
            session.run(None, {"x": x[:n]})


@pytest.mark.parametrize("depth", [258, 300, 345, 514])
def test_a_row_alone_whose_blocks_of_terms_are_no_multiple_of_its_sums(depth: int) -> None:
    random = np.random.default_rng(3)
    w = random.integers(-8, 8, (depth, 3)).astype(np.float32)
    body = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "rows",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = InferenceSession(model.SerializeToString(), threads=1)
    for rows in (1, 2, 5):
        x = random.integers(-8, 8, (rows, depth)).astype(np.float32)
        assert np.array_equal(session.run(None, {"x": x})[0], x @ w)


def test_larger_sizes_take_more_of_the_same_memory() -> None:
    """What was written for smaller sizes is not taken from the system anew."""
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("ReduceSum", ["e"], ["s"], keepdims=1),
        helper.make_node("Div", ["e", "s"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1000])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 17)]
    made = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets)
    session = InferenceSession(made.SerializeToString(), threads=1)
    (compilation,) = session._compiled.values()
    seen: set[int] = set()
    for n in (10, 20, 35, 1, 40):
        given = np.full((n, 1000), 0.5, np.float32)
        (got,) = session.run(None, {"x": given})
        np.testing.assert_allclose(got, np.full_like(given, 1 / given.size), rtol=1e-5)
        (context,) = compilation.executable._free  # type: ignore[attr-defined]
        assert 4 * given.size <= context.sizes.arena <= context.arena.bytes.nbytes
        seen.add(context.arena.bytes.ctypes.data)
    assert len(seen) == 1


def test_a_name_of_a_dimension_may_stand_for_several_sizes() -> None:
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", "m"]) for n in "ab"]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node("Add", "a b")], "g", given, results)
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    for _ in range(2):  # compiled, and opened from the cache
        session = InferenceSession(model, threads=1)
        for b in (a, a[:1], a[:, :1], a[:1, :1]):
            np.testing.assert_array_equal(session.run(None, {"a": a, "b": b})[0], a + b)
        for wrong in (a[:, :2], a[0], a.astype(int)):
            with pytest.raises(MiniccError, match=r"MC014[01] error: the input 'b' is"):
                session.run(None, {"a": a, "b": wrong})
    bound = InferenceSession(model, options=Options(sizes=(("m", 3),), threads=1))
    with pytest.raises(MiniccError, match="MC0141"):
        bound.run(None, {"a": a, "b": a[:1]})


def test_sizes_that_others_settle_before_a_model_is_cut() -> None:
    # `3*n` is 3 times `n` where `m` is 3, which another op settles; the texts are for the host
    nodes = [
        node("Reshape", "x k", "rows"),
        node("Add", "rows four", "y"),
        node("Add", "w three", "z"),
        node("Identity", "s", "t"),
    ]
    known = {"k": i64(-1, 3), "four": np.ones((4, 3), np.float32), "three": np.ones(3, np.float32)}
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"]),
        helper.make_tensor_value_info("w", TensorProto.FLOAT, ["m"]),
        helper.make_tensor_value_info("s", TensorProto.STRING, ["k"]),
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in "yzt"]
    constants = [numpy_helper.from_array(a, name) for name, a in known.items()]
    graph = helper.make_graph(nodes, "g", given, made, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = InferenceSession(model.SerializeToString(), threads=1)
    w, s = np.arange(3, dtype=np.float32), np.array(["a"], object)
    for n in (1, 4, 1):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        y, z, t = session.run(None, {"x": x, "w": w, "s": s})
        np.testing.assert_array_equal(y, x + known["four"])
        np.testing.assert_array_equal(z, w + 1)
        assert t.tolist() == ["a"]


@pytest.mark.parametrize("own", [["a"], [2], ["a", 2]], ids=str)
@pytest.mark.parametrize("wanted", [["n"], ["n", "m"]], ids=str)
def test_expansions_as_numpy_broadcasts(own: list[Any], wanted: list[Any]) -> None:
    """Sizes that don't broadcast are told of, and all others have NumPy's shape."""
    nodes = [node("Shape", "s", "t"), node("Expand", "x t")]
    given = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", own), ("s", wanted))
    ]
    graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = InferenceSession(model.SerializeToString(), threads=1)
    for a, n, m in product((0, 1, 2, 3), (0, 1, 2, 3), (0, 2, 3)):
        sizes: dict[Any, Any] = {"a": a, "n": n, "m": m}
        x, s = (np.ones([sizes.get(k, k) for k in shape], np.float32) for shape in (own, wanted))
        try:
            shape = np.broadcast_shapes(x.shape, s.shape)
        except ValueError:
            with pytest.raises(MiniccError, match="do not broadcast"):
                session.run(None, {"x": x, "s": s})
        else:
            assert session.run(None, {"x": x, "s": s})[0].shape == shape
