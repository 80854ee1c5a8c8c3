"""The levels: for each a closed list of the ops that are legal there, checked after every stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from minicc.errors import CompilerBug
from minicc.ir.core import Function, Module, Op, Region


class Level(NamedTuple):
    """A level: its name, the dialects of its ops, and what a module of it is.

    `ops` are legal anywhere, `inner` within regions of ops alone, `main` in the entry alone.
    `placed` says that every allocation of the arena has its offset.
    """

    name: str
    ops: frozenset[str]
    sentence: str
    inner: frozenset[str] = frozenset()
    main: frozenset[str] = frozenset()
    placed: bool = False

    def allows(self, op: Op, *, nested: bool, entry: bool) -> bool:
        """Whether the op may stand there: within an op (`nested`), in `main` (`entry`)."""
        dialect = op.opname.partition(".")[0]
        return (
            dialect in self.ops
            or (nested and dialect in self.inner)
            or (entry and dialect in self.main)
        )


_ALL = (
    Level("graph", frozenset({"graph"}), "Whole tensors and what is computed of them."),
    Level(
        "structured",
        frozenset({"structured"}),
        "Iteration spaces with index maps and scalar bodies.",
        inner=frozenset({"arith"}),
    ),
    Level(
        "kernel",
        frozenset({"kernel", "arith"}),
        "Grids of tile programs, which `main` launches on buffers.",
        main=frozenset({"program"}),
    ),
    Level(
        "program",
        frozenset({"kernel", "arith"}),
        "The same with every buffer placed in the arena.",
        main=frozenset({"program"}),
        placed=True,
    ),
)
LEVELS = {level.name: level for level in _ALL}


def leftovers(module: Module, function: Function) -> Iterator[tuple[Op, str]]:
    """The ops of a function that its module's level does not have, and what is wrong with each.

    CompilerBug where there is no such level.
    """
    level = LEVELS.get(module.level)
    if level is None:
        raise CompilerBug("MC0311", f"no level is called {module.level!r}")
    entry = function.name == "main"
    pending: list[tuple[Region, bool, Level]] = [(function.body, False, level)]
    while pending:
        region, nested, level = pending.pop()
        for op in region.ops:
            if not level.allows(op, nested=nested, entry=entry):
                yield op, f"{op.opname} is left over at the level {level.name}"
            elif level.placed and op.opname == "program.alloc" and op.attrs["offset"] == -1:
                yield op, f"{op.opname} is not placed at the level {level.name}"
            within = LEVELS[op.inside] if op.inside else level
            pending += [(inner, True, within) for inner in op.regions]
