"""The classes of sessions and values, where programs look for them beside the top-level package."""

from minicc.onnxruntime.binding import IOBinding as IOBinding
from minicc.onnxruntime.compiling import ModelCompiler as ModelCompiler
from minicc.onnxruntime.devices import OrtDevice as OrtDevice
from minicc.onnxruntime.enums import OrtDeviceVendorId as OrtDeviceVendorId
from minicc.onnxruntime.session import InferenceSession as InferenceSession
from minicc.onnxruntime.sparse import SparseTensor as SparseTensor
from minicc.onnxruntime.values import OrtValue as OrtValue, copy_tensors as copy_tensors

Session = InferenceSession
