"""Einsum of any number of operands, with an ellipsis and letters that repeat.

An operand's own diagonals and sums come first; then operands are contracted one after the other,
from the left, each letter summed over as soon as no later operand and not the result has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Literal, Value


@operator("Einsum", attributes="equation!")
def einsum(ctx: Context, node: Node, *xs: Value) -> Value:
    """The sum of products that an equation says."""
    terms, out = _terms(ctx, node, xs)
    extents = _extents(ctx, terms, xs)
    rest = list(zip(terms, xs, strict=True))
    unknown = set(out) - set("".join(terms))
    if unknown or len(set(out)) < len(out):
        raise ctx.wrong(
            f"the result {out} of its equation has letters that no operand has, or twice"
        )
    made: list[tuple[str, Value]] = []
    for term, x in rest:
        others = "".join(t for t in terms if t is not term) + out
        single, value = _diagonals(ctx, term, x)
        # an extent of 1 that others have more of is repeated by leaving its letter out
        kept = [k for k, a in enumerate(single) if value.type.shape[k] != 1 or extents[a] == 1]
        value = ctx.reshape(value, [value.type.shape[k] for k in kept])
        single = "".join(single[k] for k in kept)
        made.append(_summed(ctx, single, value, others if terms.count(term) == 1 else term + out))
    term, value = made[0]
    for number, (other, y) in enumerate(made[1:], start=1):
        later = "".join(t for t, _ in made[number + 1 :]) + out
        kept_letters = [a for a in dict.fromkeys(term + other) if a in later]
        joined = "".join(kept_letters)
        value = ctx.emit(graph.Contract, value, y, equation=f"{term},{other}->{joined}")
        term = joined
    return _laid_out(ctx, term, value, out, extents)


def _terms(ctx: Context, node: Node, xs: Sequence[Value]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, with letters of their own for an ellipsis."""
    equation = node.text("equation", "").replace(" ", "")
    left, arrow, out = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(xs):
        raise ctx.wrong(f"{equation} has {len(terms)} terms for {len(xs)} inputs")
    spare = [a for a in ascii_letters if a not in equation]
    most = 0
    for k, (term, x) in enumerate(zip(terms, xs, strict=True)):
        before, dots, after = term.partition("...")
        count = x.type.rank - len(before + after) if dots else 0
        most = max(most, count)
        letters = "".join(spare[most_ - 1] for most_ in range(count, 0, -1)) if count > 0 else ""
        terms[k] = before + letters + after
        if len(terms[k]) != x.type.rank or (not terms[k].isalpha() and terms[k]):
            raise ctx.refused(f"the equation {equation} is for other ranks")
    shared = "".join(reversed(spare[:most]))
    if not arrow:
        joined = left.replace("...", "")
        out = shared + "".join(
            sorted(a for a in set(joined) if a.isalpha() and joined.count(a) == 1)
        )
    return terms, out.replace("...", shared)


def _extents(ctx: Context, terms: Sequence[str], xs: Sequence[Value]) -> dict[str, Dim]:
    extents: dict[str, Dim] = {}
    for term, x in zip(terms, xs, strict=True):
        for letter, n in zip(term, x.type.shape, strict=True):
            try:
                (extents[letter],) = graph.broadcast_shapes((extents.get(letter, 1),), (n,))
            except TypeError as error:
                raise ctx.refused(str(error)) from error
    return extents


def _diagonals(ctx: Context, term: str, x: Value) -> tuple[str, Value]:
    """Each letter once: of two equal axes only the diagonal."""
    while len(set(term)) < len(term):
        letter = next(a for a in term if term.count(a) > 1)
        first = term.index(letter)
        second = term.index(letter, first + 1)
        rest = [k for k in range(len(term)) if k not in (first, second)]
        x = ctx.emit(graph.Transpose, x, perm=(*rest, first, second))
        n, m = x.type.shape[-2:]
        ctx.demand(m, n, f"the letter {letter} stands for the extents {n} and {m}")
        outer = x.type.shape[:-2]
        flat = ctx.reshape(x, (*outer, n * n))
        if isinstance(n, int) and n:
            flat = cut(ctx, flat, {len(outer): (0, n * n, n + 1)})
        elif n != 0:
            # in rows that are longer by 1 it is the first column
            none, zero = (0,) * len(outer), Literal(np.zeros((), x.type.dtype.numpy))
            longer = ctx.emit(graph.Pad, flat, low=(*none, 0), high=(*none, n), value=zero)
            rows = ctx.reshape(longer, (*outer, n, n + 1))
            flat = cut(ctx, rows, {len(outer) + 1: (0, 1, 1)})
        x = ctx.reshape(flat, (*outer, n))
        term = "".join(term[k] for k in rest) + letter
    return term, x


def _summed(ctx: Context, term: str, x: Value, others: str) -> tuple[str, Value]:
    """Without the letters that nothing else has."""
    gone = tuple(k for k, a in enumerate(term) if a not in others)
    if gone:
        x = ctx.emit(graph.Reduce, x, axes=gone, combine="add")
    return "".join(a for a in term if a in others), x


def _laid_out(ctx: Context, term: str, x: Value, out: str, extents: dict[str, Dim]) -> Value:
    """The letters in the order of the result, those that were left out with extent 1 put back."""
    term, x = _summed(ctx, term, x, out)
    order = tuple(term.index(a) for a in out if a in term)
    if order != tuple(range(len(order))):
        x = ctx.emit(graph.Transpose, x, perm=order)
    x = ctx.reshape(x, [extents[a] if a in term else 1 for a in out])
    shape = tuple(extents[a] for a in out)
    return x if x.type.shape == shape else ctx.emit(graph.Broadcast, x, shape=shape)
