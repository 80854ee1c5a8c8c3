"""The operators of ONNX's own domain, a module a family, and what only they share."""
