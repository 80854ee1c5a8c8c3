"""What generators of random numbers have in common while a function is traced."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from minicc.frontends.trace.dispatch import DRAWN, refuse_impure
from minicc.frontends.trace.draws import distributions
from minicc.frontends.trace.functions.as_written import as_here
from minicc.frontends.trace.loops.body import ROUNDS
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.numbers import Number, checked
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed
from minicc.ir.core import Op

MANY = 64  # numbers that NumPy's code draws at once faster than a program


class Draws:
    """What stands for a generator, whose state is in traced arrays.

    Draws are traced as if they were the user's code. For what is not drawn here NumPy runs the
    function.
    """

    is_traced = True
    _kind: str  # the name of NumPy's class
    _next32: Callable[..., Any]  # draws a number of 32 bits, as one of 64

    def __init__(
        self, recorder: Recorder, name: str, state: Callable[[], Sequence[Tracer]]
    ) -> None:
        """`state` gives the arrays, when something is drawn."""
        self._recorder = recorder
        self._name = name
        self._open = state
        self._arrays: Sequence[Tracer] = ()
        self.calls = 0  # of NumPy's that are traced, in all rounds of loops
        self.many = 0  # numbers that were drawn many at once, in all rounds
        self.own: list[Op] = []  # what these have become outside of loops

    @property
    def __class__(self) -> Any:
        return getattr(np.random, self._kind)

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError("a traced generator stays one")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse(name, DRAWN)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        self._refuse("__reduce__", "it is copied once, while tracing")

    @property
    def is_drawn_from(self) -> bool:
        """Whether something was drawn, or begun anew."""
        return bool(self._arrays)

    @property
    def _state(self) -> Sequence[Tracer]:
        self._arrays = self._arrays or self._open()
        return self._arrays

    @property
    def _bits(self) -> Sequence[Tracer]:
        """The arrays that 32 bits are drawn of."""
        return self._state[:2]

    def _uniforms(self, size: Any) -> Any:
        raise NotImplementedError

    def _normals(self, size: Any) -> Any:
        raise NotImplementedError

    def _exponentials(self, size: Any) -> Any:
        raise NotImplementedError

    def _below(self, method: str, span: Any, size: Any) -> Any:
        """Integers from 0 to below a span, of 64 bits; NumPy runs the call where that is none."""
        raise NotImplementedError

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Floats from `low` to below `high`."""
        low, high, size = self._broadcast("uniform", low, high, size)
        return low + (high - low) * self._uniforms(size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Normal numbers."""
        loc, scale, size = self._broadcast("normal", loc, scale, size)
        return loc + self._natural("normal", scale) * self._normals(size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponential numbers."""
        scale, _, size = self._broadcast("exponential", scale, 0.0, size)
        return self._natural("exponential", scale) * self._exponentials(size)

    def choice(
        self, a: Any, size: Any = None, replace: Any = True, p: Any = None, **kwargs: Any
    ) -> Any:
        """Elements of an array of one axis, or integers below a number."""
        if (replace is not True and size is not None) or kwargs:
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
        drawn = self._uniforms(size)
        if size is None:
            return (total <= drawn).sum()
        return np_.searchsorted(total, drawn, side="right")

    def shuffle(self, x: Any, axis: Any = 0) -> None:
        """Change the order of an array's rows."""
        if not isinstance(x, Tracer) or x.ndim == 0 or axis != 0:
            self._refuse("shuffle", "it is traced for the rows of arrays")
        self._call(distributions.shuffle, x, *self._drawing())

    def permutation(self, x: Any, axis: Any = 0) -> Any:
        """The rows of an array, or the integers below a number, in another order."""
        if type(x) in (int, Index, Number):
            made = self._recorder.namespace.arange(x)
        else:
            made = boxed(self._recorder, x).copy()
            if made.ndim != 1:
                self._refuse("permutation", "it is traced for arrays of one axis")
        self.shuffle(made, axis)
        return made

    def _refuse(self, method: str, why: str) -> NoReturn:
        refuse_impure(self._recorder, f"{self._name}.{method}", why)

    def _drawing(self) -> tuple[Any, ...]:
        """What draws 32 bits, and what it takes."""
        return (self._recorder.as_users(self._next32), *self._bits)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function that is traced as the user's code gives."""
        recorder = self._recorder
        self.calls += self._rounds()
        begun, loops = len(recorder.ops), bool(recorder.loops)
        with np.errstate(over="ignore"):  # of what is known while tracing
            made = as_here(recorder, function, *args)
        if not loops:
            self.own += recorder.ops[begun:]
        return made

    def _rounds(self) -> int:
        """How many rounds of loops there are, about, in which something is recorded now."""
        counts = [loop.count for loop in self._recorder.loops]
        return math.prod(n if type(n) is int else ROUNDS for n in counts)

    def _drawn(self, one: Any, size: Any, dtype: Any, *args: Any) -> Any:
        """A number, or an array of them."""
        if size is None and self._recorder.loops:
            return self._call(one, *args)
        count = (
            1 if size is None else math.prod(size if isinstance(size, (tuple, list)) else [size])
        )
        out = self._recorder.namespace.empty(count, dtype)
        self._call(distributions.fill, out, self._recorder.as_users(one), *args)
        return out[0] if size is None else out.reshape(size)

    def _floats(self, one: Any, size: Any, *args: Any) -> Any:
        """A float of Python's, or an array of floats."""
        made = self._drawn(one, size, np.float64, *args)
        if size is not None:
            return made
        return Number(made.reshape(()), float) if isinstance(made, Tracer) else float(made)

    def _note_size(self, method: str, size: Any) -> None:
        """Count the numbers that are drawn many at once."""
        sizes = size if isinstance(size, (tuple, list)) else () if size is None else (size,)
        known = all(type(n) is int or isinstance(n, np.integer) for n in sizes)
        if not known:
            self._refuse(method, "data say how many numbers are drawn")
        count = math.prod([int(n) for n in sizes])
        self.many += count * self._rounds() if count > MANY else 0

    def _integers(
        self, method: str, low: Any, high: Any, size: Any, dtype: Any, endpoint: Any = False
    ) -> Any:
        """Integers from `low` to below `high`, or to it; below `low` where that is all."""
        dtype = dtype.real if isinstance(dtype, PythonType) else dtype
        if dtype not in (np.int64, int, "int64") or type(endpoint) is not bool:
            self._refuse(method, "it is traced for int64 alone")
        low, high = (0, low) if high is None else (low, high)
        low, high = (int(n) if isinstance(n, np.integer) else n for n in (low, high))
        span = high - low + endpoint
        if not all(type(n) in (int, Index, Number) for n in (low, high, span)):
            self._refuse(method, "it is traced for bounds that are ints alone")
        drawn = self._below(method, span, size)
        if size is None and dtype is int:
            return (Number(drawn, int, True) if isinstance(drawn, Tracer) else int(drawn)) + low
        return drawn + (low if type(low) is int else np.int64(low))

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
