"""minicc as a backend of the `onnx` package, for its test suite and for tools that take one.

rep = minicc.onnx_backend.prepare(model)
outputs = rep.run(inputs)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from minicc.api.session import InferenceSession

_NEWEST_IR = 10


class MiniccRep(BackendRep):
    """A compiled model that takes its inputs by position or by name."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session
        self.input_names = [i.name for i in session.get_inputs()]
        self.output_names = [o.name for o in session.get_outputs()]

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """The outputs in order, which may also be read by name."""
        feed = self._feed(inputs)
        outputs = self.session.run(None, feed)
        result: tuple[Any, ...] = namedtupledict("Outputs", self.output_names)(*outputs)
        return result

    def _feed(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, dict):
            return {str(name): value for name, value in inputs.items()}
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        return dict(zip(self.input_names, inputs, strict=True))


class MiniccBackend(Backend):
    """Compiles models for this machine's processor; there is no other device."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **options: Any) -> MiniccRep:
        """Compile a model; options are those of `InferenceSession`."""
        return MiniccRep(InferenceSession(model.SerializeToString(), **options))

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **options: Any
    ) -> tuple[Any, ...]:
        """The outputs of a model."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node for arrays; `opset_version` says which opset it is of."""
        from onnx import defs

        opset = int(options.pop("opset_version", defs.onnx_opset_version()))
        names = [name for name in node.input if name]
        arrays = [np.asarray(x) for x in inputs]
        given = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(x.dtype), list(x.shape)
            )
            for name, x in zip(names, arrays, strict=True)
        ]
        # what the outputs are is inferred; a type must stand there all the same
        made = [
            helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None)
            for name in node.output
            if name
        ]
        graph = helper.make_graph([node], "node", given, made)
        opsets = [helper.make_opsetid(node.domain, opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_NEWEST_IR)
        return cls.run_model(model, arrays, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is this machine's processor."""
        return device.partition(":")[0] == "CPU"


prepare = MiniccBackend.prepare
run_model = MiniccBackend.run_model
run_node = MiniccBackend.run_node
supports_device = MiniccBackend.supports_device
