"""How long each launch of a compiled model takes, one after the other on one thread.

The kernels of the program are called one by one with their whole grids, on the same memory that
`main` would give them.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

from minicc.backends.base import Store
from minicc.backends.layout import clean_status
from minicc.backends.llvm.checks import checks_of
from minicc.backends.llvm.compile import Objects
from minicc.backends.llvm.emitter import symbol_of
from minicc.backends.llvm.isa.system import FLUSH, MODE
from minicc.backends.llvm.link import Object, link
from minicc.backends.llvm.optimize import optimise
from minicc.compile.compiled import store_of
from minicc.compile.compiler import lower
from minicc.ir import affine, program
from minicc.ir.affine import Dim
from minicc.ir.arrays import Array, aligned, empty
from minicc.ir.core import Module, Region, Value, walk
from minicc.ir.kernel import scratch_of
from minicc.ir.text.extents import binding_of, with_derived
from minicc.options import Options
from minicc.runtime.execute import place_constants
from minicc.runtime.image import Library, load
from minicc.target import Target

Call = Callable[[], Any]
NO_SIZES: Mapping[str, int] = MappingProxyType({})


class LaunchTime(NamedTuple):
    """A launch: its kernel, the nodes that it computes for, points of its spaces, best seconds.

    Points and seconds of a launch within a loop are those of all its rounds.
    """

    kernel: str
    sources: tuple[str, ...]
    work: int
    seconds: float


class Launches:
    """The launches of a program, called one by one with their whole grids on the same memory."""

    def __init__(
        self,
        module: Module,
        options: Options,
        inputs: Sequence[Array],
        store: Store,
        sizes: Mapping[str, int] = NO_SIZES,
    ) -> None:
        count = len(inputs)
        shapes = [a.type.shape for a in module.main.args[:count]]
        named = {affine.spell_size(name): n for name, n in sizes.items()}
        given = {**named, **binding_of(shapes, [x.shape for x in inputs])}
        numbers = with_derived(given, module.main.attrs.get("derived", ())) | _first(module)
        self._kept: list[Array] = list(inputs)
        self._library, self._steps = _steps(module, options.machine, store, self._kept, numbers)
        self._mode = ctypes.CFUNCTYPE(ctypes.c_uint32, *[ctypes.c_uint32] * 2)(
            self._library["mode"]
        )
        self._flush = FLUSH[options.flushed]
        self.outputs = self._kept[count : len(module.main.args)]
        pairs = list(zip(self._steps, _rounds(module.main.body, 1, numbers), strict=True))
        # what never runs has no memory that it may touch
        self._steps = [step for step, n in pairs if n]
        self.ops = [(op, n, n * affine.evaluate(op.work, numbers)) for (op, _), n in pairs if n]

    def times(self) -> list[float]:
        """Seconds of each launch, run once in order, with all rounds of its loop."""
        taken: list[float] = []
        before = self._mode(0xFFFFFFFF, self._flush)
        for (_, call), (_, n, _) in zip(self._steps, self.ops, strict=True):
            began = time.perf_counter()
            call()
            taken.append(n * (time.perf_counter() - began))
        self._mode(0, before)
        return taken

    def close(self) -> None:
        """Let go of the code."""
        self._library.close()


def profile(
    module: Module,
    options: Options,
    binding: Mapping[str, int],
    inputs: Sequence[Array],
    rounds: int = 20,
    start: str | None = None,
    sizes: Mapping[str, int] = NO_SIZES,
) -> list[LaunchTime]:
    """The launches of a module after a stage, in order, each with its best time of some rounds.

    It is compiled for what `binding` says; `sizes` are others that its inputs do not tell.
    """
    lowered = lower(module, options, binding, start=start)
    launches = Launches(lowered, options, inputs, store_of(options, options.machine), sizes)
    best = map(min, zip(*(launches.times() for _ in range(rounds)), strict=True))
    found = [
        LaunchTime(op.kernel, op.loc, work, seconds)
        for (op, _, work), seconds in zip(launches.ops, best, strict=True)
    ]
    launches.close()
    return found


def traffic(module: Module) -> tuple[int, int] | None:
    """The launches of a run, and the bytes of all buffers that they take; None for free sizes."""
    main = module.main
    try:
        rounds = list(_rounds(main.body, 1, _first(module)))
        sizes = [sum(map(_held, op.buffers)) for op in program.launches(main.body)]
    except KeyError:
        return None
    return sum(rounds), sum(n * size for n, size in zip(rounds, sizes, strict=True))


def _first(module: Module) -> dict[str, Dim]:
    """The sizes that rounds of loops or data give, as the first rounds have them, or nothing."""
    loops = (op for op in walk(module.main.body) if isinstance(op, program.Loop | program.Sized))
    return {op.index: 0 for op in loops if op.index}


def _held(value: Value) -> int:
    """The bytes of a buffer's elements."""
    extents = (int(affine.evaluate(n, {})) for n in value.type.shape)
    return prod(extents) * int(value.type.dtype.bytes)


def _rounds(region: Region, outer: int, numbers: Mapping[str, Dim]) -> Iterator[int]:
    """How often each launch runs."""
    for op in region.ops:
        if isinstance(op, program.Loop):
            # data end a loop with a condition
            count = 1 if op.conditions else affine.evaluate(op.count, numbers)
            yield from _rounds(op.body, outer * count, numbers)
        elif isinstance(op, program.Sized):
            yield from _rounds(op.body, outer, numbers)
        elif isinstance(op, program.Launch):
            yield outer
        elif isinstance(op, program.If):  # as if both branches ran: which one does, data say
            for branch in op.regions:
                yield from _rounds(branch, outer, numbers)


def _steps(
    module: Module,
    target: Target,
    store: Store,
    kept: list[Array],
    numbers: Mapping[str, Dim],
) -> tuple[Library, list[tuple[program.Launch, Call]]]:
    """The code, and each launch with what calls it; `kept` holds the memory that must stay."""
    kernels = {f.name: f for f in module.functions if f is not module.main}
    with Objects(target, store) as objects:
        mode = objects.code(MODE, partial(optimise, MODE, target, 0))
        made = [*objects.of([*kernels.values()]), Object(mode.result())]
    library = load(link(made, ["mode", *map(symbol_of, kernels)]))

    def number(value: Dim) -> int:
        return int(affine.evaluate(value, numbers))

    at = _addresses(module, kept, number)
    scratch = aligned(max(1, number(module.main.attrs.get("scratch", 0))))
    kept.append(scratch)
    steps: list[tuple[program.Launch, Call]] = []
    for op in program.launches(module.main.body):
        kernel = kernels[op.kernel]
        pointers = [at[v] for v in op.buffers]
        sizes = op.sizes_in(kernel)
        grid = [number(affine.substitute(n, sizes)) for n in kernel.attrs["grid"]]
        integers = [n for extent in grid for n in (0, extent)] + [number(n) for n in op.sizes]
        others = [scratch.ctypes.data] if scratch_of(kernel) != 0 else []
        if checked := len(checks_of(kernel)):
            kept.append(clean_status(checked))
            others.append(kept[-1].ctypes.data)
        kinds: list[Any] = [ctypes.c_void_p] * len(pointers) + [ctypes.c_int64] * len(integers)
        kinds += [ctypes.c_void_p] * len(others)
        function = ctypes.CFUNCTYPE(None, *kinds)(library[symbol_of(op.kernel)])
        args = [*pointers, *integers, *others]
        steps.append((op, partial(function, *args)))
    return library, steps


def _addresses(module: Module, kept: list[Array], number: Callable[[Dim], int]) -> dict[Value, int]:
    """Where each buffer of `main` lies: inputs first in `kept`, the rest is allocated.

    Of a loop it is where they lie in the first round.
    """
    main = module.main
    count: int = main.attrs["inputs"]
    kept += [empty(tuple(map(number, a.type.shape)), a.type.dtype.numpy) for a in main.args[count:]]
    at = {a: array.ctypes.data for a, array in zip(main.args, kept, strict=True)}
    arena = aligned(max(1, number(main.attrs["arena"])))
    kept.append(arena)
    for op in walk(main.body):
        if isinstance(op, program.Alloc):
            at[op.result] = arena.ctypes.data + number(op.offset)
        elif isinstance(op, program.View):
            first = affine.substitute(op.offset, {f"i{k}": 0 for k in range(len(op.rounds))})
            at[op.result] = at[op.buffer] + number(first) * op.type.dtype.bytes
        elif isinstance(op, program.Constant):
            (array,), (address,) = place_constants([op.value.array])
            kept.append(array)
            at[op.result] = address
    return at
