"""Schedules that a search tries are legal, differ, and keep every bit."""

from __future__ import annotations

from random import Random

import pytest

from minicc.compile.compiler import lower
from minicc.ir.core import Module
from minicc.ir.schedule import Sums
from minicc.options import Options
from minicc.passes.structured.legal import legal
from minicc.passes.structured.near_schedules import near, same_order
from minicc.passes.structured.schedule import constants_of
from minicc.passes.structured.write_schedules import Given, named_groups, write_schedules
from minicc.target import TARGETS
from tests.stages.programs import Array, machine_code, same_bits
from tests.stages.test_free_sizes import CASES, inputs_at, module_of
from tests.stages.test_whole_rows import attention, inputs_of

_OPTIONS = Options(target=next(name for name, t in TARGETS.items() if t.runs_here()))
_PROGRAMS = 3
_MOST = 40


def check(module: Module, cases: list[list[Array]]) -> None:
    """Run programs in which each group has a schedule near the compiler's own."""
    target = _OPTIONS.machine
    start = lower(module, _OPTIONS, stop="collapse")
    own = dict(named_groups(write_schedules(start, target, Given())))
    tried = {}
    for name, group in own.items():
        assert group.schedule is not None
        found = list(near(group, group.schedule, target, constants_of(start)))
        assert len({*found}) == len(found)
        assert group.schedule not in found
        for schedule in found:
            assert legal(group, schedule, target) == ()
            assert same_order(group, group.schedule, schedule)
        tried[name] = Random(0).sample(found, min(_MOST, len(found)))
    assert any(tried.values())

    def run(given: Given) -> list[list[Array]]:
        scheduled = write_schedules(start, target, given)
        program = lower(scheduled, _OPTIONS, start="schedule")
        return [machine_code(program, target.name, inputs, 1) for inputs in cases]

    want = run(Given())
    for k in range(_PROGRAMS):
        given = Given()
        given.schedules = {name: found[k] for name, found in tried.items() if k < len(found)}
        for got, wanted in zip(run(given), want, strict=True):
            assert all(map(same_bits, got, wanted)), given.schedules


@pytest.mark.parametrize("name", ["layer", "soft-max", "turned", "image"])
def test_free_extents(name: str) -> None:
    module, types, sizes = module_of(next(case for case in CASES if case.startswith(name)))
    check(module, [inputs_at(types, one) for one in sizes[1:6]])


def test_known_extents() -> None:
    module = attention((2, 40, 40, 16, 32), True, True)
    check(module, [inputs_of(module)])


def test_another_order_of_a_sum_is_told() -> None:
    module = attention((2, 40, 40, 16, 32), True, True)
    ((_, group), *_) = named_groups(lower(module, _OPTIONS, stop="schedule"))
    plan = group.schedule
    assert plan is not None
    assert not same_order(group, plan, plan._replace(sums=(Sums(0, (("k", 4),), ()),)))
    assert same_order(group, plan, plan._replace(grid=plan.grid[::-1]))
