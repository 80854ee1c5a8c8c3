"""Tensors of texts: what is computed of them, and what only moves them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.generate.draft import Draft, Item, Unfit
from tests.generate.families.table import family
from tests.generate.source import I64, Array

_WORDS = ("", "a", "B", "ab c", "Straße", "x-y", "the", "7", "a,b,,c", "日本")


def _texts(draft: Draft, shape: Sequence[int] | None = None, constant: float = 0.3) -> Item:
    source = draft.source
    extents = source.shape(source.pick((0, 1, 2))) if shape is None else tuple(shape)
    drawn = np.array([source.pick(_WORDS) for _ in range(int(np.prod(extents)))], object)
    return draft.fresh(drawn.reshape(extents), constant)


def _zero(draft: Draft, shape: Array) -> int | None:
    """The attribute without which a 0 in a shape is another extent."""
    if np.all(shape):
        return None
    if draft.opset < 14:
        raise Unfit("no shape says none")
    return 1


@family
def text(draft: Draft) -> None:
    """An operator on texts alone."""
    source = draft.source
    op = source.pick(("StringConcat", "StringSplit", "RegexFullMatch", "StringNormalizer"))
    if op == "StringConcat":
        x = _texts(draft)
        other = source.pick((x.shape, ()))
        draft.node(op, [x, _texts(draft, other)], exact=True)
    elif op == "StringSplit":
        delimiter, most = source.pick((None, ",", "-")), source.pick((None, 1, 2))
        draft.node(op, [_texts(draft)], 2, exact=True, delimiter=delimiter, maxsplit=most)
    elif op == "RegexFullMatch":
        pattern = source.pick(("a.*", "[a-z ]+", "", ".", "(x|y)-?y", "\\d"))
        draft.node(op, [_texts(draft)], exact=True, pattern=pattern)
    else:
        x = _texts(draft, source.pick(((3,), (1,), (1, 4))))
        action = source.pick((None, "LOWER", "UPPER", "NONE"))
        words = source.pick((None, ["a", "the"]))
        sensitive = source.pick((None, 0, 1))
        draft.node(
            op,
            [x],
            exact=True,
            case_change_action=action,
            stopwords=words,
            is_case_sensitive=sensitive,
        )


@family
def moved_texts(draft: Draft) -> None:
    """An operator that moves elements of any type, or compares them."""
    source = draft.source
    op = source.pick(("Transpose", "Gather", "Concat", "Where", "Equal", "Reshape", "Shape"))
    x = _texts(draft)
    if op == "Gather":
        if not x.rank or not x.shape[0]:
            raise Unfit("nothing to gather")
        at = draft.fresh(source.rng.integers(-x.shape[0], x.shape[0], source.shape(1)), 0.5)
        draft.node(op, [x, at], exact=True, axis=0)
    elif op == "Concat":
        if not x.rank:
            raise Unfit("no axis")
        draft.node(op, [x, _texts(draft, x.shape)], exact=True, axis=source.axis(x.rank))
    elif op == "Where":
        chosen = draft.fresh(source.rng.random(x.shape) < 0.5, 0.2)
        draft.node(op, [chosen, x, _texts(draft, x.shape)], exact=True)
    elif op == "Equal":
        if draft.opset < 19:
            raise Unfit("texts are compared from opset 19 on")
        draft.node(op, [x, _texts(draft, source.pick((x.shape, ())))], exact=True)
    elif op == "Reshape":
        flat = np.array([x.array.size], I64)
        draft.node(op, [x, draft.constant(flat)], exact=True, allowzero=_zero(draft, flat))
    else:
        draft.node(op, [x], exact=True)
