"""The matrices of Winograd's minimal filters, derived from their points in exact fractions.

F(m, r) computes m outputs of a filter with r taps from n = m + r - 1 inputs by n products:
`y = A (G g * B d)`. It is Toom's and Cook's product of polynomials, transposed, on n - 1 finite
points and infinity. Points whose powers stay near 1 keep the rounding errors small.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015; the choice of
points after Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution,
2020.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Matrix = tuple[tuple[Fraction, ...], ...]
Form = dict[int, Fraction]  # a linear form: the coefficient of each value by its number

TAPS = 3
POINTS: dict[int, tuple[Fraction, ...]] = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2)),
}


class Filter(NamedTuple):
    """The matrices of one F(m, r)."""

    output: Matrix  # A, m x n
    taps: Matrix  # G, n x r
    input: Matrix  # B, n x n


def _product(points: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the product of all (x - point), lowest power first."""
    out = [Fraction(1)]
    for p in points:
        out = [a - p * b for a, b in zip([Fraction(0), *out], [*out, Fraction(0)], strict=True)]
    return out


@cache
def derive(m: int) -> Filter:
    """F(m, 3) on the points of `POINTS` and infinity."""
    points, r = POINTS[m], TAPS
    zero, one = Fraction(0), Fraction(1)
    output = [[*[p**k for p in points], one if k == m - 1 else zero] for k in range(m)]
    taps: list[list[Fraction]] = []
    inputs: list[list[Fraction]] = []
    for i, p in enumerate(points):
        others = [q for j, q in enumerate(points) if j != i]
        scale = one
        for q in others:
            scale *= p - q
        taps.append([p**k / scale for k in range(r)])
        inputs.append([*_product(others), zero])
    taps.append([zero] * (r - 1) + [one])
    inputs.append(_product(points))
    return Filter(*[tuple(map(tuple, matrix)) for matrix in (output, taps, inputs)])


def as_array(matrix: Matrix) -> NDArray[np.float64]:
    """A matrix in float64."""
    return np.array([[float(v) for v in row] for row in matrix])


class Plan(NamedTuple):
    """A matrix as steps: values 0..columns-1 are given, and each shared form is a new one."""

    shared: tuple[Form, ...]
    rows: tuple[Form, ...]

    @property
    def ops(self) -> int:
        """How many additions and multiply-adds it takes."""
        return sum(len(f) - 1 for f in (*self.shared, *self.rows))


@cache
def share(matrix: Matrix) -> Plan:
    """Take out sums of two terms that several rows have, up to a factor; the commonest first."""
    rows: list[Form] = [{k: c for k, c in enumerate(row) if c} for row in matrix]
    count = len(matrix[0])
    shared: list[Form] = []
    while True:
        pairs = Counter((a, b, row[b] / row[a]) for row in rows for a in row for b in row if a < b)
        (a, b, ratio), times = max(pairs.items(), key=lambda item: (item[1], item[0][:2]))
        if times < 2:
            return Plan(tuple(shared), tuple(rows))
        having = [row for row in rows if a in row and b in row and row[b] / row[a] == ratio]
        # the term that leads has the coefficient 1 most often, so that few rows need a product
        lead = max((a, b), key=lambda k: sum(row[k] == 1 for row in having))
        other = b if lead == a else a
        shared.append({lead: Fraction(1), other: having[0][other] / having[0][lead]})
        for row in having:
            row[count + len(shared) - 1] = row.pop(lead)
            del row[other]
