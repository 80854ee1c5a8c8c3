"""ONNX's If is a branch of the graph, compiled with the rest, where both sides give one type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from tests.models.test_data_decides import INT, Array, B, F, info

import minicc
from minicc.errors import UserError
from minicc.frontends.onnx.importer import Importer, import_model
from minicc.frontends.onnx.model.reader import Node
from minicc.ir import graph
from minicc.ir.core import walk
from minicc.options import Options

X = np.arange(1, 7, dtype=np.float32)
W = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)


def branch(nodes: Sequence[Any], result: str, *constants: Any) -> Any:
    """A graph that gives one value."""
    return helper.make_graph(nodes, result, [], [info(result, F)], constants)


def scaled(factor: float, source: str = "x") -> Any:
    """`source` times a number that only this graph knows."""
    number = numpy_helper.from_array(np.array(factor, np.float32), "number")
    return branch([helper.make_node("Mul", [source, "number"], ["s"])], "s", number)


def either(condition: str, out: str, then: Any, other: Any) -> Any:
    """An If."""
    return helper.make_node(
        "If", [condition], [out], name=f"if {out}", then_branch=then, else_branch=other
    )


def model(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], *constants: Any
) -> bytes:
    made = helper.make_graph(nodes, "g", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17)]
    proto = helper.make_model(made, opset_imports=opsets, ir_version=9)
    return bytes(proto.SerializeToString())


def session(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], *constants: Any
) -> minicc.InferenceSession:
    """A session whose model is one program."""
    s = minicc.InferenceSession(model(nodes, inputs, outputs, *constants), threads=1)
    assert any(isinstance(op, graph.If) for op in walk(s.module.main.body))
    assert "parts" not in s.report()
    return s


@pytest.mark.parametrize("shape", [[], [1], [1, 1]])
def test_both_outcomes(shape: list[int]) -> None:
    product = branch([helper.make_node("MatMul", ["x", "w"], ["p"])], "p")
    same = branch([helper.make_node("Identity", ["x"], ["i"])], "i")
    nodes = [either("c", "b", product, same), helper.make_node("Neg", ["b"], ["y"])]
    weights = numpy_helper.from_array(W, "w")
    s = session(nodes, [info("x", F, [6]), info("c", B, shape)], [info("y", F)], weights)
    for c in (True, False, True):
        (y,) = s.run(None, {"x": X, "c": np.full(shape, c)})
        np.testing.assert_allclose(y, -(X @ W) if c else -X, rtol=1e-5)


def test_nested() -> None:
    inner = [either("d", out, scaled(k), scaled(k + 1)) for k, out in ((2, "a"), (4, "e"))]
    nodes = [either("c", "y", *[branch([n], n.output[0]) for n in inner])]
    inputs = [info("x", F, [6]), info("c", B, []), info("d", B, [])]
    s = session(nodes, inputs, [info("y", F)])
    for c in (True, False):
        for d in (True, False):
            (y,) = s.run(None, {"x": X, "c": np.array(c), "d": np.array(d)})
            np.testing.assert_array_equal(y, X * ((2 if c else 4) + (not d)))


def test_ifs_with_ops_on_the_host_are_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ifs within one another that data choose, where the host runs an op of the innermost."""
    depth, imported, import_node = 6, Counter[str](), Importer.node

    def count(self: Importer, node: Node) -> None:
        imported[node.op] += 1
        import_node(self, node)

    monkeypatch.setattr(Importer, "node", count)
    then = branch([helper.make_node("Unique", ["x"], ["u"])], "u")
    for k in range(depth):
        then = branch([either(f"c{k}", f"r{k}", then, scaled(k))], f"r{k}")
    flags = [info(f"c{k}", B, []) for k in range(depth)]
    proto = model(then.node, [info("x", F, [6]), *flags], [info(then.output[0].name, F)])
    import_model(proto)
    assert imported["If"] == depth
    assert imported["Unique"] == 1
    s = minicc.InferenceSession(proto, threads=1)
    for chosen in range(-1, depth):
        given = {f"c{k}": np.array(k != chosen) for k in range(depth)}
        (y,) = s.run(None, {"x": X % 4, **given})
        wanted = np.unique(X % 4) if chosen < 0 else X % 4 * chosen
        assert np.array_equal(y, wanted)


@pytest.mark.parametrize("op", ["Loop", "Scan"])
def test_within_a_loop(op: str) -> None:
    """v becomes 3 v where its sum is less than the row's largest, else half of v."""
    nodes = [
        helper.make_node("ReduceSum", ["v"], ["total"], keepdims=0),
        helper.make_node("ReduceMax", ["row"], ["most"], keepdims=0),
        helper.make_node("Less", ["total", "most"], ["small"]),
        either("small", "next", scaled(3, "v"), scaled(0.5, "v")),
        helper.make_node("Identity", ["next"], ["kept"]),
    ]
    outputs = [info("next", F, [6]), info("kept", F, [6])]
    if op == "Loop":
        nodes.insert(0, helper.make_node("Gather", ["rows", "k"], ["row"]))
        nodes.append(helper.make_node("Identity", ["on"], ["still"]))
        taken = [info("k", INT, []), info("on", B, []), info("v", F, [6])]
        body = helper.make_graph(nodes, "body", taken, [info("still", B, []), *outputs])
        node = helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body)
    else:
        taken = [info("v", F, [6]), info("row", F, [6])]
        body = helper.make_graph(nodes, "body", taken, outputs)
        node = helper.make_node(
            "Scan", ["x", "rows"], ["last", "all"], body=body, num_scan_inputs=1
        )
    inputs = [info("x", F, [6]), info("rows", F, [20, 6])]
    count = numpy_helper.from_array(np.array(20), "n")
    s = session([node], inputs, [info("last", F), info("all", F)], count)
    rows = np.random.default_rng(1).uniform(0, 60, (20, 6)).astype(np.float32)
    want: list[Array] = []
    v = X
    for row in rows:
        v = (v * np.float32(3 if v.sum() < row.max() else 0.5)).astype(np.float32)
        want.append(v)
    last, everything = s.run(None, {"x": X, "rows": rows})
    np.testing.assert_array_equal(everything, np.stack(want))
    np.testing.assert_array_equal(last, v)


def test_what_decides_is_the_callers_own() -> None:
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Less", ["total", "limit"], ["c"]),
        either("c", "y", scaled(2), scaled(3)),
    ]
    inputs = [info("x", F, [6]), info("limit", F, [])]
    s = session(nodes, inputs, [info("y", F), info("c", B)])
    for limit, factor in ((100, 2), (0, 3), (100, 2)):
        y, c = s.run(None, {"x": X, "limit": np.array(limit, np.float32)})
        np.testing.assert_array_equal(y, factor * X)
        assert c == (factor == 2)
        c[...] = not c
        y[:] = -1


def test_a_branch_that_does_not_fit_the_shapes() -> None:
    apart = branch([helper.make_node("Reshape", ["x", "shape"], ["r"])], "r")
    nodes = [either("c", "y", scaled(2), apart)]
    shape = numpy_helper.from_array(np.array([4, 5]), "shape")
    inputs = [info("x", F, [6]), info("c", B, [])]
    s = minicc.InferenceSession(model(nodes, inputs, [info("y", F)], shape), threads=1)
    assert "parts" not in s.report()
    for _ in range(2):
        np.testing.assert_array_equal(s.run(None, {"x": X, "c": np.array(True)})[0], 2 * X)
        with pytest.raises(UserError, match="does not fit") as caught:
            s.run(None, {"x": X, "c": np.array(False)})
        assert caught.value.code == "MC0158"
        assert "if y/else" in str(caught.value)


def by_size() -> bytes:
    """A row's squares where there is one row, else the rows' sum or their largest, as data say."""
    flat = branch([helper.make_node("Squeeze", ["x", "zero"], ["q"])], "q")
    total = branch([helper.make_node("ReduceSum", ["x", "zero"], ["t"], keepdims=0)], "t")
    most = branch([helper.make_node("ReduceMax", ["x"], ["m"], axes=[0], keepdims=0)], "m")
    least = branch([helper.make_node("ReduceMin", ["x"], ["l"], axes=[0], keepdims=0)], "l")
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["rows"]),
        helper.make_node("Equal", ["rows", "one"], ["alone"]),
        either("alone", "a", flat, total),
        either("c", "b", most, least),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    constants = [numpy_helper.from_array(np.array([n]), s) for n, s in ((0, "zero"), (1, "one"))]
    return model(nodes, [info("x", F, ["n", 6]), info("c", B, [])], [info("y", F)], *constants)


def test_sizes_that_decide(tmp_path: Path) -> None:
    """What wants the sizes is compiled for them, and kept on disk."""
    file = tmp_path / "model.onnx"
    file.write_bytes(by_size())
    options = Options(threads=1, cache_dir=tmp_path / "cache")
    for k in range(2):
        s = minicc.InferenceSession(file, options=options)
        assert [o.name for o in s.get_outputs()] == ["y"]
        for n in (1, 3, 1):
            x = np.random.default_rng(n).standard_normal((n, 6)).astype(np.float32)
            for c in (True, False):
                (y,) = s.run(None, {"x": x, "c": np.array(c)})
                want = x.sum(axis=0) + (x.max(axis=0) if c else x.min(axis=0))
                np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
        assert "in parts" not in s.report()
        assert s.report().startswith("opened compiled" if k else "import")


def squeezed(shape: Sequence[Any], *nodes: Any) -> bytes:
    """What torch writes for `x.squeeze(-1)`, and nodes that use it as `q`."""
    less = branch([helper.make_node("Squeeze", ["x", "last"], ["l"])], "l")
    same = branch([helper.make_node("Identity", ["x"], ["i"])], "i")
    made = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "last"], ["n"]),
        helper.make_node("Equal", ["n", "one"], ["alone"]),
        either("alone", "q", less, same),
        *nodes,
    ]
    constants = [numpy_helper.from_array(np.array([n]), s) for n, s in ((-1, "last"), (1, "one"))]
    weights = numpy_helper.from_array(W, "w")
    return model(made, [info("x", F, shape)], [info("y", F)], *constants, weights)


def test_a_size_decides_the_rank_of_what_follows() -> None:
    """There is a program for sizes of 1, as one branch wants, and one for all others."""
    total = helper.make_node("ReduceSum", ["q"], ["y"], keepdims=0)
    s = minicc.InferenceSession(squeezed(["n", "m"], total), threads=1)
    for n, m in ((3, 1), (3, 4), (1, 1), (1, 5), (0, 1), (2, 0)):
        x = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
        np.testing.assert_allclose(s.run(None, {"x": x})[0], x.sum(), rtol=1e-5, atol=1e-6)
    programs = [line for line in s.report().splitlines() if " of 1 kernel" in line]
    told = ["n=1, m=1", "m=1, any n", "any n, m"]
    assert sorted(line.partition(":")[0] for line in programs) == sorted(told)


def test_what_follows_fits_one_of_the_ranks_that_a_size_decides() -> None:
    """One program serves the sizes that fit the model, and its guard says which."""
    product = helper.make_node("Gemm", ["q", "w"], ["y"])
    s = minicc.InferenceSession(squeezed(["n", 6, "m"], product), threads=1)
    for n in (1, 4, 2, 7):
        x = np.random.default_rng(n).standard_normal((n, 6, 1)).astype(np.float32)
        np.testing.assert_allclose(s.run(None, {"x": x})[0], x[:, :, 0] @ W, rtol=1e-5, atol=1e-6)
    with pytest.raises(UserError, match="Gemm wants two matrices") as caught:
        s.run(None, {"x": np.zeros((2, 6, 3), np.float32)})
    assert caught.value.code == "MC0142"
    assert s.report().count("target") == 1


def test_outputs_that_nobody_wants() -> None:
    def two(*names: str) -> Any:
        nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Neg", ["x"], ["n"])]
        return helper.make_graph(nodes, "two", [], [info(name, F) for name in names])

    node = helper.make_node(
        "If", ["c"], ["", "y"], then_branch=two("e", "n"), else_branch=two("n", "e")
    )
    s = session([node], [info("x", F, [6]), info("c", B, [])], [info("y", F)])
    np.testing.assert_array_equal(s.run(None, {"x": X, "c": np.array(True)})[0], -X)
    np.testing.assert_allclose(s.run(None, {"x": X, "c": np.array(False)})[0], np.exp(X), 1e-5)


def test_a_compiled_program(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from minicc.cli import commands

    file, program = tmp_path / "model.onnx", tmp_path / "model.mcp"
    nodes = [either("c", "y", scaled(2), scaled(3))]
    file.write_bytes(model(nodes, [info("x", F, [6]), info("c", B, [])], [info("y", F)]))
    made = CliRunner().invoke(commands, ["compile", str(file), "-o", str(program)])
    assert made.exit_code == 0, made.output
    s = minicc.InferenceSession(program, threads=1)
    for c in (True, False):
        (y,) = s.run(None, {"x": X, "c": np.array(c)})
        np.testing.assert_array_equal(y, (2 if c else 3) * X)
    checked = CliRunner().invoke(commands, ["verify", str(file)])
    assert checked.exit_code == 0, checked.output


def test_a_branch_that_does_not_fit_before_a_sequence_is_told_of() -> None:
    def side(name: str, given: str) -> Any:
        nodes = [helper.make_node("Identity", [given], [name])]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, 1, None)])

    nodes = [
        helper.make_node(
            "If", ["c"], ["v"], then_branch=side("t", "a"), else_branch=side("e", "b")
        ),
        helper.make_node("Add", ["x", "v"], ["q"]),
        helper.make_node("SplitToSequence", ["q"], ["y"], axis=0),
    ]
    given = [info("x", F, ["n", "n"]), info("a", F, [1, 1]), info("b", F, ["n", "m"])]
    given.append(info("c", B, []))
    result = helper.make_tensor_sequence_value_info("y", 1, None)
    whole = helper.make_graph(nodes, "g", given, [result])
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = minicc.InferenceSession(model.SerializeToString(), threads=1)
    feed: dict[str, Any] = {name: np.ones((2, 2), np.float32) for name in "xb"}
    feed |= {"a": np.ones((1, 1), np.float32), "c": np.array(False)}
    (y,) = session.run(None, feed)
    assert [v.tolist() for v in y] == [[[2, 2]], [[2, 2]]]
    with pytest.raises(UserError, match=r"MC0142 .* do not broadcast"):
        session.run(None, feed | {"b": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("form", ["plain", "nested", "in a loop"])
def test_a_branch_that_does_not_fit_what_follows(form: str, known: bool) -> None:
    """It may be taken at other sizes, and never be taken at these."""
    sides = [branch([helper.make_node("Relu", [name], ["r"])], "r") for name in "ab"]
    nodes = [either("c", "v", *sides)]
    if form == "nested":
        inner = branch(nodes, "v")
        nodes = [either("d", "v", inner, branch([helper.make_node("Abs", ["b"], ["r"])], "r"))]
    nodes.append(helper.make_node("MatMul", ["v", "w"], ["p"]))
    if form == "in a loop":
        nodes += [
            helper.make_node("ReduceSum", ["p"], ["s"], keepdims=0),
            helper.make_node("Add", ["state", "s"], ["next"]),
            helper.make_node("Identity", ["on"], ["goes"]),
        ]
        taken = [info("i", INT, []), info("on", B, []), info("state", F, [])]
        body = helper.make_graph(nodes, "body", taken, [info("goes", B, []), info("next", F, [])])
        nodes = [helper.make_node("Loop", ["three", "", "zero"], ["p"], body=body)]
    shapes = ([2, 3], [4, 6]) if known else (["n", "m"], ["k", "l"])
    inputs = [*map(info, "ab", [F, F], shapes), info("c", B, []), info("d", B, [])]
    constants = {"w": W, "three": np.array(3), "zero": np.array(0, np.float32)}
    given = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    s = minicc.InferenceSession(model(nodes, inputs, [info("p", F)], *given), threads=1)
    a, b = np.ones((2, 3), np.float32), np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    feed = {"a": a, "b": b, "c": np.array(False), "d": np.array(True)}
    want = np.maximum(b, 0) @ W
    want = 3 * want.sum() if form == "in a loop" else want
    np.testing.assert_allclose(s.run(None, feed)[0], want, rtol=1e-5, atol=1e-6)
    with pytest.raises(UserError) as caught:
        s.run(None, feed | {"c": np.array(True)})
    assert caught.value.code in ("MC0142", "MC0158")
    assert "if v" in str(caught.value)
    np.testing.assert_allclose(s.run(None, feed)[0], want, rtol=1e-5, atol=1e-6)
