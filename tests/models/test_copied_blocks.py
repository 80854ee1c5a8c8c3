"""Products of which instances copy blocks of both sides, and long sums that go in parts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.models.test_streamed_products import arrays_of, check, f32, f64, product
from tests.sweeps import part

import minicc
from minicc.compile.compiler import lower
from minicc.ir import kernel
from minicc.ir.core import Module, walk
from minicc.ir.interpret import run
from minicc.ir.schedule import Around, Promotion, Schedule
from minicc.ir.space import PARALLEL
from minicc.ir.structured import Generic
from minicc.ir.text.printer import print_attribute, quote
from minicc.passes.structured.product_blocks import Sides, cheapest_blocks
from minicc.passes.structured.tile_cost import Vectors
from minicc.passes.structured.write_schedules import named_groups
from minicc.target import TARGETS, Target

TARGET = TARGETS["avx2"] if TARGETS["avx2"].runs_here() else Target.host()


def turned(x: Any, w: Any) -> Any:
    return x.T @ w


def both_turned(x: Any, w: Any) -> Any:
    return x.T @ w.T


def with_more(x: Any, w: Any) -> Any:
    return np.maximum((x + 1).T @ w + w[0], 0) * 2


def of_a_part(x: Any, w: Any) -> Any:
    return x[5:, 40:].T @ w[5:, 3:]


def each(x: Any, w: Any) -> Any:
    return np.einsum("bkm,bkn->bmn", x, w)


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], type]] = {
    "rows as they lie": (product, (301, 1440), (1440, 130), f32),
    "rows apart": (turned, (1701, 301), (1701, 77), f32),
    "both": (both_turned, (1203, 210), (190, 1203), f64),
    "a part of a larger one": (of_a_part, (1506, 180), (1506, 133), f32),
    "what is done with it": (with_more, (900, 130), (900, 300), f64),
    "a batch": (each, (2, 1100, 70), (2, 1100, 90), f64),
    "few results": (turned, (9001, 34), (9001, 19), f32),
    "as many terms as rows": (product, (30, 9000), (9000, 40), f64),
    "one column of vectors": (turned, (5000, 300), (5000, 8), f32),
    "integers": (turned, (1100, 400), (1100, 260), np.int64),
}


def schedules(function: Callable[..., Any], *given: Any) -> Sequence[Schedule]:
    module = minicc.jit(function).lower(*given).module
    lowered = lower(module, minicc.Options(target=TARGET.name), stop="schedule")
    return [g.schedule for _, g in named_groups(lowered) if g.schedule is not None]


def named(module: Module) -> tuple[str, Sequence[str]]:
    """What the only group of a product is called, and its dimensions."""
    options = minicc.Options(target=TARGET.name)
    ((name, group),) = named_groups(lower(module, options, stop="collapse"))
    (op,) = group.body.ops
    assert isinstance(op, Generic)
    return name, op.space.names


def with_schedule(name: str, plan: Schedule) -> minicc.Options:
    given = f"{quote(name)} = {print_attribute(plan)}\n"
    return minicc.Options(target=TARGET.name, schedules=given)


@pytest.mark.parametrize(("function", "x", "w", "element"), CASES.values(), ids=CASES)
def test_instances_copy_what_they_multiply(
    function: Callable[..., Any], x: tuple[int, ...], w: tuple[int, ...], element: type
) -> None:
    """Both sides where lhs lies by columns, else rhs alone; nothing is packed beside them.

    What is made of lhs before is written by rows.
    """
    left, right = arrays_of(x, w, element)
    plan = next(p for p in schedules(function, left, right) if p.promotes)
    assert len(plan.promotes) == (1 if function in (product, with_more) else 2)
    assert not plan.packs
    check(function, left, right, target=TARGET.name)


KINDS = itertools.product(
    (4, 5, 12, 24), (product, turned), ((0,), (1,), (0, 1)), ((6, 16), (5, 8))
)


@pytest.mark.parametrize(("size", "function", "copied", "steps"), part(KINDS, 4))
def test_blocks_of_all_kinds(
    size: int, function: Callable[..., Any], copied: tuple[int, ...], steps: tuple[int, int]
) -> None:
    """Whatever is copied, in blocks that divide the sums and the rows or not: one result."""
    left, right = arrays_of((37, 24), (24, 52), f64)
    left = left if function is product else np.ascontiguousarray(left.T)
    module = minicc.jit(function).lower(left, right).module
    name, (row, column, depth) = named(module)
    plan = Schedule(
        grid=(row, column),
        tiles=((row, 18), (column, 32)),
        steps=((row, steps[0]), (column, steps[1])),
        around=(Around(0, depth, size),),
        promotes=tuple(Promotion(0, k) for k in copied),
    )
    options = with_schedule(name, plan)
    for stop in ("tile", "pack", "parallelize"):
        (found,) = run(lower(module, options, stop=stop), [left, right])
        np.testing.assert_allclose(found, function(left, right), rtol=1e-12, atol=1e-10)
    jitted = minicc.jit(function, options=options)
    np.testing.assert_allclose(jitted(left, right), function(left, right), rtol=1e-12, atol=1e-10)


def test_rows_of_a_copy_begin_with_a_line() -> None:
    """A vector of them that lay in two lines would take two reads."""
    left, right = arrays_of((60, 20), (20, 73), f32)
    module = minicc.jit(product).lower(left, right).module
    name, (row, column, _) = named(module)
    plan = Schedule(
        grid=(row, column),
        tiles=((row, 60), (column, 73)),
        steps=((row, 2),),
        promotes=(Promotion(0, 1),),
    )
    options = with_schedule(name, plan)
    kernels = lower(module, options, stop="bufferize")
    ops = [op for f in kernels.functions for op in walk(f.body)]
    copies = [op.result.type for op in ops if isinstance(op, kernel.Alloc)]
    assert [(t.shape, t.strides) for t in copies] == [((20, 73), (80, 1))]
    jitted = minicc.jit(product, options=options)
    np.testing.assert_allclose(jitted(left, right), product(left, right), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(1000, 1000, 1000), (64, 64, 30000), (20000, 200, 200), (9, 4000, 4000), (211, 17, 99991)],
)
def test_blocks_fit_the_second_cache(
    target: Target, by_columns: bool, rows: int, columns: int, depth: int
) -> None:
    vectors = Vectors(target.lanes(64), target.vector_bits // 8)
    sides = Sides(1, rows, columns, depth, 8, 8, by_columns, vectors)
    found = cheapest_blocks(sides, target)
    assert found is not None
    copied = [found.columns] + [found.rows] * by_columns
    assert all(n * found.deep * 8 <= target.l2 // 3 for n in copied)
    assert found.rows <= rows
    assert found.columns <= columns
    assert found.deep <= depth


def split(function: Callable[..., Any], *given: Any) -> list[int]:
    """Into how many parts the sums of products go that are parted."""
    module = minicc.jit(function).lower(*given).module
    ops = lower(module, minicc.Options(target=TARGET.name), stop="split-sums").main.body.ops
    spaces = [op.space for op in ops if isinstance(op, Generic)]
    return [s.extent_of("p") for s in spaces if "p" in s and s["p"].kind == PARALLEL]


def test_long_sums_of_few_results_go_in_parts() -> None:
    """Whether or not the parts are equal, and of a batch unless that gives instances enough."""
    assert split(turned, *arrays_of((9000, 40), (9000, 30), f32)) == [8]
    assert split(product, *arrays_of((40, 9001), (9001, 30), f64)) == [8]
    assert split(product, *arrays_of((40, 900), (900, 30), f64)) == []
    assert split(product, *arrays_of((1100, 2100), (2100, 1030), f32)) == []
    assert split(product, *arrays_of((4, 90000), (90000, 300), f32)) == [8]  # as memory lies
    assert split(product, *arrays_of((4, 3000), (3000, 30), f32)) == []
    assert split(each, *arrays_of((9, 4000, 40), (9, 4000, 40), f64)) == []
    x, w = arrays_of((40, 9000), (9000, 30), f64)
    assert split(lambda x: x @ w, x) == []


def test_not_a_number_stays_in_its_rows() -> None:
    x, w = arrays_of((9001, 30), (9001, 20), f64)
    x[9000, 3], w[17, 4] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        want = x.T @ w
    got = minicc.jit(turned)(x, w)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
