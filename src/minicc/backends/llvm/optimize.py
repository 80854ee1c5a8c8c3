"""From LLVM IR text to object code: which target machine, and which passes (none).

The kernels that arrive here are already vectorised, in SSA form, with their loops in order and
their addresses in parts (see `address`), so that instruction selection and register allocation are
nearly all that is left to do. Measured with LLVM 22 on a direct convolution (3x3, 64
channels, a register tile of 14 x 32, on a core whose roof is about 265 GFLOP/s); the second figure
is the same kernel with each address computed in full from indices at each access:

| passes                          | time in passes, ms | emission, ms | GFLOP/s   |
|---------------------------------|--------------------|--------------|-----------|
| none                            | 0                  | 5.5 / 5.1    | 264 / 259 |
| instcombine                     | 0.8 / 1.8          | 4.6 / 5.0    | 261 / 263 |
| sroa, instcombine, simplifycfg  | 0.9 / 2.0          | 4.6 / 4.9    | 261 / 261 |
| instcombine, newgvn             | 1.5 / 2.8          | 4.4 / 4.9    | 265 / 262 |
| the O1 pipeline                 | 5.6 / 6.4          | 5.0 / 5.2    | 263 / 264 |
| the O2 pipeline, no vectorisers | 7.2 / 7.9          | 5.3 / 5.2    | 261 / 264 |

The inner loops are equal, differences of speed are noise, and no pass pays for itself. So none
runs: neither the SLP nor the loop vectoriser (slow and at times wrong on wide vectors in LLVM 22)
nor unrolling. Code generation levels 1, 2 and 3 gave the same code in the same time. Only loops of
small kernels go through the O2 pipeline, without vectorisers and unrolling (`optimise_whole`).

Position-independent code in the small model addresses constants relative to the program counter;
LLVM's usual choice for a JIT, the large model, would load 64-bit addresses (`movabs`) in hot
loops.

Code is generated on several threads at once, each with a context and a target machine of its own
(`library`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from minicc.backends.llvm.library import Machine
from minicc.errors import CompilerBug
from minicc.target import Target


def optimise(ir_text: str, target: Target, level: int = 2) -> bytes:
    """The object code (ELF) of a module of LLVM IR; `CompilerBug` where LLVM rejects the text.

    `level` is that of code generation. Several threads may call it at once.
    """
    return _emit(ir_text, target, level, as_object=True)


_FOLDED = "%foldExtExt"  # what LLVM's passes call whole vectors that they add
_VECTORS = re.compile(r"<(\d+) x ")
_FREEZE = re.compile(r"= freeze ptr (%[\w.]+)")


def optimise_whole(ir_text: str, within: Sequence[str], target: Target) -> bytes:
    """The object code of a module that has functions of others inlined.

    A loop whose rounds take nanoseconds is nothing without LLVM's passes: calls and addresses cost
    more than what is computed, and what a round stores the next one loads. The buffers of what is
    inlined may be one another's: a loop's rounds write where others read. So addresses are not
    hidden from LLVM here, as they are in large kernels (`address`).
    """
    inner = [
        _FREEZE.sub(r"= getelementptr i8, ptr \1, i64 0", text)
        .replace("noalias nocapture", "nocapture")
        .replace(") nounwind {", ") nounwind alwaysinline {")
        for text in within
    ]
    with _machine(ir_text, target, 2) as machine:
        text = machine.inlined(ir_text, inner)
    # The functions are objects of their own, too, and can be called where LLVM fails.
    if not _is_selectable(text):
        return optimise(ir_text, target, 0)
    try:
        return optimise(text, target)
    except CompilerBug:
        # What went in was verified, so the passes broke it: LLVM 22 at times moves the use of a
        # vector before its load.
        return optimise(ir_text, target, 0)


def _is_selectable(ir_text: str) -> bool:
    """Whether instruction selection takes what LLVM's passes made.

    They add whole vectors in place of two elements. Where these are of parts of vectors of five or
    six elements or so, which no register holds as they are, that ends the process (LLVM 22).
    """
    return _FOLDED not in ir_text or all(int(n).bit_count() == 1 for n in _VECTORS.findall(ir_text))


def assembly(ir_text: str, target: Target) -> str:
    """The same code as assembler text, to be read and to be tested for spills."""
    return _emit(ir_text, target, 2, as_object=False).decode()


_idle: dict[tuple[Target, int], list[Machine]] = {}


def _emit(ir_text: str, target: Target, level: int, as_object: bool) -> bytes:
    """What the code generator makes of the text, which is verified first."""
    with _machine(ir_text, target, level) as machine:
        return machine.emitted(ir_text, as_object)


@contextmanager
def _machine(ir_text: str, target: Target, level: int) -> Iterator[Machine]:
    """A code generator that no other thread uses; CompilerBug where LLVM rejects the text."""
    idle = _idle.setdefault((target, level), [])
    try:
        machine = idle.pop()
    except IndexError:
        machine = Machine(target, level)
    try:
        yield machine
    except RuntimeError as error:
        message = f"LLVM rejects the IR: {error}"
        raise CompilerBug("MC0301", message, stage="llvm", ir=ir_text) from error
    finally:
        idle.append(machine)
