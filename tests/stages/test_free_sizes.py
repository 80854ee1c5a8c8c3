"""Programs with free dimensions: one compilation, many sizes, at every level and as machine code.

Sizes are 0, 1, and those below, at and above the tiles that schedules choose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np
import pytest

from minicc.compile.compiled import compile_module
from minicc.ir import graph
from minicc.ir.affine import Dim, symbol
from minicc.ir.arith import identity_of
from minicc.ir.build import Builder
from minicc.ir.core import Function, Module, Region, Value
from minicc.ir.interpret import run
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module, resources
from minicc.ir.types import F32, I64, TensorType
from minicc.options import Options
from minicc.target import TARGETS
from tests.stages.programs import Array, changed, constant, same_bits
from tests.sweeps import part

Body = Callable[..., Sequence[Value]]
N, M, H, W = (symbol(name) for name in "nmhw")
ONE = [{"n": n, "m": n} for n in (0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17, 40, 64, 65, 130)]
TWO = [{"n": n, "m": m} for n in (0, 1, 5, 16, 17, 70) for m in (0, 1, 3, 16, 33)]
IMAGES = [{"h": h, "w": w} for h in (1, 3, 4, 5, 13, 16) for w in (1, 2, 4, 7, 14, 29)]


POINTS = [{"n": (b["h"] + b["w"]) % 3, **b} for b in IMAGES]


def _random(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32) / 4


def _layer(depth: int, columns: int) -> Body:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        weights = constant(b, _random(depth, columns))
        y = b.emit(graph.Contract, x, weights, equation="nk,kc->nc")
        y = b.emit(graph.Add, y, constant(b, _random(columns)))
        return [b.emit(graph.Tanh, y)]

    return body


def _soft_max(b: Builder, x: Value) -> Sequence[Value]:
    most = b.emit(graph.Reduce, x, axes=(1,), combine="max", keepdims=True)
    e = b.emit(graph.Exp, b.emit(graph.Sub, x, most))
    total = b.emit(graph.Reduce, e, axes=(1,), combine="add", keepdims=True)
    return [b.emit(graph.Div, e, total)]


def _attention(b: Builder, x: Value) -> Sequence[Value]:
    scores = b.emit(graph.Contract, x, x, equation="nk,mk->nm")
    (weights,) = _soft_max(b, scores)
    return [b.emit(graph.Contract, weights, x, equation="nm,mk->nk")]


def _turned(b: Builder, x: Value) -> Sequence[Value]:
    turned = b.emit(graph.Transpose, x, perm=(1, 0))
    return [b.emit(graph.Neg, turned), b.emit(graph.Concat, (x, x), axis=1)]


def _sums(b: Builder, x: Value) -> Sequence[Value]:
    columns = b.emit(graph.Reduce, x, axes=(0,), combine="add", keepdims=False)
    return [columns, b.emit(graph.Reduce, x, axes=(0, 1), combine="add", keepdims=False)]


def _rows(b: Builder, x: Value, at: Value) -> Sequence[Value]:
    picked = b.emit(graph.Gather, x, at, axis=0)
    flat = b.emit(graph.Reshape, picked, shape=(M * 24,))
    part = b.emit(graph.Slice, flat, starts=(0,), stops=(M * 12,), steps=(1,))
    return [part, b.emit(graph.Sizes, values=(N, 3, N * M), shape=(3,), dtype=I64)]


def _images(channels: int) -> Body:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        edge = (0, 0, 1, 1)
        padded = b.emit(graph.Pad, x, low=edge, high=edge, value=identity_of("add", F32))
        one = (1, 1)
        weights = constant(b, _random(channels, channels, 3, 3))
        y = b.emit(graph.Conv, padded, weights, strides=one, dilations=one)
        y = b.emit(graph.Max, b.emit(graph.Add, y, x), constant(b, np.float32(0)))
        pointwise = constant(b, _random(2 * channels, channels, 1, 1))
        small = b.emit(graph.Conv, y, pointwise, strides=(2, 2), dilations=one)
        return [y, b.emit(graph.Reduce, small, axes=(2, 3), combine="add", keepdims=True)]

    return body


def _points(b: Builder, x: Value) -> Sequence[Value]:
    """Products at the points of images, whose rows are counted as one dimension.

    The first leaves its result within a border, the second one after the other.
    """
    strides = {"strides": (1, 1), "dilations": (1, 1)}
    first, second = (constant(b, _random(192, 192, 1, 1)) for _ in range(2))
    y = b.emit(graph.Conv, x, first, **strides)
    y = b.emit(graph.Max, y, constant(b, np.float32(0)))
    edge = (0, 0, 1, 1)
    padded = b.emit(graph.Pad, y, low=edge, high=edge, value=identity_of("add", F32))
    window = constant(b, _random(192, 1, 3, 3))
    y = b.emit(graph.Conv, padded, window, groups=192, **strides)
    return [b.emit(graph.Add, b.emit(graph.Conv, y, second, **strides), x)]


def _loop(b: Builder, h: Value, x: Value) -> Sequence[Value]:
    """As many rounds as there are rows, from the last on, for batches of any size."""
    state, row = Value(h.type), Value(TensorType(F32, x.type.shape[1:]))
    inner = Builder(b.loc)
    weights = constant(inner, _random(24, 24))
    product = inner.emit(graph.Contract, state, weights, equation="bh,hg->bg")
    new = inner.emit(graph.Tanh, inner.emit(graph.Add, product, row))
    scan = graph.Scan(
        (h, x),
        count=N,
        states=1,
        backwards=(True,),
        turned=(True, False),
        body=Region((state, row), inner.ops, (new, new, state)),
        loc=b.loc,
    )
    last, every, before = b.add(scan).results
    return [last, b.emit(graph.Concat, (every, before), axis=2)]


CASES: Mapping[str, tuple[Body, list[TensorType], list[dict[str, int]]]] = {
    "layer": (_layer(24, 40), [TensorType(F32, (N, 24))], ONE),
    "layer of many weights": (
        _layer(384, 192),
        [TensorType(F32, (N, 384))],
        [{"n": n} for n in (*range(64), 96, 107, 131)],
    ),
    "soft-max": (_soft_max, [TensorType(F32, (N, M))], [b for b in TWO if b["m"]]),
    "attention": (_attention, [TensorType(F32, (N, 32))], ONE[1:]),
    "turned": (_turned, [TensorType(F32, (N, M))], TWO),
    "sums": (_sums, [TensorType(F32, (N, M))], TWO),
    "rows": (_rows, [TensorType(F32, (N, 24)), TensorType(I64, (M,))], [b for b in TWO if b["n"]]),
    "loop": (_loop, [TensorType(F32, (M, 24)), TensorType(F32, (N, M, 24))], TWO),
    "images": (_images(6), [TensorType(F32, (2, 6, H, W))], IMAGES),
    "points": (_points, [TensorType(F32, (N, 192, H, W))], POINTS),
    "minimal filters": (_images(32), [TensorType(F32, (1, 32, H, W))], IMAGES),
}


def module_of(name: str) -> tuple[Module, list[TensorType], list[dict[str, int]]]:
    body, types, sizes = CASES[name]
    return made_of(body, types, name), types, sizes


def made_of(body: Body, types: Sequence[TensorType], name: str) -> Module:
    b = Builder((name,))
    args = [Value(t, f"x{k}") for k, t in enumerate(types)]
    yields = body(b, *args)
    return Module("graph", [Function("main", Region(args, b.ops, yields))])


def inputs_at(types: Sequence[TensorType], sizes: Mapping[str, int]) -> list[Array]:
    rng = np.random.default_rng(sum(sizes.values()))
    made: list[Array] = []
    for t in types:
        shape = [_number(n, sizes) for n in t.shape]
        if t.dtype is I64:
            made.append(rng.integers(-sizes["n"], sizes["n"], shape))
        else:
            made.append(rng.standard_normal(shape).astype(np.float32))
    return made


def _number(n: Dim, sizes: Mapping[str, int]) -> int:
    return n if isinstance(n, int) else sizes[str(n)]


@pytest.mark.parametrize("name", CASES)
def test_machine_code_at_many_sizes(name: str) -> None:
    module, types, many = module_of(name)
    one, two = (compile_module(module, Options(threads=k), {}).executable for k in (1, 2))
    for sizes in many:
        inputs = inputs_at(types, sizes)
        wanted = run(module, inputs)
        assert one.fits([x.shape for x in inputs])
        got = one.run(inputs)
        for y, want in zip(got, wanted, strict=True):
            assert y.shape == want.shape
            np.testing.assert_allclose(y, want, rtol=1e-4, atol=2e-4, err_msg=f"{name} {sizes}")
        assert all(map(same_bits, two.run(inputs), got)), (name, sizes)


@pytest.mark.parametrize("target", [n for n, t in TARGETS.items() if t.runs_here()])
@pytest.mark.parametrize(("channels", "size"), [*product((8, 16), ((2, 2), (14, 2), (3, 3)))])
def test_batches_of_small_images(channels: int, size: tuple[int, int], target: str) -> None:
    # a tile has rows of several images, and each row has an address of its own

    def body(b: Builder, x: Value) -> Sequence[Value]:
        return _images(channels)(b, _images(channels)(b, x)[0])

    types = [TensorType(F32, (N, channels, *size))]
    module = made_of(body, types, "images")
    program = compile_module(module, Options(threads=1, target=target), {}).executable
    for n in (0, 1, 2, 3, 5, 7):
        inputs = inputs_at(types, {"n": n})
        for y, want in zip(program.run(inputs), run(module, inputs), strict=True):
            np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-3, err_msg=str(n))


@pytest.mark.parametrize(("name", "target"), part(product(CASES, TARGETS), 4))
def test_every_stage_at_some_sizes(name: str, target: str) -> None:
    module, types, many = module_of(name)
    chosen = [inputs_at(types, sizes) for sizes in many[3 :: max(1, len(many) // 2)]]
    wanted = [run(module, inputs) for inputs in chosen]
    stages = changed(module, Options(target=target), {})
    tensors = [(stage, made) for stage, made in stages if made.level != "kernel"]
    kernels = [stages[len(tensors)], stages[-1]]  # as they are made, and at the end
    # of the rest only tiles depend on the target
    for stage, made in [*tensors, *kernels] if target == "avx2" else kernels:
        assert target != "avx2" or same_text(made)
        for inputs, want in zip(chosen, wanted, strict=True):
            for y, w in zip(run(made, inputs), want, strict=True):
                np.testing.assert_allclose(y, w, rtol=1e-4, atol=2e-4, err_msg=stage)


def same_text(module: Module) -> bool:
    text = print_module(module)
    return print_module(parse_module(text, resources(module))) == text


def test_a_guard_says_which_sizes_a_program_is_for() -> None:
    b = Builder(("add",))
    args = [Value(TensorType(F32, (N, 4)), "x"), Value(TensorType(F32, (M, 4)), "y")]
    total = b.emit(graph.Add, *args)
    module = Module("graph", [Function("main", Region(args, b.ops, (total,)))])
    executable = compile_module(module, Options(threads=1), {}).executable
    assert executable.fits([(3, 4), (3, 4)])
    assert not executable.fits([(3, 4), (1, 4)])


def test_what_a_loop_scans_has_as_many_slices() -> None:
    b = Builder(("loop",))
    args = [Value(TensorType(F32, (N, 4)), "x"), Value(TensorType(F32, (M, 4)), "y")]
    rows = [Value(TensorType(F32, (4,))) for _ in args]
    inner = Builder(("loop",))
    total = inner.emit(graph.Add, *rows)
    scan = graph.Scan(
        args,
        count=N,
        states=0,
        backwards=(False, True),
        turned=(False,),
        body=Region(rows, inner.ops, (total,)),
        loc=("loop",),
    )
    b.add(scan)
    module = Module("graph", [Function("main", Region(args, b.ops, scan.results))])
    executable = compile_module(module, Options(threads=1), {}).executable
    assert executable.fits([(3, 4), (3, 4)])
    assert not executable.fits([(3, 4), (1, 4)])
    assert not executable.fits([(1, 4), (3, 4)])
