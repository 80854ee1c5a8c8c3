"""Texts of kernels and groups that were edited: what leaves a buffer or covers half is told of."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from minicc.cli import commands


@pytest.mark.parametrize(
    ("stage", "old", "new", "text"),
    [
        ("bufferize", "%4, %0 {at = [i0, t0]}", "%4, %0 {at = [i0 + 1, t0]}", "i0 + 1 is 1..8"),
        ("bufferize", "%1, %0 {at = [i0, t0]", "%1, %0 {at = [i0, t0 - 1]", "t0 - 1 is -1..62"),
        ("fuse", "<d0=8, d1=64>", "<d0=4, d1=64>", "covers a part of [8, 64]"),
        ("fuse", "[[d0, d1], [d0, d1]]", "[[d0, d1], [d0 + 1, d1]]", "leaves the shape [8, 64]"),
    ],
)
def test_an_edited_text(stage: str, old: str, new: str, text: str, tmp_path: Path) -> None:
    given, out = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 64]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"])], "g", [given], [out])
    model, dumped = tmp_path / "m.onnx", tmp_path / "m.mcc"
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), model)

    def compiled(*args: str) -> str:
        return CliRunner().invoke(commands, ["compile", *args, "--target", "avx512"]).output

    compiled(str(model), "--stop-after", stage, "-o", str(dumped))
    sound = dumped.read_text(encoding="utf-8")
    assert "error" not in compiled(str(dumped), "--verify")
    assert old in sound
    dumped.write_text(sound.replace(old, new), encoding="utf-8")
    said = compiled(str(dumped), "--verify")
    assert "MC0147 error" in said
    assert text in " ".join(said.split())


GENERIC = """module level = "structured"

func @main(%x: f32[{given}]) -> ("y": f32[{made}]) {{
  %0 = structured.generic %x {{space = <{space}>, maps = [[{read}], [{write}]], shapes = [[{made}]], combine = [none]}} {{
  ^(%1: f32):
    yield %1
  }} : f32[{made}] loc("op")
  yield %0
}}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("given", "space", "read", "write", "made", "good"),
    [
        ("4", "d0=4", "d0", "2*d0", "7", False),  # every second element
        ("4", "d0=4", "d0", "d0, d0", "4,4", False),  # a diagonal
        ("12", "d0=4, d1=3", "3*d0 + d1", "4*d0 + d1", "15", False),  # every fourth is left out
        ("12", "d0=4, d1=3", "3*d0 + d1", "3*d0 + d1", "12", True),
        ("5", "d0=4, d1=2", "d0 + d1", "d0 + d1", "5", True),  # some are written twice
        ("$n", "d0=$n", "d0", "d0", "$n + 1", False),  # whatever n is
        ("$n", "d0=$n", "d0", "-d0 + $n - 1", "$n", True),
        ("$n", "d0=$n", "d0", "d0", "$m", True),  # nobody knows
    ],
)
def test_a_map_covers_its_result(
    given: str, space: str, read: str, write: str, made: str, good: bool, tmp_path: Path
) -> None:
    file = tmp_path / "m.mcc"
    parts = {"given": given, "space": space, "read": read, "write": write, "made": made}
    file.write_text(GENERIC.format(**parts))
    said = CliRunner().invoke(commands, ["compile", str(file), "--stop-after", "merge"]).output
    assert ("covers a part of" in said) is not good


KERNEL = """module level = "kernel"

func @k(%g: index, %x: buffer<f32[8]>, %n: buffer<i64[1]>) -> () {{grid = [4]}} {{
  %0 = arith.constant {{value = dense<f32, 1.0>}} : f32 loc("op")
  kernel.for {{lo = {lo}, hi = {hi}, step = 2}} {{
  ^(%d: index):
    %1 = kernel.index %g, %d {{value = {index}}} : index loc("op")
    kernel.store %x, %0, %1, %d {{at = [{at}]}} loc("op")
    yield
  }} loc("op")
  yield
}}

func @main(%x: buffer<f32[8]>, %n: buffer<i64[1]>) -> () {{inputs = 1}} {{
  yield
}}
"""


@pytest.mark.parametrize(
    ("lo", "hi", "index", "at", "said"),
    [
        (0, 3, "2*i0", "i0 + i1", "i0 + i1 is 0..8"),
        (0, 2, "2*i0", "i0 + i1", ""),
        (1, 4, "i0 + i1", "i0 + 1", ""),
        (1, 6, "i0 + i1", "i0", "i0 is 1..8"),
        (1, 6, "i0 + i1", "min(i0, 7)", ""),
        (0, 9, "i1", "-i0 + i1 + 8", "-i0 + i1 + 8 is 8..8"),  # both are the loop's index
        (0, 9, "i1", "i0 - i1", ""),
        (0, 9, "i1 mod 8", "i0", ""),
    ],
)
def test_a_kernel_stays_in_its_buffers(
    lo: int, hi: int, index: str, at: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "m.mcc"
    file.write_text(KERNEL.format(lo=lo, hi=hi, index=index, at=at))
    told = CliRunner().invoke(commands, ["compile", str(file), "--stop-after", "unroll"]).output
    assert ("leaves its buffer" in told) is bool(said), told
    assert said in told
