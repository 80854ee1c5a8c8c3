"""Loops whose rounds append to sequences, as TorchScript writes lists, with none on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import parser
from tests.models.test_whiles import hosted

from minicc.api.session import InferenceSession

Array = np.ndarray[Any, Any]
List = list[Array]
SIZES = [(2, 5), (1, 1), (3, 40), (2, 17)]


def opened(before: str, body: str, after: str, outputs: str, lists: str = "list") -> Any:
    """A model that loops over axis 1 of `x` with a state `h` and sequences that begin as `before`.

    `body` makes `new` and of each list the next one.
    """
    names = lists.split()
    taken = "".join(f", seq(float[a, b]) {name}" for name in names)
    given = "".join(f", seq(float[a, b]) {name}_new" for name in names)
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[b, s, 3] x, float[b, 3] h0) => ({outputs}) {{
        yes = Constant<value: tensor = bool {{1}}>()
        one = Constant<value: tensor = int64 {{1}}>()
        last = Constant<value: tensor = int64 {{-1}}>()
        shape = Shape(x)
        rounds = Gather(shape, one)
        {before}
        {", ".join(["h_last", *[f"{n}_all" for n in names]])} =
            Loop(rounds, yes, h0, {", ".join(f"{n}_0" for n in names)}) <body = each (
            int64 i, bool on, float[b, 3] h{taken}) => (bool still, float[b, 3] new{given}) {{
                row = Gather<axis = 1>(x, i)
                {body}
                still = Identity(yes)
            }}>
        {after}
    }}"""
    return InferenceSession(parser.parse_model(text).SerializeToString(), threads=1)


def rows(x: Array, h: Array) -> List:
    """The states that `CELL` makes, one after the other."""
    made = []
    for i in range(x.shape[1]):
        h = np.tanh(h + x[:, i])
        made.append(h)
    return made


CELL = "sum = Add(h, row)\nnew = Tanh(sum)\n"
EMPTY = "list_0 = SequenceEmpty()"
TWO = "two_0 = SequenceEmpty()\n" + EMPTY
APPEND = CELL + "list_new = SequenceInsert(list, new)"
BOTH = APPEND + "\nless = Neg(row)\ntwo_new = SequenceInsert(two, less)"
STACK = "y = ConcatFromSequence<axis = 1, new_axis = 1>(list_all)"
AGAIN = """count = SequenceLength(list_all)
y = Loop(count, yes, h0) <body = again (int64 j, bool on2, float[b, 3] h2)
    => (bool still2, float[b, 3] new2) {
        item = SequenceAt(list_all, j)
        half = Sub(h2, item)
        new2 = Tanh(half)
        still2 = Identity(yes)
    }>"""
Expected = Callable[[List, Array, Array], Sequence[Any]]


def again(made: List, h: Array) -> Array:
    for row in made:
        h = np.tanh(h - row)
    return h


CASES: dict[str, tuple[tuple[str, str, str, str], Expected]] = {
    "stacked": (
        (EMPTY, APPEND, STACK, "float[b, s, 3] y"),
        lambda made, x, h: [np.stack(made, 1)],
    ),
    "joined": (
        (EMPTY, APPEND, "y = ConcatFromSequence<axis = -1>(list_all)", "float[b, m] y"),
        lambda made, x, h: [np.concatenate(made, -1)],
    ),
    "with first ones": (
        ("list_0 = SequenceConstruct(h0, h0)", APPEND, STACK, "float[b, m, 3] y"),
        lambda made, x, h: [np.stack([h, h, *made], 1)],
    ),
    "two each round": (
        (EMPTY, f"{CELL}n = Neg(row)\nl1 = SequenceInsert(list, n)\n"
         "list_new = SequenceInsert(l1, new)", STACK, "float[b, m, 3] y"),
        lambda made, x, h: [
            np.stack([v for i, m in enumerate(made) for v in (-x[:, i], m)], 1)
        ],
    ),
    "one more after the loop": (
        (EMPTY, APPEND, "l2 = SequenceInsert(list_all, h_last)\n" + STACK.replace("list_all", "l2"),
         "float[b, m, 3] y"),
        lambda made, x, h: [np.stack([*made, made[-1]], 1)],
    ),
    "the last, and how many": (
        (EMPTY, APPEND, "y = SequenceAt(list_all, last)\nn = SequenceLength(list_all)",
         "float[b, 3] y, int64 n"),
        lambda made, x, h: [made[-1], np.int64(len(made))],
    ),
    "read in another loop": (
        (EMPTY, APPEND, AGAIN, "float[b, 3] y"),
        lambda made, x, h: [again(made, h)],
    ),
}  # fmt: skip


def check(session: InferenceSession, expected: Expected) -> None:
    for batch, size in SIZES:
        rng = np.random.default_rng(size)
        x = rng.standard_normal((batch, size, 3)).astype(np.float32)
        h = rng.standard_normal((batch, 3)).astype(np.float32)
        wanted = expected(rows(x, h), x, h)
        for got, want in zip(session.run(None, {"x": x, "h0": h}), wanted, strict=True):
            if isinstance(want, list):
                assert len(got) == len(want)
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_what_rounds_append_becomes_rows(name: str) -> None:
    texts, expected = CASES[name]
    session = opened(*texts)
    assert not hosted(session)
    check(session, expected)
    assert len(session._compiled) == 1


def test_two_sequences_that_begin_as_one_are_apart() -> None:
    after = STACK + "\nz = ConcatFromSequence<axis = 0>(two_all)"
    session = opened(TWO, BOTH, after, "float[b, s, 3] y, float[m, 3] z", "list two")
    assert not hosted(session)
    check(session, lambda made, x, h: [np.stack(made, 1), np.concatenate(-x.swapaxes(0, 1), 0)])


def test_sequences_that_change_places_are_right() -> None:
    swapped = BOTH.replace("SequenceInsert(list", "SequenceInsert(two").replace(
        "SequenceInsert(two, less", "SequenceInsert(list, less"
    )
    after = "y = ConcatFromSequence<axis = 0>(list_all)"
    session = opened(TWO, swapped, after, "float[m, 3] y", "list two")

    def expected(made: List, x: Array, h: Array) -> Sequence[Any]:
        one: List = []
        two: List = []
        for i, row in enumerate(made):
            one, two = [*two, row], [*one, -x[:, i]]
        return [np.concatenate(one, 0)]

    check(session, expected)


@pytest.mark.parametrize(
    ("after", "outputs", "expected"),
    [
        ("y = Identity(list_all)", "seq(float[b, 3]) y", lambda made, x, h: [made]),
        ("y = SequenceErase(list_all)", "seq(float[b, 3]) y", lambda made, x, h: [made[:-1]]),
        ("l2 = SequenceInsert(list_all, x)\ny = SequenceAt(l2, last)", "float[b, s, 3] y",
         lambda made, x, h: [x]),
    ],
    ids=["an output", "one less", "another type"],
)  # fmt: skip
def test_a_sequence_that_is_used_as_one_is_there(
    after: str, outputs: str, expected: Expected
) -> None:
    check(opened(EMPTY, APPEND, after, outputs), expected)


def test_what_a_round_reads_of_a_sequence_is_right() -> None:
    body = "before = SequenceAt(list, last)\nsum = Add(before, row)\nnew = Tanh(sum)\n"
    body += "list_new = SequenceInsert(list, new)"
    after = STACK.replace("y =", "all =") + "\ny = Gather<axis = 1>(all, last)"
    session = opened("list_0 = SequenceConstruct(h0)", body, after, "float[b, 3] y")
    assert not hosted(session)
    check(session, lambda made, x, h: [made[-1]])


def test_rows_of_unlike_extents_stay_apart() -> None:
    body = CELL + "one1 = Constant<value_ints = [1]>()\nzero1 = Constant<value_ints = [0]>()\n"
    body += (
        "stop = Add(i, one1)\nsome = Slice(x, zero1, stop, one1)\nsum2 = ReduceSum(some, one1)\n"
    )
    body += "m = ReduceMax<axes = [0], keepdims = 0>(some)\nlist_new = SequenceInsert(list, m)"
    after = "y = ConcatFromSequence<axis = 0>(list_all)"
    session = opened(EMPTY, body, after, "float[m, 3] y")

    def wanted(made: List, x: Array, h: Array) -> Sequence[Any]:
        return [np.concatenate([x[:, : i + 1].max(0) for i in range(x.shape[1])], 0)]

    check(session, wanted)


@pytest.mark.parametrize("split", ["", ", one"])
@pytest.mark.parametrize("size", ["s", "5"])
def test_a_tensor_taken_apart_is_read_by_rows(split: str, size: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[b, {size}, 3] x, float[b, 3] h0) => (float[b, 3] y) {{
        yes = Constant<value: tensor = bool {{1}}>()
        one = Constant<value: tensor = int64 {{1}}>()
        parts = SplitToSequence<axis = 1, keepdims = 0>(x{split})
        count = SequenceLength(parts)
        y = Loop(count, yes, h0) <body = each (int64 i, bool on, float[b, 3] h)
            => (bool still, float[b, 3] new) {{
                row = SequenceAt(parts, i)
                {CELL}
                still = Identity(yes)
            }}>
    }}"""
    session = InferenceSession(parser.parse_model(text).SerializeToString(), threads=1)
    assert not hosted(session)
    for batch, n in SIZES if size == "s" else [(2, 5)]:
        x = np.random.default_rng(n).standard_normal((batch, n, 3)).astype(np.float32)
        h = np.zeros((batch, 3), np.float32)
        (got,) = session.run(None, {"x": x, "h0": h})
        np.testing.assert_allclose(got, rows(x, h)[-1], rtol=1e-5, atol=1e-6)
