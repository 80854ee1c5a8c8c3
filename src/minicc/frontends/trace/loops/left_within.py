"""`for` loops that a loop within them leaves: `for i in ...: for j in ...: if ...: return i, j`.

No test of the outer loop's own says that it ends, so its capture begins where it does, as that of a
`while` whose condition always holds. A way through its round that leaves it ends the loop of the
graph with what that round began with, and Python goes through the round once more. So is captured a
loop that a test of its own leaves, and that may have no round, as the one within is in some rounds;
or that takes elements of lists of numbers before it asks, where Python would read which.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol

from minicc.frontends.trace.loops.choices import always
from minicc.frontends.trace.loops.code import Test, whole_at
from minicc.frontends.trace.loops.conditions import LastRound, way_out
from minicc.frontends.trace.loops.flow import flow_of
from minicc.frontends.trace.loops.liveness import local
from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.loops.tables import takes_elements
from minicc.frontends.trace.loops.turn import Turn
from minicc.frontends.trace.loops.whiles import WhileCapture
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.types import I64


class Items(Protocol):
    """What a `for` runs over."""

    def item(self, number: Any) -> Any:
        """The item of that number, which may be an index."""
        ...


def left_within(
    recorder: Recorder, site: Site, items: Items, turn: Turn
) -> Generator[Any, None, bool]:
    """The items of rounds that are recorded, and of the one that leaves the loop.

    It returns whether the loop is captured so; `turn` is at its end then.
    """
    test = whole_at(site.frame.f_code, site.code.head)
    known = type(turn.length) is int
    if test is None:
        return False
    site = Site(site.frame, test.loop)
    if known:
        if not (turn.left > 1 and (test.is_left_within or takes_elements(site))):
            return False
        site.bind(dict.fromkeys(_item_names(site), items.item(turn.at)))  # as the first round does
    if not _may_begin(recorder, site, test):
        return False
    reach = Reach.of(recorder, site)
    if reach.why:
        return False
    begun = turn.at
    capture = WhileCapture(recorder, site, test, reach, turn, {})
    while True:
        capture.begin()
        capture.condition = always(recorder)  # a value of this recording
        yield items.item(turn.next())
        if capture.ends():
            break
    if not capture.why:
        capture.require_masks()
        capture.why = capture.why_slow(capture.states)
    if capture.why:
        capture.abandon()
        return False
    capture.finish_at(always(recorder))
    many = f"{turn.length} rounds" if known else "as many rounds as one around it says"
    recorder.tell(str(site), f"{many}, a loop of the graph, until it is left")
    if capture.left_by is None:
        return True
    at = recorder.emit(graph.Add, capture.rounds, recorder.scalar(begun, I64))
    number = Number(Tracer(recorder, at), int, True)  # which lives on when the other is read
    by = way_out(recorder, capture.left_by, capture.ways_out, test, site.frame)
    if by:
        again = LastRound(site.frame, capture.ways_out[by - 1], set())
        recorder.last_round = again if again.loop == site.loop else None
        yield items.item(number)
        turn.at = int(number) + 1  # if it is not left after all
    return True


def _may_begin(recorder: Recorder, site: Site, test: Test) -> bool:
    """Whether the loop can be captured; what leaves a loop around as well is a way out of that."""
    unbound = test.loop.left - site.names().keys()
    if test.loop.refused or recorder.learned[site.key].refused or unbound:
        return False
    flow = flow_of(site.frame.f_code)
    _, *others = flow.heads_around(flow.place[site.code.head])
    if not (recorder.loops and others):
        return True
    around, inside = recorder.loops[-1], flow.within(others[0])
    known = around.test.elsewhere if isinstance(around, WhileCapture) else {}
    gone = [n for n in test.elsewhere if not inside >= {*flow.sides(n)}]
    return around.site.frame is site.frame and known.keys() >= {*gone}


def _item_names(site: Site) -> Sequence[str]:
    """The name that rounds bind to their items at once, if it is one."""
    flow = flow_of(site.frame.f_code)
    return local(flow.steps[flow.place[site.code.head]])[1][:1]
