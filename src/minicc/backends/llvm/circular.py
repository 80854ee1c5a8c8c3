"""Circular functions as inlined vector code: sin, cos, tan and their inverses.

Arguments are brought into an eighth of a turn on either side of 0. Up to 2**20 that is Cody and
Waite's reduction with pi in four parts; what is greater goes through a loop over the bits of the
inverse of a turn (M. Payne and R. Hanek, "Radian reduction for trigonometric functions", 1983),
for which the code branches, since hardly a program has such arguments. Where float32 is computed
in float64, no rest of the reduced argument is wanted.

Errors are as in `math`, measured by tools/measure_math.py on samples.
"""

from collections.abc import Callable
from typing import NamedTuple

from minicc.backends.llvm.coefficients import (
    FLOAT,
    INVERSE_TURN,
    INVERSE_TURN_SCALE,
    TURN,
)
from minicc.backends.llvm.math import INFINITY, absolute, format_of, horner, with_sign
from minicc.backends.llvm.pairs import (
    Pair,
    difference_from_product,
    exact_sum,
    exact_sum_of_any,
    times,
)
from minicc.backends.llvm.tiles import splat
from minicc.backends.llvm.writer import Vec, Writer, constant

# from here on the products of Cody and Waite are no longer exact
_NEAR = {"float": 2.0**10, "double": 2.0**20}


def in_double(w: Writer, t: Vec, function: Callable[..., str], *args: str) -> str:
    """A function of float64 vectors, told whether its result will not be rounded to float32."""
    wide = Vec(t.lanes, "double")
    if t == wide:
        return function(w, t, *args, True)
    result = function(w, wide, *[w.convert("fpext", t, x, wide) for x in args], False)
    return w.convert("fptrunc", wide, result, t)


def with_exact_products(w: Writer, t: Vec, function: Callable[..., str], x: str) -> str:
    """A function as `in_double` calls it, in its own format if that has exact products."""
    if w.has_fma or t.element == "double":
        return function(w, t, x, True)
    return in_double(w, t, function, x)


# ---- sin, cos, tan -----------------------------------------------------------------------------


class Reduced(NamedTuple):
    """x = n quarters of a turn + r + rest, with r on an eighth of a turn or just beyond."""

    shifted: str  # the last bits of its bits are those of n
    r: str
    rest: str


def sin(w: Writer, t: Vec, x: str) -> str:
    """The sine; NaN of infinities. A zero keeps its sign.

    Worst error on a sample: 0.78 ULP of float32, 0.80 of float64.
    """
    return with_exact_products(w, t, _sin, x)


def cos(w: Writer, t: Vec, x: str) -> str:
    """The cosine; NaN of infinities.

    Worst error on a sample: 0.78 ULP of float32, 0.84 of float64.
    """
    return with_exact_products(w, t, _cos, x)


def tan(w: Writer, t: Vec, x: str) -> str:
    """The tangent: the sine over the cosine, each with a rest; NaN of infinities.

    Worst error on a sample: 0.97 ULP of float32, 0.98 of float64.
    """
    return with_exact_products(w, t, _tan, x)


def _sin(w: Writer, t: Vec, x: str, precise: bool) -> str:
    i = t.integer
    shifted, sine, cosine = _waves(w, t, x, precise)
    y = w.select(t, _is_odd(w, t, shifted), _total(w, t, cosine), _total(w, t, sine))
    return _negated(w, t, y, _highest(w, i, shifted, 1), w.bitcast(t, x, i))


def _cos(w: Writer, t: Vec, x: str, precise: bool) -> str:
    i = t.integer
    shifted, sine, cosine = _waves(w, t, x, precise)
    y = w.select(t, _is_odd(w, t, shifted), _total(w, t, sine), _total(w, t, cosine))
    return _negated(w, t, y, _highest(w, i, w.binary("add", i, shifted, w.splat(i, 1)), 1))


def _tan(w: Writer, t: Vec, x: str, precise: bool) -> str:
    i = t.integer
    shifted, sine, cosine = _waves(w, t, x, precise)
    odd = _is_odd(w, t, shifted)
    if precise:
        sine, cosine = exact_sum(w, t, *sine), exact_sum(w, t, *cosine)
        above, below = ([w.select(t, odd, a, b) for a, b in zip(p, q, strict=True)]
                        for p, q in ((cosine, sine), (sine, cosine)))  # fmt: skip
        inverse = w.binary("fdiv", t, w.splat(t, 1.0), below[0])
        y = w.binary("fmul", t, above[0], inverse)
        rest = difference_from_product(w, t, above[0], y, below[0])
        rest = w.binary("fadd", t, rest, above[1])
        rest = w.binary("fsub", t, rest, w.binary("fmul", t, y, below[1]))
        y = w.fma(t, rest, inverse, y)
    else:
        s, c = _total(w, t, sine), _total(w, t, cosine)
        y = w.binary("fdiv", t, w.select(t, odd, c, s), w.select(t, odd, s, c))
    return _negated(w, t, y, _highest(w, i, shifted, 0), w.bitcast(t, x, i))


def _is_odd(w: Writer, t: Vec, shifted: str) -> str:
    i = t.integer
    return w.compare("ne", i, w.binary("and", i, shifted, w.splat(i, 1)), w.splat(i, 0))


def _highest(w: Writer, i: Vec, bits: str, place: int) -> str:
    """Bits moved so that the one at a place is the highest."""
    return w.binary("shl", i, bits, w.splat(i, i.bits - 1 - place))


def _negated(w: Writer, t: Vec, y: str, *bits: str) -> str:
    """A number whose sign is changed by the highest bit of each of the others."""
    i = t.integer
    change = bits[0]
    for more in bits[1:]:
        change = w.binary("xor", i, change, more)
    change = w.binary("and", i, change, w.splat(i, -(1 << i.bits - 1)))
    return w.bitcast(i, w.binary("xor", i, w.bitcast(t, y, i), change), t)


def _total(w: Writer, t: Vec, pair: Pair) -> str:
    return w.binary("fadd", t, *pair)


def _waves(w: Writer, t: Vec, x: str, precise: bool) -> tuple[str, Pair, Pair]:
    """The quarter of |x| as bits, and sine and cosine of what is beyond it, each as a sum."""
    c = format_of(t).c if precise else FLOAT
    shifted, r, rest = _reduced(w, t, absolute(w, t, x), precise)
    z = w.binary("fmul", t, r, r)
    half = w.binary("fmul", t, z, w.splat(t, 0.5))
    cosine = w.binary("fsub", t, w.splat(t, 1.0), half)
    sine_series, cosine_series = horner(w, t, c.sin, z), horner(w, t, c.cos, z)
    cube, square = w.binary("fmul", t, r, z), w.binary("fmul", t, z, z)
    if not precise:
        sine_tail = w.binary("fmul", t, cube, sine_series)
        cosine_tail = w.binary("fmul", t, square, cosine_series)
    else:
        sine_tail = w.fma(t, cube, sine_series, w.binary("fmul", t, rest, cosine))
        lost = w.binary("fsub", t, w.binary("fsub", t, w.splat(t, 1.0), cosine), half)
        lost = w.binary("fsub", t, lost, w.binary("fmul", t, r, rest))
        cosine_tail = w.fma(t, square, cosine_series, lost)
    return w.bitcast(t, shifted, t.integer), (r, sine_tail), (cosine, cosine_tail)


def _reduced(w: Writer, t: Vec, x: str, precise: bool) -> Reduced:
    """A number that is not less than 0, or NaN, in quarters of a turn."""
    near = _near(w, t, x, precise)
    far = w.compare("oge", t, x, w.splat(t, _NEAR[t.element]))
    of_far = _far if t.element == "double" else _far_in_double
    distant, after, before = w.fresh("distant"), w.fresh("reduced"), w.block
    w.line(f"br i1 {w.any(t, far)}, label %{distant}, label %{after}")
    w.label(distant)
    both = [w.select(t, far, a, b) for a, b in zip(of_far(w, t, x), near, strict=True)]
    distant = w.block
    w.line(f"br label %{after}")
    w.label(after)
    return Reduced(*[w.phi(t, a, before, b, distant) for a, b in zip(near, both, strict=True)])


def _near(w: Writer, t: Vec, x: str, precise: bool) -> Reduced:
    """The reduction of a number up to 2**20, or 2**10 in float32.

    The products of the first three parts of a quarter with n are exact, and so are the differences
    but for what is kept of them.
    """
    magic, zero = w.splat(t, format_of(t).magic), w.splat(t, 0.0)
    shifted = w.fma(t, x, w.splat(t, 4.0 / TURN[0]), magic)
    n = w.binary("fsub", t, shifted, magic)
    first, second, third, fourth = [-part for part in format_of(t).c.quarter_turn]
    a = w.fma(t, n, w.splat(t, first), x)
    b = w.fma(t, n, w.splat(t, second), a)
    if not precise:
        return Reduced(shifted, w.fma(t, n, w.splat(t, third), b), zero)
    rest = w.fma(t, n, w.splat(t, second), w.binary("fsub", t, a, b))
    c = w.fma(t, n, w.splat(t, third), b)
    more = w.fma(t, n, w.splat(t, third), w.binary("fsub", t, b, c))
    rest = w.fma(t, n, w.splat(t, fourth), w.binary("fadd", t, rest, more))
    return Reduced(shifted, *exact_sum(w, t, c, rest))


def _far_in_double(w: Writer, t: Vec, x: str) -> Reduced:
    """The reduction of a float32 that is not near, by that of a float64."""
    wide = Vec(t.lanes, "double")
    shifted, r, _ = _reduced(w, wide, w.convert("fpext", t, x, wide), precise=False)
    first = w.convert("fptrunc", wide, r, t)
    rest = w.binary("fsub", wide, r, w.convert("fpext", t, first, wide))
    bits = w.convert("trunc", wide.integer, w.bitcast(wide, shifted, wide.integer), t.integer)
    return Reduced(w.bitcast(t.integer, bits, t), first, w.convert("fptrunc", wide, rest, t))


def _far(w: Writer, t: Vec, x: str) -> Reduced:
    """The reduction of a number of any size from 2**20 on.

    Both halves of x are multiplied by each part of the inverse of a turn, exactly. Whole turns are
    dropped from the products, and quarters are counted and taken from the sum, which is a pair: so
    it is small before anything is lost of it.
    """
    i, zero = t.integer, w.splat(t, 0.0)
    x = w.binary("fmul", t, x, w.splat(t, 2.0**-INVERSE_TURN_SCALE))
    high = w.bitcast(i, w.binary("and", i, w.bitcast(t, x, i), w.splat(i, -(1 << 27))), t)
    halves = high, w.binary("fsub", t, x, high)
    head, done, before = w.fresh("turns"), w.fresh("reduce"), w.block
    w.line(f"br label %{head}")
    w.label(head)
    phis = len(w.lines)
    k, total, rest, count = starts = [f"%{w.fresh('turning')}" for _ in range(4)]
    part = w.inst(f"getelementptr double, ptr @{_table(w)}, i64 {k}")
    part = splat(w, t, w.inst(f"load double, ptr {part}, align 8"))
    for half in halves:
        turns = w.binary("fmul", t, half, part)
        turns = w.binary("fsub", t, turns, _whole(w, t, turns))
        total, lost = exact_sum_of_any(w, t, total, turns)
        n = _whole(w, t, w.binary("fmul", t, total, w.splat(t, 4.0)))
        count = w.binary("fadd", t, count, n)
        total = w.fma(t, n, w.splat(t, -0.25), total)
        total, rest = exact_sum(w, t, total, w.binary("fadd", t, rest, lost))
    following = w.inst(f"add i64 {k}, 1")
    types = [Vec(1, "i64"), t, t, t]
    first = ["0", zero, zero, w.splat(t, format_of(t).magic)]
    after = [following, total, rest, count]
    w.lines[phis:phis] = [
        f"  {name} = phi {kind} [ {a}, %{before} ], [ {b}, %{head} ]"
        for name, kind, a, b in zip(starts, types, first, after, strict=True)
    ]
    more = w.compare("ult", types[0], following, str(len(INVERSE_TURN)))
    w.line(f"br i1 {more}, label %{head}, label %{done}")
    w.label(done)
    turn = w.splat(t, TURN[0]), w.splat(t, TURN[1])
    return Reduced(count, *times(w, t, (total, rest), turn))


def _table(w: Writer) -> str:
    """The name of the constant that holds the inverse of a turn."""
    name = "inverse_turn"
    parts = ", ".join(f"double {constant('double', part)}" for part in INVERSE_TURN)
    w.declares[name] = f"@{name} = internal constant [{len(INVERSE_TURN)} x double] [{parts}]"
    return name


def _whole(w: Writer, t: Vec, x: str) -> str:
    return w.intrinsic(f"llvm.rint.{t.suffix}", t, (t, x))


# ---- atan, atan2, asin, acos -------------------------------------------------------------------


def atan(w: Writer, t: Vec, x: str) -> str:
    """The inverse of the tangent; a quarter of a turn at infinity. A zero keeps its sign.

    Worst error on a sample: 1.84 ULP of float32, 1.75 of float64.
    """
    size, one = absolute(w, t, x), w.splat(t, 1.0)
    steep = w.compare("ogt", t, size, one)
    less, more = w.select(t, steep, one, size), w.select(t, steep, size, one)
    k, z = _eighths(w, t, less, more)
    k = w.select(t, steep, w.binary("fsub", t, w.splat(t, 2.0), k), k)
    z = w.select(t, steep, w.inst(f"fneg {t} {z}"), z)
    return with_sign(w, t, _angle(w, t, k, z), x)


def atan2(w: Writer, t: Vec, y: str, x: str) -> str:
    """The angle of the point (x, y), of y's sign, with C's special cases."""
    i, one = t.integer, w.splat(t, 1.0)
    height, width = absolute(w, t, y), absolute(w, t, x)
    steep = w.compare("ogt", t, height, width)
    less, more = w.select(t, steep, width, height), w.select(t, steep, height, width)
    # of two infinities and of two zeros the quotient is not a number
    infinity = w.splat(t, INFINITY)
    infinite = w.binary(
        "and", t.mask, w.compare("oeq", t, less, infinity), w.compare("oeq", t, more, infinity)
    )
    less, more = w.select(t, infinite, one, less), w.select(t, infinite, one, more)
    more = w.select(t, w.compare("oeq", t, more, w.splat(t, 0.0)), one, more)
    # nor may their sum be infinite
    large = w.compare("ogt", t, more, w.splat(t, 2.0 ** (format_of(t).bias - 2)))
    scale = w.select(t, large, w.splat(t, 0.25), one)
    less, more = w.binary("fmul", t, less, scale), w.binary("fmul", t, more, scale)
    k, z = _eighths(w, t, less, more)
    k = w.select(t, steep, w.binary("fsub", t, w.splat(t, 2.0), k), k)
    back = w.compare("slt", i, w.bitcast(t, x, i), w.splat(i, 0))
    k = w.select(t, back, w.binary("fsub", t, w.splat(t, 4.0), k), k)
    turned = w.binary("xor", t.mask, steep, back)
    z = w.select(t, turned, w.inst(f"fneg {t} {z}"), z)
    return with_sign(w, t, _angle(w, t, k, z), y)


def asin(w: Writer, t: Vec, x: str) -> str:
    """The inverse of the sine; NaN outside of -1 to 1. A zero keeps its sign.

    Worst error on a sample: 0.60 ULP of float32, 0.64 of float64.
    """
    return in_double(w, t, _asin, x)


def acos(w: Writer, t: Vec, x: str) -> str:
    """The inverse of the cosine; NaN outside of -1 to 1.

    Worst error on a sample: 0.59 ULP of float32, 0.61 of float64.
    """
    return in_double(w, t, _acos, x)


def _eighths(w: Writer, t: Vec, less: str, more: str) -> tuple[str, str]:
    """The angle whose tangent is less / more, which is 0 to 1, as k eighths of a turn and atan z.

    Above a sixteenth of a turn k is 1 and z, by a theorem of addition, (less - more) over (less +
    more).
    """
    upper = w.compare("ogt", t, less, w.binary("fmul", t, more, w.splat(t, 2.0**0.5 - 1.0)))
    above = w.select(t, upper, w.binary("fsub", t, less, more), less)
    below = w.select(t, upper, w.binary("fadd", t, less, more), more)
    k = w.select(t, upper, w.splat(t, 1.0), w.splat(t, 0.0))
    return k, w.binary("fdiv", t, above, below)


def _angle(w: Writer, t: Vec, k: str, z: str) -> str:
    """K eighths of a turn and atan z, for z up to the tangent of a sixteenth."""
    c = format_of(t).c
    square = w.binary("fmul", t, z, z)
    series = w.binary("fmul", t, square, horner(w, t, c.atan, square))
    high, low = (w.binary("fmul", t, k, w.splat(t, part)) for part in format_of(t).c.eighth_turn)
    tail = w.fma(t, z, series, low)
    return w.binary("fadd", t, high, w.binary("fadd", t, z, tail))


def _asin(w: Writer, t: Vec, x: str, precise: bool) -> str:
    size = absolute(w, t, x)
    outer, (b, tail) = _half_arc(w, t, size, precise)
    away = [w.inst(f"fneg {t} {value}") for value in (b, tail)]
    b, tail = (w.select(t, outer, p, q) for p, q in zip(away, (b, tail), strict=True))
    quarters = w.select(t, outer, w.splat(t, 1.0), w.splat(t, 0.0))
    return with_sign(w, t, _from_quarters(w, t, quarters, (b, tail)), x)


def _acos(w: Writer, t: Vec, x: str, precise: bool) -> str:
    i = t.integer
    outer, pair = _half_arc(w, t, absolute(w, t, x), precise)
    left = w.compare("slt", i, w.bitcast(t, x, i), w.splat(i, 0))
    # inside, the arc is taken off a quarter or added to it; outside, taken off two or none
    minus = w.binary("xor", t.mask, w.binary("xor", t.mask, outer, left), w.splat(t.mask, 1))
    b, tail = (w.select(t, minus, w.inst(f"fneg {t} {v}"), v) for v in pair)
    ends = w.select(t, left, w.splat(t, 2.0), w.splat(t, 0.0))
    return _from_quarters(w, t, w.select(t, outer, ends, w.splat(t, 1.0)), (b, tail))


def _half_arc(w: Writer, t: Vec, size: str, precise: bool) -> tuple[str, Pair]:
    """Whether a number is above 1/2, and asin of it, or twice asin(sqrt((1 - size) / 2)).

    The latter is acos of it.
    """
    c = format_of(t).c if precise else FLOAT
    half, one = w.splat(t, 0.5), w.splat(t, 1.0)
    outer = w.compare("ogt", t, size, half)
    left = w.binary("fmul", t, w.binary("fsub", t, one, size), half)
    z = w.select(t, outer, left, w.binary("fmul", t, size, size))
    root = w.intrinsic(f"llvm.sqrt.{t.suffix}", t, (t, left))
    twice = w.binary("fadd", t, root, root)
    b = w.select(t, outer, twice, size)
    tail = w.binary("fmul", t, w.binary("fmul", t, b, z), horner(w, t, c.asin, z))
    if precise:
        # what the root lacks, twice
        lost = difference_from_product(w, t, left, root, root)
        below = w.select(t, w.compare("oeq", t, root, w.splat(t, 0.0)), one, root)
        lost = w.select(t, outer, w.binary("fdiv", t, lost, below), w.splat(t, 0.0))
        tail = w.binary("fadd", t, tail, lost)
    return outer, (b, tail)


def _from_quarters(w: Writer, t: Vec, quarters: str, pair: Pair) -> str:
    """A number of quarters of a turn and a pair, rounded once."""
    high, low = (
        w.binary("fmul", t, quarters, w.splat(t, 2.0 * part)) for part in format_of(t).c.eighth_turn
    )
    total, lost = exact_sum(w, t, high, pair[0])
    rest = w.binary("fadd", t, w.binary("fadd", t, lost, low), pair[1])
    return w.binary("fadd", t, total, rest)
