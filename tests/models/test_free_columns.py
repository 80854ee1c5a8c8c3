"""Col2Im over images whose sizes are free, with one program for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from tests.models.test_data_sizes import INT, NODE, F, info, model

import minicc

CASES: tuple[dict[str, Any], ...] = (
    {},
    {"pads": [1, 1, 1, 1]},
    {"strides": [2, 3]},
    {"strides": [3, 2], "pads": [0, 2, 1, 0], "dilations": [1, 2]},
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_columns_of_free_images(case: dict[str, Any]) -> None:
    held = {"block": np.array([2, 3])}
    inputs = [info("x", F, ["b", "c", "l"]), info("image", F, ["h", "w"])]
    nodes = [NODE("Shape", ["image"], ["s"]), NODE("Col2Im", ["x", "s", "block"], ["y"], **case)]
    proto = model(nodes, inputs, [info("y")], held)
    session = minicc.InferenceSession(proto, threads=1)
    assert not session.facts.sized
    pads, strides = case.get("pads", [0] * 4), case.get("strides", [1, 1])
    spans = [(k - 1) * d + 1 for k, d in zip((2, 3), case.get("dilations", [1, 1]), strict=True)]
    for n, c, h, w in ((1, 1, 5, 5), (2, 3, 6, 9), (1, 2, 12, 7)):
        pairs = zip((h, w), pads[:2], pads[2:], spans, strides, strict=True)
        count = np.prod([(e + a + b - span) // s + 1 for e, a, b, span, s in pairs])
        x = np.random.default_rng(h).standard_normal((n, 6 * c, count)).astype(np.float32)
        feed = {"x": x, "image": np.zeros((h, w), np.float32)}
        found: Any = ReferenceEvaluator(proto).run(None, feed)
        np.testing.assert_allclose(session.run(None, feed)[0], found[0], rtol=1e-5, atol=1e-5)


def test_columns_whose_pads_are_negative_are_refused() -> None:
    nodes = [NODE("Col2Im", ["x", "s", "s"], ["y"], pads=[0, -1, 0, 0])]
    proto = model(nodes, [info("x", F, [1, 4, 1]), info("s", INT, [2])], [info("y")])
    with pytest.raises(minicc.MiniccError, match=r"MC0127.*pads \[0, -1, 0, 0\]"):
        minicc.InferenceSession(proto).run(
            None, {"x": np.ones((1, 4, 1), "f"), "s": np.array([2, 2])}
        )
