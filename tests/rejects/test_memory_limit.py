"""Models that need more memory than there is: refused before any of it is allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import minicc
from minicc.cli import commands
from minicc.errors import UserError
from minicc.options import Options

MANY = 10**6
HINT = (
    "  hint: use smaller shapes or batches, or allow more: Options(memory_limit=BYTES) or "
    "MINICC_MEMORY_LIMIT"
)
LIMIT = 1 << 30


def node(op: str, *inputs: str, out: str = "y", **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, [out], "it", **attributes)


def model(nodes: Sequence[NodeProto], held: Mapping[str, Any], shape: Any = (4,)) -> ModelProto:
    """A model from `x` to `y` with constants."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run(made: ModelProto, x: Any, limit: int) -> Any:
    options = Options(threads=1, memory_limit=limit)
    session = minicc.InferenceSession(made.SerializeToString(), options=options)
    (y,) = session.run(None, {"x": x})
    return y


def refusal(made: ModelProto, x: Any = None, limit: int = LIMIT) -> str:
    with pytest.raises(UserError) as caught:
        run(made, np.ones(4, np.float32) if x is None else x, limit)
    return str(caught.value)


def too_large(what: str, needed: str, where: str = "\n  at: it") -> str:
    return f"MC0135 error: {what} needs {needed} of memory, and the limit is 1 GiB{where}\n{HINT}"


CASES: dict[str, tuple[ModelProto, str]] = {
    "Expand": (
        model([node("Expand", "x", "s")], {"s": np.array([MANY, MANY, 4])}),
        too_large("the output y (f32[1000000,1000000,4])", "14.6 TiB"),
    ),
    "ConstantOfShape": (
        model([node("ConstantOfShape", "s")], {"s": np.array([MANY, MANY])}),
        too_large("the output y (f32[1000000,1000000])", "3.64 TiB"),
    ),
    "more bytes than a float can count": (
        model([node("ConstantOfShape", "s")], {"s": np.array([2**40] * 60)}),
        too_large(f"the output y (f32[{','.join([str(2**40)] * 60)}])", "2^2402 bytes"),
    ),
    "Pad": (
        model([node("Pad", "x", "p")], {"p": np.array([2**62, 2**62])}),
        too_large("the output y (f32[9223372036854775812])", "3.28e+04 PiB"),
    ),
    "a value on the host": (
        model(
            [
                helper.make_node("Expand", ["x", "s"], ["e"], "wide"),
                node("Unique", "e", out="f"),
                helper.make_node("Slice", ["f", "a", "b"], ["y"], "cut"),
            ],
            {
                "s": np.array([MANY, MANY, 4]),
                "a": np.array([0]),
                "b": np.array([1]),
            },
        ),
        too_large("a value on the host (f32[1000000,1000000,4])", "14.6 TiB", "\n  at: wide"),
    ),
    "a window": (
        model([node("HannWindow", "n")], {"n": np.array(10**12)}),
        "MC0136 error: HannWindow (opset 17) on i64: a table that it needs is larger than memory\n"
        "  at: it\n"
        "  hint: use smaller sizes",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_tensor_that_is_too_large(name: str) -> None:
    made, text = CASES[name]
    assert refusal(made) == text


def test_a_value_in_between() -> None:
    made = model(
        [node("Expand", "x", "s", out="e"), helper.make_node("ReduceSum", ["e"], ["y"], "sum")],
        {"s": np.array([MANY, MANY, 4])},
    )
    assert refusal(made) == (
        "MC0135 error: the model needs 14.6 TiB of memory, and the limit is 1 GiB; the largest: "
        "14.6 TiB for f32[1000000,1000000,4], a value in between\n"
        f"  at: it\n{HINT}"
    )


def test_sizes_that_the_model_computes() -> None:
    made = model(
        [
            helper.make_node("Cast", ["x"], ["i"], "sizes", to=TensorProto.INT64),
            node("ConstantOfShape", "i"),
        ],
        {},
        (2,),
    )
    text = refusal(made, np.full(2, MANY, np.float32))
    assert text == too_large("the output y (f32[1000000,1000000])", "3.64 TiB")


def test_sizes_of_the_inputs() -> None:
    made = model([node("MatMul", "x", "w")], {"w": np.ones((1, MANY), "f")}, ("n", 1))
    text = refusal(made, np.ones((MANY, 1), np.float32))
    assert text == (
        "MC0135 error: the model needs 3.64 TiB of memory, and the limit is 1 GiB; the largest: "
        f"3.64 TiB for float32[1000000, 1000000], an output\n{HINT}"
    )


def test_an_input_that_would_be_copied() -> None:
    made = model([node("Relu", "x")], {}, ("n",))
    text = refusal(made, np.broadcast_to(np.float32(1), 10**12))
    assert text == too_large("a dense copy of the input 'x'", "3.64 TiB", "")


def test_a_limit_of_a_few_bytes() -> None:
    made = model([node("Mul", "x", "w")], {"w": np.ones((50, 4), "f")})
    assert refusal(made, limit=900) == (
        "MC0135 error: the model needs 1.56 KiB of memory, and the limit is 900 bytes; the "
        "largest: 800 bytes for f32[50,4], an output; 800 bytes for f32[50,4], a constant\n"
        f"  at: it\n{HINT}"
    )
    assert np.array_equal(run(made, np.ones(4, np.float32), 1600), np.ones((50, 4), np.float32))


def test_what_fusing_leaves_out_of_memory_does_not_count() -> None:
    f = minicc.jit(
        lambda x: (x[:, None] * x[None, :]).sum(1),
        options=Options(threads=1, memory_limit=1 << 16),
    )
    assert np.array_equal(f(np.ones(1000, np.float32)), np.full(1000, 1000, np.float32))


def test_a_function() -> None:
    f = minicc.jit(
        lambda x: x[:, None] + x[None, :], options=Options(threads=1, memory_limit=LIMIT)
    )
    with pytest.raises(UserError, match=r"MC0135 .*needs 3\.64 TiB .*limit is 1 GiB"):
        f(np.ones(MANY, np.float32))


def test_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Options().memory_limit >= 1 << 20
    monkeypatch.setenv("MINICC_MEMORY_LIMIT", "12345")
    assert Options().memory_limit == 12345
    assert Options(memory_limit=77).replace(threads=1).memory_limit == 77
    monkeypatch.setenv("MINICC_MEMORY_LIMIT", "1 GB")
    with pytest.raises(UserError, match=r"MC0102 .*MINICC_MEMORY_LIMIT is '1 GB'"):
        Options()


@pytest.mark.parametrize("command", ["run", "bench", "verify", "compile"])
def test_the_command_line(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINICC_MEMORY_LIMIT", str(LIMIT))
    path = tmp_path / "m.onnx"
    path.write_bytes(model([node("Relu", "x")], {}, ("n",)).SerializeToString())
    result = CliRunner().invoke(commands, [command, str(path), "--shape", "x=1000000000000"])
    assert result.exit_code == 1
    assert "MC0135 error: " in result.output
    assert "the limit is 1 GiB" in result.output
