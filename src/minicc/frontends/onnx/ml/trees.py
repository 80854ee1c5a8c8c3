"""Ensembles of decision trees: all rows go down all trees at once, a step at a time.

A step gathers what each node compares, the value of that feature, and the node to go to; leaves
lead to themselves, so all trees take as many steps as the deepest. Few steps are written out and
become one kernel, more are a loop. At the end votes are gathered at the leaves and combined.

Which scores a classifier of two classes gives, the specification leaves open; they are ONNX
Runtime's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ml.common import (
    both_scores,
    class_labels,
    column,
    labelled,
    numbers,
    rows_of,
    transform_of,
    transformed,
)
from minicc.frontends.onnx.ml.forests import EQ, LEQ, LT, Forest, ensemble_forest, nodes_forest
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.scans import Loop, emit_scan
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Array, Op, Value
from minicc.ir.types import F32, F64, I32, I64
from minicc.library.extremes import place_of_extreme

_DOMAIN = "ai.onnx.ml"
_WRITTEN_OUT = 4  # steps; more are a loop, which is as fast and is compiled sooner
_COMPARISONS: dict[int, type[Op]] = {LEQ: graph.Le, LT: graph.Lt, EQ: graph.Eq}
_NODES = (
    "nodes_falsenodeids nodes_featureids nodes_hitrates nodes_hitrates_as_tensor "
    "nodes_missing_value_tracks_true nodes_modes nodes_nodeids nodes_treeids nodes_truenodeids "
    "nodes_values nodes_values_as_tensor base_values base_values_as_tensor post_transform "
)
_WAYS = ("AVERAGE", "SUM", "MIN", "MAX")  # as TreeEnsemble counts


def _wide(ctx: Context, x: Value) -> Value:
    """Rows in f64 where they are, else in f32."""
    return rows_of(ctx, x if x.type.dtype is F64 else ctx.cast(x, F32))


def _leaves(ctx: Context, forest: Forest, x: Value) -> Value:
    """The leaf that each row reaches in each tree, [N,T]."""
    width = x.type.shape[1]
    most = int(forest.features.max(initial=0))
    if isinstance(width, int) and forest.depth and (forest.features.min() < 0 or most >= width):
        raise ctx.wrong(f"it compares features up to {most} of rows of {width}")
    shape = (x.type.shape[0], len(forest.roots))
    roots = ctx.constant(forest.roots.astype(np.int32)[None])
    at = ctx.emit(graph.Broadcast, roots, shape=shape)
    if forest.depth <= _WRITTEN_OUT:
        for _ in range(forest.depth):
            at = _step(ctx, forest, x, at)
        return at

    def each(states: Sequence[Value], rows: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        return [_step(ctx, forest, x, states[0])], []

    return emit_scan(ctx, Loop(forest.depth, [at], []), each)[0]


def _step(ctx: Context, forest: Forest, x: Value, at: Value) -> Value:
    """The nodes that rows come to from these."""

    def table(values: Array, where: Value) -> Value:
        return ctx.emit(graph.Gather, ctx.constant(values), where, axis=0)

    value = ctx.emit(graph.GatherElements, x, table(forest.features.astype(np.int32), at), axis=1)
    split = table(forest.splits, at)
    kinds = np.unique(forest.modes)
    holds = ctx.emit(_COMPARISONS[int(kinds[0])], value, split)
    for kind in kinds[1:]:
        here = table(forest.modes == kind, at)
        holds = ctx.emit(graph.Select, here, ctx.emit(_COMPARISONS[int(kind)], value, split), holds)
    if forest.missing.any():
        lacks = ctx.emit(graph.And, ctx.emit(graph.Ne, value, value), table(forest.missing, at))
        holds = ctx.emit(graph.Or, holds, lacks)
    pair = ctx.emit(graph.Mul, at, ctx.scalar(2, I32))
    place = ctx.emit(graph.Add, pair, ctx.cast(ctx.emit(graph.Not, holds), I32))
    return table(forest.branches.reshape(-1).astype(np.int32), place)


class _Votes:
    """What leaves vote for: tables by leaf and target, and which targets have votes in any row."""

    def __init__(self, ctx: Context, forest: Forest, targets: int, way: str) -> None:
        leaf, target, weight = forest.votes
        if targets < 1 or (len(target) and (target.min() < 0 or target.max() >= targets)):
            raise ctx.wrong(f"its leaves vote for other targets than its {targets}")
        ctx.room(forest.leaves, targets)
        if targets == 1:
            # of one target a leaf has one vote, the first, in ONNX Runtime
            leaf, chosen = np.unique(leaf, return_index=True)
            target, weight = target[chosen], weight[chosen]
        self.given = np.zeros((forest.leaves, targets), bool)
        self.given[leaf, target] = True
        first = {"MIN": np.inf, "MAX": -np.inf}.get(way, 0)
        self.weights = np.full(self.given.shape, first, weight.dtype)
        combine: Any = {"MIN": np.minimum, "MAX": np.maximum}.get(way, np.add)
        combine.at(self.weights, (leaf, target), weight)
        self.combine = {"MIN": "min", "MAX": "max"}.get(way, "add")
        trees, reached = forest.reached.T
        every = np.ones((len(forest.roots), targets), bool)
        np.logical_and.at(every, trees, self.given[reached])
        some = np.zeros_like(every)
        np.logical_or.at(some, trees, self.given[reached])
        self.always = every.any(axis=0)
        self.one_each = bool((some.sum(axis=1) <= 1).all())
        self.of_tree = some

    def combined(self, ctx: Context, at: Value) -> Value:
        """The weights at the leaves that rows reach, by target, [N,C]."""
        n, targets = at.type.shape[0], self.weights.shape[1]
        plain = self.combine == "add" and bool(np.isfinite(self.weights).all())
        if targets > 1 and self.one_each and plain:
            # a tree votes for one target alone
            of_leaf = ctx.constant(self.weights.sum(axis=1, dtype=self.weights.dtype))
            votes = ctx.emit(graph.Gather, of_leaf, at, axis=0)
            belongs = ctx.constant(self.of_tree.astype(self.weights.dtype))
            return ctx.emit(graph.Contract, votes, belongs, equation="nt,tc->nc")
        if targets == 1:
            votes = ctx.emit(graph.Gather, ctx.constant(self.weights[:, 0]), at, axis=0)
            total = ctx.emit(graph.Reduce, votes, axes=(1,), combine=self.combine)
            return ctx.reshape(total, (n, 1))
        votes = ctx.emit(graph.Gather, ctx.constant(self.weights), at, axis=0)
        return ctx.emit(graph.Reduce, votes, axes=(1,), combine=self.combine)

    def any(self, ctx: Context, at: Value) -> Value | None:
        """Whether rows have a vote for each target, [N,C]; None where all have."""
        if self.always.all():
            return None
        votes = ctx.emit(graph.Gather, ctx.constant(self.given.astype(np.int32)), at, axis=0)
        most = ctx.emit(graph.Reduce, votes, axes=(1,), combine="max")
        return ctx.emit(graph.Lt, ctx.scalar(0, I32), most)


def _aggregated(
    ctx: Context, forest: Forest, x: Value, targets: int, way: str, base: Array | None
) -> Value:
    """What all trees say of each target of a regression, [N,C]; of no vote it is 0."""
    if way not in _WAYS:
        raise ctx.wrong(f"its aggregate_function is {way!r}, none of {', '.join(_WAYS)}")
    votes = _Votes(ctx, forest, targets, way)
    at = _leaves(ctx, forest, x)
    out, given = votes.combined(ctx, at), votes.any(ctx, at)
    if votes.combine != "add" and given is not None:
        out = ctx.emit(graph.Select, given, out, ctx.scalar(0, out))
    if way == "AVERAGE":
        out = ctx.emit(graph.Div, out, ctx.scalar(max(len(forest.roots), 1), out))
    if base is None or len(base) != targets:
        return out
    out = ctx.emit(graph.Add, out, ctx.constant(base))
    if given is None or targets == 1:
        return out
    # of several targets one without votes is 0, whatever its base, in ONNX Runtime
    return ctx.emit(graph.Select, given, out, ctx.scalar(0, out))


@operator(
    f"{_DOMAIN}.TreeEnsembleRegressor",
    attributes=_NODES + "aggregate_function n_targets target_ids target_nodeids target_treeids "
    "target_weights target_weights_as_tensor",
)
def tree_ensemble_regressor(ctx: Context, node: Node, x: Value) -> Value:
    """The trees' votes by target; of one target only PROBIT transforms, as in ONNX Runtime."""
    wide = _wide(ctx, x)
    element = wide.type.dtype.numpy
    forest = nodes_forest(ctx, node, "target", element)
    targets = node.integer("n_targets", 1)
    base, way = numbers(node, "base_values", element), node.text("aggregate_function", "SUM")
    out = _aggregated(ctx, forest, wide, targets, way, base)
    transform = transform_of(ctx, node)
    if targets > 1 or transform == "PROBIT":
        out = transformed(ctx, out, transform)
    return ctx.cast(out, F32)


@operator(
    f"{_DOMAIN}.TreeEnsemble",
    attributes="aggregate_function leaf_targetids leaf_weights membership_values n_targets "
    "nodes_falseleafs nodes_falsenodeids nodes_featureids nodes_hitrates "
    "nodes_missing_value_tracks_true nodes_modes nodes_splits nodes_trueleafs nodes_truenodeids "
    "post_transform tree_roots",
)
def tree_ensemble(ctx: Context, node: Node, x: Value) -> Value:
    """The trees' votes by target, of the newer form."""
    wide = _wide(ctx, x)
    forest = ensemble_forest(ctx, node, wide.type.dtype.numpy)
    way = node.integer("aggregate_function", 1)
    name = _WAYS[way] if 0 <= way < len(_WAYS) else str(way)
    targets = node.integer("n_targets", 1)
    out = _aggregated(ctx, forest, wide, targets, name, None)
    transform = transform_of(ctx, node)
    if targets > 1 or transform == "PROBIT":
        out = transformed(ctx, out, transform)
    return ctx.cast(out, x.type.dtype)


@operator(
    f"{_DOMAIN}.TreeEnsembleClassifier",
    attributes=_NODES + "class_ids class_nodeids class_treeids class_weights "
    "class_weights_as_tensor classlabels_int64s classlabels_strings",
)
def tree_ensemble_classifier(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    """The label with the greatest score, and all scores."""
    wide = _wide(ctx, x)
    element = wide.type.dtype.numpy
    labels = class_labels(ctx, node, "classlabels_int64s")
    forest = nodes_forest(ctx, node, "class", element)
    votes = _Votes(ctx, forest, len(labels), "SUM")
    at = _leaves(ctx, forest, wide)
    base = numbers(node, "base_values", element)
    scores, transform = votes.combined(ctx, at), transform_of(ctx, node)
    if len(labels) == 2:
        chosen, scores = _two_classes(ctx, votes, scores, base, transform)
        return labelled(ctx, chosen, labels), ctx.cast(scores, F32)
    given = votes.any(ctx, at)
    if base is not None and len(base) == len(labels):
        scores, given = ctx.emit(graph.Add, scores, ctx.constant(base)), None
    # a class without any vote is never chosen
    least = ctx.scalar(-np.inf, scores)
    seen = scores if given is None else ctx.emit(graph.Select, given, scores, least)
    chosen = place_of_extreme(ctx.emit, seen, 1, "max")
    scores = transformed(ctx, scores, transform)
    return labelled(ctx, ctx.reshape(chosen, chosen.type.shape[:1]), labels), ctx.cast(scores, F32)


def _two_classes(
    ctx: Context, votes: _Votes, scores: Value, base: Array | None, transform: str
) -> tuple[Value, Value]:
    """Which of two classes is chosen, and the scores of both.

    Exporters let all leaves vote for one class: a vote of more than a half is for the second one
    where weights are no less than 0, as probabilities are, else one of more than 0. Where both have
    votes the greater wins, as the specification has it; ONNX Runtime gives 0 or 1 as labels then.
    """
    voted = [k for k in (0, 1) if votes.given[:, k].any()]
    positive = bool((votes.weights >= 0).all())
    if base is not None and len(base) == 2:
        scores = ctx.emit(graph.Add, scores, ctx.constant(base))
    elif base is not None and len(base) == 1 and voted != [1]:
        scores = ctx.emit(graph.Add, scores, ctx.constant(np.append(base, base.dtype.type(0))))
    single = voted == [0] and (base is None or len(base) < 2)
    if len(voted) == 1:
        decides = column(ctx, scores, voted[0])
        chosen = ctx.emit(graph.Lt, ctx.scalar(0.5 if positive else 0, scores), decides)
    else:
        chosen = ctx.emit(graph.Lt, column(ctx, scores, 0), column(ctx, scores, 1))
    if single:
        scores = both_scores(ctx, column(ctx, scores, 0), transform, positive)
    else:
        scores = transformed(ctx, scores, transform)
    return ctx.cast(chosen, I64), scores
