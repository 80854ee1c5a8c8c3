"""The families of operators that few models have; importing this enters their operators.

They are those of ai.onnx.ml and of texts, of ONNX Runtime's own domain, and what is rare in ONNX's.
"""

from minicc.frontends.onnx import (
    host_image,
    host_microsoft,
    host_ml,
    host_regions,
    host_tokens,
    microsoft_activation,
    microsoft_attention,
    microsoft_bits,
    microsoft_blocked,
    microsoft_experts,
    microsoft_grouped,
    microsoft_linear,
    microsoft_more,
    microsoft_normalize,
    microsoft_qlinear,
    microsoft_quantize,
    microsoft_recurrent,
    microsoft_states,
    ops_experimental,
    ops_loss,
    ops_ml,
    ops_ml_linear,
    ops_ml_trees,
    ops_signal,
    ops_training,
)

ENTERED = True
