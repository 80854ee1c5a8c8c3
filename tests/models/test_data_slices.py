"""Slices and paddings of what data decide are right for every size, also where that is few."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import helper
from tests.models.test_data_sizes import INT, NODE, F, info, model

import minicc
from minicc.ir.affine import maximum, minimum, size
from minicc.ir.affine_facts import at_least

Array = np.ndarray[Any, Any]
FAR = 1 << 62
CASES = (
    *((-5, -3, 1), (2, -1, 1), (1, FAR, 1), (-2, FAR, 1), (3, 5, 2), (-FAR, -2, 1), (0, 1, 1)),
    *((-1, -FAR, -1), (3, 0, -1), (-1, -4, -2), (FAR, 1, -1), (4, -FAR, -3)),
)
WIDE = np.arange(5).reshape(1, 5)


def marked(count: int) -> Array:
    x = np.zeros((1, 5), np.float32)
    x[0, :count] = 1
    return x


@pytest.mark.parametrize("opset", [10, 18])
@pytest.mark.parametrize("case", [*CASES, (-4, 0, -2)], ids=str)
def test_slices(case: tuple[int, int, int], opset: int) -> None:
    names = ("s", "e", "a", "t")
    numbers = (case[0], case[1], 1, case[2])
    nodes = [NODE("NonZero", ["x"], ["z"]), NODE("Slice", ["z", *names], ["y"])]
    held = {name: np.array([n]) for name, n in zip(names, numbers, strict=True)}
    source = model(nodes, [info("x", F, [1, 5])], [info("y", INT)], held, opset)
    session = minicc.InferenceSession(source)
    for count in range(6):
        (got,) = session.run(None, {"x": marked(count)})
        want = np.stack(np.nonzero(marked(count)))[:, slice(*case)]
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op", ["start", "stop", "pad"])
def test_ends_that_may_be_negative(op: str) -> None:
    """How many marks there are, less two, is an end of a slice or a padding."""
    nodes = [
        NODE("NonZero", ["x"], ["z"]),
        NODE("Shape", ["z"], ["count"], start=1),
        NODE("Sub", ["count", "two"], ["k"]),
        NODE("Concat", ["zero", "k", "zero", "zero"], ["pads"], axis=0),
        {
            "start": NODE("Slice", ["b", "k", "five", "one"], ["y"]),
            "stop": NODE("Slice", ["b", "zero", "k", "one"], ["y"]),
            "pad": NODE("Pad", ["b", "pads"], ["y"]),
        }[op],
    ]
    held = {name: np.array([n]) for name, n in (("zero", 0), ("one", 1), ("two", 2), ("five", 5))}
    inputs = [info("x", F, [1, 5]), info("b", INT, ["p", "q"])]
    session = minicc.InferenceSession(model(nodes, inputs, [info("y", INT)], held))
    for count in range(6):
        (got,) = session.run(None, {"x": marked(count), "b": WIDE})
        k = count - 2
        padded = np.pad(WIDE, ((0, 0), (max(k, 0), 0)))[:, max(-k, 0) :]
        want = {"start": WIDE[:, k:], "stop": WIDE[:, :k], "pad": padded}[op]
        np.testing.assert_array_equal(got, want)


def test_a_scan_over_what_has_no_known_rank_yet() -> None:
    """The free last extent of its indices says of which rank the elements are."""
    state, row = (info(name, F, ["k"]) for name in ("s", "r"))
    outputs = [info("s2", F, ["k"]), info("r2", F, ["k"])]
    body = helper.make_graph(
        [NODE("Add", ["s", "r"], ["s2"]), NODE("Identity", ["s2"], ["r2"])],
        "b",
        [state, row],
        outputs,
    )
    nodes = [
        NODE("GatherND", ["x", "at"], ["g"]),
        NODE("Scan", ["first", "g"], ["last", "y"], body=body, num_scan_inputs=1),
    ]
    inputs = [info("x", F, [2, 3, 4]), info("at", INT, ["n", "m"]), info("first", F, [4])]
    session = minicc.InferenceSession(model(nodes, inputs, [info("y"), info("last")]))
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    at = np.array([[0, 1], [1, 2], [1, 0]])
    y, last = session.run(None, {"x": x, "at": at, "first": np.ones(4, np.float32)})
    want = 1 + np.cumsum(x[at[:, 0], at[:, 1]], axis=0)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(last, want[-1])


def test_data_that_no_program_is_for_with_sizes_that_the_graph_for_all_is_not_for() -> None:
    nodes = [
        NODE("Unique", ["u"], ["one"]),
        NODE("Add", ["b", "one"], ["sum"]),
        NODE("Slice", ["b", "s", "e", "a"], ["part"]),
    ]
    held = {name: np.array([n]) for name, n in (("s", -5), ("e", -1), ("a", 1))}
    inputs = [info("u", INT, [3]), info("b", INT, ["p", "q"])]
    outputs = [info("sum", INT), info("part", INT)]
    session = minicc.InferenceSession(model(nodes, inputs, outputs, held))
    for width, kinds in ((4, [7, 7, 7]), (3, [1, 2, 3]), (7, [7, 7, 7]), (2, [1, 2, 1])):
        b = np.arange(2 * width).reshape(2, width)
        got, part = session.run(None, {"u": np.array(kinds), "b": b})
        np.testing.assert_array_equal(got, b + np.unique(kinds))
        np.testing.assert_array_equal(part, b[:, -5:-1])


def test_minima_are_one_of_their_operands() -> None:
    n, m = size("n"), size("m")
    assert at_least(maximum(n - 5, minimum(m, n)), minimum(m, n))
    assert at_least(minimum(n, 5), minimum(n, 3))
    assert not at_least(minimum(n, 3), minimum(n, 5))
    assert at_least(n, minimum(m, n))
    assert not at_least(minimum(m, n), m)


def test_what_an_operator_asks_of_extents_that_data_decide() -> None:
    nodes = [
        NODE("NonZero", ["x"], ["z"]),
        NODE("Squeeze", ["z"], ["y"]),
        NODE("Cast", ["z"], ["f"], to=F),
        NODE("Einsum", ["f"], ["d"], equation="ii->i"),
    ]
    whole = model(nodes[:2], [info("x", F, [1, 5])], [info("y", INT)], {})
    session = minicc.InferenceSession(whole)
    for count in range(6):
        (got,) = session.run(None, {"x": marked(count)})
        np.testing.assert_array_equal(got, np.squeeze(np.stack(np.nonzero(marked(count)))))
    square = model([nodes[0], *nodes[2:]], [info("x", F, [1, 5])], [info("d")], {})
    session = minicc.InferenceSession(square)
    np.testing.assert_array_equal(session.run(None, {"x": marked(2)})[0], [0, 1])
    with pytest.raises(minicc.UserError, match=r"Einsum.*2.*3"):
        session.run(None, {"x": marked(3)})


_BROADCAST = """<ir_version: 9, opset_import: ["": 18]>
g (float[2, n] x, bool[n] c, float[m] w, bool[m] d) => (float[2, k] y) {
    a = Compress <axis = 1> (x, c)
    b = Compress <axis = 0> (w, d)
    y = Add (a, b)
}"""


def test_a_graph_of_which_data_refuse_the_program_is_imported_once(monkeypatch: Any) -> None:
    """Extents that data decide are taken for equal, and one of them is 1 here."""
    imported: list[Any] = []
    anew = minicc.InferenceSession._anew

    def counted(session: minicc.InferenceSession, *args: Any) -> Any:
        imported.append(args)
        return anew(session, *args)

    monkeypatch.setattr(minicc.InferenceSession, "_anew", counted)
    source = onnx.parser.parse_model(_BROADCAST).SerializeToString()
    session = minicc.InferenceSession(source, threads=1)
    x, w = np.arange(80, dtype=np.float32).reshape(2, 40), np.arange(50, dtype=np.float32)
    counts = []
    for place in (7, 9, 11):
        feed = {"x": x, "c": np.arange(40) % 3 == 0, "w": w, "d": np.arange(50) == place}
        (got,) = session.run(None, feed)
        assert np.array_equal(got, x[:, ::3] + place)
        counts.append(len(imported))
    assert counts[1] == counts[2]
