"""Comprehensions of traced functions, and generators that are summed, as loops of the graph.

    [f(v) for v in x]   -->   out = []
                              for v in x:
                                  out.extend([f(v)])

Up to Python 3.11 a comprehension is a function of an iterator, which is called where it stands. In
the copy of the user's code that is traced, another function stands in its place: it finds out what
the iterator runs over and, where that is long, has a `for` statement of its own, which can be
captured (`fors`), call the comprehension with an iterator of one item in each round. An expression
that makes a generator gives what is one, until somebody asks for all of its elements.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from minicc.frontends.trace.loops.appended import SEVERAL
from minicc.frontends.trace.loops.fors import Remembered, Source, drive, source_of
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.row_iterator import RowIterator

LISTED, DRAWN = "__minicc_listed__", "__minicc_drawn__"
_NAMES = {"<listcomp>": LISTED, "<genexpr>": DRAWN}  # by what Python calls the function
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
_KNOWN: tuple[type, ...] = (type(iter(range(0))), type(iter([])))
_COROUTINE = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Listing(PythonType):
    """What the function in the place of a comprehension calls."""

    real = list

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._scope: dict[str, Any] = {"__builtins__": {}}
        recorder.user_globals[id(self._scope)] = self._scope

    def __call__(self, items: Iterator[Any], code: CodeType, cells: tuple[Any, ...] | None) -> Any:
        comprehension = FunctionType(code, sys._getframe(1).f_globals, code.co_name, None, cells)
        filled = self.filled(items, comprehension)
        return comprehension(items) if filled is None else filled

    def filled(self, items: Iterator[Any], comprehension: FunctionType) -> list[Any] | None:
        """All elements; None where they are few, or nobody knows what the iterator runs over."""
        source = _source(self._recorder, items)
        if source is None or (type(source.length) is int and source.length <= SEVERAL):
            return None
        code = _for(comprehension.__code__)
        made: list[Any] = FunctionType(code, self._scope)(
            Items(self._recorder, source), comprehension
        )
        return made


class Drawing(Listing):
    """What the function in the place of an expression that makes a generator calls."""

    def __call__(self, items: Iterator[Any], code: CodeType, cells: tuple[Any, ...] | None) -> Any:
        made = FunctionType(code, sys._getframe(1).f_globals, code.co_name, None, cells)
        return Drawn(self, items, made)


class Drawn:
    """A generator, of which all elements may be asked for before it has begun."""

    def __init__(self, listing: Listing, items: Iterator[Any], made: FunctionType) -> None:
        self._listing = listing
        self._items = items
        self._made = made
        self._begun: Any = None

    def __iter__(self) -> Drawn:
        return self

    def __next__(self) -> Any:
        return next(self._generator())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator(), name)

    def _generator(self) -> Any:
        if self._begun is None:
            self._begun = self._made(self._items)
        return self._begun

    def filled(self) -> Any:
        """A list of all its elements; the generator itself where only Python can tell them."""
        known = None if self._begun else self._listing.filled(self._items, self._made)
        return self._generator() if known is None else known


class Items(PythonType):
    """What the `for` statement in the place of a comprehension calls for its items."""

    real = list

    def __init__(self, recorder: Recorder, source: Source) -> None:
        self._recorder = recorder
        self._source = source

    def __call__(self) -> Iterator[Any]:
        loop = drive(self._recorder, sys._getframe(1), self._source)
        return map(self._source.item, range(self._source.length)) if loop is None else loop


def _source(recorder: Recorder, items: Iterator[Any]) -> Source | None:
    """What an iterator runs over that has not begun."""
    if type(items) in _KNOWN:
        told: Any = items.__reduce__()
        return source_of(recorder, told[1][0]) if told[2:] == (0,) else None
    if isinstance(items, RowIterator):
        return source_of(recorder, items.array) if not items.begun else None
    return items.source if isinstance(items, Remembered) else None


def rewritten(code: CodeType) -> CodeType:
    """The code of a function with others in the place of its comprehensions."""
    constants = tuple([_replaced(c) if isinstance(c, CodeType) else c for c in code.co_consts])
    same = all(a is b for a, b in zip(constants, code.co_consts, strict=True))
    return code if same else code.replace(co_consts=constants)


@lru_cache(512)
def _replaced(code: CodeType) -> CodeType:
    within = rewritten(code)
    if code.co_name not in _NAMES or code.co_flags & _COROUTINE:
        return within
    names = "".join(f"{name}, " for name in code.co_freevars)
    stub = _function(
        _STUB.format(names=names, listed=_NAMES[code.co_name], code=_CODE), "comprehension", code
    )
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
