"""Rounds over padding that are left out: the same bits as with all of them, wherever tiles lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest

from minicc.compile.compiled import compile_module
from minicc.compile.compiler import lower
from minicc.ir import graph
from minicc.ir.affine import Dim, evaluate, floordiv, minimum, mod, symbol
from minicc.ir.build import Builder
from minicc.ir.core import Literal, Module, Value, walk
from minicc.ir.interpret import run
from minicc.ir.schedule import Skip
from minicc.ir.structured import Group, Pad
from minicc.ir.types import F32, TensorType
from minicc.options import Options
from minicc.passes.structured import schedule
from minicc.passes.structured.padding import border, readers_of
from minicc.passes.structured.skips import ends_of, span_of
from minicc.target import TARGETS
from tests.stages.programs import constant, every_stage, machine_code, module, same_bits
from tests.sweeps import part

RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
ZERO = Literal(np.float32(0))
# the image's rows and columns, taps, stride, dilation, padding before and after
CASES = [
    ((7, 7), 3, 1, 1, (1, 1)),
    ((5, 14), 3, 1, 1, (1, 1)),
    ((6, 9), 3, 2, 1, (1, 0)),
    ((9, 8), 3, 1, 4, (4, 4)),
    ((4, 5), 5, 1, 1, (2, 2)),
    ((3, 4), 5, 2, 2, (6, 3)),
    ((1, 2), 3, 1, 1, (1, 1)),
    ((8, 8), 2, 1, 3, (0, 3)),
    ((3, 4), 3, 1, 9, (9, 9)),
]


def convolution(
    image: tuple[Dim, Dim],
    taps: int,
    stride: int,
    dilation: int,
    edges: tuple[int, int],
    **more: int,
) -> Module:
    """A convolution of 48 channels, or others, to 20, whose image has zeros around it."""
    groups, channels = more.get("groups", 1), more.get("channels", 48)

    def body(b: Builder, x: Value) -> Sequence[Value]:
        rng = np.random.default_rng(taps)
        w = rng.standard_normal((20, channels // groups, taps, taps)).astype(np.float32)
        low, high = ((0, *[edge] * 2, 0) for edge in edges)
        padded = b.emit(graph.Pad, x, low=low, high=high, value=ZERO)
        pairs = {"strides": (stride,) * 2, "dilations": (dilation,) * 2}
        layout = "channels_last"
        return [b.emit(graph.Conv, padded, constant(b, w), **pairs, groups=groups, layout=layout)]

    return module(body, TensorType(F32, (more.get("batch", 2), *image, channels)))


def skips(made: Module) -> Iterator[Skip]:
    """What the schedules of a module leave out."""
    for op in walk(made.main.body):
        if isinstance(op, Group) and op.schedule is not None:
            yield from op.schedule.skips


@pytest.mark.parametrize(
    ("case", "groups", "target"),
    part(product(CASES, (1, 20), RUNNABLE), 12),
    ids=lambda p: str(p).replace(" ", ""),
)
def test_the_bits_are_those_of_all_rounds(
    case: tuple[tuple[int, int], int, int, int, tuple[int, int]],
    groups: int,
    target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channels = 48 if groups == 1 else groups
    made = convolution(*case, batch=1, groups=groups, channels=channels)
    options = Options(target=target, math="strict")
    x = np.random.default_rng(0).standard_normal((1, *case[0], channels)).astype(np.float32)
    (want,) = run(made, [x])
    *stages, (_, program) = every_stage(made, [x], options)
    for stage, (got,) in stages:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=stage)
    (mine,) = machine_code(program, target, [x], 2)
    np.testing.assert_allclose(mine, want, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(schedule, "skips_of", lambda *_: [])
    (whole,) = machine_code(lower(made, options), target, [x], 2)
    assert same_bits(mine, whole)


def test_rounds_are_left_out_where_that_is_worth_while() -> None:
    options = Options(target="avx512", math="strict")
    found = [set(skips(lower(convolution(*c), options, stop="schedule"))) for c in CASES[:4]]
    assert found[0] == found[3] == {Skip(0, "kh")}
    many = convolution((64, 64), 3, 1, 1, (1, 1))
    assert not [*skips(lower(many, options, stop="schedule"))]


def test_of_each_channel_alone_rows_of_taps_are_left_out() -> None:
    """So few terms are worth it, since all tiles of a row begin and end alike; columns aren't."""
    options = Options(target="avx512", math="strict")
    alone = [convolution(*case, groups=20, channels=20) for case in CASES[:5]]
    for made in alone:
        assert [*skips(lower(made, options, stop="schedule"))] == [Skip(0, "kh")]
    main = lower(alone[-1], options, stop="tile").main
    (pad,) = (op for op in main.body.ops if isinstance(op, Pad))
    # nobody reads the rows above and below
    assert [extents for _, extents in border(pad, readers_of(main)[pad.result])] == [
        (2, 4, 2, 20), (2, 4, 2, 20)
    ]  # fmt: skip


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("dilation", [1, 8])
def test_of_free_sizes_one_program_leaves_out_what_each_has(dilation: int, groups: int) -> None:
    free = convolution((symbol("$h"), symbol("$w")), 3, 1, dilation, (dilation,) * 2, groups=groups)
    options = Options(threads=2, math="strict")
    assert [*skips(lower(free, options, stop="schedule"))] == [Skip(0, "kh")]
    made = compile_module(free, options, {})
    for image in ((1, 1), (2, 9), (7, 7), (16, 3), (23, 30)):
        x = np.random.default_rng(0).standard_normal((2, *image, 48)).astype(np.float32)
        (got,) = made.executable.run([x])
        (want,) = run(free, [x])
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=str(image))


@pytest.mark.parametrize("target", RUNNABLE)
def test_the_last_tile_of_rows_leaves_out_what_it_has_where_it_is_shifted_to(target: str) -> None:
    free = convolution((symbol("$h"), symbol("$w")), 3, 1, 1, (1, 1), channels=128)
    options = Options(threads=1, math="strict", target=target)
    assert [*skips(lower(free, options, stop="schedule"))] == [Skip(0, "kh")]
    made = compile_module(free, options, {})
    for image in product(range(1, 10), range(1, 6)):
        x = np.random.default_rng(0).integers(-3, 4, (2, *image, 128)).astype(np.float32)
        (got,) = made.executable.run([x])
        (want,) = run(free, [x])
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3, err_msg=str(image))


def test_columns_of_pixels_that_are_counted_through_all_rows() -> None:
    free = convolution((symbol("$h"), symbol("$w")), 3, 1, 8, (8, 8), channels=160)
    options = Options(threads=2, math="strict", target="avx2")
    assert [*skips(lower(free, options, stop="schedule"))] == [Skip(0, "kh"), Skip(0, "kw")]
    made = compile_module(free, options, {})
    for image in ((1, 1), (2, 9), (7, 7), (16, 3), (9, 30), (8, 17)):
        x = np.random.default_rng(0).standard_normal((2, *image, 160)).astype(np.float32)
        (got,) = made.executable.run([x])
        (want,) = run(free, [x])
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=str(image))


@pytest.mark.parametrize("width", [1, 3, 5, 12])
@pytest.mark.parametrize("points", [1, 2, 4, 9])
def test_what_a_tile_reads_ends_where_it_is_said(width: int, points: int) -> None:
    x, n = symbol("x"), symbol("$n")
    for e in (
        mod(x, n),
        3 * mod(x + 2, n) + 4 * floordiv(x, n) - 5,
        2 * minimum(x, mod(2 * x, n) + 3) + n * floordiv(x, 4),
    ):
        least, most = ends_of(e, {"x": x}, {"x": x + (points - 1)})
        for first in range(20):
            sizes = {"x": first, "$n": width}
            found = [evaluate(e, {**sizes, "x": first + k}) for k in range(points)]
            assert evaluate(least, sizes) <= min(found)
            assert max(found) <= evaluate(most, sizes)
            if e == mod(x, n):
                ends_of_all = evaluate(least, sizes), evaluate(most, sizes)
                assert ends_of_all == (min(found), max(found))
            span = span_of(e, {"x": points - 1})
            assert evaluate(most - least, sizes) <= evaluate(span, sizes)


def test_of_padding_as_much_is_filled_as_tiles_reach() -> None:
    """Tiles of 8 pixels are in 1 to 8 rows and may be in all columns; others read all of it."""
    made = convolution((symbol("$h"), symbol("$w")), 3, 1, 9, (9, 9), channels=160)
    main = lower(made, Options(target="avx512", math="strict"), stop="tile").main
    (pad,) = (op for op in main.body.ops if isinstance(op, Pad))
    for (h, w), (rows, columns) in {(3, 1): (7, 0), (3, 4): (2, 3), (20, 30): (1, 9)}.items():
        sizes = {"$h": h, "$w": w}
        boxes = border(pad, readers_of(main)[pad.result])
        found = [[tuple(evaluate(n, sizes) for n in part) for part in box] for box in boxes]
        whole, sides = (2, rows, w + 2 * columns, 160), (2, h, columns, 160)
        assert found == [
            [(0, 9 - rows, 9 - columns, 0), whole],
            [(0, h + 9, 9 - columns, 0), whole],
            [(0, 9, 9 - columns, 0), sides],
            [(0, 9, w + 9, 0), sides],
        ]
    assert next(extents for _, extents in border(pad, None)) == (2, 9, symbol("$w") + 18, 160)


def test_weights_that_are_no_numbers_meet_all_zeros() -> None:
    def body(b: Builder, x: Value) -> Sequence[Value]:
        w = np.full((20, 16, 3, 3), np.inf, np.float32)
        edges = (0, 1, 1, 0)
        padded = b.emit(graph.Pad, x, low=edges, high=edges, value=ZERO)
        one, layout = (1, 1), "channels_last"
        return [
            b.emit(graph.Conv, padded, constant(b, w), strides=one, dilations=one, layout=layout)
        ]

    made = module(body, TensorType(F32, (1, 3, 3, 16)))
    (got,) = compile_module(made, Options(), {}).executable.run(
        [np.ones((1, 3, 3, 16), np.float32)]
    )
    assert np.isnan(got[0, 0]).all()
    assert (got[0, 1, 1] == np.inf).all()
