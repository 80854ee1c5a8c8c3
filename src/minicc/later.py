"""Modules that are imported when something of them is first used.

A program that is opened from a file needs nothing of the compiler; what may need it names it here.

    if TYPE_CHECKING:
        from minicc.compile import compiled
    else:
        compiled = Later("minicc.compile.compiled")
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from minicc.limits import without_collection


@without_collection()
def imported(name: str) -> ModuleType:
    """A module of ours: what hundreds of modules define is no garbage."""
    return importlib.import_module(name)


class Later:
    """Stands for a module; its attributes are the module's, which is imported for the first."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(imported(self._name), attribute)
        setattr(self, attribute, value)
        return value


def classes_of(module: str, *names: str) -> tuple[type, ...]:
    """The classes of those names in a module; none while it is not imported.

    Nothing is an instance of them then, and asking need not import it.
    """
    found = (getattr(sys.modules.get(module), name, None) for name in names)
    return tuple([c for c in found if c is not None])
