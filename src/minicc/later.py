"""Modules that are imported when something of them is first used.

A program that is opened from a file needs nothing of the compiler; what may need it names it here.

    if TYPE_CHECKING:
        from minicc import compiled
    else:
        compiled = Later("minicc.compiled")
"""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """Stands for a module; its attributes are the module's, which is imported for the first."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value
