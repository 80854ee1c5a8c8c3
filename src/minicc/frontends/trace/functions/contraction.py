"""Products of matrices and their generalisations, all by way of `graph.contract`."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.functions.joining import common
from minicc.frontends.trace.functions.reductions import axes_of
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch, traces
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import BOOL, I32

_LETTERS = string.ascii_letters


def _pair(recorder: Recorder, *xs: Any, dtype: Any = None) -> list[Value]:
    """Operands as values of their common element type; those of bool count in i32."""
    values = common(recorder, xs, dtype)
    return [recorder.cast(v, I32) if v.type.dtype is BOOL else v for v in values]


def contract(recorder: Recorder, a: Value, b: Value, left: str, right: str, out: str) -> Value:
    """The einsum `left,right->out`, where extents of 1 may stand for any extent.

    ValueError where other extents of one letter differ.
    """
    sizes: dict[str, int] = {}
    for term, v in ((left, a), (right, b)):
        for letter, n in zip(term, v.type.extents, strict=True):
            if sizes.setdefault(letter, n) != n and 1 not in (n, sizes[letter]):
                raise ValueError(f"extents {sizes[letter]} and {n} of one axis differ")
            sizes[letter] = n if sizes[letter] == 1 else sizes[letter]
    a, left = _narrowed(recorder, a, left, right + out, sizes)
    b, right = _narrowed(recorder, b, right, left + out, sizes)
    known = "".join(letter for letter in out if letter in left or letter in right)
    value = recorder.emit(graph.Contract, a, b, f"{left},{right}->{known}")
    shape = tuple(1 if letter not in known else sizes[letter] for letter in out)
    value = recorder.reshape(value, shape)
    return recorder.broadcast(value, tuple(sizes[letter] for letter in out))


def _narrowed(
    recorder: Recorder, v: Value, term: str, used: str, sizes: dict[str, int]
) -> tuple[Value, str]:
    """Sum over letters that nothing else has, and drop extents of 1 that stand for larger ones."""
    alone = tuple(k for k, letter in enumerate(term) if letter not in used)
    v = recorder.reduce(v, alone, "add")
    term = "".join(letter for letter in term if letter in used)
    kept = [n == sizes[letter] for letter, n in zip(term, v.type.extents, strict=True)]
    shape = tuple(n for n, keep in zip(v.type.extents, kept, strict=True) if keep)
    return recorder.reshape(v, shape), "".join(c for c, k in zip(term, kept, strict=True) if k)


def _result(recorder: Recorder, value: Value, xs: tuple[Any, ...], dtype: Any = None) -> Value:
    """Back to bool where all operands were, and no other element type is asked for."""
    if dtype is not None and recorder.dtype(dtype) is not BOOL:
        return value
    if all(value_of(recorder, x).type.dtype is BOOL for x in xs):
        return recorder.cast(value, BOOL)
    return value


def _element(recorder: Recorder, x: Any) -> Any:
    """The element type of an operand, as NumPy has it."""
    return value_of(recorder, x).type.dtype.numpy


@traces("matmul", "linalg.matmul")
def matmul(recorder: Recorder, x1: Any, x2: Any, *, dtype: Any = None) -> Value:
    """The matrix product over the last two axes; the others broadcast."""
    if dtype is not None:  # NumPy says what it casts
        np.matmul(*[np.zeros((1, 1), _element(recorder, x)) for x in (x1, x2)], dtype=dtype)
    a, b = _pair(recorder, x1, x2, dtype=dtype)
    m, n = a.type.rank, b.type.rank
    if not m or not n:
        raise ValueError("matmul: Input operand does not have enough dimensions")
    if a.type.extents[-1] != b.type.extents[-2 if n > 1 else 0]:
        raise ValueError(
            f"matmul: shapes {a.type.extents} and {b.type.extents} do not fit: "
            f"{a.type.extents[-1]} != {b.type.extents[-2 if n > 1 else 0]}"
        )
    rank = max(m, n, 2) - 2
    batch = _LETTERS[:rank]
    left = batch[rank - max(m - 2, 0) :] + ("yk" if m > 1 else "k")
    right = batch[rank - max(n - 2, 0) :] + ("kz" if n > 1 else "k")
    out = batch + ("y" if m > 1 else "") + ("z" if n > 1 else "")
    return _result(recorder, contract(recorder, a, b, left, right, out), (x1, x2), dtype)


@traces("dot")
def dot(recorder: Recorder, a: Any, b: Any) -> Any:
    """The sum over the last axis of `a` and the last but one of `b`."""
    x, y = _pair(recorder, a, b)
    if not x.type.rank or not y.type.rank:
        left, right = (Tracer(recorder, value_of(recorder, v)) for v in (a, b))
        return recorder.namespace.multiply(left, right)  # Python's numbers are arrays here
    axis = y.type.rank - 2 if y.type.rank > 1 else 0
    return _tensordot(recorder, a, b, (x.type.rank - 1,), (axis,))


@traces("tensordot")
def tensordot(recorder: Recorder, a: Any, b: Any, axes: Any = 2) -> Value:
    """The sum over pairs of axes."""
    m, n = value_of(recorder, a).type.rank, value_of(recorder, b).type.rank
    if isinstance(axes, (int, np.integer)):
        return _tensordot(recorder, a, b, tuple(range(m - int(axes), m)), tuple(range(int(axes))))
    left, right = axes
    return _tensordot(recorder, a, b, normalize_axis_tuple(left, m), normalize_axis_tuple(right, n))


def _tensordot(
    recorder: Recorder, a: Any, b: Any, left: tuple[int, ...], right: tuple[int, ...]
) -> Value:
    x, y = _pair(recorder, a, b)
    first = _LETTERS[: x.type.rank]
    second = list(_LETTERS[x.type.rank : x.type.rank + y.type.rank])
    for i, k in zip(left, right, strict=True):
        if x.type.extents[i] != y.type.extents[k]:
            raise ValueError(f"shape-mismatch for sum: {x.type.extents}, {y.type.extents}")
        second[k] = first[i]
    out = [c for k, c in enumerate(first) if k not in left]
    out += [c for k, c in enumerate(second) if k not in right]
    product = contract(recorder, x, y, first, "".join(second), "".join(out))
    return _result(recorder, product, (a, b))


@traces("inner")
def inner(recorder: Recorder, a: Any, b: Any) -> Any:
    """The sum over the last axes of both."""
    m, n = value_of(recorder, a).type.rank, value_of(recorder, b).type.rank
    if not m or not n:
        return recorder.namespace.multiply(a, b)
    return _tensordot(recorder, a, b, (m - 1,), (n - 1,))


@traces("vdot")
def vdot(recorder: Recorder, a: Any, b: Any) -> Any:
    """The sum of the products of all elements."""
    return inner(recorder, recorder.namespace.ravel(a), recorder.namespace.ravel(b))


@traces("outer")
def outer(recorder: Recorder, a: Any, b: Any) -> Any:
    """All products of an element of `a` and one of `b`."""
    np_ = recorder.namespace
    return np_.multiply(np_.expand_dims(np_.ravel(a), 1), np_.expand_dims(np_.ravel(b), 0))


@traces("linalg.norm")
def norm(
    recorder: Recorder, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Any:
    """The Euclidean norm, those of rows and columns, of a vector also those of other orders."""
    np_ = recorder.namespace
    x = x if isinstance(x, Tracer) else Tracer(recorder, value_of(recorder, x))
    rank = x.ndim
    axes = axes_of(value_of(recorder, x), axis)
    known = len(axes) == 1 and isinstance(ord, int | float) and ord != 0
    whole = ord is None or (len(axes) == 2 and ord in ("fro", 1, -1, np.inf, -np.inf))
    if not (known or whole):
        recorder.refuse("MC0241", f"np.linalg.norm with ord={ord!r} over {rank} axes is not traced")
    magnitude = np_.abs(x if np.dtype(x.dtype).kind == "f" else np_.asarray(x, float))
    if len(axes) == 2 and ord not in (None, "fro"):
        # NumPy's axes in the order in which they are given are those of rows and columns
        row, column = (normalize_axis_index(n, rank) for n in (axis or (0, 1)))
        summed, best = (row, column) if abs(ord) == 1 else (column, row)
        total = np_.sum(magnitude, axis=summed, keepdims=True)
        made = (np_.max if ord > 0 else np_.min)(total, axis=best, keepdims=True)
        return made if keepdims else np_.squeeze(made, axis=(row, column))
    if len(axes) == 1 and ord not in (None, 1, 2, np.inf, -np.inf):
        powers = np_.sum(magnitude**ord, axis=axes, keepdims=keepdims)
        return powers ** np_.asarray(1 / ord, powers.dtype)
    if ord == 1:
        return np_.sum(magnitude, axis=axes, keepdims=keepdims)
    if ord in (np.inf, -np.inf):
        return (np_.max if ord > 0 else np_.min)(magnitude, axis=axes, keepdims=keepdims)
    return np_.sqrt(np_.sum(magnitude * magnitude, axis=axes, keepdims=keepdims))


@traces("einsum")
def einsum(recorder: Recorder, subscripts: str, *operands: Any, optimize: Any = False) -> Any:
    """Einstein's summation; several operands are contracted from left to right."""
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists((subscripts, *operands))
    values = _pair(recorder, *operands)
    terms, out = _terms(subscripts, [v.type.rank for v in values])
    given = tuple(terms)
    for k in range(len(terms)):
        while len(set(terms[k])) != len(terms[k]):
            values[k], terms[k] = _on_diagonal(recorder, values[k], terms[k])
    if len(operands) == 1 and set(out) == set(given[0]) and isinstance(operands[0], Tracer):
        seen = Dispatch.view(recorder, "einsum", np.einsum, (subscripts, *operands), {})
        if seen is not None:
            return seen
    if len(set(out)) != len(out) or not set(out) <= set("".join(terms)):
        raise ValueError(f"einstein sum subscripts string {subscripts!r} has a wrong output")
    value, term = values[0], terms[0]
    for k in range(1, len(values)):
        needed = out + "".join(terms[k + 1 :])
        kept = "".join(dict.fromkeys(c for c in term + terms[k] if c in needed))
        target = out if k == len(values) - 1 else kept
        value = contract(recorder, value, values[k], term, terms[k], target)
        term = target
    if len(values) == 1:
        value = recorder.reduce(value, tuple(k for k, c in enumerate(term) if c not in out), "add")
        left = [c for c in term if c in out]
        value = recorder.transpose(value, tuple(left.index(c) for c in out))
    return _result(recorder, value, operands)


@traces("vecdot", "linalg.vecdot")
def vecdot(recorder: Recorder, x1: Any, x2: Any, *, axis: int = -1) -> Any:
    """The sums of products along an axis."""
    np_ = recorder.namespace
    a, b = (np_.moveaxis(boxed(recorder, v), axis, -1) for v in (x1, x2))
    _require_core("vecdot", "(n),(n)->()", a.shape[-1:], b.shape[-1:])
    return np_.einsum("...i,...i->...", a, b)


def _require_core(name: str, signature: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """NumPy's ValueError where extents that products are summed along differ, though one is 1."""
    for n, m in zip(left, right, strict=False):
        if n != m:
            where = "Input operand 1 has a mismatch in its core dimension 0, with gufunc signature"
            raise ValueError(f"{name}: {where} {signature} (size {m} is different from {n})")


@traces("matvec")
def matvec(recorder: Recorder, x1: Any, x2: Any) -> Any:
    """Matrices times vectors."""
    a, b = boxed(recorder, x1), boxed(recorder, x2)
    _require_core("matvec", "(m,n),(n)->(m)", a.shape[-1:], b.shape[-1:])
    return recorder.namespace.einsum("...ij,...j->...i", x1, x2)


@traces("vecmat")
def vecmat(recorder: Recorder, x1: Any, x2: Any) -> Any:
    """Vectors times matrices."""
    a, b = boxed(recorder, x1), boxed(recorder, x2)
    _require_core("vecmat", "(n),(n,m)->(m)", a.shape[-1:], b.shape[-2:-1])
    return recorder.namespace.einsum("...i,...ij->...j", x1, x2)


def _from_lists(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """`einsum(a, [0, 1], b, [1, 2], [0, 2])` as text and operands."""
    count = len(given) // 2
    lists = [given[2 * k + 1] for k in range(count)]
    target = given[2 * count] if len(given) % 2 else None

    def text(places: Any) -> str:
        return "".join("..." if p is Ellipsis else _LETTERS[p] for p in places)

    terms = ",".join(map(text, lists))
    return terms if target is None else f"{terms}->{text(target)}", given[0 : 2 * count : 2]


def _on_diagonal(recorder: Recorder, value: Value, term: str) -> tuple[Value, str]:
    """Where a letter stands twice, the elements whose two indices are equal."""
    letter = next(c for c in term if term.count(c) > 1)
    i = term.index(letter)
    k = term.index(letter, i + 1)
    box = recorder.namespace.diagonal(Tracer(recorder, value), 0, i, k)
    return value_of(recorder, box), term[:i] + term[i + 1 : k] + term[k + 1 :] + letter


def _terms(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, with letters for the ellipses."""
    inputs, arrow, out = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"{len(terms)} terms in {subscripts!r} for {len(ranks)} operands")
    free = [c for c in _LETTERS if c not in subscripts]
    widest = max(
        (r - len(t) + 3 for t, r in zip(terms, ranks, strict=True) if "..." in t), default=0
    )
    dots = "".join(free[: max(widest, 0)])
    full: list[str] = []
    for term, rank in zip(terms, ranks, strict=True):
        count = rank - len(term) + 3 if "..." in term else 0
        full.append(term.replace("...", dots[len(dots) - count :] if count > 0 else ""))
        if len(full[-1]) != rank:
            raise ValueError(f"the term {term!r} of {subscripts!r} does not fit {rank} axes")
    if not arrow:
        letters = "".join(full)
        out = "..." + "".join(sorted(c for c in set(letters) - set(dots) if letters.count(c) == 1))
    return full, out.replace("...", dots)
