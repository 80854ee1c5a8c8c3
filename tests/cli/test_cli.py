"""The command line: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import minicc
from minicc.cli import commands
from minicc.compiler import STAGES, stage_names
from minicc.errors import MiniccError
from minicc.ir import graph, interpret
from minicc.ir.core import Value
from minicc.ir.parser import parse_module
from minicc.ir.rewrite import Rebuilder
from minicc.observe import load_dump
from minicc.passes.structured.lower_to_structured import LOWER

FOLDER = Path(__file__).parents[2] / "examples" / "01_digits"
MODEL = str(FOLDER / "digits.onnx")


def invoke(*args: str) -> Result:
    return CliRunner().invoke(commands, args)


def failure(*args: str) -> str:
    """The text of the error that a command ends with."""
    result = invoke(*args)
    assert isinstance(result.exception, MiniccError), result.output
    return str(result.exception)


@pytest.fixture
def image(tmp_path: Path) -> tuple[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    with np.load(FOLDER / "images.npz") as stored:
        np.save(tmp_path / "x.npy", stored["images"][:1])
        return str(tmp_path / "x.npy"), stored["probabilities"][:1]


def test_run_gives_the_stored_probabilities(
    image: tuple[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]], tmp_path: Path
) -> None:
    path, want = image
    out = tmp_path / "out.npz"
    result = invoke("run", MODEL, "--input", f"image=@{path}", "--threads", "1", "--save", str(out))
    assert result.exit_code == 0, result.output
    assert "probabilities" in result.output
    assert "8 launches" in result.output
    with np.load(out) as saved:
        assert np.max(np.abs(saved["probabilities"] - want)) < 2e-6
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_run_as_json_with_a_filled_input() -> None:
    result = invoke("run", MODEL, "--input", "image=f32[1,1,8,8]=0.5", "--json")
    told = json.loads(result.stdout)
    assert told["outputs"]["probabilities"]["shape"] == [1, 10]
    assert told["outputs"]["probabilities"]["mean"] == pytest.approx(0.1)


def test_missing_inputs_are_random_and_say_so() -> None:
    result = invoke("run", MODEL, "--threads", "1")
    assert "input image: random, float32[1, 1, 8, 8]" in result.stderr


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("--input", "image"), "--input 'image' is not understood"),
        (("--input", "image=q8[1]=2"), "--input 'image=q8[1]=2' is not understood"),
        (("--input", "image=@no.npy"), "can't read the array no.npy"),
        (("--input", "picture=f32[1]=2"), "no input is called 'picture'"),
        (
            ("--input", "image=f32[1,1,8,9]=2"),
            "the input 'image' is 1x1x8x9, and must be f32[1,1,8,8]",
        ),
        (("--shape", "image=8,8"), "--shape 'image=8,8' is not understood"),
    ],
)
def test_wrong_inputs(args: tuple[str, ...], text: str) -> None:
    assert text in failure("run", MODEL, *args)


@pytest.mark.parametrize("level", ["graph", "structured", "kernel", "program"])
def test_emit_prints_a_module_of_the_level(level: str, tmp_path: Path) -> None:
    out = tmp_path / "module.mcc"
    assert invoke("compile", MODEL, "--emit", level, "-o", str(out)).exit_code == 0
    text = out.read_text()
    assert text.startswith(f'module level = "{level}"')
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = {}
    with pytest.raises(minicc.UserError, match="MC011"):
        parse_module(text, arrays)  # the weights are beside a dump alone


def test_emit_llvm_assembly_and_objects(tmp_path: Path) -> None:
    llvm = invoke("compile", MODEL, "--emit", "llvm", "--target", "avx2").output
    assert "define void @main(" in llvm
    assert "<8 x float>" in llvm
    assembly = invoke("compile", MODEL, "--emit", "asm", "--target", "avx512").output
    assert "zmm" in assembly
    assert "vfmadd" in assembly
    assert invoke("compile", MODEL, "--emit", "obj", "-o", str(tmp_path / "o")).exit_code == 0
    assert (tmp_path / "o" / "main.o").read_bytes().startswith(b"\x7fELF")
    assert invoke("compile", MODEL, "--emit", "obj").exit_code == 2


def test_dump_and_resume_from_every_stage(tmp_path: Path) -> None:
    """Resuming ends in the same program, and every dumped level runs to the same values."""
    with np.load(FOLDER / "images.npz") as stored:
        x = stored["images"][:1]
    dump = tmp_path / "dump"
    assert invoke("compile", MODEL, "--dump", str(dump), "--verify").exit_code == 0
    files = sorted(dump.glob("*.mcc"))
    assert [f.name for f in files] == [f"{k:02d}-{s.name}.mcc" for k, s in enumerate(STAGES, 1)]
    last = files[-1].read_text().partition("\n\n")[2]
    _, module = load_dump(files[0])
    want = interpret.run(module, [x])[0]
    for file, stage in zip(files, STAGES, strict=True):
        assert file.read_text().startswith(f"// stage {stage.name}: {stage.sentence}\n// mirrors ")
        _, module = load_dump(file)
        assert module.level == stage.level
        np.testing.assert_allclose(interpret.run(module, [x])[0], want, rtol=1e-4, atol=1e-6)
        out = tmp_path / "resumed.mcc"
        args = ("compile", "--resume", str(file), "--emit", "program", "-o", str(out))
        assert invoke(*args).exit_code == 0
        assert out.read_text() == last


def test_an_edited_file_with_a_mistake(tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    invoke("compile", MODEL, "--dump", str(dump), "--stop-after", "merge")
    file = dump / "08-merge.mcc"
    file.write_text(file.read_text().replace("arith.mul", "arith.mull", 1))
    text = failure("compile", "--resume", str(file))
    assert "no op is called arith.mull" in text or "arith.mull" in text
    assert "arith.mul" in text
    assert f"{file}:" in text
    file.write_text("module")
    assert "does not begin with `// stage NAME:`" in failure("compile", "--resume", str(file))


def test_print_after_says_what_did_not_change() -> None:
    shown = invoke("compile", MODEL, "--print-after", "all").output
    assert (
        "// behind specialise: bind free dimensions to the sizes of this call (unchanged)" in shown
    )
    assert shown.count("// behind ") == len(STAGES)
    changed = invoke("compile", MODEL, "--print-after", "changed").output
    assert "(unchanged)" not in changed
    one = invoke("compile", MODEL, "--print-after", "fuse").output
    assert one.count("// behind ") == 1
    assert "structured.group" in one


def test_time_stages_names_each() -> None:
    told = invoke("compile", MODEL, "--time-stages").stderr
    assert all(name in told for name in stage_names())


def test_layers_name_every_stage_and_what_it_mirrors() -> None:
    told = invoke("layers").output
    flat = " ".join(told.split())
    for name in (*stage_names(), "frontends.onnx", "frontends.trace", "ir.structured", "Linalg"):
        assert name in flat
    assert "XLA" in told


def test_unknown_names_suggest_what_there_is() -> None:
    assert "stages: specialise, fold-constants" in failure(
        "compile", MODEL, "--stop-after", "fusing"
    )
    assert "stages: specialise" in failure("compile", MODEL, "--print-after", "nothing")
    result = invoke("run", MODEL, "--thread", "2")
    assert result.exit_code == 2
    assert "--threads" in result.output


def test_exit_statuses_of_the_real_command() -> None:
    def status(*args: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "minicc", *args], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr

    code, text = status("run", "nothing.onnx")
    assert code == 1
    assert text.startswith("MC0120 error: ")
    assert "Traceback" not in text
    assert status("run")[0] == 2
    assert status("--version") == (0, "")


def test_verify_compares_every_stage_and_machine_code() -> None:
    result = invoke("verify", MODEL)
    assert result.exit_code == 0, result.output
    assert "same bits at 1 and 2 threads: yes" in result.output
    for name in ("fold-constants", "bufferize", "parallelize", "machine code, 2 threads"):
        assert name in result.output


def test_verify_finds_the_stage_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake put into the lowering of windows must show in the row of its stage, not before."""
    right = LOWER[graph.Window]

    def wrong(b: Rebuilder, op: graph.Window, operands: tuple[Value, ...]) -> Value:
        return right(b, op.rebuilt(op.operands, combine="min"), operands)

    monkeypatch.setitem(LOWER, graph.Window, wrong)
    result = invoke("verify", MODEL)
    assert result.exit_code == 1
    rows = {
        line.split()[0]: line.split()[-1] for line in result.stdout.splitlines() if "e-" in line
    }
    assert float(rows["simplify-layout"]) < 1e-6
    assert float(rows["lower-to-structured"]) > 1e-3
