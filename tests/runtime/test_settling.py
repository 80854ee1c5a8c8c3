"""Constants are settled while later stages are at work: the same code, no thread or error lost."""

import gc
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minicc.backends.llvm import compile as native
from minicc.compile import settling
from minicc.compile.compiled import build
from minicc.compile.settling import Settling
from minicc.frontends.trace.tracing import trace
from minicc.ir import program
from minicc.ir.core import Function, Literal, Module, Region
from minicc.ir.types import F32, TensorType
from minicc.limits import without_collection
from minicc.options import Options
from minicc.runtime.saved import Segment

W = np.random.default_rng(3).standard_normal((96, 192)).astype(np.float32)
V = np.random.default_rng(4).standard_normal((192, 64)).astype(np.float32)


def layers(x: Any) -> Any:
    return np.maximum(x @ W, 0) @ V


@pytest.fixture
def module() -> Module:
    return trace(layers, [TensorType(F32, (40, 96))])


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(cache_dir=tmp_path)


def others() -> set[str]:
    """The threads that settle constants or compile."""
    names = ("minicc-settle", "minicc-llvm")
    return {t.name for t in threading.enumerate() if t.name.startswith(names)}


def kept(folder: Path) -> dict[str, bytes]:
    """The entries of a cache."""
    entries = (p for p in folder.rglob("*") if p.is_file() and p.name != "tally")
    return {str(p.relative_to(folder)): p.read_bytes() for p in entries}


def literals(*computes: Callable[[], Any]) -> Module:
    """A program with constants that are computed so."""
    type = TensorType(F32, (2,))
    found = [Literal.computed(type, c, k, ()) for k, c in enumerate(computes)]
    ops = [program.Constant(value=literal, loc=()) for literal in found]
    return Module("program", [Function("main", Region((), ops, ()), {"inputs": 0})])


def ones() -> Any:
    return np.ones(2, np.float32)


def test_code_and_constants_are_the_same_without_it(
    module: Module, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native._prepared.clear()  # whose object each cache is to have
    begun: list[str] = []
    begin = Settling.begin

    def noted(self: Settling, module: Module, limit: int | None = None) -> None:
        begun.append(module.level)
        begin(self, module, limit)

    monkeypatch.setattr(Settling, "begin", noted)
    (ahead,) = build(module, options.replace(cache_dir=tmp_path / "one"), {}).built.steps
    native._prepared.clear()
    monkeypatch.setattr(Settling, "begin", lambda *_: None)
    (after,) = build(module, options.replace(cache_dir=tmp_path / "two"), {}).built.steps
    assert begun == ["structured", "program"]
    assert isinstance(ahead, Segment)
    assert isinstance(after, Segment)
    assert ahead.image == after.image
    assert len(ahead.layout.constants) >= 2
    for one, two in zip(ahead.layout.constants, after.layout.constants, strict=True):
        assert one.tobytes() == two.tobytes()
    assert kept(tmp_path / "one") == kept(tmp_path / "two")
    assert not others()


def test_constants_that_no_stage_packs_are_settled_too(module: Module, options: Options) -> None:
    (step,) = build(module, options.replace(skip=("pack",)), {}).built.steps
    assert isinstance(step, Segment)
    assert len(step.layout.constants) >= 2


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_compilation_that_fails_leaves_no_thread(
    module: Module, options: Options, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    entered, released = threading.Event(), threading.Event()
    settle = Literal.settle

    def held(self: Literal) -> None:
        entered.set()
        released.wait(20)
        settle(self)

    def failing(*_: Any) -> Any:
        assert entered.wait(20)
        assert others() <= {"minicc-settle_0", "minicc-llvm_0", "minicc-llvm_1"}
        released.set()
        raise error

    monkeypatch.setattr(Literal, "settle", held)
    monkeypatch.setattr(native.Compiling, "program", failing)
    with pytest.raises(error):
        build(module, options, {})
    assert not others()


def test_what_a_thread_meets_is_raised() -> None:
    def failing() -> Any:
        raise MemoryError("no memory")

    with settling.settling() as settled:
        settled.begin(literals(ones, failing, ones))
        with pytest.raises(MemoryError, match="no memory"):
            settled.finish()
    assert not others()


def test_each_constant_is_computed_once() -> None:
    made: list[int] = []

    def counted(k: int) -> Any:
        made.append(k)
        return ones()

    module = literals(*[partial(counted, k) for k in range(50)])
    with settling.settling() as settled:
        settled.begin(module)
        settled.begin(module)
        settled.finish()
    assert sorted(made) == list(range(50))


def test_none_is_begun_after_the_end() -> None:
    entered, released = threading.Event(), threading.Event()
    made: list[int] = []

    def first() -> Any:
        entered.set()
        released.wait(20)
        return ones()

    def other() -> Any:
        made.append(1)
        return ones()

    settled = Settling()
    settled.begin(literals(first, *[other] * 9))
    assert entered.wait(20)
    ending = threading.Thread(target=settled.stop)
    ending.start()
    while not settled._stopped:
        pass
    released.set()
    ending.join()
    assert not made
    assert not others()


def test_what_does_not_fit_is_left_alone() -> None:
    with settling.settling() as settled:
        settled.begin(literals(ones), limit=7)
        assert not others()
        settled.finish()


def test_what_was_made_without_collection_counts_as_old() -> None:
    with without_collection():
        made: list[list[int]] = [[] for _ in range(10)]
    assert gc.isenabled()
    old = {id(o) for o in gc.get_objects(generation=2)}
    assert old.issuperset(map(id, made))


def test_what_was_frozen_stays_so() -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with without_collection():
            pass
        assert count >= gc.get_freeze_count() > count // 2
    finally:
        gc.unfreeze()
