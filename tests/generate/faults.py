"""What the ONNX reference and ONNX Runtime do wrong, as found by comparing with them.

A fault of the reference is known when a model is drawn: the value counts as known to nobody then,
and no node that follows is drawn to fit it. A fault of ONNX Runtime excuses minicc from agreeing
with it in those outputs that such a node computes for. `who` is "minicc" where it may refuse what
the others accept. A difference that no fault here explains is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, helper

from tests.generate.source import is_float

REFERENCE = "the reference"
RUNTIME = "ONNX Runtime"
CRASH = "the process ends"

When = Callable[[NodeProto, int], bool]
Seen = Callable[[Sequence[Any]], bool]


def always(node: NodeProto, opset: int) -> bool:
    return True


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """The value of a node's attribute."""
    found = [a for a in node.attribute if a.name == name]
    return helper.get_attribute_value(found[0]) if found else default


def lacks(k: int) -> When:
    """Whether the node has no input at this place."""
    return lambda node, opset: len(node.input) <= k or not node.input[k]


def before(version: int) -> When:
    return lambda node, opset: opset < version


def has(*names: str) -> When:
    """Whether the node has one of these attributes, and it isn't zero."""
    return lambda node, opset: any(attribute(node, name) for name in names)


def any_inputs(inputs: Sequence[Any]) -> bool:
    return True


def _is_not_finite(value: Any) -> bool:
    return bool(
        isinstance(value, np.ndarray)
        and is_float(value.dtype)
        and not np.all(np.isfinite(value.astype(np.float64)))
    )


def not_finite(inputs: Sequence[Any]) -> bool:
    """Whether the first input has NaN or infinities."""
    return _is_not_finite(inputs[0])


def has_nan(inputs: Sequence[Any]) -> bool:
    """Whether the first input has NaN."""
    return _is_not_finite(inputs[0]) and bool(np.any(np.isnan(inputs[0].astype(np.float64))))


def is_empty(inputs: Sequence[Any]) -> bool:
    """Whether the first input has no elements."""
    return bool(inputs[0].size == 0)


def is_double(inputs: Sequence[Any]) -> bool:
    """Whether the first input is of 64 bits."""
    return bool(inputs[0].dtype == np.float64)


def are_near(inputs: Sequence[Any]) -> bool:
    """Whether a row of the first input is within a hundredth of its size of one of the second."""
    rows, others = (np.asarray(x, np.float64) for x in inputs)
    apart = np.linalg.norm(rows[:, None] - others[None], axis=-1)
    return bool(np.any(apart < 0.01 * np.linalg.norm(rows, axis=-1)[:, None]))


def _is_wide(node: NodeProto, opset: int) -> bool:
    """Whether windows that are as far apart as possible leave more than one element between."""
    sizes, strides = attribute(node, "kernel_shape", ()), attribute(node, "strides", ())
    same = attribute(node, "auto_pad", b"") in (b"SAME_UPPER", b"SAME_LOWER")
    return same and any(s > k + 1 for k, s in zip(sizes, strides, strict=False))


class Fault(NamedTuple):
    """Whose fault it is, at which operators, and what is wrong.

    `words`, if there are any, are a part of the difference's text without which it is another one;
    `seen` says of a node's inputs (None for what nobody knows) whether it goes wrong with them.
    """

    who: str
    operators: tuple[str, ...]
    reason: str
    when: When = always
    words: str = ""
    seen: Seen = any_inputs


_SUFFIXES = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_REDUCTIONS = tuple(f"Reduce{suffix}" for suffix in _SUFFIXES)

FAULTS: tuple[Fault, ...] = (
    Fault(REFERENCE, ("LRN",), "runs over the batch where it should over the channels"),
    Fault(REFERENCE, ("Erf",), "rounds float64 to float32"),
    Fault(REFERENCE, ("GlobalMaxPool",), "reduces the wrong axes but for images"),
    Fault(REFERENCE, ("Optional",), "gives a list of one tensor and not the tensor"),
    Fault(
        REFERENCE,
        ("Adam",),
        "gives float64 after the first step",
        seen=lambda inputs: bool(np.any(inputs[1])),
    ),
    Fault(
        REFERENCE,
        ("Softmax", "LogSoftmax", "Hardmax"),
        "normalises one axis in opsets that flatten all that follow, and ignores axis 0",
        before(13),
    ),
    Fault(
        REFERENCE,
        ("BatchNormalization",),
        "takes the mean and variance of the batch",
        before(14),
    ),
    Fault(
        REFERENCE,
        ("Unsqueeze",),
        "inserts axes one after the other, which moves those that are counted from the end",
        lambda node, opset: any(a < 0 for a in attribute(node, "axes", ())),
    ),
    Fault(REFERENCE, ("Loop",), "runs no round where there is no condition", lacks(1)),
    Fault(REFERENCE, ("Loop",), "concatenates what a scan output should stack"),
    Fault(
        REFERENCE,
        ("LSTM", "GRU", "RNN"),
        "ignores activations, clip, reversed directions, lengths and peepholes",
    ),
    Fault(REFERENCE, ("RoiAlign",), "has other coordinates before opset 16", before(16)),
    Fault(REFERENCE, ("OneHot",), "computes the values by arithmetic, which rounds them"),
    Fault(
        REFERENCE,
        ("AveragePool", "MaxPool", "LpPool"),
        "counts other elements in windows that leave the image",
        has("ceil_mode", "auto_pad", "pads", "dilations"),
    ),
    Fault(
        REFERENCE,
        ("Unique",),
        "orders slices by the wrong axis where they are not sorted",
        has("axis"),
    ),
    Fault(
        REFERENCE,
        ("LpNormalization",),
        "adds signed values where p is 1",
        lambda node, opset: attribute(node, "p") == 1,
    ),
    Fault(REFERENCE, ("MeanVarianceNormalization",), "the difference of two means cancels out"),
    Fault(RUNTIME, ("Gemm",), "ignores beta where there is nothing to add up", has("beta")),
    Fault(RUNTIME, ("Clip",), "clips infinities where no bound is given", words="inf"),
    Fault(
        REFERENCE,
        ("Resize",),
        "reads before the first element where one is wanted",
        lambda node, opset: (
            attribute(node, "coordinate_transformation_mode") == b"pytorch_half_pixel"
        ),
    ),
    *(
        Fault(who, ("MaxPool",), "keeps a NaN that stands first in a window", seen=has_nan)
        for who in (REFERENCE, RUNTIME)
    ),
    Fault(RUNTIME, ("GlobalMaxPool",), "takes other elements for larger than NaN", words="nan"),
    Fault(
        RUNTIME,
        ("GlobalMaxPool",),
        "takes the lowest number for larger than an infinity below 0",
        words="-3.4028235e+38",
        seen=not_finite,
    ),
    Fault(
        RUNTIME,
        ("CDist",),
        "subtracts twice the product of rows from their squares, which cancels where they are near",
        seen=are_near,
    ),
    Fault(
        RUNTIME,
        ("ArgMax", "ArgMin", "Hardmax"),
        "takes a NaN for the extreme where it stands first alone, unlike NumPy",
        seen=has_nan,
    ),
    Fault(
        RUNTIME,
        ("MaxPool", "AveragePool", "LpPool", "Conv"),
        "crops by a negative padding where the stride is larger than the window",
        _is_wide,
    ),
    Fault(RUNTIME, ("LogSoftmax",), "gives numbers for rows with NaN in float64", seen=has_nan),
    Fault(RUNTIME, ("LogSoftmax",), "gives numbers for rows with inf in float64", words="nan"),
    Fault(RUNTIME, ("MatMulInteger",), "writes nothing where there is nothing to add up"),
    Fault(
        RUNTIME,
        ("DynamicQuantizeLinear",),
        "has a scale of 1 where all is zero, against the operator's own function",
        seen=lambda inputs: not np.any(inputs[0]),
    ),
    Fault(RUNTIME, ("Shrink",), "computes float64 in float32"),
    Fault(REFERENCE, ("Gelu",), "rounds float64 to float32 within", seen=is_double),
    Fault(
        RUNTIME,
        ("Gelu",),
        "rounds the constants of its formula to float32",
        lambda node, opset: attribute(node, "approximate") == b"tanh",
        seen=is_double,
    ),
    Fault(
        RUNTIME,
        ("Einsum",),
        "ends the process where there is nothing to add up",
        words=CRASH,
        seen=lambda inputs: any(a.size == 0 for a in inputs),
    ),
    Fault(
        REFERENCE,
        ("ReduceLogSumExp",),
        "subtracts the maximum, which gives NaN where that is infinite",
        words="nan",
    ),
    Fault(REFERENCE, ("MaxPool",), "counts places in other tensors than the input", words="int64"),
    Fault(
        REFERENCE,
        ("ReduceL2",),
        "wraps the squares of integers",
        seen=lambda inputs: bool(
            inputs[0].dtype.kind in "iu"
            and np.abs(inputs[0].astype(np.float64)).max(initial=0) > 1e3
        ),
    ),
    Fault(RUNTIME, ("StringSplit",), "splits an empty text into nothing, and Python into one part"),
    Fault(RUNTIME, ("Gather",), "leaves texts out that it has moved before", words="''"),
    Fault(REFERENCE, ("Normalizer",), "takes the signs of numbers into account for their norm"),
    Fault(
        REFERENCE,
        ("LinearRegressor",),
        "adds NaN where there are no intercepts",
        lambda node, opset: not attribute(node, "intercepts"),
    ),
    Fault(REFERENCE, ("StringNormalizer",), "drops texts that were empty before"),
    Fault(
        REFERENCE,
        ("LogSoftmax",),
        "takes the logarithm of what has underflowed",
        seen=lambda inputs: bool(inputs[0].size and np.ptp(inputs[0].astype(np.float64)) > 80),
    ),
    Fault(
        REFERENCE,
        ("TreeEnsembleRegressor",),
        "has the largest float for what no leaf is of",
        lambda node, opset: attribute(node, "aggregate_function") in (b"MIN", b"MAX"),
    ),
    Fault(REFERENCE, ("OneHotEncoder",), "takes the place among the categories for the category"),
    Fault(REFERENCE, ("AveragePool",), "leaves NaN out", seen=has_nan),
    Fault(
        REFERENCE,
        ("ReduceSumSquare",),
        "adds integers up in 64 bits and leaves the sum so",
        words="int64[",
    ),
    Fault(
        REFERENCE,
        ("QuantizeLinear",),
        "casts what is not finite to int32, which may be any number",
        seen=not_finite,
    ),
    Fault(
        RUNTIME,
        ("QuantizeLinear",),
        "makes the least number of NaN, where the specification says nothing and minicc has 0",
        seen=has_nan,
    ),
    Fault(
        RUNTIME,
        ("Sign",),
        "gives 0 for a NaN of 16 bits",
        seen=lambda inputs: has_nan(inputs) and inputs[0].dtype.itemsize == 2,
    ),
    Fault(
        REFERENCE,
        ("PRelu",),
        "multiplies zeros with slopes, which gives NaN where these are infinite",
        seen=lambda inputs: _is_not_finite(inputs[1]),
    ),
    Fault(
        RUNTIME,
        ("PRelu",),
        "multiplies zeros with slopes, which gives NaN where these are infinite",
        words="nan",
    ),
    Fault(
        REFERENCE,
        ("ConvTranspose",),
        "adds the first group's bias to all groups",
        lambda node, opset: len(node.input) > 2 and attribute(node, "group", 1) > 1,
    ),
    Fault(RUNTIME, ("MeanVarianceNormalization",), "divides by a deviation of zero"),
    Fault(RUNTIME, ("QLinearMatMul",), "writes nothing where there is nothing to add up"),
    Fault(
        REFERENCE,
        ("Resize",),
        "divides by what scales give, not by a whole extent, against torch and ONNX Runtime",
        lambda node, opset: attribute(node, "coordinate_transformation_mode") == b"align_corners",
    ),
    Fault(
        REFERENCE,
        ("GridSample",),
        "cubic: moves a place beyond the border before its taps, against torch and ONNX Runtime",
        lambda node, opset: attribute(node, "mode") in (b"cubic", b"bicubic"),
    ),
    Fault(RUNTIME, ("Loop",), "no rounds: takes unknown sizes of scan outputs for zero", words="["),
    Fault(RUNTIME, _REDUCTIONS, "keeps axes of an empty tensor that it should drop", words="["),
    Fault(RUNTIME, ("MatMul",), "leaves sums of nothing as the memory was", seen=is_empty),
    Fault(
        RUNTIME,
        ("MaxPool",),
        "has the lowest number where a window holds no more than minus infinity",
        words="3.4028235e+38",
    ),
    Fault(
        RUNTIME,
        ("DequantizeLinear",),
        "adds pairs of products of bytes in 16 bits, which saturates",
        seen=lambda inputs: inputs[0].dtype == np.int8,
    ),
    Fault(
        RUNTIME,
        ("MaxUnpool",),
        "takes places for those in output_shape, against the onnx package's own test",
        lambda node, opset: len(node.input) > 2,
    ),
    Fault(
        REFERENCE,
        ("TfIdfVectorizer",),
        "takes weights for those of columns, and they are those of the n-grams",
        has("weights"),
    ),
    Fault(
        REFERENCE,
        ("LinearClassifier",),
        "adds one to the score of the first of two classes that share coefficients",
        lambda node, opset: len(attribute(node, "intercepts", ())) == 1,
    ),
    Fault(REFERENCE, ("SVMClassifier",), "couples probabilities in another way", has("prob_a")),
    Fault(
        REFERENCE,
        ("SVMClassifier",),
        "two classes, positive coefficients: takes the larger score for a weight of the second",
        lambda node, opset: min(attribute(node, "coefficients", (0.0,))) > 0,
    ),
    Fault(
        REFERENCE,
        ("TreeEnsembleClassifier",),
        "two classes of which all leaves vote for one: has another score for the other",
        lambda node, opset: len({*attribute(node, "class_ids")}) == 1,
    ),
    Fault(
        RUNTIME,
        ("TreeEnsembleClassifier",),
        "two classes: takes rows without a vote for the second for those of a model of one score",
        lambda node, opset: len({*attribute(node, "class_ids")}) == 2,
    ),
    Fault(
        REFERENCE,
        ("ReduceMean",),
        "casts the mean of no integers, NaN, to one",
        seen=lambda inputs: inputs[0].dtype.kind in "iu" and not inputs[0].size,
    ),
    Fault(
        RUNTIME,
        ("DecoderMaskedMultiHeadAttention",),
        "takes the bias of a sentence's first beams for that of others where beams are mixed",
        lambda node, opset: len(node.input) > 9 and bool(node.input[4] and node.input[9]),
    ),
    Fault(
        RUNTIME,
        ("QMoE",),
        "rounds to 8 bits what weights of 8 bits in blocks are multiplied with",
        lambda node, opset: (
            attribute(node, "expert_weight_bits", 4) == 8 and attribute(node, "block_size", 0) > 0
        ),
    ),
    Fault(REFERENCE, ("Shape",), "takes an end before the first axis for none", has("end")),
)


def is_mistaken(node: NodeProto, opset: int, known: Mapping[str, Any]) -> bool:
    """Whether the reference is known to compute something else for a node on these values.

    A fault that is told by the words of a difference is none before there is one.
    """
    faults = (f for f in FAULTS if f.who == REFERENCE and not f.words)
    return any(_is_at(f, node, opset, known, False) for f in faults)


def excuse(
    nodes: Iterable[NodeProto], opset: int, who: str, text: str, known: Mapping[str, Any]
) -> Fault | None:
    """The fault that explains how a value that these nodes compute differs, if one does.

    The end of the process is explained by those faults alone that are known for it.
    """
    here = list(nodes)
    fitting = (
        fault
        for fault in FAULTS
        if fault.who == who and fault.words in text and (text != CRASH or fault.words == CRASH)
    )
    found = (f for f in fitting if any(_is_at(f, node, opset, known, True) for node in here))
    return next(found, None)


def _is_at(
    fault: Fault, node: NodeProto, opset: int, known: Mapping[str, Any], unknown: bool
) -> bool:
    """Whether a node has a fault; `unknown` is said of inputs that nobody knows."""
    if node.op_type not in fault.operators or not fault.when(node, opset):
        return False
    inputs = [known.get(name) for name in node.input]
    if fault.seen is any_inputs:
        return True
    return unknown if any(value is None for value in inputs) else fault.seen(inputs)
