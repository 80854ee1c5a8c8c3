"""Hyperbolic functions as inlined vector code: sinh, cosh and the inverses.

The inverses of float32 are computed in float64. Errors are as in `math`, measured by
tools/measure_math.py on samples.
"""

import math

from minicc.backends.llvm.circular import in_double
from minicc.backends.llvm.math import (
    INFINITY,
    NAN,
    absolute,
    add_exponent,
    exp_reduced,
    format_of,
    horner,
    log,
    reduce,
    with_sign,
)
from minicc.backends.llvm.pairs import (
    Pair,
    difference_from_product,
    exact_product,
    exact_sum,
    exact_sum_of_any,
)
from minicc.backends.llvm.writer import Vec, Writer


def sinh(w: Writer, t: Vec, x: str) -> str:
    """The hyperbolic sine: x + x z p(z), z = x**2, up to 1; from e**x / 2 beyond.

    Worst error on a sample: 1.57 ULP of float32, 1.64 of float64.
    """
    size = absolute(w, t, x)
    growing, falling = _halves(w, t, size)
    far = _finite(w, t, size, w.binary("fsub", t, growing, falling))
    z = w.binary("fmul", t, size, size)
    series = horner(w, t, format_of(t).c.sinh, z)
    near = w.fma(t, w.binary("fmul", t, size, z), series, size)
    is_near = w.compare("olt", t, size, w.splat(t, 1.0))
    return with_sign(w, t, w.select(t, is_near, near, far), x)


def cosh(w: Writer, t: Vec, x: str) -> str:
    """The hyperbolic cosine, from e**x / 2.

    Worst error on a sample: 1.40 ULP of float32, 1.41 of float64.
    """
    size = absolute(w, t, x)
    growing, falling = _halves(w, t, size)
    return _finite(w, t, size, w.binary("fadd", t, growing, falling))


def asinh(w: Writer, t: Vec, x: str) -> str:
    """The inverse of the hyperbolic sine: log(|x| + sqrt(x**2 + 1)) with x's sign.

    Worst error on a sample: 0.51 ULP of float32, 1.37 of float64.
    """
    return in_double(w, t, _asinh, x)


def acosh(w: Writer, t: Vec, x: str) -> str:
    """The inverse of the hyperbolic cosine: log(x + sqrt(x**2 - 1)); NaN below 1.

    Worst error on a sample: 0.51 ULP of float32, 1.39 of float64.
    """
    return in_double(w, t, _acosh, x)


def atanh(w: Writer, t: Vec, x: str) -> str:
    """The inverse of the hyperbolic tangent: log((1 + x) / (1 - x)) / 2; NaN outside of -1 to 1.

    Worst error on a sample: 0.51 ULP of float32, 1.30 of float64.
    """
    return in_double(w, t, _atanh, x)


def _halves(w: Writer, t: Vec, size: str) -> Pair:
    """Half of e to the powers of a number and of its opposite, where its cosh is finite."""
    parts = reduce(w, t, size, 1.0)
    # the power of two may be too large before it is halved
    less = w.binary("fsub", t, parts.shifted, w.splat(t, 1.0))
    growing = add_exponent(w, t, exp_reduced(w, t, parts.r, 1.0), less)
    return growing, w.binary("fdiv", t, w.splat(t, 0.25), growing)


def _finite(w: Writer, t: Vec, size: str, y: str) -> str:
    """A result, but infinity of arguments that are too large, and NaN of NaN."""
    largest = (format_of(t).bias + 2) * math.log(2)
    large = w.compare("ugt", t, size, w.splat(t, largest))
    return w.select(t, large, w.binary("fadd", t, size, w.splat(t, INFINITY)), y)


def _asinh(w: Writer, t: Vec, x: str, precise: bool) -> str:
    size = absolute(w, t, x)
    y = _log_with_root(w, t, size, 1.0, precise)
    return with_sign(w, t, _tiny_or(w, t, size, y, precise), x)


def _acosh(w: Writer, t: Vec, x: str, precise: bool) -> str:
    y = _log_with_root(w, t, x, -1.0, precise)
    below = w.compare("olt", t, x, w.splat(t, 1.0))
    return w.select(t, below, w.splat(t, NAN), y)


def _log_with_root(w: Writer, t: Vec, x: str, more: float, precise: bool) -> str:
    """log(x + sqrt(x**2 + more)), for more = 1 or -1; log(2 x) where x**2 is too large."""
    if not precise:
        under = w.fma(t, x, x, w.splat(t, more))
        root = w.intrinsic(f"llvm.sqrt.{t.suffix}", t, (t, under))
        return log(w, t, w.binary("fadd", t, x, root))
    zero, one = w.splat(t, 0.0), w.splat(t, 1.0)
    large = w.compare("ogt", t, x, w.splat(t, 2.0**30))
    kept = w.select(t, large, one, x)
    square, square_rest = exact_product(w, t, kept, kept)
    under, rest = exact_sum_of_any(w, t, square, w.splat(t, more))
    rest = w.binary("fadd", t, rest, square_rest)
    root = w.intrinsic(f"llvm.sqrt.{t.suffix}", t, (t, under))
    lost = w.binary("fadd", t, difference_from_product(w, t, under, root, root), rest)
    lost = w.binary("fdiv", t, lost, w.binary("fadd", t, root, root))
    lost = w.select(t, w.compare("oeq", t, root, zero), zero, lost)
    greater, lesser = (root, kept) if more > 0 else (kept, root)
    total, total_rest = exact_sum(w, t, greater, lesser)
    total = w.select(t, large, x, total)
    correction = w.binary("fdiv", t, w.binary("fadd", t, total_rest, lost), total)
    high, low = (w.splat(t, part) for part in format_of(t).c.ln2)
    y = w.binary("fadd", t, log(w, t, total), w.select(t, large, low, correction))
    return w.binary("fadd", t, y, w.select(t, large, high, zero))


def _atanh(w: Writer, t: Vec, x: str, precise: bool) -> str:
    size, one = absolute(w, t, x), w.splat(t, 1.0)
    above, above_rest = exact_sum(w, t, one, size)
    below, below_rest = exact_sum(w, t, one, w.inst(f"fneg {t} {size}"))
    ratio = w.binary("fdiv", t, above, below)
    y = log(w, t, ratio)
    if precise:
        rest = difference_from_product(w, t, above, ratio, below)
        rest = w.binary("fadd", t, rest, above_rest)
        rest = w.binary("fsub", t, rest, w.binary("fmul", t, ratio, below_rest))
        rest = w.binary("fdiv", t, rest, above)
        # at 1 the ratio is infinite, and what it lacks is not a number
        rest = w.select(t, w.compare("oeq", t, size, one), w.splat(t, 0.0), rest)
        y = w.binary("fadd", t, y, rest)
    y = w.binary("fmul", t, y, w.splat(t, 0.5))
    return with_sign(w, t, _tiny_or(w, t, size, y, precise), x)


def _tiny_or(w: Writer, t: Vec, size: str, y: str, precise: bool) -> str:
    """y, but the argument itself where the cube of that is beyond the result's last place."""
    tiny = w.compare("olt", t, size, w.splat(t, 2.0**-28 if precise else 2.0**-13))
    return w.select(t, tiny, size, y)
