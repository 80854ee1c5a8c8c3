"""ONNX's protobuf messages without the rest of its package.

`import onnx` brings checkers, a writer of JSON and much else: 55 ms on a machine where the messages
alone take 12, and a small model is ready after 600. Their module is therefore run by itself;
protobuf has one class for each message, so a model that a user made with `onnx` is of it, too.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from functools import cache
from typing import Any

_MODULE = "onnx_ml_pb2"


@cache
def messages() -> Any:
    """A module that has the classes `ModelProto`, `TensorProto` and so on."""
    spec = importlib.util.find_spec("onnx") if "onnx" not in sys.modules else None
    for folder in (spec and spec.submodule_search_locations) or ():
        place = os.path.join(folder, f"{_MODULE}.py")
        inner = importlib.util.spec_from_file_location(f"onnx.{_MODULE}", place)
        if os.path.exists(place) and inner is not None and inner.loader is not None:
            module = importlib.util.module_from_spec(inner)
            inner.loader.exec_module(module)
            return module
    return importlib.import_module("onnx")
