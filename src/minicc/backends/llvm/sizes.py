"""Free dimensions in machine code: expressions over them as LLVM instructions.

A free dimension is an i64, the same all through a run. Kernels take those that they need as
parameters; `main` reads them from its table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from minicc.backends.llvm.writer import constant
from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.reals import CONVERSIONS, LEAVES, Part, Real

_SUFFIX = {"float": "f32", "double": "f64"}
_INSTRUCTIONS = {"add": "fadd", "div": "fdiv", "mul": "fmul", "neg": "fneg", "sub": "fsub"}
_INTRINSICS = {
    "abs": "llvm.fabs",
    "ceil": "llvm.ceil",
    "floor": "llvm.floor",
    "max": "llvm.maximum",
    "min": "llvm.minimum",
    "round": "llvm.rint",
    "sqrt": "llvm.sqrt",
}

Inst = Callable[[str], str]  # appends an instruction, and gives the name of its result


def parameter(position: int) -> str:
    """The name of a function's parameter that is a free dimension."""
    return f"%size{position}"


def divisor(inst: Inst, n: object) -> object:
    """What divides: a number, or a size, which 1 stands for where it is 0 and no point is there."""
    if isinstance(n, int):
        return n
    none = inst(f"icmp slt i64 {n}, 1")
    return inst(f"select i1 {none}, i64 1, i64 {n}")


def remainder(inst: Inst, a: object, n: object) -> str:
    """What is left of a division that rounds down, of a number that may be negative."""
    if isinstance(n, int) and n & (n - 1) == 0:
        return inst(f"and i64 {a}, {n - 1}")
    rest = inst(f"srem i64 {a}, {n}")
    negative = inst(f"icmp slt i64 {rest}, 0")
    above = inst(f"add nsw i64 {rest}, {n}")
    return inst(f"select i1 {negative}, i64 {above}, i64 {rest}")


def quotient(inst: Inst, a: object, n: object) -> str:
    """A division that rounds down, of a number that may be negative."""
    if isinstance(n, int) and n & (n - 1) == 0:
        return inst(f"ashr i64 {a}, {n.bit_length() - 1}")
    whole = inst(f"sub nsw i64 {a}, {remainder(inst, a, n)}")
    return inst(f"sdiv exact i64 {whole}, {n}")


def _whole_part(inst: Inst, real: Real, size: Callable[[Dim], str]) -> str:
    """The whole part of a float; `size` gives the value of a dimension."""

    def value(part: Part, element: str) -> str:
        if not isinstance(part, Real):
            return constant(element, part)
        if part.kind in LEAVES:
            return inst(f"sitofp i64 {size(part.args[0])} to {element}")
        if part.kind in CONVERSIONS:
            to, of = ("fpext", "float") if part.wide else ("fptrunc", "double")
            return inst(f"{to} {of} {value(part.args[0], of)} to {element}")
        operands = [value(a, element) for a in part.args]
        if part.kind in _INSTRUCTIONS:
            return inst(f"{_INSTRUCTIONS[part.kind]} {element} {', '.join(operands)}")
        typed = ", ".join(f"{element} {a}" for a in operands)
        return inst(f"call {element} @{_INTRINSICS[part.kind]}.{_SUFFIX[element]}({typed})")

    element = "double" if real.wide else "float"
    name = f"llvm.fptosi.sat.i64.{_SUFFIX[element]}"
    return inst(f"call i64 @{name}({element} {value(real, element)})")


def evaluated(
    expression: Dim, lines: list[str], known: Mapping[Dim, str], prefix: str = "z"
) -> str:
    """The value of an expression over free dimensions; appends the instructions that compute it.

    `known` are the values of expressions that stand in front of these lines, `prefix` begins the
    names of others.
    """

    def inst(text: str) -> str:
        name = f"%{prefix}{len(lines)}"
        lines.append(f"  {name} = {text}")
        return name

    def smaller(a: object, b: object) -> str:
        less = inst(f"icmp slt i64 {a}, {b}")
        return inst(f"select i1 {less}, i64 {a}, i64 {b}")

    def size(dim: Dim) -> str:
        return str(dim) if isinstance(dim, int) else evaluated(dim, lines, known, prefix)

    value = affine.fold(
        expression,
        lambda name: known[affine.symbol(name)],
        lambda a, b: inst(f"add nsw i64 {a}, {b}"),
        lambda a, b: inst(f"mul nsw i64 {a}, {b}"),
        lambda a, n: quotient(inst, a, divisor(inst, n)),
        lambda a, n: remainder(inst, a, divisor(inst, n)),
        smaller,
        lambda atom: _whole_part(inst, atom.real, size),
    )
    return str(value)
