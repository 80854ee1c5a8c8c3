"""Programs that import `onnxruntime`, with minicc.onnxruntime in its place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minicc.onnxruntime import InferenceSession, OrtValue
from minicc.onnxruntime.environment import API_VERSION
from minicc.onnxruntime.stand_in import FOLDER
from tests.onnxruntime.models import pair

PROGRAM = """
import importlib.metadata
import importlib.util
import multiprocessing
import sys

import numpy as np
import beside
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as state
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.capi.onnxruntime_inference_collection import OrtValue
from onnxruntime.capi._pybind_state import get_available_providers
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile


def name(queue):
    queue.put(onnxruntime.__name__)


if __name__ == "__main__":
    try:
        InferenceSession("nowhere.onnx")
    except NoSuchFile:
        print("no such file")
    session = InferenceSession(sys.argv[1], SessionOptions(), ["CPUExecutionProvider"])
    print(session.run(["z"], {"x": [[1, 2, 3]]})[0].tolist(), sys.argv[2:])
    print(onnxruntime.__name__, importlib.metadata.version("onnxruntime"), beside.NAME)
    print(importlib.util.find_spec("onnxruntime") is not None, state.Fail is onnxruntime.capi
          .onnxruntime_pybind11_state.Fail)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=name, args=(queue,))
    child.start()
    print(queue.get(timeout=60))
    child.join()
    sys.exit(3)
"""
SAID = f"""no such file
[[-1.0, -2.0, -3.0]] ['-v', '--more', 'x']
minicc.onnxruntime {API_VERSION} beside
True True
minicc.onnxruntime
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    (tmp_path / "model.onnx").write_bytes(pair())
    return tmp_path / "program.py"


def run(*command: str, folder: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    source = str(Path(FOLDER).parents[2])
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, source]))}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environ, capture_output=True, text=True
    )


ARGUMENTS = ("model.onnx", "-v", "--more", "x")


def test_program(program: Path) -> None:
    done = run("-m", "minicc.onnxruntime", "program.py", *ARGUMENTS, folder=program.parent)
    assert (done.stdout, done.returncode) == (SAID, 3), done.stderr


def test_module(program: Path) -> None:
    done = run("-m", "minicc.onnxruntime", "-m", "program", *ARGUMENTS, folder=program.parent)
    assert (done.stdout, done.returncode) == (SAID, 3), done.stderr


def test_folder_on_the_path(program: Path) -> None:
    told = run("-m", "minicc.onnxruntime", "--folder", folder=program.parent)
    assert told.stdout.strip() == FOLDER
    done = run("program.py", *ARGUMENTS, folder=program.parent, path=FOLDER)
    assert (done.stdout, done.returncode) == (SAID, 3), done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"), [((), "name a program"), (("no.py",), "there is no program no.py")]
)
def test_no_program(arguments: tuple[str, ...], text: str, tmp_path: Path) -> None:
    done = run("-m", "minicc.onnxruntime", *arguments, folder=tmp_path)
    assert done.returncode == 2
    assert text in done.stderr


def test_version_is_that_of_the_metadata() -> None:
    (found,) = Path(FOLDER).glob("*.dist-info")
    assert found.name == f"onnxruntime-{API_VERSION}.dist-info"
    assert f"Version: {API_VERSION}\n" in (found / "METADATA").read_text()


def test_what_programs_reach_for_behind_the_interface() -> None:
    session = InferenceSession(pair(), providers=["CPUExecutionProvider"])
    value = OrtValue.ortvalue_from_numpy(np.ones((1, 3), np.float32))
    assert session._sess.run(["z"], {"x": value._ortvalue}, None)[0].tolist() == [[-1, -1, -1]]
    assert session._providers == [*session._provider_options] == session.get_providers()
    assert value._get_c_value().data_ptr() == value.data_ptr()
    with pytest.raises(ValueError, match="an OrtValue of a int can't be had"):
        OrtValue(5)


TOOLS = """
import sys
from pathlib import Path

import onnx
import onnxruntime
from onnxruntime.capi._pybind_state import quantize_matmul_4bits
from onnxruntime.capi.build_and_package_info import package_name
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.tools.onnx_model_utils import get_optimization_level, optimize_model

quant_pre_process(sys.argv[1], "prepared.onnx", skip_symbolic_shape=True)
optimize_model(Path(sys.argv[1]), Path("optimised.onnx"), get_optimization_level("basic"))
print(onnxruntime.__name__, package_name[:11], *(len(onnx.load(f"{name}.onnx").graph.node)
                              for name in ("prepared", "optimised")))
try:
    quantize_matmul_4bits()
except NotImplemented as error:
    print("quantise without minicc in its place" in str(error))
"""


def test_tools_of_an_installed_runtime(program: Path) -> None:
    pytest.importorskip("onnxruntime.quantization")
    (program.parent / "tools.py").write_text(TOOLS)
    done = run("-m", "minicc.onnxruntime", "tools.py", "model.onnx", folder=program.parent)
    assert done.stdout == "minicc.onnxruntime onnxruntime 2 2\nTrue\n", done.stderr
