"""What rounds of a captured loop do with lists and dicts besides appending to local ones.

Elements of lists that they look at (`read_back`) and places that they set (`slots`) go from round
to round under names that are none of Python's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from minicc.frontends.trace.loops.appended import Appends
from minicc.frontends.trace.loops.code import LoopCode
from minicc.frontends.trace.loops.learned import Learned
from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.loops.read_back import ReadBack
from minicc.frontends.trace.loops.slots import Slots
from minicc.frontends.trace.recorder import Recorder


class Containers:
    """The lists and dicts of a loop, as its rounds use them."""

    def __init__(
        self, recorder: Recorder, learned: Learned, code: LoopCode, appends: Appends, reach: Reach
    ) -> None:
        self._recorder = recorder
        self._appends = appends
        self._slots = Slots(reach)
        self._read_back = ReadBack(recorder, learned, code.read_back, appends.lists)

    @property
    def lists(self) -> dict[str, list[Any]]:
        """The lists to which rounds append that something else stands for in a round."""
        return self._read_back.lists

    def names(self) -> set[str]:
        """The names under which something goes from round to round."""
        return {*self._read_back.now()} | self.places()

    def places(self) -> set[str]:
        """The names of places that rounds set, which all are looked at after the loop."""
        return self._slots.names() - self.lists.keys()

    def begin(self, names: Mapping[str, Any], fresh: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a round, where names have `fresh` values; what lists' names are bound to in it."""
        filling = self._read_back.begin(fresh)
        self._slots.begin({**names, **fresh, **filling})
        return filling

    def now(self) -> dict[str, Any]:
        """What goes from round to round, as a round has it now."""
        return self._read_back.now() | self._slots.now()

    def held(self) -> dict[str, Any]:
        """What places hold that rounds set."""
        return self._slots.held()

    def before(self) -> dict[str, Any]:
        """What places hold before the loop."""
        return self._slots.before()

    def bind(self, names: Mapping[str, Any]) -> None:
        """Set places that have some of these names."""
        self._slots.bind(names)

    def fill(self, ways: Iterable[dict[str, Any]]) -> set[str]:
        """Have all ways through a round tell under these names; which they are."""
        all_of_them = [*ways]
        return self._read_back.fill(all_of_them) | self._slots.fill(all_of_them)

    def note(self, names: dict[str, Any], now: Mapping[str, Any], code: LoopCode) -> str:
        """Add what goes on is before the first round to `names`; why a loop can't be captured."""
        return self._read_back.note(names, now, (code.carried | code.left) | self.places())

    def take_lists(self) -> set[str]:
        """The names of lists elsewhere to which a recording has appended; it is to begin again."""
        if self._slots.wrong:
            self._recorder.write_out(f"a round changes `{self._slots.wrong}`")
        found, self._slots.appended = self._slots.appended, {}
        if found and not self._appends.add(found):
            self._recorder.write_out(f"a round changes `{next(iter(found))}`")
        self._read_back.add(found)
        return {*found}
