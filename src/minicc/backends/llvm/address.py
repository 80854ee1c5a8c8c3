"""Indices and addresses as LLVM instructions.

An address is a pointer to which terms with constant strides are added, each one before the
outermost loop that does not change it.

LLVM's loop strength reduction would take these sums apart again, for every access and for each loop
around it, and search for a cheaper way to write all of them: that took it up to nine tenths of the
time of a kernel. It leaves alone what depends on a `freeze`, which changes no defined value.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from minicc.backends.llvm.emitter import Emitter, Loop
from minicc.backends.llvm.sizes import divisor, quotient, remainder
from minicc.backends.llvm.stepped import steps_and_start
from minicc.backends.llvm.tiles import memory_element
from minicc.backends.llvm.writer import Vec
from minicc.ir import affine, affine_facts
from minicc.ir.affine import Dim, Expr, Monomial, Whole
from minicc.ir.core import Value
from minicc.ir.types import BufferType


def emit_index(e: Emitter, expression: Dim, indices: tuple[Value, ...]) -> str:
    """An affine expression over i0, i1, ... as an i64; constants come back as their digits."""
    return _computed(e, _named(e, expression, indices))


def _named(e: Emitter, expression: Dim, indices: tuple[Value, ...]) -> Dim:
    """An expression over i0, i1, ... as one over the names of numbers in LLVM IR."""
    binding: dict[str, Dim] = {}
    for k, v in enumerate(indices):
        name = e.env[v]
        binding[f"i{k}"] = affine.symbol(name) if name.startswith("%") else int(name)
    return affine.substitute(expression, binding)


def _computed(e: Emitter, expression: Dim) -> str:
    """The value of an expression over sizes and names of numbers."""
    if isinstance(expression, int):
        return str(expression)
    if all(map(affine.is_size, affine.symbols(expression))):
        return e.of_sizes(expression)
    c = _Code(e, _divides_what_may_be_negative(expression))
    steps = c.plus, c.times, c.divide, c.modulo, c.smaller, c.whole
    return str(affine.fold(expression, c.leaf, *steps))


_INDEX = Vec(1, "i64")


class _Code(NamedTuple):
    """How an expression is computed in the function that `e` emits.

    What is divided may be negative, which is `signed` then, where an extent was subtracted, or a
    multiple taken out.
    """

    e: Emitter
    signed: bool

    def leaf(self, name: str) -> str:
        """A size, or a number with that name."""
        return self.e.of_sizes(affine.symbol(name)) if affine.is_size(name) else name

    def plus(self, a: Any, b: Any) -> str:
        """A sum."""
        return self.e.w.binary("add nsw", _INDEX, str(a), str(b))

    def times(self, a: Any, b: Any) -> str:
        """A product."""
        return self.e.w.binary("mul nsw", _INDEX, str(a), str(b))

    def divide(self, a: Any, n: Any) -> str:
        """The whole part of a quotient."""
        inst = self.e.w.inst
        by = divisor(inst, n)
        return quotient(inst, a, by) if self.signed else inst(f"udiv i64 {a}, {by}")

    def modulo(self, a: Any, n: Any) -> str:
        """What a division leaves."""
        inst = self.e.w.inst
        by = divisor(inst, n)
        return remainder(inst, a, by) if self.signed else inst(f"urem i64 {a}, {by}")

    def smaller(self, a: Any, b: Any) -> str:
        """The smaller of two numbers."""
        operands = [(_INDEX, str(n)) for n in (a, b)]
        return self.e.w.intrinsic("llvm.smin.i64", _INDEX, *operands)

    def whole(self, atom: Whole) -> str:
        """The whole part of a float that sizes decide."""
        return self.e.of_sizes(affine.whole(atom.real))


@lru_cache(1024)
def _divides_what_may_be_negative(value: Dim) -> bool:
    """Whether an expression over sizes and indices may divide a negative number.

    A size that is computed may be one.
    """
    if isinstance(value, int):
        return False
    atoms = (atom for monomial, _ in value.terms for atom in monomial)
    return any(
        (atom.kind in ("floordiv", "mod") and not _is_natural(atom.args[0]))
        or any(map(_divides_what_may_be_negative, atom.args))
        for atom in atoms
        if not isinstance(atom, str)
    )


def _is_natural(value: Dim) -> bool:
    return affine_facts.natural(value) and not affine.sizes(value)


def address(
    e: Emitter,
    buffer: Value,
    at: tuple[Dim, ...],
    indices: tuple[Value, ...],
    rank: int,
    *,
    inbounds: bool = True,
) -> tuple[str, list[Dim]]:
    """The pointer to a tile's first element, and the step in elements along each of its axes.

    It is in the buffer unless `inbounds` is false.
    """
    type: BufferType = buffer.type
    steps, base = steps_and_start(at, type.strides, rank)
    base = _named(e, base, indices)
    pointer, element = str(e.env[buffer]), memory_element(type.dtype)
    if isinstance(base, Expr):
        pointer = _pointer(e, pointer, element, Expr(base.terms, 0))
        base = base.const
    if base:
        flag = " inbounds" if inbounds else ""
        pointer = e.w.inst(f"getelementptr{flag} {element}, ptr {pointer}, i64 {base}")
    return pointer, list(steps)


def _pointer(e: Emitter, pointer: str, element: str, offset: Expr) -> str:
    """A pointer so many elements further; each term is added before the loops that keep it."""
    return _reached(e, pointer, element, offset, e.loop, e.w.block, e.w.lines)


def _reached(
    e: Emitter,
    pointer: str,
    element: str,
    offset: Expr,
    loop: Loop | None,
    place: object,
    lines: list[str],
) -> str:
    """The same in a place within a loop: what stands for the place, and its lines."""
    changing: Expr | None = offset
    if loop is not None:
        changing, steady = _split(offset, loop.own)
        if steady is not None:
            pointer = _reached(e, pointer, element, steady, loop.outer, loop, loop.lines)
    if changing is None:
        return pointer
    inside, e.w.lines = e.w.lines, lines
    moved = _moved(e, place, pointer, element, changing)
    e.w.lines = inside
    return moved


def _moved(e: Emitter, place: object, pointer: str, element: str, offset: Expr) -> str:
    """A pointer moved by an offset, from those that were made in a place or new."""
    key = place, pointer, offset
    if key not in e.pointers:
        # it may leave the buffer, where only a constant that is added later brings it back
        there = e.w.inst(f"getelementptr {element}, ptr {pointer}, i64 {_computed(e, offset)}")
        e.pointers[key] = e.w.inst(f"freeze ptr {there}")
    return e.pointers[key]


def _split(offset: Expr, own: set[str]) -> tuple[Expr | None, Expr | None]:
    """The terms of an offset that depend on some names, and those that don't."""
    changing: list[tuple[Monomial, int]] = []
    steady: list[tuple[Monomial, int]] = []
    for term in offset.terms:
        (steady if own.isdisjoint(_names(term[0])) else changing).append(term)
    return _sum(changing), _sum(steady)


def _names(monomial: Monomial) -> frozenset[str]:
    """The symbols of a product."""
    return Expr(((monomial, 1),), 0).symbols()


def _sum(terms: list[tuple[Monomial, int]]) -> Expr | None:
    return Expr(tuple(terms), 0) if terms else None
