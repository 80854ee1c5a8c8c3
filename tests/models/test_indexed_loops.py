"""Loops over the elements of an axis, each taken by a slice, in the way that tf2onnx writes them.

The slice begins with the number of the round, ends a thousand million elements on at least, and its
step is as long, so that it takes one element, whose axis is then dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.models.test_whiles import hosted, opened

Array = np.ndarray[Any, Any]
HEAD = """<ir_version: 8, opset_import: ["" : 18]>
"""
# how many columns there are is a state that stays (`size`), or is asked of one in each round
ENDS = {
    "a state": "end = Cast<to: int = 1>(size)",
    "a gather": "shape = Shape(t) all = Cast<to: int = 6>(shape) "
    "one_end = Gather(all, nearest) end = Cast<to: int = 1>(one_end)",
    "a slice": "shape = Shape(t) all = Cast<to: int = 6>(shape) "
    "part = Slice(all, from_1, to_2, from_0) one_end = Squeeze(part, from_0) "
    "end = Cast<to: int = 1>(one_end)",
}
COLUMNS = (
    HEAD
    + """
m (float[n, m] x) => (float[k] y)
  <int32 zero = {{0}}, int32 step = {{1}}, int64[1] from_0 = {{0}}, int64[1] from_1 = {{1}},
   int64[1] to_2 = {{2}}, int64 nearest = {{1}}, int64[1] far = {{2147483647}}, float none = {{0}},
   int32[1] nought = {{0}}, bool[2] masked = {{0, 0}}, int32 least = {{-1000000000}},
   float long = {{1e9}}, int32[2] axes = {{0, 1}}, int32[2] steps = {{1, 1000000000}},
   float half = {{0.5}}>
{{
  sizes = Shape(x)
  whole = Cast<to: int = 6>(sizes)
  count = Gather(whole, nearest)
  number = Cast<to: int = 1>(count)
  begins = Less(none, number)
  column = Slice(x, from_0, from_1, from_1)
  flat = Squeeze(column, from_1)
  empty = Sub(flat, flat)
  last, y, _size, _x, _step = Loop("", begins, zero, empty, count, x, step) <body = each
    (int64 round, bool holds, int32 i, float[k] sum, int32 size, float[n, m] t, int32 by)
      => (bool goes_on, int32 next, float[k] new, int32 size, float[n, m] t, int32 by)
    {{
      next = Add(i, by)
      begin_1 = Unsqueeze(i, from_0)
      begin = Concat<axis: int = 0>(nought, begin_1)
      after = Unsqueeze(next, from_0)
      stop = Concat<axis: int = 0>(nought, after)
      stop_number = Cast<to: int = 1>(stop)
      farther = Max(stop_number, long)
      stop_far = Cast<to: int = 6>(farther)
      stops = Where(masked, least, stop_far)
      part_i = Slice(t, begin, stops, axes, steps)
      row = Squeeze(part_i, from_1)
      less = Mul(sum, half)
      new = Add(less, row)
      at = Cast<to: int = 1>(next)
      {end}
      goes_on = Less(at, end)
    }}>
}}
"""
)


@pytest.mark.parametrize("end", ENDS)
def test_columns_by_their_number(end: str) -> None:
    session = opened(COLUMNS.format(end=ENDS[end]))
    for n, m in ((3, 5), (1, 1), (2, 40), (4, 0), (5, 2)):
        x = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
        want = np.zeros(n, np.float32)
        for k in range(m):
            want = want * np.float32(0.5) + x[:, k]
        if m == 0:
            continue  # the slice of the first column has none
        (y,) = session.run(None, {"x": x})
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    assert hosted(session) == []


TRIANGLE = (
    HEAD
    + """
m (float[n] x) => (float y)
  <int32 zero = {0}, float none = {0}, int32 step = {1}, int64 nearest = {0}, int64[1] first = {0},
   int32[1] far = {1000000000}, int32[1] long = {1000000000}, int64[1] along = {0}>
{
  sizes = Shape(x)
  whole = Cast<to: int = 6>(sizes)
  count = Gather(whole, nearest)
  number = Cast<to: int = 1>(count)
  begins = Less(none, number)
  last, y, _count = Loop("", begins, zero, none, count) <body = rows
    (int64 round, bool holds, int32 i, float sum, int32 size)
      => (bool goes_on, int32 next, float made, int32 size)
    {
      next = Add(i, step)
      inner_end = Cast<to: int = 1>(next)
      inner_begins = Less(none, inner_end)
      _j, made, _end = Loop("", inner_begins, zero, sum, next) <body = columns
        (int64 turn, bool still, int32 j, float so_far, int32 rows)
          => (bool more, int32 after, float total, int32 rows)
        {
          after = Add(j, step)
          place = Unsqueeze(j, first)
          one = Slice(x, place, far, along, long)
          value = Squeeze(one, first)
          total = Add(so_far, value)
          at = Cast<to: int = 1>(after)
          end = Cast<to: int = 1>(rows)
          more = Less(at, end)
        }>
      outer_at = Cast<to: int = 1>(next)
      outer_end = Cast<to: int = 1>(size)
      goes_on = Less(outer_at, outer_end)
    }>
}
"""
)


def test_as_many_rounds_as_the_round_around_has_a_number() -> None:
    session = opened(TRIANGLE)
    for n in (4, 1, 9, 0):
        x = np.arange(n, dtype=np.float32)
        (y,) = session.run(None, {"x": x})
        assert y == sum(float(x[: k + 1].sum()) for k in range(n))
    assert hosted(session) == []


@pytest.mark.parametrize("step", [1_000_000_000, 2**31 - 1])
@pytest.mark.parametrize("start", [0, 3, -1, -2, -20])
@pytest.mark.parametrize("stop", [1_000_000_000, 2**31 - 1, 2**62, 4, -1])
def test_a_step_over_the_whole_axis_takes_one_element(start: int, stop: int, step: int) -> None:
    text = (
        HEAD
        + f"""
    m (float[n] x) => (float[k] y)
      <int64[1] start = {{{start}}}, int64[1] stop = {{{stop}}}, int64[1] axis = {{0}},
       int64[1] step = {{{step}}}>
    {{ y = Slice(x, start, stop, axis, step) }}
    """
    )
    session = opened(text)
    for n in (30, 9, 4, 3, 2, 1):
        x = np.arange(n, dtype=np.float32)
        (y,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(y, x[start:stop:step])


def test_what_a_round_leaves_of_an_axis_counts_from_its_end() -> None:
    """As tf2onnx has cumulative products: `x[:, : -round - 1]`, with ones before it."""
    text = (
        HEAD
        + """
    m (float[n, m] x) => (float[n, m] y)
      <int64[1] last = {1}, int64[1] first = {0}, int64 one = {1}, int64[1] nought = {0},
       int64 place = {1}, bool yes = {1}, float ones = {1}>
    {
      sizes = Shape(x)
      size = Gather(sizes, place)
      rounds = Sub(size, one)
      y = Loop(rounds, yes, x) <body = each
        (int64 round, bool holds, float[n, m] product) => (bool holds, float[n, m] new)
        {
          next = Add(round, one)
          width = Unsqueeze(next, nought)
          back = Neg(width)
          front = Slice(x, first, back, last)
          pads = Concat<axis: int = 0>(first, width, first, nought)
          later = Pad(front, pads, ones)
          new = Mul(product, later)
        }>
    }
    """
    )
    session = opened(text)
    for n, m in ((2, 7), (1, 1), (3, 12)):
        x = np.random.default_rng(m).uniform(0.5, 1.5, (n, m)).astype(np.float32)
        (y,) = session.run(None, {"x": x})
        np.testing.assert_allclose(y, np.cumprod(x, 1), rtol=1e-5)
    assert hosted(session) == []
