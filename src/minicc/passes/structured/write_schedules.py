"""Write a schedule to each group: its own if it has one, or that given for its name, or one chosen.

    structured.group %x, %w {shared = ["n", "co"], label = "Conv_0"}
    -->   structured.group %x, %w {..., schedule = schedule<grid = ["n", "co"], tiles = <co=32>>}

How groups are tiled is chosen in `schedule`, and what is written past the caches in `past_caches`;
which operands are packed is chosen here, by whether
they are constant: what contractions read in vectors is copied into the order in which their tiles
read it, where that pays. Weights too large for the nearer caches are fetched `ahead`: while a block
of rows is multiplied by one panel, the next panel comes in.

Files of schedules name a group by its first node and how many more it computes for, with a number
after a second one of that name: `Conv_0 +2`, `Conv_0 +2 #2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from math import prod
from typing import TYPE_CHECKING

from minicc.errors import UserError, did_you_mean
from minicc.ir import affine
from minicc.ir.core import Module, Op, Region, Value, walk_control
from minicc.ir.index_maps import contiguous_name
from minicc.ir.schedule import Packing, Schedule
from minicc.ir.structured import Constant, Generic, Group, Scan
from minicc.later import Later
from minicc.passes.structured.contraction import Contraction, contraction_of
from minicc.passes.structured.draft import STREAMED
from minicc.passes.structured.fusion_plan import Wishes
from minicc.passes.structured.legal import require_legal
from minicc.passes.structured.past_caches import results_past_caches
from minicc.passes.structured.products import PACK_READS
from minicc.passes.structured.schedule import choose_schedule, constants_of
from minicc.target import Target

if TYPE_CHECKING:
    from minicc.ir.text import parser
else:
    parser = Later("minicc.ir.text.parser")

_FAR = 8  # times what stays in the second cache: rows of so many bytes come from far
_PANELS = 24  # of columns that read rows again


class Given:
    """What a user gave: schedules by the names of groups, which of them were used, and wishes."""

    def __init__(self, text: str = "", wishes: Wishes | None = None) -> None:
        self.wishes = wishes or Wishes()
        self.schedules = parser.parse_schedules(text, source="schedules") if text else {}
        self.used: set[str] = set()

    def find(self, name: str) -> Schedule | None:
        """The schedule of a group, if one was given."""
        self.used.add(name)
        return self.schedules.get(name)

    def require_used(self) -> None:
        """UserError (MC0138, MC0139, MC0186) where no group has a name, or no ops are a pair."""
        self.wishes.require_met()
        for name in sorted(self.schedules.keys() - self.used):
            hint = did_you_mean(name, self.used)
            hint = f"{hint} minicc compile MODEL --schedules prints all".lstrip()
            raise UserError("MC0186", f"no group is called {name!r}", hint=hint)


def write_schedules(module: Module, target: Target, given: Given) -> Module:
    """The module with a schedule for each group."""
    writer = _Writer(target, given, constants_of(module))
    functions = [f.with_body(writer.region(f.body, set())) for f in module.functions]
    return Module(module.level, functions)


def require_all_legal(module: Module, target: Target, stage: str) -> None:
    """UserError where a schedule does not fit its group, which a person may have edited.

    `stage` is the next one; where that is `pack`, the groups are tiled.
    """
    if stage in ("tile", "pack"):
        for _, group in named_groups(module):
            if group.schedule is not None:
                require_legal(group, group.schedule, target, tiled=stage == "pack")


def named_groups(module: Module) -> Iterator[tuple[str, Group]]:
    """The groups of a module by their names, in order."""
    names: dict[str, int] = {}
    for op in (op for f in module.functions for op in walk_control(f.body)):
        if isinstance(op, Group):
            yield _next_name(op, names), op


def _next_name(group: Group, names: dict[str, int]) -> str:
    first, *more = group.loc
    name = f"{first} +{len(more)}" if more else first
    count = names[name] = names.get(name, 0) + 1
    return f"{name} #{count}" if count > 1 else name


class _Writer:
    """Walks a module, with the names of groups so far."""

    def __init__(self, target: Target, given: Given, constants: frozenset[Value]) -> None:
        self.target = target
        self.given = given
        self.constants = constants
        self.names: dict[str, int] = {}

    def region(self, region: Region, known: set[Value], fixed: Set[Value] = frozenset()) -> Region:
        """A region whose groups have schedules.

        `known` are constants, `fixed` the values that are the same in all rounds of its loop.
        """
        ops: list[Op] = []
        for op in region.ops:
            if isinstance(op, Constant):
                known.add(op.result)
            elif isinstance(op, Group):
                name = _next_name(op, self.names)
                plan = op.schedule or self.given.find(name)
                if plan is None:
                    plan = self.chosen(op, known, fixed)
                else:
                    require_legal(op, plan, self.target)
                op = op.with_regions(op.regions, schedule=plan)
            elif op.control:
                op = op.with_regions([self.inner(op, r, known) for r in op.regions])
            ops.append(op)
        return Region(region.args, ops, region.yields)

    def inner(self, op: Op, region: Region, known: set[Value]) -> Region:
        """A region of a loop or branch, where what is captured may be constant."""
        count = len(region.args) - op.first if isinstance(op, Scan) else len(region.args)
        captured = region.args[len(region.args) - count :]
        outer = op.operands[len(op.operands) - count :]
        known.update(a for a, v in zip(captured, outer, strict=True) if v in known)
        return self.region(region, known, {*captured} if isinstance(op, Scan) else set())

    def chosen(self, group: Group, known: Set[Value], fixed: Set[Value]) -> Schedule:
        """The schedule that is chosen for a group."""
        plan = choose_schedule(group, self.target, self.constants)
        packs = tuple(_packs(group, plan, known, fixed, self.target))
        past = results_past_caches(group, self.target)
        return plan._replace(packs=packs, nontemporal=past) if packs or past else plan


def _packs(
    group: Group, plan: Schedule, known: Set[Value], fixed: Set[Value], target: Target
) -> Iterator[Packing]:
    """The operands of contractions that are packed, and how far ahead they are fetched."""
    # a large matrix of which a few rows are read at once is read once
    as_it_lies = {a.op for a in plan.around if a.size <= STREAMED}
    copied = {(p.op, p.operand) for p in plan.promotes}
    for position, op in enumerate(group.body.ops):
        contraction = contraction_of(op)
        if contraction is None or contraction.rhs is None or position in as_it_lies:
            continue
        if (position, contraction.rhs) in copied:
            twice = (position, contraction.lhs) in copied
            if not twice and _rows_pay(contraction, group, plan, known, target):
                yield Packing(position, contraction.lhs, 0)
            continue
        op, k = contraction.op, contraction.rhs
        if op.operands[k] not in group.body.args:
            continue
        outer = group.operands[group.body.args.index(op.operands[k])]
        names = contraction.varies(k)
        moves = any(map(affine.sizes, op.input_maps[k]))  # with the rounds of a loop
        if outer in known:
            # what is repeated along a free dimension has no size that is known now
            pays = not moves and all(isinstance(op.space[n].extent, int) for n in names)
        else:
            pays = _read_often(op, plan, names, outer in fixed and not moves)
        if pays:
            # what the round before has read or a copy has written is near: to fetch it only costs
            far = outer in known and outer not in fixed
            ahead = _distance(op, plan, names, group.shared, target) if far else 0
            yield Packing(position, k, ahead)
        if _rows_pay(contraction, group, plan, known, target):
            yield Packing(position, contraction.lhs, 0)


def _rows_pay(
    contraction: Contraction, group: Group, plan: Schedule, known: Set[Value], target: Target
) -> bool:
    """Whether rows of a large matrix are copied into the order in which tiles read them.

    Panel after panel of columns passes over them, and they come from far: as one stream then.
    """
    op, lhs = contraction.op, contraction.lhs
    if not contraction.reads_matrices or op.operands[lhs] not in group.body.args:
        return False
    inner = [n for n in plan.grid if n == contraction.columns or n in contraction.rows][-1:]
    as_it_lies = contiguous_name(op.input_maps[lhs]) in contraction.depth
    if plan.around and inner == [contraction.columns]:
        return not as_it_lies  # all columns of a block pass over some rows while these are near
    outer = group.operands[group.body.args.index(op.operands[lhs])]
    names = contraction.varies(lhs)
    if outer in known or not op.space.static:
        return False
    extents = op.space.extents
    rows = prod(extents[n] for n in (*contraction.rows, *contraction.depth) if n in names)
    size = rows * op.operands[lhs].type.dtype.bytes
    return size > _FAR * target.resident and _reads(op, plan, names) >= _PANELS


def _read_often(op: Generic, plan: Schedule, names: Set[str], again: bool) -> bool:
    """Whether packing pays for what is no constant: each element is read several times.

    That may be within the op, or `again` in each round of a loop.
    """
    empty = any(i.extent == 0 for i in op.space.iters)
    return not empty and (again or _reads(op, plan, names) >= PACK_READS)


def _reads(op: Generic, plan: Schedule, names: Set[str]) -> int:
    """How often an op reads each element of an operand that varies along some dimensions."""
    tiles = {**dict(plan.tiles), **dict(plan.widths), **{c.name: c.steps[0] for c in plan.cover}}
    steps = dict(plan.steps)
    reads = 1
    for name, extent in op.space.typical.items():
        if name not in names:
            size = tiles.get(name, 1)
            reads *= -(-extent // size) * -(-size // steps.get(name, size))
    return reads


def _distance(
    op: Generic, plan: Schedule, names: Set[str], shared: tuple[str, ...], target: Target
) -> int:
    """How many elements ahead to fetch a packed operand: a panel, or what stays near of it.

    Passes of rows over a panel share in fetching the next one, however large; where there is but
    one pass, what it fetches must still be near when it gets there. 0 where all of it stays near.
    """
    tiles, widths = dict(plan.tiles), dict(plan.widths)
    panel = panels = 1
    once = True
    for i in op.space.iters:
        if i.name in names:
            extent = affine.typical(i.extent)
            size = (tiles if i.name in shared else widths).get(i.name, 1)
            whole = -(-extent // size)
            panel *= size if i.name in shared else whole * size
            panels *= whole if i.name in shared else 1
        elif i.name in shared:  # rows, which pass over a panel
            once = once and i.extent == tiles.get(i.name, 1)
    element: int = op.results[0].type.dtype.bytes
    if panels * panel * element <= target.resident:
        return 0
    return min(panel, target.resident // 2 // element) if once else panel
