"""The operators of ONNX Runtime's own domain, `com.microsoft`."""
