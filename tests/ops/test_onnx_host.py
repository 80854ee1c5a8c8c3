"""Operators on the host: what the node tests of ONNX (`tests.conformance`) leave open."""

from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper

from minicc.api.session import InferenceSession
from minicc.errors import UserError
from minicc.frontends.onnx import families
from minicc.frontends.onnx.host.registry import run_host
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.reader import read_node as node_of

Array = np.ndarray[Any, Any]
families.enter_all()


def node(op: str, count: int, outputs: int = 1, **attributes: Any) -> Node:
    domain, _, name = op.rpartition(".")
    names = [f"x{k}" for k in range(count)]
    made = helper.make_node(name, names, [f"y{k}" for k in range(outputs)], domain=domain,
                            **attributes)  # fmt: skip
    return node_of(made, 0)


def run(op: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
    out = run_host(node(op, len(inputs), outputs, **attributes), list(inputs))
    return out[0] if outputs == 1 else out


def test_boxes_that_overlap_too_much() -> None:
    boxes = np.array([[[0, 0, 2, 2], [2, 2, 0, 0], [0, 0, 2, 1], [5, 5, 5, 5]]], np.float32)
    scores = np.array([[[0.5, 0.9, 0.8, 0.9]]], np.float32)
    most, overlap = np.array([9]), np.array([0.6], np.float32)
    chosen = run("NonMaxSuppression", boxes, scores, most, overlap)
    assert chosen[:, 2].tolist() == [1, 3, 2]
    assert run("NonMaxSuppression", boxes, scores).shape == (0, 3)
    least = np.array([0.8], np.float32)
    chosen = run("NonMaxSuppression", boxes, scores, most, overlap, least)
    assert chosen[:, 2].tolist() == [1, 3]


def _chosen_one_by_one(boxes: Array, scores: Array, most: int, limit: float, least: float) -> Any:
    """What NonMaxSuppression chooses, by its definition."""
    areas = (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    for image, kind in np.ndindex(scores.shape[:2]):
        mine: list[int] = []
        score, b, area = scores[image, kind], boxes[image], areas[image]
        for k in np.argsort(-score, kind="stable").tolist():
            low, high = np.maximum(b[k, :2], b[mine, :2]), np.minimum(b[k, 2:], b[mine, 2:])
            common = np.maximum(high - low, 0).prod(axis=-1)
            clash = common / (area[k] + area[mine] - common) > limit
            if len(mine) < most and score[k] > least and not clash.any():
                mine.append(k)
                yield image, kind, k


@pytest.mark.parametrize("size", [9.0, 60.0, 2000.0])
@pytest.mark.parametrize(("classes", "count"), [(1, 700), (40, 30), (3, 150)])
@pytest.mark.parametrize("most", [3, 120, 999])
def test_boxes_of_many_classes(size: float, classes: int, count: int, most: int) -> None:
    """Blocks of boxes hold several classes, and a class several blocks; some scores are equal."""
    rng = np.random.default_rng(count + most)
    corners = rng.uniform(0, size, (2, count, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(1, 40, corners.shape)], -1)
    boxes = boxes.astype(np.float32)
    scores = rng.random((2, classes, count)).astype(np.float32).round(2)
    limits = np.array([[0.5], [0.25]], np.float32)
    chosen = run("NonMaxSuppression", boxes, scores, np.array([most]), *limits)
    wanted = _chosen_one_by_one(boxes, scores, most, 0.5, 0.25)
    assert chosen.tolist() == [list(row) for row in wanted]


def _suppressing(names: str, **attributes: Any) -> InferenceSession:
    """A model of one NonMaxSuppression whose sizes are free."""
    shapes: dict[str, list[str | int]] = {
        "boxes": ["images", "count", 4],
        "scores": ["images", "classes", "count"],
    }
    element = {"most": TensorProto.INT64}
    given = [
        helper.make_tensor_value_info(n, element.get(n, TensorProto.FLOAT), shapes.get(n, [1]))
        for n in names.split()
    ]
    made = helper.make_node("NonMaxSuppression", names.split(), ["y"], **attributes)
    result = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    graph = helper.make_graph([made], "boxes", given, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    return InferenceSession(model.SerializeToString(), threads=2)


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("names", ["boxes scores", "boxes scores most limit least"])
def test_compiled_suppression_is_that_of_the_definition(centred: int, names: str) -> None:
    """One program for all sizes compares boxes, of which the host says their order."""
    session = _suppressing(names, center_point_box=centred)
    rng = np.random.default_rng(7)
    for images, classes, count in [(1, 1, 400), (2, 5, 60), (2, 3, 1), (1, 2, 0), (0, 1, 5)]:
        for limit in (0.0, 0.4, 1.0, -1.0):
            boxes = rng.uniform(0, 30, (images, count, 4)).astype(np.float32)
            boxes[rng.random(boxes.shape) < 0.01] = rng.choice([np.nan, np.inf, -np.inf])
            scores = rng.random((images, classes, count)).astype(np.float32).round(2)
            scores[rng.random(scores.shape) < 0.03] = np.nan
            most = np.array([int(rng.integers(0, 40))])
            numbers = np.array([[limit], [0.2]], np.float32)
            given = dict(zip(names.split(), [boxes, scores, most, *numbers], strict=False))
            with np.errstate(all="ignore"):
                wanted = run("NonMaxSuppression", *given.values(), center_point_box=centred)
            (got,) = session.run(None, given)
            assert got.dtype == np.int64
            assert np.array_equal(got, wanted)
    assert len(session._compiled[()].host) == 2  # and between them machine code


def test_suppression_of_other_types_runs_on_the_host_whole() -> None:
    """As of boxes that come from a sequence, whose type nobody knows."""
    boxes = np.array([[[0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6]]], np.float32)
    scores = np.array([[[0.5, 0.9, 0.8]]], np.float32)
    text = """<ir_version: 8, opset_import: ["": 20]>
    boxes (seq(float[]) row, float[1,1,3] s, int64 at, int64[1] most, float[1] limit)
        => (int64[n,3] y) {
        one = SequenceAt (row, at)
        y = NonMaxSuppression (one, s, most, limit)
    }"""
    session = InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    given: Any = {"row": [boxes, boxes], "s": scores, "at": np.array(1), "most": np.array([2])}
    (got,) = session.run(None, {**given, "limit": np.array([0.5], np.float32)})
    assert got.tolist() == [[0, 0, 1], [0, 0, 2]]
    assert len(session._compiled[()].host) == 2  # the one before takes the boxes


@pytest.mark.parametrize("dtype", ["f4", "i8", "u1", "?"])
def test_places_that_are_not_0(dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 2, (3, 4, 1, 5)).astype(dtype)
    found = run("NonZero", x)
    assert found.dtype == np.int64
    assert found.tolist() == [k.tolist() for k in np.nonzero(x)]
    assert run("NonZero", np.array([["a", ""], ["", "b"]], object)).tolist() == [[0, 1], [0, 1]]


def test_unique_in_the_order_of_first_places() -> None:
    x = np.array([3, 1, 3, 2, 1])
    found, first, inverse, counts = run("Unique", x, outputs=4, sorted=0)
    assert found.tolist() == [3, 1, 2]
    assert first.tolist() == [0, 1, 3]
    assert inverse.tolist() == [0, 1, 0, 2, 1]
    assert counts.tolist() == [2, 2, 1]
    columns = np.array([[2, 1, 2], [0, 5, 0]])
    found, *_ = run("Unique", columns, outputs=4, sorted=0, axis=1)
    assert found.tolist() == [[2, 1], [0, 5]]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "i8", "u2"])
@pytest.mark.parametrize("count", [0, 1, 30, 5000])
def test_unique_numbers(dtype: str, count: int) -> None:
    """As NumPy has them: NaN is one element, and of zeros with signs the first is given."""
    x = np.random.default_rng(count).integers(0, 50, count).astype(dtype)
    if dtype[0] == "f":
        x[::7], x[::11], x[3::13] = np.nan, -0.0, 0.0
    got = run("Unique", x, outputs=4)
    found = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    for one, other in zip(got, found, strict=True):
        assert one.tobytes() == other.astype(one.dtype).tobytes()
    assert all(one.dtype == np.int64 for one in got[1:])


def test_nothing_to_choose_from() -> None:
    assert run("NonZero", np.zeros((0, 3))).shape == (2, 0)
    assert run("NonZero", np.array(5.0)).tolist() == [[0]]
    assert run("Compress", np.arange(6).reshape(2, 3), np.array([False, True])).tolist() == [1]
    assert run("StringSplit", np.array([], object), outputs=2)[0].shape == (0, 0)


def test_texts() -> None:
    x = np.array(["b\u00e9 c", b"x"], object)
    out = run("StringNormalizer", x, case_change_action="UPPER", stopwords=["c"])
    assert out.tolist() == ["B\u00c9 C", "X"]
    assert run("StringConcat", x, np.array(["!"], object)).tolist() == ["b\u00e9 c!", "x!"]
    assert run("RegexFullMatch", x, pattern="[a-z]").tolist() == [False, True]
    keys: dict[str, Any] = {"keys_strings": ["x"], "values_int64s": [7]}
    assert run("ai.onnx.ml.LabelEncoder", x, **keys).tolist() == [-1, 7]
    numbers: dict[str, Any] = {"keys_floats": [1.0, float("nan")], "values_strings": ["a", "b"]}
    given = np.array([np.nan, 1, 2], np.float32)
    assert run("ai.onnx.ml.LabelEncoder", given, **numbers).tolist() == ["b", "a", "_Unused"]


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        ({"is_case_sensitive": 1}, ["", "a", "The", "the a"]),
        ({}, ["", "a", "the a"]),
        ({"case_change_action": "UPPER"}, ["", "A", "THE A"]),
        ({"case_change_action": "LOWER", "is_case_sensitive": 1}, ["", "a", "the", "the a"]),
        ({"stopwords": [""]}, ["a", "The", "the", "the a"]),
    ],
)
def test_stop_words_are_elements(how: dict[str, Any], kept: list[str]) -> None:
    x = np.array(["", "a", "The", "the", "the a"], object)
    assert run("StringNormalizer", x, **{"stopwords": ["the"], **how}).tolist() == kept
    assert run("StringNormalizer", x[None], **{"stopwords": ["the"], **how}).tolist() == [kept]


@pytest.mark.parametrize(
    ("action", "locale", "changed"),
    [
        ("NONE", "C", "\u00c9\u00e9\u00df\u0130 \ufb01 \u03c2\u1f80 aB"),
        ("LOWER", "C", "\u00c9\u00e9\u00df\u0130 \ufb01 \u03c2\u1f80 ab"),
        ("UPPER", "C", "\u00c9\u00e9\u00df\u0130 \ufb01 \u03c2\u1f80 AB"),
        ("LOWER", "C.UTF-8", "\u00e9\u00e9\u00dfi \ufb01 \u03c2\u1f80 ab"),
        ("UPPER", "C.UTF-8", "\u00c9\u00c9\u00df\u0130 \ufb01 \u03a3\u1f88 AB"),
    ],
)
def test_a_character_changes_its_case_into_one(action: str, locale: str, changed: str) -> None:
    x = np.array(["\u00c9\u00e9\u00df\u0130 \ufb01 \u03c2\u1f80 aB"], object)
    out = run("StringNormalizer", x, case_change_action=action, locale=locale)
    assert out.tolist() == [changed]


def maxima(x: Array, region: Array, scale: float, pooled: tuple[int, int]) -> Array:
    """The cells of a region, each by itself, as Caffe's and ONNX Runtime's loops have them."""
    picture, *corners = region.tolist()
    left, top, right, bottom = (int(np.floor(abs(c * scale) + 0.5) * np.sign(c)) for c in corners)
    high, wide = (max(bottom - top + 1, 1) / pooled[0], max(right - left + 1, 1) / pooled[1])
    out = np.zeros((x.shape[1], *pooled), x.dtype)
    for row, column in np.ndindex(*pooled):
        rows = range(int(np.floor(row * high)) + top, int(np.ceil((row + 1) * high)) + top)
        columns = range(
            int(np.floor(column * wide)) + left, int(np.ceil((column + 1) * wide)) + left
        )
        inside = [(r, c) for r in rows for c in columns if r in range(x.shape[2])
                  and c in range(x.shape[3])]  # fmt: skip
        if inside:
            out[:, row, column] = np.max([x[int(picture), :, r, c] for r, c in inside], axis=0)
    return out


def test_maxima_of_regions() -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 9, 11)).astype(np.float32)
    rows = [
        [0, 0, 0, 10, 8],
        [1, 3, 2, 20, 4],
        [1, 7, 7, 2, 2],
        [0, -4, -6, 3, 1],
        [0, 30, 3, 35, 5],
    ]
    regions = np.array(rows, np.float32)
    for scale, pooled in ((1.0, (3, 2)), (0.5, (2, 2)), (0.25, (4, 5))):
        got = run("MaxRoiPool", x, regions, pooled_shape=pooled, spatial_scale=scale)
        want = [maxima(x, region, scale, pooled) for region in regions]
        assert np.array_equal(got, np.array(want))
    with pytest.raises(UserError, match=r"MC0158.*picture"):
        run("MaxRoiPool", x, regions + 2, pooled_shape=(2, 2))


def test_regions_of_free_pictures_have_known_extents() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n, 3, h, w] x, float[k, 5] r) => (float[a, b, c, d] y) {
        m = MaxRoiPool <pooled_shape = [2, 2]> (x, r)
        f = Flatten (m)
        w = Constant <value = float[12, 1] {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}> ()
        s = MatMul (f, w)
        u = Constant <value_ints = [2, 3]> ()
        t = Unsqueeze (s, u)
        y = Add (m, t)
    }"""
    x = np.ones((1, 3, 4, 4), np.float32)
    session = InferenceSession(onnx.parser.parse_model(text).SerializeToString(), threads=1)
    for count in (1, 4):
        (got,) = session.run(None, {"x": x, "r": np.array([[0, 0, 0, 3, 3]] * count, np.float32)})
        assert np.array_equal(got, np.full((count, 3, 2, 2), 13))


def texts_of(body: str, inputs: str, **given: Any) -> Any:
    """What a graph gives whose outputs are texts y."""
    text = f'<ir_version: 9, opset_import: ["": 21]> g ({inputs}) => (string[] y) {body}'
    session = InferenceSession(onnx.parser.parse_model(text).SerializeToString(), threads=1)
    return np.asarray(session.run(None, given)[0]).tolist()


WORDS = np.array([["a", "b", "c"], ["d", "e", "f"]], object)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("<int64[4] k = {0, -1, 1, 1}> { y = Pad (x, k) }", [[*"bc", ""], [*"ef", ""], [""] * 3]),
        ('<int64[4] k = {0, 1, 0, 0}> { y = Pad <mode = "edge"> (x, k) }', [[*"aabc"], [*"ddef"]]),
        ("<int64[2] k = {2, 1}> { y = CenterCropPad (x, k) }", [["b"], ["e"]]),
        ("{ y = Trilu <upper = 0> (x) }", [["a", "", ""], ["d", "e", ""]]),
        (
            "<int64[2] k = {2, 3}>{ y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, k) }",
            [[*"bac"], [*"fed"]],
        ),
        (
            '<int64[2] i = {1, 0}, int64 d = {2}, string[2] k = {"no", "yes"}>'
            "{ y = OneHot (i, d, k) }",
            [["no", "yes"], ["yes", "no"]],
        ),
        ("{ y, i, v, n = Unique <axis = 0> (x) }", [[*"abc"], [*"def"]]),
    ],
)
def test_operators_that_move_elements_move_texts(body: str, want: list[Any]) -> None:
    assert texts_of(body, "string[n, m] x", x=WORDS) == want


def test_slices_of_texts_that_are_alike_are_one() -> None:
    x = np.array([["b", "a"], ["a", "b"], ["b", "a"]], object)
    found, first, which, count = run("Unique", x, outputs=4, axis=0)
    assert found.tolist() == [["a", "b"], ["b", "a"]]
    assert (first.tolist(), which.tolist(), count.tolist()) == ([1, 0], [1, 0, 1], [1, 2])


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ('{ y = Constant <value_string = "u"> () }', "u"),
        ('{ y = Constant <value_strings = ["u", "v"]> () }', ["u", "v"]),
        ('{ y = Constant <value = string[1, 1] {"u"}> () }', [["u"]]),
        (
            '{ k = Constant <value_strings = ["u", "v"]> ()'
            " c = Constant <value_ints = [1, 0, 1]> () y = Gather (k, c) }",
            ["v", "u", "v"],
        ),
        ('<string[2] y = {"u", "v"}> { z = Identity (n) }', ["u", "v"]),
        (
            '<string[1] k = {"u"}> { y = Loop (n, , k) <body = b (int64 i, bool c, string[a] s)'
            ' => (bool d, string[a] t) { d = Identity (c) w = Constant <value_strings = ["v"]> ()'
            " t = StringConcat (s, w) }> }",
            ["uvv"],
        ),
        (
            '<string[2] k = {"u", "v"}> { two = Constant <value_int = 2> () c = Equal (n, two)'
            " y = If (c) <then_branch = a () => (string[p] s) { s = StringConcat (k, k) },"
            ' else_branch = b () => (string[p] t) { t = Constant <value_strings = ["w"]> () }> }',
            ["uu", "vv"],
        ),
    ],
)
def test_texts_that_a_model_holds(body: str, want: Any) -> None:
    assert texts_of(body, "int64 n", n=np.array(2)) == want


@pytest.mark.parametrize(
    "kind", ["string[a, b]", "string[2, 2]", "seq(float[n])", "optional(float)"]
)
def test_what_is_no_tensor_and_is_not_read(kind: str) -> None:
    text = (
        f'<ir_version: 10, opset_import: ["" : 17]> g ({kind} t, float[c, d] x) => (float[c, d] y)'
    )
    session = InferenceSession(
        onnx.parser.parse_model(text + " { s = Shape(x) y = Add(x, x) }").SerializeToString()
    )
    given: Any = [np.zeros(2, np.float32)] if kind[:3] == "seq" else np.float32(1)
    given = np.full((2, 2), "a", object) if kind[:3] == "str" else given
    for n in (1, 3):
        (y,) = session.run(None, {"t": given, "x": np.ones((n, 2), np.float32)})
        assert y.tolist() == [[2, 2]] * n
