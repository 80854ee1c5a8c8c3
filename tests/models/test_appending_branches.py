"""Rounds that append to sequences in branches: rows of the graph, some of which are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
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
