"""Loop, Scan and If nodes as loops and branches of the graph, where shapes don't change.

The body's nodes are imported once, under names of their own. That fails where a round must know its
number or where shapes change; then few rounds are written out one after the other. Where data
decide how many rounds there are, neither can be, and nothing is left behind. An If whose condition
is computed is a branch where both of its graphs give the same types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from minicc.errors import CompilerBug, MiniccError
from minicc.frontends.onnx.bodies import Body, Importing
from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.host.nodes import Types, held
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.needs import HostNodeError, NeedsValueError
from minicc.frontends.onnx.nested import branch
from minicc.frontends.onnx.ops.constant import contents_of
from minicc.frontends.onnx.ops.counted import count_rounds
from minicc.frontends.onnx.ops.growing import with_growth
from minicc.frontends.onnx.ops.indexing import reversed_steps
from minicc.frontends.onnx.ops.lists import while_with_lists, with_appends, with_lists
from minicc.frontends.onnx.ops.movement import moved
from minicc.frontends.onnx.ops.scans import (
    Emit,
    Loop,
    Round,
    Rounds,
    TooManyError,
    UnlikeError,
    emit_if,
    emit_on_host,
    emit_rounds,
    emit_scan,
    emit_while,
)
from minicc.ir import graph
from minicc.ir.affine import Dim, symbol
from minicc.ir.core import Array, Value
from minicc.ir.types import I64, OPAQUE
from minicc.wording import counted

_MOST_NODES = 512  # that a loop is written out to


def loop_outputs(importer: Importing, node: Node) -> tuple[Value, ...] | None:
    """The outputs of a Loop, Scan or If in the graph; None where it can't be there."""
    ctx = importer.ctx
    operands = [importer.value(name, node.name) for name in node.inputs if name]
    if node.op == "If" and not operands:
        return None  # which the importer tells
    hosting, ctx.hosting = ctx.hosting, False
    # a branch that data choose may have ops on the host, and is the same if it has none
    once = hosting and node.op == "If" and ctx.truth(operands[0]) is None
    try:
        made = None if once else _compiled(importer, node, operands, hosting)
    finally:
        ctx.hosting = hosting
    if made is None and not hosting:
        return None
    if made is not None:
        return tuple(held(ctx, importer.types, v) for v in made) if hosting else made
    known = dict(importer.values)
    try:
        if node.op == "If":
            return _branches(importer, node, importer.types)
        if node.op == "Loop":
            return _while(importer, node)
        return _outputs(importer, node, emit_on_host(importer.types), None)
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise ctx.wrong(f"its graph does not fit it ({error})") from error
    finally:
        _forget(importer, known)


def _compiled(
    importer: Importing, node: Node, operands: Sequence[Value], hosting: bool
) -> tuple[Value, ...] | None:
    """The outputs of a node as a loop or branch of which all becomes machine code, or None.

    What follows it may have ops on the host where there is `hosting`.
    """
    known = dict(importer.values)
    opaque = [v for v in operands if v.type.dtype is OPAQUE]
    if opaque and (node.op != "Loop" or any(v not in importer.types.items for v in opaque)):
        return None
    if node.op == "If":
        try:
            return _branches(importer, node)
        except CompilerBug:
            raise
        except (MiniccError, KeyError, IndexError, ValueError, AttributeError):
            return None  # what is wrong with a branch is said when it is chosen
        finally:
            _forget(importer, known)
    try:
        emit = with_lists(importer.types, with_growth(emit_scan), hosting)
        return _outputs(importer, node, emit, None)
    except CompilerBug:
        raise
    except (MiniccError, KeyError, IndexError, ValueError, AttributeError):
        _forget(importer, known)  # what is wrong is said by the way that is tried next
    try:
        return _outputs(importer, node, emit_rounds, _MOST_NODES)
    except (NeedsValueError, HostNodeError, TooManyError):
        _forget(importer, known)
        return None
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise importer.ctx.wrong(f"its graph does not fit it ({error})") from error


def _while(importer: Importing, node: Node) -> tuple[Value, ...]:
    """The outputs of a Loop whose rounds data decide, or that has ops on the host."""
    ctx = importer.ctx
    most, condition, *carried = (
        importer.value(name, node.name) if name else None
        for name in (*node.inputs, "", "")[: max(2, len(node.inputs))]
    )
    states = [v for v in carried if v is not None]
    ctx.stand_at(node, [most, condition, *states], importer.model.opsets[""])
    if len(states) < len(carried):
        raise ctx.wrong("a state has no first value")
    body = Body(importer, node, None)
    limit = ctx.constant(np.array(np.iinfo(np.int64).max)) if most is None else most
    holds = ctx.constant(np.array(True)) if condition is None else condition

    def each(
        number: Value, goes_on: Value, states: Sequence[Value]
    ) -> tuple[Value, Sequence[Value], Sequence[Value]]:
        goes_on, *made = body.emit([number, goes_on, *states])
        return goes_on, made[: len(states)], made[len(states) :]

    rounds = Rounds(limit, holds, states)
    made = _while_with_lists(importer, rounds, each)
    if made is None:
        made = emit_while(ctx, importer.types, rounds, each)
    pairs = zip(made, states, strict=False)
    grows = len(made) > len(states) or any(new.type != old.type for new, old in pairs)
    if grows and _goes_on(importer, body):
        # how many rounds there are decides the extents of what it gives
        importer.note_decisive([v for v in (most, condition) if v is not None])
    return made


def _while_with_lists(importer: Importing, loop: Rounds, each: Round) -> tuple[Value, ...] | None:
    """The outputs of a loop that only appends to its sequences; None for any other."""
    if all(v.type.dtype is not OPAQUE for v in loop.states):
        return None
    known = dict(importer.values)
    try:
        return while_with_lists(importer.ctx, importer.types, loop, each)
    except CompilerBug:
        raise
    except (MiniccError, KeyError, IndexError, ValueError, AttributeError):
        _forget(importer, known)  # what is wrong is said by the way that is tried next
        return None


def _forget(importer: Importing, known: Mapping[str, Value]) -> None:
    importer.values.clear()
    importer.values.update(known)


def _outputs(
    importer: Importing, node: Node, emit: Emit, most: int | None
) -> tuple[Value, ...] | None:
    ctx, model = importer.ctx, importer.model
    operands = [importer.value(name, node.name) if name else None for name in node.inputs]
    ctx.stand_at(node, operands, model.opsets[""])
    body = Body(importer, node, most)
    if node.op == "Loop":
        made = _loop(importer, body, operands, emit)
        return _counted(importer, node, body, operands, emit) if made is None else made
    batched = model.opsets[""] < 9
    given = [v for v in operands[batched:] if v is not None]
    if any(v.type.dtype is OPAQUE for v in given):
        text = "the rank of what it takes"
        if not importer.wants:
            raise ctx.unsupported(f"{text} is decided by data", "write it as a Loop")
        raise ctx.free(list(map(symbol, importer.wants)), text)
    if batched:
        return _batches(ctx, node, body, operands[0], given, emit)
    return _scan(ctx, node, body, given, emit)


def _branches(
    importer: Importing, node: Node, types: Types | None = None
) -> tuple[Value, ...] | None:
    """The outputs of an If whose condition is computed; None where it is known.

    Without `types`, which say what values of two types have in common, all is to be compiled.
    Where a value has another rank in each branch, what follows the If is imported in both.
    """
    ctx, model, known = importer.ctx, importer.model, dict(importer.values)
    condition = importer.value(node.inputs[0], node.name)
    ctx.stand_at(node, [condition], model.opsets[""])
    if ctx.array(condition) is not None:
        return None

    tail = None
    if types is not None:
        tail, importer.tail = importer.tail, None

    def emit(taken: bool, whole: bool = False) -> Sequence[Value]:
        ctx.branches += 1
        try:
            for inner in branch(node, taken, model, importer.written):
                importer.node(inner)
            if whole:
                return importer.rest(tail or ())
            return [importer.value(name, node.name) for name in filter(None, node.outputs)]
        finally:
            ctx.branches -= 1
            _forget(importer, known)
            ctx.stand_at(node, [condition], model.opsets[""])

    chosen = ctx.reshape(condition, ())
    choose = partial(emit_if, ctx, chosen, name=node.name, types=types, alike=tail is not None)
    try:
        made = (
            choose(emit) if types is not None else with_appends(ctx, importer.types, choose, emit)
        )
    except UnlikeError:
        importer.wants |= ctx.sizes_behind(condition) or set()
        importer.ended = list(choose(partial(emit, whole=True), alike=False))
        return tuple(condition for _ in node.outputs)
    if types is not None and any(v.type.dtype is OPAQUE for v in made):
        importer.wants |= ctx.sizes_behind(condition) or set()
    results = iter(made)
    return tuple(next(results) if name else condition for name in node.outputs)


def _loop(
    importer: Importing, body: Body, operands: Sequence[Value | None], emit: Emit
) -> tuple[Value, ...] | None:
    """A Loop whose number of rounds is known, and whose condition holds all the time."""
    ctx, (most, condition, *carried) = importer.ctx, operands
    holds = ctx.array(condition)
    states = [v for v in carried if v is not None]
    endless = most is None or (condition is not None and (holds is None or not holds.all()))
    if endless or len(states) < len(carried) or not _goes_on(importer, body):
        return None
    assert most is not None
    (count,) = ctx.dims(most, "number of rounds")
    count = max(0, count) if isinstance(count, int) else count

    def each(states: Sequence[Value], slices: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        made = body.emit([*slices, ctx.constant(np.array(True)), *states])[1:]
        return made[: len(states)], made[len(states) :]

    return emit(ctx, Loop(count, states, [], numbered=True), each)


def _counted(
    importer: Importing, node: Node, body: Body, operands: Sequence[Value | None], emit: Emit
) -> tuple[Value, ...] | None:
    """A Loop whose condition counts its rounds; states that it counts or keeps are no states."""
    states = [v for v in operands[2:] if v is not None]
    if len(states) < len(operands) - 2:
        return None
    found = count_rounds(importer, node, body.graph, operands)
    if found is None:
        return None
    ctx, (rounds, lines, kept) = importer.ctx, found
    passed = [k for k in range(len(states)) if k not in kept and k not in lines]

    def at(k: int, number: Value) -> Value:
        steps = ctx.emit(graph.Mul, number, ctx.scalar(lines[k].step, I64))
        there = ctx.emit(graph.Add, steps, ctx.of_dims(np.array(lines[k].first, object)))
        return ctx.reshape(ctx.cast(there, states[k].type.dtype), states[k].type.shape)

    def each(given: Sequence[Value], slices: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        now = dict(zip(passed, given, strict=True)) | {k: at(k, slices[0]) for k in lines}
        all_states = [now.get(k, v) for k, v in enumerate(states)]
        made = body.emit([*slices, ctx.constant(np.array(True)), *all_states])[1:]
        return [made[k] for k in passed], made[len(states) :]

    made = emit(ctx, Loop(rounds, [states[k] for k in passed], [], numbered=True), each)
    after = dict(zip(passed, made, strict=False))
    for k, line in lines.items():
        last = np.array(line.first + line.step * rounds, object)
        after[k] = ctx.of_dims(last.reshape(states[k].type.shape), states[k].type.dtype)
    return (*[after.get(k, v) for k, v in enumerate(states)], *made[len(passed) :])


def _scan(
    ctx: Context,
    node: Node,
    body: Body,
    operands: Sequence[Value],
    emit: Emit,
    inside: Value | None = None,
) -> tuple[Value, ...]:
    """A Scan: its inputs are cut along any axis and either way, and so are its outputs stacked.

    Rounds that are not `inside` leave the states as they are, and rows of zeros.
    """
    scanned = node.integer("num_scan_inputs", 1)
    if not 1 <= scanned <= len(operands):
        inputs = counted(len(operands), "input")
        raise ctx.wrong(f"its num_scan_inputs is {scanned}, and it has {inputs}")
    n = len(operands) - scanned
    backwards = node.integers("scan_input_directions") or node.integers("directions")
    turned = node.integers("scan_output_directions")
    axes = node.integers("scan_input_axes") or (0,) * scanned
    given = [_moved(ctx, v, axis, 0) for v, axis in zip(operands[n:], axes, strict=True)]
    count: Dim = given[0].type.shape[0]
    if inside is not None:
        given.append(inside)
        backwards = None  # they are turned around already

    def each(states: Sequence[Value], slices: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        made = body.emit([*states, *slices[:scanned]])
        if inside is not None:
            others = [*states, *(ctx.scalar(0, v) for v in made[n:])]
            pairs = zip(made, others, strict=True)
            made = [ctx.emit(graph.Select, slices[-1], new, old) for new, old in pairs]
        return made[:n], made[n:]

    first, last = (
        frozenset(k for k, back in enumerate(ways or ()) if back) for ways in (backwards, turned)
    )
    made = emit(ctx, Loop(count, operands[:n], given, first, last), each)
    placed = node.integers("scan_output_axes") or (0,) * len(made[n:])
    stacked = [_moved(ctx, v, 0, axis) for v, axis in zip(made[n:], placed, strict=True)]
    return (*made[:n], *stacked)


def _batches(
    ctx: Context,
    node: Node,
    body: Body,
    lengths: Value | None,
    operands: Sequence[Value],
    emit: Emit,
) -> tuple[Value, ...]:
    """Opset 8's Scan: the first axis of everything is a batch, each entry a scan of its own.

    Entry `b` has `lengths[b]` rounds, and what it scans backwards begins with the last of them.
    """
    given = [*operands]
    if lengths is not None and given:
        ways = node.integers("directions") or ()
        first = len(given) - node.integer("num_scan_inputs", 1)
        for k, back in enumerate(ways, first):
            if back:
                given[k] = reversed_steps(ctx, given[k], lengths, 0, 1)
        batch, steps = given[-1].type.shape[:2]
        number = ctx.emit(graph.Iota, shape=(1, steps), axis=1, dtype=I64)
        last = ctx.reshape(ctx.cast(lengths, I64), (batch, 1))
        given.append(ctx.emit(graph.Lt, number, last))

    def each(states: Sequence[Value], slices: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        inside = None if lengths is None else slices[-1]
        return [], list(_scan(ctx, node, body, slices[: len(operands)], emit, inside))

    return emit(ctx, Loop(given[0].type.shape[0], [], given), each)


def _moved(ctx: Context, x: Value, source: int, target: int) -> Value:
    """The tensor with one axis elsewhere (numpy.moveaxis)."""
    if x.type.dtype is OPAQUE:
        if source == target:
            return x
        text = f"the rank of what it stacks along axis {target} is decided by data"
        raise ctx.unsupported(text, "stack along axis 0")
    return moved(ctx, x, source, target)


def _goes_on(importer: Importing, body: Body) -> bool:
    """Whether the condition that a body gives is always the one that it took, or true."""
    inner = body.graph
    makers = {name: node for node in inner.nodes for name in node.outputs}
    name = inner.outputs[0]
    while name in makers and makers[name].op in ("Identity", "Cast"):
        name = makers[name].inputs[0]  # what is cast is true where it is not 0
    if name == body.inputs[1]:
        return True
    made = makers.get(name)
    if name in inner.initialisers:
        found: Array | None = inner.array(name, name)
    elif made is None:
        found = importer.ctx.array(importer.value(name, name))
    else:
        found = contents_of(made) if made.op == "Constant" else None
    return found is not None and bool(found.all())
