"""Kernels by hand beside what the compiler makes of the same: `python -m benchmarks.kernels`.

One thread; both are called on the same arrays in turns, and the best of many runs counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.proofs.measure import best_in_turns, error, placed
from benchmarks.proofs.rowwise import softmax

import minicc
import minicc.tile as tl
from minicc.target import Target

WIDE = Target.host().vector_bits == 512
ROWS, COLUMNS = (8, 32) if WIDE else (6, 16)  # of a product's tile in registers
TALL, BROAD = (6, 64) if WIDE else (6, 16)  # the same where one side is copied and near
BLOCK = 256 if WIDE else 252  # queries of an instance
LANES = 16 if WIDE else 8


@minicc.kernel(
    grid=lambda b, n: b.shape[1] // n, out=lambda a, b: (a.shape[0], b.shape[1]), threads=1
)
def product(a: Any, b: Any, c: Any, *, m: int = TALL, n: int = 2 * BROAD, cut: int = 128) -> None:
    """An instance copies two panels of `b` to scratch, and multiplies all rows of `a` by them."""
    j, (rows, depth), w = tl.program_id(0) * n, a.shape, n // 2
    panels = tl.alloc((2, depth, w))
    for k in tl.range(depth):
        for s in tl.range(2):
            panels[s, k, :] = b[k, tl.ds(j + s * w, w)]
    for r in tl.range(0, rows, m):
        i = np.minimum(r, rows - m)
        for s in tl.range(2):
            total = tl.zeros((m, w))
            for k in tl.range(0, depth, cut):
                total = total + tl.dot(a[i : i + m, k : k + cut], panels[s, k : k + cut, :])
            c[i : i + m, tl.ds(j + s * w, w)] = total


def queries(q: Any, block: int) -> int:
    """How many queries an instance has: whole tiles, and no more than there are."""
    return min(block, int(q.shape[0]) // ROWS * ROWS)


@minicc.kernel(
    grid=lambda q, block: tl.cdiv(q.shape[0], queries(q, block)), out=lambda q: q, threads=1
)
def attention(q: Any, k: Any, v: Any, y: Any, *, block: int = BLOCK, keys: int = 128) -> None:
    """Queries by blocks: the greatest score and the sum so far are carried along the keys."""
    (length, d), scale, keys = k.shape, k.shape[1] ** -0.5 / np.log(2), min(keys, k.shape[0])
    block = queries(q, block)
    first = np.minimum(tl.program_id(0) * block, q.shape[0] - block)
    turned, s = tl.alloc((keys // COLUMNS, d, COLUMNS)), tl.alloc((ROWS, keys))
    acc, total, top = tl.alloc((block, d)), tl.alloc((block, LANES)), tl.alloc((block, 1))
    acc[:, :], total[:, :], top[:, :] = 0, 0, -1e30
    for j in tl.range(0, length, keys):
        for c in tl.range(keys // COLUMNS):
            turned[c, :, :] = tl.trans(k[tl.ds(j + c * COLUMNS, COLUMNS), :])
        for r in tl.range(0, block, ROWS):
            rows, best = tl.ds(r, ROWS), tl.full((ROWS, LANES), -1e30)
            for c in tl.range(keys // COLUMNS):
                s[:, tl.ds(c * COLUMNS, COLUMNS)] = tl.dot(q[tl.ds(first + r, ROWS), :], turned[c])
            for c in tl.range(0, keys, LANES):
                best = np.maximum(best, s[:, tl.ds(c, LANES)])
            new = np.maximum(top[rows, :], best.max(axis=1, keepdims=True))
            factor = np.exp2((top[rows, :] - new) * scale)
            sums, top[rows, :] = total[rows, :] * factor, new
            for c in tl.range(0, keys, LANES):
                p = np.exp2((s[:, tl.ds(c, LANES)] - new) * scale)
                s[:, tl.ds(c, LANES)], sums = p, sums + p
            total[rows, :] = sums
            for c in tl.range(0, d, COLUMNS):
                here, values = (rows, tl.ds(c, COLUMNS)), v[tl.ds(j, keys), tl.ds(c, COLUMNS)]
                acc[here] = tl.dot(s[:, :], values, acc[here] * factor)
    for r in tl.range(0, block, ROWS):
        sums = total[tl.ds(r, ROWS), :].sum(axis=1, keepdims=True)
        y[tl.ds(first + r, ROWS), :] = acc[tl.ds(r, ROWS), :] * (1 / sums)


def soft_max(x: Any) -> Any:
    """As NumPy has it."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def attend(q: Any, k: Any, v: Any) -> Any:
    """As NumPy has it."""
    return soft_max((q @ k.T) * q.dtype.type(q.shape[1] ** -0.5)) @ v


def compare(name: str, by_hand: Any, meant: Callable[..., Any], *shapes: tuple[int, int]) -> None:
    """One line of the table."""
    random = np.random.default_rng(5)
    arrays = [placed(random.standard_normal(shape)) for shape in shapes]
    compiled = minicc.jit(meant, threads=1)
    truth = meant(*[a.astype(np.float64) for a in arrays])
    wrong = [error(f(*arrays), truth) for f in (by_hand, compiled)]
    calls = [lambda: by_hand(*arrays), lambda: compiled(*arrays)]
    hand, own = best_in_turns(calls, rounds=15, runs=4)
    told = f"{hand * 1e6:.0f} | {own * 1e6:.0f} | {hand / own:.2f}"
    print(f"| {name} | {told} | {wrong[0]:.1e} | {wrong[1]:.1e} |", flush=True)


def main() -> None:
    """Print the table."""
    heads = ("kernel", "by hand, µs", "compiler, µs", "ratio", "rms error", "compiler's")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    compare("soft-max, 1024 x 1024", softmax, soft_max, (1024, 1024))
    for n in (256, 512, 1024):
        compare(f"product, {n}³", product, lambda a, b: a @ b, (n, n), (n, n))
    for n in (128, 512, 2048):
        compare(f"attention, {n} keys, 64 wide", attention, attend, *[(n, 64)] * 3)


if __name__ == "__main__":
    main()
