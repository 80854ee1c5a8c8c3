"""Kernels by hand: a function over tiles, its text, its faults, and its inner loop.

The kernel of a soft-max is traced, printed and checked, then used in a function that is compiled.
A wrong one is told of by line. A product is compared with what the compiler makes of `a @ b`, by
the instructions of the innermost loops: this code is for AVX2 and not run, so any machine prints
the same.
"""

import re
import sys
from collections import Counter
from typing import Any

import numpy as np

import minicc
import minicc.tile as tl
from minicc.backends.llvm.compile import assemble
from minicc.compile.compiler import lower
from minicc.ir.core import Module

AVX2 = minicc.Options(target="avx2")


# An instance of the grid is a row. Names that a round binds anew (`top`, `total`) are handed on.
@minicc.kernel(grid=lambda x: x.shape[0], out=lambda x: x)
def softmax(x: Any, y: Any, *, width: int = 16) -> None:
    """Soft-max of rows, whose last tile may have fewer elements than the others."""
    row, n = tl.program_id(0), x.shape[1]
    top, total = tl.full(width, -np.inf), tl.zeros(width)
    for j in tl.range(0, n, width):
        here = j + tl.arange(width) < n
        tile = tl.load(x, (row, tl.ds(j, width)), mask=here)
        top = np.maximum(top, np.where(here, tile, -np.inf))
    for j in tl.range(0, n, width):
        here = j + tl.arange(width) < n
        e = np.exp(tl.load(x, (row, tl.ds(j, width)), mask=here) - top.max())
        total = total + np.where(here, e, 0)
        tl.store(y, (row, tl.ds(j, width)), e, mask=here)
    for j in tl.range(0, n, width):
        here = j + tl.arange(width) < n
        e = tl.load(y, (row, tl.ds(j, width)), mask=here)
        tl.store(y, (row, tl.ds(j, width)), e / total.sum(), mask=here)


# Rows of one instance are summed into a row that its neighbour writes, too.
@minicc.kernel(grid=lambda x: x.shape[0], out=lambda x: x)
def smooth(x: Any, y: Any) -> None:
    """Each row and the one after it get their mean, which is a mistake."""
    row = np.minimum(tl.program_id(0), x.shape[0] - 2)
    mean = (x[row, :] + x[row + 1, :]) / 2
    y[row, :] = mean
    y[row + 1, :] = mean


# The tile of 4 x 16 sums is 8 registers of 8 floats; `tl.dot` is the loop over `k`.
@minicc.kernel(
    grid=lambda a, b: (a.shape[0] // 4, b.shape[1] // 16),
    out=lambda a, b: (a.shape[0], b.shape[1]),
    options=AVX2,
)
def product(a: Any, b: Any, c: Any) -> None:
    """A matrix product by tiles."""
    i, j = tl.program_id(0) * 4, tl.program_id(1) * 16
    c[i : i + 4, j : j + 16] = tl.dot(a[i : i + 4, :], b[:, j : j + 16])


def of_the_double(x: Any) -> Any:
    """A function that the kernel is a part of."""
    return softmax(x + x) * 2


def by_the_compiler(a: Any, b: Any) -> Any:
    """The same, for the compiler to choose the tiles."""
    return a @ b


def inner_loop(module: Module) -> Counter[str]:
    """The vector instructions of the loop with the most multiply-adds in a program."""
    found = [Counter[str]()]
    for text in assemble(module, AVX2.machine, AVX2.flushed).values():
        blocks = re.split(r"^(\.L\w+):", text, flags=re.MULTILINE)[1:]
        for label, block in zip(blocks[::2], blocks[1::2], strict=True):
            body, jump, _ = re.split(
                rf"^(\tj\w+\t{label}$|\Z)", block, maxsplit=1, flags=re.MULTILINE
            )
            if jump:
                found.append(Counter(re.findall(r"^\t(v\w+)", body, re.MULTILINE)))
    return max(found, key=lambda loop: loop["vfmadd231ps"])


def main() -> int:
    """Return 0 where all agree."""
    x = np.random.default_rng(0).normal(size=(4, 40)).astype(np.float32)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    want = e / e.sum(axis=1, keepdims=True)
    print("== the kernel of one shape, at the kernel level\n")
    print(re.sub(r" loc\(.*?\)", "", softmax.text(x)))
    same = [np.allclose(f(x), want, rtol=1e-5, atol=1e-7) for f in (softmax, softmax.check)]
    print(f"machine code and interpreter agree with NumPy: {same}\n")

    # In a function that is compiled it is an op of the graph, and a launch among the others.
    lowered = minicc.jit(of_the_double, options=AVX2).lower(x)
    print("== in a compiled function\n")
    wanted = re.compile(r" graph\.| program\.launch")
    for level in ("graph", "program"):
        for line in filter(wanted.search, lowered.as_text(level).splitlines()):
            print(line.partition(" loc(")[0])
    same.append(np.allclose(minicc.jit(of_the_double)(x)[:, 0], 2 * softmax(x + x)[:, 0]))

    print("\n== two instances that write one element differently\n")
    try:
        smooth.check(x)
    except minicc.UserError as error:
        print(error)

    a, b = np.zeros((64, 96), np.float32), np.zeros((96, 128), np.float32)
    by_hand = lower(product.module(a, b), AVX2)
    compiled = lower(minicc.jit(by_the_compiler, options=AVX2).lower(a, b).module, AVX2)
    loops = [inner_loop(module) for module in (by_hand, compiled)]
    print("\n== the innermost loop of a product: by hand, and by the compiler\n")
    for instruction in sorted({*loops[0], *loops[1]}):
        print(f"{loops[0][instruction]:3} {loops[1][instruction]:3} {instruction}")
    # Each has 8 for a row of `a` and one of `b`, of which four rounds become one.
    return 0 if all(same) and loops[0]["vfmadd231ps"] == 32 else 1


if __name__ == "__main__":
    sys.exit(main())
