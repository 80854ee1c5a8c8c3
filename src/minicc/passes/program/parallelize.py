"""Make the program parallel.

Choose the axes along which threads share each launch, and put barriers between launches.

The axes are those along which threads are done first: they fall into even shares, and what a share
reads is with its thread already (`affinity`). A launch that is too small to share is left to the
caller. A barrier stands before a launch (or a branch, which reads its
condition, or what reads a size) that touches memory which another thread may have written, or may
still read, since the last barrier. Who computes an instance never changes its bits: results don't
depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import prod
from typing import Any, NamedTuple

from minicc.ir import affine, affine_facts, program
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Module, Op, Region, Value, walk
from minicc.ir.scan import largest_rounds
from minicc.ir.types import buffer_bytes
from minicc.passes.program.affinity import Affinity
from minicc.passes.program.plan_memory import Life, lifetimes, meet
from minicc.passes.program.reserve import Order
from minicc.passes.program.zigzag import back_and_forth
from minicc.target import Target

_SMALL = 16384  # points of a launch below which a barrier costs more than the second thread saves
_TEAMS = (2, 4)  # numbers of threads whose shares are to be even
_EVEN = 0.9  # of an axis, whose shares no other need make more even
_FAIR = 0.8  # where extents are free: of known ones, to be better than those
_MOST_AXES = 4  # that are counted as one


class Access(NamedTuple):
    """Memory that a launch touches.

    Which memory (None is the arena), bytes from and to, whether it writes, and the order of its
    places. What lives at the same time in the arena lies apart.
    """

    memory: Value | None
    start: Dim
    stop: Dim
    writes: bool
    order: Order = Order(())
    life: Life | None = None

    def lies_apart(self, other: Access) -> bool:
        """Whether both are allocations of the arena that live at the same time."""
        a, b = self.life, other.life
        return a is not None and b is not None and a != b and meet(a, b)

    def conflicts(self, other: Access) -> bool:
        """Whether the two must not be reordered."""
        return (
            (self.writes or other.writes)
            and self.memory == other.memory
            and not self.lies_apart(other)
            and not self.order.before(self.stop, other.start)
            and not self.order.before(other.stop, self.start)
        )


def parallelize(module: Module, target: Target) -> Module:
    """Choose the split of each launch, and insert barriers."""
    main = module.main
    kernels = {f.name: f for f in module.functions if f is not main}
    allocs = (op for op in main.body.ops if isinstance(op, program.Alloc))
    derived = main.attrs.get("derived", ())
    # names of offsets tell nothing of what lies apart
    named, order = dict(derived), Order(derived)
    lives = {life.value: life for life in lifetimes(main)}
    slots = {op.result: _slot(op, lives[op.result], named, order) for op in allocs}
    ranges = largest_rounds(main.body)
    root = program.roots(main)
    body, _ = _Sharing(kernels, root, slots, ranges, target).region(main.body, {})
    body = back_and_forth(body, kernels, root, target)
    return Module(
        module.level, [main.with_body(body) if f is main else f for f in module.functions]
    )


Open = dict[tuple[Access, bool], None]


class _Sharing:
    """Walks a program with what was touched since the last barrier, and whether by thread 0 alone.

    What the end of a loop's body leaves open is open at its beginning, too: the body is looked at
    again until that adds nothing.
    """

    def __init__(
        self,
        kernels: Mapping[str, Function],
        root: Mapping[Value, Value],
        slots: Mapping[Value, tuple[Access, Access]],
        ranges: Mapping[str, Dim],
        target: Target,
    ) -> None:
        self.kernels = kernels
        self.affinity = Affinity(kernels, root, target)
        self.root = root
        self.slots = slots
        self.ranges = ranges
        # a loop within others is asked for many times
        self._loops: dict[tuple[program.Loop, frozenset[Any]], tuple[program.Loop, Open]] = {}

    def region(self, region: Region, entered: Open) -> tuple[Region, Open]:
        """The region with shares and barriers, and what is open after it."""
        ops: list[Op] = []
        touched = dict(entered)
        for op in region.ops:
            split: tuple[int, ...] = ()  # the caller reads conditions and sizes
            if isinstance(op, program.Launch):
                most = affine_facts.at_most(op.work, self.ranges)
                grid = self.kernels[op.kernel].attrs["grid"]
                split = choose_split(grid, most, partial(self.affinity.cost, op))
                self.affinity.note(op, split)
                op = op.rebuilt(op.operands, split=split)
            if isinstance(op, program.Launch | program.If | program.Loop | program.Sized):
                barrier, touched = self.waited(op, touched, not split)
                ops += barrier
            if isinstance(op, program.Launch):
                touched.update(((a, not split), None) for a in self.accesses(op))
            elif isinstance(op, program.If):
                op, touched = self.branch(op, touched)
            elif isinstance(op, program.Sized):
                body, touched = self.region(op.body, touched)
                op = op.with_regions([body])
            elif isinstance(op, program.Loop):
                first, op, touched = self.best_loop(op, touched)
                ops += first
            ops.append(op)
        return Region(region.args, ops, region.yields), touched

    def waited(self, op: Op, touched: Open, alone: bool) -> tuple[list[Op], Open]:
        """A barrier, if memory that an op touches is in use by others; what is open then.

        What the caller alone has touched needs none where it does the op `alone`, too.
        """
        accesses = list(self.accesses(op))
        others = [access for access, own in touched if not (own and alone)]
        if any(a.conflicts(b) for a in accesses for b in others):
            return [program.Barrier(loc=op.loc)], {}
        return [], touched

    def accesses(self, op: Op) -> Iterable[Access]:
        """The memory that an op touches; not what those within it do."""
        for k, v in enumerate(op.operands):
            memory = self.root[v]
            writes = isinstance(op, program.Launch) and k >= op.outputs
            slot = self.slots.get(memory)
            yield slot[writes] if slot else Access(memory, 0, 1, writes)

    def branch(self, op: program.If, entered: Open) -> tuple[program.If, Open]:
        """Both branches; after them is open what either leaves."""
        made = [self.region(r, entered) for r in op.regions]
        left = {access: None for _, left in made for access in left}
        return op.with_regions([region for region, _ in made]), left

    def best_loop(self, op: program.Loop, entered: Open) -> tuple[list[Op], program.Loop, Open]:
        """A loop, with a barrier before it where that spares one in each round."""
        as_is = self.loop(op, entered)
        if not entered:
            return [], *as_is
        alone = self.loop(op, {})
        if _barriers(alone[0].body) < _barriers(as_is[0].body):
            return [program.Barrier(loc=op.loc)], *alone
        return [], *as_is

    def loop(self, op: program.Loop, entered: Open) -> tuple[program.Loop, Open]:
        """A loop for any round; after it is open what some round leaves, or none ran."""
        key = op, frozenset(entered)
        if key not in self._loops:
            self._loops[key] = self._loop(op, entered)
        made, left = self._loops[key]
        return made, dict(left)

    def _loop(self, op: program.Loop, entered: Open) -> tuple[program.Loop, Open]:
        before = entered
        surely = isinstance(op.count, int) and op.count > 0 and not op.conditions
        while True:
            body, left = self.region(op.body, before)
            barrier, left = self.waited(op, left, True)  # before the next round's condition is read
            if left.keys() <= before.keys():
                body = Region(body.args, [*body.ops, *barrier], ())
                return op.with_regions([body]), left if surely else before
            before = {**before, **left}


def _barriers(region: Region) -> int:
    return sum(isinstance(op, program.Barrier) for op in walk(region))


def choose_split(
    grid: tuple[Dim, ...], work: Dim, waits: Callable[[int], float]
) -> tuple[int, ...]:
    """The axes along which threads are done first, counted as one; none where sharing doesn't pay.

    The outermost decides what a thread has at hand: `waits` says how long it waits for what it
    reads, in multiply-adds. Those after it make shares even.
    """
    # of free sizes how much work there is, is looked at when the launch is handed out
    if isinstance(work, int) and work < _SMALL:
        return ()
    extents = [affine.typical(n) for n in grid]
    free = tuple(k for k, n in enumerate(grid) if not isinstance(n, int))
    known = [k for k, n in enumerate(grid) if isinstance(n, int) and n > 1]

    def evenness(axes: Iterable[int]) -> float:
        places = max(1, prod(extents[k] for k in axes))
        return sum(places / (n * -(-places // n)) for n in _TEAMS) / len(_TEAMS)

    def made_even(axes: tuple[int, ...]) -> tuple[int, ...]:
        if evenness(axes) >= _EVEN:
            return axes
        others = [k for k in known if k not in axes]
        others.sort(key=lambda k: evenness((*axes, k)), reverse=True)
        return (*axes, *free, *others[:1])[:_MOST_AXES]

    def time(axes: tuple[int, ...]) -> tuple[float, int]:
        computing = affine.typical(work) / (len(_TEAMS) * evenness(axes))
        return computing + waits(axes[0]), len(axes)

    # a free extent may be 1, as a batch often is: all of them count, and a known one is surer
    sure = [k for k in known if not free or evenness((k,)) >= _FAIR]
    if sure:
        return min((made_even((k,)) for k in sure), key=time)
    return (*free, *known)[:_MOST_AXES] if free else ()


def _slot(
    op: program.Alloc, life: Life, named: Mapping[str, Dim], order: Order
) -> tuple[Access, Access]:
    """How an allocation is read, and how it is written."""
    start = affine.substitute(op.offset, named)
    size = buffer_bytes(op.type) if op.reserved == 0 else op.reserved
    read = Access(None, start, start + size, False, order, life)
    return read, read._replace(writes=True)
