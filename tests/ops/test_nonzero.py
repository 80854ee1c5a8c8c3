"""`graph.nonzero`: positions, of which data say how many there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stages.programs import module

from minicc.compile.compiled import compile_module
from minicc.errors import UserError
from minicc.ir import graph
from minicc.ir.affine import minimum, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Function, Module, Value
from minicc.ir.interpret import run
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module
from minicc.ir.types import BOOL, F32, I64, TensorType
from minicc.options import Options

N = symbol("$n")


def taken(least: int = 0) -> Module:
    """The elements of a row where a mask holds, doubled, and their positions."""

    def body(b: Builder, mask: Value, x: Value) -> Sequence[Value]:
        at = b.emit(graph.NonZero, mask, types=(TensorType(I64, (N,)),))
        part = b.emit(graph.Gather, x, at, axis=0)
        return [b.emit(graph.Add, part, part), at]

    main = module(body, TensorType(BOOL, (9,)), TensorType(F32, (9,))).main
    demands = {"demands": ((minimum(N - least, 0), 0),)} if least else {}
    return Module("graph", [Function(main.name, main.body, demands)])


COMPILED = compile_module(taken(), Options(threads=1), {}).executable


@given(st.lists(st.booleans(), min_size=9, max_size=9))
def test_elements_are_as_many_as_the_mask_says(mask: list[bool]) -> None:
    x = np.arange(9, dtype=np.float32) + 1
    given_ = [np.array(mask), x]
    for made in COMPILED.run(given_), run(taken(), given_):
        np.testing.assert_array_equal(made[0], 2 * x[mask])
        np.testing.assert_array_equal(made[1], np.flatnonzero(mask))


def test_its_text_is_read_back() -> None:
    text = print_module(taken())
    assert "graph.nonzero" in text
    assert print_module(parse_module(text)) == text


def test_what_is_no_row_of_truth_values_is_refused() -> None:
    rows, row = TensorType(BOOL, (3, 3)), TensorType(BOOL, (3,))
    with pytest.raises(TypeError, match="wants truth values in a row"):
        graph.NonZero(Value(rows), types=(TensorType(I64, (N,)),), loc=())
    with pytest.raises(TypeError, match="gives i64 positions in a row"):
        graph.NonZero(Value(row), types=(TensorType(F32, (N,)),), loc=())


def test_what_is_demanded_of_a_size_that_data_give_holds_in_each_run() -> None:
    def body(b: Builder, mask: Value) -> Sequence[Value]:
        return [b.emit(graph.NonZero, mask, types=(TensorType(I64, (N,)),))]

    main = module(body, TensorType(BOOL, (9,))).main
    at_least_two = {"demands": ((minimum(N - 2, 0), 0),)}
    for asked in taken(2), Module("graph", [Function("main", main.body, at_least_two)]):
        fast = compile_module(asked, Options(threads=1), {}).executable
        mask, rest = np.arange(9) > 6, [np.ones(9, np.float32)][: len(asked.main.args) - 1]
        np.testing.assert_array_equal(fast.run([mask, *rest])[-1], [7, 8])
        with pytest.raises(UserError, match="MC0142"):
            fast.run([np.arange(9) > 7, *rest])
