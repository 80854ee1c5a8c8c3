"""Calls of NumPy's functions that write to an array: `out` by its place, `at`, and in place."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.generate.functions.oracle import differences

import minicc

Array = np.ndarray[Any, Any]
Change = Callable[..., Any]

# each takes an array that it writes to, three different places, and an array of four floats
AT: dict[str, tuple[str, Change]] = {
    "bitwise_or": ("i8", lambda a, i, x: np.bitwise_or.at(a, i, 3)),
    "bitwise_and": ("u1", lambda a, i, x: np.bitwise_and.at(a, i, 3)),
    "bitwise_xor": ("i8", lambda a, i, x: np.bitwise_xor.at(a, i, i)),
    "left_shift": ("i4", lambda a, i, x: np.left_shift.at(a, i, 1)),
    "floor_divide": ("i8", lambda a, i, x: np.floor_divide.at(a, i, 2)),
    "remainder": ("f4", lambda a, i, x: np.remainder.at(a, i, 2)),
    "fmax": ("f8", lambda a, i, x: np.fmax.at(a, i, x[i])),
    "logical_or": ("?", lambda a, i, x: np.logical_or.at(a, i, True)),
    "invert": ("i8", lambda a, i, x: np.invert.at(a, i)),
    "sqrt": ("f8", lambda a, i, x: np.sqrt.at(a, i)),
    "square": ("c16", lambda a, i, x: np.square.at(a, i)),
    "setitem": ("f8", lambda a, i, x: operator.setitem(a, 1, x[0])),
}
OUT: dict[str, tuple[str, Change]] = {
    "clip": ("f8", lambda a, i, x: np.clip(x, 0, 1, a)),
    "the method clip": ("f8", lambda a, i, x: x.clip(0, 1, a)),
    "sum": ("f8", lambda a, i, x: np.sum(np.outer(x, x), 0, None, a)),
    "sum with more after it": ("f8", lambda a, i, x: np.sum(x[None], 0, None, a, False)),
    "the method max": ("f8", lambda a, i, x: np.outer(x, x).max(0, a)),
    "argmin": ("i8", lambda a, i, x: np.argmin(np.outer(x, x), 0, a)),
    "cumsum": ("f8", lambda a, i, x: np.cumsum(x, None, None, a)),
    "the method std": ("f8", lambda a, i, x: np.outer(x, x).std(0, None, a, 1)),
    "dot": ("f8", lambda a, i, x: np.dot(np.outer(x, x), x, a)),
    "take": ("f8", lambda a, i, x: x.take([3, 2, 1, 0], 0, a)),
    "round": ("f8", lambda a, i, x: np.round(x, 1, a)),
    "all": ("?", lambda a, i, x: np.all(np.outer(x, x) > 0, 0, a)),
    "add.reduce": ("f8", lambda a, i, x: np.add.reduce(np.outer(x, x), 0, None, a)),
    "add.accumulate": ("f8", lambda a, i, x: np.add.accumulate(x, 0, None, a)),
    "add.reduceat": ("f8", lambda a, i, x: np.add.reduceat(x, [0, 1, 2, 3], 0, None, a)),
    "concatenate": ("f8", lambda a, i, x: np.concatenate([x[2:], x[:2]], 0, a)),
    "choose": ("f8", lambda a, i, x: np.choose(x > 0, [x, x + 1], a)),
    "median": ("f8", lambda a, i, x: np.median(np.outer(x, x), 0, a)),
    "nansum": ("f8", lambda a, i, x: np.nansum(np.outer(x, x), 0, None, a)),
    "isposinf": ("?", lambda a, i, x: np.isposinf(x, a)),
    "fft": ("c16", lambda a, i, x: np.fft.fft(x, None, -1, None, a)),
    "None": ("f8", lambda a, i, x: np.sum(x[x > 0], None, None, None)),
    "multi_dot": ("f8", lambda a, i, x: np.linalg.multi_dot([x[None], x[:, None]], out=a[:1])),
}
OUT |= {
    "argmax of another type": ("f8", lambda a, i, x: np.argmax(np.outer(x, x), 0, a)),
    "take of another type": ("c16", lambda a, i, x: np.take(x, [3, 2, 1, 0], out=a)),
    "compress of another type": ("c8", lambda a, i, x: np.compress([True] * 4, x, out=a)),
    "einsum of another type": (
        "f4",
        lambda a, i, x: np.einsum("ij,j->i", x[:, None] * x, x, out=a),
    ),
    "sum of another type": ("f4", lambda a, i, x: np.sum(np.outer(x, x), 0, out=a)),
}
IN_PLACE: dict[str, tuple[str, Change]] = {
    "median": ("f8", lambda a, i, x: np.median(a, overwrite_input=True)),
    "percentile": ("f8", lambda a, i, x: np.percentile(a, 30, overwrite_input=True)),
    "byteswap": ("i8", lambda a, i, x: a.byteswap(True)[0]),
    "setfield": ("i8", lambda a, i, x: a.setfield(i[0], np.int8)),
    "resize": ("f8", lambda a, i, x: a.resize((2, 2), refcheck=False)),
    "setflags": ("f8", lambda a, i, x: a.setflags(write=False)),
}
CHANGES = {f"{kind} {n}": c for kind, cases in (("at", AT), ("out", OUT), ("in place", IN_PLACE))
           for n, c in cases.items()}  # fmt: skip


def given(seed: int, dtype: str) -> list[Array]:
    """Arguments that differ from call to call."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 2 if dtype == "?" else 100, 4).astype(dtype)
    return [rng.permutation(4)[:3], rng.normal(size=4), numbers]


@pytest.mark.parametrize("made", ["known", "computed"])
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.filterwarnings("ignore")
def test_what_is_written(name: str, made: str) -> None:
    """An array that is known while tracing is written to as one that is not."""
    dtype, change = CHANGES[name]

    def f(i: Array, x: Array, b: Array) -> Any:
        b = np.array([0, 1, 1, 0]).astype(dtype) if made == "known" else b.copy()
        result = change(b, i, x)
        return {"result": result, "array": b, "more": b[:1] == 1, "may": b.flags.writeable}

    jitted = minicc.jit(f, threads=1)
    for seed in range(2):
        outcomes: list[tuple[Any, dict[str, Array]]] = []
        for g in (jitted, f):
            args = given(seed, dtype)
            try:
                result = g(*args)
            except Exception as error:
                result = error
            outcomes.append((result, dict(zip("ixb", args, strict=True))))
        assert differences(outcomes[0], outcomes[1], lambda n: 1e-12) == []


def test_products_are_not_spread_over_an_out() -> None:
    def f(a: Any, b: Any, out: Any) -> Any:
        return np.matmul(a, b, out=out)

    for a, b, shape in (((1, 5), (5, 1), (1, 5)), ((2, 3, 3), (3, 3), (3, 3))):
        with pytest.raises(ValueError, match=r"mismatch|reduction"):
            minicc.jit(f)(np.ones(a), np.ones(b), np.ones(shape))
    out = np.zeros((2, 3))
    minicc.jit(f)(np.ones((3, 3)), np.ones(3), out)  # a row for each of a batch
    np.testing.assert_array_equal(out, np.full((2, 3), 3.0))
