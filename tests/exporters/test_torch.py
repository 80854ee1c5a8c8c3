"""Models that both of torch's exporters wrote, of known and of free sizes, against torch."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.exporters.exported import agree, check

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


def convolutions() -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.SiLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5), nn.Softmax(dim=-1),
    )  # fmt: skip


def encoder() -> Any:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


def recurrent() -> Any:
    class Last(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            self.cells = torch.nn.LSTM(6, 8, batch_first=True)
            self.out = torch.nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            return self.out(self.cells(x)[0][:, -1])

    return Last()


MODELS: list[tuple[Callable[[], Any], tuple[int, ...]]] = [
    (convolutions, (2, 3, 16, 16)),
    (encoder, (2, 5, 16)),
    (recurrent, (2, 4, 6)),
]


@pytest.mark.parametrize("free", [False, True], ids=["static", "free"])
@pytest.mark.parametrize("traced", [False, True], ids=["export", "script"])
@pytest.mark.parametrize(("make", "shape"), MODELS)
def test_as_torch_has_it(
    make: Callable[[], Any], shape: tuple[int, ...], traced: bool, free: bool
) -> None:
    if not traced:
        pytest.importorskip("onnxscript")
    torch.manual_seed(3)
    model, x = make().eval(), torch.randn(*shape)
    file = io.BytesIO()
    if traced:
        axes = {"x": {0: "batch"}, "y": {0: "batch"}} if free else None
        torch.onnx.export(model, (x,), file, dynamo=False, input_names=["x"],
                          output_names=["y"], dynamic_axes=axes)  # fmt: skip
        written = file.getvalue()
    else:
        sizes = ({0: torch.export.Dim("batch")},) if free else None
        program = torch.onnx.export(model, (x,), dynamo=True, verbose=False, dynamic_shapes=sizes)
        program.model_proto  # noqa: B018  # it is made when it is asked for
        written = program.model_proto.SerializeToString()
    name = "x" if traced else program.model_proto.graph.input[0].name
    batches = (shape[0], 1, 3) if free else (shape[0],)
    inputs = [torch.randn(n, *shape[1:]) for n in batches]
    got = check(written, [{name: v.numpy()} for v in inputs])
    with torch.no_grad():
        for v, outputs in zip(inputs, got, strict=True):
            agree(outputs[0], np.asarray(model(v)), 1e-4)
