"""Words: several small integers in one of 32 bits, as dot products of machines take them.

    | k + 3n/4 | k + n/2 | k + n/4 | k |    four bytes of a row of n, the first in the lowest bits

A form names what the words of a product's lhs and rhs hold. Sums of integers wrap and have no
order, so any partition of a row into words gives the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minicc.ir.arith import Binary
from minicc.ir.core import Array, RunRegion
from minicc.ir.types import I8, I16, I32, U8, DType, TensorType


class Form(NamedTuple):
    """The integers that the words of lhs and rhs hold."""

    lhs: DType
    rhs: DType

    @property
    def parts(self) -> int:
        """How many integers a word holds."""
        return I32.bits // self.lhs.bits


FORMS = {"i16": Form(I16, I16), "u8.i8": Form(U8, I8)}
"""All forms, by the names that attributes have."""


def parts_of(words: Array, dtype: DType) -> Array:
    """The integers of words, along a new last axis."""
    whole = np.ascontiguousarray(words, "<i4")
    return whole[..., None].view(dtype.numpy).reshape(*whole.shape, -1)


def word_products(lhs: Array, rhs: Array, form: str) -> Array:
    """The sum of the products of what two words hold, element by element, in i32."""
    kinds = FORMS[form]
    a, b = parts_of(lhs, kinds.lhs), parts_of(rhs, kinds.rhs)
    return np.asarray((a.astype(np.int32) * b).sum(axis=-1, dtype=np.int32))


def require_words(opname: str, form: str, *types: TensorType) -> None:
    """ValueError unless the form is known and the operands can hold words."""
    if form not in FORMS:
        raise ValueError(f"{opname} of words {form!r}; there are {sorted(FORMS)}")
    if any(t.dtype is not I32 for t in types):
        raise TypeError(f"{opname} of words wants i32, not {types}")


class WordProduct(Binary, name="arith.word_product"):
    """The sum of the products of the small integers that two words hold."""

    form: str

    def infer(self) -> tuple[TensorType, ...]:
        require_words(self.opname, self.form, self.a.type, self.b.type)
        return super().infer()

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (word_products(args[0], args[1], self.form),)
