"""One call of a NumPy function while tracing: by NumPy itself, or recorded, or left to the host.

A call without symbolic arrays is made by NumPy on the spot. Else the function's entry in
`registry.FUNCTIONS` records ops, and what has none, or is none of the forms that the entry knows,
becomes a break at which NumPy computes it (`host`). What NumPy or a type rule raises while tracing
becomes an error of NumPy's own type and text, which is a UserError (MC0180) too; what a call on the
host raises passes.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from minicc.errors import UnsupportedError, UserError
from minicc.frontends.trace.asked import MISTAKES, RAISED, lay_out, outcome_of, raised
from minicc.frontends.trace.functions.complex_numbers import ALIKE, OF_COMPLEX, is_complex
from minicc.frontends.trace.functions.masks import masked
from minicc.frontends.trace.host import on_host
from minicc.frontends.trace.layouts import laid
from minicc.frontends.trace.lens import Content
from minicc.frontends.trace.loops.extents import Extent, extents_among
from minicc.frontends.trace.loops.grown import as_argument
from minicc.frontends.trace.loops.indices import as_extents
from minicc.frontends.trace.mixed import differs, require_one_type
from minicc.frontends.trace.names import real_function, shown, ufunc_of, with_named_out
from minicc.frontends.trace.numbers import Number, has_term
from minicc.frontends.trace.python_types import PythonType
from minicc.frontends.trace.pytree import leaves, mapped
from minicc.frontends.trace.recorder import Recorder, native_element
from minicc.frontends.trace.registry import FUNCTIONS, VIEWS, WRITES, Dispatch, Implementation
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Array, Value
from minicc.ir.types import F64

# Calls that a compiled function would repeat with another outcome.
_FILES = "files are read and written while tracing alone"
DRAWN = "random numbers are drawn once, while tracing"
IMPURE = {"random": DRAWN}
for _names in (
    ("load", "save", "savez", "savez_compressed", "loadtxt", "savetxt", "genfromtxt"),
    ("fromfile", "fromregex", "memmap", "ndarray.tofile", "ndarray.dump", "lib.npyio.DataSource"),
):
    IMPURE.update(dict.fromkeys(_names, _FILES))
_HOSTED = ("MC0241", "MC0245", "MC0246")  # what is refused with these NumPy may do instead
_IGNORED = ("order", "subok", "like", "casting")  # arguments that leave the outcome's values alone
# Results of these without axes are arrays, those of others NumPy's scalars.
_ARRAYS = ("where", "array", "full", "full_like", "zeros_like", "ones_like", "tensordot",
           "asarray", "asanyarray")  # fmt: skip
_KEEPS = ("transpose", "ndarray.transpose", "squeeze", "swapaxes")  # scalars as what they are
# These take an index for the number that it is, not for a number of elements.
_OF_NUMBERS = ("where", "clip", "full_like", "array", "asarray", "__getitem__", "__setitem__")
# To these a number is the same whether it is Python's or NumPy's.
_OF_ARRAYS = ("__getitem__", "__setitem__", "array", "asarray", "asanyarray", "stack", "hstack",
              "vstack", "column_stack", "concatenate", "append", "full", "full_like")  # fmt: skip
_OF_MEMORY = ("shares_memory", "may_share_memory")  # which ask nothing of elements
_NUMBERS = "?bhilqBHILQefdFD"  # characters of types that a graph has; a long double is none
_TRIES = 4  # runs of an implementation that reads values
_CALLS_BACK = ("vectorize", "frompyfunc", "apply_along_axis", "apply_over_axes", "fromfunction")


def impurity(name: str) -> str:
    """Why a function of NumPy's can't be compiled; empty where its arguments tell its outcome."""
    return IMPURE.get(name) or IMPURE.get(name.partition(".")[0]) or ""


def refuse_impure(recorder: Recorder, name: str, reason: str) -> NoReturn:
    """UnsupportedError (MC0242) for a call whose outcome depends on more than its arguments."""
    recorder.refuse(
        "MC0242", f"{name} can't be compiled: {reason}", "pass its outcome as an argument"
    )


def call(recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The outcome of NumPy's function `name` (dotted, below `numpy`)."""
    if impurity(name):
        refuse_impure(recorder, f"np.{name}", impurity(name))
    args = tuple(map(as_argument, args))
    kwargs = {k: as_argument(a) for k, a in kwargs.items()}
    ufunc = ufunc_of(name)
    if ufunc is not None:
        name = ufunc.__name__  # of several names of one function
    if ufunc is not None and len(args) > ufunc.nin:
        kwargs = {**kwargs, "out": args[ufunc.nin :]}
        args = args[: ufunc.nin]
    args, kwargs = with_named_out(name, args, kwargs)
    if recorder.numbers and recorder.numbers.moving:
        args, kwargs = _settled(name, args, kwargs)
    if recorder.rounds.sizes and ufunc is None and name not in _OF_NUMBERS:
        args = tuple(map(as_extents, args))
        kwargs = {k: as_extents(a) for k, a in kwargs.items()}
    if ufunc is None:
        _require_one_type(name, args, kwargs)
    given = dict(kwargs)
    try:
        apart = masked(recorder, name, args, kwargs)
        if apart is not NotImplemented:
            return apart
        write = WRITES.get(name)
        if write is not None:
            return write(recorder, *args, **kwargs)
        out = kwargs.pop("out", None)
        where = kwargs.pop("where", True) if ufunc is not None else True
        result = _outcome(recorder, name, args, kwargs)
        if out is None:
            return result if where is True else _chosen(recorder, where, result, out)
        if ufunc is not None:
            if ufunc.signature is not None:
                _require_fits(result, out)
            result = _spread(recorder, result, out)
        if where is not True:
            result = _chosen(recorder, where, result, out)
        if ufunc is None and getattr(out, "dtype", None) != getattr(result, "dtype", None):
            own = raised(real_function(name), args, given, recorder.location())
            if own is not None:  # each function has its own rule of what it casts
                raise own
        return _into(recorder, out, result, name)
    except MISTAKES as error:
        # what is wrong with `out` comes first, and the host did not see it
        hosted = error is recorder.raised and given.get("out") is None and name not in WRITES
        nested = isinstance(error, UserError) and error.code == RAISED
        if hosted or (isinstance(error, UserError) and not nested):
            raise
        if recorder.rounds.sizes and any(map(_is_sized, leaves((args, given)))):
            recorder.write_out("NumPy raises for some sizes")  # of which others may be none
        own = raised(real_function(name), args, given, recorder.location())
        if own is not None:
            raise own from None
        reason = f"NumPy runs what is not traced: {error}"
        if recorder.path is None or name == "__setitem__" or name in WRITES or "out" in given:
            recorder.refuse("MC0241", reason)
        return _hosted(recorder, name, args, given, reason)


def _require_one_type(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise the error of a number that a function takes for another if it is Python's than NumPy's.

    Arrays of floats hold Python's int and NumPy's float alike.
    """
    stored = args[2] if name == "__setitem__" and args[0].dtype.kind in "fc" else None
    for leaf in leaves([args, kwargs]):
        if name not in _OF_ARRAYS or (differs(leaf) and leaf is not stored):
            require_one_type(leaf)


# Arguments that may be numbers of which only the compiled program knows the value.
_TAKE: dict[str, tuple[Any, ...]] = {
    "where": (1, 2, "x", "y"),
    "clip": (1, 2, "a_min", "a_max", "min", "max"),
    "full": (1, "fill_value"),
    "full_like": (1, "fill_value"),
    "array": (0, "object"),
    "asarray": (0, "a"),
    "stack": (0, "arrays"),
    "isclose": (0, 1),
    "linspace": (0, 1),
    "__setitem__": (2,),
}
_DTYPES = {"array": 1, "asarray": 1, "full": 2, "full_like": 2}  # where these take one


def _settled(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, where numbers that a function can't take as inputs are known ones."""
    ufunc = ufunc_of(name) is not None or name in ("where", "clip")
    into = kwargs.get("dtype", args[0].dtype if name in ("full_like", "__setitem__") else None)
    place = _DTYPES.get(name, len(args))
    into = args[place] if place < len(args) else into
    floats = into is None or np.dtype(into).kind in "fc"
    hosted = name not in FUNCTIONS and name not in WRITES and any(map(has_tracer, args))

    def known(place: Any, argument: Any) -> Any:
        takes = hosted or place in _TAKE.get(name, ()) or (ufunc and name not in _TAKE)

        def leaf(x: Any, path: str) -> Any:
            if isinstance(x, slice):
                return slice(*[leaf(e, "") for e in (x.start, x.stop, x.step)])
            if not has_term(x):
                return x
            exact = ufunc or (floats and (x.kind is not int or x.fits(F64)))
            return x if takes and exact else x.read(f"an argument of {name}")

        return mapped(leaf, argument)

    return (
        tuple([known(k, a) for k, a in enumerate(args)]),
        {k: known(k, a) for k, a in kwargs.items()},
    )


def _outcome(recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = (*args, *kwargs.values())
    if any(map(is_foreign, given)) and name not in _OF_MEMORY:
        seen = Dispatch.view(recorder, name, real_function(name), args, kwargs)
        if seen is not None:
            return seen
        if any(map(is_symbolic, given)):
            reason = "the graph has no element type for its arguments"
            return _hosted(recorder, name, args, kwargs, reason)
    if is_symbolic(given) and is_complex(given) and not _takes_complex(name, ufunc_of(name)):
        return _hosted(recorder, name, args, kwargs, "of complex numbers the graph has no such op")
    if name.startswith("__") or (name in VIEWS and args and isinstance(args[0], Tracer)):
        return record(recorder, name, args, kwargs)
    if any(map(is_symbolic, (*args, *kwargs.values()))):
        return record(recorder, name, args, kwargs)
    sizes = [n for a in given for n in extents_among(a)] if recorder.rounds.sizes else []
    if sizes and name in FUNCTIONS:
        return record(recorder, name, args, kwargs)
    if sizes:
        recorder.need(sizes[0].dim, f"np.{name}")
    return evaluate(name, args, kwargs, recorder)


def _takes_complex(name: str, ufunc: np.ufunc | None) -> bool:
    if ufunc is not None and name != "matmul":
        return name in OF_COMPLEX or name == "power"
    return name in ALIKE or name in VIEWS


def record(recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record the ops of a call that has symbolic arrays, or leave it to the host."""
    implementation = FUNCTIONS.get(name)
    if implementation is None:
        if name in _CALLS_BACK:
            recorder.refuse(
                "MC0241", f"np.{name} is not traced", "write it with whole arrays, or as a loop"
            )
        return _hosted(recorder, name, args, kwargs, "it has no counterpart in the graph")
    named = {k: v for k, v in kwargs.items() if k not in _IGNORED or k in _known(implementation)}
    try:
        try:
            result = _recorded(recorder, implementation, args, named)
        except TypeError:
            _require_takes(recorder, name, implementation, args, named)
            raise
        kept = (
            name.startswith("__")
            or name in VIEWS
            or name in _ARRAYS
            or any(result is a for a in args)
        )
        if (name in VIEWS or name == "__getitem__") and getattr(args[0], "scalar", False):
            result = _detached(recorder, result)  # nothing is written to a scalar
        if isinstance(result, Tracer) and not result.ndim and not kept:
            given = args[0] if name == "ndarray.astype" else None
            result.scalar = given is None or getattr(given, "scalar", True)
        elif isinstance(result, Tracer) and not result.ndim and name in _KEEPS:
            result.scalar = args[0].scalar
        ufunc = ufunc_of(name.partition(".")[0]) is not None
        picked = name == "__getitem__" and not _is_plain(args[1])
        typed = ufunc or (name.startswith("__") and not picked)
        if not lay_out(real_function(name), args, kwargs, result, typed):
            recorder.refuse("MC0241", "NumPy gives another type")
        return result
    except UnsupportedError as error:
        if error.code not in _HOSTED or recorder.path is None:
            raise
        if recorder.refused is error:  # and no earlier one, which the function caught
            recorder.refused = None
        return _hosted(recorder, name, args, kwargs, error.message)


def _require_takes(
    recorder: Recorder,
    name: str,
    implementation: Implementation,
    args: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    """UnsupportedError (MC0241) where an implementation does not take such arguments."""
    try:
        _signature(implementation).bind(recorder, *args, **named)
    except TypeError as error:
        what = f"{shown(name)} is not traced with these arguments: {error}"
        recorder.refuse("MC0241", what)


def _hosted(
    recorder: Recorder, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str
) -> Any:
    """What NumPy computes."""
    return on_host(recorder, shown(name), real_function(name), args, kwargs, reason)


def _is_plain(index: Any) -> bool:
    """Whether an index has no arrays, so that it makes a view."""
    if isinstance(index, tuple):
        return all(map(_is_plain, index))
    return not isinstance(index, (list, np.ndarray, Tracer))


def _detached(recorder: Recorder, result: Any) -> Any:
    """What a function gives of a scalar: not a view of it."""
    if isinstance(result, (list, tuple)):
        return type(result)([_detached(recorder, r) for r in result])
    is_view = isinstance(result, Tracer) and result.looks_at() is not None
    return Tracer(recorder, result.content) if is_view else result


def _recorded(
    recorder: Recorder, implementation: Implementation, args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """The outcome of an implementation.

    Where it read a value on its way, the graph's values that it took before are gone; it runs again
    then, and what was read is known.
    """
    for _ in range(_TRIES):
        before = recorder.path.breaks if recorder.path is not None else 0
        result = implementation(recorder, *args, **named)
        again = recorder.path is not None and recorder.path.breaks != before
        if not (again and _holds_values(result)):
            return _boxed(recorder, result)
    recorder.refuse("MC0241", "it reads its arguments' values")


def _is_sized(x: Any) -> bool:
    """Whether it is an array of which an extent is a symbol."""
    return isinstance(x, Tracer) and any(type(n) is Extent for n in x.shape)


def _holds_values(x: Any) -> bool:
    return isinstance(x, Value) or (type(x) in (list, tuple) and any(map(_holds_values, x)))


def _known(implementation: Implementation) -> Any:
    return _signature(implementation).parameters


@lru_cache(512)
def _signature(implementation: Implementation) -> inspect.Signature:
    return inspect.signature(implementation)


def _boxed(recorder: Recorder, result: Any) -> Any:
    if isinstance(result, Value):
        return Tracer(recorder, result)
    if type(result) in (list, tuple):
        return type(result)([_boxed(recorder, r) for r in result])
    return result


def evaluate(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], recorder: Recorder) -> Any:
    """NumPy's own outcome for arguments that are known; arrays come back as constant tracers."""
    owners: list[Array] = []
    plain = [_plain(a, owners) for a in args]
    named = {k: _plain(a, owners) for k, a in kwargs.items()}
    result = outcome_of(name, real_function(name), plain, named)
    parts = result if isinstance(result, (list, tuple)) else (result,)
    if any(_shares(p, a) for p in parts for a in owners):
        if name not in FUNCTIONS:
            recorder.give_up(f"{shown(name)} gives a view")
        return record(recorder, name, args, kwargs)  # which makes views
    return _wrapped(recorder, result, owners)


def _shares(part: Any, array: Array) -> bool:
    return isinstance(part, np.ndarray) and np.may_share_memory(part, array)


def _plain(x: Any, owners: list[Array]) -> Any:
    """An argument without tracers; arrays can't be written to, for other boxes may hold them."""
    if isinstance(x, Tracer):
        array = x.constant("NumPy").view()
        array.flags.writeable = False
        owners.append(array)
        return array
    if type(x) is PythonType:
        return x.real
    if isinstance(x, (list, tuple)) and any(map(has_tracer, x)):
        return type(x)([_plain(e, owners) for e in x])
    return getattr(x, "real_function", x)


def has_tracer(x: Any) -> bool:
    """Whether an argument is, or holds, a traced array."""
    return isinstance(x, Tracer) or (isinstance(x, (list, tuple)) and any(map(has_tracer, x)))


def is_symbolic(x: Any) -> bool:
    """Whether an argument is, or holds, an array that is not known while tracing."""
    if isinstance(x, Tracer):
        return x.symbolic
    if isinstance(x, Number):
        return True
    return isinstance(x, (list, tuple)) and any(map(is_symbolic, x))


def is_foreign(x: Any) -> bool:
    """Whether an argument is, or holds, a traced array of an element type that no graph has."""
    if isinstance(x, Tracer):
        known = x.dtype.char in _NUMBERS and x.dtype.isnative
        return not known and native_element(x.dtype) is None
    return isinstance(x, (list, tuple)) and any(map(is_foreign, x))


def _wrapped(recorder: Recorder, result: Any, owners: list[Array]) -> Any:
    if isinstance(result, np.ndarray):
        # an empty view shares no memory, and is read-only as what it is a view of is here
        shared = not result.size or any(_shares(result, a) for a in owners)
        box = Tracer(recorder, result.copy() if shared else result)
        if not result.flags.c_contiguous:
            box.lies(result.strides)
        if not result.flags.writeable and not shared:
            # memory of another object, as of bytes: a view that NumPy gives to be read
            return Dispatch.call(recorder, "broadcast_to", (box, box.shape), {})
        return box
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[_wrapped(recorder, r, owners) for r in result])
    if isinstance(result, (list, tuple)):  # in which one array may stand twice
        made = {id(r): _wrapped(recorder, r, owners) for r in result}
        return type(result)([made[id(r)] for r in result])
    return result


def content_of(recorder: Recorder, x: Any) -> Content:
    """What an array-like argument holds: a value of the graph, or a NumPy array."""
    if isinstance(x, Tracer):
        return x.content
    if isinstance(x, Number):
        return x.box.content
    if isinstance(x, (list, tuple)) and is_symbolic(x):
        whole = recorder.whole_of(x)
        return whole or value_of(recorder, Dispatch.call(recorder, "stack", (list(x),), {}))
    return np.asarray(x)


def value_of(recorder: Recorder, x: Any) -> Value:
    """An array-like argument as a value of the graph."""
    content = content_of(recorder, x)
    return content if isinstance(content, Value) else recorder.lift(content)


def _chosen(recorder: Recorder, where: Any, result: Any, out: Any) -> Any:
    """A ufunc's result where it is wanted, elsewhere what `out` holds, zeros without it."""
    if getattr(where, "dtype", np.dtype(bool)).kind != "b":
        raise TypeError("a mask is of truth values")
    rest = out[0] if isinstance(out, tuple) else out
    if rest is None:
        rest = np.zeros((), result.dtype)
    return call(recorder, "where", (where, result, rest), {})


def _require_fits(result: Any, out: Any) -> None:
    """Raise what NumPy raises where a product's axes are not the last ones of its `out`."""
    before = max(np.ndim(out) - np.ndim(result), 0)
    if np.shape(out)[before:] != np.shape(result):
        raise ValueError("a product is of another shape than its out")


def _spread(recorder: Recorder, result: Any, out: Any) -> Any:
    """A ufunc's result repeated to the shape of the array that it is written to."""
    shape = getattr(out[0] if isinstance(out, tuple) and len(out) == 1 else out, "shape", None)
    if shape is None or shape == np.shape(result):
        return result
    if np.broadcast_shapes(np.shape(result), shape) != shape:
        return result
    return call(recorder, "broadcast_to", (result, shape), {})


def _into(recorder: Recorder, out: Any, result: Any, name: str = "") -> Any:
    """Write a result into the array given as `out`, which is then the call's outcome."""
    if isinstance(out, tuple):
        if len(out) > 1:
            pairs = zip(out, result, strict=True)
            return tuple([r if o is None else _into(recorder, o, r) for o, r in pairs])
        if isinstance(result, tuple):
            return (_into(recorder, out[0], result[0]), *result[1:])
        out = out[0]
        if out is None:
            return result
    if isinstance(out, np.generic) or (isinstance(out, Tracer) and out.scalar):
        raise TypeError("return arrays must be of ArrayType")
    if not isinstance(out, Tracer):
        recorder.refuse("MC0243", "out= is an array from outside of the function")
    rows = out.shadow().flags.c_contiguous
    if name in ("dot", "linalg.multi_dot") and not (rows and out.dtype == result.dtype):
        raise ValueError("the array does not lie row by row, or is of another type")
    shape = np.shape(result) if not isinstance(result, Tracer) else result.shape
    dtype = result.dtype if isinstance(result, Tracer) else np.asarray(result).dtype
    if shape != out.shape:
        raise ValueError(f"a result of shape {shape} does not fit the array {out!r}")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(f"a result of {dtype} is not written into {out!r}")
    if is_foreign(out) or is_foreign(result):
        out[...] = result
    elif is_symbolic(result):
        out.assign(recorder.cast(result.value(), recorder.dtype(out.dtype)))
    else:
        known = laid(out.shape, out.dtype, out.shadow().strides)
        known[...] = _plain(result, [])
        out.assign(known)
    return out


Dispatch.call = call
