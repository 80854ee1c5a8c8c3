"""Products with matrices that are no constants, of which each instance copies its columns."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_streamed_products import arrays_of, check, f32, f64, generics, product

import minicc
from minicc.compiler import lower
from minicc.ir.structured import Group
from minicc.options import Options
from minicc.target import TARGETS


def turned(x: Any, w: Any) -> Any:
    return x @ w.T


def with_more(x: Any, w: Any) -> Any:
    return np.maximum(x @ w + w[0], 0) * 2


def each(x: Any, w: Any) -> Any:
    return np.einsum("bmk,bkn->bmn", x, w)


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], type]] = {
    "a matrix": (product, (100, 300), (300, 2000), f32),
    "columns that leave a rest": (product, (67, 130), (130, 2051), f32),
    "turned": (turned, (64, 150), (1999, 150), f32),
    "what is done with it": (with_more, (101, 200), (200, 1100), f64),
    "a batch": (each, (2, 64, 100), (2, 100, 1600), f32),
    "integers": (product, (90, 100), (100, 1100), np.int64),
}


@pytest.mark.parametrize(("function", "x", "w", "element"), CASES.values(), ids=CASES)
def test_promoted(
    function: Callable[..., Any], x: tuple[int, ...], w: tuple[int, ...], element: type
) -> None:
    left, right = arrays_of(x, w, element)
    module = minicc.jit(function).lower(left, right).module
    for target in TARGETS:
        packed = lower(module, Options(target=target), stop="pack")
        copy, op, *_ = generics(packed)
        assert copy.result in op.operands
    for target in [t for t in TARGETS if TARGETS[t].runs_here()]:
        check(function, left, right, element, target)


@pytest.mark.parametrize(
    ("x", "w"),
    [((8, 300), (300, 2000)), ((900, 300), (300, 2000)), ((100, 300), (300, 60))],
    ids=["few rows", "many rows", "few columns"],
)
def test_others_are_packed_apart_or_not_at_all(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    left, right = arrays_of(x, w, f32)
    module = minicc.jit(product).lower(left, right).module
    scheduled = lower(module, Options(target="avx2"), stop="schedule")
    plans = [op.schedule for op in scheduled.main.body.ops if isinstance(op, Group)]
    assert plans
    assert not any(plan.promotes for plan in plans if plan is not None)
