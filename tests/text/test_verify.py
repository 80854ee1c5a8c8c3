"""The verifier finds what a broken pass would leave, and marks the op."""

from collections.abc import Sequence
from typing import Any

import pytest

from minicc.errors import CompilerBug
from minicc.ir import levels
from minicc.ir.core import Function, Module, Op, Region, Value
from minicc.ir.levels import LEVELS, Level
from minicc.ir.text.parser import parse_module
from minicc.ir.types import F32, BufferType, TensorType, Type
from minicc.ir.verify import verify

TILE = TensorType(F32, (4,))


class Twice(Op, name="test.twice"):
    x: Value
    mode: str = "plain"

    def infer(self) -> tuple[Type, ...]:
        if self.operands[0].type.rank > 3:
            raise TypeError("rank is at most 3")
        return (self.operands[0].type,)

    def verify(self) -> None:
        if self.attrs["mode"] not in ("plain", "fancy"):
            raise ValueError(f"no mode is called {self.attrs['mode']}")


class Scope(Op, name="test.scope"):
    xs: tuple[Value, ...]
    body: Region

    def infer(self) -> tuple[Type, ...]:
        return tuple(v.type for v in self.regions[0].yields)


@pytest.fixture(autouse=True)
def _level_of_test_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    level = Level("test", frozenset({"test"}), "Ops of these tests.")
    monkeypatch.setitem(levels.LEVELS, "test", level)


def module_of(args: Sequence[Value], ops: Sequence[Op], yields: Sequence[Value]) -> Module:
    return Module("test", [Function("main", Region(args, ops, yields))])


def twice(x: Value, hint: str = "") -> Op:
    op = Twice(x, loc=("Add_0", "Add_1"))
    op.results[0].hint = hint
    return op


def refusal(module: Module) -> CompilerBug:
    with pytest.raises(CompilerBug) as caught:
        verify(module)
    return caught.value


def test_a_good_module_passes() -> None:
    x = Value(TILE, "x")
    first = twice(x)
    inner = twice(first.results[0])
    scope = Scope((), body=Region((), [inner], inner.results), loc=("f.py:3",))
    verify(module_of([x], [first, scope], scope.results))


def test_the_whole_report() -> None:
    x = Value(TILE, "x")
    op, late = twice(x, "y"), twice(x, "z")
    op.operands = (late.results[0],)
    assert str(refusal(module_of([x], [op, late], []))) == (
        "MC0310 bug in minicc: an operand of test.twice, %z: f32[4], is not defined before it is"
        " used (in @main)\n"
        "  at: Add_0, Add_1\n"
        "  hint: please report it with the text below and the model\n"
        "func @main(%x: f32[4]) -> () {\n"
        '>>>   %y = test.twice %?z : f32[4] loc("Add_0", "Add_1")\n'
        '  %z = test.twice %x : f32[4] loc("Add_0", "Add_1")\n'
        "  yield\n"
        "}"
    )


def test_only_the_lines_of_the_guilty_op_are_marked() -> None:
    x = Value(TILE, "x")
    inner = twice(x)
    inner.loc = ()
    scope = Scope((), body=Region((), [inner], ()), loc=("f.py:3",))
    lines = refusal(module_of([x], [scope], [])).ir.splitlines()
    assert [line for line in lines if line.startswith(">>>")] == [
        ">>>     %0 = test.twice %x : f32[4]"
    ]


def broken(change: str) -> Module:
    x = Value(TILE, "x")
    op = twice(x)
    scope = Scope((op.results[0],), body=Region((), (), op.results), loc=("f.py:3",))
    ops, yields, args = [op, scope], list(scope.results), [x]
    if change == "value twice":
        ops.insert(1, op)
    elif change == "argument twice":
        args.append(x)
    elif change == "out of scope":
        inner = twice(x)
        scope.regions = (Region((), [inner], op.results),)
        yields = list(inner.results)
    elif change == "undefined yield":
        yields = [Value(TILE, "ghost")]
    elif change == "recorded type":
        op.results[0].type = TensorType(F32, (5,))
        scope.results = (Value(TensorType(F32, (5,))),)
    elif change == "type rule":
        x.type = TensorType(F32, (1, 1, 1, 1))
    elif change == "own verifier":
        op.attrs = {"mode": "odd"}
    elif change == "attribute missing":
        op.attrs = {}
    elif change == "attribute unknown":
        op.attrs = {"mode": "plain", "extra": 1}
    elif change == "operands":
        op.operands = (x, x)
    elif change == "regions":
        scope.regions = ()
    elif change == "no location":
        op.loc = ()
    elif change == "location is a string":
        wrong: Any = "Add_0"
        op.loc = wrong
    module = module_of(args, ops, yields)
    if change == "result names":
        module.main.result_names = ()
    elif change == "function twice":
        module.functions *= 2
    return module


MESSAGES = {
    "value twice": "a result of test.twice, %?: f32[4], is defined twice (in @main)",
    "argument twice": "an argument, %x: f32[4], is defined twice (in @main)",
    "out of scope": "what is yielded, %?: f32[4], is not in scope here (in @main)",
    "undefined yield": "what is yielded, %ghost: f32[4], is not defined before it is used"
    " (in @main)",
    "recorded type": "test.twice records the types f32[5], its rule infers f32[4] (in @main)",
    "type rule": "test.twice: rank is at most 3 (in @main)",
    "own verifier": "test.twice: no mode is called odd (in @main)",
    "attribute missing": "test.twice lacks the attribute mode (in @main)",
    "attribute unknown": "test.twice does not declare the attribute extra (in @main)",
    "operands": "test.twice has 2 operands (in @main)",
    "regions": "test.scope has 0 regions (in @main)",
    "no location": "test.twice has no location (in @main)",
    "location is a string": "test.twice has no location (in @main)",
    "result names": "1 results have 0 names (in @main)",
    "function twice": "two functions are called @main",
}


@pytest.mark.parametrize("change", MESSAGES)
def test_broken(change: str) -> None:
    error = refusal(broken(change))
    assert error.message == MESSAGES[change]
    assert error.code == "MC0310"


def leftover_at(level: str, name: str = "main") -> CompilerBug:
    x = Value(TILE, "x")
    module = Module(level, [Function(name, Region([x], [twice(x)], []))])
    return refusal(module)


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_a_leftover(level: str) -> None:
    error = leftover_at(level)
    assert error.message == f"test.twice is left over at the level {level} (in @main)"
    assert error.where == ("Add_0", "Add_1")
    assert error.code == "MC0311"


def test_an_unknown_level() -> None:
    assert leftover_at("hlo").message == "no level is called 'hlo'"


class Named:
    """Stands for an op: a level looks at its name alone."""

    def __init__(self, opname: str) -> None:
        self.opname = opname


@pytest.mark.parametrize(
    ("level", "name", "top", "nested", "in_main"),
    [
        ("graph", "graph.add", True, True, True),
        ("graph", "kernel.load", False, False, False),
        ("structured", "structured.generic", True, True, True),
        ("structured", "arith.add", False, True, False),
        ("kernel", "arith.add", True, True, True),
        ("kernel", "program.launch", False, False, True),
        ("kernel", "structured.generic", False, False, False),
        ("program", "program.launch", False, False, True),
        ("program", "kernel.load", True, True, True),
        ("program", "kernels.load", False, False, False),
    ],
)
def test_what_is_legal(level: str, name: str, top: bool, nested: bool, in_main: bool) -> None:
    op: Any = Named(name)
    assert LEVELS[level].allows(op, nested=False, entry=False) is top
    assert LEVELS[level].allows(op, nested=True, entry=False) is nested
    assert LEVELS[level].allows(op, nested=False, entry=True) is in_main


def test_a_program_is_placed() -> None:
    pytest.importorskip("minicc.ir.program")
    text = (
        'module level = "%s"\n'
        "func @main() -> () {\n"
        "  %%0 = program.alloc {type = %s, offset = %d}\n"
        "  yield\n"
        "}\n"
    )
    buffer = f"!{BufferType(F32, (8,))}"
    verify(parse_module(text % ("kernel", buffer, -1)))
    verify(parse_module(text % ("program", buffer, 0)))
    error = refusal(parse_module(text % ("program", buffer, -1)))
    assert error.message == "program.alloc is not placed at the level program (in @main)"
