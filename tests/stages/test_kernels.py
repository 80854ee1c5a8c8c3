"""Small versions of the four kernels of `benchmarks/proofs`, through text to machine code."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from benchmarks.proofs.data import (
    Case,
    attention_case,
    convolution_case,
    softmax_case,
    winograd_case,
)
from benchmarks.proofs.direct import Convolution, convolution
from benchmarks.proofs.fused_winograd import Winograd, winograd
from benchmarks.proofs.measure import Code, error, interpret
from benchmarks.proofs.rowwise import Attention, attention, softmax
from benchmarks.proofs.winograd import derive

from minicc.ir.core import Function, Module, same_module
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module
from minicc.ir.verify import verify
from minicc.target import TARGETS, Target

HERE_TARGETS = {name: t for name, t in TARGETS.items() if t.runs_here()}


class Small(NamedTuple):
    """A kernel as it comes out of its text, its arrays, and the error that its sums may have."""

    kernel: Function
    case: Case


def small_of(kernel: Any, case: Case, **constants: Any) -> Small:
    """Trace, print, parse and verify."""
    module = Module("kernel", [kernel.lowered(*case.arrays[:-1], **constants)])
    parsed = parse_module(print_module(module))
    assert same_module(parsed, module)
    verify(parsed)
    return Small(parsed.functions[0], case)


def small_convolution() -> Small:
    # 10 columns in blocks of 4: the last block overlaps
    c = Convolution(5, 10, 32, 32, stride=2, rows=4, columns=16, cut=16, residual=True)
    return small_of(convolution, convolution_case(c), c=c)


def small_winograd() -> Small:
    # two rows of three tiles an instance; the last rows are made twice
    w = Winograd(12, 12, 32, 32, tile_rows=2, channels=16, rows=4, columns=16, cut=16)
    return small_of(winograd, winograd_case(w), w=w)


def overlapping_winograd() -> Small:
    # 4 divides neither extent: the last tiles overlap their neighbours, in order
    w = Winograd(7, 10, 16, 32, tile_rows=2, channels=32, rows=4, columns=32, cut=16)
    return small_of(winograd, winograd_case(w), w=w)


def small_softmax() -> Small:
    return small_of(softmax, softmax_case(9, 96), width=32)


def small_attention() -> Small:
    a = Attention(32, 32, rows=4, columns=16)
    return small_of(attention, attention_case(a), rows=4)


SMALL = {
    "convolution": small_convolution,
    "winograd": small_winograd,
    "overlapping winograd": overlapping_winograd,
    "softmax": small_softmax,
    "attention": small_attention,
}


@pytest.fixture(scope="module", params=SMALL)
def small(request: pytest.FixtureRequest) -> Small:
    """One of the kernels, interpreted."""
    made = SMALL[request.param]()
    made.case.output[...] = np.nan
    interpret(made.kernel, made.case.arrays)
    return made


def test_interpretation_agrees_with_numpy(small: Small) -> None:
    assert error(small.case.output, small.case.truth) < 2e-6


@pytest.mark.parametrize("target", HERE_TARGETS.values(), ids=HERE_TARGETS)
def test_machine_code_agrees_with_interpretation(small: Small, target: Target) -> None:
    arrays = [*small.case.arrays[:-1], np.full_like(small.case.output, np.nan)]
    Code(small.kernel, target).bind(arrays)()
    assert error(arrays[-1], small.case.output.astype(np.float64)) < 1e-6


@pytest.mark.parametrize("name", ["convolution", "winograd"])
def test_fused_sums_agree_to_the_bit(name: str) -> None:
    if "avx2" not in HERE_TARGETS:
        pytest.skip("no fused multiply-add here")
    small = SMALL[name]()
    interpret(small.kernel, small.case.arrays)
    arrays = [*small.case.arrays[:-1], np.full_like(small.case.output, np.nan)]
    Code(small.kernel, HERE_TARGETS["avx2"]).bind(arrays)()
    assert arrays[-1].tobytes() == small.case.output.tobytes()


def test_two_halves_of_the_grid_make_the_whole() -> None:
    small = small_winograd()
    code = Code(small.kernel, Target.host())
    for part in (1, 0):
        code.bind(small.case.arrays, part, 2)()
    assert error(small.case.output, small.case.truth) < 2e-6


def test_winograd_matrices_compute_a_filter() -> None:
    output, taps, inputs = (np.array(m, dtype=float) for m in derive())
    random = np.random.default_rng(0)
    d, g = random.standard_normal(6), random.standard_normal(3)
    np.testing.assert_allclose(output @ ((taps @ g) * (inputs @ d)), np.correlate(d, g))
