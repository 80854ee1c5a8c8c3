"""A test of the onnx package through the interpreter; inputs that must be constants are such."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper
from tests.conformance.cases import Case
from tests.ops.test_onnx_ops import outputs_of, same

from minicc.errors import UnsupportedError
from minicc.frontends.onnx import import_model
from minicc.ir.core import Module


def agrees(case: Case) -> bool:
    """Whether minicc imports the model; fails where the result is wrong."""
    model = case.model
    module = imported(model, case.data[0][0])
    if module is None:
        return False
    for given, wanted in case.data:
        inputs = [numpy_helper.to_array(x) if isinstance(x, TensorProto) else x for x in given]
        named = zip([i.name for i in model.graph.input], inputs, strict=True)
        try:
            results = outputs_of(module, dict(named))
        except UnsupportedError:  # what data ask for is refused when they are known
            return False
        for got, expected in zip(results, wanted, strict=True):
            if not isinstance(got, np.ndarray):  # sequences are tests of conformance
                continue
            if isinstance(expected, TensorProto):
                expected = numpy_helper.to_array(expected)
            if got.dtype.kind in "fV" and got.dtype.itemsize >= 4:
                np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)
            else:
                same(got, np.asarray(expected))
    return True


def imported(model: ModelProto, given: Any) -> Module | None:
    """The module, with all inputs but the first as initialisers if need be; None if refused."""
    try:
        return import_model(model.SerializeToString())
    except UnsupportedError as error:
        if {part.code for part in error.parts} - {"MC0223", "MC0225"}:
            return None
    for first in (1, 0):
        changed = ModelProto()
        changed.CopyFrom(model)
        for value, array in list(zip(model.graph.input, given, strict=True))[first:]:
            changed.graph.initializer.append(numpy_helper.from_array(array, value.name))
        try:
            return import_model(changed.SerializeToString())
        except UnsupportedError:
            continue
    return None
