"""Rounds that append to sequences in branches: rows of the graph, some of which are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import parser
from tests.models.test_listed_loops import AGAIN, CELL, EMPTY, STACK, TWO, check, opened
from tests.models.test_whiles import hosted

from minicc.api.session import InferenceSession

Array = np.ndarray[Any, Any]
Rounds = list[tuple[Array, Array, bool]]  # a round's row and state, and which branch it takes
FIRST = "list_0 = SequenceConstruct(h0)"
TEST = (
    CELL
    + """zero = Constant<value: tensor = float {0}>()
total = ReduceSum<keepdims = 0>(row)
there = Greater(total, zero)
"""
)


def branch(then: str, other: str, made: str = "a", kind: str = "seq(float[b, 3])") -> str:
    """The text of an If whose graphs make `made`."""
    names = [name.strip() for name in made.split(",")]
    thens, others = ([f"{kind} {name}_{k}" for name in names] for k in "te")
    return f"""{made} = If(there) <
        then_branch = yes_then () => ({", ".join(thens)}) {{ {then} }},
        else_branch = no_then () => ({", ".join(others)}) {{ {other} }}>"""


def each(then: Callable[[Array, Array], Any], other: Callable[[Array, Array], Any]) -> Any:
    """What all rounds append, of the row and the state of each."""
    return lambda rounds: [
        v for row, h, taken in rounds for v in (then if taken else other)(row, h)
    ]


KEPT = branch("a_t = SequenceInsert(list, new)", "a_e = Identity(list)")
EITHER = branch("a_t = SequenceInsert(list, new)", "n = Neg(row)\na_e = SequenceInsert(list, n)")
MORE = branch(
    "n = Neg(row)\nl1 = SequenceInsert(list, n)\na_t = SequenceInsert(l1, new)",
    "a_e = SequenceInsert(list, row)",
)
BOTH = branch(
    "a_t = SequenceInsert(list, new)\nb_t = Identity(two)",
    "a_e = Identity(list)\nb_e = SequenceInsert(two, row)",
    "a, b",
)
WITHIN = branch(
    "a_t = SequenceInsert(list, new)",
    """most = ReduceMax<keepdims = 0>(row)
    small = Less(most, zero)
    a_e = If(small) <
        then_branch = inner () => (seq(float[b, 3]) i) {
            n = Neg(row)
            i = SequenceInsert(list, n)
        },
        else_branch = rest () => (seq(float[b, 3]) r) { r = Identity(list) }>""",
)


def within(row: Array, h: Array) -> list[Array]:
    return [-row] if row.max() < 0 else []


# the text of a round after the test, and what rounds append; the text after the loop
CASES: dict[str, tuple[str, Any]] = {
    "either": (EITHER + "\nlist_new = Identity(a)", each(lambda r, h: [h], lambda r, h: [-r])),
    "one of them": (KEPT + "\nlist_new = Identity(a)", each(lambda r, h: [h], lambda r, h: [])),
    "two or one": (MORE + "\nlist_new = Identity(a)", each(lambda r, h: [-r, h], lambda r, h: [r])),
    "one of them, and one after": (
        KEPT + "\nlist_new = SequenceInsert(a, row)",
        each(lambda r, h: [h, r], lambda r, h: [r]),
    ),
    "a branch in a branch": (WITHIN + "\nlist_new = Identity(a)", each(lambda r, h: [h], within)),
    "two branches": (
        KEPT
        + "\n"
        + branch("c_t = SequenceInsert(a, row)", "c_e = Identity(a)", "c")
        .replace("yes_then", "yes_2")
        .replace("no_then", "no_2")
        + "\nlist_new = Identity(c)",
        each(lambda r, h: [h, r], lambda r, h: []),
    ),
}


def rounds_of(x: Array, h: Array) -> Rounds:
    found = []
    for i in range(x.shape[1]):
        h = np.tanh(h + x[:, i])
        found.append((x[:, i], h, bool(x[:, i].sum() > 0)))
    return found


def compare(session: InferenceSession, expected: Callable[[Rounds, Array], list[Array]]) -> None:
    check(session, lambda made, x, h: expected(rounds_of(x, h), h))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("after", ["stacked", "joined", "read"])
def test_what_branches_append_becomes_rows(name: str, after: str) -> None:
    body, appended = CASES[name]
    texts = {
        "stacked": (STACK, "float[b, m, 3] y"),
        "joined": ("y = ConcatFromSequence<axis = 0>(list_all)", "float[m, 3] y"),
        "read": (AGAIN, "float[b, 3] y"),
    }
    session = opened(FIRST, TEST + body, *texts[after])
    # what is left out is left out by a Compress
    assert len(hosted(session)) == (name != "either")

    def expected(rounds: Rounds, h: Array) -> list[Array]:
        made = [h, *appended(rounds)]
        if after == "stacked":
            return [np.stack(made, 1)]
        if after == "joined":
            return [np.concatenate(made, 0)]
        state = h
        for row in made:
            state = np.tanh(state - row)
        return [state]

    compare(session, expected)


def test_rows_are_parted_into_two_sequences() -> None:
    body = TEST + BOTH + "\nlist_new = Identity(a)\ntwo_new = Identity(b)"
    after = "n = SequenceLength(list_all)\nk = SequenceLength(two_all)"
    session = opened(TWO, body, after, "int64 n, int64 k", "list two")

    def expected(rounds: Rounds, h: Array) -> list[Any]:
        taken = sum(t for _, _, t in rounds)
        return [np.int64(taken), np.int64(len(rounds) - taken)]

    compare(session, expected)


def test_rows_of_unlike_extents_in_branches_are_right() -> None:
    """What the branches append is of two types, so that the host holds the sequence."""
    wide = branch(
        "d = Concat<axis = 0>(new, new)\na_t = SequenceInsert(list, d)",
        "a_e = SequenceInsert(list, row)",
    )
    after = "n = SequenceLength(list_all)\ny = ConcatFromSequence<axis = 0>(list_all)"
    body = TEST + wide + "\nlist_new = Identity(a)"
    session = opened(EMPTY, body, after, "int64 n, float[m, 3] y")

    def expected(rounds: Rounds, h: Array) -> list[Any]:
        made = [np.concatenate([v, v]) if taken else row for row, v, taken in rounds]
        return [np.int64(len(made)), np.concatenate(made, 0)]

    compare(session, expected)


def ended_by_data(before: str, body: str, after: str, outputs: str) -> InferenceSession:
    """A model whose rounds end when the sum of a state is small, each of which makes `list_new`."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[b, 3] h0, int64 most) => ({outputs}) {{
        yes = Constant<value: tensor = bool {{1}}>()
        zero = Constant<value: tensor = float {{0}}>()
        {before}
        h_last, list_all = Loop(most, yes, h0, list_0) <body = each (
            int64 i, bool on, float[b, 3] h, seq(float[b, 3]) list)
            => (bool still, float[b, 3] new, seq(float[b, 3]) list_new) {{
                rate = Constant<value: tensor = float {{-0.7}}>()
                least = Constant<value: tensor = float {{0.01}}>()
                new = Mul(h, rate)
                size = Abs(new)
                largest = ReduceMax<keepdims = 0>(size)
                still = Greater(largest, least)
                first = ReduceSum<keepdims = 0>(new)
                there = Greater(first, zero)
                row = Identity(new)
                {body}
            }}>
        {after}
    }}"""
    return InferenceSession(parser.parse_model(text).SerializeToString(), threads=1)


def rounds_until_small(h: Array, most: int) -> list[Array]:
    made: list[Array] = []
    while len(made) < most and (not made or np.abs(made[-1]).max() > np.float32(0.01)):
        h = h * np.float32(-0.7)
        made.append(h)
    return made


NEGATED = "n = Neg(new)\nl1 = SequenceInsert(list, n)\nlist_new = SequenceInsert(l1, new)"
ENDED: dict[str, tuple[str, int, Callable[[list[Array]], list[Array]]]] = {
    "each round": ("list_new = SequenceInsert(list, new)", 1, lambda made: made),
    "two each round": (NEGATED, 1, lambda made: [v for m in made for v in (-m, m)]),
    "some rounds": (
        KEPT + "\nlist_new = Identity(a)", 2, lambda made: [m for m in made if m.sum() > 0]
    ),
    "either": (
        EITHER + "\nlist_new = Identity(a)", 1,
        lambda made: [m if m.sum() > 0 else -m for m in made],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDED)
def test_rounds_that_data_end_append(name: str) -> None:
    """The loop alone is on the host, and what leaves out rows; of a sequence nothing is left."""
    body, count, appended = ENDED[name]
    session = ended_by_data(FIRST, body, STACK, "float[b, m, 3] y")
    assert len(hosted(session)) == count, hosted(session)
    for size, most in ((2, 30), (1, 3), (3, 0), (2, 1)):
        h = np.random.default_rng(size).standard_normal((size, 3)).astype(np.float32)
        (got,) = session.run(None, {"h0": h, "most": np.int64(most)})
        want = np.stack([h, *appended(rounds_until_small(h, most))], 1)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_rounds_that_data_end_read_what_they_append_to() -> None:
    body = """last = Constant<value: tensor = int64 {-1}>()
    before = SequenceAt(list, last)
    sum = Add(before, new)
    list_new = SequenceInsert(list, sum)"""
    session = ended_by_data(FIRST, body, STACK, "float[b, m, 3] y")
    h = np.array([[1, -2, 0.5]], np.float32)
    (got,) = session.run(None, {"h0": h, "most": np.int64(40)})
    want = np.cumsum(np.stack([h, *rounds_until_small(h, 40)], 1), axis=1)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
