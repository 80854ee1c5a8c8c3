"""Nested arguments and results: tuples, lists, dicts and named tuples of arrays.

`flatten` gives the arrays in order and a hashable key that tells the structure, each array's
element type and shape, objects of the user's by their class, and every other leaf but numbers by
value. `rebuild` puts new leaves into
the old structure.
"""

from __future__ import annotations

import collections
import copy
import types
from collections.abc import Callable, Sequence
from datetime import date, time, timedelta
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from minicc.errors import UserError
from minicc.frontends.trace.objects import bare_base, is_generator, is_library, is_stood_in
from minicc.ir.core import attribute_key
from minicc.later import classes_of

Key = tuple[Any, ...]
NUMBERS = (float, int, complex, bool)
# types of Python whose values are known by what they are
PLAIN = (*NUMBERS, str, bytes, type(None))
_STATIC = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), np.dtype, type, slice)
CONTAINERS = (set, frozenset, collections.deque, dict, list)
VALUES = (date, time, timedelta, Enum, range, np.dtype)  # that never change
_CALLABLE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    np.ufunc,
    type(np.mean),  # all functions of NumPy that arrays may override
    partial,
)


class Within(Exception):
    """A call has tracers among its arguments: it comes from within another trace."""


class Held:
    """An object by identity; it is held, so that its identity is nobody else's."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def of(self, values: Sequence[Any]) -> Any:
        """The object, whatever the arguments of a call are."""
        return self.value


def flatten(value: Any, leaves: list[Any], numbers: list[Any], path: str = "argument") -> Key:
    """The key of a nested value; its arrays are appended to `leaves`, its numbers to `numbers`.

    UserError (MC0181) at a leaf that is neither an array nor a plain value; Within at a traced one.
    """
    kind = type(value)
    if kind is np.ndarray:
        leaves.append(value)
        # how it lies in memory says which of NumPy's results are views
        lies = () if value.flags.c_contiguous else (value.strides,)
        return ("array", value.dtype, value.shape, *lies)
    if kind in NUMBERS:
        numbers.append(value)
        return ("number", kind)
    if kind in _STATIC:
        if kind is slice:
            return ("value", "slice", str(value))
        return ("value", kind.__name__, attribute_key(value))
    if isinstance(value, VALUES):
        return ("value", kind, value, repr(value))
    if getattr(kind, "is_traced", False):
        raise Within
    if isinstance(value, np.generic):
        return ("scalar", *flatten(np.asarray(value), leaves, numbers, path)[1:])
    if isinstance(value, (tuple, list)):
        parts = [flatten(v, leaves, numbers, f"{path}[{k}]") for k, v in enumerate(value)]
        return (kind, *parts)
    if kind is dict:
        items = [
            (type(k), k, flatten(v, leaves, numbers, f"{path}[{k!r}]")) for k, v in value.items()
        ]
        return (dict, *items)
    masked = isinstance(value, classes_of("numpy.ma", "MaskedArray"))
    if isinstance(value, np.matrix) or (masked and np.any(getattr(value, "mask", False))):
        what = "matrix, whose * is another" if isinstance(value, np.matrix) else "masked array"
        hint = "pass numpy.asarray(x)" if isinstance(value, np.matrix) else "pass x.filled(value)"
        raise UserError("MC0181", f"{path} is a {what}", hint=hint)
    if isinstance(value, np.ndarray) and not _is_numpys(kind):
        what = f"an array of the class {kind.__name__}, which may compute otherwise"
        raise UserError("MC0181", f"{path} is {what}", hint="pass numpy.asarray(x)")
    if isinstance(value, np.ndarray):
        return flatten(value.view(np.ndarray), leaves, numbers, path)
    if (likeness := likeness_of(value)) is not None:
        return likeness
    if isinstance(value, (*_STATIC, *_CALLABLE)):
        return ("object", Held(value))
    raise UserError(
        "MC0181",
        f"{path} is a {kind.__module__}.{kind.__name__}, which is neither an array nor a value",
        hint="pass arrays, Python numbers, texts, functions, or tuples, lists and dicts of these",
    )


def likeness_of(value: Any) -> Key | None:
    """What objects and functions have in common of which others may be given at each call.

    None for what has to be the same.
    """
    kind = type(value)
    if kind is types.FunctionType:
        known = is_library(value.__code__.co_filename) or hasattr(value, "registry")
        return None if known else ("instance", kind, value.__code__, Held(value.__globals__))
    if kind is types.MethodType and is_stood_in(value.__self__):
        return ("instance", kind, Held(value.__func__), type(value.__self__))
    alike = kind is partial or is_stood_in(value) or is_generator(value)
    return ("instance", kind) if alike else None


def _is_numpys(kind: type) -> bool:
    """Whether a class of arrays is NumPy's own."""
    return kind.__module__.partition(".")[0] == "numpy"


def mapped(f: Callable[[Any, str], Any], value: Any, path: str = "") -> Any:
    """The same structure with each leaf replaced by `f(leaf, path of the leaf)`."""
    kind = type(value)  # what stands for a list says that it is one
    if issubclass(kind, tuple) and hasattr(value, "_fields"):
        parts = zip(value._fields, value, strict=True)
        return type(value)(*[mapped(f, v, f"{path}.{name}") for name, v in parts])
    if issubclass(kind, (tuple, list)):
        return type(value)([mapped(f, v, f"{path}[{k}]") for k, v in enumerate(value)])
    if type(value) is dict:
        return {k: mapped(f, v, f"{path}[{k!r}]") for k, v in value.items()}
    return f(value, path)


def with_elements(x: Any, f: Callable[[Any], Any]) -> Any:
    """A container of the same kind with its elements replaced, keys as they are."""
    if type(x) in (list, dict) or isinstance(x, tuple):
        return mapped(lambda leaf, path: f(leaf), x)
    if not isinstance(x, CONTAINERS):
        return f(x)
    new: Any = copy.copy(x)
    if isinstance(x, dict):
        for key, element in x.items():
            dict.__setitem__(new, key, f(element))
    elif isinstance(x, (list, collections.deque)):
        for k, element in enumerate(x):
            new[k] = f(element)
    return new


def mapped_once(
    f: Callable[[Any, str], Any], value: Any, path: str, made: dict[int, Any] | None = None
) -> Any:
    """The same, where a tuple, list or dict that stands twice is one object, as it was."""
    made = {} if made is None else made
    if id(value) in made:
        return made[id(value)]
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        at = [f".{n}" for n in names] if names else [f"[{k}]" for k in range(len(value))]
        parts = [mapped_once(f, v, path + k, made) for k, v in zip(at, value, strict=True)]
        new: Any = type(value)(*parts) if names else type(value)(parts)
    elif isinstance(value, list):
        pairs = enumerate(value)
        new = type(value)([mapped_once(f, v, f"{path}[{k}]", made) for k, v in pairs])
    elif type(value) is dict:
        new = {k: mapped_once(f, v, f"{path}[{k!r}]", made) for k, v in value.items()}
    else:
        return f(value, path)
    made[id(value)] = new
    return new


def leaves(value: Any) -> list[Any]:
    """The leaves of a structure, in order."""
    if type(value) is dict:
        value = [*value.values()]
    if not isinstance(value, (tuple, list)):
        return [value]
    found: list[Any] = []
    for part in value:
        found += leaves(part) if isinstance(part, (tuple, list, dict)) else (part,)
    return found


class Slot:
    """The place of the k-th array in a structure of results.

    `kind` is the Python type of a number, "array" for one without axes that is no scalar, or how
    the array is seen (`layouts.Shown`), of a result or of an argument of the call.
    """

    __slots__ = ("index", "kind")

    def __init__(self, index: int, kind: Any = None) -> None:
        self.index = index
        self.kind = kind

    def of(self, leaves: Sequence[Any], args: Sequence[Any] = ()) -> Any:
        """What stands there; arrays without axes become NumPy's scalars."""
        if self.kind is None:
            array = leaves[self.index]
            return array if array.ndim else array[()]
        if self.kind == "array":
            return leaves[self.index]
        if isinstance(self.kind, type):
            return self.kind(leaves[self.index][()])
        return self.kind.of((args if self.kind.of_argument else leaves)[self.index])


class Instance(tuple[Any, ...]):
    """An object that a function has made, in its result: the class and the attributes by name."""

    def made(self, held: dict[str, Any]) -> Any:
        """The object, without what its class does where objects are made: the function did that."""
        cls = self[0].value
        made = bare_base(cls).__new__(cls)
        for name, value in held.items():
            object.__setattr__(made, name, value)
        return made


STILL = (int, float, str, bool, type(None))  # what is no array, and holds none


def rebuild(structure: Any, leaves: Sequence[Any], args: Sequence[Any] = ()) -> Any:
    """The structure with its slots filled; a slot or container that stands twice is one object."""
    if type(structure) is Slot:
        return structure.of(leaves, args)  # as most are
    return _Filling(leaves, args).filled(structure)


class _Filling:
    """What slots are filled with, and what was made of each object of a structure.

    A function within `rebuild` that calls itself would hold itself, and all leaves with it, until
    Python looks for cycles.
    """

    __slots__ = ("args", "leaves", "made")

    def __init__(self, leaves: Sequence[Any], args: Sequence[Any]) -> None:
        self.leaves, self.args = leaves, args
        self.made: dict[int, Any] = {}

    def filled(self, x: Any) -> Any:
        """An object of the structure with its slots filled."""
        # without the paths of `mapped`, for results may be long lists of numbers
        if id(x) in self.made:
            return self.made[id(x)]
        filled, new = self.filled, None
        if type(x) is Instance:
            new = x.made({k: e if type(e) in STILL else filled(e) for k, e in x[1].items()})
        elif isinstance(x, tuple):
            parts = [e if type(e) in STILL else filled(e) for e in x]
            new = type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
        elif isinstance(x, list):
            new = type(x)([e if type(e) in STILL else filled(e) for e in x])
        elif type(x) is dict:
            new = {k: e if type(e) in STILL else filled(e) for k, e in x.items()}
        elif hasattr(x, "of"):
            new = x.of(self.leaves, self.args)
        else:
            return x
        self.made[id(x)] = new
        return new


def copied(value: Any) -> Any:
    """The same structure with copies of its arrays."""
    return mapped(lambda v, at: v.copy(order="K") if isinstance(v, np.ndarray) else v, value)
