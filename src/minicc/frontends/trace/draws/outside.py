"""Generators that a function has from outside: as an argument, a global, or an attribute."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from minicc.frontends.trace.dispatch import DRAWN, refuse_impure
from minicc.frontends.trace.draws.generators import Generator, RandomState
from minicc.frontends.trace.draws.memory import Mt19937, Pcg64, StateRoute, route_to, state_in
from minicc.frontends.trace.given import Reference
from minicc.frontends.trace.namespace import Impure
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer


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
    if known is not None or state is None or recorder.path is None or not recorder.numbers:
        return Impure(recorder, name, DRAWN)
    kind = Generator if type(state) is Pcg64 else RandomState
    made = kind(recorder, name, partial(_inputs, recorder, name, way, state))
    reader.generators[id(x)] = way.place, made
    return made


def _inputs(recorder: Recorder, name: str, way: StateRoute, state: Pcg64 | Mt19937) -> list[Tracer]:
    """The arrays of a generator, which are inputs of the program."""
    found: list[Tracer] = []
    for part, array in zip(state._fields, state, strict=True):
        reference = Reference(f"the state of {name}:", way, part, array)
        box = recorder.numbers.array(recorder, reference, True)
        if box is not None:
            found.append(box)
    if len(found) < len(state):
        recorder.numbers.require_inputs()  # begins again where they are known of too late
        refuse_impure(recorder, name, DRAWN)
    return found
