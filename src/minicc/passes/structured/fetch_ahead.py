"""What of a packed operand is fetched ahead, and when.

Rows after rows pass over one panel of weights while the next one is still far. If each pass asked
for the same lines, all of them would come during the first pass, and memory would rest during the
others. So each of the first passes brings in a share, and the panel is there when its turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from minicc.ir import affine
from minicc.ir.affine import Dim, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Value
from minicc.ir.index_maps import Map, names_of
from minicc.passes.structured.group_state import Indices, Position

_SHARES = 8  # of a panel at most: memory brings in one in less time than a pass takes
_FREE_SHARES = 4  # where the number of passes is free, which may be one


class Share(NamedTuple):
    """What a round fetches: so many elements side by side, from where the map `start` leads.

    They lie so many elements further in memory as the indices `further` add up to.
    """

    start: Map
    elements: int
    further: tuple[Value, ...] = ()


def share_of(
    b: Builder,
    m: Map,
    distance: int,
    at: Mapping[str, Position],
    around: Mapping[str, Position],
    within: Sequence[str],
    extents: Mapping[str, Dim],
    least: int = 1,
) -> Share:
    """What a round fetches of what lies a `distance` after a panel, which it reads at `m`.

    Loops over the dimensions `around`, the outermost first, make passes; in each of them loops over
    reductions `within` make rounds. `at` says where all are, and at how many points at once; of
    those around that is how many points a pass has but for a last one. Where the number of passes
    is free, one fetches at `least` so many shares.
    """
    names = names_of(m)
    point = prod(at[n][1] for n in names)
    loops = [n for n, (_, points) in around.items() if points != extents[n]]
    inner = loops[max((k + 1 for k, n in enumerate(loops) if n in names), default=len(loops)) :]
    known = {n: i for n in (*inner, *within) if isinstance(i := at[n][0], Value)}
    indices = Indices(b, **known)

    passes, number = _passes(inner, around, extents)
    # a share is a multiple of what a round has, as the rounds of a reduction count in steps
    steps = {r: at[r][1] for r in within if r in names}
    unit = prod(steps.values())
    shares = max(min(passes, _SHARES), 1) if isinstance(passes, int) else _FREE_SHARES
    share = -(-point // (shares * unit)) * unit
    times: Dim = 1
    if not isinstance(passes, int):  # few passes have more shares each, and one has all
        times = indices.named(affine.maximum(least, _FREE_SHARES + 1 - passes))
    rounds: Dim = 1
    done: Dim = 0
    for r in reversed(steps):
        each = affine.multiply(rounds, share // steps[r])
        done = affine.add(done, affine.multiply(_place(r, at), each))
        rounds = affine.multiply(rounds, affine.ceildiv(extents[r], steps[r]))
    size = affine.multiply(share, times)
    begin = affine.multiply(affine.minimum(affine.multiply(number, size), point - size), rounds)
    further = (begin, affine.multiply(done, times))
    # of a panel the first element, and of a tile, whose elements lie side by side
    first = {n: 0 for n in names if n in steps or at[n][1] > 1}
    start = [affine.substitute(e, first) for e in m]
    return Share(
        (*start[:-1], affine.add(start[-1], distance)),
        share if times == 1 else point,
        tuple([indices.value(e) for e in further if e != 0]),
    )


def _passes(
    loops: Sequence[str], at: Mapping[str, Position], extents: Mapping[str, Dim]
) -> tuple[Dim, Dim]:
    """How many passes loops make, the outermost first, and the number of the current one."""
    passes: Dim = 1
    number: Dim = 0
    for n in loops:
        place, points = _place(n, at), at[n][1]
        count = affine.ceildiv(extents[n], points)
        passes = affine.multiply(passes, count)
        step = affine.floordiv(place, points)
        if not isinstance(count, int):  # the last one may be shifted back, or follow longer ones
            step = count - affine.ceildiv(extents[n] - place, points)
        number = affine.add(affine.multiply(number, count), step)
    return passes, number


def _place(name: str, at: Mapping[str, Position]) -> Dim:
    """Where a loop is; what is computed while the kernel runs has the loop's name."""
    index = at[name][0]
    return symbol(name) if isinstance(index, Value) else index
