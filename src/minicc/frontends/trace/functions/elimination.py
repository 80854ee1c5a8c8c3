"""Systems of linear equations and Cholesky factors, written with NumPy and traced as that stands.

A call of LAPACK would end a captured loop, and for a few unknowns take longer than they do; so
would it for the factor of a large matrix. Where LAPACK raises LinAlgError, an index is out of
bounds, so that NumPy runs the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minicc.frontends.trace.functions.as_written import as_here
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import traces
from minicc.frontends.trace.views import boxed

_MOST = 24  # unknowns for which LAPACK takes about as long
_LARGE = 256  # rows from which on it takes twice as long for a Cholesky factor as products do


def _reduced(a: Any, b: Any) -> Any:
    """The upper triangle of `a`, and `b`, after elimination, and the sign of the swaps of rows."""
    n = a.shape[0]
    a, b, at = a.copy(), b.copy(), np.arange(n)
    sign: Any = 1.0
    for k in range(n):
        p = np.argmax(np.where(at >= k, np.abs(a[:, k]), -1.0))
        sign = np.where(p == k, sign, -sign)
        row = a[p].copy()
        a[p] = a[k]
        a[k] = row
        row = b[p].copy()
        b[p] = b[k]
        b[k] = row
        pivot = a[k, k]
        factors = a[k + 1 :, k] / np.where(pivot == 0, 1.0, pivot).astype(a.dtype)
        a[k + 1 :, k + 1 :] -= factors[:, None] * a[k, k + 1 :]
        b[k + 1 :] -= factors[:, None] * b[k]
    return a, b, sign


def _solved(a: Any, b: Any) -> Any:
    n = a.shape[0]
    a, b, _ = _reduced(a, b)
    pivots = np.diagonal(a)
    for k in range(n - 1, -1, -1):
        b[k] = (b[k] - a[k, k + 1 :] @ b[k + 1 :]) / a[k, k]
    return b[None][np.where((pivots != 0).all(), 0, 1)]


def _determinant(a: Any) -> Any:
    a, _, sign = _reduced(a, a[:, :0])
    return np.prod(np.diagonal(a)) * sign.astype(a.dtype)


def _lower(a: Any) -> Any:
    n = a.shape[0]
    lower = np.zeros_like(a)
    pivots = np.zeros_like(a[0])
    for k in range(n):
        row = lower[k, :k]
        pivots[k] = a[k, k] - row @ row
        lower[k, k] = np.sqrt(pivots[k])
        lower[k + 1 :, k] = (a[k + 1 :, k] - lower[k + 1 :, :k] @ row) / lower[k, k]
    return lower[None][np.where((pivots > 0).all(), 0, 1)]


def _lower_by_blocks(a: Any) -> Any:
    """The factor of a large matrix: what a block of columns loses to those before is a product.

    The blocks of LAPACK's `potrf`, from the left; what lies below a block on the diagonal is
    multiplied by the inverse of its factor. The lower triangle of `a` alone is read.
    """
    size, n = 16, a.shape[0]
    m = -(-n // size) * size
    lower = np.zeros((m, m), dtype=a.dtype)
    lower[:n, :n] = a
    lower[n:, n:] = np.eye(m - n, dtype=a.dtype)
    pivots, at = np.ones(m, dtype=a.dtype), np.arange(size)
    for number in range(m // size):
        j = number * size
        lower[j:, j : j + size] -= lower[j:, :j] @ lower[j : j + size, :j].T
        block = np.tril(lower[j : j + size, j : j + size])
        block = block + np.tril(block, -1).T
        inverse, found = np.eye(size, dtype=a.dtype), np.ones(size, dtype=a.dtype)
        for k in range(size):
            found[k] = block[k, k]
            column = np.where(at >= k, block[k], 0).astype(a.dtype) / np.sqrt(block[k, k])
            block -= column[:, None] * column
            row = inverse[k] / column[k]
            inverse -= np.where(at > k, column, 0).astype(a.dtype)[:, None] * row
            inverse[k] = row
        pivots[j : j + size] = found
        lower[j:, j : j + size] = lower[j:, j : j + size] @ inverse.T
    return np.tril(lower[:n, :n])[None][np.where((pivots > 0).all(), 0, 1)]


def _rows(recorder: Recorder, *arrays: Any) -> int:
    """The rows of a square matrix, the first of some arrays of floats; 0 of others.

    In a loop they are a number, for a symbol may be that of the round there.
    """
    a = arrays[0]
    if a.ndim != 2 or any(x.dtype.kind != "f" for x in arrays):
        return 0
    rows, columns = a.shape
    known = type(rows) is int or not recorder.loops
    return rows if known and rows == columns else 0


def _traced(recorder: Recorder, name: str, function: Callable[..., Any], *arrays: Any) -> Any:
    """What a function gives whose first argument is a small square matrix, in a captured loop."""
    if not recorder.loops or not 0 < _rows(recorder, *arrays) <= _MOST:
        what = f"np.linalg.{name} is traced in loops alone, for a few unknowns,"
        recorder.refuse("MC0241", f"{what} and not here")
    return as_here(recorder, function, *arrays)


@traces("linalg.solve")
def solve(recorder: Recorder, a: Any, b: Any) -> Any:
    """The unknowns of linear equations; UnsupportedError (MC0241) where LAPACK solves them."""
    left, right = boxed(recorder, a), boxed(recorder, b)
    dtype = np.result_type(left.dtype, right.dtype)
    left, right = left.astype(dtype), right.astype(dtype)
    if right.ndim == 1:
        return _traced(recorder, "solve", _solved, left, right[:, None])[:, 0]
    if right.ndim != 2:
        recorder.refuse("MC0241", "np.linalg.solve of many systems is not traced")
    return _traced(recorder, "solve", _solved, left, right)


@traces("linalg.inv")
def inverse(recorder: Recorder, a: Any) -> Any:
    """The inverse of a matrix; UnsupportedError (MC0241) where LAPACK computes it."""
    box = boxed(recorder, a)
    unit = boxed(recorder, np.eye(box.shape[-1] if box.ndim else 0, dtype=box.dtype))
    return _traced(recorder, "inv", _solved, box, unit)


@traces("linalg.det")
def determinant(recorder: Recorder, a: Any) -> Any:
    """The determinant of a matrix; UnsupportedError (MC0241) where LAPACK computes it."""
    return _traced(recorder, "det", _determinant, boxed(recorder, a))


@traces("linalg.cholesky")
def cholesky(recorder: Recorder, a: Any) -> Any:
    """The lower triangle of which a matrix is the square; UnsupportedError (MC0241) elsewhere."""
    box = boxed(recorder, a)
    rows = _rows(recorder, box)
    # a program for each of many sizes would take longer to compile than it gains
    one_of_many = recorder.path is not None and recorder.path.varies and type(rows) is int
    if (rows >= _LARGE and not one_of_many) or (recorder.loops and rows > _MOST):
        return as_here(recorder, _lower_by_blocks, box)
    if not recorder.loops:
        what = f"np.linalg.cholesky of less than {_LARGE} rows, or of many sizes,"
        recorder.refuse("MC0241", f"{what} is traced in loops alone")
    return _traced(recorder, "cholesky", _lower, box)
