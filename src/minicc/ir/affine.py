"""Quasi-affine expressions over named symbols: dimensions of shapes, and index maps.

An expression is a sum of integer multiples of *monomials* plus a constant. A monomial is a product
of atoms; an atom is a symbol (a string), a floor division, a remainder, or a minimum. Integers stay
plain `int`, so `Dim = int | Expr` and the usual static case costs nothing.

Expressions are immutable, hashable and in a normal form (terms sorted, like terms added, integer
multiples of a divisor taken out of floor divisions and remainders), so equality is structural.

Mirrors: MLIR's AffineExpr and AffineMap; TVM's arith. Ours names symbols instead of numbering them,
and has `min`, which describes a last block that overlaps its neighbour.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Union

Dim = Union[int, "Expr"]
Monomial = tuple["Atom", ...]
Atom = Union[str, "Compound"]

# Words that mean something else where a symbol may stand in text.
_RESERVED = frozenset({"dense", "false", "floordiv", "inf", "min", "mod", "nan", "none", "true"})
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@lru_cache(4096)
def spell(name: str) -> str:
    """A symbol's name as text: as it is where it is a plain word, else in single quotes."""
    if _PLAIN.fullmatch(name) and name not in _RESERVED:
        return name
    quoted = "".join(c if c.isprintable() and c not in "'\"\\{}" else escape(c) for c in name)
    return f"'{quoted}'"


def escape(character: str) -> str:
    """A character by its number in hexadecimal, as Python escapes it: four digits or eight."""
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class Compound:
    """A non-linear atom: `floordiv` or `mod` by a positive number, or `min` of two expressions."""

    __slots__ = ("_hash", "args", "kind")

    def __init__(self, kind: str, *args: Dim) -> None:
        self.kind = kind
        self.args = args
        self._hash = hash((kind, args))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compound) and self.kind == other.kind and self.args == other.args

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if self.kind == "min":
            return f"min({', '.join(map(str, self.args))})"
        left, right = self.args
        text = str(left)
        wrapped = text if isinstance(left, Expr) and left.is_atom() else f"({text})"
        return f"{wrapped} {self.kind} {right}"


def _order(monomial: Monomial) -> tuple[str, ...]:
    return tuple(map(_text, monomial))


def _text(atom: Atom) -> str:
    return spell(atom) if isinstance(atom, str) else str(atom)


class Expr:
    """A non-constant sum `const + coefficient * monomial + ...` in the module's normal form."""

    __slots__ = ("_hash", "const", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...], const: int) -> None:
        self.terms = terms
        self.const = const
        self._hash = hash((terms, const))

    def is_atom(self) -> bool:
        """Whether this is one symbol or minimum, which needs no parentheses."""
        if (
            self.const
            or len(self.terms) != 1
            or self.terms[0][1] != 1
            or len(self.terms[0][0]) != 1
        ):
            return False
        atom = self.terms[0][0][0]
        return isinstance(atom, str) or atom.kind == "min"

    def symbols(self) -> set[str]:
        """All symbols that occur, also within divisions and minima."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    for arg in atom.args:
                        found |= symbols(arg)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.terms == other.terms and self.const == other.const

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Dim) -> Dim:
        return add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return add(self, multiply(other, -1))

    def __rsub__(self, other: Dim) -> Dim:
        return add(other, multiply(self, -1))

    def __mul__(self, other: Dim) -> Dim:
        return multiply(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> Dim:
        return floordiv(self, other)

    def __mod__(self, other: int) -> Dim:
        return mod(self, other)

    def __repr__(self) -> str:
        parts: list[str] = []
        for monomial, coefficient in self.terms:
            body = "*".join(f"({a})" if _binds_weakly(a) else _text(a) for a in monomial)
            if len(self.terms) == 1 and not self.const and coefficient == 1 and len(monomial) == 1:
                body = _text(monomial[0])
            factor = "" if abs(coefficient) == 1 else f"{abs(coefficient)}*"
            sign = (
                ("-" if coefficient < 0 else "")
                if not parts
                else (" - " if coefficient < 0 else " + ")
            )
            parts.append(f"{sign}{factor}{body}")
        if self.const:
            parts.append(f" {'-' if self.const < 0 else '+'} {abs(self.const)}")
        return "".join(parts)


def _binds_weakly(atom: Atom) -> bool:
    return isinstance(atom, Compound) and atom.kind != "min"


def _make(terms: dict[Monomial, int], const: int) -> Dim:
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return const
    if len(kept) > 1:
        kept.sort(key=lambda item: _order(item[0]))
    return Expr(tuple(kept), const)


@lru_cache(4096)
def symbol(name: str) -> Expr:
    """The expression that is one symbol."""
    return Expr((((name,), 1),), 0)


def symbols(value: Dim) -> set[str]:
    """The symbols of a dimension; none for a number."""
    return value.symbols() if isinstance(value, Expr) else set()


def add(left: Dim, right: Dim) -> Dim:
    """The sum in normal form."""
    if isinstance(left, int):
        if isinstance(right, int):
            return left + right
        left, right = right, left
    if isinstance(right, int):
        return Expr(left.terms, left.const + right) if right else left
    terms = dict(left.terms)
    for monomial, coefficient in right.terms:
        terms[monomial] = terms.get(monomial, 0) + coefficient
    return _make(terms, left.const + right.const)


def multiply(left: Dim, right: Dim) -> Dim:
    """The product in normal form; a product of two symbols becomes a monomial of degree two."""
    if isinstance(left, int):
        if isinstance(right, int):
            return left * right
        left, right = right, left
    if isinstance(right, int):
        if right == 0:
            return 0
        if right == 1:
            return left
        return Expr(tuple((m, c * right) for m, c in left.terms), left.const * right)
    total: Dim = left.const * right.const
    for m, c in left.terms:
        total = add(total, _make({m: c * right.const}, 0))
        for n, d in right.terms:
            total = add(total, _make({tuple(sorted((*m, *n), key=_text)): c * d}, 0))
    for n, d in right.terms:
        total = add(total, _make({n: d * left.const}, 0))
    return total


def _split_multiple(value: Expr, divisor: int) -> tuple[Dim, Dim]:
    """`value == divisor * quotient + rest`, taking out what divides whatever the symbols are."""
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in value.terms:
        if coefficient % divisor == 0:
            quotient[monomial] = coefficient // divisor
        else:
            rest[monomial] = coefficient
    return _make(quotient, value.const // divisor), _make(rest, value.const % divisor)


def floordiv(left: Dim, right: int) -> Dim:
    """Floor division by a positive number."""
    if right <= 0:
        raise ValueError(f"floor division by {right}: the divisor must be positive")
    if isinstance(left, int):
        return left // right
    if right == 1:
        return left
    quotient, rest = _split_multiple(left, right)
    if isinstance(rest, int):
        return add(quotient, rest // right)
    return add(quotient, Expr((((Compound("floordiv", rest, right),), 1),), 0))


def mod(left: Dim, right: int) -> Dim:
    """Remainder of the floor division by a positive number, never negative."""
    if right <= 0:
        raise ValueError(f"remainder by {right}: the divisor must be positive")
    if isinstance(left, int):
        return left % right
    if right == 1:
        return 0
    _, rest = _split_multiple(left, right)
    if isinstance(rest, int):
        return rest % right
    return Expr((((Compound("mod", rest, right),), 1),), 0)


def minimum(left: Dim, right: Dim) -> Dim:
    """The smaller of two."""
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    if left == right:
        return left
    return Expr((((Compound("min", left, right),), 1),), 0)


def substitute(value: Dim, binding: Mapping[str, Dim]) -> Dim:
    """Replace symbols by dimensions; symbols that `binding` lacks stay."""
    if isinstance(value, int):
        return value
    terms: dict[Monomial, int] = {}
    const = value.const
    for monomial, coefficient in value.terms:
        if len(monomial) > 1 or not isinstance(monomial[0], str):
            break
        new = binding.get(monomial[0])
        if isinstance(new, int):
            const += coefficient * new
            continue
        for m, c in ((monomial, 1),) if new is None else new.terms:
            terms[m] = terms.get(m, 0) + coefficient * c
        const += 0 if new is None else coefficient * new.const
    else:  # a plain sum, as nearly all are
        return _make(terms, const)

    def bound(name: str) -> Dim:
        return binding.get(name, symbol(name))

    replaced: Dim = fold(value, bound, add, multiply, floordiv, mod, minimum)
    return replaced


def evaluate(value: Dim, binding: Mapping[str, Any]) -> Any:
    """The value under numbers or NumPy arrays of integers, broadcast against each other."""
    import numpy as np

    return fold(
        value,
        lambda name: binding[name],
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: a // b,
        lambda a, b: a % b,
        lambda a, b: min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b),
    )


def fold(
    value: Dim,
    leaf: Callable[[str], Any],
    plus: Callable[[Any, Any], Any],
    times: Callable[[Any, Any], Any],
    divide: Callable[[Any, int], Any],
    remainder: Callable[[Any, int], Any],
    smaller: Callable[[Any, Any], Any],
) -> Any:
    """Rebuild a dimension in another domain: numbers, arrays, other expressions, or emitted code.

    `leaf` gives a symbol's value; constants arrive as plain integers.
    """
    if isinstance(value, int):
        return value

    def visit(part: Dim) -> Any:
        return fold(part, leaf, plus, times, divide, remainder, smaller)

    def of_atom(atom: Atom) -> Any:
        if isinstance(atom, str):
            return leaf(atom)
        first, second = atom.args
        if atom.kind == "min":
            return smaller(visit(first), visit(second))
        assert isinstance(second, int)
        return (divide if atom.kind == "floordiv" else remainder)(visit(first), second)

    total: Any = None
    for monomial, coefficient in value.terms:
        product = of_atom(monomial[0])
        for atom in monomial[1:]:
            product = times(product, of_atom(atom))
        if coefficient != 1:
            product = times(product, coefficient)
        total = product if total is None else plus(total, product)
    return plus(total, value.const) if value.const else total


def linear(value: Dim, names: tuple[str, ...]) -> tuple[dict[str, int], Dim] | None:
    """Split `value` into integer coefficients of `names` and a rest free of them.

    None where it is not linear in them (a name under a division, a minimum, or in a product).
    """
    if isinstance(value, int):
        return {}, value
    coefficients: dict[str, int] = {}
    rest: dict[Monomial, int] = {}
    wanted = set(names)
    for monomial, coefficient in value.terms:
        if len(monomial) == 1 and isinstance(monomial[0], str) and monomial[0] in wanted:
            coefficients[monomial[0]] = coefficient
        elif any(symbols(Expr(((monomial, 1),), 0)) & wanted for _ in (0,)):
            return None
        else:
            rest[monomial] = coefficient
    return coefficients, _make(rest, value.const)


def bounds(value: Dim, extents: Mapping[str, int]) -> tuple[int, int]:
    """Least and greatest value when each symbol runs over `0 .. extent-1`.

    Interval arithmetic: never too narrow, and too wide where a symbol occurs twice.
    """

    def of_atom(atom: Atom) -> tuple[int, int]:
        if isinstance(atom, str):
            return 0, extents[atom] - 1
        low, high = bounds(atom.args[0], extents)
        second = atom.args[1]
        if atom.kind == "min":
            other = bounds(second, extents)
            return min(low, other[0]), min(high, other[1])
        assert isinstance(second, int)
        if atom.kind == "floordiv":
            return low // second, high // second
        return (low % second, high % second) if low // second == high // second else (0, second - 1)

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
