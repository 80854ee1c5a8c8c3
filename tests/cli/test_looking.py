"""What is left out, compared and drawn: `bench --ablate`, `diff`, `--emit dot`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_cli import MODEL, failure, invoke
from tests.models.test_texts import attention, branching, recurrent

from minicc.compile.compiler import STAGES
from minicc.ir.levels import LEVELS


def text_at(stage: str, folder: Path, *args: str) -> str:
    """The digits' text after a stage, as a file."""
    file = folder / f"{stage}.mcc"
    assert invoke("compile", MODEL, "--stop-after", stage, "-o", str(file), *args).exit_code == 0
    return str(file)


def test_each_stage_is_left_out_in_turn() -> None:
    told = json.loads(invoke("bench", MODEL, "--ablate", "--seconds", "0.01", "--json").stdout)
    rows = {row["without"]: row for row in told["ablated"]}
    assert [*rows] == ["", *(s.name for s in STAGES if not s.needed)]
    assert rows["merge"]["launches"] >= rows[""]["launches"] == 8
    assert all(row["moved_bytes"] > 0 < row["kept_bytes"] for row in rows.values())
    assert max(row["difference"] for row in rows.values()) < 1e-5
    shown = invoke("bench", MODEL, "--ablate", "--seconds", "0.01", "--skip", "merge").stdout
    assert "MB moved" in shown
    assert shown.splitlines()[1].split()[:1] == ["nothing"]


def test_texts_that_are_alike_and_not(tmp_path: Path) -> None:
    tiled, packed = text_at("tile", tmp_path), text_at("pack", tmp_path)
    same = invoke("diff", tiled, tiled)
    assert (same.exit_code, same.stdout) == (0, "the texts are the same\n")
    told = invoke("diff", tiled, packed)
    assert told.exit_code == 1
    assert told.stdout.startswith("changed: group conv1_2, group conv2, group gemm\n")
    # numbers of values that shifted are no difference
    assert not any(re.match(r"[-+] .*arith\.", line) for line in told.stdout.splitlines())
    found = json.loads(invoke("diff", tiled, text_at("hoist", tmp_path), "--json").stdout)
    assert found["levels"] == ["structured", "kernel"]
    assert found["ops"]["structured.group"] == [6, 0]
    assert "kernel conv2" in found["only_after"]
    assert failure("diff", tiled, str(tmp_path / "none.mcc")).startswith("MC0145")


@pytest.mark.parametrize("make", [attention, recurrent, branching])
@pytest.mark.parametrize("stage", ["specialise", "fuse", "tile", "bufferize", "parallelize"])
def test_every_level_is_drawn(make: Any, stage: str, tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(make()[0].SerializeToString())
    drawn = invoke("compile", str(model), "--stop-after", stage, "--emit", "dot")
    assert drawn.exit_code == 0, drawn.output
    text = drawn.stdout
    assert text.startswith("digraph ")
    assert text.split('"')[1] in LEVELS
    assert text.count("{") == text.count("}")
    nodes = set(re.findall(r'^ *(n\d+|"result .*") \[', text, re.MULTILINE))
    edges = re.findall(r'^  (n\d+|"result .*") -> (n\d+|"result .*") \[', text, re.MULTILINE)
    assert edges
    assert nodes >= {end for edge in edges for end in edge}


def test_an_svg_takes_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "dot"
    monkeypatch.setenv("PATH", str(tmp_path))
    out = tmp_path / "m.svg"
    asked = ("compile", MODEL, "--emit", "dot", "-o", str(out))
    assert failure(*asked).startswith("MC0154 error: an SVG takes Graphviz's dot")
    tool.write_text("#!/bin/sh\necho '<svg/>'\n")
    tool.chmod(0o755)
    assert invoke(*asked).exit_code == 0
    assert out.read_text() == "<svg/>\n"


FUNCTIONS = """
import numpy as np
import minicc

@minicc.jit
def softmax(x, axis=1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)

def looks(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return np.sqrt(y)

def fails(x):
    raise KeyError("no")
"""


def test_stages_of_a_function(tmp_path: Path) -> None:
    file = tmp_path / "functions_of_mine.py"
    file.write_text(FUNCTIONS)
    shape = ("--shape", "x=8x64")
    shown = invoke("compile", f"{file}:softmax", *shape, "--stop-after", "fuse")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("structured.group") == 1
    assert 'loc("functions_of_mine.py:7"' in shown.stdout
    parts = invoke("compile", f"{file}:looks", "--input", "x=f32[3]=1", "--emit", "graph").stdout
    assert parts.count("becomes machine code") == 2
    assert "graph.sqrt" in parts.partition("// part 2")[2]
    dump = tmp_path / "dump"
    assert invoke("compile", f"{file}:softmax", *shape, "--dump", str(dump)).exit_code == 0
    text = next(dump.glob("*-tile.mcc"))
    assert invoke("run", str(text), "--input", "x=random").exit_code == 0
    assert failure("compile", f"{file}:fails", *shape).startswith("MC0169 error: fails raised KeyE")
    assert "functions: softmax, looks, fails" in failure("compile", f"{file}:none", *shape)
    assert "the argument x is not given" in failure("compile", f"{file}:looks")
    assert "no input is called 'y'" in failure("compile", f"{file}:looks", *shape, "--shape", "y=3")


KERNEL = """
import minicc
import minicc.tile as tl

@minicc.kernel(grid=lambda x: x.shape[0], out=lambda x: x)
def twice(x, y):
    y[tl.program_id(0), :] = x[tl.program_id(0), :] * 2
"""


def test_stages_of_a_kernel_by_hand(tmp_path: Path) -> None:
    file, dump = tmp_path / "kernels_of_mine.py", tmp_path / "dump"
    file.write_text(KERNEL)
    named = ("compile", f"{file}:twice", "--shape", "x=4x8")
    shown = invoke(*named, "--emit", "kernel", "--dump", str(dump))
    assert "func @twice(" in shown.stdout, shown.output
    for stage in ("specialise", "fuse", "bufferize"):
        text = next(dump.glob(f"*-{stage}.mcc"))
        assert invoke("verify", str(text), "--input", "x=random").exit_code == 0
    assert "inputs: x, y" in invoke("compile", f"{file}:twice", "--shape", "z=4x8").stderr
