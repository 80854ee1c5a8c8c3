"""What tests of exporters share: runs of a model at several batches, beside ONNX Runtime's."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minicc.api.session import InferenceSession

Array = np.ndarray[Any, Any]
BATCHES = (100, 1, 3)


def part(path: str) -> Any:
    """What stands at a dotted path, such as a class of a module."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def runtime_session(model: bytes | str) -> Any:
    """ONNX Runtime's session, with the model as it is written; None where it is not installed."""
    try:
        ort = importlib.import_module("onnxruntime")
    except ImportError:
        return None
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    ort.set_default_logger_severity(4)
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def check(model: bytes, feeds: Iterable[Mapping[str, Any]], error: float = 1e-4) -> list[Any]:
    """What minicc gives for each feed, by one session, which is what ONNX Runtime gives."""
    session, runtime = InferenceSession(model, threads=1), runtime_session(model)
    made: list[Any] = []
    for feed in feeds:
        made.append(session.run(None, feed))
        if runtime is not None:
            agree(made[-1], runtime.run(None, dict(feed)), error)
    if runtime is not None:
        for ours, theirs in zip(session.get_outputs(), runtime.get_outputs(), strict=True):
            assert (ours.name, ours.type) == (theirs.name, theirs.type)
    return made


def agree(got: Any, wanted: Any, error: float) -> None:
    """Nearly the same numbers, by their greatest size, and the same of all else."""
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            agree(one, other, error)
    elif isinstance(wanted, Mapping):
        assert [*got] == [*wanted]
        agree([*got.values()], [*wanted.values()], error)
    else:
        got, wanted = np.asarray(got), np.asarray(wanted)
        assert got.shape == wanted.shape
        assert got.dtype.kind == wanted.dtype.kind or {got.dtype.kind, wanted.dtype.kind} == {*"OU"}
        if wanted.dtype.kind in "fc":
            size = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1))
            np.testing.assert_allclose(got, wanted, rtol=error, atol=error * size)
        else:
            assert got.astype(str).tolist() == wanted.astype(str).tolist()
