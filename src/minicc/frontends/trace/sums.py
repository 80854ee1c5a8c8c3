"""What `sum` gives of what a captured loop has stacked: a reduction in place of many additions."""

from __future__ import annotations

from typing import Any

from minicc.frontends.trace.loops.comprehensions import Drawn
from minicc.frontends.trace.loops.filled import is_flat
from minicc.frontends.trace.loops.grown import Grown
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
        if type(items) is Grown:
            return (
                self._of(items.array(), items.like, start) if items.is_of_floats() else items.look()
            )
        whole = recorder.whole_of(items) if type(items) is list else None
        floats = whole is not None and (whole.type.dtype.is_float or whole.type.dtype.is_complex)
        like = None if whole is None else recorder.lists[id(items)].like
        if whole is None or not floats or not is_flat(like):
            return sum(items, start)
        return self._of(Tracer(recorder, whole), like, start)

    def _of(self, array: Any, like: Any, start: Any) -> Any:
        made = self._recorder.namespace.add.reduce(array, axis=0, dtype=array.dtype)
        if like[0] is Number:
            made = Number(made, like[1])
        return made if type(start) is int and not start else start + made
