"""Register tiles of contractions: what fits the registers, and which of them are chosen."""

from __future__ import annotations

from itertools import product

import pytest

from minicc.passes.structured.rows import ADDRESSES
from minicc.passes.structured.tile_cost import (
    EVEN,
    Apart,
    Vectors,
    Window,
    cheapest,
    cost_of,
    register_tiles,
)
from minicc.target import TARGETS, Target

EXTENTS = {"m": 49, "n": 512}


def floats(target: Target) -> Vectors:
    return Vectors(target.lanes(32), target.vector_bits // 8)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_tiles_fit_the_registers(target: Target) -> None:
    lanes = target.lanes(32)
    tiles = list(register_tiles(("m",), "n", EXTENTS, lanes, target.registers))
    assert {t["m"] for t in tiles} >= {1, 2, 3}
    for t in tiles:
        vectors = -(-t["n"] // lanes)
        held = vectors if t["m"] > 1 else 0
        assert t["m"] * vectors + held + 1 <= target.registers + 2


@pytest.mark.parametrize("units", [64, 128, 256, 512])
def test_a_single_row_reads_no_column_twice(units: int) -> None:
    """On sixteen registers, too: what is multiplied by need not be held."""
    extents = (("n", units), ("k", units))
    for target in TARGETS.values():
        _, tile = cheapest((), "n", extents, units, floats(target), target, ())
        assert units % tile["n"] == 0


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_none_is_cheaper_than_the_cheapest(target: Target) -> None:
    """Also among those that are not weighed, as their multiply-adds alone take longer."""
    apart = Apart(frozenset("w"), strides=(("w", 4096),))
    both = floats(target)._replace(both=True, window=Window("w", 1, 1, 3))
    for rows, columns, depth in product([1, 7, 28], [3, 64, 512], [9, 64, 4608]):
        extents = {"h": rows, "w": 14, "n": columns}
        for layout, where in ((floats(target), EVEN), (floats(target), apart), (both, EVEN)):
            names = ("h", "w"), "n", tuple(extents.items()), depth, layout, target, ()
            cost, tile = cheapest(*names, apart=where)
            others = register_tiles(("h", "w"), "n", extents, layout.lanes, target.registers)
            costs = [
                (cost_of(t, ("h", "w"), "n", extents, depth, layout, target, (), where), t)
                for t in others
            ]
            assert (cost, tile) == min(costs, key=lambda c: c[0])


def test_rows_that_lie_apart_are_as_many_as_addresses_fit() -> None:
    target = TARGETS["avx512"]
    extents, layout = (("m", 196), ("n", 32), ("k", 64)), floats(target)
    _, together = cheapest(("m",), "n", extents, 64, layout, target, ())
    apart = Apart(frozenset("m"))
    _, tile = cheapest(("m",), "n", extents, 64, layout, target, (), apart=apart)
    assert tile["m"] <= ADDRESSES < together["m"]


def test_a_panel_that_the_caches_do_not_hold_is_narrow() -> None:
    """Tile after tile reads it again, from further away the wider it is."""
    target = TARGETS["avx2"]
    extents, layout = (("m", 14), ("n", 512), ("k", 4608)), floats(target)
    _, deep = cheapest(("m",), "n", extents, 4608, layout, target, ())
    _, flat = cheapest(("m",), "n", extents, 64, layout, target, ())
    assert deep["n"] < flat["n"]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("terms", [3, 5, 7])
def test_what_a_window_reads_waits_in_registers(stride: int, terms: int) -> None:
    """Of a depthwise convolution: what its terms share does not go to memory and back."""
    target = TARGETS["avx512"]
    window = Window("w", stride * 240, 240, terms)
    layout = floats(target)._replace(both=True, window=window)
    extents = (("w", 80), ("c", 240))
    _, tile = cheapest(("w",), "c", extents, terms * terms, layout, target, ())
    vectors = -(-tile["c"] // layout.lanes)
    waiting = window.places(tile.get("w", 1))
    assert (tile.get("w", 1) + waiting) * vectors <= target.registers + 2


def test_windows_of_neighbours_share_places() -> None:
    assert Window("w", 64, 64, 3).places(4) == 6
    assert Window("w", 128, 64, 3).places(4) == 9
    assert Window("w", 256, 64, 3).places(4) == 12
    assert Window("w", 64, 64, 1).places(4) == 4


def test_rows_do_not_crowd_a_set_of_the_first_cache() -> None:
    """Of 512 channels, 28 pixels lie in two sets of eight lines: each line is read anew."""
    target = TARGETS["avx512"]
    extents, layout = (("h", 14), ("w", 14), ("o", 16)), floats(target)
    for channels, height in ((512, 14), (500, 28)):
        strides = (("h", 14 * channels * 4), ("w", channels * 4))
        apart = Apart(strides=strides)
        _, tile = cheapest(("h", "w"), "o", extents, 144, layout, target, (), apart=apart)
        assert tile.get("h", 1) * tile["w"] == height
        assert apart.crowded(tile, target) == 0
    assert Apart(strides=(("w", 2048),)).crowded({"w": 17}, target) == 9
