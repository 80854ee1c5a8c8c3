"""What ops ask of sizes: extents that must be equal, and numbers that must not be negative.

The type rules let pass what can't be told while symbols are free. A program for all sizes is one
for those that fulfil these demands, which become its guards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise, zip_longest
from typing import Any

from minicc.ir.affine import Compound, Dim, Expr, minimum, symbol, symbols
from minicc.ir.affine_facts import natural
from minicc.ir.core import Function, Op, Value
from minicc.ir.graph.contract import Contract, Conv, parse_equation
from minicc.ir.graph.control import If, Scan, Sized
from minicc.ir.graph.elementwise import Elementwise
from minicc.ir.graph.indexing import GatherElements, GatherND, ScatterElements, ScatterND
from minicc.ir.graph.movement import Broadcast, Concat, Frames, Pad, Reshape, Slice
from minicc.ir.graph.reduce import Window
from minicc.ir.graph.shapes import product

Column = tuple[Dim, ...]


def equal_extents(op: Op) -> Iterator[tuple[Dim, Dim]]:
    """The extents that must be equal for an op to be lowered as if they were."""
    for first, *others in _columns(op):
        yield from ((first, n) for n in others if n != first)


def lasting_demands(function: Function) -> tuple[tuple[Dim, Dim], ...]:
    """Pairs that must be equal for a graph to be what a model means, whatever becomes of its ops.

    Those of slices, which rules join, and of ops of which no more than sizes is used: these go
    away, and others were computed of their sizes.
    """
    free = {s for a in function.args for n in a.type.shape for s in symbols(n)}
    needed = set(function.body.yields)
    found: dict[tuple[Dim, Dim], None] = {}
    for op in reversed(function.body.ops):
        gone = op.pure and needed.isdisjoint(op.results)
        if not gone:
            needed.update(op.operands)
        if gone or isinstance(op, Slice):
            found.update(((minimum(n, 0), 0), None) for n in natural_numbers(op))
        if gone:
            found.update((pair, None) for pair in equal_extents(op))
    return tuple(pair for pair in found if all(symbols(n) <= free for n in pair))


def largest_sizes(function: Function) -> dict[str, int]:
    """The largest number that sizes may be by what a graph demands of them, where there is one.

    `$s` of which a table of 512 rows is read has to be `min($s, 512)`.
    """
    equal = chain.from_iterable(map(equal_extents, function.body.ops))
    found: dict[str, int] = {}
    for a, b in chain(function.attrs.get("demands", ()), equal):
        for value, other in ((a, b), (b, a)):
            names, most = symbols(value), _number_of_minimum(other)
            if most is not None and len(names) == 1 and value == symbol(*names):
                found[min(names)] = min(most, found.get(min(names), most))
    return found


def _number_of_minimum(value: Dim) -> int | None:
    """The number of which and something else an extent is the minimum."""
    atom = value.terms[0][0][0] if isinstance(value, Expr) and value.is_atom() else None
    numbers = [n for n in atom.args if isinstance(n, int)] if isinstance(atom, Compound) else []
    return min(numbers, default=None)


def _columns(op: Op) -> Iterable[Column]:
    if isinstance(op, Elementwise):
        shapes = [v.type.shape[::-1] for v in op.operands]
        columns = zip_longest(*shapes, fillvalue=1)
        return filter(None, (tuple(n for n in column if n != 1) for column in columns))
    if isinstance(op, Broadcast):
        pairs = zip(op.x.type.shape[::-1], op.shape[::-1], strict=False)
        return (pair for pair in pairs if pair[0] != 1)
    if isinstance(op, Contract):
        left, right, _ = parse_equation(op.equation)
        found: dict[str, list[Dim]] = {}
        for letter, n in zip(left + right, op.a.type.shape + op.b.type.shape, strict=True):
            found.setdefault(letter, []).append(n)
        return map(tuple, found.values())
    if isinstance(op, Conv):
        channels = op.x.type.shape[-1 if op.layout == "channels_last" else 1]
        filters: Column = (op.w.type.shape[0], op.width * op.groups)
        return [(channels, op.w.type.shape[1] * op.groups), filters]
    if isinstance(op, Reshape):
        return [(product(op.x.type.shape), product(op.shape))]
    if isinstance(op, Concat):
        joined = zip(*[v.type.shape for v in op.xs], strict=True)
        return (c for k, c in enumerate(joined) if k != op.axis)
    return _of_other_ops(op)


def _of_other_ops(op: Op) -> Iterable[Column]:
    if isinstance(op, Scan | If | Sized):
        return op.same_extents()
    if isinstance(op, GatherND):
        return zip(_shape(op.x)[: op.batch], _shape(op.indices)[: op.batch], strict=True)
    if isinstance(op, ScatterElements):
        return zip(_shape(op.indices), _shape(op.updates), strict=True)
    if isinstance(op, ScatterND):
        *front, depth = _shape(op.indices)
        wanted = (*front, *_shape(op.x)[depth:])
        return zip(wanted, _shape(op.updates), strict=True)
    return ()


def _shape(v: Value) -> Any:
    return v.type.shape


def natural_numbers(op: Op) -> Iterator[Dim]:
    """What must not be negative, and may be for some sizes: extents, distances, windows' room."""
    wanted: list[Dim] = [n for v in op.results for n in v.type.shape]
    if isinstance(op, Slice):
        axes = zip(op.x.type.shape, op.starts, op.stops, op.steps, strict=True)
        for extent, start, stop, step in axes:
            ends = (0, start, stop, extent) if step > 0 else (0, stop + 1, start + 1, extent)
            wanted += [b - a for a, b in pairwise(ends)]
    elif isinstance(op, GatherElements | ScatterElements):
        pairs = enumerate(zip(op.x.type.shape, op.indices.type.shape, strict=True))
        wanted += [extent - n for k, (extent, n) in pairs if k != op.axis]
    elif isinstance(op, Pad):
        wanted += [*op.low, *op.high]
    elif isinstance(op, Frames):
        wanted.append(op.result.type.shape[op.axis] - 1)
    elif isinstance(op, Window | Conv):
        wanted += [n - 1 for n in _windows(op)]
        wanted += [k - 1 for k in op.w.type.shape[2:]] if isinstance(op, Conv) else []
    return (n for n in wanted if not natural(n))


def _windows(op: Window | Conv) -> Iterator[Dim]:
    """The extents of which windows of several elements are cut."""
    size: Column = op.size if isinstance(op, Window) else (1, 1, *op.w.type.shape[2:])
    shape = op.result.type.shape
    if isinstance(op, Conv) and op.layout == "channels_last":
        size = (1, *size[2:], 1)
    return (n for n, taps in zip(shape, size, strict=True) if taps != 1)
