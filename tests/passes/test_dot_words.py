"""Products of small integers in words: the same bits, on every target, wherever a form fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import minicc
from minicc.compiler import lower
from minicc.ir import graph
from minicc.ir.core import Module, walk
from minicc.ir.interpret import run
from minicc.ir.kernel import Dot
from minicc.options import Options
from minicc.target import MACHINES

Array = npt.NDArray[Any]


def numbers(dtype: Any, *shape: int) -> Array:
    """Numbers of a type, the least and the largest among them, in every part of a row."""
    limits = np.iinfo(dtype)
    drawn = np.random.default_rng(len(shape)).integers(limits.min, limits.max + 1, shape)
    flat = drawn.reshape(-1)
    flat[::3], flat[1::5] = limits.max, limits.min
    return drawn.astype(dtype)


def product(a: Any, b: Any) -> Any:
    return a.astype(np.int32) @ b.astype(np.int32)


def lowered(f: Callable[..., Any], args: tuple[Array, ...], target: str, stop: str) -> Module:
    return lower(minicc.jit(f).lower(*args).module, Options(target=target), stop=stop)


def forms(module: Module) -> set[str]:
    return {o.form for o in module.main.body.ops if isinstance(o, graph.Contract | graph.Conv)}


CASES = [
    (np.uint8, np.int8, "i16", "u8.i8"),
    (np.int8, np.uint8, "i16", "u8.i8"),
    (np.int8, np.int8, "i16", "i16"),
    (np.int16, np.int16, "i16", "i16"),
    (np.uint16, np.int8, "", ""),
    (np.int32, np.int8, "", ""),
]


@pytest.mark.parametrize("target", ["x86-64", "avx2", "avx512", "alder-lake", "sapphire-rapids"])
@pytest.mark.parametrize(("left", "right", "pairs", "best"), CASES)
def test_the_form_that_fits_is_taken(
    left: Any, right: Any, pairs: str, best: str, target: str
) -> None:
    args = numbers(left, 33, 64), numbers(right, 64, 40)
    wanted = best if "u8.i8" in MACHINES[target].dots else pairs
    assert forms(lowered(product, args, target, "choose-algorithm")) == {wanted}
    expected = product(*args)
    for stop in ("choose-algorithm", "tile", "hoist"):
        module = lowered(product, args, target, stop)
        (got,) = run(module, args)
        np.testing.assert_array_equal(got, expected, stop)
    dots = [o for f in module.functions for o in walk(f.body) if isinstance(o, Dot)]
    assert {dot.form for dot in dots} == {wanted}
    if MACHINES[target].runs_here():
        np.testing.assert_array_equal(minicc.jit(product, target=target)(*args), expected)


@pytest.mark.parametrize("depth", [62, 63, 2, 1])
def test_what_does_not_divide_is_multiplied_one_by_one(depth: int) -> None:
    args = numbers(np.uint8, 40, depth), numbers(np.int8, depth, 40)
    module = lowered(product, args, "zen4", "choose-algorithm")
    assert forms(module) == {"i16" if depth % 2 == 0 else ""}
    np.testing.assert_array_equal(run(module, args)[0], product(*args))
    np.testing.assert_array_equal(minicc.jit(product)(*args), product(*args))


def test_few_products_are_not_worth_words() -> None:
    args = numbers(np.uint8, 40, 64), numbers(np.int8, 64, 2)
    assert forms(lowered(product, args, "avx2", "choose-algorithm")) == {""}


def test_zero_points_are_part_of_the_numbers() -> None:
    def less(a: Any, b: Any) -> Any:
        return (a.astype(np.int32) - 3) @ (b.astype(np.int32) - np.arange(40, dtype=np.int32))

    args = numbers(np.uint8, 33, 64), numbers(np.uint8, 64, 40)
    assert forms(lowered(less, args, "zen4", "choose-algorithm")) == {"i16"}
    np.testing.assert_array_equal(minicc.jit(less)(*args), less(*args))


def test_a_range_that_conversions_hide_is_not_believed() -> None:
    def doubled(a: Any, b: Any) -> Any:
        wide = a.astype(np.int32) + a.astype(np.int32)
        return wide.astype(np.int8).astype(np.int32) @ (b.astype(np.int32) + 2**15)

    args = numbers(np.uint8, 33, 64), numbers(np.int8, 64, 40)
    assert forms(lowered(doubled, args, "zen4", "choose-algorithm")) == {""}
    np.testing.assert_array_equal(minicc.jit(doubled)(*args), doubled(*args))


def test_several_sums_and_batches() -> None:
    def contracted(a: Any, b: Any) -> Any:
        return np.einsum("bhik,bkhj->bij", a.astype(np.int32), b.astype(np.int32))

    args = numbers(np.int8, 2, 3, 20, 32), numbers(np.int8, 2, 32, 3, 40)
    found = forms(lowered(contracted, args, "avx2", "choose-algorithm"))
    assert found <= {"", "i16"}
    np.testing.assert_array_equal(minicc.jit(contracted)(*args), contracted(*args))
