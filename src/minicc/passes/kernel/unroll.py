"""Write loops out: short ones whole, and of products so many rounds at once.

A loop of few rounds over a small body becomes its rounds, one after the other. A longer one around
nothing but a product makes several rounds into one: with the dozen multiply-adds of a register tile
stand five instructions that only count and jump, which a core that shares its units with another
thread feels. How many rounds, and how small the body, a kernel's attribute `unroll` says where that
is not as usual.

    for i in 0..3 carries %a { ... }     -->   three copies of the body, %a handed on
    for i in 0..130 carries %a { ... }   -->   for i in 0..128 by 4 { four copies }, two copies
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from minicc.ir import affine, kernel
from minicc.ir.affine import Dim
from minicc.ir.build import Builder
from minicc.ir.core import Function, Op, Region, Value, walk
from minicc.ir.schedule import Unroll
from minicc.ir.types import BufferType
from minicc.passes.kernel.hoist import split

_AT_ONCE = 1024  # elements in all tiles of rounds that become one
_INDEX = affine.symbol("i0")  # of a loop, in an expression of it


def unroll(function: Function) -> Function:
    """One kernel with its innermost loops written out as far as that is worth it."""
    b = Builder(("#0",))
    unrolling = _Unrolling(Unroll(*function.attrs.get("unroll", ())))
    unrolling.ops(b, function.body)
    return function.with_body(Region(function.args, b.ops, ()))


def is_short(op: kernel.For, most: Unroll) -> bool:
    """Whether a loop is written out: few rounds, no loop within, and not too much code."""
    if op.rounds > most.rounds or _has_loops(op):
        return False
    return bool(_elements(op.body) * op.rounds <= most.elements)


def at_once(op: kernel.For, most: Unroll) -> int:
    """How many rounds of a loop become one: a number that divides them, if there is one."""
    if _has_loops(op) or not any(isinstance(inner, kernel.Dot) for inner in op.body.ops):
        return 1
    many = min(most.at_once, _AT_ONCE // _elements(op.body), op.rounds // 2)
    return next((n for n in range(many, 1, -1) if op.rounds % n == 0 and 2 * n > many), many)


def _has_loops(op: kernel.For) -> bool:
    return any(inner.regions for inner in walk(op.body))


def _elements(body: Region) -> int:
    """The elements of all tiles that a round makes."""
    tiles = [r.type for op in body.ops for r in op.results if not isinstance(r.type, BufferType)]
    return sum(prod(t.extents) for t in tiles)


class _Unrolling:
    """What stands for the values of one kernel while it is made anew."""

    def __init__(self, most: Unroll) -> None:
        self.most = most
        self.forward: dict[Value, Value] = {}

    def of(self, values: Iterable[Value]) -> tuple[Value, ...]:
        """What stands for them."""
        return tuple([self.forward.get(v, v) for v in values])

    def ops(self, b: Builder, region: Region) -> None:
        """Make the ops of a region anew."""
        for op in region.ops:
            b.loc = op.loc
            operands = self.of(op.operands)
            if isinstance(op, kernel.For) and is_short(op, self.most):
                results = self.rounds(b, op.body, range(op.lo, op.hi, op.step), operands)
            elif isinstance(op, kernel.For) and (many := at_once(op, self.most)) > 1:
                results = self.joined(b, op, operands, many)
            elif op.regions:
                results = self.loop(b, op, operands)
            else:
                results = b.add(op.rebuilt(operands)).results
            self.forward.update(zip(op.results, results, strict=True))

    def loop(self, b: Builder, op: Op, operands: Sequence[Value]) -> tuple[Value, ...]:
        """A loop that stays."""
        (body,) = op.regions
        inner, args = self.entered(op, body)
        self.ops(inner, body)
        region = Region(args, inner.ops, self.of(body.yields))
        return b.add(op.rebuilt(operands, (region,))).results

    def joined(
        self, b: Builder, op: kernel.For, inits: Sequence[Value], many: int
    ) -> tuple[Value, ...]:
        """A loop of which each round does so many of this one's, and the rounds that are left."""
        invariant, changing = split(op.body)
        inner, args = self.entered(op, op.body)
        self.ops(inner, Region((), invariant, ()))
        steps = [affine.add(_INDEX, k * op.step) for k in range(many)]
        body = Region(op.body.args, changing, op.body.yields)
        yields = self.rounds(inner, body, steps, args[1:], of=args[:1])
        end = op.lo + op.rounds // many * many * op.step
        joined = op.rebuilt(
            inits, (Region(args, inner.ops, yields),), hi=min(end, op.hi), step=many * op.step
        )
        left = range(end, op.hi, op.step)
        return self.rounds(b, op.body, left, b.add(joined).results)

    def entered(self, op: Op, body: Region) -> tuple[Builder, tuple[Value, ...]]:
        """A builder for the inside of a loop, and what stands for its index and what it carries."""
        args = tuple([Value(a.type, a.hint) for a in body.args])
        self.forward.update(zip(body.args, args, strict=True))
        return Builder(op.loc), args

    def rounds(
        self,
        b: Builder,
        body: Region,
        at: Iterable[Dim],
        carried: Sequence[Value],
        of: Sequence[Value] = (),
    ) -> tuple[Value, ...]:
        """Rounds one after the other, at indices that are expressions `of` others."""
        for value in at:
            index = of[0] if value == _INDEX else b.emit(kernel.Index, of, value=value)
            self.forward.update(zip(body.args, (index, *carried), strict=True))
            self.ops(b, body)
            carried = self.of(body.yields)
        return tuple(carried)
