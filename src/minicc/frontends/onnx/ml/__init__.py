"""The operators of classical machine learning, `ai.onnx.ml`, that are arithmetic on tensors."""
