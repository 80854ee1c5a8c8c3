"""Products of a few rows with large matrices, which are read once and as they lie."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

import minicc
from minicc.compile.compiler import lower
from minicc.ir.core import Module, Region
from minicc.ir.interpret import run
from minicc.ir.schedule import Around, Schedule
from minicc.ir.space import REDUCTION
from minicc.ir.structured import Generic, Group
from minicc.passes.structured.draft import STREAMED

f32, f64 = np.float32, np.float64


def product(x: Any, w: Any) -> Any:
    return x @ w


def with_more(x: Any, w: Any) -> Any:
    return np.maximum(x @ w + 0.5, 0) * 2


def each(x: Any, w: Any) -> Any:
    return np.einsum("bmk,bkn->bmn", x, w)


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], type]] = {
    "one row": (product, (515,), (515, 1030), f32),
    "a row of a matrix": (product, (1, 515), (515, 1030), f32),
    "a few rows": (product, (5, 130), (130, 3000), f32),
    "many rows of those": (product, (16, 300), (300, 1100), f64),
    "a narrow matrix": (product, (3, 20000), (20000, 30), f32),
    "what is done with it": (with_more, (2, 600), (600, 700), f64),
    "a batch": (each, (3, 2, 600), (3, 600, 700), f32),
    "integers": (product, (2, 600), (600, 700), np.int64),
}


def arrays_of(x: tuple[int, ...], w: tuple[int, ...], element: type) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return tuple((rng.standard_normal(s) * 8).astype(element) for s in (x, w))  # type: ignore[return-value]


def generics(module: Module) -> list[Generic]:
    groups = [op for op in module.main.body.ops if isinstance(op, Group)]
    return [op for g in groups for op in g.body.ops if isinstance(op, Generic)]


@pytest.mark.parametrize(("function", "x", "w", "element"), CASES.values(), ids=CASES)
def test_streamed(
    function: Callable[..., Any], x: tuple[int, ...], w: tuple[int, ...], element: type
) -> None:
    left, right = arrays_of(x, w, element)
    module = minicc.jit(function).lower(left, right).module
    tiled = lower(module, minicc.Options(target="avx2"), stop="tile")  # caches of a known size
    assert any(op.around for op in generics(tiled))
    check(function, left, right)


def check(function: Callable[..., Any], *given: Any, target: str | None = None) -> None:
    """The product is right, with the same bits at 1 and 2 threads."""
    element = given[0].dtype
    wide = f64 if element.kind == "f" else element
    want = function(*[a.astype(wide) for a in given])
    results = [minicc.jit(function, threads=n, target=target)(*given) for n in (1, 2)]
    np.testing.assert_array_equal(results[0], results[1])
    bound = 64 * np.finfo(element).eps if wide is f64 else 0
    terms = max(given[0].shape)
    assert np.abs(results[0] - want).max() <= bound * np.sqrt(terms) * np.abs(want).max()


@pytest.mark.parametrize("math", ["fast", "strict"])
def test_infinities_and_nans_stay_in_their_columns(math: Literal["fast", "strict"]) -> None:
    x, w = arrays_of((2, 600), (600, 700), f32)
    w[7, 3], w[8, 4] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        want = x @ w
    got = minicc.jit(product, math=math)(x, w)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("x", "w"), [((2, 40), (40, 50)), ((64, 600), (600, 700)), ((2, 12), (12, 60000))]
)
def test_small_matrices_and_many_rows_are_not(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    left, right = arrays_of(x, w, f32)
    tiled = lower(minicc.jit(product).lower(left, right).module, minicc.Options(), stop="tile")
    assert not any(size == STREAMED for op in generics(tiled) for _, size in op.around)


def test_a_part_of_the_sums_reads_whole_rows() -> None:
    """Threads share the rows of the matrix, and none reads a part of each."""
    x, w = arrays_of((3, 8200), (8200, 1200), f32)
    tiled = lower(
        minicc.jit(product).lower(x, w).module, minicc.Options(target="zen4"), stop="tile"
    )
    (op,) = (op for op in generics(tiled) if op.around)
    assert op.space.extents == {"p": 8, "zi": 1200, "yi": 3, "k": 1025}
    check(product, x, w)


# with how many rows are read at once, one after the other where some of them lie on a page
COLUMNS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], Any, int]] = {
    "sums": (lambda x: x.sum(0), ((1000, 300),), f64, 1),
    "means of long rows": (lambda x: x.mean(0), ((70, 6001),), f32, STREAMED),
    "largest of short rows": (lambda x: x.max(0), ((20000, 30),), f32, STREAMED),
    "products": (lambda x, y: (x * y).sum(0) * 2 + 1, ((1000, 300), (1000, 300)), f64, 1),
    "several": (lambda x: x.max(0) - x.min(0), ((900, 513),), f64, STREAMED),
    "of a batch": (lambda x: x.sum(1), ((2, 900, 513),), f64, STREAMED),
    "integers that wrap": (lambda x: x.sum(0, dtype=np.int32), ((900, 513),), np.int32, 1),
}


@pytest.mark.parametrize(
    ("function", "shapes", "element", "at_once"), COLUMNS.values(), ids=COLUMNS
)
def test_all_rows_of_a_large_matrix_to_one(
    function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], element: type, at_once: int
) -> None:
    rng = np.random.default_rng(0)
    arrays: list[Any] = [(rng.standard_normal(s) * 1e5).astype(element) for s in shapes]
    options = minicc.Options(target="zen4")
    tiled = lower(minicc.jit(function).lower(*arrays).module, options, stop="tile")
    assert [size for op in generics(tiled) for _, size in op.around] == [at_once]
    want = function(*arrays)
    results = [minicc.jit(function, threads=n)(*arrays) for n in (1, 2)]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


ROWS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], type]] = {
    "matrix and vector": (product, ((101, 1037), (1037,)), f32),
    "one row": (product, ((1, 1037), (1037,)), f64),
    "sums": (lambda x: x.sum(-1), ((33, 517),), f32),
    "means of rows of a batch": (lambda x: x.mean(2), ((3, 7, 260),), f64),
    "largest": (lambda x: x.max(1), ((65, 300),), f32),
    "both at once": (lambda x, y: (x * y).sum(1) + 1, ((50, 400), (50, 400)), f32),
    "short rows": (lambda x: x.sum(1), ((300, 5),), f32),
    "integers that wrap": (lambda x: x.sum(1, dtype=np.int8), ((30, 700),), np.int8),
}


@pytest.mark.parametrize(("function", "shapes", "element"), ROWS.values(), ids=ROWS)
def test_sums_along_rows(
    function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], element: type
) -> None:
    rng = np.random.default_rng(0)
    arrays: list[Any] = [(rng.standard_normal(s) * 9).astype(element) for s in shapes]
    with np.errstate(over="ignore"):
        want = function(*arrays)
    results = [minicc.jit(function, threads=n)(*arrays) for n in (1, 2)]
    np.testing.assert_array_equal(results[0], results[1])
    tolerance = 2e-4 if element is f32 else 1e-10
    np.testing.assert_allclose(results[0], want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("tile", "block"), [(7, 56), (7, 14), (2, 10), (24, 24)])
def test_blocks_of_a_reduction_that_tiles_do_not_divide(tile: int, block: int) -> None:
    left, right = arrays_of((10, 24), (24, 16), f32)
    fused = lower(minicc.jit(product).lower(left, right).module, minicc.Options(), stop="fuse")
    (group,) = fused.main.body.ops
    assert isinstance(group, Group)
    (k,) = (i.name for op in group.body.ops for i in op.space.of_kind(REDUCTION))  # type: ignore[attr-defined]
    plan = Schedule(group.shared, ((k, tile),), around=(Around(0, k, block),))
    planned = group.with_regions(group.regions, schedule=plan)
    body = fused.main.body
    main = fused.main.with_body(Region(body.args, [planned], body.yields))
    program = lower(Module("structured", [main]), minicc.Options(), start="fuse")
    (got,) = run(program, [left, right])
    np.testing.assert_allclose(got, left @ right, rtol=1e-4, atol=1e-4)
