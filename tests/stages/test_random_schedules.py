"""Random legal schedules change no result, at the level of tiles, as programs and as machine code.

`MINICC_SCHEDULES=N` tries N of each kind instead of a few; `make fuzz` tries them on random models.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from minicc.ir.core import Module
from minicc.ir.interpret import run
from minicc.options import Options
from minicc.target import TARGETS
from tests.stages.programs import Array, machine_code, programs, same_bits, spread
from tests.stages.schedules import rescheduled, text_of
from tests.stages.test_free_sizes import CASES, inputs_at, module_of
from tests.stages.test_random_programs import close
from tests.stages.test_whole_rows import attention, inputs_of

_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
_MANY = int(os.environ.get("MINICC_SCHEDULES", "0"))
_SETTINGS = settings(
    max_examples=_MANY or 4,
    phases=[Phase.generate],  # to shrink a program takes minutes
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not _MANY,
)
_QUICK = ("layer", "soft-max", "turned", "rows", "loop")  # without MINICC_SCHEDULES
_SEEDS = st.integers(0, 1 << 32)


def check(module: Module, seed: int, cases: list[list[Array]]) -> None:
    """Compare what a module gives with random schedules to what it means."""
    rng = Random(seed)
    target = rng.choice(_RUNNABLE)
    packed, program, plans = rescheduled(module, Options(target=target), None, rng)
    shared = spread(program)
    for inputs in cases:
        want = run(module, inputs)
        close(run(packed, inputs), want, f"packed\n{text_of(plans)}")
        close(run(program, inputs), want, f"program\n{text_of(plans)}")
        one = machine_code(program, target, inputs, 1)
        close(one, want, f"machine code for {target}\n{text_of(plans)}")
        several = machine_code(shared, target, inputs, 3)
        assert all(map(same_bits, one, several)), f"three threads\n{text_of(plans)}"


@_SETTINGS
@given(programs(loops=True), _SEEDS)
def test_programs(made: tuple[Module, list[Array]], seed: int) -> None:
    module, inputs = made
    check(module, seed, [inputs])


@_SETTINGS
@given(st.tuples(st.integers(1, 2), *[st.integers(2, 40)] * 4), _SEEDS)
def test_attention(sizes: tuple[int, int, int, int, int], seed: int) -> None:
    made = attention(sizes, masked=seed % 2 == 0, residual=seed % 3 == 0)
    check(made, seed, [inputs_of(made)])


@pytest.mark.parametrize("name", CASES if _MANY else _QUICK)
def test_free_dimensions(name: str) -> None:
    module, types, sizes = module_of(name)
    for seed in range(_MANY or 1):
        chosen = Random(seed).sample(sizes if _MANY else sizes[:12], 2)
        check(module, seed, [inputs_at(types, n) for n in chosen])
