"""Compiled programs on the command line: written, run, told of, verified, and refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

import minicc
from minicc.cli import commands

DIGITS = str(Path(__file__).parents[2] / "examples" / "01_digits" / "digits.onnx")


def invoke(*args: object, status: int = 0) -> Result:
    result = CliRunner().invoke(commands, [str(a) for a in args])
    assert result.exit_code == status, result.output
    return result


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "digits.mcp"
    assert invoke("compile", DIGITS, "-o", path).output == ""
    return path


def test_a_program_runs_as_its_model(program: Path, tmp_path: Path) -> None:
    outputs = []
    for source in (DIGITS, program):
        invoke("run", source, "--save", tmp_path / "out.npz", "--input", "image=random")
        with np.load(tmp_path / "out.npz") as stored:
            outputs.append({name: stored[name].tobytes() for name in stored.files})
    assert outputs[0] == outputs[1]
    told = json.loads(invoke("run", program, "--json", "--threads", 1).stdout)
    assert told["threads"] == 1
    assert "opened compiled in" in invoke("run", program).output


def test_the_same_model_gives_the_same_file(program: Path, tmp_path: Path) -> None:
    invoke("compile", DIGITS, "-o", tmp_path / "again.mcp")
    assert (tmp_path / "again.mcp").read_bytes() == program.read_bytes()


def test_inspect_tells_of_a_program(program: Path) -> None:
    told = json.loads(invoke("inspect", program, "--json").output)
    assert told["inputs"] == {"image": "f32[1,1,8,8]"}
    assert told["free_dimensions"] == []
    assert told["launches"] >= 1
    assert "launch" in invoke("inspect", program).output
    assert "as they were written" in invoke("inspect", program, "--check").output
    assert invoke("inspect", program, "--text").output.startswith('module level = "program"')
    assert (
        "--check is for compiled programs" in invoke("inspect", DIGITS, "--check", status=2).output
    )


def test_damaged_weights_are_found_when_asked(program: Path) -> None:
    data = bytearray(program.read_bytes())
    data[-3] ^= 1
    program.write_bytes(data)
    invoke("inspect", program)
    for command in (["inspect", program, "--check"], ["verify", program]):
        assert "MC0160" in invoke(*command, status=1).output


def test_verify_compares_code_with_text(program: Path) -> None:
    assert "as they were written" in invoke("verify", program).output


def test_levels_of_a_program_are_shown(program: Path) -> None:
    assert 'module level = "program"' in invoke("compile", program).output
    assert "define void @main" in invoke("compile", program, "--emit", "llvm").output
    assert "vmovups" in invoke("compile", program, "--emit", "asm", "--target", "avx2").output
    invoke("compile", program, "--emit", "graph", status=2)


def test_bench_measures_a_program(program: Path) -> None:
    told = json.loads(invoke("bench", program, "--seconds", 0.05, "--json").stdout)
    assert told["engines"]["minicc"]["runs"] >= 1
    said = invoke("bench", program, "--seconds", 0.05, "--profile", 2, status=1)
    assert "MC0164" in said.output


def test_a_whole_program_is_written_and_nothing_shown(tmp_path: Path) -> None:
    for more in (["--stop-after", "fuse"], ["--report"], ["--time-stages"]):
        invoke("compile", DIGITS, "-o", tmp_path / "x.mcp", *more, status=2)
    assert not (tmp_path / "x.mcp").exists()


def test_a_program_of_what_data_decide(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.STRING, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.STRING, ["m"])
    nodes = [helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER")]
    graph = helper.make_graph(nodes, "g", [x], [y])
    path = tmp_path / "strings.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    invoke("compile", path, "-o", tmp_path / "x.mcp")
    session = minicc.InferenceSession(tmp_path / "x.mcp")
    assert session.get_inputs() == [("x", ["n"], "tensor(string)")]
    (texts,) = session.run(None, {"x": np.array(["a", "bc"])})
    assert texts.tolist() == ["A", "BC"]
