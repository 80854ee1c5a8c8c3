"""Attention of `com.microsoft` against NumPy and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.ops.microsoft import F4, Array, Case, check, check_runtime, half, in_forms, random

FREE = {2: "batch", 5: "steps", 7: "old", 12: "all"}
HEADS, SIZE = 3, 6
WIDTH = HEADS * SIZE
LOWEST = np.finfo(F4).min


def softmax(x: Array) -> Array:
    """Of rows; 0 where a row is empty."""
    power = np.exp(x - np.maximum(x.max(-1, keepdims=True), LOWEST))
    return np.asarray(power / np.maximum(power.sum(-1, keepdims=True), 1))


def heads_of(x: Array, heads: int = HEADS) -> Array:
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def flat(x: Array) -> Array:
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def attended(*heads: Any, scale: float | None = None) -> tuple[Array, Array]:
    """The values that queries make of keys, and the scores; a bias may follow the values."""
    q, k, v, *more = heads
    bias = more[0] if more else F4(0)
    factor = F4(1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    scores = np.asarray(q @ k.swapaxes(2, 3) * factor + bias, F4)
    return flat(softmax(scores) @ v), scores


def causal(steps: int, before: int = 0) -> Array:
    late = np.arange(before + steps) > np.arange(steps)[:, None] + before
    return np.where(late, LOWEST, F4(0))


def hiding(mask: Array, value: float = -10000.0) -> Array:
    wide = mask[:, None, None] if mask.ndim == 2 else mask[:, None]
    return np.where(wide > 0, F4(0), F4(value))


def masks(steps: int) -> dict[str, tuple[Array, Array]]:
    """Masks of each form, and which keys they show."""
    ends, starts = np.array([2, steps]), np.array([0, 3])
    key = np.arange(steps)
    shown = key < ends[:, None]
    both = shown & (key >= starts[:, None])
    square = np.tril(np.ones((2, steps, steps), np.int32))
    three = np.concatenate([ends, [0, 2, 5, 0, 3, 6]])
    return {
        "ends": (ends.astype(np.int32), shown),
        "starts": (np.concatenate([ends, starts]).astype(np.int32), both),
        "offsets": (three.astype(np.int32), shown),
        "matrix": (both.astype(np.int32), both),
        "square": (square, square),
    }


def self_attention() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.Attention"
    x, w, b = random(2, 5, 8), random(8, 3 * WIDTH, seed=4), random(3 * WIDTH, seed=5)
    q, k, v = (heads_of(part) for part in np.split(x @ w + b, 3, axis=2))
    plain: dict[str, Any] = {"num_heads": HEADS}
    const = (1, 2)
    yield op, Case(op, [x, w, b], [attended(q, k, v)[0]], plain, const, FREE)
    q0, k0, v0 = (heads_of(part) for part in np.split(x @ w, 3, axis=2))
    wants = [attended(q0, k0, v0, scale=0.3)[0]]
    options = {**plain, "scale": 0.3}
    # ONNX Runtime crashes without a bias
    yield f"{op} scale", Case(op, [x, w], wants, options, const, FREE, runtime=False)
    one_way = {**plain, "unidirectional": 1}
    wants = [attended(q, k, v, causal(5))[0]]
    yield f"{op} causal", Case(op, [x, w, b], wants, one_way, const, FREE)
    for name, (mask, shown) in masks(5).items():
        if name == "offsets":
            continue
        wants = [attended(q, k, v, hiding(shown))[0]]
        yield f"{op} {name}", Case(op, [x, w, b, mask], wants, plain, const, FREE)
        filtered = {**one_way, "mask_filter_value": -1.5}
        bias = np.where(causal(5) < 0, LOWEST, hiding(shown, -1.5))
        wants = [attended(q, k, v, bias)[0]]
        yield f"{op} {name} causal", Case(op, [x, w, b, mask], wants, filtered, const, FREE)
    past = random(2, 2, HEADS, 7, SIZE, seed=6)
    old, new = (np.concatenate([p, n], 2) for p, n in zip(past, (k, v), strict=True))
    present = np.stack([old, new])
    case = Case(op, [x, w, b, None, past], [attended(q, old, new)[0], present], plain, const, FREE)
    yield f"{op} past", case
    mask = np.array([[0, 0] + [1] * 10, [1] * 12], np.int32)
    more = random(2, HEADS, 5, 5, seed=7)
    wants = [attended(q, k, v, hiding(mask[:, :5]) + more)[0]]
    inputs = [x, w, b, np.ascontiguousarray(mask[:, :5]), None, more]
    yield f"{op} added", Case(op, inputs, wants, plain, const, FREE)
    bias = np.where(causal(5, 7) < 0, LOWEST, hiding(mask))
    wants = [attended(q, old, new, bias)[0], present]
    case = Case(op, [x, w, b, mask, past], wants, one_way, const, FREE)
    yield f"{op} all", case
    w2 = random(8, 2 * WIDTH + 6, seed=8)
    q2, k2, v2 = (heads_of(p) for p in np.split(x @ w2, [WIDTH, 2 * WIDTH], axis=2))
    options = {**plain, "qkv_hidden_sizes": [WIDTH, WIDTH, 6]}
    wants = [attended(q2, k2, v2)[0]]
    yield f"{op} sizes", Case(op, [x, w2, np.zeros(2 * WIDTH + 6, F4)], wants, options, const, FREE)


def multi_head() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.MultiHeadAttention"
    q, k, v = (random(2, n, WIDTH, seed=n) for n in (5, 7, 7))
    v = random(2, 7, 9, seed=8)
    b = random(2 * WIDTH + 9, seed=9)
    h = [heads_of(x) for x in (q, k, v)]
    hb = [heads_of(x + p) for x, p in zip((q, k, v), np.split(b, [WIDTH, 2 * WIDTH]), strict=True)]
    plain: dict[str, Any] = {"num_heads": HEADS}
    free = {2: "batch", 5: "steps", 7: "keys"}
    yield op, Case(op, [q, k, v], [attended(*h)[0]], plain, (), free)
    out, scores = attended(*hb)
    wants = [out, hb[1], hb[2], scores]
    yield f"{op} bias", Case(op, [q, k, v, b], wants, plain, (3,), free)
    for name, (mask, shown) in masks(7).items():
        if name == "starts":
            continue
        if mask.ndim == 3:
            mask = shown = np.ascontiguousarray(mask[:, :5])
        wants = [attended(*h, hiding(shown))[0]]
        yield f"{op} {name}", Case(op, [q, k, v, None, mask], wants, plain, (), free)
    more = random(1, HEADS, 5, 7, seed=10)
    wants = [attended(*h, more)[0]]
    yield f"{op} added", Case(op, [q, k, v, None, None, more], wants, plain, (), free)
    b = random(3 * WIDTH, seed=9)
    wants = [attended(heads_of(q + b[:WIDTH]), h[1], h[1])[0]]
    case = Case(op, [q, h[1].copy(), h[1].copy(), b], wants, plain, (3,), free)
    yield f"{op} apart", case
    n = random(2, 5, WIDTH, seed=11)
    past = [random(2, HEADS, 7, SIZE, seed=s) for s in (12, 13)]
    keys, values = (np.concatenate([p, heads_of(x)], 2) for p, x in zip(past, (q, n), strict=True))
    options = {**plain, "unidirectional": 1, "scale": 0.4}
    wants = [attended(heads_of(n), keys, values, causal(5, 7), scale=0.4)[0], keys, values]
    case = Case(op, [n, q, n, None, None, None, *past], wants, options, (), FREE)
    yield f"{op} past", case
    pack = random(2, 5, HEADS, 3, SIZE, seed=14)
    parts = [pack[:, :, :, j].swapaxes(1, 2) for j in range(3)]
    case = Case(op, [pack], [attended(*parts)[0]], plain, (), FREE, runtime=False)
    yield f"{op} packed", case
    pair = np.ascontiguousarray(pack[:, :, :, :2])
    wants = [attended(h[0], *parts[:2])[0]]
    yield f"{op} pairs", Case(op, [q, pair], wants, plain, (), {5: "steps"}, runtime=False)


def turned(x: Array, tables: list[Array], at: Array, pairs: bool) -> Array:
    """Heads turned by the angles of positions, [batch, steps]."""
    cosines, sines = tables
    half_ = cosines.shape[1]
    c, s = cosines[at][:, None], sines[at][:, None]
    out = x.copy()
    first, second = (
        (slice(0, 2 * half_, 2), slice(1, 2 * half_, 2))
        if pairs
        else (slice(0, half_), slice(half_, 2 * half_))
    )
    out[..., first] = c * x[..., first] - s * x[..., second]
    out[..., second] = c * x[..., second] + s * x[..., first]
    return out


def angles(count: int) -> list[Array]:
    at = random(31, count, seed=20)
    return [np.cos(at).astype(F4), np.sin(at).astype(F4)]


def rotary() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.RotaryEmbedding"
    x = random(2, 5, WIDTH)
    at = np.array([[0, 1, 5, 7, 3], [8, 2, 2, 1, 0]])
    line = np.array([3])
    for pairs in (False, True):
        for name, place in (("", at), (" offset", line)):
            tables = angles(3)
            steps = place if place.ndim == 2 else place + np.arange(5)[None]
            wants = [flat(turned(heads_of(x), tables, steps, pairs))]
            options = {"interleaved": int(pairs)}
            case = Case(op, [x, place, *tables], wants, options, (2, 3), FREE)
            yield f"{op}{name} {pairs}", case
    tables = angles(1)
    out = turned(heads_of(x), tables, at, False)
    options = {"num_heads": HEADS, "rotary_embedding_dim": 2}
    yield f"{op} part", Case(op, [x, at, *tables], [flat(out)], options, (2, 3), FREE)
    tables = angles(3)
    apart = heads_of(x).copy()
    out = turned(apart, tables, at, False)
    yield f"{op} apart", Case(op, [apart, at, *tables], [out], {}, (2, 3), FREE)
    small = [half(v) for v in (x, *tables)]
    want = turned(heads_of(small[0]).astype(F4), [t.astype(F4) for t in small[1:]], at, False)
    case = Case(op, [small[0], at, *small[1:]], [half(flat(want))], {}, (2, 3), FREE, 2e-3)
    yield f"{op} f16", case


def cached(past: Array | None, new: Array, before: Array, seen: int) -> Array:
    """The old keys of each sentence, then the new ones."""
    out = np.zeros((*new.shape[:2], seen, new.shape[3]), new.dtype)
    for b, n in enumerate(before):
        if past is not None:
            out[b, :, :n] = past[b, :, :n]
        last = min(seen, n + new.shape[2])
        out[b, :, n:last] = new[b, :, : last - n]
    return out


def grouped(
    q: Array, k: Array, v: Array, whole: Array, before: Array, **options: Any
) -> tuple[Array, Array]:
    """What each query makes of the keys that it sees; also the scores."""
    each = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, each, axis=1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * F4(options.get("scale", 1 / np.sqrt(q.shape[3])))
    if cap := options.get("softcap"):
        scores = F4(cap) * np.tanh(scores / F4(cap))
    scores = scores + options.get("bias", F4(0))
    key = np.arange(k.shape[2])
    end = np.broadcast_to(whole[:, None], (len(whole), q.shape[2]))
    if options.get("causal", 1):
        end = np.minimum(end, before[:, None] + np.arange(q.shape[2]) + 1)
    seen = key < end[..., None]
    if (window := options.get("local_window_size", -1)) >= 0:
        seen &= key > (before[:, None] + np.arange(q.shape[2]))[..., None] - window
    shown = np.where(seen[:, None], scores, -np.inf)
    sink = options.get("sink")
    if sink is None and options.get("smooth_softmax", 0) > 0:
        sink = np.zeros(q.shape[1], F4)
    if sink is not None:
        column = np.broadcast_to(sink[:, None, None], (*shown.shape[:3], 1))
        likely = softmax(np.concatenate([shown, column], 3))[..., :-1]
    else:
        likely = softmax(shown)
    return flat((likely @ v).astype(F4)), scores.astype(F4)


def group_query() -> Iterator[tuple[str, Case]]:
    op = "com.microsoft.GroupQueryAttention"
    heads, shared, size = 6, 3, 16
    plain: dict[str, Any] = {"num_heads": heads, "kv_num_heads": shared}
    q, k, v = (random(2, 5, n * size, seed=n) for n in (heads, shared, shared + 1))
    v = v[..., : shared * size].copy()
    hq, hk, hv = heads_of(q, heads), heads_of(k, shared), heads_of(v, shared)
    lengths = np.array([4, 2], np.int32)
    total, old = np.array(5, np.int32), np.zeros(2, int)
    tail = [lengths, total]
    free = {2: "batch", 5: "steps", 7: "old"}
    forms: dict[str, dict[str, Any]] = {
        "": {},
        " window": {"local_window_size": 2},
        " softcap": {"softcap": 0.7},
        " whole": {"causal": 0},
        " smooth": {"smooth_softmax": 1, "scale": 0.5},
    }
    for name, options in forms.items():
        out, _ = grouped(hq, hk, hv, lengths + 1, old, **options)
        wants = [out, hk, hv]
        inputs: list[Array | None] = [q, k, v, None, None, *tail]
        yield f"{op}{name}", Case(op, inputs, wants, {**plain, **options}, (6,), free)
    packed = np.concatenate([q, k, v], 2)
    out, _ = grouped(hq, hk, hv, lengths + 1, old)
    inputs = [packed, None, None, None, None, *tail]
    yield f"{op} packed", Case(op, inputs, [out, hk, hv], plain, (6,), free)
    sink, bias = random(heads, seed=30), random(1, heads, 5, 5, seed=31)
    out, _ = grouped(hq, hk, hv, lengths + 1, old, sink=sink)
    inputs = [q, k, v, None, None, *tail, None, None, None, None, sink]
    yield f"{op} sink", Case(op, inputs, [out, hk, hv], plain, (6, 11), free)
    out, _ = grouped(hq, hk, hv, lengths + 1, old, bias=bias, softcap=0.7)
    inputs = [q, k, v, None, None, *tail, None, None, None, bias]
    options = {**plain, "softcap": 0.7}
    yield f"{op} bias", Case(op, inputs, [out, hk, hv], options, (6,), free)
    yield from shown(op, plain, (q, k, v), tail, free)
    yield from decoding(op, plain, (q, k, v), size)
    yield from with_room(op, plain, (q, k, v), size)


def shown(
    op: str, plain: dict[str, Any], new: tuple[Array, ...], tail: list[Array], free: dict[int, str]
) -> Iterator[tuple[str, Case]]:
    """The scores as a result, and queries and keys that are normalised."""
    counts = (plain["num_heads"], plain["kv_num_heads"], plain["kv_num_heads"])
    hq, hk, hv = (heads_of(x, n) for x, n in zip(new, counts, strict=True))
    whole, old = np.array([5, 5]), np.zeros(2, int)
    late = np.triu(np.ones((5, 5), bool), 1)
    full = [(whole - 1).astype(np.int32), tail[1]]
    out, scores = grouped(hq, hk, hv, whole, old)
    seen = np.where(late, F4(0), scores)
    likely = softmax(np.where(late, F4(-np.inf), scores))
    for mode, qk in ((1, seen), (2, likely)):
        inputs: list[Array | None] = [*new, None, None, *full]
        options = {**plain, "qk_output": mode}
        case = Case(op, inputs, [out, hk, hv, qk], options, (6,), free)
        yield f"{op} scores {mode}", case
    weights = [random(hq.shape[3], seed=s) for s in (40, 41)]

    def norm(x: Array, w: Array) -> Array:
        return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + F4(1e-6)) * w)

    nq, nk = norm(hq, weights[0]), norm(hk, weights[1])
    out, _ = grouped(nq, nk, hv, whole, old)
    inputs = [*new, None, None, *full, *[None] * 7, *weights]
    case = Case(op, inputs, [out, nk, hv], plain, (6, 14, 15), free, runtime=False)
    yield f"{op} normalised", case


def with_room(
    op: str, plain: dict[str, Any], new: tuple[Array, Array, Array], size: int
) -> Iterator[tuple[str, Case]]:
    """A bias and scores of those keys that there are, of a cache that has room for more."""
    heads, shared, total = plain["num_heads"], plain["kv_num_heads"], 6
    one = [np.ascontiguousarray(x[:, :1]) for x in new]
    hq, hk, hv = (heads_of(x, n) for x, n in zip(one, (heads, shared, shared), strict=True))
    past = [random(2, shared, 9, size, seed=s) for s in (34, 35)]
    lengths, before = np.array([5, 3], np.int32), np.array([5, 3])
    bias = random(2, 1, 1, total, seed=36)
    keys, values = cached(past[0], hk, before, 9), cached(past[1], hv, before, 9)
    far = np.pad(bias, [(0, 0)] * 3 + [(0, 3)])
    out, scores = grouped(hq, keys, values, lengths + 1, before, bias=far)
    hidden = np.arange(total) > before[:, None, None, None]
    scores = scores[..., :total]
    likely = softmax(np.where(hidden, F4(-np.inf), scores))
    for mode, qk in ((1, np.where(hidden, F4(0), scores)), (2, likely)):
        tail = [lengths, np.array(total, np.int32), None, None, None, bias]
        options = {**plain, "qk_output": mode}
        wants = [out, keys, values, qk]
        case = Case(op, [*one, *past, *tail], wants, options, (6,), {2: "batch", 9: "room"})
        yield f"{op} room scores {mode}", case


def decoding(
    op: str, plain: dict[str, Any], new: tuple[Array, Array, Array], size: int
) -> Iterator[tuple[str, Case]]:
    heads, shared = plain["num_heads"], plain["kv_num_heads"]
    one = [np.ascontiguousarray(x[:, :1]) for x in new]
    hq, hk, hv = (heads_of(x, n) for x, n in zip(one, (heads, shared, shared), strict=True))
    past = [random(2, shared, 7, size, seed=s) for s in (32, 33)]
    tables = angles(size // 2)
    free = {2: "batch", 7: "old"}
    rooms = ((" old", np.array([7, 4], np.int32), 8), (" room", np.array([5, 2], np.int32), 6))
    for name, lengths, total in rooms:
        before = lengths.astype(int)
        seen = max(7, total)
        keys, values = cached(past[0], hk, before, seen), cached(past[1], hv, before, seen)
        out, _ = grouped(hq, keys, values, lengths + 1, before)
        inputs: list[Array | None] = [*one, *past, lengths, np.array([total], np.int32)]
        yield f"{op}{name}", Case(op, inputs, [out, keys, values], plain, (6,), free)
        for pairs in (0, 1):
            options = {**plain, "do_rotary": 1, "rotary_interleaved": pairs}
            rq, rk = (turned(x, tables, before[:, None], bool(pairs)) for x in (hq, hk))
            keys = cached(past[0], rk, before, seen)
            out, _ = grouped(rq, keys, values, lengths + 1, before)
            case = Case(op, [*inputs, *tables], [out, keys, values], options, (6, 7, 8), free)
            yield f"{op}{name} rotary {pairs}", case
    lengths = np.array([7, 7], np.int32)
    at = np.array([[9], [3]])
    rq, rk = (turned(x, tables, at, False) for x in (hq, hk))
    keys, values = cached(past[0], rk, lengths, 8), cached(past[1], hv, lengths, 8)
    out, _ = grouped(rq, keys, values, lengths + 1, lengths.astype(int))
    inputs = [*one, *past, lengths, np.array(8, np.int32), *tables, at]
    options = {**plain, "do_rotary": 1}
    yield f"{op} positions", Case(op, inputs, [out, keys, values], options, (6, 7, 8), free)
    # several steps after others, of a batch of one
    rows = [np.ascontiguousarray(x[:1]) for x in new]
    hq, hk, hv = (heads_of(x, n) for x, n in zip(rows, (heads, shared, shared), strict=True))
    lengths, before = np.array([11], np.int32), np.array([7])
    first = [np.ascontiguousarray(p[:1]) for p in past]
    keys, values = cached(first[0], hk, before, 12), cached(first[1], hv, before, 12)
    out, _ = grouped(hq, keys, values, lengths + 1, before, local_window_size=3)
    inputs = [*rows, *first, lengths, np.array(12, np.int32)]
    options = {**plain, "local_window_size": 3}
    case = Case(op, inputs, [out, keys, values], options, (6,), {7: "old"})
    yield f"{op} more steps", case
    small = [half(x) for x in one]
    old = [half(x) for x in past]
    hq, hk, hv = (heads_of(x, n) for x, n in zip(small, (heads, shared, shared), strict=True))
    lengths = np.array([7, 4], np.int32)
    keys, values = (cached(p, x, lengths, 8) for p, x in zip(old, (hk, hv), strict=True))
    out, _ = grouped(
        hq.astype(F4), keys.astype(F4), values.astype(F4), lengths + 1, lengths.astype(int)
    )
    inputs = [*small, *old, lengths, np.array(8, np.int32)]
    yield f"{op} f16", Case(op, inputs, [half(out), keys, values], plain, (6,), free, 4e-3)


CASES = dict([*self_attention(), *multi_head(), *rotary(), *group_query()])


@in_forms(CASES)
def test_against_numpy(case: Case, free: bool) -> None:
    check(case, free)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_against_onnx_runtime(case: Case) -> None:
    check_runtime(case)
