"""Whether a program that draws random numbers is worth its call."""

from __future__ import annotations

from collections.abc import Sequence

from minicc.errors import UnsupportedError
from minicc.frontends.trace.draws.base import MANY, Draws
from minicc.frontends.trace.loops.body import steps_of
from minicc.frontends.trace.loops.choices import work
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.restarts import GivenUp

SOON = 40  # calls of NumPy's that take as long as that of a program which changes a generator
_NUMBERS = 1 << 10  # that NumPy computes meanwhile, for each of these
_DRAWN = 64  # numbers, many at once, that NumPy draws sooner than a program by as long


def require_worth(recorder: Recorder, generators: Sequence[Draws]) -> None:
    """GivenUp where NumPy is sooner done with all that is drawn and computed."""
    generators = [draws for draws in generators if draws.is_drawn_from]
    if not generators or recorder.path is None or recorder.path.breaks:
        return
    drawn = {op for draws in generators for op in draws.own}
    computed = sum([work(op) for op in recorder.ops if op not in drawn and not op.regions])
    calls = sum([draws.calls for draws in generators]) + computed // _NUMBERS
    loops = [op for op in recorder.ops if op.regions and op not in drawn]
    if sum([draws.many for draws in generators]) > _DRAWN * (calls + sum(map(steps_of, loops))):
        text = f"NumPy draws more than {MANY} numbers at once faster, and little else is done"
        raise GivenUp(UnsupportedError("MC0247", text, where=recorder.location()))
    if calls < SOON and not loops:
        text = "few random numbers are drawn, and little is computed, which NumPy does sooner"
        raise GivenUp(UnsupportedError("MC0247", text, where=recorder.location()))
