"""Matrices turned in registers, of every pair of extents, as machine code on every target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.stages.programs import machine_code, module

from minicc.compiler import lower
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Value
from minicc.ir.types import DTYPES, TensorType
from minicc.options import Options
from minicc.target import TARGETS

_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]


@pytest.mark.parametrize("target", _RUNNABLE)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "bf16", "bool"])
@pytest.mark.parametrize(
    "shape", [(4, 4), (5, 64), (64, 5), (16, 16), (21, 13), (2, 9, 35), (40, 3, 6, 7)], ids=str
)
def test_axes_change_places(shape: tuple[int, ...], dtype: str, target: str) -> None:
    element = DTYPES[dtype]
    x = np.arange(np.prod(shape)).reshape(shape) % 251 % 127
    x = x.astype(np.float32).astype(element.numpy)
    perm = (*range(1, len(shape)), 0)

    def body(b: Builder, v: Value) -> Sequence[Value]:
        return [b.emit(graph.Transpose, v, perm=perm)]

    program = lower(module(body, TensorType(element, shape)), Options(target=target))
    (got,) = machine_code(program, target, [x], 2)
    assert got.tobytes() == np.ascontiguousarray(x.transpose(perm)).tobytes()
