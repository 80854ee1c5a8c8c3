"""`main` of the program level to LLVM IR: one native function that every thread runs.

Its signature is `void main(i64 thread, i64 threads, ptr table)`; the table holds addresses: the
arena, the barrier, the status, then main's arguments, then the constants in the order of their ops
(`Layout`).
A launch calls the kernel with its buffers and the part of the grid that is the thread's share; a
barrier calls `minicc_barrier`.

Mirrors: IREE's VM with its native executables, XLA:CPU's thunk sequence, ORT's execution plan,
compiled to one call.
"""

from __future__ import annotations

from minicc.backends.layout import ARENA, BARRIER, FIRST, STATUS, WORDS, Layout
from minicc.backends.llvm.checks import checks_of, checks_of_program
from minicc.backends.llvm.emitter import symbol_of
from minicc.errors import CompilerBug
from minicc.ir import program
from minicc.ir.core import Module, Value

_FLUSH = 0x8040  # MXCSR: denormal results and operands are zero


def layout_of(module: Module) -> Layout:
    """What stands where in the table of `main`."""
    main = module.main
    types = [a.type for a in main.args]
    count: int = main.attrs["inputs"]
    return Layout(
        main.attrs["arena"],
        tuple(types[:count]),
        tuple(types[count:]),
        sum(op.work for op in main.body.ops if isinstance(op, program.Launch)),
        checks_of_program(module),
        tuple(op.value.array for op in main.body.ops if isinstance(op, program.Constant)),
    )


def emit_main(module: Module, flush_denormals: bool) -> str:
    """The LLVM module of `main`, with the kernels and the barrier as external functions."""
    main = module.main
    grids = {f.name: f.attrs["grid"] for f in module.functions if f is not main}
    checks = {f.name: len(checks_of(f)) for f in module.functions if f is not main}
    checked = 0
    lines: list[str] = []
    names: dict[Value, str] = {}
    slots = FIRST + len(main.args)
    for k, a in enumerate(main.args):
        names[a] = f"%arg{k}"
        lines += _load_slot(f"arg{k}", FIRST + k)
    called: set[str] = set()
    for number, op in enumerate(main.body.ops):
        if isinstance(op, program.Alloc):
            names[op.result] = f"%m{number}"
            lines.append(f"  %m{number} = getelementptr i8, ptr %arena, i64 {op.offset}")
        elif isinstance(op, program.Constant):
            names[op.result] = f"%m{number}"
            lines += _load_slot(f"m{number}", slots)
            slots += 1
        elif isinstance(op, program.View):
            names[op.result] = f"%m{number}"
            offset = op.offset * op.type.dtype.bytes
            lines.append(f"  %m{number} = getelementptr i8, ptr {names[op.buffer]}, i64 {offset}")
        elif isinstance(op, program.Barrier):
            lines.append("  call void @minicc_barrier(ptr %barrier, i64 %threads)")
        elif isinstance(op, program.Launch):
            called.add(op.kernel)
            status: list[str] = []
            if checks[op.kernel]:
                at = WORDS * checked
                lines.append(f"  %s{number} = getelementptr i64, ptr %status, i64 {at}")
                status.append(f"ptr %s{number}")
            checked += checks[op.kernel]
            lines += _launch(op, number, grids[op.kernel], names, status)
        else:
            raise CompilerBug("MC0306", f"{op.opname} has no emission", where=op.loc)
    if checked:
        lines = [*_load_slot("status", STATUS), *lines]
    return _module(lines, called, module, flush_denormals)


def _load_slot(name: str, slot: int) -> list[str]:
    return [
        f"  %{name}.at = getelementptr ptr, ptr %table, i64 {slot}",
        f"  %{name} = load ptr, ptr %{name}.at",
    ]


def _launch(
    op: program.Launch,
    number: int,
    grid: tuple[int, ...],
    names: dict[Value, str],
    status: list[str],
) -> list[str]:
    args = [f"ptr {names[v]}" for v in op.buffers]
    lines: list[str] = []
    for axis, extent in enumerate(grid):
        lo, hi = "0", str(extent)
        if axis == op.split:
            n = f"%l{number}"
            lines += [
                f"  {n}.a = mul i64 %thread, {extent}",
                f"  {n}.lo = udiv i64 {n}.a, %threads",
                f"  {n}.b = add i64 {n}.a, {extent}",
                f"  {n}.hi = udiv i64 {n}.b, %threads",
            ]
            lo, hi = f"{n}.lo", f"{n}.hi"
        args += [f"i64 {lo}", f"i64 {hi}"]
    call = f"  call void @{symbol_of(op.kernel)}({', '.join([*args, *status])})"
    if op.split >= 0:
        return [*lines, call]
    return [
        f"  br i1 %first, label %alone{number}, label %behind{number}",
        f"alone{number}:",
        call,
        f"  br label %behind{number}",
        f"behind{number}:",
    ]


def _module(lines: list[str], called: set[str], module: Module, flush: bool) -> str:
    declarations = ["declare void @minicc_barrier(ptr, i64)"]
    for f in module.functions:
        if f.name in called:
            count = len(f.attrs["grid"])
            kinds = ["ptr"] * (len(f.args) - count) + ["i64"] * (2 * count)
            kinds += ["ptr"] if checks_of(f) else []
            declarations.append(f"declare void @{symbol_of(f.name)}({', '.join(kinds)})")
    begin, end = [], []
    if flush:
        declarations += [
            "declare void @llvm.x86.sse.stmxcsr(ptr)",
            "declare void @llvm.x86.sse.ldmxcsr(ptr)",
        ]
        begin = [
            "  %before = alloca i32",
            "  %within = alloca i32",
            "  call void @llvm.x86.sse.stmxcsr(ptr %before)",
            "  %mode = load i32, ptr %before",
            f"  %flushing = or i32 %mode, {_FLUSH}",
            "  store i32 %flushing, ptr %within",
            "  call void @llvm.x86.sse.ldmxcsr(ptr %within)",
        ]
        end = ["  call void @llvm.x86.sse.ldmxcsr(ptr %before)"]
    return "\n".join(
        [
            *declarations,
            "define void @main(i64 %thread, i64 %threads, ptr %table) nounwind {",
            "entry:",
            *begin,
            "  %first = icmp eq i64 %thread, 0",
            *_load_slot("arena", ARENA),
            *_load_slot("barrier", BARRIER),
            *lines,
            *end,
            "  ret void",
            "}",
            "",
        ]
    )
