"""The modules of ONNX Runtime's `capi` that programs import."""
