"""Operators of `com.microsoft` that run on the host, and weights of 4 bits by a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from minicc.api.session import InferenceSession
from minicc.errors import UserError

Array = np.ndarray[Any, Any]


def of(*values: Any, dtype: Any = np.float32) -> Array:
    return np.array(values, dtype)


CASES: list[tuple[str, dict[str, Any], Array, Sequence[Array]]] = [
    ("Inverse", {}, of([[2, 0], [1, 4]]), [of([[0.5, 0], [-0.125, 0.25]])]),
    ("Unique", {}, of(3, 1, 3, 2, 1),
     [of(3, 1, 2), of(0, 1, 0, 2, 1, dtype=np.int64), of(2, 2, 1, dtype=np.int64)]),
    ("MurmurHash3", {"seed": 0}, of(3, 4, -1, dtype=np.int32),
     [of(847579505, 1889779975, 1982413648, dtype=np.uint32)]),
    ("MurmurHash3", {"seed": 7, "positive": 0}, of(3, 4, -1, dtype=np.int32),
     [of(-823678547, -348581481, 1935827890, dtype=np.int32)]),
    ("MurmurHash3", {"seed": 0, "positive": 0}, of("foo", "", "abcde", dtype=object),
     [of(-156908512, 0, -392455434, dtype=np.int32)]),
    ("MurmurHash3", {"seed": 0}, of(3, 4.5, dtype=np.float64),
     [of(3554953595, 1469602066, dtype=np.uint32)]),
]  # fmt: skip


def model_of(op: str, attributes: dict[str, Any], x: Array, wants: Sequence[Array]) -> bytes:
    def type_of(a: Array) -> int:
        texts = a.dtype == object
        return TensorProto.STRING if texts else int(helper.np_dtype_to_tensor_dtype(a.dtype))

    outs = [f"y{k}" for k in range(len(wants))]
    body = helper.make_graph(
        [helper.make_node(op, ["x"], outs, "it", domain="com.microsoft", **attributes)],
        "case",
        [helper.make_tensor_value_info("x", type_of(x), ["n", *x.shape[1:]])],
        [
            helper.make_tensor_value_info(o, type_of(w), None)
            for o, w in zip(outs, wants, strict=True)
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(body, opset_imports=opsets, ir_version=8)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(("op", "attributes", "x", "wants"), CASES)
def test_as_onnx_runtime_has_it(
    op: str, attributes: dict[str, Any], x: Array, wants: Sequence[Array]
) -> None:
    """The numbers written here are those of ONNX Runtime, which is asked where it is installed."""
    model = model_of(op, attributes, x, wants)
    results = [InferenceSession(model, threads=1).run(None, {"x": x})]
    try:
        import onnxruntime as ort  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        pass
    else:
        results.append(ort.InferenceSession(model).run(None, {"x": x}))
    for result in results:
        for got, wanted in zip(result, wants, strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)


def test_a_matrix_without_an_inverse() -> None:
    x = np.zeros((1, 2, 2), np.float32)
    session = InferenceSession(model_of("Inverse", {}, x, [x]), threads=1)
    with pytest.raises(UserError, match=r"MC0158.*Singular matrix"):
        session.run(None, {"x": x})


def agree(op: str, shapes: dict[str, list[Any]], feed: dict[str, Array], **options: Any) -> Any:
    """What an operator of several inputs gives, and ONNX Runtime too where it is installed."""
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), shapes[n])
        for n, x in feed.items()
    ]
    made = helper.make_node(op, [*feed], ["y"], "it", domain="com.microsoft", **options)
    extra = ["k"] if op == "BifurcationDetector" else []
    made.output.extend(extra)
    kind = TensorProto.INT64 if extra else TensorProto.INT32
    outs = [helper.make_tensor_value_info(n, kind, None) for n in made.output]
    body = helper.make_graph([made], "case", given, outs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(body, opset_imports=opsets, ir_version=8).SerializeToString()
    found = InferenceSession(model, threads=1).run(None, feed)
    try:
        import onnxruntime as ort  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return found
    for got, wanted in zip(found, ort.InferenceSession(model).run(None, feed), strict=True):
        np.testing.assert_array_equal(got, wanted, strict=True)
    return found


def test_paths_through_costs() -> None:
    random = np.random.default_rng(0)
    shapes: dict[str, list[Any]] = {"x": ["a", "b"]}
    for k in range(12):
        x = random.integers(0, 3 if k % 2 else 9, (k % 5 + 1, k % 7 + 1)).astype(np.float32)
        (path,) = agree("DynamicTimeWarping", shapes, {"x": x})
        assert (path[:, 0] == 0).all()
        assert path[:, -1].tolist() == [x.shape[0] - 1, x.shape[1] - 1]
    (path,) = agree("DynamicTimeWarping", shapes, {"x": of([0, 9], [0, 9], [9, 0])})
    assert path.tolist() == [[0, 1, 2], [0, 0, 1]]


def test_tokens_that_a_source_predicts() -> None:
    shapes: dict[str, list[Any]] = {"s": ["a"], "c": ["b"], "i": [1], "p": ["d"]}
    source, current = np.array([3, 1, 2, 3, 4]), np.array([7, 1])
    for start, predicted, place, count in (
        (2, [2, 3, 4, 9], -1, 6),
        (2, [2, 3, 9, 9], -1, 5),
        (1, [1, 2, 8, 3, 9], -1, 5),
        (0, [3, 1, 2, 3, 4, 2], 3, 8),
        (2, [5, 3, 4, 9], -1, 3),
    ):
        feed = {"s": source, "c": current, "i": np.array([start]), "p": np.array(predicted)}
        tokens, found = agree("BifurcationDetector", shapes, feed, min_ngram_size=1,
                              max_ngram_size=3)  # fmt: skip
        assert (found.tolist(), len(tokens)) == ([place], count)
