"""What replaces or hides a name that a function read is noticed, of classes and of builtins."""

import builtins
import copy
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

X = np.arange(1.0, 4.0)


def _classes() -> Any:
    """Classes, and an object of theirs, for one test alone."""

    class Base:
        kind = 1.0
        act = staticmethod(np.tanh)

        @staticmethod
        def plain(x: Any) -> Any:
            return x + 1

        @classmethod
        def of_class(cls, x: Any) -> Any:
            return x * cls.kind

        @property
        def bias(self) -> float:
            return 2.0

        @functools.cached_property
        def once(self) -> float:
            return 3.0

        def of_type(self, x: Any) -> Any:
            return x * type(self).kind + x * self.__class__.kind

    class Derived(Base):
        def __init__(self) -> None:
            self.w = np.ones(3)

    return types.SimpleNamespace(Base=Base, Derived=Derived, o=Derived())


MEMBERS: list[tuple[str, Callable[[Any, Any], Any], Callable[[Any], Any]]] = [
    ("hidden in a class", lambda m, x: m.o.of_class(x), lambda m: setattr(m.Derived, "kind", 6)),
    ("hidden in a type", lambda m, x: m.o.of_type(x), lambda m: setattr(m.Derived, "kind", 6)),
    ("hidden by name", lambda m, x: x * m.Derived.kind, lambda m: setattr(m.Derived, "kind", 6)),
    ("hidden in what is made", lambda m, x: x * m.Derived().kind,
     lambda m: setattr(m.Derived, "kind", 6)),
    ("of the class of an object", lambda m, x: x * m.o.__class__.kind,
     lambda m: setattr(m.Base, "kind", 5)),
    ("hidden method", lambda m, x: m.Derived.of_type(m.o, x),
     lambda m: setattr(m.Derived, "of_type", lambda self, x: x)),
    ("there later", lambda m, x: x * getattr(m.Derived, "later", 1),
     lambda m: setattr(m.Derived, "later", 4)),
    ("static", lambda m, x: m.o.plain(x), lambda m: setattr(m.Base, "plain", staticmethod(np.sin))),
    ("static of NumPy", lambda m, x: m.o.act(x),
     lambda m: setattr(m.Base, "act", staticmethod(np.sin))),
    ("static by name", lambda m, x: m.Base.plain(x),
     lambda m: setattr(m.Base, "plain", staticmethod(np.sin))),
    ("of the class", lambda m, x: m.o.of_class(x),
     lambda m: setattr(m.Base, "of_class", classmethod(lambda cls, x: x - 5))),
    ("property", lambda m, x: x * m.o.bias,
     lambda m: setattr(m.Base, "bias", property(lambda self: 7.0))),
    ("property of what is made", lambda m, x: x * m.Derived().bias,
     lambda m: setattr(m.Base, "bias", property(lambda self: 7.0))),
    ("cached", lambda m, x: x * m.Derived().once,
     lambda m: setattr(m.Base, "once", property(lambda self: 7.0))),
    ("gone", lambda m, x: x * m.Base.plain(x), lambda m: setattr(m.Base, "plain", lambda x: x)),
    ("copied", lambda m, x: x * copy.copy(m.o).w, lambda m: m.o.w.__setitem__(0, 9.0)),
]  # fmt: skip


@pytest.mark.parametrize(("f", "change"), [m[1:] for m in MEMBERS], ids=[m[0] for m in MEMBERS])
def test_what_replaces_or_hides_a_member_is_noticed(
    f: Callable[[Any, Any], Any], change: Callable[[Any], Any]
) -> None:
    for given in (False, True):
        members = _classes()
        whole = f if given else functools.partial(f, members)
        g = minicc.jit(whole, threads=1)
        args = (members, X) if given else (X,)
        before = f(members, X)
        for _ in range(2):
            assert np.array_equal(g(*args), f(members, X))
        change(members)
        for _ in range(2):
            assert np.array_equal(g(*args), f(members, X))
        assert not np.array_equal(before, f(members, X))


def _of_builtins(x: Any) -> Any:
    return x * max(1, 2) + len(x) + abs(-3.0)


@pytest.mark.parametrize("name", ["max", "len", "abs"])
def test_a_global_that_hides_what_is_built_in_is_noticed(name: str) -> None:
    scope = {"__builtins__": builtins, "__name__": __name__}
    f = types.FunctionType(_of_builtins.__code__, scope)
    g = minicc.jit(f, threads=1)
    before = f(X)
    assert np.array_equal(g(X), before)
    scope[name] = lambda *args: 9.0
    assert np.array_equal(g(X), f(X))
    assert not np.array_equal(g(X), before)
    del scope[name]
    assert np.array_equal(g(X), before)
