"""Texts of every stage run: each dump of small models of five kinds gives what the model gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tests.cli.test_cli import failure, invoke
from tests.sweeps import part

from minicc.api.session import InferenceSession
from minicc.compile.compiler import STAGES, stage_names
from minicc.errors import UserError
from minicc.ir.arrays import Array
from minicc.options import Options

TILE = stage_names().index("tile")
Feed = dict[str, Array]
RNG = np.random.default_rng(0)


def normal(*shape: int, scale: float = 0.3) -> Array:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def model(
    nodes: list[Any], inputs: dict[str, list[Any]], consts: Feed, *outputs: str
) -> ModelProto:
    kinds = {"i": TensorProto.INT64}
    given = [
        helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s)
        for n, s in inputs.items()
    ]
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    init = [numpy_helper.from_array(a, n) for n, a in consts.items()]
    graph = helper.make_graph(nodes, "g", given, made, init)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def residual() -> tuple[ModelProto, Feed]:
    """Convolutions, one of them by Winograd, a residual sum, pooling, a product, a soft-max."""
    pads: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x.0", "w1", "b1"], ["c1"], name="conv1", strides=[2, 2], **pads),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "w2", "b1"], ["c2"], name="conv2", **pads),
        helper.make_node("Add", ["c2", "r1"], ["a"], name="add"),
        helper.make_node("MaxPool", ["a"], ["p"], name="pool", kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"], name="mean"),
        helper.make_node("Flatten", ["g"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "w3"], ["o"], name="gemm"),
        helper.make_node("Softmax", ["o"], ["y"], name="softmax"),
    ]
    weights = {"w1": normal(32, 3, 3, 3), "b1": normal(32), "w3": normal(32, 10)}
    weights["w2"] = normal(32, 32, 3, 3, scale=0.1)
    return model(nodes, {"x.0": [1, 3, 28, 28]}, weights, "y"), {"x.0": normal(1, 3, 28, 28)}


def attention() -> tuple[ModelProto, Feed]:
    """Attention with a residual sum and a norm, both its dimensions free."""
    weights = {name: normal(32, 32) for name in ("q", "k", "v")}
    nodes = [helper.make_node("MatMul", ["x", w], [f"x{w}"], name=w) for w in weights]
    nodes += [
        helper.make_node("Transpose", ["xk"], ["kt"], perm=[0, 2, 1], name="turn"),
        helper.make_node("MatMul", ["xq", "kt"], ["s"], name="scores"),
        helper.make_node("Softmax", ["s"], ["p"], name="softmax"),
        helper.make_node("MatMul", ["p", "xv"], ["o"], name="mix"),
        helper.make_node("Add", ["o", "x"], ["a"], name="residual"),
        helper.make_node("LayerNormalization", ["a", "g"], ["y"], name="norm"),
    ]
    made = model(nodes, {"x": ["batch", "seq", 32]}, {**weights, "g": normal(32)}, "y")
    return made, {"x": normal(2, 19, 32)}


def recurrent() -> tuple[ModelProto, Feed]:
    """A GRU whose number of steps is free: a loop at every level."""
    names = ["x", "w", "r", "b"]
    nodes = [
        helper.make_node("GRU", names, ["ys", "h"], hidden_size=16, name="gru"),
        helper.make_node("Squeeze", ["ys", "one"], ["s"], name="squeeze"),
        helper.make_node("Relu", ["s"], ["y"], name="relu"),
    ]
    weights = {"w": normal(1, 48, 8), "r": normal(1, 48, 16), "b": normal(1, 96)}
    weights["one"] = np.array([1], np.int64)
    return model(nodes, {"x": ["steps", 2, 8]}, weights, "y", "h"), {"x": normal(11, 2, 8)}


def branching() -> tuple[ModelProto, Feed]:
    """A branch that data choose, and a gather whose indices are checked when it runs."""
    yes, no = (
        helper.make_graph(
            [helper.make_node(op, ["t"], [f"{op}_out"], name=op)],
            op,
            [],
            [helper.make_tensor_value_info(f"{op}_out", TensorProto.FLOAT, [3, 5])],
        )
        for op in ("Exp", "Neg")
    )
    nodes = [
        helper.make_node("Gather", ["x", "i"], ["t"], name="choose"),
        helper.make_node("ReduceSum", ["t"], ["s"], keepdims=0, name="sum"),
        helper.make_node("Greater", ["s", "zero"], ["c"], name="greater"),
        helper.make_node("If", ["c"], ["y"], then_branch=yes, else_branch=no, name="if"),
    ]
    made = model(nodes, {"x": [7, 5], "i": [3]}, {"zero": np.zeros((), np.float32)}, "y")
    return made, {"x": normal(7, 5), "i": np.array([6, 0, 2])}


def elementwise() -> tuple[ModelProto, Feed]:
    """Little ops alone, of a free and an odd size, and an output that is an input of another."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"], name="sigmoid"),
        helper.make_node("Mul", ["x", "s"], ["m"], name="mul"),
        helper.make_node("Transpose", ["m"], ["t"], perm=[1, 0], name="turn"),
        helper.make_node("CumSum", ["t", "axis"], ["y"], name="cumsum"),
    ]
    made = model(nodes, {"x": ["n", 37]}, {"axis": np.array(1)}, "y", "m")
    return made, {"x": normal(13, 37)}


@pytest.mark.parametrize("make", part([residual, attention, recurrent, branching, elementwise], 3))
def test_the_text_of_every_stage_runs_as_the_model(make: Any, tmp_path: Path) -> None:
    """The same values, and the same bits from `tile` on, where no more sums are reordered."""
    proto, feed = make()
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    assert invoke("compile", str(path), "--dump", str(tmp_path / "dump")).exit_code == 0
    session = InferenceSession(path, threads=2)
    want = session.run(None, feed)
    files = sorted((tmp_path / "dump").glob("*.mcc"))
    assert len(files) == len(STAGES)
    for number, file in part(enumerate(files), 3):
        text = InferenceSession(file, threads=2)
        assert [o.name for o in text.get_outputs()] == [o.name for o in session.get_outputs()]
        got = text.run(None, feed)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=file.name)
            if number >= TILE:
                assert a.tobytes() == b.tobytes(), file.name


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stages of the attention, in a folder; its input and output beside them."""
    folder = tmp_path_factory.mktemp("dump")
    proto, feed = attention()
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    np.save(folder / "x.npy", feed["x"])
    np.save(folder / "y.npy", InferenceSession(path).run(None, feed)[0])
    assert invoke("compile", str(path), "--dump", str(folder)).exit_code == 0
    return folder


def file_of(folder: Path, stage: str) -> str:
    return str(next(folder.glob(f"*-{stage}.mcc")))


@pytest.mark.parametrize("stage", part(["specialise", "lower-to-structured", "tile", "hoist"], 3))
def test_commands_take_a_text(dump: Path, stage: str) -> None:
    file, given = file_of(dump, stage), ("--input", f"x=@{dump / 'x.npy'}")
    run = invoke("run", file, *given, "--expected", f"y=@{dump / 'y.npy'}", "--threads", "1")
    assert run.exit_code == 0, run.output
    strict = invoke("run", file, *given, "--math", "strict", "--target", "x86-64", "--json")
    assert list(json.loads(strict.stdout)["outputs"]) == ["y"]
    bench = invoke("bench", file, *given, "--seconds", "0.05", "--profile", "2", "--json")
    assert len(json.loads(bench.stdout)["launches"]) == 2
    verify = json.loads(invoke("verify", file, *given, "--json").stdout)
    assert verify["agrees"]
    after = [row["after"] for row in verify["parts"][0]["rows"]][:-2]
    assert set(after) <= set(stage_names()[stage_names().index(stage) + 1 :])
    bound = invoke("compile", file, "--shape", "x=1x4x32", "--emit", "program")
    assert "%x: buffer<f32[1,4,32]>" in bound.stdout


def test_a_text_serves_all_sizes_or_says_which(dump: Path) -> None:
    session = InferenceSession(file_of(dump, "bufferize"))
    whole = InferenceSession(dump / "model.onnx")
    for shape in ((1, 1, 32), (3, 40, 32)):
        x = normal(*shape)
        assert session.run(None, {"x": x})[0].tobytes() == whole.run(None, {"x": x})[0].tobytes()
    with pytest.raises(UserError, match="MC0164"):
        session.run(["softmax"], {"x": normal(1, 1, 32)})


def test_parts_of_a_model_run_each_by_itself(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("NonZero", ["r"], ["i"], name="find"),
        helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0], name="turn"),
        helper.make_node("GatherND", ["r", "t"], ["g"], name="take"),
        helper.make_node("Exp", ["g"], ["y"], name="exp"),
    ]
    path, x = tmp_path / "m.onnx", normal(4, 5)
    path.write_bytes(model(nodes, {"x": [4, 5]}, {}, "y").SerializeToString())
    assert invoke("compile", str(path), "--dump", str(tmp_path / "dump")).exit_code == 0
    found: Feed = {"x": x}
    for segment, name in (("part-1/*-tile", "r"), ("part-2/host", "i"), ("part-3/*-fuse", "y")):
        session = InferenceSession(next((tmp_path / "dump").glob(f"{segment}.mcc")))
        taken = [a.name for a in session.get_inputs()]
        (found[name],) = session.run(None, {n: found.get(n, found.get("r")) for n in taken})
    np.testing.assert_array_equal(found["i"], np.nonzero(np.maximum(x, 0)))
    assert found["y"].tobytes() == InferenceSession(path).run(None, {"x": x})[0].tobytes()


def test_a_size_that_no_input_says(tmp_path: Path) -> None:
    file = tmp_path / "part.mcc"
    file.write_text(
        'module level = "graph"\n\n'
        'func @main(%x: f32[2*$n]) -> ("y": f32[2*$n]) {sizes = ["$n"]} {\n'
        '  %0 = graph.add %x, %x : f32[2*$n] loc("twice")\n'
        "  yield %0\n}\n"
    )
    with pytest.raises(UserError, match=r"MC0104 .*no input says the size \$n"):
        InferenceSession(file)
    session = InferenceSession(file, options=Options(sizes={"n": 3}))
    assert session.run(None, {"x": normal(6)})[0].shape == (6,)


def test_a_pass_that_comes_too_early(tmp_path: Path) -> None:
    """What only the pass itself can find is the user's error as well."""
    path, text = tmp_path / "m.onnx", str(tmp_path / "m.mcc")
    path.write_bytes(residual()[0].SerializeToString())
    stop = ("--stop-after", "choose-algorithm")
    assert invoke("compile", str(path), *stop, "-o", text).exit_code == 0
    told = failure("opt", text, "--passes", "lower-to-structured")
    assert told.startswith("MC0119 error: lower-to-structured can't take the module there: ")
    assert "fold-algorithm wanted before it" in told


def test_a_text_of_ones_own_runs(tmp_path: Path) -> None:
    """No line names a stage: what there is to do follows from the level."""
    file = tmp_path / "own.mcc"
    file.write_text(
        'module level = "graph"\n\n'
        'func @main(%x: f32[n,4]) -> ("y": f32[n,4]) {\n'
        '  %0 = graph.add %x, %x : f32[n,4] loc("twice")\n'
        "  yield %0\n}\n"
    )
    x = normal(3, 4)
    np.testing.assert_array_equal(InferenceSession(file).run(None, {"x": x})[0], x + x)
    lower = tmp_path / "lower.mcc"
    text = invoke("compile", str(file), "--stop-after", "lower-to-structured").stdout
    lower.write_text(text)
    np.testing.assert_array_equal(InferenceSession(lower).run(None, {"x": x})[0], x + x)


def test_stages_can_be_left_out(dump: Path) -> None:
    model, x = str(dump / "model.onnx"), np.load(dump / "x.npy")
    want = np.load(dump / "y.npy")
    optional = [s.name for s in STAGES if not s.needed]
    for skip in ([name] for name in part(optional, 3)):
        got = InferenceSession(model, options=Options(skip=skip)).run(None, {"x": x})[0]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=skip[0])
    got = InferenceSession(model, options=Options(skip=optional)).run(None, {"x": x})[0]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert failure("run", model, "--skip", "fuse", "--shape", "x=1x1x32").startswith(
        "MC0118 error: fuse can't be left out: what is after it relies on what it does\n"
    )
    assert "MC0105" in failure("run", model, "--skip", "fusing", "--shape", "x=1x1x32")
    shown = invoke("compile", model, "--skip", "merge", "--print-after", "all").stdout
    assert "after merge" not in shown


def test_what_was_left_out_is_not_found_for_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache of programs keeps the two apart."""
    path = tmp_path / "m.onnx"
    path.write_bytes(recurrent()[0].SerializeToString())

    def launches(**given: Any) -> str:
        options = Options(cache_dir=tmp_path / "cache", **given)
        report = InferenceSession(path, options=options).report()
        return report.partition("launches")[0].split()[-1]

    whole, without = launches(), launches(skip=["merge"])
    assert int(without) > int(whole)
    assert (launches(), launches(skip="merge")) == (whole, without)
    monkeypatch.setenv("MINICC_SKIP", "merge, hoist")
    assert Options().skip == ("hoist", "merge")
    assert launches() == without
    with pytest.raises(UserError, match="MC0101"):
        Options(skip=[3])  # type: ignore[list-item]
