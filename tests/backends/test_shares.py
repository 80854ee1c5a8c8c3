"""Launches whose threads share several axes, counted as one: each instance runs exactly once."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from tests.stages.programs import machine_code

from minicc.errors import CompilerBug
from minicc.ir.parser import parse_module
from minicc.ir.verify import verify

PROGRAM = """module level = "program"

func @copy(%0: buffer<f32[EXTENTS]>, %1: buffer<f32[EXTENTS]>) -> () {grid = []} {
  %2 = kernel.load %0 {at = [t0, t1, t2], shape = [EXTENTS]} : f32[EXTENTS]
  kernel.store %1, %2 {at = [t0, t1, t2]}
  yield
}

func @more(%0: index, %1: index, %2: index, %3: buffer<f32[EXTENTS]>) -> () {grid = [EXTENTS]} {
  %4 = kernel.load %3, %0, %1, %2 {at = [i0, i1, i2], shape = []} : f32[]
  %5 = arith.constant {value = dense<f32, 1.0>, shape = []} : f32[]
  %6 = arith.add %4, %5 : f32[]
  kernel.store %3, %6, %0, %1, %2 {at = [i0, i1, i2]}
  yield
}

func @main(%x: buffer<f32[EXTENTS]>, %z: buffer<f32[EXTENTS]>) -> () {inputs = 1, arena = 64} {
  program.launch %x, %z {kernel = "copy", outputs = 1}
  program.launch %z {kernel = "more", outputs = 0, split = SPLIT, work = 100000000}
  yield
}
"""
SPLITS = [split for count in (1, 2, 3) for split in permutations(range(3), count)]


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_instances_run_once(split: tuple[int, ...], threads: int) -> None:
    for extents in ((3, 5, 7), (1, 1, 13), (6, 1, 4)):
        text = PROGRAM.replace("EXTENTS", ",".join(map(str, extents)))
        program = parse_module(text.replace("SPLIT", str(list(split))), {})
        verify(program)
        x = np.arange(np.prod(extents), dtype=np.float32).reshape(extents)
        (z,) = machine_code(program, "avx2", [x], threads)
        np.testing.assert_array_equal(z, x + 1)


@pytest.mark.parametrize("split", ["[3]", "[0, 0]", "[-1]"])
def test_axes_that_a_kernel_has_not_are_refused(split: str) -> None:
    text = PROGRAM.replace("EXTENTS", "2,3,4").replace("SPLIT", split)
    with pytest.raises(CompilerBug, match="has 3 axes, and is shared along"):
        verify(parse_module(text, {}))
