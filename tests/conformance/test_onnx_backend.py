"""The tests for backends that ship in the onnx package, through `minicc.onnx_backend`.

Those that fail are listed in `known_failures.txt` beside this file, and what those that pass verify
is in the record of `minicc.frontends.onnx.catalogue`. A test that is listed and passes is as much
an error as one that is not and fails, and so is one that runs elsewhere than the record says;
`python -m tests.conformance.test_onnx_backend` from the root writes both anew.
Some tests are run here with free dimensions and with constants, all of them by `make conformance`.
All that needs these tests stands in this file, so that one process makes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.runner import Runner
from tests.conformance import interpreted, record
from tests.conformance.cases import FORMS, LISTED, cases, failure, listed, node_cases
from tests.ops.test_onnx_ops import CASES, ELSEWHERE
from tests.sweeps import WHOLE, part

from minicc import onnx_backend
from minicc.frontends.onnx import catalogue
from minicc.frontends.onnx.catalogue import Verified
from minicc.frontends.onnx.families import enter_all
from minicc.frontends.onnx.host import choice, text
from minicc.frontends.onnx.host.registry import HOST, run_host
from minicc.frontends.onnx.model.reader import read_node
from minicc.frontends.onnx.registry import OPERATORS

SHARDS = 24
EVERY = 48  # of so many tests, one is run here with free dimensions and with constants


@pytest.mark.parametrize("shard", part(range(SHARDS), 12))
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


def test_the_interpreter_on_nodes() -> None:
    """Between these and the cases of `test_onnx_ops` every operator is tried."""
    enter_all()
    tried = {case.op for case in CASES}
    taken, passed = set(part(range(len(node_cases())), 4)), 0
    for number, case in enumerate(node_cases()):
        if case.name.startswith("test_bernoulli"):
            continue  # what those expect was drawn, by a generator that stood elsewhere
        used = {f"{n.domain}.{n.op_type}".lstrip(".") for n in case.model.graph.node}
        if used <= set(OPERATORS) and (number not in taken or interpreted.agrees(case)):
            passed += number in taken
            tried |= used
    assert passed > (600 if WHOLE else 200)
    apart = ("com.microsoft.", "ai.onnx.ml.", "com.example.")  # the last are kernels by hand
    standard = {name for name in OPERATORS if not name.startswith(apart)}
    assert standard - tried <= ELSEWHERE


# casts of numbers are compiled, and those of texts are tried in test_onnx_ml
ON_HOST = {
    name
    for name, run in HOST.items()
    if run.__module__ in (choice.__name__, text.__name__) and not name.startswith("Cast")
}


def test_the_host_on_nodes() -> None:
    tried = set()
    for case in node_cases():
        nodes = [read_node(n, k) for k, n in enumerate(case.model.graph.node)]
        if len(nodes) != 1 or nodes[0].op not in ON_HOST:
            continue
        tried.add(nodes[0].op)
        names = [i.name for i in case.model.graph.input]
        for given, wanted in case.data:
            known = dict(zip(names, given, strict=True))
            got = run_host(nodes[0], [known.get(name) for name in nodes[0].inputs])
            shown = [g for g, name in zip(got, nodes[0].outputs, strict=False) if name]
            Runner.assert_similar_outputs(wanted, shown, rtol=case.rtol, atol=case.atol)
    assert tried == ON_HOST


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
