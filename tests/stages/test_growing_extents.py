"""Loops whose rounds decide places and extents: triangular loops, changed in place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from minicc.compile.compiler import lower
from minicc.errors import CompilerBug, UserError
from minicc.ir.core import Module, same_module
from minicc.ir.interpret import run
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module
from minicc.ir.verify import verify
from minicc.options import Options
from tests.stages.programs import Array, every_stage, machine_code, same_bits

OPTIONS = Options()

# A[i, j] = (A[i, j] - A[i, :j] @ A[j, :j]) / A[j, j] for j < i; A[i, i] = sqrt(A[i, i] - ...)
CHOLESKY = """
module level = "graph"

func @main(%a: f64[N,N]) -> ("l": f64[N,N]) {
  %l = graph.scan %a {count = N, states = 1, backwards = [], turned = [], index = "$i"} {
  ^(%x: f64[N,N]):
    %y = graph.scan %x {count = $i, states = 1, backwards = [], turned = [], index = "$j"} {
    ^(%s: f64[N,N]):
      %left = graph.slice %s {starts = [$i, 0], stops = [$i + 1, $j], steps = [1, 1]} : f64[1,$j]
      %right = graph.slice %s {starts = [$j, 0], stops = [$j + 1, $j], steps = [1, 1]} : f64[1,$j]
      %dot = graph.contract %left, %right {equation = "ik,jk->ij"} : f64[1,1]
      %old = graph.slice %s {starts = [$i, $j], stops = [$i + 1, $j + 1], steps = [1, 1]} : f64[1,1]
      %less = graph.sub %old, %dot : f64[1,1]
      %by = graph.slice %s {starts = [$j, $j], stops = [$j + 1, $j + 1], steps = [1, 1]} : f64[1,1]
      %new = graph.div %less, %by : f64[1,1]
      %t = graph.insert_slice %s, %new {starts = [$i, $j], steps = [1, 1]} : f64[N,N]
      yield %t
    } : f64[N,N]
    %row = graph.slice %y {starts = [$i, 0], stops = [$i + 1, $i], steps = [1, 1]} : f64[1,$i]
    %dot = graph.contract %row, %row {equation = "ik,jk->ij"} : f64[1,1]
    %old = graph.slice %y {starts = [$i, $i], stops = [$i + 1, $i + 1], steps = [1, 1]} : f64[1,1]
    %less = graph.sub %old, %dot : f64[1,1]
    %new = graph.sqrt %less : f64[1,1]
    %z = graph.insert_slice %y, %new {starts = [$i, $i], steps = [1, 1]} : f64[N,N]
    yield %z
  } : f64[N,N]
  yield %l
}
"""


def parsed(text: str, n: int) -> Module:
    """A module of a text in which N stands for a number."""
    module = parse_module(text.replace("N", str(n)))
    verify(module)
    return module


def checked(module: Module, inputs: list[Array]) -> Iterator[tuple[str, list[Array]]]:
    """The results of the interpreter after each stage, where that is not too slow, and of code."""
    last = module
    if inputs[0].shape[0] < 10:
        *stages, (_, last) = every_stage(module, inputs, OPTIONS)
        yield from stages
    else:
        last = lower(module, OPTIONS)
    for threads in (1, 2):
        yield f"{threads} threads", machine_code(last, OPTIONS.machine.name, inputs, threads)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_cholesky(n: int) -> None:
    """The factor of a matrix, its lower part written in place, at each stage."""
    module = parsed(CHOLESKY, n)
    rng = np.random.default_rng(n)
    a = rng.standard_normal((n, n))
    a = a @ a.T + n * np.eye(n)
    want = np.tril(np.linalg.cholesky(a)) + np.triu(a, 1)
    before = a.copy()
    for name, results in checked(module, [a]):
        np.testing.assert_allclose(results[0], want, rtol=1e-11, err_msg=name)
    assert same_bits(a, before)


def test_text_and_scope() -> None:
    """The text is read as it is printed; a round's number means nothing outside of its loop."""
    module = parsed(CHOLESKY, 5)
    assert same_module(parse_module(print_module(module)), module)
    outside = "  %z = graph.sizes {values = [$i], shape = [], dtype = !i64} : i64\n  yield %l"
    text = CHOLESKY.replace("N", "5").replace("  yield %l\n}", f"{outside}\n}}")
    with pytest.raises(CompilerBug, match=r"graph.sizes uses \$i outside of its loop"):
        verify(parse_module(text))


INSERTED = """
module level = "graph"

func @main(%x: f32[6,5], %v: f32[2,3]) -> ("y": f32[6,5], "sum": f32[6,5]) {
  %new = graph.exp %v : f32[2,3]
  %a = graph.exp %x : f32[6,5]
  %y = graph.insert_slice %a, %new {starts = [1, 0], steps = [3, 2]} : f32[6,5]
  %b = graph.exp %x : f32[6,5]
  %top = graph.slice %b {starts = [0, 0], stops = [2, 3], steps = [1, 1]} : f32[2,3]
  %low = graph.add %top, %v : f32[2,3]
  %z = graph.insert_slice %b, %low {starts = [1, 1], steps = [1, 1]} : f32[6,5]
  %sum = graph.add %z, %b : f32[6,5]
  yield %y, %sum
}
"""


def test_inserted_slices() -> None:
    """Parts with steps, and a tensor that is read after a part of it was changed."""
    rng = np.random.default_rng(0)
    x, v = rng.random((6, 5), np.float32), rng.random((2, 3), np.float32)
    y, z = np.exp(x), np.exp(x)
    y[1::3, ::2] = np.exp(v)
    z[1:3, 1:4] = z[:2, :3] + v
    for name, results in checked(parsed(INSERTED, 0), [x, v]):
        np.testing.assert_allclose(results[0], y, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(results[1], z + np.exp(x), rtol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("starts", "steps"), [("[5, 0]", "[1, 1]"), ("[0, 0]", "[6, 1]"), ("[0, -1]", "[1, 1]")]
)
def test_what_does_not_fit_is_refused(starts: str, steps: str) -> None:
    """A part that leaves the tensor."""
    text = INSERTED.replace("[1, 0], steps = [3, 2]", f"{starts}, steps = {steps}")
    with pytest.raises((CompilerBug, UserError, ValueError), match="does not lie within"):
        parse_module(text)


SHORTER = """module level = "graph"

func @main(%x: f32[$n]) -> ("y": f32[]) {
  %zero = graph.constant {value = dense<f32, 0.0>} : f32
  %y = graph.scan %zero, %x {count = ($n + 3) floordiv 4, states = 1, backwards = [], turned = [], index = "$i0"} {
  ^(%total: f32, %all: f32[$n]):
    %part = graph.slice %all {starts = [4*$i0], stops = [4*$i0 + min(4, $n - 4*$i0)], steps = [1]} : f32[min(4, $n - 4*$i0)]
    %sum = graph.reduce %part {axes = [0], combine = "add", keepdims = false} : f32
    %new = graph.add %total, %sum : f32
    yield %new
  } : f32
  yield %y
}
"""  # noqa: E501


def test_a_last_round_may_be_shorter_than_a_free_size_tells() -> None:
    """What depends on the round is not computed once for a run, with the sizes that are."""
    program = lower(parse_module(SHORTER), Options())
    for n in (1, 3, 4, 5, 11):
        x = np.arange(n, dtype=np.float32)
        for got in (run(program, [x]), machine_code(program, Options().machine.name, [x], 1)):
            np.testing.assert_array_equal(got[0], x.sum())
