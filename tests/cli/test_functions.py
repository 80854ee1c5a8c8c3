"""Python functions on the command line: run, bench, explain."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.test_cli import failure, invoke, misuse

SOURCE = """
import numpy as np

def grow(x, n, scale=2.0):
    y = x * scale
    for _ in range(n):
        y = y + 1
    x[0] = 5
    return {"y": y, "s": y.sum()}

def refuse(x):
    raise LookupError("no such row")

def product(a, b):
    return a @ b

def turn(x):
    return np.exp(x * 1j).conj() * x

def printed(x):
    y = x + 1
    print(y.sum())
    return y * 2
"""
SQUARES = ("--shape", "a=64x64", "--shape", "b=64x64")
GIVEN = ("--input", "x=f32[3,4]=1", "--input", "n=3")


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "many.py").write_text(SOURCE)
    return str(tmp_path / "many.py")


def test_run_shows_results_and_what_was_written(file: str, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    result = invoke("run", f"{file}:grow", *GIVEN, "--save", str(out))
    assert result.exit_code == 0, result.output
    assert "f was traced" not in result.output
    assert "grow was traced 1 time\n" in result.output
    with np.load(out) as saved:
        assert sorted(saved) == ["result['s']", "result['y']", "x"]
        np.testing.assert_array_equal(saved["result['y']"], np.full((3, 4), 5, np.float32))
        np.testing.assert_array_equal(saved["x"], [[5] * 4, [1] * 4, [1] * 4])


def test_numbers_are_given_as_python_writes_them(file: str) -> None:
    args = ("run", f"{file}:grow", *GIVEN, "--input", "scale=-1.5", "--outputs", "result['s']")
    told = json.loads(invoke(*args, "--json").stdout)
    assert told["outputs"] == {"result['s']": told["outputs"]["result['s']"]}
    assert told["outputs"]["result['s']"]["first"] == [18.0]


def test_bench_beside_numpy(file: str) -> None:
    """The arrays that a function writes to are as they were before each run."""
    args = ("bench", f"{file}:grow", *GIVEN, "--against", "numpy", "--seconds", "0.1", "--json")
    told = json.loads(invoke(*args).stdout)
    assert list(told["engines"]) == ["minicc", "numpy"]
    assert told["difference"] == 0


def test_bench_tells_of_launches(file: str) -> None:
    args = ("bench", f"{file}:product", *SQUARES, "--seconds", "0.1", "--profile", "3", "--json")
    told = json.loads(invoke(*args).stdout)
    assert "many_py_15" in [launch["kernel"] for launch in told["launches"]]
    broken = ("bench", f"{file}:printed", "--shape", "x=4", "--seconds", "0.1", "--profile", "3")
    assert "functions of one graph" in invoke(*broken).stderr


def test_verify_compares_every_stage(file: str) -> None:
    told = json.loads(invoke("verify", f"{file}:product", *SQUARES, "--json").stdout)
    assert told["agrees"]
    complex_ = ("--input", f"x=@{file}.npy")
    for array in (np.arange(6) + 1j, np.array(1 + 2j)):
        np.save(f"{file}.npy", array)
        result = invoke("verify", f"{file}:turn", *complex_)
        assert result.exit_code == 0, result.output
    assert "functions of one graph" in invoke("verify", f"{file}:printed", "--shape", "x=4").stderr


def test_explain(file: str) -> None:
    assert "break at many.py:" in invoke("explain", f"{file}:printed", "--shape", "x=4").stdout
    told = json.loads(invoke("explain", f"{file}:printed", "--shape", "x=4", "--json").stdout)
    assert len(told["graphs"]) == 2
    assert len(told["breaks"]) == 1


def test_what_can_not_be_run(file: str) -> None:
    raised = failure("run", f"{file}:refuse", "--shape", "x=3")
    assert raised.startswith("MC0169 error: refuse raised LookupError: no such row")
    assert "the argument n is not given" in failure("run", f"{file}:grow", "--shape", "x=3")
    assert "the shape of the argument x is not known" in failure(
        "run", f"{file}:grow", "--input", "x=random"
    )
    assert "no output is called 'z'" in failure("run", f"{file}:grow", *GIVEN, "--outputs", "z")
    assert "is of a model" in misuse("bench", f"{file}:grow", *GIVEN, "--against", "onnxruntime")
    assert "is not one of" in misuse("bench", f"{file}:grow", *GIVEN, "--against", "matlab")
    assert "name a function" in misuse("explain", "model.onnx")
