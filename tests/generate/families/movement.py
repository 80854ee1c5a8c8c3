"""Operators that only place elements elsewhere."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from tests.generate.draft import Draft, Unfit
from tests.generate.families.table import family
from tests.generate.sizes import sizes, squeeze, unsqueeze
from tests.generate.source import ANY, BOOL, F32, F64, I64, NUMBERS, Source


@family
def transpose(draft: Draft) -> None:
    x = draft.tensor(ANY)
    perm = [int(k) for k in draft.source.rng.permutation(x.rank)]
    draft.node(
        "Transpose", [x], exact=True, perm=perm if perm and draft.source.chance(0.8) else None
    )


def _factors(source: Source, count: int, parts: int) -> list[int]:
    """Whole numbers whose product is `count`."""
    found = []
    for _ in range(parts - 1):
        divisors = [k for k in range(1, min(count, 12) + 1) if count % k == 0] or [1]
        found.append(source.pick(divisors))
        count //= found[-1]
    return [*found, count]


@family
def reshape(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(ANY)
    size = int(np.prod(x.shape))
    if size and source.chance(0.7):
        target = _factors(source, size, source.count(1, 4))
    else:
        target = [int(n) for n in source.rng.permutation(x.shape)]
    if size and target and source.chance(0.5):
        target[source.count(0, len(target) - 1)] = -1
    elif size and x.rank and source.chance(0.5):
        target = list(x.shape)
        target[source.count(0, x.rank - 1)] = 0
    allow = 1 if draft.opset >= 14 and not size else None
    if not size and allow is None:
        raise Unfit("a zero of the shape would mean the input's size")
    draft.node("Reshape", [x, sizes(draft, target)], exact=True, allowzero=allow)


@family
def flatten(draft: Draft) -> None:
    x = draft.tensor(ANY)
    low = -x.rank if draft.opset >= 11 else 0
    axis = draft.source.pick((None, draft.source.count(low, x.rank)))
    if axis is None and not x.rank:
        raise Unfit("the default axis is 1")
    draft.node("Flatten", [x], exact=True, axis=axis)


@family
def squeezed(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(ANY)
    ones = [k for k, n in enumerate(x.shape) if n == 1]
    if not ones or source.chance(0.3):
        draft.node("Squeeze", [x], exact=True)
        return
    squeeze(draft, x, source.signs(ones, x.rank) if draft.opset >= 11 else ones)


@family
def unsqueezed(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(ANY, accept=lambda i: i.rank < 4)
    rank = x.rank + source.count(1, 2)
    axes = sorted(int(k) for k in source.rng.permutation(rank)[: rank - x.rank])
    unsqueeze(draft, x, source.signs(axes, rank) if draft.opset >= 11 else axes)


@family
def expand(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(ANY)
    target = [source.pick((n, n, 1)) if n != 1 else source.extent() for n in x.shape]
    if source.chance(0.3):
        target.insert(0, 2)
    draft.node("Expand", [x, sizes(draft, target)], exact=True)


@family
def tile(draft: Draft) -> None:
    x = draft.tensor(ANY)
    least = int(draft.source.chance(0.9))
    repeats = [draft.source.count(least, 3) for _ in x.shape]
    if not repeats:
        raise Unfit("nothing to repeat")
    draft.node("Tile", [x, sizes(draft, repeats)], exact=True)


@family
def concat(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(ANY, accept=lambda i: i.rank > 0)
    axis = source.count(0, x.rank - 1)
    others = [
        draft.like(x, [source.extent() if k == axis else n for k, n in enumerate(x.shape)])
        for _ in range(source.pick((0, 1, 1, 2)))
    ]
    sign = x.rank if draft.opset >= 11 and source.chance(0.3) else 0
    draft.node("Concat", [x, *others], exact=True, axis=axis - sign)


@family
def split(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(ANY, accept=lambda i: i.rank > 0)
    axis = source.axis(x.rank) if draft.opset >= 11 else source.count(0, x.rank - 1)
    size, parts = x.shape[axis], source.count(1, 3)
    if draft.opset >= 18 and source.chance(0.4):
        share = -(-size // parts)
        if share * (parts - 1) > size or not size:
            raise Unfit("an empty part")
        draft.node("Split", [x], parts, exact=True, axis=axis, num_outputs=parts)
        return
    cuts = sorted(source.count(0, size) for _ in range(parts - 1))
    lengths = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    if draft.opset >= 13:
        draft.node("Split", [x, sizes(draft, lengths)], parts, exact=True, axis=axis)
    else:
        draft.node("Split", [x], parts, exact=True, axis=axis, split=lengths)


_FAR = 2**63 - 1


@family
def slice_(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(ANY, accept=lambda i: i.rank > 0)
    axes = source.subset(x.rank)
    steps = [source.pick((1, 1, 2, -1, -2, 3)) for _ in axes]
    starts = [source.pick((_FAR, -_FAR, *range(-6, 7))) for _ in axes]
    ends = [source.pick((_FAR, -_FAR, *range(-6, 7))) for _ in axes]
    for k, step in enumerate(steps):
        if step < 0:
            # the reference starts such a slice before the first element, where the specification
            # clamps it; ONNX Runtime takes the largest end for none
            starts[k] = max(starts[k], -x.shape[axes[k]])
            ends[k] = min(ends[k], 6)
    if draft.opset < 10:
        draft.node("Slice", [x], exact=True, starts=starts, ends=ends, axes=axes)
        return
    signed = source.signs(axes, x.rank)
    vectors = [sizes(draft, v) for v in (starts, ends, signed, steps)]
    if source.chance(0.4) and all(s == 1 for s in steps):
        vectors.pop()
    draft.node("Slice", [x, *vectors], exact=True)


@family
def pad(draft: Draft) -> None:
    source = draft.source
    modes = ("constant", "constant", "edge", "reflect")
    mode = source.pick((*modes, "wrap") if draft.opset >= 19 else modes)
    least = 2 if mode != "constant" else 0
    x = draft.tensor(NUMBERS, accept=lambda i: i.rank > 0, least=least)
    low = -1 if mode in ("constant", "edge") and source.chance(0.3) and min(x.shape) > 1 else 0
    pads = [source.count(low, 1 if mode in ("reflect", "wrap") else 3) for _ in range(2 * x.rank)]
    if draft.opset < 11:
        draft.node("Pad", [x], exact=True, mode=mode, pads=pads)
        return
    value = draft.fresh(source.array((), x.dtype), 0.8) if source.chance(0.5) else None
    draft.node("Pad", [x, sizes(draft, pads), value], exact=True, mode=mode)


@family
def blocks(draft: Draft) -> None:
    source = draft.source
    n, h, w = source.extent(), source.extent(1), source.extent(1)
    if source.chance(0.5):
        x = draft.tensor((F32, F64), shape=(n, source.pick((4, 8)), h, w))
        mode = source.pick((None, "DCR", "CRD")) if draft.opset >= 11 else None
        draft.node("DepthToSpace", [x], exact=True, blocksize=2, mode=mode)
    else:
        x = draft.tensor((F32, F64), shape=(n, source.extent(1), 2 * min(h, 5), 2 * min(w, 5)))
        draft.node("SpaceToDepth", [x], exact=True, blocksize=2)


@family
def trilu(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((F32, F64, I64, BOOL), accept=lambda i: i.rank >= 2, rank=source.pick((2, 3)))
    k = draft.fresh(np.int64(source.count(-3, 3)), 0.7) if source.chance(0.6) else None
    draft.node("Trilu", [x, k], exact=True, upper=source.pick((None, 0, 1)))


@family
def constants(draft: Draft) -> None:
    source = draft.source
    kind = source.pick(("EyeLike", "ConstantOfShape", "Constant", "Shape", "Size"))
    if kind == "EyeLike":
        dtype = source.pick((None, F32, I64, BOOL, F64))
        to = None if dtype is None else helper.np_dtype_to_tensor_dtype(dtype)
        x = draft.tensor((F32, I64), 2)
        draft.node(kind, [x], exact=True, k=source.count(-3, 3), dtype=to)
    elif kind == "ConstantOfShape":
        dtype = source.pick((F32, F64, I64, BOOL, None))
        value = None if dtype is None else numpy_helper.from_array(source.array((1,), dtype))
        draft.node(kind, [sizes(draft, source.shape())], exact=True, value=value)
    elif kind == "Constant":
        value = numpy_helper.from_array(source.array(source.shape(), source.pick(ANY)))
        draft.node(kind, [], exact=True, value=value)
    else:
        draft.node(kind, [draft.tensor(ANY)], exact=True)
