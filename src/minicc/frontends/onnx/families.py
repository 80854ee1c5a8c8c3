"""The families of operators; importing one enters its operators into the tables.

Those here at the top are in most models or stand in both tables. The others are imported when a
model first has an operator that is in no table yet, one after another until it is, since importing
all of them takes longer than importing many a model.
"""

from __future__ import annotations

import importlib

from minicc.frontends.onnx import (
    host_choice,
    host_sequence,
    host_text,
    ops_activation,
    ops_cast,
    ops_constant,
    ops_elementwise,
    ops_linear,
    ops_movement,
    ops_normalize,
    ops_reduce,
    ops_window,
)
from minicc.frontends.onnx.host import HOST, WHERE
from minicc.frontends.onnx.nested import CONTROL, TWINS
from minicc.frontends.onnx.registry import OPERATORS, SEARCHES

# By domain, the most frequent first. What both tables hold is entered by families joined with "+".
_LATER: dict[str, tuple[str, ...]] = {
    "": (
        *("ops_pad", "ops_indexing", "ops_random", "ops_rearrange", "ops_resize"),
        *("ops_quantize", "ops_transposed", "ops_recurrent", "ops_cumulative", "ops_einsum"),
        *("ops_attention", "ops_sampling", "ops_regions", "ops_sequence", "ops_text", "ops_bits"),
        *("ops_signal", "ops_loss", "ops_experimental", "host_regions", "host_image"),
        "microsoft_normalize",
    ),
    "ai.onnx.ml": ("ops_ml+host_ml", "ops_ml_trees", "ops_ml_linear"),
    "ai.onnx.preview.training": ("ops_training", "ops_gradient"),
    "com.microsoft": (
        *("microsoft_normalize", "microsoft_attention", "microsoft_activation"),
        *("microsoft_linear", "microsoft_quantize", "microsoft_qlinear", "microsoft_bits"),
        *("microsoft_grouped", "microsoft_recurrent", "microsoft_experts", "microsoft_states"),
        *("microsoft_decoding", "microsoft_more", "host_tokens", "host_microsoft"),
        *("microsoft_generation", "microsoft_ngrams"),
    ),
    "com.microsoft.nchwc": ("microsoft_blocked",),
}


def enter(op: str) -> None:
    """Have an operator in the tables where any family has it; one that says where in both."""
    for family in _LATER.get(op.rpartition(".")[0], ()):
        alone = op in HOST and op not in WHERE
        if alone or op in OPERATORS or op in CONTROL or op in TWINS or op in SEARCHES:
            return
        _import(family)


def enter_all() -> None:
    """Have the operators of all families in the tables."""
    for families in _LATER.values():
        for family in families:
            _import(family)


def _import(family: str) -> None:
    for name in family.split("+"):
        importlib.import_module(f"{__package__}.{name}")
