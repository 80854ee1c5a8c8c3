"""Layouts: where the channels of an image lie, and what that does to a small network.

ONNX holds images channels-first: the pixels of a channel lie side by side. `choose-layout` holds
them channels-last, so that a vector of results has one pixel's channels, whose number suits
vectors, and one element of the input serves all of them. It plans for the whole graph: the input
and the result are turned, and nothing in between.
"""

import sys
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

import minicc
from minicc.compile.compiler import lower
from minicc.ir import graph, program
from minicc.ir.core import Module
from minicc.ir.structured import Group
from minicc.passes.structured.contraction import contractions_in
from minicc.records import record_of

Array = npt.NDArray[np.float32]
AVX2 = minicc.Options(target="avx2")


def network() -> bytes:
    """Three convolutions, each with its ReLU."""
    rng, nodes, weights, last = np.random.default_rng(0), [], [], "x"
    for k, (size, channels) in enumerate(((3, 8), (3, 32), (1, 32))):
        w = rng.normal(size=(32, channels, size, size)).astype(np.float32) / 16
        weights.append(numpy_helper.from_array(w, f"w{k}"))
        nodes += [
            helper.make_node("Conv", [last, f"w{k}"], [f"c{k}"], pads=[size // 2] * 4),
            helper.make_node("Relu", [f"c{k}"], [f"r{k}"]),
        ]
        last = f"r{k}"
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 28, 28])
    out = helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, 32, 28, 28])
    made = helper.make_graph(nodes, "network", [image], [out], weights)
    opsets = [helper.make_opsetid("", 17)]
    data: bytes = helper.make_model(made, opset_imports=opsets, ir_version=10).SerializeToString()
    return data


def groups(module: Module) -> list[Group]:
    """The groups that multiply."""
    found = [op for op in module.main.body.ops if isinstance(op, Group)]
    return [group for group in found if contractions_in(group.body.ops)]


def milliseconds(call: Callable[..., Any], *args: Any) -> float:
    """The least time of a call."""
    return min(timeit.repeat(lambda: call(*args), number=20, repeat=5)) * 50


def main() -> int:
    """Return 0 where both layouts give the same."""
    model = network()
    x = np.random.default_rng(1).normal(size=(1, 8, 28, 28)).astype(np.float32)
    module = lower(minicc.InferenceSession(model, options=AVX2).module, AVX2, stop="simplify")
    print(record_of("minicc.passes.graph.choose_layout").head())
    for name, made in (("before", module), ("after", lower(module, AVX2, stop="simplify-layout"))):
        print(f"{name}:\n")
        for op in made.main.body.ops:
            if isinstance(op, graph.Conv | graph.Transpose):
                print(f"  {op.result.type} = {op.opname} {getattr(op, 'layout', op.attrs)}")
        print()

    outputs: list[Array] = []
    runs: dict[str, tuple[str, ...]] = {"last": (), "first": ("choose-layout",)}
    print("the tiles of the second convolution, the launches of a run, and its time:\n")
    for name, skip in runs.items():
        options = minicc.Options(target="avx2", skip=skip)
        graph_ = minicc.InferenceSession(model, options=options).module
        (*_, group, _) = groups(lower(graph_, options, stop="schedule"))
        made = lower(graph_, options)
        count = sum(1 for _ in program.launches(made.main.body))
        here = minicc.Options(threads=1, skip=skip)
        session = minicc.InferenceSession(model, options=here)
        outputs += session.run(None, {"x": x})
        taken = milliseconds(session.run, None, {"x": x})
        assert group.schedule is not None
        print(f"channels-{name:6} {dict(group.schedule.tiles)}  {count:2}  {taken:.3f} ms")
    close = np.allclose(outputs[0], outputs[1], rtol=1e-4, atol=1e-5)
    print(f"\nthe results are close: {close}")
    return 0 if close else 1


if __name__ == "__main__":
    sys.exit(main())
