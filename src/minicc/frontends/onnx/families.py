"""The families of operators; importing one enters its operators into the tables.

Those here at the top are in most models or stand in both tables. The others are imported when a
model first has an operator that is in no table yet, one after another until it is, since importing
all of them takes longer than importing many a model.
"""

from __future__ import annotations

import importlib

from minicc.frontends.onnx.host import choice, sequence, text
from minicc.frontends.onnx.host.registry import HOST, WHERE
from minicc.frontends.onnx.nested import CONTROL, TWINS
from minicc.frontends.onnx.ops import (
    activation,
    cast,
    constant,
    elementwise,
    linear,
    movement,
    normalize,
    reduce,
    window,
)
from minicc.frontends.onnx.registry import OPERATORS, SEARCHES

# By domain, the most frequent first. What both tables hold is entered by families joined with "+".
_LATER: dict[str, tuple[str, ...]] = {
    "": (
        *("ops.pad", "ops.indexing", "ops.random+host.random", "ops.rearrange", "ops.resize"),
        *("ops.quantize", "ops.transposed", "ops.recurrent", "ops.cumulative", "ops.einsum"),
        *("ops.attention", "ops.sampling", "ops.regions", "ops.sequence", "ops.text", "ops.bits"),
        *("ops.signal", "ops.loss", "ops.experimental", "host.regions", "host.image"),
        "microsoft.normalize",
    ),
    "ai.onnx.ml": ("ml.arithmetic+host.ml", "ml.trees", "ml.linear"),
    "ai.onnx.preview.training": ("ops.training", "ops.gradient"),
    "com.microsoft": (
        *("microsoft.normalize", "microsoft.attention", "microsoft.activation"),
        *("microsoft.linear", "microsoft.quantize", "microsoft.qlinear", "microsoft.bits"),
        *("microsoft.grouped", "microsoft.recurrent", "microsoft.experts", "microsoft.states"),
        *("microsoft.decoding", "microsoft.more", "host.tokens", "host.microsoft"),
        *("microsoft.search", "microsoft.ngrams"),
    ),
    "com.microsoft.nchwc": ("microsoft.blocked",),
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
