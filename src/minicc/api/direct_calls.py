"""Which calls of a traced function machine code may look at, and what it asks of them.

Those are calls of a program of one graph with plain arguments, of which nothing is guarded but
themselves and names that other code may bind anew. What an inline cache asks for them is written as
a plan (`runtime.direct`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minicc import errstate
from minicc.api.segments import Segment
from minicc.frontends.trace.objects import is_stood_in
from minicc.frontends.trace.paths import Finish
from minicc.frontends.trace.plain_guards import Numbers
from minicc.frontends.trace.pytree import NUMBERS, STILL, Slot, rebuild
from minicc.frontends.trace.result_parts import InRuns
from minicc.ir.arrays import Array
from minicc.runtime.direct import Name, Row, Wanted, dense, moving, number, same, scalar, typed
from minicc.runtime.execute import NativeExecutable

if TYPE_CHECKING:
    from minicc.api.specialised import Call, Specialisation

_WORDS = range(-(1 << 63), 1 << 63)


class DirectCall(NamedTuple):
    """A function of the arguments that gives a program's outputs or None, and their result."""

    outputs: Callable[..., list[Array] | None]
    result: Callable[[list[Array]], Any]


class _Run(NamedTuple):
    """What runs, and which of a call's arrays and numbers are its inputs, by their places.

    `writes` say for such a place which output is written in its memory. `result` makes the call's
    result of the other outputs.
    """

    executable: NativeExecutable
    inputs: Sequence[int]
    writes: Mapping[int, int]
    result: Callable[[list[Array]], Any]


def direct_call(found: Specialisation, call: Call, given: int) -> DirectCall | None:
    """What serves calls that are like one which an inline cache has served, if that can be.

    So many of the call's arguments are `given`, and the others have their defaults.
    """
    numbers, names, run = found.given.plain(), found.environment.plain(), _run(found, call)
    alone = len(set(map(id, call.arrays))) == len(call.arrays)
    if numbers is None or names is None or run is None or errstate.STATE is None or not alone:
        return None
    rows = _rows(call, call.fixed(found.moving), numbers, run)
    if any(r is None or (max(r.input, r.output) >= 0 and k >= given) for k, r in enumerate(rows)):
        return None
    asked = [Name(*name) for name in names]
    wanted = Wanted([r for r in rows[:given] if r is not None], asked, errstate.STATE)
    state = [*call.arrays, *call.inputs]
    outputs = run.executable.direct([state[k].shape for k in run.inputs], wanted)
    return None if outputs is None else DirectCall(outputs, run.result)


def _run(found: Specialisation, call: Call) -> _Run | None:
    """What runs for a call, if that is one program, and nothing else is done."""
    traced, root = found.traced, found.tree.root
    if traced is None:
        return None
    count = len(call.arrays) + len(call.inputs)
    if found.compilation is not None:
        executable, result = found.compilation.executable, _result(traced.structure)
        if result is None or not isinstance(executable, NativeExecutable):
            return None
        return _Run(executable, range(count), {}, result)
    if root is None or not isinstance(root.code, Segment) or not root.code.sure:
        return None
    finish = root.action
    executable = root.code.compilation.executable
    if not isinstance(finish, Finish) or not isinstance(executable, NativeExecutable):
        return None
    writes = {target: k - count for target, k in finish.writes}
    into = {root.inputs[k]: out for k, out in executable.donated} | dict(root.fills)
    result = _result(finish.structure)
    others = [k for k in range(executable.outputs) if k not in writes.values()]
    whole = writes == into and [k - count for k in finish.results] == others
    if result is None or not whole or finish.require is not None or finish.held:
        return None
    return _Run(executable, root.inputs, writes, result)


def _rows(call: Call, fixed: Collection[int], others: Numbers, run: _Run) -> list[Row | None]:
    """What each argument must be, None where that can't be said.

    `fixed` are the numbers that are constants of the program; those of `others` that it takes come
    after the arrays.
    """
    rows: list[Row | None] = []
    place = {at: k for k, at in enumerate(run.inputs)}
    arrays = numbers = 0
    for value in call.values:
        kind = type(value)
        if kind is np.ndarray:
            written = run.writes.get(arrays, -1)
            native = value.dtype.isnative
            rows.append(dense(value, place.get(arrays, -1), written) if native else None)
            arrays += 1
        elif isinstance(value, np.generic):
            rows.append(scalar(value, place.get(arrays, -1)))
            arrays += 1
        elif kind in NUMBERS:
            if kind is bool or kind is complex:
                rows.append(same(value) if kind is bool and numbers in fixed else None)
            elif numbers in fixed and numbers in others.inputs:
                rows.append(None)
            elif numbers in fixed:
                rows.append(number(value) if kind is float or value in _WORDS else None)
            elif numbers in others.inputs:
                at = place.get(len(call.arrays) + others.inputs[numbers], -1)
                rows.append(moving(kind, at, others.bounds.get(numbers)) if at >= 0 else None)
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
    found = _parts(structure)
    if not all(map(_is_plain, found)):
        return None
    if len({*map(id, found)}) < len(found):
        return partial(rebuild, structure)  # where one object stands twice
    return _maker(structure)


def _parts(x: Any) -> list[Any]:
    """The containers and leaves of a structure, but for plain values of Python's."""
    held = x.values() if type(x) is dict else x if type(x) in (tuple, list) else ()
    found = [part for e in held for part in _parts(e)]
    return found if type(x) in STILL else [x, *found]


def _is_plain(x: Any) -> bool:
    if type(x) is Slot:
        return x.kind in (None, "array") or isinstance(x.kind, type)
    if type(x) is InRuns:
        others = [p for p in x.parts if type(p) is list]
        return all(map(_is_plain, _parts(others)))
    return type(x) in (tuple, list, dict)


def _maker(x: Any) -> Callable[[list[Array]], Any]:
    """What makes a part of a result, in which no object stands twice."""
    if type(x) in (Slot, InRuns):
        made: Callable[[list[Array]], Any] = x.of
        return made
    if type(x) in STILL:
        return lambda outputs: x
    if type(x) is dict:
        pairs = [(k, _maker(e)) for k, e in x.items()]
        return lambda outputs: {k: make(outputs) for k, make in pairs}
    makers = [_maker(e) for e in x]
    if type(x) is list:
        return lambda outputs: [make(outputs) for make in makers]
    return lambda outputs: tuple([make(outputs) for make in makers])
