"""The memory plan: all buffers in one arena, where what is no longer read makes room.

A program's values live from the launch that writes them to the last that reads them. `plan-memory`
gives each an offset so that no two that live at the same time overlap, in little memory. The
drawing has a line for each buffer: its bytes in the arena from left to right, and when it lives.
"""

import sys

import numpy as np
import numpy.typing as npt

import minicc
from minicc.compile.compiler import lower
from minicc.ir.core import Module, Value
from minicc.ir.program import Alloc, Launch
from minicc.records import record_of

Array = npt.NDArray[np.float32]
AVX2 = minicc.Options(target="avx2")
KIB, WIDTH = 1024, 48
rng = np.random.default_rng(0)
WEIGHTS = [(rng.normal(size=(256, 256)) / 16).astype(np.float32) for _ in range(5)]


def layers(x: Array) -> Array:
    """Five layers one after the other, with the first one's result added to the fourth one's."""
    first = h = np.tanh(x @ WEIGHTS[0])
    for w in WEIGHTS[1:4]:
        h = np.tanh(h @ w)
    out: Array = (h + first) @ WEIGHTS[4]
    return out


def lives(module: Module) -> dict[Value, tuple[int, int]]:
    """The first and the last launch that uses each buffer of the arena."""
    found: dict[Value, tuple[int, int]] = {}
    calls = [op for op in module.main.body.ops if isinstance(op, Launch)]
    allocated = {op.result for op in module.main.body.ops if isinstance(op, Alloc)}
    for number, call in enumerate(calls):
        for v in call.operands:
            if v in allocated:
                found[v] = (found.get(v, (number, 0))[0], number)
    return found


def main() -> int:
    """Return 0 where buffers that live at one time lie apart, and the arena is less than all."""
    x = rng.normal(size=(64, 256)).astype(np.float32)
    module = lower(minicc.jit(layers, options=AVX2).lower(x).module, AVX2)
    print(record_of("minicc.passes.program.plan_memory").head())
    arena, when = module.main.attrs["arena"], lives(module)
    buffers = {
        op.result: (op.offset, op.offset + 4 * op.type.span())
        for op in module.main.body.ops
        if isinstance(op, Alloc) and isinstance(op.offset, int)
    }
    launches = max(last for _, last in when.values()) + 1
    for k, (v, (start, end)) in enumerate(buffers.items()):
        drawn = range(start * WIDTH // arena, end * WIDTH // arena)
        bar = "".join("#" if n in drawn else "." for n in range(WIDTH))
        first, last = when[v]
        print(f"{k}  {bar}  {(end - start) // KIB:3} KiB, launches {first} to {last}")
    total = sum(end - start for start, end in buffers.values())
    print(f"\nbuffers of {total // KIB} KiB lie in {arena // KIB} KiB, over {launches} launches")

    apart = True
    pairs = [(v, w) for v in buffers for w in buffers if v is not w]
    for v, w in pairs:
        together = when[v][0] <= when[w][1] and when[w][0] <= when[v][1]
        overlap = buffers[v][0] < buffers[w][1] and buffers[w][0] < buffers[v][1]
        apart &= not (together and overlap)
    print(f"no two that live at the same time overlap: {apart}")
    return 0 if apart and arena < total else 1


if __name__ == "__main__":
    sys.exit(main())
