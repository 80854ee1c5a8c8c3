"""What a line of a drawn function did when NumPy ran it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

_MOST_PROBES = 300
# by bytes of a float: what exact ones are multiples of, and what they stay below
_EXACT = {2: (0.25, 8.0), 4: (2.0**-5, 128.0), 8: (2.0**-10, 65536.0)}


class Stop(BaseException):
    """Enough was seen of a line."""


def leaves(value: Any) -> Iterator[Any]:
    """The arrays and numbers in a value."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))
    elif hasattr(value, "log") and hasattr(value, "w"):
        yield from leaves([value.w, value.k, value.log])
    elif isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
        yield value


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

    def probe(self, k: int, names: dict[str, Any]) -> None:
        """Look at the names before (0) or after (1) a line."""
        self.probes += 1
        if self.probes > _MOST_PROBES:
            raise Stop
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
        for leaf in leaves(value):
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


def _print_of(value: Any) -> Any:
    return [(id(x) if isinstance(x, np.ndarray) else 0, str(np.asarray(x).dtype),
             np.asarray(x).tobytes()) for x in leaves(value)]  # fmt: skip


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
