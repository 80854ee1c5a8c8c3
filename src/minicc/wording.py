"""Words that depend on numbers, for all that is told to people."""

from __future__ import annotations


def counted(count: int, noun: str, many: str = "") -> str:
    """A number with its noun: `1 part`, `2,033 tests`, `0 branches`."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"
