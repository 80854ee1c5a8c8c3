"""When a traced function may be used again, and why not.

A call has a key: the structure of its arguments, each array's element type and shape, every other
leaf by value but numbers, which are told by their type (`given`). A trace also read values from
outside (globals, closures, defaults); `Environment` says whether they are still what they were:
numbers, texts, arrays and containers by value, functions and other objects by identity. What was
read of an object is a value of its own.
"""

from __future__ import annotations

import collections
import functools
import inspect
import itertools
import types
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from minicc.errors import UserError
from minicc.frontends.trace.builtin_names import compares_values
from minicc.frontends.trace.given import COMPARED, OPEN, Reference
from minicc.frontends.trace.loops.flow import codes_within
from minicc.frontends.trace.objects import MISSING, NAMESPACES, Members, is_stood_in
from minicc.frontends.trace.pytree import NUMBERS, Key, Within, flatten, likeness_of, mapped
from minicc.frontends.trace.pytree import leaves as all_leaves
from minicc.frontends.trace.routes import Identities, NamesRoute, OwnRoute, Route
from minicc.ir.core import attribute_key

_DEPTH = 6  # of containers and objects in each other
_FIXED = (type(None), bool, int, float, complex, str, bytes, types.FunctionType, type,
          staticmethod, classmethod, property, functools.cached_property)  # fmt: skip
_NUMBERS = (*NUMBERS, np.generic)
_PARTS = ("__code__", "__defaults__", "__kwdefaults__", "__closure__")  # of functions
_ANY = inspect.signature(lambda *args, **options: None)
_STARRED, _OTHERS = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_PLAIN = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Parameters:
    """A function's parameters: sorts the arguments of a call by name, and makes its key."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.function = f
        try:
            # what a function of NumPy does not get may have no value that could be passed
            own = isinstance(f, np.ufunc | type(np.mean))
            self.signature = _ANY if own else inspect.signature(f)
        except (TypeError, ValueError):
            name = getattr(f, "__name__", repr(f))
            text = f"the parameters of {name} are not known"
            raise UserError("MC0149", text, hint="wrap it: lambda x: f(x)") from None
        self.names = tuple(self.signature.parameters)
        self.overlaps = False  # whether it matters which arrays share memory
        # whether it matters which numbers are one object; a trace may find that, too
        code = getattr(f, "__code__", None)
        self.identifies = code is not None and any(map(compares_values, codes_within(code)))
        parameters = tuple(self.signature.parameters.values())
        self._plain = all(p.kind in _PLAIN for p in parameters)
        self._by_name = {p.name for p in parameters if p.kind is _PLAIN[1]}
        self._defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        after = {k: self.names[k:] for k in range(len(self.names) + 1) if self._plain}
        # what follows so many arguments that are given in order, where they are enough
        self._rests = {
            k: tuple([self._defaults[n] for n in names])
            for k, names in after.items()
            if self._defaults.keys() >= {*names}
        }
        kinds = [p.kind for p in parameters]
        at = kinds.index(_STARRED) if _STARRED in kinds else -1
        # how many arguments come before those that are any number, and what follows these
        self._starred = (at, tuple(p.default for p in parameters[at + 1 :]))
        if at < 0 or inspect.Parameter.empty in self._starred[1] or kinds[-1] is _OTHERS:
            self._starred = (-1, ())

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments in the order of the parameters, defaults filled in.

        UserError (MC0148) where they do not fit the function.
        """
        # sorted as `inspect` does, which takes longer
        if not kwargs and (rest := self._rests.get(len(args))) is not None:
            return args + rest
        before, after = self._starred
        if not kwargs and 0 <= before <= len(args):
            return (*args[:before], args[before:], *after)
        missing = self.names[len(args) :]
        given = {**self._defaults, **kwargs}
        known = self._plain and len(args) <= len(self.names) and given.keys() >= {*missing}
        if known and kwargs.keys() <= self._by_name.intersection(missing):
            return (*args, *[given[n] for n in missing])
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            name = getattr(self.function, "__name__", repr(self.function))
            raise UserError("MC0148", f"{name}{self.signature}: {error}") from None
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def call(self, f: Callable[..., Any], values: Sequence[Any]) -> Any:
        """What a function of these parameters gives for arguments that `bind` has sorted."""
        bound = inspect.BoundArguments(
            self.signature,
            dict(zip(self.names, values, strict=True)),
        )
        return f(*bound.args, **bound.kwargs)

    def key(self, values: Sequence[Any]) -> tuple[Key, list[Any], list[Any]]:
        """The key of a call, its arrays in order, its numbers; Within where some are traced."""
        leaves: list[Any] = []
        numbers: list[Any] = []
        try:
            # `map`, for this is asked at each call
            same = itertools.repeat(leaves), itertools.repeat(numbers)
            parts = list(map(flatten, values, *same, self.names))
        except UserError:
            for value in values:
                mapped(_require_outside, value)
            raise
        if len(leaves) > 1 and len(set(map(id, leaves))) < len(leaves):
            first: dict[int, int] = {}
            parts.append(("same", *[first.setdefault(id(a), k) for k, a in enumerate(leaves)]))
        if self.identifies:
            ids = [id(v) for v in all_leaves([*values]) if isinstance(v, _NUMBERS)]
            if len(set(ids)) < len(ids):
                parts.append(("one", *map(ids.index, ids)))
        if self.overlaps:
            pairs = itertools.combinations(range(len(leaves)), 2)
            shared = [p for p in pairs if np.may_share_memory(leaves[p[0]], leaves[p[1]])]
            if shared:
                parts.append(("overlap", *shared))
        return tuple(parts), leaves, numbers

    def describe(self, key: Key) -> list[str]:
        """What a key asks of each argument."""
        named = zip(self.names, key, strict=False)
        return [f"argument {n} is {_text(part)}" for n, part in named if part[0] != "number"]

    def paths(self, values: Sequence[Any]) -> list[str]:
        """What the numbers of a call are called."""
        found: list[str] = []

        def note(leaf: Any, path: str) -> None:
            if type(leaf) in NUMBERS:
                found.append(path)

        for name, value in zip(self.names, values, strict=True):
            mapped(note, value, name)
        return found

    def explain(self, before: Key, now: Key) -> str:
        """Why the key of a call is not that of another, a clause for each difference."""
        found: list[str] = []
        for name, old, new in zip(self.names, before, now, strict=False):
            _differences(name, old, new, found)
        return "; ".join(found) or "other arguments are one array"


def _require_outside(leaf: Any, path: str) -> None:
    if getattr(type(leaf), "is_traced", False):
        raise Within


def _differences(path: str, old: Key, new: Key, found: list[str]) -> None:
    if old == new:
        return
    if old[0] is new[0] and isinstance(old[0], type) and len(old) == len(new):
        for k, (a, b) in enumerate(zip(old[1:], new[1:], strict=True)):
            if old[0] is not dict:
                _differences(f"{path}[{k}]", a, b, found)
            elif a[:2] == b[:2]:
                _differences(f"{path}[{a[1]!r}]", a[2], b[2], found)
            else:
                found.append(f"argument {path}: key {a[1]!r} before, key {b[1]!r} now")
        return
    found.append(f"argument {path}: {_text(old)} before, {_text(new)} now")


def _text(key: Key) -> str:
    if key[0] in ("array", "scalar"):
        lies = " of other strides" if len(key) > 3 else ""
        return f"{key[1]}[{','.join(map(str, key[2]))}]{lies}"
    if key[0] == "number":
        return f"a Python {key[1].__name__}"
    if key[0] == "value":
        value = key[2]
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], type):
            return repr(value[1])
        return repr(value)
    if key[0] == "object":
        return f"another {type(key[1].value).__name__}"
    if key[0] == "instance":
        name = key[2].co_name if key[1] is types.FunctionType else ""
        return f"the function {name}" if name else f"a {key[-1].__name__}"
    return f"a {key[0].__name__} of {len(key) - 1}"


class _Bits:
    """The elements of an array; `kept` ones are a copy."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray[Any, Any], kept: bool) -> None:
        self.array = array.copy(order="K") if kept else array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Bits):
            return False
        mine, theirs = (np.ascontiguousarray(b.array).reshape(-1) for b in (self, other))
        if mine.dtype.hasobject:
            return bool(mine.tolist() == theirs.tolist())
        whole = np.uint64 if mine.nbytes % 8 == 0 else np.uint8
        return bool((mine.view(whole) == theirs.view(whole)).all())

    __hash__ = None  # type: ignore[assignment]


def fingerprint(value: Any, kept: bool = False, depth: int = _DEPTH) -> Any:
    """Equal while a value from outside is what it was.

    Numbers, texts, arrays, containers and objects of libraries are compared by content, other
    things by identity. One that is to be `kept` holds copies of large arrays.
    """
    if isinstance(value, (bool, int, float, complex)):
        return type(value), attribute_key(value)
    if isinstance(value, np.ndarray):
        small = value.nbytes <= COMPARED and not value.dtype.hasobject
        content = value.tobytes() if small else _Bits(value, kept)
        return id(value), value.dtype, value.shape, content
    if isinstance(value, np.generic):
        return value.dtype, value.tobytes()
    if isinstance(value, (str, bytes)):
        return type(value), value
    if depth == 0 or isinstance(value, (*_FIXED, types.ModuleType)):
        return id(value)
    if isinstance(value, (tuple, list, collections.deque)):
        return (type(value), *[fingerprint(v, kept, depth - 1) for v in value])
    if isinstance(value, (set, frozenset)):
        return type(value), frozenset((type(v), v) for v in value)
    if isinstance(value, dict):
        items = [(type(k), k, fingerprint(v, kept, depth - 1)) for k, v in value.items()]
        return (type(value), *items)
    state = getattr(value, "__dict__", None)
    if not isinstance(state, dict) or callable(value) or is_stood_in(value):
        return id(value)
    return id(value), fingerprint(state, kept, depth - 1)


def _print_of(reference: Reference, value: Any, kept: bool = False) -> Any:
    """What a value has to equal that a reference gives."""
    if reference.unseen:
        return likeness_of(value) or type(value)
    return fingerprint(_without(value, reference.left_out), kept)


def _without(value: Any, left_out: Collection[tuple[Any, ...]]) -> Any:
    """A container without the elements to which some keys lead, as far as it has them."""
    if not left_out:
        return value
    if () in left_out:
        return None
    if type(value) not in OPEN:  # it is something else now
        return value
    copy = dict(value) if type(value) is dict else dict(enumerate(value))
    for key in {steps[0] for steps in left_out} & copy.keys():
        copy[key] = _without(copy[key], [steps[1:] for steps in left_out if steps[0] == key])
    return copy if type(value) is dict else type(value)(copy.values())


def _is_fixed(value: Any) -> bool:
    """Whether a value is what it was while it is the same object."""
    return isinstance(value, _FIXED) or (type(value) is tuple and all(map(_is_fixed, value)))


class Environment:
    """The values from outside that a trace read.

    It has to be made before the call is at its end, which may change them.
    """

    __slots__ = ("_absent", "_compared", "_held", "_identities", "_reached", "_references")

    def __init__(
        self,
        references: Sequence[Reference],
        identities: Identities | None = None,
    ) -> None:
        self._identities = [identities] if identities is not None and identities.any else []
        # with their prints, and whether to be the same is enough
        self._references: list[tuple[Reference, Any, bool]] = [
            (r, was, _is_fixed(r.value) or was == id(r.value))
            for r in references
            for was in (_print_of(r, r.value, kept=True),)
        ]
        for r in references:
            r.keep()
        self._sort()

    def joined(self, later: Environment) -> Environment:
        """What two traces read."""
        made = Environment(())
        made._references = self._references + later._references
        made._identities = self._identities + later._identities
        made._sort()
        return made

    def _sort(self) -> None:
        """Know what is asked in which way."""
        named = [c for c in self._references if isinstance(c[0].home, NAMESPACES) and c[2]]
        # names that must not be there are looked for all at once, wherever they were looked for
        absent: dict[int, tuple[Any, set[str]]] = {}
        for r in (r for r, _, _ in named if r.value is MISSING):
            absent.setdefault(id(r.home), (r.home.keys(), set()))[1].add(r.name)
        self._absent = [(keys, frozenset(names)) for keys, names in absent.values()]
        # what is the same object, as most are, is found so without a reference
        self._held = [(r.home.get, r.name, r.value, r, was) for r, was, _ in named
                      if r.value is not MISSING]  # fmt: skip
        # what is an attribute of an object to which a call leads, which is found once for all
        reached: dict[Any, tuple[Any, set[str], list[Any]]] = {}
        attributes = [c for c in self._references if type(c[0].home) in (Route, OwnRoute)]
        for c in attributes:
            at = c[0].home.at
            found = reached.setdefault(at.place, (at, set(), []))
            if type(c[0].home) is OwnRoute and c[0].value is MISSING:
                found[1].add(c[0].name)
            else:
                found[2].append((c[0].name, c[0].value, *c))
        self._reached = [*reached.values()]
        apart = set(map(id, [*named, *attributes]))
        self._compared = [c for c in self._references if id(c) not in apart]

    def plain(self) -> list[tuple[Any, str, Any]] | None:
        """What must hold, if nothing does but what names stand for, and how many there are.

        Those are a dict, or an object of Python's own, a name and the value there, in a tuple that
        is empty where there must be none; or a dict, no name and a number. None for more.
        """
        if self._reached or self._identities:
            return None
        found: list[tuple[Any, str, Any]] = []
        for r, was, fixed in self._references:
            now = r.now()  # an equal object, where it is not the same
            value = () if now is MISSING else (now,)
            if r.name == "__kwdefaults__" and type(now) is dict:
                fixed = all(map(_is_fixed, now.values()))
                found += [(now, "", len(now)), *[(now, k, (v,)) for k, v in now.items()]]
            if not fixed or _print_of(r, now) != was:
                return None
            if isinstance(r.home, Members) and type(r.home.held) is dict:
                found.append((r.home.held, "", r.home.count))
            elif type(r.home) is dict:
                found.append((r.home, r.name, value))
            elif type(r.home) is types.CellType and value:
                found.append((r.home, "cell_contents", value))
            elif type(r.home) is types.FunctionType and r.name in _PARTS and value:
                found.append((r.home, r.name, value))
            else:
                return None
        return found

    def holds(self, values: Sequence[Any] = ()) -> bool:
        """Whether all are what they were, for all arguments of a call."""
        if not self._references:  # as for most functions
            return True
        # plain loops, for this is asked at each call
        for keys, names in self._absent:
            if not keys.isdisjoint(names):
                return False
        for get, name, value, reference, was in self._held:
            if get(name, MISSING) is not value and _print_of(reference, reference.now()) != was:
                return False
        for at, absent, attributes in self._reached:
            x = at.now(values)
            if absent and not absent.isdisjoint(getattr(x, "__dict__", ())):
                return False
            for name, value, reference, was, fixed in attributes:
                now = getattr(x, name, MISSING)
                if not (fixed and now is value) and _print_of(reference, now) != was:
                    return False
        for known in self._identities:
            if not known.hold(values):
                return False
        for reference, was, fixed in self._compared:
            now = reference.now(values)
            if not (fixed and now is reference.value) and _print_of(reference, now) != was:
                return False
        return True

    def lasts(self) -> bool:
        """Whether all are what they were but for what a call leads to, which may be as it was."""
        others = ((r, was) for r, was, _ in self._references if not r.is_reached)
        return all(_print_of(r, r.now()) == was for r, was in others)

    def changed(self, values: Sequence[Any] = ()) -> list[Reference]:
        """Those that are not what they were, for all arguments of a call."""
        return [r for r, was, _ in self._references if _print_of(r, r.now(values)) != was]

    def explain(self, values: Sequence[Any] = ()) -> str:
        """Which are not what they were; empty where all are."""
        return "; ".join(_sentence(r, r.now(values)) for r in self.changed(values))

    def describe(self) -> list[str]:
        """What each value from outside must be."""
        told = (r for r, _, _ in self._references if not isinstance(r.home, Members | NamesRoute))
        plain = ("default", None)  # what most functions have
        return list(dict.fromkeys(_expected(r) for r in told if (r.kind, r.value) != plain))


def _sentence(reference: Reference, now: Any) -> str:
    what = f"{reference.kind} {reference.path}"
    if reference.value is MISSING:
        return f"{what}: was not there"
    if now is MISSING:
        return f"{what}: is gone"
    if isinstance(now, (bool, int, float, str, type(None))):
        return f"{what}: {reference.value!r} before, {now!r} now"
    return f"{what}: another {type(now).__name__} than before, or other content"


def _expected(reference: Reference) -> str:
    value = reference.value
    what = f"{reference.kind} {reference.path}"
    if value is MISSING:
        return f"{what} is not there"
    if reference.unseen:
        return f"{what} is a {type(value).__name__}"
    if isinstance(value, (bool, int, float, str, type(None))):
        return f"{what} is {value!r}"
    if isinstance(value, np.ndarray):
        shape = ",".join(map(str, value.shape))
        return f"{what} is {value.dtype}[{shape}], its content as it was"
    return f"{what} is the same {type(value).__name__}"
