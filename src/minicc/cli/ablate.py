"""`minicc bench --ablate`: what each stage is worth that can be left out.

The model is compiled without each of them in turn. Beside times stand what a run launches, the
bytes of all buffers that launches take (what fusion saves), and those of arena and constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from minicc.api.session import InferenceSession
from minicc.cli.measuring import difference, measured
from minicc.cli.progress import Progress
from minicc.cli.sources import open_source
from minicc.cli.tables import show_table
from minicc.compile.compiler import chosen_stages, lower
from minicc.compile.memory import constant_bytes
from minicc.compile.profile import traffic
from minicc.ir.arrays import Array
from minicc.options import Options

_COLUMNS = ("without", "min ms", "ratio", "launches", "MB moved", "MB kept", "difference")


def ablated(
    model: str, session: InferenceSession, feed: Mapping[str, Array], seconds: float
) -> list[dict[str, Any]]:
    """A row for the whole pipeline and for each stage left out."""
    options = session.options
    shapes = {name: a.shape for name, a in feed.items()}
    start = open_source(model, shapes, options).units.known[0].start
    stages = [s.name for s in chosen_stages(start, None) if not s.needed]
    sessions, counted = {"": session}, {"": _counts(model, shapes, options)}
    with Progress("compiling") as progress:
        for name in stages:
            progress.at(f"compiling without {name}")
            without = options.replace(skip=(*options.skip, name))
            sessions[name] = InferenceSession(model, options=without)
            counted[name] = _counts(model, shapes, without)
    outputs = {name: s.run(None, feed) for name, s in sessions.items()}
    runs = {name: partial(s.run, None, feed) for name, s in sessions.items()}
    best = {name: min(times) for name, times in measured(runs, seconds).items()}
    return [
        {
            "without": name,
            "min_ms": best[name] * 1e3,
            "ratio": best[name] / best[""],
            **counted[name],
            "difference": difference(outputs[name], outputs[""]),
        }
        for name in sessions
    ]


def _counts(
    model: str, shapes: Mapping[str, tuple[int, ...]], options: Options
) -> dict[str, int | None]:
    """What can be counted of a program, all its native parts together; None where data decide."""
    keys = ("launches", "moved_bytes", "kept_bytes")
    whole = dict.fromkeys(keys, 0)
    for unit in open_source(model, shapes, options).units.known:
        if unit.host:
            continue
        program = lower(unit.module, options, unit.binding, start=unit.start)
        arena, touched = program.main.attrs["arena"], traffic(program)
        if touched is None or not isinstance(arena, int):
            return dict.fromkeys(keys)
        for key, n in zip(keys, (*touched, arena + constant_bytes(program)), strict=True):
            whole[key] += n
    return {**whole}


def show_ablated(rows: list[dict[str, Any]]) -> None:
    """Print the rows as a table."""
    show_table(_COLUMNS, map(_cells, rows))


def _cells(row: Mapping[str, Any]) -> list[object]:
    numbers = [f"{row['min_ms']:.4g}", f"{row['ratio']:.2f}"]
    if row["launches"] is None:
        counted = ["-"] * 3
    else:
        moved, kept = (f"{row[k] / 1e6:.2f}" for k in ("moved_bytes", "kept_bytes"))
        counted = [str(row["launches"]), moved, kept]
    return [row["without"] or "nothing", *numbers, *counted, f"{row['difference']:.1e}"]
