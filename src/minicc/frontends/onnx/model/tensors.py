"""Tensors of an ONNX model as arrays.

Errors: `UserError` MC0131 a tensor whose data do not fit its shape, `UnsupportedError` MC0222 an
element type; those of `external` for data in other files.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from minicc.errors import UnsupportedError, UserError
from minicc.frontends.onnx.model.external import Files
from minicc.ir.core import Array
from minicc.ir.types import (
    BF16,
    BOOL,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F16,
    F32,
    F64,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    STORED,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    DType,
)
from minicc.limits import require_array_fits
from minicc.target import usable_memory

# TensorProto.DataType and where the numbers stand that are not raw bytes
ELEMENTS: dict[int, DType] = {
    1: F32, 2: U8, 3: I8, 4: U16, 5: I16, 6: I32, 7: I64, 9: BOOL,
    10: F16, 11: F64, 12: U32, 13: U64, 16: BF16,
    17: F8E4M3FN, 18: F8E4M3FNUZ, 19: F8E5M2, 20: F8E5M2FNUZ, 21: U4, 22: I4, 23: F4E2M1FN,
    24: F8E8M0FNU, 25: U2, 26: I2, 27: F6E2M3FN, 28: F6E3M2FN,
}  # fmt: skip
_STORES = {F32: "float_data", F64: "double_data", I64: "int64_data", U32: "uint64_data"}
_STORES |= {U64: "uint64_data"}
_EXTERNAL, _STRING = 1, 8
_NO_FILES = Files()


def element_type(number: int, what: str, where: str) -> DType:
    """The element type of a TensorProto.DataType; MC0222 where minicc has none."""
    found = ELEMENTS.get(number)
    if found is None:
        from onnx import TensorProto

        known = number in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(number).lower() if known else f"number {number}"
        message = f"{what} has the element type {name}"
        hint = f"use one of {', '.join(d.name for d in ELEMENTS.values() if d.kind != 's')}"
        raise UnsupportedError("MC0222", message, hint=hint, where=where)
    return found


def element_number(element: DType) -> int:
    """The TensorProto.DataType of an element type."""
    return next(number for number, known in ELEMENTS.items() if known is element)


def array_of(tensor: Any, where: str, files: Files = _NO_FILES) -> Array:
    """The array that a TensorProto holds, read-only and without a copy where it is raw bytes.

    MC0222 an element type, MC0131 data that do not fit the shape; `external` for data in `files`.
    """
    if not hasattr(tensor, "data_type"):
        return _dense(tensor, where, files)
    what = f"tensor {tensor.name}" if tensor.name else "the constant"
    if tensor.data_type == _STRING:
        message = f"{what} holds texts, which only run on the host"
        raise UnsupportedError("MC0222", message, hint="use numbers", where=where)
    element = element_type(tensor.data_type, what, where)
    if element in STORED:
        return _unpacked(files.inlined(tensor, where), what, where)
    shape = tuple(tensor.dims)
    raw: Any
    if tensor.data_location == _EXTERNAL and min(shape, default=0) >= 0:
        raw = files.data(tensor, prod(shape) * element.bytes, what, where)
        count = float(prod(shape))
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
        count = len(raw) / element.bytes
    else:
        raw = None
        stored = getattr(tensor, _STORES.get(element, "int32_data"))
        count = len(stored)
    if min(shape, default=0) < 0 or count != prod(shape):
        message = f"{what} has the shape {list(shape)} and data for {count:g} elements"
        raise UserError("MC0131", message, hint="export the model again", where=where)
    try:
        if raw is not None:
            return np.frombuffer(raw, element.numpy).reshape(shape)
        if element in (F16, BF16):
            bits = np.fromiter(stored, np.uint16, len(stored))
            return bits.view(element.numpy).reshape(shape)
        return np.fromiter(stored, element.numpy, len(stored)).reshape(shape)
    except (ValueError, OverflowError) as error:
        # more axes than arrays have, an extent beyond any memory, an element out of range
        message = f"{what} ({element}, shape {list(shape)[:8]}) can't be read: {error}"
        raise UserError("MC0131", message, hint="export the model again", where=where) from error


def viewed(tensor: Any, raw: Array) -> Array | None:
    """The array of a TensorProto whose raw bytes were left out of it, a view of these bytes.

    None where bytes and shape do not fit each other, or the elements are no plain ones.
    """
    element = ELEMENTS.get(tensor.data_type)
    shape = tuple(tensor.dims)
    if element is None or element in STORED or tensor.data_location == _EXTERNAL:
        return None
    if min(shape, default=0) < 0 or prod(shape) * element.bytes != raw.size:
        return None
    try:
        return raw.view(element.numpy).reshape(shape)
    except ValueError:
        return None  # `array_of` says why


def _unpacked(tensor: Any, what: str, where: str) -> Array:
    """The array of a tensor whose elements may stand several to a byte."""
    from onnx import numpy_helper

    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, OverflowError) as error:
        message = f"{what} can't be read: {error}"
        raise UserError("MC0131", message, hint="export the model again", where=where) from error


def _dense(sparse: Any, where: str, files: Files) -> Array:
    """The array of a SparseTensorProto: values at places, which are rows of coordinates or one."""
    shape = tuple(sparse.dims)
    values, places = (array_of(part, where, files) for part in (sparse.values, sparse.indices))
    what = f"a sparse tensor of shape {list(shape)}"
    try:
        if np.any(places < 0):
            raise IndexError(f"index {places.min()} is negative")
        # negative extents are refused below
        require_array_fits(max(0, prod(shape)) * values.itemsize, usable_memory(), what)
        out = np.zeros(shape, values.dtype)
        if places.ndim == 2:
            out[tuple(places.T)] = values
        else:
            out.reshape(-1)[places] = values
    except (IndexError, ValueError, TypeError) as error:
        message = f"{what} can't be read: {error}"
        raise UserError("MC0131", message, hint="export the model again", where=where) from error
    return out
