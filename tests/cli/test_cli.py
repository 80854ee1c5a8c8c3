"""The command line: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto
from onnx.helper import (
    make_graph,
    make_model,
    make_node,
    make_opsetid,
    make_tensor_value_info,
)

import minicc
from minicc.api.session import InferenceSession
from minicc.cli import commands
from minicc.cli.layers import rows
from minicc.cli.run import describe
from minicc.compile import compiler
from minicc.compile.compiler import STAGES, Setting, stage_names
from minicc.compile.observe import load_dump
from minicc.ir import graph, interpret
from minicc.ir.core import Module, Region, Value
from minicc.ir.levels import LEVELS
from minicc.ir.rewrite import Rebuilder
from minicc.ir.text.printer import print_module, resources
from minicc.passes.structured.lower_to_structured import LOWER

FOLDER = Path(__file__).parents[2] / "examples" / "01_digits"
MODEL = str(FOLDER / "digits.onnx")


def invoke(*args: str) -> Result:
    return CliRunner().invoke(commands, args)


def failure(*args: str) -> str:
    """What a command tells of the model's or the input's error that it ends with."""
    result = invoke(*args)
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("MC01"), result.stderr
    return result.stderr


def misuse(*args: str) -> str:
    """What a command tells of its wrong usage, in one line."""
    result = invoke(*args)
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


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
    assert "input image: random (seed 0), float32[1, 1, 8, 8]" in result.stderr
    asked = invoke("run", MODEL, "--threads", "1", "--input", "image=random", "--json")
    again = invoke("run", MODEL, "--threads", "1", "--json")
    assert json.loads(asked.stdout)["outputs"] == json.loads(again.stdout)["outputs"]


def test_free_dimensions_and_names_that_are_no_words(tmp_path: Path) -> None:
    """The size comes from --shape; `[red]` is no style, and "file" no keyword of numpy.savez."""
    path, out = str(tmp_path / "free.onnx"), str(tmp_path / "out.npz")
    info = partial(make_tensor_value_info, elem_type=TensorProto.FLOAT, shape=["batch", 4])
    nodes = [make_node("Relu", ["in[a]"], ["file"]), make_node("Neg", ["in[a]"], ["y[red]"])]
    graph = make_graph(nodes, "free", [info("in[a]")], [info("file"), info("y[red]")])
    opsets = [make_opsetid("", 21)]
    Path(path).write_bytes(
        make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    )
    assert "the input 'in[a]' (f32[batch,4]) is not given" in failure("run", path)
    assert "sizes = [$batch]" in invoke("compile", path).stdout
    shape = ("--shape", "in[a]=3x4")
    assert "f32[3,4]" in invoke("compile", path, *shape, "--emit", "graph").stdout
    result = invoke("run", path, *shape, "--save", out)
    assert "input in[a]: random (seed 0), float32[3, 4]" in result.stderr
    assert " y[red] " in result.stdout
    assert "static shapes: " in result.stdout
    with np.load(out) as saved:
        assert {name: saved[name].shape for name in saved.files} == {
            "file": (3, 4),
            "y[red]": (3, 4),
        }


def test_outputs_are_told_as_json_takes_them() -> None:
    told = describe(np.array([np.nan, np.inf, -np.inf, 1], np.float32))
    assert json.loads(json.dumps(told, allow_nan=False)) == {
        "dtype": "float32",
        "shape": [4],
        "min": "-inf",
        "mean": "nan",
        "max": "inf",
        "nan": 1,
        "first": ["nan", "inf", "-inf", 1.0],
    }
    none = describe(np.zeros((0, 3), np.int64))
    assert (none["min"], none["mean"], none["first"], none["nan"]) == (None, None, [], 0)
    assert describe(np.array([2**62 + 1]))["first"] == [2**62 + 1]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("--input", "image"), "--input 'image' is not understood"),
        (("--input", "image=q8[1]=2"), "--input 'image=q8[1]=2' is not understood"),
        (("--input", "image=@no.npy"), "can't read the array no.npy: No such file"),
        (("--input", f"image=@{MODEL}"), "is no .npy file of numbers"),
        (("--input", f"image=@{FOLDER}/images.npz"), "is an archive, and --input takes one array"),
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


@pytest.mark.parametrize(
    ("option", "name"),
    [*(("--emit", level) for level in LEVELS), *(("--stop-after", s.name) for s in STAGES)],
)
def test_what_is_printed_parses_back(option: str, name: str, tmp_path: Path) -> None:
    shown = invoke("compile", MODEL, option, name).stdout
    out = tmp_path / "module.mcc"
    assert invoke("compile", MODEL, option, name, "-o", str(out)).exit_code == 0
    stage, module = load_dump(out)
    assert shown == out.read_text()
    assert print_module(module) == shown.partition("\n\n")[2]
    last = [s for s in STAGES if name in (s.level, s.name)][-1]
    assert (stage, module.level) == (last.name, last.level)
    again = invoke("compile", str(out), option, name)
    assert again.stdout == shown
    with np.load(f"{out}.npz") as arrays:
        assert arrays.files == list(resources(module))


def test_emit_llvm_assembly_and_objects(tmp_path: Path) -> None:
    llvm = invoke("compile", MODEL, "--emit", "llvm", "--target", "avx2").output
    assert "define void @main(" in llvm
    assert "<8 x float>" in llvm
    assembly = invoke("compile", MODEL, "--emit", "asm", "--target", "avx512").output
    assert "zmm" in assembly
    assert "vfmadd" in assembly
    assert invoke("compile", MODEL, "--emit", "obj", "-o", str(tmp_path / "o")).exit_code == 0
    assert (tmp_path / "o" / "main.o").read_bytes().startswith(b"\x7fELF")
    assert "give a folder with -o" in misuse("compile", MODEL, "--emit", "obj")


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
        args = ("compile", str(file), "--emit", "program", "-o", str(out))
        assert invoke(*args).exit_code == 0
        assert out.read_text().partition("\n\n")[2] == last


def test_a_guard_that_bound_sizes_fulfil_is_not_told_of(tmp_path: Path) -> None:
    path, dump = tmp_path / "model.onnx", tmp_path / "dump"
    types: list[tuple[str, Any]] = [("x", ["n", 1, "h", "w"]), ("k", [1, 1, 3, 3]), ("y", None)]
    x, k, y = (make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in types)
    graph = make_graph([make_node("Conv", ["x", "k"], ["y"])], "conv", [x, k], [y])
    path.write_bytes(make_model(graph, opset_imports=[make_opsetid("", 21)]).SerializeToString())
    assert invoke("compile", str(path), "--dump", str(dump)).exit_code == 0
    assert "where h >= 3" in InferenceSession(path).report()
    (file,) = dump.glob("*-plan-memory.mcc")
    result = invoke("run", str(file), "--shape", "x=1x1x8x9")
    assert result.exit_code == 0
    assert "where" not in result.stdout + result.stderr


def test_a_resumed_run_dumps_the_same_files(tmp_path: Path) -> None:
    """Into another folder the rest of them, into the same folder without harm to those before."""
    dump, rest = tmp_path / "dump", tmp_path / "rest"
    assert invoke("compile", MODEL, "--dump", str(dump)).exit_code == 0
    before = {f.name: f.read_bytes() for f in dump.iterdir()}
    file = str(dump / "19-tile.mcc")
    assert invoke("compile", file, "--dump", str(rest)).exit_code == 0
    for f in rest.glob("*.mcc"):
        assert f.read_bytes() == before[f.name]
    assert [int(f.name[:2]) for f in sorted(rest.glob("*.mcc"))] == [*range(20, 27)]
    assert invoke("compile", file, "--dump", str(dump)).exit_code == 0
    assert {f.name: f.read_bytes() for f in dump.iterdir()} == before


def test_objects_of_a_resumed_run_are_those_of_a_whole_one(tmp_path: Path) -> None:
    def objects(name: str, *args: str) -> dict[str, bytes]:
        out = tmp_path / name
        assert invoke("compile", *args, "--emit", "obj", "-o", str(out)).exit_code == 0
        return {f.name: f.read_bytes() for f in out.iterdir()}

    assert invoke("compile", MODEL, "--dump", str(tmp_path / "dump")).exit_code == 0
    whole = objects("whole", MODEL)
    for file in ("01-specialise", "16-fuse", "26-parallelize"):
        assert objects(file, str(tmp_path / "dump" / f"{file}.mcc")) == whole


def mistake(file: Path, right: str, wrong: str) -> tuple[str, str]:
    """A dump, edited once: its text from the edited line on, and what resuming from it tells."""
    invoke("compile", MODEL, "--stop-after", "fuse", "-o", str(file))
    before, found, after = file.read_text().partition(right)
    assert found
    file.write_text(before + wrong + after)
    return (before + wrong + after)[before.rfind("\n") + 1 :], failure("compile", str(file))


@pytest.mark.parametrize(
    ("right", "wrong", "spot", "said"),
    [
        (
            "arith.mul",
            "arith.mull",
            "arith.mull",
            "MC0111 error: no op is called arith.mull\n"
            "  at: SPOT\n  hint: did you mean arith.mul?\n",
        ),
        (
            'combine = ["add"]}',
            'combine = ["add"}',
            "} {\n",
            "MC0110 error: '}' stands where ',' or ']' should\n  at: SPOT\n",
        ),
        (
            'combine = ["add"]',
            'combine = ["sum"]',
            "%",
            "MC0147 error: structured.generic: no combiner is called sum (in @main)\n  at: SPOT\n",
        ),
        (
            'level = "structured"',
            'level = "graph"',
            "%0 = structured.group",
            "MC0147 error: structured.group is left over at the level graph (in @main)\n"
            "  at: SPOT\n",
        ),
    ],
)
def test_an_edited_file_with_a_mistake(
    right: str, wrong: str, spot: str, said: str, tmp_path: Path
) -> None:
    """The exact message, at the line and column of the mistake."""
    file = tmp_path / "edited.mcc"
    rest, told = mistake(file, right, wrong)
    whole = file.read_text()
    before = whole[: len(whole) - len(rest) + rest.index(spot)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert told == said.replace("SPOT", f"{file}:{line}:{column}")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("// stage fused:", "MC0105 error: no stage is called 'fused'\n  at: FILE:1\n  hint: "),
        (
            "// stage hoist:",
            "MC0146 error: the stage hoist yields the level kernel, and the module is of "
            "structured\n  at: FILE:1\n",
        ),
    ],
)
def test_an_edited_head_with_a_mistake(wrong: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "edited.mcc"
    _, told = mistake(file, "// stage fuse:", wrong)
    assert told.startswith(said.replace("FILE", str(file)))


def test_a_dump_without_its_arrays(tmp_path: Path) -> None:
    file, arrays = tmp_path / "m.mcc", tmp_path / "m.mcc.npz"
    invoke("compile", MODEL, "--stop-after", "fuse", "-o", str(file))
    arrays.write_bytes(b"no archive")
    told = failure("compile", str(file))
    assert told == f"MC0145 error: can't read the arrays in {arrays}: File is not a zip file\n"
    arrays.unlink()
    assert failure("compile", str(file)).startswith("MC0117 error: the array #")
    file.unlink()
    told = failure("compile", str(file))
    assert told == f"MC0145 error: can't read {file}: No such file or directory\n"


def test_print_after_says_what_did_not_change() -> None:
    shown = invoke("compile", MODEL, "--print-after", "all").output
    assert (
        "// after specialise: bind the free dimensions whose sizes are given (unchanged)" in shown
    )
    assert shown.count("// after ") == len(STAGES)
    changed = invoke("compile", MODEL, "--print-after", "changed").output
    assert "(unchanged)" not in changed
    one = invoke("compile", MODEL, "--print-after", "fuse").output
    assert one.count("// after ") == 1
    assert "structured.group" in one


def test_time_stages_names_each() -> None:
    told = invoke("compile", MODEL, "--time-stages").stderr
    assert all(name in told for name in stage_names())


def test_layers_name_every_stage_and_what_it_mirrors() -> None:
    told = invoke("layers").output
    flat = " ".join(told.split())
    for name in (*stage_names(), *(row.name for row in rows()), "Linalg"):
        assert name in flat
    for part in ("llvm.compile", "llvm.link", "runtime.threads", "ir.structured", "frontends.onnx"):
        assert part in flat
    assert "XLA" in told
    assert max(map(len, told.splitlines())) <= 80


def test_unknown_names_suggest_the_nearest() -> None:
    told = misuse("compile", MODEL, "--stop-after", "fusing")
    assert "no stage is called 'fusing'; did you mean fuse? stages: specialise, split" in told
    assert "did you mean changed?" in misuse("compile", MODEL, "--print-after", "change")
    assert "'--threads'" in misuse("run", MODEL, "--thread", "2")
    assert "'compile'" in misuse("compil", MODEL)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (
            ("FILE", "--emit", "graph"),
            "FILE has been through fuse already, and fold-algorithm",
        ),
        (("FILE", "--print-after", "merge"), "that stage does not run here"),
        ((MODEL, "--stop-after", "fuse", "--emit", "asm"), "--emit asm needs all stages"),
        ((MODEL, "--stop-after", "fuse", "--emit", "kernel"), "after fuse the level is struct"),
    ],
)
def test_options_that_contradict_each_other(
    args: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "m.mcc")
    invoke("compile", MODEL, "--stop-after", "fuse", "-o", file)
    assert text in misuse("compile", *(a.replace("FILE", file) for a in args))


def test_nothing_is_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where a file can't be put in place, nor where writing it fails on the way."""
    out = tmp_path / "out"
    out.mkdir()
    for args in (
        ("run", MODEL, "--input", "image=f32[1,1,8,8]=1", "--save", str(out)),
        ("compile", MODEL, "-o", str(out)),
        ("compile", MODEL, "--emit", "asm", "-o", str(out)),
    ):
        assert f"MC0144 error: can't write {out}" in failure(*args)
    assert "MC0144 error: can't make the folder" in failure("compile", MODEL, "--dump", MODEL)

    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    told = failure("compile", MODEL, "--dump", str(tmp_path / "dump"))
    assert told.endswith("constants.npz: No space left on device\n")
    assert list((tmp_path / "dump").iterdir()) == []
    assert sorted(f.name for f in tmp_path.iterdir()) == ["dump", "out"]


def test_a_bug_is_told_short_and_kept_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def wrong(m: Module, s: Setting) -> Module:
        body = m.main.body
        first = body.ops[0]
        nowhere = first.make(first.operands, first.attrs, first.regions, ())
        nowhere.results = first.results
        return Module(m.level, [m.main.with_body(Region(body.args, [nowhere], body.yields))])

    monkeypatch.setattr(compiler, "STAGES", tuple(s._replace(run=wrong) for s in STAGES))
    result = invoke("compile", MODEL, "--verify")
    assert result.exit_code == 1
    (file,) = tmp_path.iterdir()
    lines = result.stderr.splitlines()
    assert lines[0] == "MC0310 bug in minicc: graph.pad has no location (in @main)"
    assert lines[2] == "  stage: specialise"
    assert lines[3].startswith(">>>   %0 = graph.pad %image {")
    assert lines[4:] == [f"  full text: {file}"]
    whole = file.read_text()
    for text in (lines[0], lines[3], "func @main(", "Traceback", f"minicc {minicc.__version__}"):
        assert text in whole


def test_an_error_that_nobody_foresaw_is_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def boom(*args: object) -> Module:
        raise RuntimeError("boom")

    monkeypatch.setattr(sys.modules["minicc.cli.sources"], "units_of", boom)
    result = invoke("compile", MODEL)
    assert result.exit_code == 1
    (file,) = tmp_path.iterdir()
    assert result.stderr == (
        "MC0308 bug in minicc: RuntimeError: boom\n"
        "  hint: please report it with the text below and the model\n"
        f"  full text: {file}\n"
    )
    assert "Traceback" in file.read_text()
    assert "in boom" in file.read_text()


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
    rows = {line.split()[0]: line.split()[-1] for line in result.stdout.splitlines() if line}
    assert float(rows["simplify-layout"]) < 1e-6
    assert float(rows["lower-to-structured"]) > 1e-3
