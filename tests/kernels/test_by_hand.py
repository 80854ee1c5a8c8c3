"""Kernels by hand: the same result traced, interpreted, compiled, in functions and in models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import minicc
import minicc.tile as tl
from minicc.compiler import STAGES, lower
from minicc.ir.core import Module
from minicc.ir.interpret import run
from minicc.ir.parser import parse_module
from minicc.ir.printer import print_module
from minicc.ir.verify import verify

F32 = np.float32
LOG2E = 1.4426950408889634


@minicc.kernel(grid=lambda x: x.shape[0], out=lambda x: x)
def softmax(x: Any, y: Any, *, width: int = 32) -> None:
    """Soft-max of rows of any length."""
    row, n = tl.program_id(0), x.shape[1]
    top = tl.full(width, -np.inf)
    for j in tl.range(0, n, width):
        here = j + tl.arange(width) < n
        tile = tl.load(x, (row, tl.ds(j, width)), mask=here)
        top = np.maximum(top, np.where(here, tile, -np.inf))
    greatest = top.max()
    total = tl.zeros(width)
    for j in tl.range(0, n, width):
        here = j + tl.arange(width) < n
        e = np.exp(tl.load(x, (row, tl.ds(j, width)), mask=here) - greatest)
        total = total + np.where(here, e, 0)
        tl.store(y, (row, tl.ds(j, width)), e, mask=here)
    factor = 1 / total.sum()
    for j in tl.range(0, n, width):
        here = j + tl.arange(width) < n
        e = tl.load(y, (row, tl.ds(j, width)), mask=here)
        tl.store(y, (row, tl.ds(j, width)), e * factor, mask=here)


@minicc.kernel(
    grid=lambda a, b, rows, columns: (tl.cdiv(a.shape[0], rows), tl.cdiv(b.shape[1], columns)),
    out=lambda a, b: (a.shape[0], b.shape[1]),
)
def product(a: Any, b: Any, c: Any, *, rows: int = 8, columns: int = 32) -> None:
    """A product whose last tiles overlap those before them."""
    i = np.minimum(tl.program_id(0) * rows, a.shape[0] - rows)
    j = np.minimum(tl.program_id(1) * columns, b.shape[1] - columns)
    c[i : i + rows, j : j + columns] = tl.dot(a[i : i + rows, :], b[:, j : j + columns])


@minicc.kernel(grid=lambda q: q.shape[0] // 8, out=lambda q: q)
def attention(q: Any, kt: Any, v: Any, y: Any, *, keys: int = 64, causal: bool = False) -> None:
    """Flash attention: the greatest score and the sum so far are carried along the keys."""
    i, (n, d) = tl.program_id(0) * 8, v.shape
    acc, total, top = tl.zeros((8, d)), tl.zeros((8, 1)), tl.full((8, 1), -1e30)
    for j in tl.range(0, n, keys):
        s = tl.dot(q[i : i + 8, :], kt[:, j : j + keys]) * (d**-0.5 * LOG2E)
        if causal:
            rows, columns = i + tl.arange(8), j + tl.arange(keys)
            s = np.where(columns[None, :] <= rows[:, None], s, -1e30)
        new = np.maximum(top, s.max(axis=1, keepdims=True))
        p, factor = np.exp2(s - new), np.exp2(top - new)
        total = total * factor + p.sum(axis=1, keepdims=True)
        acc = tl.dot(p, v[j : j + keys, :], acc * factor)
        top = new
    y[i : i + 8, :] = acc / total


def soft_max(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q: Any, kt: Any, v: Any, causal: bool = False) -> Any:
    s = q @ kt / np.sqrt(q.shape[1])
    if causal:
        s = np.where(np.tri(*s.shape) > 0, s, -np.inf)
    return soft_max(s) @ v


def random(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(F32)


def model(operator: str, extent: Any, **attributes: Any) -> bytes:
    domain, _, name = operator.rpartition(".")
    nodes = [
        helper.make_node("Add", ["x", "x"], ["t"], "twice"),
        helper.make_node(name, ["t"], ["s"], "hand", domain=domain, **attributes),
        helper.make_node("Relu", ["s"], ["y"], "relu"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [extent, 50])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    graph = helper.make_graph(nodes, "g", [x], [y])
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return bytes(made.SerializeToString())


CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "soft-max": (softmax, (random(5, 96),), {}, soft_max),
    "soft-max, tails": (softmax, (random(5, 50),), {}, soft_max),
    "soft-max, narrow": (softmax, (random(3, 7),), {"width": 16}, soft_max),
    "product": (product, (random(16, 40), random(40, 64)), {}, np.matmul),
    "product, tails": (product, (random(13, 5), random(5, 41)), {}, np.matmul),
    "attention": (attention, (random(16, 32), random(32, 128), random(128, 32)), {}, attend),
    "causal": (
        attention,
        (random(64, 16), random(16, 64), random(64, 16)),
        {"causal": True, "keys": 16},
        lambda q, kt, v: attend(q, kt, v, True),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_level_computes_the_same(case: str) -> None:
    kernel, arrays, constants, meant = CASES[case]
    want = meant(*[a.astype(np.float64) for a in arrays])
    close: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(kernel(*arrays, **constants), want, **close)
    np.testing.assert_allclose(kernel.check(*arrays, **constants), want, **close)
    module: Module = kernel.module(*arrays, **constants)
    for stage in STAGES:
        module = lower(module, kernel.options, stop=stage.name, start=_before(stage.name))
        verify(module)
        (got,) = run(parse_module(print_module(module)), arrays)
        np.testing.assert_allclose(got, want, **close)


def _before(name: str) -> str | None:
    names = [s.name for s in STAGES]
    return names[names.index(name) - 1] if names.index(name) else None


def test_it_is_an_op_of_traced_functions() -> None:
    @minicc.jit
    def f(x: Any, w: Any) -> Any:
        return product(softmax(x + x), w).T + 1

    x, w = random(16, 40), random(40, 64)
    np.testing.assert_allclose(f(x, w), (soft_max(x + x) @ w).T + 1, rtol=1e-4)
    text = f.lower(x, w).as_text("kernel")
    assert "@softmax" in text
    assert "@product" in text


def test_it_may_stand_in_a_loop_that_is_captured() -> None:
    @minicc.jit
    def f(x: Any) -> Any:
        for _ in range(6):
            x = softmax(x) + x
        return x

    x = random(4, 40)
    want = x
    for _ in range(6):
        want = soft_max(want) + want
    np.testing.assert_allclose(f(x), want, rtol=1e-4)
    assert "graph.scan" in print_module(f.lower(x).module)


@pytest.mark.parametrize("extent", [6, "n"])
def test_an_operator_of_a_users_domain(extent: Any) -> None:
    softmax.register("com.example.RowSoftmax")
    session = minicc.InferenceSession(model("com.example.RowSoftmax", extent, width=16))
    for rows in (6, 6 if extent == 6 else 9):
        x = random(rows, 50)
        (got,) = session.run(None, {"x": x})
        np.testing.assert_allclose(got, soft_max(x + x), rtol=1e-4, atol=1e-6)


def test_threads_change_no_bits() -> None:
    x = random(512, 96)
    one, two = (
        minicc.kernel(grid=softmax.grid, out=softmax.out, threads=n)(softmax.function)(x)
        for n in (1, 2)
    )
    assert np.array_equal(one, two)
