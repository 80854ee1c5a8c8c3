"""What NumPy says of a call: how its results lie, of which types they are, what it raises.

NumPy is asked with arrays that stand for the traced ones: small, or without a meaning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from minicc.errors import UserError
from minicc.frontends.trace.layouts import laid, order_of
from minicc.frontends.trace.loops.extents import Extent
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.pytree import leaves, mapped
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array

RAISED = "MC0180"
MISTAKES = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError)


def raised(
    real: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], where: str
) -> Exception | None:
    """What NumPy raises for such arguments, a UserError (MC0180) too; None for nothing."""

    def plain(x: Any) -> Any:
        if isinstance(x, Tracer):
            if x.symbolic and x.scalar and x.dtype.kind in "iu" and x.recorder.path is not None:
                return x.dtype.type(x.read("array", "what NumPy raises"))  # it may be an index
            zeros = solid(x) if x.symbolic else np.array(x.content)
            zeros.flags.writeable = x.writeable
            return zeros[()] if x.scalar else zeros
        if isinstance(x, (list, tuple)) and any(isinstance(e, Tracer) for e in x):
            return type(x)([plain(e) for e in x])
        if isinstance(x, Number):  # its value may decide, and stand in the text
            return x.read("what NumPy raises") if has_term(x) else x.kind(1)
        return getattr(x, "real_function", x)

    try:
        with np.errstate(all="ignore"):
            real(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})
            return None
    except MISTAKES as own:
        error = own
    kind: Any = type(error)
    named = raised_as(kind)
    made: Any = named.__new__(named)  # some of NumPy's take other arguments than a text
    text = str(error)
    vars(made).update(vars(error))
    made.code, made.message, made.hint, made.where, made._parts = RAISED, text, "", (where,), ()
    made.args = (text,)
    made.__notes__ = [f"{RAISED} at {where}"]
    return made  # type: ignore[no-any-return]


@lru_cache(64)
def raised_as(kind: Any) -> Any:
    """An error of the user's that passes for one of NumPy's: its type, name and text."""
    names = {"__str__": lambda self: self.message, "__module__": kind.__module__}
    return type(kind.__name__, (UserError, kind), names)


def solid(box: Tracer) -> Array:
    """An array of the box's shape, element type and layout, with memory of its own."""
    like = box.shadow()
    return laid(like.shape, like.dtype, like.strides)


def outcome_of(
    name: str, real: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """What a function of NumPy's gives for known arguments.

    Memory that nobody has written to is zeros, so that a function has one graph in all processes.
    """
    with np.errstate(all="ignore"):
        result = real(*args, **kwargs)
    if name in ("empty", "empty_like") and not result.dtype.hasobject:
        result[...] = np.zeros((), result.dtype)
    return result


def lay_out(
    real: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
    typed: bool = False,
) -> bool:
    """Say how results lie in memory, and whether they are of NumPy's types.

    NumPy says it, asked with small arrays that lie as the arguments do, and with lists as short.
    Raises what NumPy raises. Results of functions that are `typed` are of NumPy's types.
    """
    if typed and "order" not in kwargs and all(map(_is_in_order, (*args, *kwargs.values()))):
        return True
    args = tuple([_shortened(x) for x in args])
    found = leaves((args, kwargs))
    boxes = [x for x in found if isinstance(x, Tracer)]
    others = [x for x in found if isinstance(x, Number) and not isinstance(x, Tracer)]
    if any(type(n) is Extent and n.rounds.turns(n.dim) for b in boxes for n in b.shape):
        return True  # extents that rounds of a loop decide
    loose = bool(others) and not typed  # numbers that are not known yet may decide the type
    if typed and "order" not in kwargs and all(b.lies_in_order() for b in boxes):
        return True
    long = sorted({n for b in boxes for n in map(int, b.shape) if n > _SHORT})
    sizes = {n: k for k, n in enumerate(long, _SHORT + 1)}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cut = [x[: sizes.get(len(x))] if type(x) is list else x for x in args]
            small = mapped(lambda x, path: _small(x, sizes), (cut, kwargs))
            model = real(*small[0], **small[1])
        except np.linalg.LinAlgError:
            return True  # which elements decide
        except MISTAKES:
            if long or typed or loose:
                return True  # a number among the arguments fits the real sizes alone
            raise
    many = isinstance(result, (list, tuple))
    for made, like in zip(result, model, strict=False) if many else [(result, model)]:
        if not isinstance(made, Tracer) or any(made is b for b in boxes):
            continue
        if (
            not loose
            and isinstance(like, (np.ndarray, np.generic))
            and (made.dtype != like.dtype or made.ndim != like.ndim)
        ):
            return False
        if not made.ndim and made.looks_at() is None:
            made.scalar = isinstance(like, np.generic)
        elif 1 < made.ndim == np.ndim(like) and not made.looks_at():
            _lie(made, like)
    return True


def _is_in_order(x: Any) -> bool:
    """Whether an argument is a number, or an array that lies row by row."""
    if isinstance(x, Tracer):
        return x.lies_in_order()
    return type(x) in (int, float, bool)


def _shortened(x: Any) -> Any:
    """A list, or two elements of one that a loop has filled: all are alike."""
    first = x[0] if type(x) is list and len(x) > 2 else None
    filled = isinstance(first, Tracer) and first.recorder.whole_of(x) is not None
    return x[:2] if filled else x


_SHORT = 4  # an extent up to which one is left as it is


def _small(x: Any, sizes: dict[int, int]) -> Any:
    """A small array that lies as a traced one does."""
    if isinstance(x, Number):
        return x.kind(1)
    if not isinstance(x, (Tracer, np.ndarray)):
        return getattr(x, "real_function", x)
    extents = [sizes.get(n, n) for n in map(int, x.shape)]
    if isinstance(x, np.ndarray):
        return x[tuple(map(slice, extents))]
    steps = x.shadow().strides
    order = order_of(x.shadow())
    dense = [1 if not s and n > 1 else n for n, s in zip(extents, steps, strict=True)]
    # ones where they may be divisors, zeros where they may be places
    filled = np.zeros if x.dtype.kind in "iu" else np.ones
    made = filled([dense[k] for k in order], x.dtype)
    if not x.shadow().transpose(order).flags.c_contiguous and x.ndim:
        made = np.repeat(made, 2, -1)[..., ::2]  # which no array without gaps tells
    made = made.transpose(np.argsort(order))
    turned: list[Any] = [slice(None, None, -1 if s < 0 else 1) for s in steps]
    made = made[(*turned, ...)]  # which is an array without axes, too
    made = made if dense == extents else np.broadcast_to(made, extents)
    return made[()] if x.scalar else made


def _lie(box: Tracer, like: Array) -> None:
    order = order_of(like)
    model = np.empty([box.shape[k] for k in order], np.int8).transpose(np.argsort(order))
    box.lies(tuple(s * box.itemsize for s in model.strides))
