"""Which thread's caches hold what, and how long a launch waits for what they do not hold.

A thread's share of a launch is a block of one axis of the kernel's grid. Of what it reads, its own
caches hold what it wrote itself; the rest comes from another core or from memory, and takes the
time of some multiply-adds. So rows of an image stay with their thread from layer to layer while
weights are small, and channels are shared where weights are what is large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minicc.ir import affine, affine_facts, kernel, program
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Value, walk
from minicc.ir.types import BufferType
from minicc.target import Target

_ALIKE = 0.25  # of a period, by which two that are of the same rows may differ: borders do


class Affinity:
    """Who wrote which part of each buffer, as far as launches along the way tell."""

    def __init__(
        self, kernels: Mapping[str, Function], root: Mapping[Value, Value], target: Target
    ) -> None:
        self._by_axis = {name: _periods(f) for name, f in kernels.items()}
        self._root = root
        self._far = target.stream / 4  # multiply-adds that take as long as a byte from elsewhere
        # what is written in shares: bytes after which its parts begin anew; 0 where all is one's
        self._periods: dict[Value, int] = {}

    def cost(self, op: program.Launch, axis: int) -> float:
        """Multiply-adds' worth of time in which one of two threads waits for its inputs."""
        periods = self._by_axis[op.kernel]
        far = 0.0
        for k, v in enumerate(op.buffers[: op.outputs]):
            period = periods[k][axis]
            read = _bytes(v.type) / (2 if period else 1)
            root = self._root[v]
            if root not in self._periods:  # from memory
                far += read
            elif not period or abs(period - self._periods[root]) > _ALIKE * period:
                far += read / 2
        return far * self._far

    def note(self, op: program.Launch, split: Sequence[int]) -> None:
        """Remember a launch that is shared along some axes, the outermost first."""
        periods = self._by_axis[op.kernel]
        for k, v in enumerate(op.buffers):
            if k >= op.outputs:
                self._periods[self._root[v]] = periods[k][split[0]] if split else 0


def _bytes(type: BufferType) -> int:
    size = type.dtype.bytes
    for extent in type.shape:
        size *= affine.typical(extent)
    return size


def _periods(function: Function) -> tuple[tuple[int, ...], ...]:
    """For each buffer of a kernel and each axis of its grid, the bytes over which instances go.

    The first access tells. 0 where its place does not depend on the axis, or is not known.
    """
    grid: Sequence[Dim] = function.attrs["grid"]
    axes = {v: f"a{k}" for k, v in enumerate(function.args[: len(grid)])}
    indices: dict[Value, kernel.Index] = {}
    found = {v: (0,) * len(grid) for v in function.args if isinstance(v.type, BufferType)}
    left = {*found}
    for op in walk(function.body):
        if isinstance(op, kernel.Index):
            indices[op.result] = op
        elif isinstance(op, kernel.Load | kernel.Store) and op.buffer in left:
            left.remove(op.buffer)
            at = [_of_axes(e, op.indices, axes, indices) for e in op.at]
            step = op.buffer.type.dtype.bytes
            found[op.buffer] = _steps(affine_facts.place(at, op.buffer.type.strides), grid, step)
    return tuple(found.values())


def _steps(place: Dim, grid: Sequence[Dim], element: int) -> tuple[int, ...]:
    """For each axis of a grid, the bytes between its first place and the one after its last."""
    if isinstance(place, int):
        return (0,) * len(grid)
    names = [f"a{k}" for k in range(len(grid))]
    first = affine.typical(affine.substitute(place, dict.fromkeys(names, 0)))
    periods = []
    for name, extent in zip(names, grid, strict=True):
        second = affine.substitute(place, {n: int(n == name) for n in names})
        step = abs(affine.typical(second) - first)
        periods.append(step * affine.typical(extent) * element)
    return tuple(periods)


def _of_axes(
    value: Dim,
    operands: Sequence[Value],
    axes: Mapping[Value, str],
    indices: Mapping[Value, kernel.Index],
) -> Dim:
    """An expression of some indices, as one of the axes that these depend on; others count as 0."""
    if isinstance(value, int):
        return value
    binding: dict[str, Dim] = {n: 0 for n in affine.symbols(value) if not affine.is_size(n)}
    for k, v in enumerate(operands):
        if v in axes:
            binding[f"i{k}"] = affine.symbol(axes[v])
        elif v in indices:
            op = indices[v]
            binding[f"i{k}"] = _of_axes(op.value, op.indices, axes, indices)
    return affine.substitute(value, binding)
