"""Elements of a register tile's rows are loaded where they are multiplied, not all before."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from minicc.backends.llvm.compile import emit
from minicc.compile.compiler import lower
from minicc.frontends.onnx.importer import import_model
from minicc.options import Options
from minicc.target import TARGETS


@pytest.mark.parametrize("rows", [500, "rows"])
@pytest.mark.parametrize("target", ["avx512", "avx2"])
def test_a_row_waits_until_it_is_multiplied(rows: int | str, target: str) -> None:
    """Also where weights are fetched ahead between, and where rows have addresses of their own.

    With all rows loaded first LLVM has fewer registers than values, and moves accumulators about
    in each round.
    """
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", rows, 384])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = numpy_helper.from_array(np.ones((384, 384), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "test", [given], [result], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    module = import_model(model.SerializeToString())
    texts = emit(lower(module, Options(target=target)), TARGETS[target], "nothing")
    loops = [
        block
        for text in texts.values()
        for block in re.split(r"\n(?=[\w.]+:\n)", text)
        if "@llvm.prefetch" in block and block.count("@llvm.fma") > 4
    ]
    assert loops
    for block in loops:
        before, *between = block.split("@llvm.fma")
        assert all(part.count("= load float,") <= 1 for part in [before, *between])
