"""Operators with many forms: drawn attributes against ONNX's reference or NumPy.

A model is one node; inputs after the first `free` are initialisers.
"""

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tests.sweeps import examples, part

from minicc.errors import MiniccError
from minicc.frontends.onnx import import_model
from minicc.ir import graph
from minicc.ir.core import Op
from minicc.ir.interpret import run
from minicc.ir.verify import verify
from minicc.library.fourier import radices_of

Array = np.ndarray[Any, Any]
DRAWN = settings(max_examples=examples(40), deadline=None, derandomize=True)


def random(*shape: int, seed: int = 3) -> Array:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def model_of(
    op: str, inputs: list[Array | None], opset: int, free: int, outputs: int, **attributes: Any
) -> Any:
    domain, _, name = op.rpartition(".")
    names = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
    outs = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(name, names, outs, name="it", domain=domain, **attributes)
    given = [
        helper.make_tensor_value_info(f"x{k}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for k, x in enumerate(inputs[:free])
        if x is not None
    ]
    constants = [
        numpy_helper.from_array(x, f"x{k}")
        for k, x in enumerate(inputs)
        if k >= free and x is not None
    ]
    results = [helper.make_tensor_value_info(out, TensorProto.FLOAT, None) for out in outs]
    graph = helper.make_graph([node], "case", given, results, constants)
    opsets = [helper.make_opsetid("", 22 if domain else opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, opset))
    return helper.make_model(graph, opset_imports=opsets)


def results(
    op: str,
    *inputs: Array | None,
    opset: int = 22,
    free: int = 1,
    outputs: int = 1,
    **attributes: Any,
) -> tuple[list[Array], Any]:
    """What minicc gives for a node, and a function that asks the reference."""
    model = model_of(op, list(inputs), opset, free, outputs, **attributes)
    feeds = {f"x{k}": x for k, x in enumerate(inputs[:free]) if x is not None}
    module = import_model(model.SerializeToString())
    verify(module)
    got = run(module, [feeds[a.hint] for a in module.main.args])
    return got, lambda: ReferenceEvaluator(model).run(None, feeds)


def agree(op: str, *inputs: Array | None, error: float = 2e-5, **options: Any) -> None:
    """The same as the reference."""
    got, reference = results(op, *inputs, **options)
    with np.errstate(all="ignore"):
        wanted = reference()
    for one, other in zip(got, wanted, strict=True):
        assert one.shape == np.shape(other)
        assert one.dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, other, rtol=error, atol=error)


LETTERS = "abcd"


@DRAWN
@given(data=st.data())
def test_einsum(data: st.DataObject) -> None:
    extent = {a: data.draw(st.integers(1, 3)) for a in LETTERS}
    count = data.draw(st.integers(1, 3))
    dots = data.draw(st.sampled_from([(), (2,), (2, 3)]))
    terms, arrays = [], []
    for k in range(count):
        term = "".join(data.draw(st.lists(st.sampled_from(LETTERS), max_size=3)))
        lead = dots if data.draw(st.booleans()) else None
        shape = [extent[a] for a in term]
        if lead is not None:
            term = "..." + term
            shape = [*lead[data.draw(st.integers(0, len(lead))) :], *shape]
        terms.append(term)
        arrays.append(random(*shape, seed=k))
    used = sorted({a for t in terms for a in t if a != "."})
    out = "".join(data.draw(st.permutations(used)))[: data.draw(st.integers(0, len(used)))]
    equation = ",".join(terms)
    if data.draw(st.booleans()):
        equation += "->" + ("..." if any("." in t for t in terms) else "") + out
    wanted = np.einsum(equation, *arrays)
    (got,), _ = results("Einsum", *arrays, free=count, equation=equation)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def _imported(
    op: str, *inputs: Array, opset: int = 22, free: int = 1, **attributes: Any
) -> list[Op]:
    model = model_of(op, [*inputs], opset, free, 1, **attributes)
    return [*import_model(model.SerializeToString()).main.body.ops]


@pytest.mark.parametrize("op", ["Trilu", "EyeLike", "ReverseSequence"])
def test_rows_and_columns_are_counted_apart(op: str) -> None:
    """No matrix of numbers is made: it would take longer to write than what it decides."""
    more = [np.array([3, 7, 2])] if op == "ReverseSequence" else []
    x = random(9, 3) if more else random(9, 8)
    counted = [v for v in _imported(op, x, *more, free=2) if isinstance(v, graph.Iota)]
    assert counted
    assert all(prod(v.result.type.extents) <= 9 for v in counted)


def test_a_diagonal_is_cut_out_in_one_step() -> None:
    ops = _imported("Einsum", random(5, 7, 7), equation="bii->bi")
    assert not [op for op in ops if isinstance(op, graph.Pad)]


@pytest.mark.parametrize("size", [(2, 2), (3, 2), (5, 3)])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 2, 1)])
def test_columns_of_blocks_side_by_side(size: tuple[int, int], pads: tuple[int, ...]) -> None:
    """What no block reaches is 0."""
    sides = np.array([12 - pads[0] - pads[2], 8 - pads[1] - pads[3]])
    count = 12 // size[0] * (8 // size[1])
    x = random(2, 3 * size[0] * size[1], count)
    given: dict[str, Any] = {"strides": [*size], "pads": [*pads]}
    agree("Col2Im", x, sides, np.array(size), **given)
    ops = _imported("Col2Im", x, sides, np.array(size), **given)
    assert not [op for op in ops if isinstance(op, graph.Add)]


@DRAWN
@given(data=st.data())
def test_conv_transpose(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 2))
    groups = data.draw(st.sampled_from([1, 2]))

    def each(low: int, high: int) -> list[int]:
        return [data.draw(st.integers(low, high)) for _ in range(rank)]

    kernel, strides, dilations = each(1, 5), each(1, 3), each(1, 2)
    attributes: dict[str, Any] = {"strides": strides, "group": groups}
    if data.draw(st.booleans()):
        attributes["dilations"] = dilations
    else:
        dilations = [1] * rank
    if data.draw(st.booleans()):
        attributes["output_padding"] = [data.draw(st.integers(0, s - 1)) for s in strides]
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    attributes["pads"] = [data.draw(st.integers(0, min(r, 2))) for r in [*reach, *reach]]
    sides = [1] * rank if data.draw(st.booleans()) else each(3, 5)
    width = data.draw(st.sampled_from([3, 16]))  # so many may have a convolution for each phase
    before, after = attributes["pads"][:rank], attributes["pads"][rank:]
    whole = zip(sides, strides, reach, before, after, strict=True)
    assume(all((n - 1) * s + r + 1 > a + b for n, s, r, a, b in whole))
    x = random(2, 4, *sides)
    w = random(4, width, *kernel, seed=1)
    b = random(width * groups, seed=2) if data.draw(st.booleans()) else None
    got, _ = results("ConvTranspose", x, w, b, **attributes)
    np.testing.assert_allclose(got[0], transposed(x, w, b, attributes), rtol=1e-4, atol=1e-4)


def transposed(x: Array, w: Array, b: Array | None, attributes: dict[str, Any]) -> Array:
    """Every element puts its kernel into the result."""
    kernel, rank = w.shape[2:], x.ndim - 2
    strides, groups, pads = (attributes[k] for k in ("strides", "group", "pads"))
    dilations = attributes.get("dilations", [1] * rank)
    extra = attributes.get("output_padding", [0] * rank)
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(x.shape[2:], strides, kernel, dilations, extra, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[1] * groups, *full))
    width, each = x.shape[1] // groups, w.shape[1]
    for place in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*kernel):
            at = tuple(
                p * s + t * d for p, s, t, d in zip(place, strides, tap, dilations, strict=True)
            )
            for g in range(groups):
                rows = slice(g * width, (g + 1) * width)
                pixel = x[(slice(None), rows, *place)]
                out[(slice(None), slice(g * each, (g + 1) * each), *at)] += (
                    pixel @ w[(rows, slice(None), *tap)]
                )
    cut = tuple(slice(pads[k], full[k] - pads[k + rank]) for k in range(rank))
    out = out[(slice(None), slice(None), *cut)]
    return out if b is None else out + b.reshape(-1, *[1] * rank)


PLACES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric")
ROUND = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@DRAWN
@given(data=st.data())
def test_resize(data: st.DataObject) -> None:
    shape = [data.draw(st.integers(1, 5)) for _ in range(2)]
    x = random(1, 2, *shape)
    mode = data.draw(st.sampled_from(["nearest", "linear", "cubic"]))
    attributes: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": data.draw(st.sampled_from(PLACES)),
    }
    if mode == "nearest":
        attributes["nearest_mode"] = data.draw(st.sampled_from(ROUND))
    else:
        attributes["antialias"] = data.draw(st.integers(0, 1))
        attributes["exclude_outside"] = data.draw(st.integers(0, 1))
    if data.draw(st.booleans()):
        choices = st.sampled_from([1.0, 2.0, 0.5, 1.5, 3.0, 0.75])
        scales = np.array([1, 1, *[data.draw(choices) for _ in range(2)]], np.float32)
        wanted = np.array(x.shape) * scales
        if (wanted < 1).any() or _differs(wanted, attributes):
            return
        agree("Resize", x, None, scales, error=1e-4, **attributes)
    else:
        sizes = np.array([1, 2, *[data.draw(st.integers(1, 9)) for _ in range(2)]])
        if _differs(sizes, attributes):
            return
        agree("Resize", x, None, None, sizes, error=1e-4, **attributes)


def _differs(sizes: Array, attributes: dict[str, Any]) -> bool:
    """Whether the reference is not as the specification.

    It reads at -0.5 for a single element, which has 0, and aligns corners of extents that are not
    whole.
    """
    way = attributes["coordinate_transformation_mode"]
    single = way == "pytorch_half_pixel" and (sizes[2:] < 2).any()
    return bool(single or (way == "align_corners" and (sizes != np.floor(sizes)).any()))


def test_a_single_element_is_read_at_the_first() -> None:
    x = random(3, 4)
    sizes = np.array([3, 1])
    way: dict[str, Any] = {"mode": "cubic"}
    way["coordinate_transformation_mode"] = "pytorch_half_pixel"
    (got,), _ = results("Resize", x, None, None, sizes, **way)
    np.testing.assert_allclose(got, x[:, :1], rtol=1e-6)
    # a fraction of an element that is cut off is none
    way |= {"mode": "nearest", "nearest_mode": "ceil"}
    (got,), _ = results("Resize", x, None, np.array([0.5, 1], np.float32), **way)
    np.testing.assert_array_equal(got, x[:1])


@DRAWN
@given(data=st.data())
def test_scans(data: st.DataObject) -> None:
    shape = [data.draw(st.sampled_from([1, 2, 33, 70, 1100])), 2]
    axis = data.draw(st.integers(0, 1))
    shape = shape if axis == 0 else shape[::-1]
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.int64)
    options: dict[str, Any] = {
        "exclusive": data.draw(st.integers(0, 1)),
        "reverse": data.draw(st.integers(0, 1)),
    }
    agree("CumSum", x, np.array(axis - 2 * data.draw(st.integers(0, 1))), opset=14, **options)
    agree("CumProd", x, np.array(axis), opset=26, **options)


def test_a_nan_enters_only_the_sums_behind_it() -> None:
    x = np.ones(100, np.float32)
    x[60] = np.nan
    (got,), _ = results("CumSum", x, np.array(0), opset=14)
    assert np.array_equal(got[:60], np.arange(1, 61))
    assert np.isnan(got[60:]).all()


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows(op: str, periodic: int) -> None:
    agree(op, np.array(9), free=0, opset=17, periodic=periodic)


def test_mel_weight_matrix() -> None:
    given = [np.array(n) for n in (8, 16, 8192)]
    ends = [np.array(n, np.float32) for n in (0, 4096)]
    agree("MelWeightMatrix", *given, *ends, free=0, opset=17)


def test_dft() -> None:
    x = random(2, 6, 5, 1)
    pair = random(2, 6, 5, 2)
    for along in (1, 2, -2):
        axis = np.array(along)
        agree("DFT", x, None, axis, opset=20, onesided=1, error=1e-4)
        agree("DFT", pair, None, axis, opset=20, inverse=1, error=1e-4)
        agree("DFT", pair, np.array(8), axis, opset=20, error=1e-4)


def test_what_a_half_transform_came_from() -> None:
    for length in (6, 7):
        x = random(2, length)
        lower = np.fft.rfft(x)
        half = np.stack([lower.real, lower.imag], -1).astype(np.float32)
        options: dict[str, Any] = {"inverse": 1, "onesided": 1, "opset": 20}
        (got,), _ = results("DFT", half, np.array(length), np.array(1), **options)
        np.testing.assert_allclose(got[..., 0], x, atol=1e-5)


@pytest.mark.parametrize("length", part([32, 60, 64, 100, 105, 128, 343, 502, 1000, 1024, 2310], 4))
@pytest.mark.parametrize("axis", [1, 2])
def test_transforms_of_composite_lengths(length: int, axis: int) -> None:
    shape = (2, length, 3) if axis == 1 else (2, 3, length)
    for element, error in ((np.float32, 3e-7), (np.float64, 1e-15)):
        x = random(*shape, 2).astype(element)
        z: Any = x.astype(np.float64).view(np.complex128)[..., 0]
        half = np.fft.rfft(z.real, axis=axis)
        cases: list[tuple[Array, Array, dict[str, int]]] = [
            (x, np.fft.fft(z, axis=axis), {}),
            (x, np.fft.ifft(z, axis=axis), {"inverse": 1}),
            (x[..., :1], np.fft.fft(z.real, axis=axis), {}),
            (x[..., :1], half, {"onesided": 1}),
        ]
        if length % 2 == 0:
            cases.append((_parts(half).astype(element), z.real, {"onesided": 1, "inverse": 1}))
        for signal, wanted, way in cases:
            (got,), _ = results("DFT", signal, None, np.array(axis), opset=20, **way)
            exact = wanted[..., None] if wanted.dtype.kind == "f" else _parts(wanted)
            assert (got.dtype, got.shape) == (element, exact.shape)
            assert np.sqrt(np.mean((got - exact) ** 2)) < error * np.sqrt(np.mean(exact**2))


def _parts(z: Array) -> Array:
    return np.stack([z.real, z.imag], -1)


def test_a_long_transform_needs_no_table_of_its_square() -> None:
    (got,), _ = results("DFT", random(1, 1 << 15, 1), opset=17, axis=1)
    assert got.shape == (1, 1 << 15, 2)


def test_a_transform_in_half_precision_is_rounded_once() -> None:
    x = random(2, 512, 1).astype(np.float16)
    exact = _parts(np.fft.fft(x[..., 0].astype(float)))
    (got,), _ = results("DFT", x, opset=17, axis=1)
    np.testing.assert_allclose(got, exact, rtol=2.0**-10, atol=1e-4)


def test_radices_of_lengths() -> None:
    assert radices_of(1024) == (16, 8, 8)
    assert radices_of(400) == (16, 5, 5)
    assert radices_of(502) == (251, 2)
    assert radices_of(1000, 8) == (8, 5, 5, 5)
    for dense in (1, 2, 16, 14, 251):
        assert radices_of(dense) == (dense,)


def test_frames_of_a_short_time_transform() -> None:
    signal, window = random(2, 1000), random(400)
    for hop in (160, 100, 80, 161, 400):
        starts = range(0, 1000 - 400 + 1, hop)
        frames = np.stack([signal[:, k : k + 400] for k in starts], axis=1)
        for w in (None, window):
            exact = np.fft.rfft(frames if w is None else frames * w)
            given = (signal[..., None], np.array(hop), w, np.array(400))
            (got,), _ = results("STFT", *given, opset=17)
            assert got.shape == (*exact.shape, 2)
            np.testing.assert_allclose(got, _parts(exact), atol=2e-4)
    with pytest.raises(MiniccError, match="a window of 400 at dilation 1 does not fit into 399"):
        results("STFT", signal[:, :399, None], np.array(160), None, np.array(400), opset=17)


def test_gathering_at_known_indices() -> None:
    x = random(3, 9)
    lists: list[Any] = [
        2,
        [1, 2, 3],
        [8, 6, 4],
        [0, 0, 3, 3, 5, 5],
        [-1, 0, 4],
        [5, 5, 5],
        [[1], [7]],
    ]
    lists.append(np.random.default_rng(0).integers(-9, 9, 40))
    for indices in lists:
        agree("Gather", x, np.array(indices, np.int64), opset=13, axis=1)
    agree("Gather", x, np.zeros((2, 0), np.int64), opset=13, axis=1)
    with pytest.raises(MiniccError, match="MC0128"):
        results("Gather", x, np.array([9]), opset=13, axis=1)


def test_old_scatter() -> None:
    indices = np.array([[1, 0, 2]])
    agree("ScatterElements", random(3, 3), indices, random(1, 3), axis=0, opset=18)
    got, _ = results("Scatter", random(3, 3), indices, random(1, 3), axis=0, opset=10)
    wanted, _ = results("ScatterElements", random(3, 3), indices, random(1, 3), axis=0, opset=18)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_shares_heads(groups: int, causal: int) -> None:
    q, k, v = random(2, 4, 3, 8), random(2, groups, 5, 8, seed=1), random(2, groups, 5, 6, seed=2)
    mask = random(3, 5, seed=4)
    agree("Attention", q, k, v, mask, free=4, opset=24, is_causal=causal, outputs=1)


@pytest.mark.parametrize("shift", [-200, -9, -1, 0, 1, 7, 8, 31, 32, 63, 64, 100])
def test_shifts(shift: int) -> None:
    x = np.array([-128, -1, 0, 1, 77, 127])
    for element in (np.int8, np.int32, np.int64):
        if shift in (-200,) and element is np.int8:
            continue
        given: Array = x.astype(element)
        bits = element().itemsize * 8
        for direction in ("LEFT", "RIGHT"):
            by: Array = np.full(6, shift, element)
            (got,), _ = results("BitShift", given, by, opset=28, direction=direction)
            if 0 <= shift < bits:
                wanted = (np.left_shift if direction == "LEFT" else np.right_shift)(given, by)
            else:
                wanted = np.zeros_like(given) if direction == "LEFT" else np.where(given < 0, -1, 0)
            assert np.array_equal(got, wanted)


def test_powers_of_integers() -> None:
    x = np.array([-3, -1, 0, 1, 2, 7])
    for power in (0, 1, 2, 5, 17, 30):
        by = np.full(6, power)
        (got,), _ = results("Pow", x, by, free=2, opset=15)
        assert np.array_equal(got, x**by)
    (got,), _ = results("Pow", x, np.full(6, -1), free=2, opset=15)
    assert got.tolist() == [0, -1, 0, 1, 0, 0]
    (got,), _ = results("Pow", x, np.full(6, 3, np.float32), free=2, opset=15)
    assert np.array_equal(got, x**3)


def test_the_norm_of_a_plane() -> None:
    x = random(2, 3, 4, 5)
    for p in (1, 2, 3):
        (got,), _ = results("GlobalLpPool", x, p=p)
        wanted = (np.abs(x) ** p).sum((2, 3), keepdims=True) ** (1 / p)
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


ML = "ai.onnx.ml"


def test_classical_operators() -> None:
    x = random(4, 3)
    agree(f"{ML}.Scaler", x, opset=1, offset=[1.0, 0.5, 2.0], scale=[2.0, 3.0, 0.5])
    for norm in ("MAX", "L1", "L2"):
        agree(f"{ML}.Normalizer", np.abs(x), opset=1, norm=norm)
    with_hole = x.copy()
    with_hole[1, 2] = np.nan
    values: dict[str, Any] = {"imputed_value_floats": [7.0], "replaced_value_float": float("nan")}
    (got,), _ = results(f"{ML}.Imputer", with_hole, opset=1, **values)
    assert np.array_equal(got, np.where(np.isnan(with_hole), np.float32(7), with_hole))
    coefficients = [float(n) for n in random(6)]
    options: dict[str, Any] = {"targets": 2, "intercepts": [0.5, -1.0]}
    agree(f"{ML}.LinearRegressor", x, opset=1, coefficients=coefficients, **options)
    (got,), _ = results(
        f"{ML}.FeatureVectorizer", x, x[:, :2], free=2, opset=1, inputdimensions=[3, 2]
    )
    assert np.array_equal(got, np.concatenate([x, x[:, :2]], axis=1))


def test_one_step_of_an_optimiser_for_two_tensors() -> None:
    rate, count = np.array(0.1, np.float32), np.array(2)
    parts = [random(3, seed=k) if k % 2 == 0 else random(2, 2, seed=k) for k in range(6)]
    parts[4:] = [np.abs(p) for p in parts[4:]]
    domain = "ai.onnx.preview.training"
    options: dict[str, Any] = {"opset": 1, "free": 8, "outputs": 4, "norm_coefficient": 0.1}
    agree(f"{domain}.Adagrad", rate, count, *parts, decay_factor=0.2, **options)
    for mode in ("standard", "nesterov"):
        more: dict[str, Any] = {"alpha": 0.9, "beta": 0.8, "mode": mode}
        agree(f"{domain}.Momentum", rate, count, *parts, **more, **options)


@pytest.mark.parametrize("element", [np.int32, np.int64])
def test_fractions_of_integers_are_cut_off(element: Any) -> None:
    x = np.array([[3, 4, 2], [5, 12, 9]], element)
    for op, wanted in (
        ("ReduceL2", np.sqrt(np.sum(x * x, axis=1))),
        ("ReduceLogSum", np.log(np.sum(x, axis=1))),
        ("ReduceLogSumExp", np.log(np.sum(np.exp(x.astype(np.float64)), axis=1))),
    ):
        (got,), _ = results(op, x, axes=[1], keepdims=0, opset=13)
        np.testing.assert_array_equal(got, wanted.astype(element), strict=True)


def test_scores_of_attention_are_shown_before_they_are_capped() -> None:
    """As the operator's text and function have it; ONNX's reference caps them first."""
    q, k, v = (random(1, 2, n, 4, seed=n) for n in (3, 5, 6))
    v = v[:, :, :5]
    scores = np.matmul(q, k.transpose(0, 1, 3, 2)) / 2
    for mode, wanted in ((0, scores), (1, 0.5 * np.tanh(scores / 0.5))):
        options: dict[str, Any] = {"softcap": 0.5, "qk_matmul_output_mode": mode}
        got, _ = results("Attention", q, k, v, opset=23, outputs=4, **options)
        np.testing.assert_allclose(got[3], wanted, rtol=1e-5, atol=1e-6)
