"""Large constants are computed when their arrays are asked for, each chain of them in one go."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Module, Value
from minicc.ir.types import F32, TensorType
from minicc.passes.graph.fold_constants import fold_constants
from tests.stages.programs import constant, module

_SIDE = 160  # so that a square of float32 is large
_ROW = TensorType(F32, (_SIDE,))


def folded(build: object, *types: TensorType) -> list[Literal]:
    """The constants that are left of a function's results."""
    made = fold_constants(module(build, *types))  # type: ignore[arg-type]
    results = {op.result: op for op in made.main.body.ops if isinstance(op, graph.Constant)}
    return [results[v].value for v in made.main.body.yields]


def square(start: float = 0.0) -> np.ndarray:
    return (np.arange(_SIDE * _SIDE, dtype=np.float32) + np.float32(start)).reshape(_SIDE, _SIDE)


def test_a_chain_is_computed_when_it_is_asked_for() -> None:
    seen: list[Literal] = []

    def body(b: Builder, x: Value) -> Sequence[Value]:
        scaled = b.emit(graph.Mul, constant(b, square()), constant(b, np.float32(3)))
        turned = b.emit(graph.Transpose, scaled, perm=(1, 0))
        return [turned, b.emit(graph.Add, turned, constant(b, np.ones(_SIDE, np.float32)))]

    seen = folded(body, _ROW)
    turned, last = seen
    assert last.type == turned.type == TensorType(F32, (_SIDE, _SIDE))
    assert last.type.nbytes == 4 * _SIDE * _SIDE
    assert last.array.flags.c_contiguous
    assert last.array is last.array
    np.testing.assert_array_equal(last.array, square().T * np.float32(3) + np.float32(1))
    np.testing.assert_array_equal(turned.array, square().T * np.float32(3))


def test_long_chains_and_shared_steps_end() -> None:
    """A value that doubles 60 times would be computed 2**60 times if each step computed both."""

    def body(b: Builder, x: Value) -> Sequence[Value]:
        v = constant(b, square(1.0))
        for _ in range(60):
            v = b.emit(graph.Add, v, v)
        for _ in range(2000):
            v = b.emit(graph.Neg, v)
        return [v]

    (literal,) = folded(body, _ROW)
    np.testing.assert_array_equal(literal.array, np.ldexp(square(1.0), 60))


def test_equal_if_computed_alike_or_of_equal_bytes() -> None:
    def of(start: float, number: float) -> Literal:
        def body(b: Builder, x: Value) -> Sequence[Value]:
            return [b.emit(graph.Mul, constant(b, square(start)), constant(b, np.float32(number)))]

        (literal,) = folded(body, _ROW)
        return literal

    one, same, other = of(1, 2), of(1, 2), of(2, 2)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    known = Literal(square(1) * np.float32(2))
    assert one == known, "its array is computed to be compared with one that is known"
    assert other != known
    assert one == same
    assert of(1, 2) == one


def test_several_threads_get_one_array() -> None:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        return [b.emit(graph.Exp, constant(b, square()))]

    for _ in range(5):
        (literal,) = folded(body, _ROW)
        with ThreadPoolExecutor(4) as pool:
            arrays = [*pool.map(lambda _, made=literal: made.array, range(8))]
        assert all(a is arrays[0] for a in arrays)


def test_an_index_out_of_range_is_left_for_the_run() -> None:
    """Only what no element can fail waits."""

    def body(b: Builder, x: Value) -> Sequence[Value]:
        rows = constant(b, np.full(_SIDE, _SIDE, np.int64))
        return [b.emit(graph.Gather, constant(b, square()), rows, axis=0)]

    made: Module = fold_constants(module(body, _ROW))
    assert any(isinstance(op, graph.Gather) for op in made.main.body.ops)
