"""Short names for building kernels by hand: symbols, loops with carried tiles, loads and stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from minicc.ir import arith, kernel
from minicc.ir.affine import Dim, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Function, Literal, Region, Value
from minicc.ir.types import F32, INDEX_TYPE, BufferType

I = [symbol(f"i{k}") for k in range(8)]  # noqa: E741 - as in the kernels' text
T = [symbol(f"t{k}") for k in range(4)]
LANES = 16  # floats that element by element work handles at once

Body = Callable[[Builder, Value, Sequence[Value]], Sequence[Value]]


def loop(
    b: Builder, name: str, hi: int, carried: Sequence[Value], body: Body, step: int = 1
) -> Sequence[Value]:
    """A `kernel.for`; `body` gets builder, index and carried values, and returns the next ones."""
    index = Value(INDEX_TYPE, name)
    inner = [Value(v.type, "acc") for v in carried]
    region = b.region((index, *inner), lambda r: body(r, index, inner))
    return b.emit_all(kernel.For, carried, lo=0, hi=hi, step=step, body=region)


def each(
    b: Builder, name: str, hi: int, body: Callable[[Builder, Value], None], step: int = 1
) -> None:
    """A `kernel.for` that carries nothing."""

    def run(r: Builder, index: Value, _: Sequence[Value]) -> Sequence[Value]:
        body(r, index)
        return ()

    loop(b, name, hi, (), run, step)


def constant(b: Builder, value: float, shape: tuple[int, ...]) -> Value:
    """A tile that holds one number."""
    return b.emit(arith.Constant, value=Literal(np.float32(value)), shape=shape)


def load(
    b: Builder,
    buffer: Value,
    indices: Sequence[Value],
    at: Sequence[Dim],
    shape: tuple[int, ...],
) -> Value:
    """Read a tile."""
    return b.emit(kernel.Load, buffer, tuple(indices), at=tuple(at), shape=shape)


def store(
    b: Builder, buffer: Value, value: Value, indices: Sequence[Value], at: Sequence[Dim]
) -> None:
    """Write a tile."""
    b.add(kernel.Store(buffer, value, tuple(indices), at=tuple(at), loc=b.loc))


def buffer(name: str, *shape: int) -> Value:
    """A dense parameter in memory."""
    return Value(BufferType(F32, shape), name)


def coordinates(names: str) -> list[Value]:
    """The arguments that say which instance runs."""
    return [Value(INDEX_TYPE, n) for n in names.split()]


def relu(b: Builder, x: Value) -> Value:
    """The greater of x and 0."""
    return b.emit(arith.Max, x, constant(b, 0, (1,) * len(x.type.shape)))


def function(name: str, args: Sequence[Value], b: Builder, grid: tuple[int, ...]) -> Function:
    """The kernel that the builder's ops make."""
    return Function(name, Region(tuple(args), b.ops, ()), {"grid": grid})
