"""Sequences to which the rounds of a loop append, as TorchScript writes its lists.

    Loop(n, list) { ...; yield SequenceInsert(list, row) }
    -->   rows = scan { ...; yield row }, of which the list's tensors are the rows

Within a round such a sequence is known by what was appended to it, and nothing can be read of it.
Where a round reads it, it is a stack that grows, if it has a tensor at first (see `growing`).
"""

from __future__ import annotations

from collections.abc import Sequence

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.host.nodes import Types
from minicc.frontends.onnx.needs import HostNodeError
from minicc.frontends.onnx.ops.scans import Each, Emit, Loop
from minicc.frontends.onnx.ops.sequence import Grown, Items, Rows, stacked
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import OPAQUE


def with_lists(types: Types, emit: Emit) -> Emit:
    """What emits loops whose states may be sequences that rounds append to, as `emit` does others.

    HostNodeError where a round does something else with one, or its tensors are of several types.
    """

    def emitted(ctx: Context, loop: Loop, body: Each) -> tuple[Value, ...]:
        if all(v.type.dtype is not OPAQUE for v in loop.states):
            return emit(ctx, loop, body)
        try:
            return _as_rows(types, emit, ctx, loop, body)
        except HostNodeError:
            return _as_stacks(types, emit, ctx, loop, body)

    return emitted


def _as_stacks(types: Types, emit: Emit, ctx: Context, loop: Loop, body: Each) -> tuple[Value, ...]:
    """The outputs of a loop in which each sequence is a stack that grows."""
    lists = [k for k, v in enumerate(loop.states) if v.type.dtype is OPAQUE]

    def opened(values: Sequence[Value]) -> list[Value]:
        return [_stack(ctx, types.items.get(v)) if k in lists else v for k, v in enumerate(values)]

    def closed(values: Sequence[Value]) -> list[Value]:
        return [types.listed(Rows(v)) if k in lists else v for k, v in enumerate(values)]

    def each(
        states: Sequence[Value], slices: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        made, rows = body(closed(states), slices)
        return opened(made), rows

    made = emit(ctx, loop._replace(states=opened(loop.states)), each)
    n = len(loop.states)
    return (*closed(made[:n]), *made[n:])


def _stack(ctx: Context, items: Items | None) -> Value:
    """The tensors of a sequence as rows."""
    parts = () if items is None or isinstance(items, Grown) else items
    return _stack_of(ctx, (parts,) if isinstance(parts, Rows) else parts)


def _stack_of(ctx: Context, parts: Sequence[Rows | Value]) -> Value:
    made = stacked(ctx, parts)
    if made is None:
        raise _host("a sequence of several types, or of none")
    return made.stack


def _as_rows(types: Types, emit: Emit, ctx: Context, loop: Loop, body: Each) -> tuple[Value, ...]:
    """The outputs of a loop that stacks what its rounds append to sequences."""
    lists = {k: v for k, v in enumerate(loop.states) if v.type.dtype is OPAQUE}
    taken = {k: types.listed() for k in lists}
    plain = [k for k in range(len(loop.states)) if k not in lists]
    counts: list[int] = []  # of what a round appends to each

    def each(
        states: Sequence[Value], slices: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        known = dict(zip(plain, states, strict=True)) | taken
        made, rows = body([known[k] for k in range(len(loop.states))], slices)
        appended = [_appended(types.items.get(made[k]), taken[k]) for k in lists]
        counts[:] = map(len, appended)
        return [made[k] for k in plain], [*rows, *[v for vs in appended for v in vs]]

    made = emit(ctx, loop._replace(states=[loop.states[k] for k in plain]), each)
    end = len(made) - sum(counts)
    states, rows, columns = made[: len(plain)], made[len(plain) : end], iter(made[end:])
    after = dict(zip(plain, states, strict=True))
    for (k, before), count in zip(lists.items(), counts, strict=True):
        new = [next(columns) for _ in range(count)]
        after[k] = types.listed(_joined(ctx, types.items.get(before), new)) if new else before
    return (*[after[k] for k in range(len(loop.states))], *rows)


def _appended(items: Items | None, taken: Value) -> tuple[Value, ...]:
    if not isinstance(items, Grown) or items.base is not taken:
        raise _host("more is done with a sequence than that a round appends to it")
    return items.appended


def _joined(ctx: Context, before: Items | None, columns: Sequence[Value]) -> Rows:
    """The tensors of a sequence, then those of which each round has appended one of each column."""
    first = columns[0].type
    if before is None or isinstance(before, Grown) or any(v.type != first for v in columns):
        raise _host("a sequence of several types, or of none")
    count, *shape = first.shape
    new = columns[0]
    if len(columns) > 1:
        pairs = [ctx.reshape(v, (count, 1, *shape)) for v in columns]
        new = ctx.reshape(
            ctx.emit(graph.Concat, tuple(pairs), axis=1), (count * len(columns), *shape)
        )
    parts = [before] if isinstance(before, Rows) else [*before]
    return Rows(_stack_of(ctx, [*parts, Rows(new)]))


def _host(text: str) -> HostNodeError:
    return HostNodeError("MC0227", f"{text}: it runs on the host")
