"""Models that are written node by node: by spox, onnxscript, GraphSurgeon and jax2onnx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.exporters.exported import Array, agree, check, part

pytestmark = pytest.mark.filterwarnings("ignore")
RANDOM = np.random.default_rng(5)


def normal(*shape: int) -> Array:
    return RANDOM.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("opset", [17, 21])
def test_branches_loops_and_inlined_models_of_spox(opset: int) -> None:
    spox = pytest.importorskip("spox")
    op: Any = pytest.importorskip(f"spox.opset.ai.onnx.v{opset}")
    x = spox.argument(spox.Tensor(np.float32, ("rows", "columns")))
    k = spox.argument(spox.Tensor(np.int64, ()))
    (z,) = op.if_(
        op.greater(k, op.const(np.int64(2))),
        then_branch=lambda: [op.mul(x, x)],
        else_branch=lambda: [op.neg(x)],
    )
    last, sums = op.loop(
        k,
        None,
        [z],
        body=lambda i, going, a: [
            op.const(True),
            op.add(a, op.cast(i, to=np.float32)),
            op.reduce_sum(a, op.const(np.array([1])), keepdims=0),
        ],
    )
    (rows,) = op.scan([x], body=lambda row: [op.relu(row)], num_scan_inputs=1)
    model = spox.build({"x": x, "k": k}, {"last": last, "sums": sums, "rows": rows})
    feeds = [{"x": normal(*s), "k": np.array(s[1] - 1)} for s in ((2, 3), (1, 5), (4, 2))]
    check(model.SerializeToString(), feeds)
    inner = spox.inline(model)(x=x, k=k)
    outer = spox.build({"x": x, "k": k}, {"y": op.add(inner["last"], inner["rows"])})
    check(outer.SerializeToString(), feeds)


def test_constants_that_graphsurgeon_folds() -> None:
    gs = pytest.importorskip("onnx_graphsurgeon")
    graph = gs.Graph(opset=13)
    x, y, z = (gs.Variable(name, np.float32, ("batch", 4)) for name in "xyz")
    left, right, both = gs.Constant("l", normal(4)), gs.Constant("r", normal(4)), gs.Variable("b")
    graph.nodes += [
        gs.Node("Add", inputs=[left, right], outputs=[both]),
        gs.Node("Mul", inputs=[x, both], outputs=[y]),
        gs.Node("LeakyRelu", attrs={"alpha": 0.2}, inputs=[y], outputs=[z]),
    ]
    graph.inputs, graph.outputs = [x], [z]
    feeds = [{"x": normal(n, 4)} for n in (3, 1, 0)]
    check(gs.export_onnx(graph.cleanup().toposort()).SerializeToString(), feeds)
    check(gs.export_onnx(graph.fold_constants().cleanup()).SerializeToString(), feeds)


JAX: dict[str, Callable[[Any, Any], Callable[[Any], Any]]] = {
    "scan": lambda jax, jnp: (
        lambda x: jax.lax.scan(lambda c, r: (jnp.tanh(c + r), c * 2), jnp.zeros(6), x)[1]
    ),
    "cond": lambda jax, jnp: (
        lambda x: jax.lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x)
    ),
    "fori_loop": lambda jax, jnp: lambda x: jax.lax.fori_loop(0, 4, lambda i, v: v + i, x),
    "a slice": lambda jax, jnp: lambda x: jax.lax.dynamic_slice(x, (0, 1), (1, 3)),
    "a scatter": lambda jax, jnp: lambda x: x.at[:, 1].set(5.0),
    "top_k": lambda jax, jnp: lambda x: jax.lax.top_k(x, 2),
}


@pytest.mark.parametrize("name", JAX)
def test_functions_of_jax(name: str) -> None:
    to_onnx = pytest.importorskip("jax2onnx").to_onnx
    jax: Any = pytest.importorskip("jax")
    function = JAX[name](jax, part("jax.numpy"))
    model = to_onnx(function, [("batch", 6)])
    given = model.graph.input[0].name
    inputs = [normal(n, 6) for n in (4, 1, 7)]
    got = check(model.SerializeToString(), [{given: x} for x in inputs])
    for x, outputs in zip(inputs, got, strict=True):
        wanted = [
            np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(function(jax.numpy.asarray(x)))
        ]
        agree(outputs, [w.astype(o.dtype) for w, o in zip(wanted, outputs, strict=True)], 1e-4)
