"""How NumPy tells of overflows and their like in this context, asked for and set without delay.

NumPy keeps it in a context variable; what goes through its own functions takes a microsecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_UMATH = getattr(getattr(np, "_core", None), "umath", None)
# of no value where nobody has set one; None where NumPy keeps it otherwise
STATE: Any = getattr(_UMATH, "_extobj_contextvar", None)
with np.errstate(all="ignore"):
    _SILENCE = None if STATE is None else STATE.get(None)
_LOUD = {"raise", "call", "log", "print"}


def raises() -> bool:
    """Whether NumPy is told to raise or call something where a number overflows or such."""
    if STATE is not None and STATE.get(None) is None:
        return False
    return not _LOUD.isdisjoint(np.geterr().values())


class Silent:
    """A context in which NumPy tells of nothing, as `np.errstate(all="ignore")`."""

    __slots__ = ("_before", "_own")

    def __enter__(self) -> None:
        if STATE is not None and STATE.get(None) is None:
            self._before = STATE.set(_SILENCE)
            return
        self._before = None
        self._own = np.errstate(all="ignore")
        self._own.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._before is not None:
            STATE.reset(self._before)
        else:
            self._own.__exit__(*error)
