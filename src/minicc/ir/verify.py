"""Checks that a module is what every pass may rely on; run after every stage.

Values are defined once and before they are used, in scope; recorded types are those that the type
rules infer; ops agree with their declaration and their own `verify`; every op has a location; and
the level has every op; and loads and stores stay in their buffers, as far as that can be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from minicc.errors import CompilerBug
from minicc.ir import affine, kernel, program
from minicc.ir.affine import Dim
from minicc.ir.affine_facts import bounds
from minicc.ir.bind import bound, own_sizes
from minicc.ir.by_hand import ByHand
from minicc.ir.core import Function, Module, Op, Region, Value, walk, walk_control
from minicc.ir.levels import leftovers
from minicc.ir.scan import largest_rounds
from minicc.ir.text.printer import print_function
from minicc.ir.types import BufferType

# What a type rule or a verifier may raise on an op that a pass built wrongly.
_REFUSALS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


def verify(module: Module) -> None:
    """Raise CompilerBug (MC0310, or MC0311 for an illegal op) with the guilty op marked `>>>`."""
    known: dict[str, Function] = {}
    for function in module.functions:
        if function.name in known:
            raise CompilerBug("MC0310", f"two functions are called @{function.name}")
        known[function.name] = function
    for function in module.functions:
        _Verifier(function, module.level != "graph").function()
        _launches(known, function)
        for op, message in leftovers(module, function):
            raise _bug("MC0311", message, function, op)
        for out in leaving(function):
            text = f"it leaves its buffer: {out.at} is {out.low}..{out.high} in {out.buffer.type}"
            raise _bug("MC0310", text, function, out.op)


def _free(type: object) -> list[object]:
    """The dimensions and strides of a type that are neither numbers nor sizes of the program."""
    extents = (*getattr(type, "shape", ()), *getattr(type, "strides", ()))
    return [n for n in extents if not all(map(affine.is_size, affine.symbols(n)))]


def _bug(code: str, message: str, function: Function, op: Op | None) -> CompilerBug:
    """The error, with the text of the function."""
    where: tuple[str, ...] = ()
    if op is not None and isinstance(op.loc, tuple):
        where = tuple(str(name) for name in op.loc)
    text = print_function(function, mark=op).rstrip()
    return CompilerBug(code, f"{message} (in @{function.name})", where=where, ir=text)


class Leaving(NamedTuple):
    """A load or store that leaves a buffer along an axis: where it goes from and to."""

    op: Op
    buffer: Value
    axis: int
    at: Dim
    low: int
    high: int


def leaving(function: Function) -> Iterator[Leaving]:
    """The loads and stores of a kernel that surely leave their buffer, and how.

    Those whose coordinates follow from the grid and from loops of known length, in buffers of known
    extents. What loops of other lengths compute the interpreter looks at when it runs.
    """
    if "grid" not in function.attrs:
        hands = (op for op in walk_control(function.body) if isinstance(op, ByHand))
        return chain.from_iterable(leaving(op.kernel) for op in hands)
    grid = function.attrs["grid"]
    pairs = [(a, n) for a, n in zip(function.args, grid, strict=False) if isinstance(n, int)]
    extents = {f"g{k}": n for k, (_, n) in enumerate(pairs)}
    if 0 in extents.values():
        return iter(())  # nothing runs
    known: dict[Value, Dim] = {a: affine.symbol(f"g{k}") for k, (a, _) in enumerate(pairs)}
    return _leaving_in(function.body, known, extents)


def _leaving_in(
    region: Region, known: dict[Value, Dim], extents: Mapping[str, int]
) -> Iterator[Leaving]:
    """The same of a region that runs; `known` are indices as expressions over the `extents`."""

    def told(e: Dim, indices: Sequence[Value]) -> Dim:
        places = {f"i{k}": known[v] for k, v in enumerate(indices) if v in known}
        return affine.substitute(e, places)

    for op in region.ops:
        if isinstance(op, kernel.Index):
            known[op.result] = told(op.value, op.indices)
        elif isinstance(op, kernel.For):
            name = f"r{len(extents)}"
            known[op.body.args[0]] = affine.symbol(name) * op.step + op.lo
            yield from _leaving_in(op.body, known, {**extents, name: op.rounds})
        elif isinstance(op, kernel.Load | kernel.Store):
            tile = op.shape if isinstance(op, kernel.Load) else op.value.type.extents
            ranges = {**extents, **{f"t{k}": n for k, n in enumerate(tile)}}
            if op.within is not None:
                del ranges[f"t{len(tile) - 1}"]  # fewer than there are
            for axis, (e, n) in enumerate(zip(op.at, op.buffer.type.shape, strict=True)):
                at = told(e, op.indices)
                if isinstance(n, int) and _is_reached(at, ranges):
                    low, high = bounds(at, ranges)
                    if low < 0 or high >= n:
                        yield Leaving(op, op.buffer, axis, e, low, high)


def _is_reached(value: Dim, ranges: Mapping[str, int]) -> bool:
    """Whether `bounds` of an expression are values that it has: each symbol occurs in it once."""
    seen: list[str] = []
    waiting = [value]
    while waiting:
        for monomial, _ in getattr(waiting.pop(), "terms", ()):
            atom = monomial[0]
            if len(monomial) > 1 or getattr(atom, "kind", "") == "mod":
                return False
            if isinstance(atom, str):
                seen.append(atom)
            else:
                waiting += atom.args
    return len({*seen}) == len(seen) and ranges.keys() >= {*seen}


def _launches(known: Mapping[str, Function], function: Function) -> None:
    """Each launch names a kernel, and its buffers are what that takes."""
    loops = (op for op in walk(function.body) if isinstance(op, program.Loop))
    within = {op for loop in loops for op in program.launches(loop.body)}
    for op in program.launches(function.body):
        kernel = known.get(op.kernel)
        if kernel is None or kernel is function:
            raise _bug("MC0310", f"no kernel is called @{op.kernel}", function, op)
        if len(op.sizes) != len(kernel.attrs.get("sizes", ())):
            text = f"@{op.kernel} takes {len(kernel.attrs.get('sizes', ()))} sizes"
            raise _bug("MC0310", f"{text}, and is launched with {len(op.sizes)}", function, op)
        sizes = op.sizes_in(kernel)
        taken = [bound(a.type, sizes) for a in kernel.args if isinstance(a.type, BufferType)]
        given = [v.type for v in op.operands]
        if taken != given:
            types = [", ".join(map(str, t)) or "nothing" for t in (taken, given)]
            message = f"@{op.kernel} takes {types[0]}, and is launched on {types[1]}"
            raise _bug("MC0310", message, function, op)
        axes = range(len(kernel.attrs["grid"]))
        if len(set(op.split)) < len(op.split) or not set(op.split) <= set(axes):
            message = f"@{op.kernel} has {len(axes)} axes, and is shared along {[*op.split]}"
            raise _bug("MC0310", message, function, op)
        if op.zigzag and (len(op.split) != 1 or op not in within):
            message = f"@{op.kernel} goes back and forth without one shared axis and a loop around"
            raise _bug("MC0310", message, function, op)


class _Verifier:
    """The values of one function that are in scope, and all that were defined."""

    def __init__(self, whole: Function, bound: bool) -> None:
        self.whole = whole
        self.bound = bound
        self.scope: set[Value] = set()
        self.defined: set[Value] = set()
        # the numbers of loops' rounds, and those of the loops that are not around
        self.outside = set(largest_rounds(whole.body))

    def require(self, holds: bool, message: str, op: Op | None) -> None:
        """Raise unless it holds."""
        if not holds:
            raise _bug("MC0310", message, self.whole, op)

    def function(self) -> None:
        """Check everything."""
        whole = self.whole
        self.region(whole.body, None)
        named, yielded = len(whole.result_names), len(whole.body.yields)
        self.require(named == yielded, f"{yielded} results have {named} names", None)

    def region(self, region: Region, owner: Op | None) -> None:
        """Check a region; its values leave the scope after it."""
        mine = list(region.args)
        self.define(region.args, "an argument", owner)
        for op in region.ops:
            self.op(op)
            self.define(op.results, f"a result of {op.opname}", op)
            mine += op.results
        self.use(region.yields, "what is yielded", owner)
        self.scope.difference_update(mine)

    def define(self, values: Iterable[Value], what: str, op: Op | None) -> None:
        """Bring values into scope, each for the first time."""
        for value in values:
            self.require(value not in self.defined, f"{what}, {value}, is defined twice", op)
            self.defined.add(value)
            self.scope.add(value)
            for n in _free(value.type) if self.bound else ():
                self.require(False, f"{what}, {value}, has the unbound dimension {n}", op)

    def use(self, values: Iterable[Value], what: str, op: Op | None) -> None:
        """Check that values are in scope."""
        for value in values:
            if value not in self.scope:
                known = value in self.defined
                why = "not in scope here" if known else "not defined before it is used"
                self.require(False, f"{what}, {value}, is {why}", op)

    def op(self, op: Op) -> None:
        """Check an op, within its regions too."""
        self.location(op)
        self.use(op.operands, f"an operand of {op.opname}", op)
        self.declaration(op)
        index = op.attrs.get("index") if op.control else None
        self.outside.discard(index)
        for region in op.regions:
            self.region(region, op)
        if index:
            self.outside.add(index)
        if self.outside:
            for name in self.outside.intersection(own_sizes(op)):
                self.require(False, f"{op.opname} uses {name} outside of its loop", op)
        recorded = tuple([v.type for v in op.results])
        try:
            inferred = tuple(op.infer())
            op.verify()
        except _REFUSALS as error:
            message = f"{op.opname}: {error or type(error).__name__}"
            raise _bug("MC0310", message, self.whole, op) from error
        if recorded != inferred:
            types = [", ".join(map(str, t)) or "nothing" for t in (recorded, inferred)]
            message = f"{op.opname} records the types {types[0]}, its rule infers {types[1]}"
            self.require(False, message, op)

    def location(self, op: Op) -> None:
        """Check that the op says where it comes from."""
        loc: object = op.loc
        named = isinstance(loc, tuple) and bool(loc) and all(isinstance(n, str) for n in loc)
        self.require(named, f"{op.opname} has no location", op)

    def declaration(self, op: Op) -> None:
        """Compare an op's parts with the fields that its class declares."""
        kinds = [f.kind for f in op.fields]
        least, given = kinds.count("operand"), len(op.operands)
        enough = given >= least if "operands" in kinds else given == least
        self.require(enough, f"{op.opname} has {given} operands", op)
        counted = len(op.regions) == kinds.count("region")
        self.require(counted, f"{op.opname} has {len(op.regions)} regions", op)
        declared = {f.name for f in op.fields if f.kind == "attribute"}
        for name in declared ^ op.attrs.keys():
            how = "lacks" if name in declared else "does not declare"
            self.require(False, f"{op.opname} {how} the attribute {name}", op)
