"""Reads at indices that are data: every level and machine code, and what is out of range."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.test_level_types import check, values
from tests.stages.programs import Array, constant, machine_code, module, same_bits

from minicc.backends.base import MemoryStore
from minicc.backends.llvm.compile import Compiling
from minicc.compile.compiled import compile_module
from minicc.compile.compiler import lower
from minicc.errors import CompilerBug, UnsupportedError, UserError
from minicc.ir import graph, kernel
from minicc.ir.build import Builder
from minicc.ir.core import Module, Value, same_module
from minicc.ir.indices import OutOfRange
from minicc.ir.interpret import run
from minicc.ir.structured import Group
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module, resources
from minicc.ir.types import DTYPES, STORED, DType, TensorType
from minicc.ir.verify import verify
from minicc.options import Options
from minicc.runtime.execute import NativeExecutable
from minicc.runtime.threads import runtime_code
from minicc.target import TARGETS

_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
# what a stage takes apart (`test_complex_numbers`) has no kernels of its own
_APART = ("index", "c64", "c128")
_TYPES = [d for d in DTYPES.values() if d.name not in _APART and d not in STORED]
_NAMES = {d.numpy: d for d in _TYPES}
_DRAWN = settings(max_examples=2, deadline=None, derandomize=True)
_EXTENTS = st.sampled_from([1, 2, 5, 17, 40])
F32 = DTYPES["f32"]


def built(build: Callable[..., Value], *inputs: Array) -> Module:
    def body(b: Builder, *args: Value) -> Sequence[Value]:
        return [build(b, *args)]

    return module(body, *[TensorType(_NAMES[x.dtype], x.shape) for x in inputs])


def some(shape: Sequence[int], extent: int, seed: int, dtype: str = "i64") -> Array:
    """Indices of either sign."""
    numbers = np.random.default_rng(seed).integers(-extent, max(extent, 1), shape)
    return numbers.astype(DTYPES[dtype].numpy)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@_DRAWN
@given(
    shape=st.lists(_EXTENTS, min_size=1, max_size=3),
    taken=st.lists(st.sampled_from([0, 1, 3, 20]), max_size=2),
    which=st.integers(0, 2),
    index=st.sampled_from(["i32", "i64"]),
    seed=st.integers(0, 99),
)
def test_gather(
    dtype: DType, shape: list[int], taken: list[int], which: int, index: str, seed: int
) -> None:
    axis = which % len(shape)
    inputs = [values(dtype, shape, seed), some(taken, shape[axis], seed, index)]
    check(lambda b, x, i: b.emit(graph.Gather, x, i, axis=axis), inputs)


@pytest.mark.parametrize("dtype", [d for d in _TYPES if d.is_integer], ids=str)
def test_indices_of_any_integer_type(dtype: DType) -> None:
    x, i = values(F32, (7, 33), 0), np.array([[0, 6], [3, 3]], dtype.numpy)
    build = lambda b, x, i: b.emit(graph.Gather, x, i, axis=0)  # noqa: E731
    if dtype.name != "u64":
        check(build, [x, i])
        return
    with pytest.raises(UnsupportedError, match=r"graph\.gather has no lowering"):
        lower(built(build, x, i), Options())


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_elements(axis: int) -> None:
    x, shape = values(F32, (9, 11, 20), 0), [5, 6, 17]
    shape[axis] = 30
    i = some(shape, x.shape[axis], axis, "i32")
    check(lambda b, x, i: b.emit(graph.GatherElements, x, i, axis=axis), [x, i])


@pytest.mark.parametrize(
    ("shape", "batch"),
    [
        ((6, 1), 0),
        ((6, 2), 0),
        ((2, 3, 3), 0),
        ((8, 5, 1), 1),
        ((8, 2), 1),
        ((3, 0), 0),
        ((0, 2), 0),
    ],
)
def test_gather_nd(shape: tuple[int, ...], batch: int) -> None:
    x, i = values(F32, (8, 8, 33), 1), some(shape, 8, 2)
    check(lambda b, x, i: b.emit(graph.GatherND, x, i, batch=batch), [x, i])


@pytest.mark.parametrize(
    ("shape", "taken", "axis"),
    [((0, 4), (0, 2), 0), ((0, 4), (3,), 1), ((5, 0), (2, 2), 0), ((5, 0, 3), (0,), 1)],
)
def test_nothing_is_gathered(shape: tuple[int, ...], taken: tuple[int, ...], axis: int) -> None:
    inputs: list[Array] = [np.zeros(shape, np.float32), np.zeros(taken, np.int64)]
    check(lambda b, x, i: b.emit(graph.Gather, x, i, axis=axis), inputs)


def embedding(b: Builder, ids: Value, words: Value, scale: Value) -> Value:
    """Computed indices, a table that is computed, and a row-wise norm after."""
    shifted = b.emit(graph.Sub, ids, b.emit(graph.Add, ids, ids))
    taken = b.emit(graph.Gather, b.emit(graph.Tanh, words), shifted, axis=0)
    most = b.emit(graph.Reduce, taken, axes=(2,), combine="max", keepdims=True)
    return b.emit(graph.Mul, b.emit(graph.Sub, taken, most), scale)


_TABLES = [(90, 100), (100,)]


def embedded() -> tuple[Module, list[Array]]:
    ids = some((2, 40), 90, 1, "i32")
    ids[ids == -90] = 0  # whose negative is none
    rng = np.random.default_rng(2)
    inputs: list[Array] = [ids, *[rng.random(shape).astype(np.float32) for shape in _TABLES]]
    return built(embedding, *inputs), inputs


def test_what_is_around_runs_in_the_same_group() -> None:
    start, inputs = embedded()
    fused = lower(start, Options(), stop="fuse")
    (group,) = [op for op in fused.main.body.ops if isinstance(op, Group)]
    assert [bool(op.attrs["indices"]) for op in group.body.ops] == [False, True, False, False]
    check(embedding, inputs, lambda a, b: np.allclose(a, b, rtol=1e-5, atol=1e-6))


def test_threads_share_a_gather() -> None:
    x, i = values(F32, (50, 300), 4), some((100,), 50, 5)
    program = lower(built(lambda b, x, i: b.emit(graph.Gather, x, i, axis=0), x, i), Options())
    assert program.main.body.ops[-1].attrs["split"] == (0,)
    one, two = [machine_code(program, Options().machine.name, [x, i], n)[0] for n in (1, 2)]
    assert same_bits(one, x[i])
    assert same_bits(two, x[i])


def test_texts_are_read_back() -> None:
    start, _ = embedded()
    modules: list[Module] = []
    lower(start, Options(), observe=lambda stage, before, after, seconds: modules.append(after))
    for made in modules:
        assert same_module(parse_module(print_module(made), resources(made)), made)


# out of range

_BIG = 2**63 - 1
_WRONG: list[tuple[type[Any], dict[str, Any], tuple[int, ...], Any, int, int]] = [
    (graph.Gather, {"axis": 0}, (30, 100), [[3, -1, 0], [29, -31, -90]], -90, 30),
    (graph.Gather, {"axis": 0}, (30, 100), [30, _BIG, 3], 30, 30),
    (graph.Gather, {"axis": 0}, (30, 100), [_BIG], _BIG, 30),
    (graph.Gather, {"axis": 1}, (30, 100), [1, -(2**63)], -(2**63), 100),
    (graph.Gather, {"axis": 1}, (30, 100), 100, 100, 100),
    (graph.Gather, {"axis": 0}, (40, 3), [0] * 40000 + [40, 50], 40, 40),
    (graph.Gather, {"axis": 0}, (0, 5), [0], 0, 0),
    (graph.Gather, {"axis": 0}, (3, 0), [0, -4], -4, 3),
    (graph.Gather, {"axis": 1}, (0, 3), [3], 3, 3),
    (graph.GatherElements, {"axis": 0}, (3, 2), [[1, 3], [0, 0]], 3, 3),
    (graph.GatherND, {}, (3, 9), [[0, 0], [-5, 99], [7, 0]], -5, 3),
    (graph.GatherND, {}, (3, 9), [[0, 0], [2, 99]], 99, 9),
]


@pytest.mark.parametrize(("op", "attrs", "shape", "taken", "index", "extent"), _WRONG)
def test_out_of_range_is_told_at_every_level(
    op: type[Any],
    attrs: dict[str, Any],
    shape: tuple[int, ...],
    taken: Any,
    index: int,
    extent: int,
) -> None:
    inputs: list[Array] = [np.ones(shape, np.float32), np.array(taken, np.int64)]
    start = built(lambda b, x, i: b.emit(op, x, i, **attrs), *inputs)
    text = f"index {index} leaves an extent of {extent}"
    modules = [start]
    lower(start, Options(), observe=lambda stage, before, after, seconds: modules.append(after))
    for made in modules:
        with pytest.raises(OutOfRange) as caught:
            run(made, inputs)
        assert str(caught.value) == f"{text} at test.py:1"
    for target in _RUNNABLE:
        program = lower(start, Options(target=target))
        for threads in (1, 2):
            with pytest.raises(UserError) as refused:
                machine_code(program, target, inputs, threads)
            assert str(refused.value) == f"MC0158 error: {text}\n  at: test.py:1"


@pytest.mark.parametrize("threads", [1, 2])
def test_the_next_run_is_as_good_as_the_first(threads: int) -> None:
    start, inputs = embedded()
    (want,) = run(start, inputs)
    program = lower(start, Options(math="strict"))
    machine = Options().machine
    with Compiling(machine, "nothing", runtime_code(), MemoryStore()) as compiling:
        image, layout = compiling.program(program)
    executable = NativeExecutable(image, layout, threads)
    wrong = [inputs[0].copy(), *inputs[1:]]
    wrong[0][1, 3] = 97
    for _ in range(3):
        with pytest.raises(UserError, match="index -97 leaves an extent of 90"):
            executable.run(wrong)
        (got,) = executable.run(inputs)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    executable.close()


def test_the_first_op_is_told() -> None:
    def body(b: Builder, x: Value, i: Value, j: Value) -> Sequence[Value]:
        b.loc = ("first",)
        once = b.emit(graph.Gather, x, i, axis=0)
        b.loc = ("second",)
        return [b.emit(graph.Gather, once, j, axis=1)]

    types = [TensorType(F32, (4, 5)), *[TensorType(DTYPES["i64"], (2,))] * 2]
    program = lower(module(body, *types), Options())
    x, fine = np.ones((4, 5), np.float32), np.array([0, 1])
    for i, j, where in [(fine + 9, fine - 9, "first"), (fine, fine - 9, "second")]:
        with pytest.raises(UserError) as caught:
            machine_code(program, Options().machine.name, [x, i, j], 2)
        assert caught.value.where == (where,)


def test_what_is_not_read_is_not_merged_away() -> None:
    """A slice after a gather skips points, but not their checks."""

    def body(b: Builder, x: Value, i: Value) -> Sequence[Value]:
        taken = b.emit(graph.Gather, x, i, axis=0)
        return [b.emit(graph.Slice, taken, starts=(0, 0), stops=(1, 5), steps=(1, 1))]

    start = module(body, TensorType(F32, (4, 5)), TensorType(DTYPES["i64"], (3,)))
    inputs: list[Array] = [np.ones((4, 5), np.float32), np.array([0, 0, 4])]
    with pytest.raises(UserError, match="index 4 leaves an extent of 4"):
        machine_code(lower(start, Options()), Options().machine.name, inputs, 1)


def test_constants_out_of_range_wait_for_the_run() -> None:
    def body(b: Builder) -> Sequence[Value]:
        table, nine = constant(b, np.arange(8, dtype=np.float32)), constant(b, np.array(9))
        return [b.emit(graph.Gather, table, nine, axis=0)]

    compiled = compile_module(module(body), Options(threads=1), {})
    with pytest.raises(UserError, match="MC0158 error: index 9 leaves an extent of 8"):
        compiled.executable.run([])
    compiled.executable.close()


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('["at0", 0, 9]', '["d0", 0, 9]', "not named apart"),
        ('["at0", 0, 9]', '["at0", 2, 9]', "is of no operand"),
        ('["at0", 0, 9]', '["at0", 1, 9]', "the index at0 can't be of f32[9,4]"),
        ('["at0", 0, 9]', '["at1", 0, 9]', "uses the unknown"),
        ('["at0", 0, 9]', '["at0", 0, 10]', "leaves the shape"),
        ("[[d0], [at0, d1]", "[[at0], [at0, d1]", "uses the unknown"),
        ("[d0, d1]], shapes", "[at0, d1]], shapes", "uses the unknown"),
    ],
)
def test_the_verifier_refuses(old: str, new: str, text: str) -> None:
    x, i = values(F32, (9, 4), 0), some((9,), 9, 0)
    start = built(lambda b, x, i: b.emit(graph.Gather, x, i, axis=0), x, i)
    right = print_module(lower(start, Options(), stop="lower-to-structured"))
    assert old in right
    with pytest.raises(CompilerBug, match=re.escape(text)):
        verify(parse_module(right.replace(old, new), {}))


def test_a_check_takes_one_integer() -> None:
    for type in (TensorType(F32), TensorType(DTYPES["u64"]), TensorType(DTYPES["i64"], (2,))):
        with pytest.raises(TypeError, match=r"kernel\.check of"):
            kernel.Check(Value(type), extent=3, loc=("test",))
