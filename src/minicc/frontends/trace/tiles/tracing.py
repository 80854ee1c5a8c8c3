"""One trace of a kernel: its function runs for buffers of given types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minicc.errors import Problems, UserError, file_line
from minicc.frontends.trace.tiles.memory import Buffer
from minicc.frontends.trace.tiles.numbers import dim_of, number
from minicc.frontends.trace.tiles.recording import Recording, recorded
from minicc.frontends.trace.tiles.tile import element_of
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Op, Region, Value, walk
from minicc.ir.kernel import Alloc
from minicc.ir.rewrite import live, used_by
from minicc.ir.types import BufferType, TensorType
from minicc.ir.verify import leaving

_LARGEST = 1 << 14  # elements of a tile
_SCRATCH = 1 << 21  # bytes of an instance's scratch, which is memory of a thread's stack


class Spec(NamedTuple):
    """What a kernel's `grid` and `out` are told of an array, and what `out` gives for one."""

    shape: tuple[Any, ...]
    dtype: Any

    @staticmethod
    def of(type: TensorType) -> Spec:
        """That of a tensor; free extents are numbers that are known when the kernel runs."""
        return Spec(tuple(map(number, type.shape)), type.dtype.numpy)

    @property
    def type(self) -> TensorType:
        """The type of such a tensor."""
        return TensorType(element_of(np.dtype(self.dtype)), dims_of(self.shape))


def dims_of(shape: Sequence[Any]) -> tuple[Dim, ...]:
    """Numbers as extents."""
    return tuple(map(dim_of, shape))


def traced_kernel(
    f: Callable[..., Any],
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    grid: Sequence[Dim],
    names: Sequence[str],
    constants: Mapping[str, Any],
) -> dict[str, Any]:
    """The attributes and the body of a `graph.kernel` that computes what the function says.

    UserError at the lines of the function where it says what no kernel can do, and where a load or
    store surely leaves its buffer.
    """
    recording = Recording(grid)
    types = [BufferType(t.dtype, t.shape) for t in (*inputs, *outputs)]
    buffers = [Value(t, name) for t, name in zip(types, names, strict=True)]
    given = [Buffer(v, writable=k >= len(inputs)) for k, v in enumerate(buffers)]
    with recorded(recording):
        f(*given, **constants)
    body = Region((*recording.axes, *buffers), _wanted(recording), ())
    label = getattr(f, "__name__", "kernel")
    kernel = Function(label, body, {"grid": tuple(grid)})
    _require_sound(kernel, f)
    return {"label": label, "grid": tuple(grid), "body": body}


def place_of(f: Callable[..., Any]) -> str:
    """`file.py:line` of where a function begins."""
    code = f.__code__
    return file_line(code.co_filename, code.co_firstlineno)


def _wanted(recording: Recording) -> list[Op]:
    """The ops that stores need, after the scratch that they use."""
    ops = live(recording.scope.b.ops, ())
    used = used_by(Region((), ops, ()))
    return [*[op for op in recording.allocs if op.result in used], *ops]


def _require_sound(kernel: Function, f: Callable[..., Any]) -> None:
    """UserError where an access surely leaves its buffer (MC0199), or a tile is too large."""
    problems = Problems()
    for out in leaving(kernel):
        verb = "reads" if out.op.results else "writes"
        extent = out.buffer.type.shape[out.axis]
        text = f"{kernel.name} {verb} {out.buffer.hint or 'scratch'} from {out.low} to {out.high}"
        text = f"{text} along axis {out.axis}, which has {extent}"
        problems.add(UserError("MC0199", text, where=out.op.loc))
    for op in walk(kernel.body):
        for r in op.results:
            if isinstance(r.type, TensorType) and prod(r.type.extents) > _LARGEST:
                text = f"a tile of {list(r.type.extents)} is more than {_LARGEST} elements"
                hint = "go over it in a loop; tl.dot does that itself"
                problems.add(UserError("MC0191", text, hint=hint, where=op.loc))
    scratch = [op for op in kernel.body.ops if isinstance(op, Alloc)]
    taken = sum(op.type.span() * op.type.dtype.bytes for op in scratch)
    if taken > _SCRATCH:
        text = f"the scratch of an instance of {kernel.name} is {taken} bytes, at most {_SCRATCH}"
        problems.add(UserError("MC0191", text, where=[op.loc[0] for op in scratch]))
    problems.check()
    if not any(op.opname == "kernel.store" for op in walk(kernel.body)):
        text = f"{kernel.name} writes nothing to its outputs"
        raise UserError("MC0196", text, where=place_of(f))
