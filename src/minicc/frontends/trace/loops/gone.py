"""What stands for a value of a captured loop's rounds that nobody knows after the loop.

A name that rounds bind has the last round's value after a loop. Where that depends on how many
rounds there were, or has an extent that only the round knows, the name is bound to a `Gone`: if the
function looks at it, the loop is written out after all.
"""

from __future__ import annotations

from typing import Any


class Gone:
    """What raises an error when it is looked at, in whatever way."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error

    def look(self, *args: Any) -> Any:
        """Raise the error."""
        raise self._error


_LOOKS = """
    add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul
    neg pos abs lt le gt ge eq ne bool int float index len iter getitem setitem call contains array
    array_ufunc array_function
"""
for _name in _LOOKS.split():
    setattr(Gone, f"__{_name}__", lambda self, *args: self.look(*args))


class Measured:
    """A list whose length the graph says."""

    def length(self) -> Any:
        """How many elements there are: a Python int, a size, or a traced number."""
        raise NotImplementedError


class StandIn(Gone, Measured):
    """What stands for a list: it says that it is one, and can't be asked what is not defined."""

    @property
    def __class__(self) -> Any:
        return list

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError("a list stays one")
