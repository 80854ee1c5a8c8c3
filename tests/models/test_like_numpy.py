"""Calls that once differed from NumPy in a type, a layout, an exception or what is one object."""

import warnings
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pytest
from tests.generate.functions.oracle import differences

import minicc
from minicc.frontends.trace.pytree import copied

Array = np.ndarray[Any, Any]
R = np.arange(6.0).reshape(2, 3)
Q = np.arange(9.0).reshape(3, 3)


def _flat(x: Any) -> Any:
    y = x + 1
    z = np.squeeze(y)
    return y, z, [y]


def _out(x: Any) -> Any:
    np.exp(max(x[0, 0], 1), out=x)
    np.floor_divide(x[0], 2, out=x)
    return x


def _real(x: Any) -> Any:
    x.real = -2.0
    return x


def _caught(x: Any) -> Any:
    try:
        return x.mT
    except ValueError as error:
        return str(error)


def _few_rounds(x: Any) -> Any:
    a, b = x[0] * 2, x[1] * 3
    for _ in range(4):
        a, b = b, a
        a += 1
    return a, b


def _reads_otherwise(x: Any) -> Any:
    line = np.sort(np.einsum("ii->i", x))
    x[-1] = line[1] * 2
    return x


def _hosted_layout(x: Any) -> Any:
    return np.left_shift((x * x).astype("u2"), 1), x[:, [0, 0]], x[[0, 0], 1:]


def _carried_layout(x: Any) -> Any:
    for _ in range(5):
        x = x * 0.5
    return x


def _places(x: Any) -> Any:
    np.put(x, [0, 99], 2)


def _held_integers(x: Any) -> Any:
    np.fill_diagonal(x, -1)


def _twice_in_place(x: Any, p: Any) -> Any:
    np.add.at(x, [0, 0], p)
    return x


def _first(x: Any) -> Any:
    x.flat[0] = 3


def _before_an_exception(x: Any, held: Any) -> Any:
    held.append(x[0] * 2)
    return x[:2] + x


def _lacking(x: Any) -> Any:
    made = []
    for name in ("mT", "dot", "partition"):
        try:
            made.append(getattr(x.sum(), name))
        except AttributeError as error:
            made.append(str(error))
    return made


def _caught_mask(x: Any) -> Any:
    try:
        return x[[True, False]], int("nobody")
    except Exception as error:
        return str(error)


def _caught_refusal(x: Any, places: Any) -> Any:
    try:
        np.maximum.at(x, places, True)
    except Exception as error:
        text = str(error)
    return text, np.take(x[0], 1, axis=-1, mode="clip")


def _lists_of_rounds(x: Any) -> Any:
    made = []
    for k in range(7):
        line = x.tolist()
        line.append(k)
        made.append(line)
    return made


def _types(x: Any) -> Any:
    values = (1.0, 1, True, x, x[0, 0], float(x[0, 1]), len(x), np.ones(1)[0], np.ones(2).sum())
    kinds = (float, int, bool, np.ndarray, np.float64)
    return [[type(v) is k for k in kinds] for v in values], type(np.int8(x[0, 0])) is np.int8


CASES: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("one object", _flat, (R,)), ("out", _out, (R,)), ("real", _real, (R.astype("u4"),)),
    ("message", _caught, (R[0],)), ("rounds", _few_rounds, (R,)),
    ("diagonal", _reads_otherwise, (Q,)), ("layout", _hosted_layout, (np.asfortranarray(R),)),
    ("average of a scalar", lambda x: np.average(x.sum(), axis=0), (R,)),
    ("mask of more axes", lambda x: np.sum(x.max(), where=x > 1), (R,)),
    ("mask of numbers", lambda x: np.add(x, x, out=x, where=x), (R,)),
    ("gradient of one", lambda x: np.gradient(x[:1, 0]), (R,)),
    ("no places", lambda x: x[[]], (R,)), ("sorted scalar", lambda x: np.argsort(x.sum()), (R,)),
    ("repeated scalar", lambda x: np.repeat(x.sum(), 2, axis=0), (R,)),
    ("scalar type", lambda x: np.float32(np.count_nonzero(x)), (R,)),
    ("frozen", lambda x: (x.imag, (x + 1).imag.view(), np.diagonal(x * 2)), (Q,)),
    ("windows", lambda x: np.lib.stride_tricks.sliding_window_view(np.zeros(len(x)), 2), (Q,)),
    ("dot into columns", lambda x: np.dot(x, x, out=x), (np.asfortranarray(Q),)),
    ("out of bounds", lambda x: x[x.astype(int)], (Q,)),
    ("layout in a loop", _carried_layout, (np.asfortranarray(R),)),
    ("put half", _places, (R,)), ("negative diagonal", _held_integers, (Q.astype("u4"),)),
    ("wide addend", _twice_in_place, (R[1].astype("u1"), np.float64(-0.5))),
    ("flat of columns", _first, (np.asfortranarray(R + 1j),)),
    ("infinite taps", lambda x: np.convolve(x, [0.5, np.inf]), (R[0],)),
    ("reciprocals", lambda x: np.reciprocal(x), (np.arange(-2, 3),)),
    ("square in place", lambda x: x.__ipow__(2), (R > 2,)),
    ("changed list", _before_an_exception, (R[0], [R])),
    ("repeated rows", lambda x: np.sin(np.broadcast_to(x, (2, 2, 3))), (R,)),
    ("line of every other", lambda x: x[:, ::2].ravel(order="F"), (R,)),
    ("negative initial", lambda x: x.min(initial=-1.5), (R.astype("u1"),)),
    ("flat copies", lambda x: (x, x.flat[:2]), (R,)),
    ("three matrices", lambda x: np.linalg.multi_dot([np.rint(x), x, x[0]]), (Q.astype("u1") * 9,)),
    ("product of scalars", lambda x: x.sum() @ x.sum(), (R,)),
    ("product with a number", lambda x: x.sum() @ 2, (R,)),
    ("product of scalar and array", lambda x: x.sum() @ x, (R,)),
    ("flat of complex numbers", lambda x: (x.flat[:1], x.fill(2)), (R + 1j,)),
    ("clip of three types", lambda x: np.clip(x, 3.0, np.float32(0.5)), (R.astype("i1"),)),
    ("texts that are equal", lambda x: (x == "aa", x != "aa", x[0] == "b", x == None),  # noqa: E711
     (np.array(["b", "aa"]),)),
    ("numbers and what is none", lambda x: (x == None, x != "a", x == {}, x[0] == None),  # noqa: E711
     (R,)),
    ("dates and texts", lambda x: (x == "2020-01-01", x != date(2020, 1, 2)),
     (np.array(["2020-01-01", "NaT"], "M8[D]"),)),
    ("a shorter mask", lambda x: x[[True, False]], (np.arange(6.0),)),
    ("products of truth", lambda x: [np.matmul(x, x, dtype=t) for t in ("u2", "f8", "?")],
     (Q > 2,)),
    ("a mask that is caught", _caught_mask, (np.arange(6.0),)),
    ("a mask of another axis", lambda x: x[:, [True] * 5], (R,)),
    ("a larger mask", lambda x: x[np.ones((3, 9), bool)], (R,)),
    ("a refusal that is caught", _caught_refusal,
     (np.array([5 + 5j, 1 - 2j]), np.asfortranarray([[-2, 6], [-4, 4], [8, 11]]))),
    ("a list at each call", _lists_of_rounds, (R[0],)),
    ("view of an array from outside", lambda x: np.shares_memory(np.trim_zeros(R), R), (R,)),
    ("records by a field", lambda x: x.sort(order="b"),
     (np.array([(1, 3), (2, 1), (0, 2)], [("a", "i4"), ("b", "i4")]),)),
    ("an order of no fields", lambda x: np.sort(x, order="b"), (R,)),
    ("a date", lambda d, x: (x * d.year, d, np.array([d], "M8[D]").tolist()),
     (date(2020, 1, 2), R)),
    ("a range and a type", lambda r, d, x: (x.astype(d) * r[1], r, x.dtype),
     (range(1, 5, 2), np.dtype("f4"), R)),
    ("mean of a mask of numbers", lambda x, y: np.mean(x, where=y), (R + 1j, R)),
    ("what scalars lack", _lacking, (R,)),
    ("types by identity", _types, (R,)),
    ("without axes", lambda x: (x.astype(int), x.astype("f4"), x.astype(bool), x[()].astype(int)),
     (np.array(1.5),)),
    ("without axes, of integers", lambda x: (x.astype(float), x.astype("u1")), (np.array(300),)),
    ("covariances of complex numbers", lambda x: (np.cov(x), np.cov(x[0]), np.cov(x.real, x)),
     (R * (1 + 2j) + [[2j], [4]],)),
    ("a list of rows", lambda x, y: np.einsum("ij,jk,kl->il", y, list(x), y),
     (np.ones((17, 17), "u2"), np.asfortranarray(np.ones((17, 17), "u2")))),
    ("a condition of numbers", lambda x: np.select([x > 1, x], [x, 1], 2), (np.arange(3.0),)),
    ("one position for all", lambda x, i: (np.take_along_axis(x, i, 0), np.take_along_axis(x, i, 1),
     np.take_along_axis(x[:1], np.add(i, [[0], [1]]), 1)),
     (np.arange(6.0).reshape(2, 3), np.array([[1]]))),
    ("too few positions", np.take_along_axis, (np.ones((3, 4)), np.array([[0, 1]]), 0)),
    ("the shape of a scalar", lambda x: setattr(x.sum(), "shape", (1,)), (np.arange(3.0),)),
    ("a plane of one axis", lambda x: (np.rot90(x, 4, (0, 0)), x)[1], (Q,)),
    ("a plane of a line", lambda x: (np.rot90(x, 0), x)[1], (R[0],)),
    ("a plane of no axes", lambda x: (np.rot90(x, 0, (0, 3)), x)[1], (R,)),
    ("matrices in a row", lambda x: np.linalg.multi_dot([x, x[0], x[0, 0]]), (Q,)),
]  # fmt: skip


@pytest.mark.parametrize(("f", "args"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_like_numpy(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    compiled = minicc.jit(f, threads=1)
    for _ in range(2):
        mine, theirs = (copied(args) for _ in range(2))
        outcomes: list[Any] = []
        for run, given in ((compiled, mine), (f, theirs)):
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    outcomes.append({"": run(*given)})
                except Exception as error:
                    outcomes.append(error)
        got, wanted = outcomes
        both = [dict(enumerate(a)) for a in (mine, theirs)]
        assert differences((got, both[0]), (wanted, both[1]), lambda name: 0.0) == []


def _pairs(x: Any) -> Any:
    pairs = [(float(v), k) for k, v in enumerate(x)]
    return min(pairs), pairs, {"last": pairs[-1]}


def test_a_tuple_that_stands_twice_in_a_result_is_one_object() -> None:
    compiled = minicc.jit(_pairs, threads=1)
    for _ in range(2):
        for run in (compiled, _pairs):
            least, pairs, named = run(np.array([3.0, 1.0, 2.0]))
            assert least is pairs[1]
            assert named["last"] is pairs[2]
            assert pairs == [(3.0, 0), (1.0, 1), (2.0, 2)]
