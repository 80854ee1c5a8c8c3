"""Place every allocation of `main` in one arena.

What lives at different times may share memory.

A plan first: the first and last launch that touch each allocation, then offsets by decreasing
size, each at the lowest place that is free during its life. Applying writes the offsets into the
ops.

Allocations whose sizes are free come after these. Each has a little more than it needs, so that
they can be compared (`reserve`), and takes the lowest place, by what is typical, that is surely
apart from what lives at the same time; where that is beyond what there is so far, it comes after
all. Their offsets are expressions. What kernels want as scratch beside the stack lies after all
else, a part for each thread.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from minicc.ir import affine, affine_facts, program
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.kernel import scratch_of
from minicc.ir.scan import largest_rounds
from minicc.ir.types import buffer_bytes
from minicc.passes.program.reserve import Derived, Order, Reserve, fresh_names, growth

Loops = tuple[program.Loop, ...]


class Life(NamedTuple):
    """An allocation: the value, bytes with padding, and the positions of its first and last use."""

    value: Value
    size: Dim
    first: int
    last: int


class MemoryPlan(NamedTuple):
    """Byte offsets of all allocations, the bytes of the arena, and names for the free ones.

    And the bytes that are `reserved` for those of free sizes.
    """

    offsets: dict[Value, Dim]
    size: Dim
    derived: tuple[tuple[str, Dim], ...] = ()
    reserved: Mapping[Value, Dim] = {}


def plan_memory(module: Module) -> Module:
    """Give each allocation its offset; the module is at level program then."""
    main = module.main
    plan = plan_offsets(lifetimes(main), main.attrs.get("derived", ()))
    attrs = {**main.attrs, "arena": plan.size}
    kernels = {f.name: (f, scratch_of(f)) for f in module.functions if f is not main}
    ranges = largest_rounds(main.body)
    wanted = (_scratch(op, *kernels[op.kernel]) for op in program.launches(main.body))
    scratch = largest_sum([affine_facts.at_most(size, ranges) for size in wanted])
    if scratch != 0:
        attrs["scratch"] = scratch
    if plan.derived:
        attrs["derived"] = (*main.attrs.get("derived", ()), *plan.derived)
    placed = Function(main.name, _placed(main.body, plan, {}), attrs)
    return Module("program", [placed if f is main else f for f in module.functions])


def _scratch(op: program.Launch, function: Function, bytes_: Dim) -> Dim:
    """Bytes of scratch that is not on the stack, as a launch of a kernel wants them."""
    return affine.substitute(bytes_, op.sizes_in(function)) if bytes_ != 0 else 0


def _placed(region: Region, plan: MemoryPlan, forward: dict[Value, Value]) -> Region:
    ops: list[Op] = []
    for op in region.ops:
        operands = [forward.get(v, v) for v in op.operands]
        if isinstance(op, program.Alloc):
            places = plan.offsets[op.result], plan.reserved.get(op.result, 0)
            fresh: Op = op.rebuilt(operands, offset=places[0], reserved=places[1])
        else:
            fresh = op.rebuilt(operands, [_placed(r, plan, forward) for r in op.regions])
        for old, new in zip(op.results, fresh.results, strict=True):
            new.hint = old.hint
            forward[old] = new
        ops.append(fresh)
    return Region(region.args, ops, region.yields)


def lifetimes(main: Function) -> list[Life]:
    """When each allocation is used, by positions in `main`.

    What is used within a loop alone lives from its first to its last use there, since each round
    makes it anew; anything else that a loop uses is kept until its last round is done.
    """
    root = program.roots(main)
    uses: dict[Value, list[tuple[int, Loops]]] = {}
    within: dict[program.Loop, list[int]] = {}
    for position, (op, loops) in enumerate(_users(main.body, ())):
        for loop in loops:
            within.setdefault(loop, []).append(position)
        for v in op.operands:
            uses.setdefault(root[v], []).append((position, loops))
    span: dict[Value, tuple[int, int]] = {}
    for v, found in uses.items():
        columns = zip(*[loops for _, loops in found], strict=False)
        shared = sum(1 for _ in takewhile(lambda c: len({*c}) == 1, columns))
        whole = [within[loops[shared]] if loops[shared:] else [p] for p, loops in found]
        span[v] = min(p[0] for p in whole), max(p[-1] for p in whole)
    lives: list[Life] = []
    for made in main.body.ops:
        if isinstance(made, program.Alloc):
            first, last = span.get(made.result, (0, 0))
            lives.append(Life(made.result, buffer_bytes(made.type), first, last))
    return lives


def largest_sum(sizes: Sequence[Dim]) -> Dim:
    """Bytes that are enough for each of some sizes: the sum of those that no other one covers."""
    kept: list[Dim] = []
    for size in sorted(dict.fromkeys(sizes), key=lambda n: (-affine.typical(n), str(n))):
        if not any(affine_facts.at_least(other, size) for other in kept):
            kept.append(size)
    total: Dim = 0
    for size in kept:
        total = total + size
    return total


def _users(region: Region, loops: Loops) -> Iterator[tuple[Op, Loops]]:
    """What reads or writes memory in order, each with the loops around it.

    One branch stands after the other: as only one of them runs, both may use the same memory.
    """
    for op in region.ops:
        inside = (*loops, op) if isinstance(op, program.Loop) else loops
        if isinstance(op, (program.Launch, program.If, program.Loop, program.Sized)):
            yield op, inside
        for inner in op.regions:
            yield from _users(inner, inside)


def plan_offsets(lives: list[Life], known: Derived = ()) -> MemoryPlan:
    """Offsets by decreasing size, each at the lowest place free during its life.

    `known` are the sizes that are computed from others.
    """
    fixed = [(life.size, life) for life in lives if isinstance(life.size, int)]
    placed: list[tuple[int, int, Life]] = []
    total = 0
    for size, life in sorted(fixed, key=lambda x: (-x[0], x[1].first)):
        offset = 0
        for start, end, _ in sorted(
            ((o, o + n, x) for o, n, x in placed if meet(x, life)), key=lambda p: p[0]
        ):
            if offset + size <= start:
                break
            offset = max(offset, end)
        placed.append((offset, size, life))
        total = max(total, offset + size)
    offsets: dict[Value, Dim] = {life.value: offset for offset, _, life in placed}
    free = [life for life in lives if not isinstance(life.size, int)]
    return _plan_free(free, known, offsets, total) if free else MemoryPlan(offsets, total)


def meet(a: Life, b: Life) -> bool:
    """Whether two live at the same time, and so lie apart."""
    return a.first <= b.last and b.first <= a.last


class Want(NamedTuple):
    """An allocation of a free size: bytes that are reserved for it, and those of typical sizes."""

    life: Life
    size: Dim
    number: int


class Placed(NamedTuple):
    """An allocation of a free size: where it begins and ends, also as numbers for typical sizes."""

    life: Life
    start: Dim
    end: Dim
    first: int
    last: int


def _plan_free(
    lives: list[Life], known: Derived, offsets: dict[Value, Dim], total: int
) -> MemoryPlan:
    """Places for allocations of free sizes after what is placed already.

    Those that grow alike lie together, as of others none can be told to be the larger one.
    """
    types = {life: life.value.type for life in lives}
    exact = {life: type.reach() * type.dtype.bytes for life, type in types.items()}
    reserve = Reserve([*exact.values()], known)
    alike: dict[frozenset[tuple[str, ...]], list[Want]] = {}
    for life, size in exact.items():
        bytes_ = reserve.bytes(size)
        want = Want(life, bytes_, reserve.typical(bytes_))
        alike.setdefault(growth(bytes_), []).append(want)
    placed: list[Placed] = []
    end: Dim = total
    for wants in alike.values():
        found, end = _placed_alike(wants, end, reserve)
        placed += found
    plan = _named(placed, [*known, *reserve.derived], offsets, end)
    return plan._replace(derived=(*reserve.derived, *plan.derived))


def _placed_alike(wants: Sequence[Want], base: Dim, reserve: Reserve) -> tuple[list[Placed], Dim]:
    """Places from a base on, and where they end.

    By decreasing size, each at the lowest place that is surely free during its life.
    """
    placed: list[Placed] = []  # by where they begin
    low, order = reserve.typical(base), reserve.order
    ends, last = [base], low  # of all that is placed: none is surely the last
    for life, size, number in sorted(wants, key=lambda want: (-want.number, want.life.first)):
        met = [other for other in placed if meet(other.life, life)]
        for first, start in _gaps(met, number, low, base):
            found = Placed(life, start, start + size, first, first + number)
            if found.last <= last and all(_apart(found, other, order) for other in met):
                break
        else:
            start = reserve.largest(ends)
            found = Placed(life, start, start + size, last, last + number)
            ends, last = [], found.last
        insort(placed, found, key=lambda other: other.first)
        if not any(order.before(found.end, end) for end in ends):
            ends = [end for end in ends if not order.before(end, found.end)] + [found.end]
    return placed, reserve.largest(ends)


def _gaps(met: Iterable[Placed], number: int, low: int, base: Dim) -> Iterator[tuple[int, Dim]]:
    """Where something of a size fits between places, which come by where they begin.

    As far as numbers tell: the first place from a base on, as a number and as an expression.
    """
    free, start = low, base
    for other in met:
        if free + number <= other.first:
            yield free, start
        if other.last >= free:
            free, start = other.last, other.end
    yield free, start


def _apart(a: Placed, b: Placed, order: Order) -> bool:
    """Whether two places surely do not overlap; their numbers are asked first."""
    if a.last <= b.first:
        return order.before(a.end, b.start)
    return b.last <= a.first and order.before(b.end, a.start)


def _named(
    placed: Sequence[Placed], known: Derived, offsets: dict[Value, Dim], end: Dim
) -> MemoryPlan:
    """The plan with a name for each offset that is computed."""
    fresh = fresh_names("$at", known)
    names: dict[Dim, str] = {}
    for start in (other.start for other in placed):
        if start not in names and not isinstance(start, int):
            names[start] = next(fresh)
    for other in placed:
        start = other.start
        offsets[other.life.value] = affine.symbol(names[start]) if start in names else start
    reserved = {other.life.value: other.end - other.start for other in placed}
    derived = tuple((name, value) for value, name in names.items())
    return MemoryPlan(offsets, end, derived, reserved)
