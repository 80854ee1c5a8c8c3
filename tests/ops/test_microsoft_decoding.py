"""Operators of decoders and of small pieces of models: against NumPy and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.ops.microsoft import F4, Array, Case, check, check_runtime, in_forms

OP = "com.microsoft."


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(F4)


def numbers(*values: int) -> Array:
    return np.array(values, np.int32)


def soft(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def turned(x: Array, heads: int) -> Array:
    """[batch, heads, steps, size] of [batch, steps, hidden]."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def flat(x: Array) -> Array:
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def caches() -> Iterator[tuple[str, Case]]:
    op, batch, heads, size, room, past = f"{OP}DecoderMaskedMultiHeadAttention", 3, 2, 4, 7, 5
    hidden = heads * size
    q, k, v = (random(batch, 1, hidden, seed=s) for s in range(3))
    old = [random(batch, heads, room, size, seed=s) for s in (3, 4)]
    options = {"num_heads": heads, "past_present_share_buffer": 1}
    length, bias = np.array([past], np.int32), random(3 * hidden, seed=5)
    shown = np.ones((batch, past + 1), np.int32)
    shown[1, :2] = 0
    more = random(batch, heads, 1, past + 1, seed=6)
    for name, mask, extra, b in (("", None, None, None), (" masked", shown, more, bias)):
        parts = [b[j * hidden : (j + 1) * hidden] if b is not None else F4(0) for j in range(3)]
        heads_of = [turned(x + p, heads) for x, p in zip((q, k, v), parts, strict=True)]
        new = [x.copy() for x in old]
        for x, y in zip(new, heads_of[1:], strict=True):
            x[:, :, past : past + 1] = y
        keys, values = (x[:, :, : past + 1] for x in new)
        scores = heads_of[0] @ keys.transpose(0, 1, 3, 2) / np.sqrt(F4(size))
        if mask is not None:
            scores = scores + np.where(mask > 0, F4(0), F4(-10000))[:, None, None] + extra
        wants = [flat(soft(scores) @ values), *new]
        inputs = [q, k, v, mask, extra, *old, length, None, None, b]
        yield op + name, Case(op, inputs, wants, options, (7,), {3: "batch"})
        if mask is None:
            packed = [np.concatenate([q, k, v], 2), None, None, None, None, *old, length]
            case = Case(op, packed, wants, options, (7,), {3: "batch"}, runtime=False)
            yield f"{op} packed", case  # which ONNX Runtime reads a null for
    beams = np.random.default_rng(9).integers(0, batch, (1, batch, room)).astype(np.int32)
    beams[..., past] = np.arange(batch)
    new = [x.copy() for x in old]
    for x, y in zip(new, (k, v), strict=True):
        x[:, :, past : past + 1] = turned(y, heads)
    keys, values = (x[beams[0], :, np.arange(room)].transpose(0, 2, 1, 3) for x in new)
    scores = turned(q, heads) @ keys[:, :, : past + 1].transpose(0, 1, 3, 2) / np.sqrt(F4(size))
    wants = [flat(soft(scores + more[:1]) @ values[:, :, : past + 1]), *new]
    shown = np.ones((batch, past + 1), np.int32)
    inputs = [q, k, v, shown, more[:1], *old, length, numbers(batch), beams]
    yield f"{op} beams", Case(op, inputs, wants, options, (7, 8), {})
    k, v = (random(batch, heads, 9, size, seed=s) for s in (7, 8))
    out = soft(turned(q, heads) @ k.transpose(0, 1, 3, 2) / np.sqrt(F4(size))) @ v
    yield f"{op} cross", Case(op, [q, k, v], [flat(out)], {"num_heads": heads}, (), {3: "batch"})


def blocks() -> Iterator[tuple[str, Case]]:
    op, batch, heads, shared, size, block, room = f"{OP}SparseAttention", 3, 4, 2, 8, 16, 64
    layout = np.tril(np.random.default_rng(1).integers(0, 2, (2, 4, 4)) | np.eye(4, dtype=int))
    rows = np.concatenate([np.zeros((2, 1), int), layout.sum(2).cumsum(1)], 1).astype(np.int32)
    columns = np.full((2, rows.max()), -1, np.int32)
    for n in range(2):
        columns[n, : rows[n, -1]] = np.nonzero(layout[n])[1]
    old = [random(batch, shared, room, size, seed=s) for s in (1, 2)]
    angles = np.arange(room)[:, None] / 10 ** np.arange(0, 1, 1 / 4)
    tables = [np.cos(angles).astype(F4), np.sin(angles).astype(F4)]
    for steps, whole, rotary in ((40, [40, 37, 9], 0), (1, [50, 33, 2], 1)):
        q, k, v = (random(batch, steps, n * size, seed=n) for n in (heads, shared, 3))
        v = v[..., : shared * size]
        start = np.array([0, 0, 0] if steps > 1 else [n - 1 for n in whole])
        place = start[:, None] + np.arange(steps)
        apart = [turned(q, heads), turned(k, shared), turned(v, shared)]
        if rotary:
            c, s = (t[place][:, None] for t in tables)
            for j in (0, 1):
                a, b = apart[j][..., :4], apart[j][..., 4:]
                apart[j] = np.concatenate([a * c - b * s, b * c + a * s], 3)
        new = [x.copy() for x in old]
        for one in range(batch):
            for x, y in zip(new, apart[1:], strict=True):
                x[one, :, place[one]] = y[one].transpose(1, 0, 2)
        keys, values = (x.repeat(heads // shared, 1) for x in new)
        scores = apart[0] @ keys.transpose(0, 1, 3, 2) / np.sqrt(F4(size))
        seen, point = np.arange(room), place[:, :, None]
        shown = (seen <= point) & (seen < np.array(whole)[:, None, None])
        named = layout[:, point // block, seen // block][np.arange(heads) % 2].swapaxes(0, 1)
        scores = np.where(shown[:, None] & (named > 0), scores, -np.inf)
        dead = np.isneginf(scores).all(-1, keepdims=True)
        likely = np.where(dead, 0, soft(np.where(dead, 0, scores)))
        wants = [flat(likely.astype(F4) @ values), *new]
        total = np.array([max(whole)], np.int32)
        inputs = [q, k, v, *old, rows, columns, total, np.array(whole, np.int32), *tables]
        options = {"num_heads": heads, "kv_num_heads": shared, "sparse_block_size": block}
        options["do_rotary"] = rotary
        case = Case(op, inputs, wants, options, (5, 6, 7), {batch: "batch"}, runtime=False)
        yield f"{op} {steps}", case  # ONNX Runtime wants the caches to be written in place


def words() -> Iterator[tuple[str, Case]]:
    op = f"{OP}WordConvEmbedding"
    letters = np.random.default_rng(0).integers(1, 9, (5, 6)).astype(np.int32)
    for row, n in enumerate((6, 1, 3, 2, 5)):
        letters[row, n:] = 0
    w, b, table = random(4, 1, 3, 2), random(4, seed=1), random(9, 2, seed=2)
    x = table[letters]
    windows = np.stack([x[:, j : j + 3] for j in range(4)], 1)
    out = np.tanh(np.einsum("snwe,mwe->snm", windows, w[:, 0]) + b)
    for row, n in enumerate((4, 1, 1, 1, 3)):
        out[row, n:] = -1
    yield op, Case(op, [letters, w, b, table], [out.max(1)], {}, (1, 2, 3), {5: "n"})
    # windows of a letter each are the rows of a matrix, of which the first counts
    for sign in (1, -1):
        weights = sign * w[:1, :, :1]
        inputs = [np.array([[8, 0]], np.int32), weights, b[:1], table]
        want = np.tanh(table[8] @ weights[0, 0, 0] + b[0]).reshape(1, 1)
        yield f"{op} {sign}", Case(op, inputs, [want], {}, (1, 2, 3))


def streams() -> Iterator[tuple[str, Case]]:
    op, x = f"{OP}HyperConnectionPreMix", random(2, 3, 4, 5)
    for gates in (random(2, 3, 4), random(2, 3, 4, 1), random(2, 3, 4, 5)):
        full = gates if gates.ndim == 4 else gates[..., None]
        wants, options = [(x * full).sum(2) * F4(0.5)], {"reduction_scale": 0.5}
        yield f"{op} {gates.shape}", Case(op, [x, gates], wants, options, (), {2: "batch"})
        options = {"num_branches": 4, "reduction_scale": 0.5}
        given = [x.reshape(2, 3, 20), gates.reshape(2, 3, -1)]
        yield f"{op} flat {gates.shape}", Case(op, given, wants, options, (), {2: "batch"})
    op, out, mix = f"{OP}HyperConnectionPostMix", random(2, 3, 5, seed=1), random(2, 3, 4, 4)
    for gates in (random(2, 3, 4), random(2, 3, 4, 1), random(2, 3, 4, 5)):
        full = gates if gates.ndim == 4 else gates[..., None]
        alone = x + full * out[:, :, None]
        both = np.einsum("bsck,bsch->bskh", mix, x) + full * out[:, :, None]
        yield f"{op} {gates.shape}", Case(op, [x, out, gates], [alone], {}, (), {2: "batch"})
        case = Case(op, [x, out, gates, mix], [both], {}, (), {2: "batch"})
        yield f"{op} mixed {gates.shape}", case
    flat_x, options = x.reshape(2, 3, 20), {"num_branches": 4}
    wants = [both.reshape(2, 3, 20)]
    case = Case(op, [flat_x, out, gates, mix], wants, options, (), {2: "batch"})
    yield f"{op} flat", case


def gates() -> Iterator[tuple[str, Case]]:
    op, batch, steps, count, size = f"{OP}EngramGate", 2, 3, 4, 6
    k, q = (random(batch, steps, count, size, seed=s) for s in (0, 1))
    v, scales = random(batch, steps, size, seed=2), [random(count, size, seed=s) for s in (3, 4, 5)]

    def normal(x: Array, scale: Array) -> Array:
        return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + F4(1e-5)) * scale)

    dot = (normal(k, scales[0]) * normal(q, scales[1])).sum(-1, keepdims=True) / np.sqrt(F4(size))
    bent = np.sign(dot) * np.sqrt(np.maximum(np.abs(dot), 1e-6))
    out = (v[:, :, None] / (1 + np.exp(-bent))).astype(F4)
    yield op, Case(op, [k, q, v, *scales[:2]], [out], {}, (), {batch: "batch"})
    wants = [out, normal(out, scales[2])]
    yield f"{op} twice", Case(op, [k, q, v, *scales], wants, {}, (), {batch: "batch"})
    yield f"{OP}SampleOp", Case(f"{OP}SampleOp", [v], [v], {}, (), {batch: "batch"})
    op, heads, width = f"{OP}GatedRelativePositionBias", 2, 8
    x, b, w = random(batch, steps, heads * 4), random(heads * 4, seed=1), random(4, width, seed=2)
    c, relative = random(width, seed=3), random(1, heads, steps, steps, seed=4)
    eco = random(1, heads, 1, 1, seed=5)
    halves = (turned(x + b, heads) @ w + c).reshape(batch, heads, steps, 2, width // 2).sum(-1)
    u, r = np.split(1 / (1 + np.exp(-halves)), 2, -1)
    wants = [((u * (r * eco - 1) + 2) * relative).astype(F4)]
    options = {"num_heads": heads}
    case = Case(op, [x, b, relative, w, c, eco], wants, options, (1, 3, 4), {}, runtime=False)
    yield op, case


def distances() -> Iterator[tuple[str, Case]]:
    op, buckets, heads, most = f"{OP}RelativePositionBias", 8, 2, 20
    table = random(buckets, heads)
    for both in (0, 1):
        rows = []
        for row in range(30):
            for column in range(30):
                n, start, count = row - column, 0, buckets
                if both:
                    count //= 2
                    start, n = (count if n < 0 else 0), abs(n)
                n, exact = max(n, 0), count // 2
                if n >= exact:
                    ratio = np.log(n / exact) / np.log(most / exact)
                    n = min(exact + int(ratio * (count - exact)), count - 1)
                rows.append(start + n)
        wants = [table[rows].T.reshape(1, heads, 30, 30)]
        options = {"max_distance": most, "is_bidirectional": both}
        length = np.array([30])
        case = Case(op, [table, length, length], wants, options, (1, 2), {}, runtime=False)
        yield f"{op} {both}", case


def hashed(
    ids: Array, before: Array, factors: Array, sizes: Array, heads: int, end: int, cuts: Array
) -> Array:
    """The hashes of one sequence's tokens; `cuts` are the segments of all, those before too."""
    room, whole = len(before), np.concatenate([before, ids])
    out = []
    for place in range(room, len(whole)):
        mixed, away, row = whole[place] * factors[0], False, []
        for k in range(1, room + 1):
            away |= bool(whole[place - k] == end or cuts[place - k] != cuts[place - k + 1])
            mixed = mixed ^ ((end if away else whole[place - k]) * factors[k])
            row.append(mixed % sizes[(k - 1) * heads : k * heads])
        out.append(np.concatenate(row))
    return np.array(out)


def ngrams() -> Iterator[tuple[str, Case]]:
    draw, count, heads = np.random.default_rng(4), 3, 2
    factors, sizes = np.array([7, -11, 101]), np.array([13, 17, 19, 23])
    offsets, end = np.array([0, 13, 30, 49]), np.array(3)
    ids, past = draw.integers(0, 6, (2, 7)), draw.integers(0, 6, (2, 2))
    parts = np.sort(draw.integers(0, 3, (2, 7)), 1).astype(np.int32)
    told = {"max_ngram_size": count, "n_head_per_ngram": heads, "pad_id": 1, "reset_on_eos": 1}
    known = [np.concatenate([p[:1], p[:1], p]) for p in parts]
    rows = [
        hashed(i, p, factors, sizes, heads, 3, c) for i, p, c in zip(ids, past, known, strict=True)
    ]
    inputs = [ids, factors, sizes, past, offsets, end, parts]
    wants = [np.array(rows) + offsets, np.concatenate([past, ids], 1)[:, -2:]]
    op = f"{OP}NGramHashMapping"
    yield op, Case(op, inputs, wants, told, (), {2: "batch", 7: "steps"})
    small, *plain = (x.astype(np.int32) for x in (ids, factors, sizes))
    none = np.ones((2, 2), np.int32)
    still = np.zeros(9, int)
    rows = [
        hashed(i, n, plain[0], plain[1], heads, -1, still) for i, n in zip(small, none, strict=True)
    ]
    wants = [np.array(rows), small[:, -2:]]
    yield (
        f"{op} plain",
        Case(op, [small, *plain], wants, {**told, "reset_on_eos": 0}, (), {2: "batch"}),
    )
    op, bounds = f"{OP}VarlenNGramHashMapping", numbers(0, 1, 5, 9)
    ids, past = draw.integers(0, 6, 9), draw.integers(0, 6, (3, 2))
    parts, before = (np.sort(draw.integers(0, 3, n)).astype(np.int32) for n in (9, 6))
    before = before.reshape(3, 2)
    rows, kept, last = [], [], []
    for k in range(3):
        own = slice(bounds[k], bounds[k + 1])
        cuts = np.concatenate([before[k], parts[own]])
        rows.append(hashed(ids[own], past[k], factors, sizes, heads, 3, cuts))
        kept.append(np.concatenate([past[k], ids[own]])[-2:])
        last.append(cuts[-2:])
    packed = [ids, factors, sizes, bounds, past, None, end, parts, before]
    wants = [np.concatenate(rows), np.array(kept), np.array(last)]
    yield op, Case(op, packed, wants, told, (), {9: "tokens", 4: "bounds", 3: "requests"})


CASES = {
    name: case
    for family in (caches, blocks, words, streams, gates, distances, ngrams)
    for name, case in family()
}


@in_forms(CASES)
def test_as_numpy_has_it(case: Case, free: bool) -> None:
    check(case, free)


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime_has_it(name: str) -> None:
    check_runtime(CASES[name])
