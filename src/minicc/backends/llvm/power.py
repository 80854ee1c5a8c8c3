"""Powers as inlined vector code: through a logarithm of twice the precision.

The error of a power is that of its logarithm times the exponent, so the logarithm of a float64 is
the sum of two numbers (see `pairs`).
"""

from minicc.backends.llvm.math import (
    INFINITY,
    NAN,
    absolute,
    add_exponent,
    exp,
    format_of,
    horner,
    log,
    split,
    with_sign,
)
from minicc.backends.llvm.pairs import Pair, difference_from_product, exact_sum, times
from minicc.backends.llvm.writer import Vec, Writer


def power(w: Writer, t: Vec, a: str, b: str) -> str:
    """A to the power b with C's special cases.

    float32 is computed by float64's exp and log: within 1 ULP on a sample
    (tests/ops/test_levels.py). float64 goes through a logarithm of twice the precision: exact
    where the power is a number of the format, else within 1 ULP on a sample
    (tests/ops/test_powers.py).
    """
    wide = Vec(t.lanes, "double")
    if t != wide:
        a, b = w.convert("fpext", t, a, wide), w.convert("fpext", t, b, wide)
    one, zero = w.splat(wide, 1.0), w.splat(wide, 0.0)
    infinite = w.splat(wide, INFINITY)
    size = absolute(w, wide, a)
    if t == wide:
        p = _power(w, wide, size, b)
        # a logarithm that is infinite has no second part
        grows = w.compare("ogt", wide, size, one)
        rises = w.compare("ogt", wide, b, zero)
        same = _not(w, wide, w.binary("xor", wide.mask, grows, rises))
        edge = w.binary("or", wide.mask, w.compare("oeq", wide, size, zero),
                        w.compare("oeq", wide, size, infinite))  # fmt: skip
        p = w.select(wide, edge, w.select(wide, same, infinite, zero), p)
    else:
        p = exp(w, wide, w.binary("fmul", wide, b, log(w, wide, size)))
    # 0 * inf in the exponent: the bases 1 and -1, and the exponent 0
    p = w.select(wide, w.compare("oeq", wide, size, one), one, p)
    half = w.binary("fmul", wide, b, w.splat(wide, 0.5))
    whole = w.compare("oeq", wide, _floor(w, wide, b), b)
    even = w.compare("oeq", wide, _floor(w, wide, half), half)
    odd = w.binary("and", wide.mask, whole, _not(w, wide, even))
    p = w.select(wide, odd, with_sign(w, wide, p, a), p)
    root = w.binary("and", wide.mask, w.compare("olt", wide, a, zero), _not(w, wide, whole))
    finite = w.compare("one", wide, size, infinite)
    p = w.select(wide, w.binary("and", wide.mask, root, finite), w.splat(wide, NAN), p)
    p = w.select(wide, w.compare("uno", wide, a, b), w.splat(wide, NAN), p)
    known = w.compare("oeq", wide, b, zero)
    known = w.binary("or", wide.mask, known, w.compare("oeq", wide, a, one))
    p = w.select(wide, known, one, p)
    return p if t == wide else w.convert("fptrunc", wide, p, t)


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
