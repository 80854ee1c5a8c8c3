"""Functions that are tens of instructions each, where a kernel has many of them.

One of many vectors is a loop over these in memory. Ops of one kind that are many are calls of a
function of the kernel's own: their code written out would be most of LLVM's time. Either takes two
vectors at once, as one that is wider than the registers: a polynomial is one chain of additions and
products, and what a processor looks ahead is hardly longer than the chain of one vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from minicc.backends.llvm import elementwise
from minicc.backends.llvm.emitter import Emitter, Kind
from minicc.backends.llvm.instructions import shuffle
from minicc.backends.llvm.isa.table import writer_for
from minicc.backends.llvm.tiles import ELEMENT
from minicc.backends.llvm.writer import Vec
from minicc.ir import arith
from minicc.ir.core import Op
from minicc.ir.lengths import is_long
from minicc.ir.types import DType

_MANY = 8  # vectors of an op for which there is a loop, or ops for which there is a function


def often(ops: Sequence[Op]) -> set[Kind]:
    """The long functions of floats of which a kernel has many ops.

    An integer's quotient by a number that is known is short, and LLVM sees that in its place alone.
    """
    kinds = [
        (type(op), op.result.type.dtype)
        for op in ops
        if isinstance(op, arith.Elementwise) and op.result.type.dtype.is_float
    ]
    counts = Counter(kind for kind in kinds if is_long(*kind))
    return {kind for kind, count in counts.items() if count > _MANY}


def emit_long(
    e: Emitter,
    op: type[Op],
    dtype: DType,
    widths: list[int],
    vectors: Callable[[int], list[str]],
) -> list[str]:
    """The results of an op on vectors of these widths; nothing where it is best written out."""
    if is_long(op, dtype) and len(widths) >= _MANY:
        return _looped(e, op, dtype, widths, vectors)
    if (op, dtype) not in e.often:
        return []
    parts: list[str] = []
    while len(parts) < len(widths):
        first = len(parts)
        vec = Vec(widths[first], ELEMENT[dtype.name])
        both = (
            vec.lanes > 1 and _are_one(vec.lanes) and widths[first : first + 2] == 2 * [vec.lanes]
        )
        wide = vec._replace(lanes=vec.lanes * (1 + both))
        xs = vectors(first)
        if both:
            pairs = zip(xs, vectors(first + 1), strict=True)
            xs = [shuffle(e.w, vec, a, b, range(wide.lanes)) for a, b in pairs]
        made = e.w.call(_function(e, op, dtype, wide), wide, *[(wide, x) for x in xs])
        halves = (range(k, k + vec.lanes) for k in range(0, wide.lanes, vec.lanes))
        parts += [shuffle(e.w, wide, made, "poison", half) for half in halves] if both else [made]
    return parts


def _are_one(lanes: int) -> bool:
    """Whether two vectors are one in memory: others than of a power of two have gaps there."""
    return lanes.bit_count() == 1


def _function(e: Emitter, op: type[Op], dtype: DType, vec: Vec) -> str:
    """The name of the function that a kernel calls for an op on a vector."""
    name = f"{op.opname}.{dtype.name}.{vec.lanes}"
    if name not in e.functions:
        w = writer_for(e.target)
        xs = [f"%x{k}" for k in range(2 if issubclass(op, arith.Binary) else 1)]
        made = elementwise.apply(op, w, vec.lanes, dtype, xs, dtype)
        e.w.declares.update(w.declares)
        taken = ", ".join([f"{vec} {x}" for x in xs])
        head = f"define internal {vec} @{name}({taken}) nounwind noinline {{"
        e.functions[name] = "\n".join([head, "entry:", w.text(), f"  ret {vec} {made}", "}", ""])
    return name


def _looped(
    e: Emitter,
    op: type[Op],
    dtype: DType,
    widths: list[int],
    vectors: Callable[[int], list[str]],
) -> list[str]:
    """A long function of many vectors: a loop over them in memory for each width.

    Written out for every vector, it is most of a kernel's code and of LLVM's time with it, and the
    vectors that wait would be put into memory all the same.
    """
    w, parts = e.w, [""] * len(widths)
    for width in dict.fromkeys(widths):
        together = 2 if _are_one(width) else 1
        vec, wide = (Vec(n, ELEMENT[dtype.name]) for n in (width, together * width))
        numbers = [k for k, n in enumerate(widths) if n == width]
        given = [vectors(k) for k in numbers]
        rounds = -(-len(numbers) // together)
        slots = [e.slots(wide, rounds, position) for position in range(len(given[0]))]

        def at(slot: str, vec: Vec, number: object) -> str:
            return w.inst(f"getelementptr inbounds {vec}, ptr {slot}, i64 {number}")

        # the last round may have one vector: it is computed twice
        for k in range(together * rounds):
            for slot, x in zip(slots, given[min(k, len(given) - 1)], strict=True):
                w.line(f"store {vec} {x}, ptr {at(slot, vec, k)}")
        head, done, index, before = w.fresh("each"), w.fresh("done"), f"%{w.fresh('i')}", w.block
        w.line(f"br label %{head}")
        w.label(head)
        phi = len(w.lines)
        xs = [w.inst(f"load {wide}, ptr {at(slot, wide, index)}") for slot in slots]
        made = elementwise.apply(op, w, wide.lanes, dtype, xs, dtype)
        w.line(f"store {wide} {made}, ptr {at(slots[0], wide, index)}")
        following = w.inst(f"add nuw nsw i64 {index}, 1")
        more = w.inst(f"icmp ult i64 {following}, {rounds}")
        w.line(f"br i1 {more}, label %{head}, label %{done}")
        w.lines.insert(phi, f"  {index} = phi i64 [ 0, %{before} ], [ {following}, %{w.block} ]")
        w.label(done)
        for k, number in enumerate(numbers):
            parts[number] = w.inst(f"load {vec}, ptr {at(slots[0], vec, k)}")
    return parts
