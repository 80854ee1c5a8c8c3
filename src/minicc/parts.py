"""Run a model part by part, where data decide what is to be compiled.

A part is compiled and run; then a value is read (a shape, an axis, a condition), or a node runs on
the host; with what is known then the next part is imported, compiled and run. Parts are kept in a
tree: the edges are the contents of the values that were read and the types of what came from the
host, so a call that finds its edges compiles nothing.

Mirrors: torch.compile's graph breaks with guards, Relax's VM with match_cast, ONNX Runtime's
executor of sub-graphs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import numpy as np

from minicc.compiled import compile_module
from minicc.control import Body, loop, scan, sequence_map
from minicc.errors import MiniccError, Problems, UserError
from minicc.frontends.onnx.context import HostNodeError, NeedsValueError
from minicc.frontends.onnx.host import HOST, run_host
from minicc.frontends.onnx.importer import bound_types
from minicc.frontends.onnx.part import Part, import_part
from minicc.frontends.onnx.reader import Model, Node, read_subgraph
from minicc.ir import graph
from minicc.ir.core import Array, Module
from minicc.ir.types import DTYPES, TensorType
from minicc.locks import lock
from minicc.options import Options
from minicc.runtime.saved import Compilation

Environment = dict[str, Any]
Compile = Callable[[Module, Options, Mapping[str, int]], Compilation]
Step = Callable[[Environment], None]
_STRING = 8  # TensorProto.DataType
_MOST = 64  # parts that are kept behind one part
_TYPES = {d.numpy: d for d in DTYPES.values() if d.name != "index"}


def type_of(value: Any) -> TensorType | None:
    """The type of an array; None of what is no array of numbers."""
    if not isinstance(value, np.ndarray) or value.dtype not in _TYPES:
        return None
    return TensorType(_TYPES[value.dtype], value.shape)


class _Block:
    """A part, and what chooses the one behind it: the contents and the types of some values.

    `fresh` are values that compiled code made so far, and that are nobody else's.
    """

    __slots__ = ("after", "compiled", "contents", "fresh", "known", "names", "rest", "steps")

    def __init__(
        self,
        steps: Sequence[Step],
        rest: Sequence[Node],
        known: Mapping[str, Array],
        names: tuple[str, ...],
        contents: tuple[str, ...] = (),
    ) -> None:
        self.steps = tuple(steps)
        self.rest = tuple(rest)
        self.known = known
        self.names = names
        self.contents = contents
        self.compiled: Compilation | None = None
        self.fresh: frozenset[str] = frozenset()
        self.after: OrderedDict[Any, _Block] = OrderedDict()

    def key(self, env: Environment) -> tuple[Any, ...]:
        """What the part behind depends on."""
        return (
            *[_kind(env.get(name)) for name in self.names],
            *[env[name].tobytes() for name in self.contents],
        )

    def find(self, key: Any) -> _Block | None:
        """The part behind, if it is there; it is the last that will be forgotten."""
        found = self.after.get(key)
        if found is not None and len(self.after) > 1:
            with suppress(KeyError):  # another thread may have forgotten it by now
                self.after.move_to_end(key)
        return found

    def keep(self, key: Any, block: _Block) -> None:
        """Put a part behind, and forget those that were not used for longest."""
        self.after[key] = block
        while len(self.after) > _MOST:
            self.after.popitem(last=False)

    def compilations(self) -> Iterator[Compilation]:
        """What was compiled for this part and those behind."""
        if self.compiled is not None:
            yield self.compiled
        for block in list(self.after.values()):
            yield from block.compilations()


def _kind(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape
    return type(value).__name__


def what_data_decide(error: MiniccError) -> list[str]:
    """What an import stumbled over that is settled when the model runs: nodes, and what is unknown.

    Raises what else is wrong with the model.
    """
    problems = Problems()
    found: list[str] = []
    for e in error.parts:
        if isinstance(e, NeedsValueError | HostNodeError):
            found.append(f"{', '.join(e.where)}: {e.message}")
        else:
            problems.add(e)
    problems.check()
    return found


def first_part(model: Model, binding: Mapping[str, int]) -> Module | None:
    """What is compiled before any value is read, for sizes of free dimensions; None for nothing."""
    part = import_part(model, model.nodes, bound_types(model, binding), {})
    return None if _views(part) is not None else part.module


class Parts:
    """A graph (of a model or a sub-graph) that is run in parts.

    `known` are values whose contents never change; `compile` is asked for each part.
    """

    def __init__(
        self,
        model: Model,
        options: Options,
        known: Mapping[str, Array] | None = None,
        compile: Compile = compile_module,
    ) -> None:
        self.model = model
        self._compile = compile
        self.options = options
        self.host: dict[str, str] = {}  # the nodes that run on the host, with why
        self._known = dict(known or {})
        self._lock = lock()
        self._inner: dict[tuple[str, ...], Parts] = {}
        names = tuple(n for n, _ in model.inputs)
        self._first = _Block((), model.nodes, self._known, names)

    @property
    def compiled(self) -> list[Compilation]:
        """What was compiled so far and is kept."""
        inner = [c for parts in list(self._inner.values()) for c in parts.compiled]
        return [*self._first.compilations(), *inner]

    def run(self, feed: Mapping[str, Any]) -> list[Any]:
        """The outputs for inputs by name: arrays, lists for sequences, None for empty optionals.

        They are the caller's own.
        """
        env, last = self._executed(feed)
        pairs = [(name, self._look_up(env, name)) for name in self.model.outputs]
        return [value if name in last.fresh else _copied(value) for name, value in pairs]

    def values(self, feed: Mapping[str, Any]) -> list[Any]:
        """The outputs as `run` gives them, which may be inputs or constants themselves.

        Values from around a sub-graph are among the inputs.
        """
        env, _ = self._executed(feed)
        return [self._look_up(env, name) for name in self.model.outputs]

    def _executed(self, feed: Mapping[str, Any]) -> tuple[Environment, _Block]:
        """All values that were made, and the last part."""
        env: Environment = {**self._known, **feed}
        block = self._first
        around = [name for name in feed if name not in block.names]
        key: Any = (*block.key(env), *[(name, _kind(env[name])) for name in around])
        while True:
            block = block.find(key) or self._extend(block, key, env)
            for step in block.steps:
                step(env)
            if not block.rest and not block.contents:
                return env, block
            key = block.key(env)

    def _look_up(self, env: Environment, name: str) -> Any:
        if name not in env:
            env[name] = _literal(self.model, name)
        return env[name]

    def _extend(self, block: _Block, key: Any, env: Environment) -> _Block:
        with self._lock:
            found = block.find(key)
            if found is None:
                found = self._build(block, env)
                block.keep(key, found)
            return found

    def _build(self, block: _Block, env: Environment) -> _Block:
        """Import and compile what comes behind a part."""
        # copies, for the arrays may be the caller's, who may write to them later
        known = {**block.known, **{name: env[name].copy() for name in block.contents}}
        wanted = {name for node in block.rest for name in node.uses} | {*self.model.outputs}
        known = {name: array for name, array in known.items() if name in wanted}
        types = {n: type_of(v) for n, v in env.items() if n in wanted and n not in known}
        part = import_part(self.model, block.rest, types, known)
        known.update(part.known)
        steps: list[Step] = []
        compiled = None
        views = _views(part)
        if views is not None:
            steps.append(views)
        elif part.module is not None:
            compiled = self._compile(part.module, self.options, {})
            steps.append(_native(part, compiled))
        if part.same or part.known:
            steps.append(_names(part))
        if part.needs or not part.rest:
            made = _Block(steps, part.rest, known, (), part.needs)
        else:
            node, *rest = part.rest
            steps.append(self._on_host(node, known))
            made = _Block(steps, rest, known, tuple(filter(None, node.outputs)))
        made.compiled = compiled
        made.fresh = block.fresh.union(part.outputs) if compiled else block.fresh
        return made

    def _on_host(self, node: Node, known: Mapping[str, Array]) -> Step:
        """What runs a node between compiled parts, where contents of these values are known."""
        if node.op in _LOOPS:
            self.host[node.name] = f"{node.op} is run round by round"
            return self._rounds(node, known)
        if node.op not in HOST:
            text = f"{node.op} of what is no tensor of numbers"
            raise UserError("MC0159", text, where=node.name)
        self.host[node.name] = f"{node.op} runs on the host"
        return lambda env: _bind(node, env, run_host(node, self._inputs(node, env)))

    def _rounds(self, node: Node, known: Mapping[str, Array]) -> Step:
        """A loop around a body, in which what is constant outside is constant too."""
        held = [n for n in node.captures if n in self.model.initialisers]
        fixed = {n: known[n] for n in node.captures if n in known and n not in held}
        key = (node.name, _digest(fixed))
        inner = self._inner.get(key)
        if inner is None:
            graph = read_subgraph(node.attributes["body"], self.model.opsets, self.model.files)
            graph.initialisers = {
                **{n: self.model.initialisers[n] for n in held},
                **graph.initialisers,
            }
            inner = self._inner[key] = Parts(graph, self.options, fixed, self._compile)
            inner.host = self.host
        around = [n for n in node.captures if n not in held and n not in fixed]
        names = [name for name, _ in inner.model.inputs]
        run, opset, values = _LOOPS[node.op], self.model.opsets[""], inner.values
        memory = self.options.memory_limit

        def step(env: Environment) -> None:
            seen = {name: self._look_up(env, name) for name in around}

            def body(given: Sequence[Any]) -> list[Any]:
                return values({**seen, **dict(zip(names, given, strict=False))})

            _bind(node, env, run(node, self._inputs(node, env), body, opset, memory))

        return step

    def _inputs(self, node: Node, env: Environment) -> list[Any]:
        return [self._look_up(env, name) if name else None for name in node.inputs]


def _bind(node: Node, env: Environment, values: Sequence[Any]) -> None:
    """The outputs of a node on the host, laid out as compiled code wants them."""
    for name, value in zip(node.outputs, values, strict=False):
        if name:
            plain = isinstance(value, np.ndarray) and value.dtype in _TYPES
            env[name] = np.require(value, requirements=["C", "A"]) if plain else value


def _digest(arrays: Mapping[str, Array]) -> str:
    """A name for the contents of arrays."""
    found = blake2b()
    for name, array in arrays.items():
        found.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest() if arrays else ""


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(v) for v in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def _literal(model: Model, name: str) -> Any:
    tensor = model.initialisers[name]
    if getattr(tensor, "data_type", 0) == _STRING:
        from onnx.numpy_helper import to_array

        return to_array(tensor)
    return model.array(name, name)


def _views(part: Part) -> Step | None:
    """A part that computes nothing: its inputs under other shapes."""
    if part.module is None:
        return None
    main = part.module.main
    source = {value: name for name, value in zip(part.inputs, main.args, strict=True)}
    for op in main.body.ops:
        if not isinstance(op, graph.Reshape) or op.x not in source:
            return None
        source[op.result] = source[op.x]
    results = zip(part.outputs, main.body.yields, strict=True)
    views = [(name, source[value], value.type.extents) for name, value in results]

    def step(env: Environment) -> None:
        env.update((name, env[other].reshape(shape)) for name, other, shape in views)

    return step


def _native(part: Part, compiled: Compilation) -> Step:
    run, inputs, outputs = compiled.executable.run, part.inputs, part.outputs

    def step(env: Environment) -> None:
        env.update(zip(outputs, run([env[name] for name in inputs]), strict=True))

    return step


def _names(part: Part) -> Step:
    """Values that need no computing: contents that are known, other names of inputs."""

    def step(env: Environment) -> None:
        env.update(part.known)
        env.update((name, env[other]) for name, other in part.same.items())

    return step


_LOOPS: dict[str, Callable[[Node, Sequence[Any], Body, int, int], list[Any]]] = {
    "Loop": lambda node, values, body, opset, memory: loop(node, values, body, memory),
    "Scan": lambda node, values, body, opset, memory: scan(node, values, body, opset),
    "SequenceMap": lambda node, values, body, opset, memory: sequence_map(node, values, body),
}
