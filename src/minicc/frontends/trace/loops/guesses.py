"""What a loop's rounds carry, guessed before one was recorded.

What is carried is found by recording a round: a name that it binds anew, or an array that it writes
to, is carried, and the round is recorded once more. Where this is known beforehand, the first
recording is mostly the last one: from the code, which says what each round does (`surely`), from
another capture of the same loop, or from the rounds that were run. A wrong guess costs a recording.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from minicc.frontends.trace.loops.carried import Carried, CarriedArray, CarriedCount
from minicc.frontends.trace.loops.code import LoopCode
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.pytree import PLAIN
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer


def guessed(
    recorder: Recorder,
    code: LoopCode,
    bound: Mapping[str, Any],
    found: Container[str],
    goes_on: bool,
) -> tuple[dict[str, Carried], list[Tracer]]:
    """The names that rounds are taken to bind anew, and the arrays that they are taken to write to.

    `bound` has what names are bound to before the loop, of which `found` were carried before. Where
    the loop `goes_on` after rounds that were run, arrays that were written to are written to again.
    """
    does = code.surely
    held = {n: v for n, v in bound.items() if isinstance(v, Tracer)}
    updated = {n for n, v in held.items() if n in does.updated and not v.scalar}
    anew = code.carried & (does.bound | (does.updated - updated))
    names: dict[str, Carried] = {}
    for n in sorted(held):
        if n in anew or n in found:
            names[n] = CarriedArray(recorder, held[n])
    for n, by in does.counted:
        if n in anew and type(bound.get(n)) in (int, Index):
            names[n] = CarriedCount(bound[n], bound[n] + by, "")
    again = code.carried - code.bound if goes_on else frozenset()
    written = {n for n, v in held.items() if n in does.written | updated}
    written.update(n for n in again & held.keys() if held[n].root.written)
    return names, [held[n].root for n in sorted(written)]


def found_before(recorder: Recorder, loop: Any) -> tuple[list[Tracer], Container[str]]:
    """What was carried when a loop was captured in another round of one around it.

    That is the arrays that are still alive, and names. What an earlier recording of the loop around
    made may be alive, but holds a value of that recording.
    """
    boxes, names = recorder.found.get(loop, ((), ()))
    gone = {id(b) for around in recorder.loops for b in around.made_before()} if boxes else ()
    return [box for ref in boxes if (box := ref()) is not None and id(box) not in gone], names


def is_another(now: Any, before: Any) -> bool:
    """Whether a name is bound to another value than before, as far as Python can tell."""
    plain = type(now) is type(before) and type(now) in PLAIN
    return now is not before and not (plain and value_key(now) == value_key(before))


def wrong_names(
    names: Mapping[str, Carried], start: Mapping[str, Any], now: Mapping[str, Any]
) -> set[str]:
    """The names that a round has not bound anew, or to another number than they were taken to."""
    return {
        n
        for n, c in names.items()
        if now[n] is start[n] or (isinstance(c, CarriedCount) and not c.agrees(now[n]))
    }
