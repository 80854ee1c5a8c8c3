"""Whole programs: written, opened, kept in the cache, and found again without the compiler."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minicc
import minicc.tile as tl
from minicc.api import graph_programs
from minicc.cli.programs import write_program
from minicc.compile import compiled
from minicc.compile.compiled import compile_module
from minicc.errors import UserError
from minicc.options import Options
from minicc.runtime import container, programs
from minicc.runtime.cache import Cache
from minicc.runtime.programs import open_program

Array = np.ndarray[Any, Any]
FORBIDDEN = (
    *("onnx", "google.protobuf", "lark", "llvmlite", "ml_dtypes", "rich", "numpy.ma"),
    *("minicc.compile.compiler", "minicc.compile.compiled", "minicc.ir.core", "minicc.ir.graph"),
    *("minicc.passes", "minicc.frontends", "minicc.parts", "minicc.backends.llvm"),
)
X = np.random.default_rng(1).standard_normal((3, 24)).astype(np.float32)
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def floats(values: list[Any]) -> Array:
    return np.array(values, np.float32)


def saved(
    nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], tensors: list[Any]
) -> bytes:
    given, made_of = (
        [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in values.items()]
        for values in (inputs, outputs)
    )
    graph = helper.make_graph(nodes, "g", given, made_of, tensors)
    opsets = [helper.make_opsetid("", 17)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return bytes(made.SerializeToString())


def dense(rows: int | str = 3, seed: int = 0) -> bytes:
    """A layer and a soft-max, with weights that are large enough to be packed."""
    rng = np.random.default_rng(seed)
    tensors = [
        numpy_helper.from_array(rng.standard_normal((24, 40)).astype(np.float32), "w"),
        numpy_helper.from_array(rng.standard_normal(40).astype(np.float32), "b"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Softmax", ["a"], ["y"]),
    ]
    return saved(nodes, {"x": (FLOAT, [rows, 24])}, {"y": (FLOAT, [rows, 40])}, tensors)


def gathered() -> bytes:
    """A row by index, which is checked, and an fmod, which the C library computes."""
    table = np.arange(50, dtype=np.float32).reshape(10, 5)
    tensors = [
        numpy_helper.from_array(table, "t"),
        numpy_helper.from_array(floats([3.5]), "three"),
    ]
    nodes = [
        helper.make_node("Gather", ["t", "i"], ["g"], name="pick"),
        helper.make_node("Mod", ["g", "three"], ["y"], fmod=1),
    ]
    return saved(nodes, {"i": (INT, [4])}, {"y": (FLOAT, [4, 5])}, tensors)


def with_host_ops(rows: int | str = 4) -> bytes:
    """Ops without a lowering between others; a constant of theirs, and one that is an output."""
    tensors = [
        numpy_helper.from_array(np.ones((1, 5), np.float32), "ones"),
        numpy_helper.from_array(np.array([[0], [2]]), "places"),
        numpy_helper.from_array(floats([[9] * 5, [8] * 5]), "rows"),
    ]
    nodes = [
        helper.make_node("Add", ["x", "ones"], ["a"]),
        helper.make_node("ScatterND", ["a", "places", "rows"], ["s"], name="put"),
        helper.make_node("Exp", ["s"], ["e"]),
        helper.make_node("TopK", ["e", "two"], ["v", "k"], name="best"),
        helper.make_node("Mul", ["v", "v"], ["y"]),
        helper.make_node("Identity", ["rows"], ["r"]),
    ]
    tensors.append(numpy_helper.from_array(np.array([2]), "two"))
    outputs = {
        "y": (FLOAT, [rows, 2]),
        "k": (INT, [rows, 2]),
        "r": (FLOAT, [2, 5]),
        "s": (FLOAT, [rows, 5]),
    }
    return saved(nodes, {"x": (FLOAT, [rows, 5])}, outputs, tensors)


MODELS = {
    "dense": (dense(), {"x": X}),
    "gathered": (gathered(), {"i": np.array([1, -1, 9, 0])}),
    "host": (with_host_ops(), {"x": np.arange(20, dtype=np.float32).reshape(4, 5)}),
}


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(threads=1, cache_dir=tmp_path / "cache")


def kept(options: Options) -> list[Path]:
    return sorted(Path(str(options.cache_dir)).glob("*.mcp"))


def bits(arrays: list[Array]) -> list[tuple[Any, ...]]:
    return [(a.dtype, a.shape, a.tobytes()) for a in arrays]


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be compiled from now on."""

    def compiled(*_: Any, **__: Any) -> None:
        raise AssertionError("it was compiled again")

    session = sys.modules["minicc.api.session"]
    monkeypatch.setattr(session, "compiled", compiled)
    monkeypatch.setattr(session, "reader", compiled)


@pytest.mark.parametrize("name", MODELS)
def test_cold_and_warm_and_a_file_give_the_same_bits(
    name: str, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, feed = MODELS[name]
    model = tmp_path / "model.onnx"
    model.write_bytes(data)
    file = tmp_path / "model.mcp"
    write_program(str(model), file, {}, options)
    want = minicc.InferenceSession(model, options=options)
    first = bits(want.run(None, feed))
    forbid(monkeypatch)
    whole: Any = bytearray(file.read_bytes())
    for source in (model, str(model), data, file, file.read_bytes(), whole):
        for threads in (1, 2):
            opened = minicc.InferenceSession(source, options=options.replace(threads=threads))
            assert bits(opened.run(None, feed)) == first
            assert bits(opened.run(None, feed)) == first
            assert opened.get_inputs() == want.get_inputs()
            assert opened.get_outputs() == want.get_outputs()
            names = [o.name for o in want.get_outputs()]
            assert bits(opened.run(names[::-1], feed)) == first[::-1]
            told, known = (s.report().split("\n")[1:] for s in (opened, want))
            assert [t.split(", passes")[0] for t in told] == [k.split(", passes")[0] for k in known]
    minicc.InferenceSession(file, options=Options(cache_dir=False)).run(None, feed)


def test_indices_are_checked_in_a_program_from_a_file(options: Options) -> None:
    for _ in range(2):
        session = minicc.InferenceSession(gathered(), options=options)
        with pytest.raises(UserError, match=r"MC0158.*index 10 leaves an extent of 10") as caught:
            session.run(None, {"i": np.array([0, 0, 10, 0])})
        assert caught.value.where == ("pick",)


@pytest.mark.parametrize("name", MODELS)
def test_one_session_from_several_threads(name: str, options: Options) -> None:
    data, feed = MODELS[name]
    want = bits(minicc.InferenceSession(data, options=options).run(None, feed))
    opened = minicc.InferenceSession(data, options=options.replace(threads=2))
    wrong: list[str] = []

    def work() -> None:
        for _ in range(30):
            if bits(opened.run(None, feed)) != want:
                wrong.append(name)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_results_are_the_callers_own(options: Options) -> None:
    data, feed = MODELS["host"]
    session = minicc.InferenceSession(data, options=options)
    session = minicc.InferenceSession(data, options=options)
    want = bits(session.run(None, feed))
    for got in session.run(None, feed):
        got[...] = -1
    assert bits(session.run(None, feed)) == want


_CHILD = """
import json, sys
import numpy as np
import minicc
source = sys.argv[1]
session = minicc.InferenceSession(source, threads=2)
shape = [n if isinstance(n, int) else 3 for n in session.get_inputs()[0].shape]
got = session.run([session.get_outputs()[0].name], {"x": np.ones(shape, np.float32)})
session.run(None, {"x": np.ones(shape, np.float32)})
session.report()
print(json.dumps([sorted(sys.modules), got[0].tobytes().hex()]))
"""


def started(tmp_path: Path, code: str, *args: str) -> tuple[list[str], str]:
    """The modules that a process of its own imports, and the bits that it computes."""
    environment = {**os.environ, "MINICC_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", code, *args]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    modules, result = json.loads(done.stdout)
    return modules, result


def of_the_compiler(loaded: list[str], forbidden: tuple[str, ...] = FORBIDDEN) -> list[str]:
    names = [m for m in loaded if any(m == f or m.startswith(f + ".") for f in forbidden)]
    return [m for m in names if m != "minicc.backends.llvm"]


@pytest.mark.parametrize("rows", [3, "n"])
@pytest.mark.parametrize("kind", ["cache", "file"])
def test_a_warm_start_imports_nothing_of_the_compiler(
    tmp_path: Path, rows: int | str, kind: str
) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(dense(rows))
    source = model
    if kind == "file":
        source = tmp_path / "model.mcp"
        write_program(str(model), source, {"x": (3, 24)}, Options(cache_dir=False))
    _, cold = started(tmp_path, _CHILD, str(source))
    loaded, result = started(tmp_path, _CHILD, str(source))
    assert result == cold
    assert of_the_compiler(loaded) == []


_JITTED = """
import json, sys
import numpy as np
import minicc

OFTEN = 3

@minicc.jit
def stacked(x):
    y = np.empty(x.shape)
    for i in range(x.shape[0]):
        y[i] = x[i] * OFTEN + i
    while y.max() > 50:
        y = y * 0.5
    return y, np.empty_like(y[0])[:0]

def garbage():
    return [np.full((40, 30), float(sys.argv[1])) for _ in range(50)]

garbage()  # which `np.empty` finds
y, _ = stacked(np.arange(1200.0).reshape(40, 30))
print(json.dumps([sorted(sys.modules), y.tobytes().hex()]))
"""


def test_a_second_process_imports_nothing_of_the_compiler_for_a_function(tmp_path: Path) -> None:
    file = tmp_path / "stacked.py"
    file.write_text(_JITTED)
    code = "import runpy, sys; runpy.run_path(sys.argv.pop(1))"
    _, cold = started(tmp_path, code, str(file), "1")
    loaded, result = started(tmp_path, code, str(file), "2")
    assert result == cold
    traced = ("minicc.ir.core", "minicc.ir.graph", "minicc.frontends")
    forbidden = (*[f for f in FORBIDDEN if f not in traced], "minicc.frontends.onnx")
    assert of_the_compiler(loaded, (*forbidden, "numpy.random")) == []


_COMMAND = """
import sys
from minicc.cli import main
sys.argv[:1] = ["minicc", "run"]
try:
    main()
finally:
    print("modules", *sorted(sys.modules))
"""


def test_a_warm_run_of_the_command_imports_nothing_of_the_compiler(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(dense(3))
    environment = {**os.environ, "MINICC_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", _COMMAND, str(model)]
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert "minicc.api.session" in loaded
    known = [f for f in FORBIDDEN if f != "rich"]  # which draws the table of outputs
    names = [m for m in loaded if any(m == f or m.startswith(f + ".") for f in known)]
    assert names == ["minicc.backends.llvm"] * ("minicc.backends.llvm" in loaded)


@pytest.mark.parametrize("name", ["n", "batch size", "p2o.Dim.0"])
def test_a_program_file_names_free_dimensions_as_its_model_does(
    name: str, options: Options, tmp_path: Path
) -> None:
    model, file = tmp_path / "model.onnx", tmp_path / "model.mcp"
    model.write_bytes(dense(name))
    write_program(str(model), file, {}, options)
    want, opened = (minicc.InferenceSession(source, options=options) for source in (model, file))
    assert opened.get_inputs() == want.get_inputs() == [("x", [name, 24], "tensor(float)")]
    assert opened.get_outputs() == want.get_outputs()
    assert opened.facts.symbols == want.facts.symbols == (name,)
    write_program(str(model), file, {"x": (5, 24)}, options)
    opened = minicc.InferenceSession(file, options=options)
    assert opened.get_inputs() == [("x", [5, 24], "tensor(float)")]
    assert opened.get_outputs()[0].shape == [5, 40]


def test_one_program_serves_all_sizes(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    data = dense("n")
    session = minicc.InferenceSession(data, options=options)
    assert len(kept(options)) == 1  # what is known of the model
    feeds = [{"x": np.resize(X, (rows, 24))} for rows in (1, 3, 17)]
    want = [bits(session.run(None, feed)) for feed in feeds]
    assert len(kept(options)) == 1
    forbid(monkeypatch)
    warm = minicc.InferenceSession(data, options=options)
    assert [bits(warm.run(None, feed)) for feed in feeds] == want
    assert warm.get_inputs() == [("x", ["n", 24], "tensor(float)")]
    assert "any n:" in warm.report()
    assert warm.run(None, {"x": np.resize(X, (5, 24))})[0].shape == (5, 40)
    with pytest.raises(UserError, match="the input 'x' is 3x25"):
        warm.run(None, {"x": np.ones((3, 25), np.float32)})


def test_ops_on_the_host_have_one_program_for_all_sizes(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = with_host_ops("n")
    session = minicc.InferenceSession(data, options=options)
    feeds = [{"x": np.arange(5.0 * n, dtype=np.float32).reshape(n, 5)} for n in (3, 4, 17)]
    want = [bits(session.run(None, feed)) for feed in feeds]
    files = kept(options)
    assert len(files) == 1
    with monkeypatch.context() as m:
        forbid(m)
        warm = minicc.InferenceSession(data, options=options)
        assert [bits(warm.run(None, feed)) for feed in feeds] == want
        assert "any n:" in warm.report()
        assert warm.run(None, {"x": np.ones((6, 5), np.float32)})[0].shape == (6, 2)
    assert kept(options) == files


def test_a_key_is_made_of_all_that_decides(options: Options, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(dense())
    minicc.InferenceSession(model, options=options)
    assert len(kept(options)) == 1
    minicc.InferenceSession(dense(), options=options.replace(threads=2, memory_limit=1 << 40))
    assert len(kept(options)) == 1
    minicc.InferenceSession(model, options=options.replace(math="strict"))
    assert len(kept(options)) == 2
    minicc.InferenceSession(model, options=options.replace(target="x86-64"))
    assert len(kept(options)) == 3
    model.write_bytes(dense(seed=1))
    minicc.InferenceSession(model, options=options)
    assert len(kept(options)) == 4


def test_a_file_that_is_written_again_is_another(options: Options, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    feed = {"x": X}
    results = []
    for seed in (0, 1, 0):
        state = model.stat() if model.exists() else None
        model.write_bytes(dense(seed=seed))
        if state is not None:  # times alone must not decide
            os.utime(model, ns=(state.st_atime_ns, state.st_mtime_ns))
        results.append(bits(minicc.InferenceSession(model, options=options).run(None, feed)))
    assert results[0] == results[2] != results[1]


def test_digests_of_settled_files_are_known(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(dense())
    monkeypatch.setattr(programs, "_SETTLED_NS", -1)
    minicc.InferenceSession(model, options=options)

    def hashed(path: str, threads: int) -> str:
        raise AssertionError(f"{path} was hashed again")

    monkeypatch.setattr(programs, "_digest_of_file", hashed)
    forbid(monkeypatch)
    minicc.InferenceSession(model, options=options).run(None, {"x": X})


def test_a_digest_does_not_depend_on_how_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_LEAF", 4096)
    for size in (0, 1, 4096, 5000, 100_000):
        data = np.random.default_rng(size).bytes(size)
        path = tmp_path / "data"
        path.write_bytes(data)
        assert programs._digest_of_file(str(path), 2) == programs._digest(data)


def test_a_file_of_a_new_size_is_hashed_while_it_is_compiled(
    tmp_path: Path, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a size that was seen there may be a program, which is looked for before."""
    monkeypatch.setattr(programs, "_LEAF", 64)
    model, other = tmp_path / "model.onnx", tmp_path / "other.onnx"
    model.write_bytes(dense())
    other.write_bytes(dense(seed=1))
    made = programs.Programs(model, None, options)
    assert made._hashing is not None
    assert made.find() is None
    minicc.InferenceSession(model, options=options)
    assert len(kept(options)) == 1
    for path, found in ((model, True), (other, False)):
        made = programs.Programs(path, None, options)
        assert made._hashing is None
        assert (made.find() is not None) == found


def test_what_is_hashed_by_a_thread_is_hashed_again_in_the_child_of_a_fork(
    tmp_path: Path, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_LEAF", 64)
    model = tmp_path / "model.onnx"
    model.write_bytes(dense())
    wanted = programs._digest(dense())
    ready, leaf = threading.Event(), programs._leaf

    def late(handle: int, start: int) -> bytes:
        if threading.current_thread().name.startswith("minicc-digest"):
            ready.wait()
        return leaf(handle, start)

    monkeypatch.setattr(programs, "_leaf", late)
    made = programs.Programs(model, None, options)
    assert made._hashing is not None
    child = os.fork()
    if not child:
        ready.set()
        os._exit(0 if made._hashing.result() == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0
    ready.set()
    assert made._hashing.result() == wanted


def test_an_interrupt_ends_the_hashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_LEAF", 16)
    path = tmp_path / "data"
    path.write_bytes(bytes(1 << 16))
    hashed: list[int] = []

    def interrupted(handle: int, start: int) -> bytes:
        hashed.append(start)
        threading.Event().wait(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(programs, "_leaf", interrupted)
    with pytest.raises(KeyboardInterrupt):
        programs._digest_of_file(str(path), 2)
    assert len(hashed) < 1 << 10
    assert not [t for t in threading.enumerate() if t.name.startswith("minicc-digest")]


def external(folder: Path, seed: int) -> Path:
    folder.mkdir(exist_ok=True)
    model = onnx.load_from_string(dense())
    w = np.random.default_rng(seed).standard_normal((24, 40)).astype(np.float32)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "w"))
    onnx.save(
        model,
        folder / "model.onnx",
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location="weights.bin",
        size_threshold=100,
    )
    return folder / "model.onnx"


def test_files_beside_a_model_count(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = external(tmp_path / "a", 5)
    first = bits(minicc.InferenceSession(model, options=options).run(None, {"x": X}))
    before = model.read_bytes()
    with monkeypatch.context() as m:
        forbid(m)
        assert bits(minicc.InferenceSession(model, options=options).run(None, {"x": X})) == first
    weights = tmp_path / "a" / "weights.bin"
    changed = bytearray(weights.read_bytes())
    changed[40:48] = floats([7, 7]).tobytes()
    weights.write_bytes(bytes(changed))
    assert model.read_bytes() == before
    assert bits(minicc.InferenceSession(model, options=options).run(None, {"x": X})) != first
    weights.unlink()
    with pytest.raises(UserError, match=r"MC0133"):
        minicc.InferenceSession(model, options=options)


def test_a_model_that_changes_while_it_is_compiled_is_not_kept(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(dense())

    def compile_late(*args: Any, **named: Any) -> Any:
        model.write_bytes(dense(seed=3))
        return compile_module(*args, **named)

    monkeypatch.setattr("minicc.compile.compiled.compile_module", compile_late)
    session = sys.modules["minicc.api.session"]
    monkeypatch.setattr(session, "compiled", sys.modules["minicc.compile.compiled"])
    minicc.InferenceSession(model, options=options)
    assert kept(options) == []


def test_values_from_within_need_the_model(options: Options, tmp_path: Path) -> None:
    model, file = tmp_path / "model.onnx", tmp_path / "model.mcp"
    model.write_bytes(dense())
    write_program(str(model), file, {}, options)
    for _ in range(2):
        opened = minicc.InferenceSession(model, options=options)
        a, y = opened.run(["a", "y"], {"x": X})
        assert a.shape == y.shape == (3, 40)
    opened = minicc.InferenceSession(file, options=options)
    with pytest.raises(UserError, match=r"MC0164.*a value that is no output") as caught:
        opened.run(["a"], {"x": X})
    assert "the model that it was compiled from" in caught.value.hint
    with pytest.raises(UserError, match=r"MC0164"):
        _ = opened.module
    warm = minicc.InferenceSession(model, options=options)
    assert len(warm.module.main.body.ops) > 2
    warm = minicc.InferenceSession(model, options=options)
    model.write_bytes(dense(seed=2))
    with pytest.raises(UserError, match=r"MC0165"):
        _ = warm.module


def test_a_program_keeps_its_target_and_mathematics(options: Options, tmp_path: Path) -> None:
    model, file = tmp_path / "model.onnx", tmp_path / "model.mcp"
    model.write_bytes(dense())
    write_program(str(model), file, {}, options.replace(target="x86-64", math="strict"))
    opened = minicc.InferenceSession(file, threads=1)
    assert (opened.options.target, opened.options.math) == ("x86-64", "strict")
    with pytest.raises(UserError, match=r"MC0163"):
        minicc.InferenceSession(file, target="avx2")
    with pytest.raises(UserError, match=r"MC0135"):
        minicc.InferenceSession(file, options=Options(memory_limit=1000))
    strange = container.read(str(file))
    with open(tmp_path / "strange.mcp", "wb") as out:
        arrays = [strange.array(container.Place(*p)) for p in strange.manifest["constants"]]
        manifest = {k: v for k, v in strange.manifest.items() if k != "constants_digest"}
        container.write(out, "z80", manifest, strange.code, arrays)
    with pytest.raises(UserError, match=r"MC0106.*z80"):
        minicc.InferenceSession(tmp_path / "strange.mcp")


def test_free_dimensions_in_a_file(options: Options, tmp_path: Path) -> None:
    model, free, bound = (tmp_path / n for n in ("model.onnx", "free.mcp", "bound.mcp"))
    model.write_bytes(dense("n"))
    write_program(str(model), free, {}, options)
    write_program(str(model), bound, {"x": (3, 24)}, options)
    for n in (1, 3, 40):
        feed = {"x": np.resize(X, (n, 24))}
        want = bits(minicc.InferenceSession(model, options=options).run(None, feed))
        assert bits(minicc.InferenceSession(free).run(None, feed)) == want
    assert minicc.InferenceSession(bound).run(None, {"x": X})[0].shape == (3, 40)
    assert dict(open_program(str(bound)).facts.sizes) == {"n": 3}
    with pytest.raises(UserError, match="the input 'x' is 4x24"):
        minicc.InferenceSession(bound).run(None, {"x": np.ones((4, 24), np.float32)})
    model.write_bytes(with_host_ops("n"))
    write_program(str(model), tmp_path / "hosted.mcp", {}, options)
    for n in (3, 17):
        feed = {"x": np.arange(5.0 * n, dtype=np.float32).reshape(n, 5)}
        want = bits(minicc.InferenceSession(model, options=options).run(None, feed))
        assert bits(minicc.InferenceSession(tmp_path / "hosted.mcp").run(None, feed)) == want


# the cache


DAMAGE = ("one bit", "head", "cut", "empty", "longer", "zeros", "folder", "pipe", "link", "closed")


def damage(path: Path, how: str) -> None:
    entry = bytearray(path.read_bytes())
    if how in ("folder", "pipe", "link"):
        path.unlink()
        make = {"folder": os.mkdir, "pipe": os.mkfifo, "link": lambda p: os.symlink("/nope", p)}
        make[how](path)
        return
    if how == "one bit":
        entry[len(entry) // 3] ^= 4
    elif how == "head":
        entry[20] ^= 255
    elif how == "cut":
        del entry[len(entry) * 2 // 3 :]
    elif how == "empty":
        entry.clear()
    elif how == "longer":
        entry += b"x"
    elif how == "zeros":
        entry[:] = bytes(len(entry))
    path.write_bytes(bytes(entry))
    if how == "closed":
        path.chmod(0)


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_entries_are_rebuilt(how: str, options: Options) -> None:
    want = bits(minicc.InferenceSession(dense(), options=options).run(None, {"x": X}))
    folder = Path(str(options.cache_dir))
    for path in list(folder.iterdir()):
        damage(path, how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a folder can't be written over
        again = minicc.InferenceSession(dense(), options=options)
    assert bits(again.run(None, {"x": X})) == want


def test_an_entry_under_anothers_name_is_not_taken(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = {}
    for seed in (0, 1):
        session = minicc.InferenceSession(dense(seed=seed), options=options)
        results[seed] = bits(session.run(None, {"x": X}))
    one, two = (path.read_bytes() for path in kept(options))
    for path, data in zip(kept(options), (two, one), strict=True):
        path.write_bytes(data)
    others = [p for p in Path(str(options.cache_dir)).iterdir() if p.suffix != ".mcp"]
    whole = [p.read_bytes() for p in others]
    for path, data in zip(others, whole[1:] + whole[:1], strict=True):
        path.write_bytes(data)
    for again in (False, True):
        for seed, want in results.items():
            session = minicc.InferenceSession(dense(seed=seed), options=options)
            assert bits(session.run(None, {"x": X})) == want
        if not again:
            forbid(monkeypatch)


def test_a_cache_that_cannot_be_written_is_read(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = bits(minicc.InferenceSession(dense(), options=options).run(None, {"x": X}))

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(30, "Read-only file system")

    for name in ("utime", "replace", "unlink"):
        monkeypatch.setattr(os, name, refuse)
    opened = minicc.InferenceSession(dense(), options=options)
    assert bits(opened.run(None, {"x": X})) == want
    with pytest.warns(RuntimeWarning, match="Read-only"):
        minicc.InferenceSession(dense(seed=7), options=options)


def test_a_full_disk_only_warns(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("minicc.runtime.saved.write", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        session = minicc.InferenceSession(dense(), options=options)
    assert session.run(None, {"x": X})[0].shape == (3, 40)
    assert not [p for p in Path(str(options.cache_dir)).iterdir() if p.name.startswith(".")]


def test_what_is_evicted_goes_on_running(options: Options) -> None:
    minicc.InferenceSession(dense(), options=options)
    session = minicc.InferenceSession(dense(), options=options)
    want = bits(session.run(None, {"x": X}))
    cache = Cache(options.cache_dir, limit=20_000)
    for number in range(30):
        cache.put(str(number), bytes(1000))
    assert kept(options) == []
    assert bits(session.run(None, {"x": X})) == want


def open_and_run(folder: str, results: Any) -> None:
    session = minicc.InferenceSession(dense(), options=Options(threads=1, cache_dir=folder))
    results.put(session.run(None, {"x": X})[0].tobytes())


def test_two_processes_share_a_cold_cache(options: Options) -> None:
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    folder = str(options.cache_dir)
    workers = [spawn.Process(target=open_and_run, args=(folder, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    found = {results.get(timeout=120) for _ in workers}
    for worker in workers:
        worker.join()
    assert len(found) == 1
    assert len(kept(options)) == 1
    assert not [p for p in Path(folder).iterdir() if p.name.startswith(".")]


def test_large_programs_are_written_aside(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_ASIDE", 0)
    want = bits(minicc.InferenceSession(dense(), options=options).run(None, {"x": X}))
    for thread in threading.enumerate():
        if thread.name == "minicc-keep":
            thread.join()
    forbid(monkeypatch)
    assert bits(minicc.InferenceSession(dense(), options=options).run(None, {"x": X})) == want


def test_a_model_in_parts_says_what_is_kept(options: Options) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"]),
        helper.make_node("Cast", ["n"], ["y"], to=FLOAT),
    ]
    data = saved(nodes, {"x": (FLOAT, [4])}, {"y": (FLOAT, [1, "k"])}, [])
    session = minicc.InferenceSession(data, options=options)
    assert session.run(None, {"x": floats([0, 1, 0, 2])})[0].tolist() == [[1, 3]]
    if "in parts" in session.report():
        assert "only the object code of kernels is kept" in session.report()
        assert kept(options) == []


def _halved(x: Any) -> Any:
    for _ in range(int(np.abs(x).max()) % 3 + 30):
        x = x[::-1] * 0.5 + 1
    return np.sort(x)[:5], float(x.sum())


def _doubled(x: Any, y: Any) -> None:
    row = tl.program_id(0)
    tl.store(y, (row, tl.ds(0, 50)), tl.load(x, (row, tl.ds(0, 50))) * 2)


def test_what_python_code_gave_is_compiled_by_one_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = minicc.Options(cache_dir=str(tmp_path))
    by_hand = minicc.kernel(grid=lambda x: x.shape[0], out=lambda x: x, options=options)
    x = np.random.default_rng(0).standard_normal(50)
    (first, sum_), twice = minicc.jit(_halved, options=options)(x), by_hand(_doubled)(x[None])
    made: list[Any] = []

    def counted(*args: Any) -> Any:
        made.append(args)
        return compile_module(*args)

    monkeypatch.setattr(compiled, "compile_module", counted)
    monkeypatch.setattr(graph_programs, "compiled", compiled)
    again = minicc.jit(_halved, options=options)
    values, total = again(x)
    assert (values.tobytes(), total) == (first.tobytes(), sum_)
    assert "kernel" in str(again.explain())
    assert by_hand(_doubled)(x[None]).tobytes() == twice.tobytes()
    assert not made
    minicc.jit(_halved, options=options)(x[1:])
    shorter = len(made)
    minicc.jit(_halved, options=options.replace(math="strict"))(x)
    assert len(made) > shorter > 0
