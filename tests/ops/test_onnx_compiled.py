"""Operators that ran on the host once: as machine code they give what the host's functions give."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tests.sweeps import examples

from minicc import InferenceSession
from minicc.errors import UserError
from minicc.frontends.onnx.host.registry import run_host
from minicc.frontends.onnx.model.reader import read_node

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]
EXAMPLES = settings(max_examples=examples(12), deadline=None, derandomize=True)


def model(nodes: Sequence[Any], feeds: Feeds, outputs: str = "y", free: str = "") -> bytes:
    """A model of nodes whose inputs are as given; the dimensions of those named are free."""
    inputs = []
    for name, x in feeds.items():
        known = name not in free.split()
        shape = list(x.shape) if known else [f"{name}{k}" for k in range(x.ndim)]
        element = helper.np_dtype_to_tensor_dtype(x.dtype)
        inputs.append(helper.make_tensor_value_info(name, element, shape))
    results = [helper.make_empty_tensor_value_info(name) for name in outputs.split()]
    graph = helper.make_graph(nodes, "g", inputs, results)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    return bytes(made.SerializeToString())


def run(source: bytes, feeds: Feeds, host: tuple[str, ...] = ()) -> list[Array]:
    """The outputs; only nodes of these operators may have run on the host."""
    session = InferenceSession(source, threads=1)
    out = session.run(None, dict(feeds))
    ran = {found.where.partition("#")[0] for c in session._compiled.values() for found in c.host}
    assert ran <= set(host)
    return out


def on_host(node: Any, feeds: Feeds) -> tuple[Array, ...]:
    """What the host's function gives."""
    return run_host(read_node(node, 0), [feeds[name] if name else None for name in node.input])


@EXAMPLES
@given(st.data())
def test_determinants(data: st.DataObject) -> None:
    n, batch = data.draw(st.integers(0, 9)), data.draw(st.lists(st.integers(0, 3), max_size=2))
    seed = data.draw(st.integers(0, 99))
    x = np.random.default_rng(seed).integers(-4, 5, (*batch, n, n)).astype(np.float32)
    if data.draw(st.booleans()):
        x[..., :1, :] = 0  # singular
    node = helper.make_node("Det", ["x"], ["y"])
    (got,) = run(model([node], {"x": x}), {"x": x})
    assert got.shape == x.shape[:-2]
    with np.errstate(all="ignore"):
        wanted = np.linalg.det(x.astype(np.float64)) if n else np.ones(batch)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3 * 4.0**n / 4)


def test_determinants_of_free_sizes_want_square_matrices() -> None:
    """Though nobody reads them, as for sizes that are known."""
    nodes = [helper.make_node("Det", ["x"], ["d"]), helper.make_node("Shape", ["d"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", 1, ["b", "n", "m"])]
    outputs = [helper.make_tensor_value_info("y", 7, [1])]
    free = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), ir_version=10)
    session = InferenceSession(free.SerializeToString())
    (got,) = session.run(None, {"x": np.ones((3, 2, 2), np.float32)})
    assert got.tolist() == [3]
    with pytest.raises(UserError, match="square matrices of floats"):
        session.run(None, {"x": np.ones((3, 2, 1), np.float32)})


def test_determinants_of_large_matrices_and_of_no_numbers() -> None:
    x = np.eye(40, dtype=np.float64) * 2
    node = helper.make_node("Det", ["x"], ["y"])
    (got,) = run(model([node], {"x": x}), {"x": x}, host=("Det",))
    assert got == pytest.approx(2.0**40)
    x = np.array([[[np.nan, 1], [2, 3]], [[1, 2], [np.nan, 3]], [[0, 1], [1, 0]]], np.float16)
    inputs = [helper.make_tensor_value_info("x", 10, ["n", 2, 2])]
    outputs = [helper.make_tensor_value_info("y", 10, ["n"])]
    free = helper.make_model(helper.make_graph([node], "g", inputs, outputs), ir_version=10)
    for source in (model([node], {"x": x}), free.SerializeToString()):
        (got,) = run(source, {"x": x})
        np.testing.assert_array_equal(got, np.array([np.nan, np.nan, -1], np.float16))


@EXAMPLES
@given(st.data())
def test_counting_n_grams(data: st.DataObject) -> None:
    most = data.draw(st.integers(1, 3))
    grams = [
        data.draw(st.lists(st.tuples(*[st.integers(0, 3)] * size), max_size=5, unique=True))
        for size in range(1, most + 1)
    ]
    pool = [n for of_size in grams for gram in of_size for n in gram]
    starts = np.cumsum([0, *[size * len(g) for size, g in enumerate(grams, 1)]])[:-1].tolist()
    count = sum(map(len, grams))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    attributes: dict[str, Any] = {
        "mode": data.draw(st.sampled_from(["TF", "IDF", "TFIDF"])),
        "min_gram_length": data.draw(st.integers(1, most)),
        "max_gram_length": most,
        "max_skip_count": data.draw(st.integers(0, 3)),
        "ngram_counts": starts,
        "ngram_indexes": random.permutation(count + 2)[:count].tolist(),
        "pool_int64s": pool,
    }
    if data.draw(st.booleans()):
        attributes["weights"] = random.uniform(0, 2, count).tolist()
    if not pool:
        return
    element = data.draw(st.sampled_from([np.int32, np.int64]))
    shape = data.draw(st.sampled_from([(7,), (3, 9), (2, 1), (2, 0), (0, 4)]))
    feeds = {"x": random.integers(0, 4, shape).astype(element)}
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attributes)
    (wanted,) = on_host(node, feeds)
    for free in ("", "x"):
        (got,) = run(model([node], feeds, free=free), feeds)
        np.testing.assert_array_equal(got, wanted)


def test_n_grams_that_no_number_is() -> None:
    attributes: dict[str, Any] = {"ngram_counts": [0], "ngram_indexes": [0, 1], "mode": "TF"}
    attributes |= {"max_gram_length": 1, "min_gram_length": 1, "max_skip_count": 0}
    attributes["pool_int64s"] = [1 << 32, 0]
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attributes)
    feeds = {"x": np.array([0, 5, 0], np.int32)}
    (got,) = run(model([node], feeds), feeds)
    assert got.tolist() == [0, 2]


@pytest.mark.parametrize("longest", [2, 1 << 40])
def test_n_grams_that_reach_beyond_their_row(longest: int) -> None:
    attributes: dict[str, Any] = {"ngram_counts": [0, 0], "ngram_indexes": [0], "mode": "TF"}
    attributes |= {"max_gram_length": longest, "min_gram_length": 1, "max_skip_count": 1 << 40}
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], pool_int64s=[1, 2], **attributes)
    feeds = {"x": np.array([1, 1, 0, 2], np.int32)}
    (got,) = run(model([node], feeds), feeds, ("TfIdfVectorizer",))
    assert got.tolist() == [2]


_ENTERED = """if True:
    import importlib, pkgutil
    from minicc.frontends import onnx
    from minicc.frontends.onnx.families import _families, enter
    from minicc.frontends.onnx.host.registry import HOST, WHERE
    from minicc.frontends.onnx.registry import OPERATORS, SEARCHES

    def tables(op):
        return [op in table for table in (HOST, WHERE, OPERATORS, SEARCHES)]

    def names():
        return {*HOST, *WHERE, *OPERATORS, *SEARCHES}

    first = names()
    found = {}
    for op in reversed([*_families()]):
        enter(op)
        found[op] = tables(op)
    for package in ("ops", "host", "ml", "microsoft"):
        inside = importlib.import_module(f"{onnx.__name__}.{package}")
        for module in pkgutil.iter_modules(inside.__path__, f"{inside.__name__}."):
            importlib.import_module(module.name)
    assert names() == {*first, *_families()}, names() ^ {*first, *_families()}
    assert found == {op: tables(op) for op in found}
    assert all(tables(op)[::2] == [True, True] for op in ("TfIdfVectorizer", "RandomNormal"))"""


def test_operators_are_in_the_families_that_are_said_to_hold_them() -> None:
    """Whichever is the first of a process; those in two tables are entered in both."""
    subprocess.run([sys.executable, "-c", _ENTERED], check=True)


@settings(EXAMPLES, max_examples=examples(6))
@given(st.data())
def test_cropping_what_the_run_says(data: st.DataObject) -> None:
    """A roi among the inputs does what a constant one does; axes may be free."""
    mode = data.draw(st.sampled_from(["nearest", "linear", "cubic"]))
    element = data.draw(st.sampled_from([np.float32, np.float16, np.uint8]))
    axes = data.draw(st.sampled_from([[1, 2], [2, 1], [2]]))
    ends = [st.sampled_from([-0.25, 0, 0.125, 0.5]), st.sampled_from([0.625, 0.75, 1, 1.5])]
    roi = np.array([data.draw(end) for end in ends for _ in axes], np.float32)
    scales = np.array([data.draw(st.sampled_from([0.5, 1, 2, 2.75])) for _ in axes], np.float32)
    x = np.random.default_rng(0).integers(0, 100, (2, 5, 8)).astype(element)
    way: dict[str, Any] = {
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "axes": axes,
        "mode": mode,
    }
    node = helper.make_node("Resize", ["x", "r", "s"], ["y"], extrapolation_value=7.0, **way)
    held = helper.make_node("Constant", [], ["s"], value_floats=scales.tolist())
    known = helper.make_node("Constant", [], ["r"], value_floats=roi.tolist())
    (wanted,) = run(model([held, known, node], {"x": x}), {"x": x})
    feeds = {"x": x, "r": roi}
    for free in ("", "x"):
        (got,) = run(model([held, node], feeds, free=free), feeds)
        np.testing.assert_allclose(got, wanted, rtol=1e-3 if element is np.float16 else 1e-5)


def nodes_of(text: str) -> list[Any]:
    """Nodes in ONNX's own syntax."""
    return list(onnx.parser.parse_graph(f"agraph () => () {{\n{text}\n}}").node)


TENSORS = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones((1, 3)), "c": np.zeros((4, 3))}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("s = SequenceConstruct (a, b, c)\ny = SequenceAt (s, k)", "c"),
        ("s = SequenceEmpty ()\nt = SequenceInsert (s, a)\ny = SequenceAt (t, k)", "a"),
        ("s = SequenceConstruct (a, b)\nt = SequenceInsert (s, c, z)\ny = SequenceAt (t, z)", "c"),
        ("s = SequenceConstruct (a, b)\nt = SequenceErase (s, z)\ny = SequenceAt (t, z)", "b"),
        ("s = SequenceConstruct (a, b)\nt = SequenceErase (s)\ny = SequenceLength (t)", "1"),
        ("s = SequenceConstruct (a, b)\nt = Identity (s)\ny = SequenceLength (t)", "2"),
        ("s = SequenceConstruct (b, a, c)\ny = ConcatFromSequence <axis = 0> (s)", "bac"),
        (
            "s = SequenceConstruct (b, b)\ny = ConcatFromSequence <axis = -1, new_axis = 1> (s)",
            "bb",
        ),
        ("s = SplitToSequence <axis = 0> (a)\ny = SequenceAt (s, k)", "a1"),
        ("s = SplitToSequence <axis = 0, keepdims = 0> (a)\ny = SequenceAt (s, z)", "a0"),
        ("s = SplitToSequence <axis = 1> (a, w)\ny = SequenceAt (s, z)", "a:2"),
        ("s = SplitToSequence <axis = 0> (c, p)\ny = SequenceAt (s, k)", "c1:"),
        ("t = OptionalGetElement (a)\nh = OptionalHasElement (t)\ny = Cast <to = 7> (h)", "1"),
    ],
)
def test_sequences_that_are_known_need_no_host(text: str, wanted: str) -> None:
    a, b, c = TENSORS.values()
    expected: dict[str, Any] = {
        "a": a, "b": b, "c": c, "1": np.array(1), "2": np.array(2), "a0": a[0], "a1": a[1:],
        "bb": np.stack([b, b], -1), "bac": np.concatenate([b, a, c]), "a:2": a[:, :2], "c1:": c[1:],
    }  # fmt: skip
    held = "k = Constant <value_int = -1> ()\nz = Constant <value_int = 0> ()\n"
    held += "w = Constant <value_int = 2> ()\np = Constant <value_ints = [1, 3]> ()\n"
    (got,) = run(model(nodes_of(held + text), TENSORS), TENSORS)
    np.testing.assert_array_equal(got, expected[wanted], strict=True)


def test_sequences_of_which_data_decide_stay_on_the_host() -> None:
    text = "s = SequenceConstruct (a, b, c)\ny = SequenceAt (s, k)"
    for k, wanted in ((0, "a"), (-1, "c")):
        feeds = {**TENSORS, "k": np.array(k)}
        source = model(nodes_of(text), feeds)
        (got,) = run(source, feeds, host=("SequenceConstruct", "SequenceAt"))
        np.testing.assert_array_equal(got, TENSORS[wanted])
    outside = "s = SequenceConstruct (a)\ni = Constant <value_int = 3> ()\ny = SequenceAt (s, i)"
    with pytest.raises(UserError, match="position 3 of a sequence of 1"):
        run(model(nodes_of(outside), TENSORS), TENSORS)


def test_a_tensor_of_nothing_is_split_into_no_slices() -> None:
    text = "s = SplitToSequence <axis = 0> (e)\nl = SequenceInsert (s, a, k)\ny = SequenceAt (l, k)"
    feeds = {"e": np.zeros((0, 2), np.float32), "a": TENSORS["a"], "k": np.array(0)}
    (got,) = run(
        model(nodes_of(text), feeds),
        feeds,
        host=("SplitToSequence", "SequenceInsert", "SequenceAt"),
    )
    np.testing.assert_array_equal(got, TENSORS["a"])


def test_a_loop_whose_rounds_an_input_says() -> None:
    """The first number of rows has a program of its own; the host serves others."""
    text = """z, y = Loop (n, , x)
    <body = each (int64 i, bool g, float[2] s) => (bool h, float[2] t, float[2] r)
    { h = Identity (g) t = Add (s, s) r = Identity (s) }>"""
    feeds = {"n": np.array(3), "x": np.array([1, 2], np.float32)}
    session = InferenceSession(model(nodes_of(text), feeds), threads=1)
    for n in (3, 5, 0, 3):
        (got,) = session.run(None, {**feeds, "n": np.array(n)})
        np.testing.assert_array_equal(got, [[2**k, 2 ** (k + 1)] for k in range(n)] or got)
        assert got.shape == (n, 2)
    hosts = [[on.where for on in c.host] for c in session._compiled.values()]
    assert sorted(hosts) == [[], ["Loop#0"]]
