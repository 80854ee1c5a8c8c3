"""What a traced function does when it is called again: segments of graph, and what stands between.

Where Python needs a value of an array, or NumPy itself has to compute (a *break*), the graph
recorded so far ends: a `Node` is such a segment with the `Action` that follows it. What Python saw
of the action's outcome (a truth value, a number, the shapes of NumPy's results) is the key of the
edge to the node that follows. A call walks from node to node and never runs the user's Python; an
outcome that was not seen before is a miss, and the function is traced again.

A node has a *state*, the arrays that live across the break before it; running its code adds what it
computed, and the action what NumPy gave: the *pool*. An edge says which of the pool are the state
of the node that it leads to, so a node may follow itself: a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.errors import UnsupportedError
from minicc.errstate import Silent
from minicc.frontends.trace.pytree import Slot, leaves, mapped, rebuild
from minicc.ir.arrays import Code, dense
from minicc.ir.core import Array, Module, attribute_key
from minicc.ir.types import is_free

EDGES = 64  # outcomes of one break that are remembered
CALLERS = "a warning of callers"  # of a line that is another one at each call
_NUMBERS = (bool, int, float, complex)
_NOWHERE: Mapping[int, int] = {}


class Outcome(NamedTuple):
    """What an action gave: the edge's key, what Python sees, and arrays that join the pool.

    `shows` says that one of them was a view of an array that it took; `places` are those in
    `arrays` of leaves of the value, by their identity.
    """

    key: Any
    value: Any
    arrays: list[Array]
    shows: bool = False
    places: Mapping[int, int] = _NOWHERE


class Action:
    """What follows a segment. `where` and `source` are the user's line and its text."""

    __slots__ = ("source", "where")
    where: str
    source: str

    @property
    def is_effect(self) -> bool:
        """Whether others see what it does, so that another trace of the call must not repeat it."""
        return False

    def at(self, where: str, source: str) -> Action:
        """Say whose line it is."""
        self.where, self.source = where, source
        return self

    def perform(self, pool: Sequence[Array]) -> Outcome:
        """Do it."""
        raise NotImplementedError

    def first(self, pool: Sequence[Array]) -> Outcome:
        """Do it while the function is traced, and find out what no compiled function may do."""
        return self.perform(pool)

    def identity(self) -> Any:
        """Equal for actions that do the same."""
        raise NotImplementedError

    def describe(self) -> str:
        """What it does, for people."""
        raise NotImplementedError


def _items(array: Array) -> Any:
    return array.tolist()


CONVERSIONS: dict[str, Callable[[Array], Any]] = {
    "bool": lambda a: bool(a),
    "int": lambda a: int(a),
    "float": lambda a: float(a),
    "complex": lambda a: complex(a),
    "index": lambda a: a[()].__index__(),
    "item": lambda a: a.item(),
    "tolist": _items,
    "array": lambda a: a.copy(),
    "text": lambda a: str(a[()] if not a.ndim else a),
}


class Read(Action):
    """Python sees the elements of an array; each value that it saw has a path of its own."""

    __slots__ = ("convert", "index", "needs")

    def __init__(self, index: int, convert: str, needs: str) -> None:
        self.index = index
        self.convert = convert
        self.needs = needs

    def perform(self, pool: Sequence[Array]) -> Outcome:
        array = pool[self.index]
        value = CONVERSIONS[self.convert](array)
        if self.convert == "tolist" and array.ndim and not array.dtype.hasobject:
            # which tells the same as each element by itself, and sooner
            return Outcome(value_key(array), value, [])
        return Outcome(value_key(value), value, [])

    def identity(self) -> Any:
        return "read", self.index, self.convert

    def describe(self) -> str:
        return f"Python reads a value for {self.needs}"


def value_key(value: Any) -> Any:
    """Equal for Python values that are the same bit by bit."""
    if type(value) in _NUMBERS:  # as most are
        return type(value), attribute_key(value)
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, np.generic):
        return "generic", str(value.dtype), value.tobytes()
    if isinstance(value, (list, tuple)):
        return (type(value), *map(value_key, value))
    if isinstance(value, dict):
        return (dict, *[(value_key(k), value_key(v)) for k, v in value.items()])
    if value is None or isinstance(value, (*_NUMBERS, str, bytes)):
        return type(value), attribute_key(value)
    if isinstance(value, slice):
        return "slice", value_key((value.start, value.stop, value.step))
    if isinstance(value, Slot):
        return "slot", value.index, value.kind
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value


class Host(Action):
    """NumPy computes on the host; Python sees the shapes of what it gives.

    What is `foreign` is a function of another library, which may not take arrays that are locked.
    """

    __slots__ = ("foreign", "function", "name", "named", "plain", "reason", "template")

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        template: Any,
        named: Any,
        reason: str,
        foreign: bool = False,
    ) -> None:
        self.name = name
        self.function = function
        self.template = template
        self.named = named
        self.reason = reason
        self.foreign = foreign
        # whether nothing is nested, nor given twice, as in most calls
        given = [*template, *named.values()]
        slots = [s.index for s in given if type(s) is Slot]
        others = [s for s in given if type(s) is not Slot]
        nested = any(isinstance(s, (tuple, list, dict)) or hasattr(s, "of") for s in others)
        self.plain = not nested and len({*slots}) == len(slots)

    def perform(self, pool: Sequence[Array]) -> Outcome:
        if not self.plain:
            args, named = rebuild(self.template, pool), rebuild(self.named, pool)
            given = _arrays((args, named))
        else:
            args = [s.of(pool) if type(s) is Slot else s for s in self.template]
            given = [a for a in args if isinstance(a, np.ndarray)]
            named = self.named
            if named:
                named = {k: s.of(pool) if type(s) is Slot else s for k, s in named.items()}
                given += [a for a in named.values() if isinstance(a, np.ndarray)]
        with Silent():
            result = self.function(*args, **named)
        return self._told(result, given)

    def first(self, pool: Sequence[Array]) -> Outcome:
        """The same; UnsupportedError where it writes to an array that it takes.

        What is written would be a constant's, or an array's that others hold.
        """
        args, kwargs = rebuild(self.template, pool), rebuild(self.named, pool)
        if not self.foreign:
            args, kwargs = mapped(_locked, args), mapped(_locked, kwargs)
        given = _arrays((args, kwargs))
        before = [a.tobytes() for a in given] if self.foreign else []
        error = UnsupportedError("MC0243", f"{self.name} writes to an array that it takes")
        try:
            with Silent():
                result = self.function(*args, **kwargs)
        except ValueError as raised:
            if not self.foreign and "read-only" in str(raised):
                raise error from None
            raise
        if before and before != [a.tobytes() for a in given]:
            raise error
        if not all(a.size or a.flags.writeable for a in _arrays(result)):
            return self.perform(pool)  # a view of nothing is locked as what it is a view of
        return self._told(result, given)

    def _told(self, result: Any, given: Sequence[Array]) -> Outcome:
        arrays: list[Array] = []
        seen: list[Any] = [type(result)]
        shows: list[bool] = []
        known: dict[int, int] = {}
        for leaf in leaves(result):
            kind = type(leaf)
            if kind is not np.ndarray and kind is not float and not isinstance(leaf, np.generic):
                if isinstance(leaf, np.ndarray):
                    text = f"{self.name} gives a {kind.__name__}"
                    raise UnsupportedError("MC0245", text)
                seen.append(value_key(leaf))
                continue
            place = known.setdefault(id(leaf), len(arrays))
            if place < len(arrays):  # the same array once more
                seen.append(place)
                continue
            array = np.asarray(leaf)
            if array.base is not None or _is_one(array, given):
                shows += [True for a in given if np.may_share_memory(array, a)]
                shows += [True for a in arrays if np.shares_memory(array, a)]
            lies = None if array.flags.c_contiguous else array.strides
            seen.append((array.dtype, array.shape, kind, lies))
            arrays.append(array)
        return Outcome((*seen, *shows), result, arrays, bool(shows), known)

    @property
    def is_effect(self) -> bool:
        return self.name in ("print", CALLERS)

    def identity(self) -> Any:
        return "host", self.name, value_key(self.template), value_key(self.named)

    def describe(self) -> str:
        return f"{self.name} runs on the host: {self.reason}"


def _arrays(structure: Any) -> list[Array]:
    """The arrays that a structure holds."""
    found: list[Array] = []
    mapped(lambda x, at: found.append(x) if isinstance(x, np.ndarray) else x, structure)
    return found


def _locked(x: Any, path: str) -> Any:
    """An array that may be read alone."""
    if not isinstance(x, np.ndarray):
        return x
    seen = x.view()
    seen.flags.writeable = False
    return seen


def attempt(action: Action, pool: Sequence[Array], first: bool = False) -> Outcome:
    """What an action gives; an exception is an outcome too, for the user may catch it.

    UnsupportedError where it gives what no trace can hold.
    """
    try:
        return action.first(pool) if first else action.perform(pool)
    except UnsupportedError:
        raise
    except Exception as error:
        return Outcome(("raised", type(error), str(error)), error, [])


class Finish(Action):
    """The function returns. `writes` are the arguments' new contents, by place in the pool.

    `held` are arrays from outside that became constants: no argument that is written to may share
    their memory. What has to hold for arguments besides, `require` is asked before that.
    """

    __slots__ = ("held", "require", "results", "structure", "writes")

    def __init__(
        self,
        structure: Any,
        results: Sequence[int],
        writes: Sequence[tuple[int, int]],
        held: Iterable[Array],
        require: Callable[[Sequence[Array]], None] | None = None,
    ) -> None:
        self.structure = structure
        self.results = tuple(results)
        self.writes = tuple(writes)
        self.held = tuple(held) if writes else ()
        self.require = require

    def identity(self) -> Any:
        held = tuple(map(id, self.held))
        return "finish", self.results, self.writes, held, value_key(self.structure)

    def finish(self, pool: Sequence[Array], args: Sequence[Array]) -> Any:
        """The function's result, after its writes to arguments."""
        given = {id(a) for a in args}
        leaves: list[Array] = []
        for k in self.results:
            array = pool[k]
            # what the host gave may lie otherwise than the result, which says how it does
            leaves.append(array.copy() if id(array) in given else np.asarray(array, order="C"))
            given.add(id(array))
        if self.writes and self.require is not None:
            self.require(args)
        if self.writes:
            write_back(self.writes, pool, args, self.held, self.where)
        return rebuild(self.structure, leaves, args)

    def describe(self) -> str:
        return "the function returns"


def write_back(
    writes: Sequence[tuple[int, int]],
    pool: Sequence[Array],
    args: Sequence[Array],
    held: Sequence[Array],
    where: str | Sequence[str],
) -> None:
    """Give arguments their new contents; refused where something else that is read shares them.

    Those that are outputs themselves have them.
    """
    if all(pool[k] is args[target] and k != target for target, k in writes):
        return
    for target, place in writes:
        alike = {k for k, at in writes if at == place}  # where one argument stands
        others = [a for k, a in enumerate(args) if k not in alike]
        named = {"another argument": others, "an array from outside": held}
        for what, arrays in named.items():
            if any(np.may_share_memory(args[target], a) for a in arrays):
                text = f"an argument is written to, and {what} shares its memory"
                raise UnsupportedError("MC0248", text, hint="pass a .copy()", where=where)
        if not args[target].flags.writeable:  # which NumPy says at the place, in words of its own
            text = "an argument is written to that is read-only"
            raise UnsupportedError("MC0248", text, hint="pass a .copy()", where=where)
    fresh = [(args[target], pool[k].copy() if _is_one(pool[k], args) else pool[k])
             for target, k in writes if pool[k] is not args[target]]  # fmt: skip
    for array, new in fresh:
        np.copyto(array, new)


def _is_one(array: Array, arrays: Sequence[Array]) -> bool:
    return any(array is a for a in arrays)


class Edge(NamedTuple):
    """Where an outcome leads; `take` are the places in the pool of the next node's state."""

    take: tuple[int, ...]
    node: Node


class Node:
    """A segment and what follows it. `inputs` are the places in the state of the code's inputs.

    `state` names what Python's state at the break is (see `states`), and `carried` are the places
    in the pool of the arrays that live on: with them a new outcome may lead to a known node.
    `fills` are places of arguments that the code does not read, each with the output for them.
    """

    __slots__ = ("action", "carried", "code", "edges", "fills", "forgotten", "inputs", "module",
                 "run", "state", "text")  # fmt: skip

    def __init__(
        self, module: Module, text: str, code: Code | None, inputs: Sequence[int], action: Action
    ) -> None:
        self.module = module
        self.text = text
        self.code = code
        shapes = [a.type.shape for a in module.main.args]
        sized = any(map(is_free, shapes))
        self.run = None if code is None else code.run if sized else code.ready(shapes)
        self.inputs = tuple(inputs)
        self.action = action
        self.fills: tuple[tuple[int, int], ...] = ()
        self.edges: dict[Any, Edge] = {}
        self.forgotten = 0
        self.state: Any = None
        self.carried: tuple[int, ...] = ()

    def is_like(self, text: str, inputs: Sequence[int], action: Action) -> bool:
        """Whether it computes and does the same."""
        return (
            self.text == text
            and self.inputs == tuple(inputs)
            and self.action.identity() == action.identity()
        )

    def compute(self, state: Sequence[Array], begun: Sequence[Array] = ()) -> list[Array]:
        """The state and what the code adds to it; that of a call's first node is what has `begun`.

        What becomes of an array that is written to is computed in its memory, where that is no
        other's; UnsupportedError (MC0248) where then the function could not be at its end.
        """
        if self.run is None:
            return [*state]
        given = [dense(state[k]) for k in self.inputs]
        action = self.action
        assert self.code is not None
        if begun and isinstance(action, Finish) and action.writes and self.code.sure:
            targets = [state[k] for k, _ in action.writes]
            if all(_is_own(a, begun, action.held) for a in targets):
                if action.require is not None:
                    action.require(begun)
                into = self._into(given, state)
                return [*state, *self.code.run(given, into=into)]
        return [*state, *self.run(given)]

    def _into(self, given: Sequence[Array], state: Sequence[Array]) -> Mapping[int, Array]:
        """The outputs that may be computed in the memory of arguments that get them."""
        assert self.code is not None
        into = {out: given[k] for k, out in self.code.donated if given[k] is state[self.inputs[k]]}
        for k, out in self.fills:
            if dense(state[k]) is state[k]:
                into[out] = state[k]
        return into

    def remember(self, key: Any, edge: Edge) -> None:
        """Add an edge; of many the oldest goes."""
        if len(self.edges) >= EDGES and key not in self.edges:
            del self.edges[next(iter(self.edges))]
            self.forgotten += 1
        self.edges[key] = edge


def _is_own(array: Array, args: Sequence[Array], held: Sequence[Array]) -> bool:
    """Whether an array is one of the arguments, may be written to, and shares no other's memory."""
    others = [a for a in args if a is not array]
    one = len(others) == len(args) - 1 and array.flags.writeable
    return one and not any(np.may_share_memory(array, a) for a in (*others, *held))


class Missed(NamedTuple):
    """A call that left the paths that are known: the action, and the key of what it gave, if any.

    `place` is equal for calls that left them at the same place.
    """

    action: Action
    effects: int
    place: int
    key: Any


def replay(root: Node, args: Sequence[Array], after: Mapping[Any, Node]) -> Any:
    """The result of a call along known paths, or where it left them (`Missed`).

    `args` are the arrays that the state begins with, `after` the nodes by Python's state and the
    outcome before them.
    """
    node = root
    state = args
    effects = 0
    while True:
        pool = node.compute(state, args if node is root else ())
        action = node.action
        if isinstance(action, Finish):
            return action.finish(pool, args)
        try:
            outcome = attempt(action, pool)
        except UnsupportedError:  # the trace says so, and leaves the call to NumPy
            return Missed(action, effects, id(node), None)
        effects += action.is_effect
        edge = node.edges.get(outcome.key)
        if edge is None:
            known = after.get((node.state, outcome.key)) if node.state is not None else None
            if known is None:
                return Missed(action, effects, id(node), outcome.key)
            added = range(len(pool), len(pool) + len(outcome.arrays))
            edge = Edge((*node.carried, *added), known)
            node.remember(outcome.key, edge)
        pool += outcome.arrays
        state = [pool[k] for k in edge.take]
        node = edge.node
