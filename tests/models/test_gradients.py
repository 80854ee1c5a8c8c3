"""Models with a Gradient against central differences, for known and free dimensions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser

import minicc
from minicc.errors import MiniccError

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)
HEAD = """<ir_version: 10, opset_import: ["" : 18, "ai.onnx.preview.training" : 1]>
g ({inputs}) => ({outputs}) {{
"""


def model(inputs: str, body: str, outputs: str) -> bytes:
    """A model in ONNX's text form, where `Gradient` has its domain added."""
    text = HEAD.format(inputs=inputs, outputs=outputs) + body + "\n}"
    made: ModelProto = parser.parse_model(
        text.replace("Gradient", "ai.onnx.preview.training.Gradient")
    )
    data: bytes = made.SerializeToString()
    return data


PERCEPTRON = """
h = Gemm (x, w, b)
c = Sigmoid (h)
m = LayerNormalization (c, s)
p = LogSoftmax (m)
y = NegativeLogLikelihoodLoss (p, t)
"""
NETWORK = """
c = Conv <pads = [1, 1, 1, 1], strides = [2, 2], group = 2> (x, w, b)
r = Relu (c)
m = MaxPool <kernel_shape = [2, 2], strides = [1, 2], pads = [0, 0, 1, 1]> (r)
a = AveragePool <kernel_shape = [2, 2]> (m)
q = GlobalAveragePool (a)
y = Elu (q)
"""
ATTENTION = """
k = Einsum <equation = "bth,hd->btd"> (x, w)
t = Transpose <perm = [0, 2, 1]> (k)
s = MatMul (x, t)
f = Softmax (s)
o = MatMul (f, x)
g = Gelu (o)
n = Mish (g)
y = ReduceLogSumExp (n)
"""
PIECES = """
e = Gather (w, i)
z = Constant <value_ints = [0]> ()
o = Constant <value_ints = [1]> ()
u = Constant <value_ints = [-1]> ()
back = Slice (e, u, z, o, u)
first, rest = Split <axis = 1, num_outputs = 2> (e)
amounts = Constant <value_ints = [0, 1, 0, 0]> ()
wide = Pad (first, amounts)
both = Concat <axis = 1> (rest, first, back)
d = CumSum (both, o)
k = Tanh (d)
p = ReduceProd (wide, o)
y = Mul (k, p)
"""
X = RNG.standard_normal
# inputs of the model, the nodes, what y depends on and is differentiated by; the values
CASES: dict[str, tuple[str, str, str, dict[str, Array]]] = {
    "perceptron": (
        "double[n,6] x, double[6,5] w, double[5] b, double[5] s, int64[n] t",
        PERCEPTRON,
        "x w b s",
        {
            "x": X((4, 6)),
            "w": X((6, 5)),
            "b": X(5),
            "s": X(5),
            "t": np.array([0, 4, 2, 2]),
        },
    ),
    "network": (
        "double[n,4,h,7] x, double[6,2,3,3] w, double[6] b",
        NETWORK,
        "x w b",
        {"x": X((2, 4, 8, 7)), "w": X((6, 2, 3, 3)), "b": X(6)},
    ),
    "attention": (
        "double[n,t,4] x, double[4,4] w",
        ATTENTION,
        "x w",
        {"x": X((2, 5, 4)) / 2, "w": X((4, 4)) / 2},
    ),
    "pieces": (
        "double[9,4] w, int64[n] i",
        PIECES,
        "w",
        {"i": np.array([3, -1, 3, 0, 5]), "w": X((9, 4))},
    ),
}


def differences(session: Any, values: dict[str, Array], by: str) -> Array:
    """The derivative of the sum of y, by central differences."""
    want = np.empty(values[by].shape)
    for at in np.ndindex(want.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = {**values, by: values[by].copy()}
            moved[by][at] += step
            ends.append(session.run(["y"], moved)[0].sum())
        want[at] = (ends[0] - ends[1]) / 2e-6
    return want


@pytest.mark.parametrize("form", ["free", "known"])
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, form: str) -> None:
    inputs, nodes, by, values = CASES[name]
    names = by.split()
    listed = ", ".join(f'"{n}"' for n in names)
    made = ", ".join(f"d{n}" for n in names)
    nodes += f'{made} = Gradient <xs = [{listed}], y = "y"> ({", ".join(names)})'
    outputs = ", ".join(f"double[] {n}" for n in ("y", *made.split(", ")))
    if form == "known":
        for symbol, extent in (("n", next(iter(values.values())).shape[0]), ("h", 8), ("t", 5)):
            inputs = re.sub(rf"\b{symbol}(?=[],])", str(extent), inputs)
    session = minicc.InferenceSession(model(inputs, nodes, outputs), threads=1)
    for n in names:
        (got,) = session.run([f"d{n}"], values)
        np.testing.assert_allclose(got, differences(session, values, n), rtol=1e-4, atol=1e-6)


W = np.array([1.0, 2.0, 3.0])
# inputs, nodes, and d for W
POINTS: dict[str, tuple[str, str, Array]] = {
    "of an intermediate value": (
        "double[n] w",
        """h = Mul (w, w)
        y = Sin (h)
        d = Gradient <xs = ["h"], y = "y"> (h)""",
        np.cos(W * W),
    ),
    "at another point": (
        "double[n] w",
        """h = Mul (w, w)
        y = Sin (h)
        d = Gradient <xs = ["h"], y = "y"> (w)""",
        np.cos(W),
    ),
    "with another constant": (
        "double[n] w",
        """v = Neg (w)
        y = Mul (v, w)
        d = Gradient <xs = ["w"], zs = ["v"], y = "y"> (w, w)""",
        W,
    ),
    "by both, given as one": (
        "double[n] w",
        """v = Neg (w)
        y = Mul (v, w)
        a, b = Gradient <xs = ["w", "v"], y = "y"> (w, w)
        d = Add (a, b)""",
        2 * W,
    ),
    "by one that is skipped, and one": (
        "double[n] w",
        """v = Neg (w)
        y = Mul (v, w)
        , d = Gradient <xs = ["w", "v"], y = "y"> (w, v)""",
        W,
    ),
    "by a constant": (
        "double[n] w",
        """k = Constant <value = double {2.0}> ()
        e = Exp (k)
        y = Mul (w, e)
        s = Gradient <xs = ["k"], y = "y"> (k)
        d = Mul (s, w)""",
        W * 6 * np.exp(2),
    ),
    "of what does not depend on it": (
        "double[n] w",
        """v = Neg (w)
        y = Sin (v)
        d = Gradient <xs = ["w"], zs = ["v"], y = "y"> (w, v)""",
        0 * W,
    ),
    "of itself": (
        "double[n] w",
        'd = Gradient <xs = ["w"], y = "w"> (w)',
        0 * W + 1,
    ),
    "of the second order": (
        "double[n] w",
        """v = Mul (w, w)
        y = Mul (v, w)
        f = Gradient <xs = ["w"], y = "y"> (w)
        d = Gradient <xs = ["w"], y = "f"> (w)""",
        6 * W,
    ),
}


@pytest.mark.parametrize("case", POINTS)
def test_what_it_is_taken_of_and_where(case: str) -> None:
    inputs, nodes, want = POINTS[case]
    session = minicc.InferenceSession(model(inputs, nodes, "double[n] d"), threads=1)
    np.testing.assert_allclose(session.run(None, {"w": W})[0], want, rtol=1e-12)


def test_what_is_not_chosen_gives_nothing() -> None:
    """A row of which all is masked out has no soft-max, and none is asked for."""
    nodes = """f = Softmax (x)
    b = IsNaN (f)
    z = Sub (s, s)
    y = Where (b, z, f)
    g = Mul (y, w)
    d = Gradient <xs = ["x"], y = "g"> (x)"""
    source = model("double[n,3] x, double[3] w, double s", nodes, "double[n,3] d")
    session = minicc.InferenceSession(source, threads=1)
    x = np.array([[-np.inf] * 3, [-np.inf, 0, 0]])
    (d,) = session.run(None, {"x": x, "w": W, "s": np.array(0.0)})
    np.testing.assert_allclose(d, np.array([[0, 0, 0], [0, -0.25, 0.25]]), atol=1e-12)


@pytest.mark.parametrize("extents", [(1, 3), (3, 3)])
def test_what_only_sizes_keep_from_being_compiled(extents: tuple[int, int]) -> None:
    """Whether the axis is expanded depends on its size, and so does the derivative."""
    nodes = """s = Shape (v)
    e = Expand (x, s)
    y = Mul (e, e)
    d = Gradient <xs = ["x"], y = "y"> (x)"""
    session = minicc.InferenceSession(model("double[m] x, double[n] v", nodes, "double[m] d"))
    x, v = (np.arange(1.0, n + 1) for n in extents)
    (d,) = session.run(None, {"x": x, "v": v})
    np.testing.assert_allclose(d, 2 * x * extents[1] / extents[0])


WRONG = {
    "MC0130 error: nothing makes the value q": '<xs = ["q"], y = "y"> (w)',
    "takes as 2 inputs": '<xs = ["w"], y = "y"> (w, w)',
    "y = '' of w": '<xs = ["w"]> (w)',
    "attribute y of .* is 3, not a string": '<xs = ["w"], y = 3> (w)',
    "attribute xs of .* is 'w', not a list": '<xs = "w", y = "y"> (w)',
    "MC0125 error: these nodes wait": '<xs = ["w"], y = "d"> (w)',
    r"MC0127 .*: k is i64\[n\], which": '<xs = ["k"], y = "y"> (k)',
    r"MC0127 .*: i is i64\[n\], which": '<xs = ["w"], y = "i"> (w)',
    "MC0221 .* makes u runs on the host": '<xs = ["w"], y = "u"> (w)',
    "MC0221 .* no derivative of graph.host, which Det#6 needs": '<xs = ["w"], y = "s"> (w)',
}


@pytest.mark.parametrize("said", WRONG)
def test_what_is_wrong(said: str) -> None:
    nodes = f"""y = Sin (w)
    i = Cast <to = 7> (w)
    k = Cast <to = 7> (y)
    c = Constant <value_ints = [40, 40]> ()
    r = Einsum <equation = "i->"> (w)
    m = Expand (r, c)
    s = Det (m)
    v = Cast <to = 7> (y)
    u = STFT (m, v)
    d = Gradient {WRONG[said]}"""
    with pytest.raises(MiniccError, match=said):
        minicc.InferenceSession(model("double[n] w", nodes, "double[] d"), threads=1)


def test_what_depends_on_a_failure_is_not_told_of() -> None:
    """A Gradient is not unknown where what it differentiates is wrong."""
    nodes = """y = Sin (w, w)
    d = Gradient <xs = ["w"], y = "y"> (w)"""
    with pytest.raises(MiniccError) as caught:
        minicc.InferenceSession(model("double[n] w", nodes, "double[] d"), threads=1)
    assert [e.code for e in caught.value.parts] == ["MC0127"]
