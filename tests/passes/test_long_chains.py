"""Long chains of elementwise ops: bodies and groups have a bound, and nothing is computed twice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from minicc.compile.compiler import lower
from minicc.ir import arith, graph
from minicc.ir.build import Builder
from minicc.ir.core import Module, Op, Value, walk
from minicc.ir.lengths import length
from minicc.ir.program import launches
from minicc.ir.structured import Generic
from minicc.ir.types import F32, TensorType
from minicc.options import Options
from tests.stages.programs import machine_code, module

_SHAPE = (3, 40)
_erf = np.vectorize(math.erf)


def chain(op: type[Op], count: int) -> Module:
    """So many ops, each on all that the one before it gives."""

    def body(b: Builder, x: Value) -> Sequence[Value]:
        for _ in range(count):
            x = b.emit(op, x, x) if issubclass(op, graph.Binary) else b.emit(op, x)
        return [x]

    return module(body, TensorType(F32, _SHAPE))


def test_what_an_op_reads_twice_is_computed_once() -> None:
    merged = lower(chain(graph.Max, 40), Options(), stop="merge")
    bodies = [op.body.ops for op in walk(merged.main.body) if isinstance(op, Generic)]
    assert sum(map(len, bodies)) == 40


@pytest.mark.parametrize("shape", [_SHAPE, (400, 400)], ids=["small", "large"])
def test_what_ops_add_to_what_they_read_is_computed_once(shape: tuple[int, int]) -> None:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        for _ in range(100):
            x = b.emit(graph.Add, b.emit(graph.Sin, x), x)
        return [x]

    program = lower(module(body, TensorType(F32, shape)), Options(), stop="fuse")
    ops = [type(op) for op in walk(program.main.body)]
    assert ops.count(arith.Sin) == ops.count(arith.Add) == 100


@pytest.mark.parametrize(
    ("op", "exact"),
    [(graph.Neg, np.negative), (graph.Tanh, np.tanh), (graph.Erf, _erf)],
    ids=["neg", "tanh", "erf"],
)
def test_bodies_and_kernels_have_a_bound(op: type[Op], exact: Callable[[Any], Any]) -> None:
    made = chain(op, 300)
    merged = lower(made, Options(), stop="merge")
    for generic in walk(merged.main.body):
        if isinstance(generic, Generic):
            assert length(generic.body.ops) <= 128
    program = lower(made, Options())
    # equal parts of the chain are one kernel, beside that of the rest
    assert len(program.functions) - 1 <= 2
    x = np.linspace(-2, 2, 120, dtype=np.float32).reshape(_SHAPE)
    (got,) = machine_code(program, Options().machine.name, [x], 2)
    wanted = x.astype(np.float64)
    for _ in range(300):
        wanted = exact(wanted)
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-6)
    assert sum(1 for _ in launches(program.main.body)) <= 30
