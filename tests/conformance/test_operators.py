"""`minicc ops`: the table of operators, the page of the documentation, and what they come from.

That the record is what happens is tested where the backend tests run.
"""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import defs
from tests.cli.test_cli import invoke

from minicc.frontends.onnx.catalogue import (
    Verified,
    operators,
    parsed,
    record,
    recorded_version,
    summary,
)

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


SAME = pytest.mark.skipif(
    onnx.__version__ != recorded_version(), reason=f"recorded with onnx {recorded_version()}"
)


@SAME
def test_the_page_is_what_the_command_prints() -> None:
    """After a change: `minicc ops --markdown > docs/operators.md`."""
    assert PAGE.read_text(encoding="utf-8") == invoke("ops", "--markdown").stdout


@SAME
def test_each_operator_of_onnx_has_a_row_for_each_version() -> None:
    rows = {(row.operator, row.version): row for row in operators()}
    for schema in defs.get_all_schemas_with_history():
        name = f"{schema.domain}.{schema.name}".lstrip(".")
        assert rows[name, schema.since_version].deprecated == schema.deprecated
    relu = rows["Relu", 14]
    assert relu.where == "compiled"
    assert "test_relu" in relu.tests
    assert {"f32", "bf16", "i8"} <= set(relu.types)
    assert rows["NonZero", 13].where == "host"
    assert rows["Upsample", 10].deprecated
    assert rows["Bernoulli", 15].where == "compiled"
    assert rows["ai.onnx.preview.training.Gradient", 1].where == "compiled"
    assert rows["com.microsoft.FusedMatMul", 1].where == "compiled"


def test_an_opset_has_one_version_of_each_operator() -> None:
    rows = json.loads(invoke("ops", "--opset", "12", "--json").stdout)["operators"]
    versions = {row["operator"]: row["version"] for row in rows}
    assert len(versions) == len(rows)
    assert versions["Relu"] == 6
    assert versions["Clip"] == 12
    assert "Gelu" not in versions
    assert "ImageDecoder" in json.dumps(json.loads(invoke("ops", "--json").stdout))


def test_the_summary_counts_the_record() -> None:
    found = summary()
    numeric = [one for one in record() if one.numeric]
    assert (found.passing, found.numeric) == (len(record()), len(numeric))
    hosted = [one for one in numeric if one.host]
    assert found.compiled == found.numeric - len(hosted)
    counts = dict(found.host)
    assert all(counts[name] > 0 for one in hosted for name in one.host)
    shown = " ".join(invoke("ops").stdout.split())
    assert f"{found.compiled:,} of those, {found.compiled / found.numeric:.1%}, run wholly" in shown


def test_a_line_of_the_record_is_read_back() -> None:
    for one in (
        Verified("test_a", True, (), (("Relu", 14), ("ai.onnx.ml.Scaler", 1))),
        Verified("test_b", False, ("NonZero", "TopK"), ()),
    ):
        assert parsed(one.line()) == one
