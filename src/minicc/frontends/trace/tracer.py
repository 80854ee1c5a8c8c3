"""`Tracer`: what stands for an array while a function is traced.

A tracer is a mutable box, as an `ndarray` is: it holds the value that the array has now, a value of
the graph (*symbolic*) or a NumPy array (*constant*: known while tracing, computed by NumPy).
`u[...] = v` and `u += v` put a new value into the box; no op ever writes. A basic index makes a
view: a box that reads from its base and writes through to it. Other views (of `reshape`, `T`) may
be read until either side is written to.

Where Python itself needs an element (`if`, `int()`, `float()`), UnsupportedError (MC0240) names the
line.

Mirrors: JAX's tracers; PyTorch's functionalisation of views; the protocols of NEP 13, NEP 18 and
NEP 47.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

import numpy as np

from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import METHODS, Dispatch
from minicc.ir.core import Array, Value

Content = Value | Array
_UNROLLED = 1024  # rows that a Python loop over an array may have
_ACCEPTED = (bool, int, float, complex, list, tuple, np.ndarray, np.generic)


def _binary(name: str, reflected: bool = False) -> Callable[[Tracer, Any], Any]:
    def operate(self: Tracer, other: Any) -> Any:
        if not isinstance(other, (Tracer, *_ACCEPTED)):
            return NotImplemented
        return self._call(name, other, self) if reflected else self._call(name, self, other)

    return operate


def _reflected(name: str) -> Callable[[Tracer, Any], Any]:
    return _binary(name, reflected=True)


def _in_place(name: str) -> Callable[[Tracer, Any], Any]:
    def operate(self: Tracer, other: Any) -> Any:
        if not isinstance(other, (Tracer, *_ACCEPTED)):
            return NotImplemented
        # NumPy's scalars, which have no shape, are immutable
        return self._call(name, self, other, **({"out": self} if self.ndim else {}))

    return operate


def _unary(name: str) -> Callable[[Tracer], Any]:
    return lambda self: self._call(name, self)


class Tracer:
    """An array while it is traced. `locked` says whose memory it is, where it may not be written.

    `views` makes it one of `base` that can be written; `key` is then the index that made it.
    """

    __slots__ = (
        "_base",
        "_content",
        "_locked",
        "_read",
        "_seen",
        "_version",
        "_write",
        "key",
        "recorder",
    )
    __array_priority__ = 1000

    def __init__(
        self, recorder: Recorder, content: Content, *, locked: str = "", base: Tracer | None = None
    ) -> None:
        self.recorder = recorder
        self._content = content
        self._version = 0
        self._locked = locked
        self._base = base
        self._seen = base._version if base is not None else 0
        self._read: Callable[[], Content] | None = None
        self._write: Callable[[Content], None] | None = None
        self.key: Any = None

    def views(
        self, key: Any, read: Callable[[], Content], write: Callable[[Content], None]
    ) -> Tracer:
        """Read anew from the base when that has changed, and write through to it."""
        self.key, self._read, self._write = key, read, write
        return self

    def is_view_of(self, base: Tracer, key: Any) -> bool:
        """Whether it is what `base[key]` gave, so that storing it there changes nothing."""
        return self._base is base and self._read is not None and self.key == key

    @property
    def content(self) -> Content:
        """What the box holds now."""
        self._refresh()
        return self._content

    def _refresh(self) -> None:
        base = self._base
        if base is None:
            return
        base._refresh()
        if base._version != self._seen:
            if self._read is None:
                self.recorder.refuse(
                    "MC0243",
                    "a view is read after the array that it views was written to",
                    "take a .copy() before the array is written to",
                )
            self._content = self._read()
            self._seen = base._version
            self._version += 1

    def assign(self, content: Content) -> None:
        """Put another value of the same shape and dtype into the box, and into what it views."""
        self._refresh()
        root = self
        while root._base is not None:
            root = root._base
        if root._locked:
            self.recorder.refuse(
                "MC0243",
                f"{root._locked} is written to",
                "write to a .copy() of it and return that",
            )
        if self._base is not None:
            if self._write is None:
                self.recorder.refuse(
                    "MC0243", "a view is written to", "write to the array itself or to a .copy()"
                )
            self._write(content)
            self._seen = self._base._version
        self._content = content
        self._version += 1

    @property
    def symbolic(self) -> bool:
        """Whether the elements are known only when the compiled function runs."""
        return isinstance(self.content, Value)

    def constant(self, needs: str) -> Array:
        """The elements, where they are known while tracing; else UnsupportedError (MC0240)."""
        content = self.content
        if isinstance(content, Value):
            self._need(needs)
        return content

    def value(self) -> Value:
        """The graph's value, made of a constant where it is one."""
        content = self.content
        return content if isinstance(content, Value) else self.recorder.lift(content)

    def _need(self, needs: str) -> NoReturn:
        self.recorder.refuse(
            "MC0240",
            f"{needs} needs the elements of {self!r} while the function is traced",
            "np.where chooses element by element; Python control flow may depend on shapes and on "
            "arguments that are no arrays",
        )

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return Dispatch.call(self.recorder, name, args, kwargs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        content = self._content  # a view keeps its shape, so it need not be read anew
        return tuple(content.type.extents if isinstance(content, Value) else content.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's element type."""
        content = self._content
        if isinstance(content, Value):
            element: np.dtype[Any] = content.type.dtype.numpy
            return element
        plain: np.dtype[Any] = content.dtype
        return plain

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def T(self) -> Any:  # NumPy's name
        """The axes in reverse order."""
        return self._call("transpose", self)

    @property
    def mT(self) -> Any:  # NumPy's name
        """The last two axes exchanged."""
        return self._call("matrix_transpose", self)

    def __getattr__(self, name: str) -> Any:
        target = METHODS.get(name)
        if target is not None:
            return partial(self._call, target, self)
        if not name.startswith("_") and hasattr(np.ndarray, name):
            self.recorder.refuse("MC0241", f"ndarray.{name} is not traced")
        raise AttributeError(f"a traced array has no attribute {name!r}")

    def item(self, *index: int) -> Any:
        """The only element as a Python number."""
        return self.constant(".item()").item(*index)

    def tolist(self) -> Any:
        """The elements as Python numbers."""
        return self.constant(".tolist()").tolist()

    def fill(self, new: Any) -> None:
        """Set all elements."""
        self[...] = new

    def __getitem__(self, key: Any) -> Any:
        return self._call("__getitem__", self, key)

    def __setitem__(self, key: Any, new: Any) -> None:
        self._call("__setitem__", self, key, new)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        if len(self) > _UNROLLED:
            self.recorder.refuse(
                "MC0247",
                f"a Python loop over the {len(self)} rows of {self!r} would be unrolled",
                f"write it with whole arrays; up to {_UNROLLED} rows are unrolled",
            )
        return (self[row] for row in range(len(self)))

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __bool__(self) -> bool:
        return bool(self.constant("a condition (if, while, and, or, not, bool())"))

    def __int__(self) -> int:
        return int(self.constant("int()"))

    def __float__(self) -> float:
        return float(self.constant("float()"))

    def __complex__(self) -> complex:
        return complex(self.constant("complex()"))

    def __index__(self) -> int:
        return int(self.constant("a Python index or range()").__index__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.constant("a function that is not traced"), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") == (None,):
            del kwargs["out"]
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        return self._call(name, *inputs, **kwargs)

    def __array_function__(
        self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        path = func.__module__.partition(".")[2]
        return self._call(f"{path}.{func.__name__}" if path else func.__name__, *args, **kwargs)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return self.recorder.namespace

    def __repr__(self) -> str:
        return f"traced {self.dtype}[{','.join(map(str, self.shape))}]"

    def __copy__(self) -> Any:
        return self._call("copy", self)

    def __deepcopy__(self, memo: Any) -> Any:
        return self._call("copy", self)

    def __round__(self, digits: int = 0) -> Any:
        return self._call("round", self, digits)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    __hash__ = None  # type: ignore[assignment]  # as ndarray: == compares elements
    __eq__ = _binary("equal")
    __ne__ = _binary("not_equal")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __neg__, __pos__ = _unary("negative"), _unary("positive")
    __abs__, __invert__ = _unary("absolute"), _unary("invert")
    __add__, __radd__, __iadd__ = _binary("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __isub__ = _in_place("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __imul__ = _in_place("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _reflected("divide")
    __itruediv__ = _in_place("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __ifloordiv__ = _in_place("floor_divide")
    __mod__, __rmod__, __imod__ = (
        _binary("remainder"),
        _reflected("remainder"),
        _in_place("remainder"),
    )
    __pow__, __rpow__, __ipow__ = _binary("power"), _reflected("power"), _in_place("power")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __imatmul__ = _in_place("matmul")
    __and__, __rand__ = _binary("bitwise_and"), _reflected("bitwise_and")
    __iand__ = _in_place("bitwise_and")
    __or__, __ror__, __ior__ = (
        _binary("bitwise_or"),
        _reflected("bitwise_or"),
        _in_place("bitwise_or"),
    )
    __xor__, __rxor__ = _binary("bitwise_xor"), _reflected("bitwise_xor")
    __ixor__ = _in_place("bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift"), _reflected("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift"), _reflected("right_shift")
