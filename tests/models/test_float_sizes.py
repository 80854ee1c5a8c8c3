"""Sizes that a model computes by way of floats are those that NumPy computes, in one program."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from minicc.api.session import InferenceSession
from minicc.errors import UserError
from minicc.ir.affine import Dim, evaluate, substitute, symbol, whole
from minicc.ir.reals import STEPS, UNARY, Real, whole_part
from minicc.ir.text.extents import dim_of
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module
from minicc.target import TARGETS

FLOATS = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}
H = symbol("h")


def model_of(nodes: list[Any], held: dict[str, Any], rank: int, more: str = "") -> bytes:
    """From `x` of a free length to rows of its sum whose extents are the vector `i`, and `i`.

    `more` is one of the floats in between that is a result, too.
    """
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["h"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)
    i = helper.make_tensor_value_info("i", TensorProto.INT64, [None])
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    ends = [
        helper.make_node("ConstantOfShape", ["i"], ["filled"], value=one),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Mul", ["filled", "total"], ["y"]),
    ]
    constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in held.items()]
    others = [helper.make_tensor_value_info(name, 0, None) for name in [more] if name]
    graph = helper.make_graph([*nodes, *ends], "test", [x], [y, i, *others], constants)
    opsets = [helper.make_opsetid("", 18)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return model


_MOST = 1 << 22  # elements that a test makes


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, float | None]:
    """An operator of ONNX, and the constant that is its second operand."""
    op = draw(st.sampled_from(["Mul", "Mul", "Div", "Add", "Sub", "Max", "Min", "Sqrt", "Abs"]))
    number = draw(st.sampled_from([1.3, 0.7, 2.0, 3.0, 1 / 3, 0.1, 600.0, 32.0, -1.5]))
    return op, None if op in ("Sqrt", "Abs") else number


@pytest.mark.parametrize("target", [n for n, target in TARGETS.items() if target.runs_here()])
@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("rounding", ["Floor", "Ceil", "Round"])
def test_each_target_has_what_sizes_are_computed_with(
    target: str, element: Any, rounding: str
) -> None:
    shape = helper.make_node("Shape", ["x"], ["s"])
    nodes = [shape, helper.make_node("Cast", ["s"], ["f0"], to=FLOATS[element])]
    chain = ["Mul", "Max", "Min", "Sqrt", "Neg", "Abs", rounding]
    for k, op in enumerate(chain):
        names = [f"f{k}"] + ["c"] * (op in ("Mul", "Max", "Min"))
        nodes.append(helper.make_node(op, names, [f"f{k + 1}"]))
    nodes.append(helper.make_node("Cast", [f"f{len(chain)}"], ["i"], to=TensorProto.INT64))
    session = InferenceSession(model_of(nodes, {"c": element(40.3)}, 1), target=target)
    for h in (1, 3, 50):
        y, i = session.run(None, {"x": np.ones(h, np.float32)})
        exact = np.sqrt(element(40.3))
        rounded = {"Floor": np.floor, "Ceil": np.ceil, "Round": np.rint}[rounding](exact)
        assert y.shape == (i[0],) == (int(rounded),)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(steps(), max_size=4),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(["", "Floor", "Ceil", "Round"]),
    st.booleans(),
)
def test_an_extent_is_the_whole_part_that_numpy_computes(
    ops: list[tuple[str, float | None]], element: Any, rounding: str, narrowed: bool
) -> None:
    known = {"Mul": "multiply", "Div": "divide", "Sub": "subtract", "Round": "rint"}
    known |= {"Max": "maximum", "Min": "minimum"}
    shape = helper.make_node("Shape", ["x"], ["s"])
    nodes = [shape, helper.make_node("Cast", ["s"], ["f"], to=FLOATS[element])]
    held: dict[str, Any] = {}

    def add(op: str, number: float | None) -> None:
        names = [nodes[-1].output[0]]
        if number is not None:
            held[f"c{len(nodes)}"] = element(number)
            names.append(f"c{len(nodes)}")
        nodes.append(helper.make_node(op, names, [f"v{len(nodes)}"]))

    for op, number in ops:
        add(op, number)
    if rounding:
        add(rounding, None)
    last = nodes[-1].output[0]
    if narrowed:
        other = np.float64 if element is np.float32 else np.float32
        nodes.append(helper.make_node("Cast", [last], ["other"], to=FLOATS[other]))
        last = "other"
    nodes.append(helper.make_node("Cast", [last], ["i"], to=TensorProto.INT64))

    try:
        session = InferenceSession(model_of(nodes, held, 1))
    except UserError:
        session = None  # the extent is negative whatever the input's is, which is known ahead
    for n in (0, 1, 2, 3, 7, 10, 33, 49, 100, 641):
        value = element(n)
        with np.errstate(all="ignore"):
            for op, number in ops:
                function = getattr(np, known.get(op, op.lower()))
                value = function(value) if number is None else function(value, element(number))
            if rounding:
                value = getattr(np, known.get(rounding, rounding.lower()))(value)
        if narrowed:
            value = (np.float64 if element is np.float32 else np.float32)(value)
        x = np.full(n, 2, np.float32)
        if session is None:
            assert value <= -1
            continue
        if not value >= 0:
            if value <= -1:
                with pytest.raises(UserError):
                    session.run(None, {"x": x})
            continue
        if value > _MOST:
            continue
        y, i = session.run(None, {"x": x})
        assert i.tolist() == [int(value)] == [y.size], n
        assert (y == 2 * n).all()
    assert session is None or len(session._compiled) == 1


def test_an_element_of_a_table_at_a_size_is_read_when_the_model_runs() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["h"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["table", "s"], ["y"]),
    ]
    table = numpy_helper.from_array(np.array([0.5, 1.5, 2.5], np.float32), "table")
    graph = helper.make_graph(nodes, "test", [x], [y], [table])
    opsets = [helper.make_opsetid("", 18)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = InferenceSession(made.SerializeToString())
    assert session.run(None, {"x": np.zeros(2, np.float32)})[0].tolist() == [2.5]
    with pytest.raises(UserError, match="index 3"):
        session.run(None, {"x": np.zeros(3, np.float32)})


def test_images_are_scaled_to_fit_as_a_detector_does() -> None:
    """The least of two scales, of the smaller and of the larger side, in single precision."""

    def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
        return helper.make_node(op, inputs.split(), [output], **attributes)

    nodes = [
        node("Shape", "x", "s"),
        node("Cast", "s", "f", to=TensorProto.FLOAT),
        node("Concat", "f other", "sides", axis=0),
        node("ReduceMin", "sides", "least", keepdims=0),
        node("ReduceMax", "sides", "most", keepdims=0),
        node("Div", "small least", "a"),
        node("Div", "large most", "b"),
        node("Min", "a b", "scale"),
        node("Mul", "sides scale", "scaled"),
        node("Floor", "scaled", "floored"),
        node("Cast", "floored", "i", to=TensorProto.INT64),
    ]
    held = {"other": np.array([48], np.float32), "small": np.float32(80), "large": np.float32(133)}
    session = InferenceSession(model_of(nodes, held, 2))
    for n in (1, 20, 47, 48, 49, 79, 80, 81, 100, 133):
        sides = np.array([n, 48], np.float32)
        scale = min(np.float32(80) / sides.min(), np.float32(133) / sides.max())
        y, i = session.run(None, {"x": np.ones(n, np.float32)})
        assert i.tolist() == np.floor(sides * scale).astype(int).tolist() == [*y.shape], n
    assert session is None or len(session._compiled) == 1
    assert not session._compiled[()].host


@pytest.mark.parametrize("step", [0.5, 0.3, 2.0, -0.7])
@pytest.mark.parametrize("element", FLOATS)
def test_a_range_of_floats_ends_where_sizes_say(element: Any, step: float) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=FLOATS[element]),
        helper.make_node("Mul", ["f", "scale"], ["v"]),
        helper.make_node("Squeeze", ["v"], ["limit"]),
        helper.make_node("Range", ["first", "limit", "step"], ["line"]),
        helper.make_node("Shape", ["line"], ["i"]),
    ]
    held = {"scale": element(1.3 * np.sign(step)), "first": element(0.25), "step": element(step)}
    session = InferenceSession(model_of(nodes, held, 1, "line"))
    for n in (0, 1, 2, 10, 33):
        x = np.ones(n, np.float32)
        line = session.run(["line"], {"x": x})[0]
        limit = float(element(n) * held["scale"])
        wanted = np.arange(float(held["first"]), limit, float(held["step"]))
        assert line.dtype == element
        assert line.shape == wanted.shape
        np.testing.assert_allclose(line, wanted, rtol=1e-6, atol=1e-6)
    assert session is None or len(session._compiled) == 1


def resized(extent: int | str, scale: float, **attributes: Any) -> bytes:
    """A matrix of so many rows, of which there are `scale` times as many then."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [extent, 2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], **attributes)
    held = [numpy_helper.from_array(np.array([scale, 1], np.float32), "s")]
    graph = helper.make_graph([node], "test", [x], [y], held)
    opsets = [helper.make_opsetid("", 18)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


@pytest.mark.parametrize("scale", [0.7, 0.3, 1.1, 2.2])
def test_a_resized_axis_is_as_long_as_in_single_precision(scale: float) -> None:
    """Of ten elements 0.7 times as many are seven; in double precision it were six."""
    free = InferenceSession(resized("n", scale))
    for n in (1, 9, 10, 20, 30, 50, 90, 101):
        x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
        wanted = int(np.float32(n) * np.float32(scale))
        got = free.run(None, {"x": x})[0]
        assert got.shape == (wanted, 2)
        known = InferenceSession(resized(n, scale)).run(None, {"x": x})[0]
        assert np.array_equal(known, got)
    assert len(free._compiled) == 1


@pytest.mark.parametrize(
    ("scale", "coordinates", "wanted"),
    [
        (0.4, "asymmetric", [0, 2, 5, 7, 10, 12, 15, 17]),
        (0.2, "half_pixel", [2, 7, 12, 17]),
        (0.6, "pytorch_half_pixel", [0, 2, 3, 5, 6, 8, 10, 11, 13, 15, 17, 18]),
    ],
)
def test_the_nearest_element_is_found_in_single_precision(
    scale: float, coordinates: str, wanted: list[int]
) -> None:
    """Two by 0.4 is five, though 0.4 in single precision is more than that."""
    way = {"coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
    x = np.repeat(np.arange(20, dtype=np.float32)[:, None], 2, axis=1)
    for extent in (20, "n"):
        found = InferenceSession(resized(extent, scale, **way)).run(None, {"x": x})[0]
        assert found[:, 0].tolist() == wanted


def test_a_text_of_such_a_size_is_read_again_by_both_parsers() -> None:
    inner = Real("mul", Real("f32", 2 * H + 1), 1.2999999523162842)
    value = whole(Real("floor", Real("min", inner, Real("narrow", Real("f64", H)))))
    said = "trunc(floor(min(mul(f32(2*h + 1), 1.2999999523162842), narrow(f64(h)))))"
    assert str(value) == said
    assert dim_of(said) == value
    assert dim_of("2*" + said + " + 3") == 2 * value + 3
    assert dim_of("trunc(sub(f32(h), -1.5e-07))") == whole(Real("sub", Real("f32", H), -1.5e-07))
    assert dim_of("trunc") == symbol("trunc")
    head = 'module level = "graph"\n\nfunc @main(%x: f32[h]) -> ("x": f32[h])'
    module = parse_module(f"{head} {{extents = [{said}]}} {{\n  yield %x\n}}\n")
    assert module.main.attrs["extents"] == (value,)
    assert said in print_module(module)


WRONG = ["trunc(f32(h)", "trunc(h)", "trunc(mul(f32(h)))", "trunc(1.5)", "trunc(div(f32(h), -0.0))"]
WRONG += ["trunc(add(f32(h), f64(h)))", "trunc(sine(f32(h)))"]


@pytest.mark.parametrize("said", WRONG)
def test_what_is_no_float_of_sizes_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match=r"dimension|no float"):
        dim_of(said)


def test_whole_parts_are_numbers_of_64_bits() -> None:
    cases = [(np.nan, 0), (np.inf, 2**63 - 1), (-np.inf, -(2**63)), (-1.9, -1), (2.5, 2)]
    for value, wanted in cases:
        assert whole_part(np.float32(value)) == wanted
    assert whole_part(np.array([1.5, np.nan])).tolist() == [1, 0]


def test_binding_a_size_gives_the_number() -> None:
    for kind, n in itertools.product(sorted(STEPS), (1, 5, 12)):
        args = (Real("f32", H),) if kind in UNARY else (Real("f32", H), 0.3)
        value = whole(Real("mul", Real(kind, *args), 10.0))
        assert substitute(value, {"h": n}) == evaluate(value, {"h": n})
        assert isinstance(substitute(value, {"h": n}), int)
        other: Dim = substitute(value, {"h": H + 1})
        assert evaluate(other, {"h": n - 1}) == evaluate(value, {"h": n})
        assert evaluate(value, {"h": np.array([n, n])}).tolist() == [evaluate(value, {"h": n})] * 2
