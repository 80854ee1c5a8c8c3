"""A matrix times its own transpose: half of it is computed, and is what all of it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.options import Options

X = np.random.default_rng(2).normal(size=(430, 410))


def products(f: Callable[..., Any], *args: Any) -> int:
    """Into how many products the only one was taken apart."""
    module = minicc.jit(f).lower(*args).module
    ops = lower(module, Options(), stop="choose-algorithm").main.body.ops
    return sum(isinstance(op, graph.Contract) for op in ops)


@pytest.mark.parametrize("math", ["fast", "strict"])
@pytest.mark.parametrize(
    "f", [lambda x: x @ x.T, lambda x: x.T @ x, lambda x: (x + 1).T @ (x + 1), np.cov]
)
def test_half_is_computed(f: Callable[..., Any], math: str) -> None:
    def call(x: Any) -> Any:
        return f(x)

    assert products(call, X) == 15
    got = minicc.jit(call, math=math)(X)
    np.testing.assert_allclose(got, f(X), rtol=1e-11, atol=1e-11)
    assert (got == got.T).all()


def test_other_products_stay_whole() -> None:
    assert products(lambda x: x[:64] @ x[:64].T, X) == 1
    assert products(lambda x: x[:, :410] @ (x + 1).T, X) == 1
    assert products(lambda x: x[:410] @ x[:410], X) == 1
    assert products(lambda x: np.einsum("ij,ij->i", x, x), X) == 1
