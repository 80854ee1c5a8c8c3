"""Contractions: the einsum of two operands, and convolution.

f16 and bf16 are multiplied and summed in f32 and rounded once. No order of summing is promised.
Where `form` is given, operands are words of small integers (see `ir.words`), all of whose products
are summed; the form's lhs is the second operand where they are `swapped`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minicc.ir.affine import Dim, floordiv, mod, number
from minicc.ir.arith import widened
from minicc.ir.core import Array, Op, RunRegion, Value
from minicc.ir.graph.movement import Transpose
from minicc.ir.graph.shapes import agree, differ, window_extent
from minicc.ir.types import TensorType
from minicc.ir.words import FORMS, parts_of, require_words

LAYOUTS = ("channels_first", "channels_last")


def parse_equation(equation: str) -> tuple[str, str, str]:
    """The letters of both operands and of the result; ValueError where it is not of the form."""
    operands, arrow, out = equation.partition("->")
    left, comma, right = operands.partition(",")
    letters = left + right + out
    well_formed = arrow and comma and (not letters or (letters.isascii() and letters.isalpha()))
    if not well_formed or any(len({*part}) < len(part) for part in (left, right, out)):
        raise ValueError(f'equation "{equation}" is not of the form "bmk,bkn->bmn"')
    if unknown := sorted({*out} - {*left, *right}):
        raise ValueError(f'equation "{equation}" has {", ".join(unknown)} in the result alone')
    return left, right, out


def untransposed(v: Value, term: str, makers: Mapping[Value, Op]) -> tuple[Value, str]:
    """What a value is before it is transposed, with the letters that its axes then have."""
    while isinstance(op := makers.get(v), Transpose):
        letters = dict(zip(op.perm, term, strict=True))
        v, term = op.x, "".join(letters[k] for k in range(len(term)))
    return v, term


def check_numeric(op: Op, a: TensorType, b: TensorType) -> None:
    """TypeError unless both have one element type, of numbers."""
    kinds = "fiuc" if isinstance(op, Contract) else "fiu"
    if a.dtype is not b.dtype or a.dtype.kind not in kinds:
        raise TypeError(f"{op.opname} wants numbers of one element type, not {a} and {b}")


def summed_axes(equation: str) -> tuple[int, int]:
    """The axis of each operand that words of a contraction lie along: the first that is summed.

    ValueError where none of both operands is.
    """
    left, right, out = parse_equation(equation)
    for axis, letter in enumerate(left):
        if letter in right and letter not in out:
            return axis, right.index(letter)
    raise ValueError(f'equation "{equation}" sums nothing that words could hold')


def _taken_apart(
    args: Sequence[Any], axes: Sequence[int], form: str, swapped: bool
) -> tuple[Array, ...]:
    """What words hold, as i32; the parts of each one after the other along an axis."""
    kinds = FORMS[form][:: -1 if swapped else 1]
    parts = [parts_of(np.asarray(a), kind) for a, kind in zip(args, kinds, strict=True)]
    return tuple(
        np.concatenate(np.moveaxis(p, -1, 0), axis=axis).astype(np.int32)
        for p, axis in zip(parts, axes, strict=True)
    )


class Contract(Op, name="graph.contract"):
    """The einsum of two operands: `"bmk,bkn->bmn"`.

    Each letter stands once an operand and for one extent; letters that the result lacks are summed
    over. Operands do not broadcast.
    """

    a: Value
    b: Value
    equation: str
    form: str = ""
    swapped: bool = False

    def infer(self) -> tuple[TensorType, ...]:
        a, b = self.a.type, self.b.type
        check_numeric(self, a, b)
        if self.form:
            require_words(self.opname, self.form, a, b)
            summed_axes(self.equation)
        left, right, out = parse_equation(self.equation)
        if (len(left), len(right)) != (a.rank, b.rank):
            raise TypeError(f'equation "{self.equation}" does not fit the ranks of {a} and {b}')
        extents: dict[str, Dim] = {}
        for letter, extent in zip(left + right, a.shape + b.shape, strict=True):
            known = extents.get(letter, extent)
            if differ(known, extent):
                raise TypeError(f"{letter} is {known} in {a} and {extent} in {b}")
            extents[letter] = agree(known, extent)
        return (TensorType(a.dtype, tuple([extents[letter] for letter in out])),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        if self.form:
            args = _taken_apart(args, summed_axes(self.equation), self.form, self.swapped)
        with np.errstate(all="ignore"):
            out = np.einsum(self.equation, *map(widened, map(np.asarray, args)), optimize=True)
            return (np.asarray(out, self.result.type.dtype.numpy),)


class Conv(Op, name="graph.conv"):
    """Convolution (cross-correlation) over any number of spatial axes, without padding.

    `x` is [N,C,*spatial], or [N,*spatial,C] where `layout` is `channels_last`, and so is the
    result; `w` is always [O,C/groups,*kernel]. Output channel `o` sees the input channels of its
    group only: `groups`, which may be free, divides C and O. With `parts` above 1 it sees them
    after a shuffle: of so many runs of channels, each has one in its turn (see `channel`).
    """

    x: Value
    w: Value
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: Dim = 1
    layout: str = "channels_first"
    form: str = ""
    swapped: bool = False
    parts: int = 1

    def infer(self) -> tuple[TensorType, ...]:
        x, w = self.x.type, self.w.type
        check_numeric(self, x, w)
        if self.form:
            require_words(self.opname, self.form, x, w)
        if self.layout not in LAYOUTS:
            raise ValueError(f"no layout is called {self.layout}; there are {list(LAYOUTS)}")
        if x.rank < 2 or w.rank != x.rank:
            raise TypeError(f"{self.opname} of {x} with weights {w}: ranks differ or are below 2")
        if not len(self.strides) == len(self.dilations) == x.rank - 2:
            raise ValueError(f"{self.opname} wants {x.rank - 2} strides and dilations for {x}")
        last = self.layout == "channels_last"
        channels, spatial = (x.shape[-1], x.shape[1:-1]) if last else (x.shape[1], x.shape[2:])
        out_channels, groups = w.shape[0], self.groups
        none = isinstance(groups, int) and groups < 1
        if none or differ(w.shape[1] * groups, channels):
            raise TypeError(f"weights {w} in {groups} groups do not fit the channels of {x}")
        if self.parts < 1 or (isinstance(channels, int) and channels % self.parts):
            raise ValueError(f"{self.parts} parts do not divide the channels of {x}")
        if differ(out_channels, self.width * groups):
            raise TypeError(f"{groups} groups do not divide the output channels of {w}")
        per_axis = zip(spatial, w.shape[2:], self.strides, self.dilations, strict=True)
        extents = [window_extent(*axis) for axis in per_axis]
        shape = (*extents, out_channels) if last else (out_channels, *extents)
        return (TensorType(x.dtype, (x.shape[0], *shape)),)

    @property
    def width(self) -> Dim:
        """How many output channels a group has."""
        channels: Dim = self.w.type.shape[0]
        return 1 if channels == self.groups else floordiv(channels, self.groups)

    def channel(self, seen: Dim) -> Dim:
        """Which channel of `x` stands where groups see one."""
        if self.parts == 1:
            return seen
        channels = self.w.type.shape[1] * self.groups
        return mod(seen, self.parts) * floordiv(channels, self.parts) + floordiv(seen, self.parts)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        x, w = map(widened, map(np.asarray, args))
        if self.layout == "channels_last":
            x = np.moveaxis(x, -1, 1)
        if self.parts > 1:
            x = x[:, [number(self.channel(c)) for c in range(x.shape[1])]]
        if self.form:
            x, w = _taken_apart((x, w), (1, 1), self.form, self.swapped)
        with np.errstate(all="ignore"):
            out = self._convolve(x, w).astype(self.result.type.dtype.numpy)
        if self.layout == "channels_last":
            out = np.ascontiguousarray(np.moveaxis(out, 1, -1))
        return (out,)

    def _convolve(self, x: Array, w: Array) -> Array:
        """One matrix product for each tap of the kernel, all groups and pixels at once."""
        g, kernel = number(self.groups), w.shape[2:]
        per_axis = zip(x.shape[2:], kernel, self.strides, self.dilations, strict=True)
        extents = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in per_axis]
        rows = w.reshape(g, w.shape[0] // g, w.shape[1], *kernel)
        out = np.zeros((x.shape[0], *rows.shape[:2], int(np.prod(extents))), x.dtype)
        for tap in itertools.product(*map(range, kernel)):
            corner = zip(tap, self.strides, self.dilations, extents, strict=True)
            seen = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, s, d, n in corner]
            here: tuple[Any, ...] = (..., *seen)
            weights: tuple[Any, ...] = (..., *tap)
            pixels = x[here].reshape(x.shape[0], g, rows.shape[2], out.shape[3])
            out += rows[weights] @ pixels
        return out.reshape(x.shape[0], w.shape[0], *extents)
