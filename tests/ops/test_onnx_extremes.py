"""Operators on NaN, infinities, empty tensors and sizes at the edge of what they are defined for.

What is wanted are the numbers of ONNX's reference implementation and of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tests.sweeps import part

import minicc

Array = np.ndarray[Any, Any]
NAN, INF = np.nan, np.inf


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(" "), outputs.split(" "), **attributes)


def session(
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[Any, Sequence[Any]]],
    outputs: str = "y",
    opset: int = 17,
    **constants: Any,
) -> minicc.InferenceSession:
    """A session of a model; `inputs` are element types and shapes by name."""
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(t)), shape)
        for name, (t, shape) in inputs.items()
    ]
    results = [ValueInfoProto(name=name) for name in outputs.split(" ")]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "extremes", given, results, held)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return minicc.InferenceSession(model.SerializeToString(), threads=1)


def results(
    nodes: Sequence[Any],
    feed: Mapping[str, Array],
    opset: int = 17,
    **held: Any,
) -> list[Array]:
    """What a model gives, which must be the same where its inputs' dimensions are free."""
    fixed = {name: (a.dtype, a.shape) for name, a in feed.items()}
    free = {n: (a.dtype, [f"{n}{k}" for k in range(a.ndim)]) for n, a in feed.items()}
    known = session(nodes, fixed, opset=opset, **held).run(None, feed)
    open_ended = session(nodes, free, opset=opset, **held).run(None, feed)
    for a, b in zip(known, open_ended, strict=True):
        # of free sizes products may be added up in another order
        near = 8 * np.finfo(a.dtype).eps if a.dtype.kind == "f" else 0
        np.testing.assert_allclose(a, b, rtol=near, atol=0, strict=True)
    return known


@pytest.mark.parametrize("element", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_a_nan_is_the_extreme_of_its_row(op: str, axis: int, element: Any) -> None:
    x = np.array([[3, NAN, 5, NAN], [NAN, NAN, NAN, NAN], [1, 2, -INF, INF]], element)
    numpy_finds: Any = np.argmax if op == "ArgMax" else np.argmin
    (first,) = results([node(op, "x", axis=axis, keepdims=0)], {"x": x})
    np.testing.assert_array_equal(first, numpy_finds(x, axis))
    (last,) = results([node(op, "x", axis=axis, keepdims=0, select_last_index=1)], {"x": x})
    from_end = x.shape[axis] - 1 - numpy_finds(np.flip(x, axis), axis)
    np.testing.assert_array_equal(last, from_end)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("zero", [0, 5])
def test_no_number_is_quantised_to_the_least(kind: Any, zero: int) -> None:
    x = np.array([NAN, INF, -INF, 1, *[NAN] * 15], np.float32)
    nodes = [node("QuantizeLinear", "x s z")]
    (y,) = results(nodes, {"x": x}, opset=21, s=np.float32(1), z=kind(zero))
    limits = np.iinfo(kind)
    wanted = [limits.min, limits.max, limits.min, 1 + zero, *[limits.min] * 15]
    np.testing.assert_array_equal(y, np.array(wanted, kind), strict=True)


def test_hardmax_of_a_row_with_a_nan() -> None:
    x = np.array([[3, NAN, 5], [2, 7, 7]], np.float32)
    (y,) = results([node("Hardmax", "x")], {"x": x})
    np.testing.assert_array_equal(y, [[0, 1, 0], [0, 1, 0]])


@pytest.mark.parametrize(("axis", "one"), [(0, 1), (1, 2), (2, 6), (-1, 6)])
def test_old_hardmax_takes_several_axes_as_one(axis: int, one: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    (y,) = results([node("Hardmax", "x", axis=axis)], {"x": x}, opset=11)
    rows = x.reshape(one, -1)
    np.testing.assert_array_equal(y.reshape(one, -1).argmax(1), rows.argmax(1))
    assert y.sum() == one


@pytest.mark.parametrize("keepdims", [0, 1])
def test_the_logarithm_of_a_sum_of_endless_powers(keepdims: int) -> None:
    x = np.array([[INF, 1], [-INF, -INF], [-INF, 1], [INF, -INF], [NAN, INF]], np.float32)
    (y,) = results([node("ReduceLogSumExp", "x", axes=[1], keepdims=keepdims)], {"x": x})
    np.testing.assert_array_equal(y.ravel(), np.array([INF, -INF, 1, INF, NAN], np.float32))


@pytest.mark.parametrize(
    ("wanted", "auto", "row"),
    [
        (7, "NOTSET", [1, 1, 0, 2, 2, 0, 0]),
        (6, "NOTSET", [1, 1, 0, 2, 2, 0]),
        (5, "NOTSET", [1, 1, 0, 2, 2]),
        (4, "NOTSET", [1, 0, 2, 2]),
        (4, "SAME_UPPER", [1, 1, 0, 2]),
        (8, "SAME_LOWER", [1, 1, 0, 2, 2, 0, 0, 0]),
    ],
)
def test_a_transposed_convolution_of_a_wanted_size(wanted: int, auto: str, row: list[int]) -> None:
    it = node("ConvTranspose", "x w", output_shape=[wanted], strides=[3], auto_pad=auto)
    s = session([it], {"x": (np.float32, [1, 1, 2])}, w=np.ones((1, 1, 2), np.float32))
    (y,) = s.run(None, {"x": np.array([[[1, 2]]], np.float32)})
    np.testing.assert_array_equal(y.ravel(), row)


def test_a_transposed_convolution_of_which_pads_leave_nothing() -> None:
    it = node("ConvTranspose", "x w", pads=[1, 0, 1, 0], dilations=[1, 2])
    s = session([it], {"x": (np.float32, [1, 2, 1, 4])}, w=np.ones((2, 3, 2, 2), np.float32))
    (y,) = s.run(None, {"x": np.ones((1, 2, 1, 4), np.float32)})
    assert y.shape == (1, 3, 0, 6)


def test_a_transposed_convolution_of_elements_far_apart_is_refused_at_once() -> None:
    it = node("ConvTranspose", "x w", strides=[1 << 62])
    with pytest.raises(minicc.UserError, match="MC0135"):
        session([it], {"x": (np.float32, [1, 1, 2])}, w=np.ones((1, 1, 3), np.float32))


def test_cubic_samples_within_half_an_element_of_the_border() -> None:
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3) ** 2
    grid = np.array([[[[-0.88, -0.78], [-1.5, 0.1]]]], np.float32)
    it = node("GridSample", "x g", mode="bicubic", padding_mode="border", align_corners=0)
    (y,) = results([it], {"x": x, "g": grid}, 16)
    np.testing.assert_allclose(y.ravel(), [-0.843004, 13.179093], rtol=1e-5)


def test_cubic_samples_beyond_the_border() -> None:
    """As torch and ONNX Runtime have it, the taps are brought back and not the place."""
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3) ** 2
    # at -0.7 in the row 1: the taps at -2, -1, 0 and 1
    grid = np.array([[[[-0.4 / 3 - 1, 0]]]], np.float32)
    it = node("GridSample", "x g", mode="bicubic", padding_mode="border", align_corners=0)
    (y,) = results([it], {"x": x, "g": grid}, 16)
    last = -0.75 * (1.7**3 - 5 * 1.7**2 + 8 * 1.7 - 4)  # the weight at a distance of 1.7
    np.testing.assert_allclose(y.item(), 9 * (1 - last) + 16 * last, rtol=1e-5)


def test_a_sequence_of_parts_of_nothing() -> None:
    nodes = [node("SplitToSequence", "x k", "s"), node("SequenceLength", "s")]
    (y,) = results(nodes, {"x": np.ones((0, 4), np.float32)}, k=np.int64(3))
    assert y == 0


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8])
def test_quotients_of_sizes_are_truncated(n: int) -> None:
    nodes = [node("Shape", "x", "s"), node("Sub", "s five", "d"), node("Div", "d two", "y")]
    s = session(nodes, {"x": (np.float32, ["n"])}, five=np.int64(5), two=np.int64(2))
    (y,) = s.run(None, {"x": np.ones(n, np.float32)})
    assert y.tolist() == [int((n - 5) / 2)]


@pytest.mark.parametrize(("number", "element"), [(2, np.uint8), (3, np.int8), (5, np.int16)])
def test_sizes_of_narrow_types_wrap(number: int, element: Any) -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Cast", "s", "narrow", to=number),
        node("Add", "narrow narrow", "sum"),
        node("Cast", "sum", "y", to=7),
    ]
    s = session(nodes, {"x": (np.float32, ["n"])})
    (y,) = s.run(None, {"x": np.ones(20000, np.float32)})
    once = np.array([20000]).astype(element)
    np.testing.assert_array_equal(y, (once + once).astype(np.int64), strict=True)


def test_what_data_decide_is_not_kept_with_the_callers_arrays() -> None:
    given = {"x": (np.int64, [3]), "from": (np.int64, [1]), "to": (np.int64, [1])}
    s = session([node("Slice", "x from to")], given)
    x, ends = np.array([1, 2, 3]), {"from": np.array([0]), "to": np.array([2])}
    s.run(None, {"x": x, **ends})
    x[:] = 7
    (y,) = s.run(None, {"x": np.array([1, 2, 3]), **ends})
    np.testing.assert_array_equal(y, [1, 2])


def test_outputs_that_decide_a_branch_are_the_callers_own() -> None:
    def branch(op: str) -> Any:
        made = [helper.make_node(op, ["x"], [op])]
        return helper.make_graph(made, op, [], [ValueInfoProto(name=op)])

    nodes = [
        node("ReduceSum", "x", "s", keepdims=0),
        node("Greater", "s zero", "c"),
        node("If", "c", "y", then_branch=branch("Abs"), else_branch=branch("Neg")),
    ]
    s = session(nodes, {"x": (np.float32, [2])}, "y c", zero=np.float32(0))
    x = np.array([1, 2], np.float32)
    for _ in range(3):
        y, c = s.run(None, {"x": x})
        assert c == np.True_
        np.testing.assert_array_equal(y, x)
        c[...] = False
        y[:] = 0


def reference(nodes: Sequence[Any], feed: Mapping[str, Array], opset: int, **held: Any) -> Array:
    """The first output as ONNX's reference implementation has it."""
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in feed.items()
    ]
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()]
    graph = helper.make_graph(nodes, "wanted", given, [ValueInfoProto(name="y")], constants)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    found: Any = ReferenceEvaluator(model).run(None, dict(feed))
    return np.asarray(found[0])


@pytest.mark.parametrize("element", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("size", [2, 3, 20])
def test_the_greatest_number_of_a_window(size: int, element: Any) -> None:
    rng = np.random.default_rng(size)
    x = rng.integers(-9, 10, (2, 3, 40)).astype(element)
    x[rng.random(x.shape) < 0.3] = NAN
    x[0, 0, :] = NAN
    x[0, 1, ::3] = -INF
    it = node("MaxPool", "x", "y places", kernel_shape=[size], strides=[2])
    s = session([it], {"x": (x.dtype, x.shape)}, "y places")
    y, places = s.run(None, {"x": x})
    (alone,) = results([node("MaxPool", "x", kernel_shape=[size], strides=[2])], {"x": x})
    np.testing.assert_array_equal(alone, y, strict=True)
    windows = np.lib.stride_tricks.sliding_window_view(x, size, 2)[:, :, ::2]
    numbers = np.where(np.isnan(windows), -INF, windows)
    np.testing.assert_array_equal(y, numbers.max(-1))
    at = numbers.argmax(-1) + 2 * np.arange(windows.shape[2])
    np.testing.assert_array_equal(places, at + 40 * np.arange(6).reshape(2, 3, 1))


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    ("op", "outputs"), [("MaxPool", "y z"), ("AveragePool", "y"), ("LpPool", "y")]
)
@pytest.mark.parametrize(
    ("extent", "size", "stride", "pads"),
    [(2, 3, 1, (0, 0)), (1, 3, 2, (0, 0)), (1, 4, 2, (0, 0)), (1, 4, 1, (1, 1)), (3, 7, 3, (0, 1))],
)
def test_a_pool_that_lacks_a_stride_for_a_window_gives_nothing(
    extent: int, size: int, stride: int, pads: tuple[int, int], op: str, outputs: str, free: bool
) -> None:
    """ONNX Runtime counts no window then, and has an empty axis."""
    x = np.ones((2, 3, extent, 5), np.float32)
    way = {"kernel_shape": [size, 2], "strides": [stride, 1], "pads": [pads[0], 0, pads[1], 0]}
    shape = ("n", 3, "h", 5) if free else x.shape
    s = session([node(op, "x", outputs, **way)], {"x": (x.dtype, shape)}, outputs)
    given = [(r.dtype.name, r.shape) for r in s.run(None, {"x": x})]
    assert given == [(name, (2, 3, 0, 4)) for name in ("float32", "int64")[: len(given)]]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("columns", [0, 1])
@pytest.mark.parametrize(
    ("size", "stride", "dilation", "pad"),
    [
        ((2, 3), 2, 1, 0),
        ((3, 3), 1, 2, 1),
        ((4, 5), 1, 1, 2),
        ((13, 2), 3, 1, 1),
        ((40, 3), 2, 1, 1),
        ((9, 37), 1, 1, 0),
    ],
)
def test_the_places_of_maxima(
    size: tuple[int, int], stride: int, dilation: int, pad: int, columns: int, free: bool
) -> None:
    """The first of several in row order, whatever the order of the numbers that say where."""
    rng = np.random.default_rng(size)
    x = rng.integers(-2, 3, (2, 3, 45, 41)).astype(np.float32)
    x[0, 0] = -INF
    it = node(
        "MaxPool",
        "x",
        "y places",
        kernel_shape=size,
        strides=[stride] * 2,
        dilations=[dilation] * 2,
        pads=[pad] * 4,
        storage_order=columns,
    )
    shape = ("n", "c", "h", "w") if free else x.shape
    y, places = session([it], {"x": (x.dtype, shape)}, "y places").run(None, {"x": x})
    edges = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    numbers = np.arange(x.size).reshape(2, 3, *((41, 45) if columns else (45, 41)))
    numbers = np.swapaxes(numbers, 2, 3) if columns else numbers

    def windows(a: Array) -> Array:
        spans = [(k - 1) * dilation + 1 for k in size]
        found = np.lib.stride_tricks.sliding_window_view(a, spans, (2, 3))
        found = found[:, :, ::stride, ::stride, ::dilation, ::dilation]
        return found.reshape(*found.shape[:4], -1)

    # padding is less than anything
    ranked = windows(np.pad(np.maximum(x, -9), edges, constant_values=-99))
    at = ranked.argmax(-1)[..., None]
    want = np.take_along_axis(windows(np.pad(numbers, edges)), at, -1)[..., 0]
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(y, x.reshape(-1)[_plain(want, columns, x.shape)])


def _plain(places: Array, columns: int, shape: Sequence[int]) -> Array:
    """Places in row order."""
    if not columns:
        return places
    n, c, w, h = np.unravel_index(places, (*shape[:2], shape[3], shape[2]))
    return np.ravel_multi_index((n, c, h, w), tuple(shape))


def test_places_in_windows_of_ever_so_many_elements() -> None:
    it = node("MaxPool", "x", "y places", kernel_shape=[5000, 3])
    x = np.zeros((1, 1, 5002, 4), np.float32)
    x[0, 0, 3001, 1] = 1
    y, places = session([it], {"x": (x.dtype, x.shape)}, "y places").run(None, {"x": x})
    assert (y == 1).all()
    assert (places == 3001 * 4 + 1).all()


@pytest.mark.parametrize("free", [False, True])
def test_an_image_of_one_pixel_becomes_a_scalar(free: bool) -> None:
    conv = node("Conv", "x w", "c")
    flat = node("Squeeze", "c axes", "y")
    shape = ("n", 4, "h", "w") if free else (1, 4, 3, 3)
    weights = np.ones((1, 4, 3, 3), np.float32)
    s = session([conv, flat], {"x": (np.float32, shape)}, w=weights, axes=np.arange(4))
    (y,) = s.run(None, {"x": weights})
    assert y.shape == ()
    assert y == 36


REGIONS: Array = np.array(
    [[0, 0, 7, 5], [1.2, 0.4, 3.9, 4.6], [2, 2, 2.5, 2.5], [5, 5, 1, 1], [-3, -2, 9, 8]], np.float32
)


@pytest.mark.parametrize("regions", [REGIONS, REGIONS[:1], REGIONS[:0]])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel"])
def test_regions_with_as_many_samples_as_they_have_pixels(
    place: str, mode: str, regions: Array
) -> None:
    it = node(
        "RoiAlign",
        "x regions images",
        coordinate_transformation_mode=place,
        mode=mode,
        output_height=2,
        output_width=3,
        spatial_scale=0.75,
    )
    feed = {
        "x": np.random.default_rng(0).uniform(1, 2, (2, 2, 6, 7)).astype(np.float32),
        "regions": regions,
        "images": np.arange(len(regions)) % 2,
    }
    s = session([it], {name: (a.dtype, a.shape) for name, a in feed.items()})
    (y,) = s.run(None, feed)
    wanted = reference([it], feed, 17)
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)


def test_resizing_does_not_spread_what_is_no_number() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    x[1, 2] = NAN
    it = node("Resize", "x  scales", mode="linear")
    s = session([it], {"x": (x.dtype, x.shape)}, scales=np.array([1, 2.6], np.float32))
    (y,) = s.run(None, {"x": x})
    assert np.isnan(y).any(axis=1).tolist() == [False, True, False]
    assert np.isnan(y[1]).tolist() == [False] * 4 + [True] * 5 + [False]


def test_many_taps_spread_what_is_no_number_among_neighbours_alone() -> None:
    x = np.ones((40, 400), np.float32)
    x[20, 200] = NAN
    it = node("Resize", "x  scales", mode="linear", antialias=1)
    scales = np.array([0.25, 0.25], np.float32)
    s = session([it], {"x": (x.dtype, x.shape)}, opset=19, scales=scales)
    (y,) = s.run(None, {"x": x})
    rows, columns = np.nonzero(np.isnan(y))
    assert (rows.min(), rows.max()) == (4, 5)
    assert 32 <= columns.min() < 50 <= columns.max() < 64
    assert np.all(y[~np.isnan(y)] == 1)


@pytest.mark.parametrize("sizes", part([(40, 333), (90, 61), (37, 100), (13, 17), (160, 26)], 3))
@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resizing_of_known_sizes(mode: str, antialias: int, sizes: tuple[int, int]) -> None:
    if mode == "nearest" and antialias:
        return
    x = np.random.default_rng(0).standard_normal((1, 2, 53, 83)).astype(np.float32)
    whole = np.array([1, 2, *sizes])
    for place in part(("half_pixel", "align_corners", "asymmetric"), 3):
        way: dict[str, Any] = {"mode": mode, "antialias": antialias}
        it = node("Resize", "x   sizes", coordinate_transformation_mode=place, **way)
        (y,) = session([it], {"x": (x.dtype, x.shape)}, opset=19, sizes=whole).run(None, {"x": x})
        wanted = reference([it], {"x": x}, 19, sizes=whole)
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resizing_to_nothing(mode: str) -> None:
    x = np.ones((2, 1), np.float32)
    scales = np.array([1, 0.5], np.float32)
    (y,) = results([node("Resize", "x  scales", mode=mode)], {"x": x}, scales=scales)
    assert y.shape == (2, 0)


@pytest.mark.parametrize(("scale", "length"), [(1.5, 7), (0.7, 3), (0.25, 1)])
def test_corners_are_aligned_by_whole_extents(scale: float, length: int) -> None:
    x = np.arange(5, dtype=np.float32)[None] ** 2
    it = node("Resize", "x  scales", mode="linear", coordinate_transformation_mode="align_corners")
    (y,) = results([it], {"x": x}, scales=np.array([1, scale], np.float32))
    wanted = np.interp(np.linspace(0, 4, length), np.arange(5), x[0])
    np.testing.assert_allclose(y, wanted[None], rtol=1e-6)


def test_antialiased_sizes_of_a_free_axis() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5)).astype(np.float32)
    it = node("Resize", "x   sizes", mode="cubic", antialias=1)
    (y,) = results([it], {"x": x}, 19, sizes=np.array([6, 2]))
    wanted = reference([it], {"x": x}, 19, sizes=np.array([6, 2]))
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 4, 9])
@pytest.mark.parametrize("element", [np.int32, np.int64])
def test_sizes_that_are_kept_below_zero(element: Any, n: int) -> None:
    number = helper.np_dtype_to_tensor_dtype(np.dtype(element))
    nodes = [
        node("Shape", "x", "s"),
        node("Cast", "s", "t", to=number),
        node("Squeeze", "t", "n"),
        node("Min", "n minus", "low"),
        node("Div", "low three", "third"),
        node("Add", "third four", "y"),
        node("Less", "low zero", "below"),
        node("Range", "zero low one", "none"),
        node("Range", "zero y one", "some"),
    ]
    numbers = {"minus": -2, "zero": 0, "one": 1, "three": 3, "four": 4}
    held: dict[str, Any] = {k: np.array(v, element) for k, v in numbers.items()}
    s = session(nodes, {"x": (np.float32, ["n"])}, "y below none some", **held)
    y, below, none, some = s.run(None, {"x": np.ones(n, np.float32)})
    assert (y.tolist(), below.tolist(), none.tolist()) == (4, True, [])
    np.testing.assert_array_equal(some, np.arange(4, dtype=element), strict=True)


@pytest.mark.parametrize("op", ["HardSigmoid", "HardSwish", "LeakyRelu", "Selu", "ThresholdedRelu"])
def test_defaults_are_numbers_of_32_bits(op: str) -> None:
    x = np.random.default_rng(0).uniform(-4, 4, 50)
    (y,) = results([node(op, "x")], {"x": x}, opset=18)
    np.testing.assert_allclose(y, reference([node(op, "x")], {"x": x}, 18), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("op", ["Max", "Min"])
@pytest.mark.parametrize("held", [[NAN], [NAN, 1.0, -INF, INF, 0.5]])
def test_a_constant_that_is_nan_is_the_extremum(held: list[float], op: str, dtype: str) -> None:
    x = np.array([0.5, NAN, 3.0, -2.0, INF], dtype)
    c = np.array(held, dtype)
    want = (np.maximum if op == "Max" else np.minimum)(x, c)
    for names in ("x c", "c x"):
        (got,) = results([node(op, names)], {"x": x}, c=c)
        np.testing.assert_array_equal(got, want)


LONGEST = 2**63 - 1


@pytest.mark.parametrize("step", [LONGEST, -LONGEST, -LONGEST - 1, 1 << 40])
@pytest.mark.parametrize("start", [0, 3, -2, LONGEST])
def test_a_step_beyond_an_axis_takes_one_element(start: int, step: int) -> None:
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    stop = LONGEST if step > 0 else -LONGEST - 1
    held: dict[str, Any] = {"s": [start], "e": [stop], "a": [0], "t": [step]}
    (got,) = results([node("Slice", "x s e a t")], {"x": x}, **held)
    np.testing.assert_array_equal(got, x[slice(start, None, step)])


@pytest.mark.parametrize("start", [-LONGEST - 1, -LONGEST, -2, 0, LONGEST])
def test_a_slice_from_far_before_the_first_to_a_size(start: int) -> None:
    nodes = [
        node("Shape", "w", "n"),
        node("Slice", "x s n a"),
    ]
    x, w = np.arange(10, dtype=np.float32).reshape(5, 2), np.zeros(4, np.float32)
    feed = {"x": x, "w": w}
    (got,) = results(nodes, feed, s=[start], a=[0])
    np.testing.assert_array_equal(got, x[start:4])
