"""graph -> structured: iteration spaces, index maps and scalar bodies.

Each whole-tensor op becomes a `structured.generic`:

    %y = graph.add %x, %b : f32[8,64]   -->   structured.generic %x, %b { space = <d0=8, d1=64>,
                                               maps = [[d0, d1], [d1], [d0, d1]] } { arith.add }

A constant of one element moves into the body. Data movement that is not an index map (reshape, pad,
concat) stays an op of its own. Sizes that are computed get names (`name_sizes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from minicc.errors import UnsupportedError
from minicc.ir import arith, graph, structured
from minicc.ir.affine import Dim, substitute, symbol
from minicc.ir.affine_facts import at_least_within, least_within
from minicc.ir.arrays import is_finite
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Module, Op, Region, Value, walk
from minicc.ir.graph.demands import equal_extents, natural_numbers
from minicc.ir.rewrite import Rebuilder, rebuild
from minicc.ir.scan import ENDLESS, lift
from minicc.ir.space import PARALLEL, REDUCTION, SEQUENTIAL, Iter, Space
from minicc.ir.types import BOOL, OPAQUE, TensorType, is_free, is_index
from minicc.ir.words import WordProduct
from minicc.passes.structured.constant_divisors import divide_by_constants
from minicc.passes.structured.generics import (
    Body,
    broadcast_map,
    dims,
    generic,
    identity,
    summed,
)
from minicc.passes.structured.lines import on_line
from minicc.passes.structured.lower_gather import GATHERS
from minicc.passes.structured.lower_winograd import winograd_input, winograd_output
from minicc.passes.structured.name_sizes import name_sizes
from minicc.passes.structured.read_through import read_through
from minicc.passes.structured.scatter import can_scatter, lower_scatter

Lower = Callable[[Rebuilder, Any, tuple[Value, ...]], Value]
_MOST_COLUMNS = 4  # that are permuted in registers


def lower_to_structured(module: Module, strict: bool = True) -> Module:
    """Lower every function of a graph module; UnsupportedError names an op without a lowering.

    Where mathematics are not `strict`, quotients by constants may be made of products.
    """
    made = Module("structured", [_lower_function(f) for f in module.functions])
    return made if strict else divide_by_constants(made)


def _lower_function(function: Function) -> Function:
    lowered = function.with_body(_lower(function.body))
    if "sizes" not in function.attrs and not any(is_free(a.type.shape) for a in function.args):
        return lowered
    equal = [pair for op in walk(function.body) for pair in equal_extents(op)]
    least = list(_least(function.body, {}))
    return name_sizes(lowered, [*equal, *function.attrs.get("demands", ())], least)


def _least(region: Region, counts: Mapping[str, Dim]) -> Iterator[Dim]:
    """What the numbers that must not be negative are at least in all rounds of loops around."""
    for op in region.ops:
        wanted = (n for n in natural_numbers(op) if not at_least_within(n, 0, counts))
        yield from (least_within(n, counts) for n in wanted)
        index = op.attrs.get("index")
        count = op.attrs.get("count", ENDLESS)
        for inner in op.regions:
            yield from _least(inner, {**counts, index: count} if index else counts)


def has_lowering(op: Op) -> bool:
    """Whether a graph op can be lowered.

    Indices that are not all among those of i64 can't be, and bits that are read as booleans.
    """
    if op.control:
        return all(has_lowering(inner) for region in op.regions for inner in region.ops)
    others = graph.Elementwise, graph.Reshape, graph.Kernel, graph.Conv
    known = isinstance(op, others) or type(op) in LOWER
    if isinstance(op, graph.BitCast):
        known = op.dtype is not BOOL
    if type(op) in GATHERS:
        known = is_index(op.operands[1].type.dtype)
    if isinstance(op, graph.ScatterElements | graph.ScatterND):
        known = can_scatter(op)
    return known and all(v.type.dtype is not OPAQUE for v in (*op.operands, *op.results))


def _lower(region: Region) -> Region:
    scalars = {
        op.result: Literal(op.value.array.reshape(()))
        for op in region.ops
        if isinstance(op, graph.Constant) and prod(op.value.type.extents) == 1
    }
    slices: dict[Value, Any] = {}
    known = {op.result: op.value for op in region.ops if isinstance(op, graph.Constant)}
    pads = {op.result: op for op in region.ops if isinstance(op, graph.Pad)}

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
        if not has_lowering(op):
            raise UnsupportedError(
                "MC0210",
                f"{op.opname} has no lowering to the structured level yet",
                where=op.loc,
                hint="run the module at the graph level with minicc.ir.interpret",
            )
        if isinstance(op, graph.Elementwise):
            return (_elementwise(b, op, operands, scalars),)
        if isinstance(op, graph.Kernel):
            return b.add(structured.Kernel.make(operands, op.attrs, op.regions, op.loc)).results
        if isinstance(op, graph.Scan):
            return _scan(b, op, operands)
        if isinstance(op, graph.Sized):
            body = _lower(op.body)
            return b.add(structured.Sized.make(operands, op.attrs, (body,), op.loc)).results
        if isinstance(op, graph.If):
            branches = [_lower(region) for region in op.regions]
            return b.add(structured.If.make(operands, {}, branches, op.loc)).results
        if isinstance(op, graph.Reshape):
            return (_reshape(b, op, operands, slices),)
        if isinstance(op, graph.Gather) and (read := _read_on_line(op, known)) is not None:
            return (_move(b, operands[0], op.result.type.shape, read),)
        if isinstance(op, graph.Conv):
            return (_conv(b, op, operands, pads.get(op.x), known.get(op.w)),)
        made = LOWER[type(op)](b, op, operands)
        if isinstance(op, graph.Slice):
            slices[made] = b.ops[-1]
        return (made,)

    return read_through(rebuild(Function("main", region), visit).body)


def _scan(b: Rebuilder, op: graph.Scan, operands: tuple[Value, ...]) -> Sequence[Value]:
    """A loop whose body makes each of its yields; its constants stand before it."""
    body = _lower(op.body)
    inner = Builder(op.loc)
    inner.ops = list(body.ops)
    placed = {r for made in body.ops for r in _placed_anywhere(made)}
    placed -= {
        v
        for made in body.ops
        if isinstance(made, structured.Reshape) or made.control
        for v in made.operands
    }
    changing = structured.Scan | structured.Sized
    left = {r for made in body.ops if isinstance(made, changing) for r in made.results}
    yields: list[Value] = []
    for k, v in enumerate(body.yields):
        # what a loop within leaves may be a state, changed in place, and is no row
        if v not in placed or v in yields or (v in left and k >= op.states):
            v = _move(inner, v, v.type.shape, identity(v.type.rank))
        yields.append(v)
    region = Region(body.args, inner.ops, yields)
    scan = structured.Scan.make(operands, op.attrs, (region,), op.loc)
    moved, scan = lift(scan, lambda inner: isinstance(inner, structured.Constant))
    outside: dict[Value, Value] = {}
    for made in moved:
        outside.update(zip(made.results, b.add(made).results, strict=True))
    return b.add(scan.rebuilt([outside.get(v, v) for v in scan.operands])).results


def _placed_anywhere(op: Op) -> tuple[Value, ...]:
    """The results of an op that it, or a copy after it, may put where a loop wants them."""
    if isinstance(op, (structured.Constant, structured.Reshape)):
        return ()
    return op.results[: op.states] if isinstance(op, structured.Scan) else op.results


def _elementwise(
    b: Rebuilder, op: Any, operands: tuple[Value, ...], scalars: Mapping[Value, Literal]
) -> Value:
    shape = op.result.type.shape
    constants = [scalars.get(v) for v in op.operands]
    kept = [v for v, c in zip(operands, constants, strict=True) if c is None]

    def body(inner: Builder, elements: Sequence[Value]) -> Value:
        rest = iter(elements)
        args = [next(rest) if c is None else inner.emit(arith.Constant, value=c) for c in constants]
        if isinstance(op, (graph.Cast, graph.BitCast)):
            return inner.emit(op.scalar, args[0], dtype=op.dtype)
        return inner.emit(op.scalar, *args)

    maps = [broadcast_map(v.type.shape, shape) for v in kept]
    return generic(b, kept, dims(shape), [*maps, identity(len(shape))], shape, body)


def _first(b: Builder, scalars: Sequence[Value]) -> Value:
    return scalars[0]


def _product(op: graph.Contract | graph.Conv) -> Body:
    def body(b: Builder, scalars: Sequence[Value]) -> Value:
        if not op.form:
            return b.emit(arith.Mul, scalars[0], scalars[1])
        return b.emit(WordProduct, *scalars[:: -1 if op.swapped else 1], form=op.form)

    return body


def _constant(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    return b.emit(structured.Constant, value=op.value)


def _move(b: Builder, x: Value, shape: Sequence[Dim], read: Sequence[Dim]) -> Value:
    """A copy of `x` that reads it at `read`, expressions over the result's dimensions."""
    return generic(b, [x], dims(shape), [read, identity(len(shape))], shape, _first)


def _transpose(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    read: list[Dim] = [0] * len(op.perm)
    for k, axis in enumerate(op.perm):
        read[axis] = symbol(f"d{k}")
    return _move(b, operands[0], op.result.type.shape, read)


def _slice(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    read = [
        symbol(f"d{k}") * step + start
        for k, (start, step) in enumerate(zip(op.starts, op.steps, strict=True))
    ]
    return _move(b, operands[0], op.result.type.shape, read)


def _broadcast(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    shape = op.result.type.shape
    return _move(b, operands[0], shape, broadcast_map(operands[0].type.shape, shape))


def _reshape(
    b: Rebuilder, op: Any, operands: tuple[Value, ...], slices: Mapping[Value, structured.Generic]
) -> Value:
    """A view; but of a slice that gains or loses axes of extent 1, a slice of the new shape."""
    (x,), shape = operands, op.result.type.shape
    before = [k for k, n in enumerate(x.type.shape) if n != 1]
    after = [k for k, n in enumerate(shape) if n != 1]
    if x not in slices or [x.type.shape[k] for k in before] != [shape[k] for k in after]:
        return b.emit(structured.Reshape, x, shape=shape)
    at: dict[str, Dim] = {f"d{k}": 0 for k in range(x.type.rank)}
    at.update({f"d{k}": symbol(f"d{n}") for k, n in zip(before, after, strict=True)})
    read = [substitute(e, at) for e in slices[x].maps[0]]
    return _move(b, slices[x].operands[0], shape, read)


def _frames(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    read = identity(operands[0].type.rank)
    read[op.axis] = op.step * read[op.axis] + symbol(f"d{len(read)}")
    return _move(b, operands[0], op.result.type.shape, read)


def _pad(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    if not any(op.low) and not any(op.high):
        return operands[0]
    return b.emit(structured.Pad, operands[0], low=op.low, high=op.high, value=op.value)


def _read_on_line(op: graph.Gather, known: Mapping[Value, Literal]) -> list[Dim] | None:
    """Where a gather reads, if its places are known, all there are, and lie on a line."""
    literal, extent = known.get(op.indices), op.x.type.shape[op.axis]
    if literal is None or not isinstance(extent, int) or 0 in op.indices.type.shape:
        return None
    places = literal.array
    places = np.where(places < 0, places + extent, places)
    if places.min() < 0 or places.max() >= extent:
        return None
    own, after = identity(op.result.type.rank), op.axis + places.ndim
    line = on_line(places, own[op.axis : after])
    return None if line is None else [*own[: op.axis], line, *own[after:]]


def _concat(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    """Tensors within a larger one; columns that become neighbours are written side by side."""
    shape, axis = op.result.type.shape, len(op.result.type.shape) - 1
    columns = op.axis == axis and all(v.type.shape[-1] == 1 for v in operands)
    if not columns or len(operands) > _MOST_COLUMNS or graph.product(shape[:-1]) == 1:
        return b.emit(structured.Concat, operands, axis=op.axis)
    makers = {r: made for made in b.ops for r in made.results}
    sources = [_without_last(makers.get(v), v) for v in operands]
    scalars = [Value(TensorType(v.type.dtype)) for v in operands]
    rows = identity(axis)
    return b.emit(
        structured.Generic,
        tuple(sources),
        space=dims(shape[:-1]),
        maps=(
            *(tuple(rows) if v.type.rank == axis else (*rows, 0) for v in sources),
            *((*rows, k) for k in range(len(operands))),
        ),
        shapes=(shape,),
        combine=(None,) * len(operands),
        into=(0,) * len(operands),
        body=b.region(scalars, lambda inner: scalars),
    )


def _without_last(maker: Op | None, v: Value) -> Value:
    """What a view gave a last axis of one element; else the value itself."""
    if isinstance(maker, structured.Reshape) and maker.x.type.shape == v.type.shape[:-1]:
        return maker.x
    return v


def _insert_slice(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    x, new = operands
    axes = tuple(range(x.type.rank))
    maker = next((made for made in reversed(b.ops) if new in made.results), None)
    if isinstance(maker, structured.Reshape):
        # that an axis of one element is there or not is no other way to lie in memory
        long = [k for k in axes if new.type.shape[k] != 1]
        source = maker.x.type.shape
        if [n for n in source if n != 1] == [new.type.shape[k] for k in long]:
            longs, ones = iter(long), iter([k for k in axes if k not in long])
            if source.count(1) <= len(axes) - len(long):
                new, axes = maker.x, tuple(next(ones if n == 1 else longs) for n in source)
    return b.emit(structured.InsertSlice, x, new, starts=op.starts, steps=op.steps, axes=axes)


def _iota(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    shape = op.result.type.shape
    axis = symbol(f"d{op.axis}")

    def body(inner: Builder, scalars: Sequence[Value]) -> Value:
        return inner.emit(arith.Cast, scalars[0], dtype=op.dtype)

    return generic(b, [], dims(shape), [identity(len(shape))], shape, body, coordinates=(axis,))


def _sizes(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    """Each number a coordinate that depends on no dimension, one after the other."""

    def body(inner: Builder, scalars: Sequence[Value]) -> Value:
        return inner.emit(arith.Cast, scalars[0], dtype=op.dtype)

    if not op.shape:
        return generic(b, [], dims(()), [()], (), body, coordinates=op.values)
    one = dims((1,))
    parts = [generic(b, [], one, [identity(1)], (1,), body, coordinates=(n,)) for n in op.values]
    line = parts[0] if len(parts) == 1 else b.emit(structured.Concat, tuple(parts), axis=0)
    return b.emit(structured.Reshape, line, shape=op.shape)


def _accumulate(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    shape, combine = op.result.type.shape, op.combine
    maps = [identity(len(shape))] * 2
    return summed(b, operands, dims(shape, (op.axis,), SEQUENTIAL), maps, shape, _first, combine)


def _reduce(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    shape = operands[0].type.shape
    axes = tuple(a % len(shape) for a in op.axes)
    if op.keepdims:
        result: list[Dim] = [0 if k in axes else symbol(f"d{k}") for k in range(len(shape))]
    else:
        result = [symbol(f"d{k}") for k in range(len(shape)) if k not in axes]
    maps = [identity(len(shape)), result]
    out = op.result.type.shape
    return summed(b, operands, dims(shape, axes), maps, out, _first, op.combine)


def _window(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    shape = op.result.type.shape
    iters = [Iter(f"d{k}", n) for k, n in enumerate(shape)]
    read: list[Dim] = []
    for k, (size, stride, dilation) in enumerate(
        zip(op.size, op.strides, op.dilations, strict=True)
    ):
        at = symbol(f"d{k}") * stride
        if size != 1:
            iters.append(Iter(f"r{k}", size, REDUCTION))
            at = at + symbol(f"r{k}") * dilation
        read.append(at)
    maps = [read, identity(len(shape))]
    return summed(b, operands, Space(iters), maps, shape, _first, op.combine)


def _contract(b: Rebuilder, op: Any, operands: tuple[Value, ...]) -> Value:
    left, right, out = graph.parse_equation(op.equation)
    extent: dict[str, Dim] = {}
    for letters, value in zip((left, right), operands, strict=True):
        for letter, n in zip(letters, value.type.shape, strict=True):
            known = extent.get(letter, 1)
            # of what must be equal a number says most: weights of that many are packed once
            if known == 1 or (is_free((known,)) and isinstance(n, int) and n != 1):
                extent[letter] = n

    def read(letters: str, shape: Sequence[Dim]) -> list[Dim]:
        return [
            0 if n == 1 and extent[letter] != 1 else symbol(letter)
            for letter, n in zip(letters, shape, strict=True)
        ]

    order = [*out, *[letter for letter in dict.fromkeys(left + right) if letter not in out]]
    space = Space(
        Iter(letter, extent[letter], PARALLEL if letter in out else REDUCTION) for letter in order
    )
    shape = op.result.type.shape
    maps: list[list[Dim]] = [
        read(left, operands[0].type.shape),
        read(right, operands[1].type.shape),
        [symbol(letter) for letter in out],
    ]
    return summed(b, operands, space, maps, shape, _product(op), "add")


def _spatial(rank: int) -> list[str]:
    """Names of the spatial dimensions: w; h, w; d, h, w; beyond that they are numbered."""
    return [*"dhw"[3 - rank :]] if rank <= 3 else [f"s{k}" for k in range(rank)]


def _conv(
    b: Rebuilder,
    op: Any,
    operands: tuple[Value, ...],
    pad: graph.Pad | None,
    weights: Literal | None,
) -> Value:
    """n, spatial, channels | kernel, k: grouped channels are c = g * width + o.

    A depthwise one has no k. Terms are zero where `pad` has zeros and the `weights` are numbers.
    """
    x, w = operands
    last = op.layout == "channels_last"
    shape = op.result.type.shape
    spatial = _spatial(len(op.strides))
    extents = shape[1:-1] if last else shape[2:]
    channels, depth = w.type.shape[0], w.type.shape[1]
    iters = [Iter("n", shape[0])]
    iters += [Iter(name, n) for name, n in zip(spatial, extents, strict=True)]
    width = op.width
    depthwise = op.groups != 1 and width == 1 and depth == 1
    k: Dim = 0 if depthwise else symbol("k")
    if op.groups == 1 or depthwise:
        iters.append(Iter("c", channels))
        c: Dim = symbol("c")
        read_c = op.channel(c if depthwise else k)
    else:
        iters += [Iter("g", op.groups), Iter("o", width)]
        c = symbol("g") * width + symbol("o")
        read_c = op.channel(symbol("g") * depth + k)
    taps = [f"k{name}" for name in spatial]
    iters += [
        Iter(tap, n, REDUCTION) for tap, n in zip(taps, w.type.shape[2:], strict=True) if n != 1
    ]
    if not depthwise:
        iters.append(Iter("k", depth, REDUCTION))
    tap_at = [symbol(tap) if n != 1 else 0 for tap, n in zip(taps, w.type.shape[2:], strict=True)]
    at = [
        symbol(name) * stride + tap * dilation
        for name, tap, stride, dilation in zip(
            spatial, tap_at, op.strides, op.dilations, strict=True
        )
    ]
    n = symbol("n")
    read_x = [n, *at, read_c] if last else [n, read_c, *at]
    out: list[Dim] = [symbol(name) for name in spatial]
    maps: list[list[Dim]] = [read_x, [c, k, *tap_at], [n, *out, c] if last else [n, c, *out]]
    nonzero: list[tuple[Dim, Dim, Dim]] = []
    if pad is not None and not pad.value.array.any() and weights is not None:
        first = 1 if last else 2
        for axis, (e, tap) in enumerate(zip(at, tap_at, strict=True), first):
            low, high = pad.low[axis], pad.high[axis]
            if tap != 0 and (low != 0 or high != 0):
                nonzero.append((e, low, low + pad.x.type.shape[axis]))
        if nonzero and not is_finite(weights.array):
            nonzero = []
    space = Space(iters)
    return summed(b, [x, w], space, maps, shape, _product(op), "add", tuple(nonzero))


LOWER: dict[type[Op], Lower] = {
    graph.Constant: _constant,
    graph.Transpose: _transpose,
    graph.Slice: _slice,
    graph.Broadcast: _broadcast,
    graph.Pad: _pad,
    graph.Concat: _concat,
    graph.Frames: _frames,
    graph.InsertSlice: _insert_slice,
    graph.ScatterElements: lower_scatter,
    graph.ScatterND: lower_scatter,
    graph.Iota: _iota,
    graph.Sizes: _sizes,
    graph.Reduce: _reduce,
    graph.Window: _window,
    graph.Accumulate: _accumulate,
    graph.Contract: _contract,
    **GATHERS,
    graph.WinogradInput: winograd_input,
    graph.WinogradOutput: winograd_output,
}
