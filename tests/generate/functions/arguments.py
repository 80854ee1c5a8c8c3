"""The arguments that drawn functions are called with, as texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.generate.functions.program import Call
from tests.generate.source import Array, Source

_SIZES = (1, 2, 3, 4, 5, 5, 6, 7)
_LARGER = (*_SIZES, 8, 9, 16, 17, 33)
_SIZE_OF_CALL = (0, 0, 1, 0, 2, 3)
_DTYPES = ("f8", "f8", "f8", "f8", "f4", "f4", "i8", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8",
           "?", "?", "f2", "c16", "c8", "c16")  # fmt: skip
_SHAPES = ("n", "n", "n", "n", "m", "nm", "nm", "nn", "nn", "mn", "2nm", "1m", "n1", "", "3", "23")
_LAYOUTS = ("{}", "{}", "{}", "{}", "{}", "np.asfortranarray({})", "np.repeat({}, 2, -1)[..., ::2]",
            "{}[::-1]", "np.ascontiguousarray({}.T).T")  # fmt: skip
_FIELDS = ("[('a', 'f8'), ('b', 'i4'), ('s', 'S3')]", "[('a', 'f4', (2,)), ('b', 'u1')]",
           "np.dtype([('b', '?'), ('a', 'f8'), ('d', 'M8[D]')], align=True)",
           "[('a', [('b', 'i2'), ('c', 'c8')]), ('b', 'i8')]")  # fmt: skip
_OTHERS = ("rec", "rec", "day", "txt")
_SHARED = ("X", "X.T", "X", "X[::-1]", "X[1:]")  # what of the first array another one is
_SETUPS = ("H[:] = [3.0, -1.0]", "LOG.append(1)", "SEEN['a'] = 2", "Model.scale = 0.25",
           "globals()['H'] = np.array([0.5, 1.0, 2.0])", "H.resize(3, refcheck=False)")  # fmt: skip
_WORDS = ("", "a", "ab", "B2", "xyz", "3", "-1.5")


def calls_of(source: Source) -> tuple[Call, ...]:
    """Calls of other data, other sizes, other numbers; at times the last ones of other types."""
    count = source.pick((1, 2, 2, 3, 3, 4))
    common = source.pick(_DTYPES) if source.chance(0.5) else None
    specs = []
    for name in "xyuw"[:count]:
        shape = source.pick(_SHAPES)
        layout = source.pick(_LAYOUTS) if shape else "{}"
        specs.append((name, common or source.pick(_DTYPES), shape, layout))
    others = [name for name in "snbpdlm" if source.chance(0.2)]
    if source.chance(0.15):
        others += sorted({source.pick(_OTHERS), source.pick(_OTHERS)})
    fields, unit = source.pick(_FIELDS), source.pick(("D", "h", "ns"))
    sizes = [(source.pick(of), source.pick(of)) for of in (_SIZES, _SIZES, _LARGER, _LARGER)]
    if source.chance(0.03):
        sizes[1] = (0, sizes[1][1])
    special, turns = source.chance(0.15), source.chance(0.15)
    shared = source.count(1, 5) if count > 1 and source.chance(0.06) else 0
    setup = source.pick(_SETUPS) if source.chance(0.1) else "pass"
    calls = []
    numbers = [_numbers(source) for _ in range(2)]
    for k, size in enumerate(_SIZE_OF_CALL):
        if turns and k > 3:
            specs = [(*spec[:1], source.pick(_DTYPES), *spec[2:]) for spec in specs]
        arrays = [(name, _array_text(source, dtype, _extents(shape, sizes[size]), special), lay)
                  for name, dtype, shape, lay in specs]  # fmt: skip
        given = [(name, lay.format(text)) for name, text, lay in arrays]
        if k == shared > 0:
            given[:2] = [
                ("x", f"(X := {given[0][1]})"),
                ("y", source.pick(_SHARED[: 5 if specs[0][2] else 2])),
            ]
        number = numbers[k == 3]
        first = arrays[0][1]
        made = {
            **number,
            "d": f'{{"p": {first}, "q": {number["s"]}}}',
            "l": f"[{first}, {arrays[-1][1]}]",
            "m": f"Model({first}, {number['n']})",
            "rec": _records(source, fields, sizes[size][0]),
            "day": _days(source, unit, sizes[size][0]),
            "txt": f"np.array({source.rng.choice(_WORDS, sizes[size][0]).tolist()}, 'U5')",
        }
        given += [(name, made[name]) for name in others]
        calls.append(Call(tuple(given), "3.0" if k == 3 else "2.0", setup if k == 4 else "pass"))
    return tuple(calls)


def _numbers(source: Source) -> dict[str, str]:
    scalar = source.pick(
        ("np.float32(1.5)", "np.int64(3)", "np.float64(-0.5)", "1.25", "np.int8(2)")
    )
    return {
        "s": repr(source.pick((0.5, -1.5, 2.0, 0.25, 3.0))),
        "n": repr(source.count(0, 4)),
        "b": repr(source.chance(0.5)),
        "p": scalar,
    }


def _records(source: Source, fields: str, count: int) -> str:
    """Records whose numbers are whole."""
    return f"filled(np.zeros({count}, {fields}), {source.rng.integers(-5, 9, count).tolist()})"


def _days(source: Source, unit: str, count: int) -> str:
    days: list[Any] = source.rng.integers(-400, 20000, count).tolist()
    if days and source.chance(0.2):
        days[-1] = "NaT"
    return f"np.array({days}, 'M8[D]').astype('M8[{unit}]')"


def _extents(shape: str, sizes: tuple[int, int]) -> tuple[int, ...]:
    known = {"n": sizes[0], "m": sizes[1]}
    return tuple([known[c] if c in known else int(c) for c in shape])


def _array_text(source: Source, dtype: str, shape: tuple[int, ...], special: bool) -> str:
    a = _elements(source, np.dtype(dtype), shape, special)
    text = f"np.array({a.tolist()}, {dtype!r})"
    if a.size == 0:
        text += f".reshape({shape})"
    return text


def _elements(source: Source, dtype: Any, shape: tuple[int, ...], special: bool) -> Array:
    """Elements that are exact in sums and products; at times special ones."""
    whole = source.rng.integers(-6, 13, (2, *shape))
    if dtype.kind == "b":
        return np.asarray(whole[0] > 3)
    if dtype.kind == "c":
        return np.asarray((whole[0] + 1j * whole[1]) / 2).astype(dtype)
    if dtype.kind == "f":
        a = whole[0] / 2
        if special:
            values = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0])
            a = np.where(source.rng.random(shape) < 0.2, source.rng.choice(values, shape), a)
        return np.asarray(a).astype(dtype)
    if special:
        return source.array(shape, np.dtype(dtype), special=1.0)
    return np.asarray(np.maximum(whole[0], 0) if dtype.kind == "u" else whole[0]).astype(dtype)
