"""The inputs of a run: what a user gives, checked against the types that a model declares."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minicc.errors import Problems, UserError
from minicc.ir.arrays import Array
from minicc.ir.types import OPAQUE, DType, TensorType
from minicc.limits import no_memory, require_array_fits

if TYPE_CHECKING:
    from minicc.ir.core import Function

Signature = Sequence[tuple[str, TensorType | None]]


def signature_of(main: Function) -> Signature:
    """The inputs of a function of any level by name; buffers as the tensors that they hold."""
    given = main.args[: main.attrs.get("inputs")]
    types = [TensorType(a.type.dtype, a.type.shape) for a in given]
    return [(a.hint, None if t.dtype is OPAQUE else t) for a, t in zip(given, types, strict=True)]


def check_names(signature: Signature, given: Iterable[str], problems: Problems) -> None:
    """Add to the problems each given name that no input has."""
    names = [name for name, _ in signature]
    for name in given:
        if name not in names:
            problems.add(
                UserError(
                    "MC0108", f"no input is called {name!r}", hint=f"inputs: {', '.join(names)}"
                )
            )


def check_inputs(
    signature: Signature,
    feed: Mapping[str, Any],
    limit: int = 1 << 62,
    elements: Mapping[str, DType] | None = None,
) -> dict[str, Any]:
    """The inputs by name in order, arrays C-contiguous and native, which may take a copy.

    `elements` are the element types of inputs that have no type. UserError lists all that is wrong,
    a copy of more bytes than the limit too.
    """
    problems = Problems()
    check_names(signature, feed, problems)
    checked: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for name, type in signature:
        if name not in feed:
            what = "a value" if type is None else str(type)
            problems.add(UserError("MC0109", f"the input {name!r} ({what}) is missing"))
        elif type is None:
            with problems.catch():
                checked[name] = _untyped(name, feed[name], (elements or {}).get(name))
        else:
            with problems.catch():
                checked[name] = _checked(name, type, feed[name], sizes, limit)
    problems.check()
    return checked


def fit_apart(signature: Signature, feed: Mapping[str, Any]) -> bool:
    """Whether the shapes fit where a name of a dimension may stand for several sizes."""
    for name, type in signature:
        if name not in feed:
            return False
        if type is None:
            continue
        shape = getattr(feed[name], "shape", None)
        if shape is None or len(shape) != type.rank:
            return False
        if any(isinstance(n, int) and n != m for n, m in zip(type.shape, shape, strict=True)):
            return False
    return True


def free_dimensions(types: Iterable[TensorType | None]) -> tuple[str, ...]:
    """The free dimensions of inputs in their order; none where an input has no type."""
    given = list(types)
    extents = [n for type in given if type is not None for n in type.shape]
    names = (name for n in extents if not isinstance(n, int) for name in sorted(n.symbols()))
    return () if None in given else tuple(dict.fromkeys(names))


def _as_array(name: str, given: Any) -> Array:
    """An array of what was given as one."""
    # NumPy loads masked arrays when they are first asked for, which takes as long as a warm start
    if "numpy.ma" in sys.modules and np.ma.isMaskedArray(given) and np.any(given.mask):
        text = f"the input {name!r} is a masked array, and some of its elements are masked"
        raise UserError("MC0143", text, hint=f"fill them: {name}.filled(0)")
    try:
        return np.asarray(given)
    except (ValueError, TypeError) as error:
        text = f"the input {name!r} is no array: {error}"
        raise UserError("MC0143", text, hint="give an array of numbers") from None


def _untyped(name: str, value: Any, element: DType | None) -> Any:
    """A sequence as a list of arrays, a map as a dict, nothing as None, else an array."""
    if isinstance(value, dict):
        return {k: _of_map(name, v, element) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_untyped(name, v, element) for v in value]
    if value is None:
        return None
    array = _as_array(name, value)
    if array.dtype.kind in "USO":
        return array.astype(object)
    if element is not None:
        _check_element(name, array, element)
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


def _of_map(name: str, value: Any, element: DType | None) -> Any:
    """A value of a map as a scalar of the element type that its model declares."""
    try:
        return str(value) if element is None else element.numpy.type(value)
    except (TypeError, ValueError):
        text = f"the input {name!r} is a map with the value {value!r}, and must be one to {element}"
        raise UserError("MC0143", text, hint="give numbers") from None


def _check_element(name: str, array: Array, element: DType) -> None:
    wanted = element.numpy
    if array.dtype.newbyteorder("=") != wanted:
        numbers = array.dtype.kind in "biufcV" and array.dtype.names is None
        raise UserError(
            "MC0140",
            f"the input {name!r} is {array.dtype}, and must be {wanted}",
            hint=f"convert it: {name}.astype('{wanted}')"
            if numbers
            else "give an array of numbers",
        )


def _checked(name: str, type: TensorType, given: Any, sizes: dict[str, int], limit: int) -> Array:
    array = _as_array(name, given)
    wanted = type.dtype.numpy
    _check_element(name, array, type.dtype)
    if not _shape_fits(type, array.shape, sizes):
        shape = "x".join(map(str, array.shape)) or "a scalar"
        raise UserError("MC0141", f"the input {name!r} is {shape}, and must be {type}")
    if not array.flags.c_contiguous:
        require_array_fits(array.nbytes, limit, f"a dense copy of the input {name!r}")
    try:
        return np.require(array, wanted, ["C", "A"])
    except MemoryError:
        raise no_memory(f"a dense copy of the input {name!r}") from None


def _shape_fits(type: TensorType, shape: tuple[int, ...], sizes: dict[str, int]) -> bool:
    if len(shape) != type.rank:
        return False
    for extent, n in zip(type.shape, shape, strict=True):
        if isinstance(extent, int):
            if extent != n:
                return False
        elif sizes.setdefault(str(extent), n) != n:
            return False
    return True
