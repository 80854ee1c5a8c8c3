"""Kernels that differ in numbers alone share their code, and compute what they did apart."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from tests.stages.programs import constant, machine_code, module

from minicc.backends.llvm import compile as llvm
from minicc.backends.llvm.emitter import symbol_of
from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import optimise
from minicc.backends.llvm.templates import FUNCTION, Template, templates_of
from minicc.compile.compiler import lower
from minicc.errors import CompilerBug
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Module, Value
from minicc.ir.types import F32, TensorType
from minicc.options import Options
from minicc.runtime.image import load
from minicc.target import TARGETS, Target

_HOST = Target.host()
_RUNNABLE = [name for name, target in TARGETS.items() if target.runs_here()]
_FORM = """
define void @kernel.{name}(ptr %p, i64 %x) nounwind {{
  ; {many} rounds
  %v1 = mul nsw i64 %x, {many}
  %v2 = add nsw i64 %v1, {more}
  %v3 = getelementptr inbounds {element}, ptr %p, i64 {far}
  %v4 = load i64, ptr %v3
  %v5 = icmp slt i64 %x, {limit}
  %v6 = select i1 %v5, i64 %v2, i64 %v4
  store i64 %v6, ptr %p
  ret void
}}
"""


def form(name: str, many: int, more: int, far: int, limit: int, element: str = "i64") -> str:
    return _FORM.format(name=name, many=many, more=more, far=far, limit=limit, element=element)


def called(template: Template, names: Sequence[str], name: str, data: list[int], x: int) -> int:
    """What a kernel leaves in the first number of its data."""
    code = optimise(template.text, _HOST)
    instances = zip(names, template.instances, strict=True)
    objects = [Object(code, {FUNCTION: symbol_of(n)}, numbers) for n, (_, numbers) in instances]
    library = load(link(objects, [f"kernel.{name}"]))
    memory = (ctypes.c_int64 * len(data))(*data)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library[f"kernel.{name}"])
    call(ctypes.addressof(memory), x)
    library.close()
    return memory[0]


def test_one_code_with_the_numbers_of_each() -> None:
    rows = {"a": (3, 5, 1, 10), "b": (700, 5, 2, 1 << 20), "c": (1 << 27, 5, 3, 7)}
    (template,) = templates_of([form(name, *row) for name, row in rows.items()])
    assert [place for place, _ in template.instances] == [0, 1, 2]
    assert "nsw i64 %v1, 5\n" in template.text, "what is the same everywhere stays a number"
    for name, (many, more, far, limit) in rows.items():
        data = [11, 22, 33, 44]
        for x in (0, 6, 7, 9, 10, 1 << 20):
            wanted = x * many + more if x < limit else data[far]
            assert called(template, [*rows], name, list(data), x) == wanted


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (form("a", 3, 5, 1, 10), form("b", 3, 5, 1, 10).replace("mul", "sub")),
        (form("a", 3, 5, 1, 10), form("b", 3, 5, 1, 10, "i32")),
        (form("a", 3, 5, 1, 10), form("b", 1 << 31, 5, 1, 10)),
        (form("a", 3, 5, 1, 10), form("b", 3, 5, (1 << 28) + 1, 10)),
        (form("a", 3, 5, 1, 10), form("b", 3, 5, 1, 10).replace("i64 %v1, 5", "i64 %v1, -5")),
    ],
)
def test_other_forms_are_compiled_apart(one: str, other: str) -> None:
    assert len(templates_of([one, other])) == 2


def test_one_kernel_is_compiled_as_it_is() -> None:
    text = form("a", 3, 5, 1, 10)
    (template,) = templates_of([text])
    assert template.text == text.replace("kernel.a", FUNCTION)


def test_a_number_that_is_asked_for_otherwise_is_a_bug() -> None:
    """Only instructions that take the number itself may refer to it."""
    text = "@n0 = external hidden global i8 define ptr @f() { ret ptr @n0 }"
    with pytest.raises(CompilerBug, match="relocation"):
        link([Object(optimise(text, _HOST), numbers={"n0": 3})], ["f"])


def _layers(channels: Sequence[int]) -> Module:
    """Convolutions of one form and several sizes, each followed by a sum and a maximum."""
    rng = np.random.default_rng(1)

    def body(b: Builder, x: Value) -> Sequence[Value]:
        for below, above in pairwise(channels):
            weights = rng.normal(size=(above, below, 1, 1)).astype(np.float32) / below
            shift = rng.normal(size=(above, 1, 1)).astype(np.float32)
            attrs = {
                "strides": (1, 1),
                "dilations": (1, 1),
                "groups": 1,
                "layout": "channels_first",
            }
            x = b.emit(graph.Conv, x, constant(b, weights), **attrs)
            x = b.emit(
                graph.Max, b.emit(graph.Add, x, constant(b, shift)), constant(b, np.float32(0))
            )
        return [x]

    return module(body, TensorType(F32, (1, channels[0], 14, 14)))


@pytest.mark.parametrize("target", _RUNNABLE)
def test_bits_of_layers_are_those_of_layers_apart(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    channels = (48, 96, 144, 192, 240, 96)
    program = lower(_layers(channels), Options(target=target))
    x = np.random.default_rng(2).normal(size=(1, channels[0], 14, 14)).astype(np.float32)
    made: list[str] = []

    def shared(texts: Sequence[str]) -> list[Template]:
        found = templates_of(texts)
        made.extend(template.text for template in found)
        return found

    def apart(texts: Sequence[str]) -> list[Template]:
        return [
            Template(template.text, ((place, numbers),))
            for place, text in enumerate(texts)
            for template in templates_of([text])
            for _, numbers in template.instances
        ]

    monkeypatch.setattr(llvm, "templates_of", shared)
    (got,) = machine_code(program, target, [x], 2)
    assert len(made) < len(program.functions) - 1, "these layers have kernels of one form"
    monkeypatch.setattr(llvm, "templates_of", apart)
    (wanted,) = machine_code(program, target, [x], 2)
    assert got.tobytes() == wanted.tobytes()
