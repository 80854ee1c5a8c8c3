"""The tests for backends that ship in the onnx package, through `minicc.onnx_backend`.

Those that fail are listed in `known_failures.txt` beside this file, and what those that pass verify
is in the record of `minicc.frontends.onnx.catalogue`. A test that is listed and passes is as much
an error as one that is not and fails, and so is one that runs elsewhere than the record says;
`python -m tests.conformance.test_onnx_backend` from the root writes both anew.
Some tests are run here with free dimensions and with constants, all of them by `make conformance`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from tests.conformance import record
from tests.conformance.cases import FORMS, LISTED, cases, failure, listed
from tests.sweeps import part

from minicc import onnx_backend
from minicc.frontends.onnx import catalogue
from minicc.frontends.onnx.catalogue import Verified

SHARDS = 24
EVERY = 24  # of so many tests, one is run here with free dimensions and with constants


@pytest.mark.parametrize("shard", part(range(SHARDS), 2))
def test_backend(shard: int) -> None:
    known = listed()
    wrong: list[str] = []
    for case in cases()[shard::SHARDS]:
        found: list[Verified] = []
        error = failure(case, found=found)
        wrong += filter(None, map(record.difference, found))
        if error and case.name not in known:
            wrong.append(f"{case.name} fails: {error}")
        elif not error and case.name in known:
            wrong.append(f"{case.name} passes: take it off the list")
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("form", ["free dimensions", "constants"])
@pytest.mark.parametrize("shard", range(2))
def test_backend_in_another_form(form: str, shard: int) -> None:
    known = listed()
    chosen = [case for case in cases()[shard :: EVERY * 2] if case.name not in known]
    errors = [(case.name, failure(case, FORMS[form])) for case in chosen]
    assert [(name, text) for name, text in errors if text] == []


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
    failing = [case.name for case in cases() if failure(case, found=found)]
    LISTED.write_text("".join(f"{name}\n" for name in failing), encoding="utf-8")
    record.write(found)


if __name__ == "__main__":
    write()
