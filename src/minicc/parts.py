"""Run a model part by part, where data decide what is to be compiled.

A part is compiled and run; then a value is read (a shape, an axis, a condition), or a node runs on
the host; with what is known then the next part is imported, compiled and run. Parts are kept in a
tree: the edges are the contents of the values that were read and the types of what came from the
host, so a call that finds its edges compiles nothing.

Mirrors: torch.compile's graph breaks with guards, Relax's VM with match_cast, ONNX Runtime's
executor of sub-graphs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minicc.compiled import Compilation, compile_module
from minicc.errors import UserError
from minicc.frontends.onnx.host import HOST, run_host
from minicc.frontends.onnx.nested import RECURRENT
from minicc.frontends.onnx.part import Part, import_part
from minicc.frontends.onnx.reader import Model, Node, read_subgraph
from minicc.ir.core import Array
from minicc.ir.types import DTYPES, TensorType
from minicc.options import Options
from minicc.recurrence import run_in_pieces

Environment = dict[str, Any]
Step = Callable[[Environment], None]
_MOST = 64  # parts that are kept behind one part
_TYPES = {d.numpy: d for d in DTYPES.values() if d.name != "index"}


def type_of(value: Any) -> TensorType | None:
    """The type of an array; None of what is no array of numbers."""
    if not isinstance(value, np.ndarray) or value.dtype not in _TYPES:
        return None
    return TensorType(_TYPES[value.dtype], value.shape)


class _Block:
    """A part, and what chooses the one behind it: the contents and the types of some values."""

    __slots__ = ("after", "contents", "known", "names", "rest", "steps")

    def __init__(
        self,
        steps: Sequence[Step],
        rest: tuple[Node, ...],
        known: Mapping[str, Array],
        names: tuple[str, ...],
        contents: tuple[str, ...] = (),
    ) -> None:
        self.steps = tuple(steps)
        self.rest = rest
        self.known = known
        self.names = names
        self.contents = contents
        self.after: OrderedDict[Any, _Block] = OrderedDict()

    def key(self, env: Environment) -> tuple[Any, ...]:
        """What the part behind depends on."""
        return (
            *[_kind(env.get(name)) for name in self.names],
            *[env[name].tobytes() for name in self.contents],
        )


def _kind(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape
    return type(value).__name__


class Parts:
    """A graph (of a model or a sub-graph) that is run in parts."""

    def __init__(self, model: Model, options: Options) -> None:
        self.model = model
        self.options = options
        self.compiled: list[Compilation] = []
        self.host: dict[str, str] = {}  # the nodes that run on the host, with why
        self._lock = threading.Lock()
        self._inner: dict[tuple[str, str], Parts] = {}
        self._first = _Block((), tuple(model.nodes), {}, tuple(n for n, _ in model.inputs))

    def run(self, feed: Mapping[str, Any]) -> list[Any]:
        """The outputs for inputs by name: arrays, lists for sequences, None for empty optionals.

        Values from around a sub-graph are among the inputs.
        """
        env: Environment = dict(feed)
        block = self._first
        known = [name for name in feed if name not in block.names]
        key: Any = (*block.key(env), *[(name, _kind(env[name])) for name in known])
        while True:
            found = block.after.get(key)
            if found is None:
                found = self._extend(block, key, env)
            block = found
            for step in block.steps:
                step(env)
            if not block.rest and not block.contents:
                return [self._look_up(env, name) for name in self.model.outputs]
            key = block.key(env)

    def _look_up(self, env: Environment, name: str) -> Any:
        if name not in env:
            env[name] = _literal(self.model, name)
        return env[name]

    def _extend(self, block: _Block, key: Any, env: Environment) -> _Block:
        with self._lock:
            found = block.after.get(key)
            if found is None:
                found = block.after[key] = self._build(block, env)
                while len(block.after) > _MOST:
                    block.after.popitem(last=False)
            return found

    def _build(self, block: _Block, env: Environment) -> _Block:
        """Import and compile what comes behind a part."""
        known = {**block.known, **{name: env[name] for name in block.contents}}
        wanted = {name for node in block.rest for name in node.uses} | {*self.model.outputs}
        known = {name: array for name, array in known.items() if name in wanted}
        types = {n: type_of(v) for n, v in env.items() if n in wanted and n not in known}
        part = import_part(self.model, block.rest, types, known)
        steps: list[Step] = []
        if part.module is not None:
            steps.append(self._native(part))
        if part.same or part.known:
            steps.append(_names(part))
        if part.needs or not part.rest:
            return _Block(steps, part.rest, {**known, **part.known}, (), part.needs)
        node, *rest = part.rest
        steps.append(self._on_host(node))
        outputs = tuple(filter(None, node.outputs))
        return _Block(steps, tuple(rest), {**known, **part.known}, outputs)

    def _native(self, part: Part) -> Step:
        assert part.module is not None
        compiled = compile_module(part.module, self.options, {})
        self.compiled.append(compiled)
        run, inputs, outputs = compiled.executable.run, part.inputs, part.outputs

        def step(env: Environment) -> None:
            arrays = [np.ascontiguousarray(env[name]).reshape(env[name].shape) for name in inputs]
            env.update(zip(outputs, run(arrays), strict=True))

        return step

    def _on_host(self, node: Node) -> Step:
        if node.op in _CONTROL:
            self.host[node.name] = f"{node.op} is run round by round"
            return lambda env: self._bind(node, env, _CONTROL[node.op](self, node, env))
        if node.op not in HOST:
            text = f"{node.op} of what is no tensor of numbers"
            raise UserError("MC0159", text, where=node.name)
        self.host[node.name] = f"{node.op} runs on the host"
        return lambda env: self._bind(node, env, run_host(node, self.inputs(node, env)))

    def inputs(self, node: Node, env: Environment) -> list[Any]:
        """The values of a node's inputs, None for those left out."""
        return [self._look_up(env, name) if name else None for name in node.inputs]

    @staticmethod
    def _bind(node: Node, env: Environment, values: Sequence[Any]) -> None:
        env.update((name, v) for name, v in zip(node.outputs, values, strict=False) if name)

    def alone(self, node: Node) -> Parts:
        """A node as a graph of its own."""
        key = (node.name, node.text("direction", ""))
        if key not in self._inner:
            inputs = [(name, None) for name in node.inputs if name]
            model = Model(self.model.opsets, [node], inputs, node.outputs, {})
            self._inner[key] = Parts(model, self.options)
            self._inner[key].compiled = self.compiled
        return self._inner[key]

    def body(
        self, node: Node, attribute: str, env: Environment
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """A sub-graph of a node as a function of its inputs; it sees the values around it."""
        inner = self._inner.get((node.name, attribute))
        if inner is None:
            graph = read_subgraph(node.attributes[attribute], self.model.opsets, self.model.files)
            inner = self._inner[node.name, attribute] = Parts(graph, self.options)
            inner.compiled = self.compiled
        around = {name: self._look_up(env, name) for name in node.captures}
        names = [name for name, _ in inner.model.inputs]
        run = inner.run
        return lambda values: run({**around, **dict(zip(names, values, strict=False))})


def _literal(model: Model, name: str) -> Any:
    tensor = model.initialisers[name]
    if tensor.data_type == 8:
        from onnx.numpy_helper import to_array

        return to_array(tensor)
    return model.array(name, name)


def _names(part: Part) -> Step:
    """Values that need no computing: contents that are known, other names of inputs."""

    def step(env: Environment) -> None:
        env.update(part.known)
        env.update((name, env[other]) for name, other in part.same.items())

    return step


def _loop(parts: Parts, node: Node, env: Environment) -> list[Any]:
    """ONNX's Loop: at most so many rounds, while a condition holds."""
    most, condition, *carried = parts.inputs(node, env)
    body = parts.body(node, "body", env)
    limit = np.inf if most is None else int(np.reshape(most, ()))
    holds = True if condition is None else bool(np.reshape(condition, ()))
    scanned: list[list[Any]] = []
    k = 0
    while holds and k < limit:
        out = body([np.array(k, np.int64), np.array(holds), *carried])
        holds, carried = bool(np.reshape(out[0], ())), out[1 : 1 + len(carried)]
        scanned.append(out[1 + len(carried) :])
        k += 1
    columns = len(node.outputs) - len(carried)
    if scanned:
        return [*carried, *[np.stack(rows) for rows in zip(*scanned, strict=True)]]
    return [*carried, *_nothing(node, "body", columns)]


def _nothing(node: Node, attribute: str, columns: int) -> list[Array]:
    """What a loop that never ran collects: arrays of no rows."""
    from onnx.helper import tensor_dtype_to_np_dtype

    out: list[Array] = []
    for result in node.attributes[attribute].output[-columns:] if columns else ():
        tensor = result.type.tensor_type
        shape = (0, *[d.dim_value for d in tensor.shape.dim])
        out.append(np.zeros(shape, tensor_dtype_to_np_dtype(tensor.elem_type or 1)))
    return out


def _scan(parts: Parts, node: Node, env: Environment) -> list[Any]:
    """ONNX's Scan: one round for each slice of its inputs."""
    values = parts.inputs(node, env)
    if parts.model.opsets[""] < 9:
        return _batched_scan(parts, node, env, values[1:])
    return _scan_once(parts, node, env, values)


def _batched_scan(parts: Parts, node: Node, env: Environment, values: list[Any]) -> list[Any]:
    """Scan of opset 8: the first axis of everything is a batch, each entry a scan of its own."""
    rows = [_scan_once(parts, node, env, [v[k] for v in values]) for k in range(values[0].shape[0])]
    return [np.stack(column) for column in zip(*rows, strict=True)]


def _scan_once(parts: Parts, node: Node, env: Environment, values: list[Any]) -> list[Any]:
    count = node.integer("num_scan_inputs", 1)
    carried, inputs = values[: len(values) - count], values[len(values) - count :]
    body = parts.body(node, "body", env)
    backwards = node.integers("scan_input_directions") or node.integers("directions") or ()
    axes = node.integers("scan_input_axes") or (0,) * count
    inputs = [np.moveaxis(x, axis, 0) for x, axis in zip(inputs, axes, strict=True)]
    inputs = [x[::-1] if k < len(backwards) and backwards[k] else x for k, x in enumerate(inputs)]
    rows: list[list[Any]] = []
    for slices in zip(*inputs, strict=True):
        out = body([*carried, *[np.require(s, requirements="C") for s in slices]])
        carried, row = out[: len(carried)], out[len(carried) :]
        rows.append(row)
    columns = len(node.outputs) - len(carried)
    made = [np.stack(c) for c in zip(*rows, strict=True)] if rows else []
    made = made or _nothing(node, "body", columns)
    turned = node.integers("scan_output_directions") or (0,) * columns
    placed = node.integers("scan_output_axes") or (0,) * columns
    made = [x[::-1] if back else x for x, back in zip(made, turned, strict=True)]
    return [*carried, *[np.moveaxis(x, 0, axis) for x, axis in zip(made, placed, strict=True)]]


def _sequence_map(parts: Parts, node: Node, env: Environment) -> list[Any]:
    """ONNX's SequenceMap: a graph on each tensor of sequences."""
    first, *others = parts.inputs(node, env)
    body = parts.body(node, "body", env)
    rows = [
        body([item, *[o[k] if isinstance(o, list) else o for o in others]])
        for k, item in enumerate(first)
    ]
    columns = len([o for o in node.outputs if o])
    return [[row[k] for row in rows] for k in range(columns)]


def _recurrent(parts: Parts, node: Node, env: Environment) -> list[Any]:
    """A recurrent node over many steps."""

    def run(piece: Node, feed: Mapping[str, Array]) -> list[Array]:
        return parts.alone(piece).run(feed)

    return run_in_pieces(node, parts.inputs(node, env), run)


_CONTROL: dict[str, Callable[[Parts, Node, Environment], list[Any]]] = {
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
    **dict.fromkeys(RECURRENT, _recurrent),
}
