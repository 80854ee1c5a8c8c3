"""Models and files made to do harm: each is refused in words, soon, and never as a bug."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, GraphProto, TensorProto, ValueInfoProto, helper, numpy_helper

import minicc
from minicc.errors import MiniccError, UnsupportedError, UserError
from minicc.frontends.onnx.model import sources

F = TensorProto.FLOAT
X = {"x": np.ones(4, np.float32)}


def model_of(
    *nodes: Any, tensors: Any = (), functions: Any = (), domains: Any = (), opset: int = 17
) -> Any:
    """A model of the input `x` of four elements, and the output `y`."""
    given = [helper.make_tensor_value_info("x", F, [4])]
    graph = helper.make_graph(nodes, "hostile", given, [ValueInfoProto(name="y")], tensors)
    opsets = [helper.make_opsetid("", opset), *[helper.make_opsetid(d, 1) for d in domains]]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions)


def refusal(model: Any, feed: Any = X) -> str:
    with pytest.raises(UserError) as caught:
        minicc.InferenceSession(model.SerializeToString(), threads=1).run(None, feed)
    return str(caught.value)


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (TensorProto(data_type=F, dims=[1] * 100, raw_data=bytes(4)), "found 100"),
        (TensorProto(data_type=F, dims=[1 << 32, 1 << 32, 0], raw_data=b""), "4294967296"),
        (TensorProto(data_type=F, dims=[1 << 62, 0]), "4611686018427387904"),
        (TensorProto(data_type=TensorProto.FLOAT16, dims=[1], int32_data=[70000]), "70000"),
        (TensorProto(data_type=TensorProto.BFLOAT16, dims=[1], int32_data=[-1]), "-1"),
        (TensorProto(data_type=TensorProto.INT8, dims=[1], int32_data=[300]), "300"),
        (TensorProto(data_type=TensorProto.UINT4, dims=[1] * 100, raw_data=b"\1"), "100"),
    ],
)
def test_tensors_that_no_array_can_hold(tensor: Any, text: str) -> None:
    tensor.name = "w"
    said = refusal(model_of(helper.make_node("Cast", ["w"], ["y"], "it", to=F), tensors=[tensor]))
    assert said.startswith("MC0131 error: tensor w")
    assert text in said
    assert "at: it" in said


def test_an_output_that_no_array_can_hold() -> None:
    shape = numpy_helper.from_array(np.array([1] * 99 + [4]), "shape")
    it = helper.make_node("Reshape", ["x", "shape"], ["y"], "it")
    with pytest.raises(UnsupportedError, match=r"MC0221.*the output y: 100 axes"):
        minicc.InferenceSession(model_of(it, tensors=[shape]).SerializeToString())


@pytest.mark.parametrize("op", ["Expand", "Reshape", "ConstantOfShape"])
def test_shapes_of_more_axes_than_an_array_has(op: str) -> None:
    """What infers types would make each of two thousand million axes."""
    model = model_of(helper.make_node(op, ["x", "s"][op == "ConstantOfShape" :], ["y"], "it"))
    shape = helper.make_tensor_value_info("s", TensorProto.INT64, [(1 << 31) - 1])
    model.graph.input.append(shape)
    with pytest.raises(UnsupportedError, match=r"MC0221.*2147483647 axes, of which an array has"):
        minicc.InferenceSession(model.SerializeToString())


TENSOR = numpy_helper.from_array(np.ones(2, np.float32))
GRAMS = {"mode": "TF", "max_gram_length": 1, "max_skip_count": 0, "min_gram_length": 1}
GRAMS |= {"ngram_counts": [0], "ngram_indexes": [0]}
WRONG: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "a text for a tensor": ("Constant", [], {"value": "text"}),
    "a number for a tensor": ("Constant", [], {"value": 5}),
    "a graph for a tensor": ("Constant", [], {"value": GraphProto()}),
    "a text for one value": ("ConstantOfShape", ["shape"], {"value": "t"}),
    "a tensor for an axis": ("Softmax", ["x"], {"axis": TENSOR}),
    "numbers for axes": ("ReduceMax", ["x"], {"axes": [0.5]}),
    "a number for axes": ("ReduceMax", ["x"], {"axes": 0}),
    "a graph for a size": ("Conv", ["w", "w"], {"kernel_shape": GraphProto()}),
    "a number for a mode": ("Resize", ["x", "", "x"], {"mode": 3}),
    "an axis on the host": ("Unique", ["x"], {"axis": "first"}),
    "a number for a pool": ("TfIdfVectorizer", ["shape"], {**GRAMS, "pool_int64s": 5}),
    "a number for names": ("RNN", ["w", "w", "w"], {"hidden_size": 1, "activations": 3}),
    "numbers for names": ("RNN", ["w", "w", "w"], {"hidden_size": 1, "activations": [3]}),
}


@pytest.mark.parametrize("name", WRONG)
def test_attributes_of_another_kind(name: str) -> None:
    op, inputs, attributes = WRONG[name]
    tensors = [
        numpy_helper.from_array(np.array([2]), "shape"),
        numpy_helper.from_array(np.ones((1, 1, 1), np.float32), "w"),
    ]
    it = helper.make_node(op, inputs, ["y"], "it", **attributes)
    said = refusal(model_of(it, tensors=tensors))
    assert said.startswith(f"MC0127 error: attribute {next(reversed(attributes))} of {op} is ")
    assert "at: it" in said


HUGE = 1 << 62
ENDLESS: dict[str, Any] = {
    "taps": (
        helper.make_node(
            "Resize", ["wide", "", "", "one"], ["y"], "it", mode="linear", antialias=1
        ),
        18,
        [helper.make_tensor_value_info("wide", F, [HUGE])],
    ),
    "windows": (
        helper.make_node("UnfoldTensor", ["x"], ["y"], "it", domain="com.microsoft", size=HUGE),
        17,
        [],
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_numbers_of_steps_that_would_not_end(name: str) -> None:
    it, opset, inputs = ENDLESS[name]
    one = numpy_helper.from_array(np.array([1]), "one")
    model = model_of(it, tensors=[one], domains=[it.domain] if it.domain else (), opset=opset)
    model.graph.input.extend(inputs)
    with pytest.raises(MiniccError) as caught:
        minicc.InferenceSession(model.SerializeToString(), threads=1)
    assert caught.value.where == ("it",)


def test_grams_of_less_than_one_word_are_none() -> None:
    it = helper.make_node(
        "TfIdfVectorizer",
        ["words"],
        ["y"],
        "it",
        mode="TF",
        min_gram_length=-(1 << 62),
        max_gram_length=1,
        max_skip_count=(1 << 31) - 1,
        ngram_counts=[0],
        ngram_indexes=[1, 0],
        pool_int64s=[2, 3],
    )
    words = numpy_helper.from_array(np.array([3, 2, 2, 5]), "words")
    session = minicc.InferenceSession(model_of(it, tensors=[words]).SerializeToString(), threads=1)
    assert session.run(None, {"x": np.ones(4, np.float32)})[0].tolist() == [1, 2]


@pytest.mark.parametrize("position", [np.nan, np.inf, 1.5])
def test_places_in_sequences_that_are_no_integers(position: float) -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("SequenceAt", ["s", "k"], ["y"], "it"),
    ]
    tensors = [numpy_helper.from_array(np.array(position), "k")]
    assert "at: it" in refusal(model_of(*nodes, tensors=tensors))


def test_an_extent_below_zero_that_data_give() -> None:
    graph = helper.make_graph(
        [helper.make_node("Expand", ["x", "n"], ["y"], "it")],
        "hostile",
        [
            helper.make_tensor_value_info("x", F, [1]),
            helper.make_tensor_value_info("n", TensorProto.INT64, [1]),
        ],
        [ValueInfoProto(name="y")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    said = refusal(made, {"x": np.ones(1, np.float32), "n": np.array([-3])})
    assert said.startswith("MC0128 error: Expand")
    assert "at: it" in said
    made.graph.initializer.append(numpy_helper.from_array(np.array([-3]), "n"))
    del made.graph.input[1]
    said = refusal(made, {"x": np.ones(1, np.float32)})
    assert said.startswith("MC0128 error: Expand")
    assert "its result would be f32[-3]" in said


def test_a_tree_that_leads_back_to_itself() -> None:
    def tensor(*values: float, element: Any = np.float32) -> Any:
        return numpy_helper.from_array(np.array(values, element))

    it = helper.make_node(
        "TreeEnsemble",
        ["rows"],
        ["y"],
        "it",
        domain="ai.onnx.ml",
        n_targets=1,
        tree_roots=[0],
        nodes_featureids=[0, 0],
        nodes_modes=tensor(0, 0, element=np.uint8),
        nodes_splits=tensor(0.5, 0.5),
        nodes_truenodeids=[1, 0],
        nodes_falsenodeids=[1, 0],
        nodes_trueleafs=[0, 0],
        nodes_falseleafs=[0, 0],
        leaf_targetids=[0],
        leaf_weights=tensor(1),
    )
    rows = helper.make_node("Unsqueeze", ["x", "axis"], ["rows"])
    axis = numpy_helper.from_array(np.array([1]), "axis")
    said = refusal(model_of(rows, it, tensors=[axis], domains=["ai.onnx.ml"]))
    assert said.startswith("MC0127 error: ai.onnx.ml.TreeEnsemble (opset 1) on f32: the tree 0")
    assert "leads back to itself" in said


def test_functions_that_call_each_other_ever_more_often() -> None:
    def function(k: int) -> Any:
        inner = ("Neg", "") if k == 0 else (f"F{k - 1}", "d")
        pairs = [("a", "m"), ("m", "b")]
        nodes = [helper.make_node(inner[0], [a], [b], domain=inner[1]) for a, b in pairs]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
        return helper.make_function("d", f"F{k}", ["a"], ["b"], nodes, opsets)

    it = helper.make_node("F40", ["x"], ["y"], domain="d")
    said = refusal(model_of(it, functions=[function(k) for k in range(41)], domains=["d"]))
    assert said.startswith("MC0123 error: the model's functions make more than 1048576 nodes")


def test_a_pipe_that_nobody_writes_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_PATIENCE_MS", 200)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(UserError, match=r"MC0120.*nobody writes to the pipe"):
        minicc.InferenceSession(path)


def test_a_pipe_gives_a_model(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    data = model_of(helper.make_node("Neg", ["x"], ["y"])).SerializeToString()
    writer = threading.Thread(target=path.write_bytes, args=(data,))
    writer.start()
    (y,) = minicc.InferenceSession(path, threads=1).run(None, X)
    writer.join()
    np.testing.assert_array_equal(y, -X["x"])


def test_a_device_without_an_end() -> None:
    with pytest.raises(UserError, match=r"MC0120.*it is neither a file nor a pipe"):
        minicc.InferenceSession("/dev/zero")


def matching(pattern: str) -> Any:
    node = helper.make_node("RegexFullMatch", ["s"], ["y"], "it", pattern=pattern)
    given = [helper.make_tensor_value_info("s", TensorProto.STRING, ["n"])]
    graph = helper.make_graph([node], "texts", given, [ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        # others would try for longer than anybody waits
        ("(a+)+$", "a" * 5000 + "b", False),
        ("(a|a)*(a|a)*(a|a)*", "a" * 5000, True),
        ("(a?){1000}a{1000}", "a" * 1000, True),
        (r"\pL+", "été", True),
        ("", "", True),
    ],
)
def test_regular_expressions_never_try_again(pattern: str, text: str, matches: bool) -> None:
    session = minicc.InferenceSession(matching(pattern).SerializeToString(), threads=1)
    (found,) = session.run(None, {"s": np.array([text], object)})
    assert found.tolist() == [matches]


@pytest.mark.parametrize("pattern", ["(?=a)", "(a)\\1", "(a", "[b-a]", "a{1001}", "a\\"])
def test_regular_expressions_that_are_none(pattern: str) -> None:
    told = refusal(matching(pattern), {"s": np.array(["a"], object)})
    assert "the regular expression" in told
    assert "at: it" in told


def test_an_attribute_that_is_written_with_another_type() -> None:
    it = helper.make_node("Constant", [], ["y"], "it")
    it.attribute.append(AttributeProto(name="value", type=AttributeProto.STRING, s=b"\xff"))
    assert refusal(model_of(it)).startswith("MC0127 error: attribute value of Constant is ")


def test_a_block_that_has_no_size() -> None:
    shape = numpy_helper.from_array(np.array([1, 1, 2, 2]), "shape")
    image = helper.make_node("Reshape", ["x", "shape"], ["image"])
    it = helper.make_node("SpaceToDepth", ["image"], ["y"], "it", blocksize=-1)
    assert refusal(model_of(image, it, tensors=[shape])).startswith("MC0128 error: SpaceToDepth")


def loop(condition: Any, of_body: str) -> Any:
    """A loop whose condition, or the one that its body gives, may be of any type."""
    body = helper.make_graph(
        [helper.make_node("Neg", ["v"], ["w"]), helper.make_node("Greater", ["v", "v"], ["more"])],
        "body",
        [
            helper.make_tensor_value_info("k", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", F, [4]),
        ],
        [ValueInfoProto(name=of_body), ValueInfoProto(name="w")],
    )
    tensors = [numpy_helper.from_array(np.array(condition), "go")]
    return model_of(
        helper.make_node("Loop", ["", "go", "x"], ["y"], "it", body=body), tensors=tensors
    )


@pytest.mark.parametrize(("condition", "of_body"), [(1, "more"), (True, "k")])
def test_conditions_that_are_none(condition: Any, of_body: str) -> None:
    said = refusal(loop(condition, of_body))
    assert "condition" in said
    assert "at: it" in said


def test_a_scan_over_a_scalar() -> None:
    body = helper.make_graph(
        [helper.make_node("Neg", ["v"], ["w"])],
        "body",
        [helper.make_tensor_value_info("v", F, [])],
        [ValueInfoProto(name="w")],
    )
    it = helper.make_node("Scan", ["one"], ["y"], "it", body=body, num_scan_inputs=1)
    one = numpy_helper.from_array(np.array(1, np.float32), "one")
    assert refusal(model_of(it, tensors=[one])).startswith("MC0127 error: Scan")


def test_texts_that_are_fewer_than_their_shape_says() -> None:
    texts = TensorProto(name="t", data_type=TensorProto.STRING, dims=[2], string_data=[b"a"])
    it = helper.make_node("StringConcat", ["t", "t"], ["y"], "it")
    assert refusal(model_of(it, tensors=[texts], opset=20)).startswith("MC0131 error: a tensor of")


def test_a_power_of_a_size_is_no_size() -> None:
    shape = helper.make_node("Shape", ["x"], ["s"])
    it = helper.make_node("Pow", ["s", "s"], ["p"], "it")
    cast = helper.make_node("Cast", ["p"], ["y"], to=F)
    made = model_of(shape, it, cast)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    (y,) = minicc.InferenceSession(made.SerializeToString(), threads=1).run(None, X)
    assert y.tolist() == [256]


def test_a_row_longer_than_any_memory() -> None:
    given = [helper.make_tensor_value_info("x", F, ["n", (1 << 63) - 1])]
    it = helper.make_node("ReduceMean", ["x"], ["y"], "it", axes=[1])
    graph = helper.make_graph([it], "hostile", given, [ValueInfoProto(name="y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    session = minicc.InferenceSession(made.SerializeToString(), threads=1)
    with pytest.raises(UserError, match="MC0141"):
        session.run(None, {"x": np.ones((2, 4), np.float32)})


def test_operands_with_too_few_axes() -> None:
    two = numpy_helper.from_array(np.array([2, 2]), "two")
    columns = helper.make_node("Col2Im", ["x", "two", "two"], ["y"], "it")
    said = refusal(model_of(columns, tensors=[two], opset=18))
    assert said.startswith("MC0128 error: Col2Im")
    assert "rank 3" in said
    pixels = numpy_helper.from_array(np.ones((1, 1, 2, 2), np.float32), "pixels")
    boxes = numpy_helper.from_array(np.ones((1, 3), np.float32), "boxes")
    which = numpy_helper.from_array(np.array([0]), "which")
    it = helper.make_node("RoiAlign", ["pixels", "boxes", "which"], ["y"], "it")
    said = refusal(model_of(it, tensors=[pixels, boxes, which]))
    assert said.startswith("MC0128 error: RoiAlign")
    assert "f32[1,3] where it wants [1,4]" in said


def test_a_sequence_in_place_of_a_tensor() -> None:
    both = helper.make_node("SequenceConstruct", ["x", "x"], ["s"])
    said = refusal(model_of(both, helper.make_node("Det", ["s"], ["y"], "it")))
    assert said.startswith("MC0159 error: Det")


def branch(op: str) -> GraphProto:
    """A branch of one node."""
    return helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [ValueInfoProto(name=op)])


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (
            [helper.make_node("ScatterElements", ["x", "at", "more"], ["y"], "it", axis=0)],
            "axis 1 is longer",
        ),
        (
            [
                helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
                helper.make_node("Cast", ["s"], ["c"], to=TensorProto.UINT4),
                helper.make_node(
                    "If", ["c"], ["y"], "it",
                    then_branch=branch("Identity"), else_branch=branch("Neg"),
                ),
            ],
            "not bool",
        ),
    ],
    ids=["indices beyond the data", "a condition of numbers"],
)  # fmt: skip
def test_operands_that_no_type_rule_takes(nodes: Sequence[Any], text: str) -> None:
    shapes = {"x": (F, [3, 2]), "at": (TensorProto.INT64, [1, 4]), "more": (F, [1, 4])}
    used = {name for node in nodes for name in node.input}
    inputs = [helper.make_tensor_value_info(n, *t) for n, t in shapes.items() if n in used]
    graph = helper.make_graph(nodes, "hostile", inputs, [ValueInfoProto(name="y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    said = refusal(made, {})
    assert text in said
    assert "at: it" in said


def test_a_constant_that_is_repeated_along_a_free_dimension() -> None:
    """Weights of which a free dimension says how many there are: they are not packed ahead."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], end=1),
        helper.make_node("Concat", ["n", "rest"], ["shape"], axis=0),
        helper.make_node("Expand", ["w", "shape"], ["many"]),
        helper.make_node("MatMul", ["x", "many"], ["y"]),
    ]
    w = np.random.default_rng(0).standard_normal((1, 8, 32)).astype(np.float32)
    constants = [
        numpy_helper.from_array(w, "w"),
        numpy_helper.from_array(np.array([8, 32]), "rest"),
    ]
    inputs = [helper.make_tensor_value_info("x", F, ["n", 16, 8])]
    graph = helper.make_graph(nodes, "g", inputs, [ValueInfoProto(name="y")], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = minicc.InferenceSession(made.SerializeToString(), threads=1)
    for n in (1, 3):
        x = np.random.default_rng(n).standard_normal((n, 16, 8)).astype(np.float32)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [-1.0, 0.0, float("inf"), float("nan")])
def test_a_scale_that_is_no_positive_number(scale: float) -> None:
    scales = numpy_helper.from_array(np.array([scale], np.float32), "scales")
    it = helper.make_node("Resize", ["x", "", "scales"], ["y"], "it", mode="linear")
    said = refusal(model_of(it, tensors=[scales]))
    assert said.startswith("MC0128 error: Resize")
    assert f"the scale {scale:g}" in said


def test_a_function_that_an_attribute_decides() -> None:
    names = ["query", "key", "value", "decay", "beta"]
    shapes = [(2, 4, 64), (2, 4, 32), (2, 4, 32), (2, 4, 32), (2, 4, 4)]
    given = [helper.make_tensor_value_info(n, F, s) for n, s in zip(names, shapes, strict=True)]
    inputs = [*names[:3], "", *names[3:]]
    it = helper.make_node("LinearAttention", inputs, ["y"], "it", kv_num_heads=4)
    graph = helper.make_graph([it], "hostile", given, [ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 27)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=13)
    with pytest.raises(UserError, match=r"MC0127.*LinearAttention.*does not make y"):
        minicc.InferenceSession(model.SerializeToString())
    it.attribute.add(name="q_num_heads", i=8)  # of no stated type, which protobuf lets pass
    model.graph.node[0].CopyFrom(it)
    feeds = {n: np.ones(s, np.float32) for n, s in zip(names, shapes, strict=True)}
    (y,) = minicc.InferenceSession(model.SerializeToString(), threads=1).run(None, feeds)
    assert y.shape == (2, 4, 64)


def test_no_elements_along_an_axis_of_which_another_has_ever_so_many() -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.BOOL, dims=[1 << 40, 0])
    it = helper.make_node("Transpose", ["w"], ["y"], "it")
    data = model_of(it, tensors=[tensor]).SerializeToString()
    (y,) = minicc.InferenceSession(data, threads=1).run(None, X)
    assert y.shape == (0, 1 << 40)
    tensor.dims[0] = 1 << 62
    said = refusal(model_of(it, tensors=[tensor]))
    assert said.startswith("MC0135")
    assert "at: it" in said


def test_sizes_that_constants_decide_against_an_input() -> None:
    w = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    nodes = [
        helper.make_node("NonZero", ["w"], ["places"]),
        helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Unsqueeze", ["whole", "zero"], ["row"]),
        helper.make_node("Concat", ["places", "row"], ["all"], "it", axis=1),
        helper.make_node("Unique", ["all"], ["y"], axis=0),
    ]
    zero = numpy_helper.from_array(np.zeros(1, np.int64), "zero")
    said = refusal(model_of(*nodes, tensors=[w, zero]))
    assert "Concat" in said or "at: it" in said


def test_a_free_size_that_makes_another_negative() -> None:
    given = [helper.make_tensor_value_info("x", TensorProto.INT64, ["n"])]
    few = numpy_helper.from_array(np.array(-100), "few")
    values = numpy_helper.from_array(np.array([0, 1]), "values")
    nodes = [
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("Add", ["n", "few"], ["depth"]),
        helper.make_node("OneHot", ["x", "depth", "values"], ["y"], "it"),
        helper.make_node("GatherND", ["x", "at"], ["z"]),
    ]
    at = helper.make_tensor_value_info("at", TensorProto.INT64, ["k", "m"])
    outputs = [ValueInfoProto(name="y"), ValueInfoProto(name="z")]
    graph = helper.make_graph(nodes, "hostile", [*given, at], outputs, [few, values])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    said = refusal(model, {"x": np.arange(3), "at": np.zeros((1, 1), np.int64)})
    assert said.startswith("MC0142")
    assert "i64[3,-97]" in said or "i64[-97]" in said


def test_an_operator_on_the_host_without_what_it_works_on() -> None:
    it = helper.make_node("SequenceInsert", ["", "x"], ["y"], "it")
    said = refusal(model_of(it))
    assert said.startswith("MC0127 error: SequenceInsert")
    assert "input_sequence is missing" in said


def test_an_operator_that_may_run_on_the_host_without_its_input() -> None:
    said = refusal(model_of(helper.make_node("Det", [], ["y"], "it")))
    assert said.startswith("MC0127 error: Det")
    assert "its input x is missing" in said


def test_sizes_that_stand_at_sizes() -> None:
    """What is at an index that is a free size no import can know."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], "s"),
        helper.make_node("Gather", ["s", "s"], ["g"], "g"),
        helper.make_node("Reshape", ["x", "g"], ["y"], "y"),
    ]
    given = [helper.make_tensor_value_info("x", F, ["n", "m"])]
    graph = helper.make_graph(nodes, "g", given, [ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = minicc.InferenceSession(model.SerializeToString(), threads=1)
    (y,) = session.run(None, {"x": np.ones((1, 1), np.float32)})
    assert y.shape == (1, 1)
    assert refusal(model, {"x": np.ones((2, 3), np.float32)}).startswith("MC0158")


def test_a_split_by_a_table_of_sizes() -> None:
    sizes = numpy_helper.from_array(np.array([[1, 3], [2, 2]]), "sizes")
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["s"], "it"),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], "y", axis=0),
    ]
    said = refusal(model_of(*nodes, tensors=[sizes]))
    assert said.startswith("MC0158 error: SplitToSequence")
    assert "[[1, 3], [2, 2]]" in said


def test_a_resize_of_which_no_element_counts() -> None:
    """Floats can't tell the extent of an axis from that of its half: all weights are 0."""
    arrays = {
        "roi": np.zeros(0, np.float32),
        "scales": np.array([1, 1, 0.5, 2], np.float32),
    }
    given = [helper.make_tensor_value_info("x", F, ["n", "c", "h", 1 << 62])]
    it = helper.make_node(
        "Resize", ["x", "roi", "scales"], ["y"], "it",
        mode="linear", coordinate_transformation_mode="half_pixel",
    )  # fmt: skip
    tensors = [numpy_helper.from_array(a, name) for name, a in arrays.items()]
    graph = helper.make_graph([it], "g", given, [ValueInfoProto(name="y")], tensors)
    opsets = [helper.make_opsetid("", 11)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    minicc.InferenceSession(model.SerializeToString(), threads=1)


def test_a_mapped_sequence_of_which_nothing_is_known() -> None:
    body = helper.make_graph(
        [helper.make_node("Neg", ["e"], ["r"])],
        "each",
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("SequenceConstruct", ["x"], ["s"], value=1.0),
        helper.make_node("SequenceMap", ["s"], ["y"], body=body),
    ]
    assert refusal(model_of(*nodes)).startswith("MC01")


def test_counts_of_grams_that_are_not_in_the_pool() -> None:
    it = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode="TF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
        ngram_counts=[-(2**31), 3],
        ngram_indexes=[0, 1],
        pool_int64s=[1, 2, 3],
    )
    assert "do not rise from 0 to 3" in refusal(model_of(it))


@pytest.mark.parametrize("skipped", [-1, -(1 << 40)])
def test_grams_whose_elements_stand_before_one_another(skipped: int) -> None:
    attributes: dict[str, Any] = {"ngram_counts": [0], "ngram_indexes": [0, 1, 2], "mode": "TF"}
    attributes |= {"max_gram_length": 1 << 62, "min_gram_length": 1, "pool_int64s": [1, 2, 3]}
    it = helper.make_node("TfIdfVectorizer", ["x"], ["y"], max_skip_count=skipped, **attributes)
    assert f"its max_skip_count is {skipped}, which is less than 0" in refusal(model_of(it))


@pytest.mark.parametrize("opset", [8, 17])
@pytest.mark.parametrize("inputs", [[""], ["x"], ["", "x"], ["x", ""]])
def test_an_insertion_into_a_sequence_without_operands(inputs: list[str], opset: int) -> None:
    """Also where the opset is one that does not have the operator yet."""
    it = helper.make_node("SequenceInsert", inputs, ["y", "z"], "it")
    assert refusal(model_of(it, opset=opset)).startswith("MC01")


def test_paddings_that_are_no_integers() -> None:
    pads = numpy_helper.from_array(np.array([float("nan"), 1.5]), "pads")
    it = helper.make_node("Pad", ["x", "pads"], ["y"], "it")
    for extent in (4, "n"):
        model = model_of(it, tensors=[pads])
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", F, [extent]))
        said = refusal(model)
        assert "its pads must be integers and is f64[2]" in said
        assert "at: it" in said


def test_ever_so_many_rounds_of_nothing() -> None:
    """What a round gives is there before the loop; its rows are more than any memory."""
    body = helper.make_graph(
        [helper.make_node("Identity", [a], [b]) for a, b in (("on", "go"), ("s", "t"), ("x", "r"))],
        "body",
        [
            helper.make_tensor_value_info("k", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", F, [4]),
        ],
        [ValueInfoProto(name=name) for name in ("go", "t", "r")],
    )
    rounds = numpy_helper.from_array(np.array(1 << 55), "rounds")
    it = helper.make_node("Loop", ["rounds", "", "x"], ["last", "y"], "it", body=body)
    assert "MC0135" in refusal(model_of(it, tensors=[rounds]))


def test_an_output_of_no_elements_that_sizes_make_too_large_for_numpy() -> None:
    """Its extents are known when it runs, and NumPy multiplies those that are not 0."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"]),
        helper.make_node("Mul", ["n", "many"], ["m"]),
        helper.make_node("Concat", ["m", "m", "none"], ["shape"], axis=0),
        helper.make_node("ConstantOfShape", ["shape"], ["y"], "it"),
    ]
    tensors = [
        numpy_helper.from_array(np.array([n]), name) for name, n in (("many", 1 << 40), ("none", 0))
    ]
    model = model_of(*nodes, tensors=tensors)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", F, ["n"]))
    session = minicc.InferenceSession(model.SerializeToString(), threads=1)
    with pytest.raises(UserError, match="MC0135"):
        session.run(None, X)
    (y,) = session.run(None, {"x": np.zeros(0, np.float32)})
    assert y.shape == (0, 0, 0)


def test_a_sequence_in_place_of_the_ends_of_a_slice() -> None:
    """What was inserted into is no sequence, which the host finds when it runs."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"]),
        helper.make_node("SequenceInsert", ["n", "n"], ["starts"]),
        helper.make_node("Slice", ["x", "starts", "n"], ["y"], "it"),
    ]
    said = refusal(model_of(*nodes))
    assert said.startswith("MC0159 error: Slice of what is no tensor of numbers")
    assert "at: it" in said


@pytest.mark.parametrize("count", [-1, 0, 2, 1 << 62])
def test_a_scan_of_more_inputs_than_it_has(count: int) -> None:
    body = helper.make_graph(
        [helper.make_node("Neg", ["row"], ["out"])],
        "body",
        [helper.make_tensor_value_info("row", F, [])],
        [helper.make_tensor_value_info("out", F, [])],
    )
    it = helper.make_node("Scan", ["x"], ["y"], "it", body=body, num_scan_inputs=count)
    said = refusal(model_of(it))
    assert f"its num_scan_inputs is {count}, and it has 1 input" in said
    assert "at: it" in said


def test_a_matrix_of_rows_that_no_code_holds() -> None:
    """What copies a row goes over it in steps; all of it at once would be a gigabyte of code."""
    given = [
        helper.make_tensor_value_info("x", F, ["n", "m", 1 << 32]),
        helper.make_tensor_value_info("w", F, ["n", 1, "k"]),
        helper.make_tensor_value_info("z", F, ["n", 1, 1]),
    ]
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "t"], ["p"]),
        helper.make_node("Add", ["p", "z"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(nodes, "hostile", given, [ValueInfoProto(name="y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    session = minicc.InferenceSession(made.SerializeToString(), threads=1)
    feed = {name: np.ones((1, 1, 1), np.float32) for name in "xwz"}
    with pytest.raises(UserError, match="MC0141"):
        session.run(None, feed)


def test_columns_of_a_scalar() -> None:
    column = helper.make_node("Col2Im", ["x", "sides", "block"], ["y"], "it")
    sides = helper.make_node("Abs", ["x"], ["sides"])
    block = helper.make_node("Neg", ["x"], ["block"])
    made = model_of(sides, block, column, opset=18)
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    del made.graph.input[0].type.tensor_type.shape.dim[:]
    said = refusal(made, {"x": np.array(1)})
    assert "at: it" in said


def test_labels_of_which_a_number_is_to_be_the_values() -> None:
    attributes: dict[str, Any] = {"keys_int64s": [3, 5, 7], "values_floats": 9.5}
    it = helper.make_node("LabelEncoder", ["x"], ["y"], "it", domain="ai.onnx.ml", **attributes)
    made = model_of(it)
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 4))
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    said = refusal(made, {"x": np.arange(4)})
    assert "its keys are of the shape (3,), its values of ()" in said
    assert "at: it" in said


@pytest.mark.parametrize("length", [(1 << 61) - 1, 1 << 62, 1 << 41])
@pytest.mark.parametrize("op", ["DFT", "STFT"])
def test_transforms_of_lengths_that_no_memory_holds(op: str, length: int) -> None:
    """Their factors would take longer to find than anybody waits."""
    tensors = [numpy_helper.from_array(np.array(length), "length")]
    tensors.append(numpy_helper.from_array(np.array(1), "step"))
    shape = numpy_helper.from_array(np.array([1, 4, 1]), "shape")
    reshaped = helper.make_node("Reshape", ["x", "shape"], ["signal"])
    inputs = ["signal", "length"] if op == "DFT" else ["signal", "step", "", "length"]
    it = helper.make_node(op, inputs, ["y"], "it")
    assert "at: it" in refusal(model_of(reshaped, it, tensors=[*tensors, shape]))


def test_a_value_that_a_branch_makes_after_it_is_used() -> None:
    """Though a value of this name stands around the branch."""
    outer = numpy_helper.from_array(np.array([1, 1]), "k")
    made = helper.make_tensor_value_info("b", F, None)
    split = helper.make_node("Split", ["k"], ["v", "k"], num_outputs=2)
    other = helper.make_graph(
        [split, helper.make_node("Cast", ["v"], ["b"], to=F)], "o", [], [made]
    )
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "t", [], [made])
    it = helper.make_node("If", ["c"], ["y"], "it", then_branch=then, else_branch=other)
    known = numpy_helper.from_array(np.array(False), "c")
    said = refusal(model_of(it, tensors=[outer, known], opset=18))
    assert said.startswith("MC0130 error: nothing makes the value k before it is used")


def test_the_greatest_of_rows_of_nothing() -> None:
    """However long they are said to be."""
    nothing = TensorProto(name="f", data_type=F, dims=[0, 1 << 32])
    count = numpy_helper.from_array(np.array([0]), "k")
    it = helper.make_node("TopK", ["f", "k"], ["y", ""], "it", axis=0)
    session = minicc.InferenceSession(model_of(it, tensors=[nothing, count]).SerializeToString())
    (y,) = session.run(None, X)
    assert y.shape == (0, 1 << 32)


@pytest.mark.parametrize("scale", [np.inf, np.nan])
@pytest.mark.filterwarnings("error")
def test_regions_that_are_scaled_by_no_finite_number(scale: float) -> None:
    x = numpy_helper.from_array(np.ones((1, 1, 4, 4), np.float32), "p")
    regions = numpy_helper.from_array(np.array([[0, 0, 1, 2, 3]], np.float32), "r")
    it = helper.make_node(
        "MaxRoiPool", ["p", "r"], ["y"], "it", pooled_shape=[2, 2], spatial_scale=scale
    )
    session = minicc.InferenceSession(model_of(it, tensors=[x, regions]).SerializeToString())
    (y,) = session.run(None, X)
    assert y.shape == (1, 1, 2, 2)
