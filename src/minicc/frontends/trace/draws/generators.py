"""What stands for a generator of random numbers while a function is traced.

Its state is an input that the program writes to, or made of a seed, and draws are traced as if they
were the user's code. What is not drawn here has NumPy run the function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from minicc.frontends.trace.dispatch import DRAWN, refuse_impure
from minicc.frontends.trace.draws import distributions, tables
from minicc.frontends.trace.draws.bits import times
from minicc.frontends.trace.draws.memory import State, state_of
from minicc.frontends.trace.functions.as_written import as_here
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.numbers import Number, checked, has_term
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import INSTEAD
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir import graph

_HALF = 1 << 32  # numbers of 32 bits
_SEEDS = 64  # whose words are kept
_MANY = 64  # numbers of which NumPy's code is faster than that of a program, by their ziggurats


def _times(recorder: Recorder, a: Any, b: Any) -> Any:
    """What `bits.times` gives, of which an op of the graph computes the upper half."""
    left, right = boxed(recorder, a), boxed(recorder, b)
    high = recorder.emit(graph.MulHigh, left.value(), right.value())
    return Tracer(recorder, high), left * right


INSTEAD[times] = _times


class Generator:
    """What stands for one of NumPy's generators, whose state is in two traced arrays."""

    is_traced = True

    def __init__(self, recorder: Recorder, name: str, words: Tracer, spare: Tracer) -> None:
        self._recorder = recorder
        self._name = name
        self._words = words
        self._spare = spare

    @property
    def __class__(self) -> Any:
        return np.random.Generator

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError("a traced generator stays one")

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse(name, DRAWN)

    def _refuse(self, method: str, why: str) -> NoReturn:
        refuse_impure(self._recorder, f"{self._name}.{method}", why)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function that is traced as the user's code gives."""
        with np.errstate(over="ignore"):  # of what is known while tracing
            return as_here(self._recorder, function, *args)

    def _drawn(self, one: Any, fill: Any, size: Any, dtype: Any, *args: Any) -> Any:
        """A number, or an array of them."""
        recorder = self._recorder
        if size is not None:
            out = recorder.namespace.empty(size, dtype)
            self._call(fill, out.reshape(-1), *args)
            return out
        if recorder.loops:
            return self._call(one, *args)
        out = recorder.namespace.empty(1, dtype)
        self._call(fill, out, *args)
        return out[0]

    def _floats(self, one: Any, fill: Any, size: Any, *args: Any) -> Any:
        """A float of Python's, or an array of floats."""
        made = self._drawn(one, fill, size, np.float64, *args)
        if size is not None:
            return made
        return Number(made.reshape(()), float) if isinstance(made, Tracer) else float(made)

    def _of_ziggurat(self, one: Any, fill: Any, size: Any, ziggurat: tables.Ziggurat) -> Any:
        if size is not None:
            sizes = size if isinstance(size, (tuple, list)) else (size,)
            few = all(type(n) is int or isinstance(n, np.integer) for n in sizes)
            if not few or np.prod([int(n) for n in sizes]) > _MANY:
                self._refuse("normal", "NumPy draws many normal or exponential numbers faster")
        *arrays, end = ziggurat
        boxes = [boxed(self._recorder, a) for a in arrays]
        return self._floats(one, fill, size, self._words, *boxes, end)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Floats from 0 to below 1."""
        self._require_float64("random", dtype, out)
        return self._floats(distributions.uniform, distributions.fill_uniform, size, self._words)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Floats from `low` to below `high`."""
        low, high, size = self._broadcast("uniform", low, high, size)
        return low + (high - low) * self.random(size)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Normal numbers of mean 0 and deviation 1."""
        self._require_float64("standard_normal", dtype, out)
        one, fill = distributions.normal, distributions.fill_normal
        return self._of_ziggurat(one, fill, size, tables.normal())

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Normal numbers."""
        loc, scale, size = self._broadcast("normal", loc, scale, size)
        return loc + self._natural("normal", scale) * self.standard_normal(size)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None
    ) -> Any:
        """Exponential numbers of mean 1."""
        self._require_float64("standard_exponential", dtype, out)
        if method != "zig":
            self._refuse("standard_exponential", DRAWN)
        one, fill = distributions.exponential, distributions.fill_exponential
        return self._of_ziggurat(one, fill, size, tables.exponential())

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponential numbers."""
        scale, _, size = self._broadcast("exponential", scale, 0.0, size)
        return self._natural("exponential", scale) * self.standard_exponential(size)

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: Any = None,
        dtype: Any = np.int64,
        endpoint: Any = False,
    ) -> Any:
        """Integers from `low` to below `high`, or to it."""
        dtype = dtype.real if isinstance(dtype, PythonType) else dtype
        if dtype not in (np.int64, int, "int64") or type(endpoint) is not bool:
            self._refuse("integers", "it is traced for int64 alone")
        low, high = (0, low) if high is None else (low, high)
        low, high = (int(n) if isinstance(n, np.integer) else n for n in (low, high))
        span = high - low + endpoint
        if not all(type(n) in (int, Index, Number) for n in (low, high, span)):
            self._refuse("integers", "it is traced for bounds that are ints alone")
        drawn = self._below("integers", span, size)
        if size is None and dtype is int:
            return (Number(drawn, int, True) if isinstance(drawn, Tracer) else int(drawn)) + low
        return drawn + (low if type(low) is int else np.int64(low))

    def _below(self, method: str, span: Any, size: Any) -> Any:
        """Integers from 0 to below a span, of 64 bits; NumPy runs the call where that is none."""
        if type(span) is int and not 0 < span < _HALF * _HALF:
            self._refuse(method, "its bounds are such that NumPy raises an error")
        if type(span) is int and span == 1:
            return np.int64(0) if size is None else self._recorder.namespace.zeros(size, np.int64)
        if type(span) is not int:
            box = span.box
            bound = checked(box, (box > 0) & (box < _HALF)).astype(np.uint64)
        elif span in (_HALF, _HALF * _HALF):
            self._refuse(method, "all numbers of 32 or 64 bits are drawn")
        else:
            bound = np.uint64(span)
        args: tuple[Any, ...] = (self._words, self._spare, bound)
        one: Any = distributions.below if type(span) is int else distributions.maybe_below
        fill = distributions.fill_below if type(span) is int else distributions.fill_maybe_below
        if type(span) is int and span > _HALF:
            args = (self._words, bound)
            one, fill = distributions.far_below, distributions.fill_far_below
        made = self._drawn(one, fill, size, np.int64, *args)
        return made.astype(np.int64) if size is None else made

    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: Any = True,
        p: Any = None,
        axis: Any = 0,
        shuffle: Any = True,
    ) -> Any:
        """Elements of an array of one axis, or integers below a number."""
        if replace is not True and size is not None:
            self._refuse("choice", "it is traced where elements may be drawn twice")
        whole = type(a) in (int, Index, Number) or isinstance(a, np.integer)
        items = None if whole else boxed(self._recorder, a)
        if items is not None and items.ndim != 1:
            self._refuse("choice", "it is traced for arrays of one axis")
        count = a if items is None else items.shape[0]
        at = self._below("choice", count, size) if p is None else self._by_weight(count, p, size)
        if items is not None:
            return items[at]
        if size is not None:
            return at
        return Number(at, int, True) if isinstance(at, Tracer) else int(at)

    def _by_weight(self, count: Any, p: Any, size: Any) -> Any:
        """Places, each as often as its weight says."""
        np_, weights = self._recorder.namespace, boxed(self._recorder, p)
        if weights.shape != (count,) or weights.dtype != np.float64:
            self._refuse("choice", "its weights are not one float for each element")
        near: Any = (abs(weights.sum() - 1) < 1e-9) & (weights >= 0).all()
        if isinstance(near, Tracer):
            weights = weights + 0 * checked(weights.sum(), near)
        elif not near:
            self._refuse("choice", "its weights are such that NumPy raises an error")
        total = np_.cumsum(weights)
        total = total / total[-1]
        drawn = self.random(size)
        if size is None:
            return (total <= drawn).sum()
        return np_.searchsorted(total, drawn, side="right")

    def shuffle(self, x: Any, axis: Any = 0) -> None:
        """Change the order of an array's rows."""
        if not isinstance(x, Tracer) or x.ndim == 0 or axis != 0:
            self._refuse("shuffle", "it is traced for the rows of arrays")
        self._call(distributions.shuffle, self._words, self._spare, x)

    def permutation(self, x: Any, axis: Any = 0) -> Any:
        """The rows of an array, or the integers below a number, in another order."""
        np_ = self._recorder.namespace
        if type(x) in (int, Index, Number):
            made = np_.arange(x)
        else:
            box = boxed(self._recorder, x)
            if box.ndim != 1:
                self._refuse("permutation", "it is traced for arrays of one axis")
            made = box.copy()
        self.shuffle(made, axis)
        return made

    def _require_float64(self, method: str, dtype: Any, out: Any) -> None:
        dtype = dtype.real if isinstance(dtype, PythonType) else dtype
        if dtype not in (np.float64, float, "float64") or out is not None:
            self._refuse(method, "it is traced for new arrays of float64")

    def _natural(self, method: str, scale: Any) -> Any:
        """A scale; NumPy runs the call where it is below 0."""
        box = scale.box if issubclass(type(scale), Number) else scale
        if not isinstance(box, Tracer):
            if not np.all(np.asarray(scale) >= 0):
                self._refuse(method, "its scale is such that NumPy raises an error")
            return scale
        natural = box >= 0
        if box.ndim:
            return box + 0 * checked(box.sum(), natural.all())
        return Number(checked(box, natural), float)

    def _broadcast(self, method: str, first: Any, second: Any, size: Any) -> Any:
        """Two numbers or arrays, and the size that these say where it is not given.

        Numbers are Python's floats, for what is drawn of them is one.
        """
        shapes = [np.shape(x) for x in (first, second) if isinstance(x, (Tracer, np.ndarray))]
        if not any(shapes):
            return self._float(method, first), self._float(method, second), size
        shape = np.broadcast_shapes(*shapes)
        if size is not None or not all(type(n) is int for n in shape):
            self._refuse(method, "both a size and arrays are given")
        return first, second, shape

    def _float(self, method: str, x: Any) -> Any:
        if isinstance(x, Tracer):
            return Number(x.astype(np.float64).reshape(()), float)
        if issubclass(type(x), Number):
            return x if x.kind is float else x * 1.0
        if not isinstance(x, (int, float, np.number, np.ndarray)):
            self._refuse(method, "it is traced for numbers and arrays")
        return float(x)


def default_rng(recorder: Recorder, seed: Any = None) -> Any:
    """What `np.random.default_rng` gives for a seed that is known before the program runs."""
    if type(seed) is Generator:
        return seed
    name = "np.random.default_rng"
    if has_term(seed) and seed.kind is int:
        words = [seed.by_python(_part, seed, k).box for k in range(4)]
        made = recorder.namespace.stack(words).astype(np.uint64)
        return Generator(recorder, "rng", made, boxed(recorder, np.zeros(2, np.uint32)).copy())
    plain = (int, np.integer, tuple, list, np.ndarray)
    if seed is None or not isinstance(seed, plain) or isinstance(seed, (Tracer, Number)):
        refuse_impure(recorder, name, DRAWN)
    state = _seeded(seed)
    return Generator(recorder, "rng", *[boxed(recorder, part).copy() for part in state])


def _seeded(seed: Any) -> State:
    return state_of(np.random.PCG64(seed).state)


@lru_cache(_SEEDS)
def _words(seed: int) -> list[int]:
    """The words of the state that a seed gives, as ints that have a sign."""
    found: list[int] = _seeded(seed).words.view(np.int64).tolist()
    return found


def _part(seed: int, number: int) -> int:
    return _words(seed)[number]


class RandomModule:
    """What stands for `numpy.random`, of which a generator can be made for a seed."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        if name == "Generator":
            return np.random.Generator
        if name == "default_rng":
            return lambda seed=None: default_rng(self._recorder, seed)
        refuse_impure(self._recorder, f"np.random.{name}", DRAWN)
