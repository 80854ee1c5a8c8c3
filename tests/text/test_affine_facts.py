"""What is told of expressions is true for every size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from minicc.ir.affine import (
    Dim,
    ceildiv,
    evaluate,
    floordiv,
    fold,
    maximum,
    minimum,
    mod,
    size,
    substitute,
    symbol,
    typical,
    whole,
)
from minicc.ir.affine_facts import (
    at_least,
    at_least_within,
    at_most,
    bounds,
    exact_quotient,
    greater,
    place,
    smaller,
)
from minicc.ir.reals import Real
from minicc.ir.text.extents import spell_guard

N, M = symbol("n"), symbol("m")
ATOMS: list[Dim] = [
    N,
    M,
    N * M,
    minimum(N, -1),
    minimum(N, M),
    minimum(N - 3, 4),
    maximum(N, 2),
    floordiv(N - 5, 2),
    floordiv(minimum(N, 7), 3),
    mod(N - 1, 4),
    minimum(N, -1) * M,
    floordiv(N + 2, M),
    floordiv(N - 5, 3 * M),
    mod(N, M),
    whole(Real("mul", Real("f32", N), 0.7)),
    whole(Real("div", Real("f64", N), Real("f64", M))),
    whole(Real("sub", Real("f32", M), Real("mul", Real("f32", N), 1.5))),
    whole(Real("max", Real("neg", Real("f32", M)), Real("sqrt", Real("f32", N)))),
]


def drawn(rng: np.random.Generator) -> Dim:
    """A sum of a few terms."""
    total: Dim = int(rng.integers(-3, 4))
    for k in rng.integers(0, len(ATOMS), rng.integers(1, 4)):
        total = total + int(rng.integers(-2, 3)) * ATOMS[k]
    return total


def test_what_is_at_least_another_always_is() -> None:
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(1000):
        a, b = drawn(rng), drawn(rng)
        if at_least(a, b):
            told += 1
            for n, m in itertools.product((0, 1, 2, 3, 5, 8), (0, 1, 4, 7)):
                sizes = {"n": n, "m": m}
                assert evaluate(a, sizes) >= evaluate(b, sizes), f"{a} and {b}"
    assert told > 20


def rounds(count: int) -> list[int]:
    """The first, the last and some other of so many rounds."""
    return [k for k in {0, 1, count // 2, count - 1} if 0 <= k < count]


def test_what_is_at_least_another_in_all_rounds_is_so_in_each() -> None:
    rng = np.random.default_rng(1)
    outer, inner = symbol("i"), symbol("j")
    told = 0
    for _ in range(1000):
        counts: dict[str, Dim] = {"i": maximum(drawn(rng), 0)}
        counts["j"] = maximum(drawn(rng) + int(rng.integers(0, 2)) * outer, 0)
        a = drawn(rng) + counts["i"] + int(rng.integers(-2, 3)) * outer
        b = drawn(rng) + int(rng.integers(-2, 3)) * inner
        if not at_least_within(a, b, counts):
            continue
        told += 1
        for n, m in itertools.product((0, 1, 2, 5, 8), (0, 1, 4)):
            for i in rounds(evaluate(counts["i"], {"n": n, "m": m})):
                for j in rounds(evaluate(counts["j"], {"n": n, "m": m, "i": i})):
                    sizes = {"n": n, "m": m, "i": i, "j": j}
                    assert evaluate(a, sizes) >= evaluate(b, sizes), f"{a} and {b} in {counts}"
    assert told > 50


@pytest.mark.parametrize(
    ("left", "right", "count"),
    [
        (N, 6 * symbol("i") + 6, floordiv(N, 6)),
        (N, 4 * symbol("i") + 8, maximum(floordiv(N - 8, 4) + 1, 0)),
        (minimum(symbol("i") + 3, N), symbol("i") + 1, N),
        (M * N, M * symbol("i") + M, N),
    ],
    ids=str,
)
def test_parts_lie_within_in_all_rounds(left: Dim, right: Dim, count: Dim) -> None:
    assert at_least_within(left, right, {"i": count})
    assert not at_least_within(left, right + 1, {"i": count})


def test_bounds_of_parts_are_used() -> None:
    assert at_least(floordiv(N - 1, 2) + 1, 0)
    assert at_least(5, minimum(N, 4))
    assert at_least(3, mod(N, 4))
    assert not at_least(minimum(N, -1), 0)
    assert not at_least(floordiv(N - 5, 2), 0)


def test_quotients_by_one_number_are_compared() -> None:
    halved = floordiv(floordiv(floordiv(N + 1, 2) + 1, 2) + 1, 2)
    assert str(halved) == "(n + 7) floordiv 8"
    assert at_least(halved, floordiv(N, 8))
    assert not at_least(floordiv(N, 8), halved)
    assert at_least(M + floordiv(N, 8) - floordiv(N - 3, 8), M)
    assert greater(halved, floordiv(N, 8)) == halved
    assert smaller(N, 2 * N) == N
    assert smaller(N, M) == minimum(N, M)
    for n in range(40):
        for c, m, k in itertools.product((-7, 0, 5), (2, 3), (2, 5)):
            nested = floordiv(2 * floordiv(N - 4, m) + c, k) + floordiv(floordiv(N, m) + c, k)
            assert evaluate(nested, {"n": n}) == (2 * ((n - 4) // m) + c) // k + (n // m + c) // k


def test_many_quotients_are_not_compared_each_with_each_again_and_again() -> None:
    """An answer in time: of ten pairs by one number there are a million ways to take four."""
    total: Dim = 0
    for k in range(12):
        total = total + floordiv(k * N + M, 7) - floordiv(k * M + N, 7)
    assert not at_least(total, 1)


def test_what_a_sum_times_another_is_divided_by_is_found() -> None:
    sides, quarter = (2 * N - 1) * (2 * M - 1), floordiv(N, 4)
    cases: list[tuple[Dim, Dim, Dim | None]] = [
        (4 * sides, sides, 4),
        (sides * sides, sides, sides),
        ((N + 1) * (N - 1), N + 1, N - 1),
        (3 * (quarter + 1) * (quarter + 2), quarter + 2, 3 * quarter + 3),
        (2 * N + 6, N + 3, 2),
        (sides * N + 1, sides, None),
        (sides * N, N + 2, None),
        (N, N + 3, None),
        (3 * N + 3, 2 * N + 2, None),
    ]
    for left, right, wanted in cases:
        assert exact_quotient(left, right) == wanted, (left, right)


def test_a_division_by_a_size() -> None:
    rows = floordiv(N, 8 * M)
    assert str(rows) == "n floordiv (8*m)"
    assert evaluate(rows, {"n": 100, "m": 4}) == substitute(rows, {"n": 100, "m": 4}) == 3
    # where there is no row, nothing is divided
    assert evaluate(mod(N, M), {"n": 5, "m": 0}) == substitute(mod(N, M), {"m": 0}) == 0
    assert at_least(rows, 0)
    assert at_least(mod(N, M), 0)
    assert bounds(rows, {"n": 100, "m": 3}) == (0, 99)
    assert bounds(mod(N, M), {"n": 100, "m": 3}) == (0, 1)
    # rows that lie one after the other: the quotient of an address and its remainder cancel
    assert place((floordiv(N, M), mod(N, M), 0), (M * 16, 16, 1)) == 16 * N


def test_an_extent_in_no_round_is_not_negative() -> None:
    """Buffers of a loop are placed by it: one of fewer bytes than none would lie over others."""
    count, rows, k = (symbol(name) for name in ("$count", "$rows", "$k"))
    extent = 256 * k + 256 + minimum(rows - 256 * k - 256, 0)
    most = at_most(extent, {"$k": count})
    assert evaluate(most, {"$count": 0, "$rows": 1}) == 0
    assert evaluate(most, {"$count": 3, "$rows": 600}) >= 600
    assert at_most(8 * k + 8, {"$k": count}) == 8 * count


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (symbol("a"), symbol("b"), "a = b"),
        (minimum(symbol("a") - 1, 0), 0, "a >= 1"),
        (minimum(symbol("a") - 2 * symbol("b"), 0), 0, "a - 2*b >= 0"),
        (minimum(symbol("a") + 3, 0), 0, "a + 3 >= 0"),
        (minimum(symbol("a"), 4), 4, "min(a, 4) = 4"),
        (4 * symbol("a"), 0, "4*a = 0"),
    ],
)
def test_guards_are_told_as_people_write_them(left: Dim, right: Dim, said: str) -> None:
    assert spell_guard(left, right) == said


def test_a_difference_of_sizes_is_typically_not_nothing() -> None:
    a, b = size("a"), size("b")
    sizes = (a, a - 2, a - b, a - b + 1, a + b - 200)
    assert [typical(n) for n in sizes] == [128, 126, 128, 128, 56]
    assert [typical(n) for n in (a - 200, a + b - 5001)] == [128, 128]
    assert typical(floordiv(a, 200)) == 1
    assert typical(ceildiv(a, 2)) == 64


def test_what_occurs_several_times_is_rebuilt_once() -> None:
    asked: list[str] = []

    def leaf(name: str) -> int:
        asked.append(name)
        return 7

    part = minimum(N + 3, 9)
    total = minimum(part * 2, floordiv(part + 1, 5)) + mod(part, 4)
    args = (int.__add__, int.__mul__, int.__floordiv__, int.__mod__, min, str)
    assert fold(total, leaf, *args) == evaluate(total, {"n": 7})
    assert asked == ["n"]
