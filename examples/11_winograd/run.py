"""Winograd's minimal filters: a 3x3 convolution as products of fewer numbers.

A tile of 4x4 pixels has 144 products with 9 weights; transformed, it has 36 with 36. The transforms
are additions, which many channels share. The sums are others, so they round otherwise: strict
mathematics keeps the direct form.
"""

import sys
import timeit
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import minicc
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.core import Module
from minicc.ir.text.printer import print_module
from minicc.records import record_of


def convolution(channels: int, size: int) -> bytes:
    """A 3x3 convolution of as many channels to as many."""
    w = np.random.default_rng(0).normal(size=(channels, channels, 3, 3)).astype(np.float32)
    shape = [1, channels, size, size]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "y")]
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    weights = [numpy_helper.from_array(w / channels, "w")]
    made = helper.make_graph(nodes, "convolution", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    data: bytes = helper.make_model(made, opset_imports=opsets, ir_version=10).SerializeToString()
    return data


def products(module: Module) -> int:
    """The multiply-adds of convolutions and contractions."""
    total = 0
    for op in module.main.body.ops:
        if isinstance(op, graph.Conv):
            total += prod(op.result.type.extents) * prod(op.w.type.extents[1:])
        elif isinstance(op, graph.Contract):
            total += prod(op.result.type.extents) * op.a.type.extents[-1]
    return total


def milliseconds(call: Callable[..., Any], *args: Any) -> float:
    """The least time of a call."""
    return min(timeit.repeat(lambda: call(*args), number=20, repeat=5)) * 50


def main() -> int:
    """Return 0 where both forms are close, and the one has fewer products."""
    print(record_of("minicc.passes.graph.choose_algorithm").head())
    found = []
    for channels, size in ((64, 28), (4, 28)):
        model = convolution(channels, size)
        x = np.random.default_rng(1).normal(size=(1, channels, size, size)).astype(np.float32)
        print(f"== {channels} channels, {size}x{size} pixels\n")
        outputs = []
        for math in ("strict", "fast"):
            options = minicc.Options(target="avx2", math=math)
            module = minicc.InferenceSession(model, options=options).module
            chosen = lower(module, options, stop="choose-algorithm")
            if math == "fast" and channels == 64:
                print(print_module(lower(chosen, options, start="choose-algorithm",
                                         stop="fold-algorithm"), locations=False))  # fmt: skip
            session = minicc.InferenceSession(model, threads=1, math=math)
            outputs.append(session.run(None, {"x": x})[0].astype(np.float64))
            taken = milliseconds(session.run, None, {"x": x})
            found.append(products(chosen))
            print(f"{math:6} {found[-1]:10,} multiply-adds, a run in {taken:.3f} ms")
        off = np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs[0]).max()
        much = "less" if off < 1e-5 else "more"
        print(f"they differ by {much} than 1e-5 of the largest result\n")
        if off >= 1e-5:
            return 1
    # Of few channels the transforms cost more than they save: the formula keeps the direct form.
    return 0 if found[1] < found[0] / 3 and found[3] == found[2] else 1


if __name__ == "__main__":
    sys.exit(main())
