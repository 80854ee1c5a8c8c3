"""The state of a generator of random numbers, as arrays that show its memory.

What is drawn in a program is so drawn from the generator itself, wherever the program has it from.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.objects import MISSING, is_generator
from minicc.frontends.trace.routes import Found, Route
from minicc.ir.core import Array

_KNOWN = 16  # generators whose arrays are kept
_WORD = (1 << 64) - 1


class Pcg64(NamedTuple):
    """The words of PCG64, and the half of a number that is left for 32 bits.

    `words` are 4 of 64 bits: those of the state and of the increment, the lower ones first. `spare`
    are 2 of 32 bits: whether half of a number is left, and that half.
    """

    words: Array
    spare: Array


class Mt19937(NamedTuple):
    """The words of the Mersenne Twister, and the normal number that is left of two.

    `key` are 624 of 32 bits, of which the first `at` are spent. `left` is 1 where the `other`
    normal number is not drawn yet.
    """

    key: Array
    at: Array
    left: Array
    other: Array


def state_in(generator: Any) -> Pcg64 | Mt19937 | None:
    """The memory of a generator; None where its state is another, or lies elsewhere."""
    if type(generator).__name__ == "RandomState":
        bits = generator._bit_generator  # which may be another than before
        return _shown_mt19937(generator, bits) if type(bits).__name__ == "MT19937" else None
    bits = generator.bit_generator
    return _shown_pcg64(bits) if type(bits).__name__ == "PCG64" else None


def _array(kind: Any, count: int, address: int) -> Array:
    return np.ctypeslib.as_array((kind * count).from_address(address))


@lru_cache(_KNOWN)
def _shown_pcg64(bits: Any) -> Pcg64 | None:
    address = bits.ctypes.state_address
    words = ctypes.c_void_p.from_address(address).value
    assert words is not None
    spare = _array(ctypes.c_uint32, 2, address + 8)
    shown = Pcg64(_array(ctypes.c_uint64, 4, words), spare)
    return shown if _same(shown, pcg64_of(bits.state)) else None


@lru_cache(_KNOWN)
def _shown_mt19937(generator: Any, bits: Any) -> Mt19937 | None:
    offset = _offset_of_normal()
    if offset is None:
        return None
    address = bits.ctypes.state_address
    shown = Mt19937(
        _array(ctypes.c_uint32, 624, address),
        _array(ctypes.c_int32, 1, address + 4 * 624),
        _array(ctypes.c_int32, 1, id(generator) + offset - 8),
        _array(ctypes.c_double, 1, id(generator) + offset),
    )
    _, key, *rest = generator.get_state()
    return shown if _same(shown, (key, *[np.array([n]) for n in rest])) else None


@cache
def _offset_of_normal() -> int | None:
    """Where an old generator has the normal number that is left; None where it is not found.

    NumPy tells no address of it, so one is looked for that is known.
    """
    generator, mark = np.random.RandomState(0), 1.2345678901234567
    told = generator.get_state(legacy=False)
    generator.set_state({**told, "has_gauss": 1, "gauss": mark})
    memory = ctypes.string_at(id(generator), type(generator).__basicsize__)
    found = memory.find(struct.pack("d", mark))
    return found if found >= 8 and memory[found - 8 : found - 4] == struct.pack("i", 1) else None


def _same(shown: Sequence[Array], told: Sequence[Array]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(shown, told, strict=True))


def pcg64_of(told: Any) -> Pcg64:
    """The state as new arrays, of what NumPy tells of a PCG64."""
    whole = told["state"]["state"], told["state"]["inc"]
    words = [word for x in whole for word in (x & _WORD, x >> 64)]
    spare = [told["has_uint32"], told["uinteger"]]
    return Pcg64(np.array(words, np.uint64), np.array(spare, np.uint32))


class StateRoute(Route):
    """The memory of a generator, as each call leads to that."""

    def get(self, values: Sequence[Any], name: str) -> Any:
        """One of the arrays, by its name; MISSING where there is none."""
        found = self.of(values)
        state = state_in(found) if is_generator(found) else None
        return MISSING if state is None else getattr(state, name, MISSING)


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
