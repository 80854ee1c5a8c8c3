"""Words that depend on numbers, for all that is told to people."""

from __future__ import annotations

from collections.abc import Mapping


def counted(count: int, noun: str, many: str = "") -> str:
    """A number with its noun: `1 part`, `2,033 tests`, `0 branches`."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def sizes_of(binding: Mapping[str, int]) -> str:
    """Sizes of free dimensions, and contents of inputs, in words."""
    return ", ".join(f"{s}={n}" for s, n in binding.items())
