"""Resize and Upsample: an axis after the other, with weights that are known at import.

Nearest neighbours are taken by slices and repetition, or gathered; an interpolation of few taps is
a sum with an element gathered for each. One of many (`antialias`) is a product with a band of a
matrix: neighbouring results share the elements that they are made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.floats import whole_of
from minicc.frontends.onnx.lazy import Lazy
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.interpolation import Axis, Table, table_of
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.resize_free import resized_free
from minicc.frontends.onnx.ops.take import take
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim, floordiv, maximum, minimum
from minicc.ir.affine_facts import exact_quotient
from minicc.ir.core import Array, Value
from minicc.ir.reals import Part, Real
from minicc.ir.types import F32, F64

# Where elements are only repeated at a whole scale: coordinates, and how they are rounded.
_PLAIN = {("asymmetric", "floor")}
_PLAIN |= {("half_pixel", f"round_prefer_{side}") for side in ("floor", "ceil")}
# Those with more taps are products with a band, in which a NaN enters all results of its block.
_MOST_GATHERED = 4
# How many results of the last axis are computed of the same elements: those of a vector.
_BLOCK = 16
_ATTRIBUTES = "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
_ATTRIBUTES += "extrapolation_value keep_aspect_ratio_policy mode nearest_mode"


@operator("Resize", attributes=_ATTRIBUTES)
def resize(
    ctx: Context,
    node: Node,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
) -> Value:
    """Along given axes, by scales or to sizes."""
    if ctx.opset < 11:
        return upsample(ctx, node, x, roi)
    rank = x.type.rank
    given = node.integers("axes")
    axes = tuple(range(rank)) if given is None else tuple(a % rank for a in given)
    repeats = _repeats(ctx, node, scales)
    if repeats is not None and len(repeats) == len(axes):
        return repeated(ctx, x, dict(zip(axes, repeats, strict=True)))
    extents = [x.type.shape[a] for a in axes]
    factors, lengths = _lengths(ctx, node, extents, scales, sizes)
    mode = node.text("coordinate_transformation_mode", "half_pixel")
    crop = [0.0] * len(axes) + [1.0] * len(axes)
    if mode == "tf_crop_and_resize" and roi is not None:
        crop = _corners(ctx, roi, len(axes))
    plans = {
        axis: Axis(
            extents[k],
            lengths[k],
            factors[k],
            node.text("mode", "nearest"),
            mode,
            node.text("nearest_mode", "round_prefer_floor"),
            node.number("cubic_coeff_a", -0.75),
            bool(node.integer("antialias", 0)),
            bool(node.integer("exclude_outside", 0)),
            (crop[k], crop[k + len(axes)]),
        )
        for k, axis in enumerate(axes)
    }
    return _resized(ctx, x, plans, node.number("extrapolation_value", 0.0))


def _corners(ctx: Context, roi: Value, count: int) -> list[Any]:
    """Where the part that is resized begins along each axis, and then where it ends."""
    known = ctx.array(roi)
    if known is not None and known.size == 2 * count:
        return [float(n) for n in known.ravel()]
    roi = ctx.taken_as(roi, (2 * count,))
    return [_element(ctx, roi, k) for k in range(2 * count)]


def _element(ctx: Context, vector: Value, k: int) -> Lazy:
    return Lazy(ctx, ctx.cast(ctx.reshape(cut(ctx, vector, {0: (k, k + 1, 1)}), ()), F64))


def _repeats(ctx: Context, node: Node, scales: Value | None) -> tuple[int, ...] | None:
    """How often each element stands along each axis, where that is all that a node does."""
    known = ctx.array(scales)
    place = node.text("coordinate_transformation_mode", "half_pixel")
    way = (place, node.text("nearest_mode", "round_prefer_floor"))
    if known is None or not known.size or node.text("mode", "nearest") != "nearest":
        return None
    if way not in _PLAIN or (known < 1).any() or (known % 1).any():
        return None
    return tuple(int(n) for n in known.ravel())


def repeated(ctx: Context, x: Value, often: Mapping[int, int]) -> Value:
    """Each element so many times along axes, which may be free."""
    apart: list[Dim] = []
    wide: list[Dim] = []
    whole: list[Dim] = []
    for axis, n in enumerate(x.type.shape):
        times = often.get(axis, 1)
        apart += [n] if times == 1 else [n, 1]
        wide += [n] if times == 1 else [n, times]
        whole.append(n * times)
    if len(apart) == x.type.rank:
        return x
    many = ctx.emit(graph.Broadcast, ctx.reshape(x, tuple(apart)), shape=tuple(wide))
    return ctx.reshape(many, tuple(whole))


@operator("Upsample", attributes="height_scale mode scales width_scale")
def upsample(ctx: Context, node: Node, x: Value, scales: Value | None = None) -> Value:
    """Resize by scales, asymmetric, as Resize did in opset 10; an attribute before opset 9."""
    if scales is not None:
        factors = ctx.floats(scales, "scales")
    elif "scales" in node.attributes:
        factors = [*node.numbers("scales")]
    elif ctx.opset >= 7:
        raise ctx.wrong("its scales are missing")
    else:
        factors = [1.0, 1.0, node.number("height_scale", 1), node.number("width_scale", 1)]
    _check_scales(ctx, factors)
    mode = {"bilinear": "linear"}.get(node.text("mode", "nearest"), node.text("mode", "nearest"))
    if len(factors) != x.type.rank:
        raise ctx.refused(f"{len(factors)} scales for {x.type.rank} axes")
    plans: dict[int, Axis] = {}
    numbers = _numbers(ctx, factors, scales)
    for axis, (n, factor) in enumerate(zip(x.type.shape, factors, strict=True)):
        if factor != 1:
            sides = (n, _scaled_extent(n, factor), numbers[axis])
            plans[axis] = Axis(*sides, mode, "asymmetric", "floor", -0.75, False, False, (0, 1))
    return _resized(ctx, x, plans, 0.0)


def _lengths(
    ctx: Context, node: Node, extents: Sequence[Dim], scales: Value | None, sizes: Value | None
) -> tuple[list[Any], list[Dim]]:
    """The scale of each axis, None where it is that of both extents, and the new extent."""
    count = len(extents)
    given = [] if scales is None else ctx.floats(scales, "scales")
    if given:
        if len(given) != count:
            raise ctx.refused(f"{len(given)} scales for {count} axes")
        _check_scales(ctx, given)
        lengths = [_scaled_extent(n, f) for n, f in zip(extents, given, strict=True)]
        return _numbers(ctx, given, scales), lengths
    if sizes is None:
        raise ctx.wrong("it has neither scales nor sizes")
    lengths = list(ctx.dims(sizes, "sizes"))
    if len(lengths) != count:
        raise ctx.refused(f"{len(lengths)} sizes for {count} axes")
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [_factor(m, n) for m, n in zip(lengths, extents, strict=True)], lengths
    if policy not in ("not_larger", "not_smaller"):
        raise ctx.wrong(f"attribute keep_aspect_ratio_policy is {policy!r}")
    return _of_one_scale(ctx, lengths, extents, policy == "not_larger")


def _of_one_scale(
    ctx: Context, lengths: Sequence[Dim], extents: Sequence[Dim], least: bool
) -> tuple[list[Any], list[Dim]]:
    """The least or the greatest scale of the axes for each of them, and the extents by that."""
    count, pairs = len(extents), list(zip(lengths, extents, strict=True))
    sides = [n for n in (*lengths, *extents) if isinstance(n, int)]
    if len(sides) == 2 * count:
        known = [m / n if n else 1.0 for m, n in zip(sides[:count], sides[count:], strict=True)]
        factor = min(known) if least else max(known)
        return [factor] * count, [int(factor * n + 0.5) for n in sides[count:]]
    scales: list[Any] = []
    for pair in pairs:
        m, n = (Lazy(ctx, ctx.extent(side, F64)) for side in pair)
        scales.append(m / n)
    scale = reduce(np.minimum if least else np.maximum, scales)
    chosen = minimum if least else maximum
    # half an element more, cut off
    rounded = [
        [m if n == own else floordiv(2 * m * n + own, 2 * own) for m, own in pairs] for n in extents
    ]
    return [scale] * count, [reduce(chosen, each) for each in rounded]


def _numbers(ctx: Context, scales: Sequence[Part], given: Value | None) -> list[Any]:
    """Scales as they are, but those that sizes decide as values: elements of what was given."""
    if given is None:
        return [*scales]
    return [f if isinstance(f, float) else _element(ctx, given, k) for k, f in enumerate(scales)]


def _check_scales(ctx: Context, scales: Sequence[Part]) -> None:
    """MC0128 where one is no positive number."""
    for scale in scales:
        if isinstance(scale, float) and not 0 < scale < np.inf:
            raise ctx.refused(f"the scale {scale:g}, which must be a positive number")


def _scaled_extent(n: Dim, factor: Part) -> Dim:
    """The whole part of an extent times a factor, in single precision.

    So ONNX's shape inference (`defs/tensor/utils.cc`) and ONNX Runtime have it: of ten elements
    0.7 times as many are seven, though 0.7 in single precision is less than that.
    """
    return whole_of(Real("mul", Real("f32", n), factor))


def _factor(m: Dim, n: Dim) -> float | None:
    """The quotient of two extents, as far as it is known."""
    if isinstance(m, int) and isinstance(n, int):
        return m / n if n else 1.0
    if m == n:
        return 1.0
    whole, part = exact_quotient(m, n), exact_quotient(n, m)
    if isinstance(whole, int):
        return float(whole)
    return 1 / part if isinstance(part, int) else None


def _resized(ctx: Context, x: Value, plans: dict[int, Axis], fill: float) -> Value:
    """Each axis after the other, in the order of `_turn`; integers by way of f32."""
    element = x.type.dtype
    modes = {plan.mode for plan in plans.values()}
    if not modes <= {"nearest", "linear", "cubic"}:
        raise ctx.wrong(f"attribute mode is {modes.pop()!r}")
    exact = modes == {"nearest"}
    wide = x if exact or element.name in ("f32", "f64") else ctx.cast(x, F32)
    for axis, plan in sorted(plans.items(), key=lambda item: _turn(item, x.type.rank)):
        cropped = isinstance(plan.roi[0], Lazy)
        if _is_none(plan):
            continue
        try:
            if not all(isinstance(n, int | float) for n in (plan.extent, plan.length, plan.scale)):
                wide = _free(ctx, wide, axis, plan, fill)
                continue
            if not plan.length:
                wide = cut(ctx, wide, {axis: (0, 0, 1)})
                continue
            if cropped and plan.extent:
                wide = resized_free(ctx, wide, axis, plan, fill)
                continue
            taps = table_of(plan)
        except ValueError as error:
            raise ctx.wrong(str(error)) from error
        if not plan.extent:
            raise ctx.refused(f"axis {axis} has {plan.extent} elements and gets {plan.length}")
        wide = _along(ctx, wide, axis, plan.extent, taps)
        if taps.outside.any():
            shape = (-1, *(1,) * (x.type.rank - axis - 1))
            here = ctx.constant(taps.outside.reshape(shape))
            wide = ctx.emit(graph.Select, here, ctx.scalar(fill, wide), wide)
    if wide.type.dtype is element:
        return wide
    if element.is_integer:
        limits = np.iinfo(element.numpy)
        wide = ctx.emit(graph.Round, wide)
        wide = ctx.emit(graph.Max, wide, ctx.scalar(float(limits.min), wide))
        wide = ctx.emit(graph.Min, wide, ctx.scalar(float(limits.max), wide))
    return ctx.cast(wide, element)


def _is_none(plan: Axis) -> bool:
    """Whether an axis stays as it is."""
    known = isinstance(plan.scale, float) and not isinstance(plan.roi[0], Lazy)
    return known and plan.scale == 1 and plan.extent == plan.length and plan.roi == (0, 1)


def _turn(item: tuple[int, Axis], rank: int) -> tuple[float, int]:
    """Axes that shrink go first, and those that grow last, but the last axis between them.

    A result of that is more work, as vectors do not run along it. Of free axes the last goes
    first, whose elements are gathered singly.
    """
    axis, plan = item
    known = isinstance(plan.extent, int) and isinstance(plan.length, int)
    scale = plan.scale if isinstance(plan.scale, float) else 0.0
    if known and axis == rank - 1:
        return 1.0, axis
    return scale or 1.0, axis if known else -axis


def _free(ctx: Context, x: Value, axis: int, plan: Axis, fill: float) -> Value:
    """An axis of which an extent is free."""
    plain = plan.mode == "nearest" and (plan.coordinates, plan.nearest) in _PLAIN
    times = int(plan.scale) if isinstance(plan.scale, float) else 0
    if plain and times and times == plan.scale:
        return repeated(ctx, x, {axis: times})
    return resized_free(ctx, x, axis, plan, fill)


def _along(ctx: Context, x: Value, axis: int, extent: int, taps: Table) -> Value:
    """One axis, whose taps are known."""
    inside = np.clip(taps.indices, 0, extent - 1)
    if taps.indices.shape[1] == 1:
        return take(ctx, x, inside[:, 0], axis)
    if taps.indices.shape[1] <= _MOST_GATHERED:
        return _by_taps(ctx, x, axis, inside, taps)
    return _by_bands(ctx, x, axis, extent, taps)


def _by_taps(ctx: Context, x: Value, axis: int, inside: Array, taps: Table) -> Value:
    """A sum with an element gathered for each tap; what is no tap's does not enter it."""
    after = (1,) * (x.type.rank - axis - 1)
    parts: list[Value] = []
    for place, weight in zip(inside.T, taps.weights.T, strict=True):
        if weight.any():
            factor = ctx.constant(weight.reshape(-1, *after).astype(x.type.dtype.numpy))
            parts.append(ctx.emit(graph.Mul, _gathered(ctx, x, place, axis), factor))
    if not parts:  # of an extent that floats can't count
        return ctx.emit(graph.Mul, take(ctx, x, inside[:, 0], axis), ctx.scalar(0.0, x))
    return reduce(lambda a, b: ctx.emit(graph.Add, a, b), parts)


def _gathered(ctx: Context, x: Value, places: Array, axis: int) -> Value:
    """The elements at some places: a slice or a gather, which are read where they are used."""
    if len(np.unique(np.diff(places))) <= 1:
        return take(ctx, x, places, axis)
    return ctx.emit(graph.Gather, x, ctx.constant(places), axis=axis)


def _by_bands(ctx: Context, x: Value, axis: int, extent: int, taps: Table) -> Value:
    """A product for each block of results with the elements that are taps of any of them."""
    length = len(taps.indices)
    block = _BLOCK if axis == x.type.rank - 1 else 1
    firsts = np.arange(0, length, block)
    low = np.minimum.reduceat(taps.indices.min(axis=1), firsts)
    size = int((np.maximum.reduceat(taps.indices.max(axis=1), firsts) - low).max()) + 1
    if size >= extent:
        block, low, size = length, low[:1], extent
    starts = np.clip(low, 0, extent - size)
    number, row = np.divmod(np.arange(length)[:, None], block)
    band = np.zeros((len(starts), block, size))
    inside = np.clip(taps.indices, 0, extent - 1) - starts[number]
    np.add.at(band, (number, row, inside), taps.weights)
    weights = ctx.constant(band.astype(x.type.dtype.numpy))
    places = starts[:, None] + np.arange(size)
    letters = "abcdefgh"[: x.type.rank]
    before, after = letters[:axis], letters[axis + 1 :]
    shared = ctx.emit(graph.Gather, x, ctx.constant(places), axis=axis)
    equation = f"{before}zt{after},zrt->{before}zr{after}"
    out = ctx.emit(graph.Contract, shared, weights, equation=equation)
    shape = x.type.shape
    whole = ctx.reshape(out, (*shape[:axis], len(starts) * block, *shape[axis + 1 :]))
    return cut(ctx, whole, {axis: (0, length, 1)})
