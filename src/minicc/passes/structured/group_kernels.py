"""The kernels of groups: each made once for all groups that are equal, and named after one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Set
from typing import NamedTuple

from minicc.ir import affine
from minicc.ir.arrays import KEPT
from minicc.ir.bind import formal
from minicc.ir.core import Function, Op, Region, Value, region_key, walk, walk_control
from minicc.ir.structured import Generic, Group
from minicc.ir.types import BufferType, buffer_bytes
from minicc.passes.structured.buffers import BufferPlan
from minicc.passes.structured.lower_to_kernel import lower_group

Show = Callable[[Sequence[Function]], None]
Made = tuple[Function, dict[str, str]]  # with what its sizes are called where it is launched


class GroupKernels:
    """Kernels for groups whose tensors lie as a plan says, in `named` as they get their names.

    `free` says that extents may be symbols. The memory of roots in `new` is another in each run.
    """

    def __init__(self, plan: BufferPlan, free: bool) -> None:
        self.named: dict[Hashable, Function] = {}
        self._plan, self._free = plan, free
        self.new = _new_in_each_run(plan)
        self._of_group: dict[Hashable, Made] = {}
        self._of_formal: dict[Hashable, Function] = {}
        self._of_op: dict[Group, Made] = {}
        self._of_body: dict[Region, Function] = {}
        self._names: set[str] = set()

    def show(self, body: Region, show: Show) -> None:
        """Make the kernels of groups, those of one form one after the other, and show them.

        Those of the most ops come first: what takes long to compile is not begun last.
        """
        forms: dict[_Form, list[Group]] = {}
        for op in walk_control(body):
            if isinstance(op, Group):
                forms.setdefault(_form(op), []).append(op)
        for _, groups in sorted(forms.items(), key=lambda item: len(item[0].ops), reverse=True):
            kernels = dict.fromkeys(self.of(group)[0] for group in groups)
            show([kernel for kernel in kernels if kernel.body.ops])

    def of(self, group: Group) -> Made:
        """The kernel of a group of the module, as `lowered` gives it."""
        if group not in self._of_op:
            read, written = (
                {self._plan.places[v].root for v in vs} for vs in (group.operands, group.results)
            )
            updates = group in self._plan.in_place.updates and not read.isdisjoint(written)
            types = [
                BufferType(v.type.dtype, v.type.shape, self._plan.places[v].strides)
                for v in (*group.operands, *group.results)
            ]
            taken = self._with_near_stores(group, read if updates else set())
            self._of_op[group] = self.lowered(taken, types, len(group.operands), updates)
        return self._of_op[group]

    def _with_near_stores(self, group: Group, read: Set[Value]) -> Group:
        """The group, of which no result goes past caches that have its lines.

        It replaces what was just `read`, or its memory is new in each run, and the system clears
        that. Past the caches a store takes up to half as long again then.
        """
        plan = group.schedule
        if plan is None or not plan.nontemporal:
            return group
        roots = [self._plan.places[v].root for v in group.results]
        near = read | self.new
        far = tuple([k for k in plan.nontemporal if roots[k] not in near])
        return group.with_regions(group.regions, schedule=plan._replace(nontemporal=far))

    def lowered(self, group: Group, types: list[BufferType], inputs: int, updates: bool) -> Made:
        """The kernel of a group, without a name, and what the sizes that it takes are called there.

        Of equal groups it is the same one. `updates` says that outputs may lie where inputs do.
        """
        key = updates, _key(group, types)
        if key not in self._of_group:
            taken, names, same = group, dict[str, str](), key
            if self._free:
                renamed, types, names = formal(group, types)
                assert isinstance(renamed, Group)
                taken, same = renamed, (updates, _key(renamed, types))
            if same not in self._of_formal:
                ins, outs = tuple(types[:inputs]), tuple(types[inputs:])
                made = _anonymous(lower_group(taken, ins, outs, "kernel", free=self._free))
                if updates:
                    made = Function(made.name, made.body, {**made.attrs, "updates": True})
                self._of_formal[same] = made
            self._of_group[key] = self._of_formal[same], names
        return self._of_group[key]

    def as_named(self, lowered: Function, label: str) -> Function:
        """The kernel under a name of its own, or the equal one that there is."""
        found = self._of_body.get(lowered.body)
        if found is not None:
            return found
        key = *lowered.attrs.values(), region_key(lowered.body)
        if key not in self.named:
            name, k = label, 1
            while name in self._names or name == "main":
                name, k = f"{label}_{k}", k + 1
            self._names.add(name)
            self.named[key] = Function(name, lowered.body, lowered.attrs)
        self._of_body[lowered.body] = self.named[key]
        return self.named[key]


def _new_in_each_run(plan: BufferPlan) -> set[Value]:
    """The outputs, if memory for them and for those of the run before is more than is kept.

    A machine with little memory keeps less: no code depends on that.
    """
    roots = plan.outputs.values()
    size = sum(affine.typical(buffer_bytes(root.type)) for root in roots)
    return {*roots} if 2 * size > KEPT else set()


class _Form(NamedTuple):
    """Equal for groups whose kernels may differ in numbers alone."""

    shared: Hashable
    ops: tuple[type[Op], ...]
    dims: tuple[tuple[str, ...], ...]


def _form(group: Group) -> _Form:
    dims = [
        tuple(i.name for i in op.space.iters) for op in group.body.ops if isinstance(op, Generic)
    ]
    return _Form(group.shared, tuple(type(op) for op in walk(group.body)), tuple(dims))


def _key(group: Group, types: Sequence[BufferType]) -> Hashable:
    """Equal for groups that become the same kernel on buffers of these types."""
    return group.shared, group.cover, group.schedule, tuple(types), region_key(group.body)


def _anonymous(function: Function) -> Function:
    for v in function.args:
        v.hint = ""
    return function
