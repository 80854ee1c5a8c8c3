"""Matrix products and contractions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.generate.draft import Draft, Item, Unfit, largest
from tests.generate.families.table import family
from tests.generate.source import F32, F64, FLOATS, I32, I64

_TYPES = (F32, F32, F64, I32, I64)


@family
def matmul(draft: Draft) -> None:
    source = draft.source
    types = _TYPES if draft.opset >= 9 else (F32, F64)
    x = draft.tensor(types, accept=lambda i: i.rank > 0, special=0.03)
    depth = x.shape[-1]
    if source.chance(0.15):
        y = draft.like(x, (depth,), special=0.03)
    else:
        around = [1 if source.chance(0.3) else n for n in x.shape[:-2]]
        around = around[source.count(0, len(around)) :] if source.chance(0.5) else around
        y = draft.like(x, (*around, depth, source.extent()), special=0.03, constant=0.5)
    draft.node("MatMul", [x, y], exact=x.dtype.kind == "i")


@family
def gemm(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((F32, F32, F64), 2, special=0)
    columns, rows = source.pick(((0, 0), (0, 1), (1, 0), (1, 1)))
    m, k = x.shape[::-1] if columns else x.shape
    n = source.extent()
    y = draft.like(x, (n, k) if rows else (k, n), special=0, constant=0.6)
    bias = None
    if source.chance(0.6) or draft.opset < 11:
        shape = source.pick(((n,), (m, n), (m, 1), (1, n), (), (1,), (1, 1)))
        bias = draft.like(x, shape, special=0, constant=0.5)
    scales: dict[str, Any] = {
        "alpha": source.pick((None, 0.5, 0.0)),
        "beta": source.pick((None, 2.0, 0.0)),
    }
    draft.node("Gemm", [x, y, bias], transA=columns, transB=rows, **scales)


_EQUATIONS = (
    "ij,jk->ik",
    "bij,bjk->bik",
    "ij->ji",
    "ij->",
    "ii->i",
    "i,j->ij",
    "bhid,bhjd->bhij",
    "bhwc,hkc->bhwk",
    "ij,ij->i",
    "i,i->",
    "...i,ij->...j",
)


@family
def einsum(draft: Draft) -> None:
    source = draft.source
    equation = source.pick(_EQUATIONS)
    extents = {letter: source.extent() for letter in "ijkbhdwc"}
    terms = equation.split("->")[0].replace("...", "bh").split(",")
    first = None
    operands = []
    for term in terms:
        shape = [min(extents[letter], 40) for letter in term]
        types = (F32, F32, F64) if first is None else (first.dtype,)
        first = draft.tensor(types, shape=shape, special=0)
        operands.append(first)
    draft.node("Einsum", operands, equation=equation)


@family
def det(draft: Draft) -> None:
    source = draft.source
    n = source.pick((1, 2, 3))
    around = source.shape(source.count(0, 1))

    def terms(item: Item) -> float:
        """About what cancels: products of as many elements as there are rows."""
        return max(largest(item.array), item.scale) ** n

    x = draft.tensor((F32,), shape=(*around, n, n), special=0, accept=lambda i: terms(i) < 1e4)
    (made,) = draft.node("Det", [x])
    draft.items[made.name] = replace(made, scale=max(made.scale, terms(x)))


@family
def attention(draft: Draft) -> None:
    """Attention as its parts write it: scores, scale, mask, soft-max, values."""
    source = draft.source
    if draft.opset < 13:
        raise Unfit("an older Softmax")
    b, h, q, k, d = (source.pick(s) for s in ((1, 2), (1, 2), (1, 3, 17), (1, 4, 20), (2, 4)))
    queries = draft.tensor(FLOATS[:3], shape=(b, h, q, d), special=0)
    keys = draft.tensor((F32,), shape=(b, h, k, d), special=0)
    values = draft.tensor((F32,), shape=(b, h, k, d), special=0)
    (turned,) = draft.node("Transpose", [keys], exact=True, perm=[0, 1, 3, 2])
    (scores,) = draft.node("MatMul", [queries, turned])
    if source.chance(0.5):
        mask = draft.tensor((F32,), shape=source.pick(((q, k), (b, 1, 1, k))), special=0)
        (scores,) = draft.node("Add", [scores, mask])
    (weights,) = draft.node("Softmax", [scores], axis=-1)
    draft.node("MatMul", [weights, values])


@family
def attention_op(draft: Draft) -> None:
    source = draft.source
    b, heads, q, k, d = (source.pick(s) for s in ((1, 2), (2, 4), (1, 3), (1, 4), (2, 4)))
    groups = source.pick((heads, 2))
    inputs = [
        draft.tensor((F32,), shape=shape, special=0)
        for shape in ((b, heads, q, d), (b, groups, k, d), (b, groups, k, d))
    ]
    if source.chance(0.5):
        inputs.append(draft.tensor((F32,), shape=(q, k), special=0))
    options: dict[str, Any] = {
        "is_causal": source.pick((None, 1)),
        "softcap": source.pick((None, 2.0)),
    }
    draft.node("Attention", inputs, scale=source.pick((None, 0.7)), **options)
