"""How much a tile holds: code is written out for each of its vectors."""

from __future__ import annotations

from collections.abc import Sequence
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
from minicc.passes.structured.schedule_rows import _MOST_VECTORS
from tests.stages.programs import module

FREE = (symbol("a"), symbol("b"), symbol("c"))


def turned_and_summed(b: Builder, x: Value) -> Sequence[Value]:
    """Two results lie along axes of their own, and a third sums over one of them."""
    curve = b.emit(graph.Tanh, x)
    product = b.emit(graph.Mul, curve, x)
    both = b.emit(graph.Add, curve, product)
    turned = b.emit(graph.Transpose, b.emit(graph.Add, both, product), perm=(2, 1, 0))
    total = b.emit(graph.Reduce, both, axes=(0,), keepdims=True, combine="add")
    return [curve, turned, total]


@pytest.mark.parametrize("shape", [FREE, (64, 64, 64)], ids=["free", "known"])
def test_a_tile_along_two_contiguous_axes_is_few_vectors(shape: tuple[Dim, ...]) -> None:
    made = module(turned_and_summed, TensorType(F32, shape))
    options = Options(target="avx512")
    lowered = lower(made, options, stop="tile")
    ops = [op for f in lowered.functions for op in walk(f.body) if isinstance(op, Generic)]
    tiles = [prod(size for _, size in op.tile) for op in ops if len(op.tile) > 1]
    assert tiles
    assert max(tiles) <= _MOST_VECTORS * 16
