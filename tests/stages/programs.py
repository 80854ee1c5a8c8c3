"""Small graph programs for tests: a builder, random programs, and a run through every stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minicc.backends.base import MemoryStore
from minicc.backends.llvm.compile import Compiling
from minicc.compile.compiler import lower
from minicc.ir import graph, interpret
from minicc.ir.arith import identity_of
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Module, Region, Value, same_module
from minicc.ir.program import Barrier, Launch
from minicc.ir.types import BOOL, F32, I32, I64, TensorType
from minicc.ir.verify import verify
from minicc.options import Options
from minicc.passes.program.parallelize import parallelize
from minicc.runtime.execute import NativeExecutable
from minicc.target import Target
from tests.guarded import guarded_runs
from tests.runtime.native import EVERYWHERE, code

Array = np.ndarray[Any, Any]
Body = Callable[..., Sequence[Value]]


def module(body: Body, *types: TensorType) -> Module:
    """A graph module whose `main` is what `body(builder, *arguments)` emits and returns."""
    args = [Value(t, f"x{k}") for k, t in enumerate(types)]
    b = Builder(("test.py:1",))
    results = body(b, *args)
    made = Module("graph", [Function("main", Region(args, b.ops, results))])
    verify(made)
    return made


def constant(b: Builder, value: Any) -> Value:
    """A constant op."""
    return b.emit(graph.Constant, value=Literal(np.asarray(value)))


def team() -> Any:
    """The thread team's code, once for all tests; it sleeps a little now and then."""
    return code(EVERYWHERE, 50)


def spread(program: Module) -> Module:
    """The same program with all launches shared that can be, however small they are."""

    def within(region: Region) -> Region:
        ops = [
            op.rebuilt(op.operands, work=1 << 30)
            if isinstance(op, Launch)
            else op.with_regions([within(r) for r in op.regions])
            for op in region.ops
            if not isinstance(op, Barrier)
        ]
        return Region(region.args, ops, region.yields)

    main = program.main
    body = main.with_body(within(main.body))
    functions = [body if f is main else f for f in program.functions]
    return parallelize(Module(program.level, functions), Target.named("avx512"))


# a program and the same with its launches shared are alike
_STORE = MemoryStore()


def machine_code(
    program: Module, target: str, inputs: Sequence[Array], threads: int
) -> list[Array]:
    """What the machine code of a program gives, denormals kept as the interpreter keeps them.

    It may touch no memory but its own.
    """
    with Compiling(Target.named(target), "nothing", team(), _STORE) as compiling:
        image, layout = compiling.program(program)
    executable = NativeExecutable(image, layout, threads)
    if executable.threads > 1:  # also where there are fewer processors
        executable.threads = threads
    first = executable.run(inputs)
    again = executable.run(inputs)
    assert all(map(same_bits, first, again)), "a second run gave other bits"
    for apart in guarded_runs(executable, inputs, first):
        assert all(map(same_bits, first, apart)), "other memory gave other bits"
    return first


def same_bits(a: Array, b: Array) -> bool:
    """Equal to the bit, but for which NaN it is."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    equal = (a == b) & (np.signbit(a) == np.signbit(b)) if a.dtype.kind in "fV" else a == b
    nans = np.isnan(a) & np.isnan(b) if a.dtype.kind in "fV" else np.zeros(a.shape, bool)
    return bool(np.all(equal | nans))


def changed(
    start: Module, options: Options, binding: Mapping[str, int] | None = None
) -> list[tuple[str, Module]]:
    """(stage, module) after each stage that changed something, verified; the last, a program."""
    found: list[tuple[str, Module]] = []

    def observe(stage: Any, before: Module, after: Module, seconds: float) -> None:
        if not same_module(before, after):
            verify(after)
            found.append((stage.name, after))

    lower(start, options, binding, observe=observe)
    return found


def results(
    found: Sequence[tuple[str, Module]], inputs: Sequence[Array]
) -> list[tuple[str, list[Array]]]:
    """What the interpreter gives after each of the stages."""
    return [(name, interpret.run(made, inputs, seed=k)) for k, (name, made) in enumerate(found)]


def every_stage(start: Module, inputs: Sequence[Array], options: Options) -> list[tuple[str, Any]]:
    """(stage, outputs) of the interpreter after each stage that changed something; the program."""
    found = changed(start, options)
    return [*results(found, inputs), ("program", found[-1][1])]


# random programs

_UNARY = (graph.Neg, graph.Abs, graph.Exp, graph.Tanh, graph.Erf)
_BINARY = (graph.Add, graph.Sub, graph.Mul, graph.Max, graph.Min)
_EXTENTS = st.sampled_from([1, 1, 2, 3, 5, 8, 17, 33])
_MOST = 50_000  # elements of one value


def _elementwise(draw: Any, b: Builder, values: list[Value]) -> Value:
    x = draw(st.sampled_from(values))
    if draw(st.booleans()):
        # a bounded argument keeps exp from overflowing
        return b.emit(draw(st.sampled_from(_UNARY)), b.emit(graph.Tanh, x))
    fitting = [v for v in values if _broadcasts(v, x)]
    y = draw(st.sampled_from(fitting)) if draw(st.booleans()) else constant(b, np.float32(0.75))
    if draw(st.integers(0, 3)) == 0:
        # a condition on what is computed would turn its rounding into another result
        given = [v for v in values[:1] if _broadcasts(v, x) and _broadcasts(v, y)]
        if given:
            condition = b.emit(graph.Lt, given[0], constant(b, np.float32(0.25)))
            return b.emit(graph.Select, condition, y, x)
    return b.emit(draw(st.sampled_from(_BINARY)), x, y)


def _broadcasts(x: Value, y: Value) -> bool:
    pairs = zip(x.type.extents[::-1], y.type.extents[::-1], strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def _reduce(draw: Any, b: Builder, values: list[Value]) -> Value:
    x = draw(st.sampled_from([v for v in values if v.type.rank]))
    axes = draw(st.sets(st.integers(0, x.type.rank - 1), min_size=1))
    combine = draw(st.sampled_from(["add", "max", "min"]))
    return b.emit(
        graph.Reduce, x, axes=tuple(sorted(axes)), combine=combine, keepdims=draw(st.booleans())
    )


def _softmax(draw: Any, b: Builder, values: list[Value]) -> Value:
    x = draw(st.sampled_from([v for v in values if v.type.rank]))
    axis = (draw(st.integers(0, x.type.rank - 1)),)
    most = b.emit(graph.Reduce, x, axes=axis, combine="max", keepdims=True)
    e = b.emit(graph.Exp, b.emit(graph.Sub, x, most))
    total = b.emit(graph.Reduce, e, axes=axis, combine="add", keepdims=True)
    return b.emit(graph.Div, e, total)


def _move(draw: Any, b: Builder, values: list[Value]) -> Value:
    x = draw(st.sampled_from([v for v in values if v.type.rank]))
    rank, shape = x.type.rank, x.type.extents
    kind = draw(st.sampled_from(["transpose", "reshape", "concat", "pad", "slice"]))
    if kind == "transpose":
        return b.emit(graph.Transpose, x, perm=tuple(draw(st.permutations(range(rank)))))
    if kind == "reshape":
        return b.emit(graph.Reshape, x, shape=(int(np.prod(shape)),))
    if kind == "concat":
        fitting = [v for v in values if v.type == x.type]
        return b.emit(graph.Concat, (x, draw(st.sampled_from(fitting))), axis=rank - 1)
    if kind == "pad":
        low = tuple(draw(st.integers(0, 2)) for _ in shape)
        high = tuple(draw(st.integers(0, 2)) for _ in shape)
        return b.emit(graph.Pad, x, low=low, high=high, value=Literal(np.float32(-1.5)))
    starts = tuple(n - 1 for n in shape)
    backwards = (tuple(-1 for _ in shape), tuple(-1 for _ in shape))
    return b.emit(graph.Slice, x, starts=starts, stops=backwards[0], steps=backwards[1])


def _contract(draw: Any, b: Builder, values: list[Value]) -> Value:
    x = draw(st.sampled_from([v for v in values if v.type.rank]))
    letters = "abcd"[: x.type.rank]
    n = draw(_EXTENTS)
    rng = np.random.default_rng(n)
    w = rng.standard_normal((x.type.extents[-1], n)).astype(np.float32)
    tanh = b.emit(graph.Tanh, x)
    equation = f"{letters},{letters[-1]}z->{letters[:-1]}z"
    return b.emit(graph.Contract, tanh, constant(b, w), equation=equation)


def _convolve(draw: Any, b: Builder, values: list[Value]) -> Value:
    images = [
        v
        for v in values
        if v.type.rank == 4 and min(v.type.extents) and min(v.type.extents[2:]) >= 2
    ]
    if not images:
        return _elementwise(draw, b, values)
    x = draw(st.sampled_from(images))
    stride = (draw(st.sampled_from([1, 2])),) * 2
    size = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    if draw(st.booleans()):
        ones = (1, 1)
        return b.emit(
            graph.Window,
            x,
            combine="max",
            size=(1, 1, *size),
            strides=(1, 1, *stride),
            dilations=(1, 1, *ones),
        )
    edge = draw(st.integers(0, 1))
    low = (0, 0, edge, edge)
    padded = b.emit(
        graph.Pad, b.emit(graph.Tanh, x), low=low, high=low, value=identity_of("add", F32)
    )
    channels = x.type.extents[1]
    groups = draw(st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0]))
    outputs = groups * draw(st.integers(1, 3)) if groups > 1 else draw(_EXTENTS)
    rng = np.random.default_rng(outputs)
    w = rng.standard_normal((outputs, channels // groups, *size)).astype(np.float32)
    return b.emit(
        graph.Conv, padded, constant(b, w), strides=stride, dilations=(1, 1), groups=groups
    )


def _gather(draw: Any, b: Builder, values: list[Value]) -> Value:
    """At indices of the first argument: of what is computed, rounding would make other indices."""
    x = draw(st.sampled_from([v for v in values if v.type.rank]))
    axis = draw(st.integers(0, x.type.rank - 1))
    extent = x.type.extents[axis]
    source = values[0]
    large = np.prod(source.type.extents) * np.prod(x.type.extents) > _MOST * extent
    if not extent or large or source.type.rank + x.type.rank > 5:
        return _elementwise(draw, b, values)
    number = b.emit(graph.Mul, source, constant(b, np.float32(7)))
    whole = b.emit(graph.Cast, number, dtype=draw(st.sampled_from([I32, I64])))
    like = whole.type.dtype.numpy
    inside = b.emit(graph.Mod, whole, constant(b, np.asarray(2 * extent, like)))
    signed = b.emit(graph.Sub, inside, constant(b, np.asarray(extent, like)))
    return b.emit(graph.Gather, x, signed, axis=axis)


def _scan(draw: Any, b: Builder, values: list[Value], deep: bool = False) -> Value:
    """A loop of a few rounds with a state, slices, captured values, and rows that are stacked."""
    short = [v for v in values if v.type.rank > 1 and 0 < v.type.extents[0] <= _ROUNDS]
    scanned = draw(st.lists(st.sampled_from(short), max_size=2)) if short else []
    count = scanned[0].type.extents[0] if scanned else draw(st.integers(0, _ROUNDS))
    scanned = [v for v in scanned if v.type.extents[0] == count]
    state = draw(st.sampled_from(values))
    # conditions and indices are made of the first value, which is nothing that was computed
    captured = [values[0], *draw(st.lists(st.sampled_from(values), max_size=2))]
    carried = Value(state.type)
    slices = [Value(TensorType(F32, v.type.shape[1:])) for v in scanned]
    taken = [Value(v.type) for v in captured]
    inner = Builder(("test.py:2",))
    within = [taken[0], carried, *slices, *taken[1:]]
    _steps(draw, inner, within, 4, deep)
    mix = draw(st.sampled_from([v for v in within if v.type == state.type]))
    small = inner.emit(graph.Mul, mix, constant(inner, np.float32(0.125)))
    half = inner.emit(graph.Mul, carried, constant(inner, np.float32(0.5)))
    new = inner.emit(graph.Tanh, inner.emit(graph.Add, half, small))
    given = [v for v in (*within, new, carried) if v.type.rank < 4]
    rows = draw(st.lists(st.sampled_from(given), max_size=2)) if given else []
    new = draw(st.sampled_from([new, new, new, carried]))
    op = graph.Scan(
        (state, *scanned, *captured),
        count=count,
        states=1,
        backwards=tuple(draw(st.booleans()) for _ in scanned),
        turned=tuple(draw(st.booleans()) for _ in rows),
        body=Region((carried, *slices, *taken), inner.ops, (new, *rows)),
        loc=("test.py:1",),
    )
    results = b.add(op).results
    for other in results[1:]:
        if np.prod(other.type.extents, dtype=np.int64) <= _MOST:
            values.append(other)
    return results[0]


def _while(draw: Any, b: Builder, values: list[Value], deep: bool = False) -> Value:
    """A loop of as many rounds as the first argument says, with a limit, a state and a number."""
    state = draw(st.sampled_from(values))
    captured = [values[0], *draw(st.lists(st.sampled_from(values), max_size=2))]
    scaled = b.emit(graph.Mul, _corner(b, values[0]), constant(b, np.float32(3)))
    end = b.emit(graph.Cast, scaled, dtype=I64)
    zero, known = constant(b, np.int64(0)), draw(st.booleans())
    limit = constant(b, np.int64(draw(st.integers(0, 3)))) if known else end
    number, carried = Value(TensorType(I64)), Value(state.type)
    taken = [Value(v.type) for v in (*captured, end)]
    inner = Builder(("test.py:5",))
    within = [taken[0], carried, *taken[1:-1]]
    _steps(draw, inner, within, 3, deep)
    mix = draw(st.sampled_from([v for v in within if v.type == state.type]))
    sum_ = inner.emit(graph.Add, carried, mix)
    new = inner.emit(graph.Tanh, inner.emit(graph.Mul, sum_, constant(inner, np.float32(0.25))))
    following = inner.emit(graph.Add, number, constant(inner, np.int64(1)))
    more = inner.emit(graph.Lt, following, taken[-1])
    round_, running = Value(TensorType(I64)), Value(TensorType(BOOL))
    args = (round_, running, carried, number, *taken)
    op = graph.While(
        (limit, b.emit(graph.Lt, zero, end), state, zero, *captured, end),
        states=2,
        types=(state.type, number.type),
        body=Region(args, inner.ops, (more, new, following)),
        loc=("test.py:4",),
    )
    last, count = b.add(op).results
    values.append(b.emit(graph.Cast, count, dtype=F32))
    return last


def _corner(b: Builder, x: Value) -> Value:
    """The first element."""
    rank = x.type.rank
    corner = b.emit(graph.Slice, x, starts=(0,) * rank, stops=(1,) * rank, steps=(1,) * rank)
    return b.emit(graph.Reshape, corner, shape=())


def _branch(draw: Any, b: Builder, values: list[Value], deep: bool = False) -> Value:
    """A branch on a condition of the first argument, whose results may be what it captures."""
    first = values[0]
    captured = [first, *draw(st.lists(st.sampled_from(values), max_size=3))]
    number = _corner(b, first)
    condition = b.emit(graph.Lt, number, constant(b, np.float32(draw(st.floats(-1, 1, width=32)))))
    like = draw(st.sampled_from(captured)).type
    count = draw(st.integers(1, 2))
    regions: list[Region] = []
    for _ in range(2):
        args = [Value(v.type) for v in captured]
        inner = Builder(("test.py:3",))
        within = list(args)
        _steps(draw, inner, within, 3, deep)
        fitting = [v for v in within if v.type == like]
        regions.append(
            Region(args, inner.ops, [draw(st.sampled_from(fitting)) for _ in range(count)])
        )
    op = graph.If(condition, captured, then=regions[0], other=regions[1], loc=("test.py:1",))
    results = b.add(op).results
    values.extend(results[1:])
    return results[0]


_ROUNDS = 5
_STEPS = (_elementwise, _elementwise, _reduce, _softmax, _move, _contract, _convolve, _gather)


def _steps(draw: Any, b: Builder, values: list[Value], most: int, loops: bool) -> None:
    """A few random ops on the values, which are joined by theirs."""
    for _ in range(draw(st.integers(1, most))):
        step = draw(st.sampled_from((*_STEPS, _scan, _while, _branch) if loops else _STEPS))
        if step in (_reduce, _softmax, _move, _contract, _gather) and not any(
            v.type.rank for v in values
        ):
            step = _elementwise
        made = step(draw, b, values)
        if np.prod(made.type.extents, dtype=np.int64) <= _MOST:
            values.append(made)


@st.composite
def programs(draw: Any, loops: bool = False) -> tuple[Module, list[Array]]:
    """A random program of a few ops on float32, and inputs; some values are given out twice.

    With `loops` it has loops and branches, and these may have such of their own.
    """
    rank = draw(st.sampled_from([1, 2, 3, 4, 4]))
    shape = tuple(draw(_EXTENTS) for _ in range(rank))
    while np.prod(shape) > 6000:
        shape = (*shape[:-1], max(1, shape[-1] // 2)) if shape[-1] > 2 else (1, *shape[1:])
        shape = tuple(min(n, 8) for n in shape) if np.prod(shape) > 6000 else shape
    types = [TensorType(F32, shape)] * draw(st.integers(1, 2))

    def body(b: Builder, *args: Value) -> Sequence[Value]:
        values = list(args)
        _steps(draw, b, values, 5 if loops else 10, loops)
        if loops:
            control = draw(st.sampled_from([_scan, _while, _branch]))
            values.append(control(draw, b, values, deep=draw(st.booleans())))
        results = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        return [values[-1], *results]

    made = module(body, *types)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return made, [rng.standard_normal(t.extents).astype(np.float32) for t in types]
