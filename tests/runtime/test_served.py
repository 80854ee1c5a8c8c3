"""Calls of a session that are served without a check, since one like them was checked before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import TensorProto, helper

import minicc

f32 = np.float32


@pytest.fixture(name="session")
def _session() -> minicc.InferenceSession:
    """The sum of two rows of any length, which has served some of length 3."""
    rows = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy"]
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "sum", rows, [out])
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    session = minicc.InferenceSession(model.SerializeToString())
    for _ in range(3):
        (found,) = session.run(None, {"x": np.ones(3, f32), "y": np.ones(3, f32)})
        assert found.tolist() == [2, 2, 2]
    return session


def test_what_lies_otherwise_is_read_right(session: minicc.InferenceSession) -> None:
    x = np.arange(6, dtype=f32)
    fixed = x[:3].copy()
    fixed.flags.writeable = False
    bytes_apart = np.frombuffer(b"\0" + x.tobytes(), f32, 3, 1)
    for given in (x[::2], x[::-1][:3], fixed, bytes_apart, x[:3].view(np.matrix).A1):
        (found,) = session.run(None, {"y": np.ones(3, f32), "x": given})
        np.testing.assert_array_equal(found, np.asarray(given) + 1)


def test_another_type_or_name_is_refused_as_at_first(session: minicc.InferenceSession) -> None:
    one = np.ones(3, f32)
    for given in ({"x": one, "y": np.ones(3)}, {"x": one}, {"x": one, "y": one, "w": one}):
        with pytest.raises(minicc.UserError):
            session.run(None, given)
    with pytest.raises(minicc.UserError):
        session.run(None, {"x": one, "y": np.ones(4, f32)})


def test_shapes_alternate_and_results_are_the_callers_own(
    session: minicc.InferenceSession,
) -> None:
    kept = []
    for n in (3, 5, 3, 0, 5, 1, 3):
        x = np.full(n, n, f32)
        kept.append((session.run(["z"], {"x": x, "y": x})[0], 2 * x))
    for found, want in kept:
        np.testing.assert_array_equal(found, want)
        found[:] = -1
    assert len({found.ctypes.data for found, _ in kept if found.size}) == len(kept) - 1


def test_many_threads_call_at_once(session: minicc.InferenceSession) -> None:
    def call(k: int) -> bool:
        x = np.full(3 + k % 2, k, f32)
        return all((session.run(None, {"x": x, "y": x})[0] == 2 * k).all() for _ in range(200))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(32)))
