"""minicc.

A mini end-to-end tensor compiler, from ONNX models and NumPy functions to SIMD machine code.
"""

from minicc.api import InferenceSession, jit
from minicc.errors import CompilerBug, MiniccError, UnsupportedError, UserError
from minicc.options import Options
from minicc.version import VERSION as __version__

__all__ = [
    "CompilerBug",
    "InferenceSession",
    "MiniccError",
    "Options",
    "UnsupportedError",
    "UserError",
    "__version__",
    "jit",
]
