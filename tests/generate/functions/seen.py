"""What a line of a drawn function did when NumPy ran it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from types import FrameType
from typing import Any

import numpy as np

GROWING = "growing.py"  # the file that a function is said to be in while it grows
_MOST_PROBES = 300
_MOST_STEPS = 3000  # lines that a function runs
_MOST_ELEMENTS = 4000  # of an array or a list
_MOST_BITS = 256  # of an integer
# by bytes of a float: what exact ones are multiples of, and what they stay below
_EXACT = {2: (0.25, 8.0), 4: (2.0**-5, 128.0), 8: (2.0**-10, 65536.0)}


class Stop(BaseException):
    """Enough was seen of a line."""


class TooMuchError(Exception):
    """A function takes too many steps, or what it makes grows too large."""


def leaves(value: Any) -> Iterator[Any]:
    """The arrays and numbers in a value."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))
    elif hasattr(value, "log") and hasattr(value, "w"):
        yield from leaves([value.w, value.k, value.log])
    elif is_dataclass(value):
        yield from leaves(vars(value))
    elif isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
        yield value


def _fields(a: Any) -> Iterator[Any]:
    names = a.dtype.names if isinstance(a, (np.ndarray, np.generic)) else None
    if not names:
        yield a
    for name in names or ():
        yield from _fields(a[name])


def is_rounded(value: Any) -> bool:
    """Whether a float may have been rounded, or is too large to be summed exactly."""
    a = np.asarray(value)
    if a.dtype.kind not in "fc" or not a.size:
        return False
    parts = a.astype(np.complex128)
    part = a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1)
    unit, most = _EXACT[min(part, 8)]
    for x in (parts.real, parts.imag):
        x = x[np.isfinite(x)] / unit
        if (x != np.floor(x)).any() or (np.abs(x) >= most / unit).any():
            return True
    return False


class Seen:
    """What a line did, in all calls and rounds."""

    def __init__(self) -> None:
        self.before: dict[str, Any] = {}
        self.names: Mapping[str, Any] = {}
        self.changed: set[str] = set()
        self.rounded: set[str] = set()
        self.whole: set[str] = set()  # changed, and not only floats
        self.shared: dict[str, set[str]] = {}
        self.largest = 1.0
        self.finite = True  # all floats of what changed
        self.itemsize = 8
        self.probes = 0
        self.error: Exception | None = None
        self.steps = 0

    def watch(self, frame: FrameType, event: str, _: Any) -> Any:
        """Trace a function, and stop it before loops make it or its values endless."""
        if frame.f_code.co_filename != GROWING:
            return None
        self.steps += 1
        if self.steps > _MOST_STEPS or any(map(_is_large, frame.f_locals.values())):
            self.error = TooMuchError()
            raise Stop
        return self.watch

    def probe(self, k: int, names: dict[str, Any]) -> None:
        """Look at the names before (0) or after (1) a line."""
        self.probes += 1
        if self.probes > _MOST_PROBES:
            return
        if k == 0:
            self.before = {n: _print_of(v) for n, v in names.items()}
            return
        for name, value in names.items():
            if self.before.get(name) != _print_of(value):
                self._look(name, value, names)
        if not self.names:
            self.names = {n: _copied(v) for n, v in names.items()}

    def _look(self, name: str, value: Any, names: dict[str, Any]) -> None:
        self.changed.add(name)
        for leaf in (part for whole in leaves(value) for part in _fields(whole)):
            a = np.asarray(leaf)
            if is_rounded(a):
                self.rounded.add(name)
            if a.dtype.kind not in "fc":
                self.whole.add(name)
                continue
            self.finite &= bool(np.isfinite(a).all())
            sizes = np.abs(a[np.isfinite(a)])
            self.largest = max(self.largest, float(sizes.max()) if sizes.size else 0)
            part = a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1)
            self.itemsize = min(self.itemsize, part)
            if isinstance(leaf, np.ndarray):
                others = {
                    n
                    for n, v in names.items()
                    for o in leaves(v)
                    if isinstance(o, np.ndarray) and np.may_share_memory(o, leaf)
                }
                self.shared.setdefault(name, set()).update(others)


def _is_large(value: Any) -> bool:
    if isinstance(value, int):
        return value.bit_length() > _MOST_BITS
    return (value.size if isinstance(value, np.ndarray) else
            len(value) if isinstance(value, (list, str)) else 0) > _MOST_ELEMENTS  # fmt: skip


def _print_of(value: Any) -> Any:
    arrays = [(x, np.asarray(x)) for x in leaves(value)]
    return [(id(x) if x is a else 0, a.dtype, a.tobytes()) for x, a in arrays]


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
