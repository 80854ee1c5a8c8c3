"""Graphs with ops that have no lowering: native parts and host ops in turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.stages.programs import constant, module

from minicc.compile.compiled import compile_module
from minicc.compile.partition import HostOps, Native, host_ops, partition
from minicc.errors import UserError
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Module, Value
from minicc.ir.interpret import run
from minicc.ir.types import F32, I64, TensorType
from minicc.options import Options


@pytest.fixture(autouse=True)
def nothing_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops that choose and place elements as data say stay on the host, however few these are."""
    monkeypatch.setattr(
        "minicc.passes.structured.lower_to_structured.can_scatter", lambda op: False
    )
    monkeypatch.setattr("minicc.passes.graph.expand._LONGEST", 0)
    monkeypatch.setattr("minicc.passes.graph.expand._FEW", 0)


OPTIONS = Options(threads=1)


def twice_scattered() -> Module:
    def body(b: Builder, x: Value, i: Value) -> Sequence[Value]:
        doubled = b.emit(graph.Add, x, x)
        first = b.emit(graph.Exp, b.emit(graph.ScatterND, doubled, i, x))
        again = b.emit(graph.ScatterND, first, i, x)
        beside = b.emit(graph.ScatterND, x, i, x)
        return [first, b.emit(graph.Add, again, doubled), beside]

    return module(body, TensorType(F32, (4, 5)), TensorType(I64, (4, 1)))


def test_parts_run_in_turns() -> None:
    made = twice_scattered()
    kinds = [type(p) for p in partition(made.main)]
    # what scatters into an argument joins the first one on the host
    assert kinds == [Native, HostOps, Native, HostOps, Native]
    compiled = compile_module(made, OPTIONS, {})
    x = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    i = np.array([[3], [-1], [0], [0]])
    for got, want in zip(compiled.executable.run([x, i]), run(made, [x, i]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert [on.why for on in compiled.host] == ["graph.scatter_nd has no lowering"] * 3
    compiled.executable.close()


def test_an_index_out_of_range_names_the_node() -> None:
    compiled = compile_module(twice_scattered(), OPTIONS, {})
    with pytest.raises(UserError, match=r"MC0158.*scatter_nd: index 9 leaves an") as caught:
        compiled.executable.run([np.zeros((4, 5), np.float32), np.array([[0], [9], [0], [0]])])
    assert caught.value.where == ("test.py:1",)


def test_what_depends_on_constants_needs_no_host() -> None:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        table = constant(b, np.arange(8, dtype=np.float32))
        return [b.emit(graph.Mul, x, b.emit_all(graph.TopK, table, axis=0, k=1)[0])]

    made = module(body, TensorType(F32, (3,)))
    assert len(host_ops(made)) == 1
    compiled = compile_module(made, OPTIONS, {})
    assert not compiled.host
    assert compiled.executable.run([np.ones(3, np.float32)])[0].tolist() == [7, 7, 7]


def test_outputs_are_the_callers_own() -> None:
    def body(b: Builder, x: Value, i: Value) -> Sequence[Value]:
        fixed = constant(b, np.arange(3, dtype=np.float32))
        taken = b.emit(graph.ScatterND, x, i, x)
        return [x, fixed, taken, taken, b.emit(graph.Add, taken, taken)]

    compiled = compile_module(
        module(body, TensorType(F32, (2, 3)), TensorType(I64, (2, 1))), OPTIONS, {}
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for _ in range(2):
        outputs = compiled.executable.run([x, np.array([[1], [0]])])
        for k, (got, want) in enumerate(
            zip(outputs, (x, np.arange(3), x[::-1], x[::-1], 2 * x[::-1]), strict=True)
        ):
            np.testing.assert_array_equal(got, want)
            assert not any(np.shares_memory(got, v) for v in (x, *outputs[:k]))
        for got in outputs:
            got[...] = -1
