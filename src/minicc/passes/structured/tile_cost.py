"""What a register tile of a contraction costs, by which schedules choose among them.

The work with its rounding up, divided by how well the accumulators hide the latency of a
multiply-add, plus what starting a tile costs. Where the number of rows is free, it is what several
numbers cost on average, with the lengths of steps that are best for them; and few rows at a time
read the wide operand again and again, from wherever it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from math import inf, prod
from typing import NamedTuple

import numpy as np

from minicc.ir.affine import Dim
from minicc.ir.arrays import Array
from minicc.passes.structured.rows import ADDRESSES, Steps, choices, numbers_of
from minicc.target import Target

# terms summed in one chain before they join the total: keeps the error near that of a pairwise sum
BLOCK, LONGEST_CHAIN = 128, 256
_FAR = 2.5  # cycles for 64 bytes from the second cache; twice as many where they don't fit it
_STALL = 0.75  # cycles for 64 bytes from memory that go beside no multiply-adds
_MEMORY = 5  # rows that take as long as to bring in what they are multiplied by
_START = 24.0  # cycles that a register tile costs besides its multiply-adds
_SHORT_START = 12.0  # where sums are short, and the next tile begins meanwhile
_ADDRESS = 6.0  # cycles for the address of a row of a step that is not a long one
_QUOTIENT = 12.0  # of a row whose place is found by a division by a size
_JOIN = 0.5  # cycles for a vector of a total that is added to in memory
_SPILL = 1.5  # cycles for a register that is written to memory and read again
_TALL = 3.0  # cycles for each row above some of a tile whose accumulators are moved about
_LATENCY = 4.0  # cycles of a multiply-add
_LINE, _SETS = 64, 64  # bytes of a line, and sets of a first cache, which fill a page
_EVICTED = 1.0  # cycles for a line that comes from the second cache again and again
_WAIT = 0.25  # of what it waits for, where it needs an element in all lanes
_LOAD = 0.55  # cycles for a load where nothing else is waited for


Free = tuple[tuple[str, Dim], ...]  # dimensions whose extents are free, with these


class Place(Enum):
    """Where the wide operand is when a step of rows begins."""

    FIRST = "first cache"
    SECOND = "second cache"
    MEMORY = "memory"


class Apart(NamedTuple):
    """Where rows lie: some `names` have addresses of their own, which a tile computes some `times`.

    Those of `divided` rows, two dimensions counted as one, are found by a division by a size.
    Others are known `strides` apart, in bytes.
    """

    names: frozenset[str] = frozenset()
    times: int = 1
    divided: frozenset[str] = frozenset()
    strides: tuple[tuple[str, int], ...] = ()

    def cycles(self, name: str) -> float:
        """Cycles for the addresses of one of so many rows of a dimension, beside its sums."""
        quotient = _QUOTIENT if name in self.divided else 0.0
        return quotient + (_ADDRESS * self.times if name in self.names else 0.0)

    def crowded(self, tiles: Mapping[str, int], target: Target) -> int:
        """How many lines a tile reads of which the first cache can't hold as many in their set.

        Each is gone when the tile reads its next element, as where channels fill pages.
        """
        rows = tuple([(stride, tiles.get(name, 1)) for name, stride in self.strides])
        return _crowded(rows, max(1, target.l1 // (_SETS * _LINE)))


@cache
def _crowded(rows: tuple[tuple[int, int], ...], ways: int) -> int:
    """Lines in sets with more of them than ways, of rows with a stride and a number each."""
    if prod(count for _, count in rows) <= ways:
        return 0
    places = [0]
    for stride, count in rows:
        places = [at + stride * k for at in places for k in range(count)]
    sets = Counter(line % _SETS for line in {at // _LINE for at in places})
    return sum(lines for lines in sets.values() if lines > ways)


EVEN = Apart()


class Window(NamedTuple):
    """How places of the other operand serve several terms of a sum, as a window that slides.

    The next row of `name` is read `row` places on, the next of `terms` terms `term`. These terms
    are written out one after the other, so that what several read waits in registers.
    """

    name: str
    row: int
    term: int
    terms: int

    def places(self, rows: int) -> int:
        """The different places that all terms of so many rows read."""
        return _places(rows, self.row, self.term, self.terms)


@cache
def _places(rows: int, row: int, term: int, terms: int) -> int:
    within = range(0, term * terms, term)
    return len({row * n + at for n in range(rows) for at in within})


class Vectors(NamedTuple):
    """The vectors of a contraction: their elements, and the bytes of one of the wide operand.

    `both` says whether the other operand is read in vectors, too, as in a depthwise convolution,
    whose `window` slides along its rows; `shifted`, that vectors begin anywhere, as those of an
    image over which taps pass.
    """

    lanes: int
    size: int
    both: bool = False
    window: Window | None = None
    shifted: bool = False

    def along(self, name: str) -> Vectors:
        """The same where a tile's rows are those of a dimension."""
        slides = self.window is not None and self.window.name == name
        return self if slides else self._replace(window=None)

    @property
    def latency(self) -> float:
        """Cycles that the multiply-adds in flight have to hide."""
        return _LATENCY if self.both else _LATENCY + _WAIT

    def of(self, width: int) -> int:
        """The vectors of so many columns."""
        return -(-width // self.lanes)


class Strip(NamedTuple):
    """The columns of a register tile, and how what they are summed of comes.

    `vectors` of columns, whether the last is shorter than others, the length of their sums, and
    where the wide operand is.
    """

    vectors: int
    ragged: bool
    depth: int
    layout: Vectors
    registers: int
    where: Place


def place_of(width: int, columns: int, depth: int, vectors: Vectors, target: Target) -> Place:
    """Where columns of the wide operand are of which a tile has `width`."""
    if vectors.size * vectors.of(width) * depth <= target.near:
        return Place.FIRST
    whole = vectors.size * vectors.of(columns) * depth
    return Place.SECOND if whole <= target.resident else Place.MEMORY


def _again(panel: int, vectors: Vectors, target: Target) -> float:
    """Cycles for a vector of a panel of so many bytes that tile after tile reads."""
    if panel <= target.near:
        return 0.0
    return _FAR * vectors.size / 64 * (1 if panel <= target.l2 // 2 else 2)


def register_tiles(
    rows: Sequence[str], vector: str, extents: Mapping[str, int], lanes: int, registers: int
) -> Iterator[dict[str, int]]:
    """Tiles whose accumulators fit the registers, with what they are multiplied by."""
    widths = sorted({max(1, min(extents[vector], v * lanes)) for v in range(1, 9)})
    for width in widths:
        most = _most_rows(-(-width // lanes), registers)
        if most < 1:
            continue
        if not rows:
            yield {vector: width}
            continue
        last = rows[-1]
        for count in range(1, min(extents[last], most) + 1):
            yield {last: count, vector: width}
        if len(rows) > 1 and extents[last] <= most // 2:
            for outer in range(2, min(extents[rows[-2]], most // extents[last]) + 1):
                yield {rows[-2]: outer, last: extents[last], vector: width}


def _most_rows(vectors: int, registers: int) -> int:
    """The rows of the tallest tile of so many vectors.

    Of the wide operand one row is held; for a single row it comes from memory as it is used.
    """
    return max((registers - 1 - vectors) // vectors, int(vectors < registers - 1))


@cache
def cheapest(
    rows: tuple[str, ...],
    vector: str,
    extents: tuple[tuple[str, int], ...],
    depth: int,
    layout: Vectors,
    target: Target,
    free: Free,
    height: int = 0,
    apart: Apart = EVEN,
) -> tuple[float, Mapping[str, int]]:
    """What the register tile costs that costs least, and that tile.

    Where `height` is given, it has so many of the last of the rows; there may be none. Rows that
    lie `apart` have addresses of their own, which the tile computes so often.
    """
    known = dict(extents)
    tiles = [
        t
        for t in register_tiles(rows, vector, known, layout.lanes, target.registers)
        if not height or t[rows[-1]] == height
    ]
    least = [0.0 if free else _least_cost(t, rows, vector, known, depth, layout) for t in tiles]
    best, found = inf, len(tiles)
    for k in sorted(range(len(tiles)), key=least.__getitem__):
        if least[k] > best:
            break
        cost = cost_of(tiles[k], rows, vector, known, depth, layout, target, free, apart)
        best, found = min((best, found), (cost, k))
    return best, tiles[found] if best < inf else {}


def _least_cost(
    tiles: Mapping[str, int],
    rows: Sequence[str],
    vector: str,
    extents: Mapping[str, int],
    depth: int,
    layout: Vectors,
) -> float:
    """Cycles of the multiply-adds alone, of those that `cost_of` tells of."""
    width = tiles[vector]
    count, accumulators = -(-extents[vector] // width), layout.of(width)
    for n in rows:
        size = tiles.get(n, 1)
        count *= -(-extents[n] // size)
        accumulators *= size
    return count * depth * max(accumulators / 2, layout.latency)


def cost_of(
    tiles: Mapping[str, int],
    rows: Sequence[str],
    vector: str,
    extents: Mapping[str, int],
    depth: int,
    layout: Vectors,
    target: Target,
    free: Free = (),
    apart: Apart = EVEN,
) -> float:
    """Cycles of a whole contraction, up to a factor; rows that are free have several extents."""
    vectors = layout.of(tiles[vector])
    height = prod(tiles.get(n, 1) for n in rows)
    unknown = dict(free)
    count: float = 1
    for n in rows:
        if n not in unknown or tiles.get(n, 1) == 1:
            count *= -(-extents[n] // tiles.get(n, 1))
    if free:
        strip = strip_of(tiles[vector], extents[vector], depth, layout, target)
    else:
        strip = _strip(tiles[vector], depth, layout, target, Place.FIRST)
    stepped = [n for n in rows if n in unknown and tiles.get(n, 1) > 1]
    tile = 0.0
    for n in stepped:
        along, others = strip._replace(layout=layout.along(n)), height // tiles[n]
        each = free_cost(tiles[n], others, along, numbers_of(unknown[n])).cost
        tile = extents[n] * (each + others * apart.cycles(n))
    if not stepped:
        panel = vectors * depth * layout.size
        again = 0.0 if free or count == 1 else vectors * _again(panel, layout, target)
        again = max(again, _EVICTED * apart.crowded(tiles, target))
        last = tiles.get(rows[-1], 1) if rows else 1
        along = strip._replace(layout=layout.along(rows[-1] if rows else ""))
        tile = _tile_cost(last, height // last, along, again)
        moving = [n for n in rows if tiles.get(n, 1) > 1]
        tile += height * max(map(apart.cycles, moving), default=0.0)
    if height > ADDRESSES and any(n in apart.names and tiles.get(n, 1) > 1 for n in rows):
        tile = inf
    return -(-extents[vector] // tiles[vector]) * count * tile


def strip_of(width: int, columns: int, depth: int, layout: Vectors, target: Target) -> Strip:
    """The strip of a tile so wide, of so many columns in all."""
    where = place_of(width, columns, depth, layout, target)
    return _strip(width, depth, layout, target, where)


def _strip(width: int, depth: int, layout: Vectors, target: Target, where: Place) -> Strip:
    ragged = width > layout.lanes and width % layout.lanes > 0
    return Strip(layout.of(width), ragged, depth, layout, target.registers, where)


class Rows(NamedTuple):
    """Steps over rows whose number is free.

    The cycles by which they are chosen for one of these, those of one of few, and their lengths.
    """

    cost: float
    few: float
    steps: Steps


@cache
def free_cost(step: int, others: int, strip: Strip, numbers: tuple[int, ...]) -> Rows:
    """The best lengths of steps over rows of which there are some `numbers`, and many."""
    most = max(step, _most_rows(strip.vectors, strip.registers) // others)
    costs, moved = _of_lengths(most, others, strip)
    apart = np.arange(step + 1) * _ADDRESS
    apart[step] = 0
    of_length = costs[: step + 1] + apart + moved[: step + 1]
    more = 0 if strip.where == Place.FIRST else _MEMORY
    lengths, counts, few = choices(step, strip.where == Place.MEMORY, more, numbers)
    cycles = of_length[lengths]
    cost, of_few = (counts * cycles).sum(axis=1), (few * cycles).sum(axis=1)
    best = np.lexsort((of_few, cost))[0]
    return Rows(float(cost[best]), float(of_few[best]), Steps(*lengths[best].tolist()))


@cache
def _of_lengths(most: int, others: int, strip: Strip) -> tuple[Array, Array]:
    """The cycles of tiles of no row to `most`, and those in which accumulators are moved."""
    costs = [_tile_cost(n, others, strip) for n in range(1, most + 1)]
    moved = [_moved(n * others, strip) for n in range(1, most + 1)]
    return np.array([0.0, *costs]), np.array([0.0, *moved])


def _moved(height: int, strip: Strip) -> float:
    """Cycles in which accumulators of a tall tile are moved about, among steps of several lengths.

    LLVM loads many elements ahead where an element is loaded for two kinds of vectors, and its
    registers do not hold all that waits; nothing of this was seen where rows are known.
    """
    vectors, ragged, depth, layout, registers, _ = strip
    waits = depth > LONGEST_CHAIN and 2 * height * vectors + vectors + 1 > registers
    if not waits and (layout.both or not ragged):
        return 0.0
    return depth * _TALL * max(0, height - ADDRESSES)


def _tile_cost(rows: int, others: int, strip: Strip, again: float = 0.0) -> float:
    """Cycles of a register tile, which has so many rows of each of so many others.

    Multiply-adds issued, loads, its start, and each block of its sums that joins totals for which
    no registers are left. What is multiplied takes at least `again` to come.
    """
    vectors, _, depth, layout, registers, where = strip
    height = rows * others
    accumulators = height * vectors
    # two multiply-adds a cycle; not quite two loads a cycle
    step = max(accumulators / 2, layout.latency, again, _reading(rows, others, vectors, layout))
    if where != Place.FIRST:
        stall = _STALL if where == Place.MEMORY else 0.0
        step = max(step + vectors * stall, vectors * _FAR)
    if layout.window is not None:
        waiting = others * vectors * layout.window.places(rows)
        over = max(0, accumulators + waiting + 1 - registers)
        step += _SPILL * over / layout.window.terms
    spilled = max(0, 2 * accumulators + vectors + 1 - registers)
    joins = depth // BLOCK if depth > LONGEST_CHAIN else 0
    start = _SHORT_START if layout.both else _START
    start += 2 * accumulators + _JOIN * joins * spilled
    return depth * step * (1 + 0.01 / height) + start


def _reading(rows: int, others: int, vectors: int, layout: Vectors) -> float:
    """Cycles in which a register tile reads its operands for one term.

    What both read in vectors comes from the second cache: in pairs of lines where a window slides,
    as one after the other is read then.
    """
    if not layout.both:
        lines = 1 + layout.size / _LINE if layout.shifted else 1  # that a vector lies on
        return (rows * others + vectors * lines) * _LOAD
    size = vectors * layout.size
    if layout.window is None:
        lines = rows * others * -(-size // 64)
        return max((rows * others + 1) * vectors * _LOAD, lines * _FAR)
    places = others * layout.window.places(rows) / layout.window.terms
    return max((places + 1) * vectors * _LOAD, places * -(-size // 128) * _FAR)
