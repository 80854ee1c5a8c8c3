"""Grouped convolutions of shuffled channels: what the shuffle and they give, and no copy."""

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
from minicc.ir.types import F32, TensorType
from minicc.options import Options
from minicc.runtime.execute import NativeExecutable
from minicc.target import TARGETS
from tests.guarded import guarded_runs
from tests.stages.programs import constant, module
from tests.sweeps import examples

RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
PLAIN = {"strides": (1, 1), "dilations": (1, 1)}


def shuffled(b: Builder, x: Value, parts: int) -> Value:
    """Channels of axis 1: of so many runs, each has one in its turn."""
    n, channels, *image = x.type.shape
    apart = b.emit(graph.Reshape, x, shape=(n, parts, channels // parts, *image))
    turned = b.emit(graph.Transpose, apart, perm=(0, 2, 1, 3, 4))
    return b.emit(graph.Reshape, turned, shape=x.type.shape)


def unit(rng: random.Random, image: tuple[Dim, Dim], read_twice: bool = False) -> Module:
    """Two grouped convolutions with a shuffle, and perhaps a depthwise one, between them."""
    parts, groups = rng.choice((1, 2, 3, 4)), rng.choice((2, 3, 4))
    channels = parts * groups * rng.choice((2, 3, 5))
    numbers = np.random.default_rng(rng.randrange(1 << 30))

    def weights(b: Builder, *shape: int) -> Value:
        return constant(b, numbers.standard_normal(shape).astype(np.float32))

    def body(b: Builder, x: Value) -> Sequence[Value]:
        first = weights(b, channels, 12 // groups, 1, 1)
        y = b.emit(graph.Conv, x, first, groups=groups, **PLAIN)
        y = b.emit(graph.Max, y, constant(b, np.float32(0)))
        y = kept = shuffled(b, y, parts)
        if rng.random() < 0.7:
            low = (0, 0, 1, 1)
            y = b.emit(graph.Pad, y, low=low, high=low, value=Literal(np.float32(0)))
            strides = (rng.choice((1, 2)),) * 2
            alone = {"strides": strides, "dilations": (1, 1), "groups": channels}
            y = b.emit(graph.Conv, y, weights(b, channels, 1, 3, 3), **alone)
        if rng.random() < 0.7:
            y = b.emit(graph.Add, y, weights(b, 1, channels, 1, 1))
            y = b.emit(graph.Mul, weights(b, channels, 1, 1), y)
        out = groups * rng.choice((3, 8))
        y = b.emit(graph.Conv, y, weights(b, out, channels // groups, 1, 1), groups=groups, **PLAIN)
        return [y, kept] if read_twice else [y]

    return module(body, TensorType(F32, (1, 12, *image)))


def copies(made: Module, options: Options) -> int:
    """The shuffles that are left when algorithms are chosen."""
    ops = walk(lower(made, options, stop="fold-algorithm").main.body)
    return sum(isinstance(op, graph.Transpose) and len(op.perm) == 5 for op in ops)


@pytest.mark.parametrize("free", [False, True], ids=["known", "free"])
@pytest.mark.parametrize("target", RUNNABLE)
def test_as_shuffled_before(target: str, free: bool) -> None:
    rng = random.Random(f"{target} {free}")
    for _ in range(examples(1200) // 50):
        made = unit(rng, (symbol("$h"), symbol("$w")) if free else (7, 5))
        math = rng.choice(("fast", "strict"))
        options = Options(target=target, threads=rng.choice((1, 2)), math=math)
        assert not copies(made, options)
        executable = compile_module(made, options, {}).executable
        assert isinstance(executable, NativeExecutable)
        for image in ((7, 5), (1, 1), (16, 20)) if free else ((7, 5),):
            x = np.random.default_rng(0).standard_normal((1, 12, *image)).astype(np.float32)
            (want,) = run(made, [x])
            near = 2e-5 * float(np.max(np.abs(want), initial=1))
            for (got,) in guarded_runs(executable, [x], [want]):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=near, err_msg=str(image))


def test_constants_of_all_elements_are_turned_too() -> None:
    rng = np.random.default_rng(0)

    def body(b: Builder, x: Value) -> Sequence[Value]:
        whole = [constant(b, rng.standard_normal(x.type.extents).astype(np.float32)) for _ in "ab"]
        first = constant(b, rng.standard_normal((12, 12, 1, 1)).astype(np.float32))
        x = b.emit(graph.Conv, x, first, groups=1, **PLAIN)
        y = b.emit(graph.Add, shuffled(b, x, 3), whole[0])
        y = b.emit(graph.Mul, whole[1], y)
        w = constant(b, rng.standard_normal((18, 6, 1, 1)).astype(np.float32))
        return [b.emit(graph.Conv, y, w, groups=2, **PLAIN)]

    made, options = module(body, TensorType(F32, (1, 12, 4, 6))), Options(threads=1)
    assert not copies(made, options)
    x = rng.standard_normal((1, 12, 4, 6)).astype(np.float32)
    (got,), (want,) = compile_module(made, options, {}).executable.run([x]), run(made, [x])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_what_others_read_is_shuffled() -> None:
    rng = random.Random(5)
    made = [unit(rng, (6, 6), read_twice=True) for _ in range(10)]
    assert any(copies(m, Options(threads=1)) for m in made)
    for m in made:
        x = np.random.default_rng(0).standard_normal((1, 12, 6, 6)).astype(np.float32)
        ours = compile_module(m, Options(threads=1), {}).executable.run([x])
        for got, want in zip(ours, run(m, [x]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_channels_are_read_where_a_shuffle_would_find_them() -> None:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        ones = constant(b, np.ones((12, 1, 1, 1), np.float32))
        return [shuffled(b, x, 4), b.emit(graph.Conv, x, ones, groups=12, parts=4, **PLAIN)]

    x = np.arange(12, dtype=np.float32).reshape(1, 12, 1, 1)
    want, got = run(module(body, TensorType(F32, x.shape)), [x])
    np.testing.assert_array_equal(got, want)
