"""Long functions that are many are loops or calls, with the bits that one vector alone gets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from tests.stages.programs import constant, machine_code, module
from tests.sweeps import part

import minicc.backends.llvm.emit
from minicc.backends.llvm.compile import emit
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Module, Op, Value
from minicc.ir.types import F16, F32, F64, DType, TensorType
from minicc.options import Options
from minicc.target import TARGETS

_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
_ROWS, _INNER, _COLUMNS = 37, 24, 72


def after_product(function: type[Op], weights: np.ndarray, target: str) -> Module:
    """A product of matrices, and a function of its elements that joins it."""

    def body(b: Builder, x: Value) -> Sequence[Value]:
        product = b.emit(graph.Contract, x, constant(b, weights), equation="mk,kn->mn")
        return [product, b.emit(function, product)]

    made = module(body, TensorType(F32, (_ROWS, _INNER)))
    return lower(made, Options(target=target))


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize("function", [graph.Erf, graph.Exp, graph.Tanh], ids=lambda f: f.opname)
def test_same_bits_as_alone(function: type[Op], target: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(_ROWS, _INNER)).astype(np.float32)
    weights = rng.normal(size=(_INNER, _COLUMNS)).astype(np.float32)
    product, got = machine_code(after_product(function, weights, target), target, [x], 2)

    def alone(b: Builder, v: Value) -> Sequence[Value]:
        return [b.emit(function, v)]

    program = lower(module(alone, TensorType(F32, product.shape)), Options(target=target))
    (wanted,) = machine_code(program, target, [product], 1)
    assert got.tobytes() == wanted.tobytes()


def test_written_once_for_all_vectors() -> None:
    weights = np.ones((_INNER, _COLUMNS), np.float32)
    program = after_product(graph.Erf, weights, "avx512")
    (text,) = (
        t for name, t in emit(program, TARGETS["avx512"], "nothing").items() if name != "main"
    )
    vectors = _ROWS * _COLUMNS // 16
    assert len(text.splitlines()) < 5 * vectors, "a line of a vector is about thirty written out"


def chain(count: int, shape: tuple[int, ...], element: DType) -> Module:
    """So many rounds of a long function of one operand and one of two."""

    def body(b: Builder, x: Value, y: Value) -> Sequence[Value]:
        for _ in range(count):
            x = b.emit(graph.Add, b.emit(graph.Sin, x), y)
            x = b.emit(graph.Pow, b.emit(graph.Abs, x), y)
        return [x]

    return module(body, *[TensorType(element, shape)] * 2)


@pytest.mark.parametrize(
    ("shape", "element", "target"),
    part(itertools.product([(), (13,)], [F32, F64, F16], _RUNNABLE), 7),
    ids=str,
)
def test_same_bits_from_calls(
    shape: tuple[int, ...], element: DType, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    inputs = [rng.uniform(0.5, 1.5, shape).astype(element.numpy) for _ in range(2)]
    program = lower(chain(9, shape, element), Options(target=target))
    (text,) = (t for name, t in emit(program, TARGETS[target], "nothing").items() if name != "main")
    assert text.count("= call") > text.count("define internal") > 0
    (got,) = machine_code(program, target, inputs, 1)
    monkeypatch.setattr(minicc.backends.llvm.emit, "often", lambda ops: set())
    (written_out,) = machine_code(program, target, inputs, 1)
    assert got.tobytes() == written_out.tobytes()
