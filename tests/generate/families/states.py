"""What models of linear attention and of several streams have: states, gates and hashes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generate.draft import MICROSOFT, Draft, Item
from tests.generate.families.operands import below, positive, small, widened
from tests.generate.families.table import family
from tests.generate.source import BF16, F16, F32, I32, I64

_KINDS = (F32, F32, F32, F16, BF16)


@family
def linear_attention(draft: Draft) -> None:
    """Sums of keys times values that decay, in ONNX's form or that of com.microsoft."""
    source = draft.source
    batch, steps = source.count(1, 2), source.pick((1, 2, 5))
    shared = source.pick((1, 2, 4))
    heads, keys = shared * source.pick((1, 2)), shared
    if source.chance(0.3):
        # ONNX Runtime repeats the heads of queries and of keys
        heads, keys = source.pick((1, shared)), source.pick((1, shared))
    size, width = source.pick((1, 4)), source.pick((1, 4, 8))
    rule = source.pick((None, "linear", "gated", "delta", "gated_delta"))
    gated = rule in (None, "gated", "gated_delta")
    rated = rule in (None, "delta", "gated_delta")
    past = small(draft, batch, shared, size, width) if source.chance(0.6) else None
    decay = rate = None
    if gated:
        drawn = source.rng.uniform(-1, 0, (batch, steps, shared * source.pick((1, size))))
        decay = draft.fresh(drawn.astype(F32), 0.15)
    if rated:
        rate = draft.fresh(
            source.rng.uniform(0, 1, (batch, steps, source.pick((1, shared)))).astype(F32), 0.15
        )
    draft.node(
        "LinearAttention",
        [
            small(draft, batch, steps, heads * size),
            small(draft, batch, steps, keys * size),
            small(draft, batch, steps, shared * width),
            past,
            decay,
            rate,
        ],
        2,
        domain=MICROSOFT,
        q_num_heads=heads,
        kv_num_heads=shared,
        update_rule=rule,
        scale=source.pick((None, 0.0, 0.5)),
        chunk_size=source.pick((None, 2, 64)),
    )


@family
def causal_states(draft: Draft) -> None:
    """Convolutions of steps so far, with channels first or last and taps apart."""
    source = draft.source
    batch, steps, taps = source.count(1, 2), source.count(1, 5), source.pick((1, 2, 4))
    apart = source.pick((None, 1, 2))
    last = source.pick((None, 0, 1))
    channels = source.pick(((1,), (4,), (2, 3))) if last else (source.pick((1, 4)),)
    count, reach = int(np.prod(channels)), (taps - 1) * (apart or 1)

    def laid(length: int) -> tuple[int, ...]:
        return (batch, length, *channels) if last else (batch, *channels, length)

    draft.node(
        "CausalConvWithState",
        [
            small(draft, *laid(steps)),
            small(draft, count, 1, taps, constant=0.7),
            small(draft, count, constant=0.7) if source.chance(0.5) else None,
            small(draft, *laid(reach)) if source.chance(0.5) else None,
        ],
        2,
        domain=MICROSOFT,
        activation=source.pick((None, "none", "silu", "swish")),
        dilation=apart,
        channels_last=last,
        ndim=source.pick((None, 1)),
    )


@family
def three_positions(draft: Draft) -> None:
    """Rotations by angles of three positions a step."""
    source = draft.source
    kind = source.pick(_KINDS[:4])
    batch, steps, heads, size = source.count(1, 2), source.pick((1, 3)), source.pick((1, 2)), 16
    half = source.pick((8, 8, 4))
    flat = source.chance(0.5)
    sections = source.pick(([half, 0, 0], [half // 2, half // 4, half // 4], [2, half - 3, 1]))
    layout = source.pick((None, 0, 1))
    if layout:
        # each of the last two takes every third angle
        sections = [half - 2, 1, 1]
    shape = (batch, steps, heads * size) if flat else (batch, heads, steps, size)
    draft.node(
        "MRotaryEmbedding",
        [
            small(draft, *shape, kind=kind),
            below(draft, 9, (3, batch, steps), kind=I64),
            *(small(draft, 9, half, kind=kind, constant=0.7) for _ in range(2)),
        ],
        domain=MICROSOFT,
        mrope_section=sections,
        mrope_layout=layout,
        interleaved=source.pick((None, 0, 1)),
        num_heads=heads if flat or half < 8 else None,
        rotary_embedding_dim=2 * half if half < 8 else None,
    )


@family
def gates(draft: Draft) -> None:
    """Gates of linear attention, of sums, and of what is normalised."""
    source = draft.source
    op = source.pick(
        ("LinearAttentionGate", "GatedAdd", "GatedRMSNorm", "EngramGate", "ScaledSiLU")
    )
    kind = source.pick(_KINDS if op != "GatedAdd" else _KINDS[:4])
    batch, steps, width = source.count(1, 2), source.pick((1, 3)), source.pick((1, 4, 8))
    shape, outputs = (batch, steps, width), 1
    how: dict[str, Any] = {}
    x = small(draft, *shape, kind=kind)
    inputs: list[Item | None] = [x]
    if op == "LinearAttentionGate":
        inputs += [small(draft, width, constant=0.7) for _ in range(2)]
        if source.chance(0.6):
            inputs, outputs = [*inputs, small(draft, *shape, kind=kind)], 2
    elif op == "GatedAdd":
        inputs += [small(draft, *shape, kind=kind), small(draft, batch, steps, 1, kind=kind)]
    elif op == "GatedRMSNorm":
        groups = source.pick([n for n in (1, 2, 4) if width % n == 0])
        inputs += [positive(draft, width // groups, kind=kind), small(draft, *shape, kind=kind)]
        how = {
            "activation": source.pick((None, "silu", "swish", "sigmoid")),
            "epsilon": source.pick((None, 0.01)),
        }
    elif op == "EngramGate":
        kind = source.pick((F32, F32, F16))
        branches = source.pick((1, 3))
        inputs = [small(draft, batch, steps, branches, width, kind=kind) for _ in range(2)]
        inputs += [small(draft, batch, steps, width, kind=kind)]
        count = source.count(2, 3)
        inputs += [positive(draft, branches, width, kind=kind) for _ in range(count)]
        how, outputs = {"epsilon": source.pick((None, 0.01))}, count - 1
    else:
        factor = source.pick((None, F32, F16))
        inputs += [] if factor is None else [draft.fresh(np.array(1.5, factor), 0.5)]
        how = {"alpha": source.pick((None, 0.5))}
    widened(draft, draft.node(op, inputs, outputs, domain=MICROSOFT, **how), kind)


@family
def branches(draft: Draft) -> None:
    """Streams beside one another: normalised, mixed into one, and one mixed into them."""
    source = draft.source
    kind, other = source.pick(_KINDS), source.pick(_KINDS)
    outer = source.pick(((2,), (1, 3), (2, 2)))
    count, width = source.pick((1, 2, 4)), source.pick((1, 5, 8))
    flat = source.chance(0.5)
    whole = (*outer, count * width) if flat else (*outer, count, width)
    how: dict[str, Any] = {"num_branches": count if flat else source.pick((None, 0))}
    x = small(draft, *whole, kind=kind)
    op = source.pick(("BranchwiseRMSNorm", "HyperConnectionPreMix", "HyperConnectionPostMix"))
    one = source.pick(((*outer, count), (*outer, count, 1), (*outer, count, width)))
    if op == "BranchwiseRMSNorm":
        own = source.pick((None, (count * width,), (count, width), (width,)))
        inputs = [x] if own is None else [x, positive(draft, *own, kind=other)]
        how["epsilon"] = source.pick((None, 0.01))
    elif op == "HyperConnectionPreMix":
        inputs = [x, small(draft, *one, kind=other)]
        how["reduction_scale"] = source.pick((None, 0.5))
    else:
        inputs = [x, small(draft, *outer, width, kind=kind), small(draft, *one, kind=other)]
        if source.chance(0.6):
            inputs.append(small(draft, *outer, count, count, kind=other))
    widened(draft, draft.node(op, inputs, domain=MICROSOFT, **how), kind)


@family
def hashed_tokens(draft: Draft) -> None:
    """Hashes of the last few tokens before each, of sentences or of requests in a row."""
    source = draft.source
    kind = source.pick((I32, I64))
    grams, heads = source.pick((2, 3, 4)), source.pick((1, 2))
    batch, steps = source.count(1, 3), source.pick((1, 2, 6))
    columns = (grams - 1) * heads
    packed = source.chance(0.5)
    if packed:
        # each request has a token
        batch = min(batch, steps)
    inner = np.sort(source.rng.permutation(np.arange(1, max(steps, 1)))[: batch - 1])
    starts = np.concatenate([[0], inner, [steps]])
    shape = (steps,) if packed else (batch, steps)
    segments = older = None
    past = below(draft, 9, (batch, grams - 1), kind=kind) if source.chance(0.5) else None
    if source.chance(0.4):
        drawn = np.sort(source.rng.integers(0, 3, shape), axis=-1)
        segments = draft.fresh(drawn.astype(I32), 0.2)
        if packed and past is not None:
            older = below(draft, 2, (batch, grams - 1))
    end = draft.fresh(np.array(source.count(0, 8), kind), 0.5) if source.chance(0.5) else None
    offsets = below(draft, 99, (columns,), kind=kind, constant=0.7) if source.chance(0.5) else None
    tables = [
        draft.fresh((source.rng.integers(0, 5000, grams) * 2 + 1).astype(kind), 0.7),
        below(draft, 40, (columns,), start=1, kind=kind, constant=0.7),
    ]
    inputs: list[Item | None] = [below(draft, 9, shape, kind=kind), *tables]
    if packed:
        inputs.append(draft.fresh(starts.astype(I32), 0.3))
    inputs += [past, offsets, end, segments, older]
    draft.node(
        "VarlenNGramHashMapping" if packed else "NGramHashMapping",
        inputs,
        3 if packed and segments else source.count(1, 2),
        exact=True,
        domain=MICROSOFT,
        max_ngram_size=grams,
        n_head_per_ngram=heads,
        pad_id=source.count(0, 8),
        reset_on_eos=source.pick((None, 0, 1)),
    )
