"""Winograd's F(4x4, 3x3) for the hand-written kernel; the matrices are the compiler's own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from minicc.ir.graph.minimal_filters import (
    TAPS,
    Filter,
    Form,
    Matrix,
    as_array,
    share,
)
from minicc.ir.graph.minimal_filters import derive as derive_filter

__all__ = ["INPUTS", "OUTPUTS", "Form", "Matrix", "derive", "share", "transform_weights"]
OUTPUTS = 4
INPUTS = OUTPUTS + TAPS - 1


def derive() -> Filter:
    """The matrices of F(4x4, 3x3)."""
    return derive_filter(OUTPUTS)


def transform_weights(
    weights: NDArray[np.float32], matrix: Matrix, panel: int
) -> NDArray[np.float32]:
    """Weights [oc, ic, r, r] to [oc / panel, n * n, ic, panel], computed in float64."""
    g = as_array(matrix)
    u = np.einsum("ai,bj,ocij->abco", g, g, weights.astype(np.float64))
    n, _, ic, oc = u.shape
    packed = u.reshape(n * n, ic, oc // panel, panel).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(packed, np.float32)
