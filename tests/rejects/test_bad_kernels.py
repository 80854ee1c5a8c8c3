"""Kernels by hand that are wrong: each is told of by its line, with a code."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc
import minicc.tile as tl
from minicc.errors import MiniccError

X = np.arange(64, dtype=np.float32).reshape(4, 16)


def of_rows(f: Callable[..., None]) -> Any:
    """A kernel with an instance a row, and an output like its input."""
    return minicc.kernel(grid=lambda x: x.shape[0], out=lambda x: x)(f)


def told(f: Callable[..., None], call: Callable[[], Any]) -> str:
    """The error, with lines counted from the one in which the kernel begins."""
    with pytest.raises(MiniccError) as caught:
        call()
    first = f.__code__.co_firstlineno

    def counted(found: re.Match[str]) -> str:
        return f"FILE:{int(found[1]) - first}"

    return re.sub(r"test_bad_kernels\.py:(\d+)", counted, str(caught.value))


def reads_outside(x: Any, y: Any) -> None:
    row = tl.program_id(0)
    y[row, :] = x[row + 1, :]


def writes_outside(x: Any, y: Any) -> None:
    row = tl.program_id(0)
    for j in tl.range(0, 17, 8):
        y[row, j : j + 8] = x[row, 0:8]


def reads_where_data_say(x: Any, y: Any) -> None:
    row = tl.program_id(0)
    at = x[row, 0:1].astype(np.int64)
    y[row, :] = x[at, :]


def reads_outside_at_the_last_rounds(x: Any, y: Any) -> None:
    row = tl.program_id(0)
    for j in tl.range(row, 5):
        y[row, :] = x[j, :]


def masks_all(x: Any, y: Any) -> None:
    row = tl.program_id(0)
    y[row, :] = 0
    tl.store(y, (row, ...), x[row, :], mask=tl.arange(16) < row)


def writes_the_row_of_another(x: Any, y: Any) -> None:
    row = tl.program_id(0)
    y[row // 2 * 2, :] = x[row, :]
    y[row, :] = x[row // 2 * 2, :]


def reads_another_instances(x: Any, y: Any) -> None:
    row = tl.program_id(0)
    y[row, :] = x[row, :]
    y[row, :] = y[3 - row, :] * 2


def leaves_a_part(x: Any, y: Any) -> None:
    y[tl.program_id(0), 0:15] = 1


def decides_by_elements(x: Any, y: Any) -> None:
    tile = x[tl.program_id(0), :]
    y[tl.program_id(0), :] = tile if tile.max() > 0 else -tile


def decides_by_the_instance(x: Any, y: Any) -> None:
    if tl.program_id(0) > 2:
        y[tl.program_id(0), :] = 0


def writes_to_an_input(x: Any, y: Any) -> None:
    x[tl.program_id(0), :] = 0


def writes_nothing(x: Any, y: Any) -> None:
    np.exp(x[tl.program_id(0), :])


def has_a_tile_of_no_known_size(x: Any, y: Any) -> None:
    row = tl.program_id(0)
    y[row, 0:row] = x[row, 0:row]


def adds_unlike_tiles(x: Any, y: Any) -> None:
    row = tl.program_id(0)
    y[row, :] = x[row, 0:8] + x[row, 0:6]


def multiplies_unlike_tiles(x: Any, y: Any) -> None:
    y[0:4, :] = tl.dot(x[0:4, :], x[0:4, :])


def uses_a_loops_tile(x: Any, y: Any) -> None:
    for j in tl.range(0, 16, 8):
        tile = x[tl.program_id(0), j : j + 8]
    y[tl.program_id(0), 0:8] = tile


def uses_a_loops_number(x: Any, y: Any) -> None:
    for j in tl.range(0, 16, 8):
        y[tl.program_id(0), j : j + 8] = 0
    y[tl.program_id(0), j : j + 8] = 1


def changes_type_in_a_loop(x: Any, y: Any) -> None:
    total = tl.zeros(8)
    for j in tl.range(0, 16, 8):
        total = (total + x[tl.program_id(0), j : j + 8]).sum()
    y[tl.program_id(0), :] = total


def counts_in_a_loop(x: Any, y: Any) -> None:
    count = 0
    for j in tl.range(0, 16, 8):
        count = count + 1
        y[tl.program_id(0), j : j + 8] = count


def moves_coordinates(x: Any, y: Any) -> None:
    columns = tl.arange(8)
    for _ in tl.range(0, 16, 8):
        y[tl.program_id(0), 0:8] = columns * 2
        columns = columns + 8


def changes_a_list(x: Any, y: Any) -> None:
    sums = [tl.zeros(8), tl.zeros(8)]
    for j in tl.range(0, 16, 8):
        sums.append(x[tl.program_id(0), j : j + 8])
    y[tl.program_id(0), 0:8] = sums[0]


def leaves_a_loop(x: Any, y: Any) -> None:
    for j in tl.range(0, 16, 8):
        y[tl.program_id(0), j : j + 8] = 0
        break


def asks_for_another_axis(x: Any, y: Any) -> None:
    y[tl.program_id(1), :] = 0


def calls_what_tiles_have_not(x: Any, y: Any) -> None:
    y[tl.program_id(0), :] = np.spacing(x[tl.program_id(0), :])


def masks_by_elements(x: Any, y: Any) -> None:
    tile = x[tl.program_id(0), :]
    tl.store(y, (tl.program_id(0), ...), tile, mask=tile > 0)


def adds_a_part_to_a_number(x: Any, y: Any) -> None:
    y[tl.program_id(0), :] = tl.program_id(0) + 0.5


def takes_much_scratch(x: Any, y: Any) -> None:
    much = tl.alloc((1024, 1024))
    much[0, 0] = x[0, 0]
    y[tl.program_id(0), :] = much[0, 0]


def takes_scratch_of_no_known_size(x: Any, y: Any) -> None:
    y[tl.program_id(0), :] = tl.full((tl.program_id(0),), 1)


def is_read_at_a_text(x: Any, y: Any) -> None:
    y[tl.program_id(0), :] = x["all"]


TRACED: dict[Callable[..., None], str] = {
    reads_outside: (
        "MC0199 error: reads_outside reads x from 1 to 4 along axis 0, which has 4\n  at: FILE:2"
    ),
    writes_outside: (
        "MC0199 error: writes_outside writes y from 0 to 23 along axis 1, which has 16\n"
        "  at: FILE:3"
    ),
    decides_by_elements: (
        "MC0193 error: a tile's elements are known when the kernel runs, and Python asks for one\n"
        "  at: FILE:2\n"
        "  hint: np.where chooses by elements"
    ),
    decides_by_the_instance: (
        "MC0193 error: program_id(0) is known when the kernel runs, and Python is to decide by it\n"
        "  at: FILE:1\n"
        "  hint: np.where chooses by elements, np.minimum and np.maximum by numbers"
    ),
    writes_to_an_input: (
        "MC0196 error: x is an input, and inputs are not written to\n"
        "  at: FILE:1\n"
        "  hint: outputs are the last parameters; tl.alloc gives scratch"
    ),
    writes_nothing: ("MC0196 error: writes_nothing writes nothing to its outputs\n  at: FILE:0"),
    has_a_tile_of_no_known_size: (
        "MC0194 error: a tile has program_id(0) elements along axis 1, not a number of at least 1\n"
        "  at: FILE:2\n"
        "  hint: x[j : j + 64] and tl.ds(j, 64) have 64"
    ),
    adds_unlike_tiles: ("MC0191 error: operands [f32[8], f32[6]] do not broadcast\n  at: FILE:2"),
    multiplies_unlike_tiles: (
        "MC0191 error: tl.dot of <tile f32[4,16]> and <tile f32[4,16]>\n"
        "  at: FILE:1\n"
        "  hint: [m, k] and [k, n] have a product, of two types where an accumulator has its own"
    ),
    uses_a_loops_tile: (
        "MC0192 error: a tile that a loop's body made is used after the loop\n"
        "  at: FILE:3\n"
        "  hint: bind its name to a tile before the loop"
    ),
    uses_a_loops_number: (
        "MC0192 error: the number of a round is used after its loop\n  at: FILE:3"
    ),
    changes_type_in_a_loop: (
        "MC0198 error: total is f32[8] before the loop at FILE:2, and a round makes f32 of it\n"
        "  at: FILE:2\n"
        "  hint: begin it with tl.full of that shape and type"
    ),
    counts_in_a_loop: (
        "MC0198 error: count is 0 before the loop at FILE:2, and another after a round\n"
        "  at: FILE:2\n"
        "  hint: what rounds hand on are tiles; tl.full makes one"
    ),
    moves_coordinates: (
        "MC0198 error: columns is <tile i64[8]> before the loop at FILE:2,"
        " and another after a round\n"
        "  at: FILE:2\n"
        "  hint: what rounds hand on are tiles; tl.full makes one"
    ),
    changes_a_list: (
        "MC0198 error: sums is a list of 2 tiles before the loop at FILE:2,"
        " a list of 3 tiles after a round\n"
        "  at: FILE:2"
    ),
    leaves_a_loop: (
        "MC0197 error: tl.range is no loop of the kernel: it is left by `break` or `return`\n"
        "  at: FILE:1\n"
        "  hint: range writes rounds out"
    ),
    asks_for_another_axis: ("MC0194 error: a grid of 1 axes has no axis 1\n  at: FILE:1"),
    calls_what_tiles_have_not: (
        "MC0195 error: np.spacing is not among the functions of tiles\n"
        "  at: FILE:1\n"
        "  hint: docs/kernels.md says which are, and what computes others"
    ),
    masks_by_elements: (
        "MC0194 error: a load or store takes a mask that ends each row at one place\n"
        "  at: FILE:2\n"
        "  hint: j + tl.arange(64) < n does; where rows are fewer, shift the last tile back"
    ),
    adds_a_part_to_a_number: (
        "MC0194 error: np.add of program_id(0) and 0.5 is no number for an index\n"
        "  at: FILE:1\n"
        "  hint: tl.full((), 0.5) + i is a tile"
    ),
    takes_much_scratch: (
        "MC0191 error: the scratch of an instance of takes_much_scratch is 4194304 bytes,"
        " at most 2097152\n"
        "  at: FILE:1"
    ),
    takes_scratch_of_no_known_size: (
        "MC0194 error: an extent is program_id(0), and it must be a number of at least 1\n"
        "  at: FILE:1"
    ),
    is_read_at_a_text: (
        "MC0194 error: axis 0 is read at 'all', which is no place\n"
        "  at: FILE:1\n"
        "  hint: numbers and tiles of one integer do; x[i : i + 8] and tl.ds(i, 8) make axes"
    ),
}


@pytest.mark.parametrize("f", TRACED, ids=lambda f: f.__name__)
def test_what_the_trace_refuses(f: Callable[..., None]) -> None:
    assert told(f, lambda: of_rows(f)(X)) == TRACED[f]


RUN: dict[Callable[..., None], str] = {
    reads_where_data_say: ("MC0199 error: index 16 leaves an extent of 4\n  at: FILE:3"),
    reads_outside_at_the_last_rounds: (
        "MC0199 error: x is read outside: coordinate 4..4 leaves axis 0 of buffer<f32[4,16]>\n"
        "  at: FILE:3"
    ),
    masks_all: (
        "MC0199 error: y is written with a mask that leaves no element\n"
        "  at: FILE:3\n"
        "  hint: a masked tile has one at least"
    ),
    writes_the_row_of_another: (
        "MC0188 error: the instances [2] and [3] write y[2, 0] differently\n"
        "  at: FILE:2\n"
        "  hint: instances run in any order; tiles may overlap where they write the same"
    ),
    reads_another_instances: (
        "MC0189 error: y[1, 0] is read, which instance [1] wrote\n"
        "  at: FILE:3\n"
        "  hint: an instance knows of an output what it wrote itself"
    ),
    leaves_a_part: (
        "MC0189 error: leaves_a_part: y[0, 15] and 3 more are written by no instance\n  at: FILE:0"
    ),
}


@pytest.mark.parametrize("f", RUN, ids=lambda f: f.__name__)
def test_what_the_interpreter_finds(f: Callable[..., None]) -> None:
    assert told(f, lambda: of_rows(f).check(X)) == RUN[f]
