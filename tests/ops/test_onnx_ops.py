"""Each operator of ONNX against ONNX's own reference; `tests.conformance` has its suite of tests.

A case is an operator with inputs, of which the first `free` are inputs of the model and the rest
initialisers. Where the reference has another meaning than the specification, the expected value is
written here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from minicc.frontends.onnx import import_model
from minicc.ir.core import Module
from minicc.ir.interpret import run
from minicc.ir.verify import verify

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> Array:
    """Values between -3 and 3, rounded such that sums of them stay nearly exact."""
    return (np.rint(RANDOM.uniform(-3, 3, shape) * 64) / 64).astype(np.float32)


def ints(*values: Any) -> Array:
    return np.array(values, np.int64)


class Case:
    """One node: operator, opset, inputs and attributes."""

    def __init__(
        self,
        op: str,
        opset: int,
        *inputs: Array | None,
        free: int = 99,
        outputs: int = 1,
        expected: Callable[..., Any] | None = None,
        **attributes: Any,
    ) -> None:
        self.op, self.opset, self.inputs, self.free = op, opset, inputs, free
        self.outputs, self.attributes, self.expected = outputs, attributes, expected

    @property
    def feeds(self) -> dict[str, Array]:
        given = enumerate(self.inputs[: self.free])
        return {f"x{k}": x for k, x in given if x is not None}

    def model(self) -> ModelProto:
        """The model of that node, with the names x0, x1, ... and y0, y1, ..."""
        names = ["" if x is None else f"x{k}" for k, x in enumerate(self.inputs)]
        outs = [f"y{k}" for k in range(self.outputs)]
        node = helper.make_node(self.op, names, outs, name="it", **self.attributes)
        inputs = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(x.dtype), list(x.shape)
            )
            for name, x in self.feeds.items()
        ]
        constants = [
            numpy_helper.from_array(x, f"x{k}")
            for k, x in enumerate(self.inputs)
            if k >= self.free and x is not None
        ]
        results = [helper.make_tensor_value_info(out, TensorProto.FLOAT, None) for out in outs]
        graph = helper.make_graph([node], "case", inputs, results, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])

    def __str__(self) -> str:
        shown = [f"{k}={v!r}" for k, v in self.attributes.items() if not isinstance(v, TensorProto)]
        return " ".join([f"{self.op}-{self.opset}", *shown]).replace("[", "(").replace("]", ")")


def softmax(axes: tuple[int, ...]) -> Callable[[Array], Array]:
    """The meaning that an old opset has, which the reference lacks."""

    def compute(x: Array) -> Array:
        power = np.exp(x - x.max(axes, keepdims=True))
        return np.asarray(power / power.sum(axes, keepdims=True))

    return compute


def normalised(x: Array, s: Array, b: Array, m: Array, v: Array) -> Array:
    """Batch normalisation in inference."""
    s, b, m, v = (a[:, None, None] for a in (s, b, m, v))
    return np.asarray((x - m) / np.sqrt(v + np.float32(1e-5)) * s + b)


def responses(x: Array) -> Array:
    """Local responses over four channels: one before, two after."""
    square = np.pad(x * x, ((0, 0), (1, 2), (0, 0), (0, 0)))
    near = sum(square[:, k : k + x.shape[1]] for k in range(4))
    return np.asarray(x / (2 + np.float32(0.01 / 4) * near) ** np.float32(0.7))


def padded(x: Array, pads: Array) -> Array:
    """Without the first row and the last column, with two columns of zeros in front."""
    return np.pad(x[1:, :-1], ((0, 0), (2, 0)))


X4 = floats(2, 6, 7, 8)
WIDE = np.full((1, 1, 40, 40), 60, np.float16)
SMALL = floats(1, 4, 5, 5)
ROWS = floats(3, 5)
TRUTH = RANDOM.random((3, 5)) < 0.5
STATISTICS = (floats(6), floats(6), floats(6), np.abs(floats(6)))

UNARY = "Relu LeakyRelu Sigmoid Tanh Exp Sqrt Erf Neg Abs HardSigmoid HardSwish Elu Selu Celu "
UNARY += "Softplus Softsign Mish Reciprocal Sign Floor Ceil Round ThresholdedRelu IsNaN Identity"
BINARY = "Add Sub Mul Div Min Max Sum Equal Less Greater LessOrEqual GreaterOrEqual"
REDUCTIONS = "Sum Mean Max Min Prod L1 L2 SumSquare LogSumExp"

CASES = [
    *[Case(op, 22, np.abs(ROWS) if op == "Sqrt" else ROWS) for op in UNARY.split()],
    *[Case(op, 21, ROWS, floats(4, 1, 5)) for op in BINARY.split()],
    *[Case(op, 13, ints(7, -7, 8, -9), ints(2, 2, -3, -3)) for op in ("Add", "Div", "Max", "Less")],
    *[Case(op, 18, TRUTH, ~TRUTH[:1]) for op in ("And", "Or", "Xor", "Equal")],
    *[Case(f"Reduce{op}", 18, X4, ints(-1, 1), free=1, keepdims=0) for op in REDUCTIONS.split()],
    *[Case(f"Reduce{op}", 11, X4, axes=[2], keepdims=1) for op in REDUCTIONS.split()],
    Case("ReduceSum", 13, X4),
    Case("ReduceSum", 13, X4, noop_with_empty_axes=1),
    Case("ReduceLogSum", 18, np.abs(ROWS) + 1, ints(0), free=1),
    Case("Mean", 13, floats(3, 5), ROWS, ROWS),
    Case("Log", 13, np.abs(ROWS) + 1),
    Case("Not", 1, TRUTH),
    Case("Gelu", 20, ROWS),
    Case("Gelu", 20, ROWS, approximate="tanh"),
    Case("Swish", 24, ROWS, alpha=0.5),
    Case("PRelu", 16, X4, floats(6, 1, 1)),
    Case("LeakyRelu", 16, ROWS.astype(np.float16), alpha=0.25),
    Case("Sigmoid", 13, ROWS.astype(np.float16)),
    # sums that f16 can't hold
    *[
        Case(op, 13, WIDE, expected=lambda x, y=y: np.full((1,) * 4, y, np.float16))
        for op, y in (("ReduceMean", 60), ("GlobalAveragePool", 60), ("ReduceL2", 2400))
    ],
    Case(
        "GlobalAveragePool",
        1,
        floats(2, 3, 0),
        expected=lambda x: np.full((2, 3, 1), np.nan, x.dtype),
    ),
    Case("Pow", 13, np.abs(ROWS), floats(5)),
    Case("Pow", 15, ROWS, ints(2), free=1),
    Case("Pow", 15, ints(1, -2, 3), ints(3), free=1),
    Case("Mod", 13, ints(7, -7, 8, -9), ints(2, 2, -3, -3)),
    Case("Mod", 13, ints(7, -7, 8, -9), ints(2, 2, -3, -3), fmod=1),
    Case("Mod", 13, ROWS, floats(5) + 4, fmod=1),
    Case(
        "Mod",
        13,
        np.array([-128, -128, 127, -128], np.int8),
        np.array([5, -128, -128, 7], np.int8),
        fmod=1,
    ),
    Case("IsInf", 20, np.array([1, np.inf, -np.inf, np.nan], np.float32)),
    Case("IsInf", 20, np.array([1, np.inf, -np.inf], np.float32), detect_negative=0),
    Case("Where", 16, TRUTH, ROWS, floats(5)),
    Case("Clip", 6, ROWS, min=-1.0, max=1.5, expected=lambda x: np.clip(x, -1, 1.5)),
    Case("Clip", 13, ROWS, np.array(-1, np.float32), np.array(2, np.float32), free=1),
    Case("Clip", 13, ROWS, None, np.array(0.5, np.float32), free=1),
    Case("Cast", 13, ROWS, to=TensorProto.INT32),
    Case("Cast", 13, ROWS, to=TensorProto.BOOL),
    Case("Cast", 13, TRUTH, to=TensorProto.FLOAT16),
    Case("Cast", 1, ROWS, to="INT32", expected=lambda x: x.astype(np.int32)),
    Case("CastLike", 15, ROWS, ints(1)),
    # Softmax: from opset 13 on `axis` alone, before all axes from `axis` on
    Case("Softmax", 13, X4),
    Case("Softmax", 13, X4, axis=1),
    Case("Softmax", 11, X4, expected=softmax((1, 2, 3))),
    Case("Softmax", 11, X4, axis=-2, expected=softmax((2, 3))),
    Case("Softmax", 1, ROWS, expected=softmax((1,))),
    Case("LogSoftmax", 13, X4, axis=2),
    Case("LogSoftmax", 11, ROWS, axis=0, expected=lambda x: np.log(softmax((0, 1))(x))),
    Case("Hardmax", 13, X4, axis=1),
    Case("ArgMax", 13, ints([1, 3, 3], [5, 5, 2]), axis=1, keepdims=0),
    Case("ArgMin", 13, X4, axis=-1, select_last_index=1),
    # matrix products
    *[
        Case("MatMul", 13, floats(*a), floats(*b))
        for a, b in (
            ((3, 4), (4, 5)),
            ((4,), (4,)),
            ((4,), (2, 4, 5)),
            ((2, 3, 4), (4,)),
            ((2, 1, 3, 4), (5, 4, 6)),
            ((3, 4), (2, 4, 5)),
            ((2, 3, 4), (1, 4, 5)),
        )
    ],
    Case("MatMul", 13, ints([1, 2], [3, 4]), ints([5, 6], [7, 8])),
    Case("Gemm", 13, floats(3, 4), floats(5, 4), floats(5), transB=1),
    Case("Gemm", 11, floats(4, 3), floats(4, 5), transA=1, alpha=0.5),
    Case("Gemm", 13, floats(3, 4), floats(4, 5), floats(3, 1), alpha=0.5, beta=2.0),
    Case("Einsum", 12, floats(2, 3, 4), floats(2, 4, 5), equation="bij,bjk->bik"),
    Case("Einsum", 12, floats(2, 3, 4), equation="abc->ca"),
    # windows
    Case("Conv", 11, SMALL, floats(6, 4, 3, 3), floats(6), pads=[1, 1, 1, 1]),
    Case("Conv", 11, X4, floats(9, 2, 3, 2), group=3, strides=[2, 3], pads=[0, 1, 2, 0]),
    Case("Conv", 11, X4, floats(6, 1, 3, 3), group=6, dilations=[2, 3]),
    Case("Conv", 11, X4, floats(4, 6, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    Case("Conv", 11, X4, floats(4, 6, 2, 2), auto_pad="SAME_LOWER"),
    Case("Conv", 11, X4, floats(4, 6, 3, 3), auto_pad="VALID", kernel_shape=[3, 3]),
    Case("Conv", 11, floats(2, 3, 9), floats(4, 3, 3), strides=[2], pads=[1, 1]),
    Case("Conv", 11, floats(1, 2, 4, 5, 6), floats(3, 2, 2, 3, 2), floats(3)),
    Case("MaxPool", 12, -np.abs(X4), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    Case("MaxPool", 12, X4, kernel_shape=[2, 3], strides=[3, 2], ceil_mode=1),
    Case("MaxPool", 12, X4, kernel_shape=[2, 2], dilations=[2, 3]),
    Case("MaxPool", 12, X4, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    Case("MaxPool", 8, floats(2, 3, 9), kernel_shape=[2], strides=[2]),
    # less than a window, and less than a stride less, is one that is cut short
    Case("MaxPool", 8, floats(2, 3, 1), kernel_shape=[2], strides=[2], expected=lambda x: x),
    Case(
        "AveragePool",
        19,
        floats(2, 3, 2),
        kernel_shape=[4],
        strides=[3],
        pads=[0, 1],
        expected=lambda x: x.mean(-1, keepdims=True),
    ),
    Case("AveragePool", 19, X4, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    Case("AveragePool", 19, X4, kernel_shape=[3, 3], pads=[1, 0, 1, 2], count_include_pad=1),
    Case(
        "AveragePool",
        19,
        floats(1, 1, 7),
        kernel_shape=[3],
        strides=[3],
        ceil_mode=1,
        expected=lambda x: np.stack([x[..., i : i + 3].mean(-1) for i in (0, 3, 6)], -1),
    ),
    # the only window's first and last taps lie in the padding
    Case(
        "AveragePool",
        19,
        floats(2, 3, 3),
        kernel_shape=[3],
        dilations=[2],
        pads=[1, 1],
        expected=lambda x: x[..., 1:2],
    ),
    Case(
        "MaxPool",
        12,
        floats(2, 3, 3),
        kernel_shape=[3],
        dilations=[2],
        pads=[1, 1],
        expected=lambda x: x[..., 1:2],
    ),
    Case("AveragePool", 7, X4, kernel_shape=[7, 7]),
    Case("AveragePool", 19, X4, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    Case("LpPool", 18, X4, kernel_shape=[2, 2], p=2),
    Case("GlobalAveragePool", 1, X4),
    Case("GlobalMaxPool", 1, X4),
    # normalisation
    Case("BatchNormalization", 15, X4, *STATISTICS, free=1),
    Case("BatchNormalization", 15, X4, *STATISTICS),
    Case("BatchNormalization", 9, X4, *STATISTICS, free=1, expected=normalised),
    Case(
        "BatchNormalization",
        7,
        X4,
        *(np.broadcast_to(a[:, None, None], X4.shape[1:]).copy() for a in STATISTICS),
        spatial=0,
        expected=lambda x, *each: normalised(x, *(a[:, 0, 0] for a in each)),
    ),
    Case("InstanceNormalization", 6, X4, floats(6), floats(6)),
    Case("GroupNormalization", 21, X4, floats(6), floats(6), num_groups=3),
    Case("LayerNormalization", 17, X4, floats(7, 8), floats(7, 8), axis=2),
    Case("LayerNormalization", 17, X4, floats(8), outputs=3),
    Case("RMSNormalization", 23, X4, floats(8)),
    Case("MeanVarianceNormalization", 13, X4),
    Case("LpNormalization", 22, X4, p=2, axis=1),
    Case(
        "LpNormalization",
        22,
        ROWS,
        p=1,
        expected=lambda x: x / np.abs(x).sum(-1, keepdims=True),
    ),
    Case("LRN", 13, X4, size=4, alpha=0.01, beta=0.7, bias=2.0, expected=responses),
    Case("Dropout", 13, ROWS),
    Case("Dropout", 13, ROWS, np.array(0.5, np.float32), outputs=2),
    Case("Dropout", 7, ROWS, ratio=0.5),
    # movement
    Case("Reshape", 14, X4, ints(0, -1, 4), free=1),
    Case("Reshape", 14, floats(0, 3), ints(3, 0), free=1, allowzero=1),
    Case("Reshape", 1, X4, shape=[12, -1], expected=lambda x: x.reshape(12, -1)),
    Case("Flatten", 13, X4),
    Case("Flatten", 13, X4, axis=0),
    Case("Flatten", 13, X4, axis=4),
    Case("Flatten", 13, X4, axis=-1),
    Case("Transpose", 13, X4),
    Case("Transpose", 13, X4, perm=[0, 2, 3, 1]),
    Case("Squeeze", 13, floats(1, 3, 1, 2), ints(-2), free=1),
    Case("Squeeze", 11, floats(1, 3, 1, 2), axes=[0]),
    Case("Squeeze", 13, floats(1, 3, 1, 2)),
    Case("Unsqueeze", 13, ROWS, ints(0, -1), free=1),
    Case("Unsqueeze", 11, ROWS, axes=[1, 2]),
    Case("Concat", 13, ROWS, floats(2, 5), floats(1, 5), axis=0),
    Case("Concat", 13, ROWS, axis=-1),
    Case("Slice", 13, X4, ints(1, -3), ints(9, -1), ints(3, 1), free=1),
    Case("Slice", 13, X4, ints(-1, 5), ints(-(2**62), 1), ints(3, 1), ints(-2, -2), free=1),
    Case("Slice", 13, X4, ints(3), ints(1), free=1),
    Case("Slice", 9, X4, axes=[1], starts=[1], ends=[3], expected=lambda x: x[:, 1:3]),
    Case("Split", 18, X4, outputs=3, axis=2, num_outputs=3),
    Case("Split", 13, X4, ints(1, 5), free=1, outputs=2, axis=1),
    Case("Split", 11, X4, outputs=2, axis=3, split=[2, 6]),
    Case("Pad", 13, ROWS, ints(1, 0, 0, 2), np.array(5, np.float32), free=1),
    Case("Pad", 18, X4, ints(1, 2), None, ints(-1), free=1),
    Case("Pad", 18, ROWS, ints(-1, 2, 0, -1), free=1, expected=padded),
    Case("Pad", 13, ROWS, ints(1, 2, 2, 3), free=1, mode="reflect"),
    Case("Pad", 13, ROWS, ints(1, 2, 4, 3), free=1, mode="edge"),
    Case("Pad", 2, ROWS, pads=[1, 0, 0, 2], value=2.0),
    Case("Expand", 13, floats(3, 1), ints(2, 1, 5), free=1),
    Case("Tile", 13, ROWS, ints(2, 3), free=1),
    Case("Gather", 13, X4, ints([0, -1], [3, 2]), axis=2),
    Case("Gather", 13, X4, np.array(1, np.int32), axis=1),
    Case("DepthToSpace", 13, floats(2, 8, 2, 3), blocksize=2),
    Case("DepthToSpace", 13, floats(2, 8, 2, 3), blocksize=2, mode="CRD"),
    Case("SpaceToDepth", 13, floats(2, 3, 4, 6), blocksize=2),
    Case("OneHot", 11, ints(0, -1, 2), np.array(4), floats(2), free=1, axis=0),
    Case("Trilu", 14, floats(2, 4, 5), np.array(1), free=1),
    Case("Trilu", 14, floats(2, 4, 5), upper=0),
    Case("EyeLike", 9, floats(4, 5), k=1),
    # what is known at import
    Case("Shape", 15, X4, start=1, end=-1),
    Case("Shape", 13, X4),
    Case("Size", 13, X4),
    Case("Constant", 13, value_floats=[1.0, 2.0]),
    Case("Constant", 13, value=numpy_helper.from_array(ints(1, 2))),
    Case("ConstantOfShape", 9, ints(2, 3), free=0),
    Case("ConstantOfShape", 9, ints(2), free=0, value=numpy_helper.from_array(ints(7))),
    Case("Range", 11, np.array(1), np.array(9), np.array(3), free=0),
    Case("Range", 11, np.array(90000), np.array(1), np.array(-1), free=0),
]


# operators whose tests are in test_onnx_more and, of ONNX Runtime's own, in test_microsoft_fused;
# those of ai.onnx.ml have theirs in test_onnx_ml, those before opset 10 in test_onnx_experimental
ELSEWHERE = {
    "Affine",
    "Crop",
    "GlobalLpPool",
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "ImageScaler",
    "ParametricSoftplus",
    "Scale",
    "ScaledTanh",
    "Scatter",
    "SimplifiedLayerNormalization",
    "ai.onnx.preview.training.Adagrad",
    "ai.onnx.preview.training.Adam",
    "ai.onnx.preview.training.Momentum",
}


def outputs_of(module: Module, feeds: dict[str, Array]) -> list[Array]:
    return run(module, [feeds[arg.hint] for arg in module.main.args])


def same(got: Array, wanted: Array) -> None:
    """Equal shapes and element types, nearly equal values."""
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    narrow = got.dtype.itemsize <= 2 and got.dtype.kind not in "iub"
    if got.dtype.kind in "fV":
        got, wanted = got.astype(np.float64), wanted.astype(np.float64)
        error = 1e-2 if narrow else 2e-5
        np.testing.assert_allclose(got, wanted, rtol=error, atol=error)
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operator(case: Case) -> None:
    model = case.model()
    module = import_model(model.SerializeToString())
    verify(module)
    assert {name for op in module.main.body.ops for name in op.loc} <= {"it", "y0"}
    with np.errstate(all="ignore"):
        wanted: Any = (
            [case.expected(*case.inputs)]
            if case.expected
            else ReferenceEvaluator(model).run(None, case.feeds)
        )
    results = outputs_of(module, case.feeds)
    for got, expected in zip(results, wanted, strict=True):
        same(got, np.asarray(expected))


def test_old_broadcasting_lays_the_operand_on_an_axis() -> None:
    case = Case("Add", 6, X4, floats(6), broadcast=1, axis=1)
    (got,) = outputs_of(import_model(case.model().SerializeToString()), case.feeds)
    same(got, X4 + case.feeds["x1"][:, None, None])


def test_batch_normalization_rounds_its_constants_once() -> None:
    case = Case("BatchNormalization", 15, X4, *STATISTICS, free=1)
    ops = import_model(case.model().SerializeToString()).main.body.ops
    assert [op.opname for op in ops] == [
        "graph.constant",
        "graph.mul",
        "graph.constant",
        "graph.add",
    ]
    s, b, m, v = (x.astype(np.float64) for x in STATISTICS)
    factor = s / np.sqrt(v + np.float32(1e-5))
    for op, exact in ((ops[0], factor), (ops[2], b - m * factor)):
        np.testing.assert_array_equal(op.attrs["value"].array.ravel(), exact.astype(np.float32))
