"""Run any level as it stands: the oracle that every stage and the machine code are compared with.

One walk serves all levels: an environment from values to NumPy arrays (or `Memory`), and each op's
own `evaluate`. Two ops need more than their operands: a launch needs the module's kernels, and
scratch needs to know how many instances run at once. A kernel runs batched: many instances of its
grid at a time, along a leading axis, in shuffled order, so that whole models are affordable and an
order that somebody relies on is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minicc.errors import CompilerBug
from minicc.ir import graph, kernel, program, structured
from minicc.ir.addresses import Memory, undefined
from minicc.ir.bind import bind, bind_sizes, bound_op, sizes_in
from minicc.ir.by_hand import ByHand
from minicc.ir.core import Array, Function, Module, Op, Region, Value, walk
from minicc.ir.indices import OutOfRange
from minicc.ir.text.extents import sizes_at
from minicc.ir.types import OPAQUE, BufferType

_MOST_BOUND = 4096  # ops bound to sizes that are kept
_BATCH = 1 << 19  # elements of a batch's largest tile
_NO_SIZES: Mapping[str, int] = {}
Special = Callable[..., tuple[Any, ...]]


class Interpreter:
    """Runs functions of one module.

    `seed` orders the instances of grids; `batch` is how many run at once.
    """

    def __init__(self, module: Module | None = None, seed: int = 0) -> None:
        self.module = module
        self.seed = seed
        self._random: np.random.Generator | None = None
        self.instances = 1
        self.numbers: Array = np.zeros(1, int)  # of these instances, in the order of the grid
        self.special: dict[type[Op], Special] = {
            program.Launch: self._launch,
            kernel.Alloc: self._alloc,
            graph.Kernel: self._by_hand,
            structured.Kernel: self._by_hand,
        }
        self.sizes: dict[str, int] = {}  # what ops on the host bound
        self.named: dict[Op, tuple[str, ...]] = {}  # the sizes in ops
        self.bound: dict[tuple[Any, ...], Op] = {}  # ops by the numbers that stand for these
        self.kernels: dict[tuple[Any, ...], Function] = {}  # the same of kernels

    @property
    def random(self) -> np.random.Generator:
        """What shuffles instances; made when it is first asked for."""
        if self._random is None:
            self._random = np.random.default_rng(self.seed)
        return self._random

    def region(self, region: Region, args: Sequence[Any], env: dict[Value, Any]) -> tuple[Any, ...]:
        """The yielded values of a region for its arguments."""
        env.update(zip(region.args, args, strict=True))
        for op in region.ops:
            operands = [env[v] for v in op.operands]
            env.update(zip(op.results, self.op(op, operands, env), strict=True))
        return tuple(env[v] for v in region.yields)

    def op(self, op: Op, operands: Sequence[Any], env: dict[Value, Any]) -> Sequence[Any]:
        """The results of an op for its operands."""
        special = self.special.get(type(op))
        bound = self._bound(op)
        if special is not None:
            return special(bound, *operands)
        if not op.regions and not isinstance(op, graph.Stating):
            return bound.evaluate(_no_region, *operands)

        def run(region: Region, args: Sequence[Any], sizes: Mapping[str, int] = _NO_SIZES) -> Any:
            if op.control:
                return self.scope(region, args, env, sizes)
            return self.region(region, args, env)

        results = bound.evaluate(run, *operands)
        if isinstance(op, graph.Stating):
            graph.bind_values([r.type for r in op.results], results, self.sizes, op.loc)
        return results

    def _bound(self, op: Op) -> Op:
        """The op with numbers for the sizes in its attributes and regions."""
        if not self.sizes or isinstance(op, graph.Host | graph.NonZero):
            return op
        names = self.named.get(op)
        if names is None:
            names = self.named[op] = sizes_in(op)
        key = (op, *map(self.sizes.get, names))
        found = self.bound.get(key) if names else op
        if found is None:
            if len(self.bound) >= _MOST_BOUND:
                self.bound.clear()
            found = self.bound[key] = bound_op(op, self.sizes)
        return found

    def scope(
        self,
        region: Region,
        args: Sequence[Any],
        env: dict[Value, Any],
        sizes: Mapping[str, int],
    ) -> tuple[Any, ...]:
        """What `region` gives, where the sizes that are bound within are those of this entry."""
        outer = self.sizes
        shapes = [getattr(a.type, "shape", ()) for a in region.args]
        self.sizes = {**outer, **sizes, **sizes_at(shapes, args)}
        try:
            return self.region(region, args, env)
        finally:
            self.sizes = outer

    def _alloc(self, op: kernel.Alloc) -> tuple[Any, ...]:
        type: BufferType = op.type
        poison = np.nan if type.dtype.is_float else 0
        return (Memory(np.full((self.instances, type.span()), poison, type.dtype.numpy), type),)

    def _launch(self, op: program.Launch, *buffers: Memory) -> tuple[Any, ...]:
        function = self._kernel(op)
        formals = function.args[len(function.attrs["grid"]) :]
        # a kernel's parameters say how it sees the memory, whatever the caller called it
        seen = [Memory(b.flat, f.type, b.base) for b, f in zip(buffers, formals, strict=True)]
        outer, self.sizes = self.sizes, {}
        try:
            self.kernel(function, seen)
        except OutOfRange as error:
            raise OutOfRange(error.index, error.extent, op.bound(error.where)) from None
        finally:
            self.sizes = outer
        return ()

    def _by_hand(self, op: ByHand, *arrays: Array) -> tuple[Any, ...]:
        inputs = [np.ascontiguousarray(a).reshape(1, -1) for a in arrays]
        outputs = [undefined(r.type) for r in op.results]
        buffers = [a.type for a in op.body.args[len(op.grid) :]]
        memories = [Memory(flat, t) for flat, t in zip([*inputs, *outputs], buffers, strict=True)]
        outer, self.sizes = self.sizes, {}
        try:
            self.kernel(op.kernel, memories)
        finally:
            self.sizes = outer
        return tuple(
            flat.reshape(r.type.extents) for flat, r in zip(outputs, op.results, strict=True)
        )

    def _kernel(self, op: program.Launch) -> Function:
        """The kernel of a launch with numbers for its sizes."""
        assert self.module is not None
        function = self.module.function(op.kernel)
        key = (op.kernel, *op.sizes)
        if op.sizes and key not in self.kernels:
            self.kernels[key] = bind(function, op.sizes_in(function))
        return self.kernels[key] if op.sizes else function

    def kernel(self, function: Function, buffers: Sequence[Memory]) -> None:
        """Run a kernel over its whole grid on memory."""
        grid: tuple[int, ...] = function.attrs["grid"]
        total = int(np.prod(grid))
        order = self.random.permutation(total)
        batch = max(1, _BATCH // largest_tile(function.body))
        for chosen in _batches(order, batch, grid, _deciding(function, len(grid))):
            self.instances, self.numbers = len(chosen), chosen
            coordinates = np.unravel_index(chosen, grid) if grid else ()
            try:
                self.region(function.body, (*coordinates, *buffers), {})
            except OutOfRange:
                raise
            except IndexError as error:
                raise CompilerBug(
                    "MC0304", f"kernel {function.name}: {error}", stage="interpret"
                ) from error


def _no_region(*_: Any) -> Any:
    raise RuntimeError("an op without regions ran one")


def _deciding(function: Function, rank: int) -> list[int]:
    """The axes of the grid on which it depends how often a loop of the kernel runs."""
    used = {
        v for op in walk(function.body) if isinstance(op, kernel.Range) for v in op.operands[:2]
    }
    for op in reversed([*walk(function.body)]):
        if isinstance(op, kernel.Index) and op.result in used:
            used.update(op.operands)
    return [axis for axis in range(rank) if function.args[axis] in used]


def _batches(
    order: Array, most: int, grid: tuple[int, ...], axes: Sequence[int]
) -> Iterator[Array]:
    """Instances that run together: at most so many, with the same coordinates along some axes."""
    if not axes:
        yield from (order[start : start + most] for start in range(0, len(order), most))
        return
    coordinates = np.unravel_index(order, grid)
    shared = np.ravel_multi_index([coordinates[a] for a in axes], [grid[a] for a in axes])
    for place in np.unique(shared):
        yield from _batches(order[shared == place], most, grid, ())


def largest_tile(region: Region) -> int:
    """The most elements that one value or scratch buffer of a region has."""
    most = 1
    for op in region.ops:
        for r in op.results:
            t = r.type
            most = max(most, t.span() if isinstance(t, BufferType) else int(np.prod(t.extents)))
        for inner in op.regions:
            most = max(most, largest_tile(inner))
    return most


def run(module: Module, inputs: Sequence[Array], seed: int = 0) -> list[Array]:
    """The outputs of `main` for NumPy inputs, at whatever level the module is."""
    shapes = [a.type.shape for a in module.main.args[: len(inputs)]]
    binding = sizes_at(shapes, inputs)
    if binding:
        module = bind_sizes(module, binding)
    main = module.main
    interpreter = Interpreter(module, seed)
    if module.level in ("graph", "structured"):
        found = zip(interpreter.region(main.body, inputs, {}), main.body.yields, strict=True)
        return [a if v.type.dtype is OPAQUE else np.asarray(a) for a, v in found]
    outputs = [np.empty(a.type.extents, a.type.dtype.numpy) for a in main.args[len(inputs) :]]
    for given, out in main.attrs.get("donated", ()):
        outputs[out] = np.array(inputs[given])
    memories = [
        Memory(np.ascontiguousarray(x).reshape(1, -1), a.type)
        for x, a in zip([*inputs, *outputs], main.args, strict=True)
    ]
    interpreter.region(main.body, memories, {})
    return [m.flat.reshape(o.shape) for m, o in zip(memories[len(inputs) :], outputs, strict=True)]
