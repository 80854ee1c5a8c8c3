"""Sizes of the arrays of a call that are symbols: one program for arrays of any such sizes.

A function is compiled for the numbers that its first call has. The next call with arrays of the
same types and ranks but of other extents is traced with symbols for the extents that changed: in
the trace each is an `Extent` (`extents`) that has the call's number for a sample. What Python or a
rule asks of a size (`n > 3`) is answered for the sample, and what was answered is a guard: an
expression that must not be negative. Where Python needs the number itself, that size is a number
after all, and the trace begins again.

What takes the sample for a number goes unseen. The function is therefore traced for two samples,
and both must give the same program and the same guards.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from minicc.ir import affine, affine_facts, graph
from minicc.ir.affine import Dim
from minicc.ir.core import Module, walk_control

_LEAST = 2  # of a size that is a symbol: 0 and 1 decide what broadcasts
_MOST = 1 << 40
_SEVERAL = 4  # elements of which data may say how many are meant
_MISSES = 4  # calls that what data give is too little or too much for
_RARELY = 16  # calls between two such that make these rare
_ENLARGED = (2, 3, 5)  # by what a sample is made larger for another
_NEAR = 8  # up to which a size that is always so much more than another is taken to depend on it
Shape = tuple[Dim, ...]


class Unsized(BaseException):
    """The function is not traced for sizes that are symbols, for a reason.

    No Exception, so that the function does not catch it.
    """


class Sizes:
    """Which extents of a call's arrays are symbols: their shapes, and what the symbols are now.

    `given` are Python numbers of the call, by their index, that are the same as some extent, and
    `earlier` what the symbols were in a call before. Where data may give sizes, too, which ops
    bind, `counts` is the number of the sample.
    """

    def __init__(
        self,
        shapes: Sequence[Shape] = (),
        numbers: Mapping[str, int] | None = None,
        given: Mapping[int, Dim] | None = None,
        earlier: Mapping[str, int] | None = None,
        counts: int | None = None,
    ) -> None:
        self.shapes = tuple(shapes)
        self.numbers = dict(numbers or {})
        self.given = dict(given or {})
        self.earlier = dict(earlier or {})
        self.counts = counts
        self.guards: dict[Dim, None] = {}  # what must not be negative
        self.demands: dict[Dim, None] = {}  # the same of sizes that data give, which a run sees
        self.most: dict[str, Dim] = {}  # what those may be
        self._misses = 0  # calls of late that the demands were not for
        self._served = 0  # calls that there were before the last of them

    def __bool__(self) -> bool:
        return bool(self.numbers) or self.counts is not None

    def is_free(self) -> bool:
        """Whether extents of arguments are symbols."""
        return any(isinstance(n, affine.Expr) for shape in self.shapes for n in shape)

    def begin(self) -> None:
        """Forget what an attempt at a trace has found."""
        self.numbers = {n: x for n, x in self.numbers.items() if n not in self.most}
        self.guards, self.demands, self.most = {}, {}, {}

    def count(self, most: Dim) -> Dim:
        """A symbol for so many elements as data say, at least two; Unsized where few are all."""
        known = int(affine.evaluate(most, self.numbers))
        if self.counts is None or known < _SEVERAL:
            raise Unsized("data say how many elements there are")
        name = f"$m{len(self.most)}"
        self.most[name] = most
        self.numbers[name] = known // 2 + self.counts
        self.demands[affine.symbol(name) - _LEAST] = None
        return affine.symbol(name)

    def is_counted(self, value: Dim) -> bool:
        """Whether data give an expression."""
        return not affine.symbols(value).isdisjoint(self.most)

    def natural(self, value: Dim) -> bool:
        """Whether an expression over sizes is not negative; where that depends on them, a guard."""
        if isinstance(value, int):
            return value >= 0
        above = {name: affine.symbol(name) + _LEAST for name in self.numbers}
        most = {n: m for n, m in self.most.items() if isinstance(m, int)}
        ranges = {n: most.get(n, _MOST) - _LEAST + 1 for n in self.numbers}
        low, high = affine_facts.bounds(affine.substitute(value, above), ranges)
        if low >= 0 or high < 0:
            return low >= 0
        holds = bool(affine.evaluate(value, self.numbers) >= 0)
        asked = self.demands if self.is_counted(value) else self.guards
        asked[value if holds else -1 - value] = None
        return holds

    def fix(self, value: Dim) -> None:
        """Have the sizes that an expression depends on be numbers."""
        names = affine.symbols(value)
        now: dict[str, Dim] = {n: self.numbers.pop(n) for n in names}
        self.shapes = tuple(
            [tuple([affine.substitute(n, now) for n in shape]) for shape in self.shapes]
        )
        self.given = {k: n for k, n in self.given.items() if affine.symbols(n).isdisjoint(names)}
        self.guards = {}

    def other(self) -> Sizes:
        """The same for another sample, for which the guards hold: that of a call before, if it may.

        Unsized where none is found.
        """
        enlarged = [
            {n: by * x + k * (by - 1) for k, (n, x) in enumerate(self.numbers.items())}
            for by in _ENLARGED
        ]
        counts = None if self.counts is None else self.counts + 1
        for sample in (self.earlier, *enlarged):
            if all(affine.evaluate(guard, sample) >= 0 for guard in self.guards):
                numbers = {n: sample[n] for n in self.numbers if n not in self.most}
                return Sizes(self.shapes, numbers, self.given, counts=counts)
        raise Unsized("the guards hold for few sizes")

    def stand_in(self, k: int, array: Any) -> Any:
        """What has the shape of the k-th array of a call with these sizes, and no memory."""
        shape = tuple([int(affine.evaluate(n, self.numbers)) for n in self.shapes[k]])
        if array.flags.c_contiguous:
            steps = np.cumprod([array.itemsize, *[max(n, 1) for n in shape[:0:-1]]])[::-1]
            strides = tuple(steps.tolist()) if shape else ()
            return as_strided(np.empty(1, array.dtype), shape, strides, writeable=False)
        return array

    def serve(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> bool:
        """Whether a call's arrays are of such shapes, and its guards hold."""
        if self.most and self.counts is None:
            return False
        found: dict[str, int] = {}
        derived: list[tuple[Dim, Any]] = [(n, numbers[k]) for k, n in self.given.items()]
        for shape, array in zip(self.shapes, arrays, strict=True):
            for n, extent in zip(shape, array.shape, strict=True):
                if isinstance(n, int):
                    if n != extent:
                        return False
                elif n.is_atom():
                    (name,) = n.symbols()
                    if extent < _LEAST or found.setdefault(name, extent) != extent:
                        return False
                else:
                    derived.append((n, extent))
        return all(affine.evaluate(n, found) == extent for n, extent in derived) and all(
            affine.evaluate(guard, found) >= 0 for guard in self.guards
        )

    def missed(self, served: int) -> bool:
        """Note a call that the demands are not for; whether that is one of many.

        Programs have served so many calls till then.
        """
        self._misses = self._misses + 1 if served - self._served < _RARELY else 1
        self._served = served
        return self._misses > _MISSES

    def describe(self) -> list[str]:
        """What must hold of sizes, for people."""
        told = [f"{n} is a size of at least {_LEAST}" for n in self.numbers]
        told += [f"argument number {k} is {n}" for k, n in self.given.items()]
        return [*told, *[f"{n} is not negative" for n in (*self.guards, *self.demands)]]


def generalised(
    calls: Sequence[tuple[Sequence[tuple[int, ...]], Sequence[Any]]],
    movable: Sequence[bool],
    counts: int | None = None,
) -> Sizes:
    """Symbols for the extents that changed in some calls, for the numbers of the last of them.

    A call is its arrays' shapes and its Python numbers. Extents that were equal in each call are
    one symbol, and one that was a little more than another in each call is so much more.
    """
    names: dict[tuple[int, ...], affine.Expr] = {}
    numbers: dict[str, int] = {}
    earlier: dict[str, int] = {}

    def known(seen: tuple[int, ...]) -> Dim | None:
        for other, symbol in names.items():
            gaps = {a - b for a, b in zip(seen, other, strict=True)}
            if len(gaps) == 1 and abs(min(gaps)) <= _NEAR:
                return symbol + min(gaps)
        return None

    def dim(seen: tuple[int, ...]) -> Dim:
        if len(set(seen)) == 1 or min(seen) < _LEAST:
            return seen[-1]
        found = known(seen)
        if found is None:
            name = f"$d{len(names)}"
            found = names[seen] = affine.symbol(name)
            numbers[name], earlier[name] = seen[-1], next(n for n in seen if n != seen[-1])
        return found

    per_array = zip(*[shapes for shapes, _ in calls], strict=True)
    found: list[Shape] = []
    for moves, shapes in zip(movable, per_array, strict=True):
        found.append(tuple(map(dim, zip(*shapes, strict=True))) if moves else shapes[-1])
    given = {
        k: symbol
        for k, seen in enumerate(zip(*[given for _, given in calls], strict=True))
        if all(type(n) is int for n in seen) and (symbol := known(seen)) is not None
    }
    return Sizes(found, numbers, given, earlier, counts)


def require_fast(module: Module) -> None:
    """Unsized for a product of matrices of which the columns have no known number.

    Its vectors can't be packed for that, so that a program for each number is faster.
    """
    for op in walk_control(module.main.body):
        if not isinstance(op, graph.Contract):
            continue
        left, right, out = graph.parse_equation(op.equation)
        extents = dict(zip(left + right, (*op.a.type.shape, *op.b.type.shape), strict=True))
        own = ({*left} - {*right}, {*right} - {*left})
        matrices = all(part & {*out} for part in own) and {*left, *right} > {*out}
        if matrices and out[-1] in own[0] | own[1] and not isinstance(extents[out[-1]], int):
            raise Unsized(f"{' '.join(op.loc)}: a product of as many columns as a size says")


def shapes_in(key: Any) -> Iterator[tuple[Any, bool]]:
    """The shapes in the key of a call, in order, and whether each array lies row by row."""
    if key and key[0] in ("array", "scalar"):
        yield key[2], key[0] == "array" and len(key) == 3
    elif key and (key[0] is dict or isinstance(key[0], (type, tuple))):
        for part in key[1:] if isinstance(key[0], type) else key:
            yield from shapes_in(part[2] if key[0] is dict else part)


def with_shapes(key: Any, shapes: Iterator[Any]) -> Any:
    """The key of a call with other shapes in the places of its arrays' own."""
    if key and key[0] in ("array", "scalar"):
        return (*key[:2], next(shapes), *key[3:])
    if key and key[0] is dict:
        return (dict, *[(*part[:2], with_shapes(part[2], shapes)) for part in key[1:]])
    if key and isinstance(key[0], (type, tuple)):
        whole = isinstance(key[0], type)
        parts = [with_shapes(part, shapes) for part in key[whole:]]
        return (*key[:whole], *parts)
    return key


def loose(key: Any) -> Any:
    """What calls have in common that may share a program for all sizes."""
    shapes = (
        tuple([n if n < _LEAST else None for n in shape]) if moves else shape
        for shape, moves in shapes_in(key)
    )
    return with_shapes(key, itertools.chain(shapes))
