"""Small kernels of loops become part of `main`; what a round stores, the next one may load."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.backends.llvm.library import Machine
from minicc.backends.llvm.program import emit_main, inlined_kernels, on_stack
from minicc.compiler import lower
from minicc.ir.program import Alloc
from minicc.options import Options


def recurrence(x: Any, y: Any) -> Any:
    for i in range(1, 50):
        y[i] = 0.5 * y[i - 1] + x[i]
    return y


def products(x: Any, w: Any) -> Any:
    for _ in range(20):
        x = np.tanh(x @ w)
    return x


def kernels(f: Any, *args: Any) -> tuple[set[str], set[str]]:
    """The names of a function's kernels, and of those that are inlined."""
    module = lower(minicc.jit(f).lower(*args).module, Options())
    names = {g.name for g in module.functions if g is not module.main}
    return names, inlined_kernels(module)


def test_small_kernels_of_loops_are_inlined() -> None:
    x = np.random.default_rng(0).random(50)
    names, inlined = kernels(recurrence, x, x.copy())
    assert len(inlined) == 1
    assert inlined == names
    mine, theirs = x.copy(), x.copy()
    np.testing.assert_array_equal(minicc.jit(recurrence)(x, mine), recurrence(x, theirs))
    np.testing.assert_array_equal(mine, theirs)


def test_large_ones_are_called() -> None:
    x, w = np.ones((200, 200), np.float32), np.ones((200, 200), np.float32) / 300
    _, inlined = kernels(products, x, w)
    assert not inlined


def check_sum(data: Any) -> Any:
    crc = 0xFFFF
    for b in data:
        byte = 0xFF & b
        for _ in range(8):
            crc = (crc >> 1) ^ 0x8408 if (crc & 1) ^ (byte & 1) else crc >> 1
            byte >>= 1
    return crc


def test_scalars_that_rounds_hand_on_are_on_the_stack() -> None:
    data = np.random.default_rng(0).integers(0, 256, 50, np.uint8)
    module = lower(minicc.jit(check_sum).lower(data).module, Options())
    states = on_stack(module.main, inlined_kernels(module))
    allocated = {op.result for op in module.main.body.ops if isinstance(op, Alloc)}
    assert states == allocated
    assert emit_main(module, "nothing").count("= alloca") == len(states)
    assert minicc.jit(check_sum)(data) == check_sum(data)


def test_what_others_use_is_in_the_arena() -> None:
    x = np.ones((200, 200), np.float32)
    module = lower(minicc.jit(products).lower(x, x).module, Options())
    assert not on_stack(module.main, inlined_kernels(module))


def test_what_llvms_passes_break_is_called_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(machine: Machine, ir_text: str, within: Sequence[str]) -> str:
        return "define i32 @main() { ret i32 %nowhere }"

    monkeypatch.setattr(Machine, "inlined", broken)
    x = np.random.default_rng(0).random(50)
    mine, theirs = x.copy(), x.copy()
    jitted = minicc.jit(recurrence, options=Options(cache_dir=False))
    np.testing.assert_array_equal(jitted(x, mine), recurrence(x, theirs))
    np.testing.assert_array_equal(mine, theirs)
