"""Packing: weights in the order in which the tiles of a kernel read them.

A tile of some rows and columns reads, for each k, its columns of a row of the weights, and of the
row after it next: a line or two of memory from each of many pages. `pack` copies them so that what
is read one after the other lies one after the other. Of constants the compiler does that itself.
"""

import re
import sys
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import minicc
from minicc.compile.compiler import lower
from minicc.ir import program
from minicc.ir.core import Module, walk
from minicc.ir.kernel import Load
from minicc.ir.program import launches
from minicc.ir.text.printer import print_function
from minicc.records import record_of

Array = npt.NDArray[np.float32]
WEIGHTS = np.random.default_rng(0).normal(size=(512, 2048)).astype(np.float32)


def layer(x: Array) -> Array:
    """A product with weights that stay the same."""
    return x @ WEIGHTS


def strides(module: Module) -> list[int]:
    """How many bytes lie between what a kernel's loads read in one round, and in the next."""
    (function,) = (f for f in module.functions if f is not module.main)
    loads = [op for op in walk(function.body) if isinstance(op, Load) and op.shape[-1] > 1]
    return [4 * op.buffer.type.strides[-2] for op in loads]


def milliseconds(call: Callable[..., Any], *args: Any) -> float:
    """The least time of a call."""
    return min(timeit.repeat(lambda: call(*args), number=20, repeat=5)) * 50


def main() -> int:
    """Return 0 where packing changes no bit, and brings rounds together."""
    x = np.random.default_rng(1).normal(size=(64, 512)).astype(np.float32)
    print(record_of("minicc.passes.structured.pack").head())
    results, between = [], []
    ways: tuple[tuple[str, ...], ...] = ((), ("pack",))
    for skip in ways:
        options = minicc.Options(target="avx2", skip=skip)
        graph = minicc.jit(layer, options=options).lower(x).module
        module = lower(graph, options, stop="bufferize")
        (launch,) = launches(module.main.body)
        name = launch.kernel
        text = print_function(next(f for f in module.functions if f.name == name), locations=False)
        between += strides(module)
        print(f"== {'without' if skip else 'with'} pack\n")
        print(*re.findall(r".*kernel\.(?:for|load).*", text), sep="\n")
        kept = [op for op in module.main.body.ops if isinstance(op, program.Constant)]
        print(f"\nweights of {sum(op.value.array.nbytes for op in kept):,} bytes,", end=" ")
        print(f"{between[-1]:,} bytes from one round's to the next one's;", end=" ")
        call = minicc.jit(layer, options=minicc.Options(threads=1, skip=skip))
        results.append(call(x))
        print(f"a call in {milliseconds(call, x):.3f} ms\n")
    same = results[0].tobytes() == results[1].tobytes()
    print(f"the results are the same bits: {same}")
    return 0 if same and between[0] < between[1] else 1


if __name__ == "__main__":
    sys.exit(main())
