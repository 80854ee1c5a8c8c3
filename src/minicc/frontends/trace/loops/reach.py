"""What the body of a loop can reach of Python's objects, and whether a round changed any of it.

A captured body runs in Python once and stands for all rounds. So whatever it may change besides
arrays and local names must be seen: lists, dicts and attributes are compared with what they were,
functions of the user's are followed into the names that they look up, and objects of the user's
classes into the attributes that any of that code has a name of. An object that is none of these (a
file) is a reason not to capture the loop.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from minicc.frontends.trace.draws.base import Draws
from minicc.frontends.trace.draws.module import RandomModule
from minicc.frontends.trace.effects import MathModule, mathematics
from minicc.frontends.trace.extremes import extreme
from minicc.frontends.trace.kinds import InstanceOf, SubclassOf, power
from minicc.frontends.trace.loops.code import names_in
from minicc.frontends.trace.loops.flow import codes_within
from minicc.frontends.trace.loops.grown import length
from minicc.frontends.trace.loops.site import Site
from minicc.frontends.trace.loops.tables import TableList, TableTuple
from minicc.frontends.trace.namespace import Namespace, TracedFunction
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.objects import original_class
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import INSTEAD
from minicc.frontends.trace.tiles.function import KernelFunction
from minicc.frontends.trace.tracer import Tracer

_PLAIN = (
    bool, int, float, complex, str, bytes, type(None), range, slice, type(...),
    type(NotImplemented), np.dtype, np.generic, Tracer, Number, PythonType, TracedFunction,
    Namespace, MathModule, KernelFunction, SubclassOf, InstanceOf, Draws, RandomModule,
    TableList, TableTuple,
)  # fmt: skip
# Of Python's own functions those that only look at what they are given.
_PURE = (
    abs, all, any, bool, complex, dict, divmod, enumerate, float, hash, int, isinstance, issubclass,
    len, list, max, min, pow, range, reversed, round, slice, sorted, str, sum, tuple, type, zip,
)  # fmt: skip


_NAMES = {"__class__", "__name__", "__qualname__", "__module__"}  # attributes that only tell
# Methods that operators, `for`, `with` and calls call without a name.
_OPERATORS = frozenset(
    {n for n in dir(int) + dir(list) + dir(np.ndarray) if n.startswith("__")}
    | {"__call__", "__next__", "__enter__", "__exit__", "__getattr__", "__setattr__"}
) - ({*dir(object)} - {"__getattribute__", "__setattr__", "__eq__", "__ne__", "__hash__"})


class Reach:
    """The objects that some names lead to; `why` says what among them may change unseen."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.why = ""
        self._seen: dict[int, Any] = {}
        self._again: set[int] = set()
        self._spared: set[int] = set()
        self.containers: list[tuple[str, Any]] = []  # lists and dicts, by what led to them
        self.objects: list[tuple[str, Any]] = []  # the same of objects with attributes
        self._attributes: set[str] = set()

    @staticmethod
    def of(recorder: Recorder, site: Site) -> Reach:
        """What the body of a loop leads to."""
        reach = Reach(recorder)
        scope = site.frame.f_globals
        reach.code(site.frame.f_code)
        reach.names(site.code.carried, site.names())
        reach.names(site.code.outside, scope, scope["__builtins__"])
        return reach

    def code(self, code: types.CodeType) -> None:
        """Follow the attributes of objects that code may read."""
        found = set[str]().union(*[part.co_names for part in codes_within(code)])
        for attribute in sorted(found - self._attributes - _NAMES):
            self._attributes.add(attribute)
            for name, x in [*self.objects]:
                self._attribute(x, name, attribute)

    def names(self, names: Iterable[str], *scopes: Any) -> None:
        """Follow names that are looked up in scopes, the first that has one."""
        for name in sorted(names):
            found = next((scope[name] for scope in scopes if name in scope), None)
            self.visit(found, name)

    def visit(self, x: Any, name: str) -> None:
        """Follow a value."""
        if id(x) in self._seen:
            self._again.add(id(x))
        if self.why or isinstance(x, _PLAIN) or id(x) in self._seen:
            return
        self._seen[id(x)] = x
        if isinstance(x, tuple) or type(x) in (list, dict):
            if not isinstance(x, tuple):
                self.containers.append((name, x))
            for v in x.values() if type(x) is dict else x:
                self.visit(v, name)
        elif x is length or x is power:
            return
        elif isinstance(x, types.FunctionType):
            self._function(x, name)
        elif type(x) is partial and x.func in (mathematics, extreme, *INSTEAD.values()):
            return
        elif isinstance(x, types.MethodType):
            self.visit(x.__self__, name)
            self.visit(x.__func__, name)
        elif original_class(x) is not None:
            self._object(x, name)
        elif not _is_pure(x):
            self.why = f"`{name}` is a {type(x).__name__}, which the body may change"

    def _object(self, x: Any, name: str) -> None:
        """Follow what operators call, and the attributes that are known to be read."""
        own = (base for base in type(x).__mro__ if base.__module__ != original_class.__module__)
        for base in own:
            for method in vars(base).values():
                if isinstance(method, types.FunctionType) and method.__name__ in _OPERATORS:
                    self.visit(method, f"{name}.{method.__name__}")
        self.objects.append((name, x))
        for attribute in sorted(self._attributes):
            self._attribute(x, name, attribute)

    def _attribute(self, x: Any, name: str, attribute: str) -> None:
        member = inspect.getattr_static(type(x), attribute, None)
        if isinstance(member, property):
            for function in filter(None, (member.fget, member.fset)):
                self.visit(function, f"{name}.{attribute}")
            return
        try:
            found = getattr(x, attribute)
        except AttributeError:
            return
        self.visit(found, f"{name}.{attribute}")

    def _function(self, f: types.FunctionType, name: str) -> None:
        if id(f.__globals__) not in self.recorder.user_globals:
            self.why = f"`{name}` is a function of a library"
            return
        self.code(f.__code__)
        self.containers.append((name, vars(f)))
        for attribute in vars(f).values():
            self.visit(attribute, name)
        found = names_in(f.__code__)
        if found.refused:
            self.why = f"`{name}`, which it calls, {found.refused}"
        cells: dict[str, Any] = {}
        for free, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            try:
                cells[free] = cell.cell_contents
            except ValueError:
                continue
        self.names(found.reads | set(cells), cells, f.__globals__, f.__globals__["__builtins__"])
        for default in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            self.visit(default, name)

    def leads_to(self, x: list[Any]) -> bool:
        """Whether a list is reached."""
        return id(x) in self._seen

    def is_alone(self, x: list[Any]) -> bool:
        """Whether a list is reached by one name alone."""
        return id(x) in self._seen and id(x) not in self._again

    def spare(self, lists: Iterable[list[Any]]) -> None:
        """Let these lists change, and no others any more."""
        self._spared = set(map(id, lists))

    def is_spared(self, x: Any) -> bool:
        """Whether a list may change."""
        return id(x) in self._spared


def _is_pure(x: Any) -> bool:
    """Whether it is a function of Python's that only looks, or an exception's class."""
    if isinstance(x, type) and issubclass(x, BaseException):
        return True
    return isinstance(x, (type, types.BuiltinFunctionType)) and x in _PURE
