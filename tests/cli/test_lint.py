"""`lint` on models with several problems, and `inspect` on what can't be imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import helper, numpy_helper
from tests.cli.test_cli import MODEL, invoke

HEAD = '<ir_version: 9, opset_import: ["": {}, "custom": 1, "ai.onnx.preview.training": 1]>'


def write(folder: Path, text: str, opset: int = 17) -> str:
    model = onnx.parser.parse_model(f"{HEAD.format(opset)}\n{text}")
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return str(folder / "m.onnx")


def lint(path: str) -> tuple[int, Any]:
    result = invoke("lint", path, "--json")
    return result.exit_code, json.loads(result.stdout)


def short(told: Any) -> list[tuple[str, str, str, str, int]]:
    return [tuple(f[k] for k in ("kind", "code", "node", "operator", "opset"))
            for f in told["findings"]]  # fmt: skip


def test_a_clean_model() -> None:
    status, told = lint(MODEL)
    assert (status, told) == (0, {"status": 0, "findings": [], "free_dimensions": {}})
    assert invoke("lint", MODEL).stdout == "no problems\n"


BROKEN = """g (float[n,8] x, float[n,4] q, float[4] w) => (float[n,8] y, float[n,8] f, float[n,8] v, int64[a,b] z)
{
 t = Relu (x, x)
 y = Softmax (t)
 c = custom.Foo (x)
 d = ai.onnx.preview.training.Gradient <xs = ["x"], y = "y"> (x)
 f = Frobnicate (c)
 h = Concat (x, x)
 e = Bernoulli <seed = -1.0> (x)
 k = Add (h, d)
 l = Add (k, e)
 v = Resize <mode = "cubic", coordinate_transformation_mode = "half"> (l)
 z = NonZero (q)
}"""  # noqa: E501


def test_all_problems_at_once(tmp_path: Path) -> None:
    """Also of nodes that depend on one that failed, each with what would work."""
    path = write(tmp_path, BROKEN)
    status, told = lint(path)
    assert status == 1
    found = short(told)
    assert ("forbidden", "MC0127", "Relu#0", "Relu", 17) in found
    assert ("forbidden", "MC0170", "Frobnicate#4", "Frobnicate", 17) in found
    assert ("forbidden", "MC0127", "Concat#5", "Concat", 17) in found
    assert ("unsupported", "MC0220", "custom.Foo#2", "custom.Foo", 1) in found
    assert ("unsupported", "MC0221", "Bernoulli#6", "Bernoulli", 17) in found
    assert ("host", "MC0227", "NonZero#10", "NonZero", 17) in found
    assert len({f[2] for f in found}) == len(found)
    assert all(f["message"] and f["hint"] for f in told["findings"])
    assert told["free_dimensions"] == {"n": ["x, axis 0", "q, axis 0"]}
    shown = invoke("lint", path)
    assert shown.exit_code == 1
    assert "the specification forbids: " in shown.stdout
    assert all(f["node"] in shown.stdout for f in told["findings"])
    assert "free dimension n: x, axis 0; q, axis 0" in shown.stdout


def test_types_go_on_after_a_node_that_failed(tmp_path: Path) -> None:
    """By what the file declares, or else by ONNX's inference."""
    graph = helper.make_graph(
        [
            helper.make_node("Foo", ["x"], ["a"], "first", domain="custom"),
            helper.make_node("MatMul", ["a", "w"], ["b"], "second"),
            helper.make_node("Bernoulli", ["x"], ["c"], "third", seed=-1.0),
            helper.make_node("MatMul", ["c", "w"], ["d"], "fourth"),
        ],
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 3])],
        [helper.make_tensor_value_info(n, 1, [2, 5]) for n in "bd"],
        [numpy_helper.from_array(np.zeros((4, 5), np.float32), "w")],
        value_info=[helper.make_tensor_value_info("a", 1, [2, 3])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("custom", 1)]
    path = tmp_path / "m.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    )
    _, told = lint(str(path))
    assert {(f["code"], f["node"]) for f in told["findings"]} == {
        ("MC0220", "first"),
        ("MC0128", "second"),
        ("MC0221", "third"),
        ("MC0128", "fourth"),
    }


@pytest.mark.parametrize(
    ("text", "opset", "status", "found"),
    [
        (
            "g (float[1,1,4,4] x, float[4] s) => (float[1,1,8,8] y) { y = Upsample (x, s) }",
            10,
            1,
            ("deprecated", "MC0171", "Upsample#0", "Upsample", 10),
        ),
        (
            "g (float[4] x) => (float[4] y) { y = Bernoulli <seed = -1.0> (x) }",
            17,
            3,
            ("unsupported", "MC0221", "Bernoulli#0", "Bernoulli", 17),
        ),
        (
            "g (float[3,4] x) => (int64[2,k] y) { y = NonZero (x) }",
            17,
            0,
            ("host", "MC0227", "NonZero#0", "NonZero", 17),
        ),
        (
            "g (float[3,4] x) => (float[3,5] y) { y = Relu (x) }",
            17,
            1,
            ("forbidden", "MC0170", "the model", "", 0),
        ),
    ],
    ids=["deprecated", "unsupported", "host", "types"],
)
def test_statuses_and_kinds(
    text: str, opset: int, status: int, found: tuple[str, str, str, str, int], tmp_path: Path
) -> None:
    got, told = lint(write(tmp_path, text, opset))
    assert (got, told["status"]) == (status, status)
    assert found in short(told)


def test_what_onnx_itself_gets_wrong_is_no_finding(tmp_path: Path) -> None:
    """The inference of onnx 1.23 refuses the body that ONNX gives this operator."""
    text = "g (float[1,2,3,3] x) => (float[1,2,3,3] y) { y = MeanVarianceNormalization (x) }"
    assert lint(write(tmp_path, text)) == (
        0,
        {"status": 0, "findings": [], "free_dimensions": {}},
    )


def test_inspect_shows_facts_of_what_can_not_be_imported(tmp_path: Path) -> None:
    path = write(tmp_path, BROKEN)
    result = invoke("inspect", path, "--json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told["inputs"] == {"x": "f32[n,8]", "q": "f32[n,4]", "w": "f32[4]"}
    assert told["opsets"] == {"ai.onnx": 17, "custom": 1, "ai.onnx.preview.training": 1}
    assert told["ir_version"] == 9
    assert told["operators"]["Bernoulli"] == 1
    assert any("MC0127 Relu#0" in line for line in told["problems"])
    shown = invoke("inspect", path).stdout
    assert "not imported: " in shown
    assert "custom.Foo" in shown
    assert invoke("inspect", path, "--text").exit_code == 1


def test_inspect_shows_facts_of_a_newer_opset(tmp_path: Path) -> None:
    path = write(tmp_path, "g (float[4] x) => (float[4] y) { y = Relu (x) }", 999)
    told = json.loads(invoke("inspect", path, "--json").stdout)
    assert told["opsets"]["ai.onnx"] == 999
    assert told["problems"][0].startswith("MC0226")


def test_what_is_no_model_is_no_report(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"nothing of the kind")
    for command in ("lint", "inspect"):
        result = invoke(command, str(path))
        assert result.exit_code == 1
        assert result.stderr.startswith("MC012")


@pytest.mark.parametrize(
    ("domain", "version"), [("", 1 << 40), ("custom", -(1 << 40)), ("", 0)], ids=str
)
def test_a_version_that_is_no_opset(domain: str, version: int, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        f"{HEAD.format(17)} g (float[4] x) => (float[4] y) {{ y = Relu (x) }}"
    )
    for known in model.opset_import:
        if known.domain == domain:
            known.version = version
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    status, told = lint(str(path))
    assert status in (0, 1, 3)
    assert invoke("inspect", str(path)).exit_code == 0
    assert (status == 0) == (not told["findings"])


def test_names_that_are_not_utf8_are_the_files_fault(tmp_path: Path) -> None:
    text = f"{HEAD.format(17)} g (float[4] x) => (float[4] y) {{ y = Relu (x) }}"
    raw = onnx.parser.parse_model(text).SerializeToString().replace(b"Relu", b"Re\xff\xfe")
    (tmp_path / "m.onnx").write_bytes(raw)
    for command in ("lint", "inspect"):
        result = invoke(command, str(tmp_path / "m.onnx"), "--json")
        assert json.loads(result.stdout)["error"]["code"] == "MC0123"
