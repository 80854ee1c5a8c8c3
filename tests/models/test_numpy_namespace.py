"""All of NumPy's public functions, called with whatever they accept: results are NumPy's."""

import contextlib
import io
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from minicc.frontends.trace import GivenUp, Parameters, Path, Tree, trace_values
from minicc.ir.core import Module
from minicc.ir.interpret import Interpreter

# Settings, files, and what is no function of arrays.
APART = {
    "test", "show_config", "info", "show_runtime", "set_printoptions", "printoptions", "setbufsize",
    "seterr", "seterrcall", "getbufsize", "geterr", "geterrcall", "get_include", "get_printoptions",
    "frombuffer", "fromiter", "fromstring", "fromfile", "fromregex", "fromfunction", "from_dlpack",
    "load", "save", "savetxt", "savez", "savez_compressed", "loadtxt", "genfromtxt", "nested_iters",
    "empty", "empty_like", "bmat", "asmatrix", "mask_indices", "may_share_memory", "shares_memory",
}  # fmt: skip
# Where the outcome is open: unsorted vectors searched, the order of equal elements, 1 // 0.
OPEN = {"searchsorted", "argsort", "argpartition", "reciprocal"}
rng = np.random.default_rng(0)
A, V = rng.standard_normal((4, 4)), rng.standard_normal(6)
N, B = rng.integers(1, 5, 6), V > 0
CALLS: dict[str, tuple[Any, ...]] = {
    "a": (A,), "v": (V,), "n": (N,), "b": (B,), "a a": (A, A), "v v": (V, V), "n n": (N, N),
    "v 2": (V, 2), "a row": (A, A[0]), "[v v]": ([V, V],), "[a a]": ([A, A],), "a 0": (A, 0),
    "a 1 0": (A, 1, 0),
}  # fmt: skip
SEEN = (np.ndarray, np.generic, tuple, list, int, float, str, type(None))
NAMES = [
    f"{prefix}{name}"
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft))
    for name in sorted(dir(module))
    if not name.startswith("_")
    and callable(getattr(module, name))
    and not isinstance(getattr(module, name), type)
    and name not in APART | OPEN
]


class Interpreted:
    donated: Sequence[tuple[int, int]] = ()
    sure = False

    def __init__(self, module: Module) -> None:
        self.module = module

    def run(self, inputs: Any, *, into: Any = None) -> list[Any]:
        body = self.module.main.body
        return [np.asarray(a) for a in Interpreter(self.module).region(body, inputs, {})]

    def ready(self, shapes: Any) -> Any:
        return self.run


def outcome(f: Any, args: tuple[Any, ...]) -> Any:
    parameters = Parameters(f)
    values = parameters.bind(args, {})
    _, arrays, _ = parameters.key(values)
    path = Path(Tree(), arrays, lambda module, text, light: Interpreted(module))
    try:
        traced = trace_values(f, parameters, values, path)
    except GivenUp:
        return f(*args)  # the function is left to NumPy, as one that gives a view
    if traced.module is None:
        return traced.result
    return traced.rebuild(Interpreted(traced.module).run(arrays), arrays)


def copies(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(map(copies, x))
    return x.copy() if isinstance(x, np.ndarray) else x


def same(got: Any, want: Any) -> None:
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
    elif isinstance(want, (np.ndarray, np.generic)):
        assert np.asarray(got).dtype == want.dtype
        assert np.shape(got) == want.shape
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-7, atol=1e-9)
    else:
        assert type(got) is type(want)
        assert got == want


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_every_public_function(name: str) -> None:
    function: Any = np
    for part in name.split("."):
        function = getattr(function, part)
    for args in CALLS.values():
        letters = ", ".join("xyz"[: len(args)])
        f = eval(f"lambda {letters}: np.{name}({letters})", {"np": np})
        with np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
            mine, theirs = copies(args), copies(args)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    want = function(*theirs)
            except Exception:
                continue  # NumPy does not take these
            if not isinstance(want, SEEN):
                continue
            same(outcome(f, mine), want)
            same(mine, theirs)
