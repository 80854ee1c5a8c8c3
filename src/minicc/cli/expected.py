"""Outputs against what was expected of them: `--expected y=@y.npy --rtol --atol`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from minicc.errors import UserError
from minicc.ir.arrays import Array


class Comparison(NamedTuple):
    """One output beside what was expected: how many elements differ, by how much, and where."""

    name: str
    agrees: bool
    differing: int
    elements: int
    largest: float
    where: tuple[int, ...]
    text: str

    def __str__(self) -> str:
        return self.text


def check_expected(
    got: Mapping[str, Array], wanted: Mapping[str, Array], rtol: float, atol: float
) -> list[Comparison]:
    """Compare each output that something is expected of; UserError where there is no such one."""
    rows: list[Comparison] = []
    for name, want in wanted.items():
        if name not in got:
            raise UserError(
                "MC0107", f"no output is called {name!r}", hint=f"outputs: {', '.join(got)}"
            )
        rows.append(_compare(name, np.asarray(got[name]), want, rtol, atol))
    return rows


def _compare(name: str, got: Array, want: Array, rtol: float, atol: float) -> Comparison:
    if got.shape != want.shape:
        text = f"{name}: the shape is {list(got.shape)} and {list(want.shape)} was expected"
        return Comparison(name, False, got.size, got.size, float("nan"), (), text)
    a, b = (x.astype(np.float64) if x.dtype.kind in "fVbiu" else x for x in (got, want))
    close = np.isclose(a, b, rtol, atol, equal_nan=True)
    with np.errstate(invalid="ignore"):
        off = np.nan_to_num(np.where(close & (a == b), 0.0, np.abs(a - b)), nan=0.0)
    worst = np.unravel_index(int(np.argmax(off)), off.shape) if off.size else ()
    where = tuple(int(k) for k in worst)
    differing, largest = int(np.sum(~close)), float(off[where]) if off.size else 0.0
    if not differing:
        text = f"{name}: as expected, largest difference {largest:.1e}"
    else:
        place = f"[{', '.join(map(str, where))}]"
        text = (
            f"{name}: {differing} of {got.size} elements differ, most at {place}: "
            f"{got[where]} instead of {want[where]}"
        )
    return Comparison(name, not differing, differing, got.size, largest, where, text)
