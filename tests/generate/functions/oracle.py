"""What minicc makes of a drawn function, call by call, against NumPy.

Compared are values, element types, shapes, strides, which arrays share memory with which, the
arguments afterwards, and type and text of exceptions.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, NamedTuple

import numpy as np

import minicc
from minicc.api import graph_programs, segments
from minicc.errors import CompilerBug, MiniccError, UnsupportedError
from tests.generate.functions.program import Program, loaded

_INTERPRETED = segments.INTERPRETED
_LITTLE = graph_programs.LITTLE, graph_programs.PYTHON


class Judged(NamedTuple):
    """What differs from NumPy, and what was refused or left to NumPy."""

    found: list[str]
    refused: str = ""
    plain: bool = False


def judge(program: Program, name: str = "drawn.py") -> Judged:
    """All that is wrong with what minicc makes of a program."""
    text = program.text()
    space, mirrored = loaded(text, name), loaded(text, name)
    # both ways of running small segments are drawn, and both of what little data size
    segments.INTERPRETED = 0 if program.strict else _INTERPRETED
    graph_programs.LITTLE, graph_programs.PYTHON = (0, 0) if program.strict else _LITTLE
    compiled = minicc.jit(space["f"], **program.options())
    left = False
    for k in program.order:
        theirs, mine = mirrored[f"call{k}"](), space[f"call{k}"]()
        wanted, _ = _outcome(mirrored["f"], theirs, program.placed)
        got, plain = _outcome(compiled, mine, program.placed)
        left |= plain
        if isinstance(got, UnsupportedError):
            return Judged([], f"{got.code}: {got.message}", left)
        if isinstance(wanted, IndexError) and isinstance(got, dict):
            return Judged([], "an index out of bounds that nothing depends on", left)
        if found := differences((got, mine), (wanted, theirs), program.tolerance):
            return Judged([f"call{k}: {text}" for text in found], "", left)
    return Judged([], "", left)


def _outcome(f: Callable[..., Any], given: dict[str, Any], placed: int) -> tuple[Any, bool]:
    """The result or what was raised, and whether NumPy ran the function."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            result = f(*list(given.values())[:placed], **dict(list(given.items())[placed:]))
        except Exception as error:  # whatever the function raises
            result = error
    return result, any(w.category is minicc.PerformanceWarning for w in caught)


def differences(mine: Any, theirs: Any, tolerance: Callable[[str], float]) -> list[str]:
    """What of two outcomes, each a dict of results or an exception, and arguments is not the same.

    `tolerance` says how far floats of a name may be apart.
    """
    got, wanted = mine[0], theirs[0]
    if isinstance(wanted, Exception) or isinstance(got, Exception):
        bug = isinstance(got, CompilerBug)
        same = type(got).__name__ == type(wanted).__name__ and isinstance(got, type(wanted))
        if bug or not same or str(got) != str(wanted):
            own = isinstance(got, MiniccError) and bug
            return [f"{'crash: ' if own else ''}raises {got!r} and not {wanted!r}"]
        results: list[tuple[str, Any, Any]] = []
    elif isinstance(wanted, dict) and isinstance(got, dict) and list(got) == list(wanted):
        results = [(k, got[k], wanted[k]) for k in wanted]
    else:
        results = [("", got, wanted)]
    arguments = [(k, mine[1][k], theirs[1][k]) for k in theirs[1]]
    found = []
    leaves: list[tuple[str, Any, Any]] = []
    for kind, name, a, b in [*(("result", *r) for r in results),
                             *(("argument", *r) for r in arguments)]:  # fmt: skip
        before = len(leaves)
        text = _differs(a, b, tolerance(str(name)), str(name), leaves)
        if text:
            found.append(f"{kind} {text}")
            del leaves[before:]
    return found + _sharing(leaves)


def _sharing(leaves: list[tuple[str, Any, Any]]) -> list[str]:
    """Which arrays are one, or share memory, where NumPy's do not, or not there."""
    found = []
    for (name, a, b), (other, c, d) in itertools.combinations(leaves, 2):
        if (a is c) != (b is d):
            found.append(f"sharing: {name} {'is' if a is c else 'is not'} {other}")
        shares = np.may_share_memory(a, c), np.may_share_memory(b, d)
        if shares[0] != shares[1]:
            found.append(f"sharing: {name} and {other}: {shares[0]} and not {shares[1]}")
        elif shares[0] and _offset(a, c) != _offset(b, d):
            found.append(f"sharing: {name} shows another place of {other}")
    return found


def _offset(a: Any, b: Any) -> int:
    first, second = (x.__array_interface__["data"][0] for x in (a, b))
    return int(first - second)


def _differs(a: Any, b: Any, tolerance: float, name: str, leaves: list[Any]) -> str:
    """How a value differs from NumPy's; the arrays in it are added to `leaves`."""
    if type(a) is not type(b) and type(a).__name__ != type(b).__name__:
        return f"{name}: type {type(a).__name__} {a!r} and not {type(b).__name__} {b!r}"
    if isinstance(b, (list, tuple)):
        if len(a) != len(b):
            return f"{name}: length {len(a)} and not {len(b)}"
        parts = [(f"{name}[{k}]", x, y) for k, (x, y) in enumerate(zip(a, b, strict=True))]
    elif isinstance(b, dict) or hasattr(b, "log") or is_dataclass(b):
        a, b = (x if isinstance(x, dict) else vars(x) for x in (a, b))
        if list(a) != list(b):
            return f"{name}: keys {list(a)} and not {list(b)}"
        parts = [(f"{name}.{k}", a[k], b[k]) for k in b]
    elif isinstance(b, np.ndarray):
        leaves.append((name, a, b))
        return _differ_arrays(a, b, tolerance, name)
    elif isinstance(b, (np.generic, float, complex)):
        x, y = np.asarray(a), np.asarray(b)
        kind = "" if x.dtype == y.dtype else f"{name}: type {x.dtype} and not {y.dtype}"
        return kind or _far(x, y, tolerance, name)
    else:
        return "" if a == b or callable(b) else f"{name}: value {a!r} and not {b!r}"
    texts = (_differs(x, y, tolerance, path, leaves) for path, x, y in parts)
    return next(filter(None, texts), "")


def _differ_arrays(a: Any, b: Any, tolerance: float, name: str) -> str:
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{name}: type {a.dtype}{list(a.shape)} and not {b.dtype}{list(b.shape)}"
    if text := _far(a, b, tolerance, name):
        return text
    steps = [[s for n, s in zip(x.shape, x.strides, strict=True) if n > 1] for x in (a, b)]
    # how memory lies that nobody else can see is NumPy's own affair
    if a.size and steps[0] != steps[1] and (_is_dense(b) or b.base is None):
        return f"{name}: strides {a.strides} and not {b.strides}"
    if _is_dense(b) and a.flags.writeable != b.flags.writeable:
        return f"{name}: writeable {a.flags.writeable}"
    return ""


def _is_dense(a: Any) -> bool:
    order = sorted(range(a.ndim), key=lambda k: -a.strides[k])
    return bool(a.transpose(order).flags.c_contiguous)


def _are_numbers(texts: Any) -> bool:
    """Whether all texts of an array are such as numbers become."""
    try:
        texts.astype(np.float64)
    except ValueError:
        return False
    return True


def _far(a: Any, b: Any, tolerance: float, name: str) -> str:
    if b.dtype.names:
        return next(filter(None, (_far(a[n], b[n], tolerance, name) for n in b.dtype.names)), "")
    if b.dtype.kind == "c":
        return _far(a.real, b.real, tolerance, name) or _far(a.imag, b.imag, tolerance, name)
    numbers = b.dtype.kind == "U" and _are_numbers(b) and _are_numbers(a)
    if b.dtype.kind == "f" or numbers:  # their last digits are the tolerance's
        x, y = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(all="ignore"):
            same = (x == y) & ((np.signbit(x) == np.signbit(y)) | (tolerance > 0))
            same |= (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= tolerance)
    elif b.dtype.kind in "mM":
        same = a.view(np.int64) == b.view(np.int64)
    elif b.dtype == object:  # data classes with arrays are not equal to one another
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        return next(filter(None, (_differs(x, y, tolerance, name, []) for x, y in pairs)), "")
    else:
        same = a == b
    return "" if bool(np.all(same)) else f"{name}: value {a.tolist()} and not {b.tolist()}"
