"""Every mistake in a text is told exactly, with its line and column."""

from typing import Any

import numpy as np
import pytest

from minicc.errors import UserError
from minicc.ir.core import Literal, Op, Region, Value
from minicc.ir.text.parser import parse_module
from minicc.ir.types import INDEX_TYPE, Type


class Scale(Op, name="test.scale"):
    x: Value
    factor: int
    offset: Any = 0

    def infer(self) -> tuple[Type, ...]:
        if self.attrs["factor"] == 0:
            raise ValueError("a factor of zero")
        return (self.operands[0].type,)


class Loop(Op, name="test.loop"):
    xs: tuple[Value, ...]
    body: Region

    def infer(self) -> tuple[Type, ...]:
        return tuple(v.type for v in self.operands)


HEAD = 'module level = "kernel"\nfunc @main(%x: f32[4], %i: index) -> ("y": f32[4]) {\n'
# The line of an op is the third of its text, and begins in column 3.
CASES = {
    "no such op": (
        "%y = test.scal %x {factor = 2}",
        "MC0111 error: no op is called test.scal\n  at: text:3:8\n  hint: did you mean test.scale?",
    ),
    "no such value": (
        "%y = test.loop %x,  %xx {\n    yield\n  }",
        "MC0112 error: %xx is not defined here\n  at: text:3:23\n  hint: did you mean %x?",
    ),
    "a value out of scope": (
        "%y = test.loop %x {\n  ^(%k: index):\n    yield\n  }\n  %z = test.scale %k {factor = 2}",
        "MC0112 error: %k is not defined here\n  at: text:7:19",
    ),
    "a result twice": (
        "%y, %y = test.loop %x, %x {\n    yield\n  }",
        "MC0113 error: %y is defined twice\n  at: text:3:7",
    ),
    "an argument twice": (
        "%y = test.loop %x {\n  ^(%k: index, %i: index):\n    yield\n  }",
        "MC0113 error: %i is defined twice\n  at: text:4:16",
    ),
    "an attribute twice": (
        "%y = test.scale %x {factor = 2, factor = 3}",
        "MC0113 error: attribute factor is given twice\n  at: text:3:35",
    ),
    "a missing attribute": (
        "%y = test.scale %x {offset = 2}",
        "MC0114 error: test.scale lacks its attribute factor\n  at: text:3:8",
    ),
    "an unknown attribute": (
        "%y = test.scale %x {factor = 2,\n    ofset = 2}",
        "MC0114 error: test.scale has no attribute ofset\n  at: text:4:5\n"
        "  hint: did you mean offset?",
    ),
    "too many operands": (
        "%y = test.scale %x, %x {factor = 2}",
        "MC0114 error: test.scale takes 1 operands, not 2\n  at: text:3:8",
    ),
    "a missing region": (
        "%y = test.loop %x",
        "MC0114 error: test.loop has 1 regions, not 0\n  at: text:3:8",
    ),
    "too many results": (
        "%y, %z = test.scale %x {factor = 2}",
        "MC0114 error: test.scale has 1 results, not 2\n  at: text:3:3",
    ),
    "no name for a result": (
        "test.scale %x {factor = 2}",
        "MC0114 error: test.scale has 1 results, not 0\n  at: text:3:3",
    ),
    "refused by the type rule": (
        "%y = test.scale %x {factor = 0}",
        "MC0115 error: test.scale: a factor of zero\n  at: text:3:8",
    ),
    "another type": (
        "%y = test.scale %x {factor = 2} : f32[5]",
        "MC0116 error: test.scale has the type f32[4], not f32[5]\n  at: text:3:35",
    ),
    "another number of types": (
        "%y = test.scale %x {factor = 2} : f32[4], f32[4]",
        "MC0116 error: test.scale has the type f32[4], not f32[4], f32[4]\n  at: text:3:35",
    ),
    "a missing array": (
        "%y = test.scale %x {factor = 2, offset = [1, dense<f32[100], #abc0>]}",
        "MC0117 error: the array #abc0 is missing\n  at: text:3:64\n"
        "  hint: pass the arrays that were saved beside the text as `resources`",
    ),
    "an op without a name": (
        "%y = scale %x",
        "MC0110 error: 'scale' stands where the name of an op should\n  at: text:3:8",
    ),
    "a location without a name": (
        "%y = test.scale %x {factor = 2} loc()",
        "MC0110 error: 'loc' stands where 'yield', '{', a location, results, the name of an op"
        " or types should\n  at: text:3:35",
    ),
    "within attributes": (
        "%y = test.scale %x {factor = 2, offset = [1 2]}",
        "MC0110 error: '2' stands where '*', '+', ',', '-', ']', 'floordiv' or 'mod' should\n"
        "  at: text:3:47",
    ),
    "within attributes of several lines": (
        "%y = test.scale %x {\n    factor = 2,\n    offset = ]}",
        "MC0110 error: ']' stands where '!', '(', '-', '<', '[', 'dense', 'false', 'min', 'none',"
        " 'true', 'trunc', a number, a schedule, a string, a symbol or a word should\n"
        "  at: text:5:14",
    ),
    "within types": (
        "%y = test.scale %x {factor = 2} : f32[4",
        "MC0110 error: the end stands where '*', '+', ',', '-', ']', 'floordiv' or 'mod' should\n"
        "  at: text:3:42",
    ),
    "a division by zero": (
        "%y = test.scale %x {factor = 2, offset = (n + 1) floordiv 0}",
        "MC0110 error: the divisor is zero\n  at: text:3:61",
    ),
    "no such element type": (
        "%y = test.scale %x {factor = 2} : f33[4]",
        "MC0110 error: no element type is called f33\n  at: text:3:37",
    ),
    "too few elements": (
        "%y = test.scale %x {factor = 2, offset = dense<f32[3], [1.0]>}",
        "MC0110 error: no f32[3]: cannot reshape array of size 1 into shape (3,)\n  at: text:3:50",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_op(case: str) -> None:
    line, message = CASES[case]
    with pytest.raises(UserError) as caught:
        parse_module(f"{HEAD}  {line}\n  yield %y\n}}\n")
    assert str(caught.value) == message
    assert caught.value.__suppress_context__


WHOLE = {
    "nothing": ("", "MC0110 error: the end stands where 'module' should\n  at: t.mc:1:1"),
    "no end": (
        HEAD + "  yield %x\n",
        "MC0110 error: the end stands where '}' should\n  at: t.mc:3:11",
    ),
    "no yield": (
        HEAD + "}\n",
        "MC0110 error: '}' stands where 'yield', results or the name of an op should\n"
        "  at: t.mc:3:1",
    ),
    "a result too few": (
        HEAD + "  yield\n}\n",
        "MC0114 error: @main names 1 results, but yields 0\n  at: t.mc:2:6",
    ),
    "a result of another type": (
        HEAD + "  yield %i\n}\n",
        'MC0116 error: result "y" of @main is index, not f32[4]\n  at: t.mc:2:39',
    ),
    "an unknown value is yielded": (
        HEAD + "  yield %z\n}\n",
        "MC0112 error: %z is not defined here\n  at: t.mc:3:9",
    ),
    "an input twice": (
        HEAD.replace("%i", "%x") + "  yield %x\n}\n",
        "MC0113 error: %x is defined twice\n  at: t.mc:2:24",
    ),
    "no such element type": (
        HEAD.replace("index", "indx"),
        "MC0110 error: no element type is called indx\n  at: t.mc:2:28",
    ),
    "strides of another rank": (
        HEAD.replace("index", "buffer<f32[2], strides=[]>") + "  yield %x\n}\n",
        "MC0110 error: a buffer of 1 dimensions has 0 strides\n  at: t.mc:2:35",
    ),
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_module(case: str) -> None:
    text, message = WHOLE[case]
    with pytest.raises(UserError) as caught:
        parse_module(text, source="t.mc")
    assert str(caught.value) == message


def test_another_array_than_the_digest_says() -> None:
    digest = Literal(np.zeros(100, np.float32)).digest
    line = f"%y = test.scale %x {{factor = 2, offset = dense<f32[100], #{digest}>}}"
    text = f"{HEAD}  {line}\n  yield %y\n}}\n"
    assert parse_module(text, {digest: np.zeros(100, np.float32)})
    with pytest.raises(UserError) as caught:
        parse_module(text, {digest: np.ones(100, np.float32)})
    assert str(caught.value) == (
        f"MC0117 error: the array given for #{digest} is another\n  at: text:3:60"
    )


def test_a_name_is_free_again_behind_its_region() -> None:
    region = "{\n  ^(%k: index):\n    yield %k\n  }"
    text = f"{HEAD}  %a = test.loop %x {region}\n  %y = test.loop %x {region}\n  yield %y\n}}\n"
    first, second = parse_module(text).main.body.ops
    assert [op.regions[0].args[0].type for op in (first, second)] == [INDEX_TYPE] * 2
