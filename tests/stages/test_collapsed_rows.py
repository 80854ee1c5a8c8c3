"""Rows of images counted as one dimension: the same bits as apart, wherever the rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from minicc.compile.compiled import compile_module
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.affine import symbol
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Module, Region, Value, walk
from minicc.ir.interpret import run
from minicc.ir.structured import Group
from minicc.ir.types import F32, TensorType
from minicc.options import Options
from minicc.passes.structured import collapse
from minicc.passes.structured.contraction import Contraction
from minicc.target import TARGETS
from tests.stages.programs import (
    Array,
    changed,
    constant,
    every_stage,
    machine_code,
    module,
    same_bits,
    spread,
)
from tests.sweeps import part

RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
# channels, extent of the kernel, stride, edge
LAYERS = [(24, 1, 1, 0), (24, 1, 2, 0), (24, 3, 1, 1), (24, 3, 2, 1), (11, 3, 2, 1)]
ZERO = Literal(np.float32(0))


def layers(kernel: int, stride: int, edge: int, channels: int) -> Module:
    """A convolution with a border or none, a residual of its result, and one that reads it."""

    def body(b: Builder, x: Value, residual: Value) -> Sequence[Value]:
        rng = np.random.default_rng(kernel)
        low = (0, 0, edge, edge)
        w = rng.standard_normal((channels, x.type.extents[1], kernel, kernel)).astype(np.float32)
        v = constant(b, rng.standard_normal((channels, channels, 3, 3)).astype(np.float32))
        padded = b.emit(graph.Pad, x, low=low, high=low, value=ZERO)
        strides = (stride, stride)
        y = b.emit(graph.Conv, padded, constant(b, w), strides=strides, dilations=(1, 1), groups=1)
        y = b.emit(graph.Max, b.emit(graph.Add, y, residual), constant(b, np.float32(0)))
        around = b.emit(graph.Pad, y, low=(0, 0, 1, 1), high=(0, 0, 1, 1), value=ZERO)
        return [b.emit(graph.Conv, around, v, strides=(2, 2), dilations=(1, 1), groups=1), y]

    size = (9, 7)
    out = [(n + 2 * edge - kernel) // stride + 1 for n in size]
    image, result = (2, 5, *size), (2, channels, *out)
    return module(body, TensorType(F32, image), TensorType(F32, result))


def inputs_of(made: Module) -> list[Array]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(a.type.extents).astype(np.float32) for a in made.main.body.args]


def shared(made: Module, target: str) -> list[str]:
    lowered = lower(made, Options(target=target, math="strict"), stop="collapse")
    groups = [op for op in walk(lowered.main.body) if isinstance(op, Group)]
    return [name for group in groups for name in group.shared]


@pytest.mark.parametrize(("layer", "target"), part(product(LAYERS, RUNNABLE), 7))
def test_the_same_bits_as_apart(
    monkeypatch: pytest.MonkeyPatch,
    layer: tuple[int, ...],
    target: str,
) -> None:
    channels, kernel, stride, edge = layer
    made = layers(kernel, stride, edge, channels)
    inputs, options = inputs_of(made), Options(target=target, math="strict")
    monkeypatch.setattr(collapse, "legal", lambda group, rows: None)
    apart = machine_code(changed(made, options)[-1][1], target, inputs, 1)
    monkeypatch.undo()
    monkeypatch.setattr(collapse, "_GAIN", 1e9)
    assert "nhw" in shared(made, target)
    *stages, (_, program) = every_stage(made, inputs, options)
    for name, got in stages:
        for g, w in zip(got, apart, strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-5, atol=1e-4, err_msg=f"after {name}")
    for threads in (1, 3):
        got = machine_code(spread(program), target, inputs, threads)
        assert all(map(same_bits, got, apart))


def free_layers(kernel: int, stride: int, edge: int, channels: int) -> Module:
    """The same for images of any size, without the residual."""
    rng = np.random.default_rng(kernel)
    b = Builder(("layers",))
    n, h, w = (symbol(name) for name in "nhw")
    x = Value(TensorType(F32, (n, 5, h, w)), "x")
    low = (0, 0, edge, edge)
    padded = b.emit(graph.Pad, x, low=low, high=low, value=ZERO)
    weights = rng.standard_normal((channels, 5, kernel, kernel)).astype(np.float32)
    plain = {"dilations": (1, 1), "groups": 1}
    strides = (stride, stride)
    y = b.emit(graph.Conv, padded, constant(b, weights), strides=strides, **plain)
    y = b.emit(graph.Max, y, constant(b, np.float32(0)))
    around = b.emit(graph.Pad, y, low=(0, 0, 1, 1), high=(0, 0, 1, 1), value=ZERO)
    v = constant(b, rng.standard_normal((channels, channels, 3, 3)).astype(np.float32))
    z = b.emit(graph.Conv, around, v, strides=(2, 2), **plain)
    return Module("graph", [Function("main", Region((x,), b.ops, (z, y)))])


@pytest.mark.parametrize(("layer", "target"), part(product(LAYERS, RUNNABLE), 7))
def test_free_sizes_are_counted_as_one(
    monkeypatch: pytest.MonkeyPatch, layer: tuple[int, ...], target: str
) -> None:
    channels, kernel, stride, edge = layer
    made = free_layers(kernel, stride, edge, channels)
    options = [Options(target=target, math="strict", threads=k) for k in (1, 2)]
    monkeypatch.setattr(collapse, "_GAIN", 1e9)
    monkeypatch.setattr(Contraction, "is_batch", lambda contraction, name: False)
    assert "nhw" in shared(made, target)
    one, two = (compile_module(made, o, {}).executable for o in options)
    rng = np.random.default_rng(1)
    for shape in ((1, 5, 3, 3), (0, 5, 4, 4), (2, 5, 9, 7), (1, 5, 3, 20), (3, 5, 13, 4)):
        x = rng.standard_normal(shape).astype(np.float32)
        got = one.run([x])
        for g, w in zip(got, run(made, [x]), strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-5, atol=1e-4, err_msg=str(shape))
        assert all(map(same_bits, two.run([x]), got)), shape
