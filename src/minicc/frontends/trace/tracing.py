"""Tracing: run a function once on tracers, and give the graph module of what it did."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from minicc.errors import UserError, file_line
from minicc.frontends.trace.breaks import Path, SizedPath, Tree
from minicc.frontends.trace.draws.worth import require_worth
from minicc.frontends.trace.given import Given
from minicc.frontends.trace.guards import Environment, Parameters
from minicc.frontends.trace.loops.body import in_all_sizes
from minicc.frontends.trace.loops.indices import Index
from minicc.frontends.trace.loops.learned import LearnedOfLoops
from minicc.frontends.trace.loops.opened import watch_entries
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.paths import value_key
from minicc.frontends.trace.pytree import NUMBERS, mapped, rebuild
from minicc.frontends.trace.recorder import FEW, Recorder, native_element, type_of
from minicc.frontends.trace.restarts import Again, TooLong, WrittenOut
from minicc.frontends.trace.results import results
from minicc.frontends.trace.rewire import Rewirer
from minicc.frontends.trace.routes import Argument, Route, steps_in
from minicc.frontends.trace.side_effects import Acts, Begun, Home
from minicc.frontends.trace.sizes import Sizes, Unsized
from minicc.frontends.trace.tracer import Tracer
from minicc.ir.core import Function, Module, Region, Value
from minicc.ir.text.printer import print_module
from minicc.ir.types import TensorType


def told(
    f: Callable[..., Any],
    parameters: Parameters,
    call: Sequence[Any],
    given: Given,
    sizes: Sizes,
) -> Any:
    """What would be compiled of a call with arrays of some sizes, and what of sizes must hold."""
    arrays: list[Any] = []
    made: dict[int, Any] = {}

    def stand_in(leaf: Any, path: str) -> Any:
        if not isinstance(leaf, (np.ndarray, np.generic)):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = sizes.stand_in(len(arrays), np.asarray(leaf))
        arrays.append(made[id(leaf)])
        return leaf if isinstance(leaf, np.generic) else made[id(leaf)]

    values = [mapped(stand_in, value) for value in call]
    path = SizedPath(arrays)
    traced = trace_values(f, parameters, values, path, given, sizes)
    if traced.module is None:
        return traced.result, tuple(sizes.guards)
    return print_module(traced.module), value_key(traced.structure), tuple(sizes.guards)


class Traced:
    """A traced function: its graph, and what must hold for it to be used.

    `module` takes the arrays of a call in order (see `Parameters.key`) and gives those of its
    result, which `rebuild` puts in their places. `environment` guards what was read from outside;
    `captured` are the arrays among it, which became constants, by name.

    A function with breaks, or one that writes to its arguments, has run while it was traced: it has
    no module of its own but a path (`breaks`), and `result` is what the call gave.
    """

    __slots__ = ("acts", "captured", "environment", "identifies", "loops", "module", "result",
                 "structure", "tree", "work", "writes")  # fmt: skip

    def __init__(
        self, module: Module | None, structure: Any, rewirer: Rewirer, recorder: Recorder
    ) -> None:
        self.module: Any = module
        self.structure = structure
        rewirer.identities.settle()
        self.environment = Environment(rewirer.references, rewirer.identities)
        self.captured = recorder.captured
        # whether others see what it does
        self.acts = recorder.path is not None and (
            recorder.path.acts
            or any(draws.is_drawn_from for _, draws in rewirer.generators.values())
            or (type(structure) is Acts and bool(structure.changes))
        )
        self.identifies = rewirer.identities.of_numbers
        self.work = recorder.work  # ops that were recorded, and what segments weigh
        self.writes = tuple(dict.fromkeys(recorder.places))
        self.loops = tuple(f"loop at {at}: {became}" for at, became in recorder.told.items())
        self.result: Any = None
        self.tree: Tree | None = recorder.path and recorder.path.tree

    def rebuild(
        self, outputs: list[Any], args: Sequence[Any] = (), values: Sequence[Any] = ()
    ) -> Any:
        """The function's result for what the compiled module gave.

        `args` are the arrays that the call began with, `values` all its arguments.
        """
        if type(self.structure) is Acts:
            return self.structure.of(outputs, Begun(args, values))
        return rebuild(self.structure, outputs, args)


def trace_call(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Traced:
    """Trace `f` for the arguments of a call: arrays become inputs, all else is fixed.

    Raises UserError or UnsupportedError at the user's line; what the function itself raises passes.
    """
    parameters = Parameters(f)
    return trace_values(f, parameters, parameters.bind(tuple(args), kwargs))


def trace_values(
    f: Callable[..., Any],
    parameters: Parameters,
    values: Sequence[Any],
    path: Path | None = None,
    given: Given | None = None,
    sizes: Sizes | None = None,
) -> Traced:
    """The same for arguments that `Parameters.bind` has sorted; `path` runs what it can't trace.

    Once more from the beginning, wherever a loop that was being captured has to be written out, or
    a number that may be none is to be a constant. `given` says which may be none, and
    `sizes` which extents are symbols.
    """
    learned = LearnedOfLoops() if path is None else path.tree.learned
    # loops of few rounds are written out; where that is long captured; where that is no better not
    manners = iter([(FEW, True), (1, True), (FEW, False)])
    few, hasty = next(manners)
    while True:
        recorder = Recorder(getattr(f, "__name__", type(f).__name__), _place(f), few, hasty)
        recorder.path = path
        recorder.learned = learned
        if sizes is not None:
            sizes.begin()
            recorder.rounds.sizes = sizes
        try:
            traced = _traced(recorder, f, parameters, values, given)
            if given is not None:
                given.end()
            return traced
        except Again:
            path = None if path is None else path.again(Tree(learned))
            continue
        except TooLong:
            few, hasty = next(manners)
            path = None if path is None else path.again(Tree(learned))
            continue
        except WrittenOut as given_up:
            learned.write_out(given_up.key, given_up.reason, given_up.end)
        except Exception as error:
            if not recorder.loops:
                raise
            why = f"a round raises {type(error).__name__}{said_by(error)}"
            learned.write_out(recorder.loops[-1].key, why)
        if path is not None:
            path = path.again(Tree(learned) if given and given.boxes else None)


def said_by(error: BaseException) -> str:
    """What an error says, if that needs no traced value."""
    try:
        return f": {error}"
    except (WrittenOut, Unsized, Again):  # a number of the round or a size is in it
        return ""


def _place(f: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(f), "__code__", None)
    return file_line(code.co_filename, code.co_firstlineno) if code else ""


def _traced(
    recorder: Recorder,
    f: Callable[..., Any],
    parameters: Parameters,
    values: Sequence[Any],
    given: Given | None,
) -> Traced:
    """One attempt at a trace."""
    path = recorder.path
    rewirer = Rewirer(recorder)
    count = itertools.count()
    if given is not None:
        given.begin(recorder)
        given.read = rewirer.references
    named = [*zip(parameters.names, values, strict=True)]
    boxed = [mapped(partial(_argument, recorder, count), value, name) for name, value in named]
    if given is not None:
        given.enter(recorder)
    for k, (name, value) in enumerate(named):
        # which reads what is outside, after all arrays of the call
        boxed[k] = mapped(partial(_object, rewirer, k, steps_in(value)), boxed[k], name)
        rewirer.container(boxed[k], value, name, Home(Argument(k)))
    run = rewirer.entry(f)
    try:
        try:
            watch_entries(recorder)
            with recorder.frames:
                outcome = parameters.call(run, boxed)
        finally:
            if recorder.refused is not None:
                raise recorder.refused  # also where the function caught it
        if recorder.loops:
            recorder.loops[-1].left()
        if given is not None:
            given.move(recorder.effects.replaced())
        values_, names, structure = results(recorder, outcome)
        writes = [(k, box.value()) for k, box in enumerate(recorder.begun) if box.root.written]
        if given is not None:
            given.require_inputs()
        parameters.identifies |= rewirer.identities.of_numbers
        require_worth(recorder, [made for _, made in rewirer.generators.values()])
        plain = bool(path is None or values_)
        if path is not None and (path.breaks or writes or not plain or _only_foreign(recorder)):
            traced = Traced(None, structure, rewirer, recorder)
            traced.result = path.finish(recorder, structure, values_, writes)
            return traced
    finally:
        recorder.closed = True
    unused = recorder.unused(values_)  # which fail all the same
    names += [f"unused{k}" for k in range(len(unused))]
    body = Region(recorder.inputs, recorder.ops, [*values_, *unused])
    module = Module("graph", [in_all_sizes(recorder, Function("main", body, None, names))])
    return Traced(module, structure, rewirer, recorder)


def _only_foreign(recorder: Recorder) -> bool:
    return any(v.type.dtype.kind == "h" for v in recorder.inputs)


class _Object:
    """A leaf of the arguments that is neither an array nor a number."""

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf


def _object(
    rewirer: Rewirer, argument: int, places: Iterator[tuple[Any, ...]], leaf: Any, path: str
) -> Any:
    """What stands for such a leaf, at the next place in an argument; all else is itself."""
    route = Route(Argument(argument, next(places)))
    return rewirer.reached(leaf.leaf, path, route) if type(leaf) is _Object else leaf


def _argument(recorder: Recorder, count: Iterator[int], leaf: Any, path: str) -> Any:
    """What stands for an array or a number; `count` counts those that are Python numbers."""
    if type(leaf) in NUMBERS:
        number = next(count)
        size = recorder.rounds.sizes.given.get(number)
        if size is not None:
            return Index(recorder, size)
        term = recorder.numbers and recorder.numbers.leaf(number, number, f"argument {path}", leaf)
        return Number.of(recorder, term) if term else leaf
    if not isinstance(leaf, (np.ndarray, np.generic)):
        return _Object(leaf)
    if native_element(leaf.dtype) is None and (recorder.path is None or leaf.dtype.hasobject):
        text = f"argument {path}: no element type stores NumPy's {leaf.dtype}"
        if recorder.path is not None:
            recorder.refuse("MC0245", text)
        raise UserError("MC0181", text)
    value = Value(type_of(leaf), path)
    if recorder.rounds.sizes:
        shape = recorder.rounds.sizes.shapes[len(recorder.inputs)]
        value = Value(TensorType(value.type.dtype, tuple(map(recorder.rounds.extent, shape))), path)
    recorder.inputs.append(value)
    known = recorder.given.get(id(leaf))
    if known is not None:  # the same array once more
        recorder.begun.append(known)
        return known
    locked = "" if recorder.path is not None else f"the argument `{path}`"
    box = Tracer(recorder, value, locked=locked, scalar=isinstance(leaf, np.generic))
    dense = bool(recorder.rounds.sizes) and leaf.flags.c_contiguous
    if isinstance(leaf, np.ndarray) and leaf.itemsize and not dense:
        box.lies(leaf.strides)
    recorder.begun.append(box)
    recorder.given[id(leaf)] = box
    return box


def trace(
    f: Callable[..., Any],
    example_types: Sequence[TensorType],
    arg_names: Sequence[str] | None = None,
) -> Module:
    """The graph module of `f` for arrays of these types, one a positional argument.

    `arg_names` are the names of the inputs, the function's parameters by default.
    """
    examples = [np.broadcast_to(np.zeros((), t.dtype.numpy), t.extents) for t in example_types]
    traced = trace_call(f, examples, {})
    for value, name in zip(traced.module.main.args, arg_names or (), strict=False):
        value.hint = name
    module: Module = traced.module
    return module
