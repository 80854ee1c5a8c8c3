"""Python functions on the command line: `FILE.py:FUNCTION --input x=f32[8,64]=1 --input n=3`."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from minicc.api.inputs import check_names
from minicc.api.jitted import Jitted, jit
from minicc.api.kernels import Kernel
from minicc.cli.inputs import RANDOM, parse_inputs
from minicc.compile.units import Units, units_of
from minicc.errors import MiniccError, Problems, UserError
from minicc.ir.arrays import Array
from minicc.ir.core import Module
from minicc.options import Options

ENGINES = ("numpy", "numba", "jax")
"""What runs a function beside minicc."""


class Called(NamedTuple):
    """A function of a file, with arguments by name, in the order of its parameters."""

    name: str
    function: Callable[..., Any] | Kernel
    arguments: Mapping[str, Any]

    def copies(self) -> dict[str, Any]:
        """The arguments, with arrays of their own, which the function may write to."""
        return {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in self.arguments.items()}

    def jitted(self, options: Options) -> Jitted:
        """The function as `minicc.jit` makes it; UserError MC0169 for a kernel by hand."""
        if isinstance(self.function, Kernel):
            hint = "name a function that calls it"
            raise UserError(
                "MC0169", f"{self.name} is a kernel by hand, which is not run", hint=hint
            )
        compiled: Jitted = jit(self.function, options=options)
        return compiled

    def modules(self, options: Options) -> Sequence[Module]:
        """The graphs that the function is traced to."""
        if isinstance(self.function, Kernel):
            return [self.function.module(*self.arguments.values())]
        with telling(self.name):
            modules: Sequence[Module] = self.jitted(options).lower(**self.arguments).modules
            return modules


@contextmanager
def telling(name: str) -> Iterator[None]:
    """Within it, what a user's function raises is UserError MC0169.

    What it prints goes to standard error: standard output is the command's.
    """
    with redirect_stdout(sys.stderr):
        try:
            yield
        except MiniccError:
            raise
        except Exception as error:
            raise _raised(f"{name} raised", error) from error


def called(path: str, inputs: Sequence[str], shapes: Mapping[str, tuple[int, ...]]) -> Called:
    """A function with arguments as texts say: arrays as `minicc run` has them, or Python's values.

    Of parameters with a shape alone, the arrays are random and of f32. UserError MC0169 where the
    file raises something, and where an argument is missing.
    """
    file, _, name = path.rpartition(":")
    function = _loaded(file, name)
    given = _values(inputs)
    parameters = inspect.signature(function).parameters
    if isinstance(function, Kernel):  # of its outputs nothing is given
        taken, named = inspect.signature(function.function).parameters, {*given, *shapes}
        known = {n: p for n, p in taken.items() if n in named or not named <= taken.keys()}
        parameters = MappingProxyType(known)
    return Called(name, function, _arguments(parameters, given, shapes))


def units_of_function(function: Called, options: Options) -> Units:
    """The graphs that a function is traced to for its arguments, each as its units."""
    modules = function.modules(options)
    units = [unit for module in modules for unit in units_of(module, options, {}).known]
    return Units(tuple(unit._replace(number=k) for k, unit in enumerate(units, 1)))


def one_graph(function: Called, options: Options) -> tuple[Module, list[Array]]:
    """The only graph of a function, and what it takes; UserError MC0169 where there is no such."""
    modules = function.modules(options)
    names = [a.hint for a in modules[0].main.args]
    given = [function.arguments[n] for n in names if n in function.arguments]
    if len(modules) > 1 or len(given) < len(names):
        text = "this is for functions of one graph, whose arrays are arguments"
        raise UserError("MC0169", text, hint="minicc explain tells of the graphs")
    return modules[0], [np.require(a, requirements="C") for a in given]


def installed(package: str) -> Any:
    """The module of another package; UserError MC0157 where that is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError:
        hint = f"pip install {package}"
        raise UserError("MC0157", f"{package} is not installed here", hint=hint) from None


def as_run_by(engine: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as NumPy, numba or JAX runs it; UserError MC0157 where that is not installed.

    JAX's is the same code with `jax.numpy` where it says `numpy`, until its result is there.
    """
    if engine == "numpy":
        return function
    module = installed(engine)
    if engine == "numba":
        compiled: Callable[..., Any] = module.njit(function)
        return compiled
    numpy = importlib.import_module("jax.numpy")
    assert isinstance(function, types.FunctionType)
    names = {n: numpy if v is np else v for n, v in function.__globals__.items()}
    code, defaults, closure = function.__code__, function.__defaults__, function.__closure__
    traced = module.jit(types.FunctionType(code, names, function.__name__, defaults, closure))
    return lambda **arguments: module.block_until_ready(traced(**arguments))


def named_arrays(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """The arrays and numbers of a result, by what Python would call them."""
    if isinstance(value, (tuple, list)):
        for k, part in enumerate(value):
            yield from named_arrays(f"{name}[{k}]", part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from named_arrays(f"{name}[{key!r}]", part)
    elif value is not None:
        yield name, np.asarray(value)


def written(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
    """The arrays among arguments whose elements have changed."""
    for name, old in before.items():
        if isinstance(old, np.ndarray) and old.tobytes() != after[name].tobytes():
            yield name, after[name]


def _values(texts: Sequence[str]) -> dict[str, Any]:
    """Arguments by name, none for `x=random`; what Python reads as a value is one."""
    arrays: list[str] = []
    values: dict[str, Any] = {}
    for text in texts:
        name, _, spelled = text.partition("=")
        try:
            values[name] = ast.literal_eval(spelled)
        except (ValueError, SyntaxError):
            if spelled == RANDOM:
                hint = f"--shape {name}=8x64 makes it random"
                text = f"the shape of the argument {name} is not known"
                raise UserError("MC0155", text, hint=hint) from None
            arrays.append(text)
    return values | parse_inputs(arrays)


def _raised(what: str, error: Exception) -> UserError:
    return UserError("MC0169", f"{what} {type(error).__name__}: {error}")


def _loaded(file: str, name: str) -> Callable[..., Any]:
    """A function of a file, which is run as a module that Python imports."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    stem = os.path.splitext(os.path.basename(file))[0]
    spec = importlib.util.spec_from_file_location(stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[stem] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _raised(f"{file} can't be loaded:", error) from error
    found = getattr(module, name, None)
    if not callable(found):
        names = [
            n
            for n, v in vars(module).items()
            if callable(v) and hasattr(inspect.unwrap(v), "__code__")
        ]
        hint = f"functions: {', '.join(names) or 'none'}"
        raise UserError("MC0169", f"{file} has no function {name}", hint=hint)
    wrapped: Callable[..., Any] = inspect.unwrap(found)  # what `minicc.jit` was put around
    return wrapped


def _arguments(
    parameters: Mapping[str, inspect.Parameter],
    given: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, Any]:
    problems = Problems()
    check_names([(name, None) for name in parameters], [*given, *shapes], problems)
    arguments = {n: given[n] for n in parameters if n in given}
    for k, (name, parameter) in enumerate(parameters.items()):
        if name in given:
            continue
        if name in shapes:
            arguments[name] = np.random.default_rng(k).random(shapes[name], np.float32)
        elif parameter.default is inspect.Parameter.empty:
            hint = f"--shape {name}=8x64, or --input {name}=@file.npy, or --input {name}=3"
            problems.add(UserError("MC0169", f"the argument {name} is not given", hint=hint))
    problems.check()
    return {n: arguments[n] for n in parameters if n in arguments}
