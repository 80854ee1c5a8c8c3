"""Files and models that are refused: every message in full."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from minicc.errors import MiniccError, UnsupportedError, UserError
from minicc.frontends.onnx import import_model
from minicc.frontends.onnx.needs import NeedsValueError

Array = np.ndarray[Any, Any]
DIGITS = Path(__file__).parents[2] / "examples" / "01_digits" / "digits.onnx"
SHAPE = [1, 3, 4, 4]


def node(op: str, *inputs: str, **rest: Any) -> NodeProto:
    """A node that makes `y`, called `it`."""
    return helper.make_node(op, inputs, [rest.pop("out", "y")], rest.pop("name", "it"), **rest)


def model_of(
    *nodes: NodeProto,
    opset: int = 17,
    shape: Sequence[Any] = SHAPE,
    element: int = TensorProto.FLOAT,
    constants: dict[str, Array] | None = None,
    ir_version: int = 10,
) -> ModelProto:
    """A model of the input `x` and the output `y`."""
    x = helper.make_tensor_value_info("x", element, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "test", [x], [y], held)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


def refused(source: Any) -> MiniccError:
    """What importing raises."""
    given = source.SerializeToString() if isinstance(source, ModelProto) else source
    with pytest.raises(MiniccError) as caught:
        import_model(given)
    return caught.value


def free_rank() -> ModelProto:
    model = model_of(node("Relu", "x"))
    model.graph.input[0].type.tensor_type.ClearField("shape")
    return model


def sequence_input() -> ModelProto:
    model = model_of(node("Relu", "x"))
    value = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    model.graph.input[0].CopyFrom(value)
    return model


def external() -> ModelProto:
    model = model_of(node("Add", "x", "w"), constants={"w": np.ones(4, "f")})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    return model


def damaged() -> ModelProto:
    model = model_of(node("Add", "x", "w"), constants={"w": np.ones(4, "f")})
    model.graph.initializer[0].dims[0] = 5
    return model


def no_opset() -> ModelProto:
    model = model_of(node("Relu", "x"))
    del model.opset_import[:]
    return model


def no_output() -> ModelProto:
    model = model_of(node("Relu", "x"))
    del model.graph.output[:]
    return model


def no_axes() -> NodeProto:
    wrong = node("Flatten", "x")
    wrong.attribute.append(AttributeProto(name="axis", type=AttributeProto.FLOAT, f=1.0))
    return wrong


CHECKER = "`onnx.checker.check_model(path, full_check=True)` says more"
DATA = DIGITS.read_bytes()
W = np.ones((2, 3, 3, 3), "f")
INFO = helper.make_tensor_value_info
BODY = helper.make_graph([node("Relu", "a")], "body", [INFO("a", 1, None)], [INFO("y", 1, None)])
BRANCH = helper.make_graph(
    [node("Relu", "x")], "branch", [], [INFO("y", 1, None), INFO("y", 1, None)]
)

CASES: dict[str, tuple[Any, type[MiniccError], str]] = {
    "no bytes": (
        b"",
        UserError,
        "MC0121 error: the model is empty\n  at: the given bytes\n  hint: export it again",
    ),
    "cut short": (
        DATA[:999],
        UserError,
        (
            "MC0122 error: the model ends too early: its 999 bytes lack 39470 bytes of "
            "`graph` at the end\n"
            "  at: the given bytes\n"
            "  hint: copy, download or export it again"
        ),
    ),
    "text": (
        b"<html>404</html>",
        UserError,
        (
            "MC0123 error: these bytes are not an ONNX model\n"
            "  at: the given bytes\n"
            "  hint: minicc reads what `onnx.save(model, path)` writes"
        ),
    ),
    "random bytes": (
        bytes(range(256)),
        UserError,
        (
            "MC0123 error: these bytes are not an ONNX model\n"
            "  at: the given bytes\n"
            "  hint: minicc reads what `onnx.save(model, path)` writes"
        ),
    ),
    "ONNX Runtime's own format": (
        b"\x18\0\0\0ORTM" + bytes(100),
        UserError,
        (
            "MC0123 error: these bytes are not an ONNX model\n"
            "  at: the given bytes\n"
            "  hint: they are in ONNX Runtime's own format: give the ONNX model that they were "
            "made of"
        ),
    ),
    "another protobuf": (
        model_of(node("Relu", "x")).graph.SerializeToString(),
        UserError,
        (
            "MC0123 error: these bytes are not an ONNX model\n"
            "  at: the given bytes\n"
            "  hint: minicc reads what `onnx.save(model, path)` writes"
        ),
    ),
    "no outputs": (
        no_output(),
        UserError,
        (
            "MC0123 error: the model has no outputs\n"
            "  at: the given bytes\n"
            "  hint: export it again, or name one in `model.graph.output`"
        ),
    ),
    "no opset": (
        no_opset(),
        UserError,
        (
            "MC0129 error: the model does not say which opset of ONNX's operators it uses\n"
            "  at: the given bytes\n"
            "  hint: add one to `model.opset_import`, or export it again"
        ),
    ),
    "opset of the future": (
        model_of(node("Relu", "x"), opset=99),
        UnsupportedError,
        (
            "MC0226 not supported: the model uses opset 99; the newest that minicc knows "
            "is 28\n"
            "  at: the given bytes\n"
            "  hint: export it for opset 28, or use `onnx.version_converter`"
        ),
    ),
    "format of the future": (
        model_of(node("Relu", "x"), ir_version=99),
        UnsupportedError,
        (
            "MC0226 not supported: the file is of IR version 99; minicc knows those to 14\n"
            "  at: the given bytes\n"
            "  hint: export it for an older one, or set `model.ir_version`"
        ),
    ),
    "undefined value": (
        model_of(node("Add", "x", "z")),
        UserError,
        (
            "MC0130 error: nothing makes the value z\n"
            "  at: it\n"
            "  hint: the model is damaged; `onnx.checker.check_model` says more"
        ),
    ),
    "undefined output": (
        model_of(node("Relu", "x", out="z")),
        UserError,
        (
            "MC0125 error: nothing makes the output y\n"
            "  at: y\n"
            "  hint: the model is damaged; `onnx.checker.check_model` says more"
        ),
    ),
    "cycle": (
        model_of(node("Add", "x", "y", out="z"), node("Neg", "z", name="other")),
        UserError,
        (
            "MC0125 error: these nodes wait for each other\n"
            "  at: it, other\n"
            "  hint: a graph of ONNX has no cycles; loops are an operator"
        ),
    ),
    "made twice": (
        model_of(node("Relu", "x"), node("Neg", "x", name="other")),
        UserError,
        (
            "MC0126 error: the value y is made twice\n"
            "  at: it, other\n"
            "  hint: each value has one node, input or initialiser that makes it"
        ),
    ),
    "an input made again": (
        model_of(node("Relu", "x"), node("Neg", "y", out="x")),
        UserError,
        (
            "MC0126 error: the value x is made twice\n"
            "  at: it#1\n"
            "  hint: each value has one node, input or initialiser that makes it"
        ),
    ),
    "free rank": (
        free_rank(),
        NeedsValueError,
        (
            "MC0225 not supported: the input x has no known rank\n"
            "  at: x\n"
            "  hint: give it a shape: --shape x=1x3"
        ),
    ),
    "sequence": (
        sequence_input(),
        UserError,
        "MC0159 error: Relu of what is no tensor of numbers\n  at: it",
    ),
    "weights elsewhere": (
        external(),
        UnsupportedError,
        (
            "MC0224 not supported: tensor w keeps its data in the file '/etc/passwd', beside a "
            "model of bytes\n"
            "  at: it\n"
            "  hint: give the model's path in place of its bytes"
        ),
    ),
    "damaged weights": (
        damaged(),
        UserError,
        (
            "MC0131 error: tensor w has the shape [5] and data for 4 elements\n"
            "  at: it\n"
            "  hint: export the model again"
        ),
    ),
    "unknown operator": (
        model_of(node("Frobnicate", "x")),
        UnsupportedError,
        (
            "MC0220 not supported: Frobnicate (opset 17) on f32: minicc has no such operator\n"
            "  at: it\n"
            "  hint: write it with other operators, or cut the model in front of it"
        ),
    ),
    "misspelt operator": (
        model_of(node("Relux", "x")),
        UserError,
        (
            "MC0124 error: Relux (opset 17) on f32: minicc has no such operator\n"
            "  at: it\n"
            "  hint: did you mean Relu or PRelu?"
        ),
    ),
    "operator of others": (
        model_of(node("Gelu2", "x", domain="com.microsoft")),
        UnsupportedError,
        (
            "MC0220 not supported: com.microsoft.Gelu2 on f32: minicc has no such operator\n"
            "  at: it\n"
            "  hint: write it with other operators, or cut the model in front of it"
        ),
    ),
    "missing input": (
        model_of(node("Conv", "x")),
        UserError,
        (
            "MC0127 error: Conv (opset 17) on f32: its input w is missing\n"
            "  at: it\n"
            f"  hint: {CHECKER}"
        ),
    ),
    "too many inputs": (
        model_of(node("Relu", "x", "x")),
        UserError,
        (
            "MC0127 error: Relu (opset 17) on f32: it takes at most 1 inputs, not 2\n"
            "  at: it\n"
            f"  hint: {CHECKER}"
        ),
    ),
    "element types differ": (
        model_of(node("Add", "x", "w"), constants={"w": np.ones(4)}),
        UserError,
        (
            "MC0128 error: Add (opset 17) on f32[1,3,4,4], f64[4]: graph.add wants "
            "operands of one element type, not [f32, f64]\n"
            "  at: it\n"
            f"  hint: {CHECKER}"
        ),
    ),
    "shapes differ": (
        model_of(node("Add", "x", "w"), constants={"w": np.ones(3, "f")}),
        UserError,
        (
            "MC0128 error: Add (opset 17) on f32[1,3,4,4], f32[3]: shapes [1,3,4,4] and "
            "[3] do not broadcast\n"
            "  at: it\n"
            f"  hint: {CHECKER}"
        ),
    ),
    "channels differ": (
        model_of(node("Conv", "x", "w", group=3), constants={"w": W}),
        UserError,
        (
            "MC0128 error: Conv (opset 17) on f32[1,3,4,4], f32[2,3,3,3]: weights "
            "f32[2,3,3,3] in 3 groups do not fit the channels of f32[1,3,4,4]\n"
            "  at: it\n"
            f"  hint: {CHECKER}"
        ),
    ),
    "window too large": (
        model_of(node("MaxPool", "x", kernel_shape=[6, 5])),
        UserError,
        (
            "MC0128 error: MaxPool (opset 17) on f32[1,3,4,4]: a window of 6 does not fit "
            "4 elements with their padding\n"
            "  at: it\n"
            f"  hint: {CHECKER}"
        ),
    ),
    "attribute of another kind": (
        model_of(no_axes()),
        UserError,
        (
            "MC0127 error: attribute axis of Flatten is 1.0, not an integer\n"
            "  at: it\n"
            "  hint: `onnx.checker.check_model(path)` says more"
        ),
    ),
    "unknown attribute": (
        model_of(node("Relu", "x", alpha=0.5)),
        UnsupportedError,
        (
            "MC0221 not supported: Relu (opset 17) on f32: minicc does not know its "
            "attribute alpha\n"
            "  at: it\n"
            "  hint: leave it out; those known are: none"
        ),
    ),
    "axis outside": (
        model_of(node("Concat", "x", "x", axis=4)),
        UserError,
        (
            "MC0127 error: Concat (opset 17) on f32: axes [4] of a tensor of rank 4\n"
            "  at: it\n"
            f"  hint: {CHECKER}"
        ),
    ),
    "wrong shape": (
        model_of(node("Reshape", "x", "s"), constants={"s": np.array([-1, 5])}),
        UserError,
        (
            "MC0128 error: Reshape (opset 17) on f32[1,3,4,4], i64[2]: the shape [-1, 5] "
            "has no whole number for -1\n"
            "  at: it\n"
            f"  hint: {CHECKER}"
        ),
    ),
    "the greatest of nothing": (
        model_of(node("ArgMax", "x"), shape=[0, 3]),
        UserError,
        (
            "MC0128 error: ArgMax (opset 17) on f32[0,3]: of no elements none is the greatest "
            "or the least\n"
            "  at: it\n"
            f"  hint: {CHECKER}"
        ),
    ),
    "a body of too few inputs": (
        model_of(node("Loop", "n", "", "x", body=BODY), constants={"n": np.array(3)}),
        UserError,
        (
            "MC0127 error: Loop (opset 17) on i64, f32: its graph does not fit it: it "
            "takes 1 value and should take 3\n"
            "  at: it\n"
            f"  hint: {CHECKER}"
        ),
    ),
    "no condition": (
        model_of(node("If", then_branch=BRANCH, else_branch=BRANCH)),
        UserError,
        (
            "MC0127 error: If (opset 17): its graph does not fit it (it has no condition)\n"
            f"  at: it\n  hint: {CHECKER}"
        ),
    ),
    "a branch of too many outputs": (
        model_of(
            node("If", "c", then_branch=BRANCH, else_branch=BRANCH),
            constants={"c": np.array(True)},
        ),
        UserError,
        (
            "MC0127 error: If (opset 17): its graph does not fit it (a branch gives 2 values, "
            "and the node 1)\n"
            "  at: it\n"
            f"  hint: {CHECKER}"
        ),
    ),
    "frequencies of a free dimension": (
        model_of(
            helper.make_node("Size", ["x"], ["n"]),
            helper.make_node("MelWeightMatrix", ["n", "n", "n", "r", "r"], ["y"], name="it"),
            shape=["h"],
            constants={"r": np.array(8, np.float32)},
        ),
        UnsupportedError,
        (
            "MC0225 not supported: MelWeightMatrix (opset 17) on i64, f32: it needs to know the "
            "free dimension h\n"
            "  at: it\n"
            "  hint: give h a number in the shapes of the model's inputs"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name: str) -> None:
    source, kind, message = CASES[name]
    error = refused(source)
    assert str(error) == message
    assert isinstance(error, kind)


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "no.onnx"
    assert str(refused(path)) == (
        "MC0120 error: the model can't be read: no such file or directory\n"
        f"  at: {path}\n  hint: check the path"
    )


def test_directory(tmp_path: Path) -> None:
    assert str(refused(str(tmp_path))) == (
        "MC0120 error: the model can't be read: is a directory\n"
        f"  at: {tmp_path}\n  hint: check the path"
    )


def test_every_truncation_is_told() -> None:
    for end in range(0, len(DATA), 97):
        error = refused(DATA[:end])
        assert isinstance(error, UserError)
        assert error.code in ("MC0121", "MC0122", "MC0123", "MC0129")


def test_damaged_bytes_are_refused_or_a_model() -> None:
    random = np.random.default_rng(3)
    for _ in range(300):
        data = bytearray(DATA)
        # the front and the end hold the structure, the middle the weights
        places = random.integers(-600, 600, 3)
        for place in places:
            data[place] = int(random.integers(256))
        with suppress(UserError, UnsupportedError):
            import_model(bytes(data))


def test_all_problems_at_once() -> None:
    model = model_of(
        node("Frobnicate", "x", out="a", name="first"),
        node("Add", "x", "w", out="b", name="second"),
        node("Relu", "b", out="c", name="passed over"),
        node("Frobnicate", "x", out="d", name="fourth"),
        node("Concat", "a", "c", "d", axis=0, name="passed over too"),
        constants={"w": np.ones(3, "f")},
    )
    error = refused(model)
    assert isinstance(error, UserError)
    assert [part.code for part in error.parts] == ["MC0220", "MC0128"]
    assert str(error) == (
        "2 problems\n"
        "1. MC0220 not supported: Frobnicate (opset 17) on f32: minicc has no such operator\n"
        "     at: first, fourth\n"
        "     hint: write it with other operators, or cut the model in front of it\n"
        "2. MC0128 error: Add (opset 17) on f32[1,3,4,4], f32[3]: shapes [1,3,4,4] and [3] do not "
        "broadcast\n"
        "     at: second\n"
        f"     hint: {CHECKER}"
    )
