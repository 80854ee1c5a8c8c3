"""structured -> kernel, the host half: memory for tensors, launches for groups.

Every tensor gets memory, and every group becomes a kernel and a launch.

A plan first (`buffers`): where each tensor lies. Then `bufferize` emits `main` and the kernels;
equal kernels are made once. Loops and branches become ops around their launches.

The border of a padded buffer is filled in each run, as far as it is read (`padding`), since the
arena reuses memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from minicc.errors import CompilerBug
from minicc.ir import affine, arith, kernel, program
from minicc.ir.affine import Dim
from minicc.ir.bind import formal, sizes_of
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Module, Op, Region, Value, walk_control
from minicc.ir.graph.shapes import Shape, product
from minicc.ir.rewrite import inline
from minicc.ir.scan import largest_rounds
from minicc.ir.space import Iter, Space
from minicc.ir.structured import (
    Concat,
    Constant,
    Generic,
    Group,
    If,
    InsertSlice,
    Kernel,
    Pad,
    Reshape,
    Scan,
    Scatter,
    Sized,
)
from minicc.ir.types import INDEX_TYPE, BufferType, TensorType
from minicc.passes.structured.buffers import (
    BufferPlan,
    Place,
    operand_starts,
    part_of,
    plan_buffers,
    shift_of,
)
from minicc.passes.structured.group_kernels import GroupKernels, Show
from minicc.passes.structured.late_reads import read_late
from minicc.passes.structured.padding import around, border, readers_of
from minicc.passes.structured.past_caches import results_past_caches
from minicc.passes.structured.scatter import scatter_kernel
from minicc.passes.structured.schedule import choose_schedule
from minicc.passes.structured.tile import tile_group
from minicc.target import Target

_A_POINT = 4  # what a multiply-add reads, computes and writes


def work_of(group: Group) -> Dim:
    """The points of all iteration spaces of a group, each as many as it is multiply-adds' worth.

    A point of a transform may read, compute and write hundreds of scalars.
    """
    total: Dim = 0
    for op in group.body.ops:
        assert isinstance(op, Generic)
        computed = sum(not isinstance(inner, arith.Constant) for inner in op.body.ops)
        weight = (len(op.operands) + computed + len(op.body.yields)) // _A_POINT
        total = total + product(tuple(i.extent for i in op.space.iters)) * max(1, weight)
    return total


def bufferize(module: Module, target: Target, show: Show | None = None) -> Module:
    """Turn a module of tiled groups into kernels and a `main` that launches them on buffers.

    `show` is given kernels before the rest is made, those that may differ in numbers alone
    together. They get their names later.
    """
    main = read_late(module.main)
    emitter = _Emitter(main, plan_buffers(main), target)
    if show is not None:
        emitter.kernels.show(main.body, show)
    return emitter.run()


class _Emitter:
    def __init__(self, function: Function, plan: BufferPlan, target: Target) -> None:
        self.target = target
        self.function = function
        self.plan = plan
        shapes = [a.type.shape for a in function.args]
        self.sizes = {n for shape in shapes for e in shape for n in affine.sizes(e)}
        self.sizes.update(function.attrs.get("sizes", ()))
        self.sizes.difference_update(name for name, _ in function.attrs.get("derived", ()))
        self.free = bool(self.sizes or largest_rounds(function.body))
        self.kernels = GroupKernels(plan, self.free)
        self.b = self.top = Builder(())
        self.rounds: dict[str, Value] = {}
        self.roots: dict[Value, Value] = {}
        self.readers = readers_of(function)
        self.makers = {r: op for op in walk_control(function.body) for r in op.results}
        self.filled: set[Op] = set()  # pads whose borders are filled before their loop

    def run(self) -> Module:
        args: list[Value] = []
        for a in self.function.args:
            self.roots[a] = Value(BufferType(a.type.dtype, a.type.shape), a.hint)
            args.append(self.roots[a])
        for root in self.plan.outputs.values():
            self.roots[root] = Value(root.type, root.hint)
            args.append(self.roots[root])
        self.region(self.function.body)
        self.copy_outputs()
        attrs: dict[str, Any] = {"inputs": len(self.function.args)}
        if self.sizes:
            attrs |= {**self.function.attrs, "sizes": tuple(sorted(self.sizes))}
            attrs.pop("donates", None)
        if self.plan.donated:
            attrs["donated"] = tuple(self.plan.donated)
        main = Function("main", Region(args, self.b.ops, ()), attrs)
        return Module("kernel", [*self.kernels.named.values(), main])

    def region(self, region: Region) -> None:
        """Emit the ops of a region in order."""
        for op in region.ops:
            self.b.loc = self.top.loc = op.loc
            if isinstance(op, Constant):
                self.roots[op.result] = self.top.emit(program.Constant, value=op.value)
            elif isinstance(op, Group):
                self.launch(op)
            elif isinstance(op, Kernel):
                self.by_hand(op)
            elif isinstance(op, (Pad, Concat)):
                self.movement(op)
            elif isinstance(op, InsertSlice):
                self.insertion(op)
            elif isinstance(op, Scatter):
                self.scattering(op)
            elif isinstance(op, Scan):
                self.loop(op)
            elif isinstance(op, If):
                self.branch(op)
            elif isinstance(op, Sized):
                self.sized(op)
            elif not isinstance(op, Reshape):
                raise CompilerBug("MC0305", f"{op.opname} can't be bufferised", where=op.loc)

    def loop(self, op: Scan) -> None:
        """A loop around the launches of its body; first states that lie elsewhere are copied."""
        for k, v in enumerate(op.operands[: op.states]):
            if (op, k) in self.plan.copies:
                start = self.at(self.plan.state(op, k, 0), v)
                self.copy(v, start, op.loc)
        self.fill_before(op)
        outer, self.b = self.b, Builder(op.loc)
        name, end = self.plan.rounds[op]
        self.rounds[name] = Value(INDEX_TYPE, name)
        self.region(op.body)
        for k, v in enumerate(op.body.yields[: op.states]):
            there = self.plan.state(op, k, affine.add(affine.symbol(name), 1))
            if self.plan.places[v] != there:  # what a loop within leaves
                self.copy(v, self.at(there, v), op.loc)
        body = Region((self.rounds[name],), self.b.ops, ())
        self.b = outer
        conditions: list[Value] = []
        if op.condition:
            place = self.plan.state(op, 0, 0)
            self.at(place, op.operands[0])  # which allocates it
            conditions.append(self.roots[place.root])
        made = self.b.add(
            program.Loop(conditions, count=op.count, index=op.index, body=body, loc=op.loc)
        )
        self.rounds.update((str(end), rounds) for rounds in made.results)

    def branch(self, op: If) -> None:
        """Two regions, which leave their results in the same memory."""
        condition = self.buffer(op.condition)
        then, other = (self.within(op, region) for region in op.regions)
        self.b.add(program.If(condition, then=then, other=other, loc=op.loc))

    def within(self, op: Op, region: Region) -> Region:
        """A region that leaves what it yields where the op's results lie."""
        outer, self.b = self.b, Builder(op.loc)
        self.region(region)
        for v, result in zip(region.yields, op.results, strict=True):
            there = self.plan.places[result]
            if self.plan.places[v] != there:
                self.copy(v, self.at(there, v), op.loc)
        made, self.b = self.b.ops, outer
        return Region((), made, ())

    def sized(self, op: Sized) -> None:
        """A region with a size that data give; what it changes and may not is copied before."""
        for r in op.results:
            k = self.plan.in_place.changed.get(r)
            if k is not None and (op, k) in self.plan.copies:
                v = op.operands[k]
                self.copy(v, self.buffer(r), op.loc)
        number, body = self.buffer(op.number), self.within(op, op.body)
        self.b.add(program.Sized(number, count=op.count, index=op.index, body=body, loc=op.loc))

    def buffer(self, v: Value, part: BufferType | None = None, shift: Dim = 0) -> Value:
        """The buffer of a tensor, as a view of its root where it is not all of it."""
        return self.at(self.plan.places[v], v, part, shift)

    def at(self, place: Place, v: Value, part: BufferType | None = None, shift: Dim = 0) -> Value:
        """The buffer at a place."""
        root = self.roots.get(place.root)
        if root is None:
            root = self.roots[place.root] = self.top.emit(program.Alloc, type=place.root.type)
            root.hint = place.root.hint
        type = part or BufferType(v.type.dtype, v.type.shape, place.strides)
        offset = affine.add(place.offset, shift)
        if type == root.type and offset == 0:
            return root
        names = sorted(affine.symbols(offset) & self.rounds.keys())
        at = {n: affine.symbol(f"i{k}") for k, n in enumerate(names)}
        rounds = tuple(self.rounds[n] for n in names)
        offset = affine.substitute(offset, at)
        return self.b.emit(program.View, root, rounds, type=type, offset=offset)

    def launch(self, group: Group) -> None:
        """Launch the group's kernel on the buffers of its tensors."""
        kernel, names = self.kernels.of(group)
        ins, outs = ([self.buffer(v) for v in vs] for vs in (group.operands, group.results))
        self.launch_kernel(kernel, names, group, ins, outs)

    def by_hand(self, op: Kernel) -> None:
        """Launch a kernel by hand, which sees its tensors where they lie."""
        buffers = [self.buffer(v) for v in (*op.operands, *op.results)]

        def made(taken: Kernel, types: Sequence[BufferType]) -> Function:
            return self.kernels.as_named(_on_buffers(taken, types, self.free), taken.label)

        work = product(op.grid) * elements_of(op.body)
        self.launch_op(op, buffers, made, outputs=len(op.operands), work=work)

    def launch_op(
        self, op: Op, buffers: list[Value], made: Callable[..., Function], **attrs: Any
    ) -> None:
        """Launch what is made of an op for types of buffers, with the sizes that it takes."""
        types, taken, names = [v.type for v in buffers], op, dict[str, str]()
        if self.free:
            taken, types, names = formal(op, types)
        function = made(taken, types)
        sizes = tuple(affine.symbol(names[n]) for n in function.attrs.get("sizes", ()))
        self.b.emit_all(program.Launch, buffers, kernel=function.name, sizes=sizes, **attrs)

    def launch_on(self, group: Group, ins: list[Value], outs: list[Value]) -> None:
        """Launch the kernel of a group that is not the module's on given buffers."""
        kernel, names = self.kernels.lowered(
            group, [v.type for v in (*ins, *outs)], len(ins), False
        )
        self.launch_kernel(kernel, names, group, ins, outs)

    def copy(
        self, v: Value, there: Value, loc: tuple[str, ...], source: Value | None = None
    ) -> None:
        """Copy a tensor to a buffer, from where it lies or a `source` of its type."""
        group = copy_group(v, loc)
        plan = choose_schedule(group, self.target)
        if not self.kernels.new:  # an output is such memory, and what is copied may go to one
            plan = plan._replace(nontemporal=results_past_caches(group, self.target))
        self.launch_on(tile_group(group, plan), [source or self.buffer(v)], [there])

    def launch_kernel(
        self,
        kernel: Function,
        names: dict[str, str],
        group: Group,
        ins: list[Value],
        outs: list[Value],
    ) -> None:
        """Launch what was made of a group."""
        if not kernel.body.ops:
            return  # there is no point to compute, however large the other extents are
        made = self.kernels.as_named(kernel, group.label or "kernel")
        sources = tuple(op.loc for op in group.body.ops)
        launch = program.Launch(
            (*ins, *outs),
            kernel=made.name,
            outputs=len(ins),
            sources=sources,
            sizes=tuple(affine.symbol(names[n]) for n in made.attrs.get("sizes", ())),
            work=work_of(group),
            loc=group.loc,
        )
        self.b.add(launch)

    def movement(self, op: Pad | Concat) -> None:
        """Fill the border of a pad, and copy the operands that were not written in place."""
        if isinstance(op, Pad) and op not in self.filled:
            self.fill(op, self.plan.places[op.result])
        starts = operand_starts(op)
        whole = self.plan.places[op.result]
        for k, (v, start) in enumerate(starts):
            if (op, k) not in self.plan.copies:
                continue
            shift = shift_of(start, whole.strides)
            inside = BufferType(v.type.dtype, v.type.shape, whole.strides)
            self.copy(v, self.buffer(op.result, inside, shift), op.loc)

    def insertion(self, op: InsertSlice) -> None:
        """Copy the tensor and its new part, as far as they were not written in place."""
        whole = self.plan.places[op.result]
        old, new = ((op, k) in self.plan.copies for k in (0, 1))
        if old and not new:
            self.rest(op)
        elif old:
            self.copy(op.x, self.buffer(op.result), op.loc)
        if new:
            self.copy(op.new, self.at(part_of(op, whole), op.new), op.loc)

    def rest(self, op: InsertSlice) -> None:
        """Copy what is around the new part of a tensor, which is computed where it belongs."""
        inside, shape = op.extents(), op.x.type.shape
        sides = zip(op.starts, inside, shape, strict=True)
        edges = [(start, n - start - m) for start, m, n in sides]
        for start, extents in around(op.starts, inside, edges):
            box = Value(TensorType(op.x.type.dtype, extents))
            views: list[Value] = []
            for v in (op.x, op.result):
                strides = self.plan.places[v].strides
                type = BufferType(op.x.type.dtype, extents, strides)
                views.append(self.buffer(v, type, shift_of(start, strides)))
            self.copy(box, views[1], op.loc, source=views[0])

    def scattering(self, op: Scatter) -> None:
        """Copy the tensor, if it may not be changed, and put the updates to it."""
        if (op, 0) in self.plan.copies:
            self.copy(op.x, self.buffer(op.result), op.loc)
        buffers = [self.buffer(v) for v in (op.indices, op.updates, op.result)]

        def made(taken: Scatter, types: Sequence[BufferType]) -> Function:
            return self.kernels.as_named(scatter_kernel(taken, types), "scatter")

        work = product(op.updates.type.shape)
        self.launch_op(op, buffers, made, outputs=2, sources=(op.loc,), work=work)

    def fill_before(self, op: Scan) -> None:
        """Fill the borders of states that pads make, once for all rounds.

        Rounds write the inside alone. The first states are of such pads, too, so that one half of
        the memory has its border.
        """
        for k, (v, y) in enumerate(zip(op.operands, op.body.yields[: op.states], strict=False)):
            before, within = self.makers.get(v), self.makers.get(y)
            if not isinstance(before, Pad) or not isinstance(within, Pad):
                continue
            there = self.plan.places[v] == self.plan.state(op, k, 0)
            if there and self.plan.has_halves(op, k) and before.attrs == within.attrs:
                self.b.loc = within.loc
                self.fill(within, self.plan.state(op, k, 1))
                self.filled.add(within)

    def fill(self, op: Pad, whole: Place) -> None:
        """One kernel that writes the pad's value into what is read of its border."""
        strips: list[Value] = []
        for start, extents in border(op, self.readers.get(op.result)):
            shift = shift_of(start, whole.strides)
            type = BufferType(op.x.type.dtype, extents, whole.strides)
            strips.append(self.at(whole, op.result, type, shift))
        if strips:
            self.launch_on(fill_group(op.value, [s.type.shape for s in strips], op.loc), [], strips)

    def copy_outputs(self) -> None:
        """Outputs that are inputs, constants, views.

        Or given twice are copied into the caller's buffers.
        """
        for k, v in enumerate(self.function.body.yields):
            root = self.plan.outputs[k]
            if self.plan.places[v].root is root:
                continue
            self.b.loc = (self.function.result_names[k],)
            self.copy(v, self.roots[root], self.b.loc)


def _on_buffers(op: Kernel, types: Sequence[BufferType], free: bool) -> Function:
    """A kernel by hand for buffers of these types, which may have strides of their own."""
    axes = len(op.grid)
    old = op.body.args
    args = [*old[:axes], *[Value(t, a.hint) for t, a in zip(types, old[axes:], strict=True)]]
    b = Builder(op.loc)
    inline(b, op.body, args)
    body = Region(args, b.ops, ())
    sizes = sizes_of(body) if free else ()
    return Function(op.label, body, {"grid": op.grid} | ({"sizes": sizes} if sizes else {}))


def elements_of(region: Region) -> Dim:
    """The elements that the ops of a kernel's instance make, those of a loop in each round."""
    total: Dim = 0
    for op in region.ops:
        tiles = [r.type for r in op.results if isinstance(r.type, TensorType)]
        total = total + sum(prod(t.extents) for t in tiles)
        if isinstance(op, kernel.For):
            total = total + elements_of(op.body) * op.rounds
        elif isinstance(op, kernel.Range):
            total = total + elements_of(op.body) * affine.TYPICAL
    return total


def _tile_last(extents: Shape) -> tuple[tuple[str, int], ...]:
    last = min(affine.typical(extents[-1]), 64) if extents else 1
    return ((f"d{len(extents) - 1}", last),) if last > 1 else ()


def copy_group(v: Value, loc: tuple[str, ...]) -> Group:
    """A group that copies a tensor."""
    extents = v.type.shape
    identity = tuple(affine.symbol(f"d{k}") for k in range(len(extents)))
    arg, element = Value(v.type), Value(TensorType(v.type.dtype))
    op = Generic(
        (arg,),
        space=Space(Iter(f"d{k}", n) for k, n in enumerate(extents)),
        maps=(identity, identity),
        shapes=(extents,),
        combine=(None,),
        body=Region((element,), (), (element,)),
        loc=loc,
    )
    shared = tuple(f"d{k}" for k in range(len(extents)))
    body = Region((arg,), (op,), op.results)
    return Group((v,), shared=shared, label="copy", body=body, loc=loc)


def fill_group(value: Literal, strips: Sequence[Shape], loc: tuple[str, ...]) -> Group:
    """A group with no inputs that fills tensors of the given extents, in one instance."""
    ops: list[Op] = []
    for extents in strips:
        constant = arith.Constant(value=value, loc=loc)
        ops.append(
            Generic(
                (),
                space=Space(Iter(f"d{k}", n) for k, n in enumerate(extents)),
                maps=(tuple(affine.symbol(f"d{k}") for k in range(len(extents))),),
                shapes=(extents,),
                combine=(None,),
                tile=_tile_last(extents),
                body=Region((), (constant,), (constant.result,)),
                loc=loc,
            )
        )
    results = [r for op in ops for r in op.results]
    return Group((), shared=(), label="fill", body=Region((), ops, results), loc=loc)
