"""What `sum` gives of what a captured loop has stacked: a reduction in place of many additions."""

from __future__ import annotations

from typing import Any

from minicc.frontends.trace.loops.comprehensions import Drawn
from minicc.frontends.trace.loops.filled import is_flat
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer


class Sum(PythonType):
    """What stands for `sum`."""

    real = int

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __call__(self, items: Any, /, start: Any = 0) -> Any:
        """The sum of the elements of a list, of a generator, or of whatever Python adds up."""
        recorder = self._recorder
        items = items.filled() if isinstance(items, Drawn) else items
        whole = recorder.whole_of(items) if type(items) is list else None
        floats = whole is not None and (whole.type.dtype.is_float or whole.type.dtype.is_complex)
        if whole is None or not floats or not is_flat(recorder.lists[id(items)].like):
            return sum(items, start)
        array = Tracer(recorder, whole)
        made = recorder.namespace.add.reduce(array, axis=0, dtype=array.dtype)
        if isinstance(items[0], Number) and not isinstance(items[0], Tracer):
            made = Number(made, items[0].kind)
        return made if type(start) is int and not start else start + made
