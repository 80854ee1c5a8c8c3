"""The container of a compiled program: what is written is read; what is damaged is refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minicc
from minicc.backends import layout
from minicc.errors import UserError
from minicc.ir import affine
from minicc.ir.mapped import DataFile
from minicc.ir.text.extents import dim_of, spelled
from minicc.runtime import container
from minicc.runtime.container import _HEAD, _HEADER, MAGIC, Header, Place, places_of, read, write
from minicc.runtime.direct_code import DIRECT_IR
from minicc.runtime.entry import ENTRY_IR

RANDOM = np.random.default_rng(0)
ARRAYS: list[np.ndarray[Any, Any]] = [
    RANDOM.standard_normal((7, 33)).astype(np.float32),
    RANDOM.integers(0, 9, 5),
    np.zeros((0, 4), np.float16),
    RANDOM.standard_normal(40_000),
]
NAMES = ["f32", "i64", "f16", "f64"]
CODE = bytes(range(256)) * 3


def written(text: str = "level 3") -> bytes:
    file = io.BytesIO()
    write(file, "avx2", {"key": [1, "a"]}, CODE, ARRAYS, text)
    return file.getvalue()


DATA = written()
HEADER = Header(*_HEADER.unpack_from(DATA))


@pytest.mark.parametrize("how", ["file", "bytes"])
def test_what_is_written_is_read(tmp_path: Path, how: str) -> None:
    path = tmp_path / "p.mcp"
    path.write_bytes(DATA)
    found = read(str(path) if how == "file" else DATA)
    assert (found.target, found.code, found.text()) == ("avx2", CODE, "level 3")
    assert found.manifest["key"] == [1, "a"]
    found.check()
    for place, want in zip(places_of(ARRAYS, NAMES), ARRAYS, strict=True):
        got = found.array(place)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
        assert not got.flags.writeable
        assert not got.size or not got.ctypes.data % 64
        base = got
        while isinstance(base.base, np.ndarray):
            base = base.base
        mapped = isinstance(base.base, memoryview) and isinstance(base.base.obj, DataFile)
        assert mapped == (how == "file") or not got.size


def test_a_text_is_there_or_not() -> None:
    assert read(written("")).text() == ""
    assert read(written("äß" * 1000)).text() == "äß" * 1000


def refused(data: bytes) -> str:
    with pytest.raises(UserError) as caught:
        read(data)
    assert caught.value.code in ("MC0160", "MC0161")
    return caught.value.code


def test_every_byte_that_decides_is_checked() -> None:
    end = HEADER.code + HEADER.code_size
    for at in [*range(_HEAD), *random.Random(0).sample(range(_HEAD, end), 200)]:
        for bits in (1, 0x80, 0xFF):
            flipped = bytearray(DATA)
            flipped[at] ^= bits
            refused(bytes(flipped))


@pytest.mark.parametrize("field", Header._fields[3:])
def test_every_field_of_the_header_is_checked(field: str) -> None:
    old = getattr(HEADER, field)
    values = [b"other"] if isinstance(old, bytes) else [old + 1, old - 1, 0, 1 << 62, 2**64 - 1]
    for value in values:
        if value in (old, -1):
            continue
        changed: dict[str, Any] = {field: value}
        head = _HEADER.pack(*HEADER._replace(**changed))
        refused(head + DATA[len(head) :])


def test_a_cut_or_longer_file_is_refused() -> None:
    for size in (0, 3, len(MAGIC), _HEAD - 1, _HEAD, HEADER.code, HEADER.constants, len(DATA) - 1):
        assert refused(DATA[:size]) == "MC0160"
    assert refused(DATA + b"\0") == "MC0160"


def test_damaged_constants_are_found_when_asked() -> None:
    for at in (HEADER.constants, len(DATA) - 1):
        flipped = bytearray(DATA)
        flipped[at] ^= 4
        found = read(bytes(flipped))
        with pytest.raises(UserError, match=r"MC0160.*constants"):
            found.check()


def test_a_damaged_text_is_told() -> None:
    flipped = bytearray(DATA)
    flipped[HEADER.text + 3] ^= 0xFF
    with pytest.raises(UserError, match=r"MC0160.*text"):
        read(bytes(flipped)).text()


@pytest.mark.parametrize(
    "place",
    [
        Place(0, "f32", (1 << 40,)),
        Place(-128, "f32", (1,)),
        Place(64, "f32", (1,)),
        Place(1 << 40, "u8", (1,)),
        Place(0, "i64", (1 << 31, 1 << 31, 1 << 31)),
        Place(0, "i64", (-1,)),
    ],
)
def test_no_constant_lies_outside(place: Place) -> None:
    with pytest.raises(UserError, match=r"MC0160"):
        read(DATA).array(place)


def test_a_file_of_another_version_is_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "VERSION", "9.9.9")
    newer = written()
    monkeypatch.undo()
    with pytest.raises(UserError, match=r"MC0161.*compiled by minicc 9\.9\.9") as caught:
        read(newer)
    assert "compile the model again" in caught.value.hint
    monkeypatch.setattr(container, "FORMAT", container.FORMAT + 1)
    assert refused(DATA) == "MC0161"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mcp")
    (tmp_path / "folder.mcp").mkdir()
    for name in ("pipe.mcp", "folder.mcp", "absent.mcp"):
        with pytest.raises(UserError, match=r"MC016[02]"):
            minicc.InferenceSession(str(tmp_path / name))
    (tmp_path / "empty.mcp").write_bytes(b"")
    (tmp_path / "text.mcp").write_text("hello")
    for name in ("empty.mcp", "text.mcp"):
        with pytest.raises(UserError, match=r"MC0160.*does not begin like one"):
            minicc.InferenceSession(str(tmp_path / name))


def test_a_manifest_that_says_nothing_is_the_users_error(tmp_path: Path) -> None:
    said: list[Any] = [None, 3, {"inputs": [[]]}, {"other": 1}]
    for manifest in ({}, *({"facts": f} for f in said)):
        file = io.BytesIO()
        write(file, "avx2", json.loads(json.dumps(manifest)), b"", [])
        with pytest.raises(UserError, match=r"MC0160.*its manifest is wrong"):
            minicc.InferenceSession(file.getvalue())


def test_dimensions_are_read_as_they_are_spelled() -> None:
    n, odd = affine.symbol("n"), affine.symbol("we ird'\\{")
    dims = [
        *(7, 0, n, n * 3 + 64, n * -2, odd, 3 * odd - n * n * 2 - 7, affine.symbol("min")),
        *((n + 5) // 4 + n % 3 * 2, ((n + 1) // 2) // 3, ((n + 1) // 2) * ((odd + 3) % 5) * 2),
        *(affine.floordiv(n + 5, odd) * n, affine.mod(n, odd * n - 1)),
        *(affine.minimum(n - 4, odd * n) * odd + 1, affine.minimum(n, 3) // 2 * 5 - 1),
    ]
    for dim in dims:
        assert dim_of(json.loads(json.dumps(spelled(dim)))) == dim
    for bad in ("", "n n", "3+", "(n", "n floordiv 0", "n mod 0", "$", None, 1.5, True, "min(n)"):
        with pytest.raises(ValueError, match=r"."):
            dim_of(bad)


def test_the_format_is_raised_with_the_table_and_the_entry() -> None:
    """Files hold the machine code of both, so that those of another build must be refused.

    Where this fails, raise `FORMAT` by one, and put down what is found.
    """
    slots = [layout.ARENA, layout.TEAM, layout.STATUS, layout.WATCH]
    slots += [layout.MAIN, layout.ARRAYS, layout.BRIEF, layout.FIRST, layout.WORDS]
    told = repr((tuple(slots), layout.Layout._fields, ENTRY_IR + DIRECT_IR))
    found = hashlib.sha256(told.encode()).hexdigest()[:16]
    assert (container.FORMAT, found) == (9, "6a26395d0883332f")
