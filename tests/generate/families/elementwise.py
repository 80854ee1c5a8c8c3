"""Operators that compute each element from those at its place."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.generate.draft import Draft, Item, Unfit
from tests.generate.families.table import family
from tests.generate.source import (
    ANY,
    BOOL,
    F32,
    F64,
    FLOATS,
    I8,
    I32,
    I64,
    INTEGERS,
    NUMBERS,
    U8,
    U16,
    U32,
    U64,
)

_GENTLE = [
    "Atan",
    "Cos",
    "Sin",
    "Erf",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Mish",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
    "Elu",
    "Selu",
    "Celu",
    "Asinh",
    "Gelu",
    "Swish",
]
# a small change of their argument may be a large one of their result
_STEEP = [
    "Acos",
    "Acosh",
    "Asin",
    "Atanh",
    "Cosh",
    "Exp",
    "Log",
    "Reciprocal",
    "Sinh",
    "Sqrt",
    "Tan",
]
_EXACT = ["Abs", "Neg", "Relu", "Identity"]
# these jump, so that an argument must be exact
_STEPS = ["Ceil", "Floor", "Round", "Sign", "IsNaN", "IsInf", "Shrink", "ThresholdedRelu"]


def _attributes(draft: Draft, op: str) -> dict[str, Any]:
    source = draft.source
    alpha = round(float(source.rng.uniform(0.2, 2)), 2)
    if op in ("Elu", "LeakyRelu", "ThresholdedRelu", "Celu", "Selu", "Swish"):
        return {"alpha": source.pick((None, alpha))}
    if op == "HardSigmoid":
        return {"alpha": source.pick((None, alpha)), "beta": source.pick((None, 0.25))}
    if op == "IsInf":
        return {
            "detect_negative": source.pick((None, 0, 1)),
            "detect_positive": source.pick((None, 0, 1)),
        }
    if op == "Shrink":
        return {"bias": source.pick((0.0, 0.5)), "lambd": source.pick((0.5, 1.0))}
    if op == "Gelu":
        return {"approximate": source.pick(("none", "tanh"))}
    return {}


@family
def gentle(draft: Draft) -> None:
    op = draft.source.pick(_GENTLE)
    draft.node(op, [draft.tensor(FLOATS)], **_attributes(draft, op))


@family
def steep(draft: Draft) -> None:
    op = draft.source.pick(_STEEP)
    draft.node(op, [draft.tensor(FLOATS, exact=True)])


@family
def exact(draft: Draft) -> None:
    op = draft.source.pick(_EXACT)
    draft.node(op, [draft.tensor(NUMBERS)], exact=True)


@family
def steps(draft: Draft) -> None:
    op = draft.source.pick(_STEPS)
    draft.node(op, [draft.tensor(FLOATS, exact=True)], exact=True, **_attributes(draft, op))


def _operands(draft: Draft, first: Item, count: int, **how: Any) -> list[Item]:
    """Values that broadcast with the first, by missing axes and axes of one."""
    source = draft.source
    found = [first]
    for _ in range(count - 1):
        shape = [1 if source.chance(0.25) else n for n in first.shape]
        if source.chance(0.25):
            shape = shape[source.count(0, len(shape)) :]
        found.append(draft.like(first, shape, **how))
    return found if source.chance(0.7) else found[::-1]


@family
def arithmetic(draft: Draft) -> None:
    op = draft.source.pick(("Add", "Sub", "Mul"))
    x = draft.tensor(NUMBERS)
    draft.node(op, _operands(draft, x, 2), exact=x.dtype.kind in "iu")


def _is_divisor(item: Item) -> bool:
    a = item.array
    return a.dtype.kind == "f" or not bool(np.any((a == 0) | (a == -1)))


@family
def division(draft: Draft) -> None:
    source = draft.source
    op = source.pick(("Div", "Mod"))
    x = draft.tensor(NUMBERS, exact=True, special=0)
    shape = [1 if source.chance(0.3) else n for n in x.shape]
    y = draft.like(x, shape, exact=True, accept=_is_divisor, low=1, special=0)
    integers = x.dtype.kind in "iu"
    fmod = None
    if op == "Mod":
        fmod = source.pick((None, 0, 1)) if integers else 1
    draft.node(op, [x, y], exact=integers or op == "Mod", fmod=fmod)


@family
def power(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor((F32, F32, F64, I32, I64), exact=True, special=0)
    integers = x.dtype.kind == "i"
    if integers and np.any(np.abs(x.array) > 20):
        raise Unfit("an integer that may overflow")
    kind = x.dtype if integers else source.pick((F32, I32, I64))
    exponent = source.array(source.pick(((), (1,), x.shape)), kind, 0, 2, 0)
    draft.node("Pow", [x, draft.fresh(exponent)], exact=integers)


@family
def extremes(draft: Draft) -> None:
    source = draft.source
    op = source.pick(("Min", "Max", "Min", "Max", "Sum", "Mean"))
    x = draft.tensor(FLOATS if op in ("Sum", "Mean") else NUMBERS)
    count = source.pick((1, 2, 2, 3))
    draft.node(op, _operands(draft, x, count), exact=op in ("Min", "Max"))


@family
def compare(draft: Draft) -> None:
    op = draft.source.pick(("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"))
    x = draft.tensor(NUMBERS, exact=True)
    draft.node(op, _operands(draft, x, 2, exact=True), exact=True)


@family
def logic(draft: Draft) -> None:
    op = draft.source.pick(("And", "Or", "Xor", "Not"))
    x = draft.tensor((BOOL,), exact=True)
    draft.node(op, _operands(draft, x, 1 if op == "Not" else 2), exact=True)


@family
def bits(draft: Draft) -> None:
    op = draft.source.pick(("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
    if op == "BitShift":
        x = draft.tensor((U8, U16, U32, U64))
        by = draft.fresh(draft.source.array(x.shape, x.dtype, 0, 3, 0))
        draft.node(op, [x, by], exact=True, direction=draft.source.pick(("LEFT", "RIGHT")))
    else:
        x = draft.tensor(INTEGERS)
        draft.node(op, _operands(draft, x, 1 if op == "BitwiseNot" else 2), exact=True)


@family
def where(draft: Draft) -> None:
    x = draft.tensor((*FLOATS, U8, I32, I64, BOOL))
    shape = [1 if draft.source.chance(0.2) else n for n in x.shape]
    condition = draft.tensor((BOOL,), shape=shape, exact=True)
    draft.node("Where", [condition, *_operands(draft, x, 2)], exact=True)


@family
def clip(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(NUMBERS)
    low, high = sorted(source.array((2,), x.dtype, special=0).tolist())
    if draft.opset < 11:
        draft.node("Clip", [x], exact=True, min=float(low), max=float(high))
        return
    ends = [
        draft.fresh(np.array(end, x.dtype), 0.7) if source.chance(0.7) else None
        for end in (low, high)
    ]
    draft.node("Clip", [x, *ends], exact=True)


@family
def prelu(draft: Draft) -> None:
    x = draft.tensor(FLOATS)
    shape = [1 if draft.source.chance(0.4) else n for n in x.shape]
    # an infinite slope makes infinity of either sign of what rounds to 0
    how: dict[str, Any] = {"special": 0} if x.roundings else {}
    draft.node("PRelu", [x, draft.like(x, shape[draft.source.count(0, len(shape)) :], **how)])


@family
def cast(draft: Draft) -> None:
    source = draft.source
    x = draft.tensor(ANY, exact=True)
    to = source.pick(ANY)
    if x.dtype.kind == "f" and to.kind in "iu":
        # what lies outside of the integers is left open
        a = x.array
        with np.errstate(all="ignore"):
            fits = (a > (-1 if to.kind == "u" else -100)) & (a < 100)
        if not np.all(fits):
            raise Unfit("values outside of the integers")
    with np.errstate(all="ignore"):
        if to.kind == "f" and np.any(np.abs(x.array.astype(F64)) > 60000):
            raise Unfit("values outside of float16")
    draft.node("Cast", [x], exact=True, to=helper.np_dtype_to_tensor_dtype(to))


@family
def cast_like(draft: Draft) -> None:
    x = draft.tensor((I8, I32, I64, F32, BOOL), exact=True, special=0)
    y = draft.tensor((F32, F64, I64, BOOL))
    if y.dtype.kind == "i" and x.dtype.kind == "f":
        raise Unfit("rounds")
    draft.node("CastLike", [x, y], exact=True)
