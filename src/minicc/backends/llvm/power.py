"""Powers and cube roots as inlined vector code.

The error of a power is that of its logarithm times the exponent, so the logarithm of a float64 is
the sum of two numbers (see `pairs`). A cube root is found by iteration, without a division.
"""

from minicc.backends.llvm.math import (
    INFINITY,
    NAN,
    absolute,
    add_exponent,
    exp2_by,
    format_of,
    horner,
    split,
    with_sign,
)
from minicc.backends.llvm.pairs import Pair, difference_from_product, exact_sum, times
from minicc.backends.llvm.writer import Vec, Writer


def power(w: Writer, t: Vec, a: str, b: str) -> str:
    """A to the power b with C's special cases.

    float32 goes through a logarithm and a power of two in float64: within 0.6 ULP on a sample.
    float64 goes through a logarithm of twice the precision: exact where the power is a number of
    the format, else within 1 ULP on a sample (tests/ops/test_powers.py).
    """
    one, zero = w.splat(t, 1.0), w.splat(t, 0.0)
    infinite = w.splat(t, INFINITY)
    size = absolute(w, t, a)
    p = _power(w, t, size, b) if t.element == "double" else _short_power(w, t, size, b)
    # the logarithms of 0 and infinity have no second part, or no exponent
    grows = w.compare("ogt", t, size, one)
    rises = w.compare("ogt", t, b, zero)
    same = _not(w, t, w.binary("xor", t.mask, grows, rises))
    edge = w.binary("or", t.mask, w.compare("oeq", t, size, zero),
                    w.compare("oeq", t, size, infinite))  # fmt: skip
    p = w.select(t, edge, w.select(t, same, infinite, zero), p)
    # 0 * inf in the exponent: the bases 1 and -1, and the exponent 0
    p = w.select(t, w.compare("oeq", t, size, one), one, p)
    half = w.binary("fmul", t, b, w.splat(t, 0.5))
    whole = w.compare("oeq", t, _floor(w, t, b), b)
    even = w.compare("oeq", t, _floor(w, t, half), half)
    odd = w.binary("and", t.mask, whole, _not(w, t, even))
    p = w.select(t, odd, with_sign(w, t, p, a), p)
    root = w.binary("and", t.mask, w.compare("olt", t, a, zero), _not(w, t, whole))
    finite = w.compare("one", t, size, infinite)
    p = w.select(t, w.binary("and", t.mask, root, finite), w.splat(t, NAN), p)
    p = w.select(t, w.compare("uno", t, a, b), w.splat(t, NAN), p)
    known = w.compare("oeq", t, b, zero)
    known = w.binary("or", t.mask, known, w.compare("oeq", t, a, one))
    return w.select(t, known, one, p)


def _short_power(w: Writer, t: Vec, a: str, b: str) -> str:
    """A to the power b for positive finite float32: 2**(b log2 a) in float64.

    log2 a = e + log2((1 + s) / (1 - s)) with s = (m - 1) / (m + 1) for the significand m in
    [3/4, 3/2): a quotient of float32, and what it lacks.
    """
    wide = Vec(t.lanes, "double")
    c = format_of(wide).c
    m, e, _ = split(w, t, a)
    inverse = w.binary("fdiv", t, w.splat(t, 1.0), w.binary("fadd", t, m, w.splat(t, 1.0)))
    m, e, b, inverse = (w.convert("fpext", t, x, wide) for x in (m, e, b, inverse))
    one = w.splat(wide, 1.0)
    f, d = w.binary("fsub", wide, m, one), w.binary("fadd", wide, m, one)
    s = w.binary("fmul", wide, f, inverse)
    rest = w.fma(wide, w.inst(f"fneg {wide} {s}"), d, f)
    s = w.fma(wide, rest, inverse, s)
    log2 = w.fma(wide, s, horner(w, wide, c.log2_short, w.binary("fmul", wide, s, s)), e)
    p = exp2_by(w, wide, w.binary("fmul", wide, b, log2), c.exp2_short)
    return w.convert("fptrunc", wide, p, t)


def _power(w: Writer, t: Vec, a: str, b: str) -> str:
    """A to the power b for a positive finite a: 2**(b log2 a), log2 a in twice the precision.

    Exponents that are out of every finite power's reach give infinity or zero.
    """
    c, magic = format_of(t).c, w.splat(t, format_of(t).magic)
    reach = w.splat(t, 2.0**64)
    b = w.select(t, w.compare("ogt", t, absolute(w, t, b), reach), with_sign(w, t, reach, b), b)
    log2 = _log2(w, t, a)
    high, low = times(w, t, (b, w.splat(t, 0.0)), log2)
    outside = w.compare("oge", t, absolute(w, t, high), w.splat(t, 1100.0))
    high = w.select(t, outside, with_sign(w, t, w.splat(t, 1100.0), high), high)
    low = w.select(t, outside, w.splat(t, 0.0), low)
    n = w.binary("fsub", t, w.binary("fadd", t, high, magic), magic)
    ln2 = w.splat(t, c.ln2[0]), w.splat(t, c.ln2[1])
    # what the product lost is small beside it, but need not be beside what n leaves of it
    r, rest = times(w, t, exact_sum(w, t, w.binary("fsub", t, high, n), low), ln2)
    total, lost = exact_sum(w, t, w.splat(t, 1.0), r)
    tail = w.fma(t, w.binary("fmul", t, r, r), horner(w, t, c.exp, r), rest)
    y = w.binary("fadd", t, total, w.binary("fadd", t, lost, tail))
    # in two steps, of which the first is exact, so that the result is rounded once
    first = w.binary("fadd", t, w.binary("fmul", t, n, w.splat(t, 0.5)), magic)
    second = w.binary("fadd", t, magic, w.binary("fsub", t, n, w.binary("fsub", t, first, magic)))
    y = add_exponent(w, t, y, first)
    return w.binary("fmul", t, y, add_exponent(w, t, w.splat(t, 1.0), second))


def _log2(w: Writer, t: Vec, a: str) -> Pair:
    """The logarithm to the base 2 of a positive finite number: e + log2((1 + s) / (1 - s)).

    s = (m - 1) / (m + 1) for the significand m in [3/4, 3/2); the first two terms of the series in
    s have twice the precision, the others are a polynomial of degree 9 in s**2.
    """
    c = format_of(t).c
    m, e, _ = split(w, t, a)
    one = w.splat(t, 1.0)
    f, (d, d_rest) = w.binary("fsub", t, m, one), exact_sum(w, t, one, m)
    inverse = w.binary("fdiv", t, one, d)
    s = w.binary("fmul", t, f, inverse)
    rest = difference_from_product(w, t, f, s, d)
    rest = w.binary("fsub", t, rest, w.binary("fmul", t, s, d_rest))
    ratio = s, w.binary("fmul", t, rest, inverse)
    square = times(w, t, ratio, ratio)
    tail = w.binary("fmul", t, square[0], horner(w, t, c.log2_tail, square[0]))
    high, low = exact_sum(w, t, w.splat(t, c.log2_third[0]), tail)
    third = high, w.binary("fadd", t, low, w.splat(t, c.log2_third[1]))
    v, v_rest = times(w, t, square, third)
    high, low = exact_sum(w, t, w.splat(t, c.log2_first[0]), v)
    v_rest = w.binary("fadd", t, v_rest, w.splat(t, c.log2_first[1]))
    high, low = times(w, t, ratio, (high, w.binary("fadd", t, low, v_rest)))
    total, lost = exact_sum(w, t, e, high)
    return total, w.binary("fadd", t, lost, low)


def _floor(w: Writer, t: Vec, x: str) -> str:
    return w.intrinsic(f"llvm.floor.{t.suffix}", t, (t, x))


def _not(w: Writer, t: Vec, mask: str) -> str:
    return w.binary("xor", t.mask, mask, w.splat(t.mask, 1))


def cbrt(w: Writer, t: Vec, x: str) -> str:
    """The cube root, whose sign is the argument's; exact where it is a number of few digits.

    The inverse root r is found first, from a guess by a third of the bits: with h = 1 - a r**3 a
    step is r (1 + h / 3 + 2 h**2 / 9), which has no division. Then a r**2 is put right by Newton's
    method.

    Worst error on a sample: 0.96 ULP of float32, 0.98 of float64.
    """
    form, third = format_of(t), 1.0 / 3.0
    size, one = absolute(w, t, x), w.splat(t, 1.0)
    up = 3 * (form.mantissa // 3 + 1)
    small = w.compare("olt", t, size, w.splat(t, 2.0 ** (1 - form.bias)))
    a = w.select(t, small, w.binary("fmul", t, size, w.splat(t, 2.0**up)), size)
    r = _inverse_root(w, t, a)
    for _ in range(2 if t.element == "float" else 3):
        cube = w.binary("fmul", t, w.binary("fmul", t, a, r), w.binary("fmul", t, r, r))
        h = w.binary("fsub", t, one, cube)
        step = w.fma(t, h, w.splat(t, 2.0 / 9.0), w.splat(t, third))
        r = w.fma(t, w.binary("fmul", t, r, h), step, r)
    square = w.binary("fmul", t, r, r)
    y = w.binary("fmul", t, a, square)
    left = difference_from_product(w, t, a, w.binary("fmul", t, y, y), y)
    y = w.fma(t, w.binary("fmul", t, left, square), w.splat(t, third), y)
    y = w.select(t, small, w.binary("fmul", t, y, w.splat(t, 2.0 ** (-up // 3))), y)
    y = w.select(t, w.compare("olt", t, size, w.splat(t, INFINITY)), y, x)
    return with_sign(w, t, y, x)


def _inverse_root(w: Writer, t: Vec, a: str) -> str:
    """The inverse cube root of a positive number, within a thirtieth of it.

    The bits of a number, as an integer, are its logarithm roughly. The leading ones are divided as
    a float.
    """
    form, i = format_of(t), t.integer
    unused = t.bits - 1 - form.mantissa  # bits, of the last; the others fit a significand
    magic = w.splat(t, 2.0**form.mantissa)
    bits = w.binary("lshr", i, w.bitcast(t, a, i), w.splat(i, unused))
    bits = w.binary("or", i, bits, w.bitcast(t, magic, i))
    number = w.binary("fsub", t, w.bitcast(i, bits, t), magic)
    # of 1 it is 4 / 3 of the bits of 1; the rest makes errors to both sides alike
    of_one = (form.one >> unused) * 4.0 / 3.0 - 0.0332 * 2.0 ** (form.mantissa - unused)
    number = w.fma(t, number, w.splat(t, -1.0 / 3.0), w.splat(t, of_one + 2.0**form.mantissa))
    bits = w.binary("and", i, w.bitcast(t, number, i), w.splat(i, (1 << form.mantissa) - 1))
    return w.bitcast(i, w.binary("shl", i, bits, w.splat(i, unused)), t)
