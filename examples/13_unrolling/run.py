"""Unrolling and hoisting: the last two passes over kernels, counted.

`unroll` writes short loops out, so that their indices are numbers and what a round leaves for the
next stays in registers; of a long loop around a product four rounds become one. `hoist` takes out
of loops what does not change in them, but no load out of a loop that stores. Each op of a kernel is
counted here as often as it runs, over all rounds of the loops around it.
"""

import sys
import timeit
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import minicc
from minicc.compile.compiler import lower
from minicc.ir.core import Op, Region
from minicc.ir.interpret import run
from minicc.ir.kernel import For
from minicc.ir.text.printer import print_function
from minicc.records import record_of

Array = npt.NDArray[np.float32]
STAGES = {
    "bufferize": "the kernel as it is made",
    "unroll": "its loop of four rounds is written out, that of 25 stays",
    "hoist": "what is the same in all rounds stands before the loops",
}
AVX2 = minicc.Options(target="avx2")


def shares(x: Array, w: Array) -> Array:
    """What is positive of a product, as parts of its row's sum."""
    positive: Array = np.maximum(x @ w, 0)
    part: Array = positive / positive.sum(axis=1, keepdims=True)
    return part


def executed(region: Region, times: int = 1) -> Counter[str]:
    """How often each kind of op runs in an instance of a kernel."""
    found: Counter[str] = Counter()
    for op in region.ops:
        found[op.opname] += times
        for inner in op.regions:
            found += executed(inner, times * (op.rounds if isinstance(op, For) else 1))
    return found


def loops(region: Region) -> list[Op]:
    """All loops within a region."""
    inner = [op for op in region.ops if op.regions]
    return inner + [found for op in inner for r in op.regions for found in loops(r)]


def milliseconds(call: Callable[..., Any], *args: Any) -> float:
    """The least time of a call."""
    return min(timeit.repeat(lambda: call(*args), number=20, repeat=5)) * 50


def main() -> int:
    """Return 0 where every stage means the same, and the last one runs the fewest ops."""
    rng = np.random.default_rng(0)
    args = [rng.normal(size=shape).astype(np.float32) for shape in ((48, 4), (4, 200))]
    module, last = minicc.jit(shares, options=AVX2).lower(*args).module, None
    want, counts, same = shares(*args), [], []
    for stage, sentence in STAGES.items():
        module = lower(module, AVX2, start=last, stop=stage)
        function = next(f for f in module.functions if f.name not in ("pack", "main"))
        counts.append(executed(function.body))
        same.append(np.allclose(run(module, args)[0], want, rtol=1e-5, atol=1e-6))
        print(f"== {stage}: {sentence}; {len(loops(function.body))} loops\n")
        if stage != "bufferize":
            print(record_of(f"minicc.passes.kernel.{stage}").head())
        print(f"{print_function(function, locations=False)}")
        last = stage
    print("how often ops run in an instance:\n")
    print(f"{'':18}{''.join(f'{stage:>11}' for stage in STAGES)}")
    for name in sorted({name for found in counts for name in found}):
        print(f"{name:18}{''.join(f'{found[name]:11}' for found in counts)}")
    print()
    ways: tuple[list[str], ...] = ([], ["unroll", "hoist"])
    for skip in ways:
        call = minicc.jit(shares, options=minicc.Options(threads=1, skip=skip))
        taken = milliseconds(call, *args)
        print(f"without {' and '.join(skip) or 'nothing'}: a call in {taken:.3f} ms")
    return 0 if all(same) and counts[2].total() < counts[0].total() else 1


if __name__ == "__main__":
    sys.exit(main())
