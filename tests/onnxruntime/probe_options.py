"""Probes: execution providers, options, and what a process has one of."""

from __future__ import annotations

import json
import pathlib
import tempfile
from typing import Any

import numpy as np

from tests.onnxruntime.models import (
    X,
    biased,
)
from tests.onnxruntime.probing import CPU, add, args, probe, session

# execution providers
for label, more in {
    "default": {},
    "CPU": {"providers": CPU},
    "none": {"providers": []},
    "CUDA": {"providers": ["CUDAExecutionProvider"]},
    "CUDA, CPU": {"providers": ["CUDAExecutionProvider", *CPU]},
    "with options": {"providers": [("CUDAExecutionProvider", {"device_id": 0}), *CPU]},
    "unknown": {"providers": ["FooExecutionProvider"]},
    "twice": {"providers": CPU * 2},
    "number": {"providers": [5]},
    "set": {"providers": set(CPU)},
    "options": {"providers": CPU, "provider_options": [{"a": 1}]},
    "too few options": {"providers": CPU, "provider_options": []},
    "options twice": {"providers": [(CPU[0], {})], "provider_options": [{}]},
    "number for options": {"providers": CPU, "provider_options": 5},
}.items():

    def providers(ort: Any, more: Any = more) -> Any:
        found = session(ort, **more)
        return found.get_providers(), found.get_provider_options()

    def alone(ort: Any, more: Any = more) -> Any:
        return session(ort, enable_fallback=0, **more).get_providers()

    add(f"providers, {label}", providers)
    add(f"providers without fallback, {label}", alone)


@probe
def set_providers(ort: Any) -> Any:
    opened = session(ort)
    opened.set_providers(["CUDAExecutionProvider"])
    return opened.get_providers(), opened.run(["y"], {"x": X})


# options
for name, value in [
    ("intra_op_num_threads", -1),
    ("intra_op_num_threads", 2.0),
    ("intra_op_num_threads", "a"),
    ("intra_op_num_threads", np.int64(3)),
    ("intra_op_num_threads", True),
    ("intra_op_num_threads", 1 << 40),
    ("inter_op_num_threads", 4),
    ("enable_profiling", 1),
    ("enable_profiling", "yes"),
    ("enable_mem_pattern", 0),
    ("enable_cpu_mem_arena", None),
    ("graph_optimization_level", 99),
    ("execution_mode", 1),
    ("log_severity_level", 3),
    ("log_severity_level", "x"),
    ("logid", "x"),
    ("logid", 5),
    ("optimized_model_filepath", "written.onnx"),
    ("optimized_model_filepath", pathlib.Path("written.onnx")),
    ("profile_file_prefix", None),
    ("use_per_session_threads", False),
    ("nobody_knows", 1),
]:

    def setting(ort: Any, name: str = name, value: Any = value) -> Any:
        options = ort.SessionOptions()
        setattr(options, name, value)
        return getattr(options, name)

    add(f"options, {name} = {value!r}", setting)


@probe
def options_defaults(ort: Any) -> Any:
    found = {}
    for options in (ort.SessionOptions(), ort.RunOptions()):
        for name in dir(options):
            if not name.startswith("_") and not callable(getattr(options, name)):
                value = getattr(options, name)
                plain = isinstance(value, str | bool)
                found[f"{type(options).__name__}.{name}"] = value if plain else int(value)
    return found


@probe
def options_are_copied(ort: Any) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    found = session(ort, sess_options=options).get_session_options()
    return found is options, found.intra_op_num_threads, options.intra_op_num_threads


@probe
def levels(ort: Any) -> Any:
    level = ort.GraphOptimizationLevel
    last = level.ORT_ENABLE_ALL
    every = {name: int(value) for name, value in level.__members__.items()}
    return str(last), repr(last), last.name, int(last), level(1).name, every


for name in [
    "ExecutionMode",
    "ExecutionOrder",
    "OrtAllocatorType",
    "OrtMemType",
    "OrtSparseFormat",
    "OrtDeviceMemoryType",
    "OrtExecutionProviderDevicePolicy",
    "OrtHardwareDeviceType",
    "OrtMemoryInfoDeviceType",
    "OrtCompileApiFlags",
    "OrtDeviceVendorId",
]:
    add(f"numbers of {name}", lambda ort, n=name: {k: int(v) for k, v in _members(ort, n)})


def _members(ort: Any, name: str) -> Any:
    return getattr(ort, name).__members__.items()


for key, value in {"a.b": "c", "": "1", "k" * 2000: "1", "number": 1}.items():

    def entry(ort: Any, key: Any = key, value: Any = value) -> Any:
        options = ort.SessionOptions()
        options.add_session_config_entry(key, value)
        return options.get_session_config_entry(key)

    add(f"configuration {key[:8]}", entry)
add("configuration, unknown", lambda ort: ort.SessionOptions().get_session_config_entry("zzz"))
add("configuration of a run", lambda ort: ort.RunOptions().get_run_config_entry("zzz"))
for given in (*CPU, "CUDAExecutionProvider", "Nobody"):

    def added(ort: Any, name: str = given) -> Any:
        options = ort.SessionOptions()
        options.add_provider(name, {})
        return options.has_providers()

    add(f"options with {given}", added)
for name, size in {"batch": 2, "other": 2, "half": 2.5}.items():

    def bound(ort: Any, name: str = name, size: Any = size) -> Any:
        options = ort.SessionOptions()
        options.add_free_dimension_override_by_name(name, size)
        opened = session(ort, sess_options=options)
        return args(opened.get_inputs()), args(opened.get_outputs())

    add(f"free dimension {name}", bound)


@probe
def bound_dimension_refuses(ort: Any) -> Any:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    return session(ort, sess_options=options).run(None, {"x": X})


@probe
def replaced_initialiser(ort: Any) -> Any:
    options = ort.SessionOptions()
    value = ort.OrtValue.ortvalue_from_numpy(np.full(3, 7, np.float32))
    options.add_initializer("w", value)
    return session(ort, biased(given=False), sess_options=options).run(None, {"x": X})


@probe
def replaced_initialiser_that_is_not_there(ort: Any) -> Any:
    options = ort.SessionOptions()
    options.add_initializer("q", ort.OrtValue.ortvalue_from_numpy(np.full(3, 7, np.float32)))
    return session(ort, biased(given=False), sess_options=options).run(None, {"x": X})


@probe
def initialiser_of_an_array(ort: Any) -> Any:
    ort.SessionOptions().add_initializer("w", X)


for version in (3, 8):

    def overridden(ort: Any, version: int = version) -> Any:
        opened = session(ort, biased(version))
        known = args(opened.get_inputs()), args(opened.get_overridable_initializers())
        return known, opened.run(None, {"x": X})

    add(f"initialiser that is an input, IR {version}", overridden)


@probe
def overridden_initialiser(ort: Any) -> Any:
    return session(ort, biased()).run(None, {"x": X, "w": np.zeros(3, np.float32)})


@probe
def no_profile(ort: Any) -> Any:
    opened = session(ort)
    return opened.end_profiling(), opened.get_profiling_start_time_ns()


@probe
def profile(ort: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = f"{folder}/profile"
        opened = session(ort, sess_options=options)
        opened.run(None, {"x": X})
        path = opened.end_profiling()
        with open(path, encoding="utf-8") as file:
            events = json.load(file)
        kinds = sorted({event["cat"] for event in events})
        runs = sum(event["name"] == "model_run" for event in events)
        keys = {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"}
        whole = all(keys <= set(event) for event in events)
        return path.startswith(f"{folder}/profile_20"), kinds, runs, whole, opened.end_profiling()


# the process
add("device", lambda ort: ort.get_device())
add("version", lambda ort: (ort.get_version_string(), ort.__version__))
add("CPU is available", lambda ort: CPU[0] in ort.get_available_providers())
add("CUDA is known", lambda ort: "CUDAExecutionProvider" in ort.get_all_providers())
for level in (3, 9, "a"):
    add(f"severity {level}", lambda ort, level=level: ort.set_default_logger_severity(level))
add("verbosity", lambda ort: ort.set_default_logger_verbosity(1))
add("seed", lambda ort: ort.set_seed(1))
add("telemetry", lambda ort: (ort.disable_telemetry_events(), ort.enable_telemetry_events()))
add("collective operators", lambda ort: ort.has_collective_ops())


@probe
def memory(ort: Any) -> Any:
    found = session(ort).get_input_memory_infos()[0]
    kinds = (found.mem_type, found.allocator_type, found.device_mem_type)
    return found.device_id, [int(kind) for kind in kinds]


@probe
def arena(ort: Any) -> Any:
    names = "max_mem arena_extend_strategy initial_chunk_size_bytes max_dead_bytes_per_chunk"
    configs = ort.OrtArenaCfg(0, -1, -1, -1), ort.OrtArenaCfg({"max_mem": 5})
    return [getattr(config, name) for config in configs for name in names.split()]


for name in ["cpu", "cuda", "dml", "npu", "gpu", "webgpu", "cann", "migraphx", "CPU", "foo"]:

    def device(ort: Any, name: str = name) -> Any:
        made = ort.OrtDevice.make(name, 0)
        return made.device_type(), made.device_id(), made.device_vendor_id()

    add(f"device {name}", device)


# modules within, without an import of their own
@probe
def modules_of_capi(ort: Any) -> Any:
    inner = ort.capi.onnxruntime_inference_collection
    kinds = inner.InferenceSession is ort.InferenceSession, inner.OrtValue is ort.OrtValue
    return *kinds, ort.capi._pybind_state.get_device(), hasattr(ort.capi, "none")
