"""What threads share: transforms of tiles are worth their scalars, and have channels to share."""

from __future__ import annotations

import numpy as np
import pytest

from minicc.compile.compiler import lower
from minicc.ir import graph, program
from minicc.ir.arith import identity_of
from minicc.ir.build import Builder
from minicc.ir.core import Value
from minicc.ir.types import F32, TensorType
from minicc.options import Options
from tests.stages.programs import constant, module

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("extent", [55, 56], ids=["overlapping", "even"])
def test_all_of_a_winograd_convolution_is_shared(extent: int) -> None:
    """Tiles that overlap are written in order, so that threads share their channels."""

    weights = RNG.standard_normal((64, 16, 3, 3)).astype(np.float32)
    pads = {"low": (0, 0, 1, 1), "high": (0, 0, 1, 1), "value": identity_of("add", F32)}

    def body(b: Builder, x: Value) -> list[Value]:
        padded, w = b.emit(graph.Pad, x, **pads), constant(b, weights)
        return [b.emit(graph.Conv, padded, w, strides=(1, 1), dilations=(1, 1), groups=1)]

    made = module(body, TensorType(F32, (1, 16, extent, extent)))
    lowered = lower(made, Options(target="avx512"))
    launches = list(program.launches(lowered.main.body))
    assert len(launches) >= 4  # two transforms around products, and the border
    assert {launch.kernel for launch in launches if not launch.split} <= {"fill"}
