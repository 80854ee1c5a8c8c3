"""`compile` and `verify` on models in several parts: ops on the host, and what data decide."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.cli.test_cli import invoke, misuse

from minicc.compile.compiler import STAGES
from minicc.compile.observe import load_dump
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.rewrite import Rebuilder
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module
from minicc.passes.structured.lower_to_structured import LOWER

F, INT, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
SHAPE = ("--shape", "x=3x8")


@pytest.fixture(autouse=True)
def nothing_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops that place elements where data say stay on the host, however few these are."""
    monkeypatch.setattr("minicc.passes.graph.expand._LONGEST", 0)
    monkeypatch.setattr("minicc.passes.graph.expand._FEW", 0)


def info(name: str, kind: int = F, shape: Sequence[int | str] | None = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name: str, value: Any, dtype: Any = np.float32) -> Any:
    return numpy_helper.from_array(np.array(value, dtype), name)


def write(
    folder: Path,
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    initialisers: Sequence[Any] = (),
) -> str:
    graph = helper.make_graph(nodes, "g", inputs, outputs, initialisers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return str(folder / "m.onnx")


@pytest.fixture
def hosted(tmp_path: Path) -> str:
    """A product, the two largest of each row on the host, and a soft-max of them."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["s"], name="there", perm=[1, 0]),
        helper.make_node("Transpose", ["s"], ["t"], name="back", perm=[1, 0]),
        helper.make_node("MatMul", ["t", "w"], ["m"], name="product"),
        helper.make_node("TopK", ["m", "k"], ["v", "i"], name="best"),
        helper.make_node("Cast", ["i"], ["c"], name="cast", to=F),
        helper.make_node("Mul", ["v", "c"], ["p"], name="times"),
        helper.make_node("Transpose", ["p"], ["q"], name="out", perm=[1, 0]),
        helper.make_node("Transpose", ["q"], ["r"], name="home", perm=[1, 0]),
        helper.make_node("Softmax", ["r"], ["y"], name="soft"),
    ]
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    held = [numpy_helper.from_array(weights, "w"), constant("k", [2], np.int64)]
    return write(tmp_path, nodes, [info("x", F, ["n", 8])], [info("y", F, ["n", 2])], held)


@pytest.fixture
def chosen(tmp_path: Path) -> str:
    """A branch by an input."""
    then = helper.make_graph(
        [helper.make_node("Mul", ["r", "two"], ["t"], name="double")],
        "then",
        [],
        [info("t")],
        [constant("two", 2)],
    )
    other = helper.make_graph(
        [helper.make_node("ReduceMax", ["r"], ["e"], name="most", axes=[0], keepdims=0)],
        "else",
        [],
        [info("e")],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("If", ["c"], ["b"], name="choice", then_branch=then, else_branch=other),
        helper.make_node("Abs", ["b"], ["y"], name="abs"),
    ]
    return write(tmp_path, nodes, [info("x", F, [3, 4]), info("c", B, [])], [info("y")])


@pytest.fixture
def looped(tmp_path: Path) -> str:
    """A loop whose rounds are counted when it runs, with a row of each, and nothing else."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["on"]),
            helper.make_node("Add", ["v", "v"], ["w"], name="add"),
        ],
        "body",
        [info("k", INT, []), info("c", B, []), info("v")],
        [info("on", B, []), info("w"), info("w")],
    )
    nodes = [helper.make_node("Loop", ["most", "", "x"], ["y", "all"], body=body, name="rounds")]
    inputs = [info("x", F, [3]), info("most", INT, [])]
    return write(tmp_path, nodes, inputs, [info("y"), info("all")])


HEADS = (
    "// part 1 becomes machine code\n//   takes x: f32[3,8]\n//   gives m: f32[3,8]\n",
    "// part 2 runs on the host\n//   best: graph.top_k has no lowering\n"
    "//   takes m: f32[3,8]\n//   gives v: f32[3,2], i: i64[3,2]\n",
    "// part 3 becomes machine code\n//   takes i: i64[3,2], v: f32[3,2]\n//   gives y: f32[3,2]\n",
)


def test_all_parts_are_printed_in_order(hosted: str) -> None:
    shown = invoke("compile", hosted, *SHAPE, "--emit", "graph")
    assert shown.exit_code == 0, shown.output
    whole = [
        invoke("compile", hosted, *SHAPE, "--emit", "graph", "--part", str(k)) for k in (1, 2, 3)
    ]
    assert shown.stdout == "\n".join(part.stdout for part in whole)
    for part, head in zip(whole, HEADS, strict=True):
        assert part.stdout.startswith(head)
    for part in whole[1:]:
        assert part.stdout.endswith(print_module(parse_module(part.stdout)))
    assert "graph.top_k %m {axis = 1, k = 2}" in whole[1].stdout
    program = invoke("compile", hosted, *SHAPE).stdout
    assert program.count("program.launch") == 2
    assert program.count("graph.top_k %m") == 1


def test_a_dump_has_a_folder_for_each_part(hosted: str, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    result = invoke("compile", hosted, *SHAPE, "--dump", str(dump), "--verify")
    assert result.exit_code == 0, result.output
    names = [f"{k:02d}-{s.name}.mcc" for k, s in enumerate(STAGES, 1)]
    folders = {p.name: sorted(f.name for f in p.glob("*.mcc")) for p in sorted(dump.iterdir())}
    assert folders == {"part-1": names, "part-2": ["host.mcc"], "part-3": names}
    assert result.stderr == f"written: {dump}/part-1, {dump}/part-2, {dump}/part-3\n"
    assert load_dump(dump / "part-2" / "host.mcc")[1].level == "graph"
    file = dump / "part-3" / "16-fuse.mcc"
    assert HEADS[2] in file.read_text()
    resumed = invoke("compile", str(file), "--emit", "program").stdout
    assert HEADS[2] + resumed == invoke("compile", hosted, *SHAPE, "--part", "3").stdout
    one = tmp_path / "one"
    assert invoke("compile", hosted, *SHAPE, "--part", "3", "--dump", str(one)).exit_code == 0
    assert (one / "16-fuse.mcc").read_bytes() == file.read_bytes()


def test_files_have_the_numbers_of_parts(hosted: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for form, name in (("structured", "m.mcc"), ("asm", "m.s"), ("obj", "objects")):
        result = invoke("compile", hosted, *SHAPE, "--emit", form, "-o", str(out / name))
        assert result.exit_code == 0, result.output
        assert result.stdout == ""
    found = sorted(p.name for p in out.iterdir())
    modules = ["m.1.mcc", "m.1.mcc.npz", "m.1.s", "m.2.mcc", "m.3.mcc", "m.3.s"]
    assert found == [*modules, "objects"]
    assert load_dump(out / "m.1.mcc")[0] == "peel"
    assert load_dump(out / "m.2.mcc")[1].level == "graph"
    assert (out / "m.3.s").read_text().startswith(HEADS[2].replace("//", "#"))
    assert sorted(p.name for p in (out / "objects").iterdir()) == ["part-1", "part-3"]
    for k in (1, 3):
        assert (out / "objects" / f"part-{k}" / "main.o").read_bytes().startswith(b"\x7fELF")
    asked = ("--emit", "llvm", "--part", "1", "-o", str(out / "m.ll"))
    assert invoke("compile", hosted, *SHAPE, *asked).exit_code == 0
    assert "define void @main(" in (out / "m.ll").read_text()


def test_parts_that_are_not_there_or_pass_no_stages(hosted: str, tmp_path: Path) -> None:
    told = misuse("compile", hosted, *SHAPE, "--part", "4")
    assert told.endswith("Error: --part 4: the parts there are: 1, 2, 3")
    for asked in (("--emit", "llvm"), ("--stop-after", "fuse"), ("--print-after", "all")):
        told = misuse("compile", hosted, *SHAPE, "--part", "2", *asked)
        said = "Error: part 2 runs on the host and passes no stages; the parts that do: 1, 3"
        assert told.endswith(said)
    assert "--emit and --part" in misuse("compile", hosted, "--report", "--part", "1")


def test_parts_of_free_dimensions(hosted: str) -> None:
    shown = invoke("compile", hosted, "--emit", "graph").stdout
    assert shown.startswith("// part 1 becomes machine code\n//   takes x: f32[$n,8]\n")
    assert "//   gives v: f32[$n,2], i: i64[$n,2]\n" in shown


def test_stages_of_all_parts(hosted: str) -> None:
    shown = invoke("compile", hosted, *SHAPE, "--print-after", "fuse").stdout
    places = [shown.index(head) for head in HEADS]
    assert places == sorted(places)
    assert shown.count("// after fuse: ") == 2
    times = invoke("compile", hosted, *SHAPE, "--time-stages").stderr
    assert times.count("lower-to-structured") == 1
    rules = invoke("compile", hosted, *SHAPE, "--applications").stdout
    first, third = (invoke("compile", hosted, *SHAPE, "--applications", "--part", k) for k in "13")
    assert first.stdout.startswith(f"{HEADS[0]}1 ")
    assert third.stdout.startswith(f"{HEADS[2]}1 ")
    assert rules.startswith(f"{first.stdout}\n{HEADS[1]}")
    lines = [line for line in rules.splitlines() if line[:1].isdigit()]
    assert [line.split()[0] for line in lines] == [str(k + 1) for k in range(len(lines))]
    assert any(line.endswith("out, home") for line in lines)
    none = invoke("compile", hosted, *SHAPE, "--applications", "--apply-first", "0").stdout
    assert none == "\n".join(HEADS)


def test_a_report_has_all_parts(hosted: str) -> None:
    lines = invoke("compile", hosted, *SHAPE, "--report").stdout.splitlines()
    assert lines[0].endswith("graph ops become machine code, 1 stays on the host")
    assert lines[1] == "  on the host: 1 because graph.top_k has no lowering: best"
    rows = [line.split() for line in lines[3:6]]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert rows[1] == ["2", "1", "host"]


def test_verify_compares_each_part(hosted: str) -> None:
    result = invoke("verify", hosted, *SHAPE)
    assert result.exit_code == 0, result.output
    places = [result.stdout.index(head.replace("// ", "").replace("//", "")) for head in HEADS]
    assert places == sorted(places)
    assert result.stdout.count("same bits at 1 and 2 threads: yes") == 2


def test_verify_finds_the_part_that_is_wrong(hosted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts after are compared on the right values, and are not blamed."""
    right = LOWER[graph.Contract]

    def wrong(b: Rebuilder, op: graph.Contract, operands: tuple[Value, ...]) -> Value:
        return right(b, op, operands[::-1])

    monkeypatch.setitem(LOWER, graph.Contract, wrong)
    result = invoke("verify", hosted, "--shape", "x=8x8", "--stage", "fuse")
    assert result.exit_code == 1
    assert "differs by more than its class allows" in result.stderr
    first, third = result.stdout.split("part 2 runs")
    rows = [next(t for t in text.splitlines() if t.startswith(" fuse")) for text in (first, third)]
    assert float(rows[0].split()[-1]) > 1e-3
    assert float(rows[1].split()[-1]) < 1e-6


def test_an_index_out_of_range_names_the_node(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("ScatterElements", ["e", "i", "x"], ["g"], name="put"),
        helper.make_node("Neg", ["g"], ["y"]),
    ]
    inputs = [info("x", F, [4, 3]), info("i", INT, [4, 3])]
    path = write(tmp_path, nodes, inputs, [info("y", F, [4, 3])])
    told = invoke("verify", path, "--input", "i=i64[4,3]=9")
    assert told.exit_code == 1
    assert told.stderr.endswith(
        "MC0158 error: graph.scatter_elements: index 9 leaves an extent of 4\n  at: put\n"
    )


def test_branches_of_unlike_shapes_are_parts(chosen: str, tmp_path: Path) -> None:
    shown = invoke("compile", chosen, "--emit", "graph").stdout
    heads = [line for line in shown.splitlines() if line.startswith("// part")]
    assert heads == [
        "// part 1 becomes machine code",
        "// part 2 runs on the host",
        "// part 3, of each round or branch of choice, becomes machine code",
        "// part 4, of each round or branch of choice, becomes machine code",
    ]
    assert "//   choice: its branches give values of different shapes\n" in shown
    report = invoke("compile", chosen, "--report").stdout
    assert report.startswith("5 of 6 graph ops become machine code, 1 stays on the host")
    program = tmp_path / "m.mcp"
    assert invoke("compile", chosen, "-o", str(program)).exit_code == 0
    told = invoke("verify", str(program))
    assert told.exit_code == 0, told.output
    assert told.stdout.count("\n segment ") == 6  # three at two numbers of threads


def test_verify_runs_what_data_decide(chosen: str) -> None:
    for value, number, gives in (("1", 3, "f32[3,4]"), ("0", 4, "f32[4]")):
        result = invoke("verify", chosen, "--input", f"c=bool[]={value}", "--stage", "fuse")
        assert result.exit_code == 0, result.output
        place = f"part {number}, of each round or branch of choice, becomes machine code\n"
        assert place in result.stdout
        assert f": {gives}\n" in result.stdout.split(place)[1]
        assert result.stdout.count("same bits at 1 and 2 threads: yes") == 2


def test_the_body_of_a_loop_is_a_part(looped: str) -> None:
    shown = invoke("compile", looped, "--emit", "graph").stdout
    assert "//   rounds: data decide how often it runs, or what its rounds give\n" in shown
    assert "// part 2, of each round or branch of rounds, becomes machine code\n" in shown
    result = invoke("verify", looped, "--input", "most=i64[]=3", "--stage", "merge")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("becomes machine code") == 1


def test_verify_where_nothing_is_compiled(tmp_path: Path) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["y"], name="places")]
    path = write(tmp_path, nodes, [info("x", F, [3])], [info("y", INT, [1, "n"])])
    result = invoke("verify", path)
    assert result.exit_code == 0, result.output
    said = "no part of this model is compiled: there is nothing to compare\n"
    assert result.stdout.endswith(said)
    told = misuse("compile", path, "--part", "2")
    assert told.endswith("--part 2: the parts there are: 1")
