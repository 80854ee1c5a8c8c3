"""Quasi-affine expressions over named symbols: dimensions of shapes, and index maps.

An expression is a sum of integer multiples of *monomials* plus a constant. A monomial is a product
of atoms; an atom is a symbol (a string), a floor division, a remainder, a minimum, or the whole
part of a float that sizes decide (`reals`). Integers stay plain `int`, so `Dim = int | Expr` and
the usual static case costs nothing.

Expressions are immutable, hashable and in a normal form (terms sorted, like terms added, integer
multiples of a divisor taken out of floor divisions and remainders), so equality is structural.

A *size* is a symbol whose name begins with `$`: a free dimension of the program, which stands for
one number all through a run. It may occur beside the dimensions of a space and the indices of a
kernel, whose names are plain.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial, reduce
from typing import Any, NamedTuple, Union

from minicc.ir.reals import Real, whole_part
from minicc.ir.text.names import spell

Dim = Union[int, "Expr"]
Monomial = tuple["Atom", ...]
Atom = Union[str, "Compound"]

TYPICAL = 128  # what a size is taken for where a choice needs a number


class Compound:
    """A non-linear atom: `floordiv` or `mod` by what is positive, or `min` of two expressions.

    What divides is a number or an expression over sizes. `Whole` is one, too.
    """

    __slots__ = ("_hash", "_spelled", "args", "kind")

    def __init__(self, kind: str, *args: Dim) -> None:
        self.kind = kind
        self.args = args
        self._hash = hash((kind, args))
        self._spelled = ""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Compound)
            and self._hash == other._hash
            and self.kind == other.kind
            and self.args == other.args
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        # kept: sums are sorted by what their terms are spelled
        self._spelled = self._spelled or self._text()
        return self._spelled

    def _text(self) -> str:
        if self.kind == "min":
            return f"min({', '.join(map(str, self.args))})"
        left, right = map(_operand, self.args)
        return f"{left} {self.kind} {right}"


class Whole(Compound):
    """The whole part of a float; `args` are the dimensions that this is computed from."""

    __slots__ = ("real",)

    def __init__(self, real: Real) -> None:
        super().__init__("trunc", *real.leaves())
        self.real = real
        self._hash = hash(("trunc", real))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Whole) and self.real == other.real

    def __hash__(self) -> int:
        return self._hash

    def _text(self) -> str:
        return f"trunc({self.real})"


def _operand(value: Dim) -> str:
    plain = value >= 0 if isinstance(value, int) else value.is_atom()
    return str(value) if plain else f"({value})"


def _order(monomial: Monomial) -> tuple[str, ...]:
    return tuple(map(_text, monomial))


def _text(atom: Atom) -> str:
    return spell(atom) if isinstance(atom, str) else str(atom)


class Expr:
    """A non-constant sum `const + coefficient * monomial + ...` in the module's normal form."""

    __slots__ = ("_hash", "_symbols", "const", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...], const: int) -> None:
        self.terms = terms
        self.const = const
        self._hash = hash((terms, const))
        self._symbols: frozenset[str] | None = None

    def is_atom(self) -> bool:
        """Whether this is one symbol, minimum or whole part, which needs no parentheses."""
        if (
            self.const
            or len(self.terms) != 1
            or self.terms[0][1] != 1
            or len(self.terms[0][0]) != 1
        ):
            return False
        atom = self.terms[0][0][0]
        return isinstance(atom, str) or not _binds_weakly(atom)

    def symbols(self) -> frozenset[str]:
        """All symbols that occur, also within divisions and minima."""
        if self._symbols is None:
            self._symbols = frozenset(self._found())
        return self._symbols

    def _found(self) -> set[str]:
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
        if self is other:
            return True
        return (
            isinstance(other, Expr)
            and self._hash == other._hash
            and self.const == other.const
            and self.terms == other.terms
        )

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Dim) -> Dim:
        return add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return add(self, multiply(other, -1))

    def __rsub__(self, other: Dim) -> Dim:
        return add(other, multiply(self, -1))

    def __neg__(self) -> Dim:
        return multiply(self, -1)

    def __mul__(self, other: Dim) -> Dim:
        return multiply(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __mod__(self, other: Dim) -> Dim:
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
    return isinstance(atom, Compound) and atom.kind in ("floordiv", "mod")


def build_sum(terms: dict[Monomial, int], const: int) -> Dim:
    """The sum of multiples of monomials and a constant in normal form."""
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


def size(name: str) -> Expr:
    """The expression that is the free dimension of that name."""
    return symbol(spell_size(name))


def spell_size(name: str) -> str:
    """The name of the symbol that a free dimension of that name becomes."""
    return name if is_size(name) else f"${name}"


def is_size(name: str) -> bool:
    """Whether a symbol is a free dimension of the program."""
    return name.startswith("$")


@lru_cache(4096)
def sizes(value: Dim) -> frozenset[str]:
    """The free dimensions that an expression depends on."""
    return frozenset(name for name in symbols(value) if is_size(name))


@lru_cache(4096)
def typical(value: Dim) -> int:
    """A number for an extent where a choice needs one: each size is taken for `TYPICAL`.

    So is a difference that would be none then: its sizes are not as typical together as alone.
    """
    if isinstance(value, int):
        return value
    number: int = evaluate(value, dict.fromkeys(value.symbols(), TYPICAL))
    taken = value.const < 0 or any(coefficient < 0 for _, coefficient in value.terms)
    return TYPICAL if taken and number < 2 else max(1, number)


def number(value: Dim) -> int:
    """An extent that has been bound; ValueError where it still depends on symbols."""
    if not isinstance(value, int):
        raise ValueError(f"the dimension {value} is not bound")
    return value


def symbols(value: Dim) -> frozenset[str]:
    """The symbols of a dimension; none for a number."""
    return value.symbols() if isinstance(value, Expr) else frozenset()


def add(left: Dim, right: Dim) -> Dim:
    """The sum in normal form."""
    if isinstance(left, int):
        if isinstance(right, int):
            return left + right
        left, right = right, left
    if isinstance(right, int):
        return Expr(left.terms, left.const + right) if right else left
    return _sum(left, right)


@lru_cache(1 << 14)
def _sum(left: Expr, right: Expr) -> Dim:
    terms = dict(left.terms)
    for monomial, coefficient in right.terms:
        terms[monomial] = terms.get(monomial, 0) + coefficient
    return build_sum(terms, left.const + right.const)


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
    return _product(left, right)


@lru_cache(1 << 14)
def _product(left: Expr, right: Expr) -> Dim:
    total: Dim = left.const * right.const
    for m, c in left.terms:
        total = add(total, build_sum({m: c * right.const}, 0))
        for n, d in right.terms:
            total = add(total, build_sum({tuple(sorted((*m, *n), key=_text)): c * d}, 0))
    for n, d in right.terms:
        total = add(total, build_sum({n: d * left.const}, 0))
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
    return build_sum(quotient, value.const // divisor), build_sum(rest, value.const % divisor)


def floordiv(left: Dim, right: Dim) -> Dim:
    """Floor division by a positive number, or by an expression over sizes that stands for one."""
    if isinstance(right, Expr):
        return left if left == 0 else Expr((((Compound("floordiv", left, right),), 1),), 0)
    if right <= 0:
        raise ValueError(f"floor division by {right}: the divisor must be positive")
    if isinstance(left, int):
        return left // right
    return left if right == 1 else _floor(left, right)


@lru_cache(1 << 14)
def _floor(left: Expr, right: int) -> Dim:
    quotient, rest = _split_multiple(left, right)
    if isinstance(rest, int):
        return add(quotient, rest // right)
    (atoms, coefficient), *others = rest.terms
    atom = atoms[0]
    if coefficient == 1 and not others and len(atoms) == 1 and isinstance(atom, Compound):
        # a quotient of a quotient is one
        inner, divisor = atom.args[0], atom.args[-1]
        if atom.kind == "floordiv" and isinstance(divisor, int):
            return add(quotient, floordiv(inner + rest.const * divisor, divisor * right))
    return add(quotient, Expr((((Compound("floordiv", rest, right),), 1),), 0))


def mod(left: Dim, right: Dim) -> Dim:
    """Remainder of a floor division as of `floordiv`, never negative."""
    if isinstance(right, Expr):
        return left if left == 0 else Expr((((Compound("mod", left, right),), 1),), 0)
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


def rebuilt(atom: Compound, visit: Callable[[Dim], Dim]) -> Dim:
    """The same of other dimensions."""
    if isinstance(atom, Whole):
        return whole(atom.real.mapped(visit))
    left, right = map(visit, atom.args)
    if atom.kind == "min":
        return minimum(left, right)
    return floordiv(left, right) if atom.kind == "floordiv" else mod(left, right)


def whole(real: Real) -> Dim:
    """The whole part of a float."""
    if all(isinstance(n, int) for n in real.leaves()):
        return int(whole_part(real.value(number)))
    return Expr((((Whole(real),), 1),), 0)


def minimum(left: Dim, right: Dim) -> Dim:
    """The smaller of two."""
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    if left == right:
        return left
    return Expr((((Compound("min", left, right),), 1),), 0)


def maximum(left: Dim, right: Dim) -> Dim:
    """The greater of two."""
    return left + right - minimum(left, right)


def ceildiv(left: Dim, right: int) -> Dim:
    """The quotient by a positive number, rounded up."""
    return floordiv(add(left, right - 1), right)


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
        return build_sum(terms, const)

    replaced: Dim = fold(
        value,
        lambda name: binding.get(name, symbol(name)),
        *(add, multiply, _QUOTIENT, _REMAINDER, minimum),
        lambda atom: rebuilt(atom, partial(substitute, binding=binding)),
    )
    return replaced


def _or_zero(divide: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A division that gives 0 where the divisor is a size of 0: no point is there to compute."""
    return lambda a, b: 0 if isinstance(b, int) and b == 0 else divide(a, b)


_QUOTIENT, _REMAINDER = _or_zero(floordiv), _or_zero(mod)


def substitution(binding: Mapping[str, Dim]) -> Callable[[Dim], Dim]:
    """`substitute` by one binding, which does equal expressions once."""
    return cache(partial(substitute, binding=binding))


def evaluate(value: Dim, binding: Mapping[str, Any]) -> Any:
    """The value under numbers or NumPy arrays of integers, broadcast against each other."""
    import numpy as np

    return fold(
        value,
        lambda name: binding[name],
        lambda a, b: a + b,
        lambda a, b: a * b,
        _or_zero(operator.floordiv),
        _or_zero(operator.mod),
        lambda a, b: min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b),
        lambda atom: whole_part(atom.real.value(partial(evaluate, binding=binding))),
    )


def fold(
    value: Dim,
    leaf: Callable[[str], Any],
    plus: Callable[[Any, Any], Any],
    times: Callable[[Any, Any], Any],
    divide: Callable[[Any, Any], Any],
    remainder: Callable[[Any, Any], Any],
    smaller: Callable[[Any, Any], Any],
    whole: Callable[[Whole], Any],
) -> Any:
    """Rebuild a dimension in another domain: numbers, arrays, other expressions, or emitted code.

    `leaf` gives a symbol's value; constants arrive as plain integers. What occurs in several places
    of the dimension is rebuilt once.
    """
    ops = {"add": plus, "mul": times, "floordiv": divide, "mod": remainder, "min": smaller}
    return _Fold(leaf, whole, ops, {}).of(value)


class _Fold(NamedTuple):
    """What `fold` does; functions in it that call each other would wait for the collector."""

    leaf: Callable[[str], Any]
    whole: Callable[[Whole], Any]
    ops: Mapping[str, Callable[[Any, Any], Any]]
    made: dict[Expr, Any]

    def of(self, part: Dim) -> Any:
        if isinstance(part, int):
            return part
        if part not in self.made:
            plus, times = self.ops["add"], self.ops["mul"]
            products = [(reduce(times, map(self.atom, m)), c) for m, c in part.terms]
            total = reduce(plus, [times(p, c) if c != 1 else p for p, c in products])
            self.made[part] = plus(total, part.const) if part.const else total
        return self.made[part]

    def atom(self, atom: Atom) -> Any:
        if isinstance(atom, Compound) and not isinstance(atom, Whole):
            return self.ops[atom.kind](*map(self.of, atom.args))
        return self.leaf(atom) if isinstance(atom, str) else self.whole(atom)
