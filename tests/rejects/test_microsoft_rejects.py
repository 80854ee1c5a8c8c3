"""What is wrong with nodes of `com.microsoft`, or not compiled: each says which node and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.ops.microsoft import Array, Case, integers, random

from minicc.errors import MiniccError
from minicc.frontends.onnx import import_model

X, W = random(2, 5, 8), random(8, 12, seed=4)
IMAGE = random(1, 3, 5, 5)
ONE = np.array(0.1, np.float32)
LENGTHS = np.array([4, 4], np.int32)
BYTES, COUNT, MASK = integers(2, 5), np.array(5, np.int32), np.ones((2, 1, 5, 5), np.int32)
GROUPED = {"num_heads": 2, "kv_num_heads": 2, "sliding_window_cache": 1}

CASES: dict[str, tuple[str, list[Array | None], dict[str, Any], str, str]] = {
    "unknown operator": ("Gelu2", [X], {}, "MC0220", "minicc has no such operator"),
    "unknown activation": (
        "FusedConv",
        [IMAGE, IMAGE],
        {"activation": "Mystery"},
        "MC0221",
        "the activation Mystery",
    ),
    "parameters of none": (
        "FusedConv",
        [IMAGE, IMAGE],
        {"activation": "Relu", "activation_params": [1.0]},
        "MC0127",
        "activation_params has 1 entries for Relu",
    ),
    "no heads": ("Attention", [X, W], {}, "MC0127", "attribute num_heads is 0"),
    "rank of a mask": (
        "Attention",
        [X, W, None, MASK],
        {"num_heads": 2},
        "MC0221",
        "a mask of rank 4",
    ),
    "rotation": ("Attention", [X, W], {"num_heads": 2, "do_rotary": 1}, "MC0221", "its rotation"),
    "sizes": (
        "Attention",
        [X, W],
        {"num_heads": 2, "qkv_hidden_sizes": [4, 4, 5]},
        "MC0128",
        "parts of [4, 4, 5]",
    ),
    "no keys": ("MultiHeadAttention", [X], {"num_heads": 2}, "MC0127", "keys or its values"),
    "no angles": (
        "GroupQueryAttention",
        [X, X, X, None, None, LENGTHS, COUNT],
        {"num_heads": 2, "kv_num_heads": 2, "do_rotary": 1},
        "MC0127",
        "cosines or sines are missing",
    ),
    "no window": (
        "GroupQueryAttention",
        [X, X, X, None, None, LENGTHS, COUNT],
        GROUPED,
        "MC0127",
        "a cache of a window needs its old keys",
    ),
    "missing lengths": (
        "GroupQueryAttention",
        [X, X, X],
        {"num_heads": 2, "kv_num_heads": 2},
        "MC0127",
        "its input less_one is missing",
    ),
    "scale of many": (
        "QLinearAdd",
        [BYTES, X, None, BYTES, ONE, None, ONE],
        {},
        "MC0128",
        "not one element",
    ),
    "odd inputs": (
        "QLinearConcat",
        [ONE, integers(1), BYTES, ONE],
        {"axis": 0},
        "MC0127",
        "2 inputs are no tensors",
    ),
    "bits": (
        "MatMulNBits",
        [X, BYTES, X],
        {"bits": 3, "K": 8, "N": 2, "block_size": 16},
        "MC0221",
        "weights of 3 bits",
    ),
    "depth": ("MatMulNBits", [X, BYTES, X], {"N": 2}, "MC0127", "attribute K is 0"),
    "halves": (
        "BiasSplitGelu",
        [X[..., :7].copy(), X[0, 0, :7].copy()],
        {},
        "MC0128",
        "no multiple of 2",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    op, inputs, attributes, code, text = CASES[name]
    case = Case(f"com.microsoft.{op}", inputs, [X], attributes)
    with pytest.raises(MiniccError) as caught:
        import_model(case.model(False))
    assert caught.value.code == code
    assert caught.value.where == ("it",)
    assert text in str(caught.value)
