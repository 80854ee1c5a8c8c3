"""The program dialect: the host side of a compiled model.

Its static part becomes one native function, which the caller's thread runs.

`main` takes buffers, first the inputs and then the outputs. A launch with a `split` is shared: it
hands the instances of its grid to all threads, cut along that axis, and may return before they are
done; any other launch is done by the caller. `program.barrier` stands where data of a shared launch
is needed, or memory that it uses.

Laws. Instances of the launches between two barriers that are shared touch nothing that another of
these writes, but for equal bits, and nothing that the caller writes meanwhile. Memory of
`program.alloc` lies in one arena at `offset` (bytes, -1 while not placed), and its content is
undefined at first. Constants are never written.

Mirrors: IREE's Stream and HAL, Relax's VM, ExecuTorch's memory-planned program, XLA:CPU's thunk
sequence. These stand behind code generation as a host program that is interpreted; ours is compiled
to one function, whose shared launches threads help with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Literal, Op, RunRegion, Value
from minicc.ir.kernel import Memory
from minicc.ir.types import BufferType, tensor_of


class Alloc(Op, name="program.alloc"):
    """A buffer of the arena, `offset` bytes from its start."""

    type: BufferType
    offset: Dim = -1
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
    """Another buffer type over the same memory, `offset` elements further on."""

    buffer: Value
    type: BufferType
    offset: Dim = 0

    def infer(self) -> tuple[BufferType, ...]:
        source: BufferType = self.buffer.type
        span, whole = self.type.reach(), source.reach()  # nothing may lie anywhere
        room = whole - self.offset - span
        outside = isinstance(room, int) and room < 0 and not (isinstance(span, int) and span <= 0)
        negative = isinstance(self.offset, int) and self.offset < 0
        if negative or outside or source.dtype is not self.type.dtype:
            raise TypeError(f"{self.type} at {self.offset} does not lie within {source}")
        return (self.type,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        memory: Memory = args[0]
        offset = affine.number(self.offset)
        return (Memory(memory.flat, self.type, memory.base + offset),)


class Launch(Op, name="program.launch"):
    """Run a kernel over its grid on buffers; those from `outputs` on are written.

    `split` is the axis along which threads share it, -1 for the caller alone. `sources` binds the
    kernel's formal locations: what `#k` stands for at this launch. `sizes` are what the kernel's
    sizes stand for, in their order. `work` counts the points of all its iteration spaces.
    """

    buffers: tuple[Value, ...]
    kernel: str
    outputs: int
    sources: tuple[tuple[str, ...], ...] = ()
    sizes: tuple[Dim, ...] = ()
    split: int = -1
    work: Dim = 0
    pure = False

    def bound(self, formal: tuple[str, ...]) -> tuple[str, ...]:
        """What locations of the kernel stand for at this launch."""
        places = [self.sources[int(name[1:])] for name in formal if name[:1] == "#"]
        return tuple(dict.fromkeys(name for place in places for name in place)) or self.loc

    def sizes_in(self, kernel: Function) -> dict[str, Dim]:
        """What the kernel's sizes stand for at this launch, by name."""
        return dict(zip(kernel.attrs.get("sizes", ()), self.sizes, strict=True))

    def infer(self) -> tuple[BufferType, ...]:
        return ()

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        raise RuntimeError("program.launch needs the module; the interpreter serves it")


class Barrier(Op, name="program.barrier"):
    """The caller waits until all that it handed out is done; what that wrote is seen after."""

    pure = False

    def infer(self) -> tuple[BufferType, ...]:
        return ()

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return ()
