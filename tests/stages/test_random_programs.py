"""Random programs mean the same after every stage, and as machine code on every target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from minicc.ir.core import Module, same_module
from minicc.ir.interpret import run
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module, resources
from minicc.options import Options
from minicc.target import TARGETS
from tests.stages.programs import Array, every_stage, machine_code, programs, same_bits, spread
from tests.sweeps import examples, part

_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
_SETTINGS = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)


def close(got: list[Array], want: list[Array], where: str) -> None:
    """Equal up to what reassociating sums and approximating functions may change."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape, where
        assert g.dtype == w.dtype, where
        scale = max(1.0, float(np.max(np.abs(w), initial=0.0)))
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5 * scale, err_msg=where)


@pytest.mark.parametrize("target", part(_RUNNABLE, 3))
@_SETTINGS
@given(programs())
def test_every_stage_and_machine_code(target: str, made: tuple[Module, list[Array]]) -> None:
    module, inputs = made
    want = run(module, inputs)
    *stages, (_, program) = every_stage(module, inputs, Options(target=target))
    for name, got in stages:
        close(got, want, f"after {name}")
    one = machine_code(program, target, inputs, 1)
    close(one, want, f"machine code for {target}")
    several = machine_code(spread(program), target, inputs, 3)
    assert all(map(same_bits, one, several)), "other bits at three threads"


@pytest.mark.parametrize("target", _RUNNABLE[-1:])
@_SETTINGS
@given(programs(loops=True))
def test_loops_and_branches(target: str, made: tuple[Module, list[Array]]) -> None:
    module, inputs = made
    assert same_module(parse_module(print_module(module), resources(module)), module)
    want = run(module, inputs)
    *stages, (_, program) = every_stage(module, inputs, Options(target=target))
    for name, got in stages:
        close(got, want, f"after {name}")
    assert same_module(parse_module(print_module(program), resources(program)), program)
    one = machine_code(program, target, inputs, 1)
    close(one, want, f"machine code for {target}")
    several = machine_code(spread(program), target, inputs, 3)
    assert all(map(same_bits, one, several)), "other bits at three threads"


@_SETTINGS
@given(programs())
def test_strict_mathematics(made: tuple[Module, list[Array]]) -> None:
    module, inputs = made
    want = run(module, inputs)
    for name, got in every_stage(module, inputs, Options(math="strict"))[:-1]:
        close(got, want, f"after {name}")
