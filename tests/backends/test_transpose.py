"""Matrices turned in registers, of every pair of extents, as machine code on every target."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from tests.stages.programs import machine_code, module
from tests.sweeps import part

from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Value
from minicc.ir.text.parser import parse_module
from minicc.ir.types import DTYPES, TensorType
from minicc.ir.verify import verify
from minicc.options import Options
from minicc.target import TARGETS

_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]


_SHAPES = ((4, 4), (5, 64), (64, 5), (16, 16), (21, 13), (2, 9, 35), (40, 3, 6, 7))
_TURNED = product(_SHAPES, ("f32", "f64", "i8", "bf16", "bool"), _RUNNABLE)


@pytest.mark.parametrize(("shape", "dtype", "target"), part(_TURNED, 3))
def test_axes_change_places(shape: tuple[int, ...], dtype: str, target: str) -> None:
    element = DTYPES[dtype]
    x = np.arange(np.prod(shape)).reshape(shape) % 251 % 127
    x = x.astype(np.float32).astype(element.numpy)
    perm = (*range(1, len(shape)), 0)

    def body(b: Builder, v: Value) -> Sequence[Value]:
        return [b.emit(graph.Transpose, v, perm=perm)]

    program = lower(module(body, TensorType(element, shape)), Options(target=target))
    (got,) = machine_code(program, target, [x], 2)
    assert got.tobytes() == np.ascontiguousarray(x.transpose(perm)).tobytes()


WRITTEN = """module level = "program"

func @turn(%0: index, %1: OPERAND, %2: RESULT) -> () {grid = [2]} {
  %3 = kernel.load %1, %0 {at = [i0, LOADED], shape = [TILE]} : TYPE[TILE]
  kernel.store %2, %3, %0 {at = [i0, STORED], within = COUNT}
  yield
}

func @main(%x: OPERAND, %z: RESULT) -> () {inputs = 1, arena = 64} {
  program.launch %x, %z {kernel = "turn", outputs = 1}
  yield
}
"""


def _spelt(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


_TILES = [(4, 4), (14, 32), (6, 16), (7, 5), (16, 21), (5, 3, 8), (3, 6, 4)]
_WRITTEN = product(_TILES, ["f32", "f64", "u8", "bool"], _RUNNABLE)


@pytest.mark.parametrize(("tile", "dtype", "target"), part(_WRITTEN, 3), ids=str)
def test_tiles_are_written_across(tile: tuple[int, ...], dtype: str, target: str) -> None:
    """All but the last axis lie side by side in memory, and the last one's elements are apart."""
    element = DTYPES[dtype]
    *rows, columns = tile
    x = np.arange(2 * np.prod(tile)).reshape(2, *tile) % 251 % 3
    x = x.astype(element.numpy)
    axes = [f"t{k}" for k in range(len(tile))]
    for count in {1, columns // 2, columns}:
        words = {
            "OPERAND": f"buffer<TYPE[2,{_spelt(tile)}]>",
            "RESULT": f"buffer<TYPE[2,{count},{_spelt(rows)}]>",
            "TILE": _spelt(tile),
            "LOADED": ", ".join(axes),
            "STORED": ", ".join([axes[-1], *axes[:-1]]),
            ", within = COUNT": f", within = {count}" * (count < columns),
            "TYPE": dtype,
        }
        text = WRITTEN
        for word, meaning in words.items():
            text = text.replace(word, meaning)
        program = parse_module(text, {})
        verify(program)
        (got,) = machine_code(program, target, [x], 1)
        want = np.moveaxis(x, -1, 1)[:, :count]
        assert got.tobytes() == np.ascontiguousarray(want).tobytes()
