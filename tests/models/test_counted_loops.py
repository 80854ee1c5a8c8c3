"""Loops whose condition counts their rounds, as exporters write while loops, with none on the host.

What they give is computed by NumPy: ONNX's reference joins what rounds give along its first axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from tests.models.test_whiles import hosted
from tests.sweeps import part

from minicc.api.session import InferenceSession

Array = np.ndarray[Any, Any]
FLOAT, I32, I64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
WEIGHTS = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32) / 2
CASES = [
    (compare, cast, element, start, limited)
    for compare in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    for cast in (None, FLOAT, TensorProto.DOUBLE)
    for element in (I32, I64)
    for start in (0, 2, -1)
    for limited in (False, True)
]


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    names = [name if name != "-" else "" for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), **attributes)


def comparison(
    compare: str, cast: int | None, low: str, high: str, out: str
) -> Sequence[NodeProto]:
    """Whether one number is below another, or no higher, under names that begin with `out`."""
    nodes: list[NodeProto] = []
    if cast is not None:
        nodes += [
            node("Cast", low, f"{out}_low", to=cast),
            node("Cast", high, f"{out}_high", to=cast),
        ]
        low, high = f"{out}_low", f"{out}_high"
    order = f"{high} {low}" if compare.startswith("Greater") else f"{low} {high}"
    return [*nodes, node(compare, order, out)]


def counting(compare: str, cast: int | None, element: int, start: int, limited: bool) -> ModelProto:
    """A cell over the rows of `x`, from a row on, as Keras' recurrent layers become.

    `n` is how many rows there are, a state that stays; so are the weights.
    """
    kind = np.int32 if element == I32 else np.int64
    body = helper.make_graph(
        [
            helper.make_node("Constant", [], ["many"], value_int=1000),
            node("Gather", "x at", "row"),
            node("MatMul", "row weights", "product"),
            node("Add", "product h", "sum"),
            node("Tanh", "sum", "new"),
            node("Identity", "new", "made"),
            node("Add", "at one", "next"),
            node("Identity", "rows", "same"),
            *comparison(compare, cast, "next", "rows", "first"),
            *comparison("Less", cast, "number", "many", "second"),
            node("And", "first second", "goes_on"),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", I64, []),
            helper.make_tensor_value_info("holds", TensorProto.BOOL, []),
            helper.make_tensor_value_info("at", element, []),
            helper.make_tensor_value_info("h", FLOAT, None),
            helper.make_tensor_value_info("rows", element, []),
            helper.make_tensor_value_info("weights", FLOAT, [3, 3]),
        ],
        [
            helper.make_tensor_value_info(name, kind_, None)
            for name, kind_ in (
                ("goes_on", TensorProto.BOOL),
                ("next", element),
                ("made", FLOAT),
                ("same", element),
                ("weights", FLOAT),
                ("new", FLOAT),
            )
        ],
    )
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "size"),
        node("Cast", "size", "whole", to=element),
        # from -1 on, or up to the end, there is a round more than rows: one less is asked for
        node("Sub", "whole spare", "n"),
        *comparison(compare, cast, "start", "n", "begins"),
        helper.make_node(
            "Loop",
            ["limit" if limited else "", "begins", "start", "h0", "n", "w"],
            ["end", "last", "_n", "_w", "all"],
            body=body,
        ),
    ]
    constants = {
        "zero": np.int64(0),
        "one": kind(1),
        "start": kind(start),
        "spare": kind(compare.endswith("Equal")),
        "limit": np.int64(4),
        "w": WEIGHTS,
    }
    outputs = [("end", element), ("last", FLOAT), ("all", FLOAT)]
    graph = helper.make_graph(
        nodes,
        "counting",
        [
            helper.make_tensor_value_info("x", FLOAT, ["n", "b", 3]),
            helper.make_tensor_value_info("h0", FLOAT, ["b", 3]),
        ],
        [helper.make_tensor_value_info(name, kind_, None) for name, kind_ in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def rounds(
    compare: str, start: int, limited: bool, x: Array, h: Array, step: int = 1, greatest: float = 0
) -> tuple[int, Array, Array]:
    """The last number, the last state and all of them."""
    rows = len(x) - compare.endswith("Equal")
    at, made, t = start, list[Array](), 0
    holds = at <= rows if compare.endswith("Equal") else at < rows
    while holds and (not limited or t < 4):
        h = np.tanh(x[at] @ WEIGHTS + h)
        made.append(h)
        t += 1
        greater = greatest and float(x[at].max()) >= greatest
        at += step
        holds = (at <= rows if compare.endswith("Equal") else at < rows) and not greater
    return at, h, np.array(made, np.float32).reshape(-1, *h.shape)


def compared(model: ModelProto, feed: Mapping[str, Array], want: Sequence[Any]) -> list[str]:
    """Runs a model, asks whether it gives what is wanted, and returns the ops on the host."""
    session = InferenceSession(model.SerializeToString())
    for mine, theirs in zip(session.run(None, dict(feed)), want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    return hosted(session)


@pytest.mark.parametrize("case", part(CASES, 48), ids=str)
def test_as_many_rounds_as_are_counted(case: tuple[str, int | None, int, int, bool]) -> None:
    compare, _, element, start, limited = case
    session = InferenceSession(counting(*case).SerializeToString())
    rng = np.random.default_rng(1)
    for n, b in ((5, 2), (1, 1), (9, 3), (3, 1), (2, 2)):
        x = rng.standard_normal((n, b, 3)).astype(np.float32)
        h = rng.standard_normal((b, 3)).astype(np.float32)
        end, *got = session.run(None, {"x": x, "h0": h})
        last, *want = rounds(compare, start, limited, x, h)
        assert end == last
        assert end.dtype == (np.int32 if element == I32 else np.int64)
        for mine, theirs in zip(got, want, strict=True):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert hosted(session) == []


@pytest.mark.parametrize(
    ("op", "place", "name"), [("Add", 1, "two"), ("And", 1, "holds"), ("Less", 0, "greatest")]
)
def test_other_conditions_are_asked_in_each_round(op: str, place: int, name: str) -> None:
    """A counter that moves by two, a condition that was taken, and one of data."""
    model = counting("Less", None, I64, 0, False)
    loop = next(n for n in model.graph.node if n.op_type == "Loop")
    body = next(a.g for a in loop.attribute if a.name == "body")
    made = [n for n in body.node if n.op_type == op][-1]
    if op == "Less":
        body.node.insert(2, node("ReduceMax", "row", "greatest", keepdims=0))
        made.input[1] = "bound"
    made.input[place] = name
    for number, constant in ((np.int64(2), "two"), (np.float32(1), "bound")):
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(number), constant))
    x = np.random.default_rng(1).standard_normal((8, 2, 3)).astype(np.float32)
    h = np.zeros((2, 3), np.float32)
    step, greatest = 1 + (op == "Add"), float(op == "Less")
    want = rounds("Less", 0, False, x, h, step, greatest)
    assert compared(model, {"x": x, "h0": h}, want) != []


def test_few_rounds_whose_states_grow_are_written_out() -> None:
    """As TorchScript writes `i = 0; while i < 3: x = cat((x, x)); i += 1`, without a limit."""
    body = helper.make_graph(
        [
            helper.make_node("Constant", [], ["one"], value_int=1),
            node("Add", "i one", "next"),
            node("Concat", "t t", "longer", axis=1),
            helper.make_node("Constant", [], ["three"], value_int=3),
            node("Less", "next three", "goes_on"),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", I64, []),
            helper.make_tensor_value_info("holds", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", FLOAT, None),
            helper.make_tensor_value_info("i", I64, []),
        ],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("longer", FLOAT, None),
            helper.make_tensor_value_info("next", I64, []),
        ],
    )
    constants = {"most": np.int64(2**63 - 1), "yes": np.bool_(True), "zero": np.int64(0)}
    graph = helper.make_graph(
        [helper.make_node("Loop", ["most", "yes", "x", "zero"], ["y", "end"], body=body)],
        "growing",
        [helper.make_tensor_value_info("x", FLOAT, ["n", "m"])],
        [helper.make_tensor_value_info(n, k, None) for n, k in (("y", FLOAT), ("end", I64))],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert compared(model, {"x": x}, [np.tile(x, (1, 8)), np.int64(3)]) == []
