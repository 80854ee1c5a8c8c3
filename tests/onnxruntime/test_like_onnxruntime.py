"""minicc.onnxruntime behaves as ONNX Runtime does, call by call.

`expected.txt` is what ONNX Runtime does; `pytest --update` writes it anew where that is installed.
"""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import minicc.onnxruntime as minicc_ort
from minicc.onnxruntime.capi import onnxruntime_pybind11_state as minicc_state
from minicc.onnxruntime.devices import cpu_memory
from minicc.onnxruntime.environment import API_VERSION
from tests.onnxruntime.probes import PROBES, outcome

EXPECTED = Path(__file__).parent / "expected.txt"

# where minicc does otherwise, and why
DIFFERENT = {
    "run, feed big-endian": "ONNX Runtime takes the bytes as they lie",
    "value in place, float64": "ONNX Runtime copies as many bytes as it has room for",
    "run, a sequence of float64": "InvalidArgument, as for a tensor of another type",
    "run, unlike sizes of one name, other": "InvalidArgument: the shapes are refused before a run",
    "copied_tensors": "ONNX Runtime's package for CPUs has nothing that copies",
}


@cache
def expected() -> dict[str, str]:
    lines = EXPECTED.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" -> ", 1) for line in lines)


def real() -> Any:
    """ONNX Runtime of the version that `minicc.onnxruntime` has the interface of."""
    module = pytest.importorskip("onnxruntime")
    if module.__version__ != API_VERSION:
        pytest.skip(f"onnxruntime is {module.__version__}, and not {API_VERSION}")
    return module


@pytest.fixture(scope="module", autouse=True)
def _written(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update"):
        lines = [f"{name} -> {outcome(real(), probe)}\n" for name, probe in PROBES.items()]
        EXPECTED.write_text("".join(lines), encoding="utf-8")


@pytest.mark.parametrize("name", PROBES)
def test_does_as_onnxruntime(name: str) -> None:
    got = outcome(minicc_ort, PROBES[name])
    if name in DIFFERENT:
        assert got != expected()[name], "the same now: take it out of DIFFERENT"
        pytest.skip(DIFFERENT[name])
    assert got == expected()[name]


@pytest.mark.parametrize("name", PROBES)
def test_expected_is_what_onnxruntime_does(name: str) -> None:
    assert outcome(real(), PROBES[name]) == expected()[name]


def public(module: Any) -> set[str]:
    return {
        n for n in dir(module) if not n.startswith("_") and not inspect.ismodule(getattr(module, n))
    }


def test_all_names_are_there() -> None:
    ort = real()
    own = {"cuda_version", "package_name", "version", "import_capi_exception"}
    missing = public(ort) - public(minicc_ort) - set(minicc_ort.ABSENT) - own
    assert not missing


def test_no_absent_name_is_there() -> None:
    assert not set(minicc_ort.ABSENT) & set(minicc_ort.__all__)
    with pytest.raises(AttributeError, match="has no LoraAdapter: adapters"):
        _ = minicc_ort.LoraAdapter


def test_exceptions_are_there() -> None:
    state = real().capi.onnxruntime_pybind11_state
    for name in public(state):
        kind = getattr(state, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            own = getattr(minicc_state, name)
            assert issubclass(own, Exception)
            assert own.__module__ == minicc_state.__name__


CLASSES = ["InferenceSession", "IOBinding", "OrtValue", "OrtDevice", "SparseTensor"]
CLASSES += ["ModelCompiler", "SessionOptions", "RunOptions", "NodeArg", "ModelMetadata"]
CLASSES += ["OrtMemoryInfo", "OrtArenaCfg"]
# of classes whose attributes the constructor sets
MADE = {"OrtArenaCfg": minicc_ort.OrtArenaCfg(0), "OrtMemoryInfo": cpu_memory()}


@pytest.mark.parametrize("name", CLASSES)
def test_methods_have_the_same_parameters(name: str) -> None:
    theirs, ours = getattr(real(), name), getattr(minicc_ort, name)
    for method in sorted(public(theirs)):
        if f"{name}.{method}" in minicc_ort.ABSENT:
            continue
        assert hasattr(ours, method) or hasattr(MADE.get(name), method), method
        their_parameters, our_parameters = (_parameters(c, method) for c in (theirs, ours))
        if their_parameters is not None and our_parameters is not None:
            assert our_parameters == their_parameters, method


def _parameters(kind: type, method: str) -> list[tuple[str, Any]] | None:
    """Names and kinds of parameters; None of what is not written in Python."""
    try:
        found = inspect.signature(getattr(kind, method))
    except (ValueError, TypeError, AttributeError):
        return None
    return [(p.name, p.kind) for p in found.parameters.values() if p.name != "self"]
