"""Guards that are so plain that machine code can ask for them (`runtime.direct`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from minicc.frontends.trace.paths import value_key


class Numbers(NamedTuple):
    """Numbers of a call, by their place: which of a program's inputs each is, least and most."""

    inputs: Mapping[int, int]
    bounds: Mapping[int, tuple[int, int]]


def within(x: int, low: int, high: int) -> bool:
    """Whether a number is neither less nor more than two others."""
    return low <= x <= high


def plain_numbers(
    leaves: Mapping[int, Any], steps: Iterable[Any], values: Sequence[Any], inputs: Iterable[int]
) -> Numbers | None:
    """What must hold of a call's numbers, if that is between which two others each lies.

    `leaves` are the numbers' places in the call, by their places among `values`; `steps` are what
    Python does with them. None where an input is anything else, or more must hold.
    """
    inputs = [*inputs]
    if not all(type(source) is int for source in leaves.values()):
        return None
    if not leaves.keys() >= {*inputs}:
        return None
    bounds: dict[int, tuple[int, int]] = {}
    for step in steps:
        place, *ends = step.operands
        if step.function is not within or step.seen != value_key(True) or place not in leaves:
            return None
        low, high = (values[k] for k in ends)
        least, most = bounds.get(leaves[place], (low, high))
        bounds[leaves[place]] = max(low, least), min(high, most)
    return Numbers({leaves[place]: k for k, place in enumerate(inputs)}, bounds)
