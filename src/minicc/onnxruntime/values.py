"""`OrtValue`: a tensor, a sequence of tensors, or a sparse tensor, held for a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from minicc.ir.arrays import Array
from minicc.onnxruntime.devices import OrtMemoryInfo, require_cpu
from minicc.onnxruntime.elements import STRING, dtype_of, number_of, spelled
from minicc.onnxruntime.sparse import SparseTensor

_NO_TEXTS = "an OrtValue is made of an array of numbers, not of texts"


class OrtValue:
    """A value in the CPU's memory: an array, a list of arrays, a sparse tensor, or nothing.

    `element` is the number of its element type, by default that of the array.
    """

    def __init__(self, ortvalue: Any, numpy_obj: Any = None, element: int | None = None) -> None:
        if isinstance(ortvalue, OrtValue):
            data, element = ortvalue._data, ortvalue._element
        else:
            data = ortvalue
        if data is not None and not isinstance(data, np.ndarray | list | SparseTensor):
            text = f"an OrtValue of a {type(data).__name__} can't be had"
            raise ValueError(f"{text}: OrtValue.ortvalue_from_numpy(array)")
        self._data: Any = data
        self._element: int | None = element

    @property
    def _ortvalue(self) -> OrtValue:
        """The value itself; ONNX Runtime has one of C++ here, which programs reach for."""
        return self

    def _get_c_value(self) -> OrtValue:
        return self

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A value that shares the array's memory, or has a dense copy of it.

        RuntimeError for what is no array of numbers, and for a device that is no CPU.
        """
        require_cpu(device_type, device_id)
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "USO":
            raise RuntimeError(_NO_TEXTS)
        number_of(numpy_obj.dtype)
        return cls(np.require(numpy_obj, requirements=["C", "A"]))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, /, onnx_element_type: int) -> OrtValue:
        """A value of an element type that is given, of an array with elements of as many bytes."""
        dtype = dtype_of(onnx_element_type)
        if data.dtype.itemsize != dtype.itemsize or dtype.kind == "O":
            text = f"elements of {data.dtype.itemsize} bytes can't be read as {dtype}"
            raise RuntimeError(text)
        array = np.require(data, requirements=["C", "A"]).view(dtype)
        return cls(array, element=onnx_element_type)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:
        """A value of that shape, not initialised; the type is NumPy's, or ONNX's number.

        RuntimeError for texts, a negative extent, and a device that is no CPU.
        """
        require_cpu(device_type, device_id)
        number = element_type if isinstance(element_type, int) else number_of(element_type)
        if number == STRING:
            raise RuntimeError(_NO_TEXTS)
        if min(shape, default=0) < 0:
            raise RuntimeError(f"a tensor can't have the shape {list(shape)}")
        return cls(np.empty(tuple(shape), dtype_of(number)), element=number)

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> OrtValue:
        """A value that is a sparse tensor."""
        return cls(sparse_tensor)

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """A value that shares the memory of a tensor of another library."""
        return cls.ortvalue_from_numpy(np.from_dlpack(data))

    def as_sparse_tensor(self) -> SparseTensor:
        """The sparse tensor; RuntimeError where it is none."""
        if not isinstance(self._data, SparseTensor):
            raise RuntimeError(f"the value is a {self.data_type()}, and no sparse tensor")
        return self._data

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self._tensor().ctypes.data)

    def device_name(self) -> str:
        """The device that holds it, always `cpu`."""
        return "cpu"

    def shape(self) -> list[int]:
        """The shape; RuntimeError of a sequence."""
        if isinstance(self._data, SparseTensor):
            return self._data.dense_shape()
        return list(self._tensor().shape)

    def data_type(self) -> str:
        """The type as ONNX Runtime spells it, as in `tensor(float)` or `seq(tensor(int64))`."""
        if isinstance(self._data, SparseTensor):
            return self._data.data_type()
        tensor = f"tensor({spelled(self.element_type())})"
        return f"seq({tensor})" if isinstance(self._data, list) else tensor

    def element_type(self) -> int:
        """The number of the element type (onnx.TensorProto.DataType)."""
        if self._element is not None:
            return self._element
        if isinstance(self._data, list):
            return number_of(self._data[0].dtype) if self._data else 0
        if isinstance(self._data, SparseTensor):
            return number_of(self._data.values().dtype)
        return number_of(self._tensor().dtype)

    def has_value(self) -> bool:
        """Whether it is anything; an empty optional is not."""
        return self._data is not None

    def is_tensor(self) -> bool:
        """Whether it is a dense tensor."""
        return isinstance(self._data, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor."""
        return isinstance(self._data, SparseTensor)

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        return isinstance(self._data, list)

    def tensor_size_in_bytes(self) -> int:
        """The bytes of a dense tensor."""
        return int(self._tensor().nbytes)

    def numpy(self) -> Array:
        """The array, whose memory is the value's; RuntimeError where it is no dense tensor."""
        return self._tensor()

    def update_inplace(self, data: Any) -> None:
        """Copy an array, or another value, into the memory of this one.

        RuntimeError unless there are as many elements, of the same type; TypeError for what is
        neither.
        """
        source = data._tensor() if isinstance(data, OrtValue) else data
        if not isinstance(source, np.ndarray):
            raise TypeError(f"the data are a {type(data).__name__}, and must be an array")
        own = self._tensor()
        if source.size != own.size:
            raise RuntimeError(f"{source.size} elements do not fit {own.size}")
        if source.dtype != own.dtype:
            text = f"elements of {source.dtype} do not fit {own.dtype}"
            raise RuntimeError(f"{text}: astype('{own.dtype}')")
        np.copyto(own, source.reshape(own.shape))

    def _tensor(self) -> Array:
        if not isinstance(self._data, np.ndarray):
            what = "nothing" if self._data is None else type(self._data).__name__
            raise RuntimeError(f"the value is {what}, and no dense tensor")
        return self._data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._tensor(), dtype=dtype, copy=copy)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self._tensor().__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor().__dlpack_device__()


class OrtValueVector(list[OrtValue]):
    """A list of values, with the calls of a vector of C++."""

    def push_back(self, value: Any) -> None:
        """Add a value, or what has an array of its own by DLPack."""
        self.append(value if isinstance(value, OrtValue) else OrtValue.from_dlpack(value))

    def push_back_batch(self, values: Iterable[Any], *_: Any) -> None:
        """Add several values."""
        for value in values:
            self.push_back(value)

    def reserve(self, count: int) -> None:
        """Do nothing: a list grows by itself."""

    def shrink_to_fit(self) -> None:
        """Do nothing: a list gives room back by itself."""

    def element_type_at(self, index: int) -> int:
        """The number of the element type of a value."""
        return self[index].element_type()

    def bool_tensor_indices(self) -> list[int]:
        """The places of tensors of truth values, which DLPack had no type for."""
        return [k for k, v in enumerate(self) if v.element_type() == number_of(np.bool_)]

    def dlpack_at(self, index: int) -> Any:
        """The DLPack capsule of a value."""
        return self[index].__dlpack__()


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copy each tensor into the memory of its counterpart; RuntimeError where these do not fit."""
    if len(src) != len(dst) or not src:
        raise RuntimeError(f"{len(src)} tensors can't be copied into {len(dst)}")
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source)
