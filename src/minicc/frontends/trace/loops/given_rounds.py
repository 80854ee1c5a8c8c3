"""`for k in range(n)` where each call gives another `n`: one program for any number of rounds.

The loop of the graph has a limit that is a value, as that of a `while` has (`whiles`), and ends
there alone. Where it can't be captured so, `n` is a number that is known, as in the first call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minicc.frontends.trace.dispatch import value_of
from minicc.frontends.trace.loops.choices import always
from minicc.frontends.trace.loops.code import Test
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.loops.whiles import WhileCapture
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import Dispatch
from minicc.frontends.trace.restarts import WrittenOut
from minicc.ir.core import Value

_FEW = 8  # rounds up to which a program for that number is better


class GivenRounds(WhileCapture):
    """A loop of as many rounds as a number says that the call gives."""

    def __init__(self, recorder: Recorder, site: Site, reach: Reach, rounds: Number) -> None:
        super().__init__(recorder, site, Test(site.code, True), reach, None, {})
        self._limit = rounds

    def begin(self) -> Index:
        number = super().begin()
        self.condition = always(self.recorder)  # a value of this recording
        return number

    @property
    def key(self) -> Any:
        code, head = self.site.key
        return code, (head, "any number of rounds")

    def limit(self) -> Value:
        whole = Dispatch.call(self.recorder, "maximum", (self._limit.box, np.int64(0)), {})
        return value_of(self.recorder, whole)  # of an input that is just known of, a constant

    def finish(self) -> bool:
        self.finish_at(always(self.recorder))
        return True


def given_range(recorder: Recorder, site: Site | None, args: tuple[Any, ...]) -> Any:
    """The items of a range whose end a number of the call gives; None where that is to be known."""
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    if site is None or recorder.loops or not (has_term(stop) and type(start) is type(step) is int):
        return None
    if stop.kind is not int or not step:
        return None
    rounds = stop - start if start else stop
    if step != 1:
        rounds = -((start - stop) // step)
    code = site.code
    site = Site(site.frame, code._replace(carried=code.carried | code.left))
    unbound = code.left - site.names().keys()
    if not has_term(rounds) or rounds.term.value <= _FEW or code.refused or unbound:
        return None
    reach = Reach.of(recorder, site)
    capture = GivenRounds(recorder, site, reach, rounds)
    if reach.why or recorder.learned[capture.key].refused:
        return None
    return _items(capture, start, step)


def _items(capture: GivenRounds, start: int, step: int) -> Iterator[Any]:
    """The numbers of the rounds that are recorded."""
    recorder = capture.recorder
    while True:
        number: Any = capture.begin()
        yield number * step + start
        if capture.ends():
            break
    capture.why = capture.why or capture.why_slow(capture.states)
    if capture.why:
        capture.abandon()
        recorder.end(WrittenOut(capture, capture.why))
    capture.finish()
    recorder.tell(str(capture.site), "as many rounds as a call says, a loop of the graph")
