"""The derivative of each op against central differences, in f64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Op, Value
from minicc.ir.interpret import run
from minicc.ir.types import F32, F64, I64, TensorType
from minicc.library.gradient import RULES, gradients
from minicc.library.gradient_elements import NoDerivativeError
from tests.stages.programs import constant, module

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)
SMALL, ABOVE_ONE = (-0.9, 0.9), (1.1, 3.0)
NONE = Literal(np.float64(0))


class Case(NamedTuple):
    """An op on operands of these shapes, drawn from a range; `make` says what it is besides."""

    cls: type[Op]
    shapes: tuple[tuple[int, ...], ...]
    options: Mapping[str, Any] = {}
    within: tuple[float, float] = (-2.0, 2.0)
    after: tuple[Any, ...] = ()  # constants that come after the operands


def unary(*classes: type[Op], within: tuple[float, float] = (-2.0, 2.0)) -> list[Case]:
    return [Case(cls, ((3, 4),), within=within) for cls in classes]


def binary(*classes: type[Op], within: tuple[float, float] = (-2.0, 2.0)) -> list[Case]:
    shapes = (((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3)), ((2, 1, 3), (5, 1)))
    return [Case(cls, pair, within=within) for cls in classes for pair in shapes]


E = graph
CASES = [
    *unary(E.Neg, E.Abs, E.Exp, E.Exp2, E.Expm1, E.Tanh, E.Erf, E.Floor, E.Ceil, E.Round),
    *unary(E.Sin, E.Cos, E.Tan, E.Atan, E.Sinh, E.Cosh, E.Asinh, within=(-1.4, 1.4)),
    *unary(E.Asin, E.Acos, E.Atanh, within=SMALL),
    *unary(E.Log, E.Log2, E.Log10, E.Cbrt, E.Sqrt, E.Acosh, within=ABOVE_ONE),
    *unary(E.Exp2Nonpositive, within=(-3.0, -0.1)),
    *binary(E.Add, E.Sub, E.Mul, E.Max, E.Min, E.Atan2),
    *binary(E.Div, E.Pow, E.Mod, E.FloorDiv, within=(0.3, 2.2)),
    Case(E.Cast, ((3,),), {"dtype": F64}),
    Case(E.Broadcast, ((3, 1),), {"shape": (2, 3, 4)}),
    Case(E.Reshape, ((3, 4),), {"shape": (2, 6)}),
    Case(E.Transpose, ((2, 3, 4),), {"perm": (1, 2, 0)}),
    Case(E.Accumulate, ((3, 4),), {"axis": 0, "combine": "add"}),
    Case(E.Sort, ((3, 4),), {"axis": 1}),
    Case(E.Slice, ((7, 5),), {"starts": (1, 0), "stops": (6, 5), "steps": (2, 1)}),
    Case(E.Slice, ((7, 5),), {"starts": (6, 3), "stops": (-1, 0), "steps": (-3, -2)}),
    Case(E.Slice, ((4,),), {"starts": (2,), "stops": (2,), "steps": (1,)}),
    Case(E.Slice, ((4,),), {"starts": (0,), "stops": (0,), "steps": (-1,)}),
    Case(E.InsertSlice, ((7, 5), (3, 2)), {"starts": (1, 2), "steps": (2, 1)}),
    Case(E.InsertSlice, ((7, 5), (0, 2)), {"starts": (0, 0), "steps": (2, 4)}),
    Case(E.Pad, ((2, 3),), {"low": (1, 0), "high": (2, 3), "value": NONE}),
    *[Case(E.Reduce, ((2, 3, 4),), {"axes": (0, 2), "combine": c}) for c in ("add", "max", "min")],
    Case(E.Reduce, ((2, 3),), {"axes": (1,), "combine": "mul", "keepdims": True}),
    Case(E.Reduce, ((2, 3),), {"axes": (), "combine": "max"}),
    Case(E.Contract, ((2, 3, 4), (2, 4, 5)), {"equation": "bmk,bkn->bnm"}),
    Case(E.Contract, ((2, 3), (4, 5)), {"equation": "ab,cd->ca"}),
    Case(E.Contract, ((3,), (3,)), {"equation": "k,k->"}),
    Case(E.Gather, ((3, 4, 2),), {"axis": 1}, after=([[0, -1], [2, 2]],)),
    Case(E.Gather, ((3, 4),), {"axis": 0}, after=(1,)),
    Case(E.GatherElements, ((3, 4),), {"axis": 1}, after=([[0, 0], [-1, 2]],)),
    Case(E.GatherND, ((3, 4, 2),), after=([[0, 1], [2, -1], [0, 1]],)),
    Case(E.GatherND, ((3, 4, 2),), {"batch": 1}, after=([[[1], [1]], [[0], [3]], [[2], [0]]],)),
    Case(E.TopK, ((3, 5),), {"axis": 1, "k": 2}),
    *[
        Case(E.Window, ((1, 2, 7, 6),), {"combine": c, "size": (1, 1, 3, 2), **more})
        for c in ("add", "max", "min")
        for more in (
            {"strides": (1, 1, 2, 3), "dilations": (1, 1, 1, 2)},
            {"strides": (1, 1, 3, 1), "dilations": (1, 1, 2, 1)},
        )
    ],
    Case(E.Conv, ((2, 3, 6, 5), (4, 3, 3, 2)), {"strides": (1, 1), "dilations": (1, 1)}),
    Case(
        E.Conv,
        ((2, 4, 9, 8), (6, 2, 3, 2)),
        {"strides": (2, 3), "dilations": (2, 1), "groups": 2},
    ),
    Case(E.Conv, ((1, 3, 5), (3, 1, 2)), {"strides": (2,), "dilations": (1,), "groups": 3}),
]
INDICES = np.array([[0, 2], [1, 0]])


def joined(b: Builder, *xs: Value) -> Value:
    return b.emit(graph.Concat, xs, axis=1)


def selected(b: Builder, *xs: Value) -> Value:
    return b.emit(graph.Select, constant(b, np.array([True, False, True])), *xs)


def scattered(combine: str) -> Callable[..., Value]:
    def along(b: Builder, x: Value, updates: Value) -> Value:
        options = {"axis": 1, "combine": combine}
        return b.emit(graph.ScatterElements, x, constant(b, INDICES), updates, **options)

    return along


def scattered_nd(combine: str) -> Callable[..., Value]:
    def slices(b: Builder, x: Value, updates: Value) -> Value:
        where = constant(b, np.array([[2], [0]]))
        return b.emit(graph.ScatterND, x, where, updates, combine=combine)

    return slices


def used_twice(b: Builder, x: Value, w: Value) -> Value:
    y = b.emit(graph.Mul, x, b.emit(graph.Exp, x))
    return b.emit(graph.Sub, b.emit(graph.Mul, y, w), y)


MORE: dict[str, tuple[Callable[..., Value], tuple[tuple[int, ...], ...]]] = {
    "concat": (joined, ((2, 3), (2, 1), (2, 2))),
    "select": (selected, ((2, 3), (1,))),
    "scatter_elements": (scattered("none"), ((3, 4), (2, 2))),
    "scatter_elements, added": (scattered("add"), ((3, 4), (2, 2))),
    "scatter_nd": (scattered_nd("none"), ((3, 4), (2, 4))),
    "scatter_nd, added": (scattered_nd("add"), ((3, 4), (2, 4))),
    "used twice": (used_twice, ((2, 3), (2, 3))),
}


def check(
    body: Callable[..., Value], shapes: tuple[tuple[int, ...], ...], within: tuple[float, float]
) -> None:
    """The gradients of a sum, weighted such that each element counts for itself."""
    types = [TensorType(F64, shape) for shape in shapes]

    def weighted(b: Builder, *xs: Value) -> Value:
        y = body(b, *xs)
        weights = np.arange(1.0, 1 + np.prod(y.type.shape)).reshape(y.type.shape)
        return b.emit(graph.Mul, y, constant(b, weights))

    def differentiated(b: Builder, *xs: Value) -> list[Value]:
        y = weighted(b, *xs)
        return gradients(b, list(b.ops), y, xs)

    plain = module(lambda b, *xs: [weighted(b, *xs)], *types)
    arrays = [RNG.uniform(*within, shape) for shape in shapes]
    for k, got in enumerate(run(module(differentiated, *types), arrays)):
        want = np.empty(shapes[k])
        for at in np.ndindex(shapes[k]):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [a.copy() for a in arrays]
                moved[k][at] += step
                ends.append(run(plain, moved)[0].sum())
            want[at] = (ends[0] - ends[1]) / 2e-6
        assert got.shape == shapes[k]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.cls.opname)
def test_a_rule(case: Case) -> None:
    def body(b: Builder, *xs: Value) -> Value:
        more = [constant(b, np.array(a)) for a in case.after]
        return b.emit_all(case.cls, *xs, *more, **case.options)[0]

    check(body, case.shapes, case.within)


@pytest.mark.parametrize("case", MORE)
def test_a_rule_of_several_operands(case: str) -> None:
    check(*MORE[case], (-2.0, 2.0))


def test_each_rule_is_tested() -> None:
    others = {graph.Concat, graph.Select, graph.ScatterElements, graph.ScatterND}
    assert set(RULES) - {case.cls for case in CASES} == others


WITHOUT = [
    Case(E.Window, ((9, 9),), {"combine": "max", "size": (9, 9), "strides": (1, 1)}),
    Case(E.Window, ((9, 9),), {"combine": "mul", "size": (2, 1), "strides": (1, 1)}),
]


@pytest.mark.parametrize("case", WITHOUT, ids=lambda c: c.options["combine"])
def test_what_has_no_derivative(case: Case) -> None:
    with pytest.raises(NoDerivativeError, match=case.cls.opname):
        check(
            lambda b, x: b.emit(case.cls, x, dilations=(1, 1), **case.options), case.shapes, SMALL
        )


@pytest.mark.parametrize("combine", ["mul", "max", "min"])
def test_what_is_scattered_by_other_combiners(combine: str) -> None:
    for body, shape in ((scattered(combine), (2, 2)), (scattered_nd(combine), (2, 4))):
        with pytest.raises(NoDerivativeError, match="scatter"):
            check(body, ((3, 4), shape), SMALL)


def slopes(body: Callable[[Builder, Value], Value], *at: float) -> list[float]:
    """The derivatives of a function of each element."""

    def differentiated(b: Builder, x: Value) -> list[Value]:
        y = body(b, x)
        return gradients(b, list(b.ops), y, [x])

    (out,) = run(module(differentiated, TensorType(F64, (len(at),))), [np.array(at)])
    found: list[float] = out.tolist()
    return found


def test_corners_have_the_mean_of_both_slopes() -> None:
    def softplus(b: Builder, x: Value) -> Value:
        above = b.emit(graph.Max, x, constant(b, 0.0))
        small = b.emit(graph.Exp, b.emit(graph.Neg, b.emit(graph.Abs, x)))
        return b.emit(
            graph.Add, above, b.emit(graph.Log, b.emit(graph.Add, small, constant(b, 1.0)))
        )

    assert slopes(softplus, 0.0) == [0.5]
    assert slopes(lambda b, x: b.emit(graph.Abs, x), -1, 0, 2) == [-1, 0, 1]


def test_products_with_zeros() -> None:
    def product(b: Builder, x: Value) -> Value:
        return b.emit(graph.Reduce, x, axes=(0,), combine="mul")

    assert slopes(product, 2, 0, 3) == [0, 6, 0]
    assert slopes(product, 0, 0, 3) == [0, 0, 0]


def test_powers_of_zero() -> None:
    def power(exponent: float, b: Builder, x: Value) -> Value:
        return b.emit(graph.Pow, x, constant(b, exponent))

    for exponent, slope in ((0.0, 0.0), (1.0, 1.0), (2.0, 0.0)):
        assert slopes(partial(power, exponent), 0.0) == [slope]
    two = slopes(lambda b, x: b.emit(graph.Pow, constant(b, 0.0), x), 2.0)
    assert two == [0.0]


def test_integers_in_between_are_constant() -> None:
    def body(b: Builder, x: Value) -> Value:
        steps = b.emit(graph.Cast, b.emit(graph.Cast, x, dtype=I64), dtype=F64)
        narrow = b.emit(graph.Cast, b.emit(graph.Cast, x, dtype=F32), dtype=F64)
        return b.emit(graph.Mul, narrow, steps)

    assert slopes(body, 2.5, -3.5) == [2, -3]
