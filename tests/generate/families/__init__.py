"""The table of what can be drawn: each family adds one node or a few to a draft.

A family is a function of the draft alone: it takes values that are there or new ones, and adds a
node by `Draft.node`. `Unfit` says that nothing of it fits here. A family that is drawn more often
stands in the table more often.
"""

from __future__ import annotations

from tests.generate.families import (
    attention,
    classical,
    contributed,
    control,
    elementwise,
    embeddings,
    experts,
    images,
    indexing,
    microsoft,
    movement,
    normalization,
    products,
    quantization,
    quantized,
    rarer,
    recurrent,
    reductions,
    rounds,
    sampling,
    sequences,
    shapes,
    states,
    texts,
    various,
    windows,
)
from tests.generate.families.table import FAMILIES, Family

_MODULES = (
    attention,
    classical,
    contributed,
    control,
    elementwise,
    embeddings,
    experts,
    images,
    indexing,
    microsoft,
    movement,
    normalization,
    products,
    quantization,
    quantized,
    rarer,
    recurrent,
    reductions,
    rounds,
    sampling,
    sequences,
    shapes,
    states,
    texts,
    various,
    windows,
)

__all__ = ["FAMILIES", "Family"]
