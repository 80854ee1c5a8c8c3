"""Threads: shares of launches, barriers, and the same bits for any number of threads.

`parallelize` says along which axis of its grid a launch is shared, and puts a barrier where one
needs what the shares of another made. Instances are independent, so who computes one is of no
matter; sums never go across them.
"""

import sys
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import minicc
from minicc.compile.compiler import lower
from minicc.ir.program import Barrier, Launch
from minicc.records import record_of

Array = npt.NDArray[np.float32]
AVX2 = minicc.Options(target="avx2")


def block(x: Array, w: Array, v: Array) -> Array:
    """Two layers, and a sum over few elements by which all are divided."""
    out: Array = np.tanh(np.tanh(x @ w) @ v)
    scaled: Array = out / (1 + np.abs(out[0]).sum())
    return scaled


def milliseconds(call: Callable[..., Any], *args: Any) -> float:
    """The least time of a call."""
    return min(timeit.repeat(lambda: call(*args), number=20, repeat=5)) * 50


def main() -> int:
    """Return 0 where all numbers of threads give the same bits."""
    rng = np.random.default_rng(0)
    shapes = ((256, 256), (256, 512), (512, 256))
    args = [(rng.normal(size=shape) / 16).astype(np.float32) for shape in shapes]
    print(record_of("minicc.passes.program.parallelize").head())
    module = lower(minicc.jit(block, options=AVX2).lower(*args).module, AVX2)
    for op in module.main.body.ops:
        if isinstance(op, Barrier):
            print("-- all wait until what was shared is done")
        elif isinstance(op, Launch):
            grid = next(f for f in module.functions if f.name == op.kernel).attrs["grid"]
            axes = " and ".join(map(str, op.split))
            shared = f"shared along axis {axes}" if op.split else "the caller's alone"
            print(f"{op.kernel}: instances {' x '.join(map(str, grid)) or 1}, {shared}")
    print()
    found = []
    for threads in (1, 2, 3, 4):
        call = minicc.jit(block, threads=threads)
        found.append(call(*args).tobytes())
        print(f"{threads} threads: a call in {milliseconds(call, *args):.3f} ms")
    same = len({*found}) == 1
    print(f"\nthe same bits: {same}")
    close = np.allclose(np.frombuffer(found[0], np.float32), block(*args).reshape(-1), rtol=1e-4)
    return 0 if same and close else 1


if __name__ == "__main__":
    sys.exit(main())
