"""`Tracer`: what stands for an array while a function is traced.

A tracer is a mutable box, as an `ndarray` is: it holds the value that the array has now, a value of
the graph (*symbolic*) or a NumPy array (*constant*: known while tracing, computed by NumPy).
`u[...] = v` and `u += v` put a new value into the box; no op ever writes. A view is a box with a
`Lens` on its base: it reads from the base anew when that has changed, and writes through to it.
Which of NumPy's results are views and which are copies, NumPy says itself, asked with an array of
the same shape and strides that has no memory (`shadow`).

Where Python itself needs an element (`if`, `int()`, `float()`), the segment ends and the value is
read (`breaks`); a trace that runs nothing refuses it (MC0240) at the user's line.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from minicc.frontends.trace.layouts import lies_by_rows
from minicc.frontends.trace.lens import Content, Lens
from minicc.frontends.trace.loops.extents import Extent
from minicc.frontends.trace.operators import Operators
from minicc.frontends.trace.paths import CONVERSIONS, Read
from minicc.frontends.trace.recorder import Recorder
from minicc.frontends.trace.registry import FUNCTIONS, METHODS, Dispatch
from minicc.frontends.trace.row_iterator import RowIterator
from minicc.ir.core import Array, Value

_UNROLLED = 1024  # rows of an array that are written out


class Tracer(Operators):
    """An array while it is traced.

    `locked` says whose memory it is, where it may not be written; `base` and `lens` make it a view.
    A `scalar` stands for one of NumPy's, which is no array; it passes for one with `isinstance`.
    One that is `unsure` may be another array that others hold, too.
    """

    __slots__ = (
        "__weakref__",
        "_base",
        "_content",
        "_known",
        "_lens",
        "_locked",
        "_reads",
        "_seen",
        "_shadow",
        "_version",
        "unsure",
    )
    __array_priority__ = 1000
    is_traced = True
    pending = False  # whether it has no content yet, until it is asked for

    def __init__(
        self,
        recorder: Recorder,
        content: Content,
        *,
        locked: str = "",
        base: Tracer | None = None,
        lens: Lens | None = None,
        scalar: bool = False,
    ) -> None:
        self.recorder = recorder
        self.scalar = scalar
        self._content = content
        self._version = 0
        self._locked = locked
        self._base = base
        self._lens = lens
        self._seen = base._version if base is not None else 0
        self._reads = False  # whether a view reads its base anew, changed or not
        self._shadow: Array | None = None
        self._known: dict[str, Any] = {}
        self.unsure = False
        recorder.watch(self)

    @property
    def __class__(self) -> Any:
        return self.dtype.type if self.scalar else Tracer

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError("a traced array stays one")

    def look(self, lens: Lens) -> Tracer:
        """A view of this array."""
        return Tracer(self.recorder, lens.read(self.content), base=self, lens=lens)

    def moves(self) -> tuple[tuple[Any, ...], tuple[Callable[[Array], Array], ...]]:
        """The lenses' keys from its root on, and how NumPy makes these views."""
        if self._base is None or self._lens is None:
            return (), ()
        keys, moves = self._base.moves()
        return (*keys, self._lens.key), (*moves, self._lens.show or self._lens.move)

    def looks_at(self) -> tuple[Tracer, Lens] | None:
        """The base of a view, and its lens."""
        return None if self._base is None or self._lens is None else (self._base, self._lens)

    @property
    def stale(self) -> bool:
        """Whether it is a view whose base was written to since it was read."""
        if self._base is None:
            return False
        return self._base.stale or self._reads or self._base._version != self._seen

    def is_view_of(self, base: Tracer, key: Any) -> bool:
        """Whether it is the view of `base` that a lens of this key shows."""
        return self._base is base and self._lens is not None and self._lens.key == key

    def shadow(self) -> Array:
        """An array without memory of the same shape, whose strides say how this one's lies."""
        if self._shadow is None:
            if self._base is not None and self._lens is not None:
                self._shadow = self._lens.move(self._base.shadow())
            else:
                steps = np.cumprod([1, *[max(n, 1) for n in self.shape[:0:-1]]])[::-1]
                self.lies(tuple(int(s) * self.itemsize for s in steps) if self.shape else ())
        assert self._shadow is not None
        return self._shadow

    def lies_in_order(self) -> bool:
        """Whether the array lies row by row, if need be with gaps between elements and rows."""
        made_so = self._shadow is None and self._base is None
        return made_so or self.ndim < 2 or lies_by_rows(self.shadow())

    def lies(self, strides: tuple[int, ...]) -> None:
        """Say how the array lies in memory where that is not row by row."""
        self._shadow = as_strided(np.empty(1, self.dtype), self.shape, strides)

    @property
    def root(self) -> Tracer:
        """The array whose memory this one shows."""
        return self if self._base is None else self._base.root

    @property
    def writeable(self) -> bool:
        """Whether NumPy would let it be written to, as far as how it was made says."""
        if self._base is None or self._lens is None:
            return True
        return self._lens.put is not None and self._base.writeable

    @property
    def locked_array(self) -> Array | None:
        """The captured array that it is."""
        return None if not self._locked or isinstance(self._content, Value) else self._content

    @property
    def written(self) -> bool:
        """Whether it was assigned to since it was made."""
        return self._version > 0

    @property
    def content(self) -> Content:
        """What the box holds now."""
        if self._base is not None:
            self._refresh(self._base)
        return self._content

    def held(self) -> Value | None:
        """What must be kept for it at a break: a view's comes from its base."""
        content = self._content
        own = self._base is None or (self._lens is not None and self._lens.hosted)
        return content if own and isinstance(content, Value) else None

    def rebind(self, moved: dict[Value, Value]) -> None:
        """Take the value of the segment that begins."""
        if self._base is not None and self._lens is not None and not self._lens.hosted:
            self._reads = True
        elif isinstance(self._content, Value):
            self._content = moved.get(self._content, self._content)

    def _refresh(self, base: Tracer) -> None:
        content = base.content
        changed = base._version != self._seen
        if (changed or self._reads) and self._lens is not None:
            self._content = self._lens.read(content)
            if changed and self._seen >= 0:
                self._version += 1
                self._known = {}
            self._seen, self._reads = base._version, False

    def assign(self, content: Content) -> None:
        """Put another value of the same shape and dtype into the box, and into what it views."""
        if self.root._locked:
            Dispatch.release(self.root)
            hint = "write to a .copy() of it and return that"
            self.recorder.refuse("MC0243", f"{self.root._locked} is written to", hint)
        if self.root.unsure:
            self.recorder.give_up("an array is written to that a loop may have bound or not")
        if self._base is not None and self._lens is not None:
            kept = Tracer(self.recorder, content)  # for a write on the host ends the segment
            self._write_through(self._base, self._lens, content)
            content = kept.content
            self._seen = self._base._version
        else:
            self.recorder.note_write(self)
        self._content = content
        self._version += 1
        self._known = {}

    def _write_through(self, base: Tracer, lens: Lens, content: Content) -> None:
        if lens.put is None:
            raise ValueError("assignment destination is read-only")
        old = base.content
        if lens.hosted:
            base.assign(lens.put(old, content))
        elif lens.moves or isinstance(old, Value) or isinstance(content, Value):
            new = content if isinstance(content, Value) else self.recorder.lift(content)
            base.assign(lens.put(base.value(), new))
        else:
            changed = old.copy(order="C")
            shown = lens.move(changed)
            if np.may_share_memory(shown, changed) and shown.flags.writeable:
                shown[...] = content  # which may be a part of each number
            else:
                places = lens.move(np.arange(changed.size).reshape(changed.shape))
                changed.reshape(-1)[places] = content
            base.assign(changed)

    @property
    def symbolic(self) -> bool:
        """Whether the elements are known only when the compiled function runs."""
        return isinstance(self.content, Value)

    def read(self, convert: str, needs: str) -> Any:
        """The elements as Python sees them: known, told by a loop, or read at a break."""
        if convert == "bool" and self.symbolic:
            told = Dispatch.test(self.recorder, self)
            if told is not None:
                return told
        return self.see(convert, needs)

    def see(self, convert: str, needs: str) -> Any:
        """The elements as Python sees them: known, or read where the segment ends."""
        content = self.content
        if not isinstance(content, Value):
            return CONVERSIONS[convert](content)
        if convert in self._known:
            return self._known[convert]
        if self.recorder.loops:
            self.recorder.loops[0].read_ahead(self)
            self.recorder.write_out(f"{needs} needs elements of an array")
        if self.recorder.path is None:
            self.recorder.refuse(
                "MC0240",
                f"{needs} needs the elements of {self._told()} while the function is traced",
                "np.where chooses element by element; Python control flow may depend on shapes "
                "and on arguments that are no arrays",
            )
        seen = self.recorder.path.pause(
            self.recorder, lambda place: Read(place(content), convert, needs), [self]
        )
        self._known[convert] = seen
        return seen

    @property
    def known(self) -> dict[str, Any]:
        """What Python has seen of the elements, by how it looked."""
        return self._known

    def constant(self, needs: str) -> Array:
        """The elements as an array."""
        content = self.content
        array: Array = self.read("array", needs) if isinstance(content, Value) else content
        return array

    def value(self) -> Value:
        """The graph's value, made of a constant where it is one."""
        content = self.content
        return content if isinstance(content, Value) else self.recorder.lift(content)

    def symbolise(self) -> Value:
        """The graph's value, which from now on the array is, and so what it is a view of."""
        if self._base is not None:
            self._base.symbolise()
            self.forget()
        else:
            self._content = self.value()
        return self.value()

    def forget(self) -> None:
        """Let a view read its base anew, whatever was seen of it."""
        self._seen, self._known = -1, {}

    def hold(self, content: Content, version: int) -> None:
        """Have other content without having been assigned to; `version` counts assignments."""
        if self._base is not None or content is not self._content:
            self._known = {}
        self._content, self._version = content, version

    @property
    def version(self) -> int:
        """How often it was assigned to."""
        return self._version

    def _extents(self) -> tuple[int, ...]:
        content = self._content  # a view keeps its shape, so it need not be read anew
        return tuple(content.type.extents if isinstance(content, Value) else content.shape)

    def _is_asked(self, frame: FrameType) -> bool:
        """Whether the user's code asks for extents, of which some may be no numbers."""
        rounds = self.recorder.rounds
        return bool(rounds.used or rounds.sizes) and self._is_users(frame)

    def _is_users(self, frame: FrameType) -> bool:
        return id(frame.f_globals) in self.recorder.user_globals

    def _seen_in(self, frame: FrameType) -> tuple[int, ...]:
        shape = self._extents()
        return Dispatch.shown(self.recorder, shape) if self._is_asked(frame) else shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self._seen_in(sys._getframe(1))

    @shape.setter
    def shape(self, new: Any) -> None:
        if self.scalar:
            raise AttributeError("attribute 'shape' of 'numpy.generic' objects is not writable")
        made = self._call("reshape", self, new)
        boxes = self.recorder.live()
        shown = any((v := b.looks_at()) and v[0] is self for b in boxes if b is not made)
        given = any(self is a for a in self.recorder.begun)
        if shown or given or self._base is not None or self._locked or self.recorder.loops:
            what = "the shape of an array that others show is set in place"
            self.recorder.refuse("MC0241", what, "bind the result of reshape instead")
        self._content, self._known = made.content, {}
        self.lies(made.shadow().strides)

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
        content = self._content
        return content.type.rank if isinstance(content, Value) else content.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._count(1, sys._getframe(1))

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._count(self.itemsize, sys._getframe(1))

    def _count(self, each: int, frame: FrameType) -> int:
        """How many elements there are, times what each has."""
        count = each * math.prod(self._extents())
        return Dispatch.shown(self.recorder, (count,))[0] if self._is_asked(frame) else count

    def __getattr__(self, name: str) -> Any:
        self.need(name)
        target = METHODS.get(name)
        if target is not None:
            return partial(self._call, target, self)
        if not name.startswith("_") and hasattr(np.ndarray, name):
            if callable(getattr(np.ndarray, name)) and self.recorder.path is not None:
                return partial(self._call, f"ndarray.{name}", self)
            self.recorder.refuse("MC0241", f"ndarray.{name} is not traced")
        if self.scalar and not name.startswith("_") and hasattr(self.dtype.type, name):
            return getattr(self._solid(), name)
        raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")

    def tolist(self) -> Any:
        """The elements as Python numbers, in lists of their own at each call."""
        return _own_lists(self.read("tolist", ".tolist()"))

    def fill(self, new: Any) -> None:
        """Set all elements; a scalar has none."""
        if not self.scalar:
            self[...] = new

    def __getitem__(self, key: Any) -> Any:
        return self._call("__getitem__", self, key)

    def __setitem__(self, key: Any, new: Any) -> None:
        self._call("__setitem__", self, key, new)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        rows = self.shape[0]
        if type(rows) is Extent and not rows.rounds.turns(rows.dim):
            self.recorder.need(rows.dim, "len()")
        return rows

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        loop: Iterator[Any] | None = Dispatch.loop(self.recorder, sys._getframe(1), self)
        if loop is not None:
            return loop
        return RowIterator(self, _UNROLLED)

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __bool__(self) -> bool:
        return bool(self.read("bool", "a condition (if, while, and, or, not, bool())"))

    def __int__(self) -> int:
        return int(self.read("int", "int()"))

    def __float__(self) -> float:
        return float(self.read("float", "float()"))

    def __complex__(self) -> complex:
        return complex(self.read("complex", "complex()"))

    def __index__(self) -> int:
        return int(self.read("index", "a Python index or range()"))

    def __format__(self, spec: str) -> str:
        if self.ndim or not self.symbolic:
            return format(self.read("text", "a text") if self.symbolic else self._content, spec)
        # NumPy formats a number as Python's number, and a date or a span of time as its text
        return format(self.read("text" if self.dtype.kind in "mM" else "item", "a text"), spec)

    def __str__(self) -> str:
        if self._is_hidden():
            return self._told()
        return str(self.read("text", "a text") if self.symbolic else self._solid())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = np.array(self.constant("a function that is not traced"), dtype)
        array.flags.writeable = False  # what is written to a copy would not reach this one
        return array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if all(x is None for x in kwargs.get("out", ())):
            kwargs.pop("out", None)
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        if getattr(np, ufunc.__name__, None) is not ufunc and name not in FUNCTIONS:
            real = ufunc if method == "__call__" else getattr(ufunc, method)
            return Dispatch.library(self.recorder, real, name, inputs, kwargs)
        return self._call(name, *inputs, **kwargs)

    def __array_function__(
        self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        path = func.__module__.partition(".")[2]
        return self._call(f"{path}.{func.__name__}" if path else func.__name__, *args, **kwargs)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return self.recorder.namespace

    def __repr__(self) -> str:
        """NumPy's in the user's code; elsewhere what stands for it."""
        asks = id(sys._getframe(1).f_globals) in self.recorder.user_globals
        return repr(self._solid()) if asks and not self._is_hidden() else self._told()

    def _is_hidden(self) -> bool:
        """Whether the elements can't be read: a trace runs nothing."""
        return self.symbolic and self.recorder.path is None

    def _told(self) -> str:
        return f"traced {self.dtype}[{','.join(map(str, self.shape))}]"

    def _solid(self) -> Any:
        """NumPy's array or scalar, for a text."""
        array = self.constant("a text")
        return array[()] if self.scalar else array

    def __copy__(self) -> Any:
        return self if self.scalar else self._call("copy", self)

    def __deepcopy__(self, memo: Any) -> Any:
        return self if self.scalar else self._call("copy", self)


def _own_lists(x: Any) -> Any:
    return [_own_lists(part) for part in x] if isinstance(x, list) else x
