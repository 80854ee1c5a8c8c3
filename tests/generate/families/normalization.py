"""Normalisations."""

from __future__ import annotations

from tests.generate.draft import Draft, Item
from tests.generate.families.table import family
from tests.generate.source import F32, F64


def _vector(draft: Draft, length: int, low: float = -2) -> Item:
    how = {"low": low, "special": 0, "constant": 0.8, "reuse": 0.2}
    return draft.tensor((F32,), shape=(length,), **how)  # type: ignore[arg-type]


def _images(draft: Draft) -> Item:
    """Images whose values differ enough for a variance that rounding doesn't decide."""

    def fits(item: Item) -> bool:
        a = item.array
        return a.ndim >= 3 and a.shape[1] in (2, 4) and a.size > 0 and float(a.std()) > 0.1

    rank = draft.source.pick((3, 4))
    shape = (draft.source.pick((1, 2)), draft.source.pick((2, 4)), 3, 5)[:rank]
    return draft.tensor((F32,), shape=shape, accept=fits, exact=True, special=0)


@family
def batch_normalization(draft: Draft) -> None:
    x = _images(draft)
    n = x.shape[1]
    given = [_vector(draft, n), _vector(draft, n), _vector(draft, n), _vector(draft, n, low=0.1)]
    if (given[-1].array <= 0).any():
        given[-1] = draft.constant(abs(given[-1].array) + F32.type(0.1))
    draft.node("BatchNormalization", [x, *given], epsilon=draft.source.pick((None, 0.1)))


@family
def instance_normalization(draft: Draft) -> None:
    x = _images(draft)
    n = x.shape[1]
    draft.node("InstanceNormalization", [x, _vector(draft, n), _vector(draft, n)], epsilon=0.01)


@family
def layer_normalization(draft: Draft) -> None:
    source = draft.source
    x = _images(draft)
    op = source.pick(("LayerNormalization", "LayerNormalization", "RMSNormalization"))
    axis = source.axis(x.rank)
    scale = draft.tensor((F32,), shape=x.shape[axis:], special=0, constant=0.8, reuse=0.2)
    inputs = [x, scale]
    if op == "LayerNormalization" and source.chance(0.6):
        inputs.append(draft.tensor((F32,), shape=x.shape[axis:], special=0, constant=0.8))
    draft.node(op, inputs, axis=axis, epsilon=0.01)


@family
def layer_normalization_parts(draft: Draft) -> None:
    """A layer normalisation as older exporters write it."""
    x = _images(draft)
    if draft.opset >= 18:
        return
    (mean,) = draft.node("ReduceMean", [x], axes=[-1], keepdims=1)
    (off,) = draft.node("Sub", [x, mean])
    (square,) = draft.node("Mul", [off, off])
    (variance,) = draft.node("ReduceMean", [square], axes=[-1], keepdims=1)
    (above,) = draft.node("Add", [variance, draft.constant(F32.type(0.01))])
    # the argument is at least the epsilon, so that rounding stays small
    (root,) = draft.node("Sqrt", [above])
    draft.node("Div", [x, root])


@family
def group_normalization(draft: Draft) -> None:
    x = _images(draft)
    n = x.shape[1] if draft.opset >= 21 else 2
    given = [_vector(draft, n), _vector(draft, n)]
    draft.node("GroupNormalization", [x, *given], num_groups=2, epsilon=0.01)


@family
def lrn(draft: Draft) -> None:
    source = draft.source
    bias = source.pick((None, 2.0))
    x = draft.tensor((F32,), shape=(source.pick((1, 2)), source.pick((1, 4, 8)), 3, 3), special=0)
    draft.node("LRN", [x], size=source.pick((1, 3, 5)), alpha=0.1, beta=0.75, bias=bias)


@family
def lp_normalization(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((F32, F64), accept=_spread, exact=True, special=0, rank=source.pick((2, 3)))
    p = source.pick((None, 1, 2))
    draft.node("LpNormalization", [x], axis=source.count(0, x.rank - 1), p=p)


def _spread(item: Item) -> bool:
    a = item.array
    return a.ndim > 0 and a.size > 0 and bool((abs(a) > 0.01).all())


@family
def mean_variance(draft: Draft) -> None:
    x = _images(draft)
    axes = draft.source.pick((None, [0, 2, 3], [1], [0, 1]))
    if x.rank == 4:
        draft.node("MeanVarianceNormalization", [x], axes=axes)
