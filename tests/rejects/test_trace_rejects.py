"""What tracing refuses, with the whole text: code, reason, the user's line, what to do."""

import functools
import math
import random
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minicc.errors import MiniccError, UnsupportedError, UserError
from minicc.frontends.trace import Parameters, trace_call

COUNT = 0
WEIGHTS = np.ones(3)
GENERATOR = np.random.default_rng(0)
LEAKED: list[Any] = []
_CONTROL = (
    "np.where chooses element by element; Python control flow may depend on shapes and on "
    "arguments that are no arrays"
)


def refused(f: Callable[..., Any], *args: Any, line: int = 1) -> str:
    """The error's text without its place, which is the given line of the function."""
    with pytest.raises(MiniccError) as caught:
        trace_call(f, args or (np.ones((2, 3), np.float32),), {})
    place = f"test_trace_rejects.py:{f.__code__.co_firstlineno + line}"
    assert caught.value.where == (place,), caught.value
    return str(caught.value).replace(f"\n  at: {place}", "")


def test_value_dependent_control_flow() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        if y.sum() > 1:
            return y
        return x

    assert refused(f, line=2) == (
        "MC0240 not supported: a condition (if, while, and, or, not, bool()) needs the elements of "
        f"traced bool[] while the function is traced\n  hint: {_CONTROL}"
    )


def test_conversions_to_python_numbers() -> None:
    def as_int(x: Any) -> Any:
        return int(x[0, 0])

    def as_float(x: Any) -> Any:
        return math.sqrt(x[0, 0])

    def as_index(x: Any) -> Any:
        return [1, 2][x.astype(int)[0, 0]]

    def as_array(x: Any) -> Any:
        return np.fromiter(iter(x.__array__()), "f4")

    def as_item(x: Any) -> Any:
        return x[0, 0].item()

    for f, what in (
        (as_int, "int()"),
        (as_float, "float()"),
        (as_index, "a Python index or range()"),
        (as_array, "a function that is not traced"),
        (as_item, ".item()"),
    ):
        assert refused(f).startswith(f"MC0240 not supported: {what} needs the elements of traced ")


def test_shapes_that_do_not_fit() -> None:
    def f(x: Any) -> Any:
        return x + np.ones(4, np.float32)

    assert refused(f).startswith("operands could not be broadcast together with shapes (2,3) (4,) ")

    def g(x: Any) -> Any:
        return np.sum(x, axis=2)

    assert refused(g) == ("axis 2 is out of bounds for array of dimension 2")

    def h(x: Any) -> Any:
        return x @ x

    assert refused(h) == (
        "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
        "(n?,k),(k,m?)->(n?,m?) (size 2 is different from 3)"
    )

    def k(x: Any) -> Any:
        return x[5]

    assert refused(k) == ("index 5 is out of bounds for axis 0 with size 2")


def test_functions_without_a_counterpart() -> None:
    # what has no counterpart in the graph runs on the host, which such a trace does not
    def f(x: Any) -> Any:
        return np.unique(x)

    assert refused(f) == (
        "MC0241 not supported: np.unique is not traced\n  hint: write it with functions that are"
    )

    def h(x: Any) -> Any:
        return np.mean(x, mean=3)  # type: ignore[call-overload]

    assert refused(h) == (
        "MC0241 not supported: np.mean is not traced with these arguments: "
        "got an unexpected keyword argument 'mean'"
    )

    def k(x: Any) -> Any:
        return x.tobytes()

    assert refused(k) == "MC0241 not supported: ndarray.tobytes is not traced"

    def m(x: Any) -> Any:
        return np.apply_along_axis(sum, 0, x)

    assert refused(m) == (
        "MC0241 not supported: np.apply_along_axis is not traced\n"
        "  hint: write it with whole arrays, or as a loop"
    )


def test_randomness_clocks_and_files() -> None:
    hint = "\n  hint: pass its outcome as an argument"
    drawn = "can't be compiled: random numbers are drawn once, while tracing" + hint

    def f(x: Any) -> Any:
        return x + np.random.rand(3)

    assert refused(f) == f"MC0242 not supported: np.random.rand {drawn}"

    def g(x: Any) -> Any:
        return x + GENERATOR.normal()

    assert refused(g) == f"MC0242 not supported: GENERATOR.normal {drawn}"

    def h(x: Any) -> Any:
        return x * random.random()

    assert refused(h) == f"MC0242 not supported: random.random {drawn}"

    def k(x: Any) -> Any:
        return x * time.time()

    assert refused(k).startswith("MC0242 not supported: time.time can't be compiled: the clock")

    def m(x: Any) -> Any:
        return x + np.load("weights.npy")

    files = "can't be compiled: files are read and written while tracing alone" + hint
    assert refused(m) == f"MC0242 not supported: np.load {files}"

    def n(x: Any) -> Any:
        return x + len(open("weights.txt").read())

    assert refused(n) == f"MC0242 not supported: open() {files}"


def test_writes_to_what_is_not_the_functions_own() -> None:
    copy = "\n  hint: write to a .copy() of it and return that"

    def f(x: Any) -> Any:
        x[0] = 1
        return x

    assert refused(f) == f"MC0243 not supported: the argument `x` is written to{copy}"

    def g(x: Any) -> Any:
        row = x[0]
        row += 1
        return x

    assert refused(g, line=2) == f"MC0243 not supported: the argument `x` is written to{copy}"

    def h(x: Any) -> Any:
        WEIGHTS[:] = 0
        return x

    assert refused(h) == (f"MC0243 not supported: the captured array `WEIGHTS` is written to{copy}")

    def k(x: Any) -> Any:
        np.broadcast_to(x + 1, (4, 2, 3))[0] = 1
        return x

    assert refused(k) == "assignment destination is read-only"


def test_names_from_outside_are_not_bound_anew() -> None:
    def f(x: Any) -> Any:
        global COUNT
        COUNT += 1
        return x

    assert refused(f, line=2) == (
        "MC0244 not supported: `COUNT` from outside of the function is bound anew\n"
        "  hint: return the value"
    )
    calls = 0

    def g(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x

    assert refused(g, line=2).startswith("MC0244 not supported: `calls` from outside")
    assert COUNT == calls == 0


def test_containers_from_outside_are_not_changed() -> None:
    def f(x: Any) -> Any:
        LEAKED.append(x)
        return x

    assert refused(f, line=0) == (
        "MC0244 not supported: `LEAKED` from outside of the function is changed\n"
        "  hint: return what is to be kept"
    )
    assert not LEAKED

    def g(x: Any, cache: Any) -> Any:
        cache["x"] = x
        return x

    assert refused(g, np.ones(3), {}, line=0).startswith("MC0244 not supported: `cache` from")


def test_masks_and_index_arrays() -> None:
    def f(x: Any) -> Any:
        return x[x > 0]

    assert refused(f) == (
        "MC0246 not supported: an array is indexed by a mask that is not known while tracing, so "
        "that the result's shape depends on data\n"
        "  hint: np.where(mask, array, other) keeps the shape"
    )

    def h(x: Any) -> Any:
        u = x + 1
        u[u > 1] = x[0]
        return u

    assert refused(h, line=2) == (
        "MC0241 not supported: an assignment through a mask is not traced\n"
        "  hint: write it with functions that are"
    )


def test_loops_over_long_axes() -> None:
    def f(x: Any) -> Any:
        return {k: row + 1 for k, row in enumerate(x)}

    assert refused(f, np.ones((5000, 2))).startswith(
        "MC0247 not supported: a Python loop over the 5000 rows of traced float64[5000,2] would"
    )


def test_element_types() -> None:
    def f(x: Any) -> Any:
        return x + np.longdouble(1)

    long = np.dtype(np.longdouble)
    assert refused(f) == (
        f"MC0245 not supported: no element type stores NumPy's {long}\n"
        "  hint: numbers and booleans are supported"
    )
    with pytest.raises(UserError) as caught:
        trace_call(lambda x: x, (np.ones(2, long),), {})
    assert str(caught.value) == f"MC0181 error: argument x: no element type stores NumPy's {long}"


def test_integers_to_negative_powers() -> None:
    def f(x: Any) -> Any:
        return x**-1

    assert refused(f, np.arange(3)) == ("Integers to negative integer powers are not allowed.")


def test_arguments_and_results() -> None:
    def f(x: Any) -> Any:
        return object()

    with pytest.raises(UserError, match=r"MC0182 error: f returns a builtins.object \(result\)"):
        trace_call(f, (np.ones(2),), {})
    with pytest.raises(UserError, match="MC0182 error: g returns no array"):
        trace_call(_named("g", lambda x: None), (np.ones(2),), {})
    with pytest.raises(UserError, match=r"MC0148 error: f\(x: Any\) -> Any: missing a required"):
        Parameters(f).bind((), {})
    with pytest.raises(UserError, match=r"MC0181 error: x is a builtins\.object"):
        Parameters(f).key((object(),))


def _named(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    f.__name__ = name
    return f


def test_values_that_outlive_their_trace() -> None:
    holder = types.CellType()
    keep = functools.partial(setattr, holder, "cell_contents")
    trace_call(lambda x, keep: (keep(x), x)[1], (np.ones(2), keep), {})
    with pytest.raises(UserError, match="MC0183 error: a value of the trace of <lambda> is used"):
        holder.cell_contents + 1


def test_what_the_function_raises_itself_passes() -> None:
    def f(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        trace_call(f, (np.ones(2),), {})
    assert issubclass(UnsupportedError, MiniccError)
