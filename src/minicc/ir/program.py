"""The program dialect: the host side of a compiled model.

Its static part becomes one native SPMD function.

`main` takes buffers, first the inputs and then the outputs. Every thread runs it; a launch gives
each thread its share of the grid along `split` (or all of it to thread 0), and `program.barrier`
stands where data crosses shares.

A loop runs its body in every thread, round by round; views of what it scans move with the round.

Laws. Between two barriers no thread writes what another touches, but for equal bits. Memory of
`program.alloc` lies in one arena at `offset` (bytes, -1 while not placed), and its content is
undefined at first. Constants are never written.

Mirrors: IREE's Stream and HAL, Relax's VM, ExecuTorch's memory-planned program, XLA:CPU's thunk
sequence. These stand behind code generation as a host program that is interpreted; ours is compiled
to one function that all threads run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.core import Literal, Op, Region, RunRegion, Value, walk
from minicc.ir.kernel import Memory
from minicc.ir.types import INDEX_TYPE, BufferType, static_shape, tensor_of


def launches(region: Region) -> Iterator[Launch]:
    """The launches of a program in the order in which they stand, those of a loop once."""
    return (op for op in walk(region) if isinstance(op, Launch))


class Alloc(Op, name="program.alloc"):
    """A buffer of the arena, `offset` bytes from its start."""

    type: BufferType
    offset: int = -1
    pure = False

    def infer(self) -> tuple[BufferType, ...]:
        return (self.type,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        # poison: what is read before it is written must show
        element = self.type.dtype
        poison = np.nan if element.is_float else 0 if element.kind == "b" else 85
        return (Memory(np.full((1, self.type.span()), poison, element.numpy), self.type),)


class Constant(Op, name="program.constant"):
    """A dense buffer known at compile time."""

    value: Literal

    def infer(self) -> tuple[BufferType, ...]:
        tensor = tensor_of(self.value.array)
        return (BufferType(tensor.dtype, tensor.shape),)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (Memory(self.value.array.reshape(1, -1), self.result.type),)


class View(Op, name="program.view"):
    """Another buffer type over the same memory, `offset` elements further on.

    The offset may depend on the rounds of loops: it is an expression over i0, i1, ..., which stand
    for `rounds`.
    """

    buffer: Value
    rounds: tuple[Value, ...]
    type: BufferType
    offset: Dim = 0

    def infer(self) -> tuple[BufferType, ...]:
        if self.buffer.type.dtype is not self.type.dtype:
            raise TypeError(f"{self.type} is no view of {self.buffer.type}")
        if not self.rounds:
            self.require_inside({})
        return (self.type,)

    def require_inside(self, counts: Mapping[Value, int]) -> None:
        """TypeError where the view leaves its buffer in some round of loops of so many rounds."""
        extents = {f"i{k}": counts[v] for k, v in enumerate(self.rounds)}
        low, high = affine.bounds(self.offset, extents)
        span = self.type.span()  # nothing may lie anywhere
        if low < 0 or (span and high + span > self.buffer.type.span()):
            raise TypeError(f"{self.type} at {self.offset} does not lie within {self.buffer.type}")

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        memory: Memory = args[0]
        offset = affine.evaluate(self.offset, {f"i{k}": n for k, n in enumerate(args[1:])})
        return (Memory(memory.flat, self.type, memory.base + offset),)


class Launch(Op, name="program.launch"):
    """Run a kernel over its grid on buffers; those from `outputs` on are written.

    `split` is the axis that threads share, -1 for thread 0 alone. `sources` binds the kernel's
    formal locations: what `#k` stands for at this launch. `work` counts the points of all its
    iteration spaces.
    """

    buffers: tuple[Value, ...]
    kernel: str
    outputs: int
    sources: tuple[tuple[str, ...], ...] = ()
    split: int = -1
    work: int = 0
    pure = False

    def bound(self, formal: tuple[str, ...]) -> tuple[str, ...]:
        """What locations of the kernel stand for at this launch."""
        places = [self.sources[int(name[1:])] for name in formal if name[:1] == "#"]
        return tuple(dict.fromkeys(name for place in places for name in place)) or self.loc

    def infer(self) -> tuple[BufferType, ...]:
        return ()

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        raise RuntimeError("program.launch needs the module; the interpreter serves it")


class Loop(Op, name="program.loop"):
    """Run the body `count` times; its argument is the number of the round, from 0 on.

    The body uses buffers from outside; memory that it allocates is allocated outside, too.
    """

    count: Dim
    body: Region
    pure = False
    control = True

    def infer(self) -> tuple[BufferType, ...]:
        if [a.type for a in self.body.args] != [INDEX_TYPE] or self.body.yields:
            raise TypeError(
                f"the body of {self.opname} takes the round's number and yields nothing"
            )
        return ()

    def verify(self) -> None:
        self.require_inside({})

    def require_inside(self, outer: Mapping[Value, int]) -> None:
        """TypeError where a view within leaves its buffer; `outer` are the loops around."""
        (count,) = static_shape((self.count,))
        counts = {**outer, self.body.args[0]: count}
        for op in self.body.ops if count else ():
            if isinstance(op, (View, Loop)) and counts.keys() >= set(op.operands[1:]):
                op.require_inside(counts)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        for t in range(*static_shape((self.count,))):
            run(self.body, [t])
        return ()


class Barrier(Op, name="program.barrier"):
    """All threads wait for each other; what was written before is seen behind."""

    pure = False

    def infer(self) -> tuple[BufferType, ...]:
        return ()

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return ()
