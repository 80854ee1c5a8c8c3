"""Launches whose threads share several axes, counted as one: each instance runs exactly once."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from tests.stages.programs import machine_code

import minicc
from minicc.backends.llvm.compile import emit
from minicc.errors import CompilerBug
from minicc.ir.text.parser import parse_module
from minicc.ir.verify import verify
from minicc.target import TARGETS

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


def test_launches_of_one_kind_have_one_function() -> None:
    """What hands them out, and what runs a part of one, is not written out for each kernel."""

    def layers(x: Any) -> Any:
        for width in (600, 700, 800):
            x = np.maximum(x @ np.ones((x.shape[1], width), np.float32), 0)
        return x

    lowered = minicc.jit(layers).lower(np.ones((500, 500), np.float32))
    main = emit(lowered.at("program"), TARGETS["avx512"], "nothing")["main"]
    for name in ("hand.", "share."):
        assert main.count(f"define internal void @{name}") == 1
    assert main.count("call void @hand.") == 3


@pytest.mark.parametrize("split", ["[3]", "[0, 0]", "[-1]"])
def test_axes_that_a_kernel_has_not_are_refused(split: str) -> None:
    text = PROGRAM.replace("EXTENTS", "2,3,4").replace("SPLIT", split)
    with pytest.raises(CompilerBug, match="has 3 axes, and is shared along"):
        verify(parse_module(text, {}))


# each round adds to what the one before left, and says in which order instances ran: no program of
# the compiler's, as instances are not independent
ROUNDS = """module level = "program"

func @begin(%0: buffer<f32[5]>, %1: buffer<f32[5]>, %2: buffer<f32[]>) -> () {grid = []} {
  %3 = kernel.load %0 {at = [t0], shape = [5]} : f32[5]
  kernel.store %1, %3 {at = [t0]}
  %4 = arith.constant {value = dense<f32, 0.0>, shape = []} : f32[]
  kernel.store %2, %4 {at = []}
  yield
}

func @next(%0: index, %1: buffer<f32[5]>, %2: buffer<f32[5]>, %3: buffer<f32[]>) -> ()
    {grid = [5]} {
  %4 = arith.constant {value = dense<f32, 1.0>, shape = []} : f32[]
  %5 = kernel.load %3 {at = [], shape = []} : f32[]
  kernel.store %2, %5, %0 {at = [i0]}
  %6 = arith.add %5, %4 : f32[]
  kernel.store %3, %6 {at = []}
  %7 = kernel.load %1, %0 {at = [i0], shape = []} : f32[]
  %8 = arith.add %7, %4 : f32[]
  kernel.store %1, %8, %0 {at = [i0]}
  yield
}

func @main(%x: buffer<f32[5]>, %sum: buffer<f32[5]>, %order: buffer<f32[3,5]>) -> ()
    {inputs = 1, arena = 64} {
  %0 = program.alloc {type = !buffer<f32[]>, offset = 0} : buffer<f32[]>
  program.launch %x, %sum, %0 {kernel = "begin", outputs = 1}
  program.loop {count = 3} {
  ^(%round0: index):
    %1 = program.view %order, %round0 {type = !buffer<f32[5]>, offset = 5*i0} : buffer<f32[5]>
    program.barrier
    program.launch %sum, %1, %0 {kernel = "next", outputs = 0, split = [0], zigzag = true,
        work = WORK}
    yield
  }
  yield
}
"""


@pytest.mark.parametrize("work", [5, 100_000_000])
def test_rounds_go_back_and_forth(work: int) -> None:
    program = parse_module(ROUNDS.replace("WORK", str(work)), {})
    verify(program)
    x = np.arange(5, dtype=np.float32)
    made, order = machine_code(program, "avx2", [x], 1)
    np.testing.assert_array_equal(made, x + 3)
    assert order.tolist() == [[0, 1, 2, 3, 4], [9, 8, 7, 6, 5], [10, 11, 12, 13, 14]]


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_go_back_and_forth(threads: int) -> None:
    # without the counter, which threads would race for
    text = ROUNDS.replace("  kernel.store %3, %6 {at = []}\n", "")
    program = parse_module(text.replace("WORK", "100000000"), {})
    x = np.arange(5, dtype=np.float32)
    made, order = machine_code(program, "avx2", [x], threads)
    np.testing.assert_array_equal(made, x + 3)
    assert not order.any()


def test_what_goes_back_and_forth_has_a_loop_around() -> None:
    text = PROGRAM.replace("EXTENTS", "2,3,4").replace("SPLIT", "[0], zigzag = true")
    with pytest.raises(CompilerBug, match="back and forth without"):
        verify(parse_module(text, {}))
