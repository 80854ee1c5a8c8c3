"""Loops whose first and last rounds read and write arrays of callers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.stages.programs import every_stage, same_bits

import minicc
from minicc.compile.compiler import lower
from minicc.frontends.trace import trace_call
from minicc.ir.core import walk_control
from minicc.ir.program import launches
from minicc.options import Options

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def stencil(u: Any) -> Any:
    inside = u[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return np.pad(np.float32(0.2) * inside, 1)


def repeated(body: Function, rounds: int) -> Function:
    def f(u: Any) -> Any:
        for _ in range(rounds):
            u = body(u)
        return u

    return f


def pads_of_two_values(u: Any) -> Any:
    for _ in range(7):
        u = np.pad(u[1:-1, 1:-1] * np.float32(0.5), 1, constant_values=3)
    for _ in range(7):
        u = np.pad(u[1:-1, 1:-1] * np.float32(0.5), 1, constant_values=1)
    return u


def two_states(u: Any) -> Any:
    v = u + 1
    for _ in range(8):
        u, v = v - u * np.float32(0.25), u
    return u, v


def used_again(u: Any) -> Any:
    x = u
    for _ in range(8):
        x = stencil(x)
    return x, x + u, u[0]


def one_loop_in_another(u: Any) -> Any:
    for _ in range(5):
        for _ in range(6):
            u = stencil(u)
        u = u + np.float32(0.125)
    return u


def other_first_border(u: Any) -> Any:
    x = np.pad(u, 1, constant_values=2)
    for _ in range(8):
        x = stencil(x)
    return x


def numbered(u: Any) -> Any:
    for k in range(8):
        u = stencil(u) + np.float32(k)
    return u


FUNCTIONS: list[Function] = [
    *[repeated(stencil, n) for n in (1, 2, 3, 4, 5, 10, 33)],
    repeated(lambda u: u * np.float32(0.5) + 1, 9),
    repeated(lambda u: u[::-1] * np.float32(0.5), 9),
    pads_of_two_values,
    two_states,
    used_again,
    one_loop_in_another,
    other_first_border,
    numbered,
]


@pytest.mark.parametrize("size", [3, 20, 100])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_against_numpy(f: Function, size: int) -> None:
    u = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    want = f(u.copy())
    for threads in (1, 2):
        g = minicc.jit(f, threads=threads)
        for _ in range(3):
            given = u.copy()
            got = g(given)
            for a, b in zip(leaves(got), leaves(want), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(given, u)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_every_stage_gives_the_same(f: Function) -> None:
    u = np.random.default_rng(0).standard_normal((70, 66)).astype(np.float32)
    made = trace_call(f, [u], {}).module
    options = Options(threads=1)
    found = dict(every_stage(made, [u], options))
    after = [outputs for name, outputs in found.items() if name in ("tile", "peel", "bufferize")]
    for outputs in after[1:]:
        assert all(map(same_bits, outputs, after[0]))


def leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def test_nothing_is_copied_and_borders_are_filled_once() -> None:
    u = np.zeros((128, 128), np.float32)
    program = lower(trace_call(repeated(stencil, 10), [u], {}).module, Options())
    names = [op.kernel for op in launches(program.main.body)]
    assert not any("copy" in name for name in names)
    (loop,) = [op for op in walk_control(program.main.body) if op.control]
    assert len([op for op in loop.regions[0].ops if op.opname == "program.launch"]) == 1
    assert sum("fill" in name for name in names) == 3
