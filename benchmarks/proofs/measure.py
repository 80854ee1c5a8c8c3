"""Machine code of one kernel, and how long it takes, on one thread and on two."""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minicc.backends.llvm.emit import emit_kernel
from minicc.backends.llvm.emitter import symbol_of
from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import assembly, optimise
from minicc.ir.addresses import Memory
from minicc.ir.core import Function, Module
from minicc.ir.interpret import Interpreter
from minicc.runtime.image import load
from minicc.target import Target

Floats = NDArray[np.float32]
FLUSH = np.zeros(16 << 20, np.float32)  # 64 MB: twice the last cache of the usual server core


class Times(NamedTuple):
    """Seconds: the best of many runs, and the middle one."""

    best: float
    median: float


def aligned(*shape: int) -> Floats:
    """Zeros that begin at a line of the cache."""
    count = int(np.prod(shape))
    memory = np.zeros(count + 16, np.float32)
    start = (-memory.ctypes.data % 64) // 4
    return memory[start : start + count].reshape(shape)


def placed(array: NDArray[Any]) -> Floats:
    """The same numbers as float32, aligned."""
    out = aligned(*array.shape)
    out[...] = array
    return out


def timed(call: Callable[[], Any], runs: int, before: Callable[[], Any] | None = None) -> Times:
    """The seconds of a call; `before` runs in front of each and is not counted."""
    call()
    seconds: list[float] = []
    for _ in range(runs):
        if before is not None:
            before()
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return Times(min(seconds), float(np.median(seconds)))


def best_in_turns(calls: Sequence[Callable[[], Any]], rounds: int, runs: int) -> list[float]:
    """The best seconds of each call; they run in turns, since clocks drift within a second."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        best = [min(b, timed(call, runs).best) for b, call in zip(best, calls, strict=True)]
    return best


def flush() -> None:
    """Touch every line of 64 MB, so that nothing else is left in the caches."""
    np.add(FLUSH, 1, out=FLUSH)


class Code:
    """A kernel's machine code, called on arrays in the order of its buffers."""

    def __init__(self, kernel: Function, target: Target) -> None:
        self.grid: tuple[int, ...] = kernel.attrs["grid"]
        self.target = target
        self.text = emit_kernel(kernel, target)
        self.library = load(link([Object(optimise(self.text, target))], [symbol_of(kernel.name)]))
        buffers = len(kernel.args) - len(self.grid)
        types = [ctypes.c_void_p] * buffers + [ctypes.c_int64] * (2 * len(self.grid))
        self.function: Any = ctypes.CFUNCTYPE(None, *types)(self.library[symbol_of(kernel.name)])

    def bind(self, arrays: Sequence[Floats], part: int = 0, parts: int = 1) -> Callable[[], None]:
        """A call over the whole grid, or over one part of its longest axis."""
        split = int(np.argmax(self.grid))
        ends: list[int] = []
        for axis, extent in enumerate(self.grid):
            whole = axis != split
            low, high = extent * part // parts, extent * (part + 1) // parts
            ends += (0, extent) if whole else (low, high)
        pointers = [a.ctypes.data for a in arrays]
        return lambda: self.function(*pointers, *ends)

    def two_threads(self, arrays: Sequence[Floats], runs: int) -> float:
        """Seconds a run when two threads each do their half again and again, at the same time."""
        halves = [self.bind(arrays, part, 2) for part in range(2)]
        start_line = threading.Barrier(2)
        seconds = [0.0, 0.0]

        def work(part: int) -> None:
            call = halves[part]
            start_line.wait()
            begin = time.perf_counter()
            for _ in range(runs):
                call()
            seconds[part] = (time.perf_counter() - begin) / runs

        threads = [threading.Thread(target=work, args=(part,)) for part in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return max(seconds)

    def stack_accesses(self) -> int:
        """Vectors that the innermost loops with many FMAs keep on the stack; should be none."""
        found = 0
        for block in re.split(r"\n(?=\.LBB)", assembly(self.text, self.target)):
            label = re.escape(block.split(":", 1)[0])
            ends = [m.end() for m in re.finditer(rf"\sj\w+\s+{label}\b", block)]
            if ends and block.count("vfmadd") >= 14:
                accesses = re.findall(r"\(%rsp\S*\).*%[xyz]mm|%[xyz]mm.*\(%rsp", block[: ends[-1]])
                found += len(accesses)
        return found


def interpret(kernel: Function, arrays: Sequence[Floats]) -> None:
    """Run a kernel by its ops' own meaning; the last array is the output."""
    buffers = kernel.args[len(kernel.attrs["grid"]) :]
    memories = [Memory(a.reshape(1, -1), v.type) for a, v in zip(arrays, buffers, strict=True)]
    Interpreter(Module("kernel", [kernel])).kernel(kernel, memories)


def error(result: Floats, truth: NDArray[np.float64]) -> float:
    """The rms of the difference over the rms of the truth."""
    difference = result.astype(np.float64) - truth
    return float(np.sqrt(np.mean(difference**2) / np.mean(truth**2)))
