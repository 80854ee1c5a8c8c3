"""minicc.

A mini end-to-end tensor compiler, from ONNX models and NumPy functions to SIMD machine code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minicc.errors import CompilerBug, MiniccError, PerformanceWarning, UnsupportedError, UserError
from minicc.later import imported
from minicc.version import VERSION as __version__

if TYPE_CHECKING:
    from minicc.api.jitted import jit
    from minicc.api.kernels import kernel
    from minicc.api.session import InferenceSession
    from minicc.options import Options

__all__ = [
    "CompilerBug",
    "InferenceSession",
    "MiniccError",
    "Options",
    "PerformanceWarning",
    "UnsupportedError",
    "UserError",
    "__version__",
    "jit",
    "kernel",
]
# Each front end is loaded with the compiler when it is first asked for: `import minicc` is quick,
# and a session loads nothing of tracing.
_LATER = {
    "InferenceSession": "minicc.api.session",
    "jit": "minicc.api.jitted",
    "kernel": "minicc.api.kernels",
    "Options": "minicc.options",
}


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'minicc' has no attribute {name!r}")
    value = getattr(imported(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
