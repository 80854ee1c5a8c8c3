"""What `sum` gives of what a captured loop has stacked: a reduction in place of many additions."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.loops.comprehensions import Drawn
from minicc.frontends.trace.loops.filled import flat_list
from minicc.frontends.trace.loops.grown import Grown
from minicc.frontends.trace.numbers import Number, checked
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.recorder import Recorder


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
            return _begun(self._of_some(items), items.like, start)
        known = flat_list(recorder, items)
        if known is None or known.like is None:
            return sum(items, start)
        array, like = known.array, known.like
        if array.dtype.kind in "fc":
            return _begun(self._total(array), like, start)
        if like[0] is Number and (like[1] is bool or like[2]):
            total = recorder.namespace.sum(array, axis=0, dtype=np.int64)
            return _begun(total, (Number, int, True), start)
        return sum(items, start)

    def _of_some(self, items: Grown) -> Any:
        """The sum of a list that may be empty: where it is, Python's is an int."""
        if not items.is_of_floats():
            items.look()
        made, mask = self._total(items.array()), items.mask()
        return made if mask is None else checked(made, mask.any())

    def _total(self, array: Any) -> Any:
        return self._recorder.namespace.sum(array, axis=0, dtype=array.dtype)


def _begun(total: Any, like: Any, start: Any) -> Any:
    """What `sum` gives that begins with a number, of elements that are such."""
    made = Number(total, *like[1:]) if like[0] is Number else total
    return made if type(start) is int and not start else start + made
