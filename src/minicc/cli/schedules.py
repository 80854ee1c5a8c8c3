"""Files of schedules: `minicc compile MODEL --schedules` prints one, `--schedule FILE` takes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from minicc.compile.compiler import lower
from minicc.compile.units import Unit
from minicc.errors import UserError
from minicc.ir.structured import Generic, Group
from minicc.ir.text.parser import parse_schedules
from minicc.ir.text.printer import print_attribute, quote
from minicc.options import Options
from minicc.passes.structured.write_schedules import named_groups


def read_schedules(path: str) -> str:
    """The text of a file of schedules; UserError with its line where it is wrong."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("MC0145", f"can't read {path}: {error}") from error
    parse_schedules(text, source=path)
    return text


def text_of_schedules(units: Iterable[Unit], options: Options) -> str:
    """The file of the schedules of all groups, each after what its group computes."""
    target, math = options.machine.name, options.math
    lines = [f"// schedules for {target} and {math} mathematics, as --schedule FILE takes them"]
    found: dict[str, list[Group]] = {}
    for unit in units:
        if not unit.host:
            module = lower(unit.module, options, unit.binding, start=unit.start, stop="schedule")
            for name, group in named_groups(module):
                found.setdefault(name, []).append(group)
    for name, groups in found.items():
        lines += ["", *_facts(groups[0])]
        texts = {print_attribute(group.schedule) for group in groups}
        # of a name that groups of several parts have, only what fits all can be given
        lines += [f"{quote(name)} = {text}" if len(texts) == 1 else f"// {text}" for text in texts]
    return "\n".join([*lines, ""])


def _facts(group: Group) -> Iterator[str]:
    """The ops of a group by their numbers, as comments."""
    for number, op in enumerate(group.body.ops):
        assert isinstance(op, Generic)
        nodes = " ".join(", ".join(op.loc).split())
        yield f"// {number}: {op.space} {nodes}"
