"""The language of tiles, for kernels by hand: `import minicc.tile as tl`; see docs/kernels.md."""

from minicc.frontends.trace.tiles.language import (
    alloc,
    arange,
    cdiv,
    dot,
    ds,
    erf,
    fma,
    full,
    load,
    num_programs,
    prefetch,
    program_id,
    range,
    store,
    trans,
    zeros,
)
from minicc.frontends.trace.tiles.tracing import Spec

__all__ = [
    "Spec",
    "alloc",
    "arange",
    "cdiv",
    "dot",
    "ds",
    "erf",
    "fma",
    "full",
    "load",
    "num_programs",
    "prefetch",
    "program_id",
    "range",
    "store",
    "trans",
    "zeros",
]
