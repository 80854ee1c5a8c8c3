"""Results that are written past the caches: the same bits, wherever they lie."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minicc.backends.llvm.compile import emit
from minicc.compile.compiled import compile_module
from minicc.compile.compiler import lower
from minicc.errors import UserError
from minicc.frontends.trace import trace_call
from minicc.ir import kernel
from minicc.ir.core import Module, walk
from minicc.options import Options
from minicc.passes.structured.past_caches import read_by_others
from minicc.passes.structured.write_schedules import Given, named_groups, write_schedules
from minicc.target import TARGETS
from tests.stages.programs import Array, machine_code, same_bits, spread
from tests.stages.schedules import text_of

RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
Function = Callable[..., Any]


def together(x: Any, y: Any) -> Any:
    return x + y * y


def turned(x: Any, y: Any) -> Any:
    return (x + y).T


def both(x: Any, y: Any) -> Any:
    return x - y, x > y


def product(x: Any, y: Any) -> Any:
    return x @ y.T + 1


REAL, COMPLEX = ("f4", "f8", "f2", "i1", "i4"), ("c8", "c16")
CASES = [(f, dtype) for f in (together, turned, product) for dtype in (*REAL, *COMPLEX)]
CASES += [(both, dtype) for dtype in REAL]  # of complex numbers NumPy alone says which is larger


def stores(program: Module) -> list[kernel.Store]:
    """The stores of all kernels."""
    ops = [op for f in program.functions for op in walk(f.body)]
    return [op for op in ops if isinstance(op, kernel.Store)]


def forced(made: Module, options: Options) -> Options:
    """The options with schedules that write all results past the caches, as far as is legal."""
    groups = lower(made, options, stop="collapse")
    scheduled = write_schedules(groups, options.machine, Given())
    plans = {
        name: group.schedule._replace(nontemporal=tuple(read_by_others(group)))
        for name, group in named_groups(scheduled)
        if group.schedule is not None
    }
    return options.replace(schedules=text_of(plans))


def sample(shape: tuple[int, ...], dtype: str) -> list[Array]:
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind == "c":
        return [(rng.random(shape) + 1j * rng.random(shape)).astype(dtype) for _ in "xy"]
    return [(9 * rng.standard_normal(shape)).astype(dtype) for _ in "xy"]


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize(("f", "dtype"), CASES)
def test_the_same_bits_wherever_results_lie(f: Function, dtype: str, target: str) -> None:
    for shape in ((1, 1), (3, 5), (7, 64), (33, 48), (1, 4099)):
        inputs = sample(shape, dtype)
        made = trace_call(f, inputs, {}).module
        options = Options(target=target, threads=1)
        usual = compile_module(made, options, {}).executable.run(inputs)
        numbers = list(map(as_numbers, usual))
        program = lower(made, forced(made, options))
        assert any(op.nontemporal for op in stores(program))
        for threads, one in ((1, program), (2, spread(program))):
            assert all(map(same_bits, machine_code(one, target, inputs, threads), numbers))
        executable = compile_module(made, forced(made, options), {}).executable
        for shift in (0, 1, 4):
            into = {k: moved(a, shift * a.itemsize) for k, a in enumerate(usual)}
            assert all(map(same_bits, executable.run(inputs, into=into), usual))


def as_numbers(array: Array) -> Array:
    """Complex numbers as pairs."""
    return array[..., None].view(array.real.dtype) if array.dtype.kind == "c" else array


def moved(array: Array, offset: int) -> Array:
    """Memory for such an array so many bytes after a line begins."""
    raw = np.zeros(array.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)


def test_a_fence_ends_a_kernel_that_has_such_stores() -> None:
    inputs = sample((64, 64), "f4")
    made = trace_call(together, inputs, {}).module
    options = Options(target="avx512")
    text = "".join(emit(lower(made, options), options.machine, "nothing").values())
    assert "!nontemporal" not in text
    assert "sfence" not in text
    given = forced(made, options)
    text = "".join(emit(lower(made, given), options.machine, "nothing").values())
    assert "align 64, !nontemporal" in text
    assert "sfence()\n  ret void" in text


def test_large_results_go_past_the_caches() -> None:
    """As far as a group moves more than the last cache holds, and no small ones.

    Memory that is new in each run is near: the system has just cleared it.
    """

    def long(x: Any, y: Any) -> Any:
        return x + y, (x * y).sum(1)

    for rows, sure in ((1024, 0), (8192, 1), (1 << 16, 0)):
        inputs = [np.broadcast_to(np.float32(1), (rows, 1024))] * 2
        program = lower(trace_call(long, inputs, {}).module, Options(target="zen5"))
        past = [op.value.type.extents for op in stores(program) if op.nontemporal]
        assert len(past) == sure


def test_what_replaces_what_was_read_does_not() -> None:
    """In place, the caches have the lines that are written."""

    def f(x: Any, v: Any) -> Any:
        u = x.copy()
        for _ in range(9):
            u[1:, :-1] -= 0.5 * v[:-1, 1:]
        return u

    made = trace_call(f, sample((200, 220), "f4"), {}).module
    program = lower(made, forced(made, Options()))
    updates = [f for f in program.functions if f.attrs.get("updates")]
    assert updates
    assert not any(op.nontemporal for op in stores(Module("kernel", updates)))


def test_a_result_that_is_read_again_is_refused() -> None:
    def twice(x: Any, y: Any) -> Any:
        z = np.exp(x) + y
        return z, z / z.sum(1, keepdims=True)

    made = trace_call(twice, sample((64, 64), "f4"), {}).module
    groups = write_schedules(lower(made, Options(), stop="collapse"), Options().machine, Given())
    ((name, group),) = named_groups(groups)
    assert group.schedule is not None
    places = read_by_others(group)
    assert len(places) == 1
    again = 1 - places[0]
    refused = {
        (again,): f"result {again} is read again in the group",
        (places[0], places[0]): "twice",
        (5,): "there is no result 5",
    }
    for wrong, text in refused.items():
        plans = {name: group.schedule._replace(nontemporal=wrong)}
        with pytest.raises(UserError, match=text):
            lower(made, Options(schedules=text_of(plans)))
