"""The parts of numbers: real, imaginary, the conjugate; of real numbers there is little to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.functions.complex_numbers import is_complex
from minicc.frontends.trace.lens import Lens
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import traces
from minicc.frontends.trace.views import boxed
from minicc.ir import graph
from minicc.ir.core import Value


@traces("real", view=True)
def real(recorder: Recorder, val: Any) -> Any:
    """The real parts, of real numbers the array itself."""
    box = boxed(recorder, val)
    if box.dtype.kind != "c":
        return box

    def put(base: Value, new: Value) -> Value:
        return recorder.emit(graph.Complex, new, recorder.emit(graph.Imag, base))

    return box.look(
        Lens("real", lambda array: array.real, lambda v: recorder.emit(graph.Real, v), put)
    )


@traces("real_if_close", view=True)
def real_if_close(recorder: Recorder, a: Any) -> Any:
    """The array itself, where it is real."""
    box = boxed(recorder, a)
    if box.dtype.kind == "c":
        recorder.refuse("MC0241", "it looks at the imaginary parts")
    return box


@traces("ndarray.conj", view=True)
def conj(recorder: Recorder, a: Any) -> Any:
    """The conjugates, of real numbers the array itself."""
    return a if a.dtype.kind != "c" else recorder.namespace.conjugate(a)


@traces("imag", view=True)
def imag(recorder: Recorder, val: Any) -> Any:
    """The imaginary parts, of real numbers zeros that are not written to."""
    box = boxed(recorder, val)
    if box.dtype.kind == "c":

        def put(base: Value, new: Value) -> Value:
            return recorder.emit(graph.Complex, recorder.emit(graph.Real, base), new)

        return box.look(
            Lens("imag", lambda array: array.imag, lambda v: recorder.emit(graph.Imag, v), put)
        )
    zero = np.zeros((), box.dtype)
    if box.scalar:
        return zero[()]
    zeros = np.broadcast_to(zero, box.shape)
    return box.look(Lens("imag", _zeros, lambda value: recorder.lift(zeros), None))


def _zeros(array: Any) -> Any:
    zeros = np.zeros(array.shape, array.dtype, "F" if array.flags.fnc else "C")
    zeros.flags.writeable = False
    return zeros


@traces("isreal")
def isreal(recorder: Recorder, x: Any) -> Any:
    """Whether the imaginary part is zero."""
    return recorder.namespace.imag(x) == 0


@traces("iscomplex")
def iscomplex(recorder: Recorder, x: Any) -> Any:
    """Whether the imaginary part is not zero."""
    return recorder.namespace.imag(x) != 0


@traces("iscomplexobj")
def iscomplexobj(recorder: Recorder, x: Any) -> bool:
    """Whether the elements are complex, whatever their parts."""
    return is_complex(x)
