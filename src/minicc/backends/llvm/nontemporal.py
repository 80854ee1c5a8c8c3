"""Nontemporal stores: past the caches, of what nobody reads soon.

A line that is written is read from memory first, unless all of it is written at once by a store
that says so. Such a store takes vectors at aligned addresses alone, and no order holds between it
and other stores: a fence ends what a kernel does, so that whoever sees that a launch is done sees
what it wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minicc.backends.llvm.emitter import Emitter
from minicc.backends.llvm.isa.system import DECLARE_FENCE, FENCE
from minicc.backends.llvm.writer import Vec
from minicc.ir import kernel
from minicc.ir.core import Op

_LEAST, _MOST = 16, 64  # bytes of a vector that is written past the caches
_HINT = "!1"
_MARK = f"\n{_HINT} = !{{i32 1}}\n"


class Write(NamedTuple):
    """A vector, where it goes, and how many bytes that is from where the first one goes."""

    vec: Vec
    value: str
    at: str
    distance: int


def store_all(e: Emitter, writes: Sequence[Write], size: int) -> None:
    """Write vectors of elements of so many bytes past the caches, if they turn out to be aligned.

    Whether they are is seen while the kernel runs: arrays of a caller's may begin anywhere.
    """
    w = e.w
    usual = [f"store {x.vec} {x.value}, ptr {x.at}, align {size}" for x in writes]
    aligned = [_alignment(x) for x in writes]
    most = max(aligned, default=0)
    if not most:
        for line in usual:
            w.line(line)
        return
    number = w.inst(f"ptrtoint ptr {writes[0].at} to i64")
    beyond = w.inst(f"and i64 {number}, {most - 1}")
    whole = w.inst(f"icmp eq i64 {beyond}, 0")
    names = [w.fresh(name) for name in ("past", "usual", "stored")]
    w.line(f"br i1 {whole}, label %{names[0]}, label %{names[1]}")
    w.label(names[0])
    for x, alignment in zip(writes, aligned, strict=True):
        hint = f", !nontemporal {_HINT}" if alignment else ""
        w.line(f"store {x.vec} {x.value}, ptr {x.at}, align {alignment or size}{hint}")
    w.line(f"br label %{names[2]}")
    w.label(names[1])
    for line in usual:
        w.line(line)
    w.line(f"br label %{names[2]}")
    w.label(names[2])
    e.fenced = True


def _alignment(write: Write) -> int:
    """To what a vector is aligned if the first one is aligned enough for all; 0 if it is not."""
    size = write.vec.lanes * write.vec.bits // 8
    fits = _LEAST <= size <= _MOST and size.bit_count() == 1 and write.distance % size == 0
    return size if fits else 0


def passes_by(ops: Sequence[Op]) -> bool:
    """Whether a kernel of these ops does little else than pass memory by."""
    past = any(isinstance(op, kernel.Store) and op.nontemporal for op in ops)
    return past and not any(isinstance(op, kernel.Dot) for op in ops)


def fence(e: Emitter) -> str:
    """End the kernel with all such stores done; what its module's text ends with then."""
    if not e.fenced:
        return ""
    e.w.declares.setdefault("fence", DECLARE_FENCE)
    e.w.line(FENCE)
    return _MARK
