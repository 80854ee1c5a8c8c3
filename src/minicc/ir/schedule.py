"""Schedules: how one group of the structured level is computed, as a value with a syntax.

    schedule<grid = ["n", "co", "h"], tiles = <co=32, h=14>, sums = [[0, <ci=128>, ["kh"]]],
             packs = [[0, 1, 8192]], promotes = [[1, 1]]>

A schedule is an attribute of its group, over the names of the group's dimensions. It is frozen, is
written by the stage `schedule` or by a person, and used up by what obeys it: `tile` takes what is
said of dimensions, `pack` the packings and promotions, `bufferize` what goes past the caches, and
hands on what is unrolled. Ops, operands and results are named by their positions. Whether a
schedule fits a group is said by `passes.structured.legal`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from minicc.ir.space import PARALLEL, Space

Pairs = tuple[tuple[str, int], ...]


class Sums(NamedTuple):
    """Where the sums of an op restart: in each of `blocks` of a reduction, each round of `cut`."""

    op: int
    blocks: Pairs
    cut: tuple[str, ...]


class Skip(NamedTuple):
    """A reduction of an op of which rounds are left out whose terms are all zero."""

    op: int
    name: str


class Around(NamedTuple):
    """A loop over blocks of a reduction that stands around all other loops of an op."""

    op: int
    name: str
    size: int


class Packing(NamedTuple):
    """An operand that is copied into the order in which an op's tiles read it.

    It is fetched so many elements `ahead`, if any: a share in each of the first passes over what
    is read (see `passes.structured.fetch_ahead`).
    """

    op: int
    operand: int
    ahead: int


class Promotion(NamedTuple):
    """An operand of which each instance copies what it reads, in that order, before it does.

    Where a loop goes around blocks of a reduction, each round copies what it reads.
    """

    op: int
    operand: int


class Cover(NamedTuple):
    """How a shared dimension whose extent is free is covered; see `structured.group`."""

    name: str
    points: int
    steps: tuple[int, ...]


class Unroll(NamedTuple):
    """How many rounds a loop has at most that is written out, and elements in all its tiles.

    And how many rounds of a longer one around a product become one.
    """

    rounds: int = 8
    elements: int = 6144  # what LLVM compiles in a few milliseconds
    at_once: int = 4


class Schedule(NamedTuple):
    """The decisions for one group.

    `grid` is the order of its shared dimensions. `tiles` says how many points of a dimension an
    instance handles, `steps` in how many at once it walks through them, where these are fewer;
    of a dimension that is not shared, `tiles` are those that are handled at once. `widths` are
    the tiles of products along dimensions of their own, into which these are cut for packing.
    Where a loop over a reduction stands `around` all others of an op, its totals wait in scratch.
    Results whose places are in `nontemporal` are written past the caches.
    """

    grid: tuple[str, ...] = ()
    tiles: Pairs = ()
    steps: Pairs = ()
    widths: Pairs = ()
    cover: tuple[Cover, ...] = ()
    sums: tuple[Sums, ...] = ()
    skips: tuple[Skip, ...] = ()
    around: tuple[Around, ...] = ()
    packs: tuple[Packing, ...] = ()
    promotes: tuple[Promotion, ...] = ()
    nontemporal: tuple[int, ...] = ()
    unroll: Unroll = Unroll()

    def tiled(self) -> Schedule | None:
        """What is left to do where the group is tiled; None if that is as usual."""
        left = Schedule(
            packs=self.packs,
            promotes=self.promotes,
            nontemporal=self.nontemporal,
            unroll=self.unroll,
        )
        return None if left == Schedule() else left

    def packed(self) -> Schedule | None:
        """What is left to do where operands are packed, too."""
        return self._replace(packs=(), promotes=()).tiled()


def schedule_of(fields: Iterable[tuple[str, Any]]) -> Schedule:
    """The schedule of fields as the parser reads them; ValueError says what is wrong."""
    found: dict[str, Any] = {}
    for name, value in fields:
        if name not in _READ:
            known = ", ".join(_READ)
            raise ValueError(f"a schedule has no field {name}; it has {known}")
        if name in found:
            raise ValueError(f"the field {name} of a schedule is given twice")
        try:
            found[name] = _READ[name](value)
        except (TypeError, ValueError):
            raise ValueError(f"the field {name} of a schedule can't be {_shown(value)}") from None
    return Schedule(**found)


def _shown(value: Any) -> str:
    if isinstance(value, Space):
        return str(value)
    return f"[{', '.join(map(_shown, value))}]" if isinstance(value, tuple) else repr(value)


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value


def _integers(value: Any) -> tuple[int, ...]:
    if not all(type(n) is int for n in value):
        raise ValueError
    return tuple(value)


def _names(value: Any) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in value):
        raise ValueError
    return tuple(value)


def _pairs(value: Any) -> Pairs:
    if isinstance(value, Space):  # as which `<h=14, w=2>` is read
        value = tuple([(i.name, i.extent if i.kind == PARALLEL else None) for i in value.iters])
    found = dict(value)
    if len(found) < len(value):
        raise ValueError
    return tuple(zip(_names(found), map(_number, found.values()), strict=True))


def _each(read: Callable[..., Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple([read(*part) for part in value])


_READ: dict[str, Callable[[Any], Any]] = {
    "grid": _names,
    "tiles": _pairs,
    "steps": _pairs,
    "widths": _pairs,
    "cover": _each(lambda n, k, steps: Cover(_names([n])[0], _number(k), _integers(steps))),
    "sums": _each(lambda op, blocks, cut: Sums(_number(op), _pairs(blocks), _names(cut))),
    "skips": _each(lambda op, name: Skip(_number(op), _names([name])[0])),
    "around": _each(lambda op, name, n: Around(_number(op), _names([name])[0], _number(n))),
    "packs": _each(lambda *numbers: Packing(*map(_number, numbers))),
    "promotes": _each(lambda *numbers: Promotion(*map(_number, numbers))),
    "nontemporal": lambda value: tuple(map(_number, value)),
    "unroll": lambda value: Unroll(*map(_number, value)),
}
