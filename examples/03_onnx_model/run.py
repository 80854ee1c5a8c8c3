"""An ONNX model: built node by node, opened as a session, run.

The session has the calls of ONNX Runtime. `run` may be asked for any tensor by its name, not only
for outputs; the batch is free, so each size of it is compiled when it is first seen.
"""

import re
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import minicc
from minicc.records import record_of


def model() -> onnx.ModelProto:
    """A layer with a ReLU, and the sum of each row: x[batch, 4] -> total[batch]."""
    weight = np.array([[1, 0, -1], [2, 1, 0], [0, -3, 1], [1, 1, 1]], np.float32)
    bias = np.array([1, 2, 3], np.float32)
    nodes = [
        helper.make_node("Gemm", ["x", "weight", "bias"], ["hidden"], "layer"),
        helper.make_node("Relu", ["hidden"], ["positive"], "relu"),
        helper.make_node("ReduceSum", ["positive", "axes"], ["total"], "sum", keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("total", TensorProto.FLOAT, ["batch"])],
        [
            numpy_helper.from_array(weight, "weight"),
            numpy_helper.from_array(bias, "bias"),
            numpy_helper.from_array(np.array([1], np.int64), "axes"),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(made, full_check=True)
    return made


def main() -> int:
    """Return 0 where the sums are those of the ReLU's rows."""
    # a path will do as well as bytes; the target is named so that all machines print the same
    session = minicc.InferenceSession(model().SerializeToString(), threads=1, target="x86-64")
    for arg in (*session.get_inputs(), *session.get_outputs()):
        print(f"{arg.name}: {arg.type} {arg.shape}")

    x = np.array([[1, 2, 3, 4], [-1, 0, 1, 2]], np.float32)
    (total,) = session.run(None, {"x": x})
    print(f"\ntotal of 2 rows: {total}")

    # A name from within: the part of the model before it is compiled for that.
    hidden, positive = session.run(["hidden", "positive"], {"x": x})
    print(f"\nhidden:\n{hidden}\npositive:\n{positive}")

    (three,) = session.run(["total"], {"x": np.ones((3, 4), np.float32)})
    print(f"\ntotal of 3 rows: {three}")

    # What is wrong with inputs is told at once, all of it.
    try:
        session.run(None, {"X": x, "y": x})
    except minicc.UserError as error:
        print(f"\nwrong inputs:\n{error}")

    # Times differ from run to run, and are left out here.
    print(f"\nreport:\n{re.sub(r'[0-9]+ ms', '... ms', session.report())}")
    print("\nwhat the importer and the session are in other systems:\n")
    print(record_of("minicc.frontends.onnx").head())
    print(record_of("minicc.api.session").head(), end="")
    return 0 if np.array_equal(total, positive.sum(axis=1)) else 1


if __name__ == "__main__":
    sys.exit(main())
