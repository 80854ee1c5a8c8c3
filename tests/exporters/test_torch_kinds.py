"""Models of several kinds in torch's words, with free sizes, against ONNX Runtime where it is."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from tests.exporters.exported import check

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


class Kind(NamedTuple):
    """A module, its inputs at a size, which of their axes are free, and the sizes."""

    made: Callable[[], Any]
    inputs: Callable[..., Sequence[Any]]
    axes: Mapping[str, Sequence[int]]
    sizes: Sequence[tuple[int, ...]]


def module(forward: Callable[..., Any], **parts: Callable[[], Any]) -> Callable[[], Any]:
    """What makes a module of parts, which its function is given first."""

    def made() -> Any:
        kind = type("Made", (torch.nn.Module,), {"forward": forward})
        out = kind()
        for name, part in parts.items():
            setattr(out, name, part())
        return out

    return made


def packed(self: Any, x: Any, n: Any) -> Any:
    of_pairs = torch.nn.utils.rnn
    rows = of_pairs.pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False)
    out, states = self.cells(rows)
    return of_pairs.pad_packed_sequence(out, batch_first=True)[0], *states


def decoder(self: Any, ids: Any, keys: Any, values: Any) -> Any:
    batch, steps = ids.shape
    q, k, v = self.mix(self.words(ids)).view(batch, steps, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
    k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
    seen = torch.ones(k.shape[2], k.shape[2], dtype=torch.bool).tril()[keys.shape[2] :]
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen[None, None])
    return y.transpose(1, 2).reshape(batch, steps, 16), k, v


def speech(self: Any, x: Any, n: Any) -> Any:
    """Frames of each letter as its duration says, as many as the longest text has."""
    there = (torch.arange(x.shape[1])[None] < n[:, None]).float()
    letters = self.words(x) * there[..., None]
    ends = (torch.ceil(torch.exp(self.long(letters)[..., 0]) * 2) * there).cumsum(1)
    frames = torch.arange(ends[:, -1].max().long())
    path = (frames[None, None] < ends[..., None]).float()
    path = path - torch.nn.functional.pad(path, (0, 0, 1, 0))[:, :-1]
    return torch.tanh(self.up(letters.transpose(1, 2) @ path))


def small_images(self: Any, x: Any) -> Any:
    y = self.norm(self.down(x)).relu()
    y = torch.nn.functional.interpolate(self.same(y), scale_factor=2, mode="bilinear")
    return y[..., : x.shape[2], : x.shape[3]] + x


def boxes(self: Any, x: Any) -> Any:
    found = self.out(x).flatten(2).transpose(1, 2)
    score = found[0, :, 0].sigmoid()
    kept = (score > 0.5).nonzero().squeeze(1)
    return found[0, kept], score[kept], kept


def one(module: str, *args: Any, **more: Any) -> Callable[[], Any]:
    return lambda: getattr(torch.nn, module)(*args, **more)


def text(count: int, *shape: int) -> Any:
    return torch.randint(0, count, shape)


def image(*shape: int) -> Sequence[Any]:
    return (torch.randn(*shape),)


LSTM = one("LSTM", 5, 6, bidirectional=True, batch_first=True)
PAST = {"ids": (0, 1), "keys": (0, 2), "values": (0, 2)}
IMAGE = {"x": (0, 2, 3)}
KINDS = {
    "lengths": Kind(
        module(packed, cells=LSTM),
        lambda b, t: (torch.randn(b, t, 5), torch.arange(t, 0, -1)[torch.arange(b) % t]),
        {"x": (0, 1), "n": (0,)},
        [(2, 5), (3, 7), (1, 1)],
    ),
    "a past, or none": Kind(
        module(decoder, words=one("Embedding", 40, 16), mix=one("Linear", 16, 48)),
        lambda b, t, p: (text(40, b, t), torch.randn(b, 2, p, 8), torch.randn(b, 2, p, 8)),
        PAST,
        [(1, 3, 2), (2, 1, 0), (1, 4, 0), (1, 1, 33), (2, 5, 7)],
    ),
    "durations": Kind(
        module(
            speech,
            words=one("Embedding", 20, 8),
            long=one("Linear", 8, 1),
            up=one("ConvTranspose1d", 8, 4, 8, 4, 2),
        ),
        lambda b, t: (text(20, b, t), text(t, b) + 1),
        {"x": (0, 1), "n": (0,)},
        [(1, 5), (2, 9), (1, 1)],
    ),
    "small images": Kind(
        module(
            small_images,
            down=one("Conv2d", 8, 8, 3, 2, 1),
            norm=one("GroupNorm", 2, 8),
            same=one("Conv2d", 8, 8, 3, padding=1),
        ),
        image,
        IMAGE,
        [(1, 8, 4, 4), (3, 8, 4, 4), (2, 8, 17, 9)],
    ),
    "a batch of them": Kind(
        module(
            small_images,
            down=one("Conv2d", 8, 8, 3, 2, 1),
            norm=one("BatchNorm2d", 8),
            same=one("Conv2d", 8, 8, 3, padding=1),
        ),
        image,
        {"x": (0,)},
        [(1, 8, 4, 4), (3, 8, 4, 4), (2, 8, 4, 4)],
    ),
    "boxes": Kind(
        module(boxes, out=one("Conv2d", 3, 5, 3, 2, 1)),
        image,
        IMAGE,
        [(1, 3, 16, 16), (2, 3, 20, 33)],
    ),
}


@pytest.mark.parametrize("opset", [14, 17])
@pytest.mark.parametrize("name", KINDS)
def test_at_several_sizes(name: str, opset: int) -> None:
    torch.manual_seed(3)
    kind = KINDS[name]
    feeds = [tuple(kind.inputs(*sizes)) for sizes in kind.sizes]
    file = io.BytesIO()
    axes = {given: {k: f"{given}_{k}" for k in free} for given, free in kind.axes.items()}
    torch.onnx.export(kind.made().eval(), feeds[0], file, dynamo=False, input_names=[*axes],
                      dynamic_axes=axes, opset_version=opset)  # fmt: skip
    given = [dict(zip(axes, (v.numpy() for v in feed), strict=True)) for feed in feeds]
    check(file.getvalue(), given)
