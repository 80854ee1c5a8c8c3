"""Panels of weights are fetched ahead: all of each, and most of it once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from minicc.compile.compiler import lower
from minicc.ir import affine, graph, kernel
from minicc.ir.affine import Dim, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Function, Module, Region, Value
from minicc.ir.interpret import run
from minicc.ir.schedule import Packing, Schedule
from minicc.ir.text.printer import print_attribute, quote
from minicc.ir.types import F32, TensorType
from minicc.options import Options
from minicc.passes.structured.write_schedules import named_groups
from tests.stages.programs import constant
from tests.stages.schedules import rescheduled
from tests.sweeps import part

ROWS = [2, 7, 13, 16, 17, 18, 20, 29, 33, 53, 100, 230]
KINDS = itertools.product(["avx2", "avx512"], [True, False], ROWS)
DEPTH, COLUMNS = 24, 4096  # more than any target keeps near


def _product(rows: Dim) -> Module:
    x = Value(TensorType(F32, (rows, DEPTH)), "x")
    b = Builder(("product",))
    weights = constant(b, np.ones((DEPTH, COLUMNS), np.float32))
    y = b.emit(graph.Contract, x, weights, equation="nk,kc->nc")
    return Module("graph", [Function("main", Region([x], b.ops, [y]))])


def _fetched(
    module: Module, given: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, Counter[int]]:
    """The elements of a panel, and how often each place of what is fetched ahead is fetched."""
    found: Counter[int] = Counter()
    panels: set[int] = set()

    def note(op: kernel.Prefetch, run: Any, memory: Any, *indices: Any) -> tuple[Any, ...]:
        buffer, points = op.buffer.type, np.arange(op.shape[-1])
        binding: dict[str, Any] = {f"i{k}": np.reshape(v, (-1, 1)) for k, v in enumerate(indices)}
        binding |= {f"t{k}": 0 for k in range(len(op.shape))} | {f"t{len(op.shape) - 1}": points}
        at = (affine.evaluate(e, binding) for e in op.at)
        place = sum(e * step for e, step in zip(at, buffer.strides, strict=True))
        found.update(np.ravel(place).tolist())
        panels.add(buffer.strides[0])
        return ()

    monkeypatch.setattr(kernel.Prefetch, "evaluate", note)
    run(module, given)
    (panel,) = panels
    return panel, found


@pytest.mark.parametrize(("target", "free", "rows"), part(KINDS, 3))
def test_each_panel_is_fetched_while_the_one_before_is_read(
    rows: int, free: bool, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = lower(_product(symbol("rows") if free else rows), Options(target=target))
    panel, found = _fetched(module, [np.ones((rows, DEPTH), np.float32)], monkeypatch)
    rest = range(panel, DEPTH * COLUMNS // panel * panel)
    assert rest
    missing = [place for place in rest if place not in found]
    assert not missing, missing[:5]
    assert free or np.median([found[place] for place in rest]) <= 2


def test_panels_of_an_op_without_tiles_are_fetched_too() -> None:
    module = lower(_product(7), Options(target="avx2"), stop="collapse")
    ((name, group),) = named_groups(module)
    bare = Schedule(grid=group.shared, packs=(Packing(0, 1, 4096),))
    options = Options(target="avx2", schedules=f"{quote(name)} = {print_attribute(bare)}\n")
    made = run(lower(_product(7), options), [np.ones((7, DEPTH), np.float32)])
    np.testing.assert_array_equal(made[0], np.full((7, COLUMNS), DEPTH, np.float32))


@pytest.mark.parametrize("seed", part(range(12), 3))
def test_nothing_is_fetched_where_there_are_no_columns(seed: int) -> None:
    x = Value(TensorType(F32, (5, 1)), "x")
    b = Builder(("nothing",))
    y = b.emit(graph.Broadcast, x, shape=(5, 0))
    module = Module("graph", [Function("main", Region([x], b.ops, [y]))])
    _, program, _ = rescheduled(module, Options(target="avx2"), None, Random(seed))
    (result,) = run(program, [np.ones((5, 1), np.float32)])
    assert result.shape == (5, 0)
