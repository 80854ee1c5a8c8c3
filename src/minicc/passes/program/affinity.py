"""Which thread's caches hold what, and how long a launch waits for what they do not hold.

A thread's share of a launch is a block of one axis of the kernel's grid. Of what it reads, its own
caches hold what it wrote itself; the rest comes from another core or from memory, and takes the
time of some multiply-adds. So rows of an image stay with their thread from layer to layer while
weights are small, and channels are shared where weights are what is large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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

    0 where the place does not depend on the axis, or is not known.
    """
    grid: Sequence[Dim] = function.attrs["grid"]
    axes = [f"a{k}" for k in range(len(grid))]
    args = function.args
    where: dict[Value, Dim] = {v: affine.symbol(n) for v, n in zip(args, axes, strict=False)}
    buffers = [v for v in args if isinstance(v.type, BufferType)]
    found = {v: [0] * len(grid) for v in buffers}
    for buffer, place in _places(function, where):
        if buffer not in found:
            continue
        first = affine.typical(affine.substitute(place, dict.fromkeys(axes, 0)))
        for k, name in enumerate(axes):
            at = {n: int(n == name) for n in axes}
            step = affine.typical(affine.substitute(place, at)) - first
            period = abs(step) * affine.typical(grid[k]) * buffer.type.dtype.bytes
            found[buffer][k] = max(found[buffer][k], period)
    return tuple(tuple(found[v]) for v in buffers)


def _places(function: Function, where: dict[Value, Dim]) -> Iterator[tuple[Value, Dim]]:
    """Each place in a buffer that a kernel touches, of its axes alone; other indices count as 0."""
    for op in walk(function.body):
        if isinstance(op, kernel.Index):
            where[op.result] = _of_axes(op.value, op.indices, where)
        elif isinstance(op, kernel.Load | kernel.Store):
            at = [_of_axes(e, op.indices, where) for e in op.at]
            yield op.buffer, affine_facts.place(at, op.buffer.type.strides)


def _of_axes(value: Dim, indices: Sequence[Value], where: Mapping[Value, Dim]) -> Dim:
    """An expression of some indices, as one of the axes that these depend on."""
    binding: dict[str, Dim] = {f"i{k}": where.get(v, 0) for k, v in enumerate(indices)}
    others = {n: 0 for n in affine.symbols(value) if n not in binding and not affine.is_size(n)}
    return affine.substitute(value, binding | others)
