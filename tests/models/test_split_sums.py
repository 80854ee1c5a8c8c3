"""Products of a few rows with large matrices: blocks of their sums give what NumPy gives."""

from typing import Any

import numpy as np
import pytest

import minicc
from minicc.ir import graph

CASES = [
    ("rows", (4, 4100), (4100, 520), np.float32),
    ("one row", (4100,), (4100, 520), np.float32),
    ("in float64", (3, 4100), (4100, 260), np.float64),
    ("from the other side", (260, 2050), (2050, 1100), np.float64),
]


def product(x: Any, w: Any) -> Any:
    return x @ w


@pytest.mark.parametrize(("x", "w", "element"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_split_sums(x: tuple[int, ...], w: tuple[int, ...], element: type) -> None:
    rng = np.random.default_rng(0)
    left: Any = rng.standard_normal(x).astype(element)
    right: Any = rng.standard_normal(w).astype(element)
    want = left.astype(np.float64) @ right.astype(np.float64)
    results = [minicc.jit(product, threads=n)(left, right) for n in (1, 2)]
    np.testing.assert_array_equal(results[0], results[1])
    bound = 64 * np.finfo(element).eps * np.sqrt(x[-1])
    assert np.abs(results[0] - want).max() <= bound * np.abs(want).max()


@pytest.mark.parametrize(("math", "sums"), [("fast", 1), ("strict", 0)])
def test_strict_mathematics_keeps_one_sum(math: str, sums: int) -> None:
    x, w = np.ones((4, 4100), np.float32), np.ones((4100, 520), np.float32)
    ops = minicc.jit(product, math=math).lower(x, w).at("graph").main.body.ops
    assert sum(isinstance(op, graph.Reduce) for op in ops) == sums
