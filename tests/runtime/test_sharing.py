"""The least share of a launch follows the time of runs, on machines that are made up."""

from collections.abc import Callable

import numpy as np
import pytest

from minicc.runtime.sharing import LEAST, Sharing

Machine = Callable[[int, int], float]


def shared_cache(least: int, run: int) -> float:
    """Each step up loses a tenth."""
    return 1.1 ** LEAST.index(least)


def far_apart(least: int, run: int) -> float:
    """Each step up gains a tenth."""
    return 1.1 ** -LEAST.index(least)


def between(least: int, run: int) -> float:
    """The third is best."""
    return 1 + 0.1 * abs(LEAST.index(least) - 2)


def slow_launches(least: int, run: int) -> float:
    """What is shared does not matter."""
    return 1.0


def runs(sharing: Sharing, machine: Machine, count: int, noise: float = 0.0) -> list[int]:
    """The least share of each of so many runs; a run in twenty takes ten times as long."""
    rng = np.random.default_rng(count)
    used = []
    for run in range(count):
        used.append(sharing.least)
        took = machine(sharing.least, run) * (1 + noise * rng.random())
        sharing.ran(took * (10 if rng.random() < 0.05 and noise else 1))
    return used


def part(used: list[int], least: int) -> float:
    return used.count(least) / len(used)


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize(
    ("machine", "best"), [(shared_cache, 0), (far_apart, len(LEAST) - 1), (between, 2)]
)
def test_the_best_is_found_and_kept(machine: Machine, best: int, noise: float) -> None:
    sharing = Sharing()
    runs(sharing, machine, 400, noise)
    assert part(runs(sharing, machine, 4000, noise), LEAST[best]) > 0.95


def test_what_does_not_matter_is_left_as_it_is() -> None:
    assert part(runs(Sharing(), slow_launches, 4000), LEAST[0]) > 0.95


def test_a_machine_that_changes_is_followed() -> None:
    sharing = Sharing()
    runs(sharing, shared_cache, 4000)
    before = sharing.least
    runs(sharing, lambda least, run: 2 * far_apart(least, run), 300)
    assert (before, sharing.least) == (LEAST[0], LEAST[-1])
    runs(sharing, shared_cache, 1200)
    assert sharing.least == LEAST[0]


def test_other_sizes_begin_where_the_newest_are() -> None:
    sharing = Sharing()
    runs(sharing, far_apart, 400)
    assert Sharing(sharing).least == LEAST[-1]


def test_one_slow_window_decides_nothing() -> None:
    """What is tried must be quicker than before it and after it."""
    used = runs(Sharing(), lambda least, run: 2.0 if run // 8 % 8 == 0 else 1.0, 4000)
    assert part(used, LEAST[0]) > 0.8
