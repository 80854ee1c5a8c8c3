"""The families of operators; importing one enters its operators into the tables.

Those that few models have are imported when a model has an operator that the others lack, since an
import takes longer than many a model's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicc.frontends.onnx import (
    host_choice,
    host_sequence,
    host_text,
    ops_activation,
    ops_attention,
    ops_bits,
    ops_cast,
    ops_constant,
    ops_cumulative,
    ops_einsum,
    ops_elementwise,
    ops_indexing,
    ops_linear,
    ops_movement,
    ops_normalize,
    ops_pad,
    ops_quantize,
    ops_random,
    ops_rearrange,
    ops_recurrent,
    ops_reduce,
    ops_refused,
    ops_regions,
    ops_resize,
    ops_sampling,
    ops_sequence,
    ops_text,
    ops_transposed,
    ops_window,
)
from minicc.frontends.onnx.host import HOST
from minicc.frontends.onnx.registry import OPERATORS
from minicc.later import Later

if TYPE_CHECKING:
    from minicc.frontends.onnx import rare
else:
    rare = Later("minicc.frontends.onnx.rare")


def enter(op: str) -> None:
    """Have an operator in a table where any family has it."""
    if op not in OPERATORS and op not in HOST:
        enter_all()


def enter_all() -> None:
    """Have the operators of all families in the tables."""
    assert rare.ENTERED
