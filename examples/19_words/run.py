"""Products of small integers: several in one instruction, chosen from a table.

A quantised product has numbers of 8 bits and sums of 32. Where what the operands hold is known to
fit, two or four of them share a word, and a machine multiplies and adds all of these at once. What
a machine has is data: what an instruction computes, what a processor needs for it, and how it is
emitted.
"""

import re
import sys
import timeit
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import minicc
from minicc.backends.llvm.compile import assemble
from minicc.backends.llvm.isa.table import INSTRUCTIONS
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.core import Module
from minicc.ir.text.printer import print_function
from minicc.records import record_of

MULTIPLIES = r"\tv?(pmulld|pmaddwd|vpdpwssd|pdpwssd|pdpbusd)"


def product(a: npt.NDArray[np.uint8], b: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
    """The sums of products of bytes."""
    return a.astype(np.int32) @ b.astype(np.int32)


def kernel_of(module: Module) -> str:
    """The name of the kernel that multiplies."""
    return next(f.name for f in module.functions if "kernel.dot" in print_function(f))


def milliseconds(call: Callable[..., Any], *args: Any) -> float:
    """The least time of a call."""
    return min(timeit.repeat(lambda: call(*args), number=20, repeat=5)) * 50


def main() -> int:
    """Return 0 where all forms give the same, and each target has its instruction."""
    print("what the instructions of the table compute, and what they need:\n")
    for instruction in INSTRUCTIONS:
        if instruction.name.startswith("dot."):
            print(f"  {instruction.name:10} {', '.join(sorted(instruction.needs)) or 'nothing'}")
    print(f"\n{record_of('minicc.backends.llvm.instructions').head()}")
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (252, 256)).astype(np.uint8)
    b = rng.integers(-128, 128, (256, 256)).astype(np.int8)
    found = {}
    words: list[str] = []
    apart = ["choose-algorithm"]
    for target, skip in (("x86-64", apart), ("x86-64", words), ("avx2", words), ("zen5", words)):
        options = minicc.Options(target=target, skip=skip)
        chosen = minicc.jit(product, options=options).lower(a, b).module
        stage = "simplify-layout" if skip else "choose-algorithm"
        graph_ = lower(chosen, options, stop=stage)
        (form,) = {op.form for op in graph_.main.body.ops if isinstance(op, graph.Contract)}
        module = lower(graph_, options, start=stage)
        text = assemble(module, options.machine, options.flushed)[kernel_of(module)]
        counts = Counter(re.findall(MULTIPLIES, text))
        (name,) = counts or {"pmuludq": 0}
        found[target, form] = name
        print(f"{target:7} {'one by one' if not form else f'words of {form}':15} {name}")
        if target == "avx2":
            kernel = next(f for f in module.functions if f.name == kernel_of(module))
            print(f"\n{print_function(kernel, locations=False)}")

    want = product(a, b)
    print()
    same = []
    for skip in (apart, words):
        call = minicc.jit(product, options=minicc.Options(threads=1, skip=skip))
        same.append(bool((call(a, b) == want).all()))
        taken = milliseconds(call, a, b)
        print(f"{'one by one' if skip else 'in words':10} a call in {taken:.3f} ms")
    print(f"\nboth are exact: {all(same)}")
    return 0 if all(same) and len({*found.values()}) == 3 else 1


if __name__ == "__main__":
    sys.exit(main())
