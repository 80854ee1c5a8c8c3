"""Parts of a program that run one after the other: whose the arrays are that they give."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minicc.ir.types import tensor_of
from minicc.runtime.pipeline import Pipeline, Step

Array = np.ndarray[Any, Any]


def _pipeline(x: Array, run: Any, count: int) -> Pipeline:
    step = Step(run, (0,), tuple(range(1, count + 1)), False)
    return Pipeline([0], [tensor_of(x)], step.outputs, [step], {}, (), False, lambda: None)


def test_what_an_op_makes_is_the_callers_as_it_is() -> None:
    x = np.arange(6)
    where: list[int] = []

    def run(given: Sequence[Any], sizes: dict[str, int]) -> list[Any]:
        made = given[0] + 1
        where.append(made.ctypes.data)
        return [made]

    (found,) = _pipeline(x, run, 1).run([x])
    assert found.ctypes.data == where[0]


def test_what_somebody_holds_is_copied() -> None:
    x = np.arange(6)
    kept = np.arange(6)

    def run(given: Sequence[Any], sizes: dict[str, int]) -> list[Any]:
        made = given[0] + 1
        return [kept, given[0], made, made, made[1:], made.reshape(2, 3).T, [kept]]

    found = _pipeline(x, run, 7).run([x])
    arrays = [*found[:6], *found[6]]
    for k, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in (x, kept, *arrays[:k]))
