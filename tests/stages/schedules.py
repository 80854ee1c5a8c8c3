"""Random legal schedules for the groups of a module."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from minicc.compile.compiler import lower
from minicc.ir.affine import typical
from minicc.ir.core import Module
from minicc.ir.schedule import Around, Cover, Packing, Promotion, Schedule, Sums, Unroll
from minicc.ir.space import REDUCTION
from minicc.ir.structured import HOLD, PARTIAL, Generic, Group
from minicc.ir.text.printer import print_attribute, quote
from minicc.options import Options
from minicc.passes.structured.legal import legal
from minicc.passes.structured.past_caches import read_by_others
from minicc.passes.structured.write_schedules import Given, named_groups, write_schedules
from minicc.target import Target

_SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 32, 48)
_TRIES = 20


def random_schedules(module: Module, target: Target, rng: Random) -> dict[str, Schedule]:
    """A legal schedule for each group by name: the compiler's own with some decisions drawn."""
    own = dict(named_groups(write_schedules(module, target, Given())))
    found: dict[str, Schedule] = {}
    for name, group in own.items():
        chosen = group.schedule
        assert chosen is not None
        assert legal(group, chosen, target) == ()
        found[name] = chosen
        for _ in range(_TRIES):
            drawn = _drawn(group, chosen, rng)
            if not legal(group, drawn, target):
                found[name] = drawn
                break
    return found


def text_of(plans: Mapping[str, Schedule]) -> str:
    """A file of schedules."""
    return "".join(f"{quote(name)} = {print_attribute(plan)}\n" for name, plan in plans.items())


def rescheduled(
    module: Module, options: Options, binding: Mapping[str, int] | None, rng: Random
) -> tuple[Module, Module, dict[str, Schedule]]:
    """A graph module tiled and packed, and its program, by random schedules, and these."""
    groups = lower(module, options, binding, stop="collapse")
    plans = random_schedules(groups, options.machine, rng)
    given = Given(text_of(plans))
    scheduled = write_schedules(groups, options.machine, given)
    given.require_used()
    packed = lower(scheduled, options, binding, start="schedule", stop="pack")
    return packed, lower(packed, options, binding, start="pack"), plans


def _drawn(group: Group, own: Schedule, rng: Random) -> Schedule:
    """The compiler's own schedule with some of its fields drawn anew; it may not be legal."""
    ops = [op for op in group.body.ops if isinstance(op, Generic)]
    iters = {i.name: i for op in ops for i in op.space.iters}
    changes: dict[str, object] = {}
    often = rng.random()

    def anew(name: str) -> bool:
        return rng.random() < often and name not in changes

    def size(name: str) -> int:
        extent = typical(iters[name].extent)
        fitting = [n for n in (*_SIZES, extent, extent - 1, extent // 2) if 1 <= n <= extent]
        return rng.choice(fitting or [1])

    if anew("grid"):
        changes["grid"] = tuple(rng.sample(own.grid, len(own.grid)))
    covered = [n for n in group.shared if not isinstance(ops[0].space[n].extent, int)]
    tiled = [n for n in iters if n not in covered]
    if anew("tiles"):
        names = rng.sample(tiled, rng.randint(0, min(4, len(tiled))))
        changes["tiles"] = tuple([(n, size(n)) for n in names])
        changes["steps"] = ()
    tiles = dict(changes.get("tiles", own.tiles))  # type: ignore[call-overload]
    if anew("widths"):
        names = [n for n in tiled if n not in group.shared and rng.random() < 0.5]
        changes["widths"] = tuple([(n, size(n)) for n in names])
    if anew("steps") or "tiles" in changes:
        names = [n for n in tiles if n in group.shared and rng.random() < 0.4]
        changes["steps"] = tuple([(n, rng.randint(1, tiles[n])) for n in names])
    if anew("cover"):
        names = [n for n in covered if rng.random() < 0.7]
        changes["cover"] = tuple([_cover(n, rng) for n in names])
    if anew("sums") or "tiles" in changes:
        changes["sums"] = tuple(
            [_sums(k, op, tiles, rng) for k, op in enumerate(ops) if rng.random() < 0.7]
        )
    if anew("around") or "tiles" in changes:
        sums = [(k, i.name) for k, op in enumerate(ops) for i in op.space.of_kind(REDUCTION)]
        found = [Around(k, n, tiles.get(n, 1) * rng.choice(_SIZES)) for k, n in sums]
        changes["around"] = tuple([a for a in found if rng.random() < 0.4])
    if anew("packs"):
        places = [(k, n) for k, op in enumerate(ops) for n in range(len(op.operands))]
        changes["packs"] = tuple(
            [Packing(*p, rng.choice((0, 0, 5, 4096))) for p in places if rng.random() < 0.3]
        )
    if anew("promotes") or "tiles" in changes or "packs" in changes:
        places = [(k, n) for k, op in enumerate(ops) for n in range(len(op.operands))]
        changes["promotes"] = tuple([Promotion(*p) for p in places if rng.random() < 0.2])
    if anew("nontemporal"):
        free = read_by_others(group)
        changes["nontemporal"] = tuple([k for k in free if rng.random() < 0.7])
    if anew("unroll"):
        changes["unroll"] = Unroll(
            rng.randint(0, 12), rng.choice((64, 1024, 6144)), rng.randint(0, 8)
        )
    return own._replace(**changes)  # type: ignore[arg-type]


def _cover(name: str, rng: Random) -> Cover:
    step = rng.choice(_SIZES)
    smaller = sorted({rng.randint(1, step) for _ in range(rng.randint(0, 2))}, reverse=True)
    last: tuple[int, ...] = rng.choice([(1,), (1, HOLD), (HOLD,), (PARTIAL,)])
    steps = (step, *([] if last == (PARTIAL,) else smaller), *last)
    return Cover(name, step * rng.randint(1, 4) + rng.randint(0, 1), steps)


def _sums(position: int, op: Generic, tiles: dict[str, int], rng: Random) -> Sums:
    reductions = [i.name for i in op.space.of_kind(REDUCTION)]
    blocks = [(n, tiles.get(n, 1) * rng.choice(_SIZES)) for n in reductions if rng.random() < 0.5]
    return Sums(position, tuple(blocks), tuple([n for n in reductions if rng.random() < 0.4]))
