"""Run native programs.

Arenas and tables of addresses, a set for each caller that is inside; thread teams serve all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from minicc.backends.base import Image
from minicc.backends.layout import (
    ARENA,
    ARRAYS,
    BRIEF,
    FIRST,
    MAIN,
    STATUS,
    TEAM,
    WATCH,
    Layout,
    clean_status,
)
from minicc.errors import UserError
from minicc.ir.arrays import NOWHERE, Array, aligned, is_aligned, memory_for
from minicc.ir.indices import out_of_range
from minicc.ir.mapped import changes, copy
from minicc.ir.text.extents import binding_of, number_of, spell_guard, with_derived
from minicc.later import Later
from minicc.limits import Holding, Limits, beyond, counted, no_memory, too_large
from minicc.runtime.arena import Arena
from minicc.runtime.direct import Wanted, direct
from minicc.runtime.direct_code import DIRECT
from minicc.runtime.entry import bound, table_of
from minicc.runtime.image import Library, load
from minicc.runtime.sharing import Sharing
from minicc.runtime.threads import ALONE, close_idle, give_team, take_team
from minicc.target import usable_processors

if TYPE_CHECKING:
    from minicc.ir import affine
    from minicc.ir.affine import Dim
else:
    affine = Later("minicc.ir.affine")

# points of all iteration spaces; below that a second thread costs more than it brings
_ALONE = 200_000
_BRIEF = 4_000  # of them, for which Python waits: what it takes to release its lock

_NO_LIMITS = Limits()
_WATCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)

# Constants of all executables by their type and a sample of their bytes: specialisations of one
# model have weights in common.
_constants: WeakValueDictionary[tuple[object, ...], Array] = WeakValueDictionary()
_SAMPLE = 4096
_MOST_SIZES = 4096  # shapes of inputs that are remembered


def place_constants(arrays: Sequence[Array]) -> tuple[list[Array], list[int]]:
    """The arrays at aligned addresses, and those addresses.

    They are copied where they are not aligned or lie in a model's file, and shared with other
    executables' that are equal.
    """
    placed = [_placed(a) for a in arrays]
    return placed, [a.ctypes.data for a in placed]


def _placed(array: Array) -> Array:
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    key = (array.shape, array.dtype.str, raw[:_SAMPLE].tobytes(), raw[-_SAMPLE:].tobytes())
    known = _constants.get(key)
    if known is not None and np.array_equal(known.reshape(-1).view(np.uint8), raw):
        return known
    if not is_aligned(array) or changes(array):
        placed = aligned(max(1, array.nbytes))[: array.nbytes]
        copy([(placed, raw)], raw)
        array = placed.view(array.dtype).reshape(array.shape)
    if array.nbytes > _SAMPLE:
        _constants[key] = array
    return array


def _stops(
    raised: list[BaseException], status: Array, layout: Layout, limits: Limits
) -> Generator[int, int, None]:
    """Give 0 until a check has failed, or a signal's handler raises something; 1 after that.

    It is sent the number of a loop's round times that of all loops that ask, plus its own. Handlers
    run where Python does: here, while native code asks whether to go on. What they raise is
    `raised` then, and so is MC0176 for too many rounds. Where a check has failed, what a loop waits
    for may never come.
    """
    stop = 0
    while True:
        try:
            rounds, loop = divmod((yield stop or int(status[:, 0].any())), len(layout.watched))
            if rounds >= limits.rounds:
                text = f"a loop has {rounds} rounds or more"
                raise beyond("rounds", text, limits, layout.watched[loop])
        except GeneratorExit:
            return
        except BaseException as error:
            raised.append(error)
            stop = 1


class _Context:
    """What one run needs for itself: an arena, a table, and the words that checks leave.

    `call` runs `main` on arrays; `raised` is what a signal's handler raised while a program asked
    whether to go on.
    """

    __slots__ = ("arena", "call", "raised", "sizes", "status", "table", "watch")

    def __init__(
        self, library: Library, constants: Sequence[int], layout: Layout, limits: Limits
    ) -> None:
        self.arena = Arena()
        self.sizes: Sizes | None = None
        arrays = FIRST + len(layout.sizes)
        after = arrays + len(layout.inputs) + len(layout.outputs)
        self.table = table_of(after + len(constants))
        self.table[MAIN], self.table[ARRAYS] = library["main"], arrays
        self.table[after : after + len(constants)] = constants
        self.call = bound(library, self.table)
        self.status = clean_status(len(layout.checks))
        self.table[STATUS] = self.status.ctypes.data
        self.raised: list[BaseException] = []
        self.watch: Any = None
        if layout.watched:
            stops = _stops(self.raised, self.status, layout, limits)
            next(stops)  # so that handlers run within its `try`
            self.watch = _WATCH(stops.send)
            self.table[WATCH] = ctypes.cast(self.watch, ctypes.c_void_p).value

    def fit(self, sizes: Sizes) -> None:
        """Make room for a run with these sizes, and say them in the table."""
        self.arena.fit(sizes.arena, grows=bool(sizes.numbers))
        self.table[ARENA] = self.arena.bytes.ctypes.data
        self.table[FIRST : FIRST + len(sizes.numbers)] = sizes.numbers
        if sizes.threads == 1:
            self.table[TEAM] = ALONE
        self.table[BRIEF] = sizes.brief and self.watch is None
        self.sizes = sizes


class Sizes(NamedTuple):
    """What depends on the free dimensions of a program.

    Their numbers, what takes memory for each output, bytes of the arena, how many threads are
    worthwhile, whether a run is brief, and what these threads share.
    """

    numbers: tuple[int, ...]
    outputs: tuple[Callable[[], Array], ...]
    arena: int
    threads: int
    brief: bool
    sharing: Sharing


def _failure(context: _Context, layout: Layout, numbers: Sequence[int]) -> UserError | None:
    """The first check of a run that failed, as an error; the words are as before the run then.

    What a signal's handler raised meanwhile is raised.
    """
    if context.raised:
        raise context.raised[0]
    (failed,) = context.status[:, 0].nonzero()
    if not failed.size:
        return None
    check = layout.checks[failed[0]]
    index = int(context.status[failed[0], 1])
    context.status[:] = clean_status(len(layout.checks))
    binding = with_derived(dict(zip(layout.sizes, numbers, strict=True)), layout.derived)
    extent = number_of(check.extent, binding)
    return UserError("MC0158", out_of_range(index, extent), where=check.where)


class NativeExecutable:
    """A native program with its constants in memory; implements `backends.base.Executable`."""

    def __init__(
        self,
        image: Image,
        layout: Layout,
        threads: int,
        limit: int = 1 << 62,
        *,
        spin: bool = True,
        limits: Limits = _NO_LIMITS,
    ) -> None:
        self._arrays, self._constants = place_constants(layout.constants)
        # without the constants, which are those before they are placed
        layout = self._layout = layout._replace(constants=())
        self.library = load(image)
        self._may_fail = bool(layout.checks or layout.watched)
        self.donated: Sequence[tuple[int, int]] = layout.donated
        self.sure = not self._may_fail
        # more threads than processors only take these from each other
        self.threads = min(threads, usable_processors())
        self._limit, self._limits = limit, limits
        self._sharing: Sharing | None = None  # of the newest sizes
        self._sizes: dict[tuple[Any, ...], Sizes] = {}
        self._only = None if layout.sizes else self._sized((), ())
        self.spin = spin
        self._free: list[_Context] = []

    def run(
        self,
        inputs: Sequence[Array],
        given: Mapping[str, int] | None = None,
        into: Mapping[int, Array] = NOWHERE,
    ) -> list[Array]:
        """The outputs for C-contiguous inputs of the expected types; allocates the outputs.

        `given` are the sizes of a run of which this is a part; without it, shapes say them. Some
        outputs go `into` arrays of the caller's, which a run that fails leaves half-done; one that
        an input is donated for may be that input.
        UserError where an index among the data is out of range or a loop has more rounds than it
        may, and MC0142 where the program is not for the sizes that are given.
        """
        sizes = self._only
        if sizes is None:
            if given is None:
                shapes = tuple([a.shape for a in inputs])
                sizes = self._sizes.get(shapes) or self._sized(shapes, shapes)
            else:
                numbers = tuple([given[name] for name in self._layout.sizes])
                sizes = self._sizes.get(numbers) or self._sized(numbers, None, given)
        try:
            try:
                context = self._free.pop()
            except IndexError:
                context = _Context(self.library, self._constants, self._layout, self._limits)
            if context.sizes is not sizes:
                context.fit(sizes)
            outputs: list[Array] = []
            for take in sizes.outputs:
                mine = into.get(len(outputs)) if into else None
                outputs.append(take() if mine is None else mine)
            for k, out in self.donated:
                if outputs[out] is not inputs[k]:
                    np.copyto(outputs[out], inputs[k])
        except MemoryError:
            raise no_memory("the outputs and the values in between") from None
        began = perf_counter() if context.arena.settles else 0.0
        if sizes.threads == 1:
            context.call([*inputs], outputs)
        else:
            team = take_team(sizes.threads, self.spin, self.library)
            try:
                context.table[TEAM] = team.start(sizes.sharing.least)
                called = perf_counter()
                context.call([*inputs], outputs)
                sizes.sharing.ran(perf_counter() - called)
            finally:
                give_team(team)
        if began:
            context.arena.settle(perf_counter() - began)
        failure = None
        if self._may_fail:
            failure = _failure(context, self._layout, sizes.numbers)
        self._free.append(context)
        if failure is not None:
            raise failure
        return outputs

    def ready(self, shapes: Sequence[tuple[int, ...]]) -> Callable[[list[Array]], list[Array]]:
        """What runs inputs of these shapes; of one thread, without what `run` asks at each call."""
        key = tuple(shapes)
        sizes = self._only or self._sizes.get(key) or self._sized(key, key)
        if self._may_fail or self.donated or sizes.threads > 1 or not sizes.outputs:
            return self.run
        free, (first, *others) = self._free, sizes.outputs

        def run(inputs: list[Array]) -> list[Array]:
            try:
                context = free.pop()
            except IndexError:
                return self.run(inputs)
            if context.sizes is not sizes or context.arena.settles:
                free.append(context)
                return self.run(inputs)
            try:
                outputs = [first()]
                for take in others:
                    outputs.append(take())  # a comprehension is a call
            except MemoryError:
                raise no_memory("the outputs") from None
            context.call(inputs, outputs)
            free.append(context)
            return outputs

        return run

    @property
    def outputs(self) -> int:
        """How many outputs it has."""
        return len(self._layout.outputs)

    def direct(
        self, shapes: Sequence[tuple[int, ...]], wanted: Wanted
    ) -> Callable[..., list[Array] | None] | None:
        """What looks at a call's arguments and runs inputs of these shapes (see `runtime.direct`).

        None where a run takes more than that.
        """
        key = tuple(shapes)
        sizes = self._only or self._sizes.get(key) or self._sized(key, key)
        given = {(row.input, row.output) for row in wanted.rows}
        fits = given.issuperset(self.donated) and not self._may_fail
        if not fits or sizes.threads > 1 or DIRECT not in self.library:
            return None
        context = _Context(self.library, self._constants, self._layout, self._limits)
        context.fit(sizes)
        if context.arena.settles:
            return None
        inputs = len(self._layout.inputs)
        kept = self, context
        return direct(self.library, context.table, inputs, sizes.outputs, wanted, kept)

    def _sized(
        self,
        key: tuple[Any, ...],
        shapes: tuple[tuple[int, ...], ...] | None,
        given: Mapping[str, int] | None = None,
    ) -> Sizes:
        """What depends on sizes, given or as shapes say them; MC0135 above the limit of memory."""
        layout = self._layout
        if given is None:
            given = binding_of([t.shape for t in layout.inputs], shapes) if shapes else {}
        binding = with_derived(given, layout.derived)
        if shapes is None and (failed := self._contradicted(binding)):
            text = f"{failed} does not hold for sizes that the run's data decide"
            raise UserError("MC0142", text, hint="give other inputs")

        def number(value: Dim) -> int:
            return number_of(value, binding)

        outputs = [(tuple(map(number, t.shape)), t.dtype.numpy) for t in layout.outputs]
        work = number(layout.work)
        threads = self.threads if layout.shares and work > _ALONE else 1
        arena = number(layout.arena) + threads * number(layout.scratch)
        self._require_fits(arena, outputs)
        numbers = tuple(given[name] for name in layout.sizes)
        takes = tuple(memory_for(s, dtype) for s, dtype in outputs)
        made = Sizes(numbers, takes, max(1, arena), threads, work <= _BRIEF, Sharing(self._sharing))
        self._sharing = made.sharing
        if len(self._sizes) >= _MOST_SIZES:
            self._sizes.clear()
        self._sizes[key] = made
        return made

    def _contradicted(self, sizes: Mapping[str, Dim]) -> str:
        """A guard that does not hold, in words; empty where all do, as far as sizes are given.

        `sizes` are those of the inputs, and those that are derived from them.
        """
        for guard in self._layout.guards:
            a, b = (affine.substitute(n, sizes) for n in guard)
            if isinstance(a, int) and isinstance(b, int) and a != b:
                return spell_guard(*guard)
        return ""

    def _require_fits(self, arena: int, outputs: Sequence[tuple[tuple[int, ...], Any]]) -> None:
        found = [
            Holding(counted(shape, dtype.itemsize), f"{dtype}{list(shape)}, an output")
            for shape, dtype in outputs
        ]
        needed = arena + sum(h.bytes for h in found)
        if needed > self._limit:
            found.append(Holding(arena, "the values in between"))
            raise too_large("the model", needed, self._limit, found)

    def fits(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether the program is for inputs of these shapes: whether all its guards hold."""
        layout = self._layout
        wanted = [t.shape for t in layout.inputs]
        given = binding_of(wanted, shapes)
        sizes = with_derived(given, layout.derived)
        extents = zip(chain(*wanted), chain(*shapes), strict=True)
        same = all(number_of(a, sizes) == n for a, n in extents)
        return same and not self._contradicted(sizes)

    def may_fit(self, given: Mapping[str, int]) -> bool:
        """Whether no guard is known not to hold, where some of the sizes are given."""
        return not self._contradicted(with_derived(given, self._layout.derived))

    def guards(self) -> list[str]:
        """What must hold of the sizes of inputs, in their names; sizes of loops are left out."""
        layout = self._layout
        names = {n: affine.symbol(n.removeprefix("$")) for n in layout.sizes}
        sizes = with_derived(names, layout.derived)
        pairs = [[affine.substitute(n, sizes) for n in pair] for pair in layout.guards]
        of_inputs = (pair for pair in pairs if not any(map(affine.sizes, pair)))
        told = (spell_guard(a, b) for a, b in of_inputs if a != b)
        return list(dict.fromkeys(told))

    def is_shared(self) -> bool:
        """Whether threads may share any of its launches, at some sizes."""
        return self._layout.shares

    def close(self) -> None:
        """Forget the memory of runs, and end the threads that wait for one."""
        self._free.clear()
        close_idle(self.threads, self.spin)
