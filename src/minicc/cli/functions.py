"""The stages of a Python function: `minicc compile FILE.py:FUNCTION --input x=f32[8,64]=1`."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from minicc.errors import MiniccError, Problems, UserError
from minicc.inputs import check_names
from minicc.ir.arrays import Array
from minicc.ir.core import Module
from minicc.jitted import jit
from minicc.kernels import Kernel
from minicc.options import Options
from minicc.units import Units, units_of


def is_function(path: str) -> bool:
    """Whether a model is named as a function of a Python file."""
    file, _, name = path.rpartition(":")
    return file.endswith(".py") and name.isidentifier()


def units_of_function(
    path: str,
    given: Mapping[str, Array],
    shapes: Mapping[str, tuple[int, ...]],
    options: Options,
) -> Units:
    """The graphs that a function is traced to for arrays, each as its units.

    Of parameters with a shape alone, the arrays are random and of f32. UserError MC0169 where the
    file or the function raises something, and where an argument is missing.
    """
    file, _, name = path.rpartition(":")
    function = _loaded(file, name)
    parameters = inspect.signature(function).parameters
    if isinstance(function, Kernel):  # of its outputs nothing is given
        taken, named = inspect.signature(function.function).parameters, {*given, *shapes}
        known = {n: p for n, p in taken.items() if n in named or not named <= taken.keys()}
        parameters = MappingProxyType(known)
    arguments = _arguments(parameters, given, shapes)
    try:
        if isinstance(function, Kernel):
            modules: Sequence[Module] = [function.module(*[arguments[n] for n in parameters])]
        else:
            modules = jit(function, options=options).lower(**arguments).modules
    except MiniccError:
        raise
    except Exception as error:
        raise _raised(f"{name} raised", error) from error
    units = [unit for module in modules for unit in units_of(module, options, {}).known]
    return Units(tuple(unit._replace(number=k) for k, unit in enumerate(units, 1)))


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
    given: Mapping[str, Array],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, Array]:
    problems = Problems()
    check_names([(name, None) for name in parameters], [*given, *shapes], problems)
    arguments = {n: given[n] for n in parameters if n in given}
    for k, (name, parameter) in enumerate(parameters.items()):
        if name in given:
            continue
        if name in shapes:
            arguments[name] = np.random.default_rng(k).random(shapes[name], np.float32)
        elif parameter.default is inspect.Parameter.empty:
            hint = f"--shape {name}=8x64, or --input {name}=@file.npy"
            problems.add(UserError("MC0169", f"the argument {name} is not given", hint=hint))
    problems.check()
    return arguments
