"""Operators that only say where elements are: reshaping, transposing, joining, cutting, taking.

A shape may hold free dimensions, also one computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from itertools import accumulate, zip_longest

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.dims import factors_of, likely_factor, ratio, undivided
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.lines import known_elements
from minicc.frontends.onnx.ops.take import take
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim, add, ceildiv, floordiv, minimum, multiply, sizes
from minicc.ir.affine_facts import at_least, greater, smaller
from minicc.ir.core import Value

# From here on an end of a slice means "to the end"; a start, stop and step.
_FAR = (1 << 31) - 1
# Free axes are taken to be no longer, so that one step of so many elements goes over them.
_LONGEST = 1_000_000_000
# Sizes below that are imported for themselves where a slice begins outside.
_NEAR = 8
Range = tuple[Dim, Dim, int]


@operator("Identity")
def identity(ctx: Context, node: Node, x: Value) -> Value:
    """The same tensor."""
    return x


@operator("Reshape", attributes="allowzero shape")
def reshape(ctx: Context, node: Node, x: Value, shape: Value | None = None) -> Value:
    """Another shape: 0 keeps an extent, -1 takes what is left; an attribute before opset 5."""
    wanted: list[Dim]
    if shape is None:
        given = node.integers("shape")
        if given is None:
            raise ctx.wrong("its shape is missing")
        wanted = list(given)
    else:
        wanted = list(ctx.dims(shape, "shape"))
    own = x.type.shape
    for k, n in enumerate(wanted):
        if n == 0 and not node.integer("allowzero", 0):
            if k >= len(own):
                raise ctx.refused(f"the shape {wanted} copies an axis that is not there")
            wanted[k] = own[k]
    free = [k for k, n in enumerate(wanted) if n == -1]
    if len(free) > 1 or any(isinstance(n, int) and n < -1 for n in wanted):
        raise ctx.refused(f"the shape {wanted} is none")
    for k in free:
        rest = ratio(own, [*wanted[:k], *wanted[k + 1 :]])
        for constants, even in ((False, False), (False, True), (True, False)):
            if rest is None:
                alike = _as_own(own, wanted, constants, even)
                rest = ratio(own, [*alike[:k], *alike[k + 1 :]])
        if rest is None:
            others = graph.product((*wanted[:k], *wanted[k + 1 :]))
            if isinstance(others, int) or not at_least(others, 0):
                raise ctx.refused(f"the shape {wanted} has no whole number for -1")
            # that both shapes hold as many elements becomes a guard
            rest = floordiv(graph.product(own), others)
        wanted[k] = rest
    if not node.integer("allowzero", 0) and graph.product(tuple(wanted)) != graph.product(own):
        # where data give 0, an extent of the tensor is copied
        may_be_0 = [n for n in wanted if ctx.decides(n) and not at_least(n, 1)]
        if may_be_0:
            raise ctx.free(may_be_0, "its shape")
    return ctx.reshape(x, wanted)


def _as_own(own: Sequence[Dim], wanted: Sequence[Dim], constants: bool, even: bool) -> list[Dim]:
    """The extents of a shape, each as a multiple of that of the tensor which it likely is one of.

    Exporters give the batch of each input a symbol of its own, and write an extent in other ways
    than windows do. With `constants` an extent may also be the tensor's number in its place, as of
    sizes that were made constants; with `even` it may be one that is rounded in another way, as of
    images of whole tiles. That the shape holds as many elements becomes a guard.
    """
    found: list[Dim] = []
    wanted = undivided(wanted)
    parts = [n for extent in own for n in factors_of(extent)] if even else []
    for n, here in zip_longest(wanted, own[: len(wanted)]):
        others = () if n in own else (here, *own, *parts)
        factors = ((m, likely_factor(m, n, k == 0, even)) for k, m in enumerate(others))
        made = constants and isinstance(here, int) and not isinstance(n, int) and not sizes(n)
        # what a slice leaves is never less than nothing
        left = greater(n, 0)
        rest = here if made else left if left in own else n
        found.append(next((m * factor for m, factor in factors if factor), rest))
    return found


@operator("Flatten", attributes="axis")
def flatten(ctx: Context, node: Node, x: Value) -> Value:
    """A matrix: the axes before `axis`, and the rest."""
    axis, rank = node.integer("axis", 1), x.type.rank
    at = rank if axis == rank else ctx.axes((axis,), rank)[0]
    return ctx.reshape(x, (graph.product(x.type.shape[:at]), graph.product(x.type.shape[at:])))


@operator("Transpose", attributes="perm")
def transpose(ctx: Context, node: Node, x: Value) -> Value:
    """The axes in another order; reversed where none is given."""
    perm = node.integers("perm") or tuple(reversed(range(x.type.rank)))
    return x if perm == tuple(range(x.type.rank)) else ctx.emit(graph.Transpose, x, perm=perm)


def moved(ctx: Context, x: Value, source: int, target: int) -> Value:
    """The tensor with one axis elsewhere (numpy.moveaxis)."""
    rank = x.type.rank
    (source,), (target,) = (ctx.axes((axis,), rank) for axis in (source, target))
    order = [k for k in range(rank) if k != source]
    order.insert(target, source)
    return x if order == sorted(order) else ctx.emit(graph.Transpose, x, perm=tuple(order))


def _axes(ctx: Context, node: Node, axes: Value | None) -> tuple[int, ...] | None:
    """The axes: an attribute before opset 13, then an input."""
    return node.integers("axes") if axes is None else ctx.integers(axes, "axes")


@operator("Squeeze", attributes="axes")
def squeeze(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    """Without some axes of extent 1; without all of those where none are named."""
    shape, named = x.type.shape, _axes(ctx, node, axes)
    if named is None:
        gone = [k for k, n in enumerate(shape) if n == 1]
        for n in shape:
            if not isinstance(n, int):  # sizes of 1, which a free one seldom is, are imported apart
                ctx.demand(minimum(n - 2, 0), 0, f"the axis {n}")
    else:
        gone = list(ctx.axes(named, x.type.rank))
        if any(isinstance(shape[k], int) and shape[k] != 1 for k in gone):
            raise ctx.refused(f"not all of the axes {list(named)} have extent 1")
    return ctx.reshape(x, [n for k, n in enumerate(shape) if k not in gone])


@operator("Unsqueeze", attributes="axes")
def unsqueeze(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    """With new axes of extent 1, counted in the result."""
    named = _axes(ctx, node, axes)
    if named is None:
        raise ctx.wrong("its axes are missing")
    shape = list(x.type.shape)
    for axis in ctx.axes(named, x.type.rank + len(named)):
        shape.insert(axis, 1)
    return ctx.reshape(x, shape)


@operator("Expand")
def expand(ctx: Context, node: Node, x: Value, shape: Value) -> Value:
    """Broadcast, both ways."""
    wanted = ctx.dims(shape, "shape")
    try:
        out = graph.broadcast_shapes(x.type.shape, wanted)
    except TypeError as error:
        raise ctx.refused(str(error)) from error
    for own, want in zip(reversed(x.type.shape), reversed(wanted), strict=False):
        if own != want and not isinstance(own, int) and not isinstance(want, int):
            # of 0 and 1 the greater is not what they broadcast to
            ctx.demand(minimum(own, 1), minimum(want, 1), f"an axis of {own} to {want}")
        if not ctx.decides(own, want):  # one is 1, or both are equal
            apart = multiply(multiply(own - 1, want - 1), own - want)
            ctx.demand(apart, 0, f"an axis of {own} to {want}")
    return x if out == x.type.shape else ctx.emit(graph.Broadcast, x, shape=out)


@operator("Concat", attributes="axis!4")
def concat(ctx: Context, node: Node, *xs: Value) -> Value:
    """One after the other along an axis."""
    axis = ctx.axis("axis", 1, xs[0].type.rank)
    return xs[0] if len(xs) == 1 else ctx.emit(graph.Concat, xs, axis=axis)


def cut(ctx: Context, x: Value, ranges: Mapping[int, Range]) -> Value:
    """Some axes from `start` before `stop`, as `graph.slice` counts; itself where that is all."""
    shape: tuple[Dim, ...] = x.type.shape
    full = [ranges.get(axis, (0, n, 1)) for axis, n in enumerate(shape)]
    if all(part == (0, n, 1) for part, n in zip(full, shape, strict=True)):
        return x
    starts, stops, steps = (tuple(column) for column in zip(*full, strict=True))
    return known_elements(ctx, ctx.emit(graph.Slice, x, starts=starts, stops=stops, steps=steps))


def _normal(extent: Dim, start: Dim, stop: Dim, step: int) -> Range:
    """A slice as `graph.slice` counts it.

    A start or stop that is free is an extent, or what is computed of some: it is not negative, or
    it surely counts from the end.
    Of a free axis an end is clamped like any other, and so is a start far from the first element
    or the last. One that is `near` is taken to lie within, and so is a slice of one element: the
    few sizes that are less than that do not fit the graph, and are imported for themselves.
    """
    if not isinstance(start, int) or not isinstance(stop, int):
        return _normal_free(extent, start, stop, step)
    if isinstance(extent, int):
        if step < 0 < extent:
            start = max(start, -extent)  # backwards from before the first is from the first
        taken = range(*slice(start, stop, step).indices(extent))
        return (taken.start, taken.stop, step) if taken else (0, 0, 1)
    last = extent if step > 0 else extent - 1
    first: Dim = last if start >= _FAR else start if start <= _NEAR else minimum(start, last)
    if start < 0:
        surely = step > 0 or start == -1
        count = _within(-start, extent) if surely else minimum(-start, extent)
        first = 0 if start <= -_FAR else extent - count
    if stop <= -_FAR:
        return first, (0 if step > 0 else -1), step
    if stop < 0:
        # backwards, the first element is taken too where the stop lies before it
        return first, extent - _within(-stop, extent if step > 0 else extent + 1), step
    if stop >= _FAR or step < 0:
        return first, (last if stop >= _FAR else stop), step
    return first, (stop if first + 1 == stop else _within(stop, extent)), step


def _exact(ctx: Context, extent: Dim, start: Dim, stop: Dim, step: int) -> Range:
    """The same where data or rounds decide sizes, which are as they are: all ends are clamped.

    Of an end that is free it must be known whether it is negative.
    """
    last = extent if step > 0 else extent - 1
    known = ctx.symbols

    def clamped(end: Dim, least: int) -> Dim:
        if isinstance(end, int) and abs(end) >= _FAR:
            return least if end < 0 else last
        if known.at_least(-1, end):
            return known.greater(extent + end, least)
        if not known.at_least(end, 0):
            ctx.demand(minimum(end, 0), 0, f"an end of a slice, {end}")
        return known.smaller(end, last)

    if step > 0:
        first = clamped(start, 0)
        return first, known.greater(clamped(stop, 0), first), step
    first = known.smaller(clamped(start, 0), last)
    return first, known.smaller(clamped(stop, -1), first), step


def _place_in_rounds(ctx: Context, index: Value, extent: Dim) -> Dim | None:
    """Where an index is from the front, if the round tells that and it is always within."""
    known = ctx.symbols
    if not known.rounds or index.type.shape not in ((), (1,)):
        return None
    (place,) = ctx.partly(index)
    if place is None or not known.turns(place):
        return None
    place = place + extent if known.at_least(-1, place) else place
    return place if known.at_least(place, 0) and known.at_least(extent, place + 1) else None


def _within(count: int, extent: Dim) -> Dim:
    """How many elements those are of an axis, where it surely has as many if they are few."""
    return count if count <= _NEAR else minimum(count, extent)


def _is_backwards(end: Dim) -> bool:
    """Whether the free end of a slice is surely not positive, as `-n` of a size."""
    return not isinstance(end, int) and at_least(0, end)


def _normal_free(extent: Dim, start: Dim, stop: Dim, step: int) -> Range:
    """The same where the start or the stop is not a number; the step is forward."""

    def counted(end: Dim) -> Dim:
        if not isinstance(end, int):
            return extent + end if _is_backwards(end) else end
        if abs(end) >= _FAR:
            return extent if end > 0 else 0
        return end if end >= 0 else extent + end

    return counted(start), smaller(counted(stop), extent), step


def _of_one(ctx: Context, extent: Dim, start: Dim, stop: Dim, step: int) -> tuple[Dim, int]:
    """The stop and the step of a slice, which ends after one element if it is to take one.

    One element is all that a step over a whole axis gives, and tf2onnx writes an index so.
    """
    known, most = ctx.symbols, extent if isinstance(extent, int) else _LONGEST
    far = isinstance(stop, int) and stop >= most
    if step < most:
        return stop, step
    if not known.at_least(start, 0) or not (far or known.at_least(stop, 0)):
        return stop, step
    if not isinstance(extent, int):
        ctx.demand(minimum(most - extent, 0), 0, "an axis that one step goes over")
    return (start + 1 if far else known.smaller(stop, start + 1)), 1


@operator("Slice", attributes="axes ends starts")
def slice_(
    ctx: Context,
    node: Node,
    x: Value,
    starts: Value | None = None,
    ends: Value | None = None,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Value:
    """Parts of axes: attributes before opset 10, then inputs."""
    if starts is None or ends is None:
        first, last, named = (node.integers(name) for name in ("starts", "ends", "axes"))
        low: tuple[Dim, ...] | None = first
        high: tuple[Dim, ...] | None = last
        by: tuple[int, ...] | None = None
    else:
        low, high = ctx.dims(starts, "starts"), ctx.dims(ends, "ends")
        named = None if axes is None else ctx.integers(axes, "axes")
        by = None if steps is None else ctx.integers(steps, "steps")
    if low is None or high is None:
        raise ctx.wrong("its starts or ends are missing")
    named = tuple(range(len(low))) if named is None else named
    by = tuple([max(-_FAR, min(k, _FAR)) for k in by or (1,) * len(low)])
    if not len(low) == len(high) == len(named) == len(by) or 0 in by:
        raise ctx.wrong(f"starts {list(low)}, ends {list(high)}, axes {list(named)}, {list(by)}")
    ctx.axes(named, x.type.rank)
    axes_ = [a % x.type.rank for a in named]
    each = zip(axes_, low, high, by, strict=True)
    parts = [(a, i, *_of_one(ctx, x.type.shape[a], i, j, k)) for a, i, j, k in each]
    for _, i, j, k in parts:
        if k < 0 and not (isinstance(i, int) and isinstance(j, int)):
            ctx.static(j if isinstance(i, int) else i, "a slice that goes backwards")
    for a, i, j, _ in parts:
        for end in filter(_is_backwards, (i, j)):
            # where it is 0 it counts from the first element
            if x.type.shape[a] + end != 0 and not ctx.symbols.at_least(-1, end):
                ctx.demand(minimum(-end - 1, 0), 0, f"an end of the slice of axis {a}")
    given = [(a, (x.type.shape[a], i, j, k)) for a, i, j, k in parts]
    exact = partial(_exact, ctx)
    return cut(ctx, x, {a: (exact if ctx.decides(*d[:3]) else _normal)(*d) for a, d in given})


@operator("Split", attributes="axis num_outputs split")
def split(ctx: Context, node: Node, x: Value, sizes: Value | None = None) -> tuple[Value, ...]:
    """Parts of an axis, of given sizes or as many as there are outputs."""
    axis = ctx.axis("axis", 0, x.type.rank)
    total: Dim = x.type.shape[axis]
    given: Sequence[Dim] | None
    given = node.integers("split") if sizes is None else ctx.dims(sizes, "sizes")
    if given is None:
        count = node.integer("num_outputs", len(node.outputs))
        if count != len(node.outputs):
            raise ctx.wrong(f"num_outputs is {count} for {len(node.outputs)} outputs")
        width = ceildiv(total, count)
        given = [minimum(width, total - k * width) for k in range(count)]
        if not isinstance(total, int):
            # no part but the last is shorter
            given = [width] * (count - 1) + [total - width * (count - 1)]
    below = any(isinstance(n, int) and n < 0 for n in given)
    text = f"parts of {list(given)} of axis {axis}"
    if below or not given:
        raise ctx.refused(text)
    ctx.demand(total, reduce(add, given), text)
    ends = list(accumulate(given, add))
    return tuple(cut(ctx, x, {axis: (end - n, end, 1)}) for n, end in zip(given, ends, strict=True))


@operator("Gather", attributes="axis")
def gather(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    """What stands at indices of an axis; negative ones count from its end."""
    return pick(ctx, x, indices, ctx.axis("axis", 0, x.type.rank))


def pick(ctx: Context, x: Value, indices: Value, axis: int) -> Value:
    """What stands at indices of an axis, which may count from its end."""
    known = ctx.array(indices)
    if known is not None and ctx.array(x) is None and isinstance(x.type.shape[axis], int):
        return take(ctx, x, known, axis)
    place = _place_in_rounds(ctx, indices, x.type.shape[axis])
    if place is not None:
        row = cut(ctx, x, {axis: (place, place + 1, 1)})
        return ctx.reshape(
            row, (*x.type.shape[:axis], *indices.type.shape, *x.type.shape[axis + 1 :])
        )
    return ctx.emit(graph.Gather, x, indices, axis=axis)
