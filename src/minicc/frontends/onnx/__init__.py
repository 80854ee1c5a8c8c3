"""ONNX models as modules of the graph dialect."""

from minicc.frontends.onnx.importer import import_model

__all__ = ["import_model"]
