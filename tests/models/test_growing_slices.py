"""Slices whose extents depend on the round of a loop: captured where that is right, never wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.models.test_captured_loops import compare
from tests.sweeps import part

Function = Callable[..., Any]
N = 14
# what a round puts at x[k], computed of the first k elements, of a matrix, and of k itself
CAPTURED = {
    "sum": "x[:k].sum()",
    "mean": "x[:k].mean()",
    "mean by hand": "x[:k].sum() / k",
    "largest": "x[:k].max()",
    "product": "x[:k] @ a[k, :k]",
    "product of matrices": "(a[:k, :k] @ a[:k, k])[0]",
    "norm": "np.linalg.norm(x[:k])",
    "turned round": "(np.flip(x[:k]) * x[:k]).sum()",
    "turned by a slice": "(x[:k][::-1] * a[k, :k]).sum()",
    "the rest": "x[k:].sum() + x[k + 1 :].sum() + x[: -k].sum()",
    "outer": "np.outer(x[:k], y[:k]).sum()",
    "rows and columns": "((a[:k] * x[:k, None]).sum() + (a[:, :k] * x[:k]).sum()) / 99",
    "new axes": "(x[:k, np.newaxis] - x[np.newaxis, :k]).min()",
    "transposed": "a[:k, :].T.sum(axis=1)[2]",
    "elements": "x[:k][0] + x[:k][-1]",
    "functions": "np.exp(-x[:k] ** 2).sum() + np.where(x[:k] > 0, x[:k], y[:k]).sum()",
    "shape": "x[:k].shape[0] * 0.5 + a[:k, 1:].shape[1]",
    "steps": "a.reshape(-1)[1 : 2 * k : 2].sum()",
    "of a view": "a[1:, :][k - 1, :k].sum() + a[1:, :][: k - 1].sum() / 99",
    "columns": "(a[:, k] @ a[:, k:])[0] / 99 + (y @ a[:, :k])[-1] / 9",
    "a constant": "(TABLE[:k] @ y)[0] / 99 + (y @ TABLE[:, k:])[0] / 99",
    "numbered": "(np.arange(k) * x[:k]).sum() + (np.arange(k, N + 3) * x[k:N + 3].sum())[0]",
    "a window": "x[np.arange(k - 1, k + 1)].sum() + (np.arange(1, k + 1, 2) * 0.5).sum()",
    "made": "np.full(k, 0.5) @ x[:k] + np.ones(k) @ y[:k] + np.zeros((k, 2)).sum()",
    "a diagonal": "(np.eye(k, dtype=np.float32) @ x[:k]).sum() + np.linspace(0, 1, k).sum()",
    "casts": "x[:k].astype(np.float64).sum().astype(np.float32)",
}
OTHERS = {
    "largest place": "np.argmax(x[:k])",
    "first two": "x[:k][:2].sum()",
    "last two": "x[:k][-2:].sum()",
    "a number of places": "x[:k][:5].sum() + len(x[:k])",
    "length": "len(x[:k]) * x[0]",
    "size": "x[:k].size * x[0]",
    "zeros": "np.zeros(x[:k].shape)[0] + np.ones_like(x[:k]).sum()",
    "numbered backwards": "(np.arange(k, 0, -1) * x[:k]).sum()",
    "sorted": "np.sort(x[:k])[0]",
    "running": "np.cumsum(x[:k])[-1]",
    "concatenated": "np.concatenate([x[:k], y[k:]]).sum()",
    "stacked": "np.stack([x[:k], y[:k]]).max()",
    "reshaped": "x[:k].reshape(-1, 1).sum()",
    "one line": "a[:k, :k].reshape(-1).sum() + a[:k].ravel()[0]",
    "squeezed": "np.squeeze(x[:k]).sum()",
    "repeated": "np.repeat(x[:k], 2).sum() + np.tile(x[:k], 2).sum()",
    "padded": "np.pad(x[:k], 1).sum()",
    "middle": "np.median(x[:k])",
    "spread": "np.std(x[:k]) + np.var(x[:k])",
    "differences": "np.diff(x[: k + 1]).sum()",
    "masked": "x[:k][x[:k] > 0].sum()",
    "index arrays": "x[:k][np.array([0, 0])].sum()",
    "broadcast": "np.broadcast_to(x[:k], (2, k)).sum()",
    "diagonal": "np.trace(a[:k, :k]) + np.diagonal(a[:k, :k]).sum()",
    "triangles": "np.triu(a[:k, :k]).sum() + np.eye(k).sum()",
    "einsum": "np.einsum('i,i->', x[:k], y[:k]) + np.tensordot(x[:k], y[:k], 1)",
    "cut short": "x[k - 2 : k].sum() + x[k : k + 3].sum()",
    "over the end": "x[k : 2 * k].sum()",
    "least of lengths": "x[: min(k, 4)].sum() + x[: max(k, 4)].sum()",
    "halves": "x[: k // 2].sum()",
    "with a step": "x[:k:2].sum()",
    "backwards": "x[k::-1].sum() + x[:k:-1].sum()",
    "compared": "x[0] if x[:k].shape == (3,) else x[:k].sum()",
    "equal to one": "x[0] if k == 1 else x[:k].sum()",
    "formatted": "float(f'{k}') * x[0]",
    "all of them": "float(x[:k].all()) + x[:k].any()",
}


def function_of(text: str, first: int) -> Function:
    """A loop that puts an expression at `x[k]`, and a slice at a row of `a`."""
    source = f"""
def grows(x, y, a):
    for k in range({first}, N):
        x[k] = {text}
        a[k, :k] = a[k, :k] * 0.5 + x[:k] * y[k]
    return x, y * 2
"""
    table = np.arange(N * N, dtype=np.float32).reshape(N, N) / N
    scope: dict[str, Any] = {"np": np, "N": N, "TABLE": table}
    exec(source, scope)
    return scope["grows"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("text", CAPTURED.values(), ids=CAPTURED.keys())
def test_captured(text: str) -> None:
    shown = compare(function_of(text, 1), ((N,), (N,), (N, N))).explain()
    assert all("a loop of the graph" in line for line in shown.loops), shown.loops
    assert shown.loops


@pytest.mark.filterwarnings("ignore::minicc.PerformanceWarning")
@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("name", part(OTHERS, 4))
def test_right(name: str, first: int) -> None:
    compare(function_of(OTHERS[name], first), ((N,), (N,), (N, N)))
