"""Random programs with free dimensions: one compilation, many sizes, against the interpreter."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from minicc.compile.compiled import compile_module
from minicc.errors import UserError
from minicc.ir import graph
from minicc.ir.affine import Dim, evaluate, symbol
from minicc.ir.arith import identity_of
from minicc.ir.build import Builder
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.indices import OutOfRange
from minicc.ir.interpret import run
from minicc.ir.types import F32, I64, TensorType
from minicc.options import Options
from tests.stages.programs import constant, same_bits

N, M = symbol("n"), symbol("m")
SIZES = (0, 1, 2, 3, 5, 15, 16, 17, 33)
_UNARY = (graph.Neg, graph.Abs, graph.Tanh, graph.Erf)
_BINARY = (graph.Add, graph.Sub, graph.Mul, graph.Max, graph.Min)


class Maker:
    """A random program as it grows; `values` are what later ops may use, `free` its symbols."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.b = Builder((f"seed {seed}",))
        rank = self.rng.choice([1, 2, 2, 3, 4])
        dims: list[Dim] = [N, N, M, 1, 3, 8, 20]
        shape: list[Dim] = [self.rng.choice(dims) for _ in range(rank)]
        shape[self.rng.randrange(rank)] = N
        more: list[Dim] = [1, M, N]
        other = [n if self.rng.random() < 0.7 else self.rng.choice(more) for n in shape]
        types = [TensorType(F32, tuple(s)) for s in (shape, other)]
        self.args = [Value(t, f"x{k}") for k, t in enumerate(types)]
        self.values = list(self.args)
        self.free = [n for n in (N, M) if any(n in t.shape for t in types)]

    def module(self) -> Module:
        steps = [getattr(self, name) for name in dir(self) if name.startswith("_op_")]
        for _ in range(self.rng.randint(2, 8)):
            x = self.rng.choice(self.values)
            try:
                made = self.rng.choice(steps)(x)
            except (TypeError, ValueError, IndexError):  # surely does not fit
                continue
            if made.type.rank <= 5 and _elements(made.type.shape) < 200_000:
                self.values.append(made)
        yields = [self.values[-1], self.rng.choice(self.values), self.rng.choice(self.values)]
        used, ops = set(yields), list[Op]()
        for op in reversed(self.b.ops):
            if used.intersection(op.results):
                used.update(op.operands)
                ops.append(op)
        body = Region(self.args, ops[::-1], yields)
        return Module("graph", [Function("main", body)])

    def _op_while(self, x: Value) -> Value:
        """A loop that a state ends, which is a count down of few rounds."""
        rounds = constant(self.b, np.int64(self.rng.randint(0, 3)))
        zero, most = constant(self.b, np.int64(0)), constant(self.b, np.int64(1 << 62))
        inner = Builder(self.b.loc)
        left, carried, given = Value(rounds.type), Value(x.type), Value(x.type)
        new = inner.emit(graph.Tanh, inner.emit(graph.Add, carried, given))
        less = inner.emit(graph.Sub, left, constant(inner, np.int64(1)))
        more = inner.emit(graph.Lt, constant(inner, np.int64(0)), less)
        first = self.b.emit(graph.Lt, zero, rounds)
        args = (Value(zero.type), Value(first.type), left, carried, given)
        op = graph.While(
            (most, first, rounds, x, x),
            states=2,
            types=(rounds.type, x.type),
            body=Region(args, inner.ops, (more, less, new)),
            loc=self.b.loc,
        )
        return self.b.add(op).results[1]

    def _op_unary(self, x: Value) -> Value:
        return self.b.emit(self.rng.choice(_UNARY), x)

    def _op_binary(self, x: Value) -> Value:
        like = [v for v in self.values if v.type.rank <= x.type.rank or self.rng.random() < 0.2]
        return self.b.emit(self.rng.choice(_BINARY), x, self.rng.choice(like))

    def _op_reduce(self, x: Value) -> Value:
        axes = [k for k in range(x.type.rank) if self.rng.random() < 0.5]
        combine, keep = self.rng.choice(["add", "max", "min"]), self.rng.random() < 0.5
        tanh = self.b.emit(graph.Tanh, x)
        return self.b.emit(graph.Reduce, tanh, axes=tuple(axes), combine=combine, keepdims=keep)

    def _op_soft_max(self, x: Value) -> Value:
        axis = (self.rng.randrange(x.type.rank),)
        e = self.b.emit(graph.Exp, self.b.emit(graph.Tanh, x))
        total = self.b.emit(graph.Reduce, e, axes=axis, combine="add", keepdims=True)
        return self.b.emit(graph.Div, e, total)

    def _op_transpose(self, x: Value) -> Value:
        perm = self.rng.sample(range(x.type.rank), x.type.rank)
        return self.b.emit(graph.Transpose, x, perm=tuple(perm))

    def _op_reshape(self, x: Value) -> Value:
        shape, at = list(x.type.shape), self.rng.randrange(max(1, x.type.rank - 1))
        if self.rng.random() < 0.3:
            shape.insert(at, 1)
        elif isinstance(shape[at], int) and shape[at] == 8:
            shape[at : at + 1] = [2, 4]
        else:
            shape[at : at + 2] = [graph.product(tuple(shape[at : at + 2]))]
        return self.b.emit(graph.Reshape, x, shape=tuple(shape))

    def _op_concat(self, x: Value) -> Value:
        like = [v for v in self.values if v.type.rank == x.type.rank]
        axis = self.rng.randrange(x.type.rank)
        return self.b.emit(graph.Concat, (x, self.rng.choice(like), x), axis=axis)

    def _op_pad(self, x: Value) -> Value:
        low, high = (tuple(self.rng.randint(0, 2) for _ in x.type.shape) for _ in "ab")
        return self.b.emit(graph.Pad, x, low=low, high=high, value=identity_of("add", F32))

    def _op_slice(self, x: Value) -> Value:
        starts: list[Dim] = []
        stops: list[Dim] = []
        steps: list[int] = []
        for n in x.type.shape:
            step = self.rng.choice([1, 1, 1, 2, -1])
            a, b = self.rng.randint(0, 2), self.rng.randint(0, 2)
            starts.append(a if step > 0 else n - 1 - a)
            stops.append(n - b if step > 0 else b - 1)
            steps.append(step)
        cut = [tuple(column) for column in (starts, stops, steps)]
        return self.b.emit(graph.Slice, x, starts=cut[0], stops=cut[1], steps=cut[2])

    def _op_broadcast(self, x: Value) -> Value:
        shape = tuple(self.rng.choice([self.free[-1], 2]) if n == 1 else n for n in x.type.shape)
        return self.b.emit(graph.Broadcast, x, shape=(self.rng.choice([N, 2]), *shape))

    def _op_dense(self, x: Value) -> Value:
        k, n = x.type.shape[-1], self.rng.choice([1, 4, 17, 40])
        if not isinstance(k, int):
            raise ValueError("weights are constants")
        letters = "abcde"[: x.type.rank]
        w = np.random.default_rng(n).standard_normal((k, n)).astype(np.float32)
        equation = f"{letters},{letters[-1]}z->{letters[:-1]}z"
        tanh = self.b.emit(graph.Tanh, x)
        return self.b.emit(graph.Contract, tanh, constant(self.b, w), equation=equation)

    def _op_product(self, x: Value) -> Value:
        like = [v for v in self.values if v.type.rank == x.type.rank >= 2]
        if not like:
            raise ValueError("no matrices")
        y = self.b.emit(graph.Tanh, self.rng.choice(like))
        batch = "pqr"[: x.type.rank - 2]
        equation = f"{batch}mk,{batch}{self.rng.choice(['nk', 'kn'])}->{batch}mn"
        return self.b.emit(graph.Contract, self.b.emit(graph.Tanh, x), y, equation=equation)

    def _op_gather(self, x: Value) -> Value:
        axis = self.rng.randrange(x.type.rank)
        count = self.rng.choice([*self.free, 3])
        first = self.b.emit(graph.Iota, shape=(count,), axis=0, dtype=I64)
        extent = self.b.emit(graph.Sizes, values=(x.type.shape[axis],), shape=(1,), dtype=I64)
        one = constant(self.b, np.array([1], np.int64))
        inside = self.b.emit(graph.Mod, first, self.b.emit(graph.Max, extent, one))
        return self.b.emit(graph.Gather, x, inside, axis=axis)

    def _op_conv(self, x: Value) -> Value:
        if x.type.rank < 3 or not isinstance(x.type.shape[1], int):
            raise ValueError("no image")
        axes, c, o = x.type.rank - 2, x.type.shape[1], self.rng.choice([1, 8, 20])
        kernel = self.rng.choice([1, 2, 3])
        w = np.random.default_rng(o).standard_normal((o, c, *[kernel] * axes)).astype(np.float32)
        tanh, ones = self.b.emit(graph.Tanh, x), (1,) * axes
        strides = (self.rng.choice([1, 1, 2]),) * axes
        return self.b.emit(graph.Conv, tanh, constant(self.b, w), strides=strides, dilations=ones)

    def _op_window(self, x: Value) -> Value:
        size = tuple(self.rng.choice([1, 1, 2, 3]) for _ in x.type.shape)
        ones = (1,) * x.type.rank
        strides = tuple(self.rng.choice([1, 2]) if n > 1 else 1 for n in size)
        pooled = {"size": size, "strides": strides, "dilations": ones}
        return self.b.emit(graph.Window, x, combine="max", **pooled)


def _elements(shape: tuple[Dim, ...]) -> int:
    return int(evaluate(graph.product(shape), {"n": 33, "m": 33}))


def check(seed: int) -> int:
    """Compile a random program once and run it at some sizes; how many it was for."""
    maker = Maker(seed)
    module = maker.module()
    try:
        one, two = (compile_module(module, Options(threads=k), {}).executable for k in (1, 2))
    except UserError as error:
        if error.code != "MC0142":  # an op's sizes contradict each other
            raise
        return 0
    rng = np.random.default_rng(seed)
    fitting = 0
    empty = any(isinstance(op, graph.Gather) for op in module.main.body.ops)
    for _ in range(6):
        sizes = {name: maker.rng.choice(SIZES[1:] if empty else SIZES) for name in "nm"}
        shapes = [[int(evaluate(n, sizes)) for n in a.type.shape] for a in maker.args]
        inputs = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        where = f"seed {seed} at {sizes}"
        if not one.fits([x.shape for x in inputs]):
            continue
        try:
            wanted = run(module, inputs)
        except OutOfRange:  # there is nothing to gather of what is empty
            continue
        fitting += 1
        got = one.run(inputs)
        for y, want in zip(got, wanted, strict=True):
            assert y.shape == want.shape, where
            scale = max(1.0, float(np.max(np.abs(want), initial=0.0, where=np.isfinite(want))))
            np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4 * scale, err_msg=where)
        assert all(map(same_bits, two.run(inputs), got)), where
    return fitting


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs_at_many_sizes(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 10))
