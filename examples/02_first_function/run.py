"""A first function: plain NumPy code, compiled when it is called.

The first call with arguments of some kind traces and compiles the function, the next one of that
kind runs what is there; other shapes are another kind. `lower` gives the same function before
machine code, to be read at any level.
"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

import minicc
from minicc.records import record_of

Array = npt.NDArray[np.float32]


def layer(x: Array, weight: Array, bias: Array) -> Array:
    """NumPy code that knows nothing of a compiler."""
    positive: Array = np.maximum(x @ weight + bias, 0)
    return positive


def whole_numbers(*shape: int) -> Array:
    """Small whole numbers, whose products and sums are exact in any order."""
    count = int(np.prod(shape))
    return (np.arange(count, dtype=np.float32) % 7 - 3).reshape(shape)


def main() -> int:
    """Return 0 where the compiled function agrees with NumPy."""
    # `@minicc.jit` above a function does the same. Without a target it is the best that the machine
    # runs; it is named here so that all machines print the same tiles below.
    fast: Any = minicc.jit(layer, threads=1, target="x86-64")
    weight, bias = whole_numbers(4, 3), whole_numbers(3)

    same = True
    for rows in (2, 2, 5):
        x = whole_numbers(rows, 4)
        same &= np.array_equal(fast(x, weight, bias), layer(x, weight, bias))
        traced = len(fast.explain().recompilations)
        print(f"{rows} rows: equal to NumPy {same}, traced {traced} time(s) so far")

    print("\nwhy it was traced:")
    for reason in fast.explain().recompilations:
        print(f"  {reason}")

    # Nothing is run here. What is printed is a graph of whole tensors: each op has the line of
    # Python that it came from.
    lowered = fast.lower(whole_numbers(2, 4), weight, bias)
    print("\nthe graph:\n")
    print(lowered.as_text("graph"))

    # One level below, an op is an iteration space with index maps and a scalar body. The product
    # stands in a group with what is added to it and compared with it.
    print("the structured level:\n")
    print(lowered.as_text("structured"))
    print(f"other systems trace as well:\n\n{record_of('minicc.frontends.trace').head()}", end="")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
