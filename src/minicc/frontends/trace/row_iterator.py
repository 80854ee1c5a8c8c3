"""The rows of a traced array one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class RowIterator:
    """The rows of an array; it has not begun until it is asked for the first one."""

    def __init__(self, array: Any, most: int) -> None:
        """More than `most` rows are too many to be written out."""
        self.array = array
        self.begun = False
        self._most = most
        self._rows: Iterator[Any] = iter(())

    def __iter__(self) -> RowIterator:
        return self

    def __next__(self) -> Any:
        if not self.begun:
            self.begun = True
            array, count = self.array, len(self.array)
            if count > self._most:
                what = f"a Python loop over the {count} rows of {array._told()}"
                array.recorder.give_up(f"{what} would be written out")
            self._rows = (array[row] for row in range(count))
        return next(self._rows)
