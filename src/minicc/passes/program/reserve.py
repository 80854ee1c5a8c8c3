"""What is reserved for buffers of free sizes, so that these can be compared.

    64*$h*$w + 256*$h2*$w2 with $h2 = ($h + 1) floordiv 2, ...    -->    512*$m0*$m1

Buffers of a network have the sizes of an image and of its halves, with borders around. Whether one
fits in the place of another can't be told of such expressions: a border is there even where there
is no image. So what is reserved is a little more: sizes that follow from one another are written by
one of them, which others are surely no larger than a multiple of, and that one is taken for at
least 1. Then an expression whose coefficients are larger is larger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import count
from math import ceil

from minicc.ir import affine
from minicc.ir.affine import Atom, Compound, Dim, Expr, symbol
from minicc.ir.affine_facts import at_least
from minicc.ir.text.extents import with_derived

Derived = Sequence[tuple[str, Dim]]
# a size is at most a multiple of another one and a number: the name of that, the factor, the number
Bound = tuple[str, Fraction, Fraction]
_LINE = 64  # bytes of a line of the caches, at which vectors begin
_SIZES = (70, 100, 130, 224, 320, 500)  # what sizes are taken for where a choice needs numbers
_APART = 3  # times the memory of what can't be compared with the rest


class Reserve:
    """What is reserved for buffers of some sizes; `derived` are the names that this takes.

    `known` are the sizes that are computed from others.
    """

    def __init__(self, sizes: Sequence[Dim], known: Derived) -> None:
        self.derived: list[tuple[str, Dim]] = []
        taken = _names(known).union(*map(affine.symbols, sizes))
        self._fresh = _not_in(taken, "$m")
        given = taken - {name for name, _ in known}
        samples = [with_derived(dict.fromkeys(given, n), known) for n in _SIZES]
        numbers = [{n: max(0, affine.number(v)) for n, v in found.items()} for found in samples]
        self._typical = numbers[0]
        self._bounds = _bounds(Counter(sizes), known, numbers)
        # what may be negative, as a quotient is of which only a sum with a number is an extent
        self._sinking = {name for name, value in known if not at_least(value, 0)}
        self._bytes: dict[Dim, Dim] = {}
        self.order = Order(())
        self._least: dict[Dim, Dim] = {}

    def bytes(self, size: Dim) -> Dim:
        """Bytes for a buffer of that size: a sum of products, each of whole lines."""
        if size not in self._bytes:
            self._bytes[size] = self._rounded(size)
        return self._bytes[size]

    def _rounded(self, size: Dim) -> Dim:
        total: dict[tuple[str, ...], Fraction] = {}
        for monomial, coefficient in getattr(size, "terms", ()):
            names = [atom for atom in monomial if isinstance(atom, str)]
            sinks = self._sinking.intersection(names)
            if len(names) < len(monomial) or (sinks and (coefficient < 0 or len(names) > 1)):
                return self._exact(size)
            for key, part in _product(names, self._bounds, max(0, coefficient)).items():
                total[key] = total.get(key, Fraction(0)) + part
        known = size if isinstance(size, int) else size.const
        total[()] = total.get((), Fraction(0)) + max(0, known)
        if any(0 < part < _LINE / 2 and _is_most(key, total) for key, part in total.items()):
            return self._exact(size)
        out: Dim = 0
        for key, part in total.items():
            product: Dim = ceil(part / _LINE) * _LINE
            for name in key:
                product = product * self._at_least_one(symbol(name))
            out = out + product
        return out

    def _exact(self, size: Dim) -> Dim:
        """The size itself in whole lines, which can be compared with nothing else."""
        return self._at_least_one(affine.ceildiv(size, _LINE)) * _LINE

    def typical(self, value: Dim) -> int:
        """The number that an expression over reserved sizes is for typical ones."""
        return int(affine.evaluate(value, self._typical))

    def _at_least_one(self, value: Dim) -> Dim:
        """A name for a size, or for 1 where that is 0."""
        if value not in self._least:
            self._least[value] = self.largest([value, 1])
        return self._least[value]

    def largest(self, values: Sequence[Dim]) -> Dim:
        """The largest of some expressions, under a name where that can't be told."""
        found = values[0]
        for value in values[1:]:
            whole, name = affine.maximum(found, value), next(self._fresh)
            self.derived.append((name, whole))
            self.order.add(name, whole)
            self._typical[name] = self.typical(whole)
            found = symbol(name)
        return found


def fresh_names(prefix: str, known: Derived) -> Iterator[str]:
    """Names with a prefix and a number that the sizes computed so far neither have nor use."""
    return _not_in(_names(known), prefix)


def _names(known: Derived) -> set[str]:
    return {name for name, _ in known}.union(*(affine.symbols(value) for _, value in known))


def _not_in(taken: set[str], prefix: str) -> Iterator[str]:
    return (name for k in count() if (name := f"{prefix}{k}") not in taken)


def _product(
    names: Sequence[str], bounds: Mapping[str, Bound], coefficient: int
) -> dict[tuple[str, ...], Fraction]:
    """A product of sizes, each no larger than its bound: coefficients by the names in a term."""
    terms: dict[tuple[str, ...], Fraction] = {(): Fraction(coefficient)}
    for name in names:
        other, times, more = bounds[name]
        wider: dict[tuple[str, ...], Fraction] = {}
        for key, part in terms.items():
            for longer, factor in ((tuple(sorted((*key, other))), times), (key, more)):
                wider[longer] = wider.get(longer, Fraction(0)) + part * factor
        terms = {key: part for key, part in wider.items() if part}
    return terms


def growth(size: Dim) -> frozenset[tuple[str, ...]]:
    """How a size grows: its products of names that no other one of them has as a part."""
    terms = [tuple(map(str, monomial)) for monomial, _ in getattr(size, "terms", ())]
    return frozenset(key for key in terms if _is_most(key, terms))


def _is_most(key: tuple[str, ...], terms: Iterable[tuple[str, ...]]) -> bool:
    """Whether a product of names is no part of another one."""
    return not any(Counter(key) < Counter(other) for other in terms)


class Order:
    """Which expressions over sizes are surely no larger than others, by what is known of names.

    A name that is a maximum is no smaller than what that is of.
    """

    def __init__(self, derived: Derived) -> None:
        self._maxima: dict[str, tuple[Dim, ...]] = {}
        self._positive: set[str] = set()
        for name, value in derived:
            self.add(name, value)

    def add(self, name: str, value: Dim) -> None:
        """Learn what a name stands for."""
        for monomial, _ in getattr(value, "terms", ()):
            atom = monomial[0]
            if isinstance(atom, str) or atom.kind != "min" or len(monomial) > 1:
                continue
            if value == affine.maximum(*atom.args):
                self._maxima[name] = atom.args
                if 1 in atom.args:
                    self._positive.add(name)

    def before(self, end: Dim, start: Dim) -> bool:
        """Whether a place surely ends where another one begins, or earlier."""
        return self._is_natural(start - end)

    def _is_natural(self, gap: Dim) -> bool:
        if isinstance(gap, int):
            return gap >= 0
        for monomial, coefficient in gap.terms:
            name = str(monomial[0])
            if name not in self._maxima or name in self._positive:
                continue
            if len(monomial) == 1 and coefficient == 1:
                rest = gap - symbol(name)
                return any(self._is_natural(rest + one) for one in self._maxima[name])
        used = affine.symbols(gap) & self._positive
        gap = affine.substitute(gap, {name: symbol(name) + 1 for name in used})
        if isinstance(gap, int):
            return gap >= 0
        return gap.const >= 0 and all(coefficient >= 0 for _, coefficient in gap.terms)


def _bounds(
    sizes: Mapping[Dim, int], known: Derived, samples: Sequence[Mapping[str, int]]
) -> dict[str, Bound]:
    """For each size the one that it is written by, so that they take the least memory together.

    `sizes` are those of buffers, and how many have each.
    """
    near: dict[str, list[Bound]] = {}  # by a size: those that are no larger than it says
    for name, (other, times, more) in _quotients(known):
        near.setdefault(other, []).append((name, times, more))
    used = dict.fromkeys(n for value in sizes for n in sorted(affine.symbols(value)))
    found: dict[str, Bound] = {}
    for name in used:
        if name in found:
            continue
        choices = [_written_by(one, near) for one in _written_by(name, near)]
        whole = max(len(used.keys() & choice.keys()) for choice in choices)
        best = min(
            (choice for choice in choices if len(used.keys() & choice.keys()) == whole),
            key=lambda choice: sum(_memory(sizes, choice, numbers) for numbers in samples),
        )
        found |= {n: bound for n, bound in best.items() if n not in found}
    return found


def _written_by(one: str, near: Mapping[str, Sequence[Bound]]) -> dict[str, Bound]:
    """The sizes that are no larger than some multiple of one, and a number."""
    found = {one: (one, Fraction(1), Fraction(0))}
    waiting = [one]
    while waiting:
        at = waiting.pop()
        _, times, more = found[at]
        for name, factor, rest in near.get(at, ()):
            if name not in found:
                found[name] = one, factor * times, factor * more + rest
                waiting.append(name)
    return found


def _memory(
    sizes: Mapping[Dim, int], choice: Mapping[str, Bound], numbers: Mapping[str, int]
) -> float:
    """What all buffers take together for some sizes, where these are written by another.

    A multiple of that can be compared with other ones; with a number beside it is more than others
    where the sizes are next to nothing.
    """
    bounds = {n: float(times * numbers[one] + more) for n, (one, times, more) in choice.items()}
    apart = {n for n, (_, _, more) in choice.items() if more}
    total = 0.0
    for value, often in sizes.items():
        for monomial, coefficient in getattr(value, "terms", ()):
            names = [atom for atom in monomial if isinstance(atom, str)]
            part = float(max(0, coefficient)) * often
            for name in names:
                part *= bounds.get(name, numbers[name])
            total += part * (1 if apart.isdisjoint(names) else _APART)
    return total


def _quotients(known: Derived) -> Iterator[tuple[str, Bound]]:
    """Sizes that are no larger than others say, of which they are quotients or which are theirs."""
    for name, value in known:
        quotient = _atom(value)
        if not isinstance(quotient, Compound) or quotient.kind != "floordiv":
            continue
        of, by = quotient.args
        if value != affine.floordiv(of, by):
            continue  # a multiple of it
        more = of.const if isinstance(of, Expr) else 0
        other = _atom(of - more)
        times = of.terms[0][1] if isinstance(of, Expr) else 0
        if isinstance(other, str) and isinstance(by, int) and times > 0 and more >= 0:
            yield name, (other, Fraction(times, by), Fraction(more, by))
            yield other, (name, Fraction(by, times), Fraction(max(0, by - 1 - more), times))


def _atom(value: Dim) -> Atom | None:
    """The only atom of an expression that is a multiple of one."""
    if not isinstance(value, Expr) or value.const or len(value.terms) != 1:
        return None
    monomial = value.terms[0][0]
    return monomial[0] if len(monomial) == 1 else None
