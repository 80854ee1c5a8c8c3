"""Circular functions as machine code against exact turns, also where the argument is huge.

Sines near a multiple of half a turn are the hardest: what is left of the argument has 60 zeros
after the point. Errors of other arguments are in test_vector_math.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.stages.programs import Array, changed, machine_code, module
from tools.measure_math import errors_in_ulp

from minicc.ir import graph
from minicc.ir.types import tensor_of
from minicc.options import Options
from minicc.target import TARGETS

_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]


def _pi() -> Fraction:
    """Pi to 1400 bits by J. Machin's formula: what the largest float64 wants."""
    one = 1 << 1432

    def atan_of_inverse(n: int) -> int:
        total, power, k = 0, one // n, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    return Fraction(4 * (4 * atan_of_inverse(5) - atan_of_inverse(239)), one)


_PI = _pi()
_HUGE = [1e6, 3.1e9, 1e15, 1e22, 6.3e30, 3.4028235e38, 16367173.0 * 2.0**72]
_SMALL = [0.0, 1e-30, 1e-8, 1e-3, 0.5, 0.7853982, 1.0, 1.5707964, 2.0, 3.1415927, 6.2831855, 10.0]


def run(op: Any, x: Array | Sequence[Array], target: str) -> Array:
    given = [x] if isinstance(x, np.ndarray) else list(x)
    start = module(lambda b, *v: [b.emit(op, *v)], *map(tensor_of, given))
    program = changed(start, Options(target=target, math="strict"))[-1][1]
    (got,) = machine_code(program, target, given, 1)
    return np.asarray(got)


def exact(x: float) -> tuple[Any, Any]:
    """Sine and cosine in 80 bits, with the argument brought near 0 by whole numbers."""
    quarters = Fraction(x) / (_PI / 2)
    n = round(quarters)
    rest = (quarters - n) * (_PI / 2)
    near = np.longdouble(float(rest))
    near += np.longdouble(float(rest - Fraction(float(rest))))
    sine, cosine = np.sin(near), np.cos(near)
    turned = [(sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine)]
    return turned[n % 4]


def hard(count: int) -> list[float]:
    """Numbers of 53 bits that are nearest to multiples of a quarter of a turn, of all exponents.

    The multiples are denominators of continued fractions.
    """
    found = []
    for exponent in range(-52, 971, 1023 // count):
        ratio = Fraction(2) ** exponent / (_PI / 2)
        before, last = (1, 0), (int(ratio), 1)
        rest = ratio - int(ratio)
        while last[1] < 1 << 53 and rest:
            if last[1] >= 1 << 52:
                found.append(float(Fraction(last[1]) * Fraction(2) ** exponent))
            rest = 1 / rest
            part = int(rest)
            before, last = last, (part * last[0] + before[0], part * last[1] + before[1])
            rest -= part
    return found


@pytest.mark.parametrize("element", [np.float32, np.float64])
@pytest.mark.parametrize("target", _RUNNABLE)
def test_waves_of_arguments_of_any_size(target: str, element: Any) -> None:
    rng = np.random.default_rng(0)
    some = np.concatenate([rng.uniform(-10, 10, 150), rng.uniform(-3e6, 3e6, 100), _SMALL, _HUGE])
    if element is np.float64:
        wide = rng.uniform(1, 2, 100) * 2.0 ** rng.integers(20, 1023, 100)
        some = np.concatenate([some, wide, hard(100), [np.finfo(element).max]])
    x = np.concatenate([some, -some]).astype(element)
    sines, cosines = np.array([exact(float(v)) for v in x]).T
    smallest = float(np.finfo(element).tiny)
    with np.errstate(all="ignore"):
        wanted = {graph.Sin: sines, graph.Cos: cosines, graph.Tan: sines / cosines}
    for op, values in wanted.items():
        error = errors_in_ulp(run(op, x, target), values, smallest)
        assert error.max() <= 1, (op.opname, x[error.argmax()])


def test_hard_arguments_are_hard() -> None:
    x = hard(100)
    assert len(x) > 50
    assert min(abs(exact(v)[0]) for v in x) < 2.0**-58


@pytest.mark.parametrize("element", [np.float32, np.float64])
@pytest.mark.parametrize("target", _RUNNABLE)
def test_angles_of_points(target: str, element: Any) -> None:
    ends = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    y, x = (np.array(v, element) for v in zip(*product(ends, ends), strict=True))
    wanted = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(element)
    got = run(graph.Atan2, [y, x], target)
    np.testing.assert_array_equal(got, wanted)
    number = ~np.isnan(wanted)
    assert (np.signbit(got) == np.signbit(wanted))[number].all()
    rng = np.random.default_rng(2)
    bits = np.uint64 if element is np.float64 else np.uint32
    y, x = (rng.integers(0, np.iinfo(bits).max, 20_000, dtype=bits).view(element) for _ in "yx")
    near = (rng.standard_normal((2, 20_000))).astype(element)
    y, x = np.concatenate([y, near[0]]), np.concatenate([x, near[1]])
    with np.errstate(all="ignore"):
        wanted = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    got = run(graph.Atan2, [y, x], target)
    error = errors_in_ulp(got, wanted, float(np.finfo(element).tiny))
    worst = error.argmax()
    assert error[worst] < 2, (y[worst], x[worst])


@pytest.mark.parametrize("target", _RUNNABLE)
def test_far_arguments_leave_their_neighbours_alone(target: str) -> None:
    near = np.linspace(-3, 3, 33)
    mixed = np.repeat(near, 2)
    mixed[1::2] = 1e300
    got = run(graph.Sin, mixed, target)
    assert got[::2].tobytes() == run(graph.Sin, near, target).tobytes()
