"""`InferenceSession`: a compiled ONNX model with ONNX Runtime's interface.

Mirrors: onnxruntime.InferenceSession; specialisation by shape is JAX's jit.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.compiled import Compilation, compile_module
from minicc.errors import Problems, UserError
from minicc.frontends.onnx import import_model
from minicc.ir import affine
from minicc.ir.core import Array, Function
from minicc.ir.types import TensorType
from minicc.options import Options
from minicc.passes.graph.specialise import free_symbols

_ONNX_NAMES = {
    "f16": "tensor(float16)",
    "bf16": "tensor(bfloat16)",
    "f32": "tensor(float)",
    "f64": "tensor(double)",
    "bool": "tensor(bool)",
}


class NodeArg(NamedTuple):
    """An input or output of a session.

    Name, shape (numbers, and names of free dimensions), type as ONNX spells it.
    """

    name: str
    shape: list[int | str]
    type: str


class InferenceSession:
    """A compiled ONNX model, with ONNX Runtime's interface.

    `model` is a path or the model's bytes. A model whose shapes are known is compiled at once; one
    with free dimensions when `run` first sees each set of sizes. May be entered from several
    Python threads at once.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        threads: int | None = None,
        math: str | None = None,
        target: str | None = None,
        options: Options | None = None,
    ) -> None:
        self.options = options or Options(threads=threads, math=math, target=target)
        began = time.perf_counter()
        self.module = import_model(model)
        self._import_seconds = time.perf_counter() - began
        self._compiled: dict[tuple[int, ...], Compilation] = {}
        self._lock = threading.Lock()
        self._symbols = free_symbols(self.module.main)
        self._args = [(a.hint, a.type, a.type.dtype.numpy) for a in self.module.main.args]
        self._fixed = None if self._symbols else self._compilation({})

    def get_inputs(self) -> list[NodeArg]:
        """The inputs in order."""
        return [_node_arg(name, type) for name, type, _ in self._args]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in order."""
        main = self.module.main
        return [
            _node_arg(n, v.type) for n, v in zip(main.result_names, main.body.yields, strict=True)
        ]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> list[Array]:
        """The outputs of those names (all with None) for arrays by input name.

        Arrays may be of any layout; dtypes and shapes must be the model's. UserError lists all
        that is wrong.
        """
        arrays: list[Array] = []
        fits = len(input_feed) == len(self._args)
        for name, type, dtype in self._args:
            array = input_feed.get(name)
            if (
                fits
                and array.__class__ is np.ndarray
                and array.dtype == dtype
                and array.shape == type.shape
                and array.flags.c_contiguous
                and array.flags.aligned
            ):
                arrays.append(array)
            else:
                arrays = check_inputs(self.module.main, input_feed)
                break
        compiled = self._fixed or self._compilation(self.binding(arrays))
        outputs = compiled.executable.run(arrays)
        return outputs if output_names is None else self._select(output_names, outputs)

    def _select(self, names: Sequence[str], outputs: list[Array]) -> list[Array]:
        known = self.module.main.result_names
        for name in names:
            if name not in known:
                raise UserError(
                    "MC0107", f"no output is called {name!r}", hint=f"outputs: {', '.join(known)}"
                )
        return [outputs[known.index(name)] for name in names]

    def binding(self, arrays: Sequence[Array]) -> dict[str, int]:
        """The sizes of the free dimensions that arrays in the order of the inputs have."""
        binding: dict[str, int] = {}
        for (_, type, _), array in zip(self._args, arrays, strict=True):
            for extent, n in zip(type.shape, array.shape, strict=True):
                if isinstance(extent, affine.Expr) and extent.is_atom():
                    binding[next(iter(extent.symbols()))] = n
        return binding

    def _compilation(self, binding: Mapping[str, int]) -> Compilation:
        name = tuple(binding[s] for s in self._symbols)
        found = self._compiled.get(name)
        if found is None:
            with self._lock:
                found = self._compiled.get(name)
                if found is None:
                    found = self._compiled[name] = compile_module(
                        self.module, self.options, binding
                    )
        return found

    def report(self) -> str:
        """What was compiled, and how long each part took."""
        count = len(self.module.main.body.ops)
        lines = [f"import {self._import_seconds * 1e3:.0f} ms, {count} graph ops"]
        for sizes, c in self._compiled.items():
            shapes = (
                ", ".join(f"{s}={n}" for s, n in zip(self._symbols, sizes, strict=True))
                or "static shapes"
            )
            own = sum(v for k, v in c.seconds.items() if k != "llvm")
            lines.append(
                f"{shapes}: {c.launches} launches of {c.kernels} kernels, "
                f"target {self.options.machine.name}, passes {own * 1e3:.0f} ms, "
                f"LLVM {c.seconds['llvm'] * 1e3:.0f} ms"
            )
        return "\n".join(lines)


def _node_arg(name: str, type: TensorType) -> NodeArg:
    shape = [n if isinstance(n, int) else str(n) for n in type.shape]
    return NodeArg(name, shape, _ONNX_NAMES.get(type.dtype.name) or f"tensor({_integer(type)})")


def _integer(type: TensorType) -> str:
    name = type.dtype.name
    return f"uint{name[1:]}" if name.startswith("u") else f"int{name[1:]}"


def check_inputs(main: Function, feed: Mapping[str, Any]) -> list[Array]:
    """The arrays in the order of the arguments, C-contiguous and native.

    UserError lists all that is wrong.
    """
    problems = Problems()
    names = [a.hint for a in main.args]
    for name in feed:
        if name not in names:
            problems.add(
                UserError(
                    "MC0108", f"no input is called {name!r}", hint=f"inputs: {', '.join(names)}"
                )
            )
    arrays: list[Array] = []
    sizes: dict[str, int] = {}
    for a in main.args:
        if a.hint not in feed:
            problems.add(UserError("MC0109", f"the input {a.hint!r} ({a.type}) is missing"))
            continue
        array = np.asarray(feed[a.hint])
        wanted = a.type.dtype.numpy
        if array.dtype.newbyteorder("=") != wanted:
            problems.add(
                UserError(
                    "MC0140",
                    f"the input {a.hint!r} is {array.dtype}, and must be {wanted}",
                    hint=f"convert it: {a.hint}.astype('{wanted}')",
                )
            )
        elif not _shape_fits(a.type, array.shape, sizes):
            shape = "x".join(map(str, array.shape)) or "a scalar"
            problems.add(
                UserError("MC0141", f"the input {a.hint!r} is {shape}, and must be {a.type}")
            )
        arrays.append(np.require(array, wanted, ["C", "A"]))
    problems.check()
    return arrays


def _shape_fits(type: TensorType, shape: tuple[int, ...], sizes: dict[str, int]) -> bool:
    if len(shape) != type.rank:
        return False
    for extent, n in zip(type.shape, shape, strict=True):
        if isinstance(extent, int):
            if extent != n:
                return False
        elif sizes.setdefault(str(extent), n) != n:
            return False
    return True
