"""Free dimensions in machine code: expressions over them as LLVM instructions.

A free dimension is an i64, the same all through a run. Kernels take those that they need as
parameters; `main` reads them from its table.

Mirrors: MLIR's affine.apply lowering, IREE's workload operands and push constants.
"""

from __future__ import annotations

from collections.abc import Mapping

from minicc.ir import affine
from minicc.ir.affine import Dim


def parameter(position: int) -> str:
    """The name of a function's parameter that is a free dimension."""
    return f"%size{position}"


def evaluated(expression: Dim, lines: list[str], known: Mapping[Dim, str]) -> str:
    """The value of an expression over free dimensions; appends the instructions that compute it.

    `known` are the values of expressions that stand in front of these lines.
    """

    def inst(text: str) -> str:
        name = f"%z{len(lines)}"
        lines.append(f"  {name} = {text}")
        return name

    def smaller(a: object, b: object) -> str:
        less = inst(f"icmp slt i64 {a}, {b}")
        return inst(f"select i1 {less}, i64 {a}, i64 {b}")

    value = affine.fold(
        expression,
        lambda name: known[affine.symbol(name)],
        lambda a, b: inst(f"add nsw i64 {a}, {b}"),
        lambda a, b: inst(f"mul nsw i64 {a}, {b}"),
        # sizes that are divided are never negative, so the unsigned instruction is the floor
        lambda a, n: inst(f"udiv i64 {a}, {n}"),
        lambda a, n: inst(f"urem i64 {a}, {n}"),
        smaller,
    )
    return str(value)
