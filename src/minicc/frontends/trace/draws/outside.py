"""Generators that a function has from outside: as an argument, a global, or an attribute."""

from __future__ import annotations

from typing import Any, Protocol

from minicc.frontends.trace.dispatch import DRAWN
from minicc.frontends.trace.draws.generators import Generator, RandomState
from minicc.frontends.trace.draws.memory import Pcg64, route_to, state_in
from minicc.frontends.trace.given import Reference
from minicc.frontends.trace.namespace import Impure
from minicc.frontends.trace.recorder import Recorder


class Reader(Protocol):
    """What a trace reads from outside."""

    recorder: Recorder
    generators: dict[int, tuple[Any, Any]]


def drawn_from(reader: Reader, x: Any, name: str, route: Any) -> Any:
    """What stands for a generator to which calls lead by a route, if it is not the same at each."""
    recorder = reader.recorder
    way = route_to(x, route and route.at)
    place, known = reader.generators.get(id(x), (way.place, None))
    if known is not None and place == way.place:
        return known
    state = state_in(x)
    if known is None and state is not None and recorder.path is not None and recorder.numbers:
        kind = f"the state of {name}:"
        boxes = [
            recorder.numbers.array(recorder, Reference(kind, way, part, array), True)
            for part, array in zip(state._fields, state, strict=True)
        ]
        if all(box is not None for box in boxes):
            made = (Generator if type(state) is Pcg64 else RandomState)(recorder, name, *boxes)
            reader.generators[id(x)] = way.place, made
            return made
        recorder.numbers.require_inputs()
    return Impure(recorder, name, DRAWN)
