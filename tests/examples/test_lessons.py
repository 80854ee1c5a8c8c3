"""Every lesson runs, and prints what the `expected.txt` beside it says.

`pytest tests/examples --update` writes these anew; read the difference before it is committed. The
first lesson prints rounding errors and the eighth one residuals, so these two have no such file.
Times differ from run to run, and are left out of what is compared.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "examples").glob("*/run.py"))
TIME = re.compile(r"\d+\.\d+ ms")
UNCHECKED = {"01_digits", "08_graph_break"}


def test_lessons_are_numbered_without_gaps() -> None:
    numbers = [int(lesson.parent.name.partition("_")[0]) for lesson in LESSONS]
    assert numbers == list(range(1, len(LESSONS) + 1))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.parent.name)
def test_a_lesson_prints_what_is_expected(lesson: Path, request: pytest.FixtureRequest) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("MINICC_")}
    env |= {"MINICC_CACHE_DIR": "off", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, str(lesson)], env=env, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    if lesson.parent.name in UNCHECKED:
        return
    printed = TIME.sub("... ms", done.stdout)
    expected = lesson.with_name("expected.txt")
    if request.config.getoption("--update"):
        expected.write_text(printed, encoding="utf-8")
    assert printed == expected.read_text(encoding="utf-8")
