"""Functions of ours that are written with NumPy and traced as that stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minicc.frontends.trace.recorder import Recorder


def as_here(recorder: Recorder, function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives, whose lines are told as the user's that calls it."""
    before = recorder.line
    recorder.line = recorder.location(), recorder.source()
    try:
        return recorder.as_users(function)(*args)
    finally:
        recorder.line = before
