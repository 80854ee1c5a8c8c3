"""ONNX Runtime's Python interface over minicc: `import minicc.onnxruntime as ort`.

`python -m minicc.onnxruntime PROGRAM.py` runs a program that imports `onnxruntime` with this
package in its place. What acts and what is only accepted is in docs/onnxruntime.md.
"""

from __future__ import annotations

from typing import Any

from minicc.onnxruntime import capi
from minicc.onnxruntime.binding import IOBinding
from minicc.onnxruntime.capi.onnxruntime_pybind11_state import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    InferenceSession,
    ModelMetadata,
    NodeArg,
    OrtAllocatorType,
    OrtArenaCfg,
    OrtCompileApiFlags,
    OrtDevice,
    OrtDeviceMemoryType,
    OrtEpDevice,
    OrtExecutionProviderDevicePolicy,
    OrtHardwareDevice,
    OrtHardwareDeviceType,
    OrtMemoryInfo,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
    OrtValue,
    RunOptions,
    SessionOptions,
    SparseTensor,
    create_and_register_allocator,
    create_and_register_allocator_v2,
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_device,
    get_ep_devices,
    get_version_string,
    has_collective_ops,
    register_execution_provider_library,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
    unregister_execution_provider_library,
)
from minicc.onnxruntime.compiling import ModelCompiler
from minicc.onnxruntime.enums import OrtDeviceVendorId
from minicc.onnxruntime.environment import API_VERSION as __version__
from minicc.onnxruntime.environment import preload_dlls, print_debug_info
from minicc.onnxruntime.values import copy_tensors

# What ONNX Runtime has and minicc does not, with the reason; the documentation's table has these.
ABSENT = {
    "AdapterFormat": "adapters of low rank are not there: merge them into the model",
    "LoraAdapter": "adapters of low rank are not there: merge them into the model",
    "OrtEpAssignedNode": "all nodes are minicc's",
    "OrtEpAssignedSubgraph": "all nodes are minicc's",
    "OrtEpContextData": "compiled programs are whole, and hold no blobs of providers",
    "OrtEpContextDataBuffer": "compiled programs are whole, and hold no blobs of providers",
    "OrtExternalInitializerInfo": "compiled programs hold their initialisers",
    "OrtMemoryInfo.create_v2": "all memory is the CPU's",
    "OrtSyncStream": "there is no device with streams",
    "SessionIOBinding": "IOBinding is all of it",
    "ModelCompiler.clear_ep_context_data_write_func": "compiled programs have no blobs",
    "ModelCompiler.set_ep_context_data_write_func": "compiled programs have no blobs",
    "SessionOptions.clear_ep_context_data_read_func": "compiled programs have no blobs",
    "SessionOptions.set_ep_context_data_read_func": "compiled programs have no blobs",
}

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelCompiler",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
    "OrtEpDevice",
    "OrtExecutionProviderDevicePolicy",
    "OrtHardwareDevice",
    "OrtHardwareDeviceType",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType",
    "OrtSparseFormat",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "SparseTensor",
    "__version__",
    "capi",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_version_string",
    "has_collective_ops",
    "preload_dlls",
    "print_debug_info",
    "register_execution_provider_library",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "unregister_execution_provider_library",
]


def __getattr__(name: str) -> Any:
    why = ABSENT.get(name)
    reason = f": {why}" if why else ""
    raise AttributeError(f"minicc.onnxruntime has no {name}{reason}")
