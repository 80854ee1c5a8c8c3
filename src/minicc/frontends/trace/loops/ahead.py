"""Ints of data that rounds of a captured loop need to know: they are read before it.

    k = int(labels.max()) + 1
    for feature in columns:
        counts = np.zeros(k)

A round can't read a value, but what had a name before the loop can be read there. As the size of an
array does outside of loops, each such int makes another program.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.restarts import Again
from minicc.frontends.trace.tracer import Tracer


def require_ahead(recorder: Recorder, loop: Any, names: Mapping[str, Any], box: Tracer) -> None:
    """Begin the trace again where an int that a round needs to know has one of some names.

    These are bound before the loop, which is told by its key.
    """
    ahead = recorder.learned[loop].ahead
    for name, x in names.items():
        held = x.box if type(x) is Number and x.kind is int and not has_term(x) else x
        is_int = held is box and (box.scalar or held is not x) and box.dtype.kind in "iu"
        if is_int and name not in ahead:
            ahead.add(name)
            recorder.end(Again())


def read_ahead(recorder: Recorder, loop: Any, names: Mapping[str, Any]) -> None:
    """Read what an earlier attempt found that rounds need to know."""
    for name in sorted(recorder.learned[loop].ahead & names.keys()):
        operator.index(names[name])
