"""Convolutions and pools."""

from __future__ import annotations

from typing import Any

from tests.generate.draft import Draft, Item, Unfit
from tests.generate.families.table import family
from tests.generate.source import F32, F64, U8, Array, Source


class _Window:
    """A window over images: its extents, steps and borders, which fit the images."""

    def __init__(self, source: Source, dilated: bool) -> None:
        self.dims = source.pick((1, 2, 2, 2, 3))
        self.kernel = [source.count(1, 3) for _ in range(self.dims)]
        self.strides = [source.count(1, 3) for _ in range(self.dims)]
        self.dilations = [2 if dilated and source.chance(0.2) else 1 for _ in range(self.dims)]
        self.auto = source.pick((None, None, None, "SAME_UPPER", "SAME_LOWER", "VALID"))
        self.pads = None
        if self.auto is None and source.chance(0.6):
            self.pads = [min(source.count(0, 1), k - 1) for k in self.kernel * 2]

    def spatial(self, source: Source) -> list[int]:
        """Extents of images that the window fits in."""
        least = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        return [max(n, source.pick((1, 3, 5, 8, 19))) for n in least]

    def attributes(self, dilated: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"strides": self.strides, "auto_pad": self.auto, "pads": self.pads}
        if dilated and set(self.dilations) != {1}:
            found["dilations"] = self.dilations
        return found


def _images(draft: Draft, channels: int, spatial: list[int], **how: Any) -> Item:
    batch = draft.source.pick((1, 1, 2, 3))
    return draft.tensor((F32,), shape=(batch, channels, *spatial), **how)


def _is_image(item: Item) -> bool:
    return item.rank >= 3 and item.shape[1] in (1, 2, 3, 4, 5, 8)


def _weights(draft: Draft, shape: tuple[int, ...]) -> Item:
    return draft.tensor((F32,), shape=shape, special=0, constant=0.8, reuse=0.2)


@family
def conv(draft: Draft) -> None:
    source = draft.source
    window = _Window(source, dilated=True)
    group = source.pick((1, 1, 1, 2, 4))
    channels = group * source.pick((1, 2, 4))
    made = group * source.pick((1, 2, 8, 17))
    x = _images(draft, channels, window.spatial(source), special=0, reuse=0.5)
    weights = _weights(draft, (made, channels // group, *window.kernel))
    bias = _weights(draft, (made,)) if source.chance(0.5) else None
    (y,) = draft.node("Conv", [x, weights, bias], group=group, **window.attributes(True))
    if source.chance(0.4):
        draft.node(source.pick(("Relu", "Sigmoid", "HardSigmoid")), [y])


@family
def conv_chain(draft: Draft) -> None:
    """Convolutions of 3x3 and 1x1 over what another one gave, with a sum around them."""
    source = draft.source
    found = [
        i for i in draft.items.values()
        if getattr(i.value, "ndim", 0) == 4 and i.value.dtype == F32 and i.roundings < 3
        and i.shape[1] <= 17 and min(i.shape) > 0
    ]  # fmt: skip
    x = source.pick(found) if found else _images(draft, 4, [6, 7], special=0)
    kernel = source.pick((1, 3))
    channels = source.pick((x.shape[1], 8))
    weights = _weights(draft, (channels, x.shape[1], kernel, kernel))
    (y,) = draft.node("Conv", [x, weights], pads=[kernel // 2] * 4)
    if channels == x.shape[1] and source.chance(0.5):
        (y,) = draft.node("Add", [y, x])
    if source.chance(0.5):
        draft.node("Relu", [y])


@family
def conv_transpose(draft: Draft) -> None:
    source = draft.source
    window = _Window(source, dilated=True)
    group = source.pick((1, 1, 2))
    channels, made = group * source.pick((1, 2)), group * source.pick((1, 3))
    x = _images(draft, channels, [source.count(1, 5) for _ in window.kernel], special=0)
    weights = _weights(draft, (channels, made // group, *window.kernel))
    bias = _weights(draft, (made,)) if source.chance(0.5) else None
    attributes = window.attributes(True)
    if window.auto in ("SAME_UPPER", "SAME_LOWER"):
        steps = zip(window.kernel, window.strides, strict=True)
        if any(k < s for k, s in steps) or attributes.get("dilations"):
            raise Unfit("what the borders are then is left open")
    elif source.chance(0.3):
        steps = zip(window.strides, window.dilations, strict=True)
        attributes["output_padding"] = [source.count(0, max(s, d) - 1) for s, d in steps]
    draft.node("ConvTranspose", [x, weights, bias], group=group, **attributes)


@family
def pool(draft: Draft) -> None:
    source = draft.source
    op = source.pick(("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"))
    dilated = draft.opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
    window = _Window(source, dilated)
    if window.auto in ("SAME_UPPER", "SAME_LOWER"):
        window.dilations = [1] * window.dims
    x = _images(draft, source.pick((1, 3)), window.spatial(source), special=0.1 * (op != "LpPool"))
    attributes = {"kernel_shape": window.kernel, **window.attributes(dilated)}
    outputs = 1
    if op != "LpPool" and draft.opset >= 10:
        attributes["ceil_mode"] = source.pick((None, 0, 1))
    if op == "AveragePool":
        attributes["count_include_pad"] = source.pick((None, 0, 1))
    elif op == "LpPool":
        attributes["p"] = source.pick((None, 1, 2, 3))
    elif source.chance(0.4):
        outputs = 2
    draft.node(op, [x], outputs, exact=op == "MaxPool" and x.exact, **attributes)


@family
def global_pool(draft: Draft) -> None:
    op = draft.source.pick(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"))
    x = draft.tensor((F32, F32, F64), accept=_is_image, rank=draft.source.pick((3, 4)), least=1)
    draft.node(op, [x], exact=op == "GlobalMaxPool")


def _random(source: Source, shape: tuple[int, ...]) -> Array:
    return source.rng.integers(0, 256, shape).astype(U8)


@family
def conv_integer(draft: Draft) -> None:
    source = draft.source
    x = draft.fresh(_random(source, (1, 2, 4, 5)), 0)
    w = draft.fresh(_random(source, (3, 2, *source.pick(((1, 1), (2, 3))))), 0.7)
    zero = draft.constant(_random(source, ())) if source.chance(0.6) else None
    other = draft.constant(_random(source, ())) if zero and source.chance(0.6) else None
    draft.node("ConvInteger", [x, w, zero, other], exact=True, pads=source.pick((None, [1] * 4)))
