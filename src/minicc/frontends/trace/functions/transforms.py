"""Fourier transforms of lengths that are known, and have small factors.

Others NumPy computes on the host: a factor is a product with a matrix of that many rows and
columns, and of a large one convolutions are less work.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import FUNCTIONS, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.core import Literal, Value
from minicc.ir.types import C64, C128, F16, F32, F64, PARTS
from minicc.library.fourier import radices_of, signal_of, spectrum_of, stacked

_LARGEST = 64  # factor of a length
_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _scale_of(recorder: Recorder, norm: Any, length: int, inverse: bool) -> float:
    """What results are multiplied by, beside the division by the length that inverse ones have."""
    if norm == "ortho":
        return math.sqrt(length) if inverse else 1 / math.sqrt(length)
    if norm not in _SWAPPED:
        recorder.refuse("MC0241", f"no transform has the norm {norm!r}")
    if inverse:
        return float(length) if norm == "forward" else 1.0
    return 1 / length if norm == "forward" else 1.0


def _fitting(recorder: Recorder, v: Value, axis: int, length: int) -> Value:
    """The first elements along an axis, and zeros where there are not so many."""
    own, shape = v.type.shape[axis], v.type.shape
    low = (0,) * len(shape)
    if own > length:
        stops = (*shape[:axis], length, *shape[axis + 1 :])
        return recorder.emit(graph.Slice, v, low, stops, (1,) * len(shape))
    if own == length:
        return v
    zero = Literal(np.zeros((), v.type.dtype.numpy))
    high = (*low[:axis], length - own, *low[axis + 1 :])
    return recorder.emit(graph.Pad, v, low, high, value=zero)


def _parts_of(recorder: Recorder, x: Value, both: bool) -> list[Value]:
    """The real and imaginary parts of numbers; the real one alone where that is all."""
    single = x.type.dtype in (F32, C64)
    if x.type.dtype.is_complex or both:
        z = recorder.cast(x, C64 if single else C128)
        return [recorder.emit(graph.Real, z), recorder.emit(graph.Imag, z)]
    return [recorder.cast(x, F32 if single else F64)]


def _transform(recorder: Recorder, kind: str, a: Any, n: Any, axis: Any, norm: Any) -> Value:
    """One of NumPy's transforms along an axis, which takes the first `n` elements or adds zeros."""
    value = value_of(recorder, a)
    element = value.type.dtype
    k = normalize_axis_index(operator.index(axis), value.type.rank)
    for extent in value.type.shape:
        if not isinstance(extent, int):
            recorder.need(extent, f"np.fft.{kind}")
    own = value.type.shape[k]
    to_real, of_real, inverse = kind == "irfft", kind == "rfft", kind.startswith("i")
    length = operator.index(n) if n is not None else 2 * (own - 1) if to_real else own
    if element is F16 or (of_real and element.is_complex) or 0 in value.type.shape or length < 1:
        recorder.refuse("MC0241", f"np.fft.{kind} is not traced of {value.type}")
    size = PARTS.get(element, F32 if element is F32 else F64).bytes
    largest = max(radices_of(length, size))
    if largest > _LARGEST:
        text = f"np.fft.{kind} of {length} elements is not traced, as {largest} is a factor"
        recorder.refuse("MC0241", text)
    wanted = length // 2 + 1 if to_real else length
    parts = [_fitting(recorder, v, k, wanted) for v in _parts_of(recorder, value, to_real)]
    y = stacked(recorder.emit, parts, k)
    if to_real:
        made = [signal_of(recorder.emit, y, k, length)]
    else:
        rows = length // 2 + 1 if of_real else length
        made = [*spectrum_of(recorder.emit, y, k, rows, inverse)]
    scale = _scale_of(recorder, norm, length, inverse)
    if scale != 1:
        factor = recorder.scalar(scale, made[0].type.dtype)
        made = [recorder.emit(graph.Mul, v, factor) for v in made]
    return made[0] if to_real else recorder.emit(graph.Complex, *made)


def _along_one(kind: str) -> None:
    def run(recorder: Recorder, a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Value:
        return _transform(recorder, kind, a, n, axis, norm)

    FUNCTIONS[f"fft.{kind}"] = run


@traces("fft.hfft")
def hfft(recorder: Recorder, a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Any:
    """The real transform of what has conjugates at its end, of which half is given."""
    np_ = recorder.namespace
    norm = _SWAPPED.get(norm, norm)
    return np_.fft.irfft(np_.conjugate(Tracer(recorder, value_of(recorder, a))), n, axis, norm)


@traces("fft.ihfft")
def ihfft(recorder: Recorder, a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Any:
    """Its inverse."""
    np_ = recorder.namespace
    norm = _SWAPPED.get(norm, norm)
    return np_.conjugate(np_.fft.rfft(Tracer(recorder, value_of(recorder, a)), n, axis, norm))


def _several(kind: str, axes: tuple[int, ...] | None) -> None:
    """Transforms along several axes, of which that of real numbers is along the last one."""

    def run(recorder: Recorder, a: Any, s: Any = None, axes: Any = axes, norm: Any = None) -> Any:
        one = recorder.namespace.fft
        box = Tracer(recorder, value_of(recorder, a))
        if s is not None and (axes is None or None in s or len(s) != len(axes)):
            recorder.refuse("MC0241", "NumPy warns of these arguments, or raises")
        along = [*(range(-box.ndim, 0) if axes is None else axes)]
        if len({k % box.ndim for k in along}) < max(1, len(along)):
            recorder.refuse("MC0241", "there is no axis, or one stands there twice")
        given = [None] * len(along) if s is None else s
        ends = [box.shape[k] if n == -1 else n for n, k in zip(given, along, strict=True)]
        last = ends[-1], along[-1], norm
        if kind == "irfft":
            for k, n in zip(along[:-1], ends[:-1], strict=True):
                box = one.ifft(box, n, k, norm)
            return one.irfft(box, *last)
        box = getattr(one, kind)(box, *last)
        other = one.fft if kind == "rfft" else getattr(one, kind)
        for k, n in zip(along[-2::-1], ends[-2::-1], strict=True):
            box = other(box, n, k, norm)
        return box

    FUNCTIONS[f"fft.{kind}{'n' if axes is None else '2'}"] = run


for _kind in ("fft", "ifft", "rfft", "irfft"):
    _along_one(_kind)
    _several(_kind, None)
    _several(_kind, (-2, -1))


def _shifted(name: str, back: bool) -> None:
    def run(recorder: Recorder, x: Any, axes: Any = None) -> Any:
        box = Tracer(recorder, value_of(recorder, x))
        along: Sequence[Any] = range(box.ndim) if axes is None else axes
        if isinstance(axes, int):
            along = [axes]
        shift = [-(box.shape[k] // 2) if back else box.shape[k] // 2 for k in along]
        return recorder.namespace.roll(box, tuple(shift), tuple(along))

    FUNCTIONS[f"fft.{name}"] = run


_shifted("fftshift", False)
_shifted("ifftshift", True)


@traces("angle")
def angle(recorder: Recorder, z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers in radians, or in degrees; of real ones half a turn or none."""
    np_ = recorder.namespace
    box = Tracer(recorder, value_of(recorder, z))
    made = np_.arctan2(*((box.imag, box.real) if box.dtype.kind == "c" else (0, box)))
    return made * (180 / np.pi) if deg else made
