"""`inspect`, `bench`, `opt`, and what `run` compares."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from tests.cli.test_cli import FOLDER, MODEL, failure, invoke, misuse

from minicc.api.session import InferenceSession
from minicc.compile.compiler import STAGES, input_level
from minicc.compile.profile import profile


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """The first image and what the network gives for it, as files."""
    with np.load(FOLDER / "images.npz") as stored:
        np.save(tmp_path / "x.npy", stored["images"][:1])
        np.save(tmp_path / "y.npy", stored["probabilities"][:1])
    return str(tmp_path / "x.npy"), str(tmp_path / "y.npy")


def test_inspect_tells_of_a_model() -> None:
    told = json.loads(invoke("inspect", MODEL, "--json").stdout)
    assert told["inputs"] == {"image": "f32[1,1,8,8]"}
    assert told["outputs"] == {"probabilities": "f32[1,10]"}
    assert told["free_dimensions"] == []
    assert told["ops"]["graph.conv"] == 2
    assert told["constant_bytes"] >= 4 * told["parameters"] - 4 * told["constants"]
    shown = invoke("inspect", MODEL).stdout
    assert "image" in shown
    assert "f32[1,1,8,8]" in shown
    assert invoke("inspect", MODEL, "--text").stdout.startswith('module level = "graph"')


def test_inspect_tells_what_data_decide(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"], name="again")],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]),
            helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=9).SerializeToString())
    told = json.loads(invoke("inspect", str(path), "--json").stdout)
    assert told["inputs"] == {"x": "f32[n,4]", "shape": "i64[2]"}
    assert told["outputs"] == {"y": "f32[$y_0,$y_1]"}
    assert told["ops"] == {"graph.host": 1}
    assert told["free_dimensions"] == ["n"]
    assert "f32[$y_0,$y_1]" in invoke("inspect", str(path)).stdout


def test_inspect_tells_what_wants_sizes(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["y"], name="again")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=9).SerializeToString())
    told = json.loads(invoke("inspect", str(path), "--json").stdout)
    assert told["inputs"] == {"x": "f32[...]"}
    assert told["operators"] == {"Exp": 1}
    assert told["wants_sizes"] == ["x: the input x has no known rank"]
    assert "which nodes want to know" in invoke("inspect", str(path)).stdout


def test_expected_outputs_agree(files: tuple[str, str]) -> None:
    x, y = files
    result = invoke("run", MODEL, "--input", f"image=@{x}", "--expected", f"probabilities=@{y}")
    assert result.exit_code == 0, result.output
    assert "probabilities: as expected" in result.stdout


def test_an_output_that_differs_ends_with_1(files: tuple[str, str], tmp_path: Path) -> None:
    x, y = files
    wrong = np.load(y)
    wrong[0, 3] += 0.5
    np.save(tmp_path / "wrong.npy", wrong)
    given = ("run", MODEL, "--input", f"image=@{x}")
    asked = ("--expected", f"probabilities=@{tmp_path / 'wrong.npy'}")
    result = invoke(*given, *asked)
    assert result.exit_code == 1
    assert "probabilities: 1 of 10 elements differ, most at [0, 3]" in result.stdout
    assert invoke(*given, *asked, "--atol", "1").exit_code == 0
    row = json.loads(invoke(*given, *asked, "--json").stdout)["expected"]["probabilities"]
    assert (row["agrees"], row["differing"], row["where"]) == (False, 1, [0, 3])
    shape = invoke(*given, "--expected", "probabilities=f32[2,5]=0.5")
    assert shape.exit_code == 1
    assert "the shape is [1, 10] and [2, 5] was expected" in shape.stdout


def test_outputs_by_name(files: tuple[str, str]) -> None:
    given = ("run", MODEL, "--input", f"image=@{files[0]}")
    told = json.loads(invoke(*given, "--outputs", "probabilities", "--json").stdout)
    assert list(told["outputs"]) == ["probabilities"]
    assert "outputs: probabilities" in failure(*given, "--expected", "probs=f32[1,10]=0")


def test_opt_is_the_compiler_pass_by_pass(tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    assert invoke("compile", MODEL, "--dump", str(dump)).exit_code == 0
    names = [s.name for s in STAGES]
    first, last = names.index("lower-to-structured"), names.index("pack")
    files = sorted(dump.glob("*.mcc"))
    passes = ",".join(names[first + 1 : last + 1])
    text = invoke("opt", str(files[first]), "--passes", passes).stdout
    assert text == files[last].read_text()
    out = tmp_path / "out.mcc"
    assert invoke("opt", str(files[first]), "--passes", "merge", "-o", str(out)).exit_code == 0
    again = invoke("opt", str(out), "--passes", "split-sums")
    assert again.stdout == files[first + 2].read_text()
    assert invoke("compile", str(out)).stdout == files[-1].read_text()


def test_opt_refuses_what_does_not_fit(tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    assert invoke("compile", MODEL, "--stop-after", "merge", "--dump", str(dump)).exit_code == 0
    file = str(sorted(dump.glob("*-merge.mcc"))[0])
    assert "did you mean fuse" in misuse("opt", file, "--passes", "fuze")
    told = misuse("opt", file, "--passes", "fuse,simplify")
    assert "simplify takes a module of level graph, and it is of structured there" in told
    assert told.endswith("simplify is wanted before lower-to-structured")
    assert misuse("opt", file, "--passes", "unroll").endswith("bufferize is wanted before unroll")
    assert misuse("opt", file, "--passes", "tile").endswith("schedule is wanted before it")
    assert "MC0145" in failure("opt", str(tmp_path / "none.mcc"), "--passes", "fuse")


def test_levels_of_stages_join() -> None:
    assert input_level(STAGES[0]) == "graph"
    assert [input_level(s) for s in STAGES[1:]] == [s.level for s in STAGES[:-1]]


def test_bench_measures_and_profiles() -> None:
    result = invoke("bench", MODEL, "--seconds", "0.05", "--profile", "3", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    row = told["engines"]["minicc"]
    assert row["runs"] >= 20
    assert 0 < row["min_ms"] <= row["median_ms"]
    assert len(told["launches"]) == 3
    assert told["launches"][0]["us"] >= told["launches"][-1]["us"]
    shown = invoke("bench", MODEL, "--seconds", "0.05", "--profile", "2", "--threads", "1")
    assert "median ms" in shown.stdout
    assert "points/ns" in shown.stdout


def test_a_profile_has_each_launch_once() -> None:
    session = InferenceSession(MODEL, threads=1)
    image = np.zeros((1, 1, 8, 8), np.float32)
    found = profile(session.module, session.options, {}, [image], rounds=2)
    assert sum(launch.work > 0 for launch in found) == len(found) == 8
    assert all(launch.seconds > 0 for launch in found)
    assert {name for launch in found for name in launch.sources} >= {"conv1", "gemm"}


def test_a_profile_leaves_out_what_never_runs() -> None:
    """A block of 1,024 keys for a model of few: it would read beyond all keys."""
    nodes = ["s = MatMul (q, k)", "p = Softmax (s)", "y = MatMul (p, v)"]
    text = f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[h,n,64] q, float[h,64,n] k, float[h,n,64] v) => (float[h,n,64] y) {{
            {" ".join(nodes)} }}"""
    session = InferenceSession(parser.parse_model(text).SerializeToString(), threads=1)
    rng = np.random.default_rng(0)
    few, many = ([rng.random(s, np.float32) for s in ((2, n, 64), (2, 64, n), (2, n, 64))]
                 for n in (70, 1100))  # fmt: skip
    counts = [len(profile(session.module, session.options, {}, x, rounds=1)) for x in (few, many)]
    assert counts[0] < counts[1]


def test_a_report_of_what_is_compiled() -> None:
    result = invoke("compile", MODEL, "--report", "--target", "x86-64")
    assert result.exit_code == 0, result.output
    assert "17 of 17 graph ops become machine code, 0 stay on the host" in result.stdout
    row = next(line.split() for line in result.stdout.splitlines() if line.startswith(" 1"))
    assert row[2:4] == ["8", "8"]
    assert "target x86-64" in result.stdout


def test_a_report_says_what_stays_on_the_host(tmp_path: Path) -> None:
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 900]),
    ]
    k = numpy_helper.from_array(np.array([600]), "k")
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("TopK", ["r", "k"], ["g", ""], name="choose"),
        helper.make_node("Exp", ["g"], ["y"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 600])]
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, [k]), opset_imports=opsets, ir_version=9
    )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    told = invoke("compile", str(tmp_path / "m.onnx"), "--report").stdout
    assert "2 of 3 graph ops become machine code, 1 stays on the host" in told
    assert "on the host: 1 because graph.top_k has no lowering: choose" in told


def test_verify_refuses_an_index_out_of_range(tmp_path: Path) -> None:
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3]),
        helper.make_tensor_value_info("i", TensorProto.INT64, [2]),
    ]
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"], name="choose")]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])]
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs), opset_imports=opsets, ir_version=9
    )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    asked = ("verify", str(tmp_path / "m.onnx"), "--input")
    assert "same bits at 1 and 2 threads: yes" in invoke(*asked, "i=i64[2]=-4,3").stdout
    told = invoke(*asked, "i=i64[2]=0,4")
    assert told.exit_code == 1
    said = "MC0158 error: graph.gather: index 4 leaves an extent of 4\n  at: choose\n"
    assert told.stderr.endswith(said)


def test_rules_are_numbered(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3])
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], name="there", perm=[1, 0]),
        helper.make_node("Transpose", ["a"], ["b"], name="back", perm=[1, 0]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])
    opsets = [helper.make_opsetid("", 17)]
    graph = helper.make_graph(nodes, "g", [x], [y])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    asked = ("compile", str(tmp_path / "m.onnx"), "--stop-after", "simplify")
    lines = invoke(*asked, "--applications").stdout.splitlines()
    assert lines[0].startswith("1 ")
    assert "back" in lines[0]
    assert invoke(*asked, "--applications", "--apply-first", "0").stdout == ""
    assert invoke(*asked, "--apply-first", "0").stdout.count("graph.transpose") == 2
    assert "graph.transpose" not in invoke(*asked).stdout


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    """A pipe is not put aside by a file, nor is a link; nothing lies beside them."""
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    link.symlink_to(target)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        made = invoke("compile", MODEL, "-o", str(pipe))
        text = read.result(timeout=60)
    linked = invoke("compile", MODEL, "-o", str(link))
    assert made.exit_code == linked.exit_code == 0, made.output + linked.output
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert target.read_text() == text
    assert not list(tmp_path.glob("pipe.*"))
