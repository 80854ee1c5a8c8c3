"""Take complex numbers apart: each complex tensor becomes two real ones, its parts.

    %z = mul %x, %y   -->   %re = sub (mul %xr, %yr), (mul %xi, %yi)
                            %im = add (mul %xr, %yi), (mul %xi, %yr)

What moves elements moves both parts alike, and loops hand on both. The function's own arguments and
results lie in memory as NumPy's do, the parts of each number side by side: they become real tensors
with one more axis, of extent 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minicc.ir import graph
from minicc.ir.core import Function, Literal, Module, Op, Region, Value, walk_control
from minicc.ir.rewrite import Rebuilder, live
from minicc.ir.types import BOOL, PARTS, TensorType

Parts = tuple[Value, ...]  # of a value: itself, or the real and the imaginary one


def split_complex(module: Module) -> Module:
    """Take the complex numbers of every function apart."""
    return Module(module.level, [_split(f) if _has_complex(f) else f for f in module.functions])


def _has_complex(function: Function) -> bool:
    made = (v for op in walk_control(function.body) for v in (*op.operands, *op.results))
    return any(map(_is_complex, (*function.args, *function.body.yields, *made)))


def _is_complex(value: Value) -> bool:
    return bool(value.type.dtype.is_complex)


def _parts_of(t: TensorType) -> tuple[TensorType, ...]:
    return (TensorType(PARTS[t.dtype], t.shape),) * 2 if t.dtype.is_complex else (t,)


def _split(function: Function) -> Function:
    splitter = _Splitter()
    b = splitter.b
    args: list[Value] = []
    lines = {v: op.loc for op in reversed(function.body.ops) for v in (*op.operands, *op.results)}
    for a in function.args:
        b.loc = lines.get(a, ())
        if not _is_complex(a):
            splitter.parts[a] = (a,)
            args.append(a)
            continue
        shape = a.type.shape
        pairs = Value(TensorType(PARTS[a.type.dtype], (*shape, 2)), a.hint)
        args.append(pairs)
        ends, steps = (*shape, 2), (1,) * (len(shape) + 1)
        found = [
            b.emit(graph.Slice, pairs, (*(0,) * len(shape), k), (*ends[:-1], k + 1), steps)
            for k in range(2)
        ]
        splitter.parts[a] = tuple([b.emit(graph.Reshape, part, shape) for part in found])
    splitter.run(function.body.ops)
    whole = dict(zip(function.args, args, strict=True))
    yields: list[Value] = []
    for v in function.body.yields:
        b.loc = lines.get(v, ())
        yields.append(whole[v] if v in whole else _side_by_side(b, splitter.parts[v]))
    return function.with_body(Region(args, live(b.ops, yields), yields))


def _side_by_side(b: Rebuilder, parts: Parts) -> Value:
    """The parts as the last axis, as they lie in memory."""
    if len(parts) == 1:
        return parts[0]
    shape = parts[0].type.shape
    columns = [b.emit(graph.Reshape, part, (*shape, 1)) for part in parts]
    return b.emit(graph.Concat, columns, len(shape))


class _Splitter:
    """Splits the ops of one region; `parts` are those of its values."""

    def __init__(self) -> None:
        self.b = Rebuilder()
        self.parts: dict[Value, Parts] = {}

    def flat(self, values: Sequence[Value]) -> list[Value]:
        """The parts of several values one after the other."""
        return [part for v in values for part in self.parts[v]]

    def run(self, ops: Sequence[Op]) -> None:
        """Rebuild ops."""
        for op in ops:
            self.b.loc = op.loc
            if op.control:
                self._loop(op)
            elif any(map(_is_complex, (*op.operands, *op.results))):
                split = _SPLIT.get(type(op), _each_alone)
                self.parts[op.result] = split(self.b, op, [self.parts[v] for v in op.operands])
            else:
                made = self.b.add(op.rebuilt(self.flat(op.operands)))
                self._became(op, [(v,) for v in made.results])

    def _became(self, op: Op, parts: Sequence[Parts]) -> None:
        for old, new in zip(op.results, parts, strict=True):
            self.parts[old] = new
            new[0].hint = new[0].hint or old.hint

    def _loop(self, op: Op) -> None:
        """A loop or branch, which takes and gives parts."""
        attrs: dict[str, Any] = {}
        yields = op.regions[0].yields
        if isinstance(op, graph.Scan | graph.While):
            first = 2 if isinstance(op, graph.While) else 0
            attrs["states"] = len(self.flat(op.operands[first : first + op.states]))
        if isinstance(op, graph.Scan):
            scanned = zip(op.operands[op.states :], op.backwards, strict=False)
            attrs["backwards"] = tuple([back for v, back in scanned for _ in self.parts[v]])
            rows = zip(yields[op.states :], op.turned, strict=True)
            attrs["turned"] = tuple([turn for v, turn in rows for _ in _parts_of(v.type)])
        elif "types" in op.attrs:
            attrs["types"] = tuple([part for t in op.attrs["types"] for part in _parts_of(t)])
        regions = [_region(region) for region in op.regions]
        made = iter(self.b.add(op.rebuilt(self.flat(op.operands), regions, **attrs)).results)
        self._became(op, [tuple([next(made) for _ in _parts_of(v.type)]) for v in op.results])


def _region(region: Region) -> Region:
    splitter = _Splitter()
    for a in region.args:
        splitter.parts[a] = tuple([Value(t, a.hint) for t in _parts_of(a.type)])
    splitter.run(region.ops)
    yields = splitter.flat(region.yields)
    return Region(splitter.flat(region.args), live(splitter.b.ops, yields), yields)


def _each_alone(b: Rebuilder, op: Op, operands: Sequence[Parts]) -> Parts:
    """What treats both parts alike: sums, and what moves elements, or fills in a number."""
    numbers = {name: _numbers(value) for name, value in op.attrs.items()
               if isinstance(value, Literal) and value.array.dtype.kind == "c"}  # fmt: skip
    found: list[Value] = []
    for k in range(2):
        attrs: dict[str, Any] = {name: parts[k] for name, parts in numbers.items()}
        part = op.rebuilt([v[k if len(v) > 1 else 0] for v in operands], **attrs)
        found.append(b.add(part).result)
    return tuple(found)


def _product(b: Rebuilder, op: Op, operands: Sequence[Parts]) -> Parts:
    (ar, ai), (br, bi) = operands

    def times(x: Value, y: Value) -> Value:
        return b.add(op.rebuilt((x, y))).result

    re = b.emit(graph.Sub, times(ar, br), times(ai, bi))
    return re, b.emit(graph.Add, times(ar, bi), times(ai, br))


def _compared(join: type[Op]) -> Callable[[Rebuilder, Op, Sequence[Parts]], Parts]:
    def split(b: Rebuilder, op: Op, operands: Sequence[Parts]) -> Parts:
        both = zip(*operands, strict=True)
        return (b.emit(join, *[b.emit(type(op), x, y) for x, y in both]),)

    return split


def _cast(b: Rebuilder, op: Op, operands: Sequence[Parts]) -> Parts:
    """To complex numbers and from them, of which the real part stays, or whether they are zero."""
    assert isinstance(op, graph.Cast)
    (parts,), target = operands, op.dtype
    if target is BOOL:
        return (b.emit(graph.Or, *[b.emit(graph.Cast, p, target) for p in parts]),)
    if not target.is_complex:
        return (b.emit(graph.Cast, parts[0], target),)
    made = [b.emit(graph.Cast, p, PARTS[target]) for p in parts]
    if len(made) == 1:
        zero = b.emit(graph.Constant, Literal(np.zeros((), PARTS[target].numpy)))
        made.append(b.emit(graph.Broadcast, zero, made[0].type.shape))
    return tuple(made)


def _constant(b: Rebuilder, op: Op, operands: Sequence[Parts]) -> Parts:
    assert isinstance(op, graph.Constant)
    return tuple([b.emit(graph.Constant, part) for part in _numbers(op.value)])


def _numbers(value: Literal) -> tuple[Literal, Literal]:
    return Literal(value.array.real.copy()), Literal(value.array.imag.copy())


_SPLIT: dict[type[Op], Callable[[Rebuilder, Op, Sequence[Parts]], Parts]] = {
    graph.Mul: _product,
    graph.Contract: _product,
    graph.Eq: _compared(graph.And),
    graph.Ne: _compared(graph.Or),
    graph.Cast: _cast,
    graph.Constant: _constant,
    graph.Real: lambda b, op, operands: operands[0][:1],
    graph.Imag: lambda b, op, operands: operands[0][1:],
    graph.Complex: lambda b, op, operands: (operands[0][0], operands[1][0]),
}
