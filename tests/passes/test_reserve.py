"""Memory for buffers of free sizes: what lives at the same time lies apart, whatever they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minicc.ir.affine import Dim, evaluate, floordiv, maximum, minimum, multiply, number, size
from minicc.ir.core import Value
from minicc.ir.text.extents import with_derived
from minicc.ir.types import F32, BufferType, buffer_bytes
from minicc.passes.program.plan_memory import Life, plan_offsets
from minicc.passes.program.reserve import Order, Reserve

H, W, N = size("h"), size("w"), size("n")
# Halves rounded up, a quarter of one of them, a count of windows, which may be less than none,
# and what is never more than none.
KNOWN = (
    ("$h1", floordiv(H + 1, 2)),
    ("$w1", floordiv(W + 1, 2)),
    ("$h2", floordiv(size("h1") + 1, 2)),
    ("$w2", floordiv(size("w1") + 1, 2)),
    ("$t", floordiv(2 * size("w2") + 3, 4)),
    ("$v", floordiv(H - 3, 2)),
    ("$u", minimum(H - 9, 0)),
)
EXTENTS = [H, W, N, *[size(name[1:]) for name, _ in KNOWN[:-2]], minimum(H, W)]
EXTENTS += [H - size("u"), W - size("u") + 1]
SIZES = (0, 1, 2, 3, 4, 5, 9, 16, 33, 100)


@st.composite
def lives(draw: st.DrawFn) -> Life:
    extents = [draw(st.sampled_from(EXTENTS)) + draw(st.sampled_from((0, 0, 2)))]
    extents += [multiply(draw(st.integers(1, 4)), draw(st.sampled_from([*EXTENTS, 1])))]
    type = BufferType(F32, (*extents, draw(st.integers(1, 70))))
    first = draw(st.integers(0, 6))
    return Life(Value(type), buffer_bytes(type), first, first + draw(st.integers(0, 2)))


@given(st.lists(lives(), min_size=1, max_size=8), st.data())
def test_what_lives_together_lies_apart(found: list[Life], data: st.DataObject) -> None:
    plan = plan_offsets(found, KNOWN)
    for _ in range(6):
        sizes: dict[str, Dim] = {n: data.draw(st.sampled_from(SIZES)) for n in ("$h", "$w", "$n")}
        numbers = with_derived(sizes, (*KNOWN, *plan.derived))
        places = []
        for life in found:
            start = int(evaluate(plan.offsets[life.value], numbers))
            type = life.value.type
            size = type.reach() * type.dtype.bytes
            places.append((start, start + int(evaluate(size, numbers))))
            assert start >= 0
            assert start % 64 == 0
            assert places[-1][1] <= evaluate(plan.size, numbers)
        for a, (start, stop) in zip(found, places, strict=True):
            for b, (other, end) in zip(found, places, strict=True):
                if a is not b and a.first <= b.last and b.first <= a.last:
                    assert stop <= other or end <= start, sizes


def test_buffers_of_an_image_and_its_halves_share_memory() -> None:
    """As those of numbers would; each had its own place before they could be compared."""
    types = [
        BufferType(F32, (H, W, 8)),
        BufferType(F32, (size("h1"), size("w1"), 16)),
        BufferType(F32, (size("h1") + 2, size("w1") + 2, 16)),
        BufferType(F32, (size("h2"), size("w2"), 32)),
    ]
    found = [Life(Value(t), buffer_bytes(t), k, k + 1) for k, t in enumerate(types)]
    plan = plan_offsets(found, KNOWN)
    numbers = with_derived({"$h": 320, "$w": 320}, (*KNOWN, *plan.derived))
    first = buffer_bytes(BufferType(F32, (320, 320, 8)))
    total = sum(number(evaluate(life.size, numbers)) for life in found)
    assert evaluate(plan.size, numbers) < 1.6 * number(first) < 0.8 * total


def test_sizes_are_written_by_one_of_them() -> None:
    exact = [256 * H * W, 64 * size("h2") * size("w2")]
    reserve = Reserve(exact, KNOWN)
    h, w = size("m0"), size("m1")
    assert [reserve.bytes(value) for value in exact] == [4096 * h * w, 64 * h * w]
    # no image takes no memory, but is told apart from others as if it had a point
    assert reserve.derived[0] == ("$m0", size("h2") - minimum(size("h2"), 1) + 1)
    other = Reserve([256 * H * H, 64 * size("h1") * N], KNOWN[:1])
    assert [other.bytes(64 * size("h1")), other.bytes(40 * N + 3)] == [64 * h, 64 * w + 64]
    # a few bytes for each would be taken for a line
    assert other.bytes(4 * N + 3) == 64 * size("m2")


def test_a_border_fits_where_an_image_has_a_point() -> None:
    h, w = size("m0"), size("m1")
    order = Order([("$m0", maximum(H, 1)), ("$m1", maximum(W, 1))])
    assert order.before((h + 2) * (w + 2), 9 * h * w)
    assert not Order(()).before((h + 2) * (w + 2), 9 * h * w)
    assert not order.before((h + 2) * (w + 2), 8 * h * w)


def test_a_maximum_is_no_less_than_either() -> None:
    order = Order([("$m0", maximum(H, W)), ("$m1", maximum(size("m0"), N))])
    for one in (H, W, N, size("m0")):
        assert order.before(one + 64, size("m1") + 64)
        assert not order.before(size("m1"), one)
