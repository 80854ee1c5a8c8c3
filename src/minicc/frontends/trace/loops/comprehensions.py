"""List comprehensions of traced functions that become loops of the graph.

    [f(v) for v in x]   -->   out = []
                              for v in x:
                                  out.extend([f(v)])

Up to Python 3.11 a comprehension is a function of an iterator, which is called where it stands. In
the copy of the user's code that is traced, another function stands in its place: it finds out what
the iterator runs over and, where that is long, has a `for` statement of its own, which can be
captured (`fors`), call the comprehension with an iterator of one item in each round.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from minicc.frontends.trace.loops.fors import Remembered, Source, drive, source_of
from minicc.frontends.trace.numbers import PythonType
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.row_iterator import RowIterator

NAME = "__minicc_listed__"
_CODE = "the code of the comprehension"
_STUB = """
def around({names}):
    def comprehension(items):
        return {listed}(items, {code!r}, (lambda: ({names})).__closure__)
    return comprehension
"""
_FOR = """
def listed(items, comprehension):
    out = []
    for item in items():
        out.extend(comprehension((item,).__iter__()))
    return out
"""
_RANGE = type(iter(range(0)))


class Listing(PythonType):
    """What the function in the place of a comprehension calls."""

    real = list

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._scope: dict[str, Any] = {"__builtins__": {}}
        recorder.user_globals.add(id(self._scope))

    def __call__(self, items: Iterator[Any], code: CodeType, cells: tuple[Any, ...] | None) -> Any:
        scope = sys._getframe(1).f_globals
        comprehension = FunctionType(code, scope, code.co_name, None, cells)
        source = _source(items)
        if source is None:
            return comprehension(items)

        return FunctionType(_for(code), self._scope)(Items(self._recorder, source), comprehension)


class Items(PythonType):
    """What the `for` statement in the place of a comprehension calls for its items."""

    real = list

    def __init__(self, recorder: Recorder, source: Source) -> None:
        self._recorder = recorder
        self._source = source

    def __call__(self) -> Iterator[Any]:
        loop = drive(self._recorder, sys._getframe(1), self._source)
        rows = range(self._source.length) if loop is None else ()
        return (self._source.item(k) for k in rows) if loop is None else loop


def _source(items: Iterator[Any]) -> Source | None:
    """What an iterator runs over that has not begun."""
    if type(items) is _RANGE:
        told: Any = items.__reduce__()
        return source_of(told[1][0]) if not told[2] else None
    if isinstance(items, RowIterator):
        return source_of(items.array) if not items.begun else None
    return items.source if isinstance(items, Remembered) else None


def rewritten(code: CodeType) -> CodeType:
    """The code of a function with others in the place of its comprehensions."""
    constants = tuple([_replaced(c) if isinstance(c, CodeType) else c for c in code.co_consts])
    same = all(a is b for a, b in zip(constants, code.co_consts, strict=True))
    return code if same else code.replace(co_consts=constants)


@lru_cache(512)
def _replaced(code: CodeType) -> CodeType:
    within = rewritten(code)
    if code.co_name != "<listcomp>":
        return within
    names = "".join(f"{name}, " for name in code.co_freevars)
    stub = _function(_STUB.format(names=names, listed=NAME, code=_CODE), "comprehension", code)
    constants = tuple([within if c == _CODE else c for c in stub.co_consts])
    return stub.replace(co_consts=constants) if stub.co_freevars == code.co_freevars else within


@lru_cache(512)
def _for(code: CodeType) -> CodeType:
    """The `for` statement of a comprehension, which stands where that does."""
    return _function(_FOR, "listed", code)


def _function(text: str, name: str, like: CodeType) -> CodeType:
    """The code of a function of a text, at the line of another one."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr | ast.arg):
            node.lineno = node.end_lineno = like.co_firstlineno
    waiting = [compile(tree, like.co_filename, "exec")]
    while waiting:
        code = waiting.pop()
        if code.co_name == name:
            return code
        waiting += [c for c in code.co_consts if isinstance(c, CodeType)]
    raise LookupError(name)
