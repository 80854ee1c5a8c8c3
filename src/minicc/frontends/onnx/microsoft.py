"""The operators of ONNX Runtime's own domain, by family; importing one enters it into the table."""

from minicc.frontends.onnx import (
    microsoft_activation,
    microsoft_attention,
    microsoft_grouped,
    microsoft_linear,
    microsoft_normalize,
)

FAMILIES = (
    microsoft_activation,
    microsoft_attention,
    microsoft_grouped,
    microsoft_linear,
    microsoft_normalize,
)
