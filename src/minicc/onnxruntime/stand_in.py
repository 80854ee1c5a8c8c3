"""`minicc.onnxruntime` in the place of `onnxruntime`, for the programs of one process tree.

`FOLDER` has a package `onnxruntime` whose import puts this one, and its modules, under that name.
A process whose `sys.path` begins with the folder finds it before an installed ONNX Runtime; so do
the children that `multiprocessing` spawns, and any program with the folder in PYTHONPATH. Folders
of an installed ONNX Runtime that are Python alone (`quantization`, `tools`) stay importable, and
so do the modules of its `capi` that this package has no counterpart of.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
from pathlib import Path

FOLDER = str(Path(__file__).parent / "in_place")

_NAME = "onnxruntime"
_MODULES = (
    "",
    ".capi",
    ".capi.onnxruntime_pybind11_state",
    ".capi._pybind_state",
    ".capi.onnxruntime_inference_collection",
)


def put_in_place() -> None:
    """Put this package and its modules under ONNX Runtime's names."""
    for module in _MODULES:
        sys.modules[_NAME + module] = importlib.import_module(__package__ + module)
    installed = _installed()
    if installed is None:
        return
    for name, folder in ((_NAME, installed), (f"{_NAME}.capi", os.path.join(installed, "capi"))):
        path = sys.modules[name].__path__
        if folder not in path:
            path.append(folder)


def _installed() -> str | None:
    """The folder of an ONNX Runtime that is installed; None where there is none."""
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry) != FOLDER]
    spec = importlib.machinery.PathFinder.find_spec(_NAME, elsewhere)
    return None if spec is None or spec.origin is None else os.path.dirname(spec.origin)
