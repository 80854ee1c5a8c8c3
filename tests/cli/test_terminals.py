"""What terminals, pipes and programs that read JSON get, and what is left after Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from tests.cli.test_cli import MODEL, invoke

from minicc.cli import bench, progress
from minicc.cli.progress import Progress
from minicc.compile.profile import LaunchTime, profile
from minicc.ir import interpret
from minicc.ir.affine import symbol
from minicc.ir.core import Module
from minicc.wording import counted

HEAD = '<ir_version: 9, opset_import: ["": 17]>'
NAME = "an_output_" * 12


def write(folder: Path, text: str) -> str:
    (folder / "m.onnx").write_bytes(onnx.parser.parse_model(f"{HEAD} {text}").SerializeToString())
    return str(folder / "m.onnx")


@pytest.fixture
def several(tmp_path: Path) -> str:
    """Two parts that are compiled, and one on the host between them."""
    return write(
        tmp_path,
        f"""g (float[n,8] x) => (float[m,8] y, float[n,8] {NAME})
        {{ t = Exp (x)
           u = Unique <axis = 0> (t)
           y = Softmax (u)
           {NAME} = Neg (t) }}""",
    )


@pytest.mark.parametrize("sizes", [("--shape", "x=3x8"), ("--input", "x=f32[3,8]=1")])
def test_launches_of_a_model_in_several_parts(several: str, sizes: tuple[str, str]) -> None:
    args = ("bench", several, *sizes, "--seconds", "0.01", "--profile", "9")
    told = json.loads(invoke(*args, "--json").stdout)
    assert sorted(row["part"] for row in told["launches"]) == [1, 3]
    assert sum(row["share"] for row in told["launches"]) == pytest.approx(1)
    assert "Softmax#2" in invoke(*args).stdout


def test_launches_are_those_of_the_program_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "g (float[n,8] x) => (float[n,8] y) { y = Softmax (x) }")
    given = ("--input", "x=f32[3,8]=1", "--seconds", "0.01", "--profile", "1", "--json")
    seen: list[object] = []

    def noted(module: Module, *rest: Any, **more: Any) -> list[LaunchTime]:
        seen.append(module.main.args[0].type.shape)
        return profile(module, *rest, **more)

    monkeypatch.setattr(bench, "profile", noted)
    for bound in ([], ["--shape", "x=3x8"]):
        assert len(json.loads(invoke("bench", path, *given, *bound).stdout)["launches"]) == 1
    assert seen == [(symbol("n"), 8), (3, 8)]


def test_launches_verify_and_tune_with_an_input_of_rank_0(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    text = "g (float[n] x, float s) => (float[n] y) { y = Mul (x, s) }"
    onnx.save(onnx.parser.parse_model(f"{HEAD} {text}"), path)
    np.save(tmp_path / "s.npy", np.float32(2))
    given = ("--shape", "x=3", "--input", f"s=@{tmp_path}/s.npy", "--json")
    told = invoke("bench", str(path), *given, "--seconds", "0.01", "--profile", "9")
    assert len(json.loads(told.stdout)["launches"]) == 1
    assert json.loads(invoke("verify", str(path), *given).stdout)["agrees"]
    out = str(tmp_path / "m.schedules")
    assert invoke("tune", str(path), *given, "--minutes", "0.002", "-o", out).exit_code == 0


def test_launches_and_a_report_of_what_has_a_program_for_each_set_of_sizes(tmp_path: Path) -> None:
    text = "g (float x) => (float y) { y = Exp (x) }"
    model = onnx.parser.parse_model(f"{HEAD} {text}")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    told = json.loads(invoke("compile", str(path), "--report", "--json").stdout)
    assert [(row["code"], row["where"]) for row in told["wants_sizes"]] == [("MC0225", ["x"])]
    shown = invoke("compile", str(path), "--report")
    assert shown.exit_code == 0
    assert "  x: the input x has no known rank" in shown.stdout
    named = invoke("compile", str(path), "--report", "--shape", "x=3x4").stdout
    assert named.startswith("1 of 1 graph op become")
    args = ("--input", "x=f32[3,4]=1", "--seconds", "0.01", "--profile", "1", "--json")
    assert len(json.loads(invoke("bench", str(path), *args).stdout)["launches"]) == 1


def test_a_report_of_a_model_with_a_free_arena(tmp_path: Path) -> None:
    text = (
        "g (float[n,k] x) => (float[n,n] y) { t = Transpose (x) p = MatMul (x, t) y = Softmax (p) }"
    )
    told = json.loads(invoke("compile", write(tmp_path, text), "--report", "--json").stdout)
    assert told["compiled"] == told["ops"] > 0
    assert invoke("compile", str(tmp_path / "m.onnx"), "--report").exit_code == 0


COMMANDS = ("run", "bench", "inspect", "verify", "lint", "opt")


@pytest.mark.parametrize("command", COMMANDS)
def test_errors_are_json_where_json_is_asked_for(command: str) -> None:
    more = ("--passes", "fuse") if command == "opt" else ()
    result = invoke(command, "/nothing/here", "--json", *more)
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, result.stderr) == (1, "")
    assert error["code"].startswith("MC01")
    assert error["message"]
    wrong = invoke(command, "--json", "--nonsense")
    assert wrong.exit_code == 2
    assert json.loads(wrong.stdout)["error"]["code"] == "usage"


def test_all_problems_are_json(tmp_path: Path) -> None:
    path = write(
        tmp_path, "g (float[2] x) => (float[2] y) { t = Foo (x) u = Bar (x) y = Add (t, u) }"
    )
    error = json.loads(invoke("compile", path, "--report", "--json").stdout)["error"]
    assert [(p["code"], p["where"]) for p in error["problems"]] == [
        ("MC0220", ["Foo#0"]),
        ("MC0220", ["Bar#1"]),
    ]


def test_a_bug_is_json_with_the_file_of_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(path: str) -> Any:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr("minicc.cli.lint.lint", wrong)
    error = json.loads(invoke("lint", MODEL, "--json").stdout)["error"]
    assert error["code"] == "MC0308"
    full = Path(error["full_text"])
    assert "Traceback" in full.read_text()
    full.unlink()


def test_modules_and_layers_are_json_too(tmp_path: Path) -> None:
    out = str(tmp_path / "m.mcc")
    invoke("compile", MODEL, "--stop-after", "merge", "-o", out)
    told = json.loads(invoke("opt", out, "--passes", "fuse", "--json").stdout)
    assert told["level"] == "structured"
    assert told["text"] == invoke("opt", out, "--passes", "fuse").stdout
    layers = json.loads(invoke("layers", "--json").stdout)["layers"]
    assert {"part", "name", "sentence", "mirrors"} <= layers[0].keys()


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_names_are_whole_in_a_pipe(several: str, command: str) -> None:
    more = ("--shape", "x=3x8") if command == "run" else ()
    assert NAME in invoke(command, several, *more).stdout


def test_counts_have_plurals() -> None:
    assert counted(1, "thread") == "1 thread"
    assert counted(0, "launch", "launches") == "0 launches"
    shown = invoke("run", MODEL, "--threads", "1").stdout
    assert shown.rstrip().endswith("a run with 1 thread")


def test_verify_as_json(several: str) -> None:
    told = json.loads(invoke("verify", several, "--shape", "x=3x8", "--json").stdout)
    assert (told["agrees"], told["stopped"]) == (True, False)
    assert [(p["part"], p["host"]) for p in told["parts"]] == [(1, False), (2, True), (3, False)]
    assert all(p["same_bits"] for p in told["parts"] if not p["host"])
    assert told["parts"][0]["rows"][-1]["after"] == "machine code, 2 threads"


def test_verify_tells_what_it_has_found_when_it_is_stopped(
    several: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, calls = interpret.run, []

    def stopping(module: Any, inputs: Any) -> Any:
        calls.append(module)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return right(module, inputs)

    monkeypatch.setattr(interpret, "run", stopping)
    result = invoke("verify", several, "--shape", "x=3x8")
    assert result.exit_code == 130
    assert len([line for line in result.stdout.splitlines() if " graph " in line]) == 2
    assert (
        "stopped: 0 of 2 parts compared to the end, all that was compared agrees" in result.stderr
    )
    calls.clear()
    told = json.loads(invoke("verify", several, "--shape", "x=3x8", "--json").stdout)
    assert told["stopped"]
    assert len(told["parts"][0]["rows"]) == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals_and_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.02)
    monkeypatch.setattr(progress, "_EVERY_S", 0.01)
    for file, told in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", file)
        with Progress("doing one thing") as shown:
            end = time.monotonic() + 5
            while told and "one thing, 0 s" not in file.getvalue() and time.monotonic() < end:
                time.sleep(0.01)
            shown.at("doing another")
            while told and "another" not in file.getvalue() and time.monotonic() < end:
                time.sleep(0.01)
        assert ("doing one thing, 0 s" in file.getvalue()) == told
        assert ("doing another" in file.getvalue()) == told
        assert file.getvalue().endswith("\r\x1b[2K") == told  # nothing is left of it


def test_no_progress_with_json(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Terminal()
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(sys, "stderr", file)
    context = invoke("lint", MODEL, "--json")
    assert json.loads(context.stdout)["status"] == 0
    assert "looking for problems" not in file.getvalue() + context.stderr


def test_names_wrap_on_a_terminal_of_80_columns() -> None:
    code = "from minicc.cli.tables import show_table; show_table(('output', 'type'), "
    code += f"[({NAME!r}, 'float32[3, 8]')])"
    parent, child = os.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", code], stdout=child, env=environment, check=True)
    os.close(child)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", os.read(parent, 1 << 16).decode())
    os.close(parent)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert "".join(line.split()[0] for line in lines[1:]) == NAME
