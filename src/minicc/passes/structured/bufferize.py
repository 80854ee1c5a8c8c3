"""structured -> kernel, the host half: memory for tensors, launches for groups.

Every tensor gets memory, and every group becomes a kernel and a launch.

A plan first (`plan_buffers`): each tensor is somewhere in a root (an input, an output, a constant,
a fresh allocation). Walking from the outputs back, a value that a pad or concat takes is placed
inside the larger buffer, so that its producer writes there directly; a reshape shares its
operand's memory; an output is the caller's buffer. What can't be placed is copied. Then
`bufferize` emits `main` and the kernels; equal kernels are made once.

The border of a padded buffer is filled in each run, since the arena reuses memory.

Mirrors: MLIR's one-shot bufferisation with destination passing, XLA's buffer assignment with
aliasing, IREE's ConvertToStream; filling halos in place is oneDNN's and ncnn's padded activations.
MLIR's works on any control flow and falls back to copies; ours sees straight-line code and plans
all places before it emits.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from minicc.errors import CompilerBug
from minicc.ir import affine, arith, program
from minicc.ir.affine import Dim
from minicc.ir.bind import formal
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Module, Op, Region, Value, region_key
from minicc.ir.graph.shapes import Shape, product
from minicc.ir.space import Iter, Space
from minicc.ir.structured import Concat, Constant, Generic, Group, Pad, Reshape
from minicc.ir.types import BufferType, TensorType, dense_strides
from minicc.passes.structured.lower_to_kernel import lower_group


class Place(NamedTuple):
    """Where a tensor lies.

    In `root`'s memory (a value of the old function), `offset` elements in, with strides.
    """

    root: Value
    offset: Dim
    strides: tuple[Dim, ...]


class BufferPlan(NamedTuple):
    """Places of all tensors, the roots' types where they are new.

    And the values that need a copy into their place.
    """

    places: dict[Value, Place]
    outputs: dict[int, Value]
    copies: list[tuple[Op, int]]


def plan_buffers(function: Function) -> BufferPlan:
    """Decide where every tensor of a function of groups lies; rewrites nothing."""
    producers = {r: op for op in function.body.ops for r in op.results}
    places: dict[Value, Place] = {}
    outputs: dict[int, Value] = {}
    copies: list[tuple[Op, int]] = []
    shared_dense = {op.x for op in function.body.ops if isinstance(op, Reshape)}
    for k, v in enumerate(function.body.yields):
        root = Value(BufferType(v.type.dtype, v.type.shape), function.result_names[k])
        outputs[k] = root
        if isinstance(producers.get(v), (Group, Pad, Concat)) and v not in places:
            places[v] = Place(root, 0, dense_strides(v.type.shape))
    for op in reversed(function.body.ops):
        if isinstance(op, Constant):
            places[op.result] = Place(op.result, 0, dense_strides(op.result.type.shape))
        elif not isinstance(op, Reshape):
            for r in op.results:
                places.setdefault(r, _fresh(r))
        if isinstance(op, (Pad, Concat)):
            _place_operands(op, producers, places, shared_dense, copies)
    for a in function.args:
        places[a] = Place(a, 0, dense_strides(a.type.shape))
    for op in function.body.ops:
        if isinstance(op, Reshape):
            root, offset, _ = places[op.x]
            places[op.result] = Place(root, offset, dense_strides(op.result.type.shape))
    return BufferPlan(places, outputs, copies)


def _fresh(v: Value) -> Place:
    return Place(
        Value(BufferType(v.type.dtype, v.type.shape), v.hint), 0, dense_strides(v.type.shape)
    )


def _place_operands(
    op: Pad | Concat,
    producers: dict[Value, Op],
    places: dict[Value, Place],
    shared_dense: set[Value],
    copies: list[tuple[Op, int]],
) -> None:
    """Let the producers of an op's operands write into its result where nothing forbids it."""
    whole = places[op.result]
    for k, (v, start) in enumerate(operand_starts(op)):
        offset = whole.offset + shift_of(start, whole.strides)
        free = v not in places and v not in shared_dense
        if free and isinstance(producers.get(v), (Group, Pad, Concat)):
            places[v] = Place(whole.root, offset, whole.strides)
        else:
            copies.append((op, k))


def shift_of(start: Sequence[Dim], strides: Sequence[Dim]) -> Dim:
    """Elements from the first of a buffer to the one at `start`."""
    total: Dim = 0
    for s, step in zip(start, strides, strict=True):
        total = total + s * step
    return total


def points_of(group: Group) -> Dim:
    """The points of all iteration spaces of a group."""
    total: Dim = 0
    for op in group.body.ops:
        assert isinstance(op, Generic)
        total = total + product(tuple(i.extent for i in op.space.iters))
    return total


def operand_starts(op: Pad | Concat) -> list[tuple[Value, tuple[Dim, ...]]]:
    """Each operand of a pad or concat with the coordinates at which it starts in the result.

    An empty one starts at 0: after an empty result's memory there is none.
    """
    if isinstance(op, Pad):
        return [(op.x, (0,) * len(op.low) if 0 in op.x.type.shape else op.low)]
    out: list[tuple[Value, tuple[Dim, ...]]] = []
    start: Dim = 0
    for v in op.xs:
        at = 0 if 0 in v.type.shape else start
        out.append((v, tuple(at if axis == op.axis else 0 for axis in range(v.type.rank))))
        start = start + v.type.shape[op.axis]
    return out


def bufferize(module: Module) -> Module:
    """Turn a module of tiled groups into kernels and a `main` that launches them on buffers."""
    main = module.main
    return _Emitter(main, plan_buffers(main)).run()


class _Emitter:
    def __init__(self, function: Function, plan: BufferPlan) -> None:
        self.function = function
        self.plan = plan
        self.b = Builder(())
        self.roots: dict[Value, Value] = {}
        self.kernels: dict[Hashable, Function] = {}
        self.of_group: dict[Hashable, Function] = {}
        self.names: set[str] = set()

    def run(self) -> Module:
        args: list[Value] = []
        for a in self.function.args:
            self.roots[a] = Value(BufferType(a.type.dtype, a.type.shape), a.hint)
            args.append(self.roots[a])
        for root in self.plan.outputs.values():
            self.roots[root] = Value(root.type, root.hint)
            args.append(self.roots[root])
        for op in self.function.body.ops:
            self.b.loc = op.loc
            if isinstance(op, Constant):
                self.roots[op.result] = self.b.emit(program.Constant, value=op.value)
            elif isinstance(op, Group):
                self.launch(op, op.operands, op.results)
            elif isinstance(op, (Pad, Concat)):
                self.movement(op)
            elif not isinstance(op, Reshape):
                raise CompilerBug("MC0305", f"{op.opname} can't be bufferised", where=op.loc)
        self.copy_outputs()
        sizes = {n for a in self.function.args for e in a.type.shape for n in affine.sizes(e)}
        attrs: dict[str, Any] = {"inputs": len(self.function.args)}
        if sizes:
            attrs |= {"sizes": tuple(sorted(sizes)), **self.function.attrs}
        main = Function("main", Region(args, self.b.ops, ()), attrs)
        return Module("kernel", [*self.kernels.values(), main])

    def buffer(self, v: Value, part: BufferType | None = None, shift: Dim = 0) -> Value:
        """The buffer of a tensor, as a view of its root where it is not all of it."""
        place = self.plan.places[v]
        root = self.roots.get(place.root)
        if root is None:
            root = self.roots[place.root] = self.b.emit(program.Alloc, type=place.root.type)
            root.hint = place.root.hint
        type = part or BufferType(v.type.dtype, v.type.shape, place.strides)
        if type == root.type and place.offset + shift == 0:
            return root
        return self.b.emit(program.View, root, type=type, offset=place.offset + shift)

    def launch(self, group: Group, reads: Sequence[Value], writes: Sequence[Value]) -> None:
        """Make the group's kernel, or find the equal one, and launch it."""
        self.launch_on(group, [self.buffer(v) for v in reads], [self.buffer(v) for v in writes])

    def launch_on(self, group: Group, ins: list[Value], outs: list[Value]) -> None:
        """The same on given buffers."""
        taken, types, names = formal(group, [v.type for v in (*ins, *outs)])
        assert isinstance(taken, Group)
        parts = tuple(types[: len(ins)]), tuple(types[len(ins) :])
        key = (taken.shared, taken.cover, *parts, region_key(taken.body))
        made = self.of_group.get(key)
        if made is None:
            made = self.of_group[key] = self.kernel(taken, *parts)
        sources = tuple(op.loc for op in group.body.ops)
        launch = program.Launch(
            (*ins, *outs),
            kernel=made.name,
            outputs=len(ins),
            sources=sources,
            sizes=tuple(affine.symbol(names[n]) for n in made.attrs.get("sizes", ())),
            work=points_of(group),
            loc=group.loc,
        )
        self.b.add(launch)

    def kernel(
        self, group: Group, ins: tuple[BufferType, ...], outs: tuple[BufferType, ...]
    ) -> Function:
        """The group as a kernel; groups may differ in names alone, and share one then."""
        lowered = lower_group(group, ins, outs, "kernel")
        key = lowered.attrs["grid"], region_key(lowered.body)
        if key not in self.kernels:
            name, k = group.label or "kernel", 1
            while name in self.names or name == "main":
                name, k = f"{group.label}_{k}", k + 1
            self.names.add(name)
            self.kernels[key] = Function(name, _anonymous(lowered).body, lowered.attrs)
        return self.kernels[key]

    def movement(self, op: Pad | Concat) -> None:
        """Fill the border of a pad, and copy the operands that were not written in place."""
        if isinstance(op, Pad):
            self.fill(op)
        starts = operand_starts(op)
        whole = self.plan.places[op.result]
        for k, (v, start) in enumerate(starts):
            if (op, k) not in self.plan.copies:
                continue
            shift = shift_of(start, whole.strides)
            inside = BufferType(v.type.dtype, v.type.shape, whole.strides)
            self.launch_on(
                copy_group(v, op.loc), [self.buffer(v)], [self.buffer(op.result, inside, shift)]
            )

    def fill(self, op: Pad) -> None:
        """One kernel that writes the pad's value into all strips of its border."""
        whole = self.plan.places[op.result]
        strips: list[Value] = []
        for start, extents in border(op):
            shift = shift_of(start, whole.strides)
            strips.append(
                self.buffer(op.result, BufferType(op.x.type.dtype, extents, whole.strides), shift)
            )
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
            self.launch_on(copy_group(v, self.b.loc), [self.buffer(v)], [self.roots[root]])


def _anonymous(function: Function) -> Function:
    for v in function.args:
        v.hint = ""
    return function


def border(op: Pad) -> list[tuple[Shape, Shape]]:
    """The boxes (start, extents) around a pad's inside.

    Axes before the padded one inside, those behind it whole.
    """
    whole, inside = op.result.type.shape, op.x.type.shape
    boxes: list[tuple[Shape, Shape]] = []
    for axis, (low, high) in enumerate(zip(op.low, op.high, strict=True)):
        for first, count in ((0, low), (whole[axis] - high, high)):
            extents = (*inside[:axis], count, *whole[axis + 1 :])
            if 0 not in extents:
                start = (*op.low[:axis], first, *[0] * (len(whole) - axis - 1))
                boxes.append((start, extents))
    return boxes


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
        tile=_tile_last(extents),
        body=Region((element,), (), (element,)),
        loc=loc,
    )
    shared = tuple(f"d{k}" for k in range(len(extents) - 1))
    return Group((v,), shared=shared, label="copy", body=Region((arg,), (op,), op.results), loc=loc)


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
