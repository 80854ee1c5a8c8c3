"""Fusion that explains itself, and does what is asked where that can be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, Phase, given, settings

import minicc
from minicc.cli import commands
from minicc.compile.compiler import lower
from minicc.ir.core import Module
from minicc.ir.interpret import run
from minicc.ir.structured import Group
from minicc.options import Options
from minicc.passes.structured.fusion_plan import Decision, Verdict, Wishes
from minicc.passes.structured.write_schedules import Given
from minicc.target import TARGETS
from tests.stages.programs import Array, machine_code, programs
from tests.stages.test_random_programs import close
from tests.stages.test_whole_rows import attention, inputs_of

MODEL = str(Path(__file__).parents[2] / "examples" / "01_digits" / "digits.onnx")
HERE = next(name for name, target in TARGETS.items() if target.runs_here())


class All(Wishes):
    """Wants all pairs fused that can be."""

    def heard(self, verdict: Verdict, *pair: object) -> Verdict:
        return verdict if verdict.firm else Verdict(True, verdict.reason)


def fused(module: Module, wishes: Wishes, target: str = HERE) -> tuple[Module, list[Decision]]:
    """A module's groups, and the decisions that led to them."""
    options = Options(target=target)
    made = lower(module, options, stop="fuse", given=Given(wishes=wishes))
    return made, [d for plan in wishes.plans for d in plan.decisions]


def groups(module: Module) -> list[Group]:
    return [op for op in module.main.body.ops if isinstance(op, Group)]


def test_the_reason_has_the_numbers_that_decide() -> None:
    few = attention((2, 16, 40, 16, 32), False, False)
    _, decisions = fused(few, Wishes())
    (refused, *_) = [d.verdict for d in decisions if not d.verdict.fused and d.verdict.remedy]
    assert refused.reason == "16 rows meet the same columns, and 32 make it pay"
    _, decisions = fused(attention((2, 40, 40, 16, 32), False, False), Wishes())
    reasons = [d.verdict.reason for d in decisions if d.verdict.fused]
    assert any("40 rows wait whole, 160 bytes each" in reason for reason in reasons)


def test_a_plan_accounts_for_each_group() -> None:
    wishes = Wishes()
    module, _ = fused(attention((2, 40, 40, 16, 32), True, True), wishes)
    (plan,) = wishes.plans
    assert [g.shared for g in plan.groups] == [g.shared for g in groups(module)]
    with pytest.raises(AttributeError):
        plan.groups = ()  # type: ignore[misc]


def test_what_only_costs_may_be_asked_for() -> None:
    module = attention((2, 16, 40, 16, 32), False, False)
    before, decisions = fused(module, Wishes())
    (refused, *_) = [d for d in decisions if not d.verdict.fused and d.verdict.remedy]
    pair = (refused.makers[0][0], refused.reader[0])
    wishes = Wishes([pair])
    after, told = fused(module, wishes)
    wishes.require_met()
    assert len(groups(after)) < len(groups(before))
    assert any(d.verdict.reason.startswith("asked for; of itself it would not") for d in told)
    options = Options(target=HERE, fuse=[pair])
    inputs = inputs_of(module)
    close(machine_code(lower(module, options), HERE, inputs, 1), run(module, inputs), "asked for")


def compiled(*more: str) -> Result:
    return CliRunner().invoke(commands, ["compile", MODEL, "--fusion", *more])


def test_pairs_are_kept_apart_on_the_command_line() -> None:
    first = compiled().stdout.splitlines()[1]
    assert first == "  conv1 -> conv1 +1: fused: it has 1024 points beside the product's 9216"
    name = "conv1,conv1"
    apart = compiled("--no-fuse", name)
    assert "not fused: asked for; of itself it would: it has 1024 points" in apart.stdout
    ran = CliRunner().invoke(commands, ["run", MODEL, "--no-fuse", name])
    assert ran.exit_code == 0


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("--fuse=conv1,nothing", "MC0138"),
        ("--no-fuse=conv1,nothing", "MC0138"),
        ("--fuse=conv2,conv2", "MC0139"),
        ("--fuse=conv1,conv2", "MC0138"),
        ("--fuse=conv1", "two names"),
    ],
)
def test_wrong_pairs_are_the_users(option: str, code: str) -> None:
    found = compiled(option)
    assert found.exit_code != 0
    assert code in found.output


@settings(
    max_examples=12,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
@given(programs())
def test_whatever_is_fused_means_the_same(made: tuple[Module, list[Array]]) -> None:
    module, inputs = made
    options = Options(target=HERE)
    want = run(module, inputs)
    start = lower(module, options, stop="merge")
    program = lower(start, options, start="merge", given=Given(wishes=All()))
    close(machine_code(program, HERE, inputs, 1), want, "all that can be fused is")


def cosine(a: Any, b: Any) -> Any:
    return (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))


def correlation(a: Any, b: Any) -> Any:
    x, y = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    return (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))


def crossed(a: Any, b: Any) -> Any:
    """Sums along either axis of one tensor, each at the other's points."""
    return np.exp(a).sum(0) * np.exp(a).max(1) + (b * b).sum(0)


def both_ends(a: Any, b: Any) -> Any:
    return (a - a.min()) / (a.max() - a.min()) + b


def seen_twice(a: Any, b: Any) -> Any:
    """One of the two is read before, by what the other is made of."""
    top = a.max(1)
    return np.exp(b - top[:, None]).sum(1) + top


def sampled(a: Any, b: Any) -> Any:
    rows = (np.abs(b[:, :2]) * 8).astype(np.int64)
    return a[rows[:, 0]] * 2 + a[rows[:, 1]] * b


@pytest.mark.parametrize(
    ("function", "count"),
    [(cosine, 1), (correlation, 1), (both_ends, 1), (seen_twice, 1), (sampled, 1), (crossed, 2)],
    ids=lambda x: getattr(x, "__name__", None),
)
@pytest.mark.parametrize("element", [np.float32, np.float64])
def test_what_one_op_reads_of_several_is_made_together(
    function: Callable[..., Any], count: int, element: type
) -> None:
    rng = np.random.default_rng(0)
    a: Array = rng.standard_normal((40, 40)).astype(element)
    b: Array = rng.standard_normal((40, 40)).astype(element)
    module, _ = fused(minicc.jit(function).lower(a, b).module, Wishes())
    assert len(groups(module)) == count
    modes: tuple[Literal["fast", "strict"], ...] = ("fast", "strict")
    for math in modes:
        got = minicc.jit(function, math=math)(a, b)
        np.testing.assert_allclose(got, function(a, b), rtol=1e-4, atol=1e-5)


def test_a_number_and_a_row_of_one_element() -> None:
    x, u = np.array([-1.0]), np.array([5], np.int8)
    near = minicc.jit(lambda x, u: np.isclose(x.mean(), u))
    assert not near(x, u)
    assert near(x, np.array([-1], np.int8))
