"""Products of matrices that no cache holds, which are computed block by block."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_streamed_products import arrays_of, check, f32, f64, generics, product

import minicc
from minicc.compiler import lower
from minicc.target import TARGETS, Target

# wider vectors leave fewer of them to the columns
TARGET = TARGETS["avx2"] if TARGETS["avx2"].runs_here() else Target.host()


def turned(x: Any, w: Any) -> Any:
    return x.T @ w


def with_more(x: Any, w: Any) -> Any:
    return np.maximum(x @ w + w[0], 0) * 2


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], type]] = {
    "a matrix": (product, (1501, 1440), (1440, 530), f32),
    "rows apart": (turned, (1301, 1701), (1301, 577), f32),
    "what is done with it": (with_more, (1300, 900), (900, 300), f64),
    "integers": (product, (1100, 1000), (1000, 260), np.int64),
}


@pytest.mark.parametrize(("function", "x", "w", "element"), CASES.values(), ids=CASES)
def test_blocked(
    function: Callable[..., Any], x: tuple[int, ...], w: tuple[int, ...], element: type
) -> None:
    """The totals of a block wait for the next one along the sums; panels are packed apart."""
    left, right = arrays_of(x, w, element)
    module = minicc.jit(function).lower(left, right).module
    tiled = lower(module, minicc.Options(target=TARGET.name), stop="pack")
    (op,) = [op for op in generics(tiled) if op.around]
    assert {"packed"} == {v.hint for v in op.operands}
    assert len([n for n in op.space.names if n.endswith("s")]) == 2
    check(function, left, right, element, TARGET.name)


@pytest.mark.parametrize(("x", "w"), [((1000, 1000), (1000, 1000)), ((40, 90000), (90000, 40))])
def test_what_a_cache_holds_is_not_blocked(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    left, right = arrays_of(x, w, f32)
    module = minicc.jit(product).lower(left, right).module
    tiled = lower(module, minicc.Options(target=TARGET.name), stop="tile")
    assert not any(op.around for op in generics(tiled))
