"""The names of `onnxruntime_pybind11_state`, where older programs look for them."""

# all names of that module, by its `__all__`
from minicc.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
