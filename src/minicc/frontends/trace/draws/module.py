"""What stands for the module `numpy.random` while a function is traced."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from minicc.frontends.trace.dispatch import DRAWN, refuse_impure
from minicc.frontends.trace.draws.generators import Generator
from minicc.frontends.trace.draws.memory import Pcg64, pcg64_of
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.views import boxed

_SEEDS = 64  # whose words are kept
_SAME = {"ranf": "random_sample", "sample": "random_sample"}
_SEEDED = (int, np.integer, tuple, list, np.ndarray)


class GeneratorType(PythonType):
    """What stands for a class of generators."""

    def __init__(self, recorder: Recorder, real: type) -> None:
        super().__init__(real)
        self._recorder = recorder

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse_impure(self._recorder, f"np.random.{self.real.__name__}", DRAWN)


class RandomModule:
    """What stands for `numpy.random`: what makes a generator, and the methods of the old one."""

    def __init__(self, recorder: Recorder, old: Any) -> None:
        """`old` gives what stands for a generator from outside, under a name."""
        self._recorder = recorder
        self._old = old

    def __getattr__(self, name: str) -> Any:
        real = getattr(np.random, name)
        if real in (np.random.Generator, np.random.RandomState):
            return GeneratorType(self._recorder, real)
        known = getattr(np.random.rand, "__self__", None)
        if known is not None and getattr(type(known), name, None) is not None:
            return getattr(self._old(known, "np.random"), _SAME.get(name, name))
        refuse_impure(self._recorder, f"np.random.{name}", DRAWN)

    def default_rng(self, seed: Any = None) -> Any:
        """A generator for a seed that is known before the program runs."""
        recorder = self._recorder
        if type(seed) is Generator:
            return seed
        if has_term(seed) and seed.kind is int:
            words = [seed.by_python(_word, seed, k).box for k in range(4)]
            made = recorder.namespace.stack(words).astype(np.uint64)
            state = made, boxed(recorder, np.zeros(2, np.uint32)).copy()
            return Generator(recorder, "rng", lambda: state)
        if not isinstance(seed, _SEEDED) or isinstance(seed, (Tracer, Number)):
            refuse_impure(recorder, "np.random.default_rng", DRAWN)
        known = [boxed(recorder, x).copy() for x in _seeded(seed)]
        return Generator(recorder, "rng", lambda: known)


def _seeded(seed: Any) -> Pcg64:
    return pcg64_of(np.random.PCG64(seed).state)


@lru_cache(_SEEDS)
def _words(seed: int) -> list[int]:
    """The words of the state that a seed gives, as ints that have a sign."""
    found: list[int] = _seeded(seed).words.view(np.int64).tolist()
    return found


def _word(seed: int, number: int) -> int:
    return _words(seed)[number]
