"""ONNX models on minicc and, where it is installed, ONNX Runtime, in one process.

    python -m benchmarks.models model.onnx ... [--threads 1 2]

Prints median milliseconds, their ratio, and the largest difference relative to the largest output.
Inputs are random.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import minicc


def median(call: Callable[[], Any], seconds: float = 2.0) -> float:
    """The median milliseconds of a call."""
    call()
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return float(np.median(taken)) * 1e3


def runtime_session(path: str, threads: int) -> Any:
    """An ONNX Runtime session, or None where it is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def main() -> None:
    """Measure the models of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    for path in args.models:
        for threads in args.threads:
            session = minicc.InferenceSession(path, threads=threads)
            rng = np.random.default_rng(0)
            shapes = {a.name: [int(n) for n in a.shape] for a in session.get_inputs()}
            feed = {name: rng.random(shape).astype(np.float32) for name, shape in shapes.items()}
            ours = median(partial(session.run, None, feed))
            text = f"{path}  {threads} threads  minicc {ours:.2f} ms"
            # made only now: its idle workers spin and would take the other core
            other = runtime_session(path, threads)
            if other is not None:
                theirs = median(partial(other.run, None, feed))
                got, want = session.run(None, feed)[0], other.run(None, feed)[0]
                off = float(np.max(np.abs(got - want)) / np.max(np.abs(want)))
                text += f"  ONNX Runtime {theirs:.2f} ms  ratio {ours / theirs:.2f}"
                text += f"  difference {off:.1e}"
            print(text, flush=True)


if __name__ == "__main__":
    main()
