"""What is printed is read back bit for bit, whatever the attributes, types, names and regions."""

import math
import re
import struct
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.sweeps import examples

from minicc.ir import affine
from minicc.ir.affine import Dim
from minicc.ir.core import Function, Literal, Module, Op, Region, Value, same_module
from minicc.ir.reals import STEPS, UNARY, Real
from minicc.ir.space import KINDS, Iter, Space
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_attribute, print_module, print_op, resources
from minicc.ir.types import DTYPES, F32, INDEX_TYPE, BufferType, TensorType, Type

SEVERAL = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck)
)


class Holder(Op, name="test.holder"):
    xs: tuple[Value, ...]
    value: Any
    types: tuple[Type, ...] = ()
    quiet: int = 7

    def infer(self) -> tuple[Type, ...]:
        return tuple(self.attrs["types"])


class Nest(Op, name="test.nest"):
    x: Value
    left: Region
    right: Region

    def infer(self) -> tuple[Type, ...]:
        return tuple(v.type for v in self.regions[0].yields)


def module_of(ops: Sequence[Op], args: Sequence[Value] = (), **attrs: Any) -> Module:
    return Module("kernel", [Function("main", Region(args, ops, ()), attrs)])


def back(module: Module) -> Module:
    """The module after a round trip, which must give the same text again."""
    text = print_module(module)
    again = parse_module(text, resources(module))
    assert print_module(again) == text
    return again


def attribute_back(value: Any) -> Any:
    module = module_of([Holder((), value, loc=("here",))], extra=value)
    again = back(module)
    assert same_module(again, module)
    assert attribute_text_is_equal(again.main.attrs["extra"], value)
    return again.main.body.ops[0].attrs["value"]


def attribute_text_is_equal(left: Any, right: Any) -> bool:
    return print_attribute(left) == print_attribute(right)


words = st.text("abcdefgh_xyzXYZ0123456789", min_size=1, max_size=4)
names = words | st.text(max_size=5).filter(bool) | st.sampled_from(["min", "inf", "f32", "true"])
numbers = st.integers(-(2**40), 2**40)


def floats_of(dims: st.SearchStrategy[Dim]) -> st.SearchStrategy[Real]:
    """Floats that sizes decide, of few operations."""
    constants = st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)
    leaves = st.builds(Real, st.just("f32"), dims)
    wider = st.builds(Real, st.just("widen"), leaves)
    kinds = st.sampled_from(sorted(STEPS.keys() - UNARY))
    return st.one_of(
        leaves,
        st.builds(Real, st.sampled_from(sorted(UNARY)), leaves),
        st.builds(Real, kinds, leaves, constants | leaves),
        st.builds(Real, kinds, constants, wider),
        st.builds(Real, st.just("narrow"), st.builds(Real, st.just("sqrt"), wider)),
    )


def expressions() -> st.SearchStrategy[Dim]:
    positive = st.integers(1, 40)
    sizes = st.builds(affine.multiply, names.map(affine.size), positive)
    return st.recursive(
        names.map(affine.symbol) | st.integers(-50, 50),
        lambda inner: (
            st.builds(affine.add, inner, inner)
            | st.builds(affine.multiply, inner, inner)
            | st.builds(affine.multiply, inner, st.integers(-9, 9))
            | st.builds(affine.floordiv, inner, positive)
            | st.builds(affine.mod, inner, positive)
            | st.builds(affine.floordiv, inner, sizes)
            | st.builds(affine.mod, inner, sizes)
            | st.builds(affine.minimum, inner, inner)
            | st.builds(affine.whole, floats_of(inner))
        ),
        max_leaves=8,
    )


dims = st.lists(st.integers(0, 99) | expressions(), max_size=4).map(tuple)
dtypes = st.sampled_from(sorted(DTYPES.values(), key=str))
tensors = st.builds(TensorType, dtypes, dims)


@st.composite
def buffers(draw: st.DrawFn) -> BufferType:
    shape = draw(dims)
    given = draw(st.none() | st.tuples(*[st.integers(0, 99) | expressions()] * len(shape)))
    return BufferType(draw(dtypes), shape, given)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    chosen = draw(st.lists(names, unique=True, max_size=5))
    kinds = st.sampled_from(KINDS)
    return Space(Iter(n, draw(st.integers(1, 99) | expressions()), draw(kinds)) for n in chosen)


element_types = st.sampled_from([d for d in DTYPES.values() if d.name != "index"])


@st.composite
def literals(draw: st.DrawFn) -> Literal:
    """Arrays of any bits, and of numbers that a person would write."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    dtype = draw(element_types).numpy
    count = math.prod(shape)
    if dtype.kind == "b":
        return Literal(draw(hnp.arrays(np.bool_, shape)))
    if draw(st.booleans()):
        plain = draw(st.lists(st.sampled_from([0, 1, 2, 0.1, 0.5, 100]), max_size=3))
        return Literal(np.resize(np.array([*plain, 3.0]), shape).astype(dtype))
    raw = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    return Literal(np.frombuffer(raw, dtype).reshape(shape))


floats = st.floats() | st.integers(0, 2**64 - 1).map(
    lambda bits: float(struct.unpack("<d", struct.pack("<Q", bits))[0])
)
leaves = (
    numbers
    | st.booleans()
    | st.none()
    | floats
    | st.text(max_size=8)
    | dtypes
    | tensors
    | buffers()
    | expressions()
    | spaces()
    | literals()
)
attributes = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4).map(tuple))


@SEVERAL
@given(attributes)
@example(math.nan)
@example(struct.unpack("<d", struct.pack("<Q", 0xFFF0000000000001))[0])
@example((0, 0.0, -0.0, False, 1, 1.0, True, None, "none", math.inf, -math.inf))
@example('}{"\\\n\t\r\x00\x85\u2028\ud800é //')
@example((affine.symbol("nan"), affine.symbol("'it\\s'"), affine.symbol("n + 1") * 2))
@example(())
def test_attributes(value: Any) -> None:
    attribute_back(value)


@SEVERAL
@given(expressions())
def test_expressions_keep_their_structure(value: Dim) -> None:
    again = attribute_back(value)
    assert again == value
    assert type(again) is type(value)


@SEVERAL
@given(literals())
def test_arrays_keep_their_bits(literal: Literal) -> None:
    again = attribute_back(literal)
    assert again.array.dtype == literal.array.dtype
    assert again.array.shape == literal.array.shape
    assert again.array.tobytes() == literal.array.tobytes()


@SEVERAL
@given(st.lists(tensors | buffers(), max_size=3).map(tuple), st.lists(names, max_size=4))
def test_types_and_argument_names(types: tuple[Type, ...], hints: list[str]) -> None:
    args = [Value(t, hint) for t, hint in zip(types * 4, hints, strict=False)]
    op = Holder(args, 0, types, loc=tuple(hints) or ("here",))
    module = module_of([op], args)
    again = back(module)
    assert same_module(again, module)
    if len(set(hints)) == len(hints):
        assert [a.hint for a in again.main.args] == [a.hint for a in args]


@st.composite
def bodies(draw: st.DrawFn, depth: int = 3, visible: tuple[Value, ...] = ()) -> Region:
    """A region whose ops use any value in scope, with regions of their own."""
    hints = st.sampled_from(["", "x", "x_1", "acc", "yield", "no word"])
    args = tuple(Value(INDEX_TYPE, draw(hints)) for _ in range(draw(st.integers(0, 2))))
    scope = list(visible + args)
    ops: list[Op] = []
    for _ in range(draw(st.integers(0, 3))):
        loc = (draw(st.sampled_from(["Add#17", "file.py:3", 'a "name"', ") loc("])),)
        used = [draw(st.sampled_from(scope))] if scope else []
        op: Op
        if used and depth and draw(st.booleans()):
            regions = [draw(bodies(depth - 1, tuple(scope))) for _ in range(2)]
            op = Nest.make(used, {}, regions, loc)
        else:
            types = (TensorType(F32, (4,)),) * draw(st.integers(0, 2))
            op = Holder(used * 2, draw(numbers), types, loc=loc)
        for value in op.results:
            value.hint = draw(hints)
        ops.append(op)
        scope += op.results
    yields = [draw(st.sampled_from(scope)) for _ in range(draw(st.integers(0, 2)))] if scope else []
    return Region(args, ops, yields)


@SEVERAL
@given(bodies(), names, st.lists(names, min_size=2, max_size=2))
def test_nested_regions(body: Region, name: str, outputs: list[str]) -> None:
    function = Function(name, body, {"grid": (1, 2)}, outputs[: len(body.yields)])
    module = Module(name, [function, Function("other", Region((), (), ()))])
    again = back(module)
    assert same_module(again, module)
    assert again.functions[0].name == name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "-0.0"),
        (1e300, "1e+300"),
        (math.nan, "nan<0x7ff8000000000000>"),
        (F32, "!f32"),
        (TensorType(F32), "!f32[]"),
        (TensorType(F32, (2, 3)), "!f32[2,3]"),
        (BufferType(F32, (8, 8), (9, 1)), "!buffer<f32[8,8], strides=[9,1]>"),
        (affine.symbol("h") * 2 + affine.symbol("kh"), "2*h + kh"),
        (affine.symbol("past + 1"), "'past + 1'"),
        (affine.minimum(affine.symbol("b") * 14, 41) + affine.symbol("t0"), "min(14*b, 41) + t0"),
        (affine.floordiv(affine.symbol("c"), 32), "c floordiv 32"),
        (Space([Iter("n", 1), Iter("kh", 3, "reduction")]), "<n=1 | kh=3>"),
        (Literal(np.float32(0.1)), "dense<f32, 0.1>"),
        (Literal(np.array([1, 2], ml_dtypes.bfloat16)), "dense<bf16[2], [1.0, 2.0]>"),
        (Literal(np.array([True])), "dense<bool[1], [true]>"),
        (Literal(np.zeros((2, 0), np.int8)), "dense<i8[2,0], []>"),
        (Literal(np.array([math.nan], np.float32)), "dense<f32[1], 0x0000c07f>"),
        (Literal(np.array([1.0], ">f4")), "dense<f32[1], [1.0]>"),
        (("a}b", (None, True)), '["a\\u007db", [none, true]]'),
    ],
)
def test_spelling(value: Any, text: str) -> None:
    assert print_attribute(value) == text


def test_a_class_without_syntax_is_refused() -> None:
    with pytest.raises(TypeError, match=re.escape("of class list has no syntax: [1]")):
        print_attribute([1])


def test_large_arrays_are_resources() -> None:
    weights = Literal(np.arange(100, dtype=np.float32))
    small = Literal(np.arange(3, dtype=np.float32))
    module = module_of([Holder((), (weights, small), loc=("w",))])
    assert list(resources(module)) == [weights.digest]
    assert f"dense<f32[100], #{weights.digest}>" in print_module(module)
    assert same_module(back(module), module)


def test_a_saved_bfloat16_array_has_lost_its_type() -> None:
    weights = Literal(np.arange(100).astype(ml_dtypes.bfloat16))
    module = module_of([Holder((), weights, loc=("w",))])
    saved = {k: v.view("V2") for k, v in resources(module).items()}
    assert same_module(parse_module(print_module(module), saved), module)


def test_layout() -> None:
    x = Value(TensorType(F32, (4,)), "input.1")
    inner = Holder((x,), 1, (TensorType(F32),), loc=("Add_0",))
    left = Region([Value(INDEX_TYPE, "i")], [inner], inner.results)
    nest = Nest.make([x], {}, [left, Region((), (), ())], ("Add_0", "Relu_1"))
    nest.results[0].hint = "y"
    function = Function("main", Region([x], [nest], nest.results), {"grid": (4,)}, ["out"])
    assert print_module(Module("kernel", [function])) == (
        'module level = "kernel"\n'
        "\n"
        'func @main(%"input.1": f32[4]) -> ("out": f32) {grid = [4]} {\n'
        '  %y = test.nest %"input.1" {\n'
        "  ^(%i: index):\n"
        '    %0 = test.holder %"input.1" {value = 1, types = [!f32[]]} : f32 loc("Add_0")\n'
        "    yield %0\n"
        "  } {\n"
        "    yield\n"
        '  } : f32 loc("Add_0", "Relu_1")\n'
        "  yield %y\n"
        "}\n"
    )


def test_one_op_alone() -> None:
    x = Value(TensorType(F32, (4,)), "x")
    op = Holder((x, x), -0.0, quiet=8, loc=("here",))
    assert print_op(op) == 'test.holder %x, %x {value = -0.0, quiet = 8} loc("here")'
    assert print_op(op, locations=False) == "test.holder %x, %x {value = -0.0, quiet = 8}"


def test_text_by_hand() -> None:
    """Comments, free layout, no types, no locations, a name used in two sibling regions."""
    module = parse_module(
        """
        // a comment
        module level = "kernel"
        func @main(%x : f32[ n , (m + 1) floordiv 2 ]) -> ("y": f32[n, (m+1) floordiv 2]) { // here
          %y = test.nest %x {
            ^(%i: index): yield %x
          } { %z = test.holder {
                value = 2 * (h + 1) - 2,  // over
                types = [!f32[]]  // lines
              }
              yield }
          yield %y
        }
        """,
        source="hand.mc",
    )
    (nest,) = module.main.body.ops
    (holder,) = nest.regions[1].ops
    assert holder.attrs["value"] == affine.symbol("h") * 2
    assert holder.loc == ("hand.mc:7",)
    assert nest.results[0].type == module.main.args[0].type
