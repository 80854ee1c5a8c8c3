"""`minicc compile --report`: what becomes machine code, what runs on the host, and why.

Mirrors: ONNX Runtime's log of node placements, TVM's and ExecuTorch's partition reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from minicc.compiler import lower
from minicc.ir import graph, program
from minicc.ir.core import Module
from minicc.options import Options
from minicc.partition import Native, host_ops, partition
from minicc.passes.graph.fold_constants import fold_constants
from minicc.passes.graph.specialise import specialise


def show_report(module: Module, options: Options, binding: Mapping[str, int]) -> None:
    """Print the report of a graph module for these sizes of its free dimensions."""
    module = specialise(module, binding)
    if host_ops(module):
        module = fold_constants(module)
    host = host_ops(module)
    ops = sum(not isinstance(op, graph.Constant) for op in module.main.body.ops)
    click.echo(
        f"{ops - len(host)} of {ops} graph ops become machine code, {len(host)} stay on the host"
    )
    if host:
        reasons = Counter(why for _, why in host)
        for why, count in reasons.most_common():
            nodes = [" ".join(op.loc) for op, reason in host if reason == why]
            click.echo(f"  on the host: {count} because {why}: {', '.join(nodes[:8])}")
    table = Table("part", "nodes", "kernels", "launches", "arena", "constants", box=None)
    parts = [p for p in partition(module.main) if isinstance(p, Native)] if host else []
    functions = [p.function for p in parts] or [module.main]
    for number, function in enumerate(functions, 1):
        table.add_row(str(number), *_row(lower(Module("graph", [function]), options)))
    Console().print(table)
    click.echo(f"target {escape(options.machine.name)}, {options.math} mathematics")


def _row(lowered: Module) -> list[str]:
    main = lowered.main
    launches = [op for op in main.body.ops if isinstance(op, program.Launch)]
    sources = {name for op in launches for part in op.sources for name in part}
    constants = sum(
        prod(op.value.array.shape) * op.value.array.itemsize
        for op in main.body.ops
        if isinstance(op, program.Constant)
    )
    kernels = len(lowered.functions) - 1
    arena: int = main.attrs["arena"]
    sizes = [f"{arena / 1e6:.2f} MB", f"{constants / 1e6:.2f} MB"]
    return [str(len(sources)), str(kernels), str(len(launches)), *sizes]
