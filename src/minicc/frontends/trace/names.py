"""The functions of NumPy by their dotted names below `numpy`: the objects, and their `out`.

A method of arrays is `ndarray.` and its name, what an operator calls has its own name, and a method
of a ufunc stands below it, as `add.reduce`.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

# functions of other libraries, and what NumPy has that gives such types and such an order in memory
_ALIKE = {"erf": "tanh", "expit": "tanh"}
# where functions take `out` that do not tell of their parameters in each version of NumPy
_OUT = {
    "dot": 2, "concatenate": 2, "concat": 2, "busday_count": 5, "busday_offset": 6, "is_busday": 4,
}  # fmt: skip
_OUT_OF_METHODS = {"reduce": 3, "accumulate": 3, "reduceat": 4}  # of ufuncs


def resolve(path: str) -> Any:
    """What NumPy calls by a dotted name."""
    found: Any = np
    for part in path.split("."):
        found = getattr(found, part)
    return found


@lru_cache(512)
def ufunc_of(name: str) -> np.ufunc | None:
    """The ufunc of that name, if there is one."""
    found = getattr(np, name, None)
    return found if isinstance(found, np.ufunc) else None


def shown(name: str) -> str:
    """The name as people write it."""
    return name if name.startswith(("ndarray.", "__")) else f"np.{name}"


def real_function(name: str) -> Callable[..., Any]:
    """NumPy's own function; a method's first argument may be a scalar."""
    if name.startswith("__"):
        return partial(_method, name)
    if name.startswith("ndarray."):
        return partial(_method, name.partition(".")[2])
    real: Callable[..., Any] = resolve(_ALIKE.get(name, name))
    return real


def _method(name: str, array: Any, *args: Any, **kwargs: Any) -> Any:
    if name == "__setitem__":
        array[args[0]] = args[1]
        return None
    if name == "flat":
        return array.reshape(-1)
    if name in ("__eq__", "__ne__"):
        return getattr(operator, name)(array, *args)
    return getattr(array, name)(*args, **kwargs)


def with_named_out(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, where an array to write to that stood at its place is named `out`.

    Arguments after it are named, too.
    """
    places = _parameters(name)
    at = places.index("out") if "out" in places else len(args)
    if len(args) <= at:
        return args, kwargs
    rest = dict(zip(places[at:], args[at:], strict=False))
    if rest["out"] is None:
        del rest["out"]
    return args[:at], {**kwargs, **rest}


@lru_cache(512)
def _parameters(name: str) -> tuple[str, ...]:
    """The names of those that a call may give by place, empty where nobody tells."""
    owner, _, method = name.rpartition(".")
    if ufunc_of(name) is not None:
        return ()
    known = _OUT_OF_METHODS.get(method) if ufunc_of(owner) is not None else _OUT.get(name)
    if known is not None:
        return (*[""] * known, "out")
    try:
        parameters = inspect.signature(resolve(name)).parameters.values()
    except (AttributeError, ValueError, TypeError):
        return ()
    return tuple([p.name for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD])
