"""A body of many ops has small tiles, since each op is code for each vector of the tile."""

from __future__ import annotations

from math import prod

import pytest

from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.affine import Dim, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Value, walk
from minicc.ir.structured import Generic
from minicc.ir.types import F32, TensorType
from minicc.options import Options
from tests.stages.programs import module

LANES = 16


@pytest.mark.parametrize("extent", [200, symbol("t")], ids=["fixed", "free"])
@pytest.mark.parametrize("count", [10, 60, 100, 300])
def test_tiles_shrink_as_bodies_grow(extent: Dim, count: int) -> None:
    def body(b: Builder, x: Value, w: Value) -> list[Value]:
        v = b.emit(graph.Add, x, w)
        for k in range(count):
            v = b.emit((graph.Max, graph.Mul, graph.Sub)[k % 3], v, (x, w)[k % 2])
        return [b.emit(graph.Reduce, v, axes=(2,), combine="add")]

    made = module(body, TensorType(F32, (symbol("n"), 1, extent)), TensorType(F32, (1, 8, 1)))
    tiled = lower(made, Options(target="avx512"), stop="tile")
    ops = [op for op in walk(tiled.main.body) if isinstance(op, Generic)]
    for op in ops:
        vectors = prod(size for _, size in op.tile) / LANES
        assert vectors * len(op.body.ops) <= max(1024, len(op.body.ops))
    assert max(len(op.body.ops) for op in ops) >= min(count, 60)
