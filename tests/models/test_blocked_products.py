"""Products of matrices that no cache holds, which are computed block by block."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_streamed_products import arrays_of, check, f32, f64, generics, product

import minicc
from minicc.compile.compiler import lower
from minicc.ir.interpret import run
from minicc.ir.schedule import Around, Packing, Schedule
from minicc.ir.structured import Generic
from minicc.ir.text.printer import print_attribute, quote
from minicc.passes.structured.write_schedules import named_groups
from minicc.target import TARGETS, Target

# wider vectors leave fewer of them to the columns
TARGET = TARGETS["avx2"] if TARGETS["avx2"].runs_here() else Target.host()


def turned(x: Any, w: Any) -> Any:
    return x.T @ w


def with_more(x: Any, w: Any) -> Any:
    return np.maximum(x @ w + w[0], 0) * 2


def of_a_part(x: Any, w: Any) -> Any:
    return x[5:, 40:] @ w[:, 3:]


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], type]] = {
    "a matrix": (product, (1501, 1440), (1440, 530), f32),
    "rows apart": (turned, (1301, 1701), (1301, 577), f32),
    "a part of a larger one": (of_a_part, (1506, 1480), (1440, 533), f32),
    "what is done with it": (with_more, (1300, 900), (900, 300), f64),
    "integers": (product, (1100, 1000), (1000, 530), np.int64),
}


def of_weights(function: Callable[..., Any], w: Any) -> Callable[..., Any]:
    """The product with a matrix that is a constant."""
    return lambda x: function(x, w)


@pytest.mark.parametrize(("function", "x", "w", "element"), CASES.values(), ids=CASES)
def test_blocked(
    function: Callable[..., Any], x: tuple[int, ...], w: tuple[int, ...], element: type
) -> None:
    """The totals of a block wait for the next one along the sums; panels are packed apart."""
    left, right = arrays_of(x, w, element)
    module = minicc.jit(of_weights(function, right)).lower(left).module
    tiled = lower(module, minicc.Options(target=TARGET.name), stop="pack")
    (op,) = [op for op in generics(tiled) if op.around]
    assert {"packed"} == {v.hint for v in op.operands}
    assert len([n for n in op.space.names if n.endswith("s")]) == 2
    check(of_weights(function, right), left, target=TARGET.name)


def test_rows_first_where_what_is_far_comes_late() -> None:
    """All columns of a block pass over some rows, which are read as they lie if they lie so."""
    for function, packed in ((product, 1), (turned, 2)):
        left, right = arrays_of((4400, 1100), (1100, 1024), f64)
        (left, right) = of_side(function, left, right)
        module = minicc.jit(of_weights(function, right)).lower(left).module
        tiled = lower(module, minicc.Options(target="sapphire-rapids"), stop="pack")
        (op,) = [op for op in generics(tiled) if op.around]
        assert [v.hint for v in op.operands].count("packed") == packed
        names = op.space.names
        assert names.index(f"{names[0][:-1]}s") < names.index(f"{names[1][:-1]}s")


def of_side(function: Callable[..., Any], left: Any, right: Any) -> tuple[Any, Any]:
    """Operands of which the left one lies as the function reads it."""
    return (np.ascontiguousarray(left.T) if function is turned else left), right


@pytest.mark.parametrize("size", [4, 5, 12])
@pytest.mark.parametrize("rows_first", [True, False])
@pytest.mark.parametrize(("lhs", "rhs"), [(None, None), (0, None), (None, 32), (16, 0)])
def test_blocks_of_all_orders(
    size: int, rows_first: bool, lhs: int | None, rhs: int | None
) -> None:
    """Blocks that a reduction has evenly and not, packed and fetched ahead and not: one result."""
    left, right = arrays_of((37, 24), (24, 52), f64)
    module = minicc.jit(product).lower(left, right).module
    options = minicc.Options(target=TARGET.name)
    ((name, group),) = named_groups(lower(module, options, stop="collapse"))
    (op,) = group.body.ops
    assert isinstance(op, Generic)
    row, column, depth = op.space.names
    packs = [Packing(0, k, n) for k, n in enumerate((lhs, rhs)) if n is not None]
    plan = Schedule(
        grid=(row, column) if rows_first else (column, row),
        tiles=((row, 18), (column, 32)),
        steps=((row, 6), (column, 16)),
        around=(Around(0, depth, size),),
        packs=tuple(packs),
    )
    given = f"{quote(name)} = {print_attribute(plan)}\n"
    options = minicc.Options(target=TARGET.name, schedules=given)
    for stop in ("pack", "parallelize"):
        (found,) = run(lower(module, options, stop=stop), [left, right])
        np.testing.assert_allclose(found, left @ right, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize(("x", "w"), [((1000, 1000), (1000, 1000)), ((40, 90000), (90000, 40))])
def test_what_a_cache_holds_is_not_blocked(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    left, right = arrays_of(x, w, f32)
    module = minicc.jit(of_weights(product, right)).lower(left).module
    tiled = lower(module, minicc.Options(target=TARGET.name), stop="tile")
    assert not any(op.around for op in generics(tiled))
