"""What can be told of quasi-affine expressions: bounds, coefficients, quotients, comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from minicc.ir import affine
from minicc.ir.affine import Atom, Dim, Expr, Monomial, add, build_sum, symbols
from minicc.ir.reals import LEAVES, Part, Real

_MOST_CASES = 4  # minima of an expression of which both operands are tried
_MOST_QUOTIENTS = 6  # in an expression of which each is tried with each


def is_free(value: Dim) -> bool:
    """Whether an expression depends on free dimensions of the program."""
    return bool(affine.sizes(value))


def exact_quotient(left: Dim, right: Dim) -> Dim | None:
    """The quotient by a number or an expression, where that is surely whole."""
    if isinstance(right, int):
        if right == 0:
            return None
        if isinstance(left, int):
            return left // right if left % right == 0 else None
        whole = left.const % right == 0 and all(c % right == 0 for _, c in left.terms)
        return (
            build_sum({m: c // right for m, c in left.terms}, left.const // right)
            if whole
            else None
        )
    if isinstance(left, int):
        return 0 if left == 0 else None
    return 1 if left == right else _quotient_of_sums(left, right)


def _quotient_of_sums(left: Expr, right: Expr) -> Dim | None:
    """The quotient of polynomials, term by term from the highest on; None where a rest is left."""
    order: dict[Atom, int] = {}
    for monomial, _ in (*left.terms, *right.terms):
        for atom in monomial:
            order.setdefault(atom, len(order))

    def leading(value: Expr) -> tuple[Monomial, int]:
        terms: Sequence[tuple[Monomial, int]] = value.terms or (((), value.const),)
        return max(terms, key=lambda term: (len(term[0]), _powers(term[0], order)))

    highest, divisor = leading(right)
    quotient: Dim = 0
    rest: Dim = left
    while isinstance(rest, Expr):
        monomial, coefficient = leading(rest)
        left_over = list(monomial)
        for atom in highest:
            if atom not in left_over:
                return None
            left_over.remove(atom)
        if coefficient % divisor:
            return None
        step = build_sum({tuple(left_over): 1}, 0) if left_over else 1
        step = affine.multiply(step, coefficient // divisor)
        quotient, rest = add(quotient, step), rest - step * right
    return quotient if rest == 0 else None


def _powers(monomial: Monomial, order: Mapping[Atom, int]) -> tuple[int, ...]:
    counts = [0] * len(order)
    for atom in monomial:
        counts[order[atom]] += 1
    return tuple(counts)


def larger(left: Dim, right: Dim) -> Dim:
    """An expression that is surely at least as large as either; sizes are never negative."""
    if at_least(left, right):
        return left
    return right if at_least(right, left) else left + right


def at_least(left: Dim, right: Dim) -> bool:
    """Whether the first is surely no smaller than the second; sizes are never negative."""
    return _is_natural(left - right, _MOST_CASES, {})


def at_least_within(left: Dim, right: Dim, counts: Mapping[str, Dim]) -> bool:
    """Whether the first is surely no smaller in all rounds of loops, the outer one's first."""
    return _is_natural(left - right, _MOST_CASES, counts)


def greater(left: Dim, right: Dim) -> Dim:
    """The greater of two, which is one of them where that can be told."""
    return left + right - smaller(left, right)


def smaller(left: Dim, right: Dim) -> Dim:
    """The smaller of two, which is one of them where that can be told."""
    if at_least(left, right):
        return right
    return left if at_least(right, left) else affine.minimum(left, right)


def _is_natural(value: Dim, cases: int, counts: Mapping[str, Dim]) -> bool:
    """Whether a value is surely not negative; minima in it are either of their operands."""
    least = _bound(value, least=True)
    if least is not None and least >= 0:
        return True
    ends = least_within(value, counts) if counts else value
    if ends is not value and _is_natural(ends, cases, {}):
        return True
    if isinstance(value, int) or not cases:
        return False
    if any(_is_natural(less, cases - 1, counts) for less in _no_more(value)):
        return True
    # those that count as both operands come first, for nothing is lost by taking them apart
    for monomial, coefficient in sorted(value.terms, key=lambda term: term[1] < 0):
        atom = monomial[0]
        if len(monomial) > 1 or isinstance(atom, str) or atom.kind != "min":
            continue
        rest = value - build_sum({monomial: coefficient}, 0)
        taken = (_is_natural(rest + coefficient * n, cases - 1, counts) for n in atom.args)
        return all(taken) if coefficient > 0 else any(taken)
    return False


def _no_more(value: Expr) -> Iterator[Dim]:
    """Expressions that are surely no greater: with fewer quotients.

    `-n * (x floordiv n)` is at least `-x`, and `x floordiv n - y floordiv n` at least
    `(x - y) floordiv n`.
    """
    found: list[tuple[Monomial, int, affine.Compound]] = []
    for monomial, coefficient in value.terms:
        atom = monomial[0]
        if len(monomial) == 1 and isinstance(atom, affine.Compound) and atom.kind == "floordiv":
            found.append((monomial, coefficient, atom))
    if len(found) > _MOST_QUOTIENTS:
        return
    for monomial, coefficient, quotient in found:
        above, divisor = quotient.args
        if isinstance(divisor, int) and coefficient < 0 and coefficient % divisor == 0:
            parts, rest = coefficient // divisor, value - build_sum({monomial: coefficient}, 0)
            yield rest + parts * above
    for one, times, left in found:
        for other, minus, right in found:
            divisor = left.args[1]
            if times > 0 and minus == -times and divisor == right.args[1]:
                rest = value - build_sum({one: times, other: minus}, 0)
                gap = left.args[0] - right.args[0]
                if isinstance(divisor, int):
                    yield rest + times * affine.floordiv(gap, divisor)
                elif at_least(gap, 0):
                    yield rest


def _bound(value: Dim, least: bool) -> int | None:
    """A number that a value is surely not below (not above, unless `least`); None for no bound."""
    if isinstance(value, int):
        return value
    total = value.const
    for monomial, coefficient in value.terms:
        bound = _bound_of_product(monomial, least == (coefficient > 0))
        if bound is None:
            return None
        total += coefficient * bound
    return total


def _bound_of_product(monomial: Monomial, least: bool) -> int | None:
    """The same of a product of atoms, of which several are only known not to be negative."""
    if len(monomial) == 1:
        return _bound_of_atom(monomial[0], least)
    low = [_bound_of_atom(atom, True) for atom in monomial]
    return 0 if least and all(n is not None and n >= 0 for n in low) else None


def _bound_of_atom(atom: Atom, least: bool) -> int | None:
    if isinstance(atom, str):
        return 0 if least else None
    if isinstance(atom, affine.Whole):
        return 0 if least and _is_natural_float(atom.real) else None
    first, second = atom.args
    if atom.kind == "mod":
        return 0 if least else _bound(second - 1, least)
    if atom.kind == "floordiv":
        inner = _bound(first, least)
        if inner is None or isinstance(second, int):
            return None if inner is None else inner // affine.number(second)
        return min(inner, 0) if least else max(inner, 0)
    found = [_bound(first, least), _bound(second, least)]
    known = [n for n in found if n is not None]
    return min(known) if len(known) == 2 or (known and not least) else None


def _is_natural_float(part: Part) -> bool:
    """Whether a float that sizes decide is surely not negative, if it is a number at all."""
    if not isinstance(part, Real):
        return part >= 0
    if part.kind in LEAVES:
        return at_least(part.args[0], 0)
    if part.kind == "max":
        return any(map(_is_natural_float, part.args))
    signed = part.kind in ("neg", "sub")
    return part.kind == "abs" or (not signed and all(map(_is_natural_float, part.args)))


def natural(value: Dim) -> bool:
    """Whether an expression over sizes is surely not negative, and nor is what it divides."""
    if isinstance(value, int):
        return value >= 0
    atoms = [atom for monomial, _ in value.terms for atom in monomial]
    return at_least(value, 0) and all(
        atom.kind in ("mod", "trunc") or all(map(natural, atom.args))
        for atom in atoms
        if not isinstance(atom, str)
    )


@lru_cache(1 << 14)
def linear(value: Dim, names: tuple[str, ...]) -> tuple[Mapping[str, Dim], Dim] | None:
    """Split `value` into coefficients of `names` and a rest, which are both free of them.

    None where it is not linear in them (a name under a division, a minimum, or in a product with
    another one).
    """
    if isinstance(value, int):
        return {}, value
    coefficients: dict[str, Dim] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in value.terms:
        found: str | None = None
        others: list[Atom] = []
        for atom in monomial:
            if not isinstance(atom, str):
                if any(not symbols(arg).isdisjoint(names) for arg in atom.args):
                    return None
                others.append(atom)
            elif atom not in names:
                others.append(atom)
            elif found is not None:
                return None
            else:
                found = atom
        if found is None:
            rest[monomial] = coefficient
        else:
            part = build_sum({tuple(others): coefficient}, 0) if others else coefficient
            coefficients[found] = add(coefficients.get(found, 0), part)
    return coefficients, build_sum(rest, value.const)


def bends(at: Sequence[Dim], name: str) -> bool:
    """Whether a coordinate does not grow by the same amount from each point to the next."""
    return any(linear(e, (name,)) is None for e in at)


def place(at: Sequence[Dim], strides: Sequence[Dim]) -> Dim:
    """How many elements from the first of a buffer the one at some coordinates lies.

    A remainder is written as what a quotient leaves: where rows of an image that were counted as
    one dimension lie one after the other, both cancel.
    """
    total: Dim = 0
    for coordinate, stride in zip(at, strides, strict=True):
        total = total + _by_quotients(coordinate) * stride
    return total


def even(at: Sequence[Dim], strides: Sequence[Dim], name: str) -> bool:
    """Whether the elements of a buffer at some coordinates lie evenly along a dimension."""
    if all(linear(e, (name,)) is not None for e in at):
        return True
    return linear(place(at, strides), (name,)) is not None


def _by_quotients(value: Dim) -> Dim:
    if isinstance(value, int) or not any(
        not isinstance(atom, str) for monomial, _ in value.terms for atom in monomial
    ):
        return value

    def left(x: Dim, divisor: Dim) -> Dim:
        return x - affine.floordiv(x, divisor) * divisor

    replaced: Dim = affine.fold(
        value,
        affine.symbol,
        affine.add,
        affine.multiply,
        affine.floordiv,
        left,
        affine.minimum,
        lambda atom: build_sum({(atom,): 1}, 0),
    )
    return replaced


def extreme(value: Dim, ranges: Mapping[str, Dim], most: bool = True) -> Dim:
    """What an expression is at most (or at least) when symbols run over `0 .. range-1`.

    Other symbols stay. Like `bounds`, never too narrow.
    """

    def of_atom(atom: Atom, most: bool) -> Dim:
        if isinstance(atom, str):
            if atom not in ranges:
                return affine.symbol(atom)
            return ranges[atom] - 1 if most else 0
        if atom.kind == "trunc":  # of sizes alone, as those who make it see to
            return build_sum({(atom,): 1}, 0)
        if atom.kind == "mod":
            inside = symbols(atom.args[0]) & ranges.keys()
            return build_sum({(atom,): 1}, 0) if not inside else atom.args[1] - 1 if most else 0
        left = extreme(atom.args[0], ranges, most)
        if atom.kind == "floordiv":
            return affine.floordiv(left, atom.args[1])
        return affine.minimum(left, extreme(atom.args[1], ranges, most))

    if isinstance(value, int):
        return value
    total: Dim = value.const
    for monomial, coefficient in value.terms:
        product: Dim = coefficient
        for atom in monomial:
            product = product * of_atom(atom, most == (coefficient > 0))
        total = total + product
    return total


def extreme_within(value: Dim, counts: Mapping[str, Dim], most: bool = True) -> Dim:
    """What an expression is at most (or at least) in loops within one another.

    `counts` are those of their rounds, of the outer loop first; one may depend on those before.
    """
    for name in reversed([*counts]):
        if isinstance(value, int):
            break
        value = extreme(value, {name: counts[name]}, most)
    return value


def least_within(value: Dim, counts: Mapping[str, Dim]) -> Dim:
    """What an expression is at least in the rounds of loops, if there are any.

    That of `max(n, 0)` rounds has `n` of them then.
    """
    if isinstance(value, int) or counts.keys().isdisjoint(symbols(value)):
        return value
    some = {name: _where_some(count) for name, count in counts.items()}
    return extreme_within(value, some, most=False)


def _where_some(count: Dim) -> Dim:
    """An extent where it is not 0, as far as that makes it simpler."""
    if isinstance(count, Expr):
        for monomial, coefficient in count.terms:
            atom = monomial[0]
            if len(monomial) > 1 or isinstance(atom, str) or atom.kind != "min":
                continue
            rest = count - build_sum({monomial: coefficient}, 0)
            either = [add(rest, affine.multiply(n, coefficient)) for n in atom.args]
            some = [n for n in either if not at_least(0, n)]
            if len(some) == 1:
                return some[0]
    return count


def at_most(extent: Dim, ranges: Mapping[str, Dim]) -> Dim:
    """How large an extent is at most, which is never negative.

    Where an index runs over nothing, what bounds it may well be.
    """
    most = extreme(extent, ranges)
    return most if at_least(most, 0) else affine.maximum(most, 0)


def bounds(value: Dim, extents: Mapping[str, int]) -> tuple[int, int]:
    """Least and greatest value when each symbol runs over `0 .. extent-1`.

    Interval arithmetic: never too narrow, and too wide where a symbol occurs twice.
    """

    def of_atom(atom: Atom) -> tuple[int, int]:
        if isinstance(atom, str):
            return 0, extents[atom] - 1
        if isinstance(atom, affine.Whole):
            return -(1 << 63), (1 << 63) - 1
        (low, high), (least, most) = (bounds(n, extents) for n in atom.args)
        if atom.kind == "min":
            return min(low, least), min(high, most)
        least, most = max(least, 1), max(most, 1)
        first, last = min(low // least, low // most), max(high // least, high // most)
        if atom.kind == "floordiv":
            return first, last
        same = least == most and first == last
        return (low % most, high % most) if same else (0, most - 1)

    if isinstance(value, int):
        return value, value
    low = high = value.const
    for monomial, coefficient in value.terms:
        least, most = 1, 1
        for atom in monomial:
            a, b = of_atom(atom)
            products = (least * a, least * b, most * a, most * b)
            least, most = min(products), max(products)
        ends = (least * coefficient, most * coefficient)
        low, high = low + min(ends), high + max(ends)
    return low, high
