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
