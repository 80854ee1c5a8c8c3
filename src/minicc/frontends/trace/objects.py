"""What stands for the user's own objects and classes while a function is traced.

An object from outside is replaced by a stand-in whose every attribute, method and property is read
through the rewriter: what is read is guarded, arrays become traced ones, and methods run with the
traced NumPy. Attributes that are set are the stand-in's until a call ends (`side_effects`). A class
is replaced by one of the same members over the stand-ins of its bases, so that `super()` and
instances made while tracing work. Setting an attribute of a class is refused at the user's line.
"""

from __future__ import annotations

import abc
import enum
import functools
import os
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol

from minicc.frontends.trace.recorder import Recorder
from minicc.later import classes_of

MISSING: Any = object()
_BAGS = (types.SimpleNamespace, threading.local)
_OWN = __name__.partition(".")[0]
_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in {sysconfig.get_path(k) for k in ("stdlib", "platstdlib", "purelib", "platlib")}
)
# what may change unseen, and so is NumPy's alone
_CHANGING = (bytearray, memoryview, types.MappingProxyType)
_QUEUES = ("array", "queue", "_queue", "multiprocessing.queues", "asyncio.queues")
_LEFT_OUT = {"__dict__", "__weakref__", "__slots__", "__module__", "__doc__", "__init_subclass__",
             "__set_name__", "__firstlineno__", "__static_attributes__"}  # fmt: skip


class Reader(Protocol):
    """What `rewire` offers: reads of values, which are noted and replaced."""

    recorder: Recorder
    classes: dict[type, Any]

    def value(self, x: Any, name: str) -> Any:
        """What stands for a value."""

    def read(self, kind: str, home: Any, name: str, value: Any) -> Any:
        """The same, noted."""

    def met(self, x: Any, route: Any) -> None:
        """Note a way that leads to an object, if it is not the object itself alone."""

    def homes(self, x: Any, route: Any) -> Homes:
        """Where attributes of an object are read."""

    def look(self, home: Any, name: str, real: Any, seen: Any) -> None:
        """Note that an attribute is read again."""


def is_library(path: str) -> bool:
    """Whether a source file belongs to Python or to an installed package."""
    return path.startswith(_LIBRARIES) or path.startswith("<frozen")


def _is_bag(x: Any) -> bool:
    """Whether an object is nothing but its attributes."""
    return type(x) in (*_BAGS, *classes_of("argparse", "Namespace"))


def is_stood_in(x: Any) -> bool:
    """Whether an object's attributes are guarded one by one as they are read."""
    return _is_bag(x) or is_users(type(x))


def is_generator(x: Any) -> bool:
    """Whether a value is one of NumPy's generators of random numbers, or an old one."""
    kind = type(x)  # whose module need not be imported to ask
    return (kind.__module__, kind.__name__) in _GENERATORS


_GENERATORS = (("numpy.random._generator", "Generator"), ("numpy.random.mtrand", "RandomState"))
_KNOWN: dict[Any, bool] = {}  # by class


def is_users(cls: type) -> bool:
    """Whether a class is the user's own, and one whose instances are plain objects."""
    known = _KNOWN.get(cls)
    if known is None:
        known = _KNOWN[cls] = _is_users(cls)
    return known


def _is_of_user(cls: type) -> bool:
    """Whether a class stands in a module of the user's."""
    name = cls.__module__
    if name.partition(".")[0] in (_OWN, "numpy", "builtins"):
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return name == "__main__" or (file is not None and not is_library(os.path.abspath(file)))


def _is_users(cls: type) -> bool:
    if not _is_of_user(cls):
        return False
    plain = type(cls) in (type, abc.ABCMeta) and cls.__basicsize__ <= _plain_size(cls)
    return plain and not issubclass(cls, (BaseException, enum.Enum))


def _plain_size(cls: type) -> int:
    slots = sum(isinstance(v, types.MemberDescriptorType) for c in cls.__mro__ for v in
                vars(c).values())  # fmt: skip
    return object.__basicsize__ + 8 * (slots + 2)


class Homes(NamedTuple):
    """Where a trace reads what an object has: any attribute, one of its own, all names of these."""

    whole: Any
    own: Any
    names: Any


def stand_in(reader: Reader, x: Any, name: str, route: Any = None) -> Any:
    """What stands for an object or class of the user's; the thing itself for others.

    Calls lead to the object by a route, if it is not the same at each.
    """
    cls = x if isinstance(x, type) else type(x)
    if _is_of_user(type(cls)):  # a metaclass may do anything
        what = f"the class `{cls.__name__}` has a metaclass of its own"
        reader.recorder.refuse("MC0245", what, "pass what the function needs of it")
    if cls in _CHANGING or cls.__module__ in _QUEUES:
        what = f"`{name}` from outside of the function is a {cls.__name__}"
        reader.recorder.refuse("MC0245", what, "pass its elements as an array")
    if isinstance(x, type):
        return class_of(reader, x) if is_users(x) else x
    if _is_bag(x):
        return _Outside.of(reader, x, name, (), route)
    if is_users(type(x)):
        return _Outside.of(reader, x, name, (class_of(reader, type(x)),), route)
    return x


def original_class(x: Any) -> type | None:
    """The user's class of what stands for an object of it, or was made by what stands for it."""
    cls = type(x)
    if issubclass(cls, _Outside):
        return type(object.__getattribute__(x, "_real"))
    original: type | None = vars(cls).get("_original")
    return original


def home_of(x: Any) -> Any:
    """Where the attributes of such an object are read: a route, or it itself; None for all else."""
    return object.__getattribute__(x, "_homes").whole if issubclass(type(x), _Outside) else None


def real_of(x: Any) -> Any:
    """The object from outside that a stand-in is for; None for all else."""
    return object.__getattribute__(x, "_real") if issubclass(type(x), _Outside) else None


@functools.cache
def bare_base(cls: type) -> Any:
    """What makes the objects of a class, if they hold nothing but attributes; else None."""
    heap = 1 << 9  # `Py_TPFLAGS_HEAPTYPE`
    base = next(b for b in cls.__mro__ if not b.__flags__ & heap)
    return base if base in (object, types.SimpleNamespace) else None


def class_of_bare(x: Any) -> type | None:
    """The class of an object that the function has made and that is nothing but attributes."""
    cls = types.SimpleNamespace if type(x) is types.SimpleNamespace else original_class(x)
    return cls if cls is not None and bare_base(cls) is not None else None


def attributes(x: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The attributes of what `original_class` has a class for, and as they were read if so."""
    if not issubclass(type(x), _Outside):
        return vars(x), {}
    return object.__getattribute__(x, "_seen"), object.__getattribute__(x, "_read")


def stood_for(x: Any) -> Any:
    """The class that a class stands for; all else is itself."""
    return vars(x).get("_original", x) if isinstance(x, _Meta) else x


def originals(cls: type) -> tuple[type, ...]:
    """The class of the user's that a class stands for, or is made of while tracing, if any."""
    found = (vars(base).get("_original") for base in cls.__mro__ if isinstance(base, _Meta))
    return tuple(filter(None, found))[:1]


class _Meta(abc.ABCMeta):
    """Of classes that stand for the user's: they are not written to."""

    def __setattr__(cls, name: str, value: Any) -> None:
        if name.startswith(("_abc_", "__abstractmethods__")) or "_reader" not in vars(cls):
            super().__setattr__(name, value)
            return
        refuse_set(vars(cls)["_reader"], f"{cls.__name__}.{name}")

    def __instancecheck__(cls, x: Any) -> bool:
        return super().__instancecheck__(x) or isinstance(x, vars(cls).get("_original", ()))

    def __subclasscheck__(cls, of: type) -> bool:
        return super().__subclasscheck__(of) or issubclass(of, vars(cls).get("_original", ()))


def refuse_set(reader: Reader, what: str) -> NoReturn:
    """UnsupportedError (MC0244): an attribute is set that is to stay as it is."""
    reader.recorder.refuse(
        "MC0244", f"`{what}` from outside of the function is set", "return what is to be kept"
    )


def class_of(reader: Reader, cls: type) -> Any:
    """What stands for a class of the user's."""
    known = reader.classes.get(cls)
    if known is not None:
        return known
    bases = tuple(class_of(reader, b) if is_users(b) else b for b in cls.__bases__)
    told = {"__module__": cls.__module__, "__doc__": cls.__doc__, "_original": cls}
    made = _Meta(cls.__name__, bases, told)
    reader.classes[cls] = made
    home = vars(cls)
    for name, member in home.items():
        if name not in _LEFT_OUT and not isinstance(member, types.MemberDescriptorType):
            setattr(made, name, _member(reader, home, name, member))
    made.__qualname__ = cls.__qualname__
    # what it has of its own later hides what it inherits
    reader.read("class", Members(vars(cls)), cls.__name__, Members.BEFORE)
    made._reader = reader
    return made


def _member(reader: Reader, home: Any, name: str, member: Any) -> Any:
    if isinstance(member, (staticmethod, classmethod, property, functools.cached_property)):
        reader.read("attribute", home, name, member)  # which may be replaced
    if isinstance(member, (staticmethod, classmethod)):
        return type(member)(reader.value(member.__func__, name))
    if isinstance(member, property):
        return property(*[
            None if f is None else reader.value(f, name)
            for f in (member.fget, member.fset, member.fdel)
        ])  # fmt: skip
    if isinstance(member, functools.cached_property):
        return property(reader.value(member.func, name))
    if name.startswith("__") and not isinstance(member, types.FunctionType):
        return member
    return reader.read("attribute", home, name, member)


class Members:
    """Whether there are as many attributes as there were; those there were are read one by one."""

    BEFORE = "as it was"

    def __init__(self, held: Mapping[str, Any]) -> None:
        self.held = held
        self.count = len(held)

    def get(self, name: str, default: Any = None) -> str:
        """The answer, by whatever name."""
        return self.BEFORE if len(self.held) == self.count else "with other attributes"


NAMESPACES = (dict, types.MappingProxyType, Members)  # what gives values by name


class Names:
    """The names of an object's attributes, of which there may be more later."""

    def __init__(self, held: dict[str, Any]) -> None:
        self._held = held

    @property
    def names(self) -> tuple[str, ...]:
        """Those there are now."""
        return tuple(self._held)


class _Outside:
    """An object of the user's that the function did not make."""

    _reader: Reader
    _real: Any
    _read: dict[str, Any]  # attributes as they were read
    _seen: dict[str, Any]  # and as they are now
    _named: str
    _homes: Homes

    @staticmethod
    def of(reader: Reader, x: Any, name: str, bases: tuple[Any, ...], route: Any) -> Any:
        """The one of an object."""
        reader.met(x, route)
        known = reader.classes.get((type(x), id(x)))  # type: ignore[call-overload]
        if known is not None:
            return known
        own = type(x)
        told = {"__module__": own.__module__, "__doc__": own.__doc__, "_original": own}
        cls = _Kind(own.__name__, (_Outside, *bases), {**told, "stands_in": True})
        made: Any = object.__new__(cls)  # type: ignore[arg-type]
        read: dict[str, Any] = {}
        now: dict[str, Any] = {}
        homes = reader.homes(x, route)
        for key, value in (("_reader", reader), ("_real", x), ("_read", read), ("_seen", now),
                           ("_named", name), ("_homes", homes)):  # fmt: skip
            object.__setattr__(made, key, value)
        reader.recorder.effects.watch_object(x, homes.whole, read, now)
        reader.classes[(type(x), id(x))] = made  # type: ignore[index]
        if route is None:
            reader.read("attribute", x, "__class__", type(x))  # else it is a part of the key
        return made

    def __init_subclass__(cls) -> None:
        pass  # the user's own would see a class that it does not know

    def __getattribute__(self, name: str) -> Any:
        own: Callable[[str], Any] = functools.partial(object.__getattribute__, self)
        if name in ("_reader", "_real", "_read", "_seen", "_named", "_homes", "_reduced"):
            return own(name)
        reader, real, seen, homes = own("_reader"), own("_real"), own("_seen"), own("_homes")
        if name == "__class__":
            cls = type(real)
            return class_of(reader, cls) if is_users(cls) else cls
        if name in seen:
            reader.look(homes.whole, name, real, seen[name])
            return seen[name]
        if name == "__reduce_ex__" and _found(type(self), name) is MISSING:
            return self._reduced
        held = getattr(real, "__dict__", {})
        if name == "__dict__" and any(v is not own("_read").get(n) for n, v in seen.items()):
            refuse_set(reader, f"{own('_named')}.{name}")
        if name == "__dict__":
            reader.read("attribute", homes.names, "names", tuple(held))
            return types.MappingProxyType({key: getattr(self, key) for key in held})
        member = MISSING if name in held else _found(type(self), name)
        if member is MISSING or isinstance(member, types.MemberDescriptorType):
            member = _found(type(real), name) if name not in held else MISSING
            if callable(member) and hasattr(object, name):
                return own(name)
            try:
                value = getattr(real, name)
            except AttributeError:
                reader.read("attribute", homes.whole, name, MISSING)  # it may have one later
                raise
            seen[name] = own("_read")[name] = reader.read("attribute", homes.whole, name, value)
            return seen[name]
        if not name.startswith("__"):
            reader.read("attribute", homes.own, name, MISSING)  # the object has none of its own
        return own(name)

    def _reduced(self, protocol: int) -> Any:
        """What `copy` makes a copy of: that of the object itself would hold what is not read."""
        if _found(type(self), "__reduce__") is not MISSING:
            return self.__reduce__()
        own = _found(type(self), "__getstate__") is not MISSING
        members = [m for c in type(self._real).__mro__ for m in vars(c).items()]
        slots = [n for n, m in members if isinstance(m, types.MemberDescriptorType)]
        held = {**self.__dict__, **{n: getattr(self, n) for n in slots if hasattr(self, n)}}
        cls = self.__class__
        return cls.__new__, (cls,), self.__getstate__() if own else held

    def __setattr__(self, name: str, value: Any) -> None:
        member = _found(type(self), name)
        if isinstance(member, property) and member.fset is not None:
            member.fset(self, value)
            return
        real = self._real
        slot = isinstance(_found(type(real), name), types.MemberDescriptorType)
        plain = member is MISSING or not hasattr(member, "__set__")
        held = slot or hasattr(real, "__dict__")
        if not (plain and held) or _found(type(self), "__setattr__") is not MISSING:
            refuse_set(self._reader, f"{self._named}.{name}")
        self._seen[name] = value

    def __delattr__(self, name: str) -> None:
        refuse_set(self._reader, f"{self._named}.{name}")


class _Kind(_Meta):
    """Of the classes of stand-ins for single objects."""

    def __setattr__(cls, name: str, value: Any) -> None:
        type.__setattr__(cls, name, value)


def _found(cls: type, name: str) -> Any:
    """A member of a class, as it stands there; those of `object` and of `_Outside` do not count."""
    for base in cls.__mro__:
        if base not in (object, _Outside) and name in vars(base):
            return vars(base)[name]
    return MISSING
