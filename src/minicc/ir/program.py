"""The program dialect: the host side of a compiled model.

Its static part becomes one native function, which the caller's thread runs.

`main` takes buffers, first the inputs and then the outputs. A launch with a `split` is shared: it
hands the instances of its grid to all threads, cut along these axes, and may return before they are
done; any other launch is done by the caller. `program.barrier` stands where data of a shared launch
is needed, or memory that it uses.

A loop runs its body round by round; views of what it scans move with the round. A branch is chosen
by the caller's thread, which reads the condition where it stands, and so does a loop's condition
before each round, and a size that data give.

Pairs of an input and an output are `donated`: what the caller gives as the output's memory has the
input's elements at first, and `main` looks for them there alone.

Laws. Instances of the launches between two barriers that are shared touch nothing that another of
these writes, but for equal bits, and nothing that the caller writes meanwhile. Memory of
`program.alloc` lies in one arena at `offset` (bytes, -1 while not placed), and its content is
undefined at first. Constants are never written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minicc.ir import affine, affine_facts
from minicc.ir.addresses import Memory, undefined
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Literal, Op, Region, RunRegion, Value, walk
from minicc.ir.sized import nearest
from minicc.ir.types import BOOL, I64, INDEX_TYPE, BufferType, TensorType, static_shape


def ends(main: Function) -> tuple[Sequence[Value], Sequence[Value]]:
    """What an entry of any level takes and gives: buffers are all among its arguments."""
    count = main.attrs.get("inputs")
    return main.args[:count], main.body.yields if count is None else main.args[count:]


def launches(region: Region) -> Iterator[Launch]:
    """The launches of a program in the order in which they stand, those of a loop once."""
    return (op for op in walk(region) if isinstance(op, Launch))


def roots(main: Function) -> dict[Value, Value]:
    """The allocation, constant or argument whose memory each buffer is."""
    found: dict[Value, Value] = {a: a for a in main.args}
    for op in walk(main.body):
        for r in op.results:
            found[r] = found[op.operands[0]] if isinstance(op, View) else r
    return found


class Alloc(Op, name="program.alloc"):
    """A buffer of the arena, `offset` bytes from its start.

    Where its size is free, `reserved` says for how many bytes there is room: more than it has.
    """

    type: BufferType
    offset: Dim = -1
    reserved: Dim = 0
    pure = False

    def infer(self) -> tuple[BufferType, ...]:
        return (self.type,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return (Memory(undefined(self.type), self.type),)


class Constant(Op, name="program.constant"):
    """A dense buffer known at compile time."""

    value: Literal

    def infer(self) -> tuple[BufferType, ...]:
        tensor = self.value.type
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
        span, whole = self.type.reach(), self.buffer.type.reach()  # nothing may lie anywhere
        if any(affine_facts.is_free(n) for n in (self.offset, span, whole)):
            return
        low, high = affine_facts.bounds(self.offset, extents)
        span, whole = affine.number(span), affine.number(whole)
        if low < 0 or (span > 0 and high + span > whole):
            raise TypeError(f"{self.type} at {self.offset} does not lie within {self.buffer.type}")

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        memory: Memory = args[0]
        at = affine.evaluate(self.offset, {f"i{k}": n for k, n in enumerate(args[1:])})
        return (Memory(memory.flat, self.type, memory.base + int(at)),)


class Launch(Op, name="program.launch"):
    """Run a kernel over its grid on buffers; those from `outputs` on are written.

    `split` are the axes along which threads share it, counted as one, the outermost first; none
    for the caller alone. `sources` binds the
    kernel's formal locations: what `#k` stands for at this launch. `sizes` are what the kernel's
    sizes stand for, in their order. `work` counts the points of all its iteration spaces, in
    multiply-adds' worth. With `zigzag`, each thread goes over its share from the end to the
    beginning in every other round of the loop around it.
    """

    buffers: tuple[Value, ...]
    kernel: str
    outputs: int
    sources: tuple[tuple[str, ...], ...] = ()
    sizes: tuple[Dim, ...] = ()
    split: tuple[int, ...] = ()
    work: Dim = 0
    zigzag: bool = False
    pure = False

    def bound(self, formal: tuple[str, ...]) -> tuple[str, ...]:
        """What locations of the kernel stand for at this launch."""
        places = [self.sources[int(n[1:])] if n[:1] == "#" else (n,) for n in formal]
        return tuple(dict.fromkeys(name for place in places for name in place)) or self.loc

    def sizes_in(self, kernel: Function) -> dict[str, Dim]:
        """What the kernel's sizes stand for at this launch, by name."""
        return dict(zip(kernel.attrs.get("sizes", ()), self.sizes, strict=True))

    def infer(self) -> tuple[BufferType, ...]:
        return ()

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        raise RuntimeError("program.launch needs the module; the interpreter serves it")


class Loop(Op, name="program.loop"):
    """Run the body `count` times; its argument is the number of the round, from 0 on.

    The body uses buffers from outside; memory that it allocates is allocated outside, too. With a
    condition, a round runs where that is true and all rounds before it ran; the result is how many
    did. `index` names a size of the body that is the number, too.
    """

    conditions: tuple[Value, ...]
    count: Dim
    body: Region
    index: str = ""
    pure = False
    control = True

    def infer(self) -> tuple[TensorType, ...]:
        if [a.type for a in self.body.args] != [INDEX_TYPE] or self.body.yields:
            raise TypeError(
                f"the body of {self.opname} takes the round's number and yields nothing"
            )
        if [v.type for v in self.conditions] not in ([], [BufferType(BOOL, ())]):
            raise TypeError(f"{self.opname} has at most one condition, a bool")
        return (INDEX_TYPE,) * len(self.conditions)

    def verify(self) -> None:
        self.require_inside({})

    def require_inside(self, outer: Mapping[Value, int]) -> None:
        """TypeError where a view within leaves its buffer; `outer` are the loops around."""
        if affine_facts.is_free(self.count):
            return
        count = affine.number(self.count)
        counts = {**outer, self.body.args[0]: count}
        if count:
            _require_inside(self.body, counts)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        rounds = 0
        for t in range(*static_shape((self.count,))):
            if not all(m.flat[0, m.base] for m in args):
                break
            run(self.body, [t], {self.index: t} if self.index else {})
            rounds += 1
        return (rounds,) * len(args)


class If(Op, name="program.if"):
    """Run the first region where the condition's byte is not 0, else the second one.

    They use buffers from outside; memory that they allocate is allocated outside, too.
    """

    condition: Value
    then: Region
    other: Region
    pure = False
    control = True

    def infer(self) -> tuple[BufferType, ...]:
        if self.condition.type != BufferType(BOOL, ()):
            raise TypeError(f"the condition of {self.opname} is {self.condition.type}")
        if any(r.args or r.yields for r in self.regions):
            raise TypeError(f"the branches of {self.opname} take and yield nothing")
        return ()

    def require_inside(self, outer: Mapping[Value, int]) -> None:
        """TypeError where a view within leaves its buffer; `outer` are the loops around."""
        for region in self.regions:
            _require_inside(region, outer)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        memory: Memory = args[0]
        return run(self.then if memory.flat[0, memory.base] else self.other, ())


class Sized(Op, name="program.sized"):
    """Run the body with a size of it that a buffer holds; see `ir.sized`.

    It uses buffers from outside; memory that it allocates is allocated outside, too.
    """

    number: Value
    count: Dim
    body: Region
    index: str
    pure = False
    control = True

    def infer(self) -> tuple[BufferType, ...]:
        if self.number.type != BufferType(I64, ()):
            raise TypeError(f"the number of {self.opname} is {self.number.type}")
        if self.body.args or self.body.yields:
            raise TypeError(f"the body of {self.opname} takes and yields nothing")
        return ()

    def require_inside(self, outer: Mapping[Value, int]) -> None:
        """TypeError where a view within leaves its buffer; `outer` are the loops around."""
        _require_inside(self.body, outer)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        memory: Memory = args[0]
        number = nearest(memory.flat[0, memory.base], self.count)
        return run(self.body, (), {self.index: number})


def _require_inside(region: Region, counts: Mapping[Value, int]) -> None:
    for op in region.ops:
        rounds = op.rounds if isinstance(op, View) else ()
        if isinstance(op, (View, Loop, If, Sized)) and counts.keys() >= set(rounds):
            op.require_inside(counts)


class Barrier(Op, name="program.barrier"):
    """The caller waits until all that it handed out is done; what that wrote is seen after."""

    pure = False

    def infer(self) -> tuple[BufferType, ...]:
        return ()

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        return ()
