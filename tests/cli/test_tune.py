"""`minicc tune`: its file, what takes it, and what a search does with times."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import minicc
from minicc.cli import commands
from minicc.cli import tune as command
from minicc.cli.tune import _parts
from minicc.compile import tuning
from minicc.options import Options

MODEL = str(Path(__file__).parents[2] / "examples" / "01_digits" / "digits.onnx")


def invoke(*args: str) -> Result:
    return CliRunner().invoke(commands, args, catch_exceptions=False)


@pytest.fixture
def always_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each candidate takes half of the time: the outcome does not depend on a machine's load."""

    def turns(a: Any, b: Any, count: int) -> list[Any]:
        before, after = a.once(), b.once()
        found = {key: [1.0] * len(times) for key, times in before.items()}
        halved = {key: [0.5] * len(times) for key, times in after.items()}
        return [(found, halved)] * count

    monkeypatch.setattr(tuning, "_in_turns", turns)
    monkeypatch.setattr(command, "measured", lambda runs, seconds: {"own": [1.0], "tuned": [0.5]})


@pytest.mark.usefixtures("always_better")
def test_its_file_is_taken_and_keeps_every_bit(tmp_path: Path) -> None:
    file = str(tmp_path / "digits.schedules")
    found = invoke("tune", MODEL, "--minutes", "0.02", "-o", file, "--threads", "1", "--json")
    assert found.exit_code == 0, found.stdout
    told = json.loads(found.stdout)
    assert told["file"] == file
    assert told["tried"] > 0
    assert told["groups"]
    assert told["model_ms"].keys() == {"own", "tuned"}
    text = Path(file).read_text()
    assert text.count(" = schedule<") == len(told["groups"])
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 8)).astype(np.float32)
    own, tuned = (
        minicc.InferenceSession(MODEL, options=Options(schedules=schedules)).run(None, {"image": x})
        for schedules in ("", text)
    )
    assert all(a.tobytes() == b.tobytes() for a, b in zip(own, tuned, strict=True))
    for name, *more in (("run",), ("bench", "--seconds", "0.01"), ("compile", "--schedules")):
        assert invoke(name, MODEL, "--schedule", file, *more).exit_code == 0
    printed = invoke("compile", MODEL, "--schedule", file, "--schedules").stdout
    assert all(line in printed for line in text.splitlines() if not line.startswith("//"))


def search(told: Callable[[int, int], None], seconds: float = 60.0) -> tuning.Found:
    options = Options(threads=1)
    x = np.zeros((1, 1, 8, 8), np.float32)
    return tuning.tune(_parts(MODEL, {}, {"image": x}, options), options, seconds, told)


@pytest.mark.usefixtures("always_better")
def test_an_interrupt_keeps_what_was_found() -> None:
    def told(rounds: int, better: int) -> None:
        if rounds == 2:
            raise KeyboardInterrupt

    found = search(told)
    assert found.gains
    assert not found.ended
    assert all(gain.tuned < gain.own for gain in found.gains)


def test_no_time_is_a_file_without_schedules() -> None:
    found = search(lambda rounds, better: None, 0.0)
    assert found.text() == ""
    assert found.seconds > 0


@pytest.mark.parametrize(
    ("times", "faster"),
    [
        ([(1.0, 0.9)] * 8, True),
        ([(1.0, 0.99)] * 8, False),  # within the noise
        ([(1.0, 0.9)] * 4 + [(1.0, 1.1)] * 4, False),  # not in most turns
        ([(9.0, 0.95)] * 7 + [(0.9, 1.0)], False),  # only because another was disturbed
    ],
)
def test_beyond_the_noise(times: list[tuple[float, float]], faster: bool) -> None:
    assert tuning._is_faster(times) == faster


@pytest.mark.usefixtures("always_better")
def test_what_changes_a_bit_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning._Programs, "same_bits", lambda self, other: False)

    def told(rounds: int, better: int) -> None:
        if rounds == 2:
            raise KeyboardInterrupt

    assert search(told).gains == ()


def test_a_program_has_its_schedules(tmp_path: Path) -> None:
    program = str(tmp_path / "digits.mcp")
    assert invoke("compile", MODEL, "-o", program).exit_code == 0
    assert invoke("tune", program).exit_code == 2
    file = tmp_path / "some.schedules"
    file.write_text('"Conv_0" = schedule<grid = []>\n')
    for name in ("run", "bench"):
        assert invoke(name, program, "--schedule", str(file)).exit_code == 2
