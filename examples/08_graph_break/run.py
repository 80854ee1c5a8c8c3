"""A solver whose Python looks at its arrays: where its graph breaks, and what is remembered.

Conjugate gradients, as one writes them in NumPy, with a `with` in the loop that keeps NumPy from
warning of a matrix that is no good: so the loop is none of the graph. Its condition needs a value,
and the graph ends there; the loop's body is compiled once and runs for any number of iterations
without Python.
"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

import minicc
from minicc.records import record_of

Array = npt.NDArray[np.float64]

TOLERANCE = 1e-8


def solve(a: Array, b: Array) -> Array:
    """The x with a @ x = b, for a symmetric, positive definite a; NaN for another one."""
    x = np.zeros_like(b)
    r = b - a @ x
    p = r.copy()
    rr = r @ r
    while rr > TOLERANCE:
        ap = a @ p
        curvature = p @ ap
        if curvature <= 0:
            return b * np.nan
        with np.errstate(over="ignore"):
            alpha = rr / curvature
        x += alpha * p
        r -= alpha * ap
        before, rr = rr, r @ r
        p *= rr / before
        p += r
    return x


def problem(n: int, seed: int) -> tuple[Array, Array]:
    """A symmetric, positive definite matrix, the worse conditioned the higher the seed."""
    rng = np.random.default_rng(seed)
    m = rng.standard_normal((n, n))
    return m @ m.T + n / (1 + seed) * np.eye(n), rng.standard_normal(n)


def main() -> int:
    """Return 0 where the compiled solver agrees with NumPy on all problems."""
    fast: Any = minicc.jit(solve, threads=1)
    worst = 0.0
    for seed in range(4):
        a, b = problem(50, seed)
        worst = max(worst, float(np.abs(fast(a, b) - solve(a, b)).max()))
        print(f"problem {seed}: residual {np.abs(a @ fast(a, b) - b).max():.0e}, "
              f"traced {len(fast.explain().recompilations)} time(s)")  # fmt: skip

    print(f"a bad matrix: {fast(-np.eye(50), np.ones(50))[:2]}")

    a, b = problem(50, 0)
    print(f"\n{fast.explain(a, b)}\n")
    print("the loop's body:\n")
    print(fast.lower(a, b).segments[1].as_text("graph"))
    print(f"how Dynamo does it:\n\n{record_of('minicc.frontends.trace.paths').head()}")
    print(f"largest difference from NumPy: {worst:.0e}")
    return 0 if worst < 1e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
