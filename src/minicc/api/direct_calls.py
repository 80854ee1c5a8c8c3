"""Which calls of a traced function machine code may look at, and what it asks of them.

Those are calls of a program of one graph with plain arguments, of which nothing is guarded but
themselves and names that other code may bind anew. What an inline cache asks for them is written as
a plan (`runtime.direct`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minicc import errstate
from minicc.frontends.trace.objects import is_stood_in
from minicc.frontends.trace.plain_guards import Numbers
from minicc.frontends.trace.pytree import NUMBERS, Slot, leaves, rebuild
from minicc.ir.arrays import Array
from minicc.runtime.direct import Name, Row, Wanted, dense, moving, number, same, typed
from minicc.runtime.execute import NativeExecutable

if TYPE_CHECKING:
    from minicc.api.specialised import Call, Specialisation

_STILL = (int, float, str, bool, type(None))  # what may stand in a result besides arrays
_WORDS = range(-(1 << 63), 1 << 63)


class DirectCall(NamedTuple):
    """A function of the arguments that gives a program's outputs or None, and their result."""

    outputs: Callable[..., list[Array] | None]
    result: Callable[[list[Array]], Any]


def direct_call(found: Specialisation, call: Call, given: int) -> DirectCall | None:
    """What serves calls that are like one whose inline cache is made, if that can be.

    So many of the call's arguments are `given`, and the others have their defaults.
    """
    traced, executable = found.traced, found.compilation and found.compilation.executable
    if traced is None or errstate.STATE is None or not isinstance(executable, NativeExecutable):
        return None
    numbers, names = found.given.plain(), found.environment.plain()
    result = _result(traced.structure)
    alone = len(set(map(id, call.arrays))) == len(call.arrays)
    if numbers is None or names is None or result is None or not alone:
        return None
    rows = _rows(call, call.fixed(found.given.moving), numbers)
    if any(row is None or (row.input >= 0 and k >= given) for k, row in enumerate(rows)):
        return None
    asked = [Name(*name) for name in names]
    wanted = Wanted([r for r in rows[:given] if r is not None], asked, errstate.STATE)
    shapes = [a.shape for a in (*call.arrays, *call.inputs)]
    outputs = executable.direct(shapes, wanted)
    return None if outputs is None else DirectCall(outputs, result)


def _rows(call: Call, fixed: Collection[int], others: Numbers) -> list[Row | None]:
    """What each argument must be, None where that can't be said.

    `fixed` are the numbers that are constants of the program; of `others` the inputs come after the
    arrays.
    """
    rows: list[Row | None] = []
    arrays = numbers = 0
    for value in call.values:
        kind = type(value)
        if kind is np.ndarray:
            rows.append(dense(value, arrays) if value.dtype.isnative else None)
            arrays += 1
        elif kind in NUMBERS:
            if kind is bool or kind is complex:
                rows.append(same(value) if kind is bool and numbers in fixed else None)
            elif numbers in fixed:
                rows.append(number(value) if kind is float or value in _WORDS else None)
            elif numbers in others.inputs:
                place = len(call.arrays) + others.inputs[numbers]
                rows.append(moving(kind, place, others.bounds.get(numbers)))
            elif numbers in others.bounds:
                rows.append(None)
            else:
                rows.append(typed(kind))
            numbers += 1
        elif kind in (tuple, list, dict):
            rows.append(None)
        else:
            rows.append(typed(kind) if is_stood_in(value) else same(value))
    return rows


def _result(structure: Any) -> Callable[[list[Array]], Any] | None:
    """What makes a result of the outputs alone, and does nothing else."""
    if type(structure) is Slot and _is_plain(structure):
        return structure.of
    nested = type(structure) in (tuple, list, dict)
    if nested and all(type(x) in _STILL or _is_plain(x) for x in leaves(structure)):
        return partial(rebuild, structure)
    return None


def _is_plain(x: Any) -> bool:
    return type(x) is Slot and (x.kind in (None, "array") or isinstance(x.kind, type))
