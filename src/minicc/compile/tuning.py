"""Search among legal schedules by measuring: what `minicc tune` does.

Only schedules that sum in the same order are tried, so that a model's bits stay as they are; its
outputs are compared all the same, and what changes any is not taken. In each round each group that
matters has one candidate, all of them in one program. Its launches and those of the program with
the best schedules so far are timed one by one in turns, in the order of a run, so that each finds
the caches as a run leaves them. A candidate whose best time is better is measured again, and wins
where it is faster in most turns then, too: what else a machine does only adds to times, and not to
both alike.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from statistics import median
from typing import NamedTuple

from minicc.backends.base import MemoryStore, Store
from minicc.compile.compiler import lower
from minicc.compile.profile import Launches
from minicc.compile.units import Unit
from minicc.ir.arrays import Array
from minicc.ir.core import Module
from minicc.ir.schedule import Schedule
from minicc.ir.structured import Group
from minicc.ir.text.printer import print_attribute, quote
from minicc.options import Options
from minicc.passes.structured.near_schedules import near
from minicc.passes.structured.schedule import constants_of
from minicc.passes.structured.write_schedules import Given, named_groups, write_schedules

_FEW, _MANY = 4, 15  # turns in which candidates are compared, and hopeful ones again
_GAIN, _WINS = 0.98, 0.75  # of the median, and the share of turns, that are beyond the noise
_MOVES = re.compile(r"(fill|copy)(_\d+)?")  # kernels that are of no group
_SHARE = 0.005  # of a run's time, below which a group does not matter

Times = dict[tuple[int, tuple[str, ...]], list[float]]
Pair = tuple[float, float]


class Input(NamedTuple):
    """A unit that is compiled, and what it takes."""

    unit: Unit
    arrays: Sequence[Array]


class Gain(NamedTuple):
    """A schedule, and seconds of its group's launches with the compiler's own and with it."""

    name: str
    own: float
    tuned: float
    schedule: Schedule


class Found(NamedTuple):
    """The gains of a search, seconds of all launches with the own schedules, how much was tried.

    The search `ended` where no schedule was left to try.
    """

    gains: tuple[Gain, ...]
    seconds: float
    rounds: int
    tried: int
    ended: bool

    def text(self) -> str:
        """A file of schedules."""
        pairs = ((quote(g.name), print_attribute(g.schedule)) for g in self.gains)
        return "".join(f"{name} = {schedule}\n" for name, schedule in pairs)


def tune(
    inputs: Sequence[Input], options: Options, seconds: float, told: Callable[[int, int], None]
) -> Found:
    """The best schedules found in so many seconds, or before an interrupt.

    `told` learns after each round how many there were, and how many groups have a better schedule.
    """
    end = time.monotonic() + seconds
    search = _Search(inputs, options)
    rounds, ended = 0, False
    try:
        while time.monotonic() < end:
            if not search.round():
                ended = True
                break
            rounds += 1
            told(rounds, len(search.changed))
    except KeyboardInterrupt:
        pass  # what was found is kept
    tried = sum(len(schedules) - 1 for schedules in search.tried.values())
    return Found(search.gains(), search.whole, rounds, tried, ended)


class _Programs:
    """The programs of all units by given schedules, whose launches are timed."""

    def __init__(self, parts: Sequence[_Part], plans: Mapping[str, Schedule], store: Store) -> None:
        self.launches = [part.launches(plans, store) for part in parts]

    def once(self) -> Times:
        """Seconds of the groups' launches, run once, in order by the nodes they compute for."""
        found: Times = {}
        for number, launches in enumerate(self.launches):
            for (op, _, _), seconds in zip(launches.ops, launches.times(), strict=True):
                if not _MOVES.fullmatch(op.kernel):
                    found.setdefault((number, op.loc), []).append(seconds)
        return found

    def same_bits(self, other: _Programs) -> bool:
        """Whether the programs gave what others gave; of loops only the first rounds were run."""
        return all(
            a.tobytes() == b.tobytes()
            for mine, theirs in zip(self.launches, other.launches, strict=True)
            if all(rounds == 1 for _, rounds, _ in mine.ops)
            for a, b in zip(mine.outputs, theirs.outputs, strict=True)
        )

    def close(self) -> None:
        """Let go of the code."""
        for launches in self.launches:
            launches.close()


class _Part:
    """A unit before its groups are scheduled, and what it takes."""

    def __init__(self, given: Input, options: Options) -> None:
        unit = given.unit
        self.options = options
        self.arrays = given.arrays
        self.module = lower(
            unit.module, options, unit.binding, start=unit.start, stop="collapse", given=Given()
        )
        self.constants = constants_of(self.module)

    def scheduled(self, plans: Mapping[str, Schedule]) -> Module:
        """The unit by given schedules, and the compiler's own for other groups."""
        given = Given()
        given.schedules = dict(plans)
        return write_schedules(self.module, self.options.machine, given)

    def launches(self, plans: Mapping[str, Schedule], store: Store) -> Launches:
        """The launches of its program."""
        program = lower(self.scheduled(plans), self.options, start="schedule")
        return Launches(program, self.options, self.arrays, store)


class _Search:
    """The best schedules so far, and for each group that matters those to try."""

    def __init__(self, inputs: Sequence[Input], options: Options) -> None:
        self.target = options.machine
        self.parts = [_Part(one, options) for one in inputs]
        self.store = MemoryStore()  # most of a search's code is of no use later
        self.own: dict[str, Schedule] = {}
        self.at: dict[str, tuple[int, Group]] = {}
        self.alike: dict[tuple[int, tuple[str, ...]], list[str]] = {}
        for number, part in enumerate(self.parts):
            for name, group in named_groups(part.scheduled({})):
                self.alike.setdefault((number, group.loc), []).append(name)
                # a name in two parts is left alone: only what fits both could be given
                if name in self.own:
                    self.at.pop(name, None)
                else:
                    self.at[name] = number, group
                assert group.schedule is not None
                self.own[name] = group.schedule
        self.changed: dict[str, Schedule] = {}
        self.tried: dict[str, set[Schedule]] = {name: {self.own[name]} for name in self.at}
        self.now = self.programs({})
        first = [self.now.once() for _ in range(_FEW)]
        self.whole = sum(
            sum(map(min, zip(*(t[at] for t in first), strict=True))) for at in first[0]
        )
        least = _SHARE * self.whole
        taken = {name: min(self.seconds(name, times) for times in first) for name in self.at}
        self.left = {name: self.near(name) for name in self.at if least <= taken[name] < inf}

    def seconds(self, name: str, times: Times) -> float:
        """The seconds of a group; inf where its launches can't be told from those of others."""
        number, group = self.at[name]
        alike, found = self.alike[number, group.loc], times.get((number, group.loc), [])
        if len(alike) == 1:
            return sum(found)
        return found[alike.index(name)] if len(found) == len(alike) else inf

    def programs(self, plans: Mapping[str, Schedule]) -> _Programs:
        """The programs with some schedules in place of the own ones."""
        return _Programs(self.parts, {**self.own, **plans}, self.store)

    def near(self, name: str) -> Iterator[Schedule]:
        """Schedules near the best one of a group that were not tried."""
        number, group = self.at[name]
        best = self.changed.get(name, self.own[name])
        for schedule in near(group, best, self.target, self.parts[number].constants):
            if schedule not in self.tried[name]:
                self.tried[name].add(schedule)
                yield schedule

    def round(self) -> bool:
        """Try a schedule for each group; False where none is left."""
        trial: dict[str, Schedule] = {}
        for name in list(self.left):
            schedule = next(self.left[name], None)
            if schedule is None:
                del self.left[name]
            else:
                trial[name] = schedule
        sure = self.faster(self.now, trial)
        if sure:
            self.changed |= {name: trial[name] for name in sure}
            self.left |= {name: self.near(name) for name in sure}
            self.now.close()
            self.now = self.programs(self.changed)
        return bool(trial)

    def faster(self, now: _Programs, trial: Mapping[str, Schedule]) -> dict[str, Pair]:
        """Those of a trial that are faster beyond the noise, with the seconds before and after."""
        if not trial:
            return {}
        other = self.programs({**self.changed, **trial})
        first = _in_turns(now, other, _FEW)
        if not now.same_bits(other):
            return {}
        hopeful = [name for name in trial if _is_less(self.read(name, first))]
        again = _in_turns(now, other, _MANY) if hopeful else []
        other.close()
        times = {name: self.read(name, again) for name in hopeful}
        return {name: _medians(found) for name, found in times.items() if _is_faster(found)}

    def read(self, name: str, turns: Sequence[tuple[Times, Times]]) -> list[Pair]:
        """The seconds of a group before and after, turn by turn."""
        return [(self.seconds(name, a), self.seconds(name, b)) for a, b in turns]

    def gains(self) -> tuple[Gain, ...]:
        """What all schedules that were found gain over the own ones, measured once more."""
        found = self.faster(self.programs({}), self.changed)
        return tuple(Gain(name, *times, self.changed[name]) for name, times in found.items())


def _in_turns(a: _Programs, b: _Programs, turns: int) -> list[tuple[Times, Times]]:
    """The times of both, in turns; which one is first takes turns, too."""
    a.once(), b.once()
    pairs: list[tuple[Times, Times]] = []
    for turn in range(turns):
        if turn % 2:
            after = b.once()
            pairs.append((a.once(), after))
        else:
            pairs.append((a.once(), b.once()))
    return pairs


def _is_less(times: Sequence[Pair]) -> bool:
    """Whether the best time after is below that before by what counts."""
    return min(after for _, after in times) < _GAIN * min(before for before, _ in times)


def _medians(times: Sequence[Pair]) -> Pair:
    before, after = map(median, zip(*times, strict=True))
    return before, after


def _is_faster(times: Sequence[Pair]) -> bool:
    """The same beyond the noise: of the medians and of the best, and in most turns."""
    before, after = _medians(times)
    wins = sum(b < a for a, b in times)
    return after < _GAIN * before and wins >= _WINS * len(times) and _is_less(times)
