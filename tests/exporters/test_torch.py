"""Models that both of torch's exporters wrote, of known and of free sizes, against torch."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minicc.api.session import InferenceSession
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


def masked() -> Any:
    """Attention whose mask has a batch of its own name, taken to be that of the data."""

    class Masked(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(6, 12)

        def forward(self, x: Any, mask: Any) -> Any:
            q, k = self.layer(x).chunk(2, dim=-1)
            seen = mask.view(x.shape[0], -1)[:, None, : x.shape[1]]
            scores = (q @ k.transpose(1, 2)).masked_fill(seen == 0, -1e4)
            return torch.softmax(scores, dim=-1) @ x

    return Masked()


def noisy() -> Any:
    """Noise of a scale that is an input, of as many frames as the data say: as VITS has it."""

    class Noisy(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
        def forward(self, x: Any, scale: Any) -> Any:
            frames = x[x[:, 0] > 0]
            return frames.cumsum(0) + torch.randn_like(frames) * scale

    return Noisy()


@pytest.mark.parametrize("traced", [False, True], ids=["export", "script"])
def test_batches_under_two_names_have_one_program(traced: bool) -> None:
    torch.manual_seed(3)
    model, sizes = masked().eval(), ((2, 5), (1, 3), (4, 9))
    feeds = [(torch.randn(n, t, 6), torch.ones(n, t, dtype=torch.int64)) for n, t in sizes]
    file = io.BytesIO()
    if traced:
        axes = {"x": {0: "batch", 1: "time"}, "mask": {0: "rows", 1: "total"}}
        torch.onnx.export(model, feeds[0], file, dynamo=False, input_names=[*axes],
                          dynamic_axes=axes)  # fmt: skip
        written = file.getvalue()
    else:
        pytest.importorskip("onnxscript")
        dynamic = torch.export.Dim.DYNAMIC
        shapes = ({0: dynamic, 1: dynamic}, {0: dynamic, 1: dynamic})
        program = torch.onnx.export(model, feeds[0], dynamo=True, verbose=False,
                                    dynamic_shapes=shapes)  # fmt: skip
        written = program.model_proto.SerializeToString()
    got = check(written, [{"x": x.numpy(), "mask": mask.numpy()} for x, mask in feeds])
    with torch.no_grad():
        for feed, outputs in zip(feeds, got, strict=True):
            agree(outputs[0], np.asarray(model(*feed)), 1e-4)
    session = InferenceSession(written, threads=1)
    for x, mask in feeds:
        session.run(None, {"x": x.numpy(), "mask": mask.numpy()})
    assert len(session._compiled) == 1


def test_noise_is_drawn_for_as_many_frames_as_data_say() -> None:
    model, x, file = noisy().eval(), torch.randn(9, 4), io.BytesIO()
    axes = {"x": {0: "frames"}, "y": {0: "kept"}}
    torch.onnx.export(model, (x, torch.tensor(0.0)), file, dynamo=False, dynamic_axes=axes,
                      input_names=["x", "scale"], output_names=["y"])  # fmt: skip
    feeds = [
        {"x": np.asarray(v), "scale": np.array(0, np.float32)}
        for v in (x, x[:4], torch.randn(20, 4))
    ]
    for feed, outputs in zip(feeds, check(file.getvalue(), feeds), strict=True):
        agree(outputs[0], feed["x"][feed["x"][:, 0] > 0].cumsum(0), 1e-4)
    session = InferenceSession(file.getvalue(), threads=1)
    loud = {**feeds[0], "scale": np.array(1, np.float32)}
    assert not np.array_equal(session.run(None, loud)[0], session.run(None, loud)[0])
