"""Choose how convolutions and large products are computed.

Convolutions directly, or by Winograd's minimal filters:

    %y = graph.conv %x, %w, 3x3, stride 1
    -->   winograd_output(contract(winograd_input(%x), winograd_weights(%w)))

with the tiles of an image in one axis of the product.

Legal where the kernel is 3x3 with stride, dilation and groups of 1 on channels-last float32, and
the weights are constant. Profitable by a cost in multiply-adds: fewer products against the work of
the transforms and against weights that grow by 36/9 (tiles of 4x4) or 16/9 (2x2) and are read once
for all tiles. Winograd rounds more than the direct form, so strict mathematics never takes it.

Products of a few rows with a large matrix that is no constant, in blocks of their sums:

    contract(%x[m,k], %w[k,n])   -->   reduce(contract(%x[m,b,k/b], %w[b,k/b,n]), add over b)

Such a matrix is read once, as it lies: a few columns of all its rows touch a page and a line for
each row, and those of the next columns again; of a block of its rows they are still at hand.

Attention over many keys in blocks of these, see `online_softmax`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import inf, prod
from string import ascii_lowercase

from minicc.ir import graph
from minicc.ir.affine import typical
from minicc.ir.core import Function, Module, Op, Value
from minicc.ir.graph.minimal_filters import POINTS, TAPS, derive, share
from minicc.ir.graph.winograd import tile_counts
from minicc.ir.rewrite import Rebuilder, everywhere, rebuild
from minicc.ir.types import F32, TensorType, is_free
from minicc.passes.graph.online_softmax import apply_online_softmax

# multiply-adds that could be done while one number comes from memory beyond the caches
_STREAM = 12.0
_RATE = 0.85  # of the direct form's rate that the short products of Winograd reach
_MOVE = 6.0  # multiply-adds that it costs to read and write one number of a tile
_LAUNCHES = 2e5  # multiply-adds in the time that two more launches take
_FEW_ROWS = 16  # of a product that reads its matrix once
_LARGE = 1 << 23  # bytes of a matrix that no cache near a core holds
_BLOCK = (128, 512)  # rows of a block: whose pages are all known to a core, and worth a start


def choose_algorithm(module: Module, strict: bool) -> Module:
    """Give each convolution the algorithm of least cost; under `strict` all stay direct."""
    if strict:
        return module

    numbers = count()

    def one(function: Function) -> Function:
        function = _apply(function, plan_algorithms(function))
        return apply_online_softmax(function, numbers)

    chosen = [everywhere(f, one) for f in module.functions]
    # within loops such a matrix is packed before them
    return Module(module.level, [_split_sums(f) for f in chosen])


def plan_algorithms(function: Function) -> dict[Op, int]:
    """The convolutions to do by Winograd, with how many outputs a tile has along an axis."""
    constants = {op.result for op in function.body.ops if isinstance(op, graph.Constant)}
    plan: dict[Op, int] = {}
    for op in function.body.ops:
        if isinstance(op, graph.Conv) and op.w in constants and legal(op):
            best = min((0, *POINTS), key=lambda m, op=op: cost(op, m))  # type: ignore[misc]
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
        and bool(op.groups == 1)
        and w.dtype is F32
    )


def cost(op: graph.Conv, outputs: int) -> float:
    """Multiply-adds, or what takes as long, of a convolution in tiles of `outputs`; 0 is direct."""
    result: TensorType = op.result.type
    weights: TensorType = op.w.type
    batch, height, width, out = map(typical, result.shape)
    channels = weights.extents[1]
    if not outputs:
        taps = TAPS * TAPS
        return max(batch * height * width * taps, taps * _STREAM) * out * channels
    if min(height, width) < outputs:
        return inf
    down, across = tile_counts(height, width, outputs)
    tiles = batch * typical(down) * typical(across)
    n = outputs + TAPS - 1
    matrices = derive(outputs)
    read = (n * n + n * n) * _MOVE + 2 * n * share(matrices.input).ops
    write = (n * n + outputs**2) * _MOVE + (n + outputs) * share(matrices.output).ops
    products = max(n * n * tiles / _RATE, n * n * _STREAM) * out * channels
    return products + tiles * (channels * read + out * write) + _LAUNCHES


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


def _split_sums(function: Function) -> Function:
    constants = {op.result for op in function.body.ops if isinstance(op, graph.Constant)}

    def visit(b: Rebuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not isinstance(op, graph.Contract):
            return None
        found = _split_of(op, constants)
        if found is None:
            return None
        letter, rows = found
        left, right, out = graph.parse_equation(op.equation)
        block = next(c for c in ascii_lowercase if c not in op.equation)
        parts: list[Value] = []
        for v, term in zip(operands, (left, right), strict=True):
            k = term.index(letter)
            shape = v.type.shape
            cut = (*shape[:k], shape[k] // rows, rows, *shape[k + 1 :])
            parts.append(b.emit(graph.Reshape, v, shape=cut))
        terms = [term.replace(letter, block + letter) for term in (left, right)]
        sums = b.emit(graph.Contract, *parts, equation=f"{','.join(terms)}->{block}{out}")
        return (b.emit(graph.Reduce, sums, axes=(0,), combine="add", keepdims=False),)

    return rebuild(function, visit)


def _split_of(op: graph.Contract, constants: set[Value]) -> tuple[str, int] | None:
    """The letter whose sum is to be done in blocks, and how many rows a block has."""
    left, right, out = graph.parse_equation(op.equation)
    summed = [c for c in left if c not in out]
    if len(summed) != 1 or summed[0] not in right or is_free((*op.a.type.shape, *op.b.type.shape)):
        return None
    letter = summed[0]
    for v, term, other, rows in ((op.b, right, op.a, left), (op.a, left, op.b, right)):
        wide = v not in constants and v.type.dtype.is_float and v.type.nbytes >= _LARGE
        few = prod(other.type.extents) <= _FEW_ROWS * v.type.extents[0]
        if wide and few and len(term) == 2 and term[0] == letter and term[1] not in rows:
            depth = v.type.extents[0]
            sizes = (n for n in range(_BLOCK[1], _BLOCK[0] - 1, -1) if depth % n == 0)
            block = next(sizes, depth)
            return (letter, block) if block < depth else None
    return None
