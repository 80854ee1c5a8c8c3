"""Recurrent layers as loops over time: RNN, GRU, LSTM.

What the inputs add to the gates is one product for all steps; each step adds what the state does.
Gates have an axis of their own, so that one unit's are made together. Sequences that end early keep
their state from there on. f16 and bf16 compute in f32 and round once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.activation import sigmoid_of, softplus_of
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.scans import Loop, emit_scan
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value
from minicc.ir.types import BF16, F16, F32, I64

Activation = Callable[[Value], Value]
State = tuple[Value, ...]
# What the state adds to the gates from one before another: [1, batch, gates, hidden].
Recurrent = Callable[[Value, int, int], Value]
# What the inputs add to all gates side by side, and what the state does; for a direction, the
# inputs, both weights, and the number of gates and of a state's elements.
Products = Callable[[Context, int, Value, Value, Value, tuple[int, Dim]], tuple[Value, Recurrent]]

_SHARED = "activation_alpha activation_beta activations clip direction hidden_size layout"
_BEFORE_7 = " output_sequence"
# the values that ONNX gives alpha and beta where a node does not; None: it has no such parameter
_PARAMETERS: dict[str, tuple[float | None, float | None]] = {
    "relu": (None, None),
    "tanh": (None, None),
    "sigmoid": (None, None),
    "softsign": (None, None),
    "softplus": (None, None),
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, None),
    "thresholdedrelu": (1.0, None),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, None),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One direction of a layer: what its steps share."""

    ctx: Context
    node: Node
    hidden: Dim
    activations: Sequence[Activation]
    product: Recurrent
    recurrent_bias: Value | None  # [gates, hidden], where it is not part of the inputs' product
    peepholes: tuple[Value, ...] = ()

    def gate(self, gates: Value, k: int) -> Value:
        """One of the gates; theirs is the axis before the last."""
        *outer, _, hidden = gates.type.shape
        one = cut(self.ctx, gates, {len(outer): (k, k + 1, 1)})
        return self.ctx.reshape(one, (*outer, hidden))

    def activate(self, k: int, x: Value) -> Value:
        """An activation of a gate, which is kept within the bounds of `clip`."""
        bound = self.node.number("clip", 0.0)
        if bound > 0:
            x = self.ctx.emit(graph.Min, x, self.ctx.scalar(bound, x))
            x = self.ctx.emit(graph.Max, x, self.ctx.scalar(-bound, x))
        return self.activations[k](x)

    def add(self, a: Value, b: Value) -> Value:
        """The sum of two tensors."""
        return self.ctx.emit(graph.Add, a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """The product of two tensors, element by element."""
        return self.ctx.emit(graph.Mul, a, b)

    def rest(self, x: Value) -> Value:
        """One less `x`."""
        return self.ctx.emit(graph.Sub, self.ctx.scalar(1, x), x)


Step = Callable[[Cell, Value, State], State]


def float_products(
    ctx: Context, k: int, x: Value, w: Value, r: Value, each: tuple[int, Dim]
) -> tuple[Value, Recurrent]:
    """The products of a direction with weights in floats: [directions, gates, ...] each."""
    weights, recurrent = (
        ctx.reshape(cut(ctx, v, {0: (k, k + 1, 1)}), v.type.shape[1:]) for v in (w, r)
    )
    rows = ctx.reshape(recurrent, (*each, each[1]))

    def product(h: Value, first: int, last: int) -> Value:
        some = cut(ctx, rows, {0: (first, last, 1)})
        return ctx.emit(graph.Contract, h, some, equation="tbh,gjh->tbgj")

    return ctx.emit(graph.Contract, x, weights, equation="tbi,gi->tbg"), product


def _rnn_step(cell: Cell, x: Value, state: State) -> State:
    h = cell.gate(cell.product(state[0], 0, 1), 0)
    return (cell.activate(0, cell.add(cell.gate(x, 0), h)),)


def _lstm_step(cell: Cell, x: Value, state: State) -> State:
    h, c = state
    product = cell.product(h, 0, 4)
    i, o, f, g = (cell.add(cell.gate(x, k), cell.gate(product, k)) for k in range(4))
    if cell.peepholes:
        i = cell.add(i, cell.mul(cell.peepholes[0], c))
        f = cell.add(f, cell.mul(cell.peepholes[2], c))
    i = cell.activate(0, i)
    f = cell.rest(i) if cell.node.integer("input_forget", 0) else cell.activate(0, f)
    c = cell.add(cell.mul(f, c), cell.mul(i, cell.activate(1, g)))
    if cell.peepholes:
        o = cell.add(o, cell.mul(cell.peepholes[1], c))
    # as in ONNX Runtime, `clip` is for gates and not for what the cell holds
    return cell.mul(cell.activate(0, o), cell.activations[2](c)), c


def _gru_step(cell: Cell, x: Value, state: State) -> State:
    (h,) = state
    bias = cell.recurrent_bias
    product = cell.product(h, 0, 2 if bias is None else 3)
    known = [cell.gate(product, k) for k in range(product.type.shape[2])]
    if bias is not None:
        known = [cell.add(v, cell.gate(bias, k)) for k, v in enumerate(known)]
    z, r = (cell.activate(0, cell.add(cell.gate(x, k), known[k])) for k in (0, 1))
    if bias is None:
        inner = cell.gate(cell.product(cell.mul(r, h), 2, 3), 0)
    else:
        inner = cell.mul(r, known[2])
    new = cell.activate(1, cell.add(cell.gate(x, 2), inner))
    return (cell.add(cell.mul(cell.rest(z), new), cell.mul(z, h)),)


@dataclass(frozen=True, slots=True)
class _Kind:
    """One operator: how many gates it has, its activations, and its step from state to state."""

    gates: int
    activations: tuple[str, ...]
    states: int
    step: Step


_KINDS = {
    "RNN": _Kind(1, ("tanh",), 1, _rnn_step),
    "GRU": _Kind(3, ("sigmoid", "tanh"), 1, _gru_step),
    "LSTM": _Kind(4, ("sigmoid", "tanh", "tanh"), 2, _lstm_step),
}


@operator("GRU", _SHARED + _BEFORE_7 + " linear_before_reset")
@operator("RNN", _SHARED + _BEFORE_7)
def recurrent(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
) -> tuple[Value, ...]:
    """Each step makes a state of the inputs and the one before; GRU's gates mix the two."""
    return layer(ctx, node, (x, w, r, b), lengths, (h,))


@operator("LSTM", _SHARED + _BEFORE_7 + " input_forget")
def lstm(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    lengths: Value | None = None,
    h: Value | None = None,
    c: Value | None = None,
    p: Value | None = None,
) -> tuple[Value, ...]:
    """A cell that gates let in, keep and let out, with peepholes of the gates into it if given."""
    return layer(ctx, node, (x, w, r, b), lengths, (h, c), p)


def layer(
    ctx: Context,
    node: Node,
    tensors: tuple[Value, Value, Value, Value | None],
    lengths: Value | None,
    states: Sequence[Value | None],
    peepholes: Value | None = None,
    products: Products = float_products,
    transposed: bool = False,
) -> tuple[Value, ...]:
    """All directions of a layer: the states of all steps, and the last of each state.

    Weights are [directions, gates, elements], the last two the other way round if `transposed`.
    """
    element = tensors[0].type.dtype

    def wide(v: Value) -> Value:
        return ctx.cast(v, F32) if element in (F16, BF16) else v

    x, w, r = map(wide, tensors[:3])
    b, p, *given = (None if v is None else wide(v) for v in (tensors[3], peepholes, *states))
    batch_first = bool(node.integer("layout", 0))
    x = _swapped(ctx, x, batch_first)
    given = [None if s is None else _swapped(ctx, s, batch_first) for s in given]
    ways = _directions(ctx, node)
    count, batch, gates = len(ways), x.type.shape[1], _KINDS[node.op].gates
    if any(v.type.rank != 3 for v in (x, w, r)):
        raise ctx.refused("it wants inputs and weights of rank 3")
    hidden: Dim = node.integer("hidden_size", 0) or r.type.shape[1 if transposed else 2]

    def fitting(v: Value | None, *shape: Dim) -> Value | None:
        return None if v is None else ctx.taken_as(v, shape)

    def weights(v: Value, elements: Dim) -> Value:
        own = v.type.shape[1 if transposed else 2]
        if isinstance(own, int):  # weights that are known are packed once
            ctx.demand(elements, own, f"{v.type} where it wants {elements} elements")
            elements = own
        sides = (gates * hidden, elements)
        return ctx.taken_as(v, (count, *(reversed(sides) if transposed else sides)))

    w, r = weights(w, x.type.shape[2]), weights(r, hidden)
    b, p = fitting(b, count, 2 * gates * hidden), fitting(p, count, 3 * hidden)
    given = [fitting(s, count, batch, hidden) for s in given]
    lengths = fitting(lengths, batch)
    inside = _inside(ctx, lengths, x.type.shape[0])
    whole: list[Value] = []
    last: list[State] = []
    for k, backwards in enumerate(ways):
        cell, product = _cell(ctx, node, k, hidden, (x, w, r, b, p), products)
        state = tuple(_direction(ctx, s, k, cell, x) for s in given)
        *ends, rows = _steps(cell, product, state, backwards, inside)
        last.append(tuple(ends))
        whole.append(rows)
    out = [_joined(ctx, whole, 1) if node.outputs[0] else x]
    for column in zip(*last, strict=True):
        out.append(_swapped(ctx, _joined(ctx, column, 0), batch_first))
    if batch_first and node.outputs[0]:
        out[0] = ctx.emit(graph.Transpose, out[0], perm=(2, 0, 1, 3))
    return tuple(ctx.cast(v, element) for v in out)


def _swapped(ctx: Context, x: Value, wanted: bool) -> Value:
    """The first two axes change places where that is wanted."""
    return ctx.emit(graph.Transpose, x, perm=(1, 0, 2)) if wanted else x


def _joined(ctx: Context, values: Sequence[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else ctx.emit(graph.Concat, tuple(values), axis=axis)


def _directions(ctx: Context, node: Node) -> tuple[bool, ...]:
    """Whether each direction goes backwards."""
    name = node.text("direction", "forward")
    found = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(name)
    if found is None:
        raise ctx.wrong(f"attribute direction is {name!r}, not forward, reverse or bidirectional")
    return found


def _inside(ctx: Context, lengths: Value | None, steps: Dim) -> Value | None:
    """Which sequences each step belongs to: [steps, batch, 1]; None where all belong to all."""
    known = ctx.array(lengths)
    if lengths is None or (
        known is not None and isinstance(steps, int) and bool((known >= steps).all())
    ):
        return None
    column = ctx.reshape(ctx.cast(lengths, I64), (*lengths.type.shape, 1))
    numbers = ctx.emit(graph.Iota, shape=(steps, 1, 1), axis=0, dtype=I64)
    return ctx.emit(graph.Lt, numbers, column)


def _cell(
    ctx: Context,
    node: Node,
    k: int,
    hidden: Dim,
    tensors: tuple[Value, Value, Value, Value | None, Value | None],
    products: Products,
) -> tuple[Cell, Value]:
    """One direction's cell, and what inputs add to its gates: [steps, batch, gates, hidden]."""
    x, w, r, b, p = tensors
    each = (_KINDS[node.op].gates, hidden)
    width = each[0] * hidden
    product, step = products(ctx, k, x, w, r, each)
    apart = None
    if b is not None:
        row = cut(ctx, b, {0: (k, k + 1, 1)})
        both = [
            ctx.reshape(cut(ctx, row, {1: (n * width, (n + 1) * width, 1)}), (width,))
            for n in (0, 1)
        ]
        if node.op == "GRU" and node.integer("linear_before_reset", 0):
            product = ctx.emit(graph.Add, product, both[0])
            apart = ctx.reshape(both[1], each)
        else:
            product = ctx.emit(graph.Add, product, ctx.emit(graph.Add, *both))
    elif node.op == "GRU" and node.integer("linear_before_reset", 0):
        apart = ctx.emit(graph.Broadcast, ctx.scalar(0, x), shape=each)
    holes: tuple[Value, ...] = ()
    if p is not None:
        row = ctx.cast(cut(ctx, p, {0: (k, k + 1, 1)}), x.type.dtype)
        holes = tuple(cut(ctx, row, {1: (n * hidden, (n + 1) * hidden, 1)}) for n in range(3))
    cell = Cell(ctx, node, hidden, _activations(ctx, node, k), step, apart, holes)
    return cell, ctx.reshape(product, (*x.type.shape[:2], *each))


def _direction(ctx: Context, state: Value | None, k: int, cell: Cell, x: Value) -> Value:
    """The state that a direction begins with: zeros where it is not given."""
    if state is not None:
        return cut(ctx, state, {0: (k, k + 1, 1)})
    shape = (1, x.type.shape[1], cell.hidden)
    return ctx.emit(graph.Broadcast, ctx.scalar(0, x), shape=shape)


def _steps(
    cell: Cell, product: Value, state: State, backwards: bool, inside: Value | None
) -> tuple[Value, ...]:
    """The last states, and the first state of all steps in the order of time."""
    ctx = cell.ctx
    step = _KINDS[cell.node.op].step

    def body(state: Sequence[Value], slices: Sequence[Value]) -> tuple[State, State]:
        new = step(cell, slices[0], tuple(state))
        if inside is None:
            return new, new[:1]
        (mask,) = slices[1:]
        row = ctx.emit(graph.Select, mask, new[0], ctx.scalar(0, new[0]))
        pairs = zip(new, state, strict=True)
        return tuple(ctx.emit(graph.Select, mask, a, b) for a, b in pairs), (row,)

    scanned = [product] if inside is None else [product, inside]
    every = frozenset((0, 1) if backwards else ())
    return emit_scan(ctx, Loop(product.type.shape[0], state, scanned, every, every), body)


def _activations(ctx: Context, node: Node, k: int) -> list[Activation]:
    """The activations of a direction; parameters belong to those that have them, in order."""
    kind = _KINDS[node.op]
    count = len(kind.activations)
    names = node.texts("activations") or kind.activations * (k + 1)
    alphas = iter(node.numbers("activation_alpha"))
    betas = iter(node.numbers("activation_beta"))
    made: list[Activation] = []
    for name in names[: count * (k + 1)]:
        found = _PARAMETERS.get(name.lower())
        if found is None:
            raise ctx.unsupported(f"the activation {name}", f"use one of {', '.join(_PARAMETERS)}")
        alpha = None if found[0] is None else next(alphas, found[0])
        beta = None if found[1] is None else next(betas, found[1])
        made.append(_activation(ctx, name.lower(), alpha or 0.0, beta or 0.0))
    if len(made) < count * (k + 1):
        raise ctx.wrong(f"attribute activations names {len(names)}, and {count} are a direction's")
    return made[count * k :]


def _activation(ctx: Context, name: str, alpha: float, beta: float) -> Activation:
    def plus(x: Value, term: float) -> Value:
        return ctx.emit(graph.Add, x, ctx.scalar(term, x))

    def below(x: Value, bound: float, low: Value, high: Value) -> Value:
        return ctx.emit(graph.Select, ctx.emit(graph.Le, x, ctx.scalar(bound, x)), low, high)

    def zero(x: Value) -> Value:
        return ctx.scalar(0, x)

    def one_sided(cls: Any, x: Value, bound: float) -> Value:
        return ctx.emit(cls, x, ctx.scalar(bound, x))

    def softsign(x: Value) -> Value:
        return ctx.emit(graph.Div, x, plus(ctx.emit(graph.Abs, x), 1))

    def elu(x: Value) -> Value:
        power = ctx.emit(graph.Exp, one_sided(graph.Min, x, 0))
        return below(x, 0, ctx.scaled(plus(power, -1), alpha), x)

    def hard(x: Value) -> Value:
        return one_sided(graph.Min, one_sided(graph.Max, plus(ctx.scaled(x, alpha), beta), 0), 1)

    table: dict[str, Activation] = {
        "relu": lambda x: one_sided(graph.Max, x, 0),
        "tanh": lambda x: ctx.emit(graph.Tanh, x),
        "sigmoid": lambda x: sigmoid_of(ctx, x),
        "softsign": softsign,
        "softplus": lambda x: softplus_of(ctx, x),
        "affine": lambda x: plus(ctx.scaled(x, alpha), beta),
        "leakyrelu": lambda x: below(x, 0, ctx.scaled(x, alpha), x),
        "thresholdedrelu": lambda x: below(x, alpha, zero(x), x),
        "scaledtanh": lambda x: ctx.scaled(ctx.emit(graph.Tanh, ctx.scaled(x, beta)), alpha),
        "hardsigmoid": hard,
        "elu": elu,
    }
    return table[name]
