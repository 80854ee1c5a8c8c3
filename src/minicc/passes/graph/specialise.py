"""Bind the free dimensions of shapes whose sizes are given; the others become sizes of the program.

    %y = graph.add %x, %b : f32[batch,64]   --batch=8-->   f32[8,64]
                                            -- free -->    f32[$batch,64]

Mirrors: JAX's shape-polymorphic export with refinement, TorchDynamo's dynamic shapes, Relax's
BindSymbolicVars. JAX's jit and Dynamo specialise by default; here a dimension that nobody gave a
size stays one all the way down to machine code.
"""

from __future__ import annotations

from collections.abc import Mapping

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.bind import bind
from minicc.ir.core import Function, Module


def free_symbols(function: Function) -> tuple[str, ...]:
    """The symbols in the types of a function's arguments, in order of appearance."""
    found: dict[str, None] = {}
    for a in function.args:
        for n in a.type.shape:
            found.update(dict.fromkeys(sorted(affine.symbols(n))))
    return tuple(found)


def specialise(module: Module, binding: Mapping[str, int]) -> Module:
    """The module with numbers for some symbols, and all others named as sizes of the program.

    Types are inferred anew, so sizes that contradict each other are found here: UserError MC0142.
    """
    return Module(module.level, [_bind(f, binding) for f in module.functions])


def _bind(function: Function, binding: Mapping[str, int]) -> Function:
    free = free_symbols(function)
    if not free:
        return function
    sizes: dict[str, Dim] = {name: affine.size(name) for name in free}
    for name, n in binding.items():
        sizes |= {name: n, affine.spell_size(name): n}
    return bind(function, sizes)
