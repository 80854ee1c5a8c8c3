"""Symbols for extents that are found only when a model runs."""

from __future__ import annotations

import re

from minicc.ir.affine import Dim, size, spell_size


class Symbols:
    """Names for extents that data decide, which are entered into `made`; each is given once."""

    def __init__(self, taken: set[str], made: set[str]) -> None:
        self.made = made
        self._taken = taken

    def fresh(self, value: str, axis: int) -> Dim:
        """A symbol for an extent of a value."""
        base = re.sub(r"\W", "_", f"{value}_{axis}", flags=re.ASCII)
        base = base if base[:1].isalpha() else f"n{base}"
        name, tries = base, 0
        while name in self._taken:
            tries += 1
            name = f"{base}_{tries}"
        self._taken.add(name)
        self.made.add(spell_size(name))
        return size(name)
