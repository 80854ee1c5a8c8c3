"""Tokens on the host: texts cut into them, rows of them found, and paths through their costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.host.registry import host_operator
from minicc.frontends.onnx.host.text import compiled_pattern, texts
from minicc.frontends.onnx.model.reader import Node
from minicc.ir.core import Array

_START, _END = "\x02", "\x03"  # marks around the tokens of a text


@host_operator("com.microsoft.Tokenizer")
def tokenizer(node: Node, x: Array) -> Array:
    """The tokens of each text along a new axis, filled up with `pad_value`.

    Tokens are what `tokenexp` matches, or what stands between `separators`, each a pattern; a lone
    separator of no characters parts all characters. Tokens of fewer than `mincharnum` characters
    are left out, and `mark` puts a mark before the first token and after the last.
    """
    given = texts(x)
    separators = node.texts("separators")
    pattern = node.text("tokenexp", "")
    least = node.integer("mincharnum", 1)
    if pattern and not separators:
        found = [_matches(compiled_pattern(pattern), text) for text in given.flat]
    elif separators == ("",):
        found = [list(text) for text in given.flat]
    else:
        found = [_between([compiled_pattern(s) for s in separators], text) for text in given.flat]
    rows = [[token for token in tokens if len(token) >= least] for tokens in found]
    if node.integer("mark", 0):
        rows = [[_START, *tokens, _END] for tokens in rows]
    width = max(map(len, rows), default=0)
    out = np.full((len(rows), width), node.text("pad_value", "#"), object)
    for row, tokens in zip(out, rows, strict=True):
        row[: len(tokens)] = tokens
    return out.reshape((*given.shape, width))


def _matches(pattern: Any, text: str) -> list[str]:
    """What a pattern matches from left to right, without matches of no characters."""
    return [found.group() for found in pattern.finditer(text) if found.group()]


def _between(separators: list[Any], text: str) -> list[str]:
    """What is left of a text between what the separators match, one after the other."""
    parts = [text]
    for separator in separators:
        cut: list[str] = []
        for part in parts:
            at = 0
            for found in separator.finditer(part):
                if found.end() > found.start():
                    cut.append(part[at : found.start()])
                    at = found.end()
            cut.append(part[at:])
        parts = [part for part in cut if part]
    return parts


@host_operator("com.microsoft.BifurcationDetector")
def bifurcation(
    node: Node, source: Array, current: Array, before: Array, predicted: Array | None = None
) -> tuple[Array, Array]:
    """Tokens with those that were predicted as the source has them, and where that goes on.

    It does after the only place in the source where the longest possible row of last tokens stands;
    -1 where it stands nowhere or at several places.
    """
    tokens = current
    if predicted is not None:
        start = int(before.reshape(-1)[0])
        expected = source[start:] if 0 <= start <= len(source) else None
        if expected is None or len(predicted) != len(expected) + 1:
            raise ValueError(f"{len(predicted)} tokens for those of {len(source)} from {start} on")
        other = np.flatnonzero(predicted[:-1] != expected)
        tokens = np.concatenate(
            [current, predicted[: (other[0] if other.size else len(expected)) + 1]]
        )
    place = -1
    for n in range(node.integer("min_ngram_size", 1), node.integer("max_ngram_size", 3) + 1):
        if n > min(len(tokens), len(source)):
            break
        rows = np.lib.stride_tricks.sliding_window_view(source, n)
        found = np.flatnonzero((rows == tokens[len(tokens) - n :]).all(axis=1))
        if not found.size:
            break
        place = int(found[0]) + n
        if place >= len(source):
            break
        if found.size > 1:
            place = -1
    return tokens, np.full_like(before, place)


@host_operator("com.microsoft.DynamicTimeWarping")
def time_warping(node: Node, x: Array) -> Array:
    """The cheapest path through a matrix of costs, from its first element to its last: [2, steps].

    A step comes from the left, and costs that, unless the diagonal or above costs less than both
    others.
    """
    costs = x.reshape(x.shape[-2:])
    total = np.full((costs.shape[0] + 1, costs.shape[1] + 1), np.inf, np.float32)
    total[0, 0] = 0
    steps: dict[tuple[int, int], tuple[int, int]] = {}
    for i, j in np.ndindex(costs.shape):
        diagonal, above, left = total[i, j], total[i, j + 1], total[i + 1, j]
        if diagonal < min(above, left):
            before = i - 1, j - 1
        elif above < min(diagonal, left):
            before = i - 1, j
        else:
            before = i, j - 1
        total[i + 1, j + 1] = total[before[0] + 1, before[1] + 1] + costs[i, j]
        steps[i, j] = before
    at, path = (costs.shape[0] - 1, costs.shape[1] - 1), []
    while min(at) >= 0:
        path.append(at)
        at = steps[at]
    return np.array(path[::-1], np.int32).T
