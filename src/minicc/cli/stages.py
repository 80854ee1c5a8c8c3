"""Names of stages on the command line: one that is not known is wrong usage, and suggests some."""

from __future__ import annotations

from collections.abc import Callable

import click

from minicc.compile.compiler import stage_names
from minicc.errors import did_you_mean

Check = Callable[[click.Context, click.Parameter, str | None], str | None]


def stage_or(*words: str) -> Check:
    """The check of an option whose value is a stage's name, or one of some further words."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        names = [*stage_names(), *words]
        if value is not None and value not in names:
            hint = f"{did_you_mean(value, names, most=3)} stages: {', '.join(names)}".lstrip()
            raise click.BadParameter(f"no stage is called {value!r}; {hint}", ctx, param)
        return value

    return check


def stages_of(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """The check of an option that may be given several times, each time with a stage's name."""
    check = stage_or()
    return tuple(str(check(ctx, param, name)) for name in value)
