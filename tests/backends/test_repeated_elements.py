"""An element that is repeated in every lane is there wherever it is used, also after no rounds."""

import numpy as np
import pytest

from minicc.compile.compiled import compile_module
from minicc.ir.text.parser import parse_module
from minicc.options import Options

_LOOP = """
  kernel.range %start, %stop {
  ^(%index: index):
    %first = kernel.load %FROM, %index {at = [t0, 8*i0 + t1], shape = [4, 8]} : f32[4,8]
    %second = arith.OP %first, %rows : f32[4,8]
    kernel.store %y, %second, %index {at = [t0, 8*i0 + t1]}
    yield
  }"""
_TEXT = """module level = "kernel"

func @twice(%r: buffer<f32[4]>, %x: buffer<f32[4,160]>, %y: buffer<f32[4,160]>) -> () {grid = []} {
  %rows = kernel.load %r {at = [t0], shape = [4, 1]} : f32[4,1]
  %start = kernel.index {value = 0} : index
  %stop = kernel.index {value = ROUNDS} : indexFIRST
  %all = kernel.index {value = 20} : indexSECOND
  yield
}

func @main(%r: buffer<f32[4]>, %x: buffer<f32[4,160]>, %y: buffer<f32[4,160]>) -> () {inputs = 2} {
  program.launch %r, %x, %y {kernel = "twice", outputs = 1, sources = [["text:1"]], work = 1280}
  yield
}
"""


def _loop(number: int, **changes: str) -> str:
    text = _LOOP
    for old, new in changes.items():
        text = text.replace(old, new)
    for name in ("index", "first", "second"):
        text = text.replace(f"%{name}", f"%{name}_{number}")
    return text


@pytest.mark.parametrize("rounds", [0, 20])
def test_two_loops_that_may_not_run_share_rows(rounds: int) -> None:
    first = _loop(1, FROM="x", OP="sub")
    second = _loop(2, FROM="x" if not rounds else "y", OP="mul", stop="all")
    text = _TEXT.replace("ROUNDS", str(rounds))
    text = text.replace("FIRST", first).replace("SECOND", second)
    rng = np.random.default_rng(3)
    r, x = rng.random(4, np.float32), rng.random((4, 160), np.float32)
    executable = compile_module(
        parse_module(text), Options(threads=1), {}, start="hoist"
    ).executable
    (y,) = executable.run([r, x])
    rows = r[:, None]
    np.testing.assert_array_equal(y, (x - rows) * rows if rounds else x * rows)
