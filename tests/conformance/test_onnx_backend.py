"""The tests for backends that ship in the onnx package, through `minicc.onnx_backend`.

Those that fail are listed in `known_failures.txt` beside this file, and what those that pass verify
is in the record of `minicc.frontends.onnx.catalogue`. A test that is listed and passes is as much
an error as one that is not and fails, and so is one that runs elsewhere than the record says;
`python -m tests.conformance.test_onnx_backend` from the root writes both anew.
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.runner import Runner
from tests.conformance import record

from minicc import onnx_backend
from minicc.frontends.onnx import catalogue
from minicc.frontends.onnx.catalogue import Verified

LISTED = Path(__file__).with_name("known_failures.txt")
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
ON_DISK = ("simple", "pytorch-converted", "pytorch-operator")
SHARDS = 24


class Case(NamedTuple):
    """A model, pairs of inputs and outputs, and how near the outputs must come."""

    name: str
    model: Any
    data: Any
    rtol: float
    atol: float


def plain(value: Any) -> Any:
    """Tensors as arrays, lists of them too."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    return np.asarray(value) if isinstance(value, np.generic) else value


def read(path: Path, type_: Any) -> Any:
    """A value of a test as it is stored."""
    raw = path.read_bytes()
    if type_.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
    if type_.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(raw))
    return numpy_helper.to_array(onnx.TensorProto.FromString(raw))


def from_disk(folder: Path) -> Case:
    model = onnx.load(folder / "model.onnx")
    sets: list[tuple[list[Any], list[Any]]] = []
    for place in sorted(folder.glob("test_data_set_*")):
        sides = []
        for name, values in (("input", model.graph.input), ("output", model.graph.output)):
            count = len(list(place.glob(f"{name}_*.pb")))
            sides.append([read(place / f"{name}_{k}.pb", values[k].type) for k in range(count)])
        sets.append((sides[0], sides[1]))
    return Case(folder.name, model, sets, 1e-3, 1e-7)


@cache
def cases() -> tuple[Case, ...]:
    """All tests, in the order of their names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            Case(c.name, c.model, c.data_sets, c.rtol, c.atol) for c in collect_testcases(None)
        ]
    for kind in ON_DISK:
        found += [from_disk(path.parent) for path in (DATA / kind).glob("*/model.onnx")]
    return tuple(sorted(found, key=lambda c: c.name))


def failure(case: Case, found: list[Verified] | None = None) -> str:
    """What is wrong; "" if nothing is, then what the test verifies is added to what was found."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            backend = onnx_backend.prepare(case.model)
            for inputs, outputs in case.data:
                got = backend.run([plain(x) for x in inputs])
                wanted = [plain(x) for x in outputs]
                Runner.assert_similar_outputs(wanted, list(got), rtol=case.rtol, atol=case.atol)
        if found is not None:
            found.append(record.verified(case.name, case.model, backend.session))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def listed() -> set[str]:
    return set(LISTED.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("shard", range(SHARDS))
def test_backend(shard: int) -> None:
    known = listed()
    wrong: list[str] = []
    for case in cases()[shard::SHARDS]:
        found: list[Verified] = []
        error = failure(case, found)
        wrong += filter(None, map(record.difference, found))
        if error and case.name not in known:
            wrong.append(f"{case.name} fails: {error}")
        elif not error and case.name in known:
            wrong.append(f"{case.name} passes: take it off the list")
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_list_names_tests() -> None:
    names = {case.name for case in cases()}
    lines = LISTED.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
    assert set(lines) <= names
    if record.SAME:
        assert [found.test for found in catalogue.record()] == sorted(names - set(lines))


def test_run_node() -> None:
    node = onnx.helper.make_node("Gemm", ["a", "b"], ["y"], transB=1)
    a, b = np.eye(3, dtype=np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    outputs: Any = onnx_backend.run_node(node, [a, b], opset_version=13)
    assert np.array_equal(outputs.y, b.T)
    assert np.array_equal(outputs[0], b.T)


def test_models_by_name_and_position() -> None:
    case = next(c for c in cases() if c.name == "test_add")
    inputs, (wanted,) = case.data[0]
    named = dict(zip([i.name for i in case.model.graph.input], inputs, strict=True))
    for given in (inputs, named):
        (got,) = onnx_backend.run_model(case.model, given)
        assert np.array_equal(got, wanted)
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("CUDA:0")


def write() -> None:
    """Run all tests, and write the list and the record."""
    found: list[Verified] = []
    failing = [case.name for case in cases() if failure(case, found)]
    LISTED.write_text("".join(f"{name}\n" for name in failing), encoding="utf-8")
    record.write(found)


if __name__ == "__main__":
    write()
