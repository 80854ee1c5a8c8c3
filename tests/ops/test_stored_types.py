"""Element types that are only stored: constants survive as text, casts are those of ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest

from minicc.compiled import build
from minicc.errors import UnsupportedError
from minicc.ir import graph
from minicc.ir.core import Function, Literal, Module, Region, Value, same_module
from minicc.ir.interpret import run
from minicc.ir.parser import parse_module
from minicc.ir.printer import print_module, resources
from minicc.ir.types import BOOL, F32, I32, STORED, DType, TensorType, from_numpy
from minicc.options import Options
from minicc.passes.structured.lower_to_structured import lower_to_structured
from minicc.runtime.saved import executable_of

LOC = ("here",)


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
    with pytest.raises(UnsupportedError, match=r"graph\.cast has no lowering"):
        lower_to_structured(module)


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
