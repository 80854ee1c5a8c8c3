"""Vector mathematics: exact special values, bounds on the error, and independence of lane count.

The bounds are those of the docstrings, which tools/measure_math.py measures over all float32
arguments; here dense samples are taken, for every target that this machine can execute.
"""

import itertools
import math
import re
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.sweeps import part
from tools.measure_math import FUNCTIONS, Loop, errors_in_ulp, loop_length, reference, within

from minicc.backends.llvm import math as vector_math
from minicc.backends.llvm.optimize import assembly
from minicc.backends.llvm.writer import Vec, Writer
from minicc.target import TARGETS, Target

Array = npt.NDArray[Any]
RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
INF, NAN, TINY = math.inf, math.nan, 2.0**-149

BOUNDS = {
    "exp": 1.0,
    "exp2": 1.26,
    "exp2_nonpositive": 1.26,
    "expm1": 1.95,
    "log": 1.02,
    "log2": 1.4,
    "log10": 0.9,
    "cbrt": 1.0,
    "tanh": 1.4,
    "erf": 1.33,
    "sigmoid": 2.5,
    "sin": 0.85,
    "cos": 0.85,
    "tan": 1.0,
    "asin": 0.65,
    "acos": 0.65,
    "atan": 1.85,
    "sinh": 1.7,
    "cosh": 1.5,
    "asinh": 1.4,
    "acosh": 1.4,
    "atanh": 1.4,
}

SPECIAL: dict[str, dict[float, float]] = {
    "exp": {0: 1, TINY: 1, -TINY: 1, INF: INF, -INF: 0, 1e4: INF, -1e4: 0, 3e38: INF, -3e38: 0},
    "exp2": {
        0: 1,
        TINY: 1,
        -TINY: 1,
        INF: INF,
        -INF: 0,
        128: INF,
        3e38: INF,
        -3e38: 0,
        127: 2.0**127,
        -126: 2.0**-126,
        1: 2,
        -3: 0.125,
    },
    "exp2_nonpositive": {
        0: 1,
        -TINY: 1,
        -INF: 0,
        -3e38: 0,
        -126: 2.0**-126,
        -1: 0.5,
        -3: 0.125,
    },
    "log": {1: 0, 0: -INF, INF: INF, -INF: NAN, -1: NAN, -TINY: NAN, TINY: -149 * math.log(2)},
    "expm1": {0: 0, INF: INF, -INF: -1, 1e4: INF, -1e4: -1, TINY: TINY, -TINY: -TINY},
    "log2": {1: 0, 0: -INF, INF: INF, -INF: NAN, -1: NAN, 8: 3, 2.0**-100: -100, TINY: -149},
    "log10": {1: 0, 0: -INF, INF: INF, -INF: NAN, -1: NAN, 1000: 3, 1e10: 10, 10: 1},
    "cbrt": {0: 0, INF: INF, -INF: -INF, 27: 3, -64: -4, 2.0**-147: 2.0**-49, 1e3: 10},
    "tanh": {0: 0, INF: 1, -INF: -1, 40: 1, -3e38: -1, TINY: TINY, -TINY: -TINY},
    "erf": {0: 0, INF: 1, -INF: -1, 7: 1, -3e38: -1, TINY: TINY, -TINY: -TINY},
    "sigmoid": {0: 0.5, INF: 1, -INF: 0, 3e38: 1, -3e38: 0},
    "sin": {0: 0, INF: NAN, -INF: NAN, TINY: TINY, -TINY: -TINY},
    "cos": {0: 1, INF: NAN, -INF: NAN, TINY: 1},
    "tan": {0: 0, INF: NAN, -INF: NAN, TINY: TINY, -TINY: -TINY},
    "asin": {0: 0, 1: math.pi / 2, -1: -math.pi / 2, 1.1: NAN, -INF: NAN, TINY: TINY},
    "acos": {0: math.pi / 2, 1: 0, -1: math.pi, 1.1: NAN, -INF: NAN, TINY: math.pi / 2},
    "atan": {0: 0, 1: math.pi / 4, INF: math.pi / 2, -INF: -math.pi / 2, -TINY: -TINY},
    "sinh": {0: 0, INF: INF, -INF: -INF, 1e4: INF, -3e38: -INF, TINY: TINY, -TINY: -TINY},
    "cosh": {0: 1, INF: INF, -INF: INF, 1e4: INF, -3e38: INF, TINY: 1},
    "asinh": {0: 0, INF: INF, -INF: -INF, TINY: TINY, -TINY: -TINY},
    "acosh": {1: 0, INF: INF, -INF: NAN, 0.9: NAN, 0: NAN, -2: NAN},
    "atanh": {0: 0, 1: INF, -1: -INF, 1.1: NAN, -INF: NAN, TINY: TINY, -TINY: -TINY},
}
NEGATIVE_ZERO = {
    "exp": 1.0,
    "exp2": 1.0,
    "exp2_nonpositive": 1.0,
    "expm1": -0.0,
    "log": -INF,
    "log2": -INF,
    "log10": -INF,
    "cbrt": -0.0,
    "tanh": -0.0,
    "erf": -0.0,
    "sigmoid": 0.5,
    "cos": 1.0,
    "acos": math.pi / 2,
    "cosh": 1.0,
    "acosh": NAN,
    **dict.fromkeys(("sin", "tan", "asin", "atan", "sinh", "asinh", "atanh"), -0.0),
}
# what the baseline has no instruction for, in the loop over arguments of any size
CALLED = {("x86-64", name): {"rint"} for name in ("sin", "cos", "tan")}


@cache
def loop(name: str, target: Target, element: str) -> Loop:
    return Loop(name, target, Vec(target.lanes(Vec(1, element).bits), element))


@cache
def arguments(element: str) -> Array:
    rng = np.random.default_rng(1)
    integers: Any = np.uint32 if element == "float" else np.uint64
    floats: Any = np.float32 if element == "float" else np.float64
    count = 60_000 if element == "float" else 10_000
    limit = int(np.iinfo(integers).max)
    anything = rng.integers(0, limit, count, dtype=integers, endpoint=True).view(floats)
    near = [rng.uniform(-r, r, count).astype(floats) for r in (0.7, 2, 8, 110)]
    around_one = (1 + np.arange(-2000, 2000) * np.finfo(floats).eps).astype(floats)
    return np.concatenate([anything, *near, around_one])


@pytest.mark.parametrize(
    ("name", "element", "target"),
    part(itertools.product(FUNCTIONS, ["float", "double"], RUNNABLE), 3),
)
def test_error_is_within_the_stated_bound(name: str, element: str, target: str) -> None:
    x = within(name, arguments(element))
    wide = np.float64 if element == "float" else np.longdouble
    with np.errstate(invalid="ignore"):
        exact = reference(name, x.astype(wide))
    y = loop(name, TARGETS[target], element)(x)
    e = errors_in_ulp(y, exact, float(np.finfo(x.dtype).smallest_normal))
    assert e.max() <= BOUNDS[name], f"{e.max()} ULP at {x[e.argmax()]!r}"


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values_are_exact(name: str, target: str) -> None:
    x = np.array([*SPECIAL[name], -0.0, NAN, -NAN], np.float32)
    expected = np.array([*SPECIAL[name].values(), NEGATIVE_ZERO[name], NAN, NAN], np.float32)
    y = loop(name, TARGETS[target], "float")(x)
    np.testing.assert_array_equal(y, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(y[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_nan_stays_one_whatever_its_payload(name: str, target: str) -> None:
    payload = np.arange(1, 1 << 23, 4099, dtype=np.uint32)
    x = np.concatenate([payload | 0x7F800000, payload | 0xFF800000]).view(np.float32)
    assert np.isnan(loop(name, TARGETS[target], "float")(x)).all()


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("name", ["tanh", "erf", "sin", "tan", "atan", "asinh", "cbrt"])
def test_odd_functions_are_odd_to_the_bit(name: str, target: str) -> None:
    x = arguments("float")
    x = x[~np.isnan(x)]
    f = loop(name, TARGETS[target], "float")
    np.testing.assert_array_equal(f(-x).view(np.uint32), (-f(x)).view(np.uint32))


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("element", ["float", "double"])
def test_whole_logarithms_and_roots_are_exact(element: str, target: str) -> None:
    """Digits are counted by `floor(log10(x))`, and indices found by `int(log2(n))`."""
    floats: Any = np.float32 if element == "float" else np.float64
    least, most = (-126, 127) if element == "float" else (-1022, 1023)
    twos = np.arange(least, most + 1)
    tens = np.arange(-37 if element == "float" else -307, 39 if element == "float" else 309)
    x = np.array([float(f"1e{k}") for k in tens], floats)
    sides = np.arange(-200, 201)
    for name, given, wanted in (
        ("log2", np.ldexp(np.ones(len(twos), floats), twos), twos),
        ("log10", x, tens),
        ("cbrt", (sides**3).astype(floats), sides),
    ):
        got = loop(name, TARGETS[target], element)(given)
        np.testing.assert_array_equal(got, wanted.astype(floats))


@pytest.mark.parametrize("target", RUNNABLE)
def test_exp_overflows_and_underflows_where_float32_does(target: str) -> None:
    largest, smallest = np.float32(88.72283), np.float32(-87.33654)
    above = np.nextafter(largest, np.float32(INF))
    y = loop("exp", TARGETS[target], "float")(np.array([largest, above, smallest], np.float32))
    assert np.isfinite(y[0])
    assert y[1] == INF
    assert y[2] >= np.finfo(np.float32).smallest_normal


@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 24, 37])
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("name", ["exp", "log", "sin", "tan", "acos"])
def test_every_lane_count_gives_the_same_bits(name: str, target: str, lanes: int) -> None:
    x = arguments("float")[::50]
    y = Loop(name, TARGETS[target], Vec(lanes, "float"))(x)
    expected = loop(name, TARGETS[target], "float")(x)
    numbers = ~np.isnan(expected)  # a NaN's payload is no one's business
    np.testing.assert_array_equal(np.isnan(y), ~numbers)
    np.testing.assert_array_equal(y[numbers].view(np.uint32), expected[numbers].view(np.uint32))


@pytest.mark.parametrize(
    ("name", "instructions"),
    [("exp", 13), ("log", 19), ("tanh", 29), ("erf", 34), ("sigmoid", 15)],
)
def test_avx512_code_stays_short(name: str, instructions: int) -> None:
    # Five more are the loop's: store, count, compare, branch and, mostly, a load.
    text = Loop.text(name, TARGETS["avx512"], Vec(16, "float"))
    assert loop_length(assembly(text, TARGETS["avx512"])) <= instructions + 6


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_library_function_is_called(name: str, target: str) -> None:
    for element in ("float", "double"):
        text = Loop.text(name, TARGETS[target], Vec(TARGETS[target].lanes(32), element))
        called = re.findall(r"\tcall\w*\t(\w+)", assembly(text, TARGETS[target]))
        assert set(called) == CALLED.get((target, name), set())


def test_other_elements_are_refused() -> None:
    with pytest.raises(vector_math.UnsupportedElement, match="half"):
        vector_math.exp(Writer(), Vec(8, "half"), "%x")
