"""Choose how convolutions, attention and products of a matrix with itself are computed.

Convolutions directly, or by Winograd's minimal filters:

    %y = graph.conv %x, %w, 3x3, stride 1
    -->   winograd_output(contract(winograd_input(%x), winograd_weights(%w)))

with the tiles of an image in one axis of the product.

Legal where the kernel is 3x3 with stride, dilation and groups of 1 on channels-last float32, and
the weights are constant. Profitable by a cost in multiply-adds: fewer products against the work of
the transforms and against weights that grow by 36/9 (tiles of 4x4) or 16/9 (2x2) and are read once
for all tiles. Which is less depends on how large images are: where that is free, one form serves
all sizes, and its cost is the geometric mean of those at some. Winograd rounds more than the direct
form, so strict mathematics never takes it.

Attention over many keys in blocks of these, see `online_softmax`; a matrix times its own transpose
by half of it, see `symmetric`; products of small integers several at a time, see `dot_words`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import inf, prod

from minicc.ir import graph
from minicc.ir.affine import Dim, evaluate, number, symbols
from minicc.ir.core import Function, Module, Op, Value
from minicc.ir.graph.minimal_filters import POINTS, TAPS, derive, share
from minicc.ir.graph.winograd import tile_counts
from minicc.ir.rewrite import Rebuilder, everywhere, rebuild
from minicc.ir.types import F32, TensorType, is_free
from minicc.passes.graph.dot_words import apply_words
from minicc.passes.graph.online_softmax import Demands, apply_online_softmax
from minicc.passes.graph.symmetric import apply_symmetric
from minicc.target import Target

_RATE = 0.85  # of the direct form's rate that the short products of Winograd reach
# multiply-adds that it costs to read or write a number of the tiles, where all are so many times as
# large as the second cache; what is larger comes from memory
_MOVED = ((1, 2.0), (8, 4.0), (16, 8.0))
_STREAMED = 1.75  # times what a weight from there costs: tiles are written, and read again
_ALONG = 5  # times what others cost, a multiply-add whose vectors are along the sums
_SIDES = (128, 256, 512)  # what free sizes are taken for, one after the other
_LAUNCHES = 5e5  # multiply-adds in the time that two more launches take


def choose_algorithm(module: Module, strict: bool, target: Target) -> Module:
    """Give each op the algorithm of least cost; under `strict` no other sums are rounded."""
    numbers, demands = count(), Demands(module.main)

    def one(function: Function) -> Function:
        function = apply_words(apply_symmetric(function, target), target)
        if strict:
            return function
        function = _apply(function, plan_algorithms(function, target))
        return apply_online_softmax(function, numbers, target, demands)

    made = [everywhere(f, one) for f in module.functions]
    if demands.pairs:
        asked = *module.main.attrs.get("demands", ()), *demands.pairs
        made = [
            Function(f.name, f.body, {**f.attrs, "demands": asked}, f.result_names)
            if f.name == "main"
            else f
            for f in made
        ]
    same = all(new is old for new, old in zip(made, module.functions, strict=True))
    return module if same else Module(module.level, made)


def plan_algorithms(function: Function, target: Target) -> dict[Op, int]:
    """The convolutions to do by Winograd, with how many outputs a tile has along an axis."""
    constants = {op.result for op in function.body.ops if isinstance(op, graph.Constant)}
    plan: dict[Op, int] = {}
    for op in function.body.ops:
        if isinstance(op, graph.Conv) and op.w in constants and legal(op):
            best = min((0, *POINTS), key=lambda m, op=op: cost(op, m, target))  # type: ignore[misc]
            if best:
                plan[op] = best
    return plan


def legal(op: graph.Conv) -> bool:
    """Whether Winograd's form exists for a convolution."""
    w: TensorType = op.w.type
    return (
        op.layout == "channels_last"
        and w.extents[2:] == (TAPS, TAPS)
        and bool(op.strides == op.dilations == (1, 1))
        and bool(op.groups == op.parts == 1)
        and w.dtype is F32
    )


def cost(op: graph.Conv, outputs: int, target: Target) -> float:
    """Multiply-adds, or what takes as long, of a convolution in tiles of `outputs`; 0 is direct."""
    shape = op.result.type.shape
    if not is_free(shape):
        image = tuple(map(number, shape[:3]))
        return inf if min(image[1:]) < outputs else _cost_at(op, outputs, image, target)
    taken = [_taken(shape[:3], side) for side in _SIDES]
    costs = [_cost_at(op, outputs, image, target) for image in taken]
    mean: float = prod(costs) ** (1 / len(costs))
    return mean


def _taken(image: Sequence[Dim], side: int) -> tuple[int, ...]:
    """The extents of a batch of images for free sizes of that length; a free batch is of one."""
    binding = dict.fromkeys(set().union(*map(symbols, image)), side)
    if not isinstance(image[0], int) and image[0].is_atom():
        binding |= dict.fromkeys(symbols(image[0]), 1)
    return tuple(max(1, int(evaluate(n, binding))) for n in image)


def _cost_at(op: graph.Conv, outputs: int, image: tuple[int, ...], target: Target) -> float:
    """The cost for a batch of images of some extents."""
    weights: TensorType = op.w.type
    batch, height, width = image
    out, channels = weights.extents[:2]
    lanes = target.lanes(weights.dtype.bits)
    wide, deep = (-(-n // lanes) * lanes for n in (out, channels))  # of whole vectors
    if not outputs:
        each = min(wide * channels, _ALONG * out * deep)
        return TAPS * TAPS * max(batch * height * width * each, out * channels * target.stream)
    tiles = batch * prod(map(number, tile_counts(height, width, outputs)))
    n = outputs + TAPS - 1
    matrices = derive(outputs)
    size = n * n * tiles * weights.dtype.bits // 8  # of a channel of all tiles
    into, out_of = (_moved(size * k, target) for k in (channels, out))
    read = (n * n + n * n) * into + 2 * n * share(matrices.input).ops
    write = (n * n + outputs**2) * out_of + (n + outputs) * share(matrices.output).ops
    products = max(n * n * tiles / _RATE * wide, n * n * target.stream * out) * channels
    return products + tiles * (deep * read + wide * write) + _LAUNCHES


def _moved(size: int, target: Target) -> float:
    """Multiply-adds in which a number is read or written of so many bytes of tiles."""
    near = (cost for times, cost in _MOVED if size <= times * target.l2)
    return next(near, _STREAMED * target.stream)


def _apply(function: Function, plan: dict[Op, int]) -> Function:
    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        outputs = plan.get(op)
        if outputs is None:
            return None
        x, w = operands
        _, height, width, _ = op.result.type.shape
        v = b.emit(graph.WinogradInput, x, outputs=outputs)
        u = b.emit(graph.WinogradWeights, w, outputs=outputs)
        taps, *tiles, channels = v.type.shape
        rows = b.emit(graph.Reshape, v, shape=(taps, graph.product(tuple(tiles)), channels))
        m = b.emit(graph.Contract, rows, u, equation="xtc,xco->xto")
        m = b.emit(graph.Reshape, m, shape=(taps, *tiles, m.type.shape[2]))
        return (b.emit(graph.WinogradOutput, m, height=height, width=width, outputs=outputs),)

    return rebuild(function, visit) if plan else function
