"""Probes: values, bindings, runs in another thread, sparse tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.onnxruntime.models import (
    X,
    split,
)
from tests.onnxruntime.probing import add, probe, session


# values
def ort_value(ort: Any, array: Any = X, *more: Any) -> Any:
    return ort.OrtValue.ortvalue_from_numpy(array, *more)


@probe
def value_facts(ort: Any) -> Any:
    v = ort_value(ort)
    kinds = v.is_tensor(), v.is_tensor_sequence(), v.is_sparse_tensor(), v.has_value()
    types = v.data_type(), v.element_type(), v.device_name()
    return v.shape(), types, kinds, v.tensor_size_in_bytes(), v.numpy(), np.asarray(v)


@probe
def value_shares_memory(ort: Any) -> Any:
    array = X.copy()
    v = ort_value(ort, array)
    return v.data_ptr() == array.ctypes.data, np.shares_memory(v.numpy(), array)


for label, given in {
    "float64": [np.zeros(2)],
    "list": [[1.0]],
    "texts": [np.array(["a"])],
    "transposed": [np.zeros((3, 4)).T],
    "CUDA": [X, "cuda", 0],
    "no device": [X, "foo", 0],
}.items():

    def made(ort: Any, given: Any = given) -> Any:
        v = ort_value(ort, *given)
        return v.shape(), v.data_type(), v.element_type()

    add(f"value of {label}", made)
for label, pair_ in {
    "class": ([2, 3], np.float32),
    "dtype": ((2, 3), np.dtype(np.int64)),
    "number": ((2, 3), 10),
    "name": ((2,), "float32"),
    "bfloat16": ((2,), 16),
    "negative": ((-2, 3), np.float32),
    "text": ((2,), 8),
}.items():

    def empty(ort: Any, pair_: Any = pair_) -> Any:
        v = ort.OrtValue.ortvalue_from_shape_and_type(*pair_)
        return v.shape(), v.data_type()

    add(f"value by {label}", empty)
for number in (16, 17, 1):

    def typed(ort: Any, number: int = number) -> Any:
        array = np.zeros(3, {16: "u2", 17: "u1", 1: "f4"}[number])
        v = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, number)
        return v.shape(), v.data_type(), v.element_type()

    add(f"value of the type {number}", typed)
for label, data in {
    "array": X,
    "more elements": np.zeros((2, 3), np.float32),
    "list": [[1, 2, 3]],
    "reversed": X[:, ::-1],
    "float64": X.astype(np.float64),
}.items():

    def updated(ort: Any, data: Any = data) -> Any:
        v = ort.OrtValue.ortvalue_from_shape_and_type([1, 3], np.float32)
        v.update_inplace(data)
        return v.numpy()

    add(f"value in place, {label}", updated)
add(
    "value by DLPack",
    lambda ort: (np.from_dlpack(ort_value(ort)), ort_value(ort).__dlpack_device__()),
)
add("value from DLPack", lambda ort: ort.OrtValue.from_dlpack(np.ones((2, 2))).shape())


def by_values(ort: Any, names: Any, feed: Any) -> Any:
    return [(v.data_type(), v.numpy()) for v in session(ort).run_with_ort_values(names, feed)]


add("values, one", lambda ort: by_values(ort, ["y"], {"x": ort_value(ort)}))
add("values, all", lambda ort: by_values(ort, None, {"x": ort_value(ort)}))
add("values, float64", lambda ort: by_values(ort, None, {"x": ort_value(ort, np.zeros((1, 3)))}))
add("values, another rank", lambda ort: by_values(ort, None, {"x": ort_value(ort, X[0])}))
add("values, an array", lambda ort: by_values(ort, None, {"x": X}))
add("values, missing", lambda ort: by_values(ort, None, {}))
add("values, unknown output", lambda ort: by_values(ort, ["q"], {"x": ort_value(ort)}))


@probe
def sequence_value(ort: Any) -> Any:
    (v,) = session(ort, split()).run_with_ort_values(None, {"x": ort_value(ort)})
    return v.is_tensor_sequence(), v.is_tensor(), v.data_type(), v.has_value()


@probe
def sequence_is_no_array(ort: Any) -> Any:
    return session(ort, split()).run_with_ort_values(None, {"x": ort_value(ort)})[0].numpy()


# bindings
def bound_run(ort: Any, bind: Callable[[Any], object], array: Any = X) -> Any:
    opened = session(ort)
    binding = opened.io_binding()
    binding.bind_cpu_input("x", array)
    bind(binding)
    opened.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def to(array: Any) -> Callable[[Any], object]:
    ptr = array.ctypes.data
    return lambda b: b.bind_output("y", "cpu", 0, array.dtype.type, array.shape, ptr)


add("binding", lambda ort: bound_run(ort, lambda b: b.bind_output("y")))
add("binding, order", lambda ort: bound_run(ort, lambda b: [b.bind_output(n) for n in "zy"]))
add("binding, twice", lambda ort: bound_run(ort, lambda b: [b.bind_output(n) for n in "zz"]))
add("binding, no outputs", lambda ort: bound_run(ort, lambda b: None))
add("binding, CUDA", lambda ort: bound_run(ort, lambda b: b.bind_output("y", "cuda")))
add("binding, float64", lambda ort: bound_run(ort, lambda b: b.bind_output("y"), np.zeros((1, 3))))
add("binding, a list", lambda ort: bound_run(ort, lambda b: b.bind_output("y"), [[1.0, 2.0, 3.0]]))
add("binding, unknown input", lambda ort: session(ort).io_binding().bind_cpu_input("q", X))
add("binding, no value", lambda ort: session(ort).io_binding().bind_ortvalue_input("x", X))
add("binding, another shape", lambda ort: bound_run(ort, to(np.zeros((1, 2), np.float32))))
add("binding, another type", lambda ort: bound_run(ort, to(np.zeros((1, 3)))))


@probe
def binding_of_memory(ort: Any) -> Any:
    opened, y = session(ort), np.zeros((1, 3), np.float32)
    binding = opened.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    to(y)(binding)
    opened.run_with_iobinding(binding)
    return y, binding.get_outputs()[0].data_ptr() == y.ctypes.data


@probe
def binding_of_values(ort: Any) -> Any:
    opened = session(ort)
    binding, y = opened.io_binding(), ort_value(ort, np.zeros((1, 3), np.float32))
    binding.bind_ortvalue_input("x", ort_value(ort))
    binding.bind_ortvalue_output("y", y)
    opened.run_with_iobinding(binding, ort.RunOptions())
    return y.numpy(), [v.shape() for v in binding.get_outputs()]


@probe
def binding_reads_at_the_run(ort: Any) -> Any:
    array = X.copy()

    def bind(binding: Any) -> None:
        binding.bind_output("z")
        array.fill(5)

    return bound_run(ort, bind, array)


@probe
def binding_writes_to_the_same_value(ort: Any) -> Any:
    opened = session(ort)
    binding = opened.io_binding()
    binding.bind_output("y")
    binding.bind_cpu_input("x", X)
    opened.run_with_iobinding(binding)
    first, copied = binding.get_outputs()[0], binding.copy_outputs_to_cpu()
    binding.bind_cpu_input("x", -X)
    opened.run_with_iobinding(binding)
    same = first.data_ptr() == binding.get_outputs()[0].data_ptr()
    binding.bind_output("y")
    binding.bind_cpu_input("x", X + 1)
    opened.run_with_iobinding(binding)
    return same, first.numpy(), copied, binding.get_outputs()[0].numpy()


@probe
def binding_of_another_session(ort: Any) -> Any:
    session(ort).run_with_iobinding(session(ort).io_binding())


@probe
def binding_cleared(ort: Any) -> Any:
    binding = session(ort).io_binding()
    binding.bind_output("y")
    binding.clear_binding_inputs()
    binding.clear_binding_outputs()
    return binding.get_outputs()


# in another thread
def called(ort: Any, names: Any, feed: Any) -> Any:
    ended, found = threading.Event(), []

    def callback(values: Any, data: Any, error: str) -> None:
        found.append((values, data, bool(error)))
        ended.set()

    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session(ort, sess_options=options).run_async(names, feed, callback, "data")
    ended.wait(60)
    return found


add("thread", lambda ort: called(ort, ["y"], {"x": X}))
add("thread, another rank", lambda ort: called(ort, ["y"], {"x": X[0]}))
add("thread, unknown output", lambda ort: called(ort, ["q"], {"x": X}))
add("thread, missing", lambda ort: called(ort, ["y"], {}))


# sparse tensors
@probe
def sparse_coordinates(ort: Any) -> Any:
    cpu, values = ort.OrtDevice.make("cpu", 0), np.array([1, 2], np.float32)
    made = ort.SparseTensor.sparse_coo_from_numpy(np.array([3, 3]), values, np.array([0, 4]), cpu)
    facts = list(made.dense_shape()), made.data_type(), int(made.format()), made.device_name()
    return made.values(), facts, made.as_coo_view().indices()


@probe
def sparse_rows(ort: Any) -> Any:
    cpu, values = ort.OrtDevice.make("cpu", 0), np.array([1, 2], np.float32)
    starts = np.array([0, 1, 2, 2])
    made = ort.SparseTensor.sparse_csr_from_numpy(
        np.array([3, 3]), values, np.array([0, 1]), starts, cpu
    )
    view = made.as_csrc_view()
    v = ort.OrtValue.ort_value_from_sparse_tensor(made)
    facts = v.is_sparse_tensor(), v.is_tensor(), v.data_type(), v.shape()
    return int(made.format()), view.inner(), view.outer(), facts


@probe
def sparse_rows_have_no_coordinates(ort: Any) -> Any:
    cpu, values = ort.OrtDevice.make("cpu", 0), np.array([1, 2], np.float32)
    shape, starts = np.array([3, 3]), np.array([0, 1, 2, 2])
    inner = np.array([0, 1])
    make = ort.SparseTensor.sparse_csr_from_numpy
    return make(shape, values, inner, starts, cpu).as_coo_view()


@probe
def copied_tensors(ort: Any) -> Any:
    target = ort_value(ort, np.zeros((1, 3), np.float32))
    ort.copy_tensors([ort_value(ort)], [target])
    return target.numpy()
