"""Warnings and records of a log tell of the user's line, as they do without minicc."""

import io
import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

X = np.ones(3)
LOGGER = logging.getLogger(__name__)


def _careful(x: Any) -> Any:
    if x.sum() > 0:
        warnings.warn("careful")  # noqa: B028  # the line that it tells of by default
    return x + 1


def _within(x: Any, level: int) -> Any:
    warnings.warn(f"level {level}", DeprecationWarning, stacklevel=level)
    return x * 2


def _levels(x: Any) -> Any:
    y = _within(x, 1)
    y = _within(y, 2)
    y = y + _within(y, 3)
    return _within(y, 4)


def _several(x: Any) -> Any:
    for _ in range(2):
        warnings.warn(RuntimeWarning("an object"), stacklevel=2)
    return [_within(x, 2) for _ in range(2)]


def _told(f: Callable[..., Any], x: Any) -> Any:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        f(x)
    return [(w.category, str(w.message), w.filename, w.lineno) for w in told]


@pytest.mark.parametrize("f", [_careful, _levels, _several])
def test_a_warning_is_told_of_the_line_of_the_user(f: Callable[..., Any]) -> None:
    g = minicc.jit(f, threads=1)
    for x in (X, X, -X, X):
        assert _told(g, x) == _told(f, x)
    assert {filename for _, _, filename, _ in _told(g, X)} == {__file__}


def test_a_warning_is_told_of_each_caller() -> None:
    g = minicc.jit(lambda x: _within(x, 3), threads=1)
    lines = []
    for _ in range(2):
        lines += _told(lambda x: g(x), X)
        lines += _told(lambda x: g(x), X)
    first, second = (line for _, _, _, line in lines[:2])
    assert [line for _, _, _, line in lines] == [first, second, first, second]
    assert second == first + 1


def test_a_warning_is_told_once_of_a_line() -> None:
    def f(x: Any) -> Any:
        warnings.warn("once")  # noqa: B028  # the line that it tells of by default
        return x + 1

    g = minicc.jit(f, threads=1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            g(X)
            f(X)
    assert [str(w.message) for w in told] == ["once"]


def _logged(x: Any) -> Any:
    LOGGER.warning("first of %s", 2)
    if x[0] > 0:
        LOGGER.warning("second")
    return x + 1


def test_a_record_of_a_log_tells_of_the_line_of_the_user() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(pathname)s:%(lineno)d %(funcName)s: %(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.propagate = False
    try:
        _logged(X)
        wanted = written.getvalue()
        g = minicc.jit(_logged, threads=1)
        for _ in range(2):
            written.seek(written.truncate(0))
            g(X)
            assert written.getvalue() == wanted
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.propagate = True
