"""A random model of a seed."""

from __future__ import annotations

from tests.generate.draft import NEWEST, Case, Draft, Unfit
from tests.generate.families import FAMILIES
from tests.generate.source import Source

_OPSETS = (7, 8, 9, 10, 11, 12, *range(13, NEWEST + 1), 13, 14, 17, 18, NEWEST)
_LENGTHS = (1, 1, 1, 2, 3, 5, 8, 12)
_TRIES = 60


def generate(seed: int, only: str | None = None) -> Case:
    """The model of a seed; of one family alone, if it is named."""
    source = Source(seed)
    draft = Draft(source, source.pick(_OPSETS))
    names = [only] if only else list(FAMILIES)
    wanted = source.pick(_LENGTHS)
    for attempt in range(_TRIES):
        if len(draft.nodes) >= wanted:
            break
        if attempt == _TRIES // 2 and not draft.nodes:
            draft.opset = NEWEST
        try:
            FAMILIES[source.pick(names)](draft)
        except Unfit:
            continue
    if not draft.nodes:
        draft.node("Identity", [draft.tensor()], exact=True)
    return draft.case()
