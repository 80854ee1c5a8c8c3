"""Convolutions of few channels and many, in either order of axes: they are as defined."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from minicc.compile.compiled import compile_module
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.affine import Dim, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Module, Value, walk
from minicc.ir.interpret import run
from minicc.ir.structured import Group
from minicc.ir.types import F32, TensorType
from minicc.options import Options
from minicc.passes.structured.legal import legal
from minicc.runtime.execute import NativeExecutable
from minicc.target import TARGETS
from tests.guarded import guarded_runs
from tests.stages.programs import Array, constant, module
from tests.sweeps import examples

RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
CHANNELS = (1, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33)


def drawn(rng: random.Random, free: bool) -> tuple[Module, list[tuple[int, ...]]]:
    """One or two convolutions with padding, and the shapes to run them with."""
    rank = rng.choice((1, 2, 2, 2, 3))
    groups = rng.choice((1, 1, 1, 2, 3))
    reads, channels = (rng.choice(CHANNELS) * groups for _ in range(2))
    if rng.random() < 0.2:
        groups = reads = channels = rng.choice(CHANNELS)
    window = [rng.choice((1, 2, 3, 3, 5)) for _ in range(rank)]
    strides = tuple(rng.choice((1, 1, 2)) for _ in range(rank))
    dilations = tuple(rng.choice((1, 1, 2)) for _ in range(rank))
    edge = tuple(d * (k // 2) for d, k in zip(dilations, window, strict=True))
    after = rng.choice((0, 0, 2, 12))  # channels of a convolution that follows
    numbers = np.random.default_rng(rng.randrange(1 << 30))

    def weights(*shape: int) -> Array:
        return numbers.standard_normal(shape).astype(np.float32)

    def body(b: Builder, x: Value) -> Sequence[Value]:
        low = (0, 0, *edge)
        x = b.emit(graph.Pad, x, low=low, high=low, value=Literal(np.float32(0)))
        w = constant(b, weights(channels, reads // groups, *window))
        y = b.emit(graph.Conv, x, w, strides=strides, dilations=dilations, groups=groups)
        y = b.emit(graph.Max, y, constant(b, np.float32(0)))
        if after:
            one = (1,) * rank
            w = constant(b, weights(after, channels, *one))
            y = b.emit(graph.Conv, y, w, strides=one, dilations=one, groups=1)
        return [y]

    shapes = []
    for _ in range(3 if free else 1):
        most = {1: 70, 2: 20, 3: 7}[rank]
        taps = zip(dilations, window, strict=True)
        sizes = [rng.randint(d * (k - 1) + 1, most + 5) for d, k in taps]
        shapes.append((rng.randint(1, 2), reads, *sizes))
    extents: tuple[Dim, ...] = shapes[0]
    if free:
        extents = (symbol("$n"), reads, *(symbol(f"$s{k}") for k in range(rank)))
    return module(body, TensorType(F32, extents)), shapes


@pytest.mark.parametrize("free", [False, True], ids=["known", "free"])
@pytest.mark.parametrize("target", RUNNABLE)
def test_as_defined(target: str, free: bool) -> None:
    rng = random.Random(f"{target} {free}")
    for _ in range(examples(1500) // 50):
        made, shapes = drawn(rng, free)
        math = rng.choice(("fast", "strict"))
        options = Options(target=target, threads=rng.choice((1, 2)), math=math)
        for op in walk(lower(made, options, stop="schedule").main.body):
            if isinstance(op, Group) and op.schedule is not None:
                assert not legal(op, op.schedule, TARGETS[target])
        executable = compile_module(made, options, {}).executable
        assert isinstance(executable, NativeExecutable)
        for shape in shapes:
            x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
            (want,) = run(made, [x])
            near = 2e-5 * float(np.max(np.abs(want), initial=1))
            for (got,) in guarded_runs(executable, [x], [want]):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=near, err_msg=str(shape))


@pytest.mark.parametrize("channels", [2, 3, 8])
def test_vectors_go_along_rows_of_images(channels: int) -> None:
    """Those of the result, and of few channels side by side would be fewer than a vector's."""

    def body(b: Builder, x: Value) -> Sequence[Value]:
        w = constant(b, np.ones((channels, 3, 3, 3), np.float32))
        return [b.emit(graph.Conv, x, w, strides=(1, 1), dilations=(1, 1), groups=1)]

    made = module(body, TensorType(F32, (1, 3, 34, 66)))
    main = lower(made, Options(target="avx512", threads=1), stop="schedule").main
    (group,) = (op for op in walk(main.body) if isinstance(op, Group))
    assert group.schedule is not None
    assert {n for n, size in group.schedule.tiles if size > 1} == {"c", "w"}
    assert dict(group.schedule.tiles)["w"] >= 32


@pytest.mark.parametrize("target", ["x86-64", "avx2"])
def test_no_step_is_longer_than_what_an_instance_has(target: str) -> None:
    """Parts of a row may be shorter than the usual step; tiles moved back began before the row."""

    def body(b: Builder, x: Value) -> Sequence[Value]:
        low = (0, 0, 2)
        x = b.emit(graph.Pad, x, low=low, high=low, value=Literal(np.float32(0)))
        w = constant(b, np.ones((1, 1, 2), np.float32))
        return [b.emit(graph.Conv, x, w, strides=(2,), dilations=(1,), groups=1)]

    made = module(body, TensorType(F32, (symbol("$n"), 1, symbol("$s"))))
    main = lower(made, Options(target=target, threads=1), stop="schedule").main
    covers = [
        cover
        for op in walk(main.body)
        if isinstance(op, Group) and op.schedule is not None
        for cover in op.schedule.cover
    ]
    assert {cover.name for cover in covers} >= {"n", "w"}
    assert all(cover.points >= cover.steps[0] for cover in covers)
