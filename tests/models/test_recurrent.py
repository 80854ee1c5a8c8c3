"""Recurrent operators against a plain NumPy reading of ONNX's text, over few and many steps."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.sweeps import part

import minicc
from minicc.compile.compiler import lower
from minicc.frontends.onnx.importer import import_model
from minicc.ir.program import launches
from minicc.options import Options

Array = np.ndarray[Any, Any]
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
EXTRAS = [(), ("lengths",), ("h", "c"), ("p",), ("linear",), ("layout", "h", "c")]
WAYS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def step(op: str, x: Array, h: Array, c: Array, f: dict[str, Array], linear: bool) -> Any:
    size = h.shape[1]
    wb, rb = f["b"][: len(f["w"])], f["b"][len(f["w"]) :]
    seen, known = x @ f["w"].T + wb, h @ f["r"].T + rb

    def gate(a: Array, k: int) -> Array:
        return a[:, k * size : (k + 1) * size]

    if op == "RNN":
        return np.tanh(seen + known), c
    if op == "GRU":
        z, r = (sigmoid(gate(seen, k) + gate(known, k)) for k in (0, 1))
        last = gate(known, 2) if linear else 0
        rows = slice(2 * size, 3 * size)
        inner = r * last if linear else (r * h) @ f["r"][rows].T + rb[rows]
        return (1 - z) * np.tanh(gate(seen, 2) + inner) + z * h, c
    peep = np.split(f.get("p", np.zeros(3 * size)), 3)
    total = seen + known
    i, forget = sigmoid(gate(total, 0) + peep[0] * c), sigmoid(gate(total, 2) + peep[2] * c)
    c = forget * c + i * np.tanh(gate(total, 3))
    return sigmoid(gate(total, 1) + peep[1] * c) * np.tanh(c), c


def reference(op: str, way: str, feed: dict[str, Array], linear: bool) -> list[Array]:
    x = feed["x"].astype(np.float64)
    steps, batch, _ = x.shape
    size = feed["r"].shape[2]
    lengths = feed.get("lengths", np.full(batch, steps))
    ys, hs, cs = [], [], []
    for d, back in enumerate(WAYS[way]):
        own: dict[str, Array] = {
            k: feed[k][d].astype(np.float64) for k in ("w", "r", "b", "p") if k in feed
        }
        h = feed["h"][d] if "h" in feed else np.zeros((batch, size))
        c = feed["c"][d] if "c" in feed else np.zeros((batch, size))
        y = np.zeros((steps, batch, size))
        for t in range(steps)[:: -1 if back else 1]:
            runs = (t < lengths)[:, None]
            new, cell = step(op, x[t], h, c, own, linear)
            h, c = np.where(runs, new, h), np.where(runs, cell, c)
            y[t] = np.where(runs, new, 0)
        ys.append(y)
        hs.append(h)
        cs.append(c)
    out = [np.stack(ys, 1), np.stack(hs)]
    return [*out, np.stack(cs)] if op == "LSTM" else out


@pytest.mark.parametrize(
    ("op", "way", "extras", "steps"), part(product(GATES, WAYS, EXTRAS, (1, 3, 40)), 6)
)
def test_cells(op: str, way: str, extras: tuple[str, ...], steps: int) -> None:
    rng = np.random.default_rng(steps)
    d, batch, size, width = len(WAYS[way]), 2, 5, 4
    shapes = {
        "x": (steps, batch, width),
        "w": (d, GATES[op] * size, width),
        "r": (d, GATES[op] * size, size),
        "b": (d, 2 * GATES[op] * size),
        "h": (d, batch, size),
    }
    if op == "LSTM":
        shapes |= {"c": (d, batch, size), "p": (d, 3 * size)}
    feed = {
        name: (rng.standard_normal(shape) / 2).astype(np.float32)
        for name, shape in shapes.items()
        if name in ("x", "w", "r", "b", *extras)
    }
    if "lengths" in extras:
        feed["lengths"] = np.array([steps, 2 * steps // 3], np.int32)
    want = reference(op, way, feed, "linear" in extras)
    attributes: dict[str, Any] = {"hidden_size": size, "direction": way}
    if "linear" in extras and op == "GRU":
        attributes["linear_before_reset"] = 1
    if "layout" in extras:
        attributes["layout"] = 1
        feed |= {
            k: np.ascontiguousarray(feed[k].swapaxes(0, 1)) for k in ("x", "h", "c") if k in feed
        }
        want = [want[0].transpose(2, 0, 1, 3), *[v.swapaxes(0, 1) for v in want[1:]]]
    order = ("x", "w", "r", "b", "lengths", "h", "c", "p")[: 8 if op == "LSTM" else 6]
    outputs = ["y", "yh", "yc"][: len(want)]
    node = helper.make_node(op, [n if n in feed else "" for n in order], outputs, **attributes)
    kinds: dict[Any, int] = {np.dtype(np.int32): TensorProto.INT32}
    given = [
        helper.make_tensor_value_info(n, kinds.get(v.dtype, TensorProto.FLOAT), v.shape)
        for n, v in feed.items()
    ]
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    model = helper.make_model(
        helper.make_graph([node], "g", given, made),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    session = minicc.InferenceSession(model.SerializeToString(), threads=1)
    for got, wanted in zip(session.run(None, feed), want, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)
    assert "on the host" not in session.report()


@pytest.mark.parametrize("op", GATES)
def test_more_steps_are_not_more_code(op: str) -> None:
    """A layer is one loop whose launches stand once, whatever the number of steps."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (1, GATES[op] * 5, 4)), ("r", (1, GATES[op] * 5, 5)))
    ]
    node = helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=5)
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["steps", 1, 4])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    model = helper.make_model(
        helper.make_graph([node], "g", given, made, weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    module = import_model(model.SerializeToString())
    counted = [
        len(list(launches(lower(module, Options(), {"steps": n}).main.body))) for n in (9, 900)
    ]
    assert counted[0] == counted[1] < 10
