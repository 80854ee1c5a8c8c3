"""Options that several commands have: what decides the code, and what a run is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from minicc.later import Later
from minicc.target import MACHINES

if TYPE_CHECKING:
    from minicc.cli import schedules
else:
    schedules = Later("minicc.cli.schedules")

C = TypeVar("C", bound=Callable[..., Any])

MATH = click.option("--math", type=click.Choice(["fast", "strict"]), help="fast may reassociate")
TARGET = click.option("--target", type=click.Choice([*MACHINES]), help="default: this machine")
SKIP = click.option(
    "--skip",
    multiple=True,
    # where none is named, the environment's are asked for
    callback=lambda ctx, param, value: value or None,
    metavar="STAGE",
    help="leave out a stage that only makes it faster",
)


def pairs_of(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Pairs of names that are spelled `A,B`."""
    found = [text.partition(",") for text in value]
    if any(not a or not b for a, _, b in found):
        raise click.BadParameter("two names, as in MatMul_0,Relu_1", ctx, param)
    return tuple((a, b) for a, _, b in found)


_FUSE = click.option(
    "--fuse",
    multiple=True,
    callback=pairs_of,
    metavar="A,B",
    help="put two ops, or their results, in one group (compile --fusion)",
)
_NO_FUSE = click.option(
    "--no-fuse", multiple=True, callback=pairs_of, metavar="A,B", help="keep them apart"
)
THREADS = click.option(
    "--threads", type=click.IntRange(1), help="threads of a run; default: all cores"
)
INPUT = click.option(
    "--input", "inputs", multiple=True, metavar="X=@x.npy", help="as `minicc run` has it"
)
SHAPE = click.option(
    "--shape", "shapes", multiple=True, metavar="X=1x3x224x224", help="sizes of an input"
)
_SCHEDULE = click.option(
    "--schedule",
    "schedules",
    callback=lambda ctx, param, path: "" if path is None else schedules.read_schedules(path),
    metavar="FILE",
    help="put the schedules of a file in place of the compiler's own",
)
_CODE = (MATH, SKIP, _SCHEDULE, _FUSE, _NO_FUSE, TARGET)


def code_options(command: C) -> C:
    """The options that decide code, which `Options` takes under their names."""
    for option in reversed(_CODE):
        command = option(command)
    return command


JSON = click.option("--json", "as_json", is_flag=True, help="print one JSON object")
