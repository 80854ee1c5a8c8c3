"""What bad models, arrays, options and texts get: a text that says what is wrong, and no more."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from tests.sweeps import part

import minicc
from minicc.cli import commands
from minicc.compile.compiler import Stage, lower
from minicc.compile.observe import load_dump, write_arrays
from minicc.errors import CompilerBug, MiniccError, UserError
from minicc.frontends.onnx import import_model
from minicc.ir.core import Module
from minicc.ir.text.printer import print_module, resources
from minicc.options import Options

F, INT = TensorProto.FLOAT, TensorProto.INT64
X = np.array([-1, 0, 1, 2], np.float32)
SECONDS = 20  # of one attempt


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[tuple[str, int, Any]] = (("x", F, (4,)),),
    outputs: Sequence[str] = ("y",),
    **held: Any,
) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*given) for given in inputs],
        [helper.make_tensor_value_info(name, F, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def node(op: str, *inputs: str, out: str = "y", **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, [out], attributes.pop("name", "it"), **attributes)


RELU = model([node("Relu", "x")])


def session(made: Any = RELU, **options: Any) -> minicc.InferenceSession:
    given = made.SerializeToString() if isinstance(made, ModelProto) else made
    return minicc.InferenceSession(given, options=Options(threads=1, **options))


def run(made: ModelProto = RELU, **feed: Any) -> Any:
    (y,) = session(made).run(None, feed)
    return y


def refusal(f: Callable[[], Any]) -> str:
    with pytest.raises(UserError) as caught:
        f()
    return str(caught.value)


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """A block that fails where it takes longer, on systems that can interrupt it."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# arrays that must simply work


def misaligned(x: Any) -> Any:
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype)
    raw[:] = x
    return raw


def read_only(x: Any) -> Any:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "strided": lambda x: np.repeat(x, 2)[::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "misaligned": misaligned,
    "big-endian": lambda x: x.astype(">f4"),
    "read-only": read_only,
    "broadcast": lambda x: np.broadcast_to(x, (1, 4))[0],
    "nothing masked": np.ma.masked_array,
    "a list of scalars": list,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_works(layout: str) -> None:
    given = LAYOUTS[layout](X)
    assert np.array_equal(run(x=given), np.maximum(X, 0))
    if layout != "a list of scalars":
        f = minicc.jit(lambda a: a * 2 + 1, threads=1)
        assert np.array_equal(f(given), X * 2 + 1)


# inputs, outputs, options

GIVEN: dict[str, tuple[Callable[[], Any], str]] = {
    "no dict": (
        lambda: session().run(None, [X]),  # type: ignore[arg-type]
        "MC0143 error: the inputs are a list, and must be a dict of arrays\n"
        "  hint: run(None, {'x': ...})",
    ),
    "a missing input": (run, "MC0109 error: the input 'x' (f32[4]) is missing"),
    "an input too many": (
        lambda: run(x=X, z=X),
        "MC0108 error: no input is called 'z'\n  hint: inputs: x",
    ),
    "another dtype": (
        lambda: run(x=X.astype(np.float64)),
        "MC0140 error: the input 'x' is float64, and must be float32\n"
        "  hint: convert it: x.astype('float32')",
    ),
    "no numbers": (
        lambda: run(x=None),
        "MC0140 error: the input 'x' is object, and must be float32\n"
        "  hint: give an array of numbers",
    ),
    "a record": (
        lambda: run(x=np.zeros(4, [("a", "f4")])),
        "MC0140 error: the input 'x' is [('a', '<f4')], and must be float32\n"
        "  hint: give an array of numbers",
    ),
    "another rank": (
        lambda: run(x=X[None]),
        "MC0141 error: the input 'x' is 1x4, and must be f32[4]",
    ),
    "another shape": (
        lambda: run(x=X[:3]),
        "MC0141 error: the input 'x' is 3, and must be f32[4]",
    ),
    "masked": (
        lambda: run(x=np.ma.masked_array(X, X < 0)),
        "MC0143 error: the input 'x' is a masked array, and some of its elements are masked\n"
        "  hint: fill them: x.filled(0)",
    ),
    "an unknown output": (
        lambda: session().run(["z"], {"x": X}),
        "MC0107 error: no output is called 'z'\n"
        "  hint: outputs: y; or any value of a node that these depend on",
    ),
    "a name for names": (
        lambda: session().run("y", {"x": X}),
        "MC0107 error: the outputs 'y' are no list of names\n  hint: outputs: y",
    ),
    "no model": (
        lambda: session(3),
        "MC0120 error: a model is a path or bytes, not a int\n  hint: check what is given",
    ),
    "a message": (
        lambda: minicc.InferenceSession(RELU),
        "MC0120 error: a model is a path or bytes, not a ModelProto\n"
        "  hint: give `model.SerializeToString()`",
    ),
    "a path with a zero": (
        lambda: session("a\0b"),
        "MC0120 error: the model can't be read: embedded null byte\n"
        "  at: 'a\\x00b'\n"
        "  hint: check the path",
    ),
    "an unknown option": (
        lambda: minicc.InferenceSession("m.onnx", thread=3),  # type: ignore[arg-type]
        "MC0137 error: no option is called 'thread'\n"
        "  hint: did you mean threads? options: cache_bytes, cache_dir, fuse, keep_denormals, "
        "limits, math, memory_limit, no_fuse, schedules, sizes, skip, spin, target, threads",
    ),
    "an unknown option of jit": (
        lambda: minicc.jit(lambda x: x, maths="fast"),  # type: ignore[arg-type]
        "MC0137 error: no option is called 'maths'\n"
        "  hint: did you mean math? options: cache_bytes, cache_dir, fuse, keep_denormals, limits, "
        "math, memory_limit, no_fuse, schedules, sizes, skip, spin, target, threads",
    ),
    "options of another kind": (
        lambda: minicc.InferenceSession("m.onnx", options={"threads": 3}),  # type: ignore[arg-type]
        "MC0137 error: options is a dict, and must be an Options\n"
        "  hint: minicc.Options(threads=2), or the option itself: threads=2",
    ),
    "no folder": (
        lambda: Options(cache_dir=3),  # type: ignore[arg-type]
        "MC0101 error: cache_dir is 3, and must be a path, or False for no folder",
    ),
    "no function": (
        lambda: minicc.jit(3),  # type: ignore[arg-type]
        "MC0149 error: jit takes a function, not a int\n  hint: jit(f), or @jit above a function",
    ),
    "a function without parameters": (
        lambda: minicc.jit(int),
        "MC0149 error: the parameters of int are not known\n  hint: wrap it: lambda x: f(x)",
    ),
    "arguments that do not fit": (
        lambda: minicc.jit(lambda a: a).lower(X, X),
        "MC0148 error: <lambda>(a): too many positional arguments",
    ),
    "a masked argument": (
        lambda: minicc.jit(lambda a: a + 1).lower(np.ma.masked_array(X, X < 0)),
        "MC0181 error: a is a masked array\n  hint: pass x.filled(value)",
    ),
    "a matrix": (
        lambda: minicc.jit(lambda a: a * a).lower(np.eye(2).view(np.matrix)),
        "MC0181 error: a is a matrix, whose * is another\n  hint: pass numpy.asarray(x)",
    ),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("name", GIVEN)
def test_what_is_given(name: str) -> None:
    f, text = GIVEN[name]
    assert refusal(f) == text


def test_an_array_that_is_none() -> None:
    assert refusal(lambda: run(x=[[1], [1, 2]])).startswith("MC0143 error: the input 'x' is no arr")


def test_options_beside_options() -> None:
    made = minicc.InferenceSession(
        RELU.SerializeToString(), options=Options(threads=1, math="strict"), threads=2
    )
    assert (made.options.threads, made.options.math) == (2, "strict")


# models


def functions_in_a_circle() -> ModelProto:
    made = model([helper.make_node("F", ["x"], ["y"], domain="d")])
    made.opset_import.append(helper.make_opsetid("d", 1))
    body = [helper.make_node("F", ["a"], ["b"], domain="d")]
    made.functions.append(
        helper.make_function("d", "F", ["a"], ["b"], body, [helper.make_opsetid("d", 1)])
    )
    return made


def two_initialisers() -> ModelProto:
    made = model([node("Add", "x", "w")], w=np.ones(4, np.float32))
    made.graph.initializer.append(made.graph.initializer[0])
    return made


def names_within() -> bytes:
    """A model whose inner graph has a name that is not UTF-8."""
    inner = helper.make_graph(
        [node("Relu", "x", out="q@@@q")], "t", [], [helper.make_tensor_value_info("q@@@q", F, None)]
    )
    made = model([node("If", "c", then_branch=inner, else_branch=inner)], c=np.array(True))
    return bytes(made.SerializeToString()).replace(b"q@@@q", b"q\xff\xff\xffq")


OWN = "  hint: each value has one node, input or initialiser that makes it"
MODELS: dict[str, tuple[ModelProto | bytes, dict[str, Any], str]] = {
    "two inputs of one name": (
        model([node("Relu", "x")], [("x", F, (4,)), ("x", F, (3,))]),
        {},
        f"MC0126 error: two inputs are called 'x'\n  at: x\n{OWN}",
    ),
    "two initialisers of one name": (
        two_initialisers(),
        {},
        f"MC0126 error: two initialisers are called 'w'\n  at: w\n{OWN}",
    ),
    "names that are no text": (
        names_within(),
        {},
        "MC0123 error: the model has names that are not UTF-8\n"
        "  at: the given bytes\n"
        "  hint: export it again",
    ),
    "functions in a circle": (
        functions_in_a_circle(),
        {},
        "MC0123 error: the model's functions make no sense: Cycle detected in model-local function "
        "references: d::F -> d::F. Model-local functions must not be recursive.\n"
        "  at: the given bytes\n"
        "  hint: `onnx.checker.check_model(path)` says more",
    ),
    "sizes that contradict each other": (
        model([node("Add", "x", "z")], [("x", F, ("n",)), ("z", F, ("m",))]),
        {"x": X, "z": X[:3]},
        "MC0142 error: the sizes n=4, m=3 do not fit the model: Add (opset 17) on f32[4], f32[3]: "
        "shapes [4] and [3] do not broadcast\n"
        "  at: it\n"
        "  hint: give inputs of other shapes",
    ),
    "an index out of range": (
        model([node("Gather", "w", "x")], [("x", INT, (4,))], w=np.ones(5, np.float32)),
        {"x": np.array([0, -5, 4, 9])},
        "MC0158 error: index 9 leaves an extent of 5\n  at: it",
    ),
    "a loop that gives too much": (
        model(
            [
                helper.make_node(
                    "Loop",
                    ["n", "", "x"],
                    ["last", "y"],
                    "it",
                    body=helper.make_graph(
                        [
                            node("Identity", "c", out="d", name="a"),
                            node("Neg", "v", out="w", name="b"),
                            node("Identity", "v", out="r", name="e"),
                        ],
                        "body",
                        [
                            helper.make_tensor_value_info("k", INT, ()),
                            helper.make_tensor_value_info("c", TensorProto.BOOL, ()),
                            helper.make_tensor_value_info("v", F, (4,)),
                        ],
                        [
                            helper.make_tensor_value_info("d", TensorProto.BOOL, ()),
                            helper.make_tensor_value_info("w", F, (4,)),
                            helper.make_tensor_value_info("r", F, (4,)),
                        ],
                    ),
                )
            ],
            n=np.array(1 << 40),
        ),
        {"x": X},
        "MC0135 error: the output y (f32[1099511627776,4]) needs 16 TiB of memory, and the "
        "limit is 2 KiB\n"
        "  at: it\n"
        "  hint: use smaller shapes or batches, or allow more: Options(memory_limit=BYTES) or "
        "MINICC_MEMORY_LIMIT",
    ),
}


@pytest.mark.parametrize(
    ("places", "shape", "text"),
    [
        ([0, 9], [4], "MC0131 error: a sparse tensor of shape [4] can't be read: index 9 is out"),
        ([0, -1], [4], "MC0131 error: a sparse tensor of shape [4] can't be read: index -1 is neg"),
        ([0, 2], [-4], "MC0131 error: a sparse tensor of shape [-4] can't be read: negative dim"),
        ([0, 2], [10**9, 10**9], "MC0135 error: a sparse tensor of shape [1000000000, 1000000000]"),
    ],
)
def test_sparse_tensors(places: list[int], shape: list[int], text: str) -> None:
    made = model([node("Add", "x", "w")])
    values = helper.make_tensor("w", F, [2], [1.0, 2.0])
    indices = helper.make_tensor("places", INT, [2], places)
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, shape))
    assert refusal(lambda: session(made)).startswith(text)


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    made, feed, text = MODELS[name]
    limit = 2048 if "too much" in name else 1 << 30
    with limited(SECONDS):
        assert refusal(lambda: session(made, memory_limit=limit).run(None, feed)) == text


# the command line


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("run m.onnx --input x=i8[4]=300", 1, "MC0152 error: --input 'x=i8[4]=300': "),
        ("run m.onnx --thread 3", 2, "No such option '--thread'. Did you mean '--threads'?"),
        ("verify m.onnx --stage fuze", 2, "no stage is called 'fuze'; did you mean fuse?"),
        ("verify m.onnx --input x=f64[4]=1", 1, "MC0140 error: the input 'x' is float64"),
        ("rum m.onnx", 2, "No such command 'rum'"),
        ("opt a.mcc --passes simplify", 1, "MC0110 error: "),
        ("opt b.mcc --passes simplify", 1, "graph.add: shapes [4] and [3] do not broadcast"),
        ("opt b.mcc --passes simplify", 1, "b.mcc:4:8"),
        ("opt c.mcc --passes simplify", 1, "MC0147 error: no function is called @main"),
    ],
)
def test_the_command_line(
    words: str, status: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(RELU.SerializeToString())
    head = 'module level = "graph"\n\nfunc @{}(%x: f32[4], %z: f32[3]) -> ("y": f32[4]) {{\n'
    Path("a.mcc").write_text(head.format("main") + "  %y = graph.neg %x : f32[4\n  yield %y\n}\n")
    Path("b.mcc").write_text(head.format("main") + "  %y = graph.add %x, %z\n  yield %y\n}\n")
    Path("c.mcc").write_text(head.format("other") + "  %y = graph.neg %x\n  yield %y\n}\n")
    result = CliRunner().invoke(commands, words.split())
    assert (result.exit_code, text in result.output) == (status, True), result.output


# damage


def network() -> bytes:
    """A small network with weights, shapes and axes as constants."""
    rng = np.random.default_rng(0)
    made = model(
        [
            node("Conv", "x", "w", out="c", name="conv", pads=[1, 1, 1, 1]),
            node("Relu", "c", out="r", name="relu"),
            node("MaxPool", "r", out="p", name="pool", kernel_shape=[2, 2], strides=[2, 2]),
            node("Reshape", "p", "s", out="q", name="flat"),
            node("Gemm", "q", "m", "b", out="g", name="gemm", transB=1),
            node("Slice", "g", "first", "last", "axis", out="k", name="cut"),
            node("Softmax", "k", name="soft", axis=-1),
        ],
        [("x", F, (1, 3, 4, 4))],
        w=rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        s=np.array([1, -1]),
        m=rng.standard_normal((5, 16)).astype(np.float32),
        b=np.ones(5, np.float32),
        first=np.array([1]),
        last=np.array([4]),
        axis=np.array([1]),
    )
    return bytes(made.SerializeToString())


def attempt(data: bytes) -> None:
    """Compile and run; an error of minicc is well, anything else fails."""
    with limited(SECONDS):
        try:
            made = session(data, memory_limit=1 << 28)
            sizes = {
                a.name: [n if isinstance(n, int) else 2 for n in a.shape] for a in made.get_inputs()
            }
            made.run(None, {name: np.ones(shape, np.float32) for name, shape in sizes.items()})
        except CompilerBug:
            raise
        except MiniccError:
            pass


def test_a_model_cut_anywhere() -> None:
    data = network()
    attempt(data)
    for end in range(0, len(data), 97):
        with pytest.raises(MiniccError):
            session(data[:end])


@pytest.mark.parametrize("seed", part(range(4), 3))
def test_a_model_with_other_bytes(seed: int) -> None:
    data, rng = network(), random.Random(seed)
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(damaged))
            damaged[at] = rng.choice((damaged[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
        attempt(bytes(damaged))


_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z0-9_.]+|%\w+|\S')
_ODD = ("%", "{", "}", '"', "nan", "[", "]", "none", "true", "f64", "index", "'x'", "*", "0", "-")


@pytest.mark.parametrize(
    "stage", part(["specialise", "lower-to-structured", "bufferize", "plan-memory"], 3)
)
def test_a_text_with_other_tokens(stage: str, tmp_path: Path) -> None:
    made: dict[str, Module] = {}

    def keep(done: Stage, before: Module, after: Module, seconds: float) -> None:
        made[done.name] = after

    options = Options(threads=1, target="avx2")
    lower(import_model(network()), options, observe=keep)
    path = tmp_path / "damaged.mcc"
    write_arrays(tmp_path / "damaged.mcc.npz", resources(made[stage]))
    text = print_module(made[stage])
    tokens = list(_TOKEN.finditer(text))
    rng = random.Random(stage)
    for k in range(60):
        token = rng.choice(tokens)
        word = token.group()
        choices = ("", f"{word} {word}", rng.choice(tokens).group(), rng.choice(_ODD))
        new = choices[k % len(choices)]
        changed = text[: token.start()] + new + text[token.end() :]
        path.write_text(f"// stage {stage}: damaged\n{changed}", encoding="utf-8")
        with limited(SECONDS):
            try:
                start, module = load_dump(path)
                lower(module, options, start=start)
            except MiniccError:
                pass
