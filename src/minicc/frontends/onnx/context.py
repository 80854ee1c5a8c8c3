"""What the functions that import operators work with: emitting, known contents, complaints.

Contents are known of constants, and of ops on small constants, which are evaluated at once by the
op's own `evaluate`; so a shape, an axis or a padding may be computed from constants. A constant
enters the graph only when an op that stays uses it.

Dimensions that are free are known as symbols: the shape of a tensor, and what is computed from it
by moving and arithmetic, may be used wherever a shape is wanted (see `dims`). They become a tensor
of the graph (`graph.sizes`) where an op wants that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from minicc.errors import CompilerBug, UnsupportedError, UserError
from minicc.frontends.onnx.dims import compute_dims, is_size, ratio
from minicc.frontends.onnx.floats import compute_floats, is_whole, whole_of
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.needs import NeedsValueError, describe
from minicc.frontends.onnx.symbols import Symbols
from minicc.ir import graph
from minicc.ir.affine import Dim, floordiv, minimum, symbols
from minicc.ir.build import Builder
from minicc.ir.core import Array, Literal, Op, Region, Value
from minicc.ir.graph.shapes import differ, show
from minicc.ir.reals import Part
from minicc.ir.types import BOOL, I64, DType
from minicc.limits import look

# Complaints that other sizes may settle; of those about the node itself only in a branch of an If,
# which may not be the one that runs.
_OF_SIZES = ("MC0128", "MC0136")
_CHECKER = "`onnx.checker.check_model(path, full_check=True)` says more"
# Ops on constants of at most so many elements are evaluated at import.
_SMALL = 1 << 16
# Pairs of extents, each of which must be one number.
Demands = dict[tuple[Dim, Dim], None]
_LARGEST = 1 << 28  # elements of a table that an operator makes from its attributes


class Context:
    """The state of an import, standing at one node."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.builder = Builder(("import",))
        self._node = Node("", "", (), (), {})
        self._operands: tuple[Value | None, ...] = ()
        self._arrays: dict[Value, Array] = {}
        self._waiting: dict[Value, graph.Constant | graph.Sizes] = {}
        self._dims: dict[Value, Array] = {}
        self._makers: dict[Value, Op] = {}
        self._floats: dict[Value, Array] = {}  # that sizes decide
        self._truths: dict[Value, Array] = {}  # of booleans that sizes decide: 1 or 0
        self.demands: Demands = {}
        self.branches = 0  # of Ifs within one another, in which it stands
        # sizes of which slices were taken to have all elements: behind a value, behind the node
        self._long: dict[Value | None, frozenset[str]] = {}
        self._assumed: frozenset[str] = frozenset()
        self.symbols = Symbols()  # of extents that data decide, and of rounds
        self.hosting = False  # whether nodes may run on the host

    def stand_at(self, node: Node, operands: Sequence[Value | None], opset: int) -> None:
        """Go to a node: what is emitted and complained of from now on is about it."""
        look(memory=False)
        self._node = node
        self._operands = tuple(operands)
        self._assumed = frozenset().union(*(self._long.get(v, ()) for v in operands))
        self.opset = opset
        self.builder.loc = (node.name,)

    @contextmanager
    def meaning(self, opset: int, attributes: Mapping[str, Any]) -> Iterator[None]:
        """Let the node mean what an operator of an opset does with these attributes."""
        before = self._node, self.opset
        self._node, self.opset = replace(self._node, attributes=attributes), opset
        try:
            yield
        finally:
            self._node, self.opset = before

    # emitting

    def emit(self, cls: type[Op], *args: Any, **attrs: Any) -> Value:
        """Create an op with one result, or its value if that is known; MC0128 if it is refused."""
        op = self._made(cls, *args, **attrs)
        if any(isinstance(n, int) and n < 0 for n in op.result.type.shape):
            raise self.refused(f"its result would be {op.result.type}")
        unsure = self.symbols.unsure(op) if self.symbols.made else ()
        if unsure:  # the host runs the node; for other sizes it is guarded
            raise self.free(unsure)
        if isinstance(op, graph.Slice):
            pairs = zip(op.x.type.shape, op.result.type.shape, strict=True)
            free = (n for n, m in pairs if isinstance(m, int) and not isinstance(n, int))
            self._assumed = self._assumed.union(*map(symbols, free))
        held = (self._dims, self._floats, self._truths)
        sized = bool(self._dims) and any(v in known for v in op.operands for known in held)
        if sized:
            found = self._computed(op)
            if found is not None:
                return found
        if op.operands and self._is_small_constant(op):
            return self.constant(self._evaluate(op))
        if sized:
            self._note_floats(op)
        return self._added(op)

    def emit_late(self, cls: type[Op], *args: Any, **attrs: Any) -> Value:
        """Create an op that passes are to see, though its operands may be known."""
        return self._added(self._made(cls, *args, **attrs))

    def _made(self, cls: type[Op], *args: Any, **attrs: Any) -> Op:
        try:
            return cls(*args, loc=self.builder.loc, **attrs)
        except (TypeError, ValueError, IndexError) as error:
            raise self.refused(str(error)) from error

    def _added(self, op: Op) -> Value:
        self.use(op.operands)
        self.builder.add(op)
        self._makers[op.result] = op
        return op.result

    def finish(self, results: Iterable[Value]) -> None:
        """Leave the node: what was assumed for it is behind its results."""
        if self._assumed:
            self._long.update(dict.fromkeys(results, self._assumed))

    def decides(self, *dims: Dim) -> bool:
        """Whether the data of a run decide one of these extents."""
        return not self.symbols.made.isdisjoint(set().union(*map(symbols, dims)))

    def use(self, values: Iterable[Value]) -> None:
        """See to it that constants and sizes are in the graph."""
        for value in values:
            waiting = self._waiting.pop(value, None)
            if waiting is not None:
                self.builder.add(waiting)

    def constant(self, array: Any) -> Value:
        """A tensor of known contents."""
        op = graph.Constant(value=Literal(array), loc=self.builder.loc)
        self._arrays[op.result] = op.value.array
        self._waiting[op.result] = op
        return op.result

    def scalar(self, number: float, like: Value | DType) -> Value:
        """A constant of rank 0 with the element type of `like`."""
        element = like if isinstance(like, DType) else like.type.dtype
        return self.constant(np.array(number, element.numpy))

    def reshape(self, x: Value, shape: Iterable[Dim]) -> Value:
        """`x` under another shape; itself where that is its own."""
        wanted = tuple(shape)
        return x if wanted == x.type.shape else self.emit(graph.Reshape, x, shape=wanted)

    def taken_as(self, x: Value, shape: Iterable[Dim]) -> Value:
        """`x` with the extents that it has by the rules of the operator; MC0128 if it can't."""
        own, wanted = x.type.shape, tuple(shape)
        text = f"{x.type} where it wants {show(wanted)}"
        if len(own) != len(wanted):
            raise self.refused(text)
        for n, extent in zip(own, wanted, strict=True):
            self.demand(n, extent, text)
        return self.reshape(x, wanted)

    def cast(self, x: Value, element: DType) -> Value:
        """`x` as another element type; itself where that is its own."""
        return x if x.type.dtype is element else self.emit(graph.Cast, x, dtype=element)

    def scaled(self, x: Value, factor: float) -> Value:
        """`x` times a number; itself where that is 1."""
        return x if factor == 1 else self.emit(graph.Mul, x, self.scalar(factor, x))

    def _is_small_constant(self, op: Op) -> bool:
        if not all(v in self._arrays for v in op.operands):
            return False
        shapes = [v.type.shape for v in (*op.operands, op.result)]
        if not all(isinstance(n, int) for s in shapes for n in s):
            return False
        return isinstance(op, graph.Reshape) or max(map(prod, shapes)) <= _SMALL

    def _evaluate(self, op: Op) -> Array:
        try:
            (out,) = op.evaluate(_no_region, *[self._arrays[v] for v in op.operands])
        except (TypeError, ValueError, IndexError) as error:
            raise self.refused(str(error)) from error
        return np.asarray(out)

    @contextmanager
    def apart(self) -> Iterator[Builder]:
        """Emit into another builder meanwhile, all but what is known, which all may use."""
        outer = self.builder
        self.builder = Builder(outer.loc)
        try:
            yield self.builder
        finally:
            inner = self.builder.ops
            used = [op for op in inner if isinstance(op, graph.Constant | graph.Sizes)]
            inner[:] = [op for op in inner if not isinstance(op, graph.Constant | graph.Sizes)]
            self.builder = outer
            self._waiting.update((op.result, op) for op in used)

    def truth(self, value: Value) -> Dim | None:
        """A boolean that sizes of inputs decide, 1 or 0; None where data do."""
        found = self._truths.get(value)
        number = found.item() if found is not None and found.size == 1 else None
        return None if number is None or self.decides(number) else number

    @contextmanager
    def demanding(self) -> Iterator[Demands]:
        """Keep apart what is demanded meanwhile."""
        outer, self.demands = self.demands, {}
        try:
            yield self.demands
        finally:
            self.demands = outer

    def known_op(self, value: Value) -> graph.Constant | graph.Sizes | None:
        """A new op that gives the contents of a value; None where these are not known."""
        array, dims, loc = self._arrays.get(value), self._dims.get(value), self.builder.loc
        if dims is not None:
            values = tuple(dims.ravel().tolist())
            return graph.Sizes(values, shape=dims.shape, dtype=value.type.dtype, loc=loc)
        return None if array is None else graph.Constant(Literal(array), loc=loc)

    # known contents

    def array(self, value: Value | None) -> Array | None:
        """The contents of a value where they are known."""
        return None if value is None else self._arrays.get(value)

    def is_filled(self, value: Value) -> bool:
        """Whether a tensor of rank 1 or more is known to have one number, not 0, everywhere."""
        maker = self._makers.get(value)
        number = self._arrays.get(maker.x) if isinstance(maker, graph.Broadcast) else None
        return number is not None and number.size == 1 and bool(number)

    def known(self, value: Value, what: str) -> Array:
        """The contents of a value that must be known; MC0223 where they are not."""
        found = self._arrays.get(value)
        if found is not None:
            return found
        if value in self._dims:
            raise self.free(self._dims[value])
        message = f"{self._describe()}: its {what} is computed when the model runs"
        hint = f"make the {what} a constant; `onnxsim` or constant folding may do it"
        error = NeedsValueError("MC0223", message, hint=hint, where=self._node.name)
        error.values = (value,)
        raise error

    def integers(self, value: Value, what: str) -> tuple[int, ...]:
        """The contents of a value as integers; MC0223 where not known, MC0127 where no integers."""
        numbers = np.ravel(self.known(value, what)).tolist()
        if any(isinstance(n, float) and not n.is_integer() for n in numbers):
            raise self.wrong(f"its {what} must be integers and is {value.type}")
        return tuple(map(int, numbers))

    def partly(self, value: Value) -> list[Dim | None]:
        """The elements of a vector of known length or a scalar, None where they are not known."""
        found = self._dims.get(value, self._arrays.get(value))
        if found is not None:
            return list(found.ravel().tolist())
        maker = self._makers.get(value)
        if isinstance(maker, graph.Concat):
            return [n for part in maker.xs for n in self.partly(part)]
        if isinstance(maker, graph.Cast | graph.Reshape) and maker.x.type.rank <= 1:
            return self.partly(maker.x)
        (count,) = value.type.shape or (1,)
        return [None] * (count if isinstance(count, int) else 0)

    def maker(self, value: Value) -> Op | None:
        """The op that makes a value; None for an input, and for what is known."""
        return self._makers.get(value)

    def _behind(self, value: Value) -> Iterator[Value]:
        """A value and those that it is computed from, up to such as are known."""
        seen, waiting = {value}, [value]
        while waiting:
            v = waiting.pop()
            yield v
            maker = self._makers.get(v)
            if maker is not None and v not in self._dims and v not in self._arrays:
                waiting += [operand for operand in maker.operands if operand not in seen]
                seen.update(maker.operands)

    def sizes_behind(self, value: Value) -> set[str] | None:
        """The symbols that a value is computed from; None where it is of other data, too."""
        found: set[str] = set()
        for v in self._behind(value):
            dims, maker = self._dims.get(v), self._makers.get(v)
            if dims is not None:
                found.update(*map(symbols, dims.ravel()))
            elif v not in self._arrays and (maker is None or not maker.operands):
                return None
        return found

    def inputs_behind(self, value: Value) -> set[Value]:
        """What a value is computed from that no op computes: constants and sizes are known."""
        made = (self._dims, self._arrays, self._makers)
        return {v for v in self._behind(value) if not any(v in known for known in made)}

    def axes(self, named: Iterable[int], rank: int) -> tuple[int, ...]:
        """Axes counted from the front and in order; MC0127 where one is outside or twice."""
        given = tuple(named)
        out = tuple(sorted(a + rank if a < 0 else a for a in given))
        if len(set(out)) != len(out) or any(not 0 <= a < rank for a in out):
            raise self.wrong(f"axes {list(given)} of a tensor of rank {rank}")
        return out

    def axis(self, name: str, default: int, rank: int) -> int:
        """An attribute that is an axis, counted from the front."""
        return self.axes((self._node.integer(name, default),), rank)[0]

    def shape_of(self, x: Value) -> Value:
        """The shape of a tensor as a value."""
        return self.of_dims(np.array(x.type.shape, object))

    def dims(self, value: Value, what: str) -> tuple[Dim, ...]:
        """The contents of a value as dimensions, which may be free; MC0223 if not known."""
        if value in self._dims:
            return tuple(self._dims[value].ravel())
        return self.integers(value, what)

    def whole(self, value: Value) -> Value | None:
        """A float that is known to be a whole number, maybe of sizes, as an integer."""
        found = self._floats.get(value, self._arrays.get(value))
        if found is None or found.size != 1 or not is_whole(number := found.item()):
            return None
        return self.of_dims(np.array(whole_of(number), object))

    def floats(self, value: Value, what: str) -> list[Part]:
        """The contents of a value as floats, which sizes may decide; MC0223 if not known."""
        found = self._floats.get(value)
        return list((self.known(value, what) if found is None else found).ravel().tolist())

    def static(self, dim: Dim, what: str) -> int:
        """A dimension that must be a number; MC0225 where it is free."""
        if not isinstance(dim, int):
            raise self.free([dim], what)
        return dim

    def quotient(self, whole: Dim, part: Dim, what: str) -> Dim:
        """How many times a part goes into a whole, without a rest; MC0128 where there is one.

        That there is none of sizes that are free becomes a demand.
        """
        none = f"{whole} {what} are no multiple of {part}"
        if isinstance(part, int) and (part < 1 or (isinstance(whole, int) and whole % part)):
            raise self.refused(none)
        found = ratio([whole], [part])
        found = floordiv(whole, part) if found is None else found
        self.demand(found * part, whole, none)
        return found

    def demand(self, extent: Dim, wanted: Dim, text: str) -> None:
        """See to it that an extent is what an operator wants; MC0128 with a text where it isn't.

        Of one that is free it becomes a demand; MC0225 where the data of a run decide it.
        """
        if differ(extent, wanted):
            raise self.refused(text)
        if extent != wanted and self.decides(extent, wanted):
            raise self.free([extent, wanted])
        if extent != wanted:
            self.demands[extent, wanted] = None

    def extent(self, dim: Dim, like: Value | DType) -> Value:
        """A dimension as a tensor of rank 0 with the element type of `like`."""
        if isinstance(dim, int):
            return self.scalar(dim, like)
        element = like if isinstance(like, DType) else like.type.dtype
        return self.cast(self.of_dims(np.array(dim, object)), element)

    def of_dims(self, dims: Array, element: DType = I64) -> Value:
        """An array of dimensions as a value: a constant where all are numbers."""
        if all(isinstance(n, int) for n in dims.ravel()):
            return self.constant(dims.astype(element.numpy))
        values = tuple(dims.ravel().tolist())
        op = graph.Sizes(values=values, shape=dims.shape, dtype=element, loc=self.builder.loc)
        self._dims[op.result] = dims
        self._waiting[op.result] = op
        return op.result

    def _computed(self, op: Op) -> Value | None:
        """What an op on dimensions gives, as dimensions; None where it has to be computed."""
        floats = self._floats.get(op.operands[0])
        if floats is not None and isinstance(op, graph.Cast) and is_size(op.dtype):
            whole = np.asarray(np.frompyfunc(whole_of, 1, 1)(floats), object)
            return self.of_dims(whole, op.dtype)
        parts = [self._held(v, self._dims, self._truths) for v in op.operands]
        if any(p is None for p in parts):
            return None
        asked: list[Dim] = []
        out = compute_dims(op, parts, asked)
        if self.decides(*asked):
            out, asked = compute_dims(op, parts, None), []
        if out is None:
            return None
        self.demands.update(((minimum(n, 0), 0), None) for n in asked)
        element = op.result.type.dtype
        if element is BOOL and out.dtype == object:
            self._truths[op.result] = out
            return None
        return self.constant(out) if element is BOOL else self.of_dims(out, element)

    def _note_floats(self, op: Op) -> None:
        """Keep what a float op gives where sizes decide it."""
        found = [self._held(v, self._floats, self._dims) for v in op.operands]
        parts = [p for p in found if p is not None]
        out = compute_floats(op, parts) if len(parts) == len(found) else None
        if out is not None:
            self._floats[op.result] = out

    def _held(self, value: Value, *known: Mapping[Value, Array]) -> Array | None:
        """The contents of a value as those hold it, or as a constant."""
        return next((h[value] for h in known if value in h), self._arrays.get(value))

    # complaints

    def wrong(self, text: str, hint: str = "") -> UserError:
        """A mistake in the node (MC0127)."""
        message = f"{self._describe()}: {text}"
        return UserError("MC0127", message, hint=hint or _CHECKER, where=self._node.name)

    def refused(self, text: str) -> UserError:
        """Operands that an op's type rule refuses (MC0128)."""
        message = f"{self._describe(shapes=True)}: {text}"
        return UserError("MC0128", message, hint=_CHECKER, where=self._node.name)

    def undecided(self, error: UserError) -> UserError | NeedsValueError:
        """A complaint about the node, as one that sizes settle where dimensions of it are free."""
        known = [(v.type.shape, self._dims.get(v)) for v in self._operands if v is not None]
        dims = [n for shape, held in known for n in (*shape, *(() if held is None else held.flat))]
        names = sorted(set().union(self._assumed, *map(symbols, dims)))
        assumed = (self._assumed or self.branches) and error.code == "MC0127"
        settled = error.code not in _OF_SIZES and not assumed
        if not names or settled:
            return error
        hint = f"give {' and '.join(names)} a number, if it is not wrong for all: {error.hint}"
        found = NeedsValueError(error.code, error.message, hint=hint, where=error.where)
        found.names = tuple(names)
        return found

    def unsupported(self, text: str, hint: str) -> UnsupportedError:
        """A use of the operator that minicc does not compile (MC0221)."""
        message = f"{self._describe()}: {text}"
        return UnsupportedError("MC0221", message, hint=hint, where=self._node.name)

    def room(self, *extents: Any) -> None:
        """MC0136 where a table of these extents is too large to be made at import."""
        if prod(max(0, int(n)) for n in extents) > _LARGEST:
            raise self.too_large()

    def too_large(self) -> UserError:
        """A table that is larger than memory (MC0136)."""
        text = f"{self._describe(shapes=True)}: a table that it needs is larger than memory"
        return UserError("MC0136", text, hint="use smaller sizes", where=self._node.name)

    def bug(self, error: Exception) -> CompilerBug:
        """An exception that no node should be able to raise (MC0320)."""
        text = f"{self._describe(shapes=True)}: {type(error).__name__}: {error}"
        return CompilerBug("MC0320", text, where=self._node.name, stage="import from ONNX")

    def drawn_anew(self) -> NeedsValueError:
        """What only the host can run: random numbers that are others in each run (MC0223)."""
        message = f"{self._describe()}: random numbers without a seed are others in each run"
        hint = "set its attribute seed, or draw them outside and make them an input of the model"
        return NeedsValueError("MC0223", message, hint=hint, where=self._node.name)

    def free(self, dims: Any, what: str = "it") -> NeedsValueError:
        """What sizes would settle (MC0225)."""
        names = sorted(set().union(*map(symbols, np.ravel(np.asarray(dims, object)))))
        text = f"{what} needs to know the free dimension {', '.join(names)}"
        hint = f"give {' and '.join(names)} a number in the shapes of the model's inputs"
        message = f"{self._describe()}: {text}"
        error = NeedsValueError("MC0225", message, hint=hint, where=self._node.name)
        error.names = tuple(names)
        return error

    def _describe(self, shapes: bool = False) -> str:
        types = [v.type if shapes else v.type.dtype for v in self._operands if v is not None]
        shown = list(map(str, types)) if shapes else list(dict.fromkeys(map(str, types)))
        return describe(self._node, self.opset, shown)


def _no_region(region: Region, args: Sequence[Any]) -> tuple[Any, ...]:
    raise AssertionError("graph ops have no regions")
