"""Sums and products of all elements so far, along axes of free extents: one program for all."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from tests.models.test_data_sizes import NODE, F, info
from tests.sweeps import part

import minicc
from minicc.target import TARGETS

RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
CASES = list(itertools.product(("CumSum", "CumProd"), range(3), (0, 1), (0, 1)))


@pytest.mark.parametrize(
    ("dtype", "axis", "target"),
    part(itertools.product(["f4", "f8", "f2", "i4", "u1"], range(3), RUNNABLE), 6),
)
def test_rows_of_any_length(dtype: str, axis: int, target: str) -> None:
    """As NumPy has it, also where a NaN comes: what is before it does not change."""
    most, least = np.maximum.accumulate, np.minimum.accumulate
    f: dict[str, Any] = {"add": np.cumsum, "most": most, "least": least}
    jits = {
        name: minicc.jit(lambda x, g=g: g(x, axis=axis), target=target) for name, g in f.items()
    }
    for shape in ((3, 40, 5), (2, 3, 100), (70, 3, 17), (1, 7, 1), (0, 2, 3), (5, 1, 1)):
        x = np.random.default_rng(1).integers(0, 3, shape).astype(dtype)
        if x.size > 20 and x.dtype.kind == "f":
            x.reshape(-1)[x.size // 2] = np.nan
        for name, g in f.items():
            np.testing.assert_array_equal(jits[name](x), g(x, axis=axis), err_msg=f"{name} {shape}")


def so_far(x: Any, op: str, axis: int, exclusive: int, reverse: int) -> Any:
    x = np.flip(x, axis) if reverse else x
    out = (np.cumsum if op == "CumSum" else np.cumprod)(x, axis=axis)
    if exclusive:
        first = np.full_like(np.take(x, [0], axis), 0 if op == "CumSum" else 1) if x.size else x
        out = np.concatenate([first, np.delete(out, -1, axis)], axis) if x.size else out
    return np.flip(out, axis) if reverse else out


@pytest.mark.parametrize(("op", "axis", "exclusive", "reverse"), part(CASES, 3))
def test_cumulative(op: str, axis: int, exclusive: int, reverse: int) -> None:
    node = NODE(op, ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse)
    held = [numpy_helper.from_array(np.array(axis), "axis")]
    graph = helper.make_graph([node], "g", [info("x", F, ["n", "m", 3])], [info("y")], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=10)
    session = minicc.InferenceSession(model.SerializeToString(), threads=1)
    for n, m in ((4, 5), (1, 1), (33, 2), (0, 3), (3, 0)):
        x = np.random.default_rng(n).integers(1, 3, (n, m, 3)).astype(np.float32)
        (y,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(y, so_far(x, op, axis, exclusive, reverse))
    assert len(session._compiled) == 1
