"""Mixtures of experts: each token's layer is a sum of those few that its router rates highest.

All experts are computed for all tokens, and those that were not chosen have the weight 0: products
of known extents, whatever the router says.
"""

from __future__ import annotations

from collections.abc import Sequence

from minicc.frontends.onnx.context import Context
from minicc.frontends.onnx.microsoft.attention import require_absent
from minicc.frontends.onnx.microsoft.bits import unpacked
from minicc.frontends.onnx.microsoft.common import DOMAIN, add, flag, standard
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.ops.activation import sigmoid_of
from minicc.frontends.onnx.ops.indexing import emit_all
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.widen import wide_of
from minicc.frontends.onnx.registry import operator
from minicc.ir import graph
from minicc.ir.core import Value
from minicc.ir.types import F32, I64

_SHARED = (
    "activation_alpha activation_beta activation_type k normalize_routing_weights swiglu_fusion"
    " swiglu_limit use_sparse_mixer"
)
_ACTIVATIONS = {"relu": "Relu", "silu": "Swish", "gelu": "Gelu"}
Layer = tuple[Value, Value | None]  # weights [experts, to, from], and a bias


def _shares(ctx: Context, node: Node, router: Value, given: Value | None, whole: bool) -> Value:
    """What each expert counts for each token: 0 for all but `k` of them, in all 1 if `whole`."""
    rated = wide_of(ctx, router)
    best = emit_all(ctx, graph.TopK, rated, axis=1, k=node.integer("k", 1))[1]
    names = ctx.emit(graph.Iota, shape=(1, 1, router.type.shape[1]), axis=2, dtype=I64)
    same = ctx.emit(graph.Eq, ctx.reshape(best, (*best.type.shape, 1)), names)
    chosen = ctx.emit(graph.Reduce, ctx.cast(same, F32), axes=(1,), combine="add")
    share = standard(ctx, node, "Softmax", rated, axis=-1) if given is None else wide_of(ctx, given)
    share = ctx.emit(graph.Mul, share, chosen)
    if not whole:
        return share
    total = ctx.emit(graph.Reduce, share, axes=(1,), combine="add", keepdims=True)
    return ctx.emit(graph.Div, share, total)


def _activated(ctx: Context, node: Node, x: Value) -> Value:
    """What an expert's first layer gives, with its activation."""
    name = node.text("activation_type", "relu")
    if name == "identity":
        return x
    if name in _ACTIVATIONS:
        options = {"approximate": "tanh"} if name == "gelu" else {}
        return standard(ctx, node, _ACTIVATIONS[name], x, **options)
    if name != "swiglu" or node.integer("swiglu_fusion", 0) != 1:
        hint = "use relu, gelu, silu, identity, or swiglu of pairs side by side"
        raise ctx.unsupported(f"the activation {name}", hint)
    gate, linear = (cut(ctx, x, {2: (k, x.type.shape[2], 2)}) for k in (0, 1))
    if "swiglu_limit" in node.attributes:
        limit = ctx.scalar(node.number("swiglu_limit", 0.0), x)
        gate, linear = (ctx.emit(graph.Min, v, limit) for v in (gate, linear))
        linear = ctx.emit(graph.Max, linear, ctx.emit(graph.Neg, limit))
    open_ = sigmoid_of(ctx, ctx.scaled(gate, node.number("activation_alpha", 1.0)))
    moved = ctx.emit(graph.Add, linear, ctx.scalar(node.number("activation_beta", 0.0), x))
    return ctx.emit(graph.Mul, ctx.emit(graph.Mul, gate, open_), moved)


def _mixed(ctx: Context, node: Node, x: Value, share: Value, layers: Sequence[Layer]) -> Value:
    """The experts' layers of all tokens, added up by their shares."""
    (w1, b1), (w2, b2) = layers
    require_absent(ctx, sparse_mixer=flag(node, "use_sparse_mixer"))
    tokens = ctx.reshape(wide_of(ctx, x), (graph.product(x.type.shape[:-1]), x.type.shape[-1]))
    inner = ctx.emit(graph.Contract, tokens, wide_of(ctx, w1), equation="td,eid->tei")
    inner = _activated(ctx, node, add(ctx, inner, None if b1 is None else wide_of(ctx, b1)))
    inner = ctx.emit(graph.Mul, inner, ctx.reshape(share, (*share.type.shape, 1)))
    out = ctx.emit(graph.Contract, inner, wide_of(ctx, w2), equation="tei,edi->td")
    if b2 is not None:
        bias = ctx.emit(graph.Contract, share, wide_of(ctx, b2), equation="te,ed->td")
        out = ctx.emit(graph.Add, out, bias)
    return ctx.reshape(ctx.cast(out, x.type.dtype), x.type.shape)


@operator(f"{DOMAIN}.MoE", attributes=_SHARED)
def mixture(
    ctx: Context,
    node: Node,
    x: Value,
    router: Value,
    w1: Value,
    b1: Value | None,
    w2: Value,
    b2: Value | None = None,
    w3: Value | None = None,
    b3: Value | None = None,
) -> Value:
    """Two layers of each token's best experts, added up by the soft-max of their ratings."""
    require_absent(ctx, third_layer=w3, bias_of_a_third_layer=b3)
    share = _shares(ctx, node, router, None, flag(node, "normalize_routing_weights"))
    return _mixed(ctx, node, x, share, [(w1, b1), (w2, b2)])


def _exact(
    ctx: Context, node: Node, number: int, w: Value, scales: Value, zeros: Value | None
) -> Value:
    """A layer's weights as floats: of some bits, with a scale for each row or block of one."""
    bits = node.integer(f"fc{number}_expert_weight_bits", node.integer("expert_weight_bits", 4))
    if bits not in (2, 4, 8):
        raise ctx.unsupported(f"weights of {bits} bits", "use 2, 4 or 8")
    whole = ctx.cast(unpacked(ctx, w, bits), F32)
    experts, rows, depth = whole.type.shape
    blocks = 1 if scales.type.rank == 2 else scales.type.shape[2]
    if zeros is None:
        at = ctx.scalar(1 << (bits - 1), F32)
    else:
        axis = zeros.type.rank - 1
        last = scales.type.shape[axis]
        at = ctx.cast(cut(ctx, unpacked(ctx, zeros, bits), {axis: (0, last, 1)}), F32)
        at = ctx.reshape(at, (experts, rows, blocks, 1))
    width = ctx.quotient(depth, blocks, "columns of weights")
    apart = ctx.reshape(whole, (experts, rows, blocks, width))
    factor = ctx.reshape(wide_of(ctx, scales), (experts, rows, blocks, 1))
    exact = ctx.emit(graph.Mul, ctx.emit(graph.Sub, apart, at), factor)
    return ctx.reshape(exact, (experts, rows, depth))


@operator(
    f"{DOMAIN}.QMoE",
    attributes=f"{_SHARED} accuracy_level block_size expert_weight_bits fc1_expert_weight_bits"
    " fc2_expert_weight_bits fc3_expert_weight_bits quant_type weights_prepacked",
)
def quantized_mixture(
    ctx: Context,
    node: Node,
    x: Value,
    router: Value,
    w1: Value,
    scales1: Value,
    b1: Value | None,
    w2: Value,
    scales2: Value,
    b2: Value | None = None,
    w3: Value | None = None,
    scales3: Value | None = None,
    b3: Value | None = None,
    zeros1: Value | None = None,
    zeros2: Value | None = None,
    zeros3: Value | None = None,
    weights: Value | None = None,
) -> Value:
    """MoE of weights of a few bits each; a soft-max is of the chosen experts alone."""
    require_absent(ctx, third_layer=w3 or scales3 or b3 or zeros3)
    require_absent(ctx, prepacked_weights=node.integer("weights_prepacked", -1) == 1)
    if node.text("quant_type", "int") != "int":
        raise ctx.unsupported("weights that are no integers", "quantise to 2, 4 or 8 bits")
    first = _exact(ctx, node, 1, w1, scales1, zeros1)
    second = _exact(ctx, node, 2, w2, scales2, zeros2)
    whole = weights is None or flag(node, "normalize_routing_weights")
    share = _shares(ctx, node, router, weights, whole)
    return _mixed(ctx, node, x, share, [(first, b1), (second, b2)])
