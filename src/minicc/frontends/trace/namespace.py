"""What a traced function finds in the place of the module `numpy`.

Types, dtypes and numbers (`np.float32`, `np.pi`) are NumPy's own; functions are wrapped and go to
`dispatch`. `np.ndarray` is what traced arrays pass for. Random numbers and files are refused where
they are named.
"""

from __future__ import annotations

import contextvars
import io
import os
import pathlib
import random
import types
from functools import partial
from typing import Any, NoReturn

import numpy as np

from minicc.frontends.trace.dispatch import DRAWN, call, impurity, is_symbolic, refuse_impure
from minicc.frontends.trace.draws.module import RandomModule
from minicc.frontends.trace.names import resolve
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.types import I64


class TracedFunction:
    """A function of NumPy, wrapped; a ufunc's methods are attributes as `np.add.reduce`."""

    __slots__ = ("_name", "_recorder")

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call(self._recorder, self._name, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        real = resolve(self._name)
        if isinstance(real, np.ufunc) and name in (
            "reduce",
            "outer",
            "accumulate",
            "reduceat",
            "at",
        ):
            return TracedFunction(self._recorder, f"{self._name}.{name}")
        return getattr(real, name)

    @property
    def real_function(self) -> Any:
        """NumPy's own."""
        return resolve(self._name)

    def __repr__(self) -> str:
        return f"<traced numpy.{self._name}>"


class Namespace:
    """The module `numpy`, or one of its submodules, for one trace."""

    def __init__(self, recorder: Recorder, path: str = "", generator: Any = None) -> None:
        """`generator` gives what stands for a generator of random numbers from outside."""
        self._recorder = recorder
        self._path = path
        self.generator = generator

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}" if self._path else name
        real = resolve(path)
        replaced = replacement(self._recorder, real, path)
        if not isinstance(real, types.ModuleType):
            setattr(self, name, replaced)
        return replaced

    def __repr__(self) -> str:
        return f"<traced numpy{'.' if self._path else ''}{self._path}>"


def replacement(recorder: Recorder, real: Any, path: str) -> Any:
    """What stands for an object of NumPy while tracing; for a class always the same."""
    if isinstance(real, type) and path not in _CLASSES:
        if real not in recorder.kinds:
            recorder.kinds[real] = _class_replacement(recorder, real, path)
        return recorder.kinds[real]
    if path in ("random", "random._generator.default_rng"):
        module = RandomModule(recorder, recorder.namespace.generator)
        return module if path == "random" else module.default_rng
    if impurity(path):
        return Impure(recorder, f"np.{path}", impurity(path))
    if isinstance(real, types.ModuleType):
        return Namespace(recorder, path)
    if path in ("errstate", "seterr"):  # a class in some versions
        return partial(_error_state, recorder, real, path)
    if real is np.r_ or real is np.c_:
        return Joiner(recorder, real)
    if real is np.mgrid or real is np.ogrid:
        return Grid(recorder, path, real)
    if real is np.vectorize:
        return lambda *args, **kwargs: refuse_calls_back(recorder, "np.vectorize")
    return TracedFunction(recorder, path) if callable(real) else real


def _class_replacement(recorder: Recorder, real: type, path: str) -> Any:
    if impurity(path):
        return Impure(recorder, f"np.{path}", impurity(path))
    if path == "errstate":
        return partial(_error_state, recorder, real, path)
    if real is np.nditer:
        return partial(_iterated, recorder)
    if real is np.ndarray:
        return ArrayType(recorder)
    if issubclass(real, np.ndarray):
        return OtherArrayType(recorder, real)
    return ScalarType(recorder, real) if real in _CONCRETE else real


def _iterated(recorder: Recorder, op: Any, *args: Any, **kwargs: Any) -> Any:
    """NumPy's iterator over what is read; one that writes would write to a copy."""
    if "write" in str((args, kwargs)):
        hint = "write with whole arrays, or by an index"
        recorder.refuse("MC0243", "np.nditer that writes is not traced", hint)
    boxes = [x for x in (op if isinstance(op, (list, tuple)) else [op]) if isinstance(x, Tracer)]
    if not all(x.shadow().flags["C_CONTIGUOUS"] for x in boxes):
        hint = "use np.ndindex, or x.flat"
        recorder.refuse("MC0241", "np.nditer of what does not lie row by row is not traced", hint)
    return np.nditer(op, *args, **kwargs)


def _error_state(recorder: Recorder, real: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """How NumPy tells of overflows and their like: compiled code does not."""
    wanted = [*args, *kwargs.values()]
    if name == "seterr" or any(w not in (None, "ignore", "warn") for w in wanted):
        hint = "look at the values: np.isfinite(x)"
        recorder.refuse("MC0241", f"np.{name}({', '.join(map(repr, wanted))}) is not traced", hint)
    return real(*args, **kwargs)


# Classes that are called as functions are.
_CLASSES = ("vectorize",)
_CONCRETE = {np.dtype(c).type for c in "?bhilqBHILQefdFD"}


class ArrayType(PythonType):
    """`np.ndarray`: what traced arrays are, and traced scalars are not."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(np.ndarray)
        self._recorder = recorder

    def __call__(self, shape: Any, dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            self._recorder.refuse("MC0241", "np.ndarray over given memory is not traced")
        return call(self._recorder, "zeros", (shape, dtype), {})

    def __instancecheck__(self, x: Any) -> bool:
        return isinstance(x, np.ndarray) or (issubclass(type(x), Tracer) and not x.scalar)


class OtherArrayType(PythonType):
    """A class of NumPy's over `np.ndarray`, as `np.matrix`: its arrays may show others' memory."""

    def __init__(self, recorder: Recorder, real: type) -> None:
        super().__init__(real)
        self._recorder = recorder

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        what = f"an array of the class {self.real.__name__} is not traced"
        self._recorder.refuse("MC0245", what, "use np.asarray")


class ScalarType(PythonType):
    """A scalar type of NumPy, as `np.float32`: called on a traced array it converts it."""

    def __init__(self, recorder: Recorder, real: type) -> None:
        super().__init__(real)
        self._recorder = recorder

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and is_symbolic(args[0]):
            if has_term(args[0]) and self._takes(args[0]):
                return call(self._recorder, "ndarray.astype", (args[0].box, self.real), {})[()]
            made = call(self._recorder, "asarray", (args[0], self.real), {})
            return made if made.ndim else made[()]
        return self.real(*args, **kwargs)

    def _takes(self, number: Number) -> bool:
        """Whether a number is an input of an unsigned type, which holds it, as a seed is.

        What is of a signed type may be a size, or a place, and is a constant.
        """
        unsigned = number.kind is int and np.dtype(self.real).kind == "u"
        return unsigned and number.fits(self._recorder.dtype(self.real)) and number.fits(I64)


class Joiner:
    """`np.r_` and `np.c_`, which join arrays, numbers and ranges that stand in an index."""

    def __init__(self, recorder: Recorder, real: Any) -> None:
        self._recorder = recorder
        self._real = real

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not any(map(is_symbolic, parts)):
            return call(self._recorder, f"{'rc'[self._real is np.c_]}_.__getitem__", (key,), {})
        if any(isinstance(p, str) for p in parts):
            self._recorder.refuse("MC0241", "np.r_ with a text is not traced")
        np_ = self._recorder.namespace
        made = [self._real[p].reshape(-1) if isinstance(p, slice) else p for p in parts]
        numbers = (int, float, complex)
        kinds = [p if isinstance(p, numbers) else np_.asarray(p).dtype for p in made]
        dtype = np.result_type(*kinds)
        arrays = [np_.atleast_1d(np_.asarray(p, dtype)) for p in made]
        if self._real is np.c_:
            arrays = [a[:, None] if a.ndim == 1 else a for a in arrays]
        return np_.concatenate(arrays, axis=-1 if self._real is np.c_ else 0)


class Grid:
    """`np.mgrid` and `np.ogrid`, whose arrays are the function's own."""

    def __init__(self, recorder: Recorder, name: str, real: Any) -> None:
        self._recorder = recorder
        self._name = name
        self._real = real

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        ends = [n for p in parts if isinstance(p, slice) for n in (p.start, p.stop, p.step)]
        counted = not any(p.step.imag for p in parts if isinstance(p, slice) and p.step)
        if not (counted and any(map(is_symbolic, ends))):
            return call(self._recorder, f"{self._name}.__getitem__", (key,), {})
        np_ = self._recorder.namespace
        found = [np_.arange(p.start or 0, p.stop, p.step or 1) for p in parts]
        dtype = np.result_type(*[a.dtype for a in found])
        if not isinstance(key, tuple):
            return found[0]
        rows = [a.astype(dtype) for a in found]
        if self._real is np.ogrid:
            return np_.meshgrid(*rows, indexing="ij", sparse=True)
        return np_.stack(np_.meshgrid(*rows, indexing="ij"))


class Impure:
    """What can't be compiled, since another call has another outcome; any use says so."""

    def __init__(self, recorder: Recorder, name: str, reason: str) -> None:
        self._recorder = recorder
        self._name = name
        self._reason = reason

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse_impure(self._recorder, self._name, self._reason)

    def __getattr__(self, name: str) -> Any:
        if name == "path" and self._name == "os":
            return os.path
        refuse_impure(self._recorder, f"{self._name}.{name}", self._reason)

    def __iter__(self) -> Any:
        refuse_impure(self._recorder, self._name, self._reason)

    __next__ = __len__ = __enter__ = __iter__

    def __getitem__(self, key: Any) -> Any:
        refuse_impure(self._recorder, f"{self._name}[{key!r}]", self._reason)

    __contains__ = __truediv__ = __getitem__


def impure(recorder: Recorder, x: Any, name: str) -> Impure | None:
    """What stands for clocks and sources of random numbers other than modules of NumPy."""
    owner = getattr(x, "__self__", None)
    for drawn in (x, owner):
        if isinstance(drawn, random.Random):
            return Impure(recorder, name, DRAWN)
    module = getattr(x, "__name__" if isinstance(x, types.ModuleType) else "__module__", None)
    if module in ("random", "secrets", "uuid"):
        return Impure(recorder, name, DRAWN)
    if module == "time":
        return Impure(recorder, name, _CLOCK)
    # os.environ is of a class of that module
    state = (pathlib.Path, contextvars.ContextVar)
    if module in _SYSTEM or isinstance(x, state) or type(x).__module__ == "os":
        return Impure(recorder, name, "the system is asked once, while tracing")
    if hasattr(type(x), "__next__") and not isinstance(x, io.IOBase):
        return Impure(recorder, name, "its next element is taken once, while tracing")
    return None


_CLOCK = "the clock is read once, while tracing"
_SYSTEM = frozenset({
    "os", "posix", "nt", "socket", "subprocess", "shutil", "tempfile", "glob", "pathlib", "select",
    "signal", "platform", "locale", "resource", "urllib.request", "multiprocessing", "sqlite3",
})  # fmt: skip


class Clock(PythonType):
    """The classes of `datetime`, which can't be asked for the time of now."""

    def __init__(self, recorder: Recorder, real: type) -> None:
        super().__init__(real)
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        if name in ("now", "today", "utcnow"):
            refuse_impure(self._recorder, f"{self.real.__name__}.{name}", _CLOCK)
        return getattr(self.real, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.real(*args, **kwargs)


# functions of NumPy that arrays may answer for
_DISPATCHER = type(np.sum)


def refuse_calls_back(recorder: Recorder, what: str) -> NoReturn:
    """UnsupportedError (MC0241) for what calls a function of the user's for each element."""
    recorder.refuse("MC0241", f"{what} is not traced", "write it with whole arrays, or as a loop")


def numpy_object(recorder: Recorder, x: Any, name: str) -> Any:
    """What stands for an object of a class of NumPy's that does more than hold numbers; else None.

    It is no function of NumPy's, whatever its name is: `np.vectorize` gives it that of the user's.
    """
    if isinstance(x, np.vectorize):
        what = f"`{name}`, which np.vectorize made,"
        return lambda *args, **kwargs: refuse_calls_back(recorder, what)
    if isinstance(x, np.errstate):
        what = f"`{name}` from outside of the function is an np.errstate, which"
        recorder.refuse("MC0241", f"{what} is not traced", "make it where it is used")
    return None


def numpy_path(x: Any) -> str | None:
    """The dotted name below `numpy` of a function or module of NumPy's; "" is `numpy` itself."""
    if isinstance(x, types.ModuleType):
        name = str(vars(x)["__name__"])
    elif isinstance(x, np.ufunc):
        ufunc: np.ufunc = x
        return ufunc.__name__ if getattr(np, ufunc.__name__, None) is ufunc else None
    elif isinstance(x, (types.FunctionType, types.BuiltinFunctionType, _DISPATCHER)):
        module = getattr(x, "__module__", None) or ""
        name = f"{module}.{getattr(x, '__name__', '')}"
    else:
        return None
    if name == "numpy":
        return ""
    return name.removeprefix("numpy.") if name.startswith("numpy.") else None
