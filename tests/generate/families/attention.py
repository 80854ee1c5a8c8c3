"""Attention of com.microsoft: masks of all kinds, keys of before, caches of decoders."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generate.draft import MICROSOFT, Draft, Item
from tests.generate.families.operands import below, small, whole
from tests.generate.families.table import family
from tests.generate.source import F16, F32, I8, I32, U8


def _mask(
    draft: Draft, kinds: tuple[str, ...], batch: int, steps: int, seen: int, sparse: bool
) -> Item | None:
    """Which keys count: of each sentence, of each query, or where a sentence ends or begins.

    All queries see the first key unless the mask may be `sparse`: what is left of a row of which
    all is hidden is what the filter's rounding leaves.
    """
    source = draft.source
    kind = source.pick(kinds)
    if kind == "ends":
        return below(draft, seen + 1, (batch,), start=1)
    if kind == "both":
        ends = source.rng.integers(1, seen + 1, batch)
        starts = source.rng.integers(0, ends) if sparse else np.zeros(batch)
        return draft.fresh(np.concatenate([ends, starts]).astype(I32), 0.2)
    if not kind:
        return None
    shape = (batch, seen) if kind == "rows" else (batch, steps, seen)
    drawn = source.rng.integers(0, 2, shape)
    if not sparse:
        drawn[..., 0] = 1
    return draft.fresh(drawn.astype(I32), 0.2)


def _bias(draft: Draft, batch: int, heads: int, steps: int, seen: int) -> Item | None:
    """What is added to scores; of one sentence or head it may be for all of them."""
    source = draft.source
    if source.chance(0.6):
        return None
    return small(draft, source.pick((1, batch)), source.pick((1, heads)), steps, seen)


def _shared(draft: Draft, heads: int) -> tuple[dict[str, Any], bool]:
    """Attributes that most kinds of attention have, and whether a mask may hide all of a row."""
    source = draft.source
    filtered = source.pick((None, None, -3.0))
    how = {
        "num_heads": heads,
        "scale": source.pick((None, None, 0.3)),
        "mask_filter_value": filtered,
    }
    return how, filtered is not None


def _results(draft: Draft, kept: bool) -> int:
    """How many results there are: those that are kept must be, and the last is of no known type."""
    source = draft.source
    return 4 if source.chance(0.04) else 3 if kept else source.pick((1, 3))


@family
def self_attention(draft: Draft) -> None:
    """Attention of one input to itself, by weights that queries, keys and values share."""
    source = draft.source
    batch, steps, heads = source.count(1, 2), source.pick((1, 2, 5)), source.pick((1, 2, 3))
    width, size, past = source.pick((3, 8)), source.pick((1, 4, 8)), source.pick((None, None, 0, 3))
    kept = small(draft, 2, batch, heads, past, size) if past is not None else None
    of_values = size if kept or source.chance(0.7) else source.pick((2, 5))
    sizes = [heads * size, heads * size, heads * of_values]
    seen = steps + (past or 0)
    how, sparse = _shared(draft, heads)
    how |= {"unidirectional": source.pick((None, 0, 1))}
    if of_values != size or source.chance(0.2):
        how["qkv_hidden_sizes"] = sizes
    sparse &= not how["unidirectional"]
    # which ONNX Runtime does not have together with keys of before
    bias = None if kept and source.chance(0.9) else _bias(draft, batch, heads, steps, seen)
    draft.node(
        "Attention",
        [
            small(draft, batch, steps, width),
            small(draft, width, sum(sizes), constant=0.7),
            small(draft, sum(sizes), constant=0.7) if source.chance(0.7) else None,
            _mask(draft, ("", "ends", "both", "rows", "each"), batch, steps, seen, sparse),
            kept,
            bias,
        ],
        2 if kept or (of_values == size and source.chance(0.3)) else 1,
        domain=MICROSOFT,
        **how,
    )


@family
def quantized_attention(draft: Draft) -> None:
    """The same of bytes times bytes."""
    source = draft.source
    batch, steps, heads = source.count(1, 2), source.pick((1, 4)), source.pick((1, 2))
    width, size, past = source.pick((3, 8)), source.pick((4, 8)), source.pick((None, None, 0, 3))
    kind, seen = source.pick((U8, I8)), steps + (past or 0)
    columns = 3 * heads * size
    own = source.pick(((), (columns,)))
    how, sparse = _shared(draft, heads)
    how |= {"unidirectional": source.pick((None, 0, 1))}
    sparse &= not how["unidirectional"]
    kept = small(draft, 2, batch, heads, past, size) if past is not None else None
    zeros = source.chance(0.7)
    draft.node(
        "QAttention",
        [
            whole(draft, batch, steps, width),
            whole(draft, width, columns, kind=kind, constant=0.8),
            small(draft, columns, constant=0.7),
            draft.constant(np.array(0.01, F32)),
            draft.constant(source.rng.uniform(0.001, 0.01, own).astype(F32)),
            _mask(draft, ("", "ends", "rows"), batch, steps, seen, sparse),
            whole(draft, constant=1) if zeros else None,
            whole(draft, *own, kind=kind, constant=1) if zeros else None,
            kept,
        ],
        2 if kept else source.count(1, 2),
        domain=MICROSOFT,
        **how,
    )


@family
def cross_attention(draft: Draft) -> None:
    """Queries, keys and values of which each may come from elsewhere, with keys of before."""
    source = draft.source
    batch, steps, heads = source.count(1, 2), source.pick((1, 2, 5)), source.pick((1, 2))
    size, past = source.pick((4, 8)), source.pick((None, None, 0, 3))
    apart = past is None and source.chance(0.3)
    of_values = source.pick((size, 3)) if past is None and not apart else size
    new = source.pick((steps, 7)) if past is None else steps
    seen = new + (past or 0)
    if apart:
        k = small(draft, batch, heads, new, size)
        v = small(draft, batch, heads, new, of_values)
    else:
        k = small(draft, batch, new, heads * size)
        v = small(draft, batch, new, heads * of_values)
    bias = None
    if source.chance(0.4):
        bias = small(draft, heads * (2 * size + of_values), constant=0.7)
    how, sparse = _shared(draft, heads)
    how["unidirectional"] = source.pick((None, 0, 1)) if new == steps else None
    sparse &= not how["unidirectional"]
    kept = [
        None if past is None else small(draft, batch, heads, past, n) for n in (size, of_values)
    ]
    draft.node(
        "MultiHeadAttention",
        [
            small(draft, batch, steps, heads * size),
            k,
            v,
            bias,
            _mask(draft, ("", "ends", "rows", "each"), batch, steps, seen, sparse),
            _bias(draft, batch, heads, steps, seen),
            *kept,
        ],
        _results(draft, past is not None),
        domain=MICROSOFT,
        **how,
    )


@family
def masked_attention(draft: Draft) -> None:
    """Attention of one new token of each sentence, whose keys may be written into a cache."""
    source = draft.source
    beams = source.pick((1, 1, 2))
    batch, heads, size = beams * source.count(1, 2), source.pick((1, 2)), source.pick((4, 8))
    # ONNX Runtime has no other values, no cache that grows, and no heads side by side
    own = source.chance(0.05)
    of_values = source.pick((size, 3)) if own else size
    way = source.pick(("none", "grows") if own else ("shared", "shared", "crossed"))
    room = source.pick((4, 7))
    past = {"grows": source.count(0, 3), "shared": source.count(0, room - 1)}.get(way, 0)
    seen = source.pick((3, 6)) if way == "crossed" else past + 1
    how, sparse = _shared(draft, heads)
    q = small(draft, batch, 1, heads * size)
    k: Item | None = None
    v: Item | None = None
    if way == "crossed":
        k = small(draft, batch, heads, seen, size)
        v = small(draft, batch, heads, seen, of_values)
    elif own and source.chance(0.5):
        of_values = size
        q = small(draft, batch, 1, 3 * heads * size)
    else:
        k, v = small(draft, batch, 1, heads * size), small(draft, batch, 1, heads * of_values)
    extent = {"grows": past, "shared": room}.get(way)
    kept = [
        None if extent is None else small(draft, batch, heads, extent, n) for n in (size, of_values)
    ]
    length = width = before = None
    if way == "shared":
        how["past_present_share_buffer"] = 1
        length = draft.fresh(np.array([past], I32), 0.3)
        width = draft.fresh(np.array([beams], I32), 0.5)
        if beams > 1 or source.chance(0.3):
            before = below(draft, beams, (batch // beams, beams, room))
    bias = None
    if way != "crossed" and source.chance(0.3):
        bias = small(draft, heads * (2 * size + of_values), constant=0.7)
    mask = _mask(draft, ("", "rows"), batch, 1, seen, sparse)
    added = None if way == "crossed" else _bias(draft, batch, heads, 1, seen)
    inputs = [q, k, v, mask, added, *kept, length, width, before, bias]
    outputs = 1 if way == "crossed" else _results(draft, True)
    how["output_qk"] = 1 if outputs == 4 else None
    draft.node("DecoderMaskedMultiHeadAttention", inputs, outputs, domain=MICROSOFT, **how)


def _operands(
    draft: Draft, outer: tuple[int, int], heads: tuple[int, ...], size: int, kind: np.dtype[Any]
) -> list[Item | None]:
    """Queries, keys and values, each alone or all in the first."""
    if draft.source.chance(0.3):
        return [small(draft, *outer, sum(heads) * size, kind=kind), None, None]
    return [small(draft, *outer, n * size, kind=kind) for n in heads]


def _angles(draft: Draft, size: int, kind: np.dtype[Any], how: dict[str, Any]) -> list[Item | None]:
    """The cosines and sines of a rotation, if there is one."""
    if size < 16 or draft.source.chance(0.5):
        return [None, None]
    how |= {"do_rotary": 1, "rotary_interleaved": draft.source.pick((None, 0, 1))}
    # a part of each head may be turned alone, in eights
    turned = draft.source.pick((size, size, 16 if size == 32 else size))
    return [small(draft, 24, turned // 2, kind=kind, constant=0.8) for _ in range(2)]


@family
def grouped_attention(draft: Draft) -> None:
    """Attention of a decoder whose heads share keys, to a cache and sentences of any lengths."""
    source = draft.source
    kind = source.pick((F32, F32, F16))
    batch, steps, shared = source.count(1, 2), source.pick((1, 1, 2, 5)), source.pick((1, 2))
    heads, size = shared * source.pick((1, 3)), source.pick((8, 16, 32))
    past = source.pick((None, 0, 3, 9))
    first = not past or source.chance(0.3)
    if not first and steps > 1:
        batch = 1
    # a cache that is long enough stays as long as it is
    total = steps
    if past and not first:
        grows = source.chance(0.5) or past <= steps
        total = past + steps if grows else source.count(steps + 1, past)
    elif past and past < steps:
        past = 9
    how: dict[str, Any] = {"num_heads": heads, "kv_num_heads": shared}
    if first:
        whole_of = np.full(batch, steps)
        if source.chance(0.3):
            whole_of[1:] = source.count(1, steps)
    else:
        whole_of = source.rng.integers(steps, total + 1, batch)
        whole_of[0] = total
    qkv = _operands(draft, (batch, steps), (heads, shared, shared), size, kind)
    kept = [None if past is None else small(draft, batch, shared, past, size, kind=kind)
            for _ in range(2)]  # fmt: skip
    angles = _angles(draft, size, kind, how)
    places = None
    if angles[0] is not None and source.chance(0.3) and not first:
        line = whole_of[:, None] - steps + np.arange(steps)
        places = draft.fresh(line.astype(np.int64), 0.3)
    how |= {
        "scale": source.pick((None, 0.3)),
        "softcap": source.pick((None, None, 0.7)),
        "local_window_size": source.pick((None, None, -1, 1, 4)),
        "smooth_softmax": source.pick((None, None, 0, 1)),
        "qk_output": source.pick((None, None, 0, 1, 2)),
    }
    sink = small(draft, heads, kind=kind) if source.chance(0.2) else None
    if sink is not None:
        how["smooth_softmax"] = None
    bias = None
    if source.chance(0.3):
        bias = small(draft, source.pick((1, batch)), source.pick((1, heads)), steps, total,
                     kind=kind)  # fmt: skip
    lengths = [
        draft.fresh((whole_of - 1).astype(I32), 0.4),
        draft.fresh(np.array(total, I32), 0.4),
    ]
    outputs = 4 if how["qk_output"] else 3
    inputs = [*qkv, *kept, *lengths, *angles, places, bias, sink]
    made = draft.node("GroupQueryAttention", inputs, outputs, domain=MICROSOFT, **how)
    least = int(whole_of.min())
    if first and least < steps:
        # what a query in the padding sees is nobody's, and so is the padding's cache
        draft.hidden |= {item.name for item in made}
        for item, axis in zip(made, (1, 2, 2, 2), strict=False):
            draft.node("Gather", [item, draft.constant(np.arange(least))], exact=True, axis=axis)


def _layout(draft: Draft, layouts: int, blocks: int) -> list[Item]:
    """Which blocks of keys each block of queries sees: rows' ends, and columns, filled up by -1."""
    source = draft.source
    rows, columns = [], []
    for _ in range(layouts):
        seen = np.tril(source.rng.integers(0, 2, (blocks, blocks))) | np.eye(blocks, dtype=int)
        rows.append(np.concatenate([[0], np.cumsum(seen.sum(1))]))
        columns.append([k for row in seen for k in np.flatnonzero(row)])
    most = max(map(len, columns))
    full = np.array([line + [-1] * (most - len(line)) for line in columns])
    return [draft.fresh(np.array(v).astype(I32), 0.5) for v in (rows, full)]


@family
def sparse_attention(draft: Draft) -> None:
    """Attention to those blocks of keys that layouts name."""
    source = draft.source
    kind = source.pick((F32, F32, F16))
    batch, shared = source.count(1, 2), source.pick((1, 2))
    heads, size = shared * source.pick((1, 2)), source.pick((8, 16))
    blocks = source.count(1, 3)
    room, first = 16 * blocks, source.chance(0.5)
    steps = source.pick((1, 5, min(20, room))) if first else 1
    total = steps if first else source.count(1, room)
    how: dict[str, Any] = {
        "num_heads": heads,
        "kv_num_heads": shared,
        "sparse_block_size": 16,
        "scale": source.pick((None, 0.3)),
    }
    lengths = np.full(batch, total) if first else source.rng.integers(1, total + 1, batch)
    lengths[0] = total
    qkv = _operands(draft, (batch, steps), (heads, shared, shared), size, kind)
    kept = [small(draft, batch, shared, room, size, kind=kind) for _ in range(2)]
    layouts = source.pick([n for n in (1, heads) if heads % n == 0])
    ends = [draft.fresh(np.array([total], I32), 0.4), draft.fresh(lengths.astype(I32), 0.4)]
    angles: list[Item | None] = [None, None]
    if source.chance(0.4):
        how |= {"do_rotary": 1, "rotary_interleaved": source.pick((None, 0, 1))}
        angles = [small(draft, room, size // 2, kind=kind, constant=0.8) for _ in range(2)]
    inputs = [*qkv, *kept, *_layout(draft, layouts, blocks), *ends, *angles]
    draft.node("SparseAttention", inputs, 3, domain=MICROSOFT, **how)


@family
def position_bias(draft: Draft) -> None:
    """Biases of the distances between queries and keys, as they are or gated."""
    source = draft.source
    heads, steps = source.pick((1, 3)), source.pick((1, 2, 9))
    if source.chance(0.5):
        table = small(draft, source.pick((4, 8, 32)), heads, constant=0.5)
        ends = [draft.fresh(np.array([steps]), 0.7, fixed=True)] * 2
        draft.node(
            "RelativePositionBias",
            [table, *ends],
            domain=MICROSOFT,
            max_distance=source.pick((16, 128)),
            is_bidirectional=source.pick((None, 0, 1)),
        )
        return
    batch, size, gates = source.count(1, 2), source.pick((2, 8)), source.pick((2, 8))
    draft.node(
        "GatedRelativePositionBias",
        [
            small(draft, batch, steps, heads * size),
            small(draft, heads * size, constant=0.7),
            small(draft, 1, heads, steps, steps),
            small(draft, size, gates, constant=0.7),
            small(draft, gates, constant=0.7),
            small(draft, 1, heads, 1, 1, constant=0.7),
        ],
        domain=MICROSOFT,
        num_heads=heads,
    )
