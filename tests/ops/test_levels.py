"""Every graph op at every level, and as machine code on every target, against its own `evaluate`.

What only moves data, compares, or is one correctly rounded operation must agree to the bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.stages.programs import Array, changed, machine_code, module, results, same_bits
from tests.sweeps import part

from minicc.errors import UnsupportedError
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import REGISTRY, Literal, Op, Value
from minicc.ir.interpret import run
from minicc.ir.text.parser import parse_module
from minicc.ir.types import DTYPES, F32, I64, TensorType
from minicc.options import Options
from minicc.target import TARGETS

_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
_FLOATS = ("f16", "bf16", "f32", "f64")
_INTEGERS = ("i8", "u8", "i32", "i64")
_SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.0e4]
# shapes of the operands: rank 0, extents 0 and 1, broadcasting, and what no tile divides
_PAIRS = [
    ((), ()),
    ((1,), (1,)),
    ((0, 3), (0, 3)),
    ((17,), ()),
    ((3, 1), (1, 33)),
    ((2, 5, 70), (5, 1)),
]


class Case(NamedTuple):
    """An op with its operands' types; `exact` says that all levels agree to the bit."""

    name: str
    op: type[Op]
    types: tuple[TensorType, ...]
    build: Callable[..., Value]
    exact: bool = True
    ulps: float = 0.0


def array(type: TensorType, seed: int) -> Array:
    """Random elements with the special ones among them."""
    rng = np.random.default_rng(seed)
    shape, dtype = type.extents, type.dtype
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        ends = np.array([0, 1, limits.min, limits.max, 7], dtype.numpy)
        values = rng.integers(max(limits.min, -100), min(limits.max, 100), shape).astype(
            dtype.numpy
        )
        return np.where(rng.random(shape) < 0.3, rng.choice(ends, shape), values)
    with np.errstate(all="ignore"):
        values = (rng.standard_normal(shape) * 3).astype(dtype.numpy)
        return np.where(
            rng.random(shape) < 0.2, rng.choice(_SPECIAL, shape).astype(dtype.numpy), values
        )


def _t(dtype: str, *shape: int) -> TensorType:
    return TensorType(DTYPES[dtype], shape)


def _of_nonpositive(op: type[Op]) -> Callable[..., Any]:
    """An op of no number above 0."""
    return lambda b, x: b.emit(op, b.emit(graph.Neg, b.emit(graph.Abs, x)))


def _elementwise() -> list[Case]:
    cases: list[Case] = []
    binary: dict[type[Op], tuple[str, ...]] = {
        graph.Add: _FLOATS + _INTEGERS,
        graph.Sub: _FLOATS + _INTEGERS,
        graph.Mul: _FLOATS + _INTEGERS,
        graph.Div: ("f32", "f64", *_INTEGERS),
        graph.FloorDiv: ("f32", *_INTEGERS),
        graph.Mod: ("f32", *_INTEGERS),
        graph.Max: ("f32", "f64", *_INTEGERS),
        graph.Min: ("f32", "f64", *_INTEGERS),
        graph.And: ("bool", *_INTEGERS),
        graph.Or: ("bool", *_INTEGERS),
        graph.Xor: ("bool", *_INTEGERS),
        graph.MulHigh: tuple(d for d in _INTEGERS if d.startswith("u")),
        graph.Shl: _INTEGERS,
        graph.Shr: _INTEGERS,
        graph.Lt: ("f32", "f64", *_INTEGERS),
        graph.Le: ("f32", *_INTEGERS),
        graph.Eq: ("f32", "f64", *_INTEGERS),
        graph.Ne: ("f32", "f64", *_INTEGERS),
    }
    for op, dtypes in binary.items():
        for k, dtype in enumerate(dtypes):
            left, right = _PAIRS[k % len(_PAIRS)]
            types = (_t(dtype, *left), _t(dtype, *right))
            cases.append(Case(f"{op.opname}-{dtype}", op, types, _emit(op)))
    for left, right in _PAIRS:
        types = (_t("f32", *left), _t("f32", *right))
        cases.append(Case(f"graph.add-{left}-{right}", graph.Add, types, _emit(graph.Add)))
    exact: tuple[type[Op], ...] = (
        graph.Neg,
        graph.Abs,
        graph.Floor,
        graph.Ceil,
        graph.Round,
        graph.Sqrt,
    )
    for unary in exact:
        cases.append(Case(unary.opname, unary, (_t("f32", 5, 37),), _emit(unary)))
    near: tuple[tuple[type[Op], int], ...] = (
        (graph.Exp, 2),
        (graph.Exp2, 2),
        (graph.Expm1, 3),
        (graph.Log, 2),
        (graph.Log2, 2),
        (graph.Log10, 2),
        (graph.Cbrt, 2),
        (graph.Tanh, 3),
        (graph.Erf, 3),
    )
    for unary, ulps in near:
        for dtype in ("f32", "f64"):
            one = (_t(dtype, 3, 50),)
            name = f"{unary.opname}-{dtype}"
            cases.append(Case(name, unary, one, _emit(unary), False, ulps))
    power = graph.Exp2Nonpositive
    for dtype in ("f32", "f64", "f16"):
        one = (_t(dtype, 3, 50),)
        cases.append(Case(f"{power.opname}-{dtype}", power, one, _of_nonpositive(power), False, 2))
    for circular in CIRCULAR:
        for dtype in ("f32", "f16", "f64"):
            given = (_t(dtype, 3, 50),) * (2 if circular is graph.Atan2 else 1)
            name = f"{circular.opname}-{dtype}"
            cases.append(Case(name, circular, given, _emit(circular), False, 4))
    cases.append(Case("graph.not", graph.Not, (_t("bool", 33),), _emit(graph.Not)))
    for dtype, ulps in (("f32", 2), ("f64", 1), ("f16", 1)):
        pair = (_t(dtype, 7, 60), _t(dtype, 7, 60))
        cases.append(Case(f"graph.pow-{dtype}", graph.Pow, pair, _emit(graph.Pow), False, ulps))
    three = (_t("bool", 4, 33), _t("f32", 4, 33), _t("f32", 1, 33))
    cases.append(Case("graph.select", graph.Select, three, _emit(graph.Select)))
    return cases


CIRCULAR: tuple[type[Op], ...] = (
    graph.Sin,
    graph.Cos,
    graph.Tan,
    graph.Asin,
    graph.Acos,
    graph.Atan,
    graph.Atan2,
    graph.Sinh,
    graph.Cosh,
    graph.Asinh,
    graph.Acosh,
    graph.Atanh,
)


def _emit(op: type[Op], **attrs: Any) -> Callable[..., Value]:
    return lambda b, *xs: b.emit(op, *xs, **attrs)


def _casts() -> list[Case]:
    pairs = [
        ("f32", "f64"), ("f64", "f32"), ("f32", "f16"), ("f16", "f32"), ("f32", "bf16"),
        ("bf16", "f32"), ("i32", "f32"), ("u8", "f32"), ("i64", "i8"), ("i8", "i64"),
        ("bool", "f32"), ("f32", "bool"), ("u8", "i32"), ("bool", "i64"),
    ]  # fmt: skip
    bits = [("f32", "i32"), ("u32", "f32"), ("f64", "i64"), ("i8", "u8"), ("f16", "u16")]
    return [
        Case(f"{op.opname}-{a}-{b}", op, (_t(a, 3, 21),), _emit(op, dtype=DTYPES[b]))
        for op, some in ((graph.Cast, pairs), (graph.BitCast, bits))
        for a, b in some
    ]


def _movement() -> list[Case]:
    zero = Literal(np.float32(-0.0))
    x = _t("f32", 3, 5, 18)
    concat = lambda b, p, q: b.emit(graph.Concat, (p, q, p), axis=1)  # noqa: E731
    insert = _emit(graph.InsertSlice, starts=(1, 2, 0), steps=(1, 1, 2))
    whole = Literal(np.arange(40, dtype=np.float32).reshape(8, 5))
    attrs = {"starts": (2, 0, 17), "stops": (-1, 5, 1), "steps": (-1, 2, -3)}
    return [
        Case("graph.transpose", graph.Transpose, (x,), _emit(graph.Transpose, perm=(2, 0, 1))),
        Case("graph.reshape", graph.Reshape, (x,), _emit(graph.Reshape, shape=(9, 30))),
        Case(
            "graph.broadcast",
            graph.Broadcast,
            (_t("f32", 5, 1),),
            _emit(graph.Broadcast, shape=(2, 5, 7)),
        ),
        Case("graph.slice", graph.Slice, (x,), _emit(graph.Slice, **attrs)),
        *(
            Case(
                f"graph.frames-{axis}-{step}",
                graph.Frames,
                (x,),
                _emit(graph.Frames, axis=axis, size=2, step=step),
            )
            for axis, step in itertools.product(range(x.rank), (1, 3))
        ),
        Case("graph.insert_slice", graph.InsertSlice, (x, _t("f32", 2, 3, 9)), insert),
        Case("graph.concat", graph.Concat, (x, _t("f32", 3, 2, 18)), concat),
        Case(
            "graph.pad",
            graph.Pad,
            (x,),
            _emit(graph.Pad, low=(0, 1, 2), high=(1, 0, 3), value=zero),
        ),
        Case(
            "graph.pad-nothing",
            graph.Pad,
            (_t("f32", 0, 3),),
            _emit(graph.Pad, low=(2, 1), high=(0, 1), value=zero),
        ),
        Case("graph.constant", graph.Constant, (), _emit(graph.Constant, value=whole)),
        Case("graph.iota", graph.Iota, (), _emit(graph.Iota, shape=(4, 37), axis=1, dtype=I64)),
        Case(
            "graph.sizes",
            graph.Sizes,
            (),
            _emit(graph.Sizes, values=(7, -1, 1 << 40, 0), shape=(2, 2), dtype=I64),
        ),
        Case("graph.iota-0", graph.Iota, (), _emit(graph.Iota, shape=(4, 37), axis=0, dtype=F32)),
    ]


def _reductions() -> list[Case]:
    whole = (_t("f32", 3, 35, 34),)
    cases: list[Case] = []
    for combine in ("add", "max", "min"):
        for axes in ((2,), (0, 1), (0, 1, 2)):
            build = _emit(graph.Reduce, axes=axes, combine=combine, keepdims=len(axes) == 1)
            name = f"graph.reduce-{combine}-{axes}"
            cases.append(Case(name, graph.Reduce, whole, build, combine != "add", 60))
    for combine, dtype in (
        ("add", "i32"),
        ("max", "u8"),
        ("and", "bool"),
        ("or", "bool"),
        ("mul", "i64"),
    ):
        types = (_t(dtype, 7, 40),)
        build = _emit(graph.Reduce, axes=(1,), combine=combine)
        cases.append(Case(f"graph.reduce-{combine}-{dtype}", graph.Reduce, types, build))
    for combine, dtype, axis in itertools.product(
        ("add", "max", "min", "mul"), ("f32", "f16", "i64"), (0, 1, 2)
    ):
        types = (_t(dtype, 5, 41, 19),)
        build = _emit(graph.Accumulate, axis=axis, combine=combine)
        exact = dtype == "i64"  # which zero is the greater, nobody says
        name = f"graph.accumulate-{combine}-{dtype}-{axis}"
        cases.append(Case(name, graph.Accumulate, types, build, exact, 50))
    empty = _emit(graph.Reduce, axes=(0,), combine="add")
    cases.append(Case("graph.reduce-empty", graph.Reduce, (_t("f32", 0, 5),), empty))
    attrs = {"size": (1, 3, 2, 1), "strides": (1, 2, 1, 1), "dilations": (1, 1, 2, 1)}
    for combine in ("max", "add"):
        build = _emit(graph.Window, combine=combine, **attrs)
        types = (_t("f32", 1, 9, 8, 19),)
        cases.append(
            Case(f"graph.window-{combine}", graph.Window, types, build, combine == "max", 20)
        )
    return cases


def _contractions() -> list[Case]:
    def contract(equation: str, *types: TensorType) -> Case:
        build = _emit(graph.Contract, equation=equation)
        return Case(f"graph.contract-{equation}", graph.Contract, types, build, False, 100)

    def conv(name: str, x: TensorType, w: TensorType, **attrs: Any) -> Case:
        build = _emit(graph.Conv, strides=(2, 1), dilations=(1, 2), **attrs)
        return Case(f"graph.conv-{name}", graph.Conv, (x, w), build, False, 100)

    return [
        contract("mk,kn->mn", _t("f32", 7, 300), _t("f32", 300, 33)),
        contract("mk,nk->mn", _t("f32", 1, 65), _t("f32", 40, 65)),
        contract("bmk,bkn->bmn", _t("f32", 3, 9, 16), _t("f32", 3, 16, 20)),
        contract("k,k->", _t("f32", 50), _t("f32", 50)),
        contract("mk,k->m", _t("f64", 20, 31), _t("f64", 31)),
        contract("i,j->ij", _t("f32", 5), _t("f32", 40)),
        conv("plain", _t("f32", 1, 5, 11, 13), _t("f32", 36, 5, 3, 3)),
        conv("last", _t("f32", 2, 11, 13, 8), _t("f32", 16, 8, 2, 3), layout="channels_last"),
        conv("grouped", _t("f32", 1, 6, 9, 9), _t("f32", 8, 3, 3, 3), groups=2),
        conv("shuffled", _t("f32", 1, 12, 9, 9), _t("f32", 8, 6, 3, 3), groups=2, parts=4),
        conv("all-shuffled", _t("f32", 1, 12, 9, 9), _t("f32", 8, 12, 3, 3), parts=3),
        conv("each-shuffled", _t("f32", 1, 12, 9, 9), _t("f32", 12, 1, 3, 3), groups=12, parts=2),
        conv("depthwise", _t("f32", 1, 20, 9, 9), _t("f32", 20, 1, 3, 3), groups=20),
    ]


def _suppress(b: Builder, boxes: Value) -> Value:
    kinds = np.repeat([0, 1, 2], [20, 1, 9])
    numbers = (kinds, np.array(0.2, np.float32), np.array(5))
    given = [b.emit(graph.Constant, value=Literal(n)) for n in numbers]
    return b.emit(graph.Suppress, boxes, *given)


CASES = [
    *(*_elementwise(), *_casts(), *_movement(), *_reductions(), *_contractions()),
    Case("graph.suppress", graph.Suppress, (_t("f32", 4, 30),), _suppress),
]
POINTWISE = (
    *(graph.Exp, graph.Exp2, graph.Exp2Nonpositive, graph.Expm1, graph.Tanh, graph.Erf, graph.Pow),
    *(graph.Log, graph.Log2, graph.Log10, graph.Cbrt),
    *CIRCULAR,
)
NOT_LOWERED: tuple[type[Op], ...] = (
    graph.ScatterElements,
    graph.ScatterND,
    graph.Sort,
    graph.TopK,
)

ELSEWHERE = (  # test_winograd, test_gather, test_scan, test_sized and others, as they are called
    graph.Complex,
    graph.Imag,
    graph.Real,
    graph.Host,
    graph.If,
    graph.Kernel,
    graph.NonZero,
    graph.Scan,
    graph.Sized,
    graph.While,
    graph.WinogradInput,
    graph.WinogradOutput,
    graph.WinogradWeights,
    graph.Gather,
    graph.GatherElements,
    graph.GatherND,
)


def test_every_op_has_a_case() -> None:
    ops = {op for name, op in REGISTRY.items() if name.startswith("graph.")}
    assert ops - {*NOT_LOWERED, *ELSEWHERE} == {c.op for c in CASES}


def finite_inputs(case: Case) -> list[Array]:
    """Inputs without what would make sums of different orders differ beyond rounding."""
    arrays = [array(t, k + 1) for k, t in enumerate(case.types)]
    if case.exact or case.op in POINTWISE:
        return arrays
    return [
        np.nan_to_num(a / 1, nan=1.0, posinf=2.0, neginf=-2.0).clip(-4, 4).astype(a.dtype)
        for a in arrays
    ]


def check(case: Case, got: Array, want: Array, where: str) -> None:
    """Bitwise, or within the case's units in the last place of the largest magnitude."""
    assert got.dtype == want.dtype, where
    assert got.shape == want.shape, where
    if case.exact:
        assert same_bits(got, want), f"{where}: {got} instead of {want}"
        return
    finite = np.isfinite(want)
    assert np.array_equal(np.isnan(got), np.isnan(want)), where
    assert np.array_equal(got[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)]), where
    sums = case.op not in POINTWISE
    size = np.max(np.abs(want[finite]), initial=0.0) if sums else np.abs(want[finite])
    allowed = case.ulps * np.finfo(want.dtype).eps * size + np.finfo(want.dtype).tiny
    assert np.all(np.abs(got[finite] - want[finite]) <= allowed), where


@pytest.mark.parametrize("case", part(CASES, 10), ids=lambda c: c.name)
def test_levels_and_targets(case: Case) -> None:
    def body(b: Builder, *args: Value) -> Sequence[Value]:
        return [case.build(b, *args)]

    start = module(body, *case.types)
    inputs = finite_inputs(case)
    (want,) = run(start, inputs)
    for target in _RUNNABLE:
        found = changed(start, Options(target=target, math="strict"))
        for name, (got,) in results(found if target == _RUNNABLE[0] else found[-1:], inputs):
            check(case, got, want, f"after {name}")
        (got,) = machine_code(found[-1][1], target, inputs, 1)
        check(case, got, want, f"machine code for {target}")


def test_what_is_not_lowered_says_so() -> None:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        return b.emit_all(graph.TopK, x, axis=0, k=20)

    start = module(body, _t("f32", 600, 3))
    with pytest.raises(UnsupportedError, match=r"graph\.top_k has no lowering"):
        changed(start, Options())


def test_instances_that_store_alike_have_scratch_of_their_own() -> None:
    text = """
    module level = "kernel"

    func @twice(%0: index, %1: buffer<i64[5]>) -> () {grid = [5]} {
      %2 = kernel.alloc {type = !buffer<i64[1]>} : buffer<i64[1]> loc("k")
      %3 = arith.constant {value = dense<i64, 7>} : i64 loc("k")
      kernel.store %2, %3 {at = [0]} loc("k")
      %4 = kernel.load %2 {at = [0], shape = []} : i64 loc("k")
      kernel.store %1, %4, %0 {at = [i0]} loc("k")
      yield
    }

    func @main(%y: buffer<i64[5]>) -> () {inputs = 0} {
      program.launch %y {kernel = "twice", outputs = 1, sources = [["k"]], work = 5} loc("k")
      yield
    }
    """
    (got,) = run(parse_module(text), [])
    assert got.tolist() == [7] * 5
