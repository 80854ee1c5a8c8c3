"""Loops over bags, as exporters write an EmbeddingBag: a round sums the rows between two offsets.

The offsets are a vector of free length. Where its elements are at equal distances, nothing of the
loop is left to the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from tests.models.test_whiles import hosted

from minicc.api.session import InferenceSession

TABLE = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)

# as the exporter by TorchScript has it: a Loop with as many rounds as there are bags
_STACKED = """
    many = Shape <start = 0, end = 1> (starts)
    rounds = Squeeze (many)
    ends = Slice (offsets, one_1, large)
    y = Loop (rounds, true) <body = round (int64 i, bool c) => (bool goes_on, float[3] total) {
        goes_on = Identity (true)
        at = Gather (offsets, i)
        end = Gather (ends, i)
        first = Unsqueeze (at, zero_1)
        last = Unsqueeze (end, zero_1)
        bag = Slice (flat, first, last, zero_1)
        rows = Gather (table, bag)
        total = ReduceSum <keepdims = 0> (rows, zero_1)
    }>"""
# as that of torch.export has it: a Loop that counts its rounds, and a sequence
_LISTED = """
    many = Size (starts)
    none = SequenceEmpty <dtype = 1> ()
    begins = Less (zero, many)
    list, count = Loop (, begins, none, zero) <body = round
        (int64 i, bool c, seq(float[1, 3]) before, int64 n)
        => (bool goes_on, seq(float[1, 3]) after, int64 next) {
        at = Reshape (n, less_1)
        step = CastLike (one_32, at)
        after_1 = Add (at, step)
        after_2 = Add (after_1, step)
        first = Slice (offsets, at, after_1)
        last = Slice (offsets, after_1, after_2)
        empty = Equal (first, last)
        total = If (empty) <then_branch = a () => (float[1, 3] zeros) {
            zeros = Expand (half, one_3)
        }, else_branch = b () => (float[1, 3] sum) {
            bag = Slice (flat, first, last)
            rows = Gather (table, bag)
            sum = ReduceSum <keepdims = 1> (rows, zero_1)
        }>
        after = SequenceInsert (before, total)
        step_0 = CastLike (one_32, n)
        next = Add (n, step_0)
        goes_on = Less (next, many)
    }>
    y = ConcatFromSequence <axis = 0> (list)"""
_MODEL = """<ir_version: 9, opset_import: ["": 18]>
g (int64[n, {width}] x) => (float[m, 3] y)
<int64 zero = {{0}}, int64[1] zero_1 = {{0}}, int64[1] one_1 = {{1}}, int64[1] less_1 = {{-1}},
 int32 one_32 = {{1}}, int64[2] one_3 = {{1, 3}}, int64[1] large = {{9223372036854775807}},
 bool true = {{1}}, float half = {{0.5}}, int64 width = {{{width}}}> {{
    flat = Reshape (x, less_1)
    size = Shape (flat)
    all = Squeeze (size)
    starts = Range (zero, all, width)
    {ends}
    offsets = Concat <axis = 0> (starts, last_one)
    {loop}
}}"""


def session_of(loop: str, width: int, ends: str = "last_one = Identity (size)") -> InferenceSession:
    model = onnx.parser.parse_model(_MODEL.format(width=width, loop=loop, ends=ends))
    given = onnx.numpy_helper.from_array(TABLE, "table")
    model.graph.initializer.append(given)
    return InferenceSession(model.SerializeToString(), threads=1)


def bags(count: int, width: int) -> Any:
    return np.random.default_rng(count).integers(0, 20, (count, width))


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("loop", [_STACKED, _LISTED], ids=["stacked", "listed"])
def test_bags_of_one_size_are_summed_by_machine_code(loop: str, width: int) -> None:
    session = session_of(loop, width)
    for count in (3, 1, 8):
        x = bags(count, width)
        (got,) = session.run(None, {"x": x})
        np.testing.assert_allclose(got, TABLE[x].sum(axis=1), rtol=1e-5, atol=1e-6)
    assert hosted(session) == []


def test_a_last_bag_that_is_shorter() -> None:
    """The last offset does not go on as those before it, and is not taken to."""
    session = session_of(_STACKED, 4, "last_one = Sub (size, one_1)")
    for count in (3, 1):
        x = bags(count, 4)
        want = TABLE[x].sum(axis=1)
        want[-1] -= TABLE[x[-1, -1]]
        (got,) = session.run(None, {"x": x})
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
