"""Checks of indices as LLVM instructions, and the record that failing ones leave.

Each `kernel.check` of each launch has two words of i64 in the status of a run: whether it failed,
and the least index that it met then. A kernel with checks takes the address of its launch's first
words after its other parameters. What fails is recorded by atomic instructions that give the same
words in any order, so that what is told does not depend on threads; then the kernel goes on at
index 0, and the run comes to its end.
"""

from __future__ import annotations

from minicc.backends.layout import WORDS, Check
from minicc.backends.llvm.emitter import Emitter
from minicc.backends.llvm.tiles import ELEMENT
from minicc.backends.llvm.writer import Vec
from minicc.ir import kernel, program
from minicc.ir.affine import Expr, substitute
from minicc.ir.core import Function, Module, walk

STATUS = "%status"
_I64 = Vec(1, "i64")


def checks_of(function: Function) -> list[kernel.Check]:
    """The checks of a kernel in the order of their words."""
    return [op for op in walk(function.body) if isinstance(op, kernel.Check)]


def checks_of_program(module: Module) -> tuple[Check, ...]:
    """The checks of all launches in the order of their words."""
    kernels = {f.name: (f, checks_of(f)) for f in module.functions if f is not module.main}
    found: list[Check] = []
    for op in program.launches(module.main.body):
        kernel, checks = kernels[op.kernel]
        sizes = op.sizes_in(kernel) if checks else {}
        found += [Check(op.bound(c.loc), substitute(c.extent, sizes)) for c in checks]
    return tuple(found)


def check(e: Emitter, op: kernel.Check) -> None:
    """Count from the end where negative; record what is out of range, and go on with 0."""
    w, dtype = e.w, op.x.type.dtype
    index = e.tile(op.x).part(0)
    if dtype.bits < 64:
        extend = "sext" if dtype.kind == "i" else "zext"
        index = w.convert(extend, Vec(1, ELEMENT[dtype.name]), index, _I64)
    negative = w.compare("slt", _I64, index, "0")
    extent = e.of_sizes(op.extent) if isinstance(op.extent, Expr) else str(op.extent)
    after = w.binary("add", _I64, index, extent)
    place = w.select(_I64, negative, after, index)
    inside = w.compare("ult", _I64, place, extent)
    bad, good, before = w.fresh("bad"), w.fresh("good"), w.block
    w.line(f"br i1 {inside}, label %{good}, label %{bad}")
    w.label(bad)
    failed = w.inst(f"getelementptr i64, ptr {STATUS}, i64 {WORDS * e.checks}")
    least = w.inst(f"getelementptr i64, ptr {STATUS}, i64 {WORDS * e.checks + 1}")
    w.line(f"store atomic i64 1, ptr {failed} monotonic, align 8")
    w.inst(f"atomicrmw min ptr {least}, i64 {index} monotonic")
    w.line(f"br label %{good}")
    w.label(good)
    e.number(op.result, w.inst(f"phi i64 [ {place}, %{before} ], [ 0, %{bad} ]"))
    e.checks += 1
