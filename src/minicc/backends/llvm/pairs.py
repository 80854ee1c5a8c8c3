"""Numbers of twice the precision as vector code: sums of two float64.

The classical algorithms of T. Dekker, "A floating-point technique for extending the available
precision", 1971.
"""

from minicc.backends.llvm.writer import Vec, Writer

Pair = tuple[str, str]  # the nearest float64 and the rest


def exact_sum(w: Writer, t: Vec, a: str, b: str) -> Pair:
    """The exact sum of two numbers.

    The first is the greater, or zero, or a multiple of the second's last place.
    """
    total = w.binary("fadd", t, a, b)
    return total, w.binary("fsub", t, b, w.binary("fsub", t, total, a))


def exact_sum_of_any(w: Writer, t: Vec, a: str, b: str) -> Pair:
    """The exact sum of two numbers, of which either may be the greater (D. Knuth)."""
    total = w.binary("fadd", t, a, b)
    was = w.binary("fsub", t, total, b)
    lost = w.binary("fsub", t, b, w.binary("fsub", t, total, was))
    return total, w.binary("fadd", t, lost, w.binary("fsub", t, a, was))


def exact_product(w: Writer, t: Vec, a: str, b: str) -> Pair:
    """The exact product of two numbers: by FMA, else from halves of the significands."""
    total = w.binary("fmul", t, a, b)
    if w.has_fma:
        negated = w.inst(f"fneg {t} {total}")
        return total, w.fma(t, a, b, negated)
    (a, a_rest), (b, b_rest) = _halves(w, t, a), _halves(w, t, b)
    error = w.binary("fsub", t, w.binary("fmul", t, a, b), total)
    error = w.binary("fadd", t, error, w.binary("fmul", t, a, b_rest))
    error = w.binary("fadd", t, error, w.binary("fmul", t, a_rest, b))
    return total, w.binary("fadd", t, error, w.binary("fmul", t, a_rest, b_rest))


def _halves(w: Writer, t: Vec, x: str) -> Pair:
    """A number as the sum of two of half its precision."""
    wide = w.binary("fmul", t, x, w.splat(t, 2.0**27 + 1.0))
    high = w.binary("fsub", t, wide, w.binary("fsub", t, wide, x))
    return high, w.binary("fsub", t, x, high)


def times(w: Writer, t: Vec, a: Pair, b: Pair) -> Pair:
    """The product of two pairs."""
    high, low = exact_product(w, t, a[0], b[0])
    low = w.fma(t, a[0], b[1], low)
    return high, w.fma(t, a[1], b[0], low)


def difference_from_product(w: Writer, t: Vec, a: str, b: str, c: str) -> str:
    """The difference a - b * c, rounded once, where b * c is near a."""
    if w.has_fma:
        return w.fma(t, w.inst(f"fneg {t} {b}"), c, a)
    product, rest = exact_product(w, t, b, c)
    return w.binary("fsub", t, w.binary("fsub", t, a, product), rest)
