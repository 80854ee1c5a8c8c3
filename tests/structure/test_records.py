"""Each layer has one record of what it mirrors, complete, and true of our own files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_cli import MODEL, invoke, misuse

from minicc.compile.compiler import STAGES
from minicc.ir.levels import LEVELS
from minicc.records import HERE, Record, record_of, records

FOLDERS = ("passes", "runtime", "backends")  # whose modules all belong to a record


def modules_of(entry: str) -> Iterator[Path]:
    """The modules that a file or a folder in a record stands for."""
    place = HERE / entry
    return iter(place.rglob("*.py") if entry.endswith("/") else [place])


@pytest.mark.parametrize("record", records(), ids=lambda r: r.home)
def test_a_record_is_complete(record: Record) -> None:
    assert 1 <= len(record.mirrors) <= 3
    for mirror in record.mirrors:
        assert all(getattr(mirror, name).strip() for name in mirror.__slots__), mirror
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", mirror.repository)
        assert re.fullmatch(r"[0-9a-f]{10}|v\d+(\.\d+)+", mirror.version)
        assert re.fullmatch(r"[\w./-]+\.\w+", mirror.path)
    assert len({m.system for m in record.mirrors}) == len(record.mirrors)
    for sentence in (record.differs, record.beyond):
        assert re.fullmatch(r"[A-Z].*[^.]\.", sentence)
        assert ". " not in sentence
    for entry in (record.home, *record.files):
        assert (HERE / entry).exists(), entry


def test_each_module_belongs_to_one_record() -> None:
    leads = Counter(record.home for record in records())
    assert max(leads.values()) == 1
    named = Counter(f for r in records() for f in (r.home, *r.files) if not f.endswith("/"))
    assert max(named.values()) == 1
    known = {path for r in records() for f in (r.home, *r.files) for path in modules_of(f)}
    found = {p for folder in FOLDERS for p in (HERE / folder).rglob("*.py")}
    left = sorted(str(p.relative_to(HERE)) for p in found - known if p.name != "__init__.py")
    assert not left, f"no record in records.toml has {left}"


def test_stages_dialects_and_front_ends_have_records() -> None:
    for stage in STAGES:
        assert record_of(stage.home).part.startswith("passes ")
    for name in ("graph", "structured", "kernel", "program"):
        assert name in LEVELS
        assert record_of(f"minicc.ir.{name}").part == "dialects"
    for name in ("frontends.onnx", "frontends.trace", "runtime.execute", "ir.affine", "ir.space"):
        assert record_of(f"minicc.{name}").mirrors


def test_no_docstring_says_it_a_second_time() -> None:
    found = [p for p in HERE.rglob("*.py") if re.search(r"^\W*Mirrors:", p.read_text(), re.M)]
    assert not found


def test_a_record_is_shown_wherever_a_level_is(tmp_path: Path) -> None:
    head = record_of("minicc.passes.structured.fuse").head()
    assert head.startswith("// mirrors IREE: FormDispatchRegions; ")
    assert max(map(len, head.splitlines())) <= 100
    emitted = invoke("compile", MODEL, "--stop-after", "fuse", "--emit", "structured").stdout
    assert head in emitted
    assert head in invoke("compile", MODEL, "--print-after", "fuse").stdout
    assert invoke("compile", MODEL, "--dump", str(tmp_path)).exit_code == 0
    for file, stage in zip(sorted(tmp_path.glob("*.mcc")), STAGES, strict=True):
        assert record_of(stage.home).head() in file.read_text()
    merged = str(tmp_path / "14-merge.mcc")
    assert head in invoke("opt", merged, "--passes", "fuse").stdout
    machine = invoke("compile", MODEL, "--emit", "llvm").stdout
    assert machine.startswith("; mirrors Inductor: ")
    shown = " ".join(invoke("layers").stdout.split())
    for record in records():
        assert record.differs in shown
        assert record.beyond in shown


def test_layers_of_one_system() -> None:
    shown = invoke("layers", "--system", "halide").stdout
    assert "lower_impl" in shown
    assert "FormDispatchRegions" not in shown
    assert "systems: Dynamo" in misuse("layers", "--system", "gcc")
