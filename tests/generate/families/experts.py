"""Mixtures of experts, and weights of a few bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.generate.draft import MICROSOFT, Draft, Item
from tests.generate.families.operands import below, positive, small, whole
from tests.generate.families.table import family
from tests.generate.source import F16, F32, I32, I64, U8


def _router(draft: Draft, rows: int, experts: int, kind: np.dtype[Any] = F32) -> Item:
    """Ratings that lie apart, for rounding must not decide which are the best."""
    drawn = draft.source.rng.permuted(np.tile(np.arange(experts) / 2, (rows, 1)), axis=1)
    return draft.fresh(drawn.astype(kind), 0.1)


def _of_experts(draft: Draft, experts: int) -> tuple[dict[str, Any], int]:
    """What mixtures have in common, and how many rows a first layer has for each of the second."""
    source = draft.source
    name = source.pick((None, "relu", "gelu", "silu", "identity", "swiglu", "swiglu"))
    how: dict[str, Any] = {
        "k": source.count(1, min(2, experts)),
        "activation_type": name,
        "normalize_routing_weights": source.pick((None, 0, 1)),
    }
    if name == "swiglu":
        how |= {
            "swiglu_fusion": 1,
            "activation_alpha": source.pick((None, 1.702)),
            "activation_beta": source.pick((None, 1.0)),
            "swiglu_limit": source.pick((None, 0.5)),
        }
    return how, 2 if name == "swiglu" else 1


@family
def mixture(draft: Draft) -> None:
    source = draft.source
    shape = source.pick(((1,), (5,), (2, 3)))
    experts, width, inner = source.pick((1, 2, 4)), source.pick((4, 8)), source.pick((4, 16))
    how, fused = _of_experts(draft, experts)
    biases = source.chance(0.5)
    draft.node(
        "MoE",
        [
            small(draft, *shape, width),
            _router(draft, int(np.prod(shape)), experts),
            small(draft, experts, fused * inner, width, constant=0.7),
            small(draft, experts, fused * inner, constant=0.7) if biases else None,
            small(draft, experts, width, inner, constant=0.7),
            small(draft, experts, width, constant=0.7) if biases else None,
        ],
        domain=MICROSOFT,
        **how,
    )


@family
def quantized_mixture(draft: Draft) -> None:
    source = draft.source
    shape = source.pick(((1,), (5,), (2, 3)))
    kind = source.pick((F32, F32, F16))
    experts, width, inner = source.pick((1, 2, 4)), source.pick((16, 32)), source.pick((16, 32))
    how, fused = _of_experts(draft, experts)
    bits, block = source.pick((2, 4, 4, 8)), source.pick((None, None, 16))
    how |= {"expert_weight_bits": bits, "block_size": block}
    zeros, biases = source.chance(0.3), source.chance(0.5)

    def layer(rows: int, depth: int) -> list[Item | None]:
        """Weights, their scales, a bias, and their zero points."""
        blocks = () if block is None else (depth // block,)
        drawn = source.rng.uniform(0.01, 0.05, (experts, rows, *blocks)).astype(kind)
        packed = -(-blocks[0] * bits // 8) if blocks else 0
        own = (experts, rows, packed) if blocks else (experts, -(-rows * bits // 8))
        return [
            whole(draft, experts, rows, depth * bits // 8, constant=1),
            draft.constant(drawn),
            small(draft, experts, rows, kind=kind, constant=0.7) if biases else None,
            whole(draft, *own, constant=1) if zeros else None,
        ]

    w1, w2 = layer(fused * inner, width), layer(width, inner)
    rows = int(np.prod(shape))
    chosen = None
    if source.chance(0.2):
        chosen = draft.fresh(source.rng.uniform(0.1, 1, (rows, experts)).astype(kind), 0.1)
    x = small(draft, *shape, width, kind=kind)
    inputs = [x, _router(draft, rows, experts, kind), *w1[:3], *w2[:3], None, None, None]
    inputs += [w1[3], w2[3], None, chosen]
    draft.node("QMoE", inputs, domain=MICROSOFT, **how)


@family
def four_bits(draft: Draft) -> None:
    """A product with weights of four bits that stand for floats."""
    source = draft.source
    rows, k, n = (
        source.pick(((1,), (5,), (2, 3))),
        source.pick((16, 24, 33)),
        source.pick((1, 5, 16)),
    )
    block = source.pick((16, 32, 64))
    draft.node(
        "MatMulBnb4",
        [
            small(draft, *rows, k),
            whole(draft, (n * k + 1) // 2, constant=1),
            positive(draft, -(-n * k // block), constant=1),
        ],
        domain=MICROSOFT,
        K=k,
        N=n,
        block_size=block,
        quant_type=source.pick((0, 1)),
        transB=source.pick((None, 1)),
    )


@family
def gathered_blocks(draft: Draft) -> None:
    """Rows of a table of few bits, at indices of which some may lie outside."""
    source = draft.source
    kind = source.pick((U8, U8, np.dtype(ml_dtypes.uint4), np.dtype(ml_dtypes.int4)))
    bits = source.pick((2, 4, 4, 8)) if kind == U8 else 4
    block, rank = 16, source.pick((2, 3))
    extents = [source.pick((1, 3)) for _ in range(rank)]
    axis = rank - 1 if kind == U8 else source.count(0, rank - 1)
    along = 0 if kind == U8 else source.pick([k for k in range(rank) if k != axis])
    extents[axis] = source.pick((16, 32, 40))
    blocks = [-(-n // block) if k == axis else n for k, n in enumerate(extents)]
    if kind == U8:
        data = whole(draft, *extents[:-1], extents[-1] * bits // 8, constant=1)
        zeros = whole(draft, *blocks[:-1], -(-blocks[-1] * bits // 8), constant=1)
    else:
        low = -8 if kind == np.dtype(ml_dtypes.int4) else 0
        data, zeros = (
            draft.constant(source.rng.integers(low, low + 16, shape).astype(kind))
            for shape in (extents, blocks)
        )
    count = extents[along]
    shape = source.pick(((), (3,), (2, 2)))
    beyond = int(source.chance(0.2))
    index = below(draft, count + beyond, shape, start=-count, kind=source.pick((I32, I64)))
    real = source.pick((F32, F16))
    draft.node(
        "GatherBlockQuantized",
        [
            data,
            index,
            positive(draft, *blocks, kind=real, constant=1),
            zeros if source.chance(0.5) else None,
        ],
        domain=MICROSOFT,
        bits=bits if kind == U8 or source.chance(0.3) else None,
        block_size=block,
        gather_axis=along,
        quantize_axis=source.pick((axis, axis - rank)),
    )
