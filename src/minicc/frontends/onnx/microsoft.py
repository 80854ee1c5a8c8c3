"""The operators of ONNX Runtime's own domain, by family; importing one enters it into the table."""

from minicc.frontends.onnx import (
    host_microsoft,
    microsoft_activation,
    microsoft_attention,
    microsoft_bits,
    microsoft_blocked,
    microsoft_grouped,
    microsoft_linear,
    microsoft_more,
    microsoft_normalize,
    microsoft_qlinear,
    microsoft_quantize,
    microsoft_recurrent,
)

FAMILIES = (
    host_microsoft,
    microsoft_activation,
    microsoft_attention,
    microsoft_bits,
    microsoft_blocked,
    microsoft_grouped,
    microsoft_linear,
    microsoft_more,
    microsoft_normalize,
    microsoft_qlinear,
    microsoft_quantize,
    microsoft_recurrent,
)
