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

from collections.abc import Mapping
from functools import partial
from itertools import count as numbers

from minicc.backends.llvm.checks import WORDS, checks_of, checks_of_program
from minicc.errors import CompilerBug
from minicc.ir import affine, program
from minicc.ir.affine import Dim
from minicc.ir.core import Literal, Module, Op, Region, Value
from minicc.ir.types import static_shape

_FLUSH = 0x8040  # MXCSR: denormal results and operands are zero
ARENA, BARRIER, STATUS, FIRST = 0, 1, 2, 3


class Layout:
    """What stands where in the table of `main`, and what the memory behind it must hold.

    `work` counts the points of all launches; `checks` are those whose words are in the status.
    """

    __slots__ = ("arena", "checks", "constants", "inputs", "outputs", "work")

    def __init__(self, module: Module) -> None:
        main = module.main
        count: int = main.attrs["inputs"]
        self.arena: int = main.attrs["arena"]
        self.inputs = [a.type for a in main.args[:count]]
        self.outputs = [a.type for a in main.args[count:]]
        self.work = _work(main.body)
        self.checks = checks_of_program(module)
        self.constants: list[Literal] = [
            op.value for op in main.body.ops if isinstance(op, program.Constant)
        ]


def _work(region: Region) -> int:
    """The points of all launches, those of loops once a round."""
    work = 0
    for op in region.ops:
        if isinstance(op, program.Launch):
            work += op.work
        elif isinstance(op, program.Loop):
            (count,) = static_shape((op.count,))
            work += count * _work(op.body)
    return work


def emit_main(module: Module, flush_denormals: bool) -> str:
    """The LLVM module of `main`, with the kernels and the barrier as external functions."""
    main = module.main
    grids = {f.name: f.attrs["grid"] for f in module.functions if f is not main}
    checks = {f.name: len(checks_of(f)) for f in module.functions if f is not main}
    emitter = _Main(grids, checks, FIRST + len(main.args))
    for k, a in enumerate(main.args):
        emitter.names[a] = f"%arg{k}"
        emitter.lines += _load_slot(f"arg{k}", FIRST + k)
    emitter.region(main.body)
    lines = emitter.lines
    if emitter.checked:
        lines = [*_load_slot("status", STATUS), *lines]
    return _module(lines, emitter.called, module, flush_denormals)


class _Main:
    """The lines of `main` so far, and what each value is called in them."""

    def __init__(
        self, grids: Mapping[str, tuple[int, ...]], checks: Mapping[str, int], slots: int
    ) -> None:
        self.grids = grids
        self.checks = checks
        self.slots = slots
        self.checked = 0
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.called: set[str] = set()
        self.numbers = numbers()

    def region(self, region: Region) -> None:
        """Emit the ops of a region in order."""
        for op in region.ops:
            self.op(op, next(self.numbers))

    def op(self, op: Op, number: int) -> None:
        """Emit one op; the number makes its names distinct."""
        names, lines = self.names, self.lines
        names.update(dict.fromkeys(op.results, f"%m{number}"))
        if isinstance(op, program.Alloc):
            lines.append(f"  %m{number} = getelementptr i8, ptr %arena, i64 {op.offset}")
        elif isinstance(op, program.Constant):
            lines += _load_slot(f"m{number}", self.slots)
            self.slots += 1
        elif isinstance(op, program.View):
            rounds = {f"i{k}": names[v] for k, v in enumerate(op.rounds)}
            offset = self.index(affine.multiply(op.offset, op.type.dtype.bytes), rounds)
            lines.append(f"  %m{number} = getelementptr i8, ptr {names[op.buffer]}, i64 {offset}")
        elif isinstance(op, program.Barrier):
            lines.append("  call void @minicc_barrier(ptr %barrier, i64 %threads)")
        elif isinstance(op, program.Launch):
            self.called.add(op.kernel)
            status: list[str] = []
            if self.checks[op.kernel]:
                at = WORDS * self.checked
                lines.append(f"  %s{number} = getelementptr i64, ptr %status, i64 {at}")
                status.append(f"ptr %s{number}")
            self.checked += self.checks[op.kernel]
            lines += _launch(op, number, self.grids[op.kernel], names, status)
        elif isinstance(op, program.Loop):
            self.loop(op, f"r{number}")
        else:
            raise CompilerBug("MC0306", f"{op.opname} has no emission", where=op.loc)

    def loop(self, op: program.Loop, name: str) -> None:
        """A loop that every thread runs."""
        self.names[op.body.args[0]] = f"%{name}"
        count = self.index(op.count, {})
        self.lines += [
            f"  br label %{name}.before",
            f"{name}.before:",
            f"  br label %{name}.head",
            f"{name}.head:",
            f"  %{name} = phi i64 [ 0, %{name}.before ], [ %{name}.next, %{name}.end ]",
            f"  %{name}.more = icmp slt i64 %{name}, {count}",
            f"  br i1 %{name}.more, label %{name}.body, label %{name}.after",
            f"{name}.body:",
        ]
        self.region(op.body)
        self.lines += [
            f"  br label %{name}.end",
            f"{name}.end:",
            f"  %{name}.next = add i64 %{name}, 1",
            f"  br label %{name}.head",
            f"{name}.after:",
        ]

    def index(self, expression: Dim, rounds: Mapping[str, str]) -> str:
        """An expression over the numbers of rounds as an i64."""

        def emit(opcode: str, a: object, b: object) -> str:
            name = f"%x{next(self.numbers)}"
            self.lines.append(f"  {name} = {opcode} i64 {a}, {b}")
            return name

        def smaller(a: object, b: object) -> str:
            less = f"%x{next(self.numbers)}"
            self.lines.append(f"  {less} = icmp slt i64 {a}, {b}")
            return emit(f"select i1 {less},", a, f"i64 {b}")

        return str(
            affine.fold(
                expression,
                lambda symbol: rounds[symbol],
                partial(emit, "add"),
                partial(emit, "mul"),
                partial(emit, "udiv"),  # the numbers of rounds are never negative
                partial(emit, "urem"),
                smaller,
            )
        )


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
    call = f"  call void @{op.kernel}({', '.join([*args, *status])})"
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
