"""Embeddings of words, and what generation does with words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.generate.draft import MICROSOFT, Draft, Item
from tests.generate.families.operands import below, plain, positive, scales, small, whole
from tests.generate.families.table import family
from tests.generate.source import F32, I8, I32, I64, U8


def _of_known_sizes(draft: Draft, items: Iterable[Item | None]) -> None:
    """Leave the dimensions of inputs numbers, which ONNX Runtime wants to know."""
    draft.fixed |= {item.name for item in items if item is not None}


@family
def embeddings(draft: Draft) -> None:
    """Embeddings of words, places and segments, added and normalised."""
    source = draft.source
    batch, steps, width = source.count(1, 2), source.pick((1, 4)), source.pick((4, 8))
    shape = (batch, steps)
    segments = source.chance(0.6)
    ids = below(draft, 9, shape)
    kinds = below(draft, 2, shape) if segments else None
    mask = None
    if source.chance(0.5):
        lengths = source.rng.integers(1, steps + 1, (batch, 1))
        mask = draft.fresh((np.arange(steps) < lengths).astype(I32), 0.1)
    epsilon = source.pick((0.01, 0.1))
    if source.chance(0.5):
        counts = (9, 6, 2) if segments else (9, 6)
        tables: list[Item | None] = [plain(draft, n, width, constant=0.8) for n in counts]
        tables += [] if segments else [None]
        ends = [positive(draft, width), small(draft, width)]
        at = None
        if source.chance(0.4):
            at = below(draft, 6, source.pick((shape, (1, steps))))
        inputs: list[Item | None] = [ids, kinds, *tables, *ends, mask, at]
        how: dict[str, Any] = {"epsilon": epsilon, "mask_index_type": source.pick((None, 1))}
        _of_known_sizes(draft, [*tables, *ends])
        outputs = source.count(2, 3)
        draft.node("EmbedLayerNormalization", inputs, outputs, domain=MICROSOFT, **how)
        return
    kind = source.pick((U8, I8))
    there = [True, True, segments, True, True]
    extents = [(9, width), (6, width), (2, width), (width,), (width,)]
    pairs = list(zip(extents, there, strict=True))
    parts = [whole(draft, *n, kind=kind, constant=0.8) if given else None for n, given in pairs]
    factors = [scales(draft) if given else None for given in there]
    zeros = [whole(draft, kind=kind, constant=1) if given else None for given in there]
    inputs = [ids, kinds, *parts, mask, *factors, *zeros]
    _of_known_sizes(draft, parts)
    draft.node("QEmbedLayerNormalization", inputs, 2, domain=MICROSOFT, epsilon=epsilon)


@family
def letters(draft: Draft) -> None:
    """Embeddings of words by their letters, and rows of a table."""
    source = draft.source
    if source.chance(0.3):
        index = below(draft, 5, source.shape(), kind=I64)
        draft.node("TorchEmbedding", [plain(draft, 5, 3), index], exact=True, domain=MICROSOFT)
        return
    count, length, width = source.pick((1, 3)), source.pick((4, 7)), source.pick((1, 2, 3))
    size, made = source.pick((2, 4)), source.pick((1, 5))
    words = source.rng.integers(1, 9, (count, length))
    # ONNX Runtime leaves the memory as it was where a word has no letters
    ends = source.rng.integers(1, length + 1, (count, 1))
    words[np.arange(length) >= ends] = 0
    sizes: dict[str, Any] = {
        "conv_window_size": width,
        "char_embedding_size": size,
        "embedding_size": made,
    }
    draft.node(
        "WordConvEmbedding",
        [
            draft.fresh(words.astype(I32), 0.1),
            small(draft, made, 1, width, size, constant=0.8),
            small(draft, made, constant=0.8),
            small(draft, 9, size, constant=0.8),
        ],
        domain=MICROSOFT,
        **(sizes if source.chance(0.6) else {}),
    )


@family
def said_before(draft: Draft) -> None:
    """What must not be said again, what goes on as before, and the cheapest way to align."""
    source = draft.source
    op = source.pick(("NGramRepeatBlock", "BifurcationDetector", "DynamicTimeWarping"))
    if op == "NGramRepeatBlock":
        batch, steps = source.count(1, 2), source.pick((1, 3, 7))
        inputs: list[Item | None] = [
            below(draft, 3, (batch, steps), kind=I64),
            plain(draft, batch, 5),
        ]
        draft.node(op, inputs, exact=True, domain=MICROSOFT, ngram_size=source.count(1, 4))
    elif op == "BifurcationDetector":
        words, start = source.pick((2, 6)), source.count(0, 2)
        sources = source.rng.integers(0, 3, words)
        inputs = [draft.fresh(sources, 0.2), below(draft, 3, (source.count(1, 4),), kind=I64)]
        inputs.append(draft.fresh(np.array([start]), 0.4))
        if source.chance(0.7):
            expected = np.append(sources[start:], 1)
            other = source.rng.integers(0, 3, expected.size)
            kept = source.rng.random(expected.size) < 0.7
            inputs.append(draft.fresh(np.where(kept, expected, other), 0.2))
        how: dict[str, Any] = {
            "min_ngram_size": source.pick((None, 1)),
            "max_ngram_size": source.pick((None, 2, 4)),
        }
        draft.node(op, inputs, 2, exact=True, domain=MICROSOFT, **how)
    else:
        shape = (source.count(1, 4), source.count(1, 5))
        # of different costs, for equal ones go any way
        costs = source.rng.permutation(int(np.prod(shape))).reshape(shape) * 1.37
        outer = source.pick((shape, (1, *shape)))
        draft.node(op, [draft.fresh(costs.reshape(outer).astype(F32), 0.2)], domain=MICROSOFT)
