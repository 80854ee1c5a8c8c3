"""The state of a generator of random numbers, as arrays that show its memory.

What is drawn in a program is so drawn from the generator itself, wherever the program has it from.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.objects import MISSING, is_generator
from minicc.frontends.trace.routes import Found, Route
from minicc.ir.core import Array

_KNOWN = 16  # generators whose arrays are kept
_WORD = (1 << 64) - 1


class State(NamedTuple):
    """The words of PCG64, and the half of a number that is left for 32 bits.

    `words` are 4 of 64 bits: those of the state and of the increment, the lower ones first. `spare`
    are 2 of 32 bits: whether half of a number is left, and that half.
    """

    words: Array
    spare: Array


def state_in(generator: Any) -> State | None:
    """The memory of a generator; None where its state is another, or lies elsewhere."""
    bits = generator.bit_generator
    return _shown(bits) if type(bits).__name__ == "PCG64" else None


@lru_cache(_KNOWN)
def _shown(bits: Any) -> State | None:
    address = bits.ctypes.state_address
    words = ctypes.c_void_p.from_address(address).value
    assert words is not None
    shown = State(
        np.ctypeslib.as_array((ctypes.c_uint64 * 4).from_address(words)),
        np.ctypeslib.as_array((ctypes.c_uint32 * 2).from_address(address + 8)),
    )
    told = state_of(bits.state)
    same = all(np.array_equal(a, b) for a, b in zip(shown, told, strict=True))
    return shown if same else None


def state_of(told: Any) -> State:
    """The same as new arrays, of what NumPy tells of a PCG64."""
    whole = told["state"]["state"], told["state"]["inc"]
    words = [word for x in whole for word in (x & _WORD, x >> 64)]
    spare = [told["has_uint32"], told["uinteger"]]
    return State(np.array(words, np.uint64), np.array(spare, np.uint32))


class StateRoute(Route):
    """The memory of a generator, as each call leads to that."""

    def get(self, values: Sequence[Any], name: str) -> Any:
        """One of the arrays, by its name; MISSING where there is none."""
        found = self.of(values)
        state = state_in(found) if is_generator(found) else None
        return MISSING if state is None else getattr(state, name)


class One(NamedTuple):
    """A generator that is the same at each call."""

    generator: Any

    @property
    def place(self) -> Any:
        """Equal for the same one."""
        return id(self.generator)

    def now(self, values: Sequence[Any]) -> Any:
        """The generator."""
        return self.generator


def route_to(generator: Any, at: Found | None) -> StateRoute:
    """The way to the memory of a generator, to which calls may lead."""
    return StateRoute(One(generator) if at is None else at)
