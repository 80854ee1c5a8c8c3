"""Calls that are like the last ones are served at a glance, and others never by mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

A, B = np.arange(3.0), np.arange(3.0) + 10
M = np.arange(16.0).reshape(4, 4)
T, U = np.float64(2.5), np.float64(2.5)


def of_any(*args: Any, scale: float = 1.0) -> Any:
    return sum(args[1:], args[0]) * scale


def applied(x: Any, f: Callable[[Any], Any] = np.sin, how: str = "plain") -> Any:
    return f(x) if how == "plain" else f(x) * 2


def of_params(params: Any, x: Any) -> Any:
    total = x
    parts = params.values() if isinstance(params, dict) else params
    for k, part in enumerate(parts):
        total = total + (part[0] if isinstance(part, tuple) else part) * (k + 1)
    return total


def keyed(params: dict[Any, Any]) -> Any:
    return params[1] * 2 if True in params and type(next(iter(params))) is int else params[1] * 3


def twice(x: Any) -> Any:
    return x * 2


def which(a: Any, b: Any, c: Any) -> Any:
    return a * (1 + 2 * (a is b) + 4 * (b is c) + 8 * (a is c))


CALLS: dict[str, tuple[Callable[..., Any], list[tuple[tuple[Any, ...], dict[str, Any]]]]] = {
    "any number of arguments": (
        of_any,
        [((A, B), {}), ((A, B, A + 1), {}), ((A,), {}), ((B, A), {}), ((A, B), {"scale": 2.0})],
    ),
    "one array twice": (of_any, [((A, B), {}), ((A, A), {}), ((B, A), {})]),
    "some of three": (
        which,
        [((A, B, B), {}), ((A, A, B), {}), ((A, B, A), {}), ((A, A, A), {}), ((A, B, A + 1), {})],
    ),
    "functions": (applied, [((A,), {}), ((A, np.cos), {}), ((A, twice), {}), ((A, np.sin), {})]),
    "texts": (applied, [((A, np.sin, "plain"), {}), ((A, np.sin, "".join(["twi", "ce"])), {})]),
    "containers": (
        of_params,
        [
            (((A, B), A), {}),
            (([A, B], A), {}),
            (((A, (B,)), A), {}),
            ((((A,), B), A), {}),
            (({"a": A, "b": B}, A), {}),
            (({"b": B, "a": A}, A), {}),
            (({"a": B, "b": A, "c": A + 2}, A), {}),
            (((A, 2.0), A), {}),
            (((A, 2), A), {}),
            (((A, B[::-1]), A), {}),
            ((np.array([A, B]), A), {}),
            (([np.float64(2), np.float64(3)], A), {}),
            (([np.float64(4), np.float64(3)], A), {}),
            (([np.float64(4), np.int64(3)], A), {}),
            (([np.float64(4), 3.0], A), {}),
        ],
    ),
    "numbers that are one object": (
        which,
        [
            ((T, T, 2.5), {}),
            ((T, U, 2.5), {}),
            ((T, T, T), {}),
            ((1.5, float("1.5"), 2), {}),
            ((U, T, U), {}),
            ((3, 3, 3), {}),
        ],
    ),
    "how arrays lie": (
        twice,
        [
            ((M,), {}),
            ((M.T,), {}),
            ((np.asfortranarray(M),), {}),
            ((M[:, ::2],), {}),
            ((M[::-1],), {}),
            ((M.T.copy(),), {}),
        ],
    ),
    "keys that are equal": (keyed, [(({1: A},), {}), (({True: A},), {}), (({1.0: A},), {})]),
}


@pytest.mark.parametrize(("f", "calls"), CALLS.values(), ids=CALLS)
def test_calls_in_turns(
    f: Callable[..., Any], calls: list[tuple[tuple[Any, ...], dict[str, Any]]]
) -> None:
    """Each several times, so that it is expected, and then each after each other one."""
    jitted = minicc.jit(f)
    order = [k for k in range(len(calls)) for _ in range(3)]
    order += [
        k for first in range(len(calls)) for other in range(len(calls)) for k in (first, other)
    ]
    for k in order:
        args, kwargs = calls[k]
        np.testing.assert_allclose(jitted(*args, **kwargs), f(*args, **kwargs), rtol=1e-12)


def test_what_a_function_that_is_passed_reads_may_change() -> None:
    scale = [2.0]

    def inner(x: Any) -> Any:
        return x * scale[0]

    jitted = minicc.jit(applied)
    for value in (2.0, 2.0, 2.0, 3.0, 4.0):
        scale[0] = value
        np.testing.assert_allclose(jitted(A, inner), A * value)


@pytest.mark.parametrize("args", [(), (A,), (A, B), (A, B, A)])
def test_arguments_of_any_number_are_sorted_as_python_does(args: tuple[Any, ...]) -> None:
    def f(first: Any, second: Any = 2.0, *others: Any, last: float = 5.0) -> Any:
        return first * 2 + second + sum(others) + last

    jitted = minicc.jit(f)
    if not args:
        with pytest.raises(TypeError, match="first"):
            jitted()
        return
    for _ in range(3):
        np.testing.assert_allclose(jitted(*args), f(*args))
        np.testing.assert_allclose(jitted(*args, last=1.0), f(*args, last=1.0))
