"""ONNX models as modules of the graph dialect.

Mirrors: onnx-mlir's and Relax's ONNX importers, torch-mlir's TorchOnnxToTorch. onnx-mlir and
torch-mlir have ONNX's own operators as a level before; Relax's and ours go to primitives at once.
"""

from minicc.frontends.onnx.importer import import_model

__all__ = ["import_model"]
