"""Axes that fill no whole number of registers: what is left over is a vector of its own width."""

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.sweeps import part

import minicc
from minicc.backends.llvm.compile import emit
from minicc.backends.llvm.stepped import starts
from minicc.backends.llvm.tiles import powers_of_two, split_axis
from minicc.target import TARGETS

RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
WIDTHS = part([3, 1, 5, 2, 7, 9, 11, 6, 13, 15, 17, 21, 31], 6)


def test_an_axis_in_chunks() -> None:
    assert split_axis(43, 16) == ((0, 16), (16, 16), (32, 11))
    assert split_axis(3, 8) == ((0, 3),)
    assert powers_of_two(43, 16) == ((0, 16), (16, 16), (32, 8), (40, 2), (42, 1))


def rows(x: Any) -> Any:
    return x.sum(-1), x.max(-1), x.min(-1), (x > 1).any(-1), x.mean(0), x.argmax(-1)


def turned(x: Any) -> Any:
    return x.T + x.T * x.dtype.type(2), np.exp(x.T.astype(np.float32)), x[:, ::-1].copy()


def chosen(x: Any) -> Any:
    return np.where(x > 1, x, x.dtype.type(3)), (x > 1) & (x < 3), x.astype(np.float64)


def stepped(x: Any) -> Any:
    parts = [x[:, ::step].copy() for step in (2, 3, 4, 5, -1, -2, -3, -4, -5)]
    return *parts, x[:, 1::2] + x[:, : x.shape[1] // 2 * 2 : 2]


def woven(x: Any) -> Any:
    more = [x, x + x, x * x, x - x.dtype.type(1), x | x if x.dtype.kind in "iu" else abs(x)]
    return *(np.stack(more[:n], -1) for n in (2, 3, 4, 5)), np.stack([x > 1, x > 2], -1)


def test_vectors_of_stepped_elements_end_with_the_last_of_these() -> None:
    """What comes after the last element may be no memory of ours."""
    for width, step in product(range(4, 17), range(1, 5)):
        read = {start + k for start in starts(width, step) for k in range(width)}
        assert read == set(range((width - 1) * step + 1))


@pytest.mark.parametrize(
    ("function", "dtype", "target"),
    part(
        product([rows, turned, chosen, stepped], ["f4", "f8", "f2", "i4", "i8", "u1"], RUNNABLE), 3
    ),
)
def test_every_width(function: Any, dtype: str, target: str) -> None:
    for n in WIDTHS:
        x = np.random.default_rng(n).integers(0, 5, (11, n)).astype(dtype)
        for got, want in zip(minicc.jit(function, target=target)(x), function(x), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=2e-3 if dtype == "f2" else 1e-6)


@pytest.mark.parametrize("rows", [*range(1, 20), 33])
def test_columns_of_any_length(rows: int) -> None:
    x = np.arange(float(rows))
    for columns in (2, 3, 4):
        got = minicc.jit(lambda x, n=columns: np.stack([x + k for k in range(n)], -1))(x)
        np.testing.assert_array_equal(got, x[:, None] + np.arange(columns))


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_columns_are_written_side_by_side(columns: int) -> None:
    """As whole vectors, none of whose elements is taken out."""
    x = np.ones((64, 160), np.float32)
    f = minicc.jit(lambda x: np.stack([x + k for k in range(columns)], -1), target="avx512")
    lowered = f.lower(x)
    text = "".join(emit(lowered.at("program"), TARGETS["avx512"], "nothing").values())
    assert "store <16 x float>" in text
    assert "extractelement" not in text
    assert "store float" not in text


@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_places_are_counted_in_as_many_bits_as_numbers_have(dtype: str) -> None:
    """Counted in 64 bits, they would halve the vectors of all that is beside them."""
    x = np.ones((8, 200), dtype)
    lowered = minicc.jit(lambda x: np.argmax(x, -1), target="avx512").lower(x)
    texts = emit(lowered.at("program"), TARGETS["avx512"], "nothing")
    (kernel,) = (text for name, text in texts.items() if name != "main")
    assert "<16 x i32>" in kernel
    assert "x i64>" not in kernel


@pytest.mark.parametrize("columns", [3, 5, 7, 11, 13, 14, 21])
def test_products_of_few_columns(columns: int) -> None:
    """As many multiply-adds as registers, and not one for each power of two in what is left."""
    a, b = np.ones((64, 16), np.float32), np.ones((16, columns), np.float32)
    lowered = minicc.jit(lambda a, b: a @ b, target="avx2").lower(a, b)
    texts = emit(lowered.at("program"), TARGETS["avx2"], "nothing")
    used = {
        int(n) for text in texts.values() for n in re.findall(r"<(\d+) x float> @llvm.fma", text)
    }
    assert used == ({columns % 8, 8} if columns > 8 else {columns})
