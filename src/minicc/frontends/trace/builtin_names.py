"""What stands for Python's builtins in traced code."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

from minicc.frontends.trace.effects import printed
from minicc.frontends.trace.extremes import extreme
from minicc.frontends.trace.kinds import InstanceOf, SubclassOf, TypeOf, power
from minicc.frontends.trace.loops.comprehensions import DRAWN, LISTED, Drawing, Listing
from minicc.frontends.trace.loops.flow import codes_within, instructions
from minicc.frontends.trace.loops.fors import REPLACED, Iterable
from minicc.frontends.trace.loops.grown import ListType, length, ordered
from minicc.frontends.trace.namespace import Impure
from minicc.frontends.trace.python_types import BOOL, FLOAT, INT
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.sums import Sum

_FILES = frozenset({"open", "input"})
_LOOKS = frozenset({"globals", "vars", "exec", "eval"})


@lru_cache(1 << 12)
def compared_in(code: types.CodeType) -> frozenset[str]:
    """What stands last in comparisons by identity, but those with None, and classes of patterns."""
    steps = instructions(code)
    found = [a for a, b in pairwise(steps) if b.opname == "IS_OP" and a.argrepr != "None"]
    # names of what is matched stand before the class's own
    found += [a for a, b in zip(steps, steps[2:], strict=False) if b.opname == "MATCH_CLASS"]
    return frozenset(str(s.argval) for s in found)


@lru_cache(1 << 12)
def compares_values(code: types.CodeType) -> bool:
    """Whether code compares by identity what its own names stand for, or what is read of these."""
    pairs = pairwise(instructions(code))
    lasts = [a for a, b in pairs if b.opname == "IS_OP" and a.argval != "__class__"]
    own = ("LOAD_FAST", "LOAD_DEREF", "LOAD_ATTR", "BINARY_SUBSCR")
    return any(step.opname.startswith(own) for step in lasts)


def traced_builtins(
    recorder: Recorder, original: dict[str, Any], stand_in: Callable[[Any, str], Any]
) -> dict[str, Any]:
    """The builtins of code with some globals; `stand_in` gives what stands for a class."""
    own = dict(vars(builtins))
    reason = "files are read and written while tracing alone"
    own |= {name: Impure(recorder, f"{name}()", reason) for name in _FILES}
    reason = "it sees all names that there are"
    own |= {name: Impure(recorder, f"{name}()", reason) for name in _LOOKS}
    own |= _replaced(recorder, original, stand_in)
    own["print"] = partial(printed, recorder)
    own[LISTED], own[DRAWN] = Listing(recorder), Drawing(recorder)
    return own


def _replaced(
    recorder: Recorder, original: dict[str, Any], stand_in: Callable[[Any, str], Any]
) -> dict[str, Any]:
    """What stands for builtins, but for those that some code is compared with by identity.

    As in `type(x) is float`.
    """
    functions = (f for f in original.values() if isinstance(f, types.FunctionType))
    own = (f.__code__ for f in functions if f.__globals__ is original)
    compared = {name for code in own for part in codes_within(code) for name in compared_in(part)}
    found: dict[str, Any] = {"float": FLOAT, "int": INT, "bool": BOOL}
    found["list"] = ListType(list)
    numbers = {x.real: x for name, x in found.items() if name not in compared}
    found["pow"] = power
    found["type"] = TypeOf(recorder, lambda cls: stand_in(cls, cls.__name__), numbers)
    found["issubclass"], found["isinstance"] = SubclassOf(), InstanceOf()
    found |= {f.__name__: partial(extreme, recorder, f) for f in (max, min)}
    found["sum"] = Sum(recorder)
    found["len"], found["sorted"] = length, ordered
    found |= {name: Iterable(recorder, real) for name, real in REPLACED.items()}
    return {name: value for name, value in found.items() if name not in compared}
