"""The names of `onnxruntime_pybind11_state`, where older programs look for them."""

from minicc.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
