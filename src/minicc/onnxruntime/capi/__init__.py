"""The modules of ONNX Runtime's `capi`, which are there without an import of their own."""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = ("_pybind_state", "onnxruntime_inference_collection", "onnxruntime_pybind11_state")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
