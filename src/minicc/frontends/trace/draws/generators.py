"""What stands for a generator of NumPy's, new or old, while a function is traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from minicc.frontends.trace.draws import distributions, mt19937, tables
from minicc.frontends.trace.draws.base import Draws
from minicc.frontends.trace.draws.bits import next32, times
from minicc.frontends.trace.numbers import checked, has_term
from minicc.frontends.trace.plain_guards import within
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import INSTEAD
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir import graph

_HALF = 1 << 32  # numbers of 32 bits


def _times(recorder: Recorder, a: Any, b: Any) -> Any:
    """What `bits.times` gives, of which an op of the graph computes the upper half."""
    left, right = boxed(recorder, a), boxed(recorder, b)
    high = recorder.emit(graph.MulHigh, left.value(), right.value())
    return Tracer(recorder, high), left * right


INSTEAD[times] = _times


class Generator(Draws):
    """What stands for a generator with a PCG64; its state is as `memory.Pcg64` has it."""

    _kind = "Generator"
    _next32 = staticmethod(next32)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Floats from 0 to below 1."""
        self._require_float64("random", dtype, out)
        return self._uniforms(size)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Normal numbers of mean 0 and deviation 1."""
        self._require_float64("standard_normal", dtype, out)
        return self._normals(size)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None
    ) -> Any:
        """Exponential numbers of mean 1."""
        self._require_float64("standard_exponential", dtype, out)
        if method != "zig":
            self._refuse("standard_exponential", "it is traced for the ziggurat alone")
        return self._exponentials(size)

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: Any = None,
        dtype: Any = np.int64,
        endpoint: Any = False,
    ) -> Any:
        """Integers from `low` to below `high`, or to it."""
        return self._integers("integers", low, high, size, dtype, endpoint)

    def _uniforms(self, size: Any) -> Any:
        words, _ = self._state
        return self._floats(distributions.uniform, size, words)

    def _normals(self, size: Any) -> Any:
        one = distributions.normal
        return self._of_ziggurat("standard_normal", one, size, tables.normal())

    def _exponentials(self, size: Any) -> Any:
        one = distributions.exponential
        return self._of_ziggurat("standard_exponential", one, size, tables.exponential())

    def _of_ziggurat(self, method: str, one: Any, size: Any, ziggurat: tables.Ziggurat) -> Any:
        self._note_size(method, size)
        *arrays, end = ziggurat
        boxes = [boxed(self._recorder, a) for a in arrays]
        return self._floats(one, size, self._state[0], *boxes, end)

    def _below(self, method: str, span: Any, size: Any) -> Any:
        if type(span) is int and (not 0 < span < _HALF**2 or span == _HALF):
            self._refuse(
                method, "it is traced for bounds that not all numbers of 32 bits are below"
            )
        if type(span) is int and span == 1:
            return np.int64(0) if size is None else self._recorder.namespace.zeros(size, np.int64)
        if type(span) is int:
            bound = np.uint64(span)
            one: Any = distributions.below
        else:
            bound = checked(span.box, (span.box > 0) & (span.box < _HALF)).astype(np.uint64)
            one = distributions.maybe_below
        args: tuple[Any, ...] = (*self._state, bound)
        if type(span) is int and span > _HALF:
            args = (self._state[0], bound)
            one = distributions.far_below
        made = self._drawn(one, size, np.int64, *args)
        return made.astype(np.int64) if size is None else made

    def _require_float64(self, method: str, dtype: Any, out: Any) -> None:
        dtype = dtype.real if isinstance(dtype, PythonType) else dtype
        if dtype not in (np.float64, float, "float64") or out is not None:
            self._refuse(method, "it is traced for new arrays of float64")


class RandomState(Draws):
    """What stands for an old generator; its state is as `memory.Mt19937` has it."""

    _kind = "RandomState"
    _next32 = staticmethod(mt19937.next32)

    def random_sample(self, size: Any = None) -> Any:
        """Floats from 0 to below 1."""
        return self._uniforms(size)

    random = random_sample

    def rand(self, *shape: Any) -> Any:
        """Floats from 0 to below 1."""
        return self._uniforms(shape or None)

    def standard_normal(self, size: Any = None) -> Any:
        """Normal numbers of mean 0 and deviation 1."""
        return self._normals(size)

    def randn(self, *shape: Any) -> Any:
        """Normal numbers of mean 0 and deviation 1."""
        return self._normals(shape or None)

    def standard_exponential(self, size: Any = None) -> Any:
        """Exponential numbers of mean 1."""
        return self._exponentials(size)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        """Integers from `low` to below `high`."""
        return self._integers("randint", low, high, size, dtype)

    def seed(self, seed: Any = None) -> None:
        """Begin with a number of 32 bits."""
        given = has_term(seed) and seed.kind is int
        if given and seed.by_python(within, seed, 0, _HALF - 1):
            number = seed.box.astype(np.uint32)
        elif type(seed) is int and 0 <= seed < _HALF:
            number = boxed(self._recorder, np.uint32(seed))
        else:
            self._refuse("seed", "it is traced for numbers of 32 bits")
        key, at, left, other = self._state
        self._call(mt19937.seed, key, at, left, number)
        other[0] = 0.0

    def _uniforms(self, size: Any) -> Any:
        self._note_size("random_sample", size)
        return self._floats(mt19937.uniform, size, *self._bits)

    def _normals(self, size: Any) -> Any:
        self._note_size("standard_normal", size)
        return self._floats(mt19937.normal, size, *self._state)

    def _exponentials(self, size: Any) -> Any:
        self._note_size("standard_exponential", size)
        return self._floats(mt19937.exponential, size, *self._bits)

    def _below(self, method: str, span: Any, size: Any) -> Any:
        self._note_size(method, size)
        if type(span) is int and not 0 < span < _HALF:
            self._refuse(method, "it is traced for bounds of 32 bits")
        last = np.uint64(span - 1) if type(span) is int else None
        if last is None:
            known = (span.box > 0) & (span.box < _HALF)
            last = checked(span.box - 1, known).astype(np.uint64)
        args = last, *self._drawing()
        made = self._drawn(distributions.up_to, size, np.int64, *args)
        return made.astype(np.int64) if size is None else made
