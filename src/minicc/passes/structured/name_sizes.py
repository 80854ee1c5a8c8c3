"""Give names to the sizes that are computed from free dimensions, and say which must be equal.

    f32[$n, (($h + 1) floordiv 2 + 1) floordiv 2]
    -->   f32[$n, $x1]   with derived = [["$x0", ($h + 1) floordiv 2],
                                         ["$x1", ($x0 + 1) floordiv 2]]

A quotient, remainder or minimum of sizes becomes a size of its own, computed once in a run. What
follows sees sums of products of plain names alone, and groups that differ in such names alone are
one kernel.

Where an op wants two extents to be equal and that can't be told, it becomes a guard: the program is
for sizes that fulfil all guards. One of the two is then written as the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from minicc.errors import UserError
from minicc.ir import affine, affine_facts
from minicc.ir.affine import Atom, Compound, Dim, Expr, symbol
from minicc.ir.bind import bind_all
from minicc.ir.core import Function
from minicc.ir.scan import largest_rounds

Pair = tuple[Dim, Dim]


def name_sizes(function: Function, equal: Sequence[Pair], least: Sequence[Dim] = ()) -> Function:
    """The function with names for its computed sizes.

    Its attribute `derived` defines them; `guards` are pairs of expressions that must be equal,
    of those that `equal` asks for; a number that is not to be negative, of `least`, is one whose
    minimum with 0 is 0. MC0142 where no sizes are all that.
    """
    taken = {n for a in function.args for e in a.type.shape for n in affine.sizes(e)}
    rounds = largest_rounds(function.body).keys()
    names = _Names(taken.union(function.attrs.get("sizes", ())), rounds)
    for left, right in equal:
        names.require(left, right)
    for value in least:
        names.guard(affine.minimum(names.dim(value), 0), 0)
    named = bind_all(function, names.dim)
    attrs = {k: v for k, v in named.attrs.items() if k != "demands"}
    if names.derived:
        attrs["derived"] = tuple(names.derived.items())
    if names.guards:
        attrs["guards"] = tuple(names.guards)
    return Function(named.name, named.body, attrs, named.result_names)


def _may_sink(value: Dim) -> bool:
    """Whether a size that is computed as a quotient may be negative."""
    atom = value.terms[0][0][0] if isinstance(value, Expr) and value.is_atom() else None
    is_quotient = isinstance(atom, Compound) and atom.kind == "floordiv"
    return is_quotient and not affine_facts.natural(value)


class _Names:
    """The names given so far, by what they stand for, and names that are written as others."""

    def __init__(self, taken: set[str], rounds: Set[str]) -> None:
        self.rounds = rounds  # what depends on a loop's round has no size that a run computes once
        self.derived: dict[str, Dim] = {}  # what each name stands for
        self.named: dict[Dim, str] = {}  # the other way round
        self.guards: list[Pair] = []
        self.known: dict[Compound, Dim] = {}
        self.solved: dict[str, Dim] = {}
        self.free: Iterator[str] = (n for k in range(1 << 30) if (n := f"$x{k}") not in taken)

    def require(self, left: Dim, right: Dim) -> None:
        """Enter that two extents are equal, and write a name in one by the rest of both."""
        a, b = self.dim(left), self.dim(right)
        gap = a - b
        self.guard(a, b)
        if isinstance(gap, int):
            return
        for monomial, coefficient in reversed(gap.terms):
            name = str(monomial[0])
            if len(monomial) > 1 or name not in self.derived:
                continue
            value = affine_facts.exact_quotient(symbol(name) * coefficient - gap, coefficient)
            if value is not None and name not in affine.symbols(value):
                self._solve(name, value)
                return

    def guard(self, left: Dim, right: Dim) -> None:
        """Enter a guard; MC0142 for one that no sizes fulfil."""
        if isinstance(left, int) and isinstance(right, int) and left != right:
            text = f"no sizes fit all of the model: an extent would be {left} and {right}"
            raise UserError("MC0142", text, hint="bind the free dimensions: sizes={...}")
        if left != right and (left, right) not in self.guards:
            self.guards.append((left, right))

    def _solve(self, name: str, value: Dim) -> None:
        self.solved = {n: affine.substitute(v, {name: value}) for n, v in self.solved.items()}
        self.solved[name] = value
        self.known = {}  # a minimum of what is now the same is no longer one

    def dim(self, value: Dim) -> Dim:
        """An expression with names for what is computed of sizes alone."""
        if not isinstance(value, Expr) or not affine.sizes(value):
            return value
        total: Dim = value.const
        for monomial, coefficient in value.terms:
            product: Dim = coefficient
            for atom in monomial:
                product = product * self._atom(atom)
            total = total + product
        return self._merged(total) if isinstance(total, Expr) else total

    def _merged(self, value: Expr) -> Dim:
        """A sum of a size that may be negative alone with a number: together they have a name.

        Of a quotient its normal form takes a number out, without which it is negative.
        """
        for monomial, coefficient in value.terms:
            quotient = self.derived.get(str(monomial[0])) if len(monomial) == 1 else None
            if quotient is None or coefficient != 1 or value.const <= 0 or not _may_sink(quotient):
                continue
            rest = value - symbol(str(monomial[0])) - value.const
            return rest + self._name_of(symbol(str(monomial[0])) + value.const)
        return value

    def _atom(self, atom: Atom) -> Dim:
        if isinstance(atom, str):
            return self.solved.get(atom, symbol(atom))
        if atom.kind == "floordiv" and not affine_facts.natural(atom.args[0]):
            # rounded up in place of down
            divided, divisor = atom.args
            above = (divisor - 1) - divided
            if affine_facts.natural(above):
                return -1 * self.dim(affine.floordiv(above, divisor))
        if atom not in self.known:
            rebuilt = affine.rebuilt(atom, self.dim)
            used = affine.symbols(rebuilt)
            alone = all(map(affine.is_size, used)) and used.isdisjoint(self.rounds)
            # what is left of a sum may be a number, or may have got a name before
            if alone and isinstance(rebuilt, Expr):
                rebuilt = self._named(rebuilt)
            self.known[atom] = rebuilt
        return self.known[atom]

    def _named(self, value: Expr) -> Dim:
        total: Dim = value.const
        for monomial, coefficient in value.terms:
            product: Dim = coefficient
            for atom in monomial:
                product = product * (symbol(atom) if isinstance(atom, str) else self._name(atom))
            total = total + product
        return total

    def _name(self, atom: Compound) -> Dim:
        """A name for an atom; of one that may be negative for what it is above 0 and below.

        What follows takes all sizes for natural numbers.
        """
        value = Expr((((atom,), 1),), 0)
        if atom.kind not in ("min", "trunc") or affine_facts.at_least(value, 0):
            return self._name_of(value)
        if affine_facts.at_least(-value, 0):
            return -1 * self._name_of(-value)
        below = affine.minimum(value, 0)
        return self._name_of(value - below) - self._name_of(-below)

    def _name_of(self, value: Dim) -> Dim:
        name = self.named.get(value)
        if name is not None:
            return self.solved.get(name, symbol(name))
        name = next(self.free)
        self.derived[name], self.named[value] = value, name
        return symbol(name)
