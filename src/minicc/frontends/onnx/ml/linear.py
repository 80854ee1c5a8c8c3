"""Linear models and support vector machines: products with what a model has learned.

What the specification leaves open (which class wins, what a classifier of two classes gives) is as
in ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.ml.common import (
    both_scores,
    class_labels,
    column,
    joined,
    labelled,
    numbers,
    required,
    rows_of,
    transform_of,
    transformed,
)
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.activation import sigmoid_of
from minicc.frontends.onnx.ops.scans import Loop, emit_scan
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Array, Op, Value
from minicc.ir.types import BOOL, F32, I64
from minicc.library.extremes import place_of_extreme

_DOMAIN = "ai.onnx.ml"
_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_ROUNDS, _NEAR = 100, 0.005  # of LIBSVM's iteration, and how near it must come to the end
_LEAST = 1e-7  # of a probability of one class of a pair


def _product(ctx: Context, x: Value, rows: Array) -> Value:
    """The products [N,R] of rows [N,F] with known rows [R,F]."""
    width = x.type.shape[1]
    if isinstance(width, int) and width != rows.shape[1]:
        raise ctx.wrong(f"its {rows.shape[1]} coefficients do not fit rows of {width}")
    known = ctx.constant(np.ascontiguousarray(rows.T))
    return ctx.emit(graph.Contract, x, known, equation="nf,fr->nr")


def _in_rows(ctx: Context, given: Array, count: int, what: str) -> Array:
    """A list as so many rows."""
    if count < 1 or not given.size or given.size % count:
        raise ctx.wrong(f"its {given.size} {what} do not make {count} rows")
    return given.reshape(count, -1)


def _top(ctx: Context, scores: Value) -> Value:
    """The first column with the greatest number of each row, [N]."""
    best = place_of_extreme(ctx.emit, scores, 1, "max")
    return ctx.reshape(best, best.type.shape[:1])


def _affine(ctx: Context, node: Node, x: Value, count: int) -> Value:
    """Products with the rows of the coefficients, and intercepts, [N,count]."""
    coefficients, width = required(ctx, node, "coefficients"), x.type.shape[1]
    if isinstance(width, int) and coefficients.size > count * width:
        coefficients = coefficients[: count * width]  # as ONNX Runtime reads them
    out = _product(ctx, x, _in_rows(ctx, coefficients, count, "coefficients"))
    shift = numbers(node, "intercepts")
    if shift is None or not shift.size:
        return out
    if shift.size not in (1, count):
        raise ctx.wrong(f"its {shift.size} intercepts do not fit {count} rows of coefficients")
    return ctx.emit(graph.Add, out, ctx.constant(shift))


@operator(f"{_DOMAIN}.LinearRegressor", attributes="coefficients intercepts post_transform targets")
def linear_regressor(ctx: Context, node: Node, x: Value) -> Value:
    """A product with coefficients, and intercepts; of one target only PROBIT transforms."""
    count = node.integer("targets", 1)
    out = _affine(ctx, node, ctx.cast(rows_of(ctx, x), F32), count)
    way = transform_of(ctx, node)
    return transformed(ctx, out, way) if count > 1 or way == "PROBIT" else out


@operator(
    f"{_DOMAIN}.LinearClassifier",
    attributes="classlabels_ints classlabels_strings coefficients intercepts multi_class "
    "post_transform",
)
def linear_classifier(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    """The label with the greatest score, and all scores.

    There are as many scores as intercepts; of two classes there may be one, the second class's.
    """
    labels = class_labels(ctx, node, "classlabels_ints")
    shift = numbers(node, "intercepts")
    count = len(labels) if shift is None or not shift.size else shift.size
    way = transform_of(ctx, node)
    if count != len(labels) and (count, len(labels)) != (1, 2):
        raise ctx.wrong(f"it has {count} intercepts for {len(labels)} classes")
    scores = _affine(ctx, node, ctx.cast(rows_of(ctx, x), F32), count)
    if count == len(labels):
        return labelled(ctx, _top(ctx, scores), labels), transformed(ctx, scores, way)
    score = column(ctx, scores, 0)
    chosen = ctx.cast(ctx.emit(graph.Lt, ctx.scalar(0, score), score), I64)
    return labelled(ctx, chosen, labels), both_scores(ctx, score, way, probable=True)


def _kernel(ctx: Context, node: Node, x: Value, vectors: Array) -> Value:
    """The kernel [N,V] of rows with support vectors [V,F]."""
    kind = node.text("kernel_type", "LINEAR")
    if kind not in _KERNELS:
        raise ctx.wrong(f"its kernel_type is {kind!r}, none of {', '.join(_KERNELS)}")
    given = numbers(node, "kernel_params")
    parts = np.zeros(3, np.float32) if given is None or not given.size else given
    if parts.size != 3:
        raise ctx.wrong(f"its kernel_params are {parts.size} numbers, and must be 3")
    gamma, shift, degree = (float(n) for n in parts)
    if kind == "RBF":
        n, width = x.type.shape
        ctx.demand(width, vectors.shape[1], f"vectors of {vectors.shape[1]} and rows of {width}")
        apart = ctx.emit(graph.Sub, ctx.reshape(x, (n, 1, width)), ctx.constant(vectors))
        square = ctx.emit(graph.Mul, apart, apart)
        distance = ctx.emit(graph.Reduce, square, axes=(2,), combine="add")
        return ctx.emit(graph.Exp, ctx.emit(graph.Mul, ctx.scalar(-gamma, x), distance))
    out = _product(ctx, x, vectors)
    if kind == "LINEAR":
        return out
    scaled = ctx.emit(graph.Mul, ctx.scalar(gamma, x), out)
    moved = ctx.emit(graph.Add, scaled, ctx.scalar(shift, x))
    if kind == "SIGMOID":
        return ctx.emit(graph.Tanh, moved)
    return ctx.emit(graph.Pow, moved, ctx.scalar(degree, x))


@operator(
    f"{_DOMAIN}.SVMRegressor",
    attributes="coefficients kernel_params kernel_type n_supports one_class post_transform rho "
    "support_vectors",
)
def svm_regressor(ctx: Context, node: Node, x: Value) -> Value:
    """A sum of kernels by coefficients, [N,1], or of one class its sign; nothing transforms it."""
    x = ctx.cast(rows_of(ctx, x), F32)
    coefficients, rho = required(ctx, node, "coefficients"), required(ctx, node, "rho")
    count = node.integer("n_supports", 0)
    if count:
        vectors = _in_rows(ctx, required(ctx, node, "support_vectors"), count, "support vectors")
        x = _kernel(ctx, node, x, vectors)
    out = _product(ctx, x, coefficients.reshape(1, -1))
    out = ctx.emit(graph.Add, out, ctx.constant(rho[:1]))
    if not node.integer("one_class", 0):
        return out
    inside = ctx.emit(graph.Lt, ctx.scalar(0, out), out)
    return ctx.emit(graph.Select, inside, ctx.scalar(1, out), ctx.scalar(-1, out))


@operator(
    f"{_DOMAIN}.SVMClassifier",
    attributes="classlabels_ints classlabels_strings coefficients kernel_params kernel_type "
    "post_transform prob_a prob_b rho support_vectors vectors_per_class",
)
def svm_classifier(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    """The label that most pairs vote for, and probabilities where they are fitted, else scores."""
    x = ctx.cast(rows_of(ctx, x), F32)
    labels, way = class_labels(ctx, node, "classlabels_ints"), transform_of(ctx, node)
    held = np.array(node.integers("vectors_per_class") or (), np.int64)
    coefficients, rho = required(ctx, node, "coefficients"), required(ctx, node, "rho")
    if not held.sum():
        scores = _product(ctx, x, _in_rows(ctx, coefficients, len(labels), "coefficients"))
        scores = ctx.emit(graph.Add, scores, ctx.constant(rho[:1]))
        chosen = _linear_choice(ctx, scores, bool((coefficients >= 0).all()))
        return labelled(ctx, chosen, labels), transformed(ctx, scores, way)
    if len(held) != len(labels) or held.min() < 0:
        raise ctx.wrong(f"its vectors_per_class are {len(held)} for {len(labels)} classes")
    vectors = required(ctx, node, "support_vectors")
    vectors = _in_rows(ctx, vectors, int(held.sum()), "support vectors")
    weights, pairs = _pair_weights(ctx, coefficients, held)
    if rho.size < len(pairs):
        raise ctx.wrong(f"its rho are {rho.size} for {len(pairs)} pairs of classes")
    sums = _product(ctx, _kernel(ctx, node, x, vectors), weights)
    scores = ctx.emit(graph.Add, sums, ctx.constant(rho[: len(pairs)]))
    chosen = _top(ctx, _pair_votes(ctx, scores, pairs, len(labels)))
    a, b = numbers(node, "prob_a"), numbers(node, "prob_b")
    if a is not None and a.size:
        if b is None or min(a.size, b.size) < len(pairs):
            raise ctx.wrong(f"its prob_a and prob_b are not {len(pairs)} numbers each")
        columns = _pair_probabilities(ctx, scores, a, b)
        scores = joined(ctx, *_coupled(ctx, columns, pairs, len(labels)))
        return labelled(ctx, chosen, labels), transformed(ctx, scores, way)
    if len(labels) == 2:
        pair = both_scores(ctx, column(ctx, scores, 0), way, probable=way != "NONE")
        return labelled(ctx, chosen, labels), pair
    return labelled(ctx, chosen, labels), transformed(ctx, scores, way)


def _linear_choice(ctx: Context, scores: Value, positive: bool) -> Value:
    """The class of the greatest score; of two it is the second if any score is great enough."""
    top = _top(ctx, scores)
    if scores.type.shape[1] != 2:
        return top
    best = ctx.emit(graph.Reduce, scores, axes=(1,), combine="max")
    limit = ctx.scalar(0.5 if positive else 0, scores)
    compare: type[Op] = graph.Le if positive else graph.Lt
    return ctx.emit(graph.Select, ctx.emit(compare, limit, best), ctx.scalar(1, top), top)


Pairs = list[tuple[int, int]]


def _pair_weights(ctx: Context, coefficients: Array, held: Array) -> tuple[Array, Pairs]:
    """For each pair of classes the weights of all support vectors, 0 for those of other classes.

    In LIBSVM's layout a vector has a coefficient for each class but its own.
    """
    classes, count = len(held), int(held.sum())
    if coefficients.size < (classes - 1) * count:
        raise ctx.wrong(f"its coefficients are {coefficients.size} for {count} vectors")
    table = coefficients[: (classes - 1) * count].reshape(classes - 1, count)
    ends = np.cumsum(held)
    of = [slice(end - n, end) for end, n in zip(ends, held, strict=True)]
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    ctx.room(len(pairs), count)
    weights = np.zeros((len(pairs), count), np.float32)
    for row, (i, j) in zip(weights, pairs, strict=True):
        row[of[i]], row[of[j]] = table[j - 1, of[i]], table[i, of[j]]
    return weights, pairs


def _pair_votes(ctx: Context, scores: Value, pairs: Pairs, classes: int) -> Value:
    """How many pairs each class wins, [N,C]: the first of a pair where its score is above 0."""
    won = np.zeros((len(pairs), classes), np.float32)
    lost = np.zeros_like(won)
    for k, (i, j) in enumerate(pairs):
        won[k, i], lost[k, j] = 1, 1
    first = ctx.emit(graph.Lt, ctx.scalar(0, scores), scores)
    votes = [
        ctx.emit(graph.Contract, ctx.cast(side, F32), ctx.constant(table), equation="np,pc->nc")
        for side, table in ((first, won), (ctx.emit(graph.Not, first), lost))
    ]
    return ctx.emit(graph.Add, *votes)


def _pair_probabilities(ctx: Context, scores: Value, a: Array, b: Array) -> list[Value]:
    """For each pair the probability of its first class, [N], as Platt fitted it."""
    count = scores.type.shape[1]
    moved = ctx.emit(graph.Mul, scores, ctx.constant(a[:count]))
    moved = ctx.emit(graph.Add, moved, ctx.constant(b[:count]))
    found = sigmoid_of(ctx, ctx.emit(graph.Neg, moved))
    found = ctx.emit(graph.Max, found, ctx.scalar(_LEAST, found))
    found = ctx.emit(graph.Min, found, ctx.scalar(1 - _LEAST, found))
    return [column(ctx, found, k) for k in range(int(count))]


def _coupled(ctx: Context, given: list[Value], pairs: Pairs, classes: int) -> Sequence[Value]:
    """The probabilities of all classes that agree best with those of pairs (Wu, Lin and Weng).

    LIBSVM's iteration, which stops for each row when it is near enough. Its result is not quite
    the optimum, so the iteration is the same here.
    """
    one = ctx.scalar(1, F32)
    r = dict(zip(pairs, given, strict=True))
    r |= {(j, i): ctx.emit(graph.Sub, one, v) for (i, j), v in zip(pairs, given, strict=True)}

    def times(x: Value, y: Value) -> Value:
        return ctx.emit(graph.Mul, x, y)

    def total(parts: Sequence[Value]) -> Value:
        out = parts[0]
        for part in parts[1:]:
            out = ctx.emit(graph.Add, out, part)
        return out

    others = [[j for j in range(classes) if j != i] for i in range(classes)]
    q = {(i, j): ctx.emit(graph.Neg, times(r[j, i], r[i, j])) for i, j in r}
    q |= {(i, i): total([times(r[j, i], r[j, i]) for j in others[i]]) for i in range(classes)}
    rows = given[0].type.shape
    equal = ctx.emit(graph.Broadcast, ctx.scalar(1 / classes, F32), shape=rows)
    never = ctx.emit(graph.Broadcast, ctx.constant(np.array(False)), shape=rows)
    near = ctx.scalar(_NEAR / classes, F32)

    def each(states: Sequence[Value], _: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        *p, done = states
        sums = [total([times(q[i, j], p[j]) for j in range(classes)]) for i in range(classes)]
        whole = total([times(p[i], sums[i]) for i in range(classes)])
        worst = ctx.scalar(0, F32)
        for part in sums:
            error = ctx.emit(graph.Abs, ctx.emit(graph.Sub, part, whole))
            worst = ctx.emit(graph.Max, worst, error)
        done = ctx.emit(graph.Or, done, ctx.emit(graph.Lt, worst, near))
        new = list(p)
        for i in range(classes):
            step = ctx.emit(graph.Div, ctx.emit(graph.Sub, whole, sums[i]), q[i, i])
            scale = ctx.emit(graph.Add, one, step)
            twice = ctx.emit(graph.Add, sums[i], sums[i])
            more = times(step, ctx.emit(graph.Add, times(step, q[i, i]), twice))
            whole = ctx.emit(graph.Add, whole, more)
            whole = ctx.emit(graph.Div, ctx.emit(graph.Div, whole, scale), scale)
            new[i] = ctx.emit(graph.Add, new[i], step)
            for j in range(classes):
                moved = ctx.emit(graph.Add, sums[j], times(step, q[i, j]))
                sums[j] = ctx.emit(graph.Div, moved, scale)
                new[j] = ctx.emit(graph.Div, new[j], scale)
        kept = [ctx.emit(graph.Select, done, a, b) for a, b in zip(p, new, strict=True)]
        return [*kept, done], []

    assert never.type.dtype is BOOL
    return emit_scan(ctx, Loop(_ROUNDS, [*[equal] * classes, never], []), each)[:classes]
