"""Circular functions as machine code against 100 bits, also where the argument is huge."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.stages.programs import Array, changed, machine_code, module

from minicc.ir import graph
from minicc.ir.core import Op
from minicc.ir.types import tensor_of
from minicc.options import Options
from minicc.target import TARGETS

_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
_PI = Fraction(314159265358979323846264338327950288419716939937510582097494459230781640628620899,
               10**80)  # fmt: skip
_HUGE = [1e6, 3.1e9, 1e15, 1e22, 6.3e30, 3.4028235e38, 16367173.0 * 2.0**72]
_SMALL = [0.0, 1e-30, 1e-8, 1e-3, 0.5, 0.7853982, 1.0, 1.5707964, 2.0, 3.1415927, 6.2831855, 10.0]
_ODD: tuple[type[Op], ...] = (
    graph.Sin, graph.Tan, graph.Asin, graph.Atan, graph.Sinh, graph.Asinh, graph.Atanh,
)  # fmt: skip
_PERIODIC: tuple[type[Op], ...] = (graph.Sin, graph.Cos, graph.Tan)
_BOUNDED: tuple[type[Op], ...] = (graph.Asin, graph.Acos, graph.Atanh)
POINTS = np.array([sign * x for x in _SMALL + _HUGE for sign in (1, -1)], np.float32)


def run(op: Any, x: Array, target: str) -> Array:
    start = module(lambda b, v: [b.emit(op, v)], tensor_of(x))
    program = changed(start, Options(target=target, math="strict"))[-1][1]
    (got,) = machine_code(program, target, [x], 1)
    return np.asarray(got)


def exact(x: float) -> tuple[float, float]:
    """Sine and cosine, with the argument brought into a turn by whole numbers."""
    turns = Fraction(x) / (2 * _PI)
    rest = float((turns - round(turns)) * 2 * _PI)
    return float(np.sin(rest)), float(np.cos(rest))


@pytest.mark.parametrize("target", _RUNNABLE)
def test_sine_and_cosine_of_any_size(target: str) -> None:
    sines, cosines = zip(*[exact(float(x)) for x in POINTS], strict=True)
    for op, wanted in ((graph.Sin, sines), (graph.Cos, cosines)):
        got = run(op, POINTS, target)
        exact_ = np.array(wanted, np.float32)
        np.testing.assert_allclose(got, exact_, rtol=3e-7, atol=1e-12)
    tangents = np.array(sines) / np.array(cosines)
    np.testing.assert_allclose(run(graph.Tan, POINTS, target), tangents, rtol=4e-7, atol=1e-12)


@pytest.mark.parametrize("target", _RUNNABLE)
def test_zeros_keep_their_sign_and_what_is_outside_is_nan(target: str) -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    for op in _ODD:
        assert run(op, zeros, target).tobytes() == zeros.tobytes()
    ends = np.array([np.inf, -np.inf, np.nan], np.float32)
    for op in _PERIODIC:
        assert np.isnan(run(op, ends, target)).all()
    outside = np.array([1.5, -1.5, np.inf, -np.inf], np.float32)
    for op in _BOUNDED:
        assert np.isnan(run(op, outside, target)).all()
