"""Element types: ONNX's numbers, their spelling in ONNX Runtime, and NumPy's dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.ir import types

STRING = 8
# number: ONNX Runtime's spelling, minicc's name
_ELEMENTS = {
    1: ("float", "f32"), 2: ("uint8", "u8"), 3: ("int8", "i8"), 4: ("uint16", "u16"),
    5: ("int16", "i16"), 6: ("int32", "i32"), 7: ("int64", "i64"), STRING: ("string", ""),
    9: ("bool", "bool"), 10: ("float16", "f16"), 11: ("double", "f64"), 12: ("uint32", "u32"),
    13: ("uint64", "u64"), 16: ("bfloat16", "bf16"), 17: ("float8e4m3fn", "f8e4m3fn"),
    18: ("float8e4m3fnuz", "f8e4m3fnuz"), 19: ("float8e5m2", "f8e5m2"),
    20: ("float8e5m2fnuz", "f8e5m2fnuz"), 21: ("uint4", "u4"), 22: ("int4", "i4"),
}  # fmt: skip
_NUMBERS = {spelling: number for number, (spelling, _) in _ELEMENTS.items()}


def dtype_of(number: int) -> np.dtype[Any]:
    """NumPy's dtype for the number of an element type; RuntimeError for one that is not known."""
    if number not in _ELEMENTS:
        raise RuntimeError(f"no element type has the number {number}")
    name = _ELEMENTS[number][1]
    return types.dtype(name).numpy if name else np.dtype(object)


def number_of(dtype: Any) -> int:
    """The number of NumPy's dtype; RuntimeError where ONNX has no such element type."""
    wanted = np.dtype(dtype)
    if wanted.kind in "USO":
        return STRING
    found = types.from_numpy(wanted)
    for number, (_, name) in _ELEMENTS.items():
        if found is not None and name == found.name:
            return number
    raise RuntimeError(f"no element type of ONNX is NumPy's {wanted}")


def spelled(number: int) -> str:
    """An element type as ONNX Runtime spells it, as in `tensor(float)`."""
    return _ELEMENTS[number][0]


def element_of(type: str) -> np.dtype[Any] | None:
    """NumPy's dtype for a type as ONNX Runtime spells it; None of a type that is not known."""
    number = _NUMBERS.get(type.rpartition("(")[2].rstrip(")"))
    return None if number is None else dtype_of(number)
