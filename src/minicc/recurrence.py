"""Recurrent nodes over many steps, in pieces: each piece is compiled once and carries its states.

Mirrors: truncated unrolling in XLA's while loops with a body of several steps; cuDNN's persistent
kernels by chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from minicc.errors import UnsupportedError
from minicc.frontends.onnx.nested import LONGEST
from minicc.frontends.onnx.reader import Node
from minicc.ir.core import Array

_INPUTS = ("x", "w", "r", "b", "lengths", "h", "c", "p")
_OUTPUTS = ("y", "h_out", "c_out")
_COUNTS = {"RNN": 1, "GRU": 2, "LSTM": 3}  # activations of a direction
Run = Callable[[Node, Mapping[str, Array]], list[Array]]


def run_in_pieces(node: Node, values: Sequence[Any], run: Run) -> list[Array]:
    """The outputs of a node for its inputs.

    `run(node, feed)` gives the outputs of one compiled piece, whose inputs have plain names.
    """
    given = dict(zip(_INPUTS, values, strict=False))
    given = {name: v for name, v in given.items() if v is not None}
    batched = bool(node.integer("layout", 0))
    x = given.pop("x")
    if batched:
        x = np.moveaxis(x, 0, 1)
        given |= {k: np.moveaxis(given[k], 0, 1) for k in ("h", "c") if k in given}
    ways = {"reverse": (True,), "bidirectional": (False, True)}
    directions = ways.get(node.text("direction", "forward"), (False,))
    found = [
        _direction(_one_way(node, d, back), x, _own(given, d), back, run)
        for d, back in enumerate(directions)
    ]
    y, *ends = (
        np.concatenate(parts, axis=1 if k == 0 else 0)
        for k, parts in enumerate(zip(*found, strict=True))
    )
    if batched:
        return [np.ascontiguousarray(np.moveaxis(y, 2, 0))] + [np.moveaxis(e, 0, 1) for e in ends]
    return [y, *ends]


def _own(given: Mapping[str, Array], d: int) -> dict[str, Array]:
    """What one direction takes of the inputs: all but lengths have an axis of directions."""
    return {
        k: v if k == "lengths" else np.ascontiguousarray(v[d : d + 1]) for k, v in given.items()
    }


def _one_way(node: Node, d: int, backwards: bool) -> Node:
    attributes = dict(node.attributes)
    if node.text("direction", "forward") == "bidirectional":
        if {"activation_alpha", "activation_beta"} & set(attributes):
            raise UnsupportedError(
                "MC0229",
                f"{node.op} in two directions over more than {LONGEST} steps with parameters "
                "of activations",
                hint="write it as two nodes, one for each direction",
                where=node.name,
            )
        if "activations" in attributes:
            count = _COUNTS[node.op]
            attributes["activations"] = attributes["activations"][d * count : (d + 1) * count]
    attributes.pop("layout", None)
    attributes["direction"] = "reverse" if backwards else "forward"
    return replace(node, attributes=attributes)


def _direction(
    node: Node, x: Array, given: dict[str, Array], backwards: bool, run: Run
) -> list[Array]:
    """The outputs of one direction, Y put together from its pieces."""
    states = ("h", "c") if node.op == "LSTM" else ("h",)
    shape = (1, x.shape[1], given["r"].shape[2])
    for name in states:
        given.setdefault(name, np.zeros(shape, x.dtype))
    names = tuple(n if n in given or n == "x" else "" for n in _INPUTS)
    piece = replace(node, inputs=names, outputs=_OUTPUTS[: 1 + len(states)])
    starts = list(range(0, x.shape[0], LONGEST))
    made: dict[int, Array] = {}
    lengths = given.get("lengths")
    for start in reversed(starts) if backwards else starts:
        feed = {**given, "x": np.ascontiguousarray(x[start : start + LONGEST])}
        if lengths is not None:
            feed["lengths"] = np.clip(lengths - start, 0, LONGEST).astype(lengths.dtype)
        made[start], *ends = run(piece, feed)
        given.update(zip(states, ends, strict=True))
    return [np.concatenate([made[s] for s in starts]), *[given[name] for name in states]]
