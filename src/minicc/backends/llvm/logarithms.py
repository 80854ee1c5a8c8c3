"""Logarithms to the bases 2 and 10 as inlined vector code.

The logarithm of a power of the base is its exponent, exactly: what is summed has twice the
precision where it is large, and is rounded once. `floor(log10(x))` counts digits by that. Errors
are as in `math`, measured by tools/measure_math.py on samples.
"""

from minicc.backends.llvm.circular import with_exact_products
from minicc.backends.llvm.math import INFINITY, absolute, format_of, horner, split
from minicc.backends.llvm.pairs import exact_product, exact_sum
from minicc.backends.llvm.writer import Vec, Writer


def log2(w: Writer, t: Vec, x: str) -> str:
    """The logarithm to the base 2, with the special cases of the natural one.

    Worst error on a sample: 1.34 ULP of float32, 1.30 of float64.
    """
    return with_exact_products(w, t, _log2, x)


def log10(w: Writer, t: Vec, x: str) -> str:
    """The logarithm to the base 10, with the special cases of the natural one.

    Worst error on a sample: 0.83 ULP of float32, 1.03 of float64.
    """
    return with_exact_products(w, t, _log10, x)


def _log2(w: Writer, t: Vec, x: str, precise: bool) -> str:
    return _to_base(w, t, x, format_of(t).c.log2e, (1.0, 0.0))


def _log10(w: Writer, t: Vec, x: str, precise: bool) -> str:
    c = format_of(t).c
    return _to_base(w, t, x, c.log10e, c.log10_2)


def _to_base(
    w: Writer, t: Vec, x: str, unit: tuple[float, float], of_two: tuple[float, float]
) -> str:
    """E log 2 + log(1 + f), on 1 + f in [3/4, 3/2), as the natural one has it.

    `unit` is the logarithm of e, `of_two` that of 2, whose first part times e is exact.
    """
    m, e, finish = split(w, t, x)
    f = w.binary("fsub", t, m, w.splat(t, 1.0))
    first, lost = exact_product(w, t, f, w.splat(t, unit[0]))
    lost = w.fma(t, f, w.splat(t, unit[1]), lost)
    tail = horner(w, t, [-0.5, *format_of(t).c.log], f)
    square = w.binary("fmul", t, w.binary("fmul", t, f, f), w.splat(t, unit[0]))
    rest = w.fma(t, square, tail, w.fma(t, e, w.splat(t, of_two[1]), lost))
    whole = w.binary("fmul", t, e, w.splat(t, of_two[0]))
    total, more = exact_sum(w, t, whole, first)
    # where the sum is infinite, what it lacks is not a number
    finite = w.compare("olt", t, absolute(w, t, total), w.splat(t, INFINITY))
    rest = w.select(t, finite, w.binary("fadd", t, rest, more), w.splat(t, 0.0))
    return finish(w.binary("fadd", t, total, rest))
