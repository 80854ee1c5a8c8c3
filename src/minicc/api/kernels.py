"""`kernel`: kernels by hand, written in Python over tiles.

The function is traced once for each set of shapes, element types and constants, and compiled as a
program of one launch. Within a traced function it becomes an op of the graph, and so it may be what
an operator of a user's domain means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minicc import errstate
from minicc.api.graph_programs import GraphProgram
from minicc.frontends.trace.tiles.function import KernelFunction
from minicc.frontends.trace.tiles.traced import called
from minicc.frontends.trace.tiles.tracing import Spec
from minicc.ir import graph
from minicc.ir.arrays import Array, dense
from minicc.ir.check_kernel import check_kernel
from minicc.ir.core import Function, Module, Region, Value
from minicc.ir.text.printer import print_function
from minicc.later import Later
from minicc.locks import lock
from minicc.options import Options, options_of
from minicc.runtime import direct
from minicc.runtime.execute import NativeExecutable

if TYPE_CHECKING:
    from minicc.frontends.onnx import by_hand
else:
    by_hand = Later("minicc.frontends.onnx.by_hand")


class Kernel(KernelFunction):
    """What `kernel` returns: a function of arrays that is compiled for each kind that it meets."""

    def __init__(self, f: Callable[..., Any], grid: Any, out: Any, options: Options) -> None:
        super().__init__(f, grid, out)
        self.options = options
        self._runs: dict[Any, Callable[[list[Array]], list[Array]]] = {}
        self._glance: Callable[..., list[Array] | None] | None = None
        self._lock = lock()

    def __call__(self, *arrays: Any, **constants: Any) -> Any:
        """The outputs for these inputs: one array, or a tuple of several."""
        glance = self._glance
        if glance is not None and not constants:
            found = glance(*arrays)
            if found is not None:
                return found[0] if len(found) == 1 else tuple(found)
        given: list[Array] = []
        for a in arrays:  # a plain loop, for this is asked at each call
            if a.__class__ is not np.ndarray:
                return self._call_unlike(arrays, constants)
            given.append(dense(a))
        kinds = tuple([a.dtype for a in given]), tuple([a.shape for a in given])
        key = (*kinds, *sorted(constants.items())) if constants else kinds
        outputs = (self._runs.get(key) or self._compile(key, given, constants))(given)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _call_unlike(self, arrays: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        """A call with something else than arrays of NumPy's own type."""
        if any(getattr(type(a), "is_traced", False) for a in arrays):
            return called(self, arrays, constants)
        return self(*map(np.asarray, arrays), **constants)

    def _compile(
        self, key: Any, given: Sequence[Array], constants: Mapping[str, Any]
    ) -> Callable[[list[Array]], list[Array]]:
        module = self.module(*given, **constants)
        with self._lock:
            code = GraphProgram(module, self.options).made().executable
            run = self._runs[key] = code.ready([a.shape for a in given])
            if isinstance(code, NativeExecutable) and not constants and errstate.STATE is not None:
                # machine code looks whether the next calls are for such arrays, too
                rows = [direct.dense(a, k) for k, a in enumerate(given)]
                wanted = direct.Wanted(rows, [], errstate.STATE)
                self._glance = code.direct([a.shape for a in given], wanted)
        return run

    def check(self, *arrays: Any, **constants: Any) -> Any:
        """The outputs as the interpreter has them, which looks at what instances do to memory.

        UserError at the line that reads or writes outside of a buffer (MC0199), writes what another
        instance writes differently (MC0188), or reads of an output what nobody wrote (MC0189).
        """
        given = [np.asarray(a) for a in arrays]
        (op,) = self.module(*given, **constants).main.body.ops
        assert isinstance(op, graph.Kernel)
        outputs = check_kernel(op, given)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def text(self, *arrays: Any, **constants: Any) -> str:
        """The kernel that a call for such arrays runs, as text."""
        return print_function(self.lowered(*arrays, **constants))

    def lowered(self, *arrays: Any, **constants: Any) -> Function:
        """The same as a function of the kernel level."""
        (op,) = self.module(*arrays, **constants).main.body.ops
        assert isinstance(op, graph.Kernel)
        return op.kernel

    def module(self, *arrays: Any, **constants: Any) -> Module:
        """The graph of a call for such arrays, or for anything with a shape and a dtype."""
        types = [Spec(a.shape, a.dtype).type for a in arrays]
        parts = self.parts(types, constants)
        names = [a.hint for a in parts["body"].args[len(parts["grid"]) :]]
        args = [Value(t, n) for t, n in zip(types, names, strict=False)]
        op = graph.Kernel(args, **parts, loc=(self.place,))
        results = names[len(types) :]
        return Module("graph", [Function("main", Region(args, [op], op.results), None, results)])

    def register(self, operator: str) -> None:
        """Have it be what an operator of ONNX means, as `com.example.RowSoftmax`.

        The attributes of a node are the constants.
        """
        by_hand.enter_kernel(operator, self)


def kernel(
    *, grid: Any, out: Any, options: Options | None = None, **more: Any
) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorate a function over tiles that each instance of a grid runs; see docs/kernels.md."""
    chosen = options_of(options, **more)
    return lambda f: Kernel(f, grid, out, chosen)
