"""Operators that read images between their points."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generate.draft import Draft
from tests.generate.families.table import family
from tests.generate.sizes import sizes
from tests.generate.source import F32


@family
def grid_sample(draft: Draft) -> None:
    source = draft.source
    modes = ("linear", "nearest", "cubic") if draft.opset >= 20 else ("bilinear", "bicubic")
    n = source.pick((1, 2))
    x = draft.tensor((F32,), shape=(n, source.pick((1, 3)), 3, 4), special=0)
    where = source.rng.uniform(-1.4, 1.4, (n, source.extent(1), source.pick((1, 3)), 2))
    draft.node(
        "GridSample",
        [x, draft.fresh(where.astype(F32), 0.2)],
        mode=source.pick(modes),
        padding_mode=source.pick((None, "zeros", "border", "reflection")),
        align_corners=source.pick((None, 0, 1)),
    )


@family
def resize(draft: Draft) -> None:
    source = draft.source
    rank = source.pick((2, 3, 4, 4))
    shape = [source.pick((1, 2)), source.pick((1, 3)), 3, 5][4 - rank :]
    x = draft.tensor((F32,), shape=shape, special=0, exact=True)
    modes = ("nearest", "linear") if rank == 3 else ("nearest", "linear", "cubic")
    mode = source.pick(modes)
    ways = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attributes: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": source.pick(ways),
    }
    rounds = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "nearest":
        attributes["nearest_mode"] = source.pick(rounds)
    elif draft.opset >= 18 and source.chance(0.2):
        attributes["antialias"] = 1
    around = max(rank - 2, 0)
    last = rank - around
    empty = draft.constant(np.zeros(0, F32)) if draft.opset < 13 else None
    if source.chance(0.5):
        factors = [1.0] * around + [source.pick((0.5, 1.0, 1.5, 2.0, 3.0)) for _ in range(last)]
        scales = draft.constant(np.array(factors, F32))
        draft.node("Resize", [x, empty, scales], **attributes)
    else:
        target = [*shape[:around], *(source.count(1, 8) for _ in range(last))]
        draft.node("Resize", [x, empty, empty, sizes(draft, target)], **attributes)


@family
def roi_align(draft: Draft) -> None:
    source = draft.source
    k = source.pick((0, 1, 3))
    boxes = np.sort(source.rng.uniform(0, 5, (k, 2, 2)), axis=1).reshape(k, 4).astype(F32)
    x = draft.tensor((F32,), shape=(2, 2, 5, 6), special=0)
    which = source.rng.integers(0, 2, k)
    draft.node(
        "RoiAlign",
        [x, draft.fresh(boxes, 0.2), draft.fresh(which, 0.3)],
        output_height=source.pick((1, 2)),
        output_width=source.pick((1, 3)),
        sampling_ratio=source.pick((0, 1, 2)),
        spatial_scale=source.pick((None, 0.5)),
    )


@family
def affine_grid(draft: Draft) -> None:
    source = draft.source
    theta = draft.tensor((F32,), shape=(2, 2, 3), special=0)
    target = sizes(draft, [2, 1, source.pick((2, 3)), 4])
    draft.node("AffineGrid", [theta, target], align_corners=source.pick((None, 0, 1)))


@family
def columns(draft: Draft) -> None:
    source = draft.source
    step, border = source.pick((1, 2)), source.pick((0, 1))
    side = (4 + 2 * border - 2) // step + 1
    x = draft.tensor((F32,), shape=(1, 2 * 4, side * side), special=0)
    how: dict[str, Any] = {"strides": [step] * 2, "pads": [border] * 4}
    draft.node("Col2Im", [x, sizes(draft, [4, 4]), sizes(draft, [2, 2])], **how)
    if source.chance(0.3):
        image = draft.tensor((F32,), shape=(3, 5))
        target = [source.pick((2, 4, 7)), source.pick((3, 6))]
        draft.node("CenterCropPad", [image, sizes(draft, target)], exact=True)
