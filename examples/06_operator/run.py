"""Adding an operator: what one has to write for an op that the compiler does not know.

An op is a class with a type rule and its meaning in NumPy; one entry in a table lowers it, one in
another imports it from ONNX. Printing, parsing, verifying, folding, fusion and machine code come
with these. The op here is `smoothstep`, 0 below `low`, 1 above `high`, and smooth between.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import minicc
from minicc.compile.compiler import lower
from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.registry import operator
from minicc.ir import arith
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Op, RunRegion, Value
from minicc.ir.interpret import run
from minicc.ir.text.printer import print_module
from minicc.ir.types import F32, TensorType
from minicc.ir.verify import verify
from minicc.passes.structured.generics import dims, generic, identity
from minicc.passes.structured.lower_to_structured import LOWER


class Smoothstep(Op, name="graph.smoothstep"):
    """t * t * (3 - 2 * t) with t = (x - low) / (high - low), kept between 0 and 1."""

    x: Value  # an operand
    low: float  # attributes: all that is no value and no region
    high: float

    def infer(self) -> tuple[TensorType, ...]:
        """The type rule; the builder calls it, and the verifier again."""
        if self.x.type.dtype is not F32:
            raise TypeError(f"{self.opname} is not defined on {self.x.type.dtype}")
        if not self.low < self.high:
            raise ValueError(f"{self.opname} wants low < high, not {self.low} and {self.high}")
        return (self.x.type,)

    def evaluate(self, run: RunRegion, *args: Any) -> tuple[Any, ...]:
        """The meaning; the interpreter and constant folding call it."""
        x = np.asarray(args[0])
        low, width = np.float32(self.low), np.float32(self.high - self.low)
        t = np.clip((x - low) / width, np.float32(0), np.float32(1))
        return (t * t * (np.float32(3) - np.float32(2) * t),)


def lower_smoothstep(b: Builder, op: Any, operands: tuple[Value, ...]) -> Value:
    """A loop over all elements, with the formula as its body."""
    shape = op.result.type.shape

    def body(inner: Builder, elements: Sequence[Value]) -> Value:
        def number(value: float) -> Value:
            return inner.emit(arith.Constant, value=Literal(np.float32(value)))

        t = inner.emit(arith.Sub, elements[0], number(op.low))
        t = inner.emit(arith.Div, t, number(op.high - op.low))
        t = inner.emit(arith.Max, t, number(0))
        t = inner.emit(arith.Min, t, number(1))
        slope = inner.emit(arith.Sub, number(3), inner.emit(arith.Mul, number(2), t))
        return inner.emit(arith.Mul, inner.emit(arith.Mul, t, t), slope)

    same = identity(len(shape))
    return generic(b, operands, dims(shape), [same, same], shape, body)


# The table of lowerings is keyed by class. A level is the list of dialects that may stand at it,
# and the name `graph.smoothstep` puts the op into one of the graph level's.
LOWER[Smoothstep] = lower_smoothstep


@operator("com.example.Smoothstep", attributes="low high")
def smoothstep(ctx: Context, node: Node, x: Value) -> Value:
    """The importer's entry: the parameters after `node` are the operator's inputs."""
    return ctx.emit(Smoothstep, x, low=node.number("low", 0.0), high=node.number("high", 1.0))


def model(low: float, high: float) -> bytes:
    """y = smoothstep(x + x), with the operator from a domain of its own."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"], "twice"),
        helper.make_node(
            "Smoothstep", ["twice"], ["y"], "step", domain="com.example", low=low, high=high
        ),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [9])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [9])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    graph = helper.make_graph(nodes, "step", [x], [y])
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return bytes(made.SerializeToString())


def main() -> int:
    """Return 0 where the machine code agrees with `evaluate`."""
    session = minicc.InferenceSession(model(low=-1.0, high=3.0), threads=1)
    verify(session.module)
    print(print_module(session.module))

    # `merge` has never heard of the op, and joins its body with the addition.
    merged = lower(session.module, session.options, stop="merge")
    print(print_module(merged, locations=False))

    x = np.linspace(-1, 2, 9, dtype=np.float32)
    (want,), (got,) = run(session.module, [x]), session.run(None, {"x": x})
    print("2 * x      ", " ".join(f"{v:6.3f}" for v in 2 * x))
    print("smoothstep ", " ".join(f"{v:6.3f}" for v in got))
    close = np.allclose(got, want, rtol=0, atol=1e-6)
    print(f"machine code agrees with evaluate: {close}")

    # The type rule speaks at import already, with the node's name.
    try:
        minicc.InferenceSession(model(low=2.0, high=1.0))
    except minicc.UserError as error:
        print(f"\n{error}")
    return 0 if close else 1


if __name__ == "__main__":
    sys.exit(main())
