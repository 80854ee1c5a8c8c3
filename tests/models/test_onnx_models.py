"""Whole ONNX models at the graph level: numbers, names, places, and dimensions that are free."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, parser, save
from onnx.reference import ReferenceEvaluator

from minicc.api.session import InferenceSession
from minicc.frontends.onnx import import_model
from minicc.ir import graph
from minicc.ir.affine import symbol
from minicc.ir.core import Module
from minicc.ir.interpret import run
from minicc.ir.text.printer import print_module
from minicc.ir.types import F32, TensorType
from minicc.ir.verify import verify
from minicc.passes.graph.specialise import specialise

EXAMPLE = Path(__file__).parents[2] / "examples" / "01_digits"
Array = np.ndarray[Any, Any]


def model_of(
    nodes: Sequence[NodeProto],
    inputs: dict[str, list[Any]],
    outputs: Sequence[str],
    constants: dict[str, Array] | None = None,
    opset: int = 17,
) -> ModelProto:
    """A model of f32 inputs; a dimension is a number, a name, or None."""
    given = [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in inputs.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    held = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    body = helper.make_graph(nodes, "test", given, results, held)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)])


def imported(model: ModelProto) -> Module:
    module = import_model(model.SerializeToString())
    verify(module)
    return module


def test_digits_give_the_stored_probabilities() -> None:
    module = import_model(EXAMPLE / "digits.onnx")
    verify(module)
    assert [arg.hint for arg in module.main.args] == ["image"]
    assert module.main.result_names == ("probabilities",)
    with np.load(EXAMPLE / "images.npz") as data:
        images, expected = data["images"], data["probabilities"]
    got = np.concatenate([run(module, [image[None]])[0] for image in images])
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_a_path_as_text_and_bytes_give_the_same_module() -> None:
    path = EXAMPLE / "digits.onnx"
    texts = {print_module(import_model(s)) for s in (path, str(path), path.read_bytes())}
    assert len(texts) == 1


def test_names_and_places() -> None:
    nodes = [
        helper.make_node("Relu", ["in/0"], ["mid"], name="first"),
        helper.make_node("Add", ["mid", "w"], ["out"]),
    ]
    module = imported(model_of(nodes, {"in/0": [2, 3], "w": [3]}, ["out"], {"w": np.ones(3, "f")}))
    assert [arg.hint for arg in module.main.args] == ["in/0"]
    assert [op.loc for op in module.main.body.ops] == [("first",)] * 2 + [("Add#1",)] * 2
    assert [op.result.hint for op in module.main.body.ops] == ["", "mid", "w", "out"]


def test_outputs_may_be_inputs_initialisers_or_twice_the_same() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Relu", ["x"], ["z"])]
    module = imported(model_of(nodes, {"x": [2]}, ["y", "w", "z", "x"], {"w": np.ones(1, "f")}))
    x = np.array([-1, 1], "f")
    got = run(module, [x])
    for value, wanted in zip(got, ([-1, 1], [1], [0, 1], [-1, 1]), strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_nodes_are_put_in_order_and_unused_ones_left_out() -> None:
    nodes = [
        helper.make_node("Neg", ["a"], ["b"], name="last"),
        helper.make_node("NoSuchOperator", ["x"], ["c"], name="unused"),
        helper.make_node("Abs", ["x"], ["a"], name="first"),
    ]
    ops = imported(model_of(nodes, {"x": [2]}, ["b"])).main.body.ops
    assert [op.loc for op in ops] == [("first",), ("last",)]


@pytest.mark.parametrize("opset", [17, 16, 15])
def test_functions_of_the_model_are_inlined(opset: int) -> None:
    # of another operator set, too, as long as its operators are the same there
    inner = [helper.make_node("Mul", ["a", "a"], ["b"])]
    square = helper.make_function(
        "own", "Square", ["a"], ["b"], inner, [helper.make_opsetid("", opset)]
    )
    model = model_of([helper.make_node("Square", ["x"], ["y"], domain="own")], {"x": [2]}, ["y"])
    model.functions.append(square)
    model.opset_import.append(helper.make_opsetid("own", 1))
    (got,) = run(imported(model), [np.array([2, 3], "f")])
    np.testing.assert_array_equal(got, [4, 9])


_DEFAULTS = """<ir_version: 9, opset_import: ["": 17, "own": 1]>
g (float[n] x, bool c) => (float[n] y, float[n] z, float[n] w) {
    y = own.scaled (x)
    z = own.twice <by = 5.0> (x)
    w = If (c) <
        then_branch = yes () => (float[n] p) { p = own.scaled <by = 2.0> (x) },
        else_branch = no () => (float[n] q) { q = own.scaled (x) }
    >
}
<domain: "own", opset_import: ["": 17]> scaled <by: float = 3.0> (x) => (y) {
    k = Constant <value_float: float = @by> ()
    y = Mul (x, k)
}
<domain: "own", opset_import: ["": 17, "own": 1]> twice <by> (x) => (y) {
    a = own.scaled <by: float = @by> (x)
    b = own.scaled (x)
    y = Add (a, b)
}"""


def test_attributes_that_a_call_leaves_out_are_those_of_the_function() -> None:
    session = InferenceSession(parser.parse_model(_DEFAULTS).SerializeToString(), threads=1)
    x = np.array([1.0, -2.0], np.float32)
    for chosen, by in ((True, 2), (False, 3)):
        y, z, w = session.run(None, {"x": x, "c": np.array(chosen)})
        assert np.array_equal(y, 3 * x)
        assert np.array_equal(z, 8 * x)
        assert np.array_equal(w, by * x)


def test_free_dimensions_are_symbols() -> None:
    nodes = [helper.make_node("Add", ["x", "y"], ["z"])]
    module = imported(model_of(nodes, {"x": ["n", None, 3], "y": ["n", 1, 3]}, ["z"]))
    first, second = module.main.args
    assert first.type == TensorType(F32, (symbol("n"), symbol("x_1"), 3))
    assert second.type == TensorType(F32, (symbol("n"), 1, 3))
    assert module.main.body.yields[0].type == first.type


def heads(batch: Any, length: Any) -> ModelProto:
    """[batch, length, 8] split into 2 heads as exporters write it: from `Shape`, piece by piece."""
    make = helper.make_node
    nodes = [
        make("Shape", ["x"], ["shape"]),
        make("Gather", ["shape", "zero"], ["batch"]),
        make("Gather", ["shape", "one"], ["length"]),
        make("Unsqueeze", ["batch", "axis"], ["batch_"]),
        make("Unsqueeze", ["length", "axis"], ["length_"]),
        make("Concat", ["batch_", "length_", "tail"], ["apart"], axis=0),
        make("Reshape", ["x", "apart"], ["split"]),
        make("Transpose", ["split"], ["heads"], perm=[0, 2, 1, 3]),
        make("MatMul", ["heads", "w"], ["product"]),
        make("ReduceMean", ["product"], ["mean"], axes=[2], keepdims=1),
        make("Sub", ["product", "mean"], ["less"]),
        make("Mul", ["length", "four"], ["rest"]),
        make("Unsqueeze", ["rest", "axis"], ["rest_"]),
        make("Concat", ["batch_", "two", "rest_"], ["flat"], axis=0),
        make("Reshape", ["less", "flat"], ["y"]),
        make("ConstantOfShape", ["length_"], ["zeros"]),
        make("Slice", ["x", "from_end", "far", "one_"], ["last"]),
    ]
    constants: dict[str, Array] = {
        "zero": np.array(0),
        "one": np.array(1),
        "axis": np.array([0]),
        "tail": np.array([2, -1]),
        "four": np.array(4),
        "two": np.array([2]),
        "from_end": np.array([-1]),
        "far": np.array([2**63 - 1]),
        "one_": np.array([1]),
        "w": np.arange(16, dtype=np.float32).reshape(4, 4),
    }
    return model_of(nodes, {"x": [batch, length, 8]}, ["y", "zeros", "last"], constants)


@pytest.mark.parametrize("free", [True, False])
def test_shapes_computed_by_the_model(free: bool) -> None:
    model = heads("batch", "length") if free else heads(3, 5)
    module = imported(model)
    sources = [op for op in module.main.body.ops if not op.operands]
    sources = [op for op in sources if not isinstance(op, graph.Constant)]
    # how many elements the mean is over
    assert [op.opname for op in sources] == (["graph.sizes"] if free else [])
    if free:
        n, m = symbol("batch"), symbol("length")
        shapes = [value.type.shape for value in module.main.body.yields]
        assert shapes == [(n, 2, m * 4), (m,), (n, 1, 8)]
        module = specialise(module, {"batch": 3, "length": 5})
    x = np.arange(120, dtype=np.float32).reshape(3, 5, 8)
    wanted: Any = ReferenceEvaluator(heads(3, 5)).run(None, {"x": x})
    for got, expected in zip(run(module, [x]), wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_constants_are_not_copied(tmp_path: Path) -> None:
    """The weights of a model stay the bytes that protobuf handed over."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = model_of(nodes, {"x": [1, 512]}, ["y"], {"w": np.ones((512, 512), "f")})
    save(model, tmp_path / "model.onnx")
    ops = import_model(tmp_path / "model.onnx").main.body.ops
    array = ops[0].attrs["value"].array
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_importing_the_frontend_does_not_import_onnx() -> None:
    code = "import sys, minicc.frontends.onnx; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def work(count: int) -> int:
    """The calls of functions that importing a model of so many blocks takes."""
    nodes = []
    for k in range(count):
        names = [f"v{4 * k + i}" for i in range(5)]
        nodes += [
            helper.make_node("Conv", [names[0], "w", "b"], [names[1]], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", [names[1]], [names[2]]),
            helper.make_node("Add", [names[2], names[0]], [names[3]]),
            helper.make_node("Clip", [names[3], "low", "high"], [names[4]]),
        ]
    constants: dict[str, Array] = {"w": np.ones((4, 4, 3, 3), "f"), "b": np.ones(4, "f")}
    constants |= {"low": np.array(0, "f"), "high": np.array(6, "f")}
    model = model_of(nodes, {"v0": [1, 4, 8, 8]}, [f"v{4 * count}"], constants)
    data = model.SerializeToString()
    calls = 0

    def note(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        import_model(data)
    finally:
        sys.setprofile(None)
    return calls


def test_the_work_of_importing_grows_as_a_model_does() -> None:
    work(4)  # what is made once for all models
    assert work(80) < 4.4 * work(20)


def test_sparse_initialisers_and_constants() -> None:
    """Places are rows of coordinates, or single numbers."""
    values = numpy_helper.from_array(np.array([5, 7], np.float32), "s")
    rows = numpy_helper.from_array(np.array([[0, 1], [2, 0]]))
    flat = numpy_helper.from_array(np.array([3, 11]))
    node = helper.make_node(
        "Constant", [], ["c"], sparse_value=helper.make_sparse_tensor(values, flat, [3, 4])
    )
    graph = helper.make_graph(
        [
            node,
            helper.make_node("Add", ["x", "s"], ["t"]),
            helper.make_node("Add", ["t", "c"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])],
        sparse_initializer=[helper.make_sparse_tensor(values, rows, [3, 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    want = np.zeros((3, 4), np.float32)
    want[0, 1], want[2, 0], want[0, 3], want[2, 3] = 5, 7, 5, 7
    session = InferenceSession(model.SerializeToString(), threads=1)
    assert np.array_equal(session.run(None, {"x": np.zeros((3, 4), np.float32)})[0], want)
