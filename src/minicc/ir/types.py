"""Types of SSA values: elements, tensors (tiles and scalars are static tensors), buffers.

A `TensorType` serves three levels: a whole tensor of graph and structured, a static tile of kernel,
and with rank 0 the scalar of a structured body or an index. A `BufferType` is memory: extents and
strides, counted in elements. Dimensions are `Dim`s, so a shape may hold symbols.
"""

from __future__ import annotations

from functools import cache, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from minicc.ir.arrays import ALIGNMENT
from minicc.later import Later

if TYPE_CHECKING:
    from minicc.ir import affine
    from minicc.ir.affine import Dim
else:
    affine = Later("minicc.ir.affine")


class DType:
    """An element type: name as printed, width in bits as stored, kind, NumPy's dtype.

    The kind is `f`, `c`, `i`, `u` or `b`, as NumPy's `dtype.kind` has it, or `s` of what is stored
    only: it is moved and cast, nothing is computed on it. NumPy gives an element a byte at least. A
    dtype of ml_dtypes is given by its name, and imported when it is first asked for.
    """

    __slots__ = ("_numpy", "bits", "kind", "name")

    def __init__(self, name: str, kind: str, bits: int, numpy_dtype: Any) -> None:
        self.name = name
        self.kind = kind
        self.bits = bits
        self._numpy: Any = numpy_dtype if isinstance(numpy_dtype, str) else np.dtype(numpy_dtype)

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's dtype."""
        if isinstance(self._numpy, str):
            import ml_dtypes

            self._numpy = np.dtype(getattr(ml_dtypes, self._numpy))
        found: np.dtype[Any] = self._numpy
        return found

    @property
    def bytes(self) -> int:
        """Bytes that one element takes in memory."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Whether it holds floating-point numbers."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether it holds complex numbers, which no level below the graph has."""
        return self.kind == "c"

    @property
    def is_integer(self) -> bool:
        """Whether it holds signed or unsigned integers; booleans are not integers."""
        return self.kind in "iu"

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (self.name,)


F16 = DType("f16", "f", 16, np.float16)
BF16 = DType("bf16", "f", 16, "bfloat16")
F32 = DType("f32", "f", 32, np.float32)
F64 = DType("f64", "f", 64, np.float64)
C64 = DType("c64", "c", 64, np.complex64)
C128 = DType("c128", "c", 128, np.complex128)
I8 = DType("i8", "i", 8, np.int8)
I16 = DType("i16", "i", 16, np.int16)
I32 = DType("i32", "i", 32, np.int32)
I64 = DType("i64", "i", 64, np.int64)
U8 = DType("u8", "u", 8, np.uint8)
U16 = DType("u16", "u", 16, np.uint16)
U32 = DType("u32", "u", 32, np.uint32)
U64 = DType("u64", "u", 64, np.uint64)
# Floats of 8 bits and less, and integers of less than 8, as the names of ml_dtypes have them.
F8E4M3FN = DType("f8e4m3fn", "s", 8, "float8_e4m3fn")
F8E4M3FNUZ = DType("f8e4m3fnuz", "s", 8, "float8_e4m3fnuz")
F8E5M2 = DType("f8e5m2", "s", 8, "float8_e5m2")
F8E5M2FNUZ = DType("f8e5m2fnuz", "s", 8, "float8_e5m2fnuz")
F8E8M0FNU = DType("f8e8m0fnu", "s", 8, "float8_e8m0fnu")
F6E2M3FN = DType("f6e2m3fn", "s", 6, "float6_e2m3fn")
F6E3M2FN = DType("f6e3m2fn", "s", 6, "float6_e3m2fn")
F4E2M1FN = DType("f4e2m1fn", "s", 4, "float4_e2m1fn")
I4 = DType("i4", "s", 4, "int4")
U4 = DType("u4", "s", 4, "uint4")
I2 = DType("i2", "s", 2, "int2")
U2 = DType("u2", "s", 2, "uint2")
STORED = (
    F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, F6E2M3FN, F6E3M2FN, F4E2M1FN,
    I4, U4, I2, U2,
)  # fmt: skip
BOOL = DType("bool", "b", 8, np.bool_)
# Of what is no tensor of numbers (texts, sequences, an absent value) or of no known rank: such a
# value passes between ops on the host as it is, as if it were one element.
OPAQUE = DType("opaque", "s", 64, np.object_)
INDEX = DType("index", "i", 64, np.int64)

PARTS = {C64: F32, C128: F64}  # of which type the two parts of a complex number are

_COMPUTED = (F16, BF16, F32, F64, C64, C128, I8, I16, I32, I64, U8, U16, U32, U64, BOOL, INDEX)
DTYPES = {d.name: d for d in (*_COMPUTED, *STORED)}


def dtype(name: str) -> DType:
    """The element type of that printed name; KeyError where there is none."""
    return OPAQUE if name == OPAQUE.name else DTYPES[name]


def from_numpy(numpy_dtype: Any) -> DType | None:
    """The element type that stores a NumPy dtype of any byte order; None where there is none."""
    given = np.dtype(numpy_dtype)
    found = _plain().get(given)
    if found is None:
        native = given.newbyteorder("=")
        found = _plain().get(native) or _others().get(native)
    return found


@cache
def _plain() -> dict[np.dtype[Any], DType]:
    return {d.numpy: d for d in _COMPUTED if d not in (BF16, INDEX)}


@cache
def _others() -> dict[np.dtype[Any], DType]:
    return {d.numpy: d for d in (BF16, *STORED)}


class Type:
    """Base of all types; immutable, compared by structure."""

    __slots__ = ()


class TensorType(Type):
    """A value of known rank.

    A tensor `f32[1,64,56,56]`, a tile `f32[14,32]`, a scalar `f32`, an index `index`.
    """

    __slots__ = ("_hash", "dtype", "shape")

    def __init__(self, dtype: DType, shape: tuple[Dim, ...] = ()) -> None:
        self.dtype = dtype
        self.shape = shape
        self._hash = hash((dtype.name, shape))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape as numbers; ValueError where a dimension is still a symbol."""
        return static_shape(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a dense tensor; ValueError where a dimension is still a symbol."""
        return prod(self.extents) * self.dtype.bytes

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorType)
            and self.dtype is other.dtype
            and self.shape == other.shape
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.dtype.name + (f"[{','.join(map(str, self.shape))}]" if self.shape else "")


class BufferType(Type):
    """Memory that holds a tensor: extents and strides in elements.

    Printed `buffer<f32[58,58,64], strides=[3712,64,1]>`.
    Strides are printed only where they are not those of a dense row-major array.
    """

    __slots__ = ("_hash", "dtype", "shape", "strides")

    def __init__(
        self, dtype: DType, shape: tuple[Dim, ...], strides: tuple[Dim, ...] | None = None
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.strides = dense_strides(shape) if strides is None else strides
        self._hash = hash((dtype.name, shape, self.strides))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape as numbers; ValueError where a dimension is still a symbol."""
        return static_shape(self.shape)

    @property
    def is_dense(self) -> bool:
        """Whether elements follow each other in row-major order without gaps."""
        return self.strides == dense_strides(self.shape)

    def span(self) -> int:
        """Elements from the first to one after the last, gaps included; ValueError if not bound."""
        return static_shape((self.reach(),))[0]

    def reach(self) -> Dim:
        """The span as an expression; of an empty buffer with gaps it may be negative."""
        if 0 in self.shape:
            return 0
        total: Dim = 1
        for n, stride in zip(self.shape, self.strides, strict=True):
            total = total + (n - 1) * stride
        return total

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BufferType)
            and self.dtype is other.dtype
            and self.shape == other.shape
            and self.strides == other.strides
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        body = f"{self.dtype.name}[{','.join(map(str, self.shape))}]"
        return (
            f"buffer<{body}>"
            if self.is_dense
            else f"buffer<{body}, strides=[{','.join(map(str, self.strides))}]>"
        )


INDEX_TYPE = TensorType(INDEX)


def buffer_bytes(type: BufferType) -> Dim:
    """Bytes that a buffer takes, with padding to the alignment of memory."""
    return affine.ceildiv(type.reach() * type.dtype.bytes, ALIGNMENT) * ALIGNMENT


def is_index(element: DType) -> bool:
    """Whether all values of an element type are among those of i64, as an index wants it."""
    return element.is_integer and element is not U64


def static_shape(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    """The shape as numbers; ValueError names the symbols that are not bound."""
    for extent in shape:
        if not isinstance(extent, int):
            raise ValueError(
                f"shape {list(shape)} has the unbound dimension {extent}; bind it with `specialise`"
            )
    return shape  # type: ignore[return-value]  # every element was just seen to be an int


def is_free(shape: tuple[Dim, ...]) -> bool:
    """Whether a shape depends on dimensions that are free."""
    return any(not isinstance(n, int) for n in shape)


@lru_cache(4096)
def dense_strides(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Row-major strides in elements."""
    strides: list[Dim] = []
    step: Dim = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


def tensor_of(array: np.ndarray[Any, Any]) -> TensorType:
    """The type of a NumPy array; TypeError where its dtype has no counterpart."""
    element = from_numpy(array.dtype)
    if element is None:
        raise TypeError(f"no element type stores NumPy's {array.dtype}")
    return TensorType(element, array.shape)


def bits_type(opname: str, t: TensorType, element: DType) -> TensorType:
    """The type of a tensor whose bits are read as another element type, or TypeError."""
    if element.bits != t.dtype.bits:
        raise TypeError(f"{opname} of {t} to {element}, which is of another width")
    return TensorType(element, t.shape)


def converted(x: Any, source: DType, target: DType) -> np.ndarray[Any, Any]:
    """An array as another element type; an f32 stands between two types that are only stored.

    It holds all numbers of either, and not every pair of such types has a way of its own.
    """
    with np.errstate(all="ignore"):
        stored = source.kind == target.kind == "s"
        return (np.asarray(x, np.float32) if stored else np.asarray(x)).astype(target.numpy)
