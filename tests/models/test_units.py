"""Units: the parts of a graph with what reaches each, run by the ops' own definitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.stages.programs import constant, module

from minicc.compile.compiled import compile_module
from minicc.compile.units import Unit, run_units, units_of
from minicc.errors import UserError
from minicc.frontends.onnx.importer import import_model
from minicc.ir import graph
from minicc.ir.affine import symbol
from minicc.ir.build import Builder
from minicc.ir.core import Array, Module, Value
from minicc.ir.types import F32, TensorType
from minicc.options import Options


@pytest.fixture(autouse=True)
def nothing_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops that place elements where data say stay on the host, however few these are."""
    monkeypatch.setattr("minicc.passes.graph.expand._LONGEST", 0)
    monkeypatch.setattr("minicc.passes.graph.expand._FEW", 0)


OPTIONS = Options(threads=1)


def sorted_twice() -> Module:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        doubled = b.emit(graph.Add, x, x)
        first, _ = b.emit_all(graph.TopK, doubled, axis=1, k=3)
        scaled = b.emit(graph.Mul, first, constant(b, np.float32(2)))
        again, places = b.emit_all(graph.TopK, scaled, axis=0, k=1)
        return [x, constant(b, np.arange(3)), doubled, again, places]

    return module(body, TensorType(F32, (symbol("n"), 5)))


def test_units_run_as_the_model_does() -> None:
    made = sorted_twice()
    units = units_of(made, OPTIONS, {"n": 4})
    assert [bool(u.host) for u in units.known] == [False, True, False, True]
    assert units.several
    assert units.known[0].takes == ("x0: f32[4,5]",)
    assert units.known[1].takes == ("result 0 of part 1: f32[4,5]",)
    met: list[tuple[int, int, int]] = []

    def count(unit: Unit, inputs: list[Array], outputs: list[Array]) -> None:
        met.append((unit.number, len(inputs), len(outputs)))

    x = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    got = run_units(units, [x], OPTIONS, count)
    compiled = compile_module(made, OPTIONS, {"n": 4})
    for a, b in zip(got, compiled.executable.run([x]), strict=True):
        np.testing.assert_array_equal(a, b)
    compiled.executable.close()
    assert met == [(1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 2)]


def test_a_graph_without_host_ops_is_one_unit_as_it_stands() -> None:
    made = module(lambda b, x: [b.emit(graph.Exp, x)], TensorType(F32, (symbol("n"),)))
    units = units_of(made, OPTIONS, {"n": 3})
    (unit,) = units.known
    assert not units.several
    assert unit.takes == ("x0: f32[n]",)
    assert dict(unit.binding) == {"n": 3}
    (got,) = run_units(units, [np.zeros(3, np.float32)], OPTIONS, lambda *_: None)
    assert got.tolist() == [1, 1, 1]


def test_sizes_that_data_decide_and_a_plan_took_for_equal() -> None:
    ends = [helper.make_tensor_value_info("at", TensorProto.INT64, [])]
    nodes = [
        helper.make_node("SplitToSequence", ["x", "four"], ["parts"]),
        helper.make_node("SequenceAt", ["parts", "at"], ["part"]),
        helper.make_node("Mul", ["x", "part"], ["y"]),
    ]
    x = np.arange(5, dtype=np.float32)
    tensors = [
        numpy_helper.from_array(x, "x"),
        numpy_helper.from_array(np.array(4), "four"),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph_proto = helper.make_graph(nodes, "g", ends, outputs, tensors)
    opsets = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph_proto, opset_imports=opsets, ir_version=9)
    imported = import_model(proto.SerializeToString())
    (got,) = run_units(units_of(imported, OPTIONS, {}), [np.array(-1)], OPTIONS, lambda *_: None)
    np.testing.assert_array_equal(got, x * 4)
    with pytest.raises(UserError, match="MC0142"):
        run_units(units_of(imported, OPTIONS, {}), [np.array(0)], OPTIONS, lambda *_: None)
