"""Ops that run on the host, through their own definitions; as plain data in a compiled program.

Mirrors: torch.compile's fallback to eager ops, ONNX Runtime's CPU provider behind another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minicc.errors import UserError
from minicc.ir import affine, graph
from minicc.ir.core import REGISTRY, Array, Function, Literal, Op, Region, Value
from minicc.ir.extents import dim_of, spelled
from minicc.ir.indices import OutOfRange, out_of_range
from minicc.ir.types import DType, TensorType, dtype, tensor_of

assert graph.Constant.opname in REGISTRY  # reading below needs the ops of graph


def run_by_definition(function: Function, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a graph function of static shapes, op by op; they may be views of inputs.

    UserError as of `evaluate`.
    """
    known: dict[Value, Array] = dict(zip(function.args, inputs, strict=True))
    for op in function.body.ops:
        known.update(zip(op.results, evaluate(op, known), strict=True))
    return [known[v] for v in function.body.yields]


def evaluate(op: Op, known: Mapping[Value, Any]) -> tuple[Array, ...]:
    """An op by its own definition; UserError names it where its operands are out of range."""
    operands = [known[v] for v in op.operands]
    try:
        with np.errstate(all="ignore"):
            out: tuple[Any, ...] = op.evaluate(_run_region, *operands)
    except OutOfRange as error:
        text = out_of_range(error.index, error.extent)
        raise UserError("MC0158", f"{op.opname}: {text}", where=op.loc) from error
    return tuple(np.asarray(a) for a in out)


def _run_region(region: Region, args: Sequence[Any]) -> tuple[Any, ...]:
    known: dict[Value, Any] = dict(zip(region.args, args, strict=True))
    for op in region.ops:
        known.update(zip(op.results, evaluate(op, known), strict=True))
    return tuple(known[v] for v in region.yields)


class NotPlainError(Exception):
    """An op of the host can't be told of in a file."""


Keep = Callable[[Array, str], Any]
Find = Callable[[Any], Array]


def told(region: Region, keep: Keep) -> dict[str, Any]:
    """A region of graph ops as JSON has it; `keep` says where an array will be found.

    NotPlainError where an op has an attribute that JSON can't have.
    """
    numbers: dict[Value, int] = {a: k for k, a in enumerate(region.args)}
    ops: list[Any] = []
    for op in region.ops:
        operands = [numbers[v] for v in op.operands]
        numbers.update(
            zip(op.results, range(len(numbers), len(numbers) + len(op.results)), strict=True)
        )
        attrs = {name: _told(value, keep) for name, value in op.attrs.items()}
        bodies = [told(inner, keep) for inner in op.regions]
        ops.append([op.opname, operands, attrs, bodies, list(op.loc)])
    return {
        "args": [_told(a.type, keep) for a in region.args],
        "ops": ops,
        "yields": [numbers[v] for v in region.yields],
    }


def function_of(said: Mapping[str, Any], find: Find) -> Function:
    """A function of the region that `told` told of."""
    return Function("main", region_of(said, find))


def region_of(said: Mapping[str, Any], find: Find) -> Region:
    """The region that `told` told of; its ops' types are inferred anew."""
    args = [Value(_read(t, find)) for t in said["args"]]
    known: list[Value] = list(args)
    ops: list[Op] = []
    for name, operands, attrs, bodies, loc in said["ops"]:
        values = {key: _read(value, find) for key, value in attrs.items()}
        regions = [region_of(body, find) for body in bodies]
        op = REGISTRY[name].make([known[k] for k in operands], values, regions, tuple(loc))
        ops.append(op)
        known += op.results
    return Region(args, ops, [known[k] for k in said["yields"]])


def _told(value: Any, keep: Keep) -> Any:
    """A plain value as it is, any other as a list that begins with its kind."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return ["float", value.hex()]
    if type(value) is tuple:
        return ["tuple", *[_told(v, keep) for v in value]]
    if isinstance(value, DType):
        return ["dtype", value.name]
    if isinstance(value, affine.Expr):
        return ["dim", str(value)]
    if isinstance(value, TensorType):
        return ["type", value.dtype.name, *map(spelled, value.shape)]
    if isinstance(value, Literal):
        return ["array", keep(value.array, tensor_of(value.array).dtype.name)]
    raise NotPlainError(f"an attribute of the type {type(value).__name__} can't be kept in a file")


def _read(said: Any, find: Find) -> Any:
    """The value that `_told` told of."""
    if not isinstance(said, list):
        return said
    kind, *rest = said
    if kind == "float":
        return float.fromhex(rest[0])
    if kind == "tuple":
        return tuple(_read(v, find) for v in rest)
    if kind == "dtype":
        return dtype(rest[0])
    if kind == "dim":
        return dim_of(rest[0])
    if kind == "type":
        return TensorType(dtype(rest[0]), tuple(map(dim_of, rest[1:])))
    if kind == "array":
        return Literal(find(rest[0]))
    raise ValueError(f"{kind!r} is no kind of attribute")
