"""`IOBinding`: inputs and outputs that are bound to memory ahead of runs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from minicc.ir.arrays import Array
from minicc.onnxruntime.devices import OrtDevice, require_cpu
from minicc.onnxruntime.elements import dtype_of
from minicc.onnxruntime.values import OrtValue, OrtValueVector


class Runs(Protocol):
    """What a binding needs of a session: the inputs by name, and values of outputs for them."""

    @property
    def _args(self) -> Mapping[str, Any]: ...

    def _values(self, names: list[str], feed: Mapping[str, Any], run_options: Any) -> list[Any]: ...


class IOBinding:
    """Inputs and outputs of a session, by name; outputs are in the order in which they were bound.

    An output that has no memory of its own gets a value at the first run. Later runs write to that
    as well; where the shape is another one, it gets a new value.
    """

    def __init__(self, session: Runs) -> None:
        self._session = session
        self._inputs: dict[str, OrtValue] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._results: dict[str, OrtValue] = {}

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Bind an input to an array, whose memory is read at each run.

        RuntimeError for what is no array, and for a name that no input has.
        """
        if not isinstance(arr_on_cpu, np.ndarray):
            kind = type(arr_on_cpu).__name__
            raise RuntimeError(f"the input {name!r} is bound to a {kind}, and must be an array")
        self._bind_input(name, OrtValue(arr_on_cpu))

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Bind an input to memory at an address, which must outlive the binding.

        The element type is NumPy's or ONNX's number; RuntimeError for another device than the CPU.
        """
        require_cpu(device_type, device_id)
        self._bind_input(name, OrtValue(_view(element_type, shape, buffer_ptr)))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value; AttributeError for what is no OrtValue."""
        self._bind_input(name, require_value(ortvalue))

    def _bind_input(self, name: str, value: OrtValue) -> None:
        known = self._session._args
        if name not in known:
            raise RuntimeError(f"no input is called {name!r}; inputs: {', '.join(known)}")
        self._inputs[name] = value

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to memory at an address, or to a value that each run makes.

        Results are in the CPU's memory whatever the device; an address of another is refused by a
        RuntimeError.
        """
        self._results.pop(name, None)
        if buffer_ptr is None:
            OrtDevice.make(device_type, device_id)
            self._outputs[name] = None
            return
        require_cpu(device_type, device_id)
        if element_type is None or shape is None:
            raise ValueError("memory for an output needs an element type and a shape")
        self._outputs[name] = OrtValue(_view(element_type, shape, buffer_ptr))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to the memory of a value; AttributeError for what is no OrtValue."""
        self._outputs[name] = require_value(ortvalue)
        self._results.pop(name, None)

    def run(self, run_options: Any = None) -> None:
        """Run the session that made the binding; RuntimeError for whatever is wrong with it."""
        if not self._outputs:
            raise RuntimeError("no output is bound")
        feed = {name: value._data for name, value in self._inputs.items()}
        try:
            values = self._session._values(list(self._outputs), feed, run_options)
        except Exception as error:
            raise RuntimeError(f"the bound run failed: {error}") from error
        for (name, own), value in zip(self._outputs.items(), values, strict=True):
            if own is None:
                self._results[name] = _renewed(self._results.get(name), value)
            else:
                self._results[name] = _filled(name, own, value)

    def get_outputs(self) -> list[OrtValue]:
        """The values of the outputs after a run, in the order in which they were bound."""
        return [self._results[name] for name in self._outputs if name in self._results]

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """The values of the outputs after a run."""
        return OrtValueVector(self.get_outputs())

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of the outputs' arrays after a run."""
        return [v.numpy().copy() if v.is_tensor() else v._data for v in self.get_outputs()]

    def synchronize_inputs(self) -> None:
        """Do nothing: inputs in the CPU's memory are there."""

    def synchronize_outputs(self) -> None:
        """Do nothing: outputs are there when a run ends."""

    def clear_binding_inputs(self) -> None:
        """Forget the inputs that were bound."""
        self._inputs = {}

    def clear_binding_outputs(self) -> None:
        """Forget the outputs that were bound, and their values."""
        self._outputs, self._results = {}, {}


def require_value(value: object) -> OrtValue:
    """The value itself; AttributeError for what is no OrtValue, as ONNX Runtime raises it."""
    if not isinstance(value, OrtValue):
        text = f"a {type(value).__name__} is no OrtValue"
        raise AttributeError(f"{text}: OrtValue.ortvalue_from_numpy(array)")
    return value


def values_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """What values by name hold; AttributeError for what is no OrtValue."""
    return {name: require_value(value)._data for name, value in given.items()}


def _view(element_type: Any, shape: Sequence[int], address: int) -> Array:
    """An array over memory that somebody else owns."""
    number = isinstance(element_type, int)
    dtype = dtype_of(element_type) if number else np.dtype(element_type)
    extents = tuple(int(n) for n in shape)
    memory = (ctypes.c_char * (prod(extents) * dtype.itemsize)).from_address(address)
    return np.ndarray(extents, dtype, memoryview(memory))


def _renewed(last: OrtValue | None, value: Any) -> OrtValue:
    """The value of the last run with a result in its memory; a new one where that does not fit."""
    if last is not None and last.is_tensor() and isinstance(value, np.ndarray):
        array = last.numpy()
        if array.shape == value.shape and array.dtype == value.dtype:
            np.copyto(array, value)
            return last
    return OrtValue(value)


def _filled(name: str, own: OrtValue, value: Any) -> OrtValue:
    """The value that an output was bound to, with a result in its memory."""
    array = own.numpy()
    if array.shape != value.shape or array.dtype != value.dtype:
        given = f"{array.dtype} {list(array.shape)}"
        text = f"the output {name!r} is {value.dtype} {list(value.shape)}"
        raise RuntimeError(f"{text}, and is bound to memory for {given}")
    np.copyto(array, value)
    return own
