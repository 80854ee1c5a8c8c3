"""`main` of the program level to LLVM IR: one native function that the caller's thread runs.

Its signature is `void main(ptr table)`; the table holds addresses: the arena, the thread team, the
status, a function, then the free dimensions (numbers, not addresses), main's arguments, and the
constants in the order of their ops (`Layout`).
A launch that is shared is handed to the team (`shares`); any other is a call. A barrier waits until
all is done that was handed out, as `main` does before it writes the frame again and before it
returns. The team's functions are those of `runtime.claims`. A loop that data end calls the table's
function now and then, and ends when that says so: an interrupt must end one that data would not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import count as numbers
from math import prod

from minicc.backends.layout import ARENA, FIRST, STATUS, TEAM, WATCH, WORDS, Layout
from minicc.backends.llvm import shares
from minicc.backends.llvm.checks import checks_of, checks_of_program
from minicc.backends.llvm.emitter import symbol_of
from minicc.backends.llvm.isa.system import DECLARE_MODE, FLUSH, save_mode, set_mode
from minicc.backends.llvm.sizes import evaluated, parameter
from minicc.errors import CompilerBug
from minicc.ir import affine, affine_facts, program
from minicc.ir.affine import Dim, symbol
from minicc.ir.core import Function, Module, Op, Region, Value, walk
from minicc.ir.kernel import scratch_of
from minicc.ir.scan import largest_rounds
from minicc.ir.types import BufferType
from minicc.options import Flushed

_WATCHED = 10_000_000  # points of a loop's rounds after which it asks whether to go on
_MOST_ROUNDS = 1 << 16  # or rounds, where these are small
_USUAL = 16  # what a size that data give is taken for, where it may be as large
_LIGHT = 4096  # points of a launch in a loop that may be inlined
_FEW_BYTES = 16  # of memory that may be a register
_SHORT, _MOST_INLINED = 120, 1000  # ops of such a kernel, and of all of them


def layout_of(module: Module) -> Layout:
    """What stands where in the table of `main`."""
    main = module.main
    types = [a.type for a in main.args]
    count: int = main.attrs["inputs"]
    allocs = (op for op in main.body.ops if isinstance(op, program.Alloc))
    # `main` computes these, and nobody else wants them
    places = {n for op in allocs for n in affine.symbols(op.offset)}
    places -= affine.symbols(main.attrs["arena"])
    return Layout(
        sizes=main.attrs.get("sizes", ()),
        derived=tuple(pair for pair in main.attrs.get("derived", ()) if pair[0] not in places),
        guards=main.attrs.get("guards", ()),
        arena=main.attrs["arena"],
        scratch=main.attrs.get("scratch", 0),
        inputs=tuple(types[:count]),
        outputs=tuple(types[count:]),
        work=_work(main.body),
        shares=any(op.split for op in program.launches(main.body)),
        checks=checks_of_program(module),
        watched=tuple(op.loc for op in _watched(main.body)),
        donated=main.attrs.get("donated", ()),
        constants=tuple(op.value.array for op in main.body.ops if isinstance(op, program.Constant)),
    )


def inlined_kernels(module: Module) -> set[str]:
    """The kernels that `main` has within its loops, where calls would cost more than they do.

    Those of loops that have small ones alone: beside large ones a call costs nothing.
    """
    loops = [op for op in walk(module.main.body) if isinstance(op, program.Loop)]
    if not loops:
        return set()
    ranges = largest_rounds(module.main.body)
    lengths = {f.name: sum(1 for _ in walk(f.body)) for f in module.functions}

    def is_small(op: program.Launch) -> bool:
        most = affine_facts.at_most(op.work, ranges)
        light = not op.split and isinstance(most, int) and most <= _LIGHT
        return light and lengths[op.kernel] <= _SHORT

    small: dict[str, None] = {}
    for loop in loops:
        inside = [op for op in loop.body.ops if isinstance(op, program.Launch)]
        if all(map(is_small, inside)):
            small.update((op.kernel, None) for op in inside)
    left = _MOST_INLINED - sum(lengths[name] for name in small)
    if left < 0 or not small:
        return set()
    # what is around them sets their states, and reads these
    root, states = program.roots(module.main), _of_few_bytes(module.main)
    for op in program.launches(module.main.body):
        used = {root[v] for v in op.buffers}
        around = op.kernel not in small and is_small(op) and not states.isdisjoint(used)
        if around and lengths[op.kernel] <= left:
            small[op.kernel] = None
            left -= lengths[op.kernel]
    return {*small}


def on_stack(main: Function, inlined: Set[str]) -> set[Value]:
    """The allocations of a few bytes that inlined kernels alone use, and `main` itself.

    On the stack, LLVM sees that nobody else does, and keeps them in registers.
    """
    if not inlined:
        return set()
    root, found = program.roots(main), _of_few_bytes(main)
    for op in walk(main.body):
        if isinstance(op, program.Launch) and (op.split or op.kernel not in inlined):
            found.difference_update(root[v] for v in op.buffers)
    return found


def _of_few_bytes(main: Function) -> set[Value]:
    return {
        op.result
        for op in walk(main.body)
        if isinstance(op, program.Alloc) and affine_facts.at_least(_FEW_BYTES, _bytes(op.type))
    }


def _bytes(type: BufferType) -> Dim:
    return affine.multiply(type.reach(), type.dtype.bytes)


def _work(region: Region) -> Dim:
    """The points of all launches, those of loops once a round, those of the larger branch."""
    work: Dim = 0
    for op in region.ops:
        if isinstance(op, program.Launch):
            work = work + op.work
        elif isinstance(op, program.Loop):
            count = 1 if op.conditions else op.count  # data end it, perhaps at once
            half = affine.floordiv(op.count, 2)
            work = work + count * affine.substitute(_work(op.body), {op.index: half})
        elif isinstance(op, program.Sized):
            half = affine.minimum(affine.floordiv(op.count, 2), _USUAL)
            work = work + affine.substitute(_work(op.body), {op.index: half})
        elif isinstance(op, program.If):
            work = work + max(map(_work, op.regions), key=affine.typical)
    return work


def emit_main(module: Module, flushed: Flushed) -> str:
    """The LLVM module of `main`, with the kernels and the team's services as external functions."""
    main = module.main
    kernels = {f.name: f for f in module.functions if f is not main}
    checks = {f.name: len(checks_of(f)) for f in module.functions if f is not main}
    free = main.attrs.get("sizes", ())
    first = FIRST + len(free)
    sizes = _Sizes(free, main.attrs.get("derived", ()))
    slots = on_stack(main, inlined_kernels(module))
    watched = _watched(main.body)
    emitter = _Main(kernels, checks, sizes, first + len(main.args), slots, watched)
    for k, a in enumerate(main.args):
        emitter.names[a] = f"%arg{k}"
        emitter.lines += _load_slot(f"arg{k}", first + k)
    emitter.region(main.body)
    lines = emitter.lines
    if "scratch" in main.attrs:
        lines = [*_thread_scratch(main.attrs["arena"], main.attrs["scratch"], sizes), *lines]
    lines = [*emitter.stack, *sizes.loads, *lines]
    if emitter.checked:
        lines = [*_load_slot("status", STATUS), *lines]
    if emitter.watched:
        lines = [*_load_slot("watch", WATCH), *lines]
    if emitter.functions:
        lines = [f"  %frame = alloca [{emitter.width} x i64], align 8", *lines, shares.BARRIER]
    return _module(lines, list(emitter.functions.values()), emitter.called, module, FLUSH[flushed])


class _Main:
    """The lines of `main` so far, and what each value is called in them."""

    def __init__(
        self,
        kernels: Mapping[str, Function],
        checks: Mapping[str, int],
        sizes: _Sizes,
        slots: int,
        on_stack: Set[Value],
        watched: Sequence[program.Loop],
    ) -> None:
        self.watched: dict[Op, int] = {op: k for k, op in enumerate(watched)}
        self.kernels = kernels
        self.on_stack = on_stack
        self.stack: list[str] = []
        self.checks = checks
        self.holders = {name for name, f in kernels.items() if scratch_of(f) != 0}
        self.sizes = sizes
        self.slots = slots
        self.checked = 0
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.called: set[str] = set()
        self.functions: dict[str, str] = {}  # through which launches are shared, by name
        self.width = 0  # of the frame
        self.round = ""  # the number of that of the innermost loop
        self.numbers = numbers()

    def region(self, region: Region) -> None:
        """Emit the ops of a region in order."""
        for op in region.ops:
            self.op(op, next(self.numbers))

    def op(self, op: Op, number: int) -> None:
        """Emit one op; the number makes its names distinct."""
        names, lines = self.names, self.lines
        names.update(dict.fromkeys(op.results, f"%m{number}"))
        if isinstance(op, program.Alloc) and op.result in self.on_stack:
            self.stack.append(f"  %m{number} = alloca i8, i64 {_bytes(op.type)}, align 16")
        elif isinstance(op, program.Alloc):
            offset = self.sizes.value(op.offset)
            lines.append(f"  %m{number} = getelementptr i8, ptr %arena, i64 {offset}")
        elif isinstance(op, program.Constant):
            lines += _load_slot(f"m{number}", self.slots)
            self.slots += 1
        elif isinstance(op, program.View):
            rounds = {f"i{k}": names[v] for k, v in enumerate(op.rounds)}
            offset = self.index(affine.multiply(op.offset, op.type.dtype.bytes), rounds)
            lines.append(f"  %m{number} = getelementptr i8, ptr {names[op.buffer]}, i64 {offset}")
        elif isinstance(op, program.Barrier):
            lines.append(shares.BARRIER)
        elif isinstance(op, program.Launch):
            self.launch(op, number)
        elif isinstance(op, program.Loop):
            self.loop(op, f"r{number}")
        elif isinstance(op, program.If):
            self.branch(op, f"c{number}")
        elif isinstance(op, program.Sized):
            self.sized(op, f"n{number}")
        else:
            raise CompilerBug("MC0306", f"{op.opname} has no emission", where=op.loc)

    def launch(self, op: program.Launch, number: int) -> None:
        """A launch: a call, or something handed to the team."""
        self.called.add(op.kernel)
        kernel = self.kernels[op.kernel]
        actual = op.sizes_in(kernel)
        grid = [self.sizes.value(affine.substitute(n, actual)) for n in kernel.attrs["grid"]]
        rest = [f"i64 {self.sizes.value(n)}" for n in op.sizes]
        if op.kernel in self.holders:  # of scratch beside the stack
            rest.append(shares.SCRATCH)
        if self.checks[op.kernel]:
            at = WORDS * self.checked
            self.lines.append(f"  %s{number} = getelementptr i64, ptr %status, i64 {at}")
            rest.append(f"ptr %s{number}")
        self.checked += self.checks[op.kernel]
        arguments = [*shares.arguments(op, grid, self.names), *rest]
        if not op.split:
            self.lines.append(f"  call void @{symbol_of(op.kernel)}({', '.join(arguments)})")
            return
        stub = shares.stub(op, arguments, self.functions)
        frame = shares.frame_of(op, arguments, self.round)
        self.width = max(self.width, len(frame))
        points = prod(kernel.attrs["grid"][axis] for axis in op.split)
        extent = self.sizes.value(affine.substitute(points, actual))
        work = self.sizes.value(op.work)
        self.lines.append(shares.hand_out(extent, work, stub, frame, self.functions))

    def branch(self, op: program.If, name: str) -> None:
        """One of two regions, as a byte of memory says."""
        self.lines += [
            f"  %{name} = load i8, ptr {self.names[op.condition]}",
            f"  %{name}.holds = icmp ne i8 %{name}, 0",
            f"  br i1 %{name}.holds, label %{name}.then, label %{name}.other",
        ]
        for region, label in ((op.then, "then"), (op.other, "other")):
            self.lines.append(f"{name}.{label}:")
            self.region(region)
            self.lines.append(f"  br label %{name}.after")
        self.lines.append(f"{name}.after:")

    def sized(self, op: program.Sized, name: str) -> None:
        """A region with a size that memory holds, cut to what it may be."""
        most = self.index(affine.add(op.count, -1), {})
        self.lines += [
            f"  %{name}.given = load i64, ptr {self.names[op.number]}",
            f"  %{name}.above = icmp sgt i64 %{name}.given, {most}",
            f"  %{name}.least = select i1 %{name}.above, i64 {most}, i64 %{name}.given",
            f"  %{name}.below = icmp slt i64 %{name}.least, 0",
            f"  %{name} = select i1 %{name}.below, i64 0, i64 %{name}.least",
        ]
        self.sizes.enter(op.index, f"%{name}", self.lines)
        self.region(op.body)
        self.sizes.leave(op.index)

    def loop(self, op: program.Loop, name: str) -> None:
        """A loop of the caller; how many rounds ran is what the next one's number would be."""
        names = (op.body.args[0], *op.results)
        self.names.update(dict.fromkeys(names, f"%{name}"))
        count = self.index(op.count, {})
        self.lines += [
            f"  br label %{name}.before",
            f"{name}.before:",
            f"  br label %{name}.head",
            f"{name}.head:",
            f"  %{name} = phi i64 [ 0, %{name}.before ], [ %{name}.next, %{name}.end ]",
            f"  %{name}.more = icmp slt i64 %{name}, {count}",
            f"  br i1 %{name}.more, label %{name}.there, label %{name}.after",
            f"{name}.there:",
        ]
        for condition in op.conditions:
            self.lines += [
                f"  %{name}.byte = load i8, ptr {self.names[condition]}",
                f"  %{name}.holds = icmp ne i8 %{name}.byte, 0",
                f"  br i1 %{name}.holds, label %{name}.watch, label %{name}.after",
                f"{name}.watch:",
            ]
        if op in self.watched:
            self.lines += [
                f"  %{name}.turn = and i64 %{name}, {_turns(op) - 1}",
                f"  %{name}.due = icmp eq i64 %{name}.turn, {_turns(op) - 1}",
                f"  br i1 %{name}.due, label %{name}.ask, label %{name}.body",
                f"{name}.ask:",
                f"  %{name}.many = mul i64 %{name}, {len(self.watched)}",
                f"  %{name}.own = add i64 %{name}.many, {self.watched[op]}",
                f"  %{name}.stop = call i32 %watch(i64 %{name}.own)",
                f"  %{name}.goes = icmp eq i32 %{name}.stop, 0",
                f"  br i1 %{name}.goes, label %{name}.body, label %{name}.after",
            ]
        else:
            self.lines.append(f"  br label %{name}.body")
        self.lines.append(f"{name}.body:")
        self.sizes.enter(op.index, f"%{name}", self.lines)
        around, self.round = self.round, f"%{name}"
        self.region(op.body)
        self.round = around
        self.sizes.leave(op.index)
        self.lines += [
            f"  br label %{name}.end",
            f"{name}.end:",
            f"  %{name}.next = add i64 %{name}, 1",
            f"  br label %{name}.head",
            f"{name}.after:",
        ]

    def index(self, expression: Dim, rounds: Mapping[str, str]) -> str:
        """An expression over the numbers of rounds as an i64."""
        if not rounds:
            return self.sizes.value(expression)
        names = {**rounds, **{n: self.sizes.value(symbol(n)) for n in affine.sizes(expression)}}
        known: dict[Dim, str] = {symbol(n): name for n, name in names.items()}
        return evaluated(expression, self.lines, known, f"x{next(self.numbers)}.")


def _watched(region: Region) -> list[program.Loop]:
    """The loops that data end, or whose rounds data count: there may be any number of these."""
    counted = {op.index for op in walk(region) if isinstance(op, program.Sized)}
    loops = (op for op in walk(region) if isinstance(op, program.Loop))
    return [op for op in loops if op.conditions or counted & affine.symbols(op.count)]


def _turns(op: program.Loop) -> int:
    """After how many rounds a loop asks whether to go on, a power of two."""
    rounds = _WATCHED // max(1, affine.typical(_work(op.body)))
    return 1 << max(0, min(rounds, _MOST_ROUNDS).bit_length() - 1)


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
        self.rounds: dict[str, str] = {}
        self.lines = self.loads
        self.numbers = numbers()
        for k, name in enumerate(names):
            self.known[symbol(name)] = parameter(k)
            self.loads += _load_slot(parameter(k)[1:], FIRST + k, "i64")
        for name, value in derived:
            self.known[symbol(name)] = self.value(value)

    def enter(self, index: str, value: str, lines: list[str]) -> None:
        """Begin with the body of a loop whose index is a size, to whose lines more are added."""
        if index:
            self.rounds[index] = value
            self.lines = lines

    def leave(self, index: str) -> None:
        """End with the body of a loop."""
        self.rounds.pop(index, None)

    def value(self, expression: Dim) -> str:
        """An expression as an i64; numbers come back as their digits."""
        if isinstance(expression, int):
            return str(expression)
        if affine.symbols(expression) & self.rounds.keys():
            # where it is used, since it is another one in each round
            known: dict[Dim, str] = {}
            for name in affine.sizes(expression):
                known[symbol(name)] = self.rounds.get(name) or self.value(symbol(name))
            return evaluated(expression, self.lines, known, f"y{next(self.numbers)}.")
        if expression not in self.known:
            self.known[expression] = evaluated(expression, self.loads, self.known)
        return self.known[expression]


def _thread_scratch(arena: Dim, scratch: Dim, sizes: _Sizes) -> list[str]:
    """The scratch of the caller's thread lies after the arena, then that of each other one."""
    start, part = sizes.value(arena), sizes.value(scratch)
    return [
        f"  %scratch = getelementptr i8, ptr %arena, i64 {start}",
        f"  {shares.PART[4:]} = add i64 {part}, 0",
    ]


def _module(
    lines: list[str], functions: list[str], called: set[str], module: Module, flush: int
) -> str:
    declarations = [
        "declare void @minicc_launch(ptr, ptr, ptr, i64, i64)",
        "declare void @minicc_barrier(ptr)",
    ]
    for f in module.functions:
        if f.name in called:
            count = len(f.attrs["grid"])
            kinds = ["ptr"] * (len(f.args) - count) + ["i64"] * (2 * count)
            kinds += ["i64"] * len(f.attrs.get("sizes", ()))
            kinds += ["ptr"] if scratch_of(f) != 0 else []
            kinds += ["ptr"] if checks_of(f) else []
            declarations.append(f"declare hidden void @{symbol_of(f.name)}({', '.join(kinds)})")
    begin, end = [], []
    if flush:
        declarations.append(DECLARE_MODE)
        begin = [
            "  %before = alloca i32",
            "  %within = alloca i32",
            save_mode("%before"),
            "  %mode = load i32, ptr %before",
            f"  %flushing = or i32 %mode, {flush}",
            "  store i32 %flushing, ptr %within",
            set_mode("%within"),
        ]
        end = [set_mode("%before")]
    return "\n".join(
        [
            *declarations,
            *functions,
            "define void @main(ptr %table) nounwind {",
            "entry:",
            *begin,
            *_load_slot("arena", ARENA),
            *_load_slot("team", TEAM),
            *lines,
            *end,
            "  ret void",
            "}",
            "",
        ]
    )
