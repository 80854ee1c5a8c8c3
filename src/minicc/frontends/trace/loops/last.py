"""What values of the last recording of a body are after its loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.loops.extents import DataSize, Extent
from minicc.frontends.trace.loops.gone import Gone
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.moving import depends, key_in
from minicc.frontends.trace.pytree import mapped
from minicc.frontends.trace.tracer import Tracer


class Last(NamedTuple):
    """The last round: its number by that of any, and `data` that were only known in a round.

    `gone` makes what stands for a value that nothing is known of.
    """

    loop: str
    number: Any
    data: Mapping[str, DataSize]
    gone: Callable[[], Gone]

    def of(self, x: Any) -> Any:
        """What a value of the last recording is after the loop."""
        if type(x) is Index:
            return self.gone() if depends(x, self.data) else x.at(self.loop, self.number)
        if isinstance(x, Tracer):
            return self._seen(x)
        if type(x) in (tuple, list, dict):
            leaves: list[Any] = []
            mapped(lambda leaf, at: leaves.append(leaf), x)
            found = [self.of(leaf) for leaf in leaves]
            if any(a is not b for a, b in zip(found, leaves, strict=True)):
                left = iter(found)
                return mapped(lambda leaf, at: next(left), x)
        return x

    def _seen(self, box: Tracer) -> Any:
        """A view at the number of the round as one at the last number."""
        view = box.looks_at()
        if view is None:
            return box
        base, lens = self._seen(view[0]), view[1]
        if lens.moves and lens.key[0] == "round":
            if depends(lens.key[-1], self.data):
                return self.gone()
            return base[key_in(self.loop, self.number, lens.key[-1])]
        return box if base is view[0] else base.look(lens)


def emptied(boxes: Iterable[Tracer]) -> None:
    """Have boxes that nobody can reach any more hold no values of a body."""
    for box in boxes:
        # an input may be one that is just known of
        if box.held() is not None and box.held() not in box.recorder.inputs:
            shape = [0 if isinstance(n, Extent) else n for n in box.shape]  # of no round now
            box.hold(np.broadcast_to(np.zeros((), box.dtype), shape), box.version)
