"""Failing cases as files: the model, its inputs, and a line that says how to run it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from tests.generate.draft import Case
from tests.generate.functions.program import Program
from tests.generate.oracle import Finding


def write_case(folder: Path, case: Case, seed: int, findings: list[Finding]) -> Path:
    """Write a shrunk case below a folder; the file of its model."""
    place = folder / f"model-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    path = place / "model.onnx"
    onnx.save(case.model(), path)
    for name, array in case.feeds().items():
        np.save(place / f"{name}.npy", array)
    lines = [
        *(f"{f.kind} ({f.who}): {f.text}" for f in findings),
        "",
        f"the seed: python -m tests.generate seed {seed}",
        f"this file: minicc verify {path} "
        + " ".join(f"--input {name}=@{place}/{name}.npy" for name in case.feeds()),
    ]
    (place / "finding.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_damaged(folder: Path, data: bytes, seed: int, text: str) -> Path:
    """Write a hostile file below a folder, with what it did."""
    place = folder / f"hostile-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    path = place / "model.onnx"
    path.write_bytes(data)
    line = f"{text}\n\nthe seed: python -m tests.generate hostile-seed {seed}\n"
    (place / "finding.txt").write_text(line, encoding="utf-8")
    return path


def write_program(folder: Path, program: Program, seed: int, found: list[str]) -> Path:
    """Write a shrunk function below a folder as a script; its file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"function-{seed}.py"
    told = "".join(f"# {line}\n" for text in found for line in text.splitlines())
    path.write_text(told + program.script(), encoding="utf-8")
    return path
