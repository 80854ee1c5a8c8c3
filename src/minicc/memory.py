"""What a compilation will hold in memory, compared with a limit before any of it is allocated.

What is surely in memory is looked at first, in the graph: arguments, results, constants, and what
ops on the host take and make. What fusing leaves out of memory is known once all buffers have
their place; only then is the program's own memory counted.

Errors, all `UserError`: MC0135 more than the limit, MC0136 more than the machine gives.

Mirrors: XLA's out-of-memory report at compile time, with its list of the largest allocations.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any, NamedTuple

from minicc.errors import Problems, UserError
from minicc.ir import graph, program
from minicc.ir.core import Loc, Module, Op
from minicc.ir.types import BufferType, TensorType, is_free

# Elements that can be counted: those of a tensor that is never in memory are looped over at least.
_MOST = 1 << 62
_NAMED = 3
_HINT = (
    "use smaller shapes or batches, or allow more: Options(memory_limit=BYTES) or "
    "MINICC_MEMORY_LIMIT"
)


class Holding(NamedTuple):
    """Something in memory: its bytes, what it is in words, and the nodes that it is for."""

    bytes: int
    what: str
    where: Loc = ()


def spelled(count: int) -> str:
    """Bytes as people write them: three digits and a unit."""
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1024
        del units[0]
    return f"{amount:.3g} {units[0]}"


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
        size = tensor_bytes(value.type)
        if (value in held and size > limit) or size > _MOST:
            what = f"{held.get(value, 'a value in between')} ({value.type})"
            found.append(Holding(size, what, makers[value].loc if value in makers else ()))
    if found:
        problems = Problems()
        for h in sorted(found, key=lambda h: -h.bytes)[:_NAMED]:
            problems.add(_too_large(h.what, h.bytes, limit, (), h.where))
        problems.check()


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
            array = op.value.array
            what = f"{_tensor(op.result.type)}, a constant"
            found.append(Holding(array.nbytes, what, op.loc))
            needed += array.nbytes
    if needed > limit:
        raise _too_large("the model", needed, limit, found)


def no_memory(what: str) -> UserError:
    """MC0136: the machine has no memory left for something, in words."""
    text = f"the machine has no memory left for {what}"
    return UserError("MC0136", text, hint="use smaller shapes or batches, or close other programs")


def give_back() -> None:
    """Return freed memory to the system.

    The C library keeps what was freed between what is still used, which is much after weights were
    copied from stage to stage. Nothing is done where it has no call for that.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause Python's search for cycles of garbage, also as a decorator.

    While stages make module after module, it would walk over all that is alive again and again: a
    tenth of the time of compiling. Modules have no cycles, so nothing is kept longer.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def constant_bytes(module: Module) -> int:
    """Bytes of all constants of a program."""
    constants = (op for op in module.main.body.ops if isinstance(op, program.Constant))
    return sum(op.value.array.nbytes for op in constants)


def tensor_bytes(type: TensorType) -> int:
    """Bytes of a dense tensor."""
    return prod(type.extents) * type.dtype.bytes


def require_array_fits(nbytes: int, limit: int, what: str) -> None:
    """MC0135 where one array, named in words, is larger than the limit."""
    if nbytes > limit:
        raise _too_large(what, nbytes, limit, ())


def _span_bytes(type: Any) -> int:
    assert isinstance(type, BufferType)
    return type.span() * type.dtype.bytes


def _tensor(type: BufferType) -> TensorType:
    return TensorType(type.dtype, type.shape)


def _too_large(
    what: str, needed: int, limit: int, found: Iterable[Holding], where: Loc = ()
) -> UserError:
    """The error; of what was found, those are named that matter."""
    largest = [h for h in sorted(found, key=lambda h: -h.bytes)[:_NAMED] if h.bytes * 50 > needed]
    text = f"{what} needs {spelled(needed)} of memory, and the limit is {spelled(limit)}"
    if largest:
        listed = "; ".join(f"{spelled(h.bytes)} for {h.what}" for h in largest)
        text += f"; the largest: {listed}"
    where = where or tuple(dict.fromkeys(name for h in largest for name in h.where))
    return UserError("MC0135", text, hint=_HINT, where=where)
