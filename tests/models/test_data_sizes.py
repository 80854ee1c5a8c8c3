"""Sizes that data decide: ops on the host bind them, and one program serves all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import minicc
from minicc.cli.programs import write_program
from minicc.errors import UserError
from minicc.frontends.onnx.importer import import_model
from minicc.ir import interpret
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module, resources
from minicc.ir.verify import verify
from minicc.options import Options

Array = np.ndarray[Any, Any]
F, INT, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
NODE = helper.make_node
SIZES = (0, 1, 2, 7, 8, 9, 16, 33, 100)


def info(name: str, kind: int = F, shape: Sequence[int | str] | None = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: dict[str, Any] | None = None,
    opset: int = 18,
) -> bytes:
    held = [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    opsets = [helper.make_opsetid("", opset)]
    made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return made


W = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)


def chosen_rows() -> bytes:
    """Rows whose score is positive, through a layer, and how many there are."""
    nodes = [
        NODE("Greater", ["s", "zero"], ["m"]),
        NODE("NonZero", ["m"], ["at"], name="places"),
        NODE("Transpose", ["at"], ["rows"]),
        NODE("GatherND", ["x", "rows"], ["kept"]),
        NODE("MatMul", ["kept", "w"], ["z"]),
        NODE("Relu", ["z"], ["y"]),
        NODE("Shape", ["y"], ["count"], end=1),
        NODE("ReduceSum", ["y"], ["total"], keepdims=0),
    ]
    inputs = [info("x", F, ["n", 8]), info("s", F, ["n"])]
    outputs = [info("y"), info("count", INT), info("total")]
    return model(nodes, inputs, outputs, {"zero": np.float32(0), "w": W})


def best_rows() -> bytes:
    """The best rows, at most 10 of them, sorted; as many elements of a line as their best says."""
    nodes = [
        NODE("Shape", ["s"], ["n"]),
        NODE("Min", ["n", "ten"], ["k"]),
        NODE("TopK", ["s", "k"], ["v", "i"], axis=0),
        NODE("Gather", ["x", "i"], ["y"], axis=0),
        NODE("Exp", ["y"], ["e"]),
        NODE("ReduceMax", ["i"], ["far"], keepdims=0),
        NODE("Range", ["none", "far", "one"], ["line"]),
        NODE("Mul", ["line", "line"], ["squares"]),
    ]
    inputs = [info("x", F, ["n", 8]), info("s", F, ["n"])]
    held = {"ten": np.array([10]), "none": np.array(0), "one": np.array(1)}
    return model(nodes, inputs, [info("e"), info("squares", INT)], held)


def grown() -> bytes:
    """A loop whose state has a row more after each round, as often as data say."""
    body = helper.make_graph(
        [
            NODE("Slice", ["h", "last", "end"], ["row"]),
            NODE("Mul", ["row", "half"], ["next"]),
            NODE("Concat", ["h", "next"], ["more"], axis=0),
            NODE("ReduceSum", ["more"], ["sum"], keepdims=0),
            NODE("Less", ["sum", "enough"], ["on"]),
        ],
        "body",
        [info("k", INT, []), info("c", B, []), info("h")],
        [info("on", B), info("more"), info("sum")],
    )
    nodes = [
        NODE("Loop", ["most", "", "x"], ["h", "sums"], body=body, name="rounds"),
        NODE("MatMul", ["h", "w"], ["y"]),
    ]
    held = {
        "last": np.array([-1]),
        "end": np.array([np.iinfo(np.int64).max]),
        "half": np.float32(0.5),
        "enough": np.float32(100),
        "w": W,
    }
    inputs = [info("x", F, ["n", 8]), info("most", INT, [])]
    return model(nodes, inputs, [info("y"), info("sums")], held)


def cells(mode: str) -> Callable[[], bytes]:
    """Regions with as many samples as they have pixels."""

    def make() -> bytes:
        way: dict[str, Any] = {"mode": mode, "spatial_scale": 0.5}
        way |= {"output_height": 2, "output_width": 3}
        nodes = [NODE("RoiAlign", ["x", "b", "i"], ["y"], **way)]
        inputs = [info("x", F, ["n", 3, "h", "w"]), info("b", F, ["r", 4]), info("i", INT, ["r"])]
        return model(nodes, inputs, [info("y")])

    return make


def want_cells(mode: str, x: Array, b: Array, i: Array) -> list[Array]:
    y = np.zeros((len(b), 3, 2, 3), np.float32)
    for place in np.ndindex(len(b), 2, 3):
        (r, *cell), lines = place, []
        for k, (at, parts) in enumerate(zip(cell, (2, 3), strict=True)):
            first, last = b[r, [1 - k, 3 - k]] * 0.5 - 0.5
            size = (last - first) / parts
            count = int(np.ceil(size))
            lines.append([first + (at + (m + 0.5) / count) * size for m in range(count)])
        found = [_taps(x[i[r]], v, u) for v in lines[0] for u in lines[1]]
        if found and mode == "avg":
            y[r, :, cell[0], cell[1]] = np.sum(found, axis=(0, 1)) / len(found)
        elif found:
            y[r, :, cell[0], cell[1]] = np.max(found, axis=(0, 1))
    return [y]


def _taps(x: Array, *places: float) -> list[Array]:
    """The pixels around a place, each times its weight."""
    extents = x.shape[1:]
    if any(not -1 <= at <= n for at, n in zip(places, extents, strict=True)):
        return [np.zeros(len(x), np.float32)] * 4
    ends = [min(max(at, 0), n - 1) for at, n in zip(places, extents, strict=True)]
    low = [int(at) for at in ends]
    high = [min(at + 1, n - 1) for at, n in zip(low, extents, strict=True)]
    (v, u), (dv, du) = low, (ends[0] - low[0], ends[1] - low[1])
    return [
        x[:, v, u] * (1 - dv) * (1 - du),
        x[:, v, high[1]] * (1 - dv) * du,
        x[:, high[0], u] * dv * (1 - du),
        x[:, high[0], high[1]] * dv * du,
    ]


def want_grown(x: Array, most: Array) -> list[Array]:
    h, sums = x, []
    for _ in range(int(most)):
        h = np.concatenate([h, h[-1:] * np.float32(0.5)])
        sums.append(h.sum())
        if sums[-1] >= 100:
            break
    return [h @ W, np.array(sums, np.float32)]


def want_chosen(x: Array, s: Array) -> list[Array]:
    y = np.maximum(x[s > 0] @ W, 0)
    return [y, np.array([len(y)]), y.sum()]


def want_best(x: Array, s: Array) -> list[Array]:
    order = np.argsort(-s, kind="stable")[:10]
    return [np.exp(x[order]), np.arange(order.max(initial=0)) ** 2]


def feed_rows(n: int) -> dict[str, Array]:
    rng = np.random.default_rng(n)
    return {
        "x": rng.standard_normal((n, 8)).astype(np.float32),
        "s": rng.standard_normal(n).astype(np.float32),
    }


def feed_grown(n: int) -> dict[str, Array]:
    rng = np.random.default_rng(n)
    return {"x": rng.random((n + 1, 8)).astype(np.float32), "most": np.array(n % 5)}


def feed_cells(n: int) -> dict[str, Array]:
    """Some regions of no size, some that leave the image, one that is large."""
    rng = np.random.default_rng(n)
    b = rng.uniform(-4, 24, (n, 4)).astype(np.float32)
    b[1:, 2:] = b[1:, :2] + rng.uniform(-1, 9, b[1:, 2:].shape)
    x = rng.standard_normal((2, 3, 3 + n % 11, 12))
    return {"x": x.astype(np.float32), "b": b, "i": rng.integers(-2, 2, n)}


Case = tuple[Callable[[], bytes], Callable[..., list[Array]], Callable[[int], dict[str, Array]]]
CASES: dict[str, Case] = {
    "chosen": (chosen_rows, want_chosen, feed_rows),
    "best": (best_rows, want_best, lambda n: feed_rows(n + 1)),
    "grown": (grown, want_grown, feed_grown),
    "cells": (cells("avg"), partial(want_cells, "avg"), feed_cells),
    "greatest cells": (cells("max"), partial(want_cells, "max"), feed_cells),
}


def close(got: Sequence[Array], want: Sequence[Array]) -> None:
    for a, b in zip(got, want, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", CASES)
def test_one_program_serves_all_sizes(name: str, tmp_path: Path) -> None:
    make, want, feed = CASES[name]
    path = tmp_path / "m.onnx"
    path.write_bytes(make())
    options = Options(threads=2, cache_dir=None)
    session = minicc.InferenceSession(path, options=options)
    write_program(str(path), tmp_path / "m.mcp", {}, options)
    saved = minicc.InferenceSession(tmp_path / "m.mcp", threads=1)
    for n in SIZES:
        inputs = feed(n)
        got = session.run(None, inputs)
        close(got, want(**inputs))
        for a, b in zip(got, saved.run(None, inputs), strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(session._compiled) == 1


@pytest.mark.parametrize("name", CASES)
def test_the_graph_means_the_same_printed_parsed_and_interpreted(name: str) -> None:
    make, want, feed = CASES[name]
    module = import_model(make())
    verify(module)
    text = print_module(module)
    again = parse_module(text, resources(module))
    assert print_module(again) == text
    for n in SIZES:
        inputs = feed(n)
        ordered = [inputs[a.hint] for a in again.main.args]
        close(interpret.run(again, ordered), want(**inputs))


def test_a_size_that_is_used_before_it_is_bound_is_no_module() -> None:
    """What binds a size stays, though nobody reads the values that bind it."""
    nodes = [
        NODE("NonZero", ["x"], ["at"]),
        NODE("Shape", ["at"], ["shape"]),
        NODE("ConstantOfShape", ["shape"], ["zeros"]),
        NODE("Exp", ["zeros"], ["y"]),
    ]
    session = minicc.InferenceSession(model(nodes, [info("x", F, ["n"])], [info("y")]))
    for n in SIZES:
        x = (np.arange(n) % 3).astype(np.float32)
        (y,) = session.run(None, {"x": x})
        assert y.shape == (1, np.count_nonzero(x))
        assert (y == 1).all()


def test_what_follows_branches_of_unlike_ranks_is_compiled_in_both() -> None:
    squeezed = helper.make_graph([NODE("Squeeze", ["x", "first"], ["a"])], "t", [], [info("a")])
    kept = helper.make_graph([NODE("Identity", ["x"], ["b"])], "e", [], [info("b")])
    nodes = [
        NODE("Shape", ["x"], ["n"], end=1),
        NODE("Equal", ["n", "one"], ["flat"]),
        NODE("If", ["flat"], ["v"], then_branch=squeezed, else_branch=kept),
        NODE("MatMul", ["v", "w"], ["z"]),
        NODE("Relu", ["z"], ["y"]),
    ]
    held = {"first": np.array([0]), "one": np.array([1]), "w": W}
    session = minicc.InferenceSession(
        model(nodes, [info("x", F, ["n", 8])], [info("y")], held), threads=1
    )
    for n in (1, 2, 5, 1, 7, 9, 30, 1):
        x = np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)
        (y,) = session.run(None, {"x": x})
        close([y], [np.maximum((x[0] if n == 1 else x) @ W, 0)])
    assert len(session._compiled) == 5, "four sizes have their own, one is for all"


def test_a_loop_within_a_loop_whose_results_nothing_uses() -> None:
    def body(name: str, more: Sequence[Any] = ()) -> Any:
        names = [f"{name}{k}" for k in range(5)]
        number, goes, state, still, new = names
        nodes = [NODE("Identity", [goes], [still]), NODE("Tanh", [state], [new]), *more]
        given = [info(number, INT, []), info(goes, B, []), info(state)]
        return helper.make_graph(nodes, name, given, [info(still, B, []), info(new)])

    inner = NODE("Loop", ["n", "go", "x"], ["unused"], body=body("b"))
    nodes = [NODE("Loop", ["n", "go", "x"], ["y"], body=body("a", [inner]))]
    inputs = [info("x", F, ["k"]), info("n", INT, [])]
    session = minicc.InferenceSession(
        model(nodes, inputs, [info("y")], {"go": np.array(True)}), threads=1
    )
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    for n in (0, 1, 3):
        want = x
        for _ in range(n):
            want = np.tanh(want)
        close(session.run(None, {"x": x, "n": np.array(n)}), [want])


def test_windows_of_a_length_that_data_decide_are_vectors_of_floats() -> None:
    body = helper.make_graph(
        [NODE("Add", ["s", "e"], ["t"]), NODE("Identity", ["t"], ["out"])],
        "body",
        [info("s"), info("e")],
        [info("t"), info("out")],
    )
    nodes = [
        NODE("HannWindow", ["n"], ["w"]),
        NODE("Scan", ["zero", "w"], ["last", "y"], body=body, num_scan_inputs=1),
    ]
    held = {"zero": np.zeros((), np.float32)}
    session = minicc.InferenceSession(
        model(nodes, [info("n", INT, [])], [info("last"), info("y")], held), threads=1
    )
    for n in (1, 3, 10):
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)
        last, y = session.run(None, {"n": np.array(n)})
        close([last, y], [window.sum(), np.cumsum(window)])


@pytest.mark.parametrize(
    ("then", "other"),
    [
        ((4, 1), (4, 3)),
        ((4, 3), (4, 1)),
        ((4, 1), (2, 3)),
        ((1, 1), (4, 3)),
        ((1, 3), (4, 3)),
        ((3,), (4, 1)),
        ((), (2, 3)),
    ],
    ids=str,
)
@pytest.mark.parametrize("columns", [3, "n"])
def test_branches_may_give_what_broadcasts_in_one_of_them(
    then: tuple[int, ...], other: tuple[int, ...], columns: int | str
) -> None:
    held = {shape: np.random.default_rng(1).random(shape, np.float32) for shape in (then, other)}

    def branch(shape: tuple[int, ...], name: str) -> Any:
        value = numpy_helper.from_array(np.asarray(held[shape]))
        return helper.make_graph(
            [NODE("Constant", [], [name], value=value)], name, [], [info(name)]
        )

    branches = {"then_branch": branch(then, "t"), "else_branch": branch(other, "e")}
    nodes = [NODE("If", ["c"], ["v"], **branches), NODE("Add", ["x", "v"], ["y"])]
    inputs = [info("c", B, []), info("x", F, [1, columns])]
    session = minicc.InferenceSession(model(nodes, inputs, [info("y")]), threads=1)
    x = np.random.default_rng(0).random((1, 3), np.float32)
    for taken in (True, False, True):
        (y,) = session.run(None, {"c": np.array(taken), "x": x})
        np.testing.assert_array_equal(y, x + held[then if taken else other])
    assert len(session._compiled) == 1


STEPS: dict[str, Callable[[Array], Array]] = {
    "Exp": lambda x: np.exp(np.clip(x, -3, 3)),
    "compress": lambda x: x[x[:, 0] > 0],
    "layer": lambda x: np.tanh(x @ W[:, :8]),
    "unique": lambda x: np.unique(np.round(x), axis=0),
    "centred": lambda x: x - (x.mean(0, keepdims=True) if len(x) else 0),
    "twice": lambda x: np.concatenate([x, x]),
}


def step(name: str, value: str, out: str) -> list[Any]:
    match name:
        case "Exp":
            return [
                NODE("Clip", [value, "low", "high"], [f"{out}c"]),
                NODE("Exp", [f"{out}c"], [out]),
            ]
        case "compress":
            return [
                NODE("Gather", [value, "zero"], [f"{out}f"], axis=1),
                NODE("Greater", [f"{out}f", "none"], [f"{out}m"]),
                NODE("Compress", [value, f"{out}m"], [out], axis=0),
            ]
        case "layer":
            return [NODE("MatMul", [value, "w"], [f"{out}z"]), NODE("Tanh", [f"{out}z"], [out])]
        case "unique":
            return [NODE("Round", [value], [f"{out}r"]), NODE("Unique", [f"{out}r"], [out], axis=0)]
        case "centred":
            return [
                NODE("ReduceMean", [value, "rows"], [f"{out}m"]),
                NODE("Sub", [value, f"{out}m"], [out]),
            ]
        case _:
            return [NODE("Concat", [value, value], [out], axis=0)]


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=5))
def test_random_programs(names: list[str]) -> None:
    nodes: list[Any] = []
    for k, name in enumerate(names):
        nodes += step(name, f"v{k}", f"v{k + 1}")
    held = {
        "low": np.float32(-3),
        "high": np.float32(3),
        "none": np.float32(0),
        "zero": np.array(0),
        "rows": np.array([0]),
        "w": W[:, :8],
    }
    last = f"v{len(names)}"
    session = minicc.InferenceSession(
        model(nodes, [info("v0", F, ["n", 8])], [info(last)], held), threads=1
    )
    for n in (0, 1, 2, 7, 8, 13, 40):
        x = np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)
        want = x
        for name in names:
            want = STEPS[name](want)
        (got,) = session.run(None, {"v0": x})
        assert got.shape == want.shape
        if len(want) == len(x):  # else a rounding may have chosen other rows
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
    assert len(session._compiled) <= 1


def rows_and_rows() -> bytes:
    """Rows are added to rows of which there may be as many or one: no program can be for both."""
    nodes = [
        NODE("Compress", ["x", "a"], ["one"], axis=0),
        NODE("Compress", ["x", "b"], ["other"], axis=0),
        NODE("Add", ["one", "other"], ["y"], name="add"),
    ]
    inputs = [info("x", F, ["n", 3]), info("a", B, ["n"]), info("b", B, ["n"])]
    return model(nodes, inputs, [info("y")])


def test_extents_that_are_1_in_some_runs() -> None:
    session = minicc.InferenceSession(rows_and_rows(), threads=1)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for a, b in (((1, 1, 0, 1), (0, 1, 1, 1)), ((1, 1, 1, 1), (0, 1, 0, 0)), ((1, 0, 0, 0),) * 2):
        rows = np.array(a, bool), np.array(b, bool)
        (y,) = session.run(None, {"x": x, "a": rows[0], "b": rows[1]})
        np.testing.assert_array_equal(y, x[rows[0]] + x[rows[1]])
    with pytest.raises(UserError, match="MC0142"):
        session.run(None, {"x": x, "a": np.array([1, 1, 1, 0], bool), "b": rows[1] + True})


def test_sizes_whose_programs_would_refuse_their_data_too_have_none() -> None:
    session = minicc.InferenceSession(rows_and_rows(), threads=1)
    for n in (4, 5, 6, 7, 5, 8):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        a, b = np.arange(n) < 3, np.arange(n) == 2
        (y,) = session.run(None, {"x": x, "a": a, "b": b})
        np.testing.assert_array_equal(y, x[a] + x[b])
    assert len(session._compiled) == 3  # for all sizes, and for two of those that were met


def test_a_sequence_that_a_loop_fills() -> None:
    """The items of a sequence that begins empty are of the rank of what is put in."""
    body = helper.make_graph(
        [
            NODE("Gather", ["x", "k"], ["row"], axis=0),
            NODE("Exp", ["row"], ["e"]),
            NODE("SequenceInsert", ["items", "e"], ["more"]),
            NODE("Identity", ["c"], ["on"]),
        ],
        "body",
        [
            info("k", INT, []),
            info("c", B, []),
            helper.make_tensor_sequence_value_info("items", F, None),
        ],
        [info("on", B), helper.make_tensor_sequence_value_info("more", F, None)],
    )
    nodes = [
        NODE("SequenceEmpty", [], ["none"], dtype=F),
        NODE("Shape", ["x"], ["n"], end=1),
        NODE("Loop", ["n", "", "none"], ["items"], body=body),
        NODE("ConcatFromSequence", ["items"], ["rows"], axis=0, new_axis=1),
        NODE("MatMul", ["rows", "w"], ["y"], name="layer"),
    ]
    data = model(nodes, [info("x", F, ["n", 8])], [info("y")], {"w": W})
    session = minicc.InferenceSession(data, threads=1)
    for n in (1, 3, 8):
        x = np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)
        close(session.run(None, {"x": x}), [np.exp(x) @ W])
    assert "layer" not in session.report(), "the layer is compiled"


def types_of(nodes: list[Any], held: dict[str, Any], result: str = "y") -> str:
    """The type of a result of nodes on x: f32[n,8] and d: i64[1]."""
    inputs = [info("x", F, ["n", 8]), info("d", INT, [1])]
    module = import_model(model(nodes, inputs, [info(result)], held))
    return str(module.main.body.yields[0].type)


def test_extents_that_are_known_beside_those_that_data_decide() -> None:
    """A contraction over a known axis stays one, whatever data decide of the others."""
    shape = [NODE("Concat", ["d", "eight"], ["s"], axis=0), NODE("Cast", ["s"], ["t"], to=INT)]
    held = {"eight": np.array([8]), "one": np.array([1]), "zero": np.array([0])}
    assert types_of([*shape, NODE("Reshape", ["x", "t"], ["y"])], held) == "f32[$y_0,8]"
    assert types_of([*shape, NODE("ConstantOfShape", ["t"], ["y"])], held) == "f32[$y_0,8]"
    assert types_of([NODE("Slice", ["x", "zero", "d", "zero"], ["y"])], held) == "f32[$y_0,8]"
    assert types_of([NODE("Slice", ["x", "zero", "d"], ["y"])], held) == "f32[$y_0,8]"
    shape = [NODE("Concat", ["d", "one"], ["s"], axis=0)]
    assert types_of([*shape, NODE("Expand", ["x", "s"], ["y"])], held) == "f32[$y_0,8]"
    assert types_of([*shape, NODE("Tile", ["x", "s"], ["y"])], held) == "f32[$y_0,8]"
    nothing = {"none": np.array([0, 0]), **held}
    pads = [NODE("Concat", ["d", "zero", "none"], ["s"], axis=0)]
    assert types_of([*pads, NODE("Pad", ["x", "s"], ["y"])], nothing) == "f32[$y_0,8]"


def test_a_reshape_to_an_extent_that_data_make_0_copies_the_operands() -> None:
    nodes = [
        NODE("Compress", ["x", "which"], ["kept"], axis=0),
        NODE("Shape", ["kept"], ["count"]),
        NODE("Concat", ["count", "rest"], ["shape"], axis=0),
        NODE("Reshape", ["t", "shape"], ["y"]),
    ]
    inputs = [info("x", F, [3]), info("which", B, [3]), info("rest", INT, [2])]
    inputs.append(info("t", F, [2, 6]))
    session = minicc.InferenceSession(model(nodes, inputs, [info("y")]), threads=1)
    t = np.arange(12, dtype=np.float32).reshape(2, 6)
    for which, rest, shape in (
        ([False] * 3, [3, 2], (2, 3, 2)),
        ([True] * 3, [2, 2], (3, 2, 2)),
        ([True, False, False], [0, 2], (1, 6, 2)),
    ):
        feed = {"x": np.ones(3, np.float32), "which": np.array(which), "rest": np.array(rest)}
        (y,) = session.run(None, feed | {"t": t})
        np.testing.assert_array_equal(y, t.reshape(shape))


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_what_is_infinite_stays_in_the_cells_that_have_it(mode: str) -> None:
    """Cells of small regions have room for the pixels of large ones, and must not read more."""
    x = np.ones((1, 3, 12, 12), np.float32)
    x[0, :, 5, 4] = np.inf
    corners = np.array([[0.3, 0.2], [4.7, 6.1], [8.4, 9.3], [11.2, 8.6]], np.float32)
    sides = np.array([[19.7, 21.3], [3.1, 4.3], [2.1, 5.7], [6.3, 4.1]], np.float32)
    b = np.concatenate([corners, corners + sides], axis=1)
    feed = {"x": x, "b": b, "i": np.zeros(4, np.int64)}
    (y,) = minicc.InferenceSession(cells(mode)(), threads=1).run(None, feed)
    (want,) = want_cells(mode, **feed)
    assert np.isinf(want).any()
    np.testing.assert_allclose(y, want, rtol=1e-5)
