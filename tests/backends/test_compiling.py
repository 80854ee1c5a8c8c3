"""Kernels are compiled while others are made; the program is the same."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.stages.programs import constant, module

from minicc.backends.base import MemoryStore
from minicc.backends.llvm import compile as native
from minicc.backends.llvm.compile import Compiling, Objects
from minicc.backends.llvm.emit import emit_kernel
from minicc.compile.compiled import build
from minicc.compile.compiler import STAGES, Stage, lower
from minicc.errors import CompilerBug, UserError
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Function, Module, Value
from minicc.ir.text.printer import print_module
from minicc.ir.types import F32, TensorType
from minicc.limits import Limits, watched
from minicc.options import Options
from minicc.runtime.threads import runtime_code
from minicc.target import TARGETS

_TARGET = TARGETS["x86-64"]


def layers(sizes: Sequence[int] = (24, 40, 56, 40)) -> Module:
    """Products of several sizes, each followed by a maximum, then a sum of all elements."""
    rng = np.random.default_rng(1)

    def body(b: Builder, x: Value) -> Sequence[Value]:
        for below, above in pairwise(sizes):
            weights = rng.normal(size=(below, above)).astype(np.float32) / below
            x = b.emit(graph.Contract, x, constant(b, weights), equation="mk,kn->mn")
            x = b.emit(graph.Max, x, constant(b, np.float32(0)))
        return [x, b.emit(graph.Reduce, x, axes=(0, 1), combine="add")]

    return module(body, TensorType(F32, (9, sizes[0])))


@pytest.mark.parametrize("options", [Options(), Options(skip=("unroll",)), Options(target="avx2")])
def test_shown_kernels_are_those_of_the_program(options: Options) -> None:
    shown: list[Sequence[Function]] = []
    program = lower(layers(), options, begin=shown.append)
    bodies = {f.body for f in program.functions}
    assert len(shown) > 1
    assert any(len(kernels) > 1 for kernels in shown), "layers of one form are shown together"
    assert {f.body for kernels in shown for f in kernels} == bodies - {program.main.body}
    assert print_module(program) == print_module(lower(layers(), options))


def test_what_takes_longest_is_begun_first() -> None:
    """A kernel of many ops that is begun last is waited for, while other cores have no work."""
    shown: list[Sequence[Function]] = []

    def body(b: Builder, x: Value) -> Sequence[Value]:
        small = b.emit(graph.Reduce, x, axes=(0,), combine="max")
        weights = constant(b, np.ones((24, 40), np.float32))
        return [small, b.emit(graph.Contract, x, weights, equation="mk,kn->mn")]

    lower(module(body, TensorType(F32, (9, 24))), Options(), begin=shown.append)
    lengths = [len(kernels[0].body.ops) for kernels in shown]
    assert len(lengths) > 1
    assert lengths[0] == max(lengths)


def test_each_stage_is_told_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, told = [0.0], dict[str, float]()

    def observe(stage: Stage, before: Module, after: Module, seconds: float) -> None:
        told[stage.name] = seconds

    def slow(kernels: Sequence[Function]) -> None:
        now[0] += 100

    def unrolled(function: Function) -> Function:
        now[0] += 1
        return function

    def clock() -> float:
        return now[0]

    monkeypatch.setattr("minicc.compile.compiler.time.perf_counter", clock)
    stages = [s._replace(kernel=unrolled) if s.name == "unroll" else s for s in STAGES]
    monkeypatch.setattr("minicc.compile.compiler.STAGES", tuple(stages))
    program = lower(layers(), Options(), observe=observe, begin=slow)
    took = {name: seconds for name, seconds in told.items() if seconds}
    assert took == {"unroll": len(program.functions) - 1}


def test_what_fails_in_a_stage_of_kernels_is_its_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Any:
        raise ValueError("no such loop")

    monkeypatch.setattr("minicc.passes.kernel.unroll._Unrolling.ops", failing)
    with pytest.raises(CompilerBug, match="in stage unroll: no such loop") as found:
        lower(layers(), Options(), begin=lambda kernels: None)
    assert found.value.stage == "unroll"


def test_one_code_for_kernels_begun_and_not_begun() -> None:
    store = MemoryStore()
    program = lower(layers(), Options(target="x86-64"))
    kernels = [f for f in program.functions if f is not program.main]
    with Compiling(_TARGET, "nothing", runtime_code(), store) as compiling:
        late = compiling.program(program)
    with Compiling(_TARGET, "nothing", runtime_code(), store) as compiling:
        compiling.begin(kernels)
        early = compiling.program(program)
    assert early.image == late.image


def test_all_that_was_made_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    with Objects(_TARGET, store) as objects:
        codes = [objects.code(str(k), partial(bytes, k)) for k in range(20)]
        objects.keep()
    assert [code.result() for code in codes] == [bytes(k) for k in range(20)]

    def never() -> bytes:
        raise AssertionError("the store has it")

    with Objects(_TARGET, store) as objects:
        assert [objects.code(str(k), never).result() for k in range(20)] == [*map(bytes, range(20))]


def test_what_llvm_rejects_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*a: Any) -> str:
        return emit_kernel(*a).replace("ret void", "ret")

    monkeypatch.setattr(native, "emit_kernel", broken)
    with pytest.raises(CompilerBug, match="LLVM rejects the IR"):
        build(layers(), Options(cache_dir=None), {})
    assert not [t for t in threading.enumerate() if t.name.startswith("minicc-llvm")]


def test_what_waits_for_llvm_is_given_up_when_time_is_over() -> None:
    def never() -> bytes:
        raise AssertionError("there is no time left")

    with watched(Limits(seconds=0)), Objects(_TARGET, MemoryStore()) as objects:
        code = objects.code("text", never)
        with pytest.raises(UserError, match="MC0177"):
            code.result()


def test_turns_are_short_as_long_as_something_is_compiled() -> None:
    usual = sys.getswitchinterval()
    with Objects(_TARGET, MemoryStore()):
        short = sys.getswitchinterval()
        with pytest.raises(KeyboardInterrupt), Objects(_TARGET, MemoryStore()):
            raise KeyboardInterrupt
        assert sys.getswitchinterval() == short < usual
    assert sys.getswitchinterval() == usual


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
def test_turns_are_as_usual_in_the_child_of_a_fork() -> None:
    usual = sys.getswitchinterval()
    with Objects(_TARGET, MemoryStore()):
        child = os.fork()
        if not child:
            with Objects(_TARGET, MemoryStore()):
                short = sys.getswitchinterval() < usual
            os._exit(0 if short and sys.getswitchinterval() == usual else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_what_a_compilation_made_is_gone_with_its_last_name() -> None:
    """No cycles hold it, which would wait for the collector."""
    build(layers(), Options(), {})
    gc.collect()
    gc.disable()
    try:
        build(layers((24, 32, 48, 32)), Options(), {})
        assert gc.collect() < 100
    finally:
        gc.enable()
