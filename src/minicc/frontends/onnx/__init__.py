"""ONNX models as modules of the graph dialect.

Mirrors: onnx-mlir's and Relax's ONNX importers, torch-mlir's TorchOnnxToTorch.
"""

from minicc.frontends.onnx.importer import import_model

__all__ = ["import_model"]
