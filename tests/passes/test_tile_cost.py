"""Register tiles of contractions: what fits the registers, and which of them are chosen."""

from __future__ import annotations

import pytest

from minicc.passes.structured.rows import ADDRESSES
from minicc.passes.structured.tile_cost import Vectors, cheapest, register_tiles
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
        assert t["m"] * vectors + held + 1 <= target.registers


@pytest.mark.parametrize("units", [64, 128, 256, 512])
def test_a_single_row_reads_no_column_twice(units: int) -> None:
    """On sixteen registers, too: what is multiplied by need not be held."""
    extents = (("n", units), ("k", units))
    for target in TARGETS.values():
        _, tile = cheapest((), "n", extents, units, floats(target), target, frozenset())
        assert units % tile["n"] == 0


def test_rows_that_lie_apart_are_as_many_as_addresses_fit() -> None:
    target = TARGETS["avx512"]
    extents, layout = (("m", 196), ("n", 32), ("k", 64)), floats(target)
    _, together = cheapest(("m",), "n", extents, 64, layout, target, frozenset())
    apart = (frozenset("m"), 1)
    _, tile = cheapest(("m",), "n", extents, 64, layout, target, frozenset(), apart=apart)
    assert tile["m"] <= ADDRESSES < together["m"]


def test_a_panel_that_the_caches_do_not_hold_is_narrow() -> None:
    """Tile after tile reads it again, from further away the wider it is."""
    target = TARGETS["avx2"]
    extents, layout = (("m", 14), ("n", 512), ("k", 4608)), floats(target)
    _, deep = cheapest(("m",), "n", extents, 4608, layout, target, frozenset())
    _, flat = cheapest(("m",), "n", extents, 64, layout, target, frozenset())
    assert deep["n"] < flat["n"]
