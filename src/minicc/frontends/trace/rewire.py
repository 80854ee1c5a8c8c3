"""A function over the same code in which NumPy is the traced NumPy.

The copy runs with new globals and new closure cells; the user's own are never touched. Names are
replaced where the code of the function (and of those within it) reads them: modules and functions
of NumPy, arrays (which become constants), and the user's own functions and modules, in turn.
Functions of installed libraries are left alone: their NumPy calls come back by the array protocols.

What was read is noted as `Reference`s, which `guards` checks before a compiled function is used
again.
"""

from __future__ import annotations

import builtins
import datetime
import math
import sys
import types
from functools import lru_cache, partial
from typing import Any

import numpy as np

from minicc.errors import UnsupportedError, file_line
from minicc.frontends.trace.builtin_names import compared_in, compares_values, traced_builtins
from minicc.frontends.trace.draws.outside import drawn_from
from minicc.frontends.trace.effects import (
    MathModule,
    SciPyModule,
    effects,
    is_scipy,
    mathematics,
    scientific,
)
from minicc.frontends.trace.given import OPEN, Reference
from minicc.frontends.trace.kinds import (
    LOOKING,
    Solid,
    looks,
)
from minicc.frontends.trace.loops.comprehensions import (
    rewritten,
)
from minicc.frontends.trace.loops.flow import codes_within, instructions
from minicc.frontends.trace.loops.uses import from_end, is_added_to, is_only_added_to
from minicc.frontends.trace.namespace import (
    Clock,
    Namespace,
    impure,
    numpy_object,
    numpy_path,
    replacement,
)
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.objects import (
    MISSING,
    Members,
    is_generator,
    is_library,
    is_users,
    real_of,
    refuse_set,
    stand_in,
)
from minicc.frontends.trace.pytree import CONTAINERS, PLAIN, likeness_of, mapped, with_elements
from minicc.frontends.trace.recorder import OWN, Recorder
from minicc.frontends.trace.registry import INSTEAD
from minicc.frontends.trace.routes import CellRoute, Identities, NamesRoute, Route, homes
from minicc.frontends.trace.side_effects import Home, SideEffects
from minicc.frontends.trace.tracer import Tracer
from minicc.later import classes_of

_BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
# modules of Python of which some members are replaced
_LOOKED_INTO = LOOKING | {"sys", "warnings"}
_READING = (__name__, stand_in.__module__)


@lru_cache(1 << 12)
def _looked_up(code: types.CodeType) -> frozenset[str]:
    """The names that code looks for among globals and builtins."""
    steps = instructions(code)
    return frozenset(str(s.argval) for s in steps if s.opname in ("LOAD_GLOBAL", "LOAD_NAME"))


class Rewirer:
    """Makes the copies of one trace, each function's once."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.references: list[Reference] = []
        self.identities = Identities()
        recorder.namespace = Namespace(recorder, generator=self.value)
        recorder.effects = self._effects = SideEffects()
        recorder.as_users = self._ours
        self.classes: dict[Any, Any] = {}
        self.generators: dict[int, tuple[Any, Any]] = {}  # of random numbers, with their places
        self._functions: dict[int, tuple[Any, Any]] = {}
        self._globals: dict[int, dict[str, Any]] = {}
        self._seen: set[tuple[int, str]] = set()
        self._filled: set[tuple[int, str]] = set()  # globals that have what stands for them
        self._arrays: dict[int, Tracer] = {}
        self._places: dict[int, tuple[Any, Any]] = {}  # where inputs are read, with these

    def value(self, x: Any, name: str, route: Route | None = None) -> Any:
        """What stands for a value that the code reads under `name`; calls may lead to it."""
        path = numpy_path(x)
        if path is not None:
            return replacement(self.recorder, x, path) if path else self.recorder.namespace
        if isinstance(x, type) and x.__module__ == "numpy" and hasattr(np, x.__name__):
            return replacement(self.recorder, x, x.__name__)
        if (answers := numpy_object(self.recorder, x, name)) is not None:
            return answers
        if x is math:
            return MathModule(self.recorder)
        if isinstance(x, types.BuiltinFunctionType) and x.__module__ == "math":
            return partial(mathematics, self.recorder, x)
        if isinstance(x, (types.ModuleType, types.FunctionType)) and is_scipy(x):
            if isinstance(x, types.ModuleType):
                return SciPyModule(self.recorder, x)
            return partial(scientific, self.recorder, x)
        writer = effects(self.recorder, x)
        if writer is not None:
            return writer
        if isinstance(x, type) and x in (datetime.datetime, datetime.date):
            return Clock(self.recorder, x)
        if is_generator(x):
            return drawn_from(self, x, name, route)
        source = impure(self.recorder, x, name)
        if source is not None:
            return source
        if isinstance(x, _BOUND) and not isinstance(x.__self__, (types.ModuleType, type(None))):
            return getattr(self.read("attribute", x, "__self__", x.__self__), x.__name__)
        if looks(x):
            return Solid(x)
        if type(x) is np.ndarray:
            return self.array(x, name)
        if isinstance(x, (np.matrix, *classes_of("numpy.ma", "MaskedArray"))):
            what = f"`{name}` from outside of the function is a {type(x).__name__}"
            hint = "use its data: numpy.asarray(x), x.filled(value)"
            self.recorder.refuse("MC0245", what, hint)
        if isinstance(x, types.FunctionType) and hasattr(x, "registry"):
            what = f"`{name}` chooses by the types of its arguments"
            self.recorder.refuse("MC0241", what, "choose with isinstance")
        if isinstance(x, types.FunctionType):
            own = not is_library(x.__code__.co_filename)
            return self.function(x, route) if own else self._around(x)
        if isinstance(x, types.MethodType | partial):
            return self._with_arguments(x, name, route)
        if isinstance(x, types.ModuleType):
            file = getattr(x, "__file__", None)
            known = is_library(file) if file else x.__spec__ is not None
            return x if known and x.__name__ not in _LOOKED_INTO else ModuleProxy(self, x)
        wrapped = None if isinstance(x, type) else getattr(x, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType):
            return self.value(wrapped, name)
        return self._held(x, name, route)

    def _held(self, x: Any, name: str, route: Route | None) -> Any:
        """What stands for a container, or for an object or a class."""
        if type(x) in (tuple, list, dict):
            made = mapped(lambda leaf, path: self.value(leaf, name + path), x)
            return self.container(made, x, name)
        if isinstance(x, (set, frozenset)) and any(isinstance(v, type) for v in x):
            classes = {v: self.value(v, name) for v in x if isinstance(v, type)}
            return self.container(type(x)([classes.get(v, v) for v in x]), x, name)
        if isinstance(x, CONTAINERS):
            return self.container(with_elements(x, lambda leaf: self.value(leaf, name)), x, name)
        return stand_in(self, x, name, route)

    def _with_arguments(self, x: Any, name: str, route: Route | None) -> Any:
        """The function of a bound method or a partial one, with what it is given."""
        self.met(x, route)
        known = self._functions.get(id(x))
        if known is not None:
            return known[1]
        if isinstance(x, types.MethodType):
            owner = route and Route(Reference("attribute", route, "__self__", x.__self__))
            function, own = self.value(x.__func__, name), self.reached(x.__self__, name, owner)
            made: Any = types.MethodType(function, own)
        else:
            home = route or x
            args = self.read("attribute", home, "args", x.args)
            named = self.read("attribute", home, "keywords", x.keywords)
            function = self._noted(Reference("attribute", home, "func", x.func), False)
            made = partial(function, *args, **named)
        self._functions[id(x)] = (x, made)
        return made

    def reached(self, x: Any, name: str, route: Route | None) -> Any:
        """What stands for a value to which calls lead: one of the same class or code at each."""
        made = self.value(x, name, route)
        if likeness_of(x) is not None and not self._follows(x, made):
            self.identities.note(x, route)
            self.identities.note(x, None)
        return made

    def _follows(self, x: Any, made: Any) -> bool:
        """Whether what stands for a value is made of what is read of that alone."""
        if isinstance(x, types.FunctionType):
            return self._functions.get(id(x), (x, None))[1] is made
        return type(x) in (types.MethodType, partial) or real_of(made) is x or is_generator(x)

    def _read_from(self, reference: Reference) -> Any:
        """The same for what is no array, number or container and is read at a reference."""
        x, path = reference.value, reference.path
        if not reference.is_reached or likeness_of(x) is None:
            return self.value(x, path)
        made = self.value(x, path, Route(reference))
        if self._follows(x, made):
            reference.unseen = True
            if isinstance(reference.home, Reference):
                reference.leave_out()
                self.references.append(reference)
        return made

    def met(self, x: Any, route: Route | None) -> None:
        """Note a way that leads to an object."""
        self.identities.note(x, route)

    homes = staticmethod(homes)

    def _around(self, f: types.FunctionType) -> types.FunctionType:
        """A library's function; where it wraps the user's, as decorators do, around the copy."""
        if not isinstance(getattr(f, "__wrapped__", None), types.FunctionType):
            return f
        cells = tuple(types.CellType(self.value(c.cell_contents, f.__name__))
                      for c in f.__closure__ or ())  # fmt: skip
        copy = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, cells)
        copy.__kwdefaults__ = f.__kwdefaults__
        return copy

    def entry(self, f: Any) -> Any:
        """What stands for the traced function itself, which may be an object with `__call__`."""
        called = vars(type(f)).get("__call__")
        if isinstance(called, types.FunctionType) and not hasattr(f, "__wrapped__"):
            return types.MethodType(self.value(called, "__call__"), self.value(f, "self"))
        return self.value(f, self.recorder.name)

    def container(self, made: Any, x: Any, name: str, home: Home | None = None) -> Any:
        """Remember the copy of a container from outside, to see whether the function changes it."""
        self._name_classes(made)
        self._effects.watch(made, x, name, home)
        return made

    def _name_classes(self, made: Any) -> None:
        """Let what stands for the user's classes stand for those that are keys of a copy, too."""
        if isinstance(made, dict):
            if any(isinstance(k, type) and is_users(k) for k in made):
                items = [(self.value(k, "a key") if isinstance(k, type) else k, v)
                         for k, v in made.items()]  # fmt: skip
                made.clear()
                made.update(items)
            made = [*made.values()]
        if isinstance(made, (tuple, list)):
            for part in made:
                if isinstance(part, (tuple, list, dict)):
                    self._name_classes(part)

    def array(
        self, x: np.ndarray[Any, Any], name: str, reference: Reference | None = None
    ) -> Tracer:
        """A captured array as a constant, which was read at a reference."""
        if id(x) not in self._arrays:
            box = Tracer(self.recorder, x, locked=f"the captured array `{name}`")
            if x.itemsize:
                box.lies(x.strides)
            self._arrays[id(x)] = box
            self.recorder.captured[name] = x
        if reference is not None and self.recorder.numbers:
            constants: dict[int, Reference] = self.recorder.numbers.constants
            constants[id(self._arrays[id(x)])] = reference
        return self._arrays[id(x)]

    def read(self, kind: str, home: Any, name: str, value: Any) -> Any:
        """Note what is read, once, and give what stands for it."""
        reference = Reference(kind, home, name, value)
        return self._noted(reference, kind == "attribute" and self._is_added_to(value))

    def _noted(self, reference: Reference, added: bool) -> Any:
        """The same; to a list that is `added` to, the code does nothing but append."""
        value = reference.value
        given = self.recorder.numbers
        if given and given.takes(reference):
            return self._array(reference)
        called = f"{reference.kind} {reference.name}"
        term = given and given.leaf(reference.place, reference, called, value)
        if term:
            return Number.of(self.recorder, term)
        if reference.place not in self._seen:
            self._seen.add(reference.place)
            if not isinstance(value, types.ModuleType):
                self.references.append(reference)
        if given and added and given.may_be_unseen(reference):
            reference.unseen = True
            return self._effects.watch_unseen(reference)
        if given and type(value) in OPEN:
            made = self._opened(reference)
        elif type(value) is np.ndarray:
            return self.array(value, reference.name, reference)
        else:
            made = self._read_from(reference)
        if isinstance(value, OPEN):
            self.container(made, value, reference.name, Home(reference))
        return made

    def _is_added_to(self, value: Any) -> bool:
        """Whether a list is not looked at by the user's code that reads it, but appended to."""
        if type(value) is not list:
            return False
        frame = self._reader()
        return frame is None or is_added_to(frame.f_code, frame.f_lasti)

    def _reader(self) -> types.FrameType | None:
        """The user's frame that reads an attribute; None where minicc itself looks at what is."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__") in _READING:
            frame = frame.f_back
        users = frame is not None and id(frame.f_globals) in self.recorder.user_globals
        return frame if users else None

    def look(self, home: Any, name: str, real: Any, seen: Any) -> None:
        """Begin again where code looks at a list of which it was taken that nothing does."""
        frame = self._reader() if self._effects.is_unseen(seen) else None
        if frame is None or is_added_to(frame.f_code, frame.f_lasti):
            return
        # an element may be one that this call has added
        if not 0 < from_end(frame.f_code, frame.f_lasti) <= len(seen):
            value = getattr(real, name)
            self.recorder.numbers.look(Reference("attribute", home, name, value))

    def _opened(self, reference: Reference) -> Any:
        """The copy of a container, with arrays and numbers in it as inputs where they may be."""
        x, numbers = reference.value, self.recorder.numbers
        if numbers.takes(reference):
            reference.leave_out()
            return self._array(reference)
        if type(x) is np.ndarray:
            return self.array(x, reference.path, reference)
        term = numbers.leaf(reference.place, reference, reference.path, x)
        if term:
            reference.leave_out()
            return Number.of(self.recorder, term)
        if type(x) not in OPEN:
            return self._read_from(reference)
        pairs = x.items() if type(x) is dict else enumerate(x)
        known = PLAIN if not numbers.moving else ()  # as the many elements of a list may be
        made = [
            v if type(v) in known else self._opened(Reference(reference.kind, reference, k, v))
            for k, v in pairs
        ]
        return dict(zip(x, made, strict=True)) if type(x) is dict else type(x)(made)

    def _array(self, reference: Reference) -> Tracer:
        """The input that an array is, or a constant: what is read at two places is one."""
        place, x = reference.place, reference.value
        box: Tracer | None = self.recorder.numbers.array(self.recorder, reference)
        if box is None:
            if place not in self._seen:
                self._seen.add(place)
                self.references.append(reference)
            return self.array(x, reference.path, reference)
        known = self._places.setdefault(id(x), (place, x))
        if known[0] != place or id(x) in self.recorder.given or id(x) in self._arrays:
            self.recorder.numbers.keep_all_still()
        return box

    def function(self, f: types.FunctionType, route: Route | None = None) -> Any:
        """The function's copy."""
        self.met(f, route)
        known = self._functions.get(id(f))
        if known is not None:
            return known[1]
        self._check(f.__code__)
        compared = set[str]().union(*map(compared_in, codes_within(f.__code__)))
        if self.recorder.numbers and compared:
            self.recorder.numbers.forget_flags()  # what stands for True is not True
        self.recorder.identity |= bool(compared)
        self.identities.compares |= bool(compared - {"__class__"})
        self.identities.of_numbers |= any(map(compares_values, codes_within(f.__code__)))
        if "dtype" in f.__code__.co_names and any(hasattr(np, name) for name in compared):
            what = "a type of NumPy's is compared by identity"
            self.recorder.refuse("MC0241", what, "compare with ==")
        namespace = self._namespace(f.__globals__)
        cells = tuple(types.CellType() for _ in f.__closure__ or ())
        copy = types.FunctionType(rewritten(f.__code__), namespace, f.__name__, None, cells)
        self._functions[id(f)] = (f, copy)
        self._fill_globals(f, namespace)
        for name, old, new in zip(f.__code__.co_freevars, f.__closure__ or (), cells, strict=True):
            try:
                content = old.cell_contents
            except ValueError:
                continue
            added = type(content) is list and is_only_added_to(f.__code__, name)
            cell = old if route is None else CellRoute(route.at)
            new.cell_contents = self._noted(Reference("closure", cell, name, content), added)
        home = route or f
        for name in ("__defaults__", "__kwdefaults__"):
            if (given := getattr(f, name)) or route is not None:  # another may have some
                setattr(copy, name, self.read("default", home, name, given))
        copy.__qualname__ = f.__qualname__
        own = {n: v for n, v in vars(f).items() if not n.startswith("__")}
        vars(copy).update((n, self.read("attribute", home, n, v)) for n, v in own.items())
        if route is None:
            self.read("attributes of", Members(vars(f)), f.__qualname__, Members.BEFORE)
        else:
            names = tuple(vars(f))
            self.read("attributes of", NamesRoute(route.at), f.__qualname__, names)
        attributes = Reference("attribute", home, "__dict__", vars(f))
        self._effects.watch(vars(copy), own, f.__qualname__, Home(attributes))
        return copy

    def _ours(self, f: types.FunctionType) -> Any:
        """The copy of a function of ours, of which nothing needs to be guarded."""
        if id(f) not in self._functions:
            namespace = self._namespace(f.__globals__)
            copy = types.FunctionType(rewritten(f.__code__), namespace, f.__name__)
            self._functions[id(f)] = (f, copy)
            names = set[str]().union(*map(_looked_up, codes_within(f.__code__)))
            for name in names & f.__globals__.keys():
                x = f.__globals__[name]
                if isinstance(x, types.FunctionType) and x.__module__.startswith(OWN):
                    instead = INSTEAD.get(x)
                    namespace[name] = partial(instead, self.recorder) if instead else self._ours(x)
                else:
                    namespace[name] = self.value(x, name)
        return self._functions[id(f)][1]

    def _namespace(self, original: dict[str, Any]) -> dict[str, Any]:
        if id(original) not in self._globals:
            made = dict(original)
            own = traced_builtins(self.recorder, original, self.value)
            made["__builtins__"] = own | {"__import__": self._import}
            self._globals[id(original)] = made
            self.recorder.user_globals[id(made)] = original
        return self._globals[id(original)]

    def _fill_globals(self, f: types.FunctionType, namespace: dict[str, Any]) -> None:
        for name in sorted(set[str]().union(*map(_looked_up, codes_within(f.__code__)))):
            value = f.__globals__.get(name, MISSING)
            reference = Reference("global", f.__globals__, name, value)
            if reference.place not in self._filled:
                self._filled.add(reference.place)
                # what is not there may be later, where it hides what is built in
                made = self._noted(
                    reference, type(value) is list and is_only_added_to(f.__code__, name)
                )
                if value is not MISSING:
                    namespace[name] = made
            elif self._effects.is_unseen(namespace.get(name)) and not is_only_added_to(
                f.__code__, name
            ):
                self.recorder.numbers.look(reference)

    def _check(self, code: types.CodeType) -> None:
        """UnsupportedError (MC0244) where the code rebinds names from outside of it."""
        free = set(code.co_freevars)
        for part in codes_within(code):
            line = part.co_firstlineno
            for step in instructions(part):
                line = (step.positions.lineno if step.positions else None) or line
                rebinds = step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") or (
                    step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in free
                )
                if rebinds:
                    self._refuse_rebinding(step.argval, code.co_filename, line)

    def _refuse_rebinding(self, name: str, file: str, line: int) -> None:
        try:
            self.recorder.refuse(
                "MC0244", f"`{name}` from outside of the function is bound anew", "return the value"
            )
        except UnsupportedError as error:
            error.where = (file_line(file, line),)
            raise

    def _import(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """An import within the function."""
        module = builtins.__import__(name, *args, **kwargs)
        path = numpy_path(module)
        if path is None or module is math:
            return self.value(module, name)
        return self.recorder.namespace if not path else replacement(self.recorder, module, path)


class ModuleProxy:
    """A module of the user's whose functions are replaced when they are read."""

    _rewirer: Rewirer
    _module: types.ModuleType

    def __init__(self, rewirer: Rewirer, module: types.ModuleType) -> None:
        vars(self).update(_rewirer=rewirer, _module=module)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        return self._rewirer.read("global", vars(self._module), name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        refuse_set(self._rewirer, f"{self._module.__name__}.{name}")
