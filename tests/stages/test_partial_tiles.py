"""Tiles along free dimensions of which the last is partial: every type and target, many sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from minicc.compile.compiled import compile_module
from minicc.ir import graph
from minicc.ir.affine import symbol
from minicc.ir.arith import identity_of
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Module, Region, Value
from minicc.ir.interpret import run
from minicc.ir.types import DTYPES, TensorType
from minicc.options import Options
from minicc.runtime import execute
from minicc.target import TARGETS
from tests.stages.programs import Array, constant
from tests.sweeps import part

_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
_TYPES = ["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "bool"]
_LENGTHS = (0, 1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 100, 257)
_ROWS = 3
_GUARD = 64  # elements after a result
Body = Callable[[Builder, Value], Sequence[Value]]


def _each(b: Builder, x: Value) -> Sequence[Value]:
    """Elements of rows, and of columns that become rows."""
    other = b.emit(graph.Select, b.emit(graph.Eq, x, x), x, constant(b, _zero(x)))
    return [b.emit(graph.Max, other, x), b.emit(graph.Transpose, x, perm=(1, 0))]


def _along(b: Builder, x: Value) -> Sequence[Value]:
    """The greatest and the least of rows, and rows less the greatest."""
    most = b.emit(graph.Reduce, x, axes=(1,), combine="max", keepdims=True)
    least = b.emit(graph.Reduce, x, axes=(1,), combine="min", keepdims=True)
    if x.type.dtype.kind == "b":
        return [most, least]
    return [most, least, b.emit(graph.Sub, x, most)]


def _sums(b: Builder, x: Value) -> Sequence[Value]:
    """Sums of rows, and of rows times a row."""
    columns = b.emit(graph.Reduce, x, axes=(0,), combine="add", keepdims=True)
    total = b.emit(graph.Reduce, x, axes=(1,), combine="add", keepdims=False)
    return [total, b.emit(graph.Contract, x, columns, equation="nk,mk->nm")]


def _stepped(b: Builder, x: Value) -> Sequence[Value]:
    """Every second to fifth element of rows, and windows that move on by two."""
    rows, n = x.type.shape
    found = [
        b.emit(graph.Slice, x, starts=(0, 0), stops=(rows, n), steps=(1, step))
        for step in (2, 3, 4, 5)
    ]
    wide = b.emit(graph.Pad, x, low=(0, 1), high=(0, 3), value=Literal(_zero(x)))
    moved: dict[str, Any] = {"size": (1, 3), "strides": (1, 2), "dilations": (1, 1)}
    return [*found, b.emit(graph.Window, wide, combine="max", **moved)]


def _woven(b: Builder, x: Value) -> Sequence[Value]:
    """Columns of two to four tensors side by side."""
    shape = (*x.type.shape, 1)
    columns = [b.emit(graph.Reshape, v, shape=shape) for v in (x, b.emit(graph.Max, x, x), x)]
    other = b.emit(graph.Select, b.emit(graph.Eq, x, x), constant(b, _zero(x)), x)
    columns.append(b.emit(graph.Reshape, other, shape=shape))
    return [b.emit(graph.Concat, tuple(columns[-n:]), axis=2) for n in (2, 3, 4)]


def _zero(x: Value) -> Array:
    return np.zeros((), x.type.dtype.numpy)


def _given(dtype: str, shape: tuple[int, ...]) -> Array:
    x = np.random.default_rng(shape[-1]).integers(-5, 6, shape)
    element = DTYPES[dtype]
    x = np.abs(x) if element.kind == "u" else x % 2 if element.kind == "b" else x
    return x.astype(np.float32).astype(element.numpy)


@pytest.mark.parametrize(
    ("body", "dtype", "target"),
    part(product([_each, _along, _sums, _stepped, _woven], _TYPES, _RUNNABLE), 3),
)
def test_machine_code(body: Body, dtype: str, target: str) -> None:
    if body is _sums and DTYPES[dtype].kind == "b":
        pytest.skip("booleans have no sums")
    arg = Value(TensorType(DTYPES[dtype], (_ROWS, symbol("n"))), "x")
    b = Builder((body.__name__,))
    module = Module("graph", [Function("main", Region([arg], b.ops, body(b, arg)))])
    executable = compile_module(module, Options(threads=1, target=target), {}).executable
    for length in _LENGTHS:
        # what lies beyond the end must not count
        whole = _given(dtype, (_ROWS * (length + 1),))
        x = whole[: _ROWS * length].reshape(_ROWS, length)
        for got, wanted in zip(executable.run([x]), run(module, [x]), strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=f"{length} of {dtype}")


@pytest.mark.parametrize("combine", ["add", "max", "min", "mul"])
def test_nothing_combined_is_the_identity(combine: str) -> None:
    dtype = DTYPES["f32"]
    arg = Value(TensorType(dtype, (_ROWS, symbol("n"))), "x")
    b = Builder((combine,))
    y = b.emit(graph.Reduce, arg, axes=(1,), combine=combine, keepdims=False)
    module = Module("graph", [Function("main", Region([arg], b.ops, (y,)))])
    executable = compile_module(module, Options(threads=1), {}).executable
    (got,) = executable.run([np.zeros((_ROWS, 0), np.float32)])
    np.testing.assert_array_equal(got, np.full(_ROWS, identity_of(combine, dtype).array))


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
@pytest.mark.parametrize("depth", [1, 5, 9])
def test_products_end_with_their_rows(
    depth: int, dtype: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    guards: list[Array] = []

    def guarded(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        count = prod(shape)
        whole = np.full(count + _GUARD, 77, dtype)
        guards.append(whole[count:])
        return whole[:count].reshape(shape)

    element = DTYPES[dtype]
    args = [
        Value(TensorType(element, (symbol("m"), depth)), "x"),
        Value(TensorType(element, (depth, symbol("n"))), "y"),
    ]
    b = Builder(("product",))
    y = b.emit(graph.Contract, *args, equation="mk,kn->mn")
    module = Module("graph", [Function("main", Region(args, b.ops, (y,)))])
    executable = compile_module(module, Options(threads=1, target=target), {}).executable
    monkeypatch.setattr(execute, "memory_for", partial(partial, guarded))
    for m in (1, 2, 5, 6, 7, 13):
        for n in (1, 3, 15, 17, 33, 70):
            given = [_given(dtype, (m, depth)), _given(dtype, (depth, n))]
            (got,) = executable.run(given)
            np.testing.assert_array_equal(got, given[0] @ given[1], err_msg=f"{m} x {n}")
            np.testing.assert_array_equal(guards.pop(), 77, err_msg=f"after {m} x {n}")
