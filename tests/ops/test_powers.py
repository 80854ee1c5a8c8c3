"""Powers: within a place of the exact ones on each target, and exact where they can be.

The exact ones are the C library's in 80 bits.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tools.measure_math import FUNCTIONS, Loop, errors_in_ulp

import minicc
from minicc.backends.llvm.power import power
from minicc.backends.llvm.writer import Vec, Writer
from minicc.target import TARGETS

Array = npt.NDArray[Any]
RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
INF, NAN = np.inf, np.nan


ELEMENTS: dict[str, Any] = {"float": np.float32, "double": np.float64}
BITS: dict[str, Any] = {"float": np.uint32, "double": np.uint64}


def _by_target(name: str, element: str, base: Array, exponent: Array) -> Array:
    """Powers of pairs, which lie one after the other so that a loop of one operand takes them."""
    lanes = TARGETS[name].lanes(64)
    base, exponent = base.astype(ELEMENTS[element]), exponent.astype(ELEMENTS[element])

    def apply(w: Writer, t: Vec, x: str) -> str:
        both = ", ".join(f"i32 {k}" for k in range(lanes))
        rest = ", ".join(f"i32 {k + lanes}" for k in range(lanes))
        half = Vec(lanes, element)
        a = w.inst(f"shufflevector {t} {x}, {t} {x}, <{lanes} x i32> <{both}>")
        b = w.inst(f"shufflevector {t} {x}, {t} {x}, <{lanes} x i32> <{rest}>")
        y = power(w, half, a, b)
        return w.inst(f"shufflevector {half} {y}, {half} {y}, <{2 * lanes} x i32> <{both}, {both}>")

    FUNCTIONS["power"] = apply
    try:
        loop = Loop("power", TARGETS[name], Vec(2 * lanes, element))
    finally:
        del FUNCTIONS["power"]
    pairs = np.concatenate([base.reshape(-1, lanes), exponent.reshape(-1, lanes)], axis=1)
    return loop(pairs.reshape(-1)).reshape(-1, 2 * lanes)[:, :lanes].reshape(-1)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("target", RUNNABLE)
def test_powers_are_within_a_place(target: str, element: str) -> None:
    rng = np.random.default_rng(3)
    n = 40_000
    form: Any = np.finfo(ELEMENTS[element])
    bits = BITS[element]
    endless = int(np.array(INF, form.dtype).view(bits))
    spread = rng.integers(0, endless, n, dtype=bits).view(form.dtype)
    near = 1 + rng.standard_normal(n) * 1e-3
    some, many = rng.uniform(0, 10, n), rng.uniform(0.5, 2, n)
    whole = rng.integers(-40, 40, n).astype(float)
    base = np.concatenate([spread, near, some, many, some, near])
    most = float(form.maxexp)
    exponent = np.concatenate([
        rng.standard_normal(n), rng.uniform(-700 * most, 700 * most, n), rng.standard_normal(n) * 5,
        rng.uniform(-most, most, n), whole, rng.standard_normal(n),
    ])  # fmt: skip
    base, exponent = base.astype(form.dtype), exponent.astype(form.dtype)
    with np.errstate(all="ignore"):
        exact = np.power(base.astype(np.longdouble), exponent.astype(np.longdouble))
    got = _by_target(target, element, base, exponent)
    e = errors_in_ulp(got, exact, float(form.tiny))
    worst = int(e.argmax())
    most = 1 if element == "double" else 0.6
    assert e[worst] <= most, f"{e[worst]} at {base[worst]!r} ** {exponent[worst]!r}"


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("target", RUNNABLE)
def test_powers_that_are_numbers_of_the_format_are_exact(target: str, element: str) -> None:
    form: Any = np.finfo(ELEMENTS[element])
    bits, least = form.nmant + 1, int(form.minexp)
    pairs = [(float(b), float(k)) for b in range(1, 100) for k in range(60) if b**k < 1 << bits]
    pairs += [(0.5, float(k)) for k in range(least + 1, -least)]
    pairs += [(b**3.0, 2.0) for b in range(9)]
    pairs += [(float(b * b), 0.5) for b in range(1000)]
    base, exponent = np.array(pairs[: len(pairs) // 16 * 16]).T.copy()
    with np.errstate(all="ignore"):
        wanted = np.power(base, exponent)
    assert np.array_equal(_by_target(target, element, base, exponent), wanted)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("target", RUNNABLE)
def test_special_powers(target: str, element: str) -> None:
    form: Any = np.finfo(ELEMENTS[element])
    large, least = float(form.max) / 3, float(form.smallest_subnormal)
    edges = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, INF, -INF, NAN, large, -large]
    pairs = np.meshgrid([*edges, least], [*edges, 0.1])
    base, exponent = (a.reshape(-1).astype(form.dtype) for a in pairs)
    with np.errstate(all="ignore"):
        wanted = np.power(base, exponent)
    got = _by_target(target, element, base, exponent)
    tiny = np.abs(wanted) < form.tiny
    same = (got == wanted) & (np.signbit(got) == np.signbit(wanted))
    same |= np.isnan(got) & np.isnan(wanted)
    with np.errstate(all="ignore"):
        near = np.abs(got / np.where(wanted == 0, 1, wanted) - 1) < 4 * form.eps
    assert (same | near | (tiny & (np.abs(got) <= np.abs(wanted)))).all()


@pytest.mark.parametrize("math", ["fast", "strict"])
def test_cubes_of_whole_numbers_are_whole(math: str) -> None:
    x = np.arange(10.0)
    got = minicc.jit(lambda x: ((x**3).astype(int), 10.0**x), math=math)(x)
    assert np.array_equal(got[0], np.arange(10) ** 3)
    assert np.array_equal(got[1], 10.0**x)
