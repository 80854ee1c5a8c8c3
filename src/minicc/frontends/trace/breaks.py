"""Breaks while tracing: the segment recorded so far is compiled and run, and tracing goes on.

`Path` is one call that is traced while it runs. A break carries over all arrays that are still
alive: their boxes are found by weak references, and get fresh values, the inputs of the segment
that begins. Nodes that an earlier trace made are taken again where they are the same; a break in
the same Python state as an earlier one (`states`) leads to the node after that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from minicc.frontends.trace.loops.body import in_all_sizes, steps_of
from minicc.frontends.trace.loops.choices import work
from minicc.frontends.trace.loops.learned import LearnedOfLoops
from minicc.frontends.trace.numbers import Number
from minicc.frontends.trace.paths import (
    CALLERS,
    Action,
    Edge,
    Finish,
    Host,
    Node,
    Outcome,
    attempt,
    value_key,
)
from minicc.frontends.trace.pytree import mapped
from minicc.frontends.trace.recorder import VIEW_OPS, Recorder, type_of
from minicc.frontends.trace.side_effects import Acts, Begun
from minicc.frontends.trace.states import State
from minicc.frontends.trace.tracer import Tracer
from minicc.ir import graph
from minicc.ir.arrays import Code
from minicc.ir.core import Array, Function, Module, Op, Region, Value
from minicc.ir.text.printer import print_module

_MOST = 500  # new nodes of one traced call
# what NumPy computes while a call goes from one segment to the next
_CALLS = 32  # ops
_NUMBERS = 1 << 15
_LITTLE = 1 << 11  # numbers of each op of a segment that is not compiled before it has run often
_SHORT = 8  # such ops
_MANY = 8  # values that Python reads
_ENOUGH = 128  # new nodes of one traced call, by which it is known what is between them
_SLOW = 24  # segments that one traced call compiles in a second or two

# of a segment, its text, and whether it is little work; None where nothing is to run
Compile = Callable[[Module, str, bool], Code | None]
Place = Callable[[Value], int]


class Diverged(BaseException):
    """The function did something else in a state that looked like an earlier one.

    No Exception, so that the function does not catch it.
    """


class Tree:
    """All known paths of one specialisation: the first node, and nodes by the state before them.

    `learned` is what attempts at its traces have found about loops.
    """

    def __init__(self, learned: LearnedOfLoops | None = None) -> None:
        self.root: Node | None = None
        self.after: dict[Any, Node] = {}
        self.folds = True
        self.learned = LearnedOfLoops() if learned is None else learned

    def is_hosted(self) -> bool:
        """Whether NumPy computes all that is known of it while calls go between segments.

        Where Python reads values, that is known of paths with many of them alone, or with many
        stops: what little there is before the first ones tells nothing of what may follow.
        """
        left = [] if self.root is None else [self.root]
        after: dict[Node, set[Node]] = {}
        while left:
            node = left.pop()
            if node not in after:
                after[node] = {e.node for e in node.edges.values()}
                left += after[node]
        if any(isinstance(n.action, Host) and n.action.name == CALLERS for n in after):
            return False  # if the function ran as it is, its caller would not be the user's line
        reads = sum(not isinstance(node.action, (Host, Finish)) for node in after)
        few = reads < _MANY and len(after) < 2 * _MANY
        if reads and few and not _is_cyclic(after):
            return False
        return sum(saved(node.module) for node in after) < len(after) - 1


def _is_cyclic(after: Mapping[Node, set[Node]]) -> bool:
    """Whether some path comes to a node again, as rounds of a loop do."""
    try:
        TopologicalSorter(after).prepare()
    except CycleError:
        return True
    return False


def is_light(module: Module) -> bool:
    """Whether a segment is views and some ops of few numbers."""
    ops = _computing(module)
    return len(ops) <= _SHORT and all(not op.regions and work(op) <= _LITTLE for op in ops)


def saved(module: Module) -> float:
    """How long NumPy would take for a segment, in what going from one to the next takes."""
    ops = _computing(module)
    return sum(map(steps_of, ops)) / _CALLS + sum(map(work, ops)) / _NUMBERS


def _computing(module: Module) -> list[Op]:
    return [op for op in module.main.body.ops if not isinstance(op, (graph.Constant, *VIEW_OPS))]


class Path:
    """One call while it is traced and run; `begun` are the arrays that its state begins with.

    `done` counts effects that the call had already, before it left the known paths. Effects of the
    trace wait for its end, since it may be given up.
    """

    def __init__(self, tree: Tree, args: Sequence[Array], compiled: Compile, done: int = 0) -> None:
        self.tree = tree
        self.args = args
        self.begun = Begun(args, args.values if isinstance(args, Begun) else ())
        self.state = list(args)
        self.breaks = 0
        self._compile = compiled
        self._done = self._left = done
        self.may_count = False  # whether a size that data give may be a symbol instead of a break
        self.varies = False  # whether sizes have been others, and are numbers though
        self._later: list[tuple[Action, Sequence[Array]]] = []
        self._from: tuple[Node, Any, tuple[int, ...]] | None = None
        self._name: Any = None  # of the state that the segment began in
        self._target: Node | None = tree.root
        self._made = 0
        self._long: set[str] = set()  # the texts of segments that are compiled at once
        self._saved = 0.0  # by new nodes

    def enter(self, array: Array) -> None:
        """Begin with another array, before the first break."""
        self.begun.append(array)
        self.state.append(array)

    def again(self, tree: Tree | None = None) -> Path:
        """The same call from its beginning, in another tree where one is given."""
        if tree is not None:
            tree.folds = tree.folds and self.tree.folds
        path = type(self)(tree or self.tree, self.args, self._compile, self._done)
        path.may_count, path.varies = self.may_count, self.varies
        return path

    def pause(
        self, recorder: Recorder, make: Callable[[Place], Action], needed: Sequence[Tracer]
    ) -> Any:
        """End the segment, do what `make` gives for places in the pool, and go on after it."""
        if recorder.loops:
            recorder.write_out(f"Python or NumPy computes `{recorder.source()}`")
        recorder.require_inside(needed)
        state = State.capture(recorder, needed) if self.tree.folds else None
        boxes = recorder.live()
        carried = _carried(boxes) if state is None else state.values
        wanted = [*carried, *[v for v in (b.content for b in needed) if isinstance(v, Value)]]
        outputs = recorder.computed(wanted)
        places = {v: k for k, v in enumerate([*recorder.inputs, *outputs])}
        action = make(places.__getitem__).at(recorder.location(), recorder.source())
        node = self._node(recorder, outputs, action)
        pool = node.compute(self.state)
        outcome = self._outcome(action, pool)
        if outcome.shows:  # what is written to the view would not reach the array
            recorder.give_up(f"{action.describe()}, and gives a view")
        added = range(len(pool), len(pool) + len(outcome.arrays))
        take = (*[places[v] for v in carried], *added)
        pool += outcome.arrays
        self.breaks += 1
        self._follow(node, outcome.key, take, state)
        self.state = [pool[k] for k in take]
        fresh = recorder.begin([*[v.type for v in carried], *map(type_of, outcome.arrays)])
        recorder.rebind(boxes, dict(zip(carried, fresh, strict=False)))
        if isinstance(outcome.value, Exception):
            recorder.raised = outcome.value
            raise outcome.value
        return _boxed(recorder, outcome, fresh[len(carried) :])

    def finish(
        self,
        recorder: Recorder,
        structure: Any,
        values: Sequence[Value],
        writes: Sequence[tuple[int, Value]],
    ) -> Any:
        """The function's result."""
        node = self._last(recorder, structure, values, writes)
        assert isinstance(node.action, Finish)
        begun = self.begun if self._from is None else ()
        result = node.action.finish(node.compute(self.state, begun), self.begun)
        self._have_effects()
        return result

    def _last(
        self,
        recorder: Recorder,
        structure: Any,
        values: Sequence[Value],
        writes: Sequence[tuple[int, Value]],
    ) -> Node:
        """The node at whose end the function returns."""
        outputs = recorder.computed([*values, *[v for _, v in writes]])
        places = {v: k for k, v in enumerate([*recorder.inputs, *outputs])}
        results, written = [places[v] for v in values], [(k, places[v]) for k, v in writes]
        require = structure.require_apart if isinstance(structure, Acts) else None
        action = Finish(structure, results, written, recorder.captured.values(), require)
        return self._node(recorder, outputs, action.at(_writing(recorder), ""))

    def _outcome(self, action: Action, pool: Sequence[Array]) -> Outcome:
        if not action.is_effect:
            return attempt(action, pool, first=True)
        if self._left:
            self._left -= 1
        else:
            self._later.append((action, pool))
        return Outcome((type(None), value_key(None)), None, [])

    @property
    def acts(self) -> bool:
        """Whether the call does what others see, as to print a text."""
        return bool(self._later or self._done)

    def _have_effects(self) -> None:
        for action, pool in self._later:
            action.perform(pool)

    def _node(self, recorder: Recorder, outputs: Sequence[Value], action: Action) -> Node:
        """The node for the segment that ends: the one that is known here, or a new one."""
        module, inputs = _segment(recorder, outputs, first=self._from is None)
        donates: _Pairs = ()
        fills: _Pairs = ()
        if self._from is None and isinstance(action, Finish):
            donates, fills = _donated(inputs, action, len(recorder.inputs))
        if donates:
            module.main.attrs = {**module.main.attrs, "donates": donates}
        text = print_module(module) if outputs else ""
        known = self._target
        if known is not None and known.is_like(text, inputs, action):
            return known
        if known is not None and self.tree.folds:
            raise Diverged
        self._made += 1
        if self._made > _MOST:
            recorder.give_up(f"a call of {recorder.name} stops more than {_MOST} times")
        whole = self._from is None and isinstance(action, Finish)  # of what calls compute
        light = not whole and is_light(module)
        self._saved += saved(module)
        if not light:
            self._long.add(text)
        slow = len(self._long) / _SLOW
        if (slow > 1 or self._made > _ENOUGH) and self._saved < self._made * max(1, slow) ** 2:
            text = f"a call of {recorder.name} stops more than {self._made - 1} times"
            recorder.give_up(f"{text}, and little is computed in between")
        code = self._compile(module, text, light) if outputs else None
        node = Node(module, text, code, inputs, action)
        node.fills = fills
        if self._from is None:
            self.tree.root = node
        else:
            before, key, take = self._from
            before.remember(key, Edge(take, node))
        if self._name is not None:
            self.tree.after[self._name] = node
        return node

    def _follow(self, node: Node, key: Any, take: tuple[int, ...], state: State | None) -> None:
        """Step over an edge: to the node that is there, or after an equal state, or to a new."""
        self._from = node, key, take
        if state is not None:
            node.state, node.carried = state.key, take[: len(state.values)]
        self._name = None if state is None else (state.key, key)
        edge = node.edges.get(key)
        if edge is not None and edge.take == take:
            self._target = edge.node
            return
        self._target = self.tree.after.get(self._name) if self._name is not None else None
        if self._target is not None:
            node.remember(key, Edge(take, self._target))


def _writing(recorder: Recorder) -> str:
    """Where the function writes to its arguments first, else where it is."""
    return recorder.places[0] if recorder.places else recorder.location()


def _carried(boxes: Sequence[Tracer]) -> list[Value]:
    return list(dict.fromkeys(v for v in (b.held() for b in boxes) if v is not None))


def _boxed(recorder: Recorder, outcome: Outcome, fresh: Sequence[Value]) -> Any:
    """What Python sees of an outcome: its arrays as traced ones, its floats as traced numbers."""
    made: dict[int, Any] = {}

    def box(leaf: Any, path: str) -> Any:
        place = outcome.places.get(id(leaf))
        if place is None:
            return leaf
        if place not in made:
            made[place] = one(leaf, place)
        return made[place]

    def one(leaf: Any, place: int) -> Any:
        tracer = Tracer(recorder, fresh[place], scalar=isinstance(leaf, np.generic))
        if isinstance(leaf, np.ndarray) and not leaf.flags.c_contiguous:
            tracer.lies(leaf.strides)
        return Number(tracer, float) if type(leaf) is float else tracer

    return mapped(box, outcome.value)


def _segment(recorder: Recorder, outputs: Sequence[Value], first: bool) -> tuple[Module, list[int]]:
    """The module that gives the outputs, and the places in the state of its inputs."""
    needed = set(outputs)
    kept: list[Op] = []
    for op in reversed(recorder.ops):
        if not needed.isdisjoint(op.results) or isinstance(op, graph.NonZero):
            needed.update(op.operands)
            kept.append(op)
    sized = bool(recorder.rounds.sizes)  # which any of the inputs may say
    inputs = [k for k, v in enumerate(recorder.inputs) if v in needed or sized]
    args = [recorder.inputs[k] for k in inputs]
    if not first:
        for k, v in enumerate(args):
            v.hint = f"carried{k}"
    body = Region(args, kept[::-1], outputs)
    return Module("graph", [in_all_sizes(recorder, Function("main", body))]), inputs


_Pairs = tuple[tuple[int, int], ...]


def _donated(inputs: Sequence[int], action: Finish, before: int) -> tuple[_Pairs, _Pairs]:
    """Which arguments get an output's elements, and are no result as they were.

    The positions of those that are inputs, and the places of those that are not, each with the
    output; outputs follow on `before` places of the state.
    """
    asked = {*action.results, *[at for _, at in action.writes]}
    pairs = [(k, at - before) for k, at in action.writes if k not in asked and at >= before]
    if len({out for _, out in pairs}) < len(pairs):
        return (), ()
    read = tuple((inputs.index(k), out) for k, out in pairs if k in inputs)
    return read, tuple((k, out) for k, out in pairs if k not in inputs)


class Rehearsal(Path):
    """A call that is traced and run but for its end: nothing from outside is changed."""

    def finish(
        self,
        recorder: Recorder,
        structure: Any,
        values: Sequence[Value],
        writes: Sequence[tuple[int, Value]],
    ) -> Any:
        """None, where the function would return."""
        self._last(recorder, structure, values, writes)


class SizedPath(Path):
    """A call that is traced with sizes that are symbols, which has no breaks.

    Without `compiled` nothing is run, and the result says what would be.
    """

    def __init__(self, args: Sequence[Array], compiled: Compile | None = None) -> None:
        super().__init__(Tree(), args, compiled or (lambda module, text, light: None))
        self._compiled = compiled

    def again(self, tree: Tree | None = None) -> Path:
        """The same call from its beginning."""
        return SizedPath(self.args, self._compiled)

    def pause(
        self, recorder: Recorder, make: Callable[[Place], Action], needed: Sequence[Tracer]
    ) -> Any:
        """Give up."""
        recorder.write_out(make(lambda value: 0).describe())

    def finish(
        self,
        recorder: Recorder,
        structure: Any,
        values: Sequence[Value],
        writes: Sequence[tuple[int, Value]],
    ) -> Any:
        """The function's result, or what would be run."""
        if self._compiled is not None:
            return super().finish(recorder, structure, values, writes)
        node = self._last(recorder, structure, values, writes)
        return node.text, node.inputs, node.action.identity()
