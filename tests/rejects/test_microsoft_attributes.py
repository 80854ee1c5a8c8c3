"""Attributes of ONNX Runtime's own operators, of which ONNX says nothing, with strange values."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import helper
from tests.ops.microsoft import Case
from tests.ops.test_microsoft_covered import FAMILIES
from tests.sweeps import part

from minicc.api.session import InferenceSession
from minicc.errors import CompilerBug, MiniccError
from minicc.frontends.onnx.families import enter_all
from minicc.frontends.onnx.registry import OPERATORS

STRANGE: tuple[Any, ...] = (3, 1 << 40, 2.5, "text", [3, -1], [2.5], ["a", "b"])
CASES = {case.op: case for family in FAMILIES for case in family.CASES.values()}


def _forms() -> list[tuple[str, str, Any]]:
    enter_all()
    names = [(op, name) for op in CASES if op in OPERATORS for name in OPERATORS[op].attributes]
    return [(op, name, value) for op, name in sorted(names) for value in STRANGE]


def _with(case: Case, name: str, value: Any) -> bytes:
    model = onnx.ModelProto.FromString(case.model(free=False))
    (node,) = model.graph.node
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
    return bytes(model.SerializeToString())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("op", "name", "value"), part(_forms(), 72))
def test_it_runs_or_is_told(op: str, name: str, value: Any) -> None:
    error: MiniccError | None = None
    results: list[Any] = []
    try:
        session = InferenceSession(_with(CASES[op], name, value), threads=1)
        results = session.run(None, CASES[op].fed)
    except MiniccError as raised:
        error = raised
    assert not isinstance(error, CompilerBug), error
    assert error or len(results) == len([w for w in CASES[op].wants if w is not None])


@pytest.mark.parametrize("value", [2.5, "text", ["a"]])
@pytest.mark.parametrize(
    ("op", "name"), [("FusedConv", "activation_params"), ("DynamicQuantizeLSTM", "activation_beta")]
)
def test_parameters_of_an_activation_are_a_list_of_numbers(op: str, name: str, value: Any) -> None:
    with pytest.raises(MiniccError, match=f"{name} .* is .*, not a list of numbers"):
        InferenceSession(_with(CASES[f"com.microsoft.{op}"], name, value))
