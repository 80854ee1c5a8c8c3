"""Single convolutions through the whole compiler, beside the same in plain LLVM IR, one thread, in
one run.

    python -m benchmarks.convolutions

The yardstick (`benchmarks.proofs.yardstick`) is the best of two register tiles, 14 or 7 pixels by
32 channels. Strict mathematics computes every convolution directly; fast mathematics computes those
of 3x3 as the compiler chooses, and rates are told in the direct form's operations for both.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.proofs import yardstick
from benchmarks.proofs.measure import Floats, aligned, best_in_turns, placed

from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import optimise
from minicc.compile.compiled import compile_module
from minicc.compile.machine import measured
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Module, Region, Value
from minicc.ir.types import F32, TensorType
from minicc.options import Options
from minicc.runtime.image import load
from minicc.target import Target

# height and width, channels in, channels out, taps: the shapes of a ResNet-50
SHAPES = (
    (56, 64, 64, 3),
    (28, 128, 128, 3),
    (14, 256, 256, 3),
    (7, 512, 512, 3),
    (56, 64, 256, 1),
    (56, 256, 64, 1),
    (28, 512, 128, 1),
    (28, 128, 512, 1),
    (14, 1024, 256, 1),
    (14, 256, 1024, 1),
    (7, 2048, 512, 1),
    (7, 512, 2048, 1),
)
ROUNDS, RUNS = 15, 6
Call = Callable[[], Any]


def compiled(x: Floats, weights: Floats, math: str) -> tuple[Call, Floats]:
    """A run of a model of one convolution, and its result."""
    value = Value(TensorType(F32, x.shape), "x")
    b = Builder(("convolution",))
    w = b.emit(graph.Constant, value=Literal(weights))
    attrs = {"strides": (1, 1), "dilations": (1, 1), "layout": "channels_last"}
    y = b.emit(graph.Conv, value, w, **attrs)
    module = Module("graph", [Function("main", Region([value], b.ops, [y]))])
    executable = compile_module(module, Options(threads=1, math=math), {}).executable
    (result,) = executable.run([x])
    return lambda: executable.run([x]), result


def yardsticks(x: Floats, weights: Floats, size: int) -> tuple[list[Call], Floats]:
    """Runs of the yardstick with each register tile, and where their result is."""
    oc, ic, taps, _ = weights.shape
    panels = weights.reshape(oc // 32, 32, ic, taps, taps).transpose(0, 3, 4, 2, 1)
    packed, y = placed(panels), aligned(size, size, oc)

    def call(rows: int) -> Call:
        text = yardstick.convolution(size, size, ic, oc, taps, rows)
        library = load(link([Object(optimise(text, Target.host()))], ["yardstick"]))
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(library["yardstick"])
        held = (library, packed)  # for as long as the call lives
        pointers = [a.ctypes.data for a in (x, packed, y)]
        return lambda: (function(*pointers), held)

    return [call(rows) for rows in (14, 7) if size % rows == 0], y


def main() -> None:
    """Print a row a shape: both rates in GFLOP/s, the shares, and the largest difference."""
    rng = np.random.default_rng(0)
    roof = measured(Options(threads=1))[0].roof
    print("size   in  out taps math     minicc  yardstick  share  of roof  difference")
    for size, ic, oc, taps in SHAPES:
        extent = size + taps - 1
        x = placed(rng.standard_normal((1, extent, extent, ic)))
        weights = rng.standard_normal((oc, ic, taps, taps)).astype(np.float32)
        others, want = yardsticks(x, weights, size)
        work = 2e-9 * size * size * oc * ic * taps * taps
        for math in ("strict", "fast") if taps > 1 else ("strict",):
            run, got = compiled(x, weights, math)
            ours, *rest = best_in_turns([run, *others], ROUNDS, RUNS)
            theirs = min(rest)
            off = float(np.max(np.abs(got[0] - want)) / np.max(np.abs(want)))
            print(
                f"{size:4} {ic:4} {oc:4} {taps:4} {math:6} {work / ours:8.1f} {work / theirs:10.1f}"
                f" {theirs / ours:6.1%} {work / ours / roof:8.1%}  {off:.1e}"
            )


if __name__ == "__main__":
    main()
