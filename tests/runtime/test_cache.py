"""The store on disk: damage, two writers, eviction, folders that can't be used."""

import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from minicc.runtime.cache import Cache, key

KEY = "0" * 64


def files(folder: Path) -> list[Path]:
    """The entries."""
    return sorted(path for path in folder.iterdir() if path.name != "tally")


def test_what_is_put_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    Cache(folder).put(KEY, b"code")
    assert Cache(folder).get(KEY) == b"code"
    assert Cache(folder).get("1" * 64) is None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in files(folder)] == [0o600]


def test_empty_bytes_are_an_entry(tmp_path: Path) -> None:
    Cache(tmp_path).put(KEY, b"")
    assert Cache(tmp_path).get(KEY) == b""


@pytest.mark.parametrize("damage", ["flip", "cut", "lengthen", "empty", "head"])
def test_a_damaged_entry_is_missing_and_rebuilt(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, bytes(range(256)))
    path = tmp_path / KEY
    entry = path.read_bytes()
    path.write_bytes(
        {
            "flip": entry[:100] + bytes([entry[100] ^ 1]) + entry[101:],
            "cut": entry[:-1],
            "lengthen": entry + b"x",
            "empty": b"",
            "head": b"MINICC" + entry[6:],
        }[damage]
    )
    assert cache.get(KEY) is None
    cache.put(KEY, b"again")
    assert cache.get(KEY) == b"again"


def test_a_key_depends_on_every_part() -> None:
    keys = {
        key("1", "object", "avx2", "text"),
        key("2", "object", "avx2", "text"),
        key("1", "assembly", "avx2", "text"),
        key("1", "object", "x86-64", "text"),
        key("1", "object", "avx2", "texts"),
        key("1o", "bject", "avx2", "text"),
        key("1", "object", "avx2", "te", "xt"),
    }
    assert len(keys) == 7
    assert key("1", "object", "avx2", "text") == key("1", "object", "avx2", b"text")


def write_often(folder: Path, mark: int, size: int) -> None:
    cache = Cache(folder)
    for _ in range(200):
        cache.put(KEY, bytes([mark]) * size)


def test_two_processes_may_write_one_entry(tmp_path: Path) -> None:
    sizes = {1: 50_000, 2: 70_001}
    spawn = multiprocessing.get_context("spawn")
    writers = [
        spawn.Process(target=write_often, args=(tmp_path, mark, size))
        for mark, size in sizes.items()
    ]
    for writer in writers:
        writer.start()
    seen: set[int] = set()
    while any(writer.is_alive() for writer in writers):
        # Once there, always there and whole.
        entry = Cache(tmp_path).get(KEY)
        assert entry is not None or not seen
        if entry is not None:
            assert entry == bytes([entry[0]]) * sizes[entry[0]]
            seen.add(entry[0])
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert seen
    assert [path.name for path in files(tmp_path)] == [KEY]


def test_the_least_recently_used_are_evicted(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=10_000)
    for number in range(9):
        cache.put(str(number), bytes(1000))
        os.utime(tmp_path / str(number), (number, number))
    cache.get("0")
    cache.put("9", bytes(1000))
    left = {path.name for path in files(tmp_path)}
    assert {"0", "9"} <= left
    assert "1" not in left
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 10_000


def test_entries_are_counted_once_for_many_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    scan = os.scandir

    def count(folder: str) -> Any:
        counted.append(folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", count)
    for number in range(8):
        Cache(tmp_path, limit=10_000).put(str(number), bytes(1000))
    assert len(counted) == 1
    Cache(tmp_path, limit=5_000).put("8", bytes(1000))
    assert len(counted) == 2
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 5_000
    for damaged in ("", "0 0\n", "x", f"{2 << 40} 1\n", "1" * 5000):
        (tmp_path / "tally").write_text(damaged)
        del counted[:]
        Cache(tmp_path, limit=5_000).put("9", bytes(100))
        assert counted
        assert len((tmp_path / "tally").read_text().split()) == 2


def test_an_entry_beyond_the_limit_is_not_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=1000)
    cache.put(KEY, bytes(1000))
    assert cache.get(KEY) is None


def test_leftovers_of_dead_writers_are_removed(tmp_path: Path) -> None:
    old, new = tmp_path / ".old.1.2", tmp_path / ".new.1.2"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    Cache(tmp_path).put(KEY, b"code")
    assert [path.name for path in files(tmp_path)] == [".new.1.2", KEY]


def test_a_folder_that_cannot_be_made_only_disables(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = Cache(tmp_path / "file" / "cache")
    with pytest.warns(RuntimeWarning, match="MINICC_CACHE_DIR"):
        cache.put(KEY, b"code")
    # A second warning would be an error here.
    cache.put(KEY, b"code")
    assert cache.get(KEY) is None


def test_a_folder_that_vanishes_only_disables(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    cache = Cache(folder)
    assert cache.get(KEY) is None
    folder.rmdir()
    with pytest.warns(RuntimeWarning, match="can't write"):
        cache.put(KEY, b"code")
    assert cache.get(KEY) is None


def test_a_folder_open_to_others_is_not_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="other users"):
        Cache(tmp_path).put(KEY, b"code")
    assert files(tmp_path) == []


def test_no_folder_keeps_nothing() -> None:
    cache = Cache(None)
    cache.put(KEY, b"code")
    assert cache.get(KEY) is None
