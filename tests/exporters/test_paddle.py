"""Nets of PaddlePaddle by paddle2onnx, as PP-OCR's are: with free sizes, against the framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exporters.exported import agree, check

paddle: Any = pytest.importorskip("paddle")
paddle2onnx: Any = pytest.importorskip("paddle2onnx")
pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(7)
nn: Any = paddle.nn
Layer: Any = nn.Layer


class Detector(Layer):  # type: ignore[misc]  # paddle has no types
    """A pyramid of two levels, and where text stands at each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2D(3, 8, 3, 2, 1), nn.BatchNorm2D(8), nn.Hardswish())
        self.second = nn.Sequential(nn.Conv2D(8, 8, 3, 2, 1, groups=8), nn.Conv2D(8, 12, 1))
        self.wide, self.up = nn.Conv2DTranspose(12, 8, 2, 2), nn.Conv2DTranspose(8, 1, 2, 2)

    def forward(self, x: Any) -> Any:
        fine = self.first(x)
        coarse = self.wide(self.second(fine))
        return nn.functional.sigmoid(self.up(fine + coarse))


class Recogniser(Layer):  # type: ignore[misc]  # paddle has no types
    """Columns of an image as steps, read both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = nn.Sequential(nn.Conv2D(3, 6, 3, (2, 1), 1), nn.ReLU(), nn.MaxPool2D(2))
        self.cells = nn.LSTM(24, 5, direction="bidirect")
        self.letters = nn.Linear(10, 7)

    def forward(self, x: Any) -> Any:
        y = self.columns(x)
        y = y.transpose([0, 3, 1, 2]).reshape([0, 0, 24])
        return nn.functional.softmax(self.letters(self.cells(y)[0]), axis=-1)


class Blocks(Layer):  # type: ignore[misc]  # paddle has no types
    """A block of attention over positions of a free number."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: Any) -> Any:
        mixed = self.mix(self.norm(x)).reshape([0, -1, 3, 2, 4]).transpose([2, 0, 3, 1, 4])
        q, k, v = mixed[0], mixed[1], mixed[2]
        likely = nn.functional.softmax(paddle.matmul(q, k, transpose_y=True) * 0.5, axis=-1)
        y = paddle.matmul(likely, v).transpose([0, 2, 1, 3]).flatten(2)
        return x + nn.functional.gelu(self.out(y))


KINDS: dict[str, tuple[Callable[[], Any], Sequence[int], Sequence[Sequence[int]]]] = {
    "detector": (Detector, (-1, 3, -1, -1), ((2, 3, 16, 32), (1, 3, 8, 8), (1, 3, 64, 24))),
    "recogniser": (Recogniser, (-1, 3, 16, -1), ((2, 3, 16, 40), (1, 3, 16, 2), (3, 3, 16, 66))),
    "blocks": (Blocks, (-1, -1, 8), ((2, 5, 8), (1, 1, 8), (3, 33, 8))),
}


@pytest.mark.parametrize(("name", "opset"), [*zip(KINDS, [11, 13, 16], strict=True)])
def test_nets_at_several_sizes(name: str, opset: int, tmp_path: Path) -> None:
    paddle.seed(3)
    made, shape, sizes = KINDS[name]
    net = made()
    net.eval()
    path = str(tmp_path / "net")
    paddle.jit.save(net, path, input_spec=[paddle.static.InputSpec(shape, "float32", "x")])
    kept = next(p for p in (f"{path}.json", f"{path}.pdmodel") if Path(p).exists())
    paddle2onnx.export(kept, f"{path}.pdiparams", f"{path}.onnx", opset_version=opset)
    feeds = [RNG.standard_normal(size).astype(np.float32) for size in sizes]
    model = Path(f"{path}.onnx").read_bytes()
    for feed, (y,) in zip(feeds, check(model, [{"x": f} for f in feeds]), strict=True):
        agree(y, net(paddle.to_tensor(feed)).numpy(), 1e-4)
