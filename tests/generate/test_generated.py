"""A few random models, hostile files and functions of fixed seeds; `make fuzz` tries many more."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from tests.generate.draft import Case, Item, evaluate, needed, value_info
from tests.generate.families import FAMILIES
from tests.generate.functions.growth import generate as drawn
from tests.generate.functions.oracle import judge as judge_function
from tests.generate.functions.program import Program, loaded
from tests.generate.functions.seen import GROWING, Seen, Stop, TooMuchError
from tests.generate.growth import generate
from tests.generate.hostile import damaged, offence
from tests.generate.oracle import _other_sizes, by_minicc, differs, judge
from tests.generate.shrink import shrink, shrunk
from tests.sweeps import part

SHARDS = 4
MODELS = 20
HOSTILE = 120
FUNCTIONS = 60


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_models(shard: int) -> None:
    seeds = range(shard, MODELS, SHARDS)
    found = [(seed, finding) for seed in seeds for finding in judge(generate(seed), seed)]
    assert found == []


@pytest.mark.parametrize("shard", range(SHARDS))
def test_hostile_files(shard: int) -> None:
    seeds = range(shard, HOSTILE, SHARDS)
    found = [(seed, text) for seed in seeds if (text := offence(damaged(seed), seed))]
    assert found == []


@pytest.mark.parametrize("shard", part(range(SHARDS), 6))
def test_random_functions(shard: int) -> None:
    seeds = range(shard, FUNCTIONS, SHARDS)
    found = {seed: texts for seed in seeds if (texts := judge_function(drawn(seed)).found)}
    assert found == {}


@pytest.mark.parametrize("line", ["x = x + x", "x = [*x]", "x = x[0] * 2 + 2,"])
def test_what_grows_without_end_is_not_drawn(line: str) -> None:
    seen, kept = Seen(), sys.gettrace()
    f = loaded(f"def f(x):\n    while True:\n        {line}\n", GROWING)["f"]
    try:
        sys.settrace(seen.watch)
        with pytest.raises(Stop):
            f([0])
    finally:
        sys.settrace(kept)
    assert isinstance(seen.error, TooMuchError)


def test_a_failing_function_is_shrunk() -> None:
    def calls(program: Program) -> list[str]:
        return re.findall(r"np\.[a-z]+\(", "\n".join(text for _, text in program.lines))

    program = next(p for p in map(drawn, range(1000)) if calls(p))
    call = calls(program)[-1]
    small = shrunk(program, lambda p: call in calls(p), Program.smaller)
    assert len(small.lines) == 1
    assert not small.returns
    assert len(small.order) <= 1
    compile(small.script(), "small.py", "exec")


def test_equal_seeds_give_equal_models() -> None:
    for seed in range(20):
        one, two = generate(seed), generate(seed)
        assert one.model().SerializeToString() == two.model().SerializeToString()
        assert all(np.array_equal(a, two.inputs[k]) or a.dtype.kind == "f"
                   for k, a in one.inputs.items())  # fmt: skip


def test_models_are_valid() -> None:
    for seed in range(100, 140):
        case = generate(seed)
        model = case.model()
        known = [case.known[name] for name in case.outputs]
        tensors = [item for item in known if isinstance(item.value, np.ndarray)]
        if tensors:
            del model.graph.output[:]
            infos = [value_info(item.name, item.array, [None] * item.rank) for item in tensors]
            model.graph.output.extend(infos)
            onnx.checker.check_model(model)


def test_every_family_can_be_drawn() -> None:
    for name in FAMILIES:
        drawn = (generate(seed, name).operators() - {"Identity"} for seed in range(60))
        assert any(drawn) or name == "identities", name


def _without(op: str) -> Callable[[Case], bool]:
    """A fault that shows wherever an operator stands."""
    return lambda case: op in case.operators()


def test_a_failing_model_is_shrunk() -> None:
    seed = next(s for s in range(1000) if len((c := generate(s)).nodes) > 8
                and "Concat" in c.operators() and not c.operators() & {"Loop", "If"})  # fmt: skip
    small = shrink(generate(seed), _without("Concat"))
    assert [node.op_type for node in small.nodes] == ["Concat"]
    values = by_minicc(small, threads=1).values
    assert values is not None
    (node,) = small.nodes
    around = [small.known[name] for name in node.input]
    (wanted,) = evaluate(node, around, small.opset) or [None]
    assert not differs(values[0], wanted, small.known[node.output[0]])


def test_a_sum_whose_type_the_reference_has_wrong_is_not_known() -> None:
    node = onnx.helper.make_node("ReduceSumSquare", ["x"], ["y"])
    for kind, known in ((np.int32, False), (np.int64, True)):
        assert (evaluate(node, [Item("x", np.ones((2, 3), kind))], 20) is not None) == known


def test_a_node_that_nothing_uses_may_be_left_out_or_not() -> None:
    """In a branch, where a size that is free may be too small for it."""
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    result = info("b", onnx.TensorProto.INT64, ["n"])
    unused = node("Gather", ["x", "place"], ["unused"])
    then = onnx.helper.make_graph([unused, node("Neg", ["x"], ["b"])], "then", [], [result])
    other = onnx.helper.make_graph([node("Abs", ["x"], ["b"])], "other", [], [result])
    choice = node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    inputs = {"c": np.array(True), "x": np.arange(-1, 3)}
    places = {"place": np.array(-3)}
    known = {"y": Item("y", -inputs["x"])}
    case = Case((choice,), inputs, places, ("y",), 19, known, {("x", 0): "n"})
    assert not [f for seed in range(12) for f in _other_sizes(case, seed)]
    (kept,) = needed(case.nodes, case.outputs)
    assert [[n.op_type for n in a.g.node] for a in kept.attribute] == [["Abs"], ["Neg"]]
