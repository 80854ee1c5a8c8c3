"""Decision trees as tables: what the attributes of the three operators say, in one form.

A node is a number: leaves come first, then the nodes that compare. All comparisons are written as
one of three, with their branches exchanged where need be, and a test for membership as a chain of
tests for equality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ml.common import numbers, required
from minicc.frontends.onnx.model.reader import Node
from minicc.ir.core import Array

LEQ, LT, EQ = 0, 1, 2
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_GTE, _GT, _EQ, _NEQ, _MEMBER = 2, 3, 4, 5, 6
_MOST_NODES = 1 << 29


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees: where they begin, what nodes compare, where they lead, what leaves vote for.

    `branches` [M,2] has for each node the one to go to where the comparison holds and where not;
    a leaf leads to itself. `missing` says where NaN counts as if it held. A vote is a leaf, a
    target and a weight. `reached` are pairs of a tree and a leaf that it may lead to.
    """

    roots: Array
    features: Array
    splits: Array
    modes: Array
    missing: Array
    branches: Array
    leaves: int
    votes: tuple[Array, Array, Array]
    depth: int
    reached: Array


def nodes_forest(ctx: Context, node: Node, votes: str, element: Any) -> Forest:
    """The trees of a classifier or regressor; `votes` is what its leaves' attributes begin with."""
    trees, names = _ids(ctx, node, "nodes_treeids"), _ids(ctx, node, "nodes_nodeids")
    keys = _keys(ctx, trees, names)
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    if np.any(ranked[1:] == ranked[:-1]):
        raise ctx.wrong("two nodes of a tree have the same number")

    def at(tree: Array, number: Array, what: str) -> Array:
        wanted = _keys(ctx, tree, number)
        place = np.minimum(np.searchsorted(ranked, wanted), max(len(ranked) - 1, 0))
        if len(wanted) and not (len(ranked) and np.array_equal(ranked[place], wanted)):
            raise ctx.wrong(f"its {what} name nodes that are not there")
        return order[place] if len(ranked) else place

    modes = _modes(ctx, node, len(keys))
    leaf = modes < 0
    ways = [_ids(ctx, node, f"nodes_{side}nodeids", len(keys)) for side in ("true", "false")]
    inner = np.flatnonzero(~leaf)
    place = np.empty(len(keys), np.int64)  # leaves come first
    place[leaf], place[~leaf] = np.arange(leaf.sum()), leaf.sum() + np.arange(len(inner))
    branches = [place[at(trees[inner], way[inner], "branches")] for way in ways]
    splits = required(ctx, node, "nodes_values", element)
    missing = numbers(node, "nodes_missing_value_tracks_true", np.int64)
    missing = np.zeros(len(keys), np.int64) if missing is None or not len(missing) else missing
    features = _ids(ctx, node, "nodes_featureids", len(keys))
    if len(splits) != len(keys) or len(missing) != len(keys):
        raise ctx.wrong(f"its lists of {len(keys)} nodes are of unlike lengths")
    first = np.flatnonzero(np.append(True, trees[1:] != trees[:-1])[: len(trees)])
    leaves, targets, weights = _votes(ctx, node, votes, element)
    voting = at(_ids(ctx, node, f"{votes}_treeids", len(leaves)), leaves, "leaves")
    known = leaf[voting]
    return _forest(
        ctx,
        place[first],
        (features[inner], splits[inner], modes[inner], missing[inner]),
        np.stack(branches, axis=1) if len(inner) else np.zeros((0, 2), np.int64),
        int(leaf.sum()),
        (place[voting[known]], targets[known], weights[known]),
    )


def ensemble_forest(ctx: Context, node: Node, element: Any) -> Forest:
    """The trees of a TreeEnsemble."""
    modes = required(ctx, node, "nodes_modes", np.int64)
    splits = required(ctx, node, "nodes_splits", element)
    count = len(modes)
    missing = numbers(node, "nodes_missing_value_tracks_true", np.int64)
    missing = np.zeros(count, np.int64) if missing is None or not len(missing) else missing
    features = _ids(ctx, node, "nodes_featureids", count)
    weights, targets = (
        required(ctx, node, "leaf_weights", element),
        _ids(ctx, node, "leaf_targetids"),
    )
    if len(splits) != count or len(missing) != count or len(weights) != len(targets):
        raise ctx.wrong("its lists of nodes or of leaves are of unlike lengths")
    if np.any((modes < 0) | (modes > _MEMBER)):
        raise ctx.wrong(f"its nodes_modes are not all from 0 to {_MEMBER}")
    leaves = len(weights)
    branches = np.empty((count, 2), np.int64)
    for k, side in enumerate(("true", "false")):
        ends = _ids(ctx, node, f"nodes_{side}leafs", count) != 0
        to = _ids(ctx, node, f"nodes_{side}nodeids", count)
        if np.any((to < 0) | (to >= np.where(ends, leaves, count))):
            raise ctx.wrong(f"its nodes_{side}nodeids name nodes or leaves that are not there")
        branches[:, k] = np.where(ends, to, leaves + to)
    roots = _ids(ctx, node, "tree_roots")
    if np.any((roots < 0) | (roots >= count)):
        raise ctx.wrong(f"its tree_roots are not all below {count}")
    nodes = (features, splits, modes, missing)
    if np.any(modes == _MEMBER):
        nodes, branches = _chained(ctx, node, nodes, branches, leaves, element)
    votes = (np.arange(leaves), targets, weights)
    return _forest(ctx, leaves + roots, nodes, branches, leaves, votes)


def _ids(ctx: Context, node: Node, name: str, count: int | None = None) -> Array:
    found = np.array(node.integers(name) or (), np.int64)
    if count is not None and len(found) != count:
        raise ctx.wrong(f"its attribute {name} has {len(found)} entries, and {count} belong there")
    return found


def _keys(ctx: Context, trees: Array, names: Array) -> Array:
    """One number for each pair of a tree and a node of it."""
    if len(trees) != len(names):
        raise ctx.wrong("its lists of nodes are of unlike lengths")
    both = np.concatenate([trees, names])
    if both.size and (both.min() < 0 or both.max() >= 1 << 31):
        raise ctx.wrong("the numbers of its trees and nodes are not all from 0 to 2**31 - 1")
    return trees * (1 << 31) + names


def _modes(ctx: Context, node: Node, count: int) -> Array:
    given = node.attributes.get("nodes_modes", ())
    known = {name: k for k, name in enumerate(_MODES)} | {"LEAF": -1}
    if not isinstance(given, tuple) or len(given) != count or not {*given} <= {*known}:
        raise ctx.wrong(f"its nodes_modes are not {count} of {', '.join(known)}")
    return np.array([known[mode] for mode in given], np.int64)


def _votes(ctx: Context, node: Node, votes: str, element: Any) -> tuple[Array, Array, Array]:
    """The leaves' numbers within their trees, their targets, their weights."""
    leaves = _ids(ctx, node, f"{votes}_nodeids")
    targets = _ids(ctx, node, f"{votes}_ids", len(leaves))
    weights = required(ctx, node, f"{votes}_weights", element)
    if len(weights) != len(leaves):
        raise ctx.wrong(f"its {votes}_weights are {len(weights)} for {len(leaves)} leaves")
    return leaves, targets, weights


Nodes = tuple[Array, Array, Array, Array]


def _chained(
    ctx: Context, node: Node, nodes: Nodes, branches: Array, leaves: int, element: Any
) -> tuple[Nodes, Array]:
    """The same with each test for membership as tests for equality, one after the other."""
    values = required(ctx, node, "membership_values", element)
    ends = np.flatnonzero(np.isnan(values))
    which = np.flatnonzero(nodes[2] == _MEMBER)
    if len(ends) < len(which):
        raise ctx.wrong(f"its membership_values are {len(ends)} sets for {len(which)} nodes")
    lists = [list(column) for column in nodes]
    ways = [list(pair) for pair in branches]
    features, splits, modes, missing = lists
    for k, members in zip(which, np.split(values, ends), strict=False):
        # a set begins with the NaN that ends the one before; of no member it never holds
        found = members[~np.isnan(members)]
        at, other = int(k), ways[k][1]
        modes[at], splits[at] = _EQ, found[0] if len(found) else np.nan
        for value in found[1:]:
            ways[at] = [ways[at][0], leaves + len(modes)]
            features.append(features[k])
            splits.append(value)
            modes.append(_EQ)
            missing.append(0)
            at = len(modes) - 1
            ways.append([ways[k][0], other])
    made = (
        np.array(features, np.int64),
        np.array(splits, element),
        np.array(modes, np.int64),
        np.array(missing, np.int64),
    )
    return made, np.array(ways, np.int64)


def _forest(
    ctx: Context,
    roots: Array,
    nodes: Nodes,
    branches: Array,
    leaves: int,
    votes: tuple[Array, Array, Array],
) -> Forest:
    """Trees in one form: with three kinds of comparisons, and leaves that lead to themselves."""
    features, splits, modes, missing = nodes
    if leaves + len(modes) >= _MOST_NODES:
        raise ctx.too_large()
    holds = missing != 0
    turned = np.isin(modes, (_GTE, _GT, _NEQ))
    # what NaN does once the branches are exchanged; it is unequal to all in any case
    holds = np.where(modes == _NEQ, False, np.where(turned, ~holds, holds))
    branches = np.where(turned[:, None], branches[:, ::-1], branches)
    kinds = np.array([LEQ, LT, LT, LEQ, EQ, EQ])[modes] if len(modes) else modes
    ends = np.repeat(np.arange(leaves)[:, None], 2, axis=1)
    whole = np.concatenate([ends, branches])
    depth, reached = _walked(ctx, roots, whole, leaves)
    empty = np.zeros(leaves, np.int64)
    return Forest(
        roots,
        np.concatenate([empty, features]),
        np.concatenate([empty.astype(splits.dtype), splits]),
        np.concatenate([empty + (kinds[0] if len(kinds) else LEQ), kinds]),
        np.concatenate([empty != 0, holds]),
        whole,
        leaves,
        votes,
        depth,
        reached,
    )


def _walked(ctx: Context, roots: Array, branches: Array, leaves: int) -> tuple[int, Array]:
    """The steps of the longest way down, and which leaves each tree has; MC0127 for a circle."""
    at = np.stack([np.arange(len(roots)), roots], axis=1)
    depth, found = 0, [at[at[:, 1] < leaves]]
    at = at[at[:, 1] >= leaves]
    while len(at):
        depth += 1
        if depth > len(branches):
            raise ctx.wrong(f"the tree {at[0, 0]} leads back to itself")
        below = np.stack([np.repeat(at[:, 0], 2), branches[at[:, 1]].reshape(-1)], axis=1)
        below = np.unique(below, axis=0)
        found.append(below[below[:, 1] < leaves])
        at = below[below[:, 1] >= leaves]
    return depth, np.unique(np.concatenate(found), axis=0)
