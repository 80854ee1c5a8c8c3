"""Small kernels of loops become part of `main`; what a round stores, the next one may load."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.backends.llvm.library import Machine
from minicc.backends.llvm.optimize import optimise_whole
from minicc.backends.llvm.program import emit_main, inlined_kernels, on_stack
from minicc.compile.compiler import lower
from minicc.ir.program import Alloc
from minicc.options import Options
from minicc.target import TARGETS


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


SIX = """
define void @kernel(ptr noalias nocapture %a, ptr noalias nocapture %b) nounwind {
entry:
  %v1 = load <6 x i8>, ptr %a, align 1
  %v2 = icmp ne <6 x i8> %v1, zeroinitializer
  %v3 = zext <6 x i1> %v2 to <6 x i32>
  %v4 = shufflevector <6 x i32> %v3, <6 x i32> %v3, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v5 = shufflevector <6 x i32> %v3, <6 x i32> %v3, <2 x i32> <i32 4, i32 5>
  %v6 = shufflevector <4 x i32> %v4, <4 x i32> %v4, <2 x i32> <i32 0, i32 1>
  %v7 = shufflevector <4 x i32> %v4, <4 x i32> %v4, <2 x i32> <i32 2, i32 3>
  %v8 = add <2 x i32> %v6, %v7
  %v9 = extractelement <2 x i32> %v8, i32 0
  %v10 = extractelement <2 x i32> %v8, i32 1
  %v11 = add i32 %v9, %v10
  %v12 = extractelement <2 x i32> %v5, i32 0
  %v13 = extractelement <2 x i32> %v5, i32 1
  %v14 = add i32 %v12, %v13
  %v15 = add i32 %v11, %v14
  %v16 = icmp ne i32 %v15, 0
  %v17 = zext i1 %v16 to i8
  store i8 %v17, ptr %b, align 1
  ret void
}
"""
CALLS = """
declare void @kernel(ptr, ptr)

define void @main(ptr %table) nounwind {
  %b = getelementptr i8, ptr %table, i64 8
  %from = load ptr, ptr %table
  %to = load ptr, ptr %b
  call void @kernel(ptr %from, ptr %to)
  ret void
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_whole_vectors_of_six_elements_end_no_process(target: str) -> None:
    assert b"kernel" in optimise_whole(CALLS, [SIX], TARGETS[target])
