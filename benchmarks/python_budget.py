"""What our own Python costs a kernel, and how long the interpreter takes for a layer of ResNet-50.

    python -m benchmarks.python_budget

130 different convolution kernels are built with real ops, type rules and locations, verified,
printed, parsed and emitted as LLVM IR text. The budget is 10 ms of Python a kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

import numpy as np
from benchmarks.proofs.data import convolution_case
from benchmarks.proofs.direct import Convolution, convolution
from benchmarks.proofs.measure import error, interpret

from minicc.backends.llvm.emit import emit_kernel
from minicc.ir.core import Function, Module
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module
from minicc.ir.verify import verify
from minicc.target import Target

KERNELS = 130
BUDGET_MS = 10.0
BUDGET_INTERPRET_S = 1.0
STEPS = ("build", "verify", "print", "parse", "emit")


def layers() -> Iterator[Convolution]:
    """Different layers: extents, channels, strides, taps, with and without residual."""
    sizes, channels = (56, 28, 14, 7), ((64, 64), (64, 256), (128, 128), (256, 64), (512, 128))
    for size, (ic, oc), taps, stride, residual in product(
        sizes, channels, (1, 3, 5, 7), (1, 2), (False, True)
    ):
        rows = 14 if size % 14 == 0 else 7
        yield Convolution(size, size, ic, oc, taps, stride, rows=rows, residual=residual)


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """How long a call takes, and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def one(layer: Convolution, target: Target) -> dict[str, float]:
    """The seconds of each step for one kernel."""
    spent: dict[str, float] = {}
    kernel: Function
    arrays = convolution_case(layer).arrays[:-1]
    spent["build"], kernel = seconds(lambda: convolution.lowered(*arrays, c=layer))
    module = Module("kernel", [kernel])
    spent["verify"], _ = seconds(lambda: verify(module))
    spent["print"], text = seconds(lambda: print_module(module))
    spent["parse"], _ = seconds(lambda: parse_module(text))
    spent["emit"], _ = seconds(lambda: emit_kernel(kernel, target))
    return spent


def kernels() -> float:
    """Milliseconds a kernel, all steps together, parsing included."""
    chosen = list(islice(layers(), KERNELS))
    assert len(set(chosen)) == KERNELS
    target = Target.host()
    one(chosen[0], target)  # reads the grammar
    spent = [one(layer, target) for layer in chosen]
    print("| step | mean ms a kernel | most ms |\n|---|---|---|")
    total = [sum(s.values()) for s in spent]
    for step in STEPS:
        values = [s[step] * 1e3 for s in spent]
        print(f"| {step} | {np.mean(values):.2f} | {max(values):.2f} |")
    print(f"| all | {np.mean(total) * 1e3:.2f} | {max(total) * 1e3:.2f} |")
    return float(np.mean(total)) * 1e3


def interpreted() -> float:
    """Seconds to interpret the 3x3 layer 56x56x64 of ResNet-50."""
    layer = Convolution(56, 56, 64, 64)
    case = convolution_case(layer)
    kernel = convolution.lowered(*case.arrays[:-1], c=layer)
    best = min(seconds(lambda: interpret(kernel, case.arrays))[0] for _ in range(3))
    assert error(case.output, case.truth) < 1e-6
    print(
        f"\ninterpreting 56x56x64, 3x3, 64: {best:.2f} s ({layer.flops / best / 1e9:.1f} GFLOP/s)"
    )
    return best


def main() -> None:
    """Print both, and fail where a budget is broken."""
    milliseconds, spent = kernels(), interpreted()
    if milliseconds > BUDGET_MS or spent > BUDGET_INTERPRET_S:
        raise SystemExit(f"over the budget of {BUDGET_MS} ms a kernel or {BUDGET_INTERPRET_S} s")


if __name__ == "__main__":
    main()
