"""A product as a fact: which operand is read in vectors, which element by element, along what.

Matmuls and convolutions are generics whose body multiplies and whose sums run over reduction
dimensions. What fuses, schedules, packs and tiles them asks here what part each operand and each
dimension has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minicc.ir import affine, arith
from minicc.ir.affine import Dim
from minicc.ir.affine_facts import is_free, linear
from minicc.ir.core import Op, Value
from minicc.ir.index_maps import Map, contiguous_name, names_of
from minicc.ir.space import PARALLEL, REDUCTION, Space
from minicc.ir.structured import Generic
from minicc.ir.words import WordProduct

PRODUCTS = (arith.Mul, WordProduct)


class Contraction(NamedTuple):
    """The parts of a product of `op`.

    `columns` is the dimension along which results lie side by side, and vectors run; `rhs` the
    operand that varies along it, as weights do, which is read in vectors; `lhs` the one of which
    each element serves a whole vector. `rhs` is None where no operand varies along the columns.
    """

    op: Generic
    columns: str | None
    lhs: int
    rhs: int | None

    def varies(self, operand: int | None) -> frozenset[str]:
        """The dimensions along which an operand varies; none where there is no such operand."""
        return frozenset() if operand is None else _names(self.op, self.op.input_maps[operand])

    @property
    def rows(self) -> tuple[str, ...]:
        """The parallel dimensions along which the same vectors serve again."""
        of_lhs, of_rhs = self.varies(self.lhs), self.varies(self.rhs)
        parallel = (i.name for i in self.op.space.of_kind(PARALLEL))
        return tuple(n for n in parallel if n != self.columns and n in of_lhs - of_rhs)

    @property
    def depth(self) -> tuple[str, ...]:
        """The dimensions that are summed."""
        return tuple(i.name for i in self.op.space.of_kind(REDUCTION))

    @property
    def reads_matrices(self) -> bool:
        """Whether no element of either operand stands at several points, as in a convolution.

        It may be a part of a larger one.
        """
        maps = [self.op.input_maps[k] for k in (self.lhs, self.rhs) if k is not None]
        return len(maps) == 2 and all(_is_of_matrix(m, self.op.space) for m in maps)

    @property
    def vectors(self) -> int:
        """The bytes of an element that is read in vectors."""
        operand = self.lhs if self.rhs is None else self.rhs
        return int(self.op.operands[operand].type.dtype.bytes)

    def is_batch(self, name: str) -> bool:
        """Whether a dimension of free extent is the first axis: a batch, and often 1."""
        first = self.op.input_maps[self.lhs][:1]  # none of one number, as of a state that is filled
        return first == (affine.symbol(name),) and is_free(self.op.space[name].extent)


def contraction_of(op: Op) -> Contraction | None:
    """The parts of a sum of products of two operands or more; None for other ops.

    Where each element serves one result, products have no matrices: so it is of what is read where
    data say, and of the sum of `a * b` along rows.
    """
    if not isinstance(op, Generic) or op.combine != ("add",) or len(op.operands) < 2:
        return None
    if op.indices or op.running:
        return None
    depth = {i.name for i in op.space.of_kind(REDUCTION)}
    (total,) = op.body.yields
    if not depth or not any(isinstance(o, PRODUCTS) and o.result is total for o in op.body.ops):
        return None
    columns = contiguous_name(op.yield_maps[0])
    named = [_names(op, m) for m in op.input_maps]
    parallel = {i.name for i in op.space.of_kind(PARALLEL)}
    if all(parallel <= names for names in named):
        return None
    wide = [k for k, names in enumerate(named) if columns is not None and columns in names]
    # a factor that is the same for all terms is none of the product's two matrices
    rhs = max(wide, key=lambda k: (len(depth & named[k]), k), default=None)
    others = [k for k in range(len(named)) if k != rhs]
    lhs = next((k for k in others if depth & named[k]), others[0])
    return Contraction(op, columns, lhs, rhs)


class Dot(NamedTuple):
    """A product of an op's body that is summed: its factors, and the values that it stands for.

    Conversions of factors to the sum's type are its own. `form` is that of words.
    """

    operands: tuple[Value, Value]
    form: str
    inside: frozenset[Value]


def dots_of(op: Generic) -> dict[Value, Dot]:
    """The products of a body that are only summed, and once, by the values that are."""
    if op.running:
        return {}
    summed = {y for y, combine in zip(op.body.yields, op.combine, strict=True) if combine == "add"}
    kept = {y for y, combine in zip(op.body.yields, op.combine, strict=True) if combine != "add"}
    made = {o.result: o for o in op.body.ops}
    users: dict[Value, set[Op]] = {}
    for inner in op.body.ops:
        for v in inner.operands:
            users.setdefault(v, set()).add(inner)
    found: dict[Value, Dot] = {}
    for y in summed - kept - users.keys():
        product = made.get(y)
        if not isinstance(product, PRODUCTS):
            continue
        factors: list[Value] = []
        inside = {y}
        for v in (product.a, product.b):
            cast = made.get(v)
            own = users[v] == {product} and v not in op.body.yields
            if isinstance(cast, arith.Cast) and own and arith.widens(cast.x.type.dtype, cast.dtype):
                inside.add(v)
                v = cast.x
            factors.append(v)
        form = product.form if isinstance(product, WordProduct) else ""
        found[y] = Dot((factors[0], factors[1]), form, frozenset(inside))
    return found


def contractions_in(ops: Iterable[Op]) -> list[Contraction]:
    """Those among some ops, in order."""
    return [found for op in ops if (found := contraction_of(op)) is not None]


def _is_of_matrix(m: Map, space: Space) -> bool:
    """Whether a map has another element at each point of the dimensions that it uses."""
    digits = [_digits(e, space) for e in m]
    seen = [name for names in digits if names is not None for name in names]
    return None not in digits and len({*seen}) == len(seen)


def _digits(e: Dim, space: Space) -> Sequence[str] | None:
    """The dimensions of a coordinate from the innermost on, or None.

    It goes from a constant on, and a dimension begins where all points of the last one end.
    """
    split = linear(e, space.names)
    if split is None or not isinstance(split[1], int):
        return None
    names = sorted(split[0], key=lambda n: affine.typical(split[0][n]))
    if names and split[0][names[0]] != 1:
        return None
    end: Dim = 1
    for name in names:
        step = split[0][name]
        if not isinstance(step, int) or not isinstance(end, int) or step < end:
            return None
        end = step * space[name].extent
    return names


def _names(op: Generic, m: Map) -> frozenset[str]:
    """The dimensions of an op that a map uses."""
    return frozenset(n for n in names_of(m) if n in op.space)
