"""What is known of a compiled function, for people: graphs, breaks, guards, recompilations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.trace.paths import Action, Finish, Host, Missed, Node
from minicc.ir.core import Module
from minicc.wording import counted

_SHOWN = 40  # characters of an outcome


class Graph(NamedTuple):
    """One compiled segment: its ops, the user's lines, its kernels, and its ops on the host.

    It is `alone` where it may have several threads, and no launch is one that they can share.
    """

    name: str
    module: Module
    ops: int
    lines: tuple[str, ...]
    kernels: int
    launches: int
    host: tuple[str, ...]
    alone: bool = False

    def __str__(self) -> str:
        kernels = counted(self.kernels, "kernel")
        launches = counted(self.launches, "launch", "launches")
        text = f"{self.name}: {counted(self.ops, 'op')}, {kernels} in {launches}"
        if self.lines:
            text += f", {_span(self.lines)}"
        alone = ["    one thread runs it: threads can share no launch"] if self.alone else []
        return "\n".join([text, *alone, *[f"    on the host: {h}" for h in self.host]])


class Break(NamedTuple):
    """A place where Python sees a value or NumPy computes: the user's line, what for, and to where.

    `outcomes` are pairs of what was seen and the name of what follows.
    """

    where: str
    source: str
    what: str
    outcomes: tuple[tuple[str, str], ...]
    forgotten: int

    def __str__(self) -> str:
        lines = [f"break at {self.where}: {self.source}", f"    {self.what}"]
        lines += [f"    {seen} -> {follows}" for seen, follows in self.outcomes]
        if self.forgotten:
            lines.append(f"    {self.forgotten} outcomes are forgotten, for there were too many")
        return "\n".join(lines)


class Specialisation(NamedTuple):
    """What is compiled for one kind of arguments; `parts` are graphs and breaks in order.

    `loops` say what became of each `for` of more than a few rounds, and why it was written out;
    `plain` why NumPy runs the function, where nothing is compiled.
    """

    guards: tuple[str, ...]
    parts: tuple[Graph | Break, ...]
    writes: tuple[str, ...]
    loops: tuple[str, ...] = ()
    plain: str = ""

    def __str__(self) -> str:
        if self.plain:
            return f"run by NumPy, not compiled: {self.plain}"
        lines = ["guards:", *[f"  {g}" for g in self.guards], *self.loops]
        lines += map(str, self.parts)
        if self.writes:
            lines.append(f"arguments are written to at {', '.join(self.writes)}")
        return "\n".join(lines)


class Explanation:
    """What `explain` gives; its text is meant to be read.

    `reasons` have the number of the trace, or 0 where there was none. `refused` calls had no
    program and were not traced, as programs served no other calls of late.
    """

    def __init__(
        self,
        name: str,
        specialisations: Sequence[Specialisation],
        reasons: Sequence[tuple[int, str]],
        traced: int,
        refused: int = 0,
    ) -> None:
        self.name = name
        self.specialisations = tuple(specialisations)
        self.recompilations = tuple([why for _, why in reasons])
        self._reasons = tuple(reasons)
        self.traced = traced
        self.refused = refused

    @property
    def graphs(self) -> list[Graph]:
        """The graphs of all specialisations."""
        return [p for s in self.specialisations for p in s.parts if isinstance(p, Graph)]

    @property
    def breaks(self) -> list[Break]:
        """The breaks of all specialisations."""
        return [p for s in self.specialisations for p in s.parts if isinstance(p, Break)]

    @property
    def loops(self) -> list[str]:
        """What became of the loops of all specialisations."""
        return [text for s in self.specialisations for text in s.loops]

    @property
    def guards(self) -> list[str]:
        """The guards of all specialisations."""
        return [g for s in self.specialisations for g in s.guards]

    def __str__(self) -> str:
        lines: list[str] = []
        for k, s in enumerate(self.specialisations, 1):
            lines.append(f"{self.name}, specialisation {k} of {len(self.specialisations)}")
            lines += ["  " + line for line in str(s).splitlines()]
        lines.append(f"{self.name} was traced {counted(self.traced, 'time')}")
        lines += [f"  {k}. {why}" if k else f"  - {why}" for k, why in self._reasons]
        if self.refused:
            calls = counted(self.refused, "call")
            lines.append(
                f"NumPy ran {calls} that no program was for, as no other call used the last ones"
            )
        return "\n".join(lines)

    __repr__ = __str__


def _span(lines: Sequence[str]) -> str:
    return lines[0] if len(lines) == 1 else f"{lines[0]} to {lines[-1]}"


def graph_of(name: str, module: Module, compilation: Any, threads: int) -> Graph:
    """The description of a module and of what it was compiled to, for so many threads."""
    ops = module.main.body.ops
    lines = sorted({place for op in ops for place in op.loc}, key=_order)
    host = tuple(f"{on.op}: {on.why}" for on in compilation.host)
    alone = threads > 1 and compilation.launches > 0 and not compilation.executable.is_shared()
    compiled = (compilation.kernels, compilation.launches, host, alone)
    return Graph(name, module, len(ops), tuple(lines), *compiled)


def _order(place: str) -> tuple[str, int]:
    file, _, line = place.rpartition(":")
    return file, int(line) if line.isdigit() else 0


def parts_of(root: Node, threads: int) -> list[Graph | Break]:
    """The graphs and breaks that a call of so many threads may walk, the first path's first."""
    names: dict[int, str] = {}
    order: list[Node] = []
    waiting = [root]
    while waiting:
        node = waiting.pop(0)
        if id(node) not in names:
            names[id(node)] = f"graph {len(names) + 1}"
            order.append(node)
            waiting = [e.node for e in node.edges.values()] + waiting
    parts: list[Graph | Break] = []
    for node in order:
        name = names[id(node)]
        code: Any = node.code  # which knows its compilation
        if code is not None:
            parts.append(graph_of(name, node.module, code.compilation, threads))
        else:
            parts.append(Graph(name, node.module, 0, (), 0, 0, ()))
        if not isinstance(node.action, Finish):
            parts.append(_break(node, names))
    return parts


def _break(node: Node, names: dict[int, str]) -> Break:
    action = node.action
    seen: dict[str, str] = {}
    for key, edge in node.edges.items():
        text = _outcome(key, action)
        seen[text] = names[id(edge.node)]
    return Break(
        action.where, action.source, action.describe(), tuple(seen.items()), node.forgotten
    )


def told_of(missed: Missed) -> str:
    """Where a call left the paths that are known, and what was new."""
    action = missed.action
    return f"{action.where}: {action.describe()}, {_outcome(missed.key, action)} is new"


def _outcome(key: Any, action: Action) -> str:
    """What Python saw, told from the key of an edge."""
    if key is None:
        return "nothing"
    if key and key[0] == "raised":
        return f"{key[1].__name__}"
    if not isinstance(action, Host):
        shown = _value(key)
        return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    given = [p for p in key[1:] if isinstance(p, tuple) and isinstance(p[0], np.dtype)]
    arrays = [f"{dtype}[{','.join(map(str, shape))}]" for dtype, shape, *_ in given]
    return ", ".join(arrays) or "done"


def _value(key: Any) -> str:
    """A value as it is written, from its key."""
    kind, *rest = key
    if kind is float:
        return repr(float(np.frombuffer(rest[0][1], "<f8")[0]))
    if kind in (bool, int):
        return repr(rest[0][1])
    if kind in (list, tuple):
        return f"{kind.__name__} of {', '.join(map(_value, rest))}"
    if kind == "array":
        return f"{rest[0]}[{','.join(map(str, rest[1]))}] of some content"
    return repr(rest[0])
