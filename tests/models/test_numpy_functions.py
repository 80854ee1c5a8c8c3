"""Functions of NumPy as they are called: values, shapes and element types are NumPy's."""

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sweeps import examples

import minicc
from minicc.frontends.trace import Parameters, Path, Tree, trace_values
from minicc.ir.core import Module
from minicc.ir.interpret import Interpreter

Function = Callable[..., Any]


class Interpreted:
    """A segment that the interpreter runs."""

    donated: Sequence[tuple[int, int]] = ()
    sure = False

    def __init__(self, module: Module) -> None:
        self.module = module

    def run(self, inputs: Any, *, into: Any = None) -> list[Any]:
        body = self.module.main.body
        return [np.asarray(a) for a in Interpreter(self.module).region(body, inputs, {})]

    def ready(self, shapes: Any) -> Any:
        return self.run


def call(f: Function, *args: Any) -> tuple[Any, int]:
    """The traced function's result, and how many breaks it has."""
    parameters = Parameters(f)
    values = parameters.bind(args, {})
    _, arrays, _ = parameters.key(values)
    path = Path(Tree(), arrays, lambda module, text, light: Interpreted(module))
    traced = trace_values(f, parameters, values, path)
    if traced.module is None:
        return traced.result, path.breaks
    return traced.rebuild(Interpreted(traced.module).run(arrays), arrays), 0


def same(got: Any, want: Any, rtol: float) -> None:
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol)
        return
    if isinstance(want, (np.ndarray, np.generic)):
        have, wanted = np.asarray(got), np.asarray(want)
        assert have.dtype == wanted.dtype
        assert have.shape == wanted.shape
        if wanted.dtype.kind in "fc":
            loose = {2: 1e4, 4: 1.0, 8: 1e-5}.get(wanted.dtype.itemsize, 1e-5) * rtol
            np.testing.assert_allclose(have, wanted, rtol=loose, atol=loose)
        else:
            np.testing.assert_array_equal(have, wanted)
        return
    assert type(got) is type(want)
    assert got == want


def check(f: Function, *args: Any, rtol: float = 3e-6) -> int:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = f(*[a.copy() if isinstance(a, np.ndarray) else a for a in args])
    got, breaks = call(f, *args)
    same(got, want, rtol)
    return breaks


def sample(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -9, 9, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


# Compiled, without a break; x is [3,4,5].
COMPILED: list[Function] = [
    lambda x: np.cumsum(x, 1), lambda x: np.cumsum(x), lambda x: np.cumprod(x, -1),
    lambda x: x.cumsum(0), lambda x: np.add.accumulate(x), lambda x: np.maximum.accumulate(x, 1),
    lambda x: np.diff(x), lambda x: np.diff(x, 2, 1), lambda x: np.diff(x, prepend=0),
    lambda x: np.diff(x, axis=0, append=x[:1]), lambda x: np.sort(x), lambda x: np.sort(x, 0),
    lambda x: np.sort(x, None), lambda x: np.argsort(x, kind="stable"), lambda x: np.median(x),
    lambda x: np.median(x, axis=(0, 2)), lambda x: np.median(x, 1, keepdims=True),
    lambda x: np.percentile(x, 30), lambda x: np.percentile(x, [5, 50, 95], axis=1),
    lambda x: np.quantile(x, 0.3, axis=(0, 1)), lambda x: np.quantile(x, 0.8, keepdims=True),
    lambda x: np.searchsorted(np.arange(-2, 3), x), lambda x: np.digitize(x, [-1, 0, 1]),
    lambda x: np.mean(x, axis=(0, 2)), lambda x: np.var(x, (0, 1), ddof=1),
    lambda x: np.std(x, keepdims=True), lambda x: np.mean(x, where=x > 0),
    lambda x: np.var(x, 0, where=x > -1), lambda x: np.sum(x, 1, initial=5),
    lambda x: np.max(x, 0, initial=1), lambda x: np.min(x, where=x > 0, initial=9),
    lambda x: np.any(x, 0, where=x > 0), lambda x: np.all(x, where=x < 9),
    lambda x: np.prod(x, (1, 2), initial=2), lambda x: np.average(x, 1),
    lambda x: np.average(x, axis=2, weights=[1, 2, 3, 4, 5]),
    lambda x: np.average(x, weights=np.abs(x) + 1, returned=True),
    lambda x: np.cov(x[0]), lambda x: np.corrcoef(x[0]), lambda x: np.cov(x[0, 0], x[1, 0]),
    lambda x: np.kron(x[0], x[1, :2]), lambda x: np.cross(x[0, :, :3], x[1, :, 1:4]),
    lambda x: np.diag(x[0]), lambda x: np.diag(x[0, 0], 1), lambda x: np.diag(x[0, 0], -2),
    lambda x: np.diagflat(x[0, :2]), lambda x: np.vander(x[0, 0]), lambda x: np.trace(x[0], 1),
    lambda x: np.vander(x[0, 0], 3, increasing=True), lambda x: np.polyval([2, 0, 1], x),
    lambda x: np.trapezoid(x, dx=0.5), lambda x: np.trapezoid(x, np.arange(4.0), axis=1),
    lambda x: np.gradient(x, 2.0, axis=1), lambda x: np.gradient(x[0]), lambda x: np.ediff1d(x),
    lambda x: np.meshgrid(x[0, 0], x[0, 1]), lambda x: np.meshgrid(x[0, 0], [1, 2], indexing="ij"),
    lambda x: np.resize(x, (2, 7)), lambda x: np.dstack([x[0], x[1]]), lambda x: np.rot90(x, 3),
    lambda x: np.block([[x[0], x[1]], [x[2], x[0]]]), lambda x: np.convolve(x[0, 0], x[1, 0, :3]),
    lambda x: np.convolve(x[0, 0], [1, 2], "same"), lambda x: np.correlate(x[0, 0], [1, 2, 3]),
    lambda x: np.convolve(x[0, 0], x[1, 0, :2], "valid"), lambda x: np.isin(x, [1, 2, 3]),
    lambda x: np.select([x > 1, x < -1], [x, -x], 7),
    lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, axis=2),
    lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(1, 2)).max(axis=(3, 4)),
    lambda x: np.lib.stride_tricks.sliding_window_view(x, x.shape[2], axis=2) * 2,
    lambda x: np.lib.stride_tricks.sliding_window_view(x.ravel(), 20) @ np.arange(20),
    lambda x: np.lib.stride_tricks.sliding_window_view(x[0], (2, 2)),
    lambda x: np.linalg.matrix_power(x[:, :, :4], 3), lambda x: np.einsum("iij->j", x[:, :3]),
    lambda x: np.einsum("ii->i", x[0][:, :4]), lambda x: np.einsum("iij->ij", x[:, :3]),
    lambda x: np.einsum(x, [0, 1, 2], x, [0, 1, 3], [0, 2, 3]), lambda x: np.flip(x, (0, 1)),
    lambda x: np.einsum("...ij->...ji", x), lambda x: np.einsum("ijk,ijk->", x, x),
    lambda x: np.linalg.multi_dot([x[0], x[1].T, x[2]]), lambda x: np.unstack(x, axis=1),
    lambda x: np.pad(x, 1, "edge"), lambda x: np.pad(x, 2, "reflect"), lambda x: np.ptp(x, 1),
    lambda x: np.pad(x, ((1, 2), (0, 0), (2, 1)), mode="symmetric"), lambda x: np.fliplr(x),
    lambda x: np.pad(x, 2, "wrap"), lambda x: np.repeat(x, [1, 0, 2], axis=0),
    lambda x: np.roll(x, 2, axis=1), lambda x: np.tile(x, (2, 1)), lambda x: np.rollaxis(x, 2),
    lambda x: np.moveaxis(x, [0, 1], [1, 2]), lambda x: np.array_split(x, 2, axis=1),
    lambda x: np.hsplit(x, 2), lambda x: np.dsplit(x, [2]), lambda x: np.atleast_3d(x[0]),
    lambda x: np.take_along_axis(x, np.argsort(x, axis=1, kind="stable"), axis=1),
    lambda x: np.reshape(x, (5, 12), order="F"), lambda x: x.ravel(order="F"), lambda x: x.real,
    lambda x: np.nan_to_num(x / np.where(x > 0, x, 0)), lambda x: np.logical_or.reduce(x, 1),
    lambda x: np.isclose(x, x + 1e-7), lambda x: np.minimum.reduce(x, axis=(0, 1)),
    lambda x: np.divmod(x, 3), lambda x: divmod(x, 2), lambda x: np.modf(x), lambda x: x.T.T[0],
    lambda x: np.clip(x, np.zeros(5, x.dtype), None), lambda x: x.clip(min=0), lambda x: -x[::-1],
    lambda x: np.where(x > 0, x, 0), lambda x: np.where(x > 0, x, np.float32(2)),
    lambda x: x[..., 1],
    lambda x: np.count_nonzero(x, axis=1), lambda x: np.float32(x[0, 0, 0]) * 2,
    lambda x: x[x.ndim - 2],
    lambda x: np.linspace(x[0, 0, 0], 2, 5), lambda x: np.full((2, 3), x[0, 0, 0]),
    lambda x: x.copy(),
    lambda x: np.concatenate([x, np.zeros((3, 4, 1))], axis=-1),
    lambda x: np.array([x[0, 0, 0], 1.5]),
    lambda x: np.asarray(x, dtype=float), lambda x: x.astype(int), lambda x: np.sum(x, dtype=float),
    lambda x: np.arange(x.shape[1]) + x[0, :, 0], lambda x: np.broadcast_arrays(x, x[0])[1],
    lambda x: np.inner(x[0], x[1]), lambda x: np.vdot(x[0], x[1]), lambda x: np.dot(x, x[0].T),
    lambda x: np.r_[x[0, 0], 1, 2:5, x[0, 1]], lambda x: np.c_[x[0, 0], 1:6, x[1, :2].T],
    lambda x: np.r_[x, x], lambda x: np.c_[x, x], lambda x: np.r_[x[0, 0, 0], 0:1:3j],
    lambda x: np.matvec(x, x[0, 0]), lambda x: np.vecdot(x, x), lambda x: np.linalg.norm(x),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(COMPILED)))
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "?"])
def test_compiled_functions(k: int, dtype: str) -> None:
    x = sample((3, 4, 5), dtype)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            COMPILED[k](x)
    except (TypeError, ValueError, np.exceptions.AxisError):
        pytest.skip("NumPy does not compute it")
    breaks = check(COMPILED[k], x, rtol=3e-5)
    assert not breaks


@pytest.mark.parametrize(
    "f", [lambda x: np.unstack(x + 1)[0], lambda x: np.broadcast_arrays(x[0], 2.0)[0]]
)
def test_elements_and_arrays_without_axes(f: Function) -> None:
    x = sample((3,), "f8")
    got, wanted = minicc.jit(f)(x), f(x)
    assert type(got) is type(wanted)
    assert got == wanted


NAN: list[Function] = [
    lambda x: np.nansum(x, 1), lambda x: np.nanprod(x), lambda x: np.nanmax(x, axis=0),
    lambda x: np.nanmin(x), lambda x: np.nanmean(x, 1), lambda x: np.nanvar(x, axis=(0, 1)),
    lambda x: np.nanstd(x, 0, ddof=1), lambda x: np.nancumsum(x, 1), lambda x: np.max(x, 0),
    lambda x: np.nan_to_num(x), lambda x: np.nan_to_num(x, nan=1, posinf=2), lambda x: np.sort(x),
    lambda x: np.median(x, 1), lambda x: np.percentile(x, 50, axis=0), lambda x: np.argmax(x, 1),
    lambda x: np.isclose(x, x, equal_nan=True), lambda x: np.fmax(x, 0), lambda x: np.argmin(x),
    lambda x: np.searchsorted([0.0, 1.0], x), lambda x: np.sign(x), lambda x: np.maximum(x, 0),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(NAN)))
def test_nan(k: int) -> None:
    x = sample((4, 6), "f4")
    x[0, 1] = x[2, 3] = x[2, 0] = np.nan
    check(NAN[k], x, rtol=1e-5)


# Computed by NumPy at a break.
HOSTED: list[Function] = [
    lambda x: np.unique(x), lambda x: np.histogram(x, [0, 1, 3]),
    lambda x: np.interp(x, [0, 1], [2, 3]),
    lambda x: np.linalg.inv(x[0, :3, :3] + 4 * np.eye(3)) @ x[0, :3], lambda x: np.nonzero(x > 0),
    lambda x: np.linalg.svd(x[0], compute_uv=False), lambda x: np.argwhere(x > 1),
    lambda x: np.linalg.qr(x[0])[1], lambda x: np.abs(np.fft.fft(x, 67)),
    lambda x: np.flatnonzero(x),
    lambda x: np.bincount(np.abs(x.astype(int)).ravel()), lambda x: x[x > 0],
    lambda x: np.pad(x, 1, "linear_ramp"), lambda x: np.frexp(x), lambda x: np.spacing(x),
    lambda x: np.unwrap(x), lambda x: np.compress([True, False, True], x, axis=0),
    lambda x: np.extract(x > 0, x), lambda x: np.delete(x, [1, 2], axis=0),
    lambda x: np.insert(x, 1, 5, axis=1), lambda x: np.lexsort((x[0, 0], x[0, 1])),
    lambda x: np.percentile(x, 40, method="lower"), lambda x: np.nanmedian(x),
    lambda x: np.roots(x[0, 0]), lambda x: np.polyfit(np.arange(5.0), x[0, 0], 2),
    lambda x: np.gcd(x.astype(int), 4),
    lambda x: np.where(x > 0), lambda x: np.intersect1d(x, [0.0]),
    lambda x: x[0].tobytes(),
    lambda x: x.tolist(), lambda x: np.array2string(x[0, 0]),
    lambda x: np.lcm.reduce(np.arange(1, 4) + 0 * x[0, 0].astype(int)[:3]),
    lambda x: np.linalg.slogdet(x[0, :3, :3] + np.eye(3))[1],
    lambda x: np.geomspace(1, x[0, 0, 0] ** 2 + 2, 4),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(HOSTED)))
def test_what_numpy_computes(k: int) -> None:
    assert check(HOSTED[k], sample((3, 4, 5), "f8"), rtol=1e-4) > 0


UFUNCS = [
    name
    for name in dir(np)
    if isinstance(getattr(np, name), np.ufunc) and getattr(np, name).signature is None
]
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
SCALARS: list[Any] = [True, 2, -1, 300, 0.5, 1e30, np.float32(2), np.int8(3), np.float64(0.5)]


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(UFUNCS), st.data())
def test_promotion_of_every_ufunc(name: str, data: st.DataObject) -> None:
    ufunc = getattr(np, name)
    first = sample((2, 3), data.draw(st.sampled_from(DTYPES)), 1)
    if name == "reciprocal" and first.dtype.kind in "iu":
        first = np.maximum(np.abs(first), 1)  # of zero it is what the machine makes of infinity
    if ufunc.nin == 1:
        args: tuple[Any, ...] = (first,)
    else:
        arrays = st.sampled_from(DTYPES).map(lambda d: sample((3,), d, 2))
        other = data.draw(st.one_of(arrays, st.sampled_from(SCALARS)))
        args = (other, first) if data.draw(st.booleans()) else (first, other)
    fixed = [None if isinstance(a, np.ndarray) else a for a in args]

    def f(*xs: Any) -> Any:
        given = iter(xs)
        return ufunc(*[next(given) if a is None else a for a in fixed])

    args = tuple(a for a in args if isinstance(a, np.ndarray))
    try:
        with np.errstate(all="ignore"):
            f(*args)
    except (TypeError, OverflowError, ValueError):
        with pytest.raises((minicc.UserError, TypeError, OverflowError, ValueError)):
            call(f, *args)
        return
    check(f, *args, rtol=2e-5)


def test_random_numbers_and_files_are_left_to_numpy_with_the_line() -> None:
    def f(x: Any) -> Any:
        return x + np.random.default_rng(0).gamma(2.0)

    where = f"test_numpy_functions.py:{f.__code__.co_firstlineno + 1}: rng.gamma"
    with pytest.warns(minicc.PerformanceWarning, match=where):
        assert np.array_equal(minicc.jit(f)(np.ones(2)), f(np.ones(2)))


def test_some_of_all_by_machine_code() -> None:
    def f(x: Any) -> Any:
        y = np.cumsum(np.sort(x, axis=1), axis=0)
        y = np.pad(y, 1, "reflect") + np.median(x)
        return np.percentile(y, [10, 90]), np.diff(y), y[[0, 2]], np.sin(y), np.kron(x, x)[::3]

    x = sample((5, 7), "f4")
    same(minicc.jit(f, threads=1)(x), f(x), 1e-4)


HISTOGRAMS: list[Function] = [
    lambda x, w: np.histogram(x, 31),
    lambda x, w: np.histogram(x, 31, weights=w),
    lambda x, w: np.histogram(x, 7, range=(-0.5, 0.75)),
    lambda x, w: np.histogram(x, range=(-0.5, 0.75), weights=w, density=True),
    lambda x, w: np.histogram((x * 9).astype(np.int32), 5),
    lambda x, w: np.histogram(x.astype(np.float32), 12, weights=w.astype(np.float32)),
    lambda x, w: np.histogram(
        x.reshape(2, -1), bins=3, weights=(w * 9).astype(np.int64).reshape(2, -1)
    ),
]


@pytest.mark.parametrize("k", range(len(HISTOGRAMS)))
def test_histograms_are_counted_by_machine_code(k: int) -> None:
    f, rng = HISTOGRAMS[k], np.random.default_rng(k)
    x, w = rng.standard_normal(3000), rng.standard_normal(3000)
    compiled = minicc.jit(f)
    for data in (x, np.round(x * 4) / 4, np.full(3000, 2.5), np.linspace(0, 1, 3000)):
        with np.errstate(all="ignore"):
            pairs = list(zip(compiled(data, w), f(data, w), strict=True))
        for have, want in pairs:
            assert have.dtype == want.dtype
            single = have.dtype == np.float32
            np.testing.assert_allclose(have, want, rtol=1e-5 if single else 1e-11, atol=1e-6)
    assert "break" not in str(compiled.explain())
    if k < 2:
        for bad in (np.nan, np.inf):
            x[5] = bad
            with pytest.raises(ValueError, match="is not finite"):
                compiled(x, w)
        with pytest.raises(ValueError, match="Too many bins"):
            compiled(np.where(x > 0, 1.0, np.nextafter(1.0, 2)), w)


@pytest.mark.parametrize("element", ["u1", "i1", "u4", "i8", "?"])
@pytest.mark.parametrize("weight", [None, "f8", "f4", "i4"])
def test_numbers_are_counted_by_machine_code(element: str, weight: str | None) -> None:
    def counted(x: Any, w: Any) -> Any:
        return np.bincount(x, minlength=12), np.bincount(x, w, 12), np.bincount(x[:1], minlength=3)

    rng, compiled = np.random.default_rng(0), minicc.jit(counted, threads=1)
    w = None if weight is None else rng.integers(0, 50, 400).astype(weight)
    for last in (2, 12, 2):
        x = rng.integers(0, last, 400).astype(element)
        x[0] = 1
        for have, want in zip(compiled(x, w), counted(x, w), strict=True):
            np.testing.assert_array_equal(have, want, strict=True)
    assert "break" not in str(compiled.explain())
    if element == "i8":
        np.testing.assert_array_equal(compiled(x + 20, w)[0], counted(x + 20, w)[0])  # is longer
        with pytest.raises(ValueError, match="negative"):
            compiled(x - 1, w)


def test_numbers_of_pixels_are_counted_in_loops() -> None:
    def equalised(images: Any) -> Any:
        out = np.empty(images.shape)
        for k in range(len(images)):
            total = np.cumsum(np.bincount(images[k].ravel(), minlength=256))
            out[k] = (total / images[k].size)[images[k]]
        return out

    compiled = minicc.jit(equalised, threads=1)
    images = np.random.default_rng(0).integers(0, 256, (9, 8, 8)).astype(np.uint8)
    np.testing.assert_array_equal(compiled(images), equalised(images))
    assert "9 rounds, a loop of the graph" in str(compiled.explain())


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def scaled(x: Any) -> Any:
    centred = x - x.mean()
    spread = np.tanh(centred / np.abs(centred).max())
    return (spread - spread.mean()) / np.sqrt((spread * spread).sum())


@pytest.mark.parametrize("f", [softmax, scaled])
@pytest.mark.parametrize("shape", [(1, 90_000), (3, 1_200_000)])
def test_rows_that_no_stack_holds(f: Function, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    before = threading.stack_size(1 << 21)
    try:
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(minicc.jit(f, threads=1)(x)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    np.testing.assert_allclose(results[0], f(x), rtol=2e-3, atol=1e-7)


def test_the_covariance_of_one_variable_is_an_array_and_its_correlation_a_number() -> None:
    line = np.arange(5.0)
    for f in (lambda x: np.cov(x), lambda x: np.corrcoef(x), lambda x: np.cov(x) + 1):
        assert type(minicc.jit(f)(line)) is type(f(line))


@pytest.mark.parametrize("name", ["vecdot", "matvec", "vecmat"])
@pytest.mark.parametrize("extents", [(5, 1), (1, 5), (5, 3), (5, 5)])
def test_products_repeat_no_extent_of_what_they_sum(name: str, extents: tuple[int, int]) -> None:
    n, m = extents
    x = np.ones((2, n) if name == "matvec" else n)
    y = np.ones((m, 3) if name == "vecmat" else m)
    f = getattr(np, name)
    if n == m:
        np.testing.assert_array_equal(minicc.jit(lambda x, y: f(x, y))(x, y), f(x, y))
        return
    with pytest.raises(ValueError, match="mismatch") as wanted:
        f(x, y)
    with pytest.raises(ValueError, match="mismatch") as raised:
        minicc.jit(lambda x, y: f(x, y))(x, y)
    assert str(raised.value) == str(wanted.value)


AVERAGES: list[Function] = [
    lambda x, w: np.average(x, axis=0, weights=w),
    lambda x, w: np.average(x, 0, w, returned=True),
    lambda x, w: np.average(x, axis=0, returned=True),
    lambda x, w: np.average(x, axis=0),
    lambda x, w: np.average(x, weights=np.broadcast_to(w[:, None], x.shape[:2] + x.shape[2:])),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f", AVERAGES, ids=range(len(AVERAGES)))
def test_averages_raise_what_numpy_raises(f: Function) -> None:
    """Weights that sum to 0 are refused, whenever they come; so is a mean with no elements."""
    jitted = minicc.jit(f)
    for weights in ([1.0, 2.0], [0.0, 0.0], [1.0, -1.0], [3.0, 1.0]):
        for x in (np.ones((2, 3)), np.ones((2, 0)), np.ones((2, 0, 7))[::-1], np.ones((2, 4))):
            found = [_told(g, x, np.array(weights)) for g in (f, jitted)]
            assert found[0] == found[1], (x.shape, weights)


def _told(f: Function, *args: Any) -> str:
    try:
        return str(f(*args))
    except Exception as error:
        return repr(error)


BESIDES: list[Function] = [
    lambda x, k: np.repeat(x, k),
    lambda x, k: np.repeat(x.reshape(6, 1), k, axis=0) * 2,
    lambda x, k: np.nan_to_num(np.where(x > 3, np.nan, x), nan=x.mean()),
    lambda x, k: np.nan_to_num(x / np.where(x > 3, 0, 1), posinf=x[0], neginf=k[0]),
    lambda x, k: np.nan_to_num((x / np.where(x > 3, 0, 1)).astype("f4"), False, posinf=x[0]),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f", BESIDES, ids=range(len(BESIDES)))
def test_numbers_besides_the_array_that_data_give_are_no_constants(f: Function) -> None:
    jitted = minicc.jit(f, threads=1)
    for turn in range(4):
        args = np.roll(np.arange(6.0), turn), np.roll([2, 1, 0, 3, 1, 0], 2 * turn)
        same(jitted(*args), f(*args), 1e-6)
    assert jitted.explain().recompilations == ("first call",)


def test_the_greatest_but_nan_begins_with_what_is_given() -> None:
    for initial in (0.0, np.nan, -np.inf):
        for x in (np.array([np.nan, np.nan]), np.array([np.nan, -2.0]), np.zeros(0)):
            got, breaks = call(lambda x, initial=initial: np.nanmax(x, initial=initial), x)
            assert not breaks
            same(got, np.fmax.reduce(x, initial=initial), 0)
