"""What a compilation will hold in memory, compared with a limit before any of it is allocated.

What is surely in memory is looked at first, in the graph: arguments, results, constants, and what
ops on the host take and make. What fusing leaves out of memory is known once all buffers have
their place; only then is the program's own memory counted. Errors are those of `limits`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minicc.errors import Problems
from minicc.ir import graph, program
from minicc.ir.core import Module, Op, walk_control
from minicc.ir.types import BufferType, TensorType, is_free
from minicc.limits import MOST_BYTES, NAMED, Holding, Limits, beyond, counted, spelled, too_large

# Bytes are counted in the widest type, as a tensor that is never in memory is looped over at least.
_WIDEST = 8


def require_graph_fits(module: Module, limit: int, on_host: Iterable[Op] = ()) -> None:
    """MC0135 for each of the largest tensors that are larger than the limit.

    Of a graph module with static shapes: those that will be in memory whatever is fused.
    """
    main = module.main
    makers = {r: op for op in main.body.ops for r in op.results}
    held = {a: f"the input {a.hint}" for a in main.args}
    held |= {op.result: "a constant" for op in main.body.ops if isinstance(op, graph.Constant)}
    for op in on_host:
        held |= dict.fromkeys((*op.operands, *op.results), "a value on the host")
    results = zip(main.result_names, main.body.yields, strict=True)
    held |= {v: f"the output {name}" for name, v in results}
    found: list[Holding] = []
    for value in (*main.args, *makers):
        if not isinstance(value.type, TensorType) or is_free(value.type.shape):
            continue
        size, most = value.type.nbytes, counted(value.type.extents, _WIDEST)
        if (value in held and size > limit) or most > MOST_BYTES:
            size = size or most
            what = f"{held.get(value, 'a value in between')} ({value.type})"
            found.append(Holding(size, what, makers[value].loc if value in makers else ()))
    if found:
        problems = Problems()
        for h in sorted(found, key=lambda h: -h.bytes)[:NAMED]:
            problems.add(too_large(h.what, h.bytes, limit, (), h.where))
        problems.check()


def require_within(module: Module, limits: Limits) -> None:
    """MC0174, MC0175 and MC0176 for the first tensor or scan of a graph beyond a limit."""
    for op in walk_control(module.main.body):
        # one with a condition ends when data say
        count = op.count if isinstance(op, graph.Scan) and not op.condition else 0
        if isinstance(count, int) and count > limits.rounds:
            raise beyond("rounds", f"a scan has {count} rounds", limits, op.loc)
        for v in op.results:
            if v.type.rank > limits.rank:
                raise beyond("rank", f"a value has {v.type.rank} axes", limits, op.loc)
            if not is_free(v.type.shape) and v.type.nbytes > limits.tensor_bytes:
                text = f"a value ({v.type}) has {spelled(v.type.nbytes)}"
                raise beyond("tensor_bytes", text, limits, op.loc)


def require_program_fits(module: Module, limit: int) -> None:
    """MC0135 where the arena, constants and outputs of a program are larger than the limit.

    The largest are named. Of a program with free dimensions this is looked at when it runs.
    """
    main = module.main
    if main.attrs.get("sizes"):
        return
    outputs = main.args[main.attrs["inputs"] :]
    found = [Holding(_span_bytes(a.type), f"{_tensor(a.type)}, an output") for a in outputs]
    needed = int(main.attrs["arena"]) + sum(h.bytes for h in found)
    for op in main.body.ops:
        if isinstance(op, program.Alloc):
            size = _span_bytes(op.type)
            found.append(Holding(size, f"{_tensor(op.type)}, a value in between", op.loc))
        elif isinstance(op, program.Constant):
            what = f"{_tensor(op.result.type)}, a constant"
            found.append(Holding(op.value.type.nbytes, what, op.loc))
            needed += op.value.type.nbytes
    if needed > limit:
        raise too_large("the model", needed, limit, found)


def constant_bytes(module: Module) -> int:
    """Bytes of all constants of a program."""
    constants = (op for op in module.main.body.ops if isinstance(op, program.Constant))
    return sum(op.value.type.nbytes for op in constants)


def _span_bytes(type: Any) -> int:
    assert isinstance(type, BufferType)
    return type.span() * type.dtype.bytes


def _tensor(type: BufferType) -> TensorType:
    return TensorType(type.dtype, type.shape)
