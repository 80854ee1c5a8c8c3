"""Each instruction computes what it is said to, on any number of lanes; dots do on every target."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from minicc.backends.llvm.emit import emit_kernel
from minicc.backends.llvm.emitter import symbol_of
from minicc.backends.llvm.isa.table import INSTRUCTIONS, instructions_of, writer_for
from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import assembly, optimise
from minicc.backends.llvm.writer import Vec
from minicc.ir import kernel
from minicc.ir.affine import symbol
from minicc.ir.arith import widens
from minicc.ir.build import Builder
from minicc.ir.core import Function, Region, Value
from minicc.ir.types import BF16, F32, F64, I8, I16, I32, U8, BufferType, DType
from minicc.ir.words import FORMS, word_products
from minicc.runtime.image import load
from minicc.target import MACHINES, Target

Array = npt.NDArray[Any]
RUNNABLE = [name for name, target in MACHINES.items() if target.runs_here()]
LARGEST = -(2**31), 2**31


def called(text: str, symbol: str, target: Target, arrays: list[Array]) -> None:
    library = load(link([Object(optimise(text, target))], [symbol]))
    kinds = [ctypes.c_void_p] * len(arrays)
    ctypes.CFUNCTYPE(None, *kinds)(library[symbol])(*[a.ctypes.data for a in arrays])


def words(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Words whose parts are also the largest and least numbers."""
    some = rng.integers(*LARGEST, shape, dtype=np.int32)
    extremes = rng.choice([0, -1, 0x7FFF7FFF, -0x7FFF8000, -0x7F7F7F80, 0x7F7F7F7F], shape)
    return np.where(rng.random(shape) < 0.5, some, extremes).astype(np.int32)


def operands(name: str, element: str, lanes: int) -> list[Array]:
    rng = np.random.default_rng(lanes)
    if name.startswith("dot."):
        return [words(rng, (lanes,)) for _ in range(3)]
    dtype = np.float32 if element == "float" else np.float64
    x = np.ldexp(rng.uniform(-1, 1, lanes), rng.integers(-40, 40, lanes)).astype(dtype)
    x[: lanes // 4] = [np.inf, 0, -np.inf, 1, 0.75, 1.5, 3, 2.0**-140][: lanes // 4]
    if name == "significand":
        x = abs(np.where((x == 0) | np.isinf(x), dtype(1.5), x))
    return [x, rng.integers(-60, 60, lanes).astype(dtype)][: 1 + (name == "scale")]


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 16, 24, 32])
def test_it_computes_what_it_means(target: str, lanes: int) -> None:
    for name, instruction in instructions_of(MACHINES[target]).items():
        for element in ("i32",) if name.startswith("dot.") else ("float", "double"):
            given, vec = operands(name, element, lanes), Vec(lanes, element)
            w = writer_for(MACHINES[target])
            loaded = [w.inst(f"load {vec}, ptr %x{k}, align 4") for k in range(len(given))]
            w.line(f"store {vec} {w.own[name](w, vec, loaded)}, ptr %out, align 4")
            out = np.empty_like(given[0])
            arguments = ", ".join(["ptr %out", *[f"ptr %x{k}" for k in range(len(given))]])
            text = f"define void @one({arguments}) {{\n{w.text()}\n  ret void\n}}\n"
            called(text + w.declarations(), "one", MACHINES[target], [out, *given])
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(out, instruction.means(*given), name)


@pytest.mark.parametrize("target", MACHINES)
def test_a_target_says_which_dots_it_has(target: str) -> None:
    named = {f"dot.{form}" for form in MACHINES[target].dots}
    assert named == {name for name in instructions_of(MACHINES[target]) if name in named}
    assert len(named) == sum(name.startswith("dot.") for name in instructions_of(MACHINES[target]))


def dot_kernel(rows: int, columns: int, types: tuple[DType, DType, DType], form: str) -> Function:
    """One round of a product: a column of lhs and a row of rhs."""
    acc = types[2]
    shapes = ((rows, 1), (1, columns), (rows, columns))
    buffers = [Value(BufferType(t, s)) for t, s in zip(types, shapes, strict=True)]
    out = Value(BufferType(acc, shapes[2]))
    b = Builder(("here",))
    at = (symbol("t0"), symbol("t1"))
    tiles = [
        b.emit(kernel.Load, buffer, (), at=at, shape=shape)
        for buffer, shape in zip(buffers, shapes, strict=True)
    ]
    made = b.emit(kernel.Dot, *tiles, form=form)
    b.emit_all(kernel.Store, out, made, (), at=at)
    return Function("dot", Region((*buffers, out), b.ops, ()), {"grid": ()})


KINDS = [(F32, F32, F32), (BF16, BF16, F32), (F32, F32, F64), (U8, I8, I32), (I16, I16, I32)]


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("kinds", [*KINDS, *FORMS], ids=str)
def test_a_dot_is_what_its_definition_says(name: str, kinds: Any) -> None:
    target, form = MACHINES[name], kinds if isinstance(kinds, str) else ""
    types = (I32, I32, I32) if form else kinds
    function = dot_kernel(3, 24, types, form)
    text = emit_kernel(function, target)
    if not target.runs_here():
        assert assembly(text, target)
        return
    rng = np.random.default_rng(0)
    arrays = []
    for a in function.args:
        made = words(rng, a.type.extents) if form else rng.integers(-99, 99, a.type.extents)
        arrays.append(made.astype(a.type.dtype.numpy))
    called(text, symbol_of("dot"), target, arrays)
    (op,) = (o for o in function.body.ops if isinstance(o, kernel.Dot))
    (expected,) = op.evaluate(lambda region, args: args, *arrays[:3])
    np.testing.assert_array_equal(arrays[3], expected)


def test_words_multiply_part_by_part() -> None:
    row, column = np.arange(-8, 8, dtype=np.int8), np.arange(100, 116, dtype=np.uint8)
    got = word_products(column.view(np.int32), row.view(np.int32), "u8.i8")
    least = np.array([-(2**31)], np.int32)
    assert got.sum() == (row.astype(int) * column).sum()
    assert word_products(least, least, "i16") == [2**30]


def test_an_accumulator_is_as_wide_or_wider() -> None:
    assert [widens(a, b) for a, b in ((U8, I32), (BF16, F32))] == [True, True]
    assert [widens(a, b) for a, b in ((I8, U8), (I32, F32))] == [False, False]
    with pytest.raises(TypeError, match="can't be added"):
        dot_kernel(1, 4, (F32, F32, I32), "")
    with pytest.raises(TypeError, match="wants i32"):
        dot_kernel(1, 4, (I16, I16, I32), "i16")
    with pytest.raises(ValueError, match="words"):
        dot_kernel(1, 4, (I32, I32, I32), "i4")


def test_names_of_instructions_say_what_they_compute() -> None:
    assert {i.name.partition(".")[0] for i in INSTRUCTIONS} == {
        *("dot", "scale", "fraction", "significand", "exponent")
    }
