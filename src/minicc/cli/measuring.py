"""Times of runs in turns, and how much outputs differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minicc.cli.progress import Progress

Run = Callable[[], list[Any]]
_TURNS = 20


def measured(
    engines: Mapping[str, Run], seconds: float, before: Callable[[], object] = lambda: None
) -> dict[str, list[float]]:
    """Seconds of each run by engine, in turns of about a twentieth of the time.

    `before` is called before each run, and takes none of it.
    """
    times: dict[str, list[float]] = {name: [] for name in engines}
    with Progress("measuring runs") as progress:
        for turn in range(_TURNS):
            progress.at(f"measuring runs, {turn / _TURNS:.0%}")
            for name, run in engines.items():
                end = time.perf_counter() + seconds / _TURNS
                while True:
                    before()
                    began = time.perf_counter()
                    run()
                    now = time.perf_counter()
                    times[name].append(now - began)
                    if now >= end:
                        break
    return times


def difference(got: Sequence[Any], want: Sequence[Any]) -> float:
    """The largest difference of any output, relative to that output's largest value.

    Of outputs that are numbers; inf where shapes differ.
    """
    worst = 0.0
    for g, w in zip(map(np.asarray, got), map(np.asarray, want), strict=True):
        if g.shape != w.shape:
            return float("inf")
        if g.size and g.dtype.kind in "fiubVc":
            wide = np.complex128 if g.dtype.kind == "c" else np.float64
            a, b = g.astype(wide), w.astype(wide)
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
            off = np.where(same, 0.0, np.abs(a - b))
            worst = max(worst, float(np.nan_to_num(np.max(off), nan=np.inf) / (scale or 1.0)))
    return worst
