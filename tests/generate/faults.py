"""What the ONNX reference and ONNX Runtime do wrong, as found by comparing with them.

A fault of the reference is known when a model is drawn: the value counts as known to nobody then,
and no node that follows is drawn to fit it. A fault of ONNX Runtime excuses minicc from agreeing
with it in those outputs that such a node computes for. `who` is "minicc" where it may refuse what
the others accept. A difference that no fault here explains is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from onnx import NodeProto, helper

REFERENCE = "the reference"
RUNTIME = "ONNX Runtime"

When = Callable[[NodeProto, int], bool]


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


class Fault(NamedTuple):
    """Whose fault it is, at which operators, and what is wrong.

    `words`, if there are any, are a part of the difference's text without which it is another one.
    """

    who: str
    operators: tuple[str, ...]
    reason: str
    when: When = always
    words: str = ""


_SUFFIXES = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_REDUCTIONS = tuple(f"Reduce{suffix}" for suffix in _SUFFIXES)

FAULTS: tuple[Fault, ...] = (
    Fault(REFERENCE, ("LRN",), "runs over the batch where it should over the channels"),
    Fault(REFERENCE, ("Erf",), "rounds float64 to float32"),
    Fault(REFERENCE, ("GlobalMaxPool",), "reduces the wrong axes but for images"),
    Fault(REFERENCE, ("Optional",), "gives a list of one tensor and not the tensor"),
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
    Fault(
        REFERENCE,
        ("LpNormalization",),
        "p=1: adds signed values",
        lambda n, o: attribute(n, "p") == 1,
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
    Fault(
        RUNTIME,
        ("MaxPool", "GlobalMaxPool"),
        "takes other elements for larger than NaN",
        words="nan",
    ),
    Fault(RUNTIME, ("MeanVarianceNormalization",), "divides by a deviation of zero"),
    Fault(RUNTIME, ("QLinearMatMul",), "writes nothing where there is nothing to add up"),
    Fault(
        RUNTIME,
        ("Resize",),
        "rounds the size before it divides by it, against the onnx package's own test",
        lambda node, opset: attribute(node, "coordinate_transformation_mode") == b"align_corners",
    ),
    Fault(
        RUNTIME,
        ("GridSample",),
        "cubic: other samples beyond the border",
        lambda node, opset: attribute(node, "mode") in (b"cubic", b"bicubic"),
    ),
    Fault(RUNTIME, ("Loop",), "no rounds: takes unknown sizes of scan outputs for zero", words="["),
    Fault(RUNTIME, _REDUCTIONS, "keeps axes of an empty tensor that it should drop", words="["),
    Fault(REFERENCE, ("Shape",), "takes an end before the first axis for none", has("end")),
)


def is_mistaken(node: NodeProto, opset: int) -> bool:
    """Whether the reference is known to compute something else for a node."""
    return any(_is_at(fault, node, opset) for fault in FAULTS if fault.who == REFERENCE)


def excuse(nodes: Iterable[NodeProto], opset: int, who: str, text: str) -> Fault | None:
    """The fault that explains how a value that these nodes compute differs, if one does."""
    here = list(nodes)
    fitting = (fault for fault in FAULTS if fault.who == who and fault.words in text)
    found = (fault for fault in fitting if any(_is_at(fault, node, opset) for node in here))
    return next(found, None)


def _is_at(fault: Fault, node: NodeProto, opset: int) -> bool:
    return node.op_type in fault.operators and fault.when(node, opset)
