"""Caches of `GroupQueryAttention`: of a window, of padded steps, and quantised ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.ops.microsoft import F4, Array, Case, check, check_runtime, in_forms, random
from tests.ops.test_microsoft_attention import cached, flat, grouped

from minicc.api.session import InferenceSession
from minicc.errors import UserError


def last_kept(rows: Array, room: int, window: int) -> Array:
    """The last rows of [heads, keys, size] that a cache of so much room keeps, one by one."""
    first = 0
    for end in range(rows.shape[1] + 1):
        if end - first > room:
            first += room - window + 1
    out = np.zeros((rows.shape[0], room, rows.shape[2]), rows.dtype)
    out[:, : rows.shape[1] - first] = rows[:, first:]
    return out


def windows(op: str, plain: dict[str, Any], size: int) -> Iterator[tuple[str, Case]]:
    """Caches of the last keys alone, after some steps: not yet full, full, and moved down."""
    heads, shared, window = plain["num_heads"], plain["kv_num_heads"], 3
    options = {**plain, "local_window_size": window, "sliding_window_cache": 1}
    for steps, room, seen in (
        (1, 5, (4,)), (1, 5, (5,)), (1, 5, (6,)), (1, 4, (9, 6)), (6, 5, (11,)), (8, 3, (8,)),
        (2, 7, (9,)), (1, 7, (13, 16)),
    ):  # fmt: skip
        most, whole = max(seen), np.array(seen)
        keys, values = (random(len(seen), shared, most, size, seed=s) for s in (50, 51))
        q = random(len(seen), heads, steps, size, seed=52)
        bias = random(1, 1, steps, most, seed=53)
        out, _ = grouped(q, keys, values, whole, whole - steps, bias=bias, **options)
        fed: list[Array | None] = [flat(q)]
        past: list[Array | None] = []
        kept: list[Array] = []
        for x in (keys, values):
            fed += [flat(np.stack([x[b, :, n - steps : n] for b, n in enumerate(seen)]))]
            before, after = (
                np.stack([last_kept(x[b, :, :n], room, window) for b, n in enumerate(ends)])
                for ends in (whole - steps, whole)
            )
            past.append(before)
            kept.append(after)
        fed += [*past, (whole - 1).astype(np.int32), np.array([most], np.int32), *[None] * 3, bias]
        # ONNX Runtime leaves anything in rows where nothing is kept
        full = bool(kept[0].any(axis=(1, 3)).all())
        case = Case(op, fed, [out, *kept], options, (5, 6), {room: "room"}, runtime=full)
        yield f"{op} last {room} of {seen} by {steps}", case


def packed(levels: Array) -> Array:
    """Whole numbers of 4 bits, two in a byte, the even one lower."""
    shifted = levels.astype(np.int32) + 8
    return np.asarray(shifted[..., ::2] | shifted[..., 1::2] << 4, np.uint8)


def quantised_caches(op: str, plain: dict[str, Any], size: int) -> Iterator[tuple[str, Case]]:
    """Caches of 8 and of 4 bits, with a scale of all or of each channel."""
    heads, shared, room = plain["num_heads"], plain["kv_num_heads"], 9
    counts = ((heads, 70), (shared, 71), (shared, 72))
    q, *new = (random(1, n, 4, size, seed=s) for n, s in counts)
    before = np.array([4])
    for bits, kind in (
        (8, "PER_TENSOR"),
        (8, "PER_CHANNEL"),
        (4, "PER_TENSOR"),
        (4, "PER_CHANNEL"),
    ):
        most = 2 ** (bits - 1) - 1
        shape = (1,) if kind == "PER_TENSOR" else (1, shared, 1, size)
        scales = [(random(*shape, seed=s, low=1, high=2) / most).astype(F4) for s in (73, 74)]
        olds = [
            np.random.default_rng(s).integers(-most - 1, most, (1, shared, room, size), np.int8)
            for s in (75, 76)
        ]
        levels = [
            cached(old, np.clip(np.rint(x / by), -most - 1, most).astype(np.int8), before, room)
            for old, x, by in zip(olds, new, scales, strict=True)
        ]
        keys, values = (x.astype(F4) * by for x, by in zip(levels, scales, strict=True))
        out, _ = grouped(q, keys, values, before + 4, before)
        if bits == 4:
            olds, levels = ([packed(x) for x in both] for both in (olds, levels))
            for level in levels:
                level[:, :, 8:] = 0
        tail = [np.array([7], np.int32), np.array([8], np.int32), *[None] * 5, *scales]
        inputs: list[Array | None] = [flat(q), *map(flat, new), *olds, *tail]
        options = {**plain, "k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
        case = Case(op, inputs, [out, *levels], options, (5, 6, 12, 13), {room: "room"})
        yield f"{op} cache of {bits} bits {kind.lower()}", case


def padded_steps(op: str, plain: dict[str, Any], size: int) -> Iterator[tuple[str, Case]]:
    """New keys of which a sentence has fewer than there are: the others are padding."""
    heads, shared, room, steps = plain["num_heads"], plain["kv_num_heads"], 9, 4
    counts = ((heads, 60), (shared, 61), (shared, 62))
    q, k, v = (random(2, n, steps, size, seed=s) for n, s in counts)
    past = [random(2, shared, room, size, seed=s) for s in (63, 64)]
    before, new = np.array([4, 5]), np.array([4, 2], np.int32)
    keys, values = cached(past[0], k, before, room), cached(past[1], v, before, room)
    out, _ = grouped(q, keys, values, before + new, before)
    tail = [(before + new - 1).astype(np.int32), np.array([room], np.int32), *[None] * 9, new]
    inputs: list[Array | None] = [flat(q), flat(k), flat(v), *past, *tail]
    free = {steps: "steps", room: "room"}
    case = Case(op, inputs, [out, keys, values], plain, (5, 6, 16), free, runtime=False)
    yield f"{op} padded steps", case


PLAIN = {"num_heads": 6, "kv_num_heads": 3}
OP = "com.microsoft.GroupQueryAttention"
KINDS = (windows, padded_steps, quantised_caches)
CASES = dict(case for kind in KINDS for case in kind(OP, PLAIN, 16))


@in_forms(CASES)
def test_against_numpy(case: Case, free: bool) -> None:
    check(case, free)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_against_onnx_runtime(case: Case) -> None:
    check_runtime(case)


def test_a_cache_that_is_smaller_than_its_window() -> None:
    case = next(case for name, case in CASES.items() if " last 5 " in name)
    wide = replace(case, attributes={**case.attributes, "local_window_size": 6})
    with pytest.raises(UserError, match="a cache of 5 keys holds no window of 6"):
        InferenceSession(wide.model(False), threads=1)
