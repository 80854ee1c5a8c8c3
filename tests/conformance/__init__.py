"""The tests for backends that ship in the onnx package, in three forms."""
