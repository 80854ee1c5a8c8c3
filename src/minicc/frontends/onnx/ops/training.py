"""One step of an optimiser: Adagrad, Adam, Momentum."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.registry import Importer, register
from minicc.ir import graph
from minicc.ir.core import Value

_DOMAIN = "ai.onnx.preview.training"
Step = Callable[[Context, Node, Value, Value, Sequence[Value]], tuple[Value, ...]]


def _add(ctx: Context, a: Value, b: Value) -> Value:
    return ctx.emit(graph.Add, a, b)


def _mul(ctx: Context, a: Value, b: Value) -> Value:
    return ctx.emit(graph.Mul, a, b)


def _times(ctx: Context, factor: float, x: Value) -> Value:
    return _mul(ctx, x, ctx.scalar(factor, x))


def _regular(ctx: Context, node: Node, x: Value, gradient: Value) -> Value:
    """The gradient with that of the norm."""
    factor = node.number("norm_coefficient", 0.0)
    return _add(ctx, _times(ctx, factor, x), gradient) if factor else gradient


def _adagrad(
    ctx: Context, node: Node, rate: Value, count: Value, parts: Sequence[Value]
) -> tuple[Value, ...]:
    x, gradient, history = parts
    slower = _times(ctx, node.number("decay_factor", 0.0), ctx.cast(count, x.type.dtype))
    rate = ctx.emit(graph.Div, rate, _add(ctx, slower, ctx.scalar(1, x)))
    gradient = _regular(ctx, node, x, gradient)
    history = _add(ctx, history, _mul(ctx, gradient, gradient))
    epsilon = ctx.scalar(node.number("epsilon", 1e-6), x)
    below = _add(ctx, ctx.emit(graph.Sqrt, history), epsilon)
    move = ctx.emit(graph.Div, _mul(ctx, rate, gradient), below)
    return ctx.emit(graph.Sub, x, move), history


def _adam(
    ctx: Context, node: Node, rate: Value, count: Value, parts: Sequence[Value]
) -> tuple[Value, ...]:
    x, gradient, mean, square = parts
    alpha, beta = node.number("alpha", 0.9), node.number("beta", 0.999)
    one = ctx.scalar(1, x)
    gradient = _regular(ctx, node, x, gradient)
    mean = _add(ctx, _times(ctx, alpha, mean), _times(ctx, 1 - alpha, gradient))
    power = _mul(ctx, gradient, gradient)
    square = _add(ctx, _times(ctx, beta, square), _times(ctx, 1 - beta, power))
    root = _add(ctx, ctx.emit(graph.Sqrt, square), ctx.scalar(node.number("epsilon", 1e-6), x))
    steps = ctx.cast(count, x.type.dtype)
    left = [
        ctx.emit(graph.Sub, one, ctx.emit(graph.Pow, ctx.scalar(base, x), steps))
        for base in (beta, alpha)
    ]
    faster = ctx.emit(graph.Div, _mul(ctx, rate, ctx.emit(graph.Sqrt, left[0])), left[1])
    started = ctx.emit(graph.Lt, ctx.scalar(0, count), count)
    rate = ctx.emit(graph.Select, started, faster, rate)
    x = ctx.emit(graph.Sub, x, ctx.emit(graph.Div, _mul(ctx, rate, mean), root))
    after = node.number("norm_coefficient_post", 0.0)
    return (_times(ctx, 1 - after, x) if after else x), mean, square


def _momentum(
    ctx: Context, node: Node, rate: Value, count: Value, parts: Sequence[Value]
) -> tuple[Value, ...]:
    x, gradient, velocity = parts
    alpha, beta = node.number("alpha", 0.0), node.number("beta", 0.0)
    gradient = _regular(ctx, node, x, gradient)
    started = ctx.emit(graph.Lt, ctx.scalar(0, count), count)
    factor = ctx.emit(graph.Select, started, ctx.scalar(beta, x), ctx.scalar(1, x))
    velocity = _add(ctx, _times(ctx, alpha, velocity), _mul(ctx, factor, gradient))
    move = velocity
    if node.text("mode", "standard") == "nesterov":
        move = _add(ctx, gradient, _times(ctx, alpha, velocity))
    return ctx.emit(graph.Sub, x, _mul(ctx, rate, move)), velocity


def _each(step: Step, count: int) -> Importer:
    """The step for each of the tensors, whose parts stand together by kind."""

    def run(ctx: Context, node: Node, *given: Value) -> tuple[Value, ...]:
        rate, steps, *tensors = given
        if not tensors or len(tensors) % count:
            raise ctx.wrong(f"it takes {count} inputs for each tensor after R and T")
        many = len(tensors) // count
        done = [step(ctx, node, rate, steps, tensors[k::many]) for k in range(many)]
        return tuple(part for kind in zip(*done, strict=True) for part in kind)

    return run


register(f"{_DOMAIN}.Adagrad", _each(_adagrad, 3), "decay_factor epsilon norm_coefficient")
register(
    f"{_DOMAIN}.Adam",
    _each(_adam, 4),
    "alpha beta epsilon norm_coefficient norm_coefficient_post",
)
register(f"{_DOMAIN}.Momentum", _each(_momentum, 3), "alpha beta mode norm_coefficient")
