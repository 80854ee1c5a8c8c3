"""Measures the kernels beside this file on one thread: `python -m benchmarks.proofs.run`.

Each kernel is traced, verified, interpreted, compiled, compared with NumPy in float64 and timed.
The rates are told beside the yardstick's, a direct convolution in plain LLVM IR, in the same run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.proofs import yardstick
from benchmarks.proofs.data import (
    Case,
    attention_case,
    convolution_case,
    softmax_case,
    winograd_case,
)
from benchmarks.proofs.direct import Convolution, convolution
from benchmarks.proofs.fused_winograd import Winograd, winograd
from benchmarks.proofs.measure import (
    Code,
    Floats,
    Times,
    error,
    flush,
    interpret,
    timed,
)
from benchmarks.proofs.rowwise import Attention, attention, softmax

from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import optimise
from minicc.ir.core import Function, Module
from minicc.ir.verify import verify
from minicc.runtime.image import load
from minicc.target import Target

RUNS = 200
TARGET = Target.host()
CONVOLUTION = Convolution(28, 28, 128, 128, stride=2, residual=True)
WINOGRADS = {
    "winograd_56x64": Winograd(56, 56, 64, 64, tile_rows=1, channels=64),
    "winograd_28x128": Winograd(28, 28, 128, 128, tile_rows=7, channels=64),
    "winograd_14x512": Winograd(14, 14, 512, 512, tile_rows=4, channels=256, rows=8),
}
ROWS, COLUMNS = 1024, 1024
ATTENTION = Attention(128, 64)


def traced(kernel: Any, case: Case, **constants: Any) -> Function:
    """A kernel for the arrays of a case, verified."""
    made: Function = kernel.lowered(*case.arrays[:-1], **constants)
    verify(Module("kernel", [made]))
    return made


def yardstick_times(height: int, ic: int) -> Times:
    """The plain convolution at a square shape with as many output as input channels."""
    text = yardstick.convolution(height, height, ic, ic)
    library = load(link([Object(optimise(text, TARGET))], ["yardstick"]))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(library["yardstick"])
    case = convolution_case(Convolution(height, height, ic, ic, relu=False))
    x, w, bias, y = case.arrays
    pointers = [a.ctypes.data for a in (x, w, y)]
    times = timed(lambda: function(*pointers), RUNS)
    assert error(y + bias, case.truth) < 2e-6
    return times


def check(kernel: Function, case: Case, interpreted: bool = True) -> tuple[Code, str]:
    """The kernel's code; its error, stack accesses in hot loops, and difference to interpreting."""
    code = Code(kernel, TARGET)
    code.bind(case.arrays)()
    wrong = error(case.output, case.truth)
    assert wrong < 5e-6, (kernel.name, wrong)
    told = f"{wrong:.1e} | {code.stack_accesses()}"
    if not interpreted:
        return code, f"{told} | not run"
    machine = case.output.copy()
    case.output[...] = np.nan
    interpret(kernel, case.arrays)
    apart = error(case.output, machine.astype(np.float64))
    assert apart < 1e-6, (kernel.name, apart)
    return code, f"{told} | {apart:.1e}"


def table(*heads: str) -> None:
    """Begin a table."""
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")


def micro(times: Times) -> str:
    """Two cells in microseconds."""
    return f"{times.best * 1e6:.1f} | {times.median * 1e6:.1f}"


def rates(peak: float) -> None:
    """The convolution and the head of attention."""
    table(
        "kernel",
        "best µs",
        "median µs",
        "GFLOP/s",
        "of the yardstick",
        "rms error",
        "stack accesses",
        "rms difference to the interpreter",
    )
    cases: list[tuple[Any, Case, int, dict[str, Any]]] = [
        (convolution, convolution_case(CONVOLUTION), CONVOLUTION.flops, {"c": CONVOLUTION}),
        (attention, attention_case(ATTENTION), ATTENTION.flops, {}),
    ]
    for by_hand, case, flops, constants in cases:
        kernel, name = traced(by_hand, case, **constants), by_hand.__name__
        code, told = check(kernel, case)
        times = timed(code.bind(case.arrays), 5 * RUNS)
        rate = flops / times.best
        print(f"| {name} | {micro(times)} | {rate / 1e9:.0f} | {rate / peak:.0%} | {told} |")


def softmax_proof() -> None:
    """Soft-max beside NumPy's copy of the same arrays, from warm and from cold caches."""
    case = softmax_case(ROWS, COLUMNS)
    kernel = traced(softmax, case)
    code, told = check(kernel, case)
    x, y = case.arrays
    heads = ("soft-max", "best µs", "median µs", "GB/s of the median", "NumPy's copy", "share")
    table(*heads)
    for name, before in (("warm", None), ("cold", flush)):
        times = timed(code.bind(case.arrays), RUNS, before)
        copy = timed(lambda: np.copyto(y, x), RUNS, before)
        rate, copied = (2 * x.nbytes / t.median / 1e9 for t in (times, copy))
        print(f"| {name} | {micro(times)} | {rate:.0f} | {copied:.0f} | {rate / copied:.0%} |")
    print(f"\nrms error | stack accesses | rms difference to the interpreter: {told}")


def cold_weights(arrays: list[Floats]) -> Callable[[], None]:
    """Flush the caches, then read the input again, as the layer before would have left it."""

    def before() -> None:
        flush()
        arrays[0].sum()

    return before


def winograds() -> None:
    """Winograd beside the direct form in three states of the caches, and on two threads."""
    table(
        "layer",
        "form",
        "warm µs",
        "median µs",
        "GFLOP/s of the direct form",
        "weights cold µs",
        "all cold µs",
        "two threads µs",
        "scaling",
        "rms error",
        "stack accesses",
        "rms difference to the interpreter",
    )
    gains: list[str] = []
    for name, w in WINOGRADS.items():
        layer = Convolution(w.height, w.width, w.ic, w.oc)
        case = convolution_case(layer)
        direct = row(name, "direct", traced(convolution, case, c=layer), case, layer.flops)
        case = winograd_case(w)
        fused = row(name, "Winograd", traced(winograd, case, w=w), case, layer.flops)
        ratios = [f"{a / b:.2f}" for a, b in zip(direct, fused, strict=True)]
        gains.append(f"| {name} | {' | '.join(ratios)} |")
    table("net gain", "warm", "weights cold", "all cold", "two threads")
    print("\n".join(gains))


def row(name: str, form: str, kernel: Function, case: Case, flops: int) -> tuple[float, ...]:
    """One line of the table; the seconds warm, with cold weights, all cold, and on two threads."""
    # interpreting the deepest layer takes minutes
    code, told = check(kernel, case, interpreted=case.arrays[0].shape[-1] < 512)
    call = code.bind(case.arrays)
    warm = timed(call, RUNS)
    weights = timed(call, RUNS // 4, cold_weights(case.arrays))
    cold = timed(call, RUNS // 4, flush)
    two = min(code.two_threads(case.arrays, 20) for _ in range(10))
    cells = [
        name,
        form,
        f"{warm.best * 1e6:.0f}",
        f"{warm.median * 1e6:.0f}",
        f"{flops / warm.best / 1e9:.0f}",
        *[f"{t * 1e6:.0f}" for t in (weights.median, cold.median, two)],
        f"{warm.best / two:.2f}",
        told,
    ]
    print(f"| {' | '.join(cells)} |", flush=True)
    return warm.best, weights.median, cold.median, two


def main() -> None:
    """Print the tables of the first and the third proof."""
    table("yardstick", "GFLOP/s, best", "median")
    peaks: list[float] = []
    for height, channels in ((56, 64), (28, 128), (14, 512)):
        times = yardstick_times(height, channels)
        flops = 2 * height**2 * channels**2 * 9
        peaks.append(flops / times.best)
        middle = flops / times.median
        print(f"| {height}²x{channels} | {peaks[-1] / 1e9:.0f} | {middle / 1e9:.0f} |")
    rates(peaks[1])
    softmax_proof()
    winograds()


if __name__ == "__main__":
    main()
