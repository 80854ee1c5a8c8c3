"""An object from outside is of its class, however a function asks for it."""

import abc
import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minicc

X = np.arange(1.0, 4.0)


@dataclasses.dataclass
class Setting:
    k: float = 1.0

    def doubled(self) -> Any:
        return self.__class__(self.k * 2)


@dataclasses.dataclass(order=True, frozen=True)
class Point:
    x: int
    y: int = 0


class Stack:
    """Numbers on each other."""

    def __init__(self, items: Any = ()) -> None:
        self.items = [*items]

    def push(self, item: Any) -> Any:
        return self.__class__([*self.items, item])


class Registered(abc.ABC):
    """An interface that a class need not derive from."""

    @abc.abstractmethod
    def push(self, item: Any) -> Any:
        """What it takes."""


Registered.register(Stack)
SETTING, STACK = Setting(), Stack([1])
KINDS = frozenset({Stack, Setting})
BY_CLASS: dict[type, float] = {Setting: 2.0, Stack: 3.0}


def _equal(o: Any) -> Any:
    return o == Setting(), Setting() == o, o != Setting(), o == SETTING, Setting() == SETTING


def _ordered(p: Any) -> Any:
    return p == Point(1, 2), p < Point(2), max(p, Point(0)).x, p in {Point(1, 2): 1}, (p,) == (p,)


def _replaced(o: Any) -> Any:
    new = dataclasses.replace(o, k=5.0)
    return new == Setting(5.0), type(new) is Setting, o.doubled() == Setting(2.0), new.k * X


def _class(o: Any) -> Any:
    names = o.__class__.__name__, o.__module__, o.__doc__, [c.__name__ for c in type(o).__mro__]
    return names, o.__class__ is Stack, o.__class__ == Stack, type(o.push(1)) is type(o)


def _subclass(o: Any) -> Any:
    whole = isinstance(Stack(), o.__class__), issubclass(o.__class__, Stack), isinstance(o, Stack)
    registered = isinstance(o, Registered), issubclass(type(o), Registered)
    return whole, registered, isinstance(Stack(), Registered), isinstance(o, (int, Setting))


def _keys(o: Any) -> Any:
    found = [(isinstance(o, c), type(o) is c, o.__class__ is c, v) for c, v in BY_CLASS.items()]
    return (
        found,
        BY_CLASS[type(o)],
        BY_CLASS.get(o.__class__),
        o.__class__ in KINDS,
        type(o) in KINDS,
    )


def _copied(o: Any) -> Any:
    other = copy.copy(o)
    return other == o, other.__class__ is o.__class__, other.k * X, copy.deepcopy(o) == o


IDENTITIES: list[tuple[Callable[..., Any], Any]] = [
    (_equal, Setting()), (_equal, Setting(2.0)), (_ordered, Point(1, 2)), (_replaced, Setting()),
    (_class, STACK), (_subclass, STACK), (_keys, STACK), (_keys, SETTING), (_copied, Setting(3.0)),
]  # fmt: skip


@pytest.mark.parametrize(("f", "given"), IDENTITIES)
def test_an_object_is_of_its_class(f: Callable[..., Any], given: Any) -> None:
    from_outside = minicc.jit(lambda: f(given), threads=1)
    argument = minicc.jit(f, threads=1)
    for _ in range(2):
        assert repr(argument(given)) == repr(f(given))
        assert repr(from_outside()) == repr(f(given))


def test_a_dict_of_results_has_the_class_itself_as_its_key() -> None:
    assert minicc.jit(lambda x: {type(STACK): x + 1}, threads=1)(X).popitem()[0] is Stack
    assert minicc.jit(lambda x: {Stack: x + 1}, threads=1)(X).popitem()[0] is Stack
