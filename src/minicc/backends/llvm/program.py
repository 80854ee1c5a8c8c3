"""`main` of the program level to LLVM IR: one native function that every thread runs.

Its signature is `void main(i64 thread, i64 threads, ptr table)`; the table holds addresses: the
arena, the barrier, the status, then the free dimensions (numbers, not addresses), main's arguments,
and the constants in the order of their ops (`Layout`).
A launch calls the kernel with its buffers and the part of the grid that is the thread's share; a
barrier calls `minicc_barrier`.

Mirrors: IREE's VM with its native executables, XLA:CPU's thunk sequence, ORT's execution plan,
compiled to one call.
"""

from __future__ import annotations

from collections.abc import Sequence

from minicc.backends.llvm.checks import WORDS, checks_of, checks_of_program
from minicc.backends.llvm.sizes import evaluated, parameter
from minicc.errors import CompilerBug
from minicc.ir import affine, program
from minicc.ir.affine import Dim
from minicc.ir.core import Literal, Module, Value
from minicc.ir.kernel import scratch_of

_FLUSH = 0x8040  # MXCSR: denormal results and operands are zero
ARENA, BARRIER, STATUS, FIRST = 0, 1, 2, 3


class Layout:
    """What stands where in the table of `main`, and what the memory behind it must hold.

    `work` counts the points of all launches; `checks` are those whose words are in the status.
    """

    __slots__ = (
        "arena", "checks", "constants", "derived", "guards", "inputs", "outputs", "scratch",
        "sizes", "work",
    )  # fmt: skip

    def __init__(self, module: Module) -> None:
        main = module.main
        count: int = main.attrs["inputs"]
        self.sizes: tuple[str, ...] = main.attrs.get("sizes", ())
        self.derived: tuple[tuple[str, Dim], ...] = main.attrs.get("derived", ())
        self.guards: tuple[tuple[Dim, Dim], ...] = main.attrs.get("guards", ())
        self.arena: Dim = main.attrs["arena"]
        self.scratch: Dim = main.attrs.get("scratch", 0)
        self.inputs = [a.type for a in main.args[:count]]
        self.outputs = [a.type for a in main.args[count:]]
        self.work: Dim = 0
        for op in main.body.ops:
            if isinstance(op, program.Launch):
                self.work = self.work + op.work
        self.checks = checks_of_program(module)
        self.constants: list[Literal] = [
            op.value for op in main.body.ops if isinstance(op, program.Constant)
        ]


def emit_main(module: Module, flush_denormals: bool) -> str:
    """The LLVM module of `main`, with the kernels and the barrier as external functions."""
    main = module.main
    kernels = {f.name: f for f in module.functions if f is not main}
    checks = {f.name: len(checks_of(f)) for f in module.functions if f is not main}
    checked = 0
    lines: list[str] = []
    names: dict[Value, str] = {}
    free = main.attrs.get("sizes", ())
    first = FIRST + len(free)
    sizes = _Sizes(free, main.attrs.get("derived", ()))
    slots = first + len(main.args)
    for k, a in enumerate(main.args):
        names[a] = f"%arg{k}"
        lines += _load_slot(f"arg{k}", first + k)
    called: set[str] = set()
    for number, op in enumerate(main.body.ops):
        if isinstance(op, program.Alloc):
            names[op.result] = f"%m{number}"
            offset = sizes.value(op.offset)
            lines.append(f"  %m{number} = getelementptr i8, ptr %arena, i64 {offset}")
        elif isinstance(op, program.Constant):
            names[op.result] = f"%m{number}"
            lines += _load_slot(f"m{number}", slots)
            slots += 1
        elif isinstance(op, program.View):
            names[op.result] = f"%m{number}"
            offset = sizes.value(op.offset * op.type.dtype.bytes)
            lines.append(f"  %m{number} = getelementptr i8, ptr {names[op.buffer]}, i64 {offset}")
        elif isinstance(op, program.Barrier):
            lines.append("  call void @minicc_barrier(ptr %barrier, i64 %threads)")
        elif isinstance(op, program.Launch):
            called.add(op.kernel)
            kernel = kernels[op.kernel]
            actual = op.sizes_in(kernel)
            grid = [sizes.value(affine.substitute(n, actual)) for n in kernel.attrs["grid"]]
            rest = [f"i64 {sizes.value(n)}" for n in op.sizes]
            if scratch_of(kernel) != 0:
                rest.append("ptr %scratch")
            if checks[op.kernel]:
                at = WORDS * checked
                lines.append(f"  %s{number} = getelementptr i64, ptr %status, i64 {at}")
                rest.append(f"ptr %s{number}")
            checked += checks[op.kernel]
            lines += _launch(op, number, grid, names, rest)
        else:
            raise CompilerBug("MC0306", f"{op.opname} has no emission", where=op.loc)
    if "scratch" in main.attrs:
        lines = [*_thread_scratch(main.attrs["arena"], main.attrs["scratch"], sizes), *lines]
    lines = [*sizes.loads, *lines]
    if checked:
        lines = [*_load_slot("status", STATUS), *lines]
    return _module(lines, called, module, flush_denormals)


def _load_slot(name: str, slot: int, kind: str = "ptr") -> list[str]:
    return [
        f"  %{name}.at = getelementptr ptr, ptr %table, i64 {slot}",
        f"  %{name} = load {kind}, ptr %{name}.at",
    ]


class _Sizes:
    """The free dimensions of `main`, and what it computes of them, each thing once."""

    def __init__(self, names: Sequence[str], derived: Sequence[tuple[str, Dim]]) -> None:
        self.loads: list[str] = []
        self.known: dict[Dim, str] = {}
        for k, name in enumerate(names):
            self.known[affine.symbol(name)] = parameter(k)
            self.loads += _load_slot(parameter(k)[1:], FIRST + k, "i64")
        for name, value in derived:
            self.known[affine.symbol(name)] = self.value(value)

    def value(self, expression: Dim) -> str:
        """An expression as an i64; numbers come back as their digits."""
        if isinstance(expression, int):
            return str(expression)
        if expression not in self.known:
            self.known[expression] = evaluated(expression, self.loads, self.known)
        return self.known[expression]


def _thread_scratch(arena: Dim, scratch: Dim, sizes: _Sizes) -> list[str]:
    """Each thread's own scratch lies behind the arena."""
    start, part = sizes.value(arena), sizes.value(scratch)
    return [
        f"  %scratch.of = mul i64 %thread, {part}",
        f"  %scratch.at = add i64 %scratch.of, {start}",
        "  %scratch = getelementptr i8, ptr %arena, i64 %scratch.at",
    ]


def _launch(
    op: program.Launch,
    number: int,
    grid: Sequence[str],
    names: dict[Value, str],
    rest: list[str],
) -> list[str]:
    args = [f"ptr {names[v]}" for v in op.buffers]
    lines: list[str] = []
    for axis, extent in enumerate(grid):
        lo, hi = "0", extent
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
    call = f"  call void @{op.kernel}({', '.join([*args, *rest])})"
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
            kinds += ["i64"] * len(f.attrs.get("sizes", ()))
            kinds += ["ptr"] if scratch_of(f) != 0 else []
            kinds += ["ptr"] if checks_of(f) else []
            declarations.append(f"declare void @{f.name}({', '.join(kinds)})")
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
