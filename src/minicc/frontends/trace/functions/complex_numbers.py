"""What is computed of complex numbers: by the graph's ops, or of their parts as NumPy does it.

Of NumPy's functions those are traced that stand here, or do no more than to move and add elements;
others NumPy computes on the host.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minicc.frontends.trace.functions.formulas import EMIT, Emit, Formula
from minicc.frontends.trace.recorder import Recorder
from minicc.ir import graph
from minicc.ir.core import Value

_SHIFT = 16  # by which an exponent is lessened near the largest numbers

# Functions that do to complex numbers what they do to others.
ALIKE = frozenset((
    "sum", "mean", "where", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack",
    "copy", "array", "asarray", "asanyarray", "ascontiguousarray", "zeros_like", "ones_like",
    "full_like", "empty_like", "full", "repeat", "tile", "roll", "dot", "matmul", "einsum",
    "tensordot", "inner", "outer", "trace", "take", "take_along_axis", "tril", "triu", "shape",
    "ndim", "size", "iscomplexobj", "iscomplex", "isreal", "angle", "result_type", "can_cast",
    "shares_memory", "may_share_memory", "__getitem__", "ndarray.astype", "ndarray.copy",
    "ndarray.flatten", "ndarray.item", "add.reduce", "conjugate", "cumsum", "pad",
    *(f"fft.{of}{axes}" for of in ("fft", "ifft", "rfft", "irfft") for axes in ("", "2", "n")),
    "fft.hfft", "fft.ihfft", "fft.fftshift", "fft.ifftshift",
))  # fmt: skip


def parts(recorder: Recorder, z: Value) -> tuple[Formula, Formula]:
    """The real and the imaginary parts."""
    pair = recorder.emit(graph.Real, z), recorder.emit(graph.Imag, z)
    return Formula(recorder, pair[0]), Formula(recorder, pair[1])


def whole(re: Formula, im: Formula) -> Value:
    """The complex numbers of these parts."""
    return re.r.emit(graph.Complex, re.v, im.v)


def is_complex(x: Any) -> bool:
    """Whether an argument is of complex numbers, or holds some."""
    if isinstance(x, (list, tuple)):
        return any(map(is_complex, x))
    return isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") == "c"


def _divided(recorder: Recorder, a: Value, b: Value) -> Value:
    """Smith's way: by the greater part of the divisor first."""
    (ar, ai), (br, bi) = parts(recorder, a), parts(recorder, b)
    low, high = br.abs(), bi.abs()
    steep = Formula(recorder, recorder.emit(graph.Le, high.v, low.v))
    ratio = steep.choose(bi / br, br / bi)
    scale = steep.choose(br + bi * ratio, bi + br * ratio)
    scale = Formula(recorder, recorder.scalar(1, scale.dtype)) / scale
    re = steep.choose(ar + ai * ratio, ar * ratio + ai) * scale
    im = steep.choose(ai - ar * ratio, ai * ratio - ar) * scale
    zero = Formula(recorder, recorder.emit(graph.And, low.eq(0).v, high.eq(0).v))
    return whole(zero.choose(ar / low, re), zero.choose(ai / low, im))


def _exponential(recorder: Recorder, z: Value) -> Value:
    re, im = parts(recorder, z)
    least = math.log(float(np.finfo(re.dtype.numpy).max)) - 1
    large = Formula(recorder, recorder.scalar(least, re.dtype)) < re
    length = large.choose(re - _SHIFT, re).exp()
    back = large.choose(math.exp(_SHIFT), Formula(recorder, recorder.scalar(1, re.dtype)))
    none = re.eq(-math.inf)  # of which no direction is asked
    finite = im.abs() < math.inf
    still = Formula(recorder, recorder.emit(graph.And, none.v, recorder.emit(graph.Not, finite.v)))
    way = still.choose(0, im)
    cosine = Formula(recorder, EMIT["cos"](recorder, way.v))
    sine = Formula(recorder, EMIT["sin"](recorder, way.v))
    right = length * cosine * back
    endless = Formula(
        recorder, recorder.emit(graph.And, re.eq(math.inf).v, recorder.emit(graph.Not, finite.v))
    )
    up = im.eq(0).choose(im, length * sine * back)
    return whole(endless.choose(math.inf, right), up)


def _absolute(recorder: Recorder, z: Value) -> Value:
    re, im = parts(recorder, z)
    return EMIT["hypot"](recorder, re.v, im.v)


def _conjugate(recorder: Recorder, z: Value) -> Value:
    re, im = parts(recorder, z)
    return whole(re, -im)


OF_COMPLEX: dict[str, Emit] = {
    "add": EMIT["add"],
    "subtract": EMIT["subtract"],
    "multiply": EMIT["multiply"],
    "negative": EMIT["negative"],
    "positive": EMIT["positive"],
    "equal": EMIT["equal"],
    "not_equal": EMIT["not_equal"],
    "logical_and": EMIT["logical_and"],
    "logical_or": EMIT["logical_or"],
    "logical_not": EMIT["logical_not"],
    "square": lambda recorder, z: recorder.emit(graph.Mul, z, z),
    "divide": _divided,
    "exp": _exponential,
    "absolute": _absolute,
    "conjugate": _conjugate,
}


def _where_parts(name: str, join: Any) -> None:
    def emit(recorder: Recorder, z: Value) -> Value:
        return recorder.emit(join, *[EMIT[name](recorder, p.v) for p in parts(recorder, z)])

    OF_COMPLEX[name] = emit


_where_parts("isnan", graph.Or)
_where_parts("isinf", graph.Or)
_where_parts("isfinite", graph.And)
