"""Sort few elements by a network of comparisons, each of which puts two in order.

    [..., 3]   -->   the columns x, y, z; then x, y = less and greater of both, y, z so, x, y so

Which elements are compared does not depend on any result, so all rows are sorted at once, in
vectors. Of a median only what it is made of is computed: comparisons that nobody reads go.
"""

from __future__ import annotations

from collections.abc import Iterator

from minicc.ir import graph
from minicc.ir.affine import number
from minicc.ir.build import Builder
from minicc.ir.core import Value

MOST = 16  # elements, from which comparing all with all is less code


def sorted_by_network(b: Builder, x: Value, axis: int) -> Value:
    """The elements of an axis of at most `MOST` in ascending order, NaN last."""
    shape = x.type.shape
    count = number(shape[axis])
    columns: list[Value] = []
    for k in range(count):
        starts = tuple(k if a == axis else 0 for a in range(len(shape)))
        stops = tuple(k + 1 if a == axis else n for a, n in enumerate(shape))
        columns.append(b.emit(graph.Slice, x, starts=starts, stops=stops, steps=(1,) * len(shape)))
    for low, high in comparisons(count):
        first, second = columns[low], columns[high]
        after = b.emit(graph.Lt, second, first)
        if x.type.dtype.is_float:
            after = b.emit(graph.Or, after, b.emit(graph.Ne, first, first))
        columns[low] = b.emit(graph.Select, after, second, first)
        columns[high] = b.emit(graph.Select, after, first, second)
    return columns[0] if count == 1 else b.emit(graph.Concat, tuple(columns), axis=axis)


def comparisons(count: int) -> Iterator[tuple[int, int]]:
    """The pairs of places that are put in order, one after the other.

    Source: Batcher, "Sorting networks and their applications" (1968), odd-even merging: sorted runs
    of `run` elements become runs of twice as many, by comparisons at falling distances.
    """
    run = 1
    while run < count:
        distance = run
        while distance:
            for start in range(distance % run, count - distance, 2 * distance):
                for low in range(start, min(start + distance, count - distance)):
                    if low // (2 * run) == (low + distance) // (2 * run):
                        yield low, low + distance
            distance //= 2
        run *= 2
