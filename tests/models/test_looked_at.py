"""What Python code sees of the stand-ins of arrays and numbers is what NumPy and Python give it."""

from __future__ import annotations

import array
import copy
import datetime
import decimal
import functools
import itertools
import json
import math
import pickle
import queue
import statistics
import struct
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.errors import PerformanceWarning

V = np.array([1.5, 2.0, 7.0])


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """A result with its types, or the type and text of what is raised."""
    try:
        return told(f(*copy.deepcopy(args)))
    except Exception as error:
        return type(error).__name__, str(error)


def told(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x), [told(v) for v in x]
    if isinstance(x, dict):
        return [(told(k), told(v)) for k, v in x.items()]
    if isinstance(x, np.ndarray):
        return "array", str(x.dtype), x.shape, x.tolist()
    return type(x), repr(x)


def check(f: Callable[..., Any], calls: Sequence[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)
        compiled = minicc.jit(f)
        for args in calls:
            assert outcome(compiled, *args) == outcome(f, *args), args


@dataclass
class Held:
    """Two of these are compared by their arrays, which have no truth value."""

    w: Any


@functools.singledispatch
def kind(x: Any) -> str:
    return "other"


@kind.register
def _(x: np.ndarray) -> str:
    return "array"


def attempted(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except (TypeError, ValueError, AttributeError) as error:
        return "no", type(error).__name__


def groups(x: Any) -> Any:
    found: dict[Any, int] = {}
    for v in x:
        found[int(v)] = found.get(int(v), 0) + 1
    return found


def raised(x: Any) -> str:
    try:
        raise ValueError("too big", x.max())
    except ValueError as error:
        return str(error)


def rounds_of(x: Any) -> Any:
    try:
        return len(list(itertools.islice(x, int(x[1]))))
    except ValueError:
        return "no"


def written_and_viewed(x: Any) -> Any:
    x[0] += 1
    try:
        return memoryview(x).nbytes, x
    except TypeError:
        x[1] = 0
        return "no", x


LOOKS: dict[str, Callable[[Any], Any]] = {
    "type is": lambda x: x * (2 if type(x) is np.ndarray else 3),
    "type is a scalar's": lambda x: x * (2 if type(x.max()) is np.float64 else 3),
    "type in": lambda x: x * (2 if type(x) in (list, np.ndarray) else 3),
    "type as a key": lambda x: {np.ndarray: 1, float: 2}.get(type(x), -1),
    "name of a type": lambda x: (type(x).__name__, type(float(x[0])).__name__),
    "subclass": lambda x: (issubclass(type(x[0]), float), issubclass(type(x), np.ndarray)),
    "single dispatch": lambda x: kind(x),
    "type of a size": lambda x: len(x) if type(len(x)) == int else -1,  # noqa: E721
    "type of an element type": lambda x: x.dtype.type is np.float64,
    "keys": groups,
    "keys that are scalars": lambda x: {x[0]: 1, (int(x[1]), 2): x[1]},
    "repetition": lambda x: ([0] * x.argmax(), (1, 2) * x.argmax()),
    "no repetition": lambda x: [0] * x[0],
    "round": lambda x: (round(x[0]), round(x.mean()), round(x[0], 1)),
    "round of what is no number": lambda x: round(x[0] * np.nan),
    "round of a complex number": lambda x: round((x * 1j)[0], 1),
    "comparison": lambda x: (float(x.sum()) > 0, int(x[0]) == 1, x.item(0) > 9),
    "identity": lambda x: "yes" if (float(x.sum()) > 0) is True else "no",
    "instance": lambda x: isinstance(float(x.sum()) > 0, bool),
    "repr": lambda x: (
        f"{x[0]!r} {[x[0], 1]} {x!r}",
        "%r" % x[1],  # noqa: UP031
        str({"k": x.sum()}),
    ),
    "dates": lambda x: [f"{d} {d:>12}|" for d in (x * 40).astype("datetime64[M]")],
    "spans of time": lambda x: [f"{d!s} {d}" for d in x.astype("timedelta64[h]")],
    "text of an error": raised,
    "copies of scalars": lambda x: (copy.deepcopy(x.sum()), copy.copy(x[0])),
    "one element": lambda x: int(x[:1]),
    "root of one element": lambda x: math.sqrt(x[:1]),
    "partition": lambda x: np.partition(x, 9),
    "partition from the end": lambda x: np.argpartition(x, -9),
    "order of an iterator": lambda x: [float(v) for v in np.nditer(x[::-1])],  # type: ignore[arg-type]
    "json": lambda x: attempted(lambda: json.dumps(float(x[0]))),
    "json by default": lambda x: json.dumps({"m": float(x.mean()), "n": int(x[0])}, default=str),
    "timedelta": lambda x: attempted(lambda: datetime.timedelta(days=int(x[1]))),
    "decimal": lambda x: attempted(lambda: str(decimal.Decimal(float(x[0])))),
    "power of three": lambda x: attempted(lambda: pow(int(x[1]), 3, 5)),
    "product": lambda x: attempted(lambda: math.prod(x)),
    "ratio": lambda x: attempted(lambda: x[0].as_integer_ratio()),
    "an error within a library": rounds_of,
    "a library that looks": lambda x: attempted(lambda: statistics.fmean([x[0], x[1]])),
    "a number of a library": lambda x: attempted(lambda: struct.pack("d", x[0])),
    "a buffer": lambda x: attempted(lambda: memoryview(x).nbytes),
    "a buffer after a write": written_and_viewed,
    "a sum with a text": lambda x: attempted(lambda: x + "a"),
    "equal to a text": lambda x: (x == "a", x[0] != "a", "a" in x, x[0] in ("a", "b")),
    "a product with nothing": lambda x: (
        attempted(lambda: x * None),
        attempted(lambda: None + x[0]),
    ),
    "an attribute that there is not": lambda x: attempted(lambda: x.nope),
}


@pytest.mark.parametrize("name", LOOKS)
def test_looks(name: str) -> None:
    longer = np.array([2.5, 3.0, 8.0, 2.0])
    check(LOOKS[name], [(V,), (V,), (V + 1,), (longer,), (np.append(longer, 1.0),)])


def test_overflows_that_are_to_raise() -> None:
    compiled = minicc.jit(lambda x: 1 / x)
    zero = np.zeros(2)
    with np.errstate(divide="ignore"):
        assert compiled(zero).tolist() == [np.inf, np.inf]
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        compiled(zero)
    assert compiled(V).tolist() == (1 / V).tolist()


def test_what_raises_in_numpy_alone_raises_in_each_call() -> None:
    """The trace, which caught another error on its way, serves no later call."""

    def named_where_caught(x: Any) -> Any:
        try:
            memoryview(x)
        except TypeError:
            caught = x + 1
        return caught

    check(named_where_caught, [(V,)] * 3)


def test_an_array_of_a_library_is_written_to_by_numpy() -> None:
    text = pickle.dumps(np.ones((2, 3)))

    def less(x: Any) -> Any:
        t = pickle.loads(text)
        t[None] -= x
        return t

    compiled = minicc.jit(less)
    with pytest.warns(PerformanceWarning, match="out= is an array from outside of the function"):
        assert told(compiled(V)) == told(less(V))


def test_objects_of_arrays_where_errors_are_caught() -> None:
    def f(held: Held, x: Any) -> Any:
        try:
            return held.w * x
        except ValueError:
            return x

    check(f, [(Held(V), V), (Held(V), V), (Held(V + 1), V)])


def test_a_shape_in_an_assertion() -> None:
    def f(x: Any, y: Any) -> Any:
        assert x.shape == y.shape, (x.shape, y.shape)
        return x + y

    check(f, [(V, V), (V, V[:2]), (V[:2], V[:2]), (V[:2], V)])


class Base:
    z = 1


class Derived(Base):
    pass


class Meta(type):
    pass


class Made(metaclass=Meta):
    z = 1.0


class Other(Base):
    def f(self, x: Any) -> Any:
        return x * 100


class First(Base):
    def f(self, x: Any) -> Any:
        return x


class State:
    """What is outside of the functions, as it is first."""

    def __init__(self) -> None:
        self.o, self.s, self.a = Base(), Derived(), First()
        self.module = types.ModuleType("settings")
        self.module.gain = 1.0  # type: ignore[attr-defined]
        self.bytes = bytearray(b"\1")

    def change(self) -> None:
        self.o.new = 5  # type: ignore[attr-defined]
        globals()["LATE"] = 5
        Derived.z = 5
        self.module.gain = 5.0  # type: ignore[attr-defined]
        Made.z = 5.0
        self.a.__class__ = Other  # type: ignore[assignment]
        self.bytes[0] = 5

    def restore(self) -> None:
        globals().pop("LATE", None)
        Made.z = 1.0
        if "z" in vars(Derived):
            del Derived.z


STATE = State()


def late(x: Any) -> Any:
    try:
        return x * LATE  # type: ignore[name-defined]
    except NameError:
        return x


def attribute(x: Any) -> Any:
    try:
        return x * STATE.o.new  # type: ignore[attr-defined]
    except AttributeError:
        return x


OUTSIDE: dict[str, Callable[[Any], Any]] = {
    "hasattr": lambda x: x * (2 if hasattr(STATE.o, "new") else 1),
    "getattr": lambda x: x * getattr(STATE.o, "new", 1),
    "a global": late,
    "an attribute": attribute,
    "an attribute that hides another": lambda x: x * STATE.s.z,
    "names of attributes": lambda x: x * (len(vars(STATE.o)) + 1),
    "names in a dict": lambda x: x * (2 if "new" in STATE.o.__dict__ else 1),
    "all globals": lambda x: x * globals().get("LATE", 1),
    "a module without a file": lambda x: x * STATE.module.gain,
    "a class with a metaclass": lambda x: x * Made.z,
    "the class of an object": lambda x: STATE.a.f(x),
    "bytes that change": lambda x: x * STATE.bytes[0],
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_outside_later(name: str) -> None:
    """What was not there at the first call is seen when it is there, and what changed is."""
    global STATE
    f = OUTSIDE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)
        STATE = State()
        compiled = minicc.jit(f)
        try:
            for change in (False, False, True, True):
                if change:
                    STATE.change()
                assert outcome(compiled, V) == outcome(f, V)
        finally:
            STATE.restore()


def counted() -> int:
    counted.n = getattr(counted, "n", 0) + 1  # type: ignore[attr-defined]
    return int(counted.n)  # type: ignore[attr-defined]


B, A, Q, L = bytearray(1), array.array("d"), queue.Queue[Any](), list[int]()


def _byte(x: Any) -> Any:
    B[0] += 1
    return x + 1


def _element(x: Any) -> Any:
    A.append(2.5)
    return x + 1


def _queued(x: Any) -> Any:
    Q.put(x * 2)
    return x + 1


def _executed(x: Any) -> Any:
    exec("L.append(9)")
    return x + 1


def _bound(x: Any) -> Any:
    globals()["G"] = x.sum()
    return x + 1


def _attribute(x: Any) -> Any:
    STATE.o.__dict__["raw"] = x
    return x + 1


EFFECTS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
    "an attribute of a function": (lambda x: x * counted(), lambda: vars(counted).get("n")),
    "a byte": (_byte, lambda: B[0]),
    "an element": (_element, lambda: len(A)),
    "a queue": (_queued, lambda: type(Q.queue[-1])),
    "code as a text": (_executed, lambda: len(L)),
    "a global": (_bound, lambda: told(globals().get("G"))),
    "a dict of attributes": (_attribute, lambda: told(vars(STATE.o).get("raw"))),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_what_a_function_leaves_outside(name: str) -> None:
    """It is there after each call."""
    f, left = EFFECTS[name]

    def clear() -> None:
        vars(counted).pop("n", None)
        B[0] = 0
        del A[:]
        L.clear()
        Q.queue.clear()
        globals().pop("G", None)
        vars(STATE.o).clear()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)
        found = []
        for run in (minicc.jit(f), f):
            clear()
            found.append([(outcome(run, x), left()) for x in (V, V, V + 1)])
    clear()
    assert found[0] == found[1]


def refusing(x: Any, limit: float, n: Any) -> Any:
    if n > limit:
        raise KeyError(n)
    return x * n


def test_exceptions_hold_numbers_of_the_call() -> None:
    """Their text, which tells why a function is left to NumPy, must not begin the trace again."""
    jitted, x = minicc.jit(refusing, threads=1), np.ones((3, 3))
    for limit, n in ((5.0, 3), (5.0, 4), (0.1, 4), (2.0, 2.5), (2, np.int64(3))):
        if n <= limit:
            np.testing.assert_array_equal(jitted(x, limit, n), refusing(x, limit, n))
            continue
        with pytest.raises(KeyError) as got:
            jitted(x, limit, n)
        assert got.value.args == (n,)


@pytest.mark.parametrize("dtype", [np.uint16, np.int64, bool, np.float32, complex])
def test_products_cast_no_more_than_numpy_does(dtype: Any) -> None:
    def product(x: Any, y: Any) -> Any:
        return np.matmul(x, y, dtype=dtype)

    x = np.ones((3, 3))
    assert outcome(minicc.jit(product, threads=1), x, x) == outcome(product, x, x)


def _matched(x: Any, k: Any) -> Any:
    match k:
        case bool():
            return x
        case int():
            return x * 2
        case float() | str():
            return x * 3
        case list():
            return x * 4
        case _:
            return x * 5


def _of_a_class_within(x: Any, k: Any) -> Any:
    class Stack(list[Any]):
        def top(self) -> Any:
            return self[-1]

    held = Stack([1.0, k])
    held.append(list[int]([3]))
    return x * held.top()[0] + len(held)


def _kinds(x: Any, k: Any) -> Any:
    if type(k) in (list, tuple):
        return x * 2
    return x * 3 if isinstance(k, (list, float)) else bool(k)


@pytest.mark.parametrize("f", [_matched, _of_a_class_within, _kinds], ids=lambda f: f.__name__)
def test_python_types_in_patterns_and_as_bases(f: Callable[..., Any]) -> None:
    jitted = minicc.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PerformanceWarning)
        for k in (1, 2.0, [1], True, "a", (1,), 3, None):
            assert outcome(jitted, V, k) == outcome(f, V, k)
