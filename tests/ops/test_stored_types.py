"""Element types that are only stored: they survive as text, casts are those of ml_dtypes."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator
from tests.sweeps import part

from minicc import InferenceSession
from minicc.compile.compiled import build
from minicc.ir import graph
from minicc.ir.core import Function, Literal, Module, Region, Value, same_module
from minicc.ir.interpret import run
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module, resources
from minicc.ir.types import (
    BF16,
    BOOL,
    F8E5M2,
    F8E8M0FNU,
    F16,
    F32,
    F64,
    I2,
    I4,
    I8,
    I32,
    STORED,
    U2,
    U4,
    U8,
    DType,
    TensorType,
    from_numpy,
)
from minicc.options import Options
from minicc.runtime.saved import Segment, executable_of

Array = np.ndarray[Any, Any]
LOC = ("here",)
INTEGERS = (I2, I4, U2, U4)


@pytest.mark.parametrize("element", STORED, ids=str)
@pytest.mark.parametrize("count", [None, 0, 3, 40, 5000])
def test_constants_survive_a_round_trip(element: DType, count: int | None) -> None:
    numbers = np.arange(1 if count is None else count) % 3
    array = numbers.astype(np.float32).astype(element.numpy).reshape(() if count is None else -1)
    assert from_numpy(array.dtype) is element
    op = graph.Constant(Literal(array), loc=LOC)
    module = Module("graph", [Function("main", Region((), [op], [op.result]))])
    again = parse_module(print_module(module), resources=resources(module))
    assert same_module(module, again)


@pytest.mark.parametrize("element", STORED, ids=str)
def test_moving_and_casting(element: DType) -> None:
    x = Value(TensorType(F32, (4, 2)))
    narrow = graph.Cast(x, dtype=element, loc=LOC)
    moved = graph.Transpose(narrow.result, perm=(1, 0), loc=LOC)
    wide = graph.Cast(moved.result, dtype=F32, loc=LOC)
    body = Region([x], [narrow, moved, wide], [moved.result, wide.result])
    module = Module("graph", [Function("main", body)])
    given = np.array([[0, 1], [1, 0], [0.25, 1], [0.9, 0]], np.float32)
    stored, back = run(module, [given])
    wanted = given.astype(element.numpy).T
    assert stored.dtype == element.numpy
    assert stored.tobytes() == np.ascontiguousarray(wanted).tobytes()
    assert np.array_equal(back, wanted.astype(np.float32), equal_nan=True)


def compiled(inputs: Sequence[Array], targets: Sequence[DType]) -> list[Array]:
    """What machine code makes of all inputs as all other types, in this order."""
    args = [Value(TensorType(wanted(from_numpy(x.dtype)), x.shape)) for x in inputs]
    casts = [
        graph.Cast(x, dtype=to, loc=LOC) for x in args for to in targets if to is not x.type.dtype
    ]
    body = Region(args, casts, [op.result for op in casts])
    options = Options(cache_dir=False, threads=1)
    made = build(Module("graph", [Function("main", body)]), options, {})
    assert [type(step) for step in made.built.steps] == [Segment]
    return executable_of(made.built, options).run(list(inputs))


def wanted(element: DType | None) -> DType:
    assert element is not None
    return element


def numbers_to_round(element: DType) -> Array:
    """Numbers of f32 and what lies between, beside and beyond those of a type, and random bits."""
    stored = np.arange(1 << element.bits, dtype=np.uint8).view(element.numpy).astype(np.float32)
    held = np.unique(stored[np.isfinite(stored)])
    near = np.concatenate([held, (held[1:] + held[:-1]) / 2, held * 1.5])
    up, down = (np.nextafter(near, np.float32(end)) for end in (np.inf, -np.inf))
    random = np.random.default_rng(0)
    bits = random.integers(0, 1 << 32, 100_000, np.uint32).view(np.float32)
    size = 2.0 ** random.integers(-20, 20, 100_000)
    usual = (random.standard_normal(100_000) * size).astype(np.float32)
    special = np.array([0, np.inf, np.nan, 2.0**-126, 2.0**-149, 3.4e38], np.float32)
    out = np.concatenate([near, up, down, special, -special, bits, usual])
    # beyond the range of integers nothing is defined
    return out[(held[0] <= out) & (out <= held[-1])] if element in INTEGERS else out


@pytest.mark.parametrize("element", part(STORED, 3), ids=str)
def test_rounding_to_a_stored_type_as_machine_code(element: DType) -> None:
    given = numbers_to_round(element)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    inputs: list[Array] = [given, np.arange(-70_000, 70_000), given > 0]
    if element not in INTEGERS:
        inputs += [halves, halves.view(ml_dtypes.bfloat16)]
    with np.errstate(all="ignore"):
        if element is not F8E8M0FNU:  # of denormal f64 rounding to f32 flushes some
            inputs.append(given.astype(np.float64))
        expected = [x.astype(element.numpy) for x in inputs]
    for x, got, want in zip(inputs, compiled(inputs, [element]), expected, strict=True):
        (wrong,) = np.nonzero(got.view(np.uint8) != want.view(np.uint8))
        assert not wrong.size, (x[wrong[:4]], got[wrong[:4]], want[wrong[:4]])


@pytest.mark.parametrize("element", part(STORED, 3), ids=str)
def test_reading_a_stored_type_as_machine_code(element: DType) -> None:
    codes = np.arange(1 << element.bits, dtype=np.uint8).view(element.numpy)
    number = codes.astype(np.float32)
    small = codes[np.isfinite(number) & (number >= 0) & (number < 2)]  # what integers can hold
    if element is F8E8M0FNU:
        codes, small = codes[1:], small[1:]  # the least is a denormal f32
    for given, targets in (
        (codes, [F16, BF16, F32, F64, BOOL, *(d for d in STORED if d not in INTEGERS)]),
        (small, [I8, U8, I32, *INTEGERS]),
    ):
        asked = [d for d in targets if d is not element]
        for got, to in zip(compiled([given], asked), asked, strict=True):
            x = Value(TensorType(element, given.shape))
            (want,) = graph.Cast(x, dtype=to, loc=LOC).evaluate(lambda r, a: (), given)
            assert got.tobytes() == want.tobytes(), (to, got, want)


@pytest.mark.parametrize("element", [BF16, *STORED], ids=str)
def test_placing_elements_where_data_say_as_machine_code(element: DType) -> None:
    x, new = (np.arange(n).reshape(-1, 2).astype(element.numpy) for n in (8, 4))
    where = np.array([[3, -2], [0, 1]])
    args = [Value(TensorType(wanted(from_numpy(a.dtype)), a.shape)) for a in (x, where, new)]
    put = graph.ScatterElements(*args, axis=0, loc=LOC)
    taken = graph.GatherElements(put.result, args[1], axis=0, loc=LOC)
    body = Region(args, [put, taken], [put.result, taken.result])
    options = Options(cache_dir=False, threads=1)
    made = build(Module("graph", [Function("main", body)]), options, {})
    assert [type(step) for step in made.built.steps] == [Segment]
    got = executable_of(made.built, options).run([x, where, new])
    expected = x.copy()
    expected[where, [[0, 1], [0, 1]]] = new
    assert got[0].tobytes() == expected.tobytes()
    assert got[1].tobytes() == new.tobytes()


@pytest.mark.parametrize("saturate", [0, 1])
def test_saturating(saturate: int) -> None:
    """As the specification's tables say of what is too large, which ONNX's reference follows."""
    names = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"]
    ways = [(name, "") for name in names]
    ways += [("FLOAT8E8M0", f'round_mode = "{way}", ') for way in ("up", "down", "nearest")]
    lines, outputs = [], []
    for k, (name, way) in enumerate(ways):
        to = f"to = {TensorProto.DataType.Value(name)}"
        lines.append(f"y{k} = Cast <{way}saturate = {saturate}, {to}> (x)")
        outputs.append(f"{name.lower()}[n] y{k}")
    head = (
        f'<ir_version: 12, opset_import: ["": 24]>\nagraph (float[n] x) => ({", ".join(outputs)})'
    )
    model = onnx.parser.parse_model(f"{head} {{\n{chr(10).join(lines)}\n}}")
    x = numbers_to_round(F8E5M2)
    x = x[(np.abs(x) >= 2.0**-126) | np.isnan(x)]
    with np.errstate(all="ignore"):
        expected: Any = ReferenceEvaluator(model).run(None, {"x": x})
    session = InferenceSession(model.SerializeToString(), threads=1)
    for (name, _), got, want in zip(ways, session.run(None, {"x": x}), expected, strict=True):
        held, asked = (a.astype(np.float32) for a in (got, want))
        if name == "FLOAT8E8M0":
            held, asked = held[x > 0], asked[x > 0]  # of others nothing is said
        np.testing.assert_array_equal(held, asked)
    assert [one.host for one in session._compiled.values()] == [()]


@pytest.mark.parametrize("element", STORED, ids=str)
def test_nothing_is_computed(element: DType) -> None:
    x = Value(TensorType(element, (3,)))
    for op in (graph.Add, graph.Max, graph.Lt, graph.And):
        with pytest.raises(TypeError, match=f"is not defined on {element}"):
            op(x, x, loc=LOC)
    with pytest.raises(TypeError, match="is not defined on"):
        graph.Reduce(x, axes=(0,), combine="add", loc=LOC)
    chosen = graph.Select(Value(TensorType(BOOL, (3,))), x, x, loc=LOC)
    assert chosen.result.type == x.type


def test_bits_say_what_a_width_is() -> None:
    assert {d.bits for d in STORED} == {2, 4, 6, 8}
    assert all(d.bytes == 1 for d in STORED)
    assert not any(d.is_float or d.is_integer for d in STORED)
    int4 = graph.Cast(Value(TensorType(I32)), dtype=STORED[8], loc=LOC)
    (got,) = int4.evaluate(lambda r, a: (), np.array(-7, np.int32))
    assert got.dtype == ml_dtypes.int4
    assert int(got) == -7


@pytest.mark.parametrize("element", STORED, ids=str)
def test_an_output_that_is_an_input_or_a_constant(element: DType) -> None:
    x = Value(TensorType(element, (3,)), "x")
    f = Value(TensorType(F32, (2,)), "f")
    kept = graph.Constant(Literal(np.ones(2, element.numpy)), loc=LOC)
    sums = graph.Add(f, f, loc=LOC)
    body = Region([x, f], [kept, sums], [x, kept.result, sums.result])
    made = build(Module("graph", [Function("main", body)]), Options(cache_dir=False), {})
    given = np.arange(3).astype(np.float32).astype(element.numpy)
    executable = executable_of(made.built, Options(cache_dir=False, threads=1))
    same, constant, twice = executable.run([given, np.ones(2, np.float32)])
    assert same.tobytes() == given.tobytes()
    assert constant.tobytes() == np.ones(2, element.numpy).tobytes()
    assert twice.tolist() == [2, 2]
