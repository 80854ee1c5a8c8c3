"""Texts cut into tokens, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.host import host_operator
from minicc.frontends.onnx.host_text import compiled_pattern, texts
from minicc.frontends.onnx.reader import Node
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
    separators = node.attributes.get("separators") or ()
    pattern = node.text("tokenexp", "")
    least = node.integer("mincharnum", 1)
    if pattern and not separators:
        found = [_matches(compiled_pattern(pattern), text) for text in given.flat]
    elif tuple(separators) == ("",):
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
