"""Options of ONNX Runtime that mean something to minicc, and those that are only accepted."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import minicc
import minicc.onnxruntime as ort
from minicc.onnxruntime import log
from minicc.onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidProtobuf,
    ModelLoadCanceled,
    NoSuchFile,
)
from minicc.onnxruntime.environment import ENVIRONMENT
from tests.onnxruntime.models import FLOAT, X, biased, model, node, pair, tensor, told

MINICC = "MiniccExecutionProvider"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Forget what is set for the process and what was told, here and by other tests."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    ENVIRONMENT.threads = ENVIRONMENT.arena_bytes = 0
    log.LOGGER.setLevel(logging.NOTSET)
    log._told.clear()


def opened(data: bytes | None = None, **settings: Any) -> ort.InferenceSession:
    options = ort.SessionOptions()
    for name, value in settings.items():
        setattr(options, name, value)
    return ort.InferenceSession(pair() if data is None else data, options)


def test_threads() -> None:
    assert opened(intra_op_num_threads=2)._session.options.threads == 2
    assert opened()._session.options.threads == minicc.Options().threads
    assert opened(intra_op_num_threads=1 << 20)._session.options.threads == 256


def test_threads_that_sessions_share() -> None:
    ort.set_global_thread_pool_sizes(3, 0)
    assert opened(use_per_session_threads=False)._session.options.threads == 3
    assert opened(intra_op_num_threads=2)._session.options.threads == 2


@pytest.mark.parametrize(("text", "spin"), [("0", False), ("1", True)])
def test_spinning(text: str, spin: bool) -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", text)
    assert ort.InferenceSession(pair(), options)._session.options.spin is spin


@pytest.mark.parametrize(("text", "kept"), [("0", True), ("1", False), ("", None)])
def test_denormal_numbers(text: str, kept: bool | None) -> None:
    options = ort.SessionOptions()
    if text:
        options.add_session_config_entry("session.set_denormal_as_zero", text)
    assert ort.InferenceSession(pair(), options)._session.options.keep_denormals is kept


def test_arena_limits_memory() -> None:
    ort.create_and_register_allocator(
        ort.OrtMemoryInfo(
            "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
        ),
        ort.OrtArenaCfg({"max_mem": 1000}),
    )
    options = ort.SessionOptions()
    options.add_session_config_entry("session.use_env_allocators", "1")
    session = ort.InferenceSession(pair(), options)
    assert session._session.options.memory_limit == 1000
    with pytest.raises(Fail, match="memory"):
        session.run(None, {"x": np.zeros((1 << 12, 3), np.float32)})
    assert opened()._session.options.memory_limit > 1000


def test_options_of_the_provider() -> None:
    given = {"math": "strict", "threads": 2, "spin": 0, "memory_limit": 1 << 30, "cache_dir": "off"}
    session = ort.InferenceSession(pair(), providers=[(MINICC, given)])
    options = session._session.options
    assert (options.math, options.threads, options.spin) == ("strict", 2, False)
    assert (options.memory_limit, options.cache_dir) == (1 << 30, None)
    assert session.get_providers() == [MINICC, "CPUExecutionProvider"]
    assert session.get_provider_options()[MINICC]["math"] == "strict"
    session.set_providers(["CPUExecutionProvider"])
    assert session._session.options.math == "fast"


@pytest.mark.parametrize("given", [{"math": "sloppy"}, {"threads": "two"}, {"spin": 2}, {"so": 1}])
def test_bad_option_of_the_provider(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="MC01"):
        ort.InferenceSession(pair(), providers=[(MINICC, given)])


def test_registered_provider() -> None:
    options = ort.SessionOptions()
    options.add_provider_for_devices(ort.get_ep_devices()[:1], {"math": "strict"})
    assert ort.InferenceSession(pair(), options)._session.options.math == "strict"


def test_free_dimensions_are_bound_by_denotation() -> None:
    read = onnx.load_model_from_string(pair())
    read.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 4)
    session = ort.InferenceSession(read.SerializeToString(), options)
    assert session.get_inputs()[0].shape == [4, 3]
    assert session._session.options.sizes == (("batch", 4),)


def test_compiled_program_in_place_of_an_optimised_model(tmp_path: Path) -> None:
    path = tmp_path / "model.optimised"
    want = opened(told(), optimized_model_filepath=str(path)).run(None, {"x": X})
    session = ort.InferenceSession(path)
    assert [v.tolist() for v in session.run([], {"x": X})] == [v.tolist() for v in want]
    assert session.get_inputs()[0].shape == ["batch", 3]
    assert session.get_modelmeta().custom_metadata_map == {"labels": "a,b"}


@pytest.mark.parametrize("data", ["", "weights.bin"])
def test_optimised_model_that_tools_read_as_onnx(tmp_path: Path, data: str) -> None:
    path, options = tmp_path / "model.optimised.onnx", ort.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.add_free_dimension_override_by_name("n", 1)
    if data:
        entry = "session.optimized_model_external_initializers_"
        options.add_session_config_entry(f"{entry}file_name", data)
        options.add_session_config_entry(f"{entry}min_size_in_bytes", "1")
    want = ort.InferenceSession(biased(given=False), options).run(None, {"x": X})
    read = onnx.load(path)
    assert read.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1
    assert [p.name for p in tmp_path.iterdir() if p != path] == ([data] if data else [])
    got = ort.InferenceSession(path).run(None, {"x": X})
    assert [v.tolist() for v in got] == [v.tolist() for v in want]


def test_optimised_model_of_a_format_that_is_asked_for(tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "model")
    options.add_session_config_entry("session.save_model_format", "ONNX")
    ort.InferenceSession(pair(), options)
    assert onnx.load(tmp_path / "model").graph.input[0].name == "x"


@pytest.mark.parametrize("name", ["model.onnx", "model.mcp"])
def test_optimised_model_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match="MC0144"):
        opened(optimized_model_filepath=str(tmp_path / "no" / name))


def test_unnamed_dimension_of_a_compiled_program(tmp_path: Path) -> None:
    path = str(tmp_path / "model.mcp")
    ort.ModelCompiler(ort.SessionOptions(), pair(None)).compile_to_file(path)
    session = ort.InferenceSession(path)
    assert session.get_inputs()[0].shape == session.get_outputs()[0].shape == [None, 3]


def test_model_compiler(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(pair())
    compiler = ort.ModelCompiler(
        ort.SessionOptions(), path, flags=ort.OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS
    )
    compiler.compile_to_file()
    for given in (tmp_path / "model.mcp", compiler.compile_to_bytes()):
        (z,) = ort.InferenceSession(given).run(["z"], {"x": X})
        np.testing.assert_array_equal(z, -X)
    with pytest.raises(Fail, match="is there already"):
        compiler.compile_to_file()
    with pytest.raises(Fail, match="needs a path"):
        ort.ModelCompiler(ort.SessionOptions(), pair()).compile_to_file()
    with pytest.raises(NoSuchFile):
        ort.ModelCompiler(ort.SessionOptions(), tmp_path / "no.onnx").compile_to_file("x.mcp")


def test_profile_has_the_kernels(tmp_path: Path) -> None:
    session = opened(enable_profiling=True, profile_file_prefix=str(tmp_path / "profile"))
    began = session.get_profiling_start_time_ns()
    session.run(None, {"x": X})
    events = json.loads(Path(session.end_profiling()).read_text())
    nodes = [event for event in events if event["cat"] == "Node"]
    assert began == session.get_profiling_start_time_ns() > 0
    assert nodes
    assert {name for event in nodes for name in event["args"]["nodes"]} == {"Relu#0", "Neg#1"}


def test_profile_is_written_when_its_session_ends(tmp_path: Path) -> None:
    session = opened(enable_profiling=True, profile_file_prefix=str(tmp_path / "profile"))
    session.run(None, {"x": X})
    del session
    (path,) = tmp_path.iterdir()
    names = [event["name"] for event in json.loads(path.read_text())]
    assert names == ["session_initialization", "model_run"]


def test_loading_is_called_off() -> None:
    options = ort.SessionOptions()
    options.set_load_cancellation_flag(True)
    with pytest.raises(ModelLoadCanceled):
        ort.InferenceSession(pair(), options)


def test_initialisers_from_elsewhere(tmp_path: Path) -> None:
    read = onnx.load_model_from_string(biased(given=False))
    (weights,) = read.graph.initializer
    weights.ClearField("raw_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="nowhere.bin")
    path = tmp_path / "model.onnx"
    path.write_bytes(read.SerializeToString())
    options = ort.SessionOptions()
    value = ort.OrtValue.ortvalue_from_numpy(np.full(3, 5, np.float32))
    options.add_external_initializers(["w"], [value])
    (y,) = ort.InferenceSession(path, options).run(None, {"x": X})
    np.testing.assert_array_equal(y, X + 5)


def _with_data_beside(path: Path) -> bytes:
    """x + w, where w is 1 and lies in a file beside the path; the model's bytes."""
    read = onnx.load_model_from_string(biased(given=False))
    onnx.save(read, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path.read_bytes()


def test_files_of_initialisers_in_memory(tmp_path: Path) -> None:
    data = _with_data_beside(tmp_path / "model.onnx")
    file = (tmp_path / "w.bin").read_bytes()
    options = ort.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [file], [len(file)])
    (y,) = ort.InferenceSession(data, options).run(None, {"x": X})
    np.testing.assert_array_equal(y, X + 1)


def test_folder_of_initialisers(tmp_path: Path) -> None:
    data = _with_data_beside(tmp_path / "model.onnx")
    options = ort.SessionOptions()
    key = "session.model_external_initializers_file_folder_path"
    options.add_session_config_entry(key, str(tmp_path))
    (y,) = ort.InferenceSession(data, options).run(None, {"x": X})
    np.testing.assert_array_equal(y, X + 1)
    options.add_session_config_entry(key, str(tmp_path / "nowhere"))
    with pytest.raises(InvalidArgument, match="can't be read"):
        ort.InferenceSession(data, options)


def test_initialiser_for_no_model() -> None:
    options = ort.SessionOptions()
    options.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(X))
    with pytest.raises(NoSuchFile):
        ort.InferenceSession("nowhere.onnx", options)
    with pytest.raises(InvalidProtobuf):
        ort.InferenceSession(b"junkjunk" * 9, options)


def test_compiled_program_has_no_initialisers_to_override(tmp_path: Path) -> None:
    program = ort.ModelCompiler(ort.SessionOptions(), biased()).compile_to_bytes()
    session = ort.InferenceSession(program)
    assert session.get_overridable_initializers() == []
    with pytest.raises(InvalidArgument, match="no input is called 'w'"):
        session.run(None, {"x": X, "w": X[0]})


def test_initialiser_beside_the_model_is_kept_when_another_is_given(tmp_path: Path) -> None:
    arrays = {name: np.full(3, n, np.float32) for name, n in (("w", 1), ("v", 10))}
    data = model(
        [node("Add", ["x", "w"], ["t"]), node("Add", ["t", "v"], ["y"])],
        [tensor("x", FLOAT, ["n", 3]), tensor("w", FLOAT, [3])],
        [tensor("y", FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )
    path = tmp_path / "model.onnx"
    onnx.save(onnx.load_model_from_string(data), path, save_as_external_data=True, size_threshold=0)
    session = ort.InferenceSession(str(path))
    (y,) = session.run(None, {"x": X, "w": [2, 2, 2]})
    np.testing.assert_array_equal(y, X + 12)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X + 11)


def test_what_changes_nothing_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "minicc.onnxruntime")
    options = ort.SessionOptions()
    options.enable_mem_pattern = False
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.intra_op_num_threads = 1
    for _ in range(2):
        ort.InferenceSession(pair(), options)
    told = [record.getMessage() for record in caplog.records]
    assert [text.split(" is ")[0] for text in told] == [
        "SessionOptions.enable_mem_pattern",
        "SessionOptions.execution_mode",
        "the configuration session.disable_prepacking",
    ]
    assert {record.levelno for record in caplog.records} == {logging.INFO}


def test_severity_is_the_level_of_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    ort.set_default_logger_severity(3)
    ort.set_seed(1)
    assert not caplog.records
    ort.set_default_logger_severity(1)
    ort.set_seed(1)
    assert log.LOGGER.level == logging.INFO


def test_bad_providers_fall_back(caplog: pytest.LogCaptureFixture) -> None:
    session = ort.InferenceSession(pair(), providers=[5])  # type: ignore[list-item]
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert "a provider is 5" in caplog.text


def test_error_has_minicc_s_as_its_cause() -> None:
    session = ort.InferenceSession(pair())
    with pytest.raises(InvalidArgument, match="INVALID_ARGUMENT : MC0141") as caught:
        session.run(None, {"x": X[0]})
    assert isinstance(caught.value.__cause__, minicc.UserError)


def test_session_may_have_a_subclass() -> None:
    class Session(ort.InferenceSession):
        def __init__(self, path: bytes, **more: Any) -> None:
            super().__init__(path, **more)
            self.path = path

    assert Session(pair(), providers=["CPUExecutionProvider"]).run(["z"], {"x": X})


def test_binding_gets_a_new_value_for_another_shape() -> None:
    session = ort.InferenceSession(pair())
    binding = session.io_binding()
    binding.bind_output("z")
    shapes = []
    for rows in (1, 2):
        binding.bind_cpu_input("x", np.ones((rows, 3), np.float32))
        session.run_with_iobinding(binding)
        shapes.append(binding.get_outputs()[0].shape())
    assert shapes == [[1, 3], [2, 3]]
