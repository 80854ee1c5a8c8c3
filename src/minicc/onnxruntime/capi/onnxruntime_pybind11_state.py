"""The names that ONNX Runtime has in its compiled module: exceptions, options, values."""

from minicc.onnxruntime import sparse as _sparse
from minicc.onnxruntime.devices import (
    OrtArenaCfg as OrtArenaCfg,
    OrtDevice as OrtDevice,
    OrtEpDevice as OrtEpDevice,
    OrtHardwareDevice as OrtHardwareDevice,
    OrtMemoryInfo as OrtMemoryInfo,
    get_ep_devices as get_ep_devices,
)
from minicc.onnxruntime.enums import (
    ExecutionMode as ExecutionMode,
    ExecutionOrder as ExecutionOrder,
    GraphOptimizationLevel as GraphOptimizationLevel,
    OrtAllocatorType as OrtAllocatorType,
    OrtCompileApiFlags as OrtCompileApiFlags,
    OrtDeviceMemoryType as OrtDeviceMemoryType,
    OrtExecutionProviderDevicePolicy as OrtExecutionProviderDevicePolicy,
    OrtHardwareDeviceType as OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType as OrtMemoryInfoDeviceType,
    OrtMemType as OrtMemType,
    OrtSparseFormat as OrtSparseFormat,
)
from minicc.onnxruntime.environment import (
    create_and_register_allocator as create_and_register_allocator,
    create_and_register_allocator_v2 as create_and_register_allocator_v2,
    disable_telemetry_events as disable_telemetry_events,
    enable_telemetry_events as enable_telemetry_events,
    get_build_info as get_build_info,
    get_device as get_device,
    get_version_string as get_version_string,
    has_collective_ops as has_collective_ops,
    register_execution_provider_library as register_execution_provider_library,
    set_global_thread_pool_sizes as set_global_thread_pool_sizes,
    set_seed as set_seed,
    unregister_execution_provider_library as unregister_execution_provider_library,
)
from minicc.onnxruntime.errors import (
    DeviceReset as DeviceReset,
    EngineError as EngineError,
    EPFail as EPFail,
    Fail as Fail,
    InvalidArgument as InvalidArgument,
    InvalidGraph as InvalidGraph,
    InvalidProtobuf as InvalidProtobuf,
    ModelLoadCanceled as ModelLoadCanceled,
    ModelLoaded as ModelLoaded,
    ModelRequiresCompilation as ModelRequiresCompilation,
    NoModel as NoModel,
    NoSuchFile as NoSuchFile,
    NotFound as NotFound,
    NotImplemented as NotImplemented,
    RuntimeException as RuntimeException,
)
from minicc.onnxruntime.log import (
    set_default_logger_severity as set_default_logger_severity,
    set_default_logger_verbosity as set_default_logger_verbosity,
)
from minicc.onnxruntime.packing import (
    quantize_matmul_2bits as quantize_matmul_2bits,
    quantize_matmul_4bits as quantize_matmul_4bits,
    quantize_matmul_8bits as quantize_matmul_8bits,
    quantize_matmul_bnb4 as quantize_matmul_bnb4,
    quantize_qdq_matmul_4bits as quantize_qdq_matmul_4bits,
)
from minicc.onnxruntime.providers import (
    get_all_providers as get_all_providers,
    get_available_providers as get_available_providers,
)
from minicc.onnxruntime.session import InferenceSession as InferenceSession
from minicc.onnxruntime.settings import (
    RunOptions as RunOptions,
    SessionOptions as SessionOptions,
)
from minicc.onnxruntime.signature import (
    ModelMetadata as ModelMetadata,
    NodeArg as NodeArg,
)
from minicc.onnxruntime.sparse import SparseTensor as SparseTensor
from minicc.onnxruntime.values import (
    OrtValue as OrtValue,
    OrtValueVector as OrtValueVector,
)

SparseCooView, SparseCsrView = _sparse.CooView, _sparse.CsrView
