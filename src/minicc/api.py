"""The public names in one place; `minicc` itself has the most used ones, loaded when asked for."""

from minicc.compiled import compile_module
from minicc.inputs import check_inputs
from minicc.jitted import Jitted, jit
from minicc.kernels import Kernel, kernel
from minicc.lowered import Lowered
from minicc.node_args import NodeArg
from minicc.runtime.saved import Compilation
from minicc.session import InferenceSession

__all__ = [
    "Compilation",
    "InferenceSession",
    "Jitted",
    "Kernel",
    "Lowered",
    "NodeArg",
    "check_inputs",
    "compile_module",
    "jit",
    "kernel",
]
