"""Every rule: it fires, means the same, ends, and strict mathematics uses the exact ones alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Module, Value, same_module
from minicc.ir.interpret import run
from minicc.ir.types import BF16, F16, F32, TensorType
from minicc.passes.graph.applications import Applications
from minicc.passes.graph.rules import RULES
from minicc.passes.graph.simplify import simplify
from tests.stages.programs import constant, module, same_bits

SHAPE = (1, 3, 4, 5)
_X = TensorType(F32, SHAPE)


def _program(body: Callable[[Builder, Value], Value]) -> Module:
    def whole(b: Builder, x: Value) -> Sequence[Value]:
        return [body(b, x)]

    return module(whole, _X)


def _transpose(b: Builder, x: Value, *perm: int) -> Value:
    return b.emit(graph.Transpose, x, perm=perm)


def _reshape(b: Builder, x: Value, *shape: int) -> Value:
    return b.emit(graph.Reshape, x, shape=shape)


def _slice(b: Builder, x: Value, *ends: tuple[int, ...]) -> Value:
    starts, stops, steps = ends
    return b.emit(graph.Slice, x, starts=starts, stops=stops, steps=steps)


def _pad(b: Builder, x: Value, low: tuple[int, ...] = (0, 0, 0, 0)) -> Value:
    return b.emit(graph.Pad, x, low=low, high=(0, 0, 0, 0), value=Literal(np.float32(0)))


def _conv(b: Builder, x: Value, dilations: tuple[int, ...] = (1, 1)) -> Value:
    weights = np.random.default_rng(0).standard_normal((2, 3, 2, 2)).astype(x.type.dtype.numpy)
    return b.emit(graph.Conv, x, constant(b, weights), strides=(1, 1), dilations=dilations)


def _of_shuffled(b: Builder, x: Value) -> Value:
    turned = _transpose(b, _reshape(b, x, 1, 1, 5, 3, 4), 0, 1, 2, 4, 3)
    w = constant(b, np.random.default_rng(0).standard_normal((4, 6, 1, 1)).astype(np.float32))
    more = {"strides": (1, 1), "dilations": (1, 1), "groups": 2, "layout": "channels_last"}
    return b.emit(graph.Conv, _reshape(b, turned, 1, 1, 5, 12), w, **more)


def _powers(b: Builder, x: Value) -> Value:
    best = b.emit(graph.Reduce, x, combine="max", axes=(1,), keepdims=True)
    return b.emit(graph.Exp, b.emit(graph.Sub, x, best))


def _normalised(b: Builder, powers: Value) -> Value:
    total = b.emit(graph.Reduce, powers, combine="add", axes=(1,), keepdims=True)
    return b.emit(graph.Div, powers, total)


def _written(b: Builder, x: Value, starts: tuple[int, ...]) -> Value:
    new = _slice(b, x, (0, 2, 3, 4), (1, 3, 4, 5), (1, 1, 1, 1))
    return b.emit(graph.InsertSlice, x, b.emit(graph.Neg, new), starts=starts, steps=(1, 1, 1, 1))


def _channels(*values: float) -> Any:
    return np.array(values, np.float32).reshape(-1, 1, 1)


# for each rule a program on which it fires
PROGRAMS: dict[str, Callable[[Builder, Value], Value]] = {
    "reshape-to-same": lambda b, x: _reshape(b, x, *SHAPE),
    "reshape-of-reshape": lambda b, x: _reshape(b, _reshape(b, x, 60), 5, 12),
    "broadcast-to-same": lambda b, x: b.emit(graph.Broadcast, x, shape=SHAPE),
    "cast-to-same": lambda b, x: b.emit(graph.Cast, x, dtype=F32),
    "transpose-by-nothing": lambda b, x: _transpose(b, x, 0, 1, 2, 3),
    "transpose-of-transpose": lambda b, x: _transpose(b, _transpose(b, x, 0, 2, 3, 1), 3, 0, 1, 2),
    "pad-by-nothing": _pad,
    "concat-of-one": lambda b, x: b.emit(graph.Concat, (x,), axis=1),
    "slice-of-concat": lambda b, x: _slice(
        b, b.emit(graph.Concat, (x, x, x), axis=2), (0, 0, 5, 0), (1, 3, 8, 5), (1, 1, 2, 1)
    ),
    "slice-of-reshape": lambda b, x: _slice(
        b, _reshape(b, x, 1, 12, 5), (0, 6, 1), (1, 7, 5), (1, 1, 2)
    ),
    "slice-of-written": lambda b, x: _slice(
        b, _written(b, x, (0, 1, 0, 1)), (0, 1, 0, 1), (1, 2, 1, 2), (1, 1, 1, 1)
    ),
    "write-of-overwritten": lambda b, x: b.emit(
        graph.InsertSlice,
        _written(b, x, (0, 1, 0, 1)),
        _slice(b, x, (0, 2, 3, 4), (1, 3, 4, 5), (1, 1, 1, 1)),
        starts=(0, 1, 0, 1),
        steps=(1, 1, 1, 1),
    ),
    "multiply-by-one": lambda b, x: b.emit(graph.Mul, x, constant(b, np.float32(1))),
    "scale-into-weights": lambda b, x: b.emit(
        graph.Mul, _conv(b, x), constant(b, _channels(0.5, -3.0))
    ),
    "add-of-add": lambda b, x: b.emit(
        graph.Add,
        b.emit(graph.Add, x, constant(b, np.float32(0.3))),
        constant(b, _channels(1, 2, 3)),
    ),
    "mul-of-mul": lambda b, x: b.emit(
        graph.Mul, b.emit(graph.Mul, x, constant(b, np.float32(0.3))), constant(b, np.float32(7))
    ),
    "exp-of-difference-to-maximum": lambda b, x: _powers(
        b, b.emit(graph.Mul, x, constant(b, np.float32(0.3)))
    ),
    "division-by-sum-of-powers": lambda b, x: _normalised(b, _powers(b, x)),
    "whole-power": lambda b, x: b.emit(graph.Pow, x, constant(b, np.float32(7))),
    "convolution-of-narrow": lambda b, x: _conv(b, b.emit(graph.Cast, x, dtype=F16)),
    "convolution-of-padding": lambda b, x: _conv(b, _pad(b, x, (0, 0, 4, 0)), (4, 1)),
    "convolution-of-shuffled": lambda b, x: _of_shuffled(b, _reshape(b, x, 1, 1, 5, 12)),
    "sums-as-one": lambda b, x: b.emit(graph.Contract, x, x, "zjkl,yikl->zijy"),
    "product-of-narrow": lambda b, x: b.emit(
        graph.Contract,
        b.emit(graph.Cast, x, dtype=BF16),
        constant(b, np.linspace(-1, 1, 15).reshape(5, 3).astype(BF16.numpy)),
        equation="abcd,de->abce",
    ),
    "mul-of-add": lambda b, x: b.emit(
        graph.Mul,
        b.emit(graph.Add, x, constant(b, np.float32(0.3))),
        constant(b, _channels(1, 2, 3)),
    ),
}
_BY_NAME = {rule.name: rule for rule in RULES}
_ANY = st.floats(width=32, allow_nan=True, allow_infinity=True)
_TAME = st.floats(-100, 100, width=32)


def test_every_rule_has_a_program_and_names_are_distinct() -> None:
    assert set(PROGRAMS) == {rule.name for rule in RULES}
    assert len(_BY_NAME) == len(RULES)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_rule_fires_and_applying_again_changes_nothing(name: str) -> None:
    log = Applications()
    once = simplify(_program(PROGRAMS[name]), log=log)
    assert [a.rule for a in log.made].count(name) == 1
    again = Applications()
    assert same_module(simplify(once, log=again), once)
    assert not again.made


@pytest.mark.parametrize("name", PROGRAMS)
def test_strict_mathematics_uses_exact_rules_alone(name: str) -> None:
    log = Applications()
    simplify(_program(PROGRAMS[name]), strict=True, log=log)
    fired = [a.rule for a in log.made]
    assert all(_BY_NAME[n].kind == "exact" for n in fired)
    assert (fired.count(name) == 1) == (_BY_NAME[name].kind == "exact")


@pytest.mark.parametrize("shape", [(), (1, 1)], ids=str)
def test_one_number_is_computed_as_it_is_written(shape: tuple[int, ...]) -> None:
    def body(b: Builder, x: Value) -> list[Value]:
        tenths = b.emit(graph.Mul, x, constant(b, np.float32(0.7)))
        return [b.emit(graph.Mul, tenths, constant(b, np.float32(1.3)))]

    log = Applications()
    simplify(module(body, TensorType(F32, shape)), log=log)
    assert not log.made


@pytest.mark.parametrize("name", [n for n in PROGRAMS if _BY_NAME[n].kind == "exact"])
@settings(max_examples=30, deadline=None)
@given(x=arrays(np.float32, SHAPE, elements=_ANY))
def test_exact_rules_keep_every_bit(name: str, x: Any) -> None:
    before = _program(PROGRAMS[name])
    after = simplify(before)
    assert same_bits(run(after, [x])[0], run(before, [x])[0])


@pytest.mark.parametrize("name", [n for n in PROGRAMS if _BY_NAME[n].kind != "exact"])
@settings(max_examples=30, deadline=None)
@given(x=arrays(np.float32, SHAPE, elements=_TAME))
def test_other_rules_keep_the_value_up_to_rounding(name: str, x: Any) -> None:
    before = _program(PROGRAMS[name])
    after = simplify(before)
    np.testing.assert_allclose(run(after, [x])[0], run(before, [x])[0], rtol=1e-5, atol=3e-4)


def test_locations_of_what_a_rule_joins_are_kept() -> None:
    def body(b: Builder, x: Value) -> Value:
        b.loc = ("convolution",)
        y = _conv(b, x)
        b.loc = ("scale",)
        return b.emit(graph.Mul, y, constant(b, np.float32(2)))

    ops = simplify(_program(body)).main.body.ops
    assert [op.loc for op in ops if isinstance(op, graph.Conv)] == [("convolution", "scale")]


def test_what_others_read_too_is_not_computed_twice() -> None:
    def body(b: Builder, x: Value) -> Value:
        y = b.emit(graph.Add, _conv(b, x), constant(b, _channels(1, 2)))
        swish = b.emit(graph.Mul, y, constant(b, np.float32(1 / 6)))
        z = b.emit(graph.Mul, y, b.emit(graph.Max, swish, constant(b, np.float32(0))))
        w = _conv(b, x)
        return b.emit(graph.Sub, b.emit(graph.Add, w, z), b.emit(graph.Mul, w, swish))

    log = Applications()
    before = _program(body)
    after = simplify(before, log=log)
    assert not log.made
    assert same_module(simplify(after), after)


def test_applications_are_numbered_and_can_be_stopped() -> None:
    program = _program(PROGRAMS[next(iter(PROGRAMS))])
    log = Applications()
    simplify(program, log=log)
    assert [a.number for a in log.made] == list(range(1, len(log.made) + 1))
    assert all(a.where for a in log.made)
    none = Applications(most=0)
    assert same_module(simplify(program, log=none), program)
    assert none.made == []


@settings(max_examples=60)
@given(
    st.tuples(*[st.integers(1, 5)] * 2),
    st.tuples(*[st.integers(1, 4)] * 2),
    st.tuples(*[st.integers(0, 7)] * 4),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(1, 6)] * 2),
    st.booleans(),
)
def test_taps_that_read_padding_alone_are_left_out(
    image: tuple[int, ...],
    taps: tuple[int, ...],
    padding: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    last: bool,
) -> None:
    low, high = padding[:2], padding[2:]
    whole = zip(image, low, high, dilations, taps, strict=True)
    if any(n + a + b < d * (k - 1) + 1 for n, a, b, d, k in whole):
        return
    rng = np.random.default_rng(0)
    weights = rng.integers(-3, 4, (2, 3, *taps)).astype(np.float32)

    def axes(spatial: tuple[int, ...], channels: int) -> tuple[int, ...]:
        return (1, *spatial, channels) if last else (1, channels, *spatial)

    def around(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return (0, *axes(numbers, 0)[1:])

    def body(b: Builder, x: Value) -> Sequence[Value]:
        zero = Literal(np.float32(0))
        padded = b.emit(graph.Pad, x, low=around(low), high=around(high), value=zero)
        layout = "channels_last" if last else "channels_first"
        w = constant(b, weights)
        return [b.emit(graph.Conv, padded, w, strides=strides, dilations=dilations, layout=layout)]

    log = Applications()
    before = module(body, TensorType(F32, axes(image, 3)))
    after = simplify(before, log=log)
    x = rng.integers(-3, 4, axes(image, 3)).astype(np.float32)
    (want,), (got,) = run(before, [x]), run(after, [x])
    assert np.array_equal(got, want)


def test_taps_are_left_out_of_a_convolution_whatever_its_padding() -> None:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        low, zero = (0, 0, 1 << 32, 0), Literal(np.float32(0))
        padded = b.emit(graph.Pad, x, low=low, high=low, value=zero)
        w = constant(b, np.ones((1, 1, 3, 3), np.float32))
        return [b.emit(graph.Conv, padded, w, strides=(1, 1), dilations=(1, 1))]

    module_of_pixels = module(body, TensorType(F32, (1, 1, 4, 4)))
    assert same_module(simplify(module_of_pixels), module_of_pixels)
