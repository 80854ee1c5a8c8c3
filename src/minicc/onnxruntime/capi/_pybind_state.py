"""The names of `onnxruntime_pybind11_state`, where older programs look for them.

Mirrors: onnxruntime.capi._pybind_state.
"""

from minicc.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403  # all names of that module, by its `__all__`
