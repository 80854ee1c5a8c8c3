"""The decorator that enters a family into the table."""

from __future__ import annotations

from collections.abc import Callable

from tests.generate.draft import Draft

Family = Callable[[Draft], None]
FAMILIES: dict[str, Family] = {}


def family(run: Family) -> Family:
    """Enter a family by the name of its function."""
    FAMILIES[run.__name__.rstrip("_")] = run
    return run
