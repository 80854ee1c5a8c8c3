"""Sparse tensors as values: coordinates, and compressed rows.

They can be made, looked at and carried in an `OrtValue`; a model whose inputs are sparse is refused
by minicc when it is opened.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.ir.arrays import Array
from minicc.onnxruntime.devices import OrtDevice
from minicc.onnxruntime.elements import number_of, spelled
from minicc.onnxruntime.enums import OrtSparseFormat


class CooView:
    """The coordinates of a sparse tensor: int64, one or two for each value."""

    def __init__(self, indices: Array) -> None:
        self._indices = indices

    def indices(self) -> Array:
        """The coordinates: (values,) of a flat tensor, or (values, 2)."""
        return self._indices


class CsrView:
    """The columns and the starts of rows of a sparse tensor, int64."""

    def __init__(self, inner: Array, outer: Array) -> None:
        self._inner, self._outer = inner, outer

    def inner(self) -> Array:
        """The column of each value."""
        return self._inner

    def outer(self) -> Array:
        """Where each row starts among the values, and where the last one ends."""
        return self._outer


class SparseTensor:
    """A sparse matrix: values with their coordinates, or with compressed rows."""

    def __init__(self, shape: Array, values: Array, view: CooView | CsrView) -> None:
        self._shape, self._values, self._view = [int(n) for n in shape], values, view

    @classmethod
    def sparse_coo_from_numpy(
        cls, dense_shape: Array, values: Array, coo_indices: Array, ort_device: OrtDevice
    ) -> SparseTensor:
        """Values at coordinates; RuntimeError unless there are one or two for each value."""
        indices = np.asarray(coo_indices, np.int64)
        if indices.size not in (len(values), 2 * len(values)):
            text = f"{len(values)} values have {indices.size} coordinates"
            raise RuntimeError(f"{text}; one or two for each are wanted")
        return cls(dense_shape, np.asarray(values), CooView(indices))

    @classmethod
    def sparse_csr_from_numpy(
        cls,
        dense_shape: Array,
        values: Array,
        inner_indices: Array,
        outer_indices: Array,
        ort_device: OrtDevice,
    ) -> SparseTensor:
        """Values with a column each, and starts of rows; RuntimeError where these do not fit."""
        inner, outer = (np.asarray(a, np.int64) for a in (inner_indices, outer_indices))
        if len(dense_shape) != 2 or len(inner) != len(values) or len(outer) != dense_shape[0] + 1:
            text = f"{len(values)} values of a matrix {list(dense_shape)} want as many columns"
            raise RuntimeError(f"{text} and a start for each row and the end")
        return cls(dense_shape, np.asarray(values), CsrView(inner, outer))

    def values(self) -> Array:
        """The values that are stored."""
        return self._values

    def dense_shape(self) -> list[int]:
        """The shape of the tensor with its zeros."""
        return list(self._shape)

    def data_type(self) -> str:
        """The type as ONNX Runtime spells it, as in `sparse_tensor(float)`."""
        return f"sparse_tensor({spelled(number_of(self._values.dtype))})"

    def device_name(self) -> str:
        """The device that holds it, always `cpu`."""
        return "cpu"

    def format(self) -> OrtSparseFormat:
        """Whether it has coordinates or compressed rows."""
        coo = isinstance(self._view, CooView)
        return OrtSparseFormat.ORT_SPARSE_COO if coo else OrtSparseFormat.ORT_SPARSE_CSRC

    def as_coo_view(self) -> CooView:
        """The coordinates; RuntimeError where it has compressed rows."""
        if isinstance(self._view, CooView):
            return self._view
        raise RuntimeError("this sparse tensor has compressed rows: as_csrc_view")

    def as_csrc_view(self) -> CsrView:
        """The compressed rows; RuntimeError where it has coordinates."""
        if isinstance(self._view, CsrView):
            return self._view
        raise RuntimeError("this sparse tensor has coordinates: as_coo_view")

    def as_blocksparse_view(self) -> Any:
        """Raise a RuntimeError: no sparse tensor here is stored in blocks."""
        raise RuntimeError(f"this sparse tensor is stored as {self.format().name}, not in blocks")

    def to_cuda(self, ort_device: OrtDevice) -> SparseTensor:
        """Raise a RuntimeError: there is no CUDA here."""
        raise RuntimeError("minicc runs on the CPU, and has no CUDA")
