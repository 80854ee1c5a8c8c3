"""Elementary functions as inlined vector code: exp, exp2, log, tanh, erf and sigmoid.

Each function appends branch-free LLVM IR for one vector of float32 or float64 of any lane count
and returns the name of the result. NaN gives NaN; infinities, signed zeros and denormal arguments
have their IEEE meaning. A result below the normal range may be flushed to zero.

There are two ways through exp, exp2 and log. Some targets have instructions of their own that scale
by a power of two and split off exponent and significand, with all special cases; elsewhere integer
arithmetic on the bits and a few selects do the same. The polynomials are our own (`coefficients`);
the reductions are the classical ones of W. Cody and W. Waite, "Software Manual for the Elementary
Functions", 1980. Rounding to an integer adds 1.5 * 2**(precision - 1): not every target has another
way, and LLVM keeps it, as it never reassociates floating point unless told to.

Errors are in units in the last place (ULP) of the correctly rounded result's binade, for normal
results, measured by tools/measure_math.py on the general targets, of which those with FMA gave the
same figures. Figures are rounded up.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from minicc.backends.llvm import coefficients
from minicc.backends.llvm.coefficients import Coefficients
from minicc.backends.llvm.writer import Vec, Writer

INFINITY = float("inf")
NAN = float("nan")


class UnsupportedElement(TypeError):
    """The function has no vector code for this element type; the caller computes otherwise."""


class Format(NamedTuple):
    """How a floating-point type is laid out, and the constants of the functions in it."""

    mantissa: int  # stored bits of the significand
    bias: int
    c: Coefficients

    @property
    def magic(self) -> float:
        """Adding it rounds to an integer, whose bits then end the sum's."""
        return 1.5 * 2.0**self.mantissa

    @property
    def one(self) -> int:
        """The bits of 1.0."""
        return self.bias << self.mantissa


FORMATS = {
    "float": Format(23, 127, coefficients.FLOAT),
    "double": Format(52, 1023, coefficients.DOUBLE),
}


def format_of(t: Vec) -> Format:
    """The format of a vector's elements; UnsupportedElement if there is no code for it."""
    form = FORMATS.get(t.element)
    if form is None:
        raise UnsupportedElement(f"no vector mathematics for {t.element}")
    return form


def horner(w: Writer, t: Vec, c: Sequence[float], x: str) -> str:
    """The sum of c[k] x**k by Horner's rule: one FMA a degree."""
    total = w.splat(t, c[-1])
    for coefficient in reversed(c[:-1]):
        total = w.fma(t, total, x, w.splat(t, coefficient))
    return total


def lower(w: Writer, t: Vec, x: str, bound: float) -> str:
    """The lesser of x and the bound; NaN stays. In this operand order, one instruction."""
    limit = w.splat(t, bound)
    return w.select(t, w.compare("olt", t, limit, x), limit, x)


def upper(w: Writer, t: Vec, x: str, bound: float) -> str:
    """The greater of x and the bound; NaN stays."""
    limit = w.splat(t, bound)
    return w.select(t, w.compare("ogt", t, limit, x), limit, x)


def absolute(w: Writer, t: Vec, x: str) -> str:
    """|x|."""
    return w.intrinsic(f"llvm.fabs.{t.suffix}", t, (t, x))


def with_sign(w: Writer, t: Vec, magnitude: str, sign: str) -> str:
    """The magnitude of one with the sign of the other."""
    return w.intrinsic(f"llvm.copysign.{t.suffix}", t, (t, magnitude), (t, sign))


# ---- exp ---------------------------------------------------------------------------------------


class Reduced(NamedTuple):
    """x = (n ln 2 + r) / scale with |r| <= ln(2) / 2, r given divided by the scale."""

    shifted: str  # n + magic: the last bits of its bits are those of n
    n: str
    r: str


def reduce(w: Writer, t: Vec, x: str, scale: float) -> Reduced:
    """Split x * scale into a multiple of ln 2 and a rest; scale is a power of two or minus one.

    ln 2 has two parts, the first so short that its product with n is exact (Cody and Waite).
    """
    form, c = format_of(t), format_of(t).c
    shifted = w.fma(t, x, w.splat(t, scale * c.log2e[0]), w.splat(t, form.magic))
    n = w.binary("fsub", t, shifted, w.splat(t, form.magic))
    r = w.fma(t, n, w.splat(t, -c.ln2_high / scale), x)
    r = w.fma(t, n, w.splat(t, -c.ln2_low / scale), r)
    return Reduced(shifted, n, r)


def exp_reduced(w: Writer, t: Vec, r: str, scale: float) -> str:
    """exp(scale * r) for |scale * r| <= ln(2) / 2."""
    tail = [value * scale ** (k + 2) for k, value in enumerate(format_of(t).c.exp)]
    if w.has_fma:
        return horner(w, t, [1.0, scale, *tail], r)
    rest = w.fma(t, w.binary("fmul", t, r, r), horner(w, t, tail, r), scaled(w, t, r, scale))
    return w.binary("fadd", t, rest, w.splat(t, 1.0))


def scaled(w: Writer, t: Vec, x: str, scale: float) -> str:
    """The product x * scale; nothing is emitted if that is x."""
    return x if scale == 1.0 else w.binary("fmul", t, x, w.splat(t, scale))


def add_exponent(w: Writer, t: Vec, p: str, shifted: str) -> str:
    """The product p * 2**n from p and n + magic, where that is a normal number."""
    i = t.integer
    n = w.binary("shl", i, w.bitcast(t, shifted, i), w.splat(i, format_of(t).mantissa))
    return w.bitcast(i, w.binary("add", i, w.bitcast(t, p, i), n), t)


def exp(w: Writer, t: Vec, x: str) -> str:
    """e**x: reduction by ln 2, polynomial of degree 6 (float64: 12), scaling. 13 instructions.

    exp(0) = 1. An instruction that scales lets small results underflow gradually; elsewhere they
    are 0 below the normal range.

    Worst error with FMA (without): 0.892 (0.977) ULP over all float32, 0.86 (0.96) over a
    sample of 12 million float64.
    """
    return _exp(w, t, x, 1.0)


def _exp(w: Writer, t: Vec, x: str, scale: float) -> str:
    """e**(scale * x), scale 1 or -1."""
    form, c = format_of(t), format_of(t).c
    scale_by_power = w.own.get("scale")
    if scale_by_power is not None:
        high, low = c.exp_largest + 0.5, c.exp_smallest - form.mantissa + 4.0
        bounds = (low, high) if scale > 0 else (-high, -low)
        x = upper(w, t, lower(w, t, x, bounds[1]), bounds[0])
        parts = reduce(w, t, x, scale)
        p = exp_reduced(w, t, parts.r, scale)
        return scale_by_power(w, t, (p, parts.n))
    parts = reduce(w, t, x, scale)
    # At the greatest n, p is under 1 wherever the result is finite: the exponent doesn't overflow.
    y = add_exponent(w, t, exp_reduced(w, t, parts.r, scale), parts.shifted)
    return _within_range(w, t, x, y, scale * c.exp_smallest, scale * c.exp_largest)


def _within_range(w: Writer, t: Vec, x: str, y: str, smallest: float, largest: float) -> str:
    """The power y of x, but 0 beyond the smallest argument and infinity beyond the largest."""
    below, above = ("olt", "ugt") if smallest < largest else ("ogt", "ult")
    tiny = w.compare(below, t, x, w.splat(t, smallest))
    y = w.select(t, tiny, w.splat(t, 0.0), y)
    huge = w.compare(above, t, x, w.splat(t, largest))
    infinity = w.splat(t, INFINITY)  # NaN stays in a sum or difference with it
    infinite = (
        w.binary("fadd", t, x, infinity) if smallest < largest else w.binary("fsub", t, infinity, x)
    )
    return w.select(t, huge, infinite, y)


def expm1(w: Writer, t: Vec, x: str) -> str:
    """e**x - 1 without what a difference of nearly equal numbers would lose.

    That is (2**n - 1) + 2**n p with p = e**r - 1, in halves, since 2**n may be too large.

    Worst error on a sample: 1.40 ULP of float32, 1.89 of float64.
    """
    form, c = format_of(t), format_of(t).c
    # below, all is -1
    kept = upper(w, t, lower(w, t, x, c.exp_largest), -(form.mantissa + 3) * math.log(2))
    parts = reduce(w, t, kept, 1.0)
    p = w.fma(t, w.binary("fmul", t, parts.r, parts.r), horner(w, t, c.exp, parts.r), parts.r)
    half = w.splat(t, 0.5)
    power = add_exponent(w, t, half, parts.shifted)
    y = w.fma(t, power, p, w.binary("fsub", t, power, half))
    whole = w.compare("oeq", t, parts.n, w.splat(t, 0.0))
    y = w.select(t, whole, p, w.binary("fadd", t, y, y))
    huge = w.compare("ogt", t, x, w.splat(t, c.exp_largest))
    return with_sign(w, t, w.select(t, huge, w.splat(t, INFINITY), y), x)


def exp2(w: Writer, t: Vec, x: str) -> str:
    """2**x: the nearest whole number apart, polynomial of degree 6 (float64: 11), scaling.

    9 instructions with the target's own, 4 fewer than exp.

    exp2(0) = 1, and powers of whole numbers are exact. Small results are as with exp.

    Worst error with FMA (without): 0.949 (1.228) ULP over all float32, 0.98 (1.26) over a
    sample of 12 million float64.
    """
    return exp2_by(w, t, x, format_of(t).c.exp2)


def exp2_by(w: Writer, t: Vec, x: str, polynomial: Sequence[float]) -> str:
    """2**x, with a polynomial for 2**r on +-1/2."""
    form = format_of(t)
    if "scale" in w.own and "fraction" in w.own:
        # Infinities leave 0, so that their power is the scaling alone: no argument needs to be
        # kept within bounds.
        r = w.own["fraction"](w, t, (x,))
        whole = w.binary("fsub", t, x, r)
        return w.own["scale"](w, t, (horner(w, t, polynomial, r), whole))
    magic = w.splat(t, form.magic)
    shifted = w.binary("fadd", t, x, magic)
    r = w.binary("fsub", t, x, w.binary("fsub", t, shifted, magic))
    y = add_exponent(w, t, horner(w, t, polynomial, r), shifted)
    largest = (1.0 + form.bias) * (1.0 - 2.0 ** -(form.mantissa + 1))
    return _within_range(w, t, x, y, 1.0 - form.bias, largest)


def exp2_nonpositive(w: Writer, t: Vec, x: str) -> str:
    """2**x for x <= 0: as exp2, but nothing needs to be kept from overflowing. 12 instructions.

    The power of the whole number is a factor, which is 0 where the result is below the normal
    range, and leaves NaN what it is.

    Worst error with FMA (without): that of exp2.
    """
    if "scale" in w.own and "fraction" in w.own:
        return exp2(w, t, x)
    form, c = format_of(t), format_of(t).c
    # the last bits of the sum are those of the whole number with the bias of an exponent
    magic = w.splat(t, form.magic + form.bias)
    x = upper(w, t, x, 0.25 - form.bias)
    shifted = w.binary("fadd", t, x, magic)
    r = w.binary("fsub", t, x, w.binary("fsub", t, shifted, magic))
    i = t.integer
    factor = w.binary("shl", i, w.bitcast(t, shifted, i), w.splat(i, form.mantissa))
    return w.binary("fmul", t, horner(w, t, c.exp2, r), w.bitcast(i, factor, t))


def sigmoid(w: Writer, t: Vec, x: str) -> str:
    """1 / (1 + e**-x): exp of a negated argument, an addition and a division.

    Worst error with FMA (without): 2.482 (2.482) ULP over all float32, 2.19 (2.15) over a
    sample of 12 million float64.
    """
    e = _exp(w, t, x, -1.0)
    one = w.splat(t, 1.0)
    return w.binary("fdiv", t, one, w.binary("fadd", t, e, one))


# ---- log ---------------------------------------------------------------------------------------


def log(w: Writer, t: Vec, x: str) -> str:
    """The natural logarithm: exponent, and a polynomial in f on 1 + f in [3/4, 3/2).

    log(1 + f) = f - f**2 / 2 + f**3 p(f), p of degree 7 (float64: 18). log(1) = 0,
    log(+-0) = -inf, log(inf) = inf, log of a negative number = NaN.

    Worst error with FMA (without): 0.971 (0.977) ULP over all float32, 0.90 (1.01) over a
    sample of 12 million float64.
    """
    c = format_of(t).c
    m, e, finish = split(w, t, x)
    f = w.binary("fsub", t, m, w.splat(t, 1.0))
    tail = horner(w, t, [-0.5, *c.log], f)
    square = w.binary("fmul", t, f, f)
    y = w.fma(t, square, tail, w.binary("fmul", t, e, w.splat(t, c.ln2_low)))
    y = w.binary("fadd", t, y, f)
    return finish(w.fma(t, e, w.splat(t, c.ln2_high), y))


Split = tuple[str, str, Callable[[str], str]]


def split(w: Writer, t: Vec, x: str) -> Split:
    """Significand in [3/4, 3/2), exponent, and what puts the special cases of a logarithm right."""
    significand, exponent = w.own.get("significand"), w.own.get("exponent")
    if significand is None or exponent is None:
        return _split_bits(w, t, x)
    # NaN for a negative number. The exponents of 0 and infinity, -inf and inf, carry the special
    # cases through the sum, as both parts of ln 2 are positive.
    m = significand(w, t, (x,))
    e = exponent(w, t, (x,))
    return m, w.binary("fsub", t, e, exponent(w, t, (m,))), lambda y: y


def _split_bits(w: Writer, t: Vec, x: str) -> Split:
    """The same by integer arithmetic; the last of the three puts the special cases right."""
    form, i = format_of(t), t.integer
    up = form.mantissa + 2
    small = w.compare("olt", t, x, w.splat(t, 2.0 ** (1 - form.bias)))
    normal = w.select(t, small, w.binary("fmul", t, x, w.splat(t, 2.0**up)), x)
    # The exponent is read as an integer k placed in the last bits of 2**mantissa.
    offset = 2.0**form.mantissa + form.bias
    base = w.select(t, small, w.splat(t, offset + up), w.splat(t, offset))
    three_quarters = form.one - (1 << form.mantissa - 1)
    raised = w.binary("add", i, w.bitcast(t, normal, i), w.splat(i, form.one - three_quarters))
    k = w.binary("lshr", i, raised, w.splat(i, form.mantissa))
    k = w.binary("or", i, k, w.splat(i, form.bias + form.mantissa << form.mantissa))
    e = w.binary("fsub", t, w.bitcast(i, k, t), base)
    fraction = w.binary("and", i, raised, w.splat(i, (1 << form.mantissa) - 1))
    m = w.bitcast(i, w.binary("add", i, fraction, w.splat(i, three_quarters)), t)

    def finish(y: str) -> str:
        y = w.select(t, w.compare("olt", t, x, w.splat(t, INFINITY)), y, x)
        zero = w.compare("oeq", t, x, w.splat(t, 0.0))
        outside = w.select(t, zero, w.splat(t, -INFINITY), w.splat(t, NAN))
        return w.select(t, w.compare("ogt", t, x, w.splat(t, 0.0)), y, outside)

    return m, e, finish


# ---- tanh, erf ---------------------------------------------------------------------------------


def tanh(w: Writer, t: Vec, x: str) -> str:
    """The hyperbolic tangent: x + x z p(z), z = x**2, up to 5/8; 1 - 2 / (e**(2 |x|) + 1) beyond.

    Both are computed and one is selected. tanh(+-0) = +-0, tanh(+-inf) = +-1.

    Worst error with FMA (without): 1.363 (1.333) ULP over all float32, 1.39 (1.32) over a
    sample of 12 million float64.
    """
    c = format_of(t).c
    magnitude = absolute(w, t, x)
    z = w.binary("fmul", t, x, x)
    near = w.fma(t, w.binary("fmul", t, x, z), horner(w, t, c.tanh, z), x)
    one = w.splat(t, 1.0)
    parts = reduce(w, t, lower(w, t, magnitude, c.tanh_clamp), 2.0)
    e = add_exponent(w, t, exp_reduced(w, t, parts.r, 2.0), parts.shifted)
    quotient = w.binary("fdiv", t, w.splat(t, 2.0), w.binary("fadd", t, e, one))
    far = w.binary("fsub", t, one, quotient)
    is_far = w.compare("ogt", t, magnitude, w.splat(t, 0.625))
    return with_sign(w, t, w.select(t, is_far, far, near), x)


def erf(w: Writer, t: Vec, x: str) -> str:
    """The error function: x + x p(x**2) up to 1, 1 - 2**g(|x|) with g = log2 erfc beyond.

    Both are computed and one is selected. erf(+-0) = +-0, erf(+-inf) = +-1.

    Worst error with FMA (without): 0.999 (1.320) ULP over all float32, 0.96 (1.25) over a
    sample of 12 million float64.
    """
    form, c = format_of(t), format_of(t).c
    magnitude = absolute(w, t, x)
    z = w.binary("fmul", t, x, x)
    near = w.fma(t, x, horner(w, t, c.erf_small, z), x)
    one, magic = w.splat(t, 1.0), w.splat(t, form.magic)
    v = w.binary("fsub", t, lower(w, t, magnitude, c.erf_clamp), one)
    g = horner(w, t, c.erf_large, v)
    shifted = w.binary("fadd", t, g, magic)
    r = w.binary("fsub", t, g, w.binary("fsub", t, shifted, magic))
    far = w.binary("fsub", t, one, add_exponent(w, t, horner(w, t, c.exp2, r), shifted))
    y = w.select(t, w.compare("ogt", t, magnitude, one), far, near)
    return with_sign(w, t, y, x)
