"""A drawn function as text: its lines, what it is called with, and a script that runs it."""

from __future__ import annotations

import functools
import linecache
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from minicc.target import TARGETS

Line = tuple[int, str]  # depth and text

HEADER = """\
import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

nan, inf, G, H, LOG, SEEN = np.nan, np.inf, 2.0, np.array([1.0, 2.0]), [], {}


class Model:
    scale = 0.5

    def __init__(self, w, k):
        self.w, self.k, self.calls, self.log = w, k, 0, []

    @property
    def half(self):
        return self.w * 0.5

    def __len__(self):
        return len(self.log)

    def step(self, x):
        self.calls += 1
        return x * self.scale + self.k


@dataclass(frozen=True)
class Pair:
    left: Any
    right: Any = 1

    def both(self):
        return self.left * self.right


def kw(a, *, k=1, **more):
    return (a * k)[::-1]


def rest(first, *others, last=0):
    for other in others:
        first = first + other
    return first - last


def g(a, b=2):
    if np.ndim(a) > 1:
        return a[0] * b
    return a + b


def bump():
    global G
    G += 1
    return G


def put(a, b):
    a[...] = b
    return a


def filled(a, numbers):
    for name in a.dtype.names:
        part = a[name]
        if part.dtype.names:
            filled(part, numbers)
        else:
            part.T[...] = np.array(numbers).astype(part.dtype.base)
    return a

"""

_TOLERANCE = {2: 2e-2, 4: 1e-4, 8: 1e-10}
_COUNTS = re.compile(r"c\d+ \+= 1|if c\d+ > 5")  # without these a loop has no end

_RUN = """

if __name__ == "__main__":
    import minicc

    compiled = minicc.jit(f{options})
    for call in ({calls}):
        for run in (f, compiled):
            given = call()
            try:
                placed = list(given.values())[:{placed}]
                result = run(*placed, **dict(list(given.items())[{placed}:]))
                print(run.__class__.__name__, result)
            except Exception as error:
                print(repr(error))
            print("   ", given)
"""


@dataclass(frozen=True)
class Call:
    """Arguments as texts; `number` is what the global `G` is then, `setup` a line before it."""

    arguments: tuple[tuple[str, str], ...]
    number: str = "2.0"
    setup: str = "pass"

    def text(self, name: str) -> str:
        """A function that makes the arguments."""
        given = ", ".join(f"{k}={v}" for k, v in self.arguments)
        lines = ("global G", f"G = {self.number}", self.setup, f"return dict({given})")
        return f"def {name}():\n" + "".join(f"    {line}\n" for line in lines)


@dataclass(frozen=True)
class Program:
    """A function with calls. `loose` are the names whose floats may differ by rounding.

    `scale` is the largest float that was met on the way, `itemsize` the smallest type of floats.
    `placed` arguments are given by their places, the others by their names.
    """

    lines: tuple[Line, ...]
    returns: tuple[str, ...]
    calls: tuple[Call, ...]
    order: tuple[int, ...]
    loose: frozenset[str] = frozenset()
    scale: float = 1.0
    itemsize: int = 8
    strict: bool = False
    threads: int = 1
    target: str = ""
    placed: int = 0

    def tolerance(self, name: str) -> float:
        """How far floats of a name may be from NumPy's."""
        loose = set(re.findall(r"\w+", name)) & self.loose
        return _TOLERANCE[self.itemsize] * self.scale if loose else 0.0

    def options(self) -> dict[str, Any]:
        """How it is compiled."""
        how: dict[str, Any] = {"threads": self.threads, "math": "strict" if self.strict else "fast"}
        if self.target and TARGETS[self.target].runs_here():
            how["target"] = self.target
        return how

    def text(self, extra: tuple[Line, ...] = ()) -> str:
        """The module with the function and its calls."""
        names = ", ".join(k for k, _ in self.calls[0].arguments)
        ends = () if extra else ((0, f"return {{{', '.join(map(_named, self.returns))}}}"),)
        lines = [*self.lines, *extra, *ends]
        body = "".join(f"{'    ' * (depth + 1)}{text}\n" for depth, text in lines)
        calls = "\n\n".join(call.text(f"call{k}") for k, call in enumerate(self.calls))
        return f"{HEADER}\ndef f({names}):\n{body}\n\n{calls}"

    def script(self) -> str:
        """A file that shows each call's outcome, NumPy's and minicc's."""
        options = "".join(f", {k}={v!r}" for k, v in self.options().items())
        calls = "".join(f"call{k}, " for k in self.order)
        return self.text() + _RUN.format(options=options, calls=calls, placed=self.placed)

    def smaller(self) -> Iterator[Program]:
        """Programs that are a little smaller, the boldest first."""
        if len(self.order) > 1:
            for k in range(len(self.order)):
                yield replace(self, order=(*self.order[:k], *self.order[k + 1 :]))
        for k in range(len(self.returns)):
            yield replace(self, returns=(*self.returns[:k], *self.returns[k + 1 :]))
        for k in reversed(range(len(self.lines))):
            if _COUNTS.match(self.lines[k][1]):
                continue
            end = k + 1
            while end < len(self.lines) and self.lines[end][0] > self.lines[k][0]:
                end += 1
            yield replace(self, lines=(*self.lines[:k], *self.lines[end:]))
            if end > k + 1:
                body = tuple((depth - 1, text) for depth, text in self.lines[k + 1 : end])
                yield replace(self, lines=(*self.lines[:k], *body, *self.lines[end:]))
        for name, _ in self.calls[0].arguments:
            calls = tuple(
                replace(c, arguments=tuple(a for a in c.arguments if a[0] != name))
                for c in self.calls
            )
            yield replace(self, calls=calls)


def _named(name: str) -> str:
    return f"{name!r}: {name}"


def loaded(text: str, name: str) -> dict[str, Any]:
    """The module of a text, whose lines Python finds again."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    module = types.ModuleType("drawn")
    module.__file__ = name
    sys.modules["drawn"] = module
    if text.startswith(HEADER):
        exec(_header(name), vars(module))
        text = "\n" * HEADER.count("\n") + text.removeprefix(HEADER)
    exec(compile(text, name, "exec"), vars(module))
    return vars(module)


@functools.cache
def _header(name: str) -> types.CodeType:
    """What all programs begin with, compiled once."""
    return compile(HEADER, name, "exec")
