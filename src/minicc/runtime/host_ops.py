"""Ops that run on the host, through their own definitions; as plain data in a compiled program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minicc.errors import MiniccError, UserError
from minicc.errstate import Silent
from minicc.ir import affine, graph
from minicc.ir.bind import bound_op, sizes_in
from minicc.ir.core import REGISTRY, Array, Function, Literal, Op, Region, Value
from minicc.ir.graph.host import DEFINITIONS
from minicc.ir.indices import OutOfRange, out_of_range
from minicc.ir.interpret import Interpreter
from minicc.ir.text.extents import dim_of, spelled
from minicc.ir.types import OPAQUE, DType, TensorType, dtype, tensor_of
from minicc.later import Later
from minicc.limits import Limits, beyond, no_memory, require_array_fits

if TYPE_CHECKING:
    from minicc.frontends.onnx.host import eager
else:
    eager = Later("minicc.frontends.onnx.host.eager")

assert graph.Constant.opname in REGISTRY  # reading below needs the ops of graph


_NO_LIMIT = 1 << 62


class _Definitions(Interpreter):
    """Runs ops of the graph by their definitions, and tells users which one could not be run."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def silent(self, region: Region, inputs: Sequence[Any]) -> list[Any]:
        """What a region gives, while NumPy tells of no overflow."""
        with Silent():
            return list(self.region(region, inputs, {}))

    def op(self, op: Op, operands: Sequence[Any], env: dict[Value, Any]) -> Sequence[Any]:
        try:
            found = super().op(op, operands, env)
        except MemoryError:
            raise no_memory(f"what {' '.join(op.loc)} gives") from None
        except OutOfRange as error:
            text = out_of_range(error.index, error.extent)
            raise UserError("MC0158", f"{op.opname}: {text}", where=op.loc) from error
        except MiniccError:
            raise
        except (TypeError, ValueError) as error:
            # the op is not for sizes that data decided, as a guard would say of compiled ones
            text = f"{op.opname}: {error}"
            raise UserError("MC0142", text, hint="give other inputs", where=op.loc) from error
        if (size := _bytes(found)) > self.limit:
            require_array_fits(size, self.limit, f"what {' '.join(op.loc)} gives")
        pairs = zip(found, op.results, strict=True)
        return [a if r.type.dtype is OPAQUE else np.asarray(a) for a, r in pairs]


def _bytes(values: Sequence[Any]) -> int:
    """What arrays take, and sequences of them; a view counts as if it were none."""
    return sum([_bytes(v) if isinstance(v, list) else getattr(v, "nbytes", 0) for v in values])


def run_by_definition(
    function: Function, inputs: Sequence[Any], sizes: dict[str, int]
) -> list[Any]:
    """The outputs of a graph function, op by op; they may be views of inputs.

    `sizes` are those of the run, to which the ops add what they bind. UserError names an op whose
    operands are out of range, and one that gives what is not of its type.
    """
    return runner(function, _NO_LIMIT)(inputs, sizes)


def runner(function: Function, limit: int) -> Callable[[Sequence[Any], dict[str, int]], list[Any]]:
    """What runs a function as `run_by_definition`, and remembers what depends on sizes alone.

    MC0135 where a value is more than so many bytes.
    """
    first = _Definitions(limit)
    ops = function.body.ops
    if not any(op.regions or sizes_in(op) or isinstance(op, graph.Stating) for op in ops):
        # what runs these keeps nothing of a run
        return lambda inputs, sizes: first.silent(function.body, inputs)

    def run(inputs: Sequence[Any], sizes: dict[str, int]) -> list[Any]:
        interpreter = _Definitions(limit)
        interpreter.named, interpreter.bound = first.named, first.bound
        interpreter.sizes = sizes
        return interpreter.silent(function.body, inputs)

    return run


Values = Callable[[Sequence[Any], Mapping[str, int]], Sequence[Any]]
_NO_SIZES: Mapping[str, int] = {}


def run_control(
    function: Function, bodies: Sequence[Values], limit: int, limits: Limits
) -> Callable[[Sequence[Any], dict[str, int]], Sequence[Any]]:
    """What runs the loop or branch that a function holds, with `bodies` for its regions.

    MC0135 where what the rounds of a loop leave is more than so many bytes, MC0176 where it has
    more rounds than it may.
    """
    (op,) = function.body.ops
    named = sizes_in(op)

    def run(inputs: Sequence[Any], sizes: dict[str, int]) -> Sequence[Any]:
        bound = bound_op(op, sizes) if named else op
        of_region = dict(zip(map(id, bound.regions), bodies, strict=True))
        rows = 1 + bound.states if isinstance(bound, graph.While) else 0
        held = rounds = 0

        def each(
            region: Region, args: Sequence[Any], inside: Mapping[str, int] = _NO_SIZES
        ) -> tuple[Any, ...]:
            nonlocal held, rounds
            rounds += 1
            if rounds > limits.rounds:
                raise beyond("rounds", f"a loop has {rounds} rounds or more", limits, op.loc)
            made = tuple(of_region[id(region)](args, {**sizes, **inside}))
            held += _bytes(made[rows:]) if rows else 0
            require_array_fits(held, limit, f"what the rounds of {' '.join(op.loc)} give")
            return made

        found = bound.evaluate(each, *inputs)
        graph.bind_values([r.type for r in op.results], found, sizes, op.loc)
        return found

    return run


def hollow(op: Op) -> Function:
    """A function of a loop or branch alone, whose regions say no more than types."""
    regions: list[Region] = []
    for region in op.regions:
        args = [Value(a.type, a.hint) for a in region.args]
        types = tuple(v.type for v in region.yields)
        places = tuple(range(len(args)))
        inner = graph.Host(tuple(args), operator="", places=places, types=types, loc=op.loc)
        regions.append(Region(args, [inner], inner.results))
    args = [Value(v.type, v.hint) for v in op.operands]
    alone = op.rebuilt(args, regions)
    return Function("main", Region(args, [alone], alone.results))


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
        if name == graph.Host.opname:
            DEFINITIONS.setdefault("onnx", eager.run_node)
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
