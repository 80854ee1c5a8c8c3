"""`reduce` and `accumulate` of ufuncs are NumPy's, without a break where others make them up."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.models.test_numpy_functions import call, same

NAN, INF = np.nan, np.inf
ARRAYS = [
    np.random.default_rng(0).normal(size=(3, 4, 5)),
    np.array([[NAN, 1, -INF], [NAN, NAN, NAN], [INF, NAN, 2], [0.0, -0.0, 0]]),
    np.array([[-3.0]]), np.zeros((0, 3)), np.full((2, 3), 1e200), np.full((2, 3), -1e4),
    np.array([[-INF, -INF], [INF, -INF], [1e-300, 1e-310]]),
]  # fmt: skip
FLOATS = ("logaddexp", "logaddexp2", "hypot", "fmax", "fmin", "subtract")
METHODS = [
    *[(name, "reduce", "f8") for name in FLOATS],
    *[(name, "accumulate", "f8") for name in ("fmax", "fmin", "subtract")],
    *[(name, "reduce", "i1") for name in ("fmax", "fmin", "subtract")],
    *[(f"logical_{name}", "accumulate", "f8") for name in ("and", "or", "xor")],
    *[(f"bitwise_{name}", method, "?") for name in ("and", "or", "xor")
      for method in ("reduce", "accumulate")],
    ("logical_xor", "reduce", "f8"),
]  # fmt: skip
AXES: list[dict[str, Any]] = [{}, {"axis": -1}, {"axis": None}, {"axis": 0, "keepdims": True}]


@pytest.mark.parametrize(("name", "method", "dtype"), METHODS)
@pytest.mark.parametrize("how", AXES, ids=str)
def test_methods_of_ufuncs(name: str, method: str, dtype: str, how: dict[str, Any]) -> None:
    function = getattr(getattr(np, name), method)
    for a in ARRAYS:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = a.astype(dtype)
            try:
                want = function(x, **how)
            except (TypeError, ValueError):
                continue
        got, breaks = call(lambda x: function(x, **how), x)
        assert not breaks
        same(got, want, 1e-8)
