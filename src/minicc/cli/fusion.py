"""`minicc compile MODEL --fusion`: why each pair of neighbours is in one group or not."""

from __future__ import annotations

from collections.abc import Iterable

from minicc.compile.compiler import given_by, lower
from minicc.compile.units import Unit
from minicc.errors import UserError
from minicc.ir.core import Loc
from minicc.options import Options
from minicc.passes.structured.fusion_plan import Decision, FusionPlan
from minicc.wording import counted


def text_of_fusion(units: Iterable[Unit], options: Options) -> str:
    """What the stage `fuse` decided, in its words: the groups, and the pairs one by one."""
    given = given_by(options)
    for unit in units:
        if not unit.host:
            lower(unit.module, options, unit.binding, start=unit.start, stop="fuse", given=given)
    given.wishes.require_met()
    if not given.wishes.plans:
        raise UserError("MC0179", "no ops are fused in what is shown", hint="it comes after `fuse`")
    return "".join(f"{line}\n" for plan in given.wishes.plans for line in _lines(plan))


def _lines(plan: FusionPlan) -> list[str]:
    ops = sum(len(group.members) for group in plan.groups)
    lines = [f"{counted(ops, 'op')} in {counted(len(plan.groups), 'group')}"]
    for decision in plan.decisions:
        lines += _told(decision)
    return lines


def _told(decision: Decision) -> list[str]:
    verdict = decision.verdict
    makers = " and ".join(map(_name, decision.makers))
    word = "fused" if verdict.fused else "not fused"
    lines = [f"  {makers} -> {_name(decision.reader)}: {word}: {verdict.reason}"]
    if not verdict.fused:
        others = [verdict.remedy] if verdict.remedy else []
        asked = f"--fuse {_one(decision.makers[0])},{_one(decision.reader)}"
        change = "nothing" if verdict.firm else " or ".join([*others, asked])
        lines.append(f"    what would change it: {change}")
    return lines


def _name(loc: Loc) -> str:
    return loc[0] if len(loc) == 1 else f"{loc[0]} +{len(loc) - 1}"


def _one(loc: Loc) -> str:
    return loc[0]
