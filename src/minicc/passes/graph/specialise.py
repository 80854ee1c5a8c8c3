"""Bind the symbols of shapes to numbers, those of one call.

    %y = graph.add %x, %b : f32[batch,64]   --batch=8-->   f32[8,64]

Mirrors: JAX's shape-specialising jit, TorchDynamo's static shapes, Relax's BindSymbolicVars. JAX
does it before tracing, Dynamo by guards, Relax as a pass at any time; ours is the first stage, and
binds all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minicc.errors import UserError
from minicc.ir import affine
from minicc.ir.affine import Dim, Expr
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.types import TensorType


def free_symbols(function: Function) -> tuple[str, ...]:
    """The symbols in the types of a function's arguments, in order of appearance."""
    found: dict[str, None] = {}
    for a in function.args:
        for n in a.type.shape:
            found.update(dict.fromkeys(sorted(affine.symbols(n))))
    return tuple(found)


def specialise(module: Module, binding: Mapping[str, int]) -> Module:
    """The module with symbols replaced.

    Types are inferred anew, so sizes that contradict each other are found here: UserError MC0142.
    """
    if not binding:
        return module
    return Module(module.level, [f.with_body(_bind(f.body, binding)) for f in module.functions])


def _bind(region: Region, binding: Mapping[str, int]) -> Region:
    forward: dict[Value, Value] = {}
    for a in region.args:
        shape = tuple(affine.substitute(n, binding) for n in a.type.shape)
        forward[a] = Value(TensorType(a.type.dtype, shape), a.hint)
    ops: list[Op] = []
    for op in region.ops:
        attrs = {k: _bound(v, binding) for k, v in op.attrs.items()}
        bodies = [_bind(r, binding) for r in op.regions]
        try:
            fresh = op.make([forward[v] for v in op.operands], attrs, bodies, op.loc)
        except (TypeError, ValueError, IndexError) as error:
            sizes = ", ".join(f"{name}={n}" for name, n in binding.items())
            text = f"the sizes {sizes} do not fit the model: {op.opname}: {error}"
            raise UserError(
                "MC0142", text, hint="give inputs of other shapes", where=op.loc
            ) from None
        for old, new in zip(op.results, fresh.results, strict=True):
            new.hint = old.hint
            forward[old] = new
        ops.append(fresh)
    return Region([forward[a] for a in region.args], ops, [forward[v] for v in region.yields])


def _bound(value: Any, binding: Mapping[str, Dim]) -> Any:
    if isinstance(value, Expr):
        return affine.substitute(value, binding)
    if isinstance(value, tuple):
        return tuple(_bound(v, binding) for v in value)
    return value
