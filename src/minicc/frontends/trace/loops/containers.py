"""What rounds of a captured loop do with lists and dicts besides appending to local ones.

Elements of lists that they look at (`read_back`), places that they set (`slots`) and elements of
tuples and lists that they make anew (`parts`) go from round to round under names that are none of
Python's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from minicc.frontends.trace.loops.appended import Appends
from minicc.frontends.trace.loops.choices import Way
from minicc.frontends.trace.loops.code import LoopCode
from minicc.frontends.trace.loops.learned import Learned
from minicc.frontends.trace.loops.parts import Parts
from minicc.frontends.trace.loops.reach import Reach
from minicc.frontends.trace.loops.read_back import ReadBack
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.loops.slots import Slots
from minicc.frontends.trace.loops.tables import Tables
from minicc.frontends.trace.recorder import Recorder


class Containers:
    """The lists and dicts of a loop, as its rounds use them."""

    def __init__(
        self, recorder: Recorder, learned: Learned, site: Site, appends: Appends, reach: Reach
    ) -> None:
        self._recorder = recorder
        self._site = site
        self._parts = Parts(recorder, site.bind)
        self._appends = appends
        self._slots = Slots(reach)
        self._tables = Tables(recorder, site, reach.is_alone)
        self._read_back = ReadBack(recorder, learned, site.code.read_back, appends.lists)

    @property
    def lists(self) -> dict[str, list[Any]]:
        """The lists to which rounds append that something else stands for in a round."""
        return self._read_back.lists

    def names(self) -> set[str]:
        """The names under which something goes from round to round."""
        return self._read_back.names() | self.places()

    def places(self) -> set[str]:
        """The names of what is taken to be looked at after the loop: places that rounds set."""
        return (self._slots.names() - self.lists.keys()) | self._parts.names()

    @property
    def wholes(self) -> Set[str]:
        """The local names of whose values the elements go from round to round."""
        return self._parts.wholes.keys()

    def opened(
        self, names: list[str], before: dict[str, Any], now: dict[str, Any], surely: bool
    ) -> list[str]:
        """The names to be carried, with elements in the place of tuples and lists of arrays.

        What elements are `before` the loop and `now` is added to these. Of lists that is so where
        each round `surely` makes one.
        """
        lists = surely and type(self._appends.count) is int
        found = self._parts.opened(names, before, now, lists)
        before |= self._parts.before()
        now |= self._parts.now(now)
        return found

    def joined(self, way: Way) -> Way:
        """A way with the tuples and lists of which it tells the elements."""
        return way._replace(names=way.names | self._parts.joined(way.names))

    def begin(self, names: Mapping[str, Any], fresh: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a round, where names have `fresh` values; what local names are bound to in it."""
        bound = self._read_back.begin(fresh) | self._parts.begin(fresh) | self._tables.begin()
        self._slots.begin({**names, **fresh, **bound})
        return bound

    def now(self, names: dict[str, Any]) -> dict[str, Any]:
        """What local names are bound to, and what goes from round to round besides."""
        return names | self._read_back.now() | self._slots.now() | self._parts.now(names)

    def held(self) -> dict[str, Any]:
        """What places hold that rounds set, and elements are, after the loop."""
        return self._slots.held() | self._parts.now(self._site.names())

    def before(self) -> dict[str, Any]:
        """What places hold before the loop."""
        return self._slots.before()

    def bind(self, names: Mapping[str, Any]) -> None:
        """Set places and elements that have some of these names."""
        self._slots.bind(names)
        if self._parts.wholes:
            self._parts.bind(names, self._site.names())

    def put_back(self) -> None:
        """Bind names to lists and tuples that something else stands for in rounds."""
        self._tables.put_back()

    def given_back(self, grown: dict[str, Any]) -> dict[str, Any]:
        """What names of lists are bound to after the loop, with those that have `grown`.

        Lists hold then what rounds have set by keys.
        """
        self._tables.give_back()
        return self.lists | grown

    def fill(self, ways: Iterable[dict[str, Any]]) -> set[str]:
        """Have all ways through a round tell under these names; which they are."""
        all_of_them = [*ways]
        named = self._read_back.fill(all_of_them) | self._slots.fill(all_of_them)
        return named | self._parts.names()

    def note(self, names: dict[str, Any], now: Mapping[str, Any], code: LoopCode) -> str:
        """Add what goes on is before the first round to `names`; why a loop can't be captured."""
        if self._slots.added:
            return f"a round is the first to set `{self._slots.added}`"
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
