"""ONNX models as modules of the graph dialect.

Mirrors: onnx-mlir's and Relax's ONNX importers, torch-mlir's TorchOnnxToTorch. Those stand before a
dialect of ONNX's own operators; ours leaves none behind and goes to primitives at once.
"""

from minicc.frontends.onnx.importer import import_model

__all__ = ["import_model"]
