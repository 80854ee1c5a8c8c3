"""Tiles: what a kernel computes with, as NumPy has arrays.

Operators and NumPy's functions on tiles record ops of the kernel level, with NumPy's broadcasting
and element types; a Python number takes the type of the tile that it meets. A tile's extents are
numbers, and its elements are known when an instance runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

from minicc.frontends.trace.tiles.numbers import Index
from minicc.frontends.trace.tiles.recording import Scope, current, wrong
from minicc.ir import arith, kernel
from minicc.ir.core import Literal, Op, Value
from minicc.ir.types import BOOL, F32, DType, TensorType, from_numpy

Shape = tuple[int, ...]
_UFUNCS: dict[str, type[Op]] = {
    "add": arith.Add, "subtract": arith.Sub, "multiply": arith.Mul, "true_divide": arith.Div,
    "divide": arith.Div, "floor_divide": arith.FloorDiv, "remainder": arith.Mod,
    "maximum": arith.Max, "minimum": arith.Min, "fmax": arith.MaxNumber, "power": arith.Pow,
    "less": arith.Lt, "less_equal": arith.Le, "greater": arith.Lt, "greater_equal": arith.Le,
    "equal": arith.Eq, "not_equal": arith.Ne, "bitwise_and": arith.And, "bitwise_or": arith.Or,
    "bitwise_xor": arith.Xor, "left_shift": arith.Shl, "right_shift": arith.Shr,
    "logical_and": arith.And, "logical_or": arith.Or, "logical_not": arith.Not,
    "negative": arith.Neg, "absolute": arith.Abs, "exp": arith.Exp, "exp2": arith.Exp2,
    "log": arith.Log, "log2": arith.Log2, "log10": arith.Log10, "expm1": arith.Expm1,
    "cbrt": arith.Cbrt, "sqrt": arith.Sqrt, "tanh": arith.Tanh, "floor": arith.Floor,
    "ceil": arith.Ceil, "rint": arith.Round, "invert": arith.Not,
    "sin": arith.Sin, "cos": arith.Cos, "tan": arith.Tan, "arcsin": arith.Asin,
    "arccos": arith.Acos, "arctan": arith.Atan, "arctan2": arith.Atan2, "sinh": arith.Sinh,
    "cosh": arith.Cosh, "arcsinh": arith.Asinh, "arccosh": arith.Acosh, "arctanh": arith.Atanh,
}  # fmt: skip
_TURNED = {"less": "greater", "less_equal": "greater_equal", "greater": "less",
           "greater_equal": "less_equal", "add": "add", "multiply": "multiply"}  # fmt: skip
_SWAPPED = ("greater", "greater_equal")
_FLOATS = ("true_divide", "divide", "exp", "exp2", "expm1", "log", "log2", "log10", "cbrt", "sqrt",
           "tanh", "floor", "ceil", "rint", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
           "arctan2", "sinh", "cosh", "arcsinh", "arccosh", "arctanh")  # fmt: skip


class Tile:
    """A tile's elements, as a value of the kernel level."""

    __slots__ = ("_scope", "_value", "dtype", "shape")

    def __init__(self, value: Value | None, scope: Scope | None, type: TensorType) -> None:
        self._value = value
        self._scope = scope
        self.shape: Shape = type.extents
        self.dtype = type.dtype.numpy

    @property
    def value(self) -> Value:
        """The value; UserError (MC0192) after the loop in which it was made."""
        if self._scope is not None and self._scope.closed:
            text = "a tile that a loop's body made is used after the loop"
            wrong("MC0192", text, "bind its name to a tile before the loop")
        assert self._value is not None
        return self._value

    @property
    def is_known(self) -> bool:
        """Whether it may be used where the trace is."""
        return self._scope is None or not self._scope.closed

    @property
    def element(self) -> DType:
        """The type of its elements."""
        found = from_numpy(self.dtype)
        assert found is not None
        return found

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            wrong("MC0195", f"np.{ufunc.__name__}.{method} with {sorted(kwargs)} of tiles")
        return apply(ufunc.__name__, *args)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known = FUNCTIONS.get(function.__name__)
        if known is None:
            _unknown(function.__name__)
        return known(*args, **kwargs)

    def __getitem__(self, key: Any) -> Tile:
        return _part(self, key)

    def __neg__(self) -> Tile:
        return apply("negative", self)

    def __abs__(self) -> Tile:
        return apply("absolute", self)

    def __invert__(self) -> Tile:
        return apply("invert", self)

    def __bool__(self) -> bool:
        text = "a tile's elements are known when the kernel runs, and Python asks for one"
        wrong("MC0193", text, "np.where chooses by elements")

    __index__ = __int__ = __float__ = __len__ = __iter__ = __bool__

    def placed(self, ufunc: str, other: Any) -> Tile | None:
        """What a ufunc gives where that follows from the elements' places alone."""
        return None

    def astype(self, dtype: Any) -> Tile:
        """The same elements as another type."""
        element = element_of(dtype)
        return self if element is self.element else emitted(arith.Cast, self.value, dtype=element)

    def reshape(self, *shape: Any) -> Tile:
        """The same elements in row-major order under another shape."""
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return reshaped(self, tuple(extents))

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tile:
        """The sum along axes, of all elements by default."""
        return reduced(self, "add", axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tile:
        """The greatest along axes, of all elements by default."""
        return reduced(self, "max", axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Tile:
        """The least along axes, of all elements by default."""
        return reduced(self, "min", axis, keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Tile:
        """The product along axes, of all elements by default."""
        return reduced(self, "mul", axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Tile:
        """Whether some element along axes is not 0, of all elements by default."""
        return reduced(self.astype(np.bool_), "or", axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Tile:
        """Whether no element along axes is 0, of all elements by default."""
        return reduced(self.astype(np.bool_), "and", axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tile:
        """The mean along axes, of all elements by default; of integers in f32."""
        total = self.sum(axis, keepdims)
        return apply("true_divide", total, prod(self.shape) // prod(total.shape))

    @property
    def T(self) -> Tile:
        """The tile with its two axes exchanged, as by `tl.trans`."""
        turned: Tile = FUNCTIONS["transpose"](self)
        return turned

    def __repr__(self) -> str:
        return f"<tile {TensorType(self.element, self.shape)}>"


def tile_type(tile: Tile) -> TensorType:
    """The type of a tile's value."""
    return TensorType(tile.element, tile.shape)


def _unknown(name: str) -> NoReturn:
    hint = "docs/kernels.md says which are, and what computes others"
    wrong("MC0195", f"np.{name} is not among the functions of tiles", hint)


def _operator(ufunc: str, swapped: bool = False) -> Callable[..., Any]:
    def run(self: Tile, other: Any) -> Any:
        return apply(ufunc, other, self) if swapped else apply(ufunc, self, other)

    return run


for _name, _ufunc in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}.items():  # fmt: skip
    setattr(Tile, f"__{_name}__", _operator(_ufunc))
    setattr(Tile, f"__r{_name}__", _operator(_ufunc, swapped=True))
for _name, _ufunc in {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
    "ne": "not_equal",
}.items():  # fmt: skip
    setattr(Tile, f"__{_name}__", _operator(_ufunc))


def element_of(dtype: Any) -> DType:
    """The element type of a NumPy dtype; UserError (MC0195) where there is none."""
    element = from_numpy(dtype)
    if element is None:
        wrong("MC0195", f"no element type stores NumPy's {np.dtype(dtype)}")
    return element


def extents_of(shape: Sequence[int] | int) -> Shape:
    """The extents of a tile or of scratch; UserError (MC0194) where one is no number."""
    extents = (shape,) if isinstance(shape, int | Index) else tuple(shape)
    for n in extents:
        if not isinstance(n, int) or n < 1:
            wrong("MC0194", f"an extent is {n!r}, and it must be a number of at least 1")
    return extents


def emitted(op: type[Op], *args: Any, **attrs: Any) -> Tile:
    """The tile that an op gives."""
    recording = current()
    value = recording.emit(op, *args, **attrs)
    return Tile(value, recording.scope, value.type)


def constant(number: Any, element: DType, shape: Shape) -> Tile:
    """A tile that holds one number."""
    with np.errstate(over="ignore"):
        literal = Literal(np.asarray(number, element.numpy))
    return emitted(arith.Constant, value=literal, shape=shape)


def tile_of(x: Any, element: DType, rank: int = 0) -> Tile:
    """A tile as it is, a number or index as a tile of one element with so many axes."""
    if isinstance(x, Tile):
        return x
    if isinstance(x, Index):
        values, (at,) = current().addressed([x.dim])
        made = emitted(kernel.Coordinate, values, value=at, shape=(1,) * rank)
        return made.astype(element.numpy)
    if np.ndim(x) or not isinstance(x, int | float | np.generic | bool | np.ndarray):
        wrong("MC0195", f"a {type(x).__name__} meets a tile", "numbers do, and what tl.load gives")
    return constant(x, element, (1,) * rank)


def _element(xs: Sequence[Any]) -> DType:
    """The element type that NumPy has for operands of which numbers take what they meet."""
    tiles = [x.dtype for x in xs if isinstance(x, Tile)]
    found = np.result_type(*tiles) if tiles else np.dtype(np.float32)
    if any(isinstance(x, float | np.floating) for x in xs) and found.kind not in "fV":
        return F32
    return element_of(found)


def apply(ufunc: str, *args: Any) -> Tile:
    """What a ufunc gives for tiles and numbers."""
    if ufunc == "square":
        return apply("multiply", args[0], args[0])
    if ufunc == "reciprocal":
        return apply("true_divide", 1, args[0])
    if ufunc not in _UFUNCS:
        _unknown(ufunc)
    for way, (x, *others) in ((ufunc, args), (_TURNED.get(ufunc, ""), args[::-1])):
        known = x.placed(way, others[0]) if way and others and isinstance(x, Tile) else None
        if known is not None:
            return known
    element = _element(args)
    if ufunc in _FLOATS and not element.is_float:
        element = F32
    if ufunc.startswith("logical"):
        element = BOOL
    tiles = tiles_of(args, element)
    if ufunc in _SWAPPED:
        tiles.reverse()
    return emitted(_UFUNCS[ufunc], *level(tiles))


def tiles_of(xs: Sequence[Any], element: DType) -> list[Tile]:
    """Operands of an op as tiles of one element type."""
    rank = max((x.ndim for x in xs if isinstance(x, Tile)), default=0)
    return [tile_of(x, element, rank).astype(element.numpy) for x in xs]


def level(tiles: Sequence[Tile]) -> list[Value]:
    """The values of tiles, all with as many axes as the one with the most."""
    rank = max(t.ndim for t in tiles)
    return [reshaped(t, (1,) * (rank - t.ndim) + t.shape).value for t in tiles]


def reshaped(tile: Tile, shape: Shape) -> Tile:
    """The same elements under another shape, of which one extent may be -1."""
    count = prod(tile.shape)
    if shape.count(-1) == 1:
        rest = -prod(shape)
        shape = tuple(count // rest if n == -1 and rest else n for n in shape)
    if shape == tile.shape:
        return tile
    return emitted(kernel.Reshape, tile.value, shape=shape)


def broadcast(tile: Tile, shape: Shape) -> Tile:
    """The tile repeated to a shape."""
    if len(shape) < tile.ndim:
        wrong("MC0191", f"{tile} does not broadcast to {list(shape)}")
    lifted = reshaped(tile, (1,) * (len(shape) - tile.ndim) + tile.shape)
    return lifted if lifted.shape == shape else emitted(kernel.Broadcast, lifted.value, shape=shape)


def reduced(x: Tile, combine: str, axis: Any, keepdims: bool) -> Tile:
    """A tile combined along axes."""
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    made = x
    if not all(isinstance(a, int) and -x.ndim <= a < x.ndim for a in axes):
        wrong("MC0191", f"{x} has no axis {axis}")
    for a in axes:
        if x.shape[a] == 1:
            continue
        made = emitted(kernel.Reduce, made.value, axis=a % x.ndim, combine=combine)
    if keepdims:
        return made
    gone = {a % x.ndim for a in axes}
    return reshaped(made, tuple(n for k, n in enumerate(x.shape) if k not in gone))


def where(condition: Any, a: Any, b: Any) -> Tile:
    """`a` where the condition holds, `b` elsewhere."""
    element = _element([a, b])
    tiles = [tile_of(condition, BOOL).astype(np.bool_), *tiles_of((a, b), element)]
    return emitted(arith.Select, *level(tiles))


def clip(x: Tile, low: Any, high: Any) -> Tile:
    """The elements, none below the first bound or above the second, each of which may be None."""
    made = x if low is None else apply("maximum", x, low)
    return made if high is None else apply("minimum", made, high)


def rounded(x: Tile, decimals: int = 0) -> Tile:
    """The whole number next to each element, of two the even one."""
    if decimals:
        wrong("MC0195", f"np.round to {decimals} digits", "np.rint(x * 100) / 100 has two")
    return apply("rint", x) if x.element.is_float else x


def concatenate(tiles: Sequence[Tile], axis: int = 0) -> Tile:
    """Tiles one after the other along an axis."""
    return emitted(kernel.Concat, [t.value for t in tiles], axis=axis % tiles[0].ndim)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": Tile.sum,
    "max": Tile.max,
    "amax": Tile.max,
    "min": Tile.min,
    "amin": Tile.min,
    "prod": Tile.prod,
    "any": Tile.any,
    "all": Tile.all,
    "mean": Tile.mean,
    "clip": clip,
    "round": rounded,
    "around": rounded,
    "where": where,
    "reshape": Tile.reshape,
    "broadcast_to": broadcast,
    "concatenate": concatenate,
}


def _part(x: Tile, key: Any) -> Tile:
    """A part of a tile, where places are numbers; None makes an axis."""
    keys = list(key) if isinstance(key, tuple) else [key]
    places = [k for k, item in enumerate(keys) if item is Ellipsis] or [len(keys)]
    at = places[0]
    given = sum(k is not None and k is not Ellipsis for k in keys)
    keys[at : at + 1] = [slice(None)] * (x.ndim - given)
    made, shape, axis = x, list[int](), 0
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        if axis >= x.ndim:
            wrong("MC0191", f"{x} has not as many axes as are asked for")
        n = x.shape[axis]
        if isinstance(k, slice):
            start, stop, step = k.indices(n)
            if step != 1:
                wrong("MC0195", "a part of a tile has no step; loads have")
            shape.append(max(stop - start, 0))
        elif isinstance(k, int) and -n <= k < n:
            start, stop = k % n, k % n + 1
        else:
            wrong("MC0195", f"{x} at {k!r}", "parts of tiles are at numbers; those of buffers move")
        if stop - start != n:
            made = emitted(kernel.Slice, made.value, axis=axis, start=start, size=stop - start)
        axis += 1
    return reshaped(made, tuple(shape))
