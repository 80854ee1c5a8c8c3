"""Measures the texts beside this file on one thread: `python -m benchmarks.proofs.run`.

Each kernel is parsed, verified, interpreted, compiled, compared with NumPy in float64 and timed. The
rates are told beside the yardstick's, a direct convolution in plain LLVM IR, in the same run.
"""

from __future__ import annotations

from collections.abc import Callable

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
from benchmarks.proofs.fused_winograd import Winograd
from benchmarks.proofs.measure import (
    Code,
    Floats,
    Times,
    aligned,
    error,
    flush,
    interpret,
    placed,
    timed,
)
from benchmarks.proofs.write import ATTENTION, COLUMNS, CONVOLUTION, HERE, ROWS, WINOGRADS

from minicc.backends.llvm.jit import link
from minicc.backends.llvm.optimize import optimise
from minicc.ir.core import Function, Module
from minicc.ir.parser import parse_module
from minicc.ir.verify import verify
from minicc.target import Target

RUNS = 200
TARGET = Target.host()


def read(name: str) -> Module:
    """A proof's module from its text, verified."""
    path = HERE / f"{name}.mcc"
    module = parse_module(path.read_text(encoding="utf-8"), source=path.name)
    verify(module)
    return module


def yardstick_times(height: int, ic: int) -> Times:
    """The plain convolution at a square shape with as many output as input channels."""
    import ctypes

    library = link([optimise(yardstick.convolution(height, height, ic, ic), TARGET)], ["yardstick"])
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(library["yardstick"])
    case = convolution_case(Convolution(height, height, ic, ic, relu=False))
    x, w, bias, y = case.arrays
    pointers = [a.ctypes.data for a in (x, w, y)]
    times = timed(lambda: function(*pointers), RUNS)
    assert error(y + bias, case.truth) < 2e-6
    return times


def check(kernel: Function, case: Case, interpreted: bool = True) -> tuple[Code, str]:
    """The kernel's code, and how far it is from NumPy and from the interpreter."""
    code = Code(kernel, TARGET)
    code.bind(case.arrays)()
    wrong = error(case.output, case.truth)
    assert wrong < 5e-6, (kernel.name, wrong)
    told = f"{wrong:.1e} | {code.stack_accesses()}"
    if not interpreted:
        return code, f"{told} | -"
    machine = case.output.copy()
    case.output[...] = np.nan
    interpret(kernel, case.arrays)
    apart = error(case.output, machine.astype(np.float64))
    assert apart < 1e-6, (kernel.name, apart)
    return code, f"{told} | {apart:.1e}"


def first_proof(peak: float) -> None:
    """The convolution and the head of attention by rate, soft-max by what it moves."""
    print(
        "| kernel | best µs | median µs | GFLOP/s | of the yardstick | rms error | "
        "stack accesses | rms to the interpreter |"
    )
    print("|---|---|---|---|---|---|---|---|")
    cases: list[tuple[str, Case, int]] = [
        ("convolution", convolution_case(CONVOLUTION), CONVOLUTION.flops),
        ("attention", attention_case(ATTENTION), ATTENTION.flops),
    ]
    for name, case, flops in cases:
        (kernel,) = read(name).functions
        code, told = check(kernel, case)
        times = timed(code.bind(case.arrays), 5 * RUNS)
        rate = flops / times.best
        print(f"| {name} | {micro(times)} | {rate / 1e9:.0f} | {rate / peak:.0%} | {told} |")
    softmax_proof()


def softmax_proof() -> None:
    """Soft-max beside NumPy's copy of the same arrays, from warm and from cold caches."""
    case = softmax_case(ROWS, COLUMNS)
    (kernel,) = read("softmax").functions
    code, told = check(kernel, case)
    x, y = case.arrays
    print("\n| soft-max 1024x1024 | best µs | median µs | GB/s | NumPy's copy, µs | share |")
    print("|---|---|---|---|---|---|")
    for name, before in (("warm", None), ("cold", flush)):
        times = timed(code.bind(case.arrays), RUNS, before)
        copy = timed(lambda: np.copyto(y, x), RUNS, before)
        pick: Callable[[Times], float] = (lambda t: t.median) if before else (lambda t: t.best)
        share, gigabytes = pick(copy) / pick(times), 2 * x.nbytes / pick(times) / 1e9
        print(
            f"| {name} | {micro(times)} | {gigabytes:.0f} | {pick(copy) * 1e6:.0f} | {share:.0%} |"
        )
    print(f"\nsoft-max: rms error, stack accesses, rms to the interpreter: {told}")


def micro(times: Times) -> str:
    """Two cells in microseconds."""
    return f"{times.best * 1e6:.1f} | {times.median * 1e6:.1f}"


def cold_weights(arrays: list[Floats]) -> Callable[[], None]:
    """Flush the caches, then read the input again, as the layer before would have left it."""

    def before() -> None:
        flush()
        arrays[0].sum()

    return before


def third_proof() -> None:
    """Winograd beside the direct form in three states of the caches, and on two threads."""
    print(
        "\n| layer | form | warm µs | median | rate of the direct form's operations, GFLOP/s | "
        "weights cold µs | all cold µs | rms error | two threads µs | of one thread |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    module = read("winograd")
    for name, w in WINOGRADS.items():
        layer = Convolution(w.height, w.width, w.ic, w.oc)
        case = convolution_case(layer)
        direct = row(name, "direct", convolution("direct", layer, "Conv"), case, layer.flops)
        fused = winograd_row(name, w, module.function(name), layer.flops)
        gains = ", ".join(
            f"{what} {a / b:.2f}x"
            for what, a, b in zip(
                ("warm", "weights cold", "all cold", "two threads"), direct, fused, strict=True
            )
        )
        print(f"| {name} | gain | {gains} |")


def winograd_row(name: str, w: Winograd, kernel: Function, flops: int) -> tuple[float, ...]:
    """Measure the fused form; interpreting the largest would take a minute."""
    case = winograd_case(w)
    _, told = check(kernel, case, interpreted=w.ic < 512)
    seconds = row(name, "Winograd", kernel, case, flops)
    print(f"| {name} | rms error, stack accesses, rms to the interpreter | {told} |")
    return seconds


def row(name: str, form: str, kernel: Function, case: Case, flops: int) -> tuple[float, ...]:
    """One line of the table; the seconds warm, with cold weights, all cold, and on two threads."""
    code = Code(kernel, TARGET)
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
        f"{weights.median * 1e6:.0f}",
        f"{cold.median * 1e6:.0f}",
        f"{error(case.output, case.truth):.1e}",
        f"{two * 1e6:.0f}",
        f"{warm.best / two:.2f}x",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)
    return warm.best, weights.median, cold.median, two


def main() -> None:
    """Print the tables of the first and the third proof."""
    peaks: list[float] = []
    for height, channels in ((56, 64), (28, 128), (14, 512)):
        times = yardstick_times(height, channels)
        flops = 2 * height**2 * channels**2 * 9
        peaks.append(flops / times.best)
        print(
            f"yardstick {height}x{height}x{channels}: {peaks[-1] / 1e9:.0f} GFLOP/s "
            f"(best; median {flops / times.median / 1e9:.0f})"
        )
    x, y = aligned(1 << 20), placed(np.ones(1 << 20))
    print(
        f"a copy of 4 MB: {2 * x.nbytes / timed(lambda: np.copyto(x, y), 50).best / 1e9:.0f} GB/s\n"
    )
    first_proof(peaks[1])
    third_proof()


if __name__ == "__main__":
    main()
