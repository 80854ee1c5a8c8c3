"""Reshapes and ranges of free extents that a model computes in its own ways: one program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from minicc.api.session import InferenceSession
from minicc.errors import UserError
from minicc.frontends.onnx.importer import import_model
from minicc.ir import graph
from minicc.ir.core import walk

Sizes = Sequence[Mapping[str, Sequence[int]]]

# Each input's batch has a name of its own, as torch.export writes it.
BATCHES = (
    "(float[n, t, 6] x, float[k, u] z) => (float[a, b, c, d] y)",
    """
    s = Shape <start = 0, end = 1> (z)
    m = Constant <value_ints = [-1, 2, 3]> ()
    t = Concat <axis = 0> (s, m)
    y = Reshape (x, t)
    """,
)
# The extent that a convolution has, written as torch.export does: divisions truncate in ONNX.
WINDOWS = (
    "(float[n, 1, t] x) => (float[a, b, c, d] y)",
    """
    w = Constant <value = float[8, 1, 5] {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,
        2,3,4,5,6,7,8,9,1,2,3,4}> ()
    c = Conv <strides = [5]> (x, w)
    d = Transpose <perm = [0, 2, 1]> (c)
    s = Shape (x)
    zero = Constant <value_ints = [0]> ()
    two = Constant <value_ints = [2]> ()
    five = Constant <value_ints = [5]> ()
    one = Constant <value_ints = [1]> ()
    n = Gather (s, zero)
    h = Gather (s, two)
    l = Sub (h, five)
    q = Div (l, five)
    e = Add (q, one)
    m = Constant <value_ints = [-1, 4]> ()
    t = Concat <axis = 0> (n, e, m)
    y = Reshape (d, t)
    """,
)
# Windows of a padded axis, joined again.
PARTS = (
    "(float[n, t, 2] x) => (float[a, b, c] y)",
    """
    two = Constant <value_ints = [2]> ()
    zero = Constant <value_ints = [0]> ()
    one = Constant <value_ints = [1]> ()
    four = Constant <value_ints = [4]> ()
    s = Shape (x)
    h = Gather (s, one)
    r = Mod (h, four)
    r1 = Sub (four, r)
    r2 = Mod (r1, four)
    front = Constant <value_ints = [0, 0, 0, 0]> ()
    pads = Concat <axis = 0> (front, r2, zero)
    p = Pad (x, pads)
    whole = Add (h, r2)
    parts = Div (whole, four)
    n = Gather (s, zero)
    m = Constant <value_ints = [4, 2]> ()
    cut = Concat <axis = 0> (n, parts, m)
    a = Reshape (p, cut)
    b = Exp (a)
    rest = Constant <value_ints = [-1]> ()
    join = Concat <axis = 0> (rest, whole, two)
    y = Reshape (b, join)
    """,
)
# Both halves of an axis that is rolled, cut in windows; each is counted from what is left.
ROLLED = (
    "(float[n, t, 2] x) => (float[a, b, c] y)",
    """
    one = Constant <value_ints = [1]> ()
    two = Constant <value_ints = [2]> ()
    far = Constant <value_ints = [9223372036854775807]> ()
    zero = Constant <value_ints = [0]> ()
    four = Constant <value_ints = [4]> ()
    back = Slice (x, two, far, one)
    front = Slice (x, zero, two, one)
    r = Concat <axis = 1> (back, front)
    s = Shape (r)
    n = Gather (s, zero)
    h = Gather (s, one)
    parts = Div (h, four)
    m = Constant <value_ints = [4, 2]> ()
    cut = Concat <axis = 0> (n, parts, m)
    w = Reshape (r, cut)
    rest = Constant <value_ints = [-1]> ()
    shape = Concat <axis = 0> (parts, one, two)
    any = Equal (shape, rest)
    ones = Constant <value_ints = [1, 1, 1]> ()
    known = Where (any, ones, shape)
    two_floats = Constant <value_floats = [2.0, 3.0]> ()
    mask = Expand (two_floats, known)
    e = Mul (w, mask)
    join = Concat <axis = 0> (n, h, two)
    y = Reshape (e, join)
    """,
)
# An image that is flattened and restored by its extents, as torch.export writes a padded window's.
RESTORED = (
    "(float[n, 1, h, w] x) => (float[a, b, c, d] y)",
    """
    k = Constant <value = float[2, 1, 3, 3] {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}> ()
    c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, k)
    f = Constant <value_ints = [0, 0, -1]> ()
    flat = Reshape (c, f)
    t = Transpose <perm = [0, 2, 1]> (flat)
    n = Shape <start = 0, end = 1> (x)
    hw = Shape <start = 2, end = 4> (x)
    less = Constant <value_ints = [-1]> ()
    two = Constant <value_ints = [2]> ()
    one = Constant <value_ints = [1]> ()
    low = Add (less, hw)
    half = Div (low, two)
    own = Add (half, one)
    to = Concat <axis = 0> (n, own, less)
    y = Reshape (t, to)
    """,
)
# As many numbers as a tensor has elements, counted from its shape.
COUNTED = (
    "(float[n, t] x) => (float[a, b] y)",
    """
    s = Shape (x)
    count = ReduceProd <keepdims = 0> (s)
    zero = Constant <value_int = 0> ()
    one = Constant <value_int = 1> ()
    r = Range (zero, count, one)
    f = Cast <to = 1> (r)
    e = Reshape (f, s)
    y = Mul (x, e)
    """,
)
# Blocks of an image beside their number, as a pixel shuffle's inverse has them.
BLOCKS = (
    "(float[n, 3, h, w] x) => (float[a, b, c, d, e, f] y)",
    """
    hw = Shape <start = 2, end = 4> (x)
    two = Constant <value_ints = [2]> ()
    half = Div (hw, two)
    zero = Constant <value_ints = [0]> ()
    one = Constant <value_ints = [1]> ()
    h = Gather (half, zero)
    w = Gather (half, one)
    front = Constant <value_ints = [-1, 3]> ()
    to = Concat <axis = 0> (front, h, two, w, two)
    y = Reshape (x, to)
    """,
)
# Of a size that was made a constant the model still computes what it was.
CONSTANT = (
    "(float[n, 16] x, float[m, m] z) => (float[a, b, c] y)",
    """
    count = Size (z)
    n = Shape <end = 1> (x)
    one = Constant <value_ints = [1]> ()
    less = Constant <value_ints = [-1]> ()
    rows = Reshape (count, one)
    to = Concat <axis = 0> (n, rows, less)
    y = Reshape (x, to)
    """,
)
CASES: dict[str, tuple[tuple[str, str], Sizes]] = {
    "batches": (BATCHES, [{"x": (b, t, 6), "z": (b, 1)} for b, t in ((2, 5), (1, 1), (3, 2))]),
    "windows": (WINDOWS, [{"x": (b, 1, t)} for b, t in ((2, 23), (1, 5), (3, 40))]),
    "parts": (PARTS, [{"x": (b, t, 2)} for b, t in ((2, 5), (1, 1), (3, 8))]),
    "counted": (COUNTED, [{"x": (b, t)} for b, t in ((2, 5), (1, 1), (3, 8))]),
    "blocks": (BLOCKS, [{"x": (b, 3, *hw)} for b, *hw in ((2, 6, 8), (1, 2, 2), (3, 4, 10))]),
    "constant": (CONSTANT, [{"x": (b, 16), "z": (4, 4)} for b in (2, 1, 3)]),
    "rolled": (ROLLED, [{"x": (b, t, 2)} for b, t in ((2, 8), (1, 4), (3, 12))]),
    "restored": (RESTORED, [{"x": (b, 1, *t)} for b, *t in ((2, 5, 8), (1, 1, 3), (3, 9, 4))]),
}


def model_of(signature: str, nodes: str) -> bytes:
    text = f'<ir_version: 8, opset_import: ["": 18]> g {signature} {{{nodes}}}'
    return bytes(onnx.parser.parse_model(text).SerializeToString())


def feeds(sizes: Sizes) -> Iterator[dict[str, np.ndarray]]:
    random = np.random.default_rng(3)
    for shapes in sizes:
        yield {k: random.standard_normal(v).astype(np.float32) for k, v in shapes.items()}


@pytest.mark.parametrize("name", CASES)
def test_one_program(name: str) -> None:
    model, sizes = model_of(*CASES[name][0]), CASES[name][1]
    assert not any(isinstance(op, graph.Host) for op in walk(import_model(model).main.body))
    session, reference = InferenceSession(model, threads=1), ReferenceEvaluator(model)
    for feed in feeds(sizes):
        (got,), wanted = session.run(None, feed), reference.run(None, feed)
        want = np.asarray(wanted[0])  # type: ignore[index]
        np.testing.assert_allclose(got, want, rtol=1e-5)
        assert got.shape == want.shape
    assert len(session._compiled) == 1


def test_batches_that_are_not_equal_have_the_result_that_they_mean() -> None:
    model = model_of(*BATCHES)
    session, reference = InferenceSession(model, threads=1), ReferenceEvaluator(model)
    for feed in feeds([{"x": (4, 3, 6), "z": (2, 1)}, {"x": (2, 2, 6), "z": (4, 1)}]):
        (got,), wanted = session.run(None, feed), reference.run(None, feed)
        want = np.asarray(wanted[0])  # type: ignore[index]
        assert np.array_equal(got, want)
    with pytest.raises(UserError, match="MC0142"):
        session.run(None, *feeds([{"x": (1, 1, 6), "z": (5, 1)}]))


def test_extents_that_no_sizes_give_at_once_leave_a_program_for_each() -> None:
    """Of a row that is expanded to three columns and is one column of a Reshape."""
    signature = "(float[1, 2, n] x0) => (float[a, b, k] y, float[p, q] z)"
    held = "<float c = {1.5}, int64[2] shape = {1, 3}, int64[1] one = {1}>"
    nodes = """
        x = MaxPool<kernel_shape=[3], strides=[3]>(x0)
        y = Expand(x, shape)
        s = Shape<start=2>(x)
        d = Concat<axis=0>(one, s)
        z = Reshape(c, d)
    """
    session = InferenceSession(model_of(f"{signature} {held}", nodes), threads=1)
    y, z = session.run(None, {"x0": np.ones((1, 2, 3), np.float32)})
    assert (y.shape, z.tolist()) == ((1, 2, 3), [[1.5]])
    with pytest.raises(UserError, match="MC0142"):
        session.run(None, {"x0": np.ones((1, 2, 9), np.float32)})


RANGES = {
    "0 to the extent": ("0.0", "1.0", "h"),
    "steps of 2": ("1.0", "2.0", "h"),
    "down": ("7.0", "-1.0", "h"),
    "half of the extent": ("0.0", "1.0", "halved"),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_of_floats_that_are_sizes(name: str) -> None:
    """As exporters write the grid of a detector's anchors."""
    start, step, limit = RANGES[name]
    text = f"""<ir_version: 8, opset_import: ["": 18]> g (float[n, t] x) => (float[k] y) {{
        s = Shape (x)
        one = Constant <value = int64 {{1}}> ()
        n = Gather (s, one)
        h = Cast <to = 1> (n)
        two = Constant <value = float {{2.0}}> ()
        half = Div (h, two)
        halved = Floor (half)
        a = Constant <value = float {{{start}}}> ()
        d = Constant <value = float {{{step}}}> ()
        y = Range (a, {limit}, d)
    }}"""
    model = onnx.parser.parse_model(text)
    session = InferenceSession(model.SerializeToString(), threads=1)
    assert not any(isinstance(op, graph.Host) for op in walk(session.module.main.body))
    for extent in (1, 4, 7, 30):
        x = np.zeros((2, extent), np.float32)
        wanted = ReferenceEvaluator(model).run(None, {"x": x})
        assert np.array_equal(session.run(None, {"x": x})[0], np.asarray(wanted[0]))  # type: ignore[index]
    assert len(session._compiled) == 1
