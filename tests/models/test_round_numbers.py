"""Loops whose bodies take parts of tensors at places that depend on the number of the round."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from tests.models.test_whiles import hosted
from tests.sweeps import examples, part

from minicc.api.session import InferenceSession

Array = np.ndarray[Any, Any]
SIZES = [(2, 24), (1, 8), (3, 61), (1, 1), (2, 9), (0, 12)]
END = 1 << 62


class Line(NamedTuple):
    """`by` times the number of the round, and a number; or so far from the end."""

    by: int
    add: int
    back: bool = False

    def at(self, number: int, size: int) -> int:
        return self.by * number + self.add + self.back * size


class Case(NamedTuple):
    """A part of axis 1 of `x`, in `(size - less) // by + more` rounds."""

    start: Line
    stop: Line
    less: int = 0
    by: int = 1
    more: int = 0
    step: int = 1


ALL = Line(0, END)
COMPILED = {
    "one element": Case(Line(1, 0), Line(1, 1)),
    "one element from the end": Case(Line(-1, -1, True), Line(-1, 0, True)),
    "windows": Case(Line(4, 0), Line(4, 8), 8, 4, 1),
    "parts": Case(Line(6, 0), Line(6, 6), 0, 6),
    "what came before": Case(Line(0, 0), Line(1, 1)),
    "what follows": Case(Line(1, 0), ALL),
    "windows that end early": Case(Line(1, 0), Line(1, 3)),
    "every second element": Case(Line(2, 0), Line(2, 1), 0, 2),
    "every second of what follows": Case(Line(1, 0), ALL, step=2),
    "windows that begin outside": Case(Line(1, 0), Line(1, 2), more=5),
}


def line(name: str, of: Line) -> list[NodeProto]:
    """The nodes that compute an end of a slice, under names that begin with its own."""
    size = "size" if of.back else "zero"
    return [
        helper.make_node("Constant", [], [f"{name}_by"], value_ints=[of.by]),
        helper.make_node("Constant", [], [f"{name}_add"], value_ints=[of.add]),
        helper.make_node("Mul", ["i", f"{name}_by"], [f"{name}_scaled"]),
        helper.make_node("Add", [f"{name}_scaled", f"{name}_add"], [f"{name}_there"]),
        helper.make_node("Add", [f"{name}_there", size], [name]),
    ]


def model(case: Case, size: str | int = "s") -> ModelProto:
    """A loop that halves its state and adds the sum of a part in each round."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            *line("start", case.start),
            *line("stop", case.stop),
            helper.make_node("Slice", ["x", "start", "stop", "one", "step"], ["part"]),
            helper.make_node("ReduceSum", ["part", "one"], ["sum"], keepdims=0),
            helper.make_node("Mul", ["h", "half"], ["less"]),
            helper.make_node("Add", ["less", "sum"], ["new"]),
            helper.make_node("Cast", ["yes"], ["on"], to=TensorProto.BOOL),
        ],
        "each",
        [
            value("i", TensorProto.INT64, []),
            value("before", TensorProto.BOOL, []),
            value("h", TensorProto.FLOAT, None),
        ],
        [
            value("on", TensorProto.BOOL, []),
            value("new", TensorProto.FLOAT, None),
            value("sum", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["size"], start=1, end=2),
        helper.make_node("Sub", ["size", "fewer"], ["smaller"]),
        helper.make_node("Div", ["smaller", "by"], ["whole"]),
        helper.make_node("Add", ["whole", "more"], ["count"]),
        helper.make_node("Squeeze", ["count"], ["rounds"]),
        helper.make_node("Loop", ["rounds", "yes", "h0"], ["last", "all"], body=body),
    ]
    constants = {
        "zero": np.array([0]),
        "one": np.array([1]),
        "step": np.array([case.step]),
        "fewer": np.array([case.less]),
        "by": np.array([case.by]),
        "more": np.array([case.more]),
        "half": np.float32(0.5),
        "yes": np.array(True),
    }
    graph = helper.make_graph(
        nodes,
        "rounds",
        [
            value("x", TensorProto.FLOAT, ["b", size, 3]),
            value("h0", TensorProto.FLOAT, ["b", 3]),
        ],
        [value(name, TensorProto.FLOAT, None) for name in ("last", "all")],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(case: Case, x: Array, h: Array) -> tuple[Array, Array]:
    size = x.shape[1]
    rows = []
    for i in range(max(0, int((size - case.less) / case.by) + case.more)):
        start, stop = case.start.at(i, size), case.stop.at(i, size)
        rows.append(x[:, start : stop : case.step].sum(1, dtype=np.float32))
        h = h * np.float32(0.5) + rows[-1]
    return h, np.stack(rows) if rows else np.empty((0, *h.shape), np.float32)


def check(case: Case, session: InferenceSession, batch: int, size: int) -> None:
    rng = np.random.default_rng(size)
    x = rng.standard_normal((batch, size, 3)).astype(np.float32)
    h = rng.standard_normal((batch, 3)).astype(np.float32)
    for got, want in zip(session.run(None, {"x": x, "h0": h}), expected(case, x, h), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", COMPILED)
def test_parts_at_the_number_of_the_round_are_compiled(name: str) -> None:
    session = InferenceSession(model(COMPILED[name]).SerializeToString(), threads=1)
    assert not hosted(session)
    for batch, size in SIZES:
        if size >= COMPILED[name].less:  # of smaller ones the quotient is rounded up
            check(COMPILED[name], session, batch, size)
    assert len(session._compiled) == 1


@pytest.mark.parametrize(("name", "size"), part(product(COMPILED, (0, 1, 3, 12)), 4))
def test_parts_of_known_extents(name: str, size: int) -> None:
    session = InferenceSession(model(COMPILED[name], size).SerializeToString(), threads=1)
    check(COMPILED[name], session, 2, size)


LINES = st.builds(Line, st.integers(-2, 3), st.integers(-9, 9), st.booleans())
CASES = st.builds(
    Case,
    LINES,
    st.one_of(LINES, st.just(ALL)),
    st.integers(0, 8),
    st.integers(1, 4),
    st.integers(-1, 2),
    st.integers(1, 3),
)


@settings(deadline=None, max_examples=examples(60))
@given(CASES)
def test_parts_at_any_place_are_right(case: Case) -> None:
    session = InferenceSession(model(case).SerializeToString(), threads=1)
    for batch, size in SIZES[:5]:
        check(case, session, batch, size)
