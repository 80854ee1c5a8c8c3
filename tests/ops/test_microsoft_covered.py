"""Each operator of ONNX Runtime's own domain has a case in one of the families' tests."""

from tests.ops import (
    test_microsoft_attention,
    test_microsoft_blocked,
    test_microsoft_decoding,
    test_microsoft_experts,
    test_microsoft_fused,
    test_microsoft_more,
    test_microsoft_quantized,
)

from minicc.frontends.onnx.families import enter_all
from minicc.frontends.onnx.nested import TWINS
from minicc.frontends.onnx.registry import OPERATORS

FAMILIES = (
    test_microsoft_attention,
    test_microsoft_blocked,
    test_microsoft_decoding,
    test_microsoft_experts,
    test_microsoft_fused,
    test_microsoft_more,
    test_microsoft_quantized,
)


def test_each_operator_has_a_case() -> None:
    enter_all()
    tried = {case.op for family in FAMILIES for case in family.CASES.values()}
    known = {name for name in (*OPERATORS, *TWINS) if name.startswith("com.microsoft.")}
    assert known <= tried
    assert tried <= {*OPERATORS, *TWINS}
