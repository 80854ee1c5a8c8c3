"""Results lie in memory as NumPy's do, and share it with the same arrays."""

import warnings
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import minicc

Array = np.ndarray[Any, Any]
R = np.array([[0.5, -1, 2, 0], [3, 0, -1.5, 1], [1, 1, 0, -2]])
LAYOUTS = {
    "rows": R,
    "columns": np.asfortranarray(R),
    "steps": np.repeat(R, 2, -1)[..., ::2],
    "backwards": R[::-1],
    "repeated": np.broadcast_to(R[0], R.shape),
    "empty": R[:0],
}


def _ravelled(x: Any) -> Any:
    places = np.nonzero(x)
    for p in places:
        p.ravel()[:1] = 7
    return places, np.unravel_index(np.arange(4), (2, 2))[0].ravel()


FUNCTIONS: tuple[Callable[..., Any], ...] = (
    _ravelled,
    lambda x: np.nonzero(x), lambda x: np.where(x > 0), lambda x: np.nonzero(x)[1],
    lambda x: np.argwhere(x), lambda x: x[np.nonzero(x)], lambda x: np.nonzero(x[:1].ravel() > 0),
    lambda x: np.unravel_index(np.arange(x.size), x.shape)[1],
    lambda x: np.diag_indices(x.shape[1]), lambda x: np.meshgrid(x.ravel(), x[:, 0], copy=False),
    lambda x: np.unique(x, axis=-1, return_inverse=True),
    lambda x: np.histogramdd(x, 2)[0] if len(x) else x,
    lambda x: np.linalg.eigvals(x[:3, :3]) if len(x) else x,
    lambda x: np.linalg.matrix_power(x.T @ x, 0), lambda x: np.add(x, x, order="F"),
    lambda x: np.broadcast_arrays(x, x[..., :1], 2.0), lambda x: x[:, np.array(1)],
    lambda x: x[np.array(0)] if len(x) else x, lambda x: x[:, x[0] > 0] if len(x) else x,
    lambda x: np.linspace(x[..., 0], 3, 4, axis=-1),
    lambda x: np.expm1((x + 0j).copy("F")), lambda x: np.fft.fft2(x.copy(), (67, 71)),
    lambda x: np.packbits(x.copy() > 0, axis=1), lambda x: np.left_shift(x.astype(int).copy(), 1),
    lambda x: np.cos(np.sqrt(4.0, out=x.copy("K"))).T,
    lambda x: (x * 2)[:, 1], lambda x: (x * 2)[:, ::-1], lambda x: (x + 1)[..., ::2].T,
    lambda x: (x[1:, 1:] + x[:-1, :-1], x[:1] + x[:, :1], np.abs(x[:, None, ::2]).T),
    lambda x: np.add.reduce(x[None, :, ::2], axis=0), lambda x: (x[1:, ::-1] * x[1:, 1:2]).T,
    lambda x: np.broadcast_to(x * 2, (2, *x.shape)),
    lambda x: (np.shares_memory(x[1:], x[:1]), np.may_share_memory(x[:, 1:], x[:, :1])),
)  # fmt: skip


def _arrays(x: Any) -> Iterator[Array]:
    if isinstance(x, np.ndarray):
        yield x
    elif isinstance(x, (list, tuple)):
        for part in x:
            yield from _arrays(part)


def _told(x: Any, given: Array) -> Any:
    """What of a result must be NumPy's."""
    arrays = list(_arrays(x))
    lie = [
        (a.dtype, a.shape, [s for n, s in zip(a.shape, a.strides, strict=True) if n > 1 and a.size],
         a.flags.writeable, a.tolist())
        for a in arrays
    ]  # fmt: skip
    pairs = combinations([*arrays, given], 2)
    sharing = [(a is b, np.shares_memory(a, b), np.may_share_memory(a, b)) for a, b in pairs]
    return type(x), x if not arrays else None, lie, sharing


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_as_numpy(number: int, layout: str) -> None:
    f, x = FUNCTIONS[number], LAYOUTS[layout]
    jitted = minicc.jit(f, threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            assert _told(jitted(x), x) == _told(f(x), x)
