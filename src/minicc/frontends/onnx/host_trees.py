"""Ensembles of decision trees on the host: all rows and trees go down one level at a time.

Mirrors: ONNX's TreeEnsemble.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.onnx.host import host_operator
from minicc.frontends.onnx.reader import Node
from minicc.frontends.onnx.tensors import array_of
from minicc.ir.core import Array

_COMPARE: dict[int, Any] = {
    0: np.less_equal,
    1: np.less,
    2: np.greater_equal,
    3: np.greater,
    4: np.equal,
    5: np.not_equal,
}
_MEMBER = 6


@host_operator("ai.onnx.ml.TreeEnsemble")
def tree_ensemble(node: Node, x: Array) -> Array:
    """The leaves that rows reach, put together by target."""

    def integers(name: str) -> Array:
        return np.array(node.integers(name) or (), np.int64)

    splits = _tensor(node, "nodes_splits")
    modes = _tensor(node, "nodes_modes").astype(np.int64)
    features = integers("nodes_featureids")
    missing = integers("nodes_missing_value_tracks_true")
    missing = missing if len(missing) else np.zeros(len(modes), np.int64)
    ways = np.stack([integers("nodes_falsenodeids"), integers("nodes_truenodeids")])
    ends = np.stack([integers("nodes_falseleafs"), integers("nodes_trueleafs")])
    members = _members(node, modes)
    out = np.full((len(x), node.integer("n_targets", 1)), 0.0)
    votes: list[tuple[Array, Array]] = []
    rows = np.arange(len(x))
    for root in integers("tree_roots"):
        at = np.full(len(x), root)
        done = np.zeros(len(x), bool)
        depth = 0
        while not done.all():
            depth += 1
            if depth > len(modes):
                raise ValueError(f"the tree whose root is {root} leads back to itself")
            here = np.where(done, root, at)
            value = x[rows, features[here]]
            chosen = np.zeros(len(x), bool)
            for mode, compare in _COMPARE.items():
                chosen |= (modes[here] == mode) & compare(value, splits[here])
            for which in np.unique(here[modes[here] == _MEMBER]):
                chosen |= (here == which) & np.isin(value, members[which])
            chosen |= np.isnan(value) & (missing[here] != 0)
            side = chosen.astype(np.int64)
            ended = ends[side, here] != 0
            at = np.where(done, at, ways[side, here])
            done |= ended
        votes.append((integers("leaf_targetids")[at], _tensor(node, "leaf_weights")[at]))
    return _post(node, _joined(node, out, votes)).astype(x.dtype)


def _tensor(node: Node, name: str) -> Array:
    return np.asarray(array_of(node.attributes[name], node.name))


def _members(node: Node, modes: Array) -> dict[int, Array]:
    """The values that each node of that mode looks for; NaN parts those of different nodes."""
    if node.attributes.get("membership_values") is None:
        return {}
    values = _tensor(node, "membership_values")
    parts = np.split(values, np.flatnonzero(np.isnan(values)))
    which = np.flatnonzero(modes == _MEMBER)
    return {int(k): p[~np.isnan(p)] for k, p in zip(which, parts, strict=False)}


def _joined(node: Node, out: Array, votes: list[tuple[Array, Array]]) -> Array:
    """The trees' leaves by target: their mean, sum, minimum or maximum; 0 where there are none."""
    way = node.integer("aggregate_function", 1)
    rows = np.arange(len(out))
    if way in (2, 3):
        none = np.inf if way == 2 else -np.inf
        best = np.full_like(out, none)
        for targets, weights in votes:
            (np.minimum if way == 2 else np.maximum).at(best, (rows, targets), weights)
        return np.where(best == none, 0, best)
    for targets, weights in votes:
        np.add.at(out, (rows, targets), weights)
    return out / len(votes) if way == 0 else out


def _post(node: Node, x: Array) -> Array:
    """What is done to scores at the end."""
    way = node.integer("post_transform", 0)
    if way in (1, 3):
        power = np.exp(x - x.max(axis=1, keepdims=True))
        power = np.where(x == 0, 0, power) if way == 3 else power
        return np.asarray(power / power.sum(axis=1, keepdims=True))
    if way == 2:
        return np.asarray(1 / (1 + np.exp(-x)))
    return x
