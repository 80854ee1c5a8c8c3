"""Kernels by hand: the same result traced, interpreted, compiled, in functions and in models."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from benchmarks import kernels
from onnx import TensorProto, helper

import minicc
import minicc.tile as tl
from minicc.compile.compiler import STAGES, lower
from minicc.frontends.onnx.registry import OPERATORS
from minicc.ir.core import Module
from minicc.ir.interpret import run
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module
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


@minicc.kernel(grid=lambda ids: ids.shape[0], out=lambda table, ids: (*ids.shape, table.shape[1]))
def take(table: Any, ids: Any, y: Any) -> None:
    """Rows of a table, by numbers that are data."""
    i = tl.program_id(0)
    y[i, :] = table[ids[i], :]


@minicc.kernel(grid=lambda x: x.shape[0], out=lambda x: [x, tl.Spec(x.shape[:1], np.int64)])
def two(x: Any, y: Any, z: Any) -> None:
    """Two outputs of unlike types."""
    i = tl.program_id(0)
    y[i, :] = -abs(x[i, ::2] - x[i, 1::2])[:, None].reshape(-1).sum()
    z[i] = tl.full((), 7, np.int64) + i


def model(operator: str, shape: Any, **attributes: Any) -> bytes:
    domain, _, name = operator.rpartition(".")
    nodes = [
        helper.make_node("Add", ["x", "x"], ["t"], "twice"),
        helper.make_node(name, ["t"], ["s"], "hand", domain=domain, **attributes),
        helper.make_node("Relu", ["s"], ["y"], "relu"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
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


@pytest.fixture(autouse=True)
def _operators() -> Iterator[None]:
    """What a test registers is no operator for others, which list all of them."""
    before = dict(OPERATORS)
    yield
    OPERATORS.clear()
    OPERATORS.update(before)


@pytest.mark.parametrize("shape", [[6, 50], ["m", 50], ["m", "n"]])
def test_an_operator_of_a_users_domain(shape: Any) -> None:
    softmax.register("com.example.RowSoftmax")
    session = minicc.InferenceSession(model("com.example.RowSoftmax", shape, width=16))
    for extents in ((6, 50), (9, 50), (2, 7), (1, 1)):
        if all(isinstance(n, str) or n == m for n, m in zip(shape, extents, strict=True)):
            x = random(*extents)
            (got,) = session.run(None, {"x": x})
            np.testing.assert_allclose(got, soft_max(x + x), rtol=1e-4, atol=1e-6)


def test_an_operator_whose_tiles_have_free_sizes() -> None:
    @minicc.kernel(grid=lambda x: x.shape[0], out=lambda x: x)
    def reverse(x: Any, y: Any) -> None:
        i = tl.program_id(0)
        y[i, :] = x[i, :] * 2

    reverse.register("com.example.Twice")
    session = minicc.InferenceSession(model("com.example.Twice", ["m", "n"]))
    for n in (5, 8):
        x = random(3, n)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.maximum(4 * x, 0))


def test_an_operator_whose_kernel_is_wrong() -> None:
    @minicc.kernel(grid=lambda x: x.shape[0], out=lambda x: x)
    def shifts(x: Any, y: Any) -> None:
        y[tl.program_id(0), :] = x[tl.program_id(0) + 1, :]

    shifts.register("com.example.Shift")
    with pytest.raises(minicc.UserError, match=r"MC0199 .*Shift.*reads x(.|\n)*hand, test_by_hand"):
        minicc.InferenceSession(model("com.example.Shift", [3, 4]))


def test_places_that_are_data() -> None:
    table, ids = random(10, 16), np.array([3, -1, 0, 9])
    np.testing.assert_array_equal(take(table, ids), table[ids])
    np.testing.assert_array_equal(take.check(table, ids), table[ids])
    np.testing.assert_array_equal(minicc.jit(take)(table, ids), table[ids])
    with pytest.raises(minicc.UserError, match=r"MC0158 .*index 10(.|\n)*test_by_hand\.py:\d+"):
        take(table, np.array([10]))


def test_several_outputs_and_strides() -> None:
    x = random(5, 8)
    want = -np.abs(x[:, ::2] - x[:, 1::2]).sum(axis=1)
    for run_it in (two, two.check, minicc.jit(lambda x: two(x))):
        y, z = run_it(x)
        np.testing.assert_allclose(y, np.repeat(want[:, None], 8, axis=1), rtol=1e-5)
        np.testing.assert_array_equal(z, np.arange(7, 12))


def test_coordinates_and_masks() -> None:
    @minicc.kernel(grid=2, out=lambda x: [x, x, x, x])
    def places(x: Any, a: Any, b: Any, c: Any, d: Any) -> None:
        i, j = tl.program_id(0) * 4 + tl.arange(4), tl.arange(1, 9)
        rows, columns = i[:, None], j[None, :]
        here = tl.ds(tl.program_id(0) * 4, 4)
        a[here, :] = rows * 10 + columns // 2 % 3 - columns
        b[here, :] = np.where((columns > rows) | (2 * rows <= columns - 3), rows, -columns)
        c[here, :] = np.where(3 - rows < columns, x[here, :], np.minimum(rows, tl.program_id(0)))
        d[here, :] = np.where(x[here, :] > 0.5, tl.full((), 0.5) + tl.program_id(0), x[here, :])

    x = random(8, 8)
    rows, columns = np.arange(8)[:, None], np.arange(1, 9)[None, :]
    block = rows // 4 + 0 * columns
    want = (
        rows * 10 + columns // 2 % 3 - columns,
        np.where((columns > rows) | (2 * rows <= columns - 3), rows, -columns),
        np.where(3 - rows < columns, x, np.minimum(rows, block)),
        np.where(x > 0.5, block + 0.5, x),
    )
    for got in (places(x), places.check(x)):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b.astype(F32))


def test_what_is_loaded_before_a_loop_is_multiplied_in_it() -> None:
    @minicc.kernel(grid=lambda a: a.shape[0] // 4, out=lambda a, b: (a.shape[0], b.shape[1]))
    def rows(a: Any, b: Any, c: Any) -> None:
        i = tl.program_id(0) * 4
        tile = a[i : i + 4, :]
        for j in tl.range(0, b.shape[1], 16):
            c[i : i + 4, j : j + 16] = tl.dot(tile, b[:, j : j + 16])

    a, b = random(8, 40), random(40, 48)
    np.testing.assert_allclose(rows(a, b), a @ b, rtol=1e-4, atol=1e-5)
    assert "kernel.alloc" not in rows.text(a, b)


def test_loops_hand_on_tuples_and_lists() -> None:
    @minicc.kernel(grid=lambda x: x.shape[0], out=lambda x: [x, x])
    def running(x: Any, y: Any, z: Any) -> None:
        row, columns = tl.program_id(0), tl.arange(8)
        sums, pair = [tl.zeros(8), tl.zeros(8)], (tl.zeros(8), tl.full(8, 1))
        for j in tl.range(0, x.shape[1], 8):
            tile = tl.load(x, (row, tl.ds(j, 8)), mask=j + columns < x.shape[1])
            for _ in tl.range(2):
                sums[0] = sums[0] + tile
            pair = (pair[1], pair[0] + sums[0])
            here = j + columns < x.shape[1]
            tl.store(y, (row, tl.ds(j, 8)), sums[0] + sums[1], mask=here)
            tl.store(z, (row, tl.ds(j, 8)), pair[0], mask=here)
        y[row, 0:4] = (sums[0] + pair[1])[0:4]

    x = random(3, 20)
    y, z = np.zeros_like(x), np.zeros_like(x)
    sums, pair = np.zeros((3, 8), F32), (np.zeros((3, 8), F32), np.ones((3, 8), F32))
    for j in range(0, 20, 8):
        tile = np.zeros((3, 8), F32)
        tile[:, : 20 - j] = x[:, j : j + 8]
        sums = sums + tile + tile
        pair = (pair[1], pair[0] + sums)
        y[:, j : j + 8], z[:, j : j + 8] = sums[:, : 20 - j], pair[0][:, : 20 - j]
    y[:, :4] = (sums + pair[1])[:, :4]
    for got in (running(x), running.check(x)):
        np.testing.assert_allclose(got[0], y, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(got[1], z, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.int8])
def test_products_of_other_types(dtype: Any) -> None:
    a, b = (random(16, 40) * 3).astype(dtype), (random(40, 64) * 3).astype(dtype)
    narrow = dtype == np.float16  # sums are of f32
    want = (a.astype(F32) @ b.astype(F32)).astype(dtype) if narrow else a @ b
    np.testing.assert_allclose(product(a, b), want, rtol=1e-2 if narrow else 1e-12)


def test_arrays_of_no_rows_and_of_other_strides() -> None:
    assert softmax(np.zeros((0, 8), F32)).shape == (0, 8)
    x = random(7, 12)
    np.testing.assert_allclose(softmax(x.T), soft_max(x.T), rtol=1e-4)


def test_calls_of_unlike_kinds_take_turns() -> None:
    """The first kind is looked at by machine code, which tells the others from it."""
    first = random(7, 12)
    kinds = [first, random(12, 7).T, random(7, 12), random(3, 4), np.zeros((0, 8), F32)]
    kinds += [first[::2], first.astype(">f4"), first[:, ::-1]]
    for x in kinds * 2:
        got = softmax(x)
        assert got.dtype == x.dtype.newbyteorder("=")
        np.testing.assert_allclose(got, soft_max(x), rtol=1e-4)
    np.testing.assert_allclose(softmax(first, width=16), soft_max(first), rtol=1e-4)


def test_results_of_several_threads_are_apart() -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        for n in range(100):
            x = np.full((6, 12), k, F32)
            x[:, n % 12] += 1
            if not np.allclose(softmax(x), soft_max(x), rtol=1e-4):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_those_that_are_measured() -> None:
    a, b = random(32, 256), random(256, 128)
    np.testing.assert_allclose(kernels.product(a, b), a @ b, rtol=1e-3, atol=1e-4)
    q, k, v = random(3, 64, 32)
    want = attend(q, k.T, v)
    np.testing.assert_allclose(kernels.attention(q, k, v, keys=32), want, rtol=1e-3, atol=1e-4)
    checked = kernels.attention.check(q, k, v, keys=32)
    np.testing.assert_allclose(checked, want, rtol=1e-3, atol=1e-4)
    longer = np.tile(q, (5, 1))[:300]  # of two instances, the last shifted back
    made = kernels.attention(longer, k, v)
    np.testing.assert_allclose(made, np.tile(want, (5, 1))[:300], rtol=1e-3, atol=1e-4)


def test_what_machine_code_does_not_read_as_it_lies() -> None:
    x = random(6, 12)
    want = soft_max(x)
    shifted = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(F32).reshape(x.shape)
    for given in (x.astype(">f4"), np.asfortranarray(x), shifted, np.ma.array(x)):
        made = softmax(given)
        np.testing.assert_allclose(made, want, rtol=1e-4)
        assert type(made) is np.ndarray


def test_threads_change_no_bits() -> None:
    x = random(512, 96)
    one, two = (
        minicc.kernel(grid=softmax.grid, out=softmax.out, threads=n)(softmax.function)(x)
        for n in (1, 2)
    )
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("left", "right", "sums"),
    [
        (np.uint8, np.int8, np.int32),
        (np.int16, np.int16, np.int64),
        (np.float32, np.float32, np.float64),
        (np.int8, np.int8, np.float32),
    ],
)
def test_an_accumulator_has_a_type_of_its_own(left: Any, right: Any, sums: Any) -> None:
    @minicc.kernel(grid=2, out=tl.Spec((8, 24), sums))
    def product(a: Any, b: Any, c: Any) -> None:
        i = tl.program_id(0) * 4
        c[i : i + 4, :] = tl.dot(a[i : i + 4, :], b[:, :], tl.zeros((4, 24), sums))

    rng = np.random.default_rng(0)
    a = rng.integers(0, 128, (8, 20)).astype(left)
    b = rng.integers(-128, 128, (20, 24)).astype(right)
    want = a.astype(sums) @ b.astype(sums)
    for got in (product(a, b), product.check(a, b)):
        assert got.dtype == sums
        np.testing.assert_array_equal(got, want)


@minicc.kernel(
    grid=lambda x: x.shape[0],
    out=lambda x: [tl.Spec((x.shape[0], 4), F32), tl.Spec((x.shape[0], 2), np.bool_)],
)
def words(x: Any, y: Any, z: Any) -> None:
    """Reductions and functions by NumPy's names, as methods and as functions."""
    i = tl.program_id(0)
    tile = x[i, :, :]
    y[i, 0] = tile.mean()
    y[i, 1] = np.mean(tile.T, axis=0).max() + np.transpose(tile)[0, 0]
    y[i, 2] = np.prod(np.clip(np.round(tile), 1, 2))
    y[i, 3] = np.clip(tile, None, 0.5).prod(axis=1).sum() + np.clip(tile, -0.5, None).min()
    z[i, 0] = np.any(tile > 1.5)
    z[i, 1] = (tile > -1.5).all()


def test_numpys_words_for_tiles() -> None:
    x = np.random.default_rng(3).standard_normal((6, 4, 8)).astype(F32)
    means = x.mean(axis=2).max(axis=1) + x[:, 0, 0]
    ones = np.clip(np.round(x), 1, 2).prod(axis=(1, 2))
    clipped = np.clip(x, None, 0.5).prod(axis=2).sum(axis=1) + np.clip(x, -0.5, None).min((1, 2))
    wanted = np.stack([x.mean(axis=(1, 2)), means, ones, clipped], axis=1)
    said = np.stack([(x > 1.5).any(axis=(1, 2)), (x > -1.5).all(axis=(1, 2))], axis=1)
    for run_by in (words, words.check):
        y, z = run_by(x)
        np.testing.assert_allclose(y, wanted, 1e-5, 1e-6)
        assert np.array_equal(z, said)
    with pytest.raises(minicc.UserError, match=r"np.round to 2 digits"):
        minicc.kernel(grid=6, out=lambda x: x)(_to_two_digits)(x)


def _to_two_digits(x: Any, y: Any) -> None:
    i = tl.program_id(0)
    y[i, :, :] = np.round(x[i, :, :], 2)
