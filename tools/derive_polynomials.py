"""Derive every coefficient of the vector mathematics and write them as a Python module.

Each polynomial is the minimax polynomial of a weighted problem: minimise over c the maximum over
the interval of |w(x) (f(x) - sum c_k x^k)|, found by Remez's exchange algorithm (E. Remez, 1934;
here on a dense grid, in 60-digit arithmetic) and then rounded to the target format. The heads of
the series (the 1 + r of exp, the f - f^2/2 of log, the x of erf) are kept exact by fitting only
what follows them. The weights make the error relative to the *result*.

    python tools/derive_polynomials.py            write src/minicc/backends/llvm/coefficients.py
    python tools/derive_polynomials.py --print    print instead

Needs mpmath. Takes about a minute.
"""

import argparse
import math
import pathlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath  # type: ignore[import-untyped]
from mpmath import mp, mpf

Real = Any  # mpmath has no annotations: an mpf
Function = Callable[[Real], Real]
OUTPUT = pathlib.Path(__file__).parent.parent / "src/minicc/backends/llvm/coefficients.py"
GRID = 2000
# the largest float64 has 1024 bits before the point; near a multiple of a quarter of a turn 65 of
# those after it are 0, and 60 more are wanted
TURN_SCALE, TURN_PARTS = 200, 45
TINY = 1e-9  # arguments nearer to zero are left out: there f and w are 0 / 0

HEADER = '''"""Coefficients of the vector mathematics. Generated; don't edit.

tools/derive_polynomials.py derives them:
minimax polynomials of our own (Remez exchange in 60 digits, rounded to the format), lowest power
first. The comment at each gives the weighted minimax error after rounding, relative to the result.
`FLOAT` holds those for float32, `DOUBLE` those for float64. Below them stand parts of pi.
"""

from typing import NamedTuple


class Coefficients(NamedTuple):
    """The constants of one format; what each is for stands in tools/derive_polynomials.py."""

    log2e: tuple[float, float]
    log10e: tuple[float, float]
    ln2_high: float
    ln2_low: float
    log10_2: tuple[float, float]
    eighth_turn: tuple[float, float]
    quarter_turn: tuple[float, float, float, float]
    exp_largest: float
    exp_smallest: float
    exp: tuple[float, ...]
    exp2: tuple[float, ...]
    log: tuple[float, ...]
    tanh: tuple[float, ...]
    erf_small: tuple[float, ...]
    erf_large: tuple[float, ...]
    erf_clamp: float
    tanh_clamp: float
    sin: tuple[float, ...]
    cos: tuple[float, ...]
    atan: tuple[float, ...]
    asin: tuple[float, ...]
    sinh: tuple[float, ...]
    ln2: tuple[float, float] = (0.0, 0.0)
    log2_first: tuple[float, float] = (0.0, 0.0)
    log2_third: tuple[float, float] = (0.0, 0.0)
    log2_tail: tuple[float, ...] = ()
    log2_short: tuple[float, ...] = ()
    exp2_short: tuple[float, ...] = ()

'''


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: bits of the significand, exponents of the normal range."""

    name: str
    precision: int
    emin: int
    emax: int

    def round(self, x: Real) -> float:
        """The nearest value of the format, as a Python float."""
        value = float(x)
        if self.precision == 24:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        return value

    def truncate(self, x: Real, bits: int) -> float:
        """The number cut towards zero to `bits` significant bits."""
        shift = bits - 1 - math.floor(mpmath.log(abs(x), 2))
        return float(mpmath.floor(x * mpf(2) ** shift) / mpf(2) ** shift)

    def step(self, value: float, towards: float) -> float:
        """The neighbour of `value` in the format."""
        spacing = 2.0 ** (math.frexp(value)[1] - self.precision)
        return value + math.copysign(spacing, towards - value)


FLOAT = Format("FLOAT", 24, -126, 127)
DOUBLE = Format("DOUBLE", 53, -1022, 1023)


def horner(c: list[Real], x: Real) -> Real:
    """The sum of c_k x^k."""
    total = mpf(0)
    for coefficient in reversed(c):
        total = total * x + coefficient
    return total


def extremes(errors: list[Real], wanted: int) -> list[int]:
    """Indices of `wanted` extremes of alternating sign, the largest run of them."""
    picked: list[int] = []
    for i, e in enumerate(errors):
        if e == 0:
            continue
        if picked and (errors[picked[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[picked[-1]]):
                picked[-1] = i
        else:
            picked.append(i)
    while len(picked) > wanted:
        picked.pop(0 if abs(errors[picked[0]]) < abs(errors[picked[-1]]) else -1)
    return picked


def remez(f: Function, w: Function, low: Real, high: Real, degree: int) -> tuple[list[Real], Real]:
    """The minimax polynomial of weight w (taken absolute) and its weighted error."""
    low, high = mpf(low), mpf(high)
    xs = [
        (low + high) / 2 - (high - low) / 2 * mpmath.cos(mp.pi * i / GRID) for i in range(GRID + 1)
    ]
    xs = [x for x in xs if abs(x) > TINY]
    fs, ws = [f(x) for x in xs], [abs(w(x)) for x in xs]
    wanted = degree + 2
    last = len(xs) - 1
    points = [i * last // (wanted - 1) for i in range(wanted)]
    for _ in range(60):
        rows = [
            [xs[p] ** k for k in range(degree + 1)] + [(-1) ** i / ws[p]]
            for i, p in enumerate(points)
        ]
        solution = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix([fs[p] for p in points]))
        c, level = [solution[k] for k in range(degree + 1)], abs(solution[degree + 1])
        errors = [wt * (y - horner(c, x)) for x, y, wt in zip(xs, fs, ws, strict=True)]
        largest = max(abs(e) for e in errors)
        if largest <= level * mpf("1.001"):
            return c, largest
        points = extremes(errors, wanted)
        if len(points) < wanted:
            raise ArithmeticError(f"only {len(points)} alternations of {wanted}")
    raise ArithmeticError("the exchange does not settle")


@dataclass(frozen=True)
class Problem:
    """One polynomial: what it approximates (f, weight w), where, and of which degree by format."""

    name: str
    text: str
    f: Function
    w: Function
    interval: Callable[[Format], tuple[Real, Real]]
    degree: dict[str, int]

    def solve(self, form: Format) -> str:
        """The generated lines: a comment with the achieved error and the tuple."""
        low, high = self.interval(form)
        if form.name not in self.degree:
            return ""
        c, _ = remez(self.f, self.w, low, high, self.degree[form.name])
        rounded = [form.round(value) for value in c]
        worst = mpf(0)
        for i in range(GRID + 1):
            x = mpf(low) + (mpf(high) - mpf(low)) * (2 * i + 1) / (2 * GRID + 2)
            if abs(x) > TINY:
                worst = max(worst, abs(self.w(x) * (self.f(x) - horner(rounded, x))))
        bits = float(mpmath.log(worst, 2))
        lines = [f"    # {self.text}", f"    # degree {len(c) - 1}, error 2**{bits:.1f}"]
        lines += [f"    {self.name}=("]
        lines += [f"        {value!r}," for value in rounded]
        return "\n".join([*lines, "    ),"])


def erf_clamp(form: Format) -> float:
    """A bound from which on erf rounds to 1: erfc is under a quarter of the last place."""
    x = mpf(1)
    while mpmath.erfc(x) > mpf(2) ** -(form.precision + 2):
        x += mpf(1) / 16
    return float(x)


def tanh_clamp(form: Format) -> float:
    """A bound from which on tanh rounds to 1: 1 - tanh is under an eighth of the last place."""
    return float(mpmath.ceil((form.precision + 4) * mpmath.log(2) / 2 * 16) / 16)


def exp2(name: str, use: str, degree: dict[str, int]) -> Problem:
    """A polynomial for the power of two of what a whole number leaves."""
    return Problem(
        name,
        f"2**r on +-1/2, absolute error over 2**r{use}",
        lambda r: mpf(2) ** r,
        lambda r: mpf(2) ** -r,
        lambda form: (mpf(-1) / 2, mpf(1) / 2),
        degree,
    )


def problems() -> list[Problem]:
    """All the polynomials."""
    half = mpmath.log(2) / 2 * mpf("1.01")  # rounding to n isn't quite to the nearest
    ln2 = mpmath.log(2)
    return [
        Problem(
            "exp",
            "(exp(r) - 1 - r) / r**2, error relative to exp(r)",
            lambda r: (mpmath.expm1(r) - r) / r**2,
            lambda r: r**2 / mpmath.exp(r),
            lambda form: (-half, half),
            {"FLOAT": 4, "DOUBLE": 10},
        ),
        exp2("exp2", "", {"FLOAT": 6, "DOUBLE": 11}),
        Problem(
            "log",
            "(log(1 + f) - f + f**2 / 2) / f**3, error relative to log(1 + f)",
            lambda f: (mpmath.log1p(f) - f + f**2 / 2) / f**3,
            lambda f: f**3 / mpmath.log1p(f),
            lambda form: (mpf(-1) / 4, mpf(1) / 2),
            {"FLOAT": 7, "DOUBLE": 18},
        ),
        Problem(
            "tanh",
            "(tanh(x) / x - 1) / z in z = x**2 on |x| <= 5/8, error relative to tanh(x)",
            lambda z: (mpmath.tanh(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
            lambda z: mpmath.sqrt(z) * z / mpmath.tanh(mpmath.sqrt(z)),
            lambda form: (mpf(0), mpf(25) / 64),
            {"FLOAT": 4, "DOUBLE": 10},
        ),
        Problem(
            "erf_small",
            "erf(x) / x - 1 in z = x**2 on |x| <= 1, error relative to erf(x)",
            lambda z: mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1,
            lambda z: mpmath.sqrt(z) / mpmath.erf(mpmath.sqrt(z)),
            lambda form: (mpf(0), mpf(1)),
            {"FLOAT": 6, "DOUBLE": 12},
        ),
        Problem(
            "erf_large",
            "log2(erfc(1 + v)), error relative to erf(1 + v)",
            lambda v: mpmath.log(mpmath.erfc(1 + v)) / ln2,
            lambda v: ln2 * mpmath.erfc(1 + v) / mpmath.erf(1 + v),
            lambda form: (mpf(0), mpf(erf_clamp(form)) - 1),
            {"FLOAT": 6, "DOUBLE": 19},
        ),
        Problem(
            "sin",
            "(sin(r) / r - 1) / z in z = r**2 on an eighth of a turn, error relative to sin(r)",
            lambda z: (mpmath.sin(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
            lambda z: mpmath.sqrt(z) * z / mpmath.sin(mpmath.sqrt(z)),
            lambda form: (mpf(0), (mpmath.pi / 4 * mpf("1.001")) ** 2),
            {"FLOAT": 3, "DOUBLE": 5},
        ),
        Problem(
            "cos",
            "(cos(r) - 1 + z / 2) / z**2 in z = r**2, error relative to cos(r)",
            lambda z: (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2,
            lambda z: z**2 / mpmath.cos(mpmath.sqrt(z)),
            lambda form: (mpf(0), (mpmath.pi / 4 * mpf("1.001")) ** 2),
            {"FLOAT": 2, "DOUBLE": 5},
        ),
        Problem(
            "atan",
            "(atan(x) / x - 1) / z in z = x**2 up to a sixteenth of a turn, error relative to it",
            lambda z: (mpmath.atan(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
            lambda z: mpmath.sqrt(z) * z / mpmath.atan(mpmath.sqrt(z)),
            lambda form: (mpf(0), mpmath.tan(mpmath.pi / 8) ** 2),
            {"FLOAT": 4, "DOUBLE": 11},
        ),
        Problem(
            "asin",
            "(asin(x) / x - 1) / z in z = x**2 on |x| <= 1/2, error relative to asin(x)",
            lambda z: (mpmath.asin(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
            lambda z: mpmath.sqrt(z) * z / mpmath.asin(mpmath.sqrt(z)),
            lambda form: (mpf(0), mpf(1) / 4),
            {"FLOAT": 4, "DOUBLE": 12},
        ),
        Problem(
            "sinh",
            "(sinh(x) / x - 1) / z in z = x**2 on |x| <= 1, error relative to sinh(x)",
            lambda z: (mpmath.sinh(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
            lambda z: mpmath.sqrt(z) * z / mpmath.sinh(mpmath.sqrt(z)),
            lambda form: (mpf(0), mpf(1)),
            {"FLOAT": 3, "DOUBLE": 6},
        ),
        Problem(
            "log2_tail",
            "(log2((1 + s) / (1 - s)) / s - first - third z) / z**2, z = s**2, relative to it",
            log2_tail,
            lambda z: 1 / log2_tail(z),
            lambda form: (mpf(0), mpf("0.0401")),
            {"DOUBLE": 9},
        ),
        Problem(
            "log2_short",
            "log2((1 + s) / (1 - s)) / s in z = s**2, relative to it; for powers of float32",
            log2_series,
            lambda z: 1 / log2_series(z),
            lambda form: (mpf(0), mpf("0.0401")),
            {"DOUBLE": 4},
        ),
        exp2("exp2_short", "; for powers of float32", {"DOUBLE": 6}),
    ]


def log2_series(z: Real) -> Real:
    """The whole series of log2((1 + s) / (1 - s)) / s."""
    return 2 / mpmath.log(2) * (1 + z / 3) + z**2 * log2_tail(z)


def log2_tail(z: Real) -> Real:
    """What follows the first two terms of the series of log2((1 + s) / (1 - s)) / s."""
    if z < mpf("1e-6"):
        return 2 / mpmath.log(2) * sum(z**k / (2 * k + 5) for k in range(12))
    s = mpmath.sqrt(z)
    return 2 / mpmath.log(2) * (mpmath.atanh(s) / s - 1 - z / 3) / z**2


def pair(name: str, x: Real, form: Format, bits: int = 0) -> str:
    """A constant as the nearest number, or one cut to so many bits, and what is left."""
    high = form.truncate(x, bits) if bits else form.round(x)
    return f"    {name}=({high!r}, {form.round(x - mpf(high))!r}),"


def constants(form: Format) -> list[str]:
    """The constants that are not polynomials.

    ln2_high has so few bits that n * ln2_high is exact for every exponent n; it is cut towards
    zero, so that ln2_low is positive. The same is true of log10_2, and of eighth_turn for n up to
    8. exp_largest and exp_smallest are the outermost arguments whose exponential is finite and
    normal.
    """
    ln2, ln10 = mpmath.log(2), mpmath.log(10)
    short = form.precision - (9 if form is FLOAT else 12)
    high = form.truncate(ln2, short)
    largest = form.round((form.emax + 1) * ln2)
    if mpmath.exp(largest) >= mpf(2) ** (form.emax + 1) * (1 - mpf(2) ** -(form.precision + 1)):
        largest = form.step(largest, 0.0)
    smallest = form.round(form.emin * ln2)
    if mpmath.exp(smallest) < mpf(2) ** form.emin:
        smallest = form.step(smallest, 0.0)
    pairs = [("ln2", ln2), ("log2_first", 2 / ln2), ("log2_third", 2 / (3 * ln2))]
    return [
        pair("log2e", 1 / ln2, form),
        pair("log10e", 1 / ln10, form),
        f"    ln2_high={high!r},",
        f"    ln2_low={form.round(ln2 - mpf(high))!r},",
        pair("log10_2", ln2 / ln10, form, short),
        pair("eighth_turn", mpmath.pi / 4, form, form.precision - 3),
        quarter_turn(form),
        f"    exp_largest={largest!r},",
        f"    exp_smallest={smallest!r},",
        f"    erf_clamp={erf_clamp(form)!r},",
        f"    tanh_clamp={tanh_clamp(form)!r},",
        *[pair(name, x, form) for name, x in pairs if form is DOUBLE],
    ]


def parts(x: Real, sizes: Sequence[int]) -> tuple[list[float], Real]:
    """A positive number as numbers of so many bits each, and what is left."""
    found: list[float] = []
    place = math.floor(mpmath.log(x, 2)) + 1
    for bits in sizes:
        place -= bits
        unit = mpf(2) ** place
        found.append(float(mpmath.floor(x / unit) * unit))
        x -= mpf(found[-1])
    return found, x


def quarter_turn(form: Format) -> str:
    """A quarter of a turn in three parts and what is left.

    They are so short that their products with small numbers are exact; the first of float32 is
    for targets that have FMA.
    """
    found, rest = parts(mpmath.pi / 2, (24, 14, 14) if form is FLOAT else (33, 33, 33))
    return f"    quarter_turn={(*found, form.round(rest))!r},"


def of_pi() -> str:
    """Pi and its inverse in parts, whose products with short numbers are exact."""
    with mpmath.workprec(2000):
        turns, _ = parts(2**TURN_SCALE / (2 * mp.pi), [26] * TURN_PARTS)
    return "\n".join(
        [
            "# a whole turn, the nearest number and what is left",
            tuple_of("TURN", [float(2 * mp.pi), float(2 * mp.pi - float(2 * mp.pi))]),
            f"# the inverse of a turn times 2**{TURN_SCALE}, in parts of 26 bits",
            f"INVERSE_TURN_SCALE = {TURN_SCALE}",
            tuple_of("INVERSE_TURN", turns),
        ]
    )


def tuple_of(name: str, values: list[float]) -> str:
    """The lines of a tuple."""
    return "\n".join(
        [f"{name} = (", *[f"    {value!r},".replace("e+", "e") for value in values], ")"]
    )


def generate() -> str:
    """The text of the generated module."""
    blocks = []
    for form in (FLOAT, DOUBLE):
        lines = constants(form) + [problem.solve(form) for problem in problems()]
        blocks.append("\n".join([f"{form.name} = Coefficients(", *filter(None, lines), ")"]))
    return HEADER + "\n" + "\n\n".join([*blocks, of_pi()]) + "\n"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--print", action="store_true", help="print instead of writing")
    arguments = parser.parse_args()
    mp.dps = 60
    text = generate()
    if arguments.print:
        print(text)
    else:
        OUTPUT.write_text(text)


if __name__ == "__main__":
    main()
