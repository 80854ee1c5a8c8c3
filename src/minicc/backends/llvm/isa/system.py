"""What programs and the linker know of x86-64 besides its instructions for numbers.

The modes of its floating-point unit, how a thread waits, and what objects for it may ask of a
linker.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from minicc.options import Flushed

# ---- modes of floating point, which each thread has ---------------------------------------------

# of the mode: which denormal numbers are 0
FLUSH: Mapping[Flushed, int] = {"nothing": 0, "results": 0x8000, "all": 0x8040}
DECLARE_MODE = """declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)"""


def save_mode(at: str) -> str:
    """LLVM IR that writes the thread's mode to memory."""
    return f"  call void @llvm.x86.sse.stmxcsr(ptr {at})"


def set_mode(at: str) -> str:
    """LLVM IR that reads the thread's mode from memory."""
    return f"  call void @llvm.x86.sse.ldmxcsr(ptr {at})"


MODE = f"""
{DECLARE_MODE}
define i32 @mode(i32 %kept, i32 %more) nounwind {{
  %at = alloca i32
{save_mode("%at")}
  %before = load i32, ptr %at
  %some = and i32 %before, %kept
  %after = or i32 %some, %more
  store i32 %after, ptr %at
{set_mode("%at")}
  ret i32 %before
}}
"""
"""A function for who calls kernels one by one: keeps bits of the mode, sets more, gives all."""

# ---- stores past the caches ---------------------------------------------------------------------

DECLARE_FENCE = "declare void @llvm.x86.sse.sfence()"
FENCE = "call void @llvm.x86.sse.sfence()"
"""Everything that was stored before it is in memory before anything that is stored after it."""

# ---- threads ------------------------------------------------------------------------------------

THREADS = f"""
declare void @llvm.x86.sse2.pause()
{DECLARE_MODE}
define internal void @minicc_pause() nounwind {{
  call void @llvm.x86.sse2.pause()
  ret void
}}
define internal void @minicc_save_mode(ptr %at) nounwind {{
{save_mode("%at")}
  ret void
}}
define internal void @minicc_set_mode(ptr %at) nounwind {{
{set_mode("%at")}
  ret void
}}
"""
"""What `runtime.claims` calls: a thread that waits awake, and its mode written and read."""

# ---- objects (ELF) ------------------------------------------------------------------------------

MACHINE = 62
NEAR = (2, 4)  # relocations: offsets of 32 bits from the program counter
NUMBERS = {1: "<q", 10: "<I", 11: "<i"}  # how the relocations of numbers are written
STUB = struct.Struct("<2si2x")  # jmp *offset(%rip), and two bytes that are never reached
JUMP = b"\xff\x25"
TRAP = b"\xcc"
