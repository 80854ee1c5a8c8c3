"""What the ONNX specification forbids and what it has deprecated, node by node.

ONNX's own checker stops at the first mistake of a model. Here it is shown each value and each node
by itself, and the whole model only where these are sound.

Errors: `UserError` MC0170 what ONNX's checker refuses, MC0171 an operator that is deprecated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from minicc.errors import UserError
from minicc.frontends.onnx.model.facts import all_nodes, graphs_of, operator_of, opsets_of

_INSTEAD = {
    "GroupNormalization": "use opset 21 or later, where scale and bias are by channel",
    "Scatter": "use ScatterElements, which does the same",
    "Upsample": "use Resize",
    "ai.onnx.ml.TreeEnsembleClassifier": "use ai.onnx.ml.TreeEnsemble",
    "ai.onnx.ml.TreeEnsembleRegressor": "use ai.onnx.ml.TreeEnsemble",
}
_EXTERNAL = 1  # TensorProto.DataLocation
_INFERENCE = "Inference error(s)"
_HINT = "export it again, or change it as the operator's page on onnx.ai says"


def forbidden(proto: Any, whole: str | bytes) -> Iterator[UserError]:
    """What the checker refuses; `whole` is the model's path or its bytes."""
    from onnx import checker

    context = checker.C.CheckerContext()
    context.ir_version = proto.ir_version
    context.opset_imports = opsets_of(proto)
    found = list(_alone(proto.graph, context))
    if not found:
        full = partial(checker.check_model, full_check=True)  # types and shapes, too
        found += _refused(full, whole, where="the model")
    yield from found


def _alone(graph: Any, context: Any) -> Iterator[UserError]:
    from onnx import checker

    for value in (*graph.input, *graph.output):
        yield from _refused(checker.check_value_info, value, context, where=value.name)
    for tensor in graph.initializer:
        # the bytes of a large one are not here, the reader compares them with its shape
        here = tensor.data_location != _EXTERNAL and tensor.raw_data != b""
        if here:
            yield from _refused(checker.check_tensor, tensor, context, where=tensor.name)
    for name, node in all_nodes(graph):
        if not graphs_of(node):  # which use values around them, that the checker can't see here
            yield from _refused(checker.check_node, node, context, where=name)


def _refused(check: Callable[..., None], *given: Any, where: str) -> Iterator[UserError]:
    from onnx import checker, shape_inference

    kinds = (checker.ValidationError, shape_inference.InferenceError, ValueError, OSError)
    try:
        check(*given)
    except kinds as error:
        if str(error).count(_INFERENCE) > 1:
            return  # in the body of an operator that is a function, which ONNX wrote
        text = str(error).strip().partition("\n")[0].removesuffix(".")
        yield UserError("MC0170", text, hint=_HINT, where=where)


def deprecated(proto: Any) -> Iterator[UserError]:
    """The nodes whose operators are deprecated in the opset that the model uses."""
    from onnx import defs

    opsets = opsets_of(proto)
    for name, node in all_nodes(proto.graph):
        operator = operator_of(node)
        domain = operator.rpartition(".")[0]
        opset = opsets.get(domain, 0)
        if not opset or not defs.has(node.op_type, opset, domain):
            continue
        schema = defs.get_schema(node.op_type, opset, domain)
        if schema.deprecated:
            text = f"{operator} is deprecated since opset {schema.since_version}"
            hint = _INSTEAD.get(operator, "see the operator's page on onnx.ai")
            yield UserError("MC0171", text, hint=hint, where=name)
