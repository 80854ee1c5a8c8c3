"""The operators of ai.onnx.ml and of texts, by family; importing one enters it into the table."""

from minicc.frontends.onnx import host_ml, host_tokens, ops_ml, ops_ml_linear, ops_ml_trees

FAMILIES = (host_ml, host_tokens, ops_ml, ops_ml_linear, ops_ml_trees)
