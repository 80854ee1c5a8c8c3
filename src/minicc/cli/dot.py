"""`minicc compile --emit dot`: a module as a drawing for Graphviz, which may make an SVG of it.

Ops are boxes, and what has a body is a frame around it. Edges are values, with their types. Of a
program, launches and buffers are drawn, with an edge to each buffer that a launch writes.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable

from minicc.errors import UserError
from minicc.ir import program
from minicc.ir.core import Module, Op, Region, Value

_SHORT = 3  # nodes of a model that a box names


def dot_of(module: Module) -> str:
    """The entry of a module as the text of a drawing."""
    drawing = _Drawing()
    main = module.main
    drawing.arguments(main.args)
    drawing.region(main.body, 1)
    for name, value in zip(main.result_names, main.body.yields, strict=True):
        drawing.line(1, f"{_quoted(f'result {name}')} [label={_quoted(name)}, shape=ellipse]")
        drawing.edge(value, _quoted(f"result {name}"))
    body = "\n".join([*drawing.lines, *drawing.edges])
    return f"digraph {_quoted(module.level)} {{\n  node [shape=box]\n{body}\n}}\n"


def svg_of(drawing: str) -> bytes:
    """The drawing as Graphviz lays it out; UserError MC0154 where that is not installed."""
    tool = shutil.which("dot")
    if tool is None:
        hint = "install Graphviz, or write FILE.dot"
        raise UserError("MC0154", "an SVG takes Graphviz's dot, which is not here", hint=hint)
    done = subprocess.run([tool, "-Tsvg"], input=drawing.encode(), capture_output=True, check=False)
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip()
        raise UserError("MC0154", f"Graphviz's dot can't draw this: {text}")
    return done.stdout


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class _Drawing:
    """Lines of nodes and frames, edges, and the node that each value comes from."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.edges: list[str] = []
        self.origin: dict[Value, str] = {}
        self.count = 0

    def line(self, depth: int, text: str) -> None:
        """Add a line."""
        self.lines.append(f"{'  ' * depth}{text}")

    def edge(self, value: Value, to: str, *, back: bool = False) -> None:
        """An edge from where a value comes from, or to there."""
        ends = (self.origin[value], to)
        source, target = reversed(ends) if back else ends
        self.edges.append(f"  {source} -> {target} [label={_quoted(str(value.type))}]")

    def name(self) -> str:
        """The name of a new node."""
        self.count += 1
        return f"n{self.count}"

    def arguments(self, values: Iterable[Value], depth: int = 1) -> None:
        """Nodes of what comes from outside."""
        for value in values:
            self.origin[value] = self.name()
            label = _quoted(value.hint or "argument")
            self.line(depth, f"{self.origin[value]} [label={label}, shape=ellipse]")

    def region(self, region: Region, depth: int) -> None:
        """The ops of a region."""
        for op in region.ops:
            (self.frame if op.regions and not _is_scalar(op) else self.box)(op, depth)

    def box(self, op: Op, depth: int) -> None:
        """An op without a body that is drawn."""
        node = self.name()
        label = "\n".join([op.attrs.get("kernel") or op.opname, ", ".join(op.loc[:_SHORT])])
        shape = "" if op.operands else ", shape=note"
        self.line(depth, f"{node} [label={_quoted(label)}{shape}]")
        read = op.outputs if isinstance(op, program.Launch) else 0
        for k, value in enumerate(op.operands):
            written = isinstance(op, program.Launch) and k >= read
            self.edge(value, node, back=written)
        self.origin.update(dict.fromkeys(op.results, node))

    def frame(self, op: Op, depth: int) -> None:
        """An op around its regions, whose arguments are its operands where there are as many."""
        label = op.attrs.get("label") or op.opname
        self.line(depth, f"subgraph cluster_{self.name()} {{")
        self.line(depth + 1, f"label={_quoted(label)}")
        for region in op.regions:
            if [a.type for a in region.args] == [v.type for v in op.operands]:
                pairs = zip(region.args, op.operands, strict=True)
                self.origin.update((a, self.origin[v]) for a, v in pairs)
            else:
                self.arguments(region.args, depth + 1)
            self.region(region, depth + 1)
        last = op.regions[-1].yields
        if len(last) == len(op.results):
            self.origin.update((r, self.origin[y]) for r, y in zip(op.results, last, strict=True))
        else:
            self.arguments(op.results, depth + 1)
        self.line(depth, "}")


def _is_scalar(op: Op) -> bool:
    """Whether an op's body computes of single elements."""
    return op.opname == "structured.generic"
