"""Sequences to which the rounds of a loop append, as TorchScript writes its lists.

    Loop(n, list) { ...; yield SequenceInsert(list, row) }
    -->   rows = scan { ...; yield row }, of which the list's tensors are the rows

Within a round such a sequence is known by what was appended to it, and nothing can be read of it.
Where a round reads it, it is a stack that grows, if it has a tensor at first (see `growing`).

A branch of a round may append, too. Where both append as many tensors, the branch gives these:

    If { yield SequenceInsert(list, a) } else { yield SequenceInsert(list, b) }
    -->   row = if { yield a } else { yield b }

else it says of each whether it is there, and the rows that are not are left out after the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from minicc.errors import MiniccError
from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.host.nodes import Types, emit_hosted, held
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.needs import HostNodeError
from minicc.frontends.onnx.ops.scans import Each, Emit, Loop, Round, Rounds, emit_while
from minicc.frontends.onnx.ops.sequence import Appended, Grown, Items, Rows, stacked
from minicc.ir import graph
from minicc.ir.affine import multiply
from minicc.ir.core import Value
from minicc.ir.types import OPAQUE

Branch = Callable[[bool], Sequence[Value]]
_COMPRESS = 11  # the opset since which Compress takes a negative axis


def with_lists(types: Types, emit: Emit, hosting: bool) -> Emit:
    """What emits loops whose states may be sequences that rounds append to, as `emit` does others.

    Rows are left out on the host, where what follows a loop may have ops there (`hosting`).
    HostNodeError where a round does something else with one, or its tensors are of several types.
    """

    def emitted(ctx: Context, loop: Loop, body: Each) -> tuple[Value, ...]:
        if all(v.type.dtype is not OPAQUE for v in loop.states):
            return emit(ctx, loop, body)
        try:
            return _as_rows(types, emit, ctx, loop, body, hosting)
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


class _Appending:
    """The sequences among the states of a loop, whose rounds do nothing but append to them.

    What follows the loop may have ops on the host where there is `hosting`.
    """

    def __init__(self, types: Types, states: Sequence[Value], hosting: bool) -> None:
        self.types = types
        self.hosting = hosting
        self.lists = {k: v for k, v in enumerate(states) if v.type.dtype is OPAQUE}
        self.taken = {k: types.listed() for k in self.lists}
        self.plain = [k for k in range(len(states)) if k not in self.lists]
        self.appended: list[tuple[Appended, ...]] = []  # by a round to each

    def without(self, states: Sequence[Value]) -> list[Value]:
        """The states that are no sequences."""
        return [states[k] for k in self.plain]

    def taken_with(self, plain: Sequence[Value]) -> list[Value]:
        """The states that a round takes, among them these."""
        known = dict(zip(self.plain, plain, strict=True)) | self.taken
        return [known[k] for k in range(len(known))]

    def given(
        self, made: Sequence[Value], rows: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        """The states and rows that a round gives; what it appends are more rows."""
        found = [_appended(self.types.items.get(made[k]), v) for k, v in self.taken.items()]
        self.appended = found
        return self.without(made), [*rows, *[v for each in found for v in _parts(each)]]

    def after(self, ctx: Context, made: Sequence[Value]) -> list[Value]:
        """The outputs of the loop, of which `made` are those without sequences."""
        end = len(made) - sum(map(len, map(_parts, self.appended)))
        columns = iter(made[end:])
        outputs = dict(zip(self.plain, made, strict=False))
        for (k, before), new in zip(self.lists.items(), self.appended, strict=True):
            stacks = _like(new, columns)
            items = self.types.items.get(before)
            joined = self._joined(ctx, items, stacks) if new else None
            outputs[k] = before if joined is None else self.types.listed(joined)
        return [*[outputs[k] for k in range(len(outputs))], *made[len(self.plain) : end]]

    def _joined(self, ctx: Context, before: Items | None, columns: Sequence[Appended]) -> Rows:
        """The tensors of a sequence, then those that each round appended, one of each column."""
        tensors = [a.tensor for a in columns]
        first = tensors[0].type
        if before is None or isinstance(before, Grown) or any(v.type != first for v in tensors):
            raise _host("a sequence of several types, or of none")
        new = _side_by_side(ctx, tensors)
        if any(a.kept is not None for a in columns):
            if not self.hosting:
                raise _host("how many tensors are in a sequence is decided by data")
            always = ctx.emit(graph.Broadcast, ctx.constant(np.array(True)), shape=first.shape[:1])
            kept = _side_by_side(ctx, [always if a.kept is None else a.kept for a in columns])
            node = Node("Compress", "", ("rows", "kept"), ("left",), {"axis": 0})
            versions = _COMPRESS, _COMPRESS
            (new,) = emit_hosted(ctx, node, (new, kept), {}, self.types, versions)
        parts = [before] if isinstance(before, Rows) else [*before]
        return Rows(_stack_of(ctx, [*parts, Rows(new)]))


def _as_rows(
    types: Types, emit: Emit, ctx: Context, loop: Loop, body: Each, hosting: bool
) -> tuple[Value, ...]:
    """The outputs of a loop that stacks what its rounds append to sequences."""
    lists = _Appending(types, loop.states, hosting)

    def each(
        states: Sequence[Value], slices: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        return lists.given(*body(lists.taken_with(states), slices))

    made = emit(ctx, loop._replace(states=lists.without(loop.states)), each)
    return tuple(lists.after(ctx, made))


def while_with_lists(ctx: Context, types: Types, loop: Rounds, body: Round) -> tuple[Value, ...]:
    """The outputs of a loop that data end, which stacks what its rounds append to sequences.

    HostNodeError where a round does something else with one, or has ops on the host beside.
    """
    lists = _Appending(types, loop.states, True)

    def each(
        number: Value, goes_on: Value, states: Sequence[Value]
    ) -> tuple[Value, Sequence[Value], Sequence[Value]]:
        hosting, ctx.hosting = ctx.hosting, False
        try:
            on, made, rows = body(number, goes_on, lists.taken_with(states))
        finally:
            ctx.hosting = hosting
        return on, *lists.given(made, rows)

    made = emit_while(ctx, types, loop._replace(states=lists.without(loop.states)), each)
    return tuple(held(ctx, types, v) for v in lists.after(ctx, made))


def _appended(items: Items | None, taken: Value) -> tuple[Appended, ...]:
    if not isinstance(items, Grown) or items.base is not taken:
        raise _host("more is done with a sequence than that a round appends to it")
    return items.appended


def _parts(appended: Sequence[Appended]) -> list[Value]:
    """The tensors, and what says whether they are there."""
    return [v for each in appended for v in each if v is not None]


def _like(appended: Sequence[Appended], values: Iterator[Value]) -> list[Appended]:
    """Values in the place of all parts."""
    return [Appended(next(values), None if a.kept is None else next(values)) for a in appended]


def _side_by_side(ctx: Context, columns: Sequence[Value]) -> Value:
    """The first rows of all stacks, then the second ones, and so on."""
    count, *shape = columns[0].type.shape
    if len(columns) == 1:
        return columns[0]
    pairs = [ctx.reshape(v, (count, 1, *shape)) for v in columns]
    whole = ctx.emit(graph.Concat, tuple(pairs), axis=1)
    return ctx.reshape(whole, (multiply(count, len(columns)), *shape))


def with_appends(
    ctx: Context, types: Types, choose: Callable[[Branch], Sequence[Value]], branch: Branch
) -> list[Value]:
    """The outputs of an If whose branches may append to sequences, as `choose` makes others.

    In the place of sequences `choose` is given the tensors that each branch appends, and, where the
    branches append unlike numbers of them, whether each is there.
    """
    lists: dict[bool, dict[int, Grown]] = {}

    def opened(taken: bool) -> list[Value]:
        plain, lists[taken] = _apart(types, branch(taken))
        return plain + _all_parts(lists[taken])

    made: Sequence[Value] = ()
    try:
        made = choose(opened)
    except (MiniccError, ValueError):
        if len(lists) < 2 or _are_alike(lists):
            raise
    if len(lists) == 2 and not _are_alike(lists):
        longest = _longest(lists)

        def padded(taken: bool) -> list[Value]:
            plain, found = _apart(types, branch(taken))
            lists[taken] = {
                k: Grown(g.base, tuple(_padded(ctx, g.appended, longest[k])))
                for k, g in found.items()
            }
            return plain + _all_parts(lists[taken])

        made = choose(padded)
    return _with_grown(types, made, next(iter(lists.values())))


def _apart(types: Types, values: Sequence[Value]) -> tuple[list[Value], dict[int, Grown]]:
    """What a branch gives without sequences that were appended to, and these by their places."""
    known = [types.items.get(v) for v in values]
    grown = {k: items for k, items in enumerate(known) if isinstance(items, Grown)}
    return [v for k, v in enumerate(values) if k not in grown], grown


def _all_parts(grown: Mapping[int, Grown]) -> list[Value]:
    return [v for g in grown.values() for v in _parts(g.appended)]


def _are_alike(lists: Mapping[bool, Mapping[int, Grown]]) -> bool:
    """Whether both branches append as many tensors to the same sequences, each as surely."""
    then, other = (
        {k: (g.base, [a.kept is None for a in g.appended]) for k, g in found.items()}
        for found in lists.values()
    )
    return then == other


def _longest(lists: Mapping[bool, Mapping[int, Grown]]) -> dict[int, tuple[Appended, ...]]:
    """What the branch appends to each sequence that appends more."""
    then, other = lists[True], lists[False]
    if {k: g.base for k, g in then.items()} != {k: g.base for k, g in other.items()}:
        raise _host("a branch gives another sequence than the other one")
    return {k: max(then[k].appended, other[k].appended, key=len) for k in then}


def _padded(ctx: Context, own: Sequence[Appended], most: Sequence[Appended]) -> Iterator[Appended]:
    """As many tensors as `most`, each with whether it is there; zeros where it is not."""
    for k, (like, _) in enumerate(most):
        if k < len(own):
            tensor, kept = own[k]
            yield Appended(tensor, ctx.constant(np.array(True)) if kept is None else kept)
        else:
            zeros = ctx.emit(graph.Broadcast, ctx.scalar(0, like), shape=like.type.shape)
            yield Appended(zeros, ctx.constant(np.array(False)))


def _with_grown(types: Types, made: Sequence[Value], grown: Mapping[int, Grown]) -> list[Value]:
    """The outputs with sequences in their places, to which what was made last was appended."""
    end = len(made) - len(_all_parts(grown))
    plain, parts = iter(made[:end]), iter(made[end:])
    after = {k: Grown(g.base, tuple(_like(g.appended, parts))) for k, g in grown.items()}
    count = end + len(grown)
    return [types.listed(after[k]) if k in after else next(plain) for k in range(count)]


def _host(text: str) -> HostNodeError:
    return HostNodeError("MC0227", f"{text}: it runs on the host")
