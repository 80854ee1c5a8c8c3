"""Constant arrays as attributes, known or yet to be computed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, Self

import numpy as np

from minicc.ir.arrays import Array
from minicc.ir.mapped import let_go, own
from minicc.ir.types import TensorType, tensor_of

_SAMPLE = 256  # bytes of a literal that its hash looks at
_LONGEST_CHAIN = 16  # literals that are computed from each other in one go


class Literal:
    """A constant array as an attribute; equal when type and bytes are equal, so -0.0 is not 0.0.

    A `computed` literal has its array when that is first asked for. Until then it is equal to those
    that are computed alike, and its hash stays that of how it was computed.
    """

    __slots__ = ("_array", "_digest", "_hash", "_source", "_type")

    def __init__(self, array: Any) -> None:
        given = np.asarray(array)
        native = given.dtype.newbyteorder("=")
        self._array: Array | None = given.astype(native, order="C", copy=False)
        self._type: TensorType | None = None
        self._source: _Source | None = None
        self._digest: str | None = None
        self._hash: int | None = None

    @classmethod
    def computed(
        cls,
        type: TensorType,
        compute: Callable[..., Any],
        key: Hashable,
        operands: Sequence[Literal],
    ) -> Self:
        """What `compute` gives for the operands' arrays; `key` is equal for what computes the same.

        A chain of such literals is computed in one go, and what stands between is not kept: weights
        that are scaled, transposed and packed take new memory once.
        """
        source = _Source(compute, key, tuple(operands))
        if source.length > _LONGEST_CHAIN:
            return cls(source.evaluate({}))
        literal = cls.__new__(cls)
        literal._array = literal._digest = literal._hash = None
        literal._type, literal._source = type, source
        return literal

    @property
    def type(self) -> TensorType:
        """The tensor's type; TypeError where the array's dtype has no counterpart."""
        if self._type is None:
            self._type = tensor_of(self.array)
        return self._type

    @property
    def array(self) -> Array:
        """The array, in C order and native byte order."""
        self.compute()
        assert self._array is not None
        return self._array

    def compute(self) -> None:
        """Compute the array now, which another thread may wait for."""
        source = self._source
        if source is not None:
            with source.lock:
                if self._source is not None:
                    self._array = np.asarray(source.evaluate({}), order="C")
                    self._source = None

    def settle(self) -> None:
        """Compute the array, and copy one that lies in a model's file, which may change."""
        self.compute()
        self._array = own(self.array)

    def let_go(self) -> None:
        """Give back the pages of an array that lies in a file."""
        if self._source is None:
            let_go(self.array)

    @property
    def digest(self) -> str:
        """Hash of type and content; computed once, when first asked for."""
        if self._digest is None:
            h = hashlib.blake2b(str(self.type).encode(), digest_size=16)
            h.update(self._bytes().data)
            self._digest = h.hexdigest()
        return self._digest

    def _bytes(self) -> Array:
        return self.array.reshape(-1).view(np.uint8)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal) or self is other:
            return self is other
        one, two = self._source, other._source
        if one is not None and two is not None:
            return (one.key, one.operands) == (two.key, two.operands)
        a, b = self.array, other.array
        same_type = a.dtype == b.dtype and a.shape == b.shape
        return a is b or (same_type and np.array_equal(self._bytes(), other._bytes()))

    def __hash__(self) -> int:
        if self._hash is None:
            source = self._source
            self._hash = hash((source.key, source.operands)) if source else self._sampled()
        return self._hash

    def _sampled(self) -> int:
        # of weights a part will do: equality looks at all
        array = self.array
        if array.nbytes <= _SAMPLE:
            return hash((array.shape, array.dtype, array.tobytes()))
        raw = self._bytes()
        return hash((array.shape, array.dtype, raw[:_SAMPLE].tobytes(), raw[-8:].tobytes()))


class _Source:
    """How a literal is computed; `length` is that of the chain of those that it is computed of."""

    __slots__ = ("compute", "key", "length", "lock", "operands")

    def __init__(
        self, compute: Callable[..., Any], key: Hashable, operands: tuple[Literal, ...]
    ) -> None:
        self.compute = compute
        self.key = key
        self.operands = operands
        below = [o._source for o in operands]
        self.length: int = 1 + max((s.length for s in below if s is not None), default=0)
        self.lock = Lock()

    def evaluate(self, known: dict[_Source, Any]) -> Any:
        """The array, after all that is computed on the way to it, which is put in `known`."""
        arrays: list[Any] = []
        for literal in self.operands:
            below = literal._source
            if below is not None and below not in known:
                known[below] = below.evaluate(known)
            arrays.append(literal.array if below is None else known[below])
        made = self.compute(*arrays)
        for array in arrays:
            let_go(array)
        return made
