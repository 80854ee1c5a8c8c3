"""Recurrent layers: how long they take to start and to run, beside ONNX Runtime where it is there.

    python -m benchmarks.recurrent

An LSTM of 256 units over 500 steps, the same over 50 (which must take as long to compile), and four
GRUs of 512 units over 24 steps with attention between. All run on one thread, one sequence at a
time; engines run in turns.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import minicc

Array = np.ndarray[Any, Any]
Run = Callable[[], Any]
GATES = {"LSTM": 4, "GRU": 3}
ROUNDS, RUNS = 15, 4


class Model:
    """An ONNX model while it is written, on an input `x` of [steps, 1, units]."""

    def __init__(self, steps: int, units: int) -> None:
        self.steps = steps
        self.units = units
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.rng = np.random.default_rng(0)

    def constant(self, array: Array) -> str:
        """The name of a constant."""
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def random(self, *shape: int) -> str:
        """Random weights that keep what passes through them about as large."""
        drawn = self.rng.standard_normal(shape) / self.units**0.5
        return self.constant(drawn.astype(np.float32))

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """The name of a node's only result."""
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def layer(self, op: str, x: str, **attributes: Any) -> str:
        """A recurrent layer: all of its states."""
        rows, units = GATES[op] * self.units, self.units
        w, r, b = self.random(1, rows, units), self.random(1, rows, units), self.random(1, 2 * rows)
        y = self.node(op, x, w, r, b, hidden_size=units, **attributes)
        return self.node("Squeeze", y, self.constant(np.array([1])))

    def attention(self, x: str) -> str:
        """Each step joined by what it sees of all steps."""
        rows = self.node("Transpose", x, perm=[1, 0, 2])
        query = self.node("MatMul", rows, self.random(self.units, self.units))
        scores = self.node("MatMul", query, self.node("Transpose", rows, perm=[0, 2, 1]))
        seen = self.node("MatMul", self.node("Softmax", scores, axis=2), rows)
        return self.node("Transpose", self.node("Add", seen, rows), perm=[1, 0, 2])

    def bytes(self, result: str) -> bytes:
        """The model that gives this value."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (self.steps, 1, self.units))
        y = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "model", [x], [y], self.weights)
        opset = [helper.make_opsetid("", 17)]
        made: bytes = helper.make_model(
            graph, opset_imports=opset, ir_version=9
        ).SerializeToString()
        return made


def lstm(steps: int) -> Model:
    """One LSTM of 256 units."""
    model = Model(steps, 256)
    model.layer("LSTM", "x")
    return model


def four_layers() -> Model:
    """Four GRUs of 512 units over 24 steps, with attention between."""
    model = Model(24, 512)
    x = "x"
    for k in range(4):
        x = model.layer("GRU", x, linear_before_reset=1)
        if k == 1:
            x = model.attention(x)
    return model


def in_turns(runs: dict[str, Run]) -> dict[str, float]:
    """The median milliseconds of one run of each."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            began = time.perf_counter()
            for _ in range(RUNS):
                run()
            taken[name].append((time.perf_counter() - began) / RUNS)
    return {name: 1e3 * float(np.median(seconds)) for name, seconds in taken.items()}


def measure(name: str, model: Model, empty: Path) -> None:
    """Print a row for a model: a cold start with an empty folder as cache, launches, and times."""
    made = model.bytes(model.nodes[-1].output[0])
    x = model.rng.standard_normal((model.steps, 1, model.units)).astype(np.float32)
    options = minicc.Options(threads=1, cache_dir=empty)
    began = time.perf_counter()
    session = minicc.InferenceSession(made, options=options)
    session.run(None, {"x": x})
    cold = time.perf_counter() - began
    runs: dict[str, Run] = {"minicc": lambda: session.run(None, {"x": x})}
    try:
        import onnxruntime
    except ImportError:
        pass
    else:
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        other = onnxruntime.InferenceSession(made, settings)
        runs["ONNX Runtime"] = lambda: other.run(None, {"x": x})
    told = ", ".join(f"{engine} {ms:.2f} ms" for engine, ms in in_turns(runs).items())
    (launches,) = [part for part in session.report().split(", ") if "launches" in part]
    print(f"{name}: cold {cold:.2f} s,{launches.rpartition(':')[2]}; {told}")


if __name__ == "__main__":
    models = {"LSTM, 50 steps": lstm(50), "LSTM, 500 steps": lstm(500)}
    models["four GRUs and attention"] = four_layers()
    with tempfile.TemporaryDirectory() as folder:  # a program may be written to it after a run
        for number, (name, model) in enumerate(models.items()):
            empty = Path(folder, str(number))
            empty.mkdir(mode=0o700)
            measure(name, model, empty)
