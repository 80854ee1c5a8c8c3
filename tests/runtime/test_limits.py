"""How many threads run, and whether they spin: options, control groups, little work."""

import threading
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.native import Array, running

import minicc
from minicc import target
from minicc.errors import UserError
from minicc.options import Options
from minicc.runtime import execute
from minicc.runtime.threads import Team


def test_spin_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Options().spin
    assert not Options(spin=False).spin
    assert Options(spin=False) != Options(spin=True)
    monkeypatch.setenv("MINICC_SPIN", "0")
    assert not Options().spin
    assert Options(spin=True).spin
    assert not Options(spin=False).replace(threads=1).spin
    monkeypatch.setenv("MINICC_SPIN", "maybe")
    with pytest.raises(UserError, match="MC0101"):
        Options()
    with pytest.raises(UserError, match="spin is 1, and must be True or False"):
        Options(spin=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("spin", [True, False])
def test_sessions_run_with_and_without_spinning(spin: bool) -> None:
    x = np.random.default_rng(0).standard_normal((300, 64)).astype(np.float32)
    w = np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32)

    def layer(x: Array) -> Array:
        return np.tanh(x @ w)

    one = minicc.jit(layer, threads=1)(x)
    several = minicc.jit(layer, options=Options(threads=2, spin=spin))
    for _ in range(50):
        assert several(x).tobytes() == one.tobytes()


def test_little_work_starts_no_thread() -> None:
    before = running()
    add = minicc.jit(lambda x: x + 1, threads=4)
    assert add(np.zeros(1000, np.float32)).sum() == 1000
    assert running() == before


def test_no_more_threads_than_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def take(threads: int, *rest: object) -> Team:
        asked.append(threads)
        return Team(threads)

    monkeypatch.setattr(execute, "take_team", take)
    monkeypatch.setattr(execute, "usable_processors", lambda: 3)
    x = np.ones((1000, 1000), np.float32)
    for threads in (1, 3, 64):
        assert minicc.jit(lambda x: np.exp(x) + 1, threads=threads)(x).shape == x.shape
    assert asked == [3, 3]  # one thread takes no team


def test_threads_of_several_sessions_at_once() -> None:
    """Callers in one function, in threads of their own, each with workers."""
    w = np.random.default_rng(1).integers(-9, 9, (64, 128)).astype(np.float32)
    layer = minicc.jit(lambda x: np.maximum(x @ w, 0), threads=2)
    good: list[bool] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).integers(-9, 9, (200, 64)).astype(np.float32)
        good.extend(np.array_equal(layer(x), np.maximum(x @ w, 0)) for _ in range(50))

    callers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert good == [True] * 300


def _group(folder: Path, name: str, **files: str) -> None:
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (place / file.replace("__", ".")).write_text(text)


def test_the_quota_of_a_group_and_of_those_above(tmp_path: Path) -> None:
    own, mount = tmp_path / "self", tmp_path / "cgroup"
    _group(mount, "", cpu__max="max 100000")
    _group(mount, "outer", cpu__max="150000 100000")
    _group(mount, "outer/inner", cpu__max="400000 100000")
    own.write_text("0::/outer/inner\n")
    assert target.cpu_quota(str(own), str(mount)) == 1.5
    own.write_text("0::/elsewhere/unseen\n")
    assert target.cpu_quota(str(own), str(mount)) > 1000
    _group(mount, "", cpu__max="250000 100000")
    assert target.cpu_quota(str(own), str(mount)) == 2.5


def test_the_quota_of_the_first_version(tmp_path: Path) -> None:
    own, mount = tmp_path / "self", tmp_path / "cgroup"
    own.write_text("5:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/job\n0::/job\n")
    assert target.cpu_quota(str(own), str(mount)) > 1000
    _group(mount, "cpu,cpuacct/job", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    assert target.cpu_quota(str(own), str(mount)) > 1000
    _group(mount, "cpu,cpuacct", cpu__cfs_quota_us="50000", cpu__cfs_period_us="100000")
    assert target.cpu_quota(str(own), str(mount)) == 0.5


def test_a_quota_bounds_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_allowed", lambda: range(4))
    for quota, cores, processors in ((0.5, 1, 1), (1.5, 1, 2), (3.0, 3, 3), (100.0, 4, 4)):
        monkeypatch.setattr(target, "cpu_quota", lambda quota=quota: quota)
        assert target.usable_processors() == processors
        assert target.usable_cores() <= cores
