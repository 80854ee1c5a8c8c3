"""What the tests of ONNX Runtime's own operators share: cases, their models, and two oracles.

Each case is one node. It is compiled with the shapes of its inputs and with some of the extents
free, and both are compared with NumPy's result, and with ONNX Runtime's where that is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper
from tests.sweeps import part

from minicc.api.session import InferenceSession
from minicc.frontends.onnx import import_model
from minicc.ir import graph

Array = np.ndarray[Any, Any]
F4 = np.float32
DOMAINS = ("com.microsoft.nchwc", "com.microsoft")


@dataclass(frozen=True)
class Case:
    """A node, what goes in, and what comes out.

    Inputs whose indices are in `constants` are initialisers. `free` names the extents that are free
    in the other inputs. Of what is None in `wants` neither oracle is asked. `runtime` says whether
    ONNX Runtime's CPU provider has it, `error` how far results may be apart.
    """

    op: str
    inputs: Sequence[Array | None]
    wants: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Sequence[int] = ()
    free: Mapping[int, str] = field(default_factory=dict)
    error: float = 2e-5
    runtime: bool = True

    @property
    def fed(self) -> dict[str, Array]:
        """The inputs that are given to a session, by name."""
        given = enumerate(self.inputs)
        return {f"x{k}": x for k, x in given if x is not None and k not in self.constants}

    def model(self, free: bool) -> bytes:
        """The model, with free dimensions or without."""
        domain = next((d for d in DOMAINS if self.op.startswith(f"{d}.")), "")
        names = ["" if x is None else f"x{k}" for k, x in enumerate(self.inputs)]
        outs = ["" if w is None else f"y{k}" for k, w in enumerate(self.wants)]
        name = self.op.removeprefix(f"{domain}.")
        node = helper.make_node(name, names, outs, name="it", domain=domain, **self.attributes)

        def type_of(x: Array) -> int:
            return int(helper.np_dtype_to_tensor_dtype(x.dtype))

        def shape_of(x: Array) -> list[int | str]:
            return [self.free.get(n, n) for n in x.shape] if free else [*x.shape]

        inputs = [
            helper.make_tensor_value_info(name, type_of(x), shape_of(x))
            for name, x in self.fed.items()
        ]
        constants = [
            numpy_helper.from_array(x, f"x{k}")
            for k, x in enumerate(self.inputs)
            if k in self.constants and x is not None
        ]
        outputs = [
            helper.make_tensor_value_info(out, type_of(np.asarray(w)), None)
            for out, w in zip(outs, self.wants, strict=True)
            if out
        ]
        graph = helper.make_graph([node], "case", inputs, outputs, constants)
        opsets = [helper.make_opsetid("", 21)]
        opsets += [helper.make_opsetid(domain, 1)] if domain else []
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return bytes(model.SerializeToString())


def in_forms(cases: Mapping[str, Case]) -> pytest.MarkDecorator:
    """Each case with shapes that are known and with free ones; often one of both in `make test`."""
    pairs = {
        f"{name}, free" if free else name: (case, free)
        for name, case in cases.items()
        for free in ((False, True) if case.free else (False,))
    }
    taken = part(pairs, 4)
    return pytest.mark.parametrize(("case", "free"), [pairs[name] for name in taken], ids=taken)


def check(case: Case, free: bool) -> None:
    """The same as NumPy, in machine code."""
    wanted = [np.asarray(w) for w in case.wants if w is not None]
    model = case.model(free)
    ops = list(import_model(model).main.body.ops)
    assert not any(isinstance(op, graph.Host) for op in ops), "it runs on the host"
    agree(InferenceSession(model, threads=1).run(None, case.fed), wanted, case.error)


def check_runtime(case: Case) -> None:
    """The same as ONNX Runtime, if that is installed."""
    ort = pytest.importorskip("onnxruntime")
    if not case.runtime:
        pytest.skip("ONNX Runtime's CPU provider does not have it")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    ort.set_default_logger_severity(4)
    case = mild(case) if saturates() else case
    model = case.model(False)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, case.fed)
    got = InferenceSession(model, threads=1).run(None, case.fed)
    agree(got, wanted, case.error)


@cache
def saturates() -> bool:
    """Whether ONNX Runtime adds pairs of products of u8 and s8 in 16 bits, as without VNNI."""
    import onnxruntime

    rows, columns = np.full((4, 64), 255, np.uint8), np.full((64, 16), 127, np.int8)
    case = Case("MatMulInteger", [rows, columns], [np.zeros((4, 16), np.int32)], {}, (1,))
    session = onnxruntime.InferenceSession(case.model(False), providers=["CPUExecutionProvider"])
    (got,) = session.run(None, case.fed)
    return not np.array_equal(got, rows.astype(np.int32) @ columns.astype(np.int32))


def mild(case: Case) -> Case:
    """The case with weights of 7 bits for 8, two of whose products fit 16 bits together."""
    inputs = [
        x // 2 if k in case.constants and x is not None and x.dtype == np.int8 and x.ndim > 1 else x
        for k, x in enumerate(case.inputs)
    ]
    return replace(case, inputs=inputs)


def agree(got: Sequence[Array], wanted: Sequence[Array], error: float) -> None:
    """Results of the same types and shapes, as near as they must be."""
    for k, (one, other) in enumerate(zip(got, wanted, strict=True)):
        assert one.dtype == other.dtype, f"output {k}"
        assert one.shape == other.shape, f"output {k}"
        whole = one.dtype.kind in "iub"
        a, b = (v.astype(np.int64 if whole else np.float64) for v in (one, other))
        relative = 0 if whole else error
        np.testing.assert_allclose(a, b, rtol=relative, atol=error, err_msg=f"output {k}")


def random(*shape: int, seed: int = 3, low: float = -2, high: float = 2) -> Array:
    """Uniform numbers in f32."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(F4)


def integers(*shape: int, dtype: Any = np.uint8, seed: int = 3, high: int | None = None) -> Array:
    """Uniform integers of the whole range of a type, or from 0 below a bound."""
    info = np.iinfo(dtype)
    first, last = (info.min, int(info.max) + 1) if high is None else (0, high)
    return np.random.default_rng(seed).integers(first, last, shape).astype(dtype)


def half(x: Array) -> Array:
    """The same in f16."""
    return x.astype(np.float16)


def brain(x: Array) -> Array:
    """The same in bf16."""
    return x.astype(ml_dtypes.bfloat16)


__all__ = [
    "Array",
    "Case",
    "agree",
    "brain",
    "check",
    "check_runtime",
    "half",
    "integers",
    "random",
]
