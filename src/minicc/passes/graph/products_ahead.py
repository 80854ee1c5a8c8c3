"""Products of a loop's rounds are made for all rounds ahead: one of matrices in place of many.

A loop that scans rows, and takes the product of each with what it captures:

    graph.scan %h, %x, %w { ^(%h, %x, %w): %p = contract %x, %w "k,kn->n"; ... %p ... }
    -->   %P = contract %X, %w "tk,kn->tn"; graph.scan %h, %P { ^(%h, %p): ... %p ... }

A loop that reads rows at the number of its round, and takes the product of each with what it
captures, or with a part of it that grows or shrinks:

    graph.scan %y, %x {
      %r = slice %x [:, $i0]; %m = slice %x [:, $i0:]; %p = contract %r, %m "k,kn->n"; ... %p ...
    }
    -->   %P = contract %x, %x "kt,kn->tn"; graph.scan %y, %P { ... slice %P [$i0, $i0:] ... }

The second computes what no round reads, and is made where that is at most as much again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from string import ascii_lowercase
from typing import NamedTuple

from minicc.ir import affine, affine_facts, graph
from minicc.ir.affine import Dim
from minicc.ir.build import Builder
from minicc.ir.core import Op, Region, Value
from minicc.ir.graph.shapes import product
from minicc.ir.rewrite import live, substituted

_MORE = 2.25  # times as much as the rounds compute
_LARGER = 4  # times what the loop has, for what is kept
_DEEP = 8  # numbers in a sum, below which a product is not worth its own memory


def scanned_products_ahead(b: Builder, scan: graph.Scan) -> graph.Scan:
    """The loop that scans products of its slices with what it captures; `b` gets the products."""
    args, n = scan.body.args, scan.states
    shared = dict(zip(args[scan.first :], scan.operands[scan.first :], strict=True))
    scanned = zip(scan.operands[n : scan.first], scan.backwards, strict=True)
    slices = dict(zip(args[n : scan.first], scanned, strict=True))
    kept: list[Op] = []
    for op in scan.body.ops:
        ways = {slices[v][1] for v in op.operands if v in slices}
        known = all(v in slices or v in shared for v in op.operands)
        if isinstance(op, graph.Contract) and known and len(ways) == 1:
            b.loc = op.loc
            whole = [slices[v][0] if v in slices else shared[v] for v in op.operands]
            equation = _over_rounds(op.equation, [v in slices for v in op.operands])
            slices[op.result] = b.emit(graph.Contract, *whole, equation=equation), ways.pop()
        else:
            kept.append(op)
    if len(kept) == len(scan.body.ops):
        return scan
    used = {v for op in kept for v in op.operands}.union(scan.body.yields)
    left = {v: found for v, found in slices.items() if v in used}
    held = {v: outer for v, outer in shared.items() if v in used}
    return scan.rebuilt(
        (*scan.operands[:n], *[whole for whole, _ in left.values()], *held.values()),
        (Region((*args[:n], *left, *held), kept, scan.body.yields),),
        backwards=tuple(back for _, back in left.values()),
    )


def _over_rounds(equation: str, sliced: Sequence[bool]) -> str:
    """An equation for all rounds at once: their axis is the first of what is sliced."""
    *terms, out = graph.parse_equation(equation)
    t = _other_letter(equation)
    a, c = (t + term if is_slice else term for term, is_slice in zip(terms, sliced, strict=True))
    return f"{a},{c}->{t}{out}"


def _other_letter(equation: str) -> str:
    return next(letter for letter in ascii_lowercase if letter not in equation)


def row_products_ahead(
    b: Builder, scan: graph.Scan, around: Mapping[str, Dim]
) -> graph.Scan | None:
    """The loop that reads products of rows from what `b` gets; None where it makes none.

    `around` are the sizes that loops around give, and for each how many numbers it is one of.
    """
    if scan.condition or not scan.index:
        return None
    rows = _Rows(b, scan, around)
    ops: list[Op] = []
    forward: dict[Value, Value] = {}
    for op in scan.body.ops:
        read = rows.read(op) if isinstance(op, graph.Contract) else None
        if read is None:
            ops.append(op)
        else:
            ops += read
            forward[op.results[0]] = read[-1].results[0]
    if not forward:
        return None
    ops, yields = substituted(ops, scan.body.yields, forward)
    ops = live(ops, yields)
    used = {v for op in ops for v in op.operands}.union(yields)
    captured = {v: outer for v, outer in rows.captured.items() if v in used} | rows.made
    body = Region((*scan.body.args[: scan.first], *captured), ops, yields)
    return scan.rebuilt((*scan.operands[: scan.first], *captured.values()), (body,))


Ends = tuple[Dim, Dim]  # the first element along an axis, and the one after the last


class _Span(NamedTuple):
    """A part of an axis, and how long that is."""

    ends: Ends
    extent: Dim


class _Part(NamedTuple):
    """A box of what a loop captures, and the axis of one element that is left out of it."""

    outer: Value
    ends: Sequence[Ends]
    row: int | None


class _Rows:
    """Finds products of rows in a loop's body; `made` are new arguments of the body for them."""

    def __init__(self, b: Builder, scan: graph.Scan, around: Mapping[str, Dim]) -> None:
        self.b, self.scan, self.around = b, scan, around
        self.made: dict[Value, Value] = {}
        self.makers = {r: op for op in scan.body.ops for r in op.results}
        captured = zip(scan.body.args[scan.first :], scan.operands[scan.first :], strict=True)
        self.captured = dict(captured)

    def read(self, op: graph.Contract) -> list[Op] | None:
        """What reads a round's product from that of all rounds; None for other products."""
        left, right = self.part(op.a), self.part(op.b)
        if left is None or right is None or op.form:
            return None
        mine, others, out = graph.parse_equation(op.equation)
        if left.row is None:
            left, right, mine, others = right, left, others, mine
        if left.row is None or right.row is not None:
            return None
        moving = self.moving(right, others, mine, out)
        if moving is None or not self.pays(op, left, moving):
            return None
        self.b.loc = op.loc
        made = self.product(left, right, (mine, others, out), moving)
        taken = Value(made.type)
        self.made[taken] = made
        sizes = zip(out, op.result.type.shape, strict=True)
        ends = [moving[n].ends if n in moving else (0, size) for n, size in sizes]
        at = affine.symbol(self.scan.index)
        inner = Builder(op.loc)
        box = _box(inner, taken, [(at, affine.add(at, 1)), *ends])
        inner.emit(graph.Reshape, box, shape=op.result.type.shape)
        return inner.ops

    def part(self, v: Value) -> _Part | None:
        """A value as a part of what the loop captures."""
        if v in self.captured:
            return _Part(self.captured[v], [(0, n) for n in v.type.shape], None)
        op = self.makers.get(v)
        if isinstance(op, graph.Reshape):
            op = self.makers.get(op.x)
        if not isinstance(op, graph.Slice) or op.x not in self.captured or {*op.steps} != {1}:
            return None
        ends = list(zip(op.starts, op.stops, strict=True))
        shape = op.result.type.shape
        rows = [k for k, end in enumerate(ends) if self.moves(end) and shape[k] == 1]
        for row in (None, *rows):
            if tuple([n for k, n in enumerate(shape) if k != row]) == v.type.shape:
                return _Part(self.captured[op.x], ends, row)
        return None

    def moves(self, ends: Ends) -> bool:
        """Whether a part lies elsewhere, or is another one, in each round."""
        return any(self.scan.index in affine.symbols(end) for end in ends)

    def moving(self, part: _Part, letters: str, summed: str, out: str) -> dict[str, _Span] | None:
        """The spans that move, by letters; None where a sum or the rows run over them."""
        spans = map(_Span, part.ends, part.outer.type.shape)
        found = {n: s for n, s in zip(letters, spans, strict=True) if self.moves(s.ends)}
        return None if any(n in summed or n not in out for n in found) else found

    def product(
        self, row: _Part, other: _Part, terms: tuple[str, str, str], moving: Mapping[str, _Span]
    ) -> Value:
        """The product of all rows with all that rounds take of the other operand."""
        mine, others, out = terms
        assert row.row is not None
        first = affine.substitute(row.ends[row.row][0], {self.scan.index: 0})
        ends = [*row.ends]
        ends[row.row] = first, affine.add(first, self.scan.count)
        whole = [
            (0, moving[letter].extent) if letter in moving else end
            for letter, end in zip(others, other.ends, strict=True)
        ]
        t = _other_letter("".join(terms))
        return self.b.emit(
            graph.Contract,
            _box(self.b, row.outer, ends),
            _box(self.b, other.outer, whole),
            equation=f"{mine[: row.row]}{t}{mine[row.row :]},{others}->{t}{out}",
        )

    def pays(self, op: graph.Contract, row: _Part, moving: Mapping[str, _Span]) -> bool:
        """Whether rows follow one another, and what is computed and kept is not much more than now.

        A span that grows or shrinks evenly is on average what it is between first and last round.
        What is kept is measured by what the loop has as it is, since it may have sizes of its own.
        """
        assert row.row is not None
        split = affine_facts.linear(row.ends[row.row][0], (self.scan.index,))
        still = [end for k, end in enumerate(row.ends) if k != row.row]
        if split is None or split[0] != {self.scan.index: 1} or any(map(self.moves, still)):
            return False
        more = 1.0
        for (start, stop), extent in moving.values():
            ends = ({self.scan.index: n} for n in (0, affine.add(self.scan.count, -1)))
            sizes = [self.size(affine.substitute(stop - start, end)) for end in ends]
            more *= 2 * self.size(extent) / max(1, sum(sizes))
        *terms, out = graph.parse_equation(op.equation)
        extents = dict(zip(terms[0], op.a.type.shape, strict=True))
        depth = prod(self.size(extents[n]) for n in {*terms[0]} & {*terms[1]} - {*out})
        lengths = zip(out, op.result.type.shape, strict=True)
        rest = [moving[n].extent if n in moving else length for n, length in lengths]
        kept = product((self.scan.count, *rest))
        held = (product(v.type.shape) for v in (*self.scan.operands, *self.scan.results))
        known = any(affine_facts.at_least(affine.multiply(n, _LARGER), kept) for n in held)
        return depth >= _DEEP and more <= _MORE and known

    def size(self, extent: Dim) -> int:
        """An extent as it usually is, that of a loop around as large as it gets."""
        return affine.typical(affine_facts.at_most(extent, self.around))


def _box(b: Builder, x: Value, ends: Sequence[Ends]) -> Value:
    """A part of a value, which is the value where it is all of it."""
    if [*ends] == [(0, n) for n in x.type.shape]:
        return x
    starts, stops = zip(*ends, strict=True)
    return b.emit(graph.Slice, x, starts=starts, stops=stops, steps=(1,) * len(ends))
