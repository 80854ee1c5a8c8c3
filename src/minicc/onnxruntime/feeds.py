"""Inputs of a run in the forms that ONNX Runtime takes, as what minicc's session takes.

An array stays as it is; a nested list becomes an array of the input's element type, a list for a
sequence stays a list, an `OrtValue` is what it holds. minicc's session then checks types and
shapes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from minicc.onnxruntime.elements import element_of
from minicc.onnxruntime.errors import Fail, InvalidArgument, status
from minicc.onnxruntime.errors import NotImplemented as NotImplementedStatus
from minicc.onnxruntime.signature import NodeArg
from minicc.onnxruntime.values import OrtValue

_TEXTS = "tensor(string)"


def require_inputs(args: Sequence[NodeArg], names: Collection[str]) -> None:
    """Raise a ValueError that names the inputs that have no value; optional ones need none."""
    missing = [a.name for a in args if a.name not in names and not a.type.startswith("optional")]
    if missing:
        raise ValueError(f"the inputs {missing} are required, and the feed has {list(names)}")


def converted(args: Mapping[str, NodeArg], feed: Mapping[str, Any]) -> dict[str, Any]:
    """The values by name as minicc's session takes them; None for an optional that is missing.

    InvalidArgument for a name that no input has; RuntimeError for a value that is neither an
    array nor a list nor an OrtValue, and for a list that is no array of the input's type.
    """
    found: dict[str, Any] = {}
    for name, value in feed.items():
        arg = args.get(name)
        if value.__class__ is np.ndarray and arg is not None and arg.type != _TEXTS:
            found[name] = value
            continue
        if arg is None:
            known = ", ".join(args)
            raise status(InvalidArgument, f"no input is called {name!r}; inputs: {known}")
        found[name] = _converted(arg, value)
    if len(found) < len(args):
        missing = (name for name, arg in args.items() if arg.type.startswith("optional"))
        found = {**dict.fromkeys(missing), **found}
    return found


def _converted(arg: NodeArg, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if arg.type != _TEXTS else _texts(arg, value)
    if isinstance(value, OrtValue):
        if value.is_sparse_tensor():
            text = f"the input {arg.name!r} is sparse, and minicc's are dense"
            raise status(NotImplementedStatus, text)
        return _converted(arg, value._data)
    if value is None:
        if arg.type.startswith("optional"):
            return None
        raise status(Fail, f"the input {arg.name!r} is None, and must be an array")
    if isinstance(value, list):
        return _listed(arg, value)
    kind = type(value).__name__
    if isinstance(value, dict):
        raise status(InvalidArgument, f"the input {arg.name!r} ({arg.type}) is a dict")
    text = f"the input {arg.name!r} is a {kind}, and must be an array or a list"
    raise RuntimeError(f"{text}: np.asarray({arg.name})")


def _texts(arg: NodeArg, value: np.ndarray[Any, Any]) -> Any:
    """Texts, and those of other objects; InvalidArgument for an array of numbers."""
    if value.dtype.kind not in "OUS":
        text = f"the input {arg.name!r} is {value.dtype}, and must be texts"
        raise status(InvalidArgument, text)
    if value.dtype.kind != "O" or all(isinstance(v, str) for v in value.flat):
        return value
    return np.array([str(v) for v in value.flat], object).reshape(value.shape)


def _listed(arg: NodeArg, value: list[Any]) -> Any:
    """A sequence of arrays, or an array of the input's element type."""
    element = element_of(arg.type)
    inner = arg.type.removeprefix("optional(")
    try:
        if inner.startswith("seq("):
            arrays = [v if isinstance(v, np.ndarray) else np.asarray(v, element) for v in value]
            return list(arrays)
        return np.asarray(value, element)
    except (ValueError, TypeError, OverflowError) as error:
        text = f"the list for the input {arg.name!r} ({arg.type}) is no array: {error}"
        raise RuntimeError(text) from None
