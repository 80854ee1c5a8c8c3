"""Tuples and lists of arrays that each round of a captured loop makes anew: `p = step(p)`.

Each element goes from round to round like a local name, under a name that is none of Python's, and
the local name is bound to a tuple or list of them. A list is an object of its own, so every round
has to make one, and there has to be a round: what the name shows afterwards is known then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer

Bind = Callable[[dict[str, Any]], None]


class Parts:
    """The tuples and lists under local names whose elements go from round to round."""

    def __init__(self, recorder: Recorder, bind: Bind) -> None:
        """`bind` binds local names."""
        self._recorder = recorder
        self._bind = bind
        self.wholes: dict[str, Any] = {}  # with what they are before the loop

    def names(self) -> set[str]:
        """The names of their elements."""
        return {_part(n, k) for n, x in self.wholes.items() for k in range(len(x))}

    def opened(
        self, names: Iterable[str], before: Mapping[str, Any], now: Mapping[str, Any], lists: bool
    ) -> list[str]:
        """Names to be carried, with elements in the place of tuples of arrays, and `lists` if so.

        `before` and `now` are what names are bound to before the loop, and after a round.
        """
        found: list[str] = []
        for n in names:
            if n in self.wholes:
                continue
            if self._open(n, before[n], now[n], lists):
                found += [_part(n, k) for k in range(len(before[n]))]
            else:
                found.append(n)
        return found

    def _open(self, name: str, before: Any, now: Any, lists: bool) -> bool:
        """Take a name's value apart, if it is a tuple, or a list where these may be, of arrays."""
        kind = type(before)
        if kind is not type(now) or kind not in (tuple, list)[: 1 + lists]:
            return False
        if len(before) != len(now) or not any(map(_is_array, before)):
            return False
        if any(isinstance(x, (tuple, list, dict)) for x in (*before, *now)):
            return False
        self.wholes[name] = before
        return True

    def before(self) -> dict[str, Any]:
        """What the elements are before the loop."""
        return {_part(n, k): x for n, whole in self.wholes.items() for k, x in enumerate(whole)}

    def begin(self, fresh: Mapping[str, Any]) -> dict[str, Any]:
        """What names are bound to in a round whose elements are `fresh`."""
        return self.joined({**self.before(), **fresh})

    def now(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """The elements of what names are bound to."""
        found: dict[str, Any] = {}
        for n, whole in self.wholes.items():
            value: Any = names.get(n)
            if type(value) is not type(whole) or len(value) != len(whole):
                self._recorder.write_out(f"`{n}` is another kind of object after a round")
            found |= {_part(n, k): x for k, x in enumerate(value)}
        return found

    def joined(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """The tuples and lists of elements that all have their names among these."""
        found = {}
        for n, whole in self.wholes.items():
            parts = [_part(n, k) for k in range(len(whole))]
            if names.keys() >= {*parts}:
                found[n] = type(whole)(names[part] for part in parts)
        return found

    def bind(self, names: Mapping[str, Any], bound: Mapping[str, Any]) -> None:
        """Bind names anew of which some elements have others; all are `bound` to something."""
        for n, whole in self.wholes.items():
            current: Any = bound.get(n)
            if type(current) is not type(whole) or len(current) != len(whole):
                continue
            new = [names.get(_part(n, k), x) for k, x in enumerate(current)]
            if any(a is not b for a, b in zip(new, current, strict=True)):
                self._bind({n: type(whole)(new)})


def _part(name: str, number: int) -> str:
    return f"{name}[{number}] of its own"


def _is_array(x: Any) -> bool:
    return isinstance(x, Tracer) and not x.scalar
