"""The classes of sessions and values, where programs look for them beside the top-level package."""

from minicc.onnxruntime.binding import IOBinding
from minicc.onnxruntime.compiling import ModelCompiler
from minicc.onnxruntime.devices import OrtDevice
from minicc.onnxruntime.enums import OrtDeviceVendorId
from minicc.onnxruntime.session import InferenceSession
from minicc.onnxruntime.sparse import SparseTensor
from minicc.onnxruntime.values import OrtValue, copy_tensors

Session = InferenceSession

__all__ = [
    "IOBinding",
    "InferenceSession",
    "ModelCompiler",
    "OrtDevice",
    "OrtDeviceVendorId",
    "OrtValue",
    "Session",
    "SparseTensor",
    "copy_tensors",
]
