"""Sweeps over many combinations: `make test` takes a part of each, and `make sweep` all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

WHOLE = os.environ.get("MINICC_SWEEP") == "all"


def part(cases: Iterable[T], every: int) -> list[T]:
    """The first case and each so many after it, spread over what was combined; or all.

    Where an inner list's length is a multiple of `every`, the same cases of it would be taken each
    time; so what is taken moves on by one now and then.
    """
    found = list(cases)
    return found if WHOLE else [c for k, c in enumerate(found) if (k + k // every**2) % every == 0]


def examples(most: int) -> int:
    """How many examples of so many hypothesis draws: a sixth, or all."""
    return most if WHOLE else max(1, most // 6)
